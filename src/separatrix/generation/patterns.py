"""Patterns as RE2 takes them: counts over a thousand become chains, and one group is left.

RE2 refuses `X{2500}`, so it is written as `X{1000}X{1000}X{500}`; `X{r,}` and `X{r,s}` likewise. What a
search returns is its first group, so every other one is made non-capturing, and the copies of the first that
a chain makes are all that capture. Of these, the one that matched last in the text is what `X{2500}` itself
would hold: a group keeps its latest match, and a later one never starts before an earlier one ends.

Only what must be understood is read here: groups, classes, escapes, quotations and counts. Everything else is
handed on as it came, and RE2 refuses what is no pattern. One thing that RE2 takes is refused here, because it
is slow to compile: classes such as \\pL together with the flag that makes case no difference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, final

__all__ = ["BLOCK", "SearchLimits", "expanded"]

BLOCK: Final = 1000
"""The largest count that RE2 takes."""

_COUNT: Final = re.compile(r"\{(0|[1-9][0-9]{0,7})(?:(,)(0|[1-9][0-9]{0,7})?)?\}", re.ASCII)
_REPEATED: Final = re.compile(r"[*+?]\??")
_GROUP: Final = re.compile(r"\(\?P?<([A-Za-z0-9_]+)>|\((?!\?)")
_FLAGS: Final = re.compile(r"\(\?[imsU]*(?:-[imsU]+)?([:)])")
_ESCAPE: Final = re.compile(
    r"\\(?:x\{[^}]*\}|x[0-9A-Fa-f]{2}|[pP]\{[^}]*\}|[pP].|[0-7]{1,3}|.)", re.ASCII | re.DOTALL
)
_CLASS: Final = re.compile(
    # Nothing that was taken is given back, so that an open class costs one look at each character.
    r"\[\^?\]?(?>\[:\^?\w+:\]|\\(?>[pPx]\{[^}]*\}|.)|[^\]\\])*+\]",
    re.ASCII | re.DOTALL,
)
_SHORTER: Final = {r"\s": " ", r"\S": "[!-~]"}


@final
@dataclass(frozen=True, kw_only=True)
class SearchLimits:
    """What a search may cost; the largest that were measured to stay within a second.

    Time in RE2 grows with the pattern's program times the text, at most about 10 ns for each instruction and
    character. Up to `work` such pairs a search runs here; a larger one runs in a process of its own, which
    ends when `seconds` of processor time are spent. More memory would be no help: it lets RE2 build more of
    an automaton before it gives up and simulates, and the two together take longer.
    """

    pattern: int = 2048
    """Characters of a pattern; a longer one is INVALID."""
    count: int = 10_000
    """The largest number in `{r}`, `{r,}` and `{r,s}`; a larger one is INVALID."""
    expanded: int = 1 << 17
    """Characters of a pattern after its counts are written as chains; a longer one is INVALID."""
    text: int = 1 << 23
    """Bytes of a text; a longer one is TIMEOUT, because it is not searched."""
    memory: int = 1 << 24
    """Bytes that RE2 may use for one pattern; a pattern that needs more is INVALID."""
    work: int = 50_000_000
    """Instructions times bytes up to which a search runs in this process."""
    seconds: float = 1.0
    """Processor time of a search that does not end here, its pattern's included; with more it is TIMEOUT."""


@lru_cache(maxsize=256)
def expanded(
    pattern: str, limits: SearchLimits, *, printable: bool = False, block: int = BLOCK
) -> str | None:
    """The pattern with counts as chains of at most `block`; its groups are all copies of its first.

    None if it is no pattern, has no group, or passes a limit. `printable`: for texts of printable ASCII,
    where \\s and \\S mean the space and everything else, and are written so: that makes a smaller program.
    """
    if len(pattern) > limits.pattern:
        return None
    try:
        whole = _Reader(pattern, limits, printable, block).read()
    except _NoPattern:
        return None
    return whole.text if whole.text != whole.plain else None


class _NoPattern(Exception):
    """What was read cannot be a pattern within the limits."""


@dataclass(frozen=True)
class _Piece:
    """Part of a pattern, with the first group capturing in `text` and non-capturing in `plain`.

    `always`: whatever the piece matches, the first group takes part in it.
    """

    text: str
    plain: str
    always: bool = False

    def times(self, suffix: str) -> _Piece:
        return _Piece(self.text + suffix, self.plain + suffix, self.always)


@dataclass
class _Open:
    """A group that is being read: how it began, and the pieces since."""

    start: _Piece
    pieces: list[_Piece] = field(default_factory=list)
    branches: bool = False
    repeatable: bool = False

    def closed(self, end: str) -> _Piece:
        always = self.start.always or (not self.branches and any(piece.always for piece in self.pieces))
        text = "".join(piece.text for piece in self.pieces)
        plain = "".join(piece.plain for piece in self.pieces)
        return _Piece(self.start.text + text + end, self.start.plain + plain + end, always)


