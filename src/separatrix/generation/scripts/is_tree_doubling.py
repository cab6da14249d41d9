"""IsTree with a depth-first tour in which the next edge of a vertex is found by doubling.

The graph stands first, as the task writes it. Behind it every word has a sign that says what its number is:

    >v    the walk goes down to v, which is new
    <v    the walk goes back to v; <0 when it leaves the root, and then the answer follows
    ?u    u is the other end of the edge of v that comes next; v is the number of the word before
    #e    the e-th edge of the graph is the last one of v that has been used; v has a later one
    +t    of all edges of v the one nearest to the t-th is still that last one
    @v    another one is nearer now, and the walk still stands at v

Behind #e the places t = e + 1, e + 3, e + 7, … are tried, each twice as far off as the one before and one
more. Edges 1 ~ 2, 1 ~ 3, 3 ~ 4 give

    <s> 1 ~ 2 1 ~ 3 3 ~ 4 >1 ?2 >2 ?1 <1 #1 @1 ?3 >3 ?1 #2 @3 ?4 >4 ?3 <3 <1 <0 YES
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, final

from jaxtyping import Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.generation.scripts.base import TreeScript
from separatrix.tasks.is_tree import NO, YES, IsTree
from separatrix.tasks.vocabulary import Vocabulary, numbered, words

__all__ = ["AGAIN", "BACK", "CANDIDATE", "DOWN", "EDGE", "PROBE", "VERTEX", "DoublingTourScript"]

VERTEX: Final = "vertex"
DOWN: Final = "down"
BACK: Final = "back"
CANDIDATE: Final = "candidate"
EDGE: Final = "edge"
PROBE: Final = "probe"
AGAIN: Final = "again"


@final
class DoublingTourScript(TreeScript):
    """The words of the tour and of the search for edges; whatever n is, a smaller graph is written alike."""

    kind: ClassVar[str] = "is-tree-doubling"

    def __init__(self, task: IsTree) -> None:
        """For graphs of the task's vertices."""
        if task.form != "cot":
            raise InvalidInput(
                f"A tour by doubling is a chain of thought; got form={task.form!r}. Try form='cot'."
            )
        self._task = task
        edges = max(1, task.n - 1)
        self._vocabulary = Vocabulary(
            words("answer", "NO", "YES"),
            words("special", "<s>", "~"),
            numbered(VERTEX, task.n, first=1),
            numbered(DOWN, task.n, prefix=">", first=1),
            numbered(BACK, task.n + 1, prefix="<"),
            numbered(CANDIDATE, task.n, prefix="?", first=1),
            numbered(EDGE, edges, prefix="#", first=1),
            numbered(PROBE, edges, prefix="+", first=1),
            numbered(AGAIN, task.n, prefix="@", first=1),
            padded=True,
        )

    @property
    def task(self) -> IsTree:
        """The task whose graphs it puts."""
        return self._task

    @property
    def vocabulary(self) -> Vocabulary:
        """Answers, the graph's words, and a block of numbers for each sign."""
        return self._vocabulary

    @property
    def answers(self) -> frozenset[int]:
        """YES and NO."""
        return frozenset((NO, YES))

    @property
    def limit(self) -> int:
        """Tour, `<0` and answer; a candidate for each end of an edge; a search from all but a vertex's last.

        A search is `#e`, `@v` and the places tried without success between them. The i-th of those lies
        2^i − 1 ahead, the next edge more than twice as far and at most n − 2, so 2^(i+1) < n.
        """
        n = self._task.n
        ends = 2 * (n - 1)
        tried = max(0, (n - 1).bit_length() - 2)
        return (2 * n - 1) + 2 + ends + max(0, ends - 2) * (2 + tried)

    def prompt(self, row: Int[Tensor, "pos"]) -> list[int]:
        """The graph that a row begins with."""
        known = self._task.vocabulary
        return [self._vocabulary.token(known.word(token)) for token in row[: self._task.prompt].tolist()]

    def answer(self, written: Sequence[int]) -> int | None:
        """The word at the end, if it is an answer."""
        return written[-1] if written and written[-1] in self.answers else None

    def tour(self, written: Sequence[int]) -> list[int]:
        """The vertices that the walk goes to, down or back."""
        ways = [self._vocabulary.offset(DOWN) - 1, self._vocabulary.offset(BACK)]
        found = (token - way for token in written for way in ways if 1 <= token - way <= self._task.n)
        return list(found)
