"""A row's text as its searches read it, kept as it grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from separatrix.errors import InvalidInput
from separatrix.generation.patterns import SearchLimits
from separatrix.generation.runs import Search
from separatrix.generation.searching import Found, Unfound, search_bytes
from separatrix.generation.spelling import AsWritten, Spelling
from separatrix.tasks.vocabulary import Vocabulary

__all__ = ["END", "FAILED_WORD", "START", "Asking", "Transcript"]

START: Final = "<StartSearch>"
END: Final = "<EndSearch>"
FAILED_WORD: Final = "FAILED"


@final
class Asking:
    """The words of a vocabulary as bytes, the three that searches need, and how rows spell their text."""

    def __init__(
        self, vocabulary: Vocabulary, limits: SearchLimits, spelling: type[Spelling] = AsWritten
    ) -> None:
        self.limits, self.spelling = limits, spelling
        self._vocabulary = vocabulary
        self._spelled: dict[int, bytes] = {}
        try:
            self.start, self.end, self.failed = (vocabulary.token(word) for word in (START, END, FAILED_WORD))
        except InvalidInput as error:
            raise InvalidInput(
                f"A vocabulary for searches has the words {START}, {END} and {FAILED_WORD}: {error}"
            ) from error

    def spelled(self, token: int) -> bytes:
        """The word of a token."""
        if token not in self._spelled:
            self._spelled[token] = self._vocabulary.word(token).encode()
        return self._spelled[token]

    def result(self, text: str) -> int | None:
        """The token of a result; None if it is no word, or one that is not for results: a marker, padding."""
        try:
            token = self._vocabulary.token(text)
        except InvalidInput:
            return None
        return None if token in (self.start, self.end, self._vocabulary.pad) else token


@final
class Transcript:
    """The text of a row so far, a space behind each word, and the search that stands open, if one does."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._spelling = asking.spelling()
        self._text = bytearray()
        self._open: list[bytes] | None = None

    @property
    def searching(self) -> bool:
        """Whether the last <StartSearch> has no <EndSearch> yet."""
        return self._open is not None

    def add(self, token: int) -> None:
        """One more word; a second <StartSearch> begins the pattern anew, and <EndSearch> drops it."""
        word = self._asking.spelled(token)
        if token == self._asking.start:
            self._give_up()
            self._open = []
        elif token == self._asking.end:
            pieces = None if self._open is None else self._spelling.query(self._open)
            self._close(pieces)
        elif self._open is not None:
            self._open.append(word)
        else:
            self._text += self._spelling.word(word)

    def ask(self, place: int) -> tuple[Search, int | None]:
        """Close the open search with an <EndSearch> at this place: its record, and the token it returns."""
        assert self._open is not None
        words, text = self._open, bytes(self._text)
        pieces = self._spelling.query(words)
        self._close(pieces)
        pattern = b"".join(words if pieces is None else pieces).decode()
        found = Unfound.INVALID if pieces is None else search_bytes(pattern, text, self._asking.limits)
        if isinstance(found, Unfound):
            token = self._asking.failed if found is Unfound.FAILED else None
            return Search(place=place, pattern=pattern, text=len(text), outcome=found.value), token
        assert isinstance(found, Found)
        token = self._asking.result(found.text)
        record = Search(
            place=place,
            pattern=pattern,
            text=len(text),
            outcome="no word" if token is None else "found",
            result=found.text,
        )
        return record, token

    def _give_up(self) -> None:
        """What stands open was no search after all: its words stand in the text as they are."""
        if self._open is not None:
            self._write(self._asking.start, *self._open)
        self._open = None

    def _close(self, pieces: Sequence[bytes] | None) -> None:
        """The open search as its pieces say, or as it was written where they say nothing."""
        if pieces is not None:
            self._open = list(pieces)
        self._give_up()
        self._write(self._asking.end)

    def _write(self, marker: int, *words: bytes) -> None:
        self._text += b"".join(word + b" " for word in (self._asking.spelled(marker), *words))
