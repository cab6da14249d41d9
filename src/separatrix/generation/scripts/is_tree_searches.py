"""IsTree by searches: the edges are given, algorithm 2 is written, results are filled in.

It is written in full, patterns and all, or in short, as W trains it. What stands in short is spelled out
before it is searched and before anything searches it, so that both forms ask and find the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import ClassVar, Final, Literal, final

from separatrix.errors import InvalidInput
from separatrix.generation.asking import FAILED_WORD
from separatrix.generation.scripts.base import TreeScript
from separatrix.generation.scripts.is_tree import EdgeListScript
from separatrix.generation.spelling import Spelling
from separatrix.tasks.is_tree import IsTree
from separatrix.tasks.retrieval_trace import longest_trace, spell_out

__all__ = ["CompactSpelling", "CompactTraceScript", "SearchTraceScript"]

_BEGIN: Final = b"<s>"
_JOINED: Final = b"~"
_FAILED: Final = FAILED_WORD.encode()


class _TraceScript(EdgeListScript, TreeScript):
    """A trace of searches behind the graph, in one of its two renderings."""

    searches: ClassVar[bool] = True
    trace: ClassVar[Literal["compact", "full"]]
    about: ClassVar[str]
    """Whose rendering it is, for the message that refuses another one."""

    def __init__(self, task: IsTree) -> None:
        """For the form of the task that searches, in this rendering."""
        if (task.form, task.trace) != ("retrieval", self.trace):
            raise InvalidInput(f"{self.about}; got form={task.form!r}, trace={task.trace!r}. Set both.")
        super().__init__(task)

    @property
    def limit(self) -> int:
        """The longest trace and the verdict."""
        return longest_trace(self._task.n, full=self.trace == "full") + 1

    def tour(self, written: Sequence[int]) -> list[int]:
        """The vertices that rounds begin with: a search follows, and none has returned them."""
        spelled = [self.vocabulary.word(token) for token in written]
        followed = zip(["", *spelled], spelled, spelled[1:], strict=False)
        return [
            int(word)
            for before, word, after in followed
            if word.isdigit() and before != "<EndSearch>" and after == "<StartSearch>"
        ]


@final
class SearchTraceScript(_TraceScript):
    """`<s> 1 ~ 3 2 ~ 3` and then `0 - 1 1 <StartSearch> … <EndSearch> 0 …` up to YES or NO."""

    kind: ClassVar[str] = "is-tree-searches"
    trace: ClassVar[Literal["compact", "full"]] = "full"
    about: ClassVar[str] = (
        "IsTree by searches needs form='retrieval' and trace='full', where patterns are written out"
    )


class _Next(Enum):
    """What the next word outside a search is."""

    EDGE = auto()
    """The first end of an edge, or of the pair behind the last one; the word after it tells which."""
    JOINED = auto()
    """The `~` of that edge, or the second word of that pair."""
    END = auto()
    """The second end of an edge."""
    PARENT = auto()
    """What a search for a parent returned."""
    FIRST = auto()
    """The first word of a pair."""
    SECOND = auto()
    """The second word of a pair."""
    ANY = auto()
    """A word that stands for itself."""


@final
class CompactSpelling(Spelling):
    """A compact trace in full, word by word, as `IsTree.expand` has it for whole ones.

    Pairs get their dash: the one behind the graph, and those behind a parent that was not found. A search is
    one number or two; anything else is none.
    """

    def __init__(self) -> None:
        """Before the first word of the graph."""
        self._next = _Next.EDGE

    def word(self, word: bytes) -> bytes:
        """The word, behind a dash if it is the second of a pair."""
        now, dash = self._next, b""
        if now is _Next.EDGE and word != _BEGIN:
            self._next = _Next.JOINED
        elif now is _Next.JOINED and word == _JOINED:
            self._next = _Next.END
        elif now is _Next.END:
            self._next = _Next.EDGE
        elif now in (_Next.JOINED, _Next.SECOND):
            self._next, dash = _Next.ANY, b"- "
        elif now is _Next.PARENT:
            self._next = _Next.FIRST if word == _FAILED else _Next.ANY
        elif now is _Next.FIRST:
            self._next = _Next.SECOND
        return dash + word + b" "

    def query(self, words: Sequence[bytes]) -> Sequence[bytes] | None:
        """The pattern of a parent for one number, that of an edge for two."""
        if not 1 <= len(words) <= 2 or not all(word.isdigit() for word in words):
            return None
        self._next = _Next.PARENT if len(words) == 1 else _Next.ANY
        return [piece.encode() for piece in spell_out([word.decode() for word in words])]


@final
class CompactTraceScript(_TraceScript):
    """`<s> 1 ~ 3 2 ~ 3` and then `0 1 1 <StartSearch> 1 <EndSearch> 0 …` up to YES or NO."""

    kind: ClassVar[str] = "is-tree-compact-searches"
    spelling: ClassVar[type[Spelling]] = CompactSpelling
    trace: ClassVar[Literal["compact", "full"]] = "compact"
    about: ClassVar[str] = (
        "IsTree by searches in short needs form='retrieval' and trace='compact', where patterns are left out"
    )
