"""IsTree by searches: the edges are given, algorithm 2 is written in full, results are filled in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, final

from jaxtyping import Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.generation.scripts.base import TreeScript
from separatrix.tasks.is_tree import IsTree
from separatrix.tasks.retrieval_trace import longest_trace
from separatrix.tasks.vocabulary import Vocabulary

__all__ = ["SearchTraceScript"]


@final
class SearchTraceScript(TreeScript):
    """`<s> 1 ~ 3 2 ~ 3` and then `0 - 1 1 <StartSearch> … <EndSearch> 0 …` up to YES or NO."""

    kind: ClassVar[str] = "is-tree-searches"
    searches: ClassVar[bool] = True

    def __init__(self, task: IsTree) -> None:
        """For the form of the task whose patterns are written out and really run."""
        if (task.form, task.trace) != ("retrieval", "full"):
            raise InvalidInput(
                "IsTree by searches needs form='retrieval' and trace='full', where patterns are written out; "
                f"got form={task.form!r}, trace={task.trace!r}. Set both."
            )
        self._task = task

    @property
    def task(self) -> IsTree:
        """The task whose graphs it puts."""
        return self._task

    @property
    def vocabulary(self) -> Vocabulary:
        """The task's own."""
        return self._task.vocabulary

    @property
    def answers(self) -> frozenset[int]:
        """NO and YES."""
        return frozenset(self.vocabulary.token(word) for word in ("NO", "YES"))

    @property
    def limit(self) -> int:
        """The longest trace and the verdict."""
        return longest_trace(self._task.n, full=True) + 1

    def prompt(self, row: Int[Tensor, "pos"]) -> list[int]:
        """The graph, without whatever stands behind it."""
        return [int(token) for token in row[: self._task.prompt]]

    def answer(self, written: Sequence[int]) -> int | None:
        """The verdict, if the text ends with one."""
        return written[-1] if written and written[-1] in self.answers else None

    def tour(self, written: Sequence[int]) -> list[int]:
        """The vertices that rounds begin with: a search follows, and none has returned them."""
        spelled = [self.vocabulary.word(token) for token in written]
        followed = zip(["", *spelled], spelled, spelled[1:], strict=False)
        return [
            int(word)
            for before, word, after in followed
            if word.isdigit() and before != "<EndSearch>" and after == "<StartSearch>"
        ]