class _Reader:
    """One pass over a pattern; nesting is kept on a list, so that no depth of it is too deep."""

    def __init__(self, pattern: str, limits: SearchLimits, printable: bool, block: int) -> None:
        self._pattern = pattern
        self._limits = limits
        self._shorter = _SHORTER if printable else {}
        self._block = block
        self._place = 0
        self._open = [_Open(_Piece("", ""))]
        self._names: set[str] = set()
        self._grouped = False
        self._folds = False
        self._names_classes = False

    def read(self) -> _Piece:
        """The whole pattern."""
        while self._place < len(self._pattern):
            self._one(self._pattern[self._place])
        # RE2 takes ten milliseconds to read one class of Unicode in which case makes no difference.
        if len(self._open) > 1 or (self._folds and self._names_classes):
            raise _NoPattern
        return self._sized(self._open[0].closed(""))

    def _one(self, character: str) -> None:
        if character == "(":
            self._begin()
        elif character == ")":
            self._end()
        elif character == "\\":
            self._escape()
        elif character == "[":
            self._atom(self._taken(_CLASS))
        elif character in "*+?":
            self._repeat(self._taken(_REPEATED))
        elif character == "{" and (count := _COUNT.match(self._pattern, self._place)):
            self._place = count.end()
            self._counted(count)
        elif character == "|":
            self._place += 1
            self._open[-1].pieces.append(_Piece("|", "|"))
            self._open[-1].branches, self._open[-1].repeatable = True, False
        else:
            self._place += 1
            self._atom(character)

    def _taken(self, form: re.Pattern[str]) -> str:
        found = form.match(self._pattern, self._place)
        if not found:
            raise _NoPattern
        self._place = found.end()
        text = found.group()
        self._names_classes |= "\\p" in text or "\\P" in text
        return text

    def _atom(self, text: str) -> None:
        self._put(_Piece(text, text))

    def _put(self, piece: _Piece) -> None:
        self._open[-1].pieces.append(piece)
        self._open[-1].repeatable = True

    def _begin(self) -> None:
        if group := _GROUP.match(self._pattern, self._place):
            self._place = group.end()
            name = group.group(1)
            if name in self._names:
                raise _NoPattern
            if name:
                self._names.add(name)
            self._open.append(_Open(_Piece("(?:" if self._grouped else "(", "(?:", not self._grouped)))
            self._grouped = True
            return
        flags = _FLAGS.match(self._pattern, self._place)
        if not flags:
            raise _NoPattern
        self._place = flags.end()
        text = flags.group()
        self._folds |= "i" in text
        if flags.group(1) == ":":
            self._open.append(_Open(_Piece(text, text)))
        else:
            self._open[-1].pieces.append(_Piece(text, text))
            self._open[-1].repeatable = False

    def _end(self) -> None:
        self._place += 1
        if len(self._open) == 1:
            raise _NoPattern
        self._put(self._sized(self._open.pop().closed(")")))

    def _escape(self) -> None:
        if not self._pattern.startswith("\\Q", self._place):
            escape = self._taken(_ESCAPE)
            self._atom(self._shorter.get(escape, escape))
            return
        end = self._pattern.find("\\E", self._place)
        quoted = self._pattern[self._place + 2 : end if end >= 0 else None]
        self._place = end + 2 if end >= 0 else len(self._pattern)
        for character in quoted:
            special = character.isascii() and not character.isalnum() and character not in "_\0"
            self._atom(f"\\{character}" if special else character)

    def _repeat(self, sign: str) -> None:
        here = self._last()
        always = here.always and sign[0] == "+"
        self._open[-1].pieces[-1] = _Piece(here.text + sign, here.plain + sign, always)
        self._open[-1].repeatable = False

    def _counted(self, count: re.Match[str]) -> None:
        here = self._last()
        lazy = "?" if self._pattern.startswith("?", self._place) else ""
        self._place += len(lazy)
        least, ranged, most = int(count.group(1)), count.group(2), count.group(3)
        largest = max(least, int(most or 0))
        if largest > self._limits.count or (most and int(most) < least):
            raise _NoPattern
        if largest <= self._block:
            piece = here.times(count.group() + lazy)
            self._open[-1].pieces[-1] = _Piece(piece.text, piece.plain, here.always and least > 0)
        else:
            optional = None if not ranged else ("" if not most else int(most) - least)
            self._chain(here, least, optional, lazy)
        self._open[-1].repeatable = False

    def _chain(self, here: _Piece, least: int, optional: int | str | None, lazy: str) -> None:
        """`least` copies, then up to `optional` more: None for none, an empty text for any number."""
        required = _blocks(least, self._block)
        suffixes = [f"{{{count}}}{lazy}" for count in required]
        if optional == "":
            # At least one block, because a count without an upper end over 1000 has a lower one.
            suffixes[-1] = f"{{{required[-1]},}}{lazy}"
        elif isinstance(optional, int):
            suffixes += [f"{{0,{count}}}{lazy}" for count in _blocks(optional, self._block)]
        if len(here.text) * len(suffixes) > self._limits.expanded:
            raise _NoPattern
        pieces = [here.times(suffix) for suffix in suffixes]
        # A group that takes part in every copy holds the last one's match: earlier ones need not capture,
        # and each copy that does is carried along by every state of the simulation.
        idle = len(required) - 1 if here.always else 0
        text = "".join(piece.plain if i < idle else piece.text for i, piece in enumerate(pieces))
        plain = "".join(piece.plain for piece in pieces)
        self._open[-1].pieces[-1] = self._sized(_Piece(text, plain, here.always and least > 0))

    def _last(self) -> _Piece:
        if not self._open[-1].repeatable:
            raise _NoPattern
        return self._open[-1].pieces[-1]

    def _sized(self, piece: _Piece) -> _Piece:
        if len(piece.plain) > self._limits.expanded:
            raise _NoPattern
        return piece


def _blocks(count: int, block: int) -> list[int]:
    whole, rest = divmod(count, block)
    return [block] * whole + ([rest] if rest else [])
