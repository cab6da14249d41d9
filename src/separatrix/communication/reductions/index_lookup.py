"""INDEX is index lookup: Alice writes her string, Bob his place behind it (S-T3, W-4.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from jaxtyping import Int
from torch import Tensor

from separatrix.communication.problems import Index
from separatrix.communication.reductions.interface import Reduction, label_at, one_question
from separatrix.options import require
from separatrix.tasks.index_lookup import IndexLookup

__all__ = ["IndexToLookup"]


@final
@dataclass(frozen=True, kw_only=True)
class IndexToLookup(Reduction[IndexLookup]):
    """n symbols of the task's alphabet, and the index that points at one: nothing is lost."""

    problem_name: ClassVar[str] = Index.name
    task_name: ClassVar[str] = IndexLookup.name
    size: ClassVar[str] = "n symbols of an alphabet of |Σ|"
    reads: ClassVar[str] = "the label at the index token"

    def validate(self) -> None:
        """An alphabet that says something."""
        require(
            self.task.alphabet >= 2,
            "INDEX in index-lookup needs an alphabet of at least 2; got alphabet=1.",
        )

    @property
    def problem(self) -> Index:
        """As long as the task, over its alphabet."""
        return Index(n=self.task.n, alphabet=self.task.alphabet)

    @property
    def split(self) -> str:
        """The symbols are Alice's, the index is Bob's."""
        return "prefix/suffix"

    def alice(self, x: Int[Tensor, "batch alice_place"]) -> Int[Tensor, "batch alice_pos"]:
        """x itself."""
        return x

    def bob(self, y: Int[Tensor, "batch 1"]) -> Int[Tensor, "batch 1 1"]:
        """The index token of place y."""
        return one_question(y + self.task.alphabet)

    def read(self, targets: Int[Tensor, "batch ask pos"], y: Int[Tensor, "batch 1"]) -> Int[Tensor, "batch"]:
        """The symbol is the answer."""
        return label_at(targets, self.task.n)
