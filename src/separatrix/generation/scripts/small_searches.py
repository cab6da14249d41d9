r"""Index, recall, c-gram and counting by one search: the input, then a pattern, its result, the answer.

A pattern is written in words that are pieces of it, joined by nothing, and copies what it needs of the input:

index-lookup        `^(?:\S+\s){p}(\S+)`
associative-recall  `\sq\s(\S+)`
c-gram              `\sq₁\sq₂ … \s(\S+)`
counting            `(?s)^(?:.*?v\b){k+1}.*?(v)\b`

The text before the search is `<s>` and the input, each word followed by one space. So `{p}` skips `<s>` and
p − 1 symbols; every word of the input has a space before it and one behind it; and v, which stands once more
in the query, is found k + 2 times iff the sequence has it more than k times. No other word has v in it: a
symbol is `s` and a number, only `<s>` has an `s` too, and `\b` asks that the number ends.

The last pattern is the one that costs: RE2 takes time like n², because every v may be counted or passed over.
With `(?s)` a dot is one range of characters and not two, and that saves a good part of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final, TypeAlias, final

from jaxtyping import Int
from torch import Tensor

from separatrix.generation.scripts.base import Script
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.c_gram import CGramRetrieval
from separatrix.tasks.counting import Counting
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.vocabulary import Block, Vocabulary, numbered, words

__all__ = [
    "COUNT_LAST",
    "COUNT_OPEN",
    "COUNT_TIMES",
    "COUNT_TO",
    "GAP",
    "INDEX_OPEN",
    "INDEX_TAKE",
    "TAKE",
    "CountSearch",
    "IndexSearch",
    "RecallSearch",
    "SmallSearch",
    "SmallTask",
]

INDEX_OPEN: Final = r"^(?:\S+\s){"
INDEX_TAKE: Final = r"}(\S+)"
GAP: Final = r"\s"
TAKE: Final = r"\s(\S+)"
COUNT_OPEN: Final = r"(?s)^(?:.*?"
COUNT_TIMES: Final = r"\b){"
COUNT_TO: Final = r"}.*?("
COUNT_LAST: Final = r")\b"

SmallTask: TypeAlias = AssociativeRecall | CGramRetrieval | Counting | IndexLookup

_MARKS: Final = words("mark", "<s>", "<StartSearch>", "<EndSearch>", "FAILED")
_AROUND: Final = 4
"""<StartSearch>, <EndSearch>, the result, the answer."""


class SmallSearch(Script):
    """One search in `<s>` and the input's words, and a word for the answer.

    The task's words come first in the vocabulary and keep their numbers.
    """

    searches: ClassVar[bool] = True

    @property
    @abstractmethod
    def task(self) -> SmallTask:
        """The task whose inputs it puts."""

    @property
    @abstractmethod
    def pieces(self) -> tuple[str, ...]:
        """The words that patterns are made of, beside those of the input and plain numbers."""

    @property
    @abstractmethod
    def counts(self) -> tuple[Block, ...]:
        """Plain numbers, where a pattern counts."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Words of the task, marks, pieces of patterns, plain numbers."""
        return Vocabulary(*self.task.vocabulary.blocks, _MARKS, words("piece", *self.pieces), *self.counts)

    def prompt(self, row: Int[Tensor, "pos"]) -> list[int]:
        """`<s>` and the input."""
        padding = self.task.vocabulary.pad
        return [self.vocabulary.token("<s>"), *(token for token in row.tolist() if token != padding)]

    def answer(self, written: Sequence[int]) -> int | None:
        """The class of the last word."""
        if not written or written[-1] not in self.answers:
            return None
        return written[-1] - min(self.answers)


@final
class IndexSearch(SmallSearch):
    """`<s> s2 s0 s3 @3` and then `<StartSearch> ^(?:\\S+\\s){ 3 }(\\S+) <EndSearch> s3 s3`."""

    kind: ClassVar[str] = "index-search"

    def __init__(self, task: IndexLookup) -> None:
        """For this task."""
        self._task = task

    @property
    def task(self) -> IndexLookup:
        """The task whose inputs it puts."""
        return self._task

    @property
    def pieces(self) -> tuple[str, ...]:
        """What stands before and behind the count."""
        return (INDEX_OPEN, INDEX_TAKE)

    @property
    def counts(self) -> tuple[Block, ...]:
        """Up to n."""
        return (numbered("count", self._task.n, first=1),)

    @property
    def answers(self) -> frozenset[int]:
        """Symbols."""
        return frozenset(range(self._task.alphabet))

    @property
    def limit(self) -> int:
        """Three words for the pattern."""
        return 3 + _AROUND


@final
class RecallSearch(SmallSearch):
    """`<s> s2 s4 s1 s4` and then `<StartSearch> \\s s4 \\s(\\S+) <EndSearch> s1 s1`; a c-gram has more."""

    kind: ClassVar[str] = "recall-search"

    def __init__(self, task: AssociativeRecall | CGramRetrieval) -> None:
        """For this task."""
        self._task = task

    @property
    def task(self) -> AssociativeRecall | CGramRetrieval:
        """The task whose inputs it puts."""
        return self._task

    @property
    def asked(self) -> int:
        """How many tokens the query has."""
        return self._task.c - 1 if isinstance(self._task, CGramRetrieval) else 1

    @property
    def query(self) -> str:
        """The block that the query's tokens are of."""
        return self._task.vocabulary.blocks[-1].name

    @property
    def result(self) -> str:
        """The block that the answer is of."""
        return self._task.vocabulary.blocks[0].name

    @property
    def pieces(self) -> tuple[str, ...]:
        """What stands before a token of the query, and behind the last."""
        return (GAP, TAKE)

    @property
    def counts(self) -> tuple[Block, ...]:
        """None."""
        return ()

    @property
    def answers(self) -> frozenset[int]:
        """Labels of pairs, or symbols."""
        return frozenset(range(self._task.vocabulary.blocks[0].size))

    @property
    def limit(self) -> int:
        """Two words for each token of the query, and one for the group."""
        return 2 * self.asked + 1 + _AROUND


@final
class CountSearch(SmallSearch):
    """`<s> s3 s1 s3 s3 >1` and then `<StartSearch> (?s)^(?:.*? s3 \\b){ 2 }.*?( s3 )\\b <EndSearch> s3 1`."""

    kind: ClassVar[str] = "count-search"

    def __init__(self, task: Counting) -> None:
        """For this task."""
        self._task = task

    @property
    def task(self) -> Counting:
        """The task whose inputs it puts."""
        return self._task

    @property
    def pieces(self) -> tuple[str, ...]:
        """What stands around the token, twice."""
        return (COUNT_OPEN, COUNT_TIMES, COUNT_TO, COUNT_LAST)

    @property
    def counts(self) -> tuple[Block, ...]:
        """Up to n + 1, one more than the largest threshold; the answers 0 and 1 are among them."""
        return (numbered("count", self._task.n + 2),)

    @property
    def answers(self) -> frozenset[int]:
        """0 and 1."""
        zero = self.vocabulary.token("0")
        return frozenset((zero, zero + 1))

    @property
    def limit(self) -> int:
        """Seven words for the pattern."""
        return 7 + _AROUND
