"""IsTree from its edges: answered at once, or by the depth-first tour that is written first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, final

from jaxtyping import Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.generation.scripts.base import Script, TreeScript
from separatrix.tasks.is_tree import IsTree
from separatrix.tasks.vocabulary import Vocabulary

__all__ = ["EdgeListScript", "TourScript", "VerdictScript"]


class EdgeListScript(Script):
    """The edges are given in the task's own words, and NO or YES ends a run."""

    def __init__(self, task: IsTree) -> None:
        """For the form of the task that a leaf is about."""
        self._task, self._vocabulary = task, task.vocabulary

    @property
    def task(self) -> IsTree:
        """The task whose graphs it puts."""
        return self._task

    @property
    def vocabulary(self) -> Vocabulary:
        """The task's own."""
        return self._vocabulary

    @property
    def answers(self) -> frozenset[int]:
        """NO and YES."""
        return frozenset(self.vocabulary.token(word) for word in ("NO", "YES"))

    def prompt(self, row: Int[Tensor, "pos"]) -> list[int]:
        """The graph, without whatever stands behind it; it may have fewer edges than the task's."""
        tokens: list[int] = row[: self._task.prompt].tolist()
        joined = self.vocabulary.token("~")
        end = 1
        while end + 1 < len(tokens) and tokens[end + 1] == joined:
            end += 3
        return tokens[:end]

    def answer(self, written: Sequence[int]) -> int | None:
        """The verdict, if the text ends with one."""
        return written[-1] if written and written[-1] in self.answers else None


@final
class VerdictScript(EdgeListScript):
    """`<s> 1 ~ 3 2 ~ 3` and then `YES`."""

    kind: ClassVar[str] = "is-tree-verdict"

    def __init__(self, task: IsTree) -> None:
        """For the form of the task that is answered at once."""
        if task.form != "direct":
            raise InvalidInput(
                f"IsTree answered at once needs form='direct'; got form={task.form!r}. Set it."
            )
        super().__init__(task)

    @property
    def limit(self) -> int:
        """The verdict alone."""
        return 1


@final
class TourScript(EdgeListScript, TreeScript):
    """`<s> 1 ~ 3 2 ~ 3` and then `1 3 2 3 1 YES`."""

    kind: ClassVar[str] = "is-tree-tour"

    def __init__(self, task: IsTree) -> None:
        """For the form of the task that writes the tour."""
        if task.form != "cot":
            raise InvalidInput(
                f"IsTree by its tour needs form='cot', where the tour is written; got form={task.form!r}. "
                "Set it."
            )
        super().__init__(task)

    @property
    def limit(self) -> int:
        """The tour of a tree and the verdict."""
        return 2 * self._task.n

    def tour(self, written: Sequence[int]) -> list[int]:
        """Every word before the verdict."""
        first = self.vocabulary.offset("vertex")
        return [token - first for token in written if token not in self.answers]
