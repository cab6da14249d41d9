"""A row's text as its searches read it, kept as it grows."""

from __future__ import annotations

from typing import Final, final

from separatrix.errors import InvalidInput
from separatrix.generation.patterns import SearchLimits
from separatrix.generation.runs import Search
from separatrix.generation.searching import Found, Unfound, search_bytes
from separatrix.tasks.vocabulary import Vocabulary

__all__ = ["END", "FAILED_WORD", "START", "Asking", "Transcript"]

START: Final = "<StartSearch>"
END: Final = "<EndSearch>"
FAILED_WORD: Final = "FAILED"


@final
class Asking:
    """The words of a vocabulary as bytes, and the three that searches need."""

    def __init__(self, vocabulary: Vocabulary, limits: SearchLimits) -> None:
        self.limits = limits
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
    """Every word of a row so far, a space behind each, and the search that stands open in it, if one does."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._text = bytearray()
        self._before: int | None = None
        self._pattern: list[bytes] = []

    @property
    def searching(self) -> bool:
        """Whether the last <StartSearch> has no <EndSearch> yet."""
        return self._before is not None

    def add(self, token: int) -> None:
        """One more word; a second <StartSearch> begins the pattern anew, and <EndSearch> drops it."""
        word = self._asking.spelled(token)
        if token == self._asking.start:
            self._before, self._pattern = len(self._text), []
        elif token == self._asking.end:
            self._before = None
        elif self._before is not None:
            self._pattern.append(word)
        self._text += word
        self._text += b" "

    def ask(self, place: int) -> tuple[Search, int | None]:
        """Close the open search with an <EndSearch> at this place: its record, and the token it returns."""
        pattern, text = b"".join(self._pattern).decode(), bytes(self._text[: self._before])
        found = search_bytes(pattern, text, self._asking.limits)
        self.add(self._asking.end)
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
