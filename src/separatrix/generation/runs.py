"""What happened when a model wrote: its words, its searches, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

from separatrix.errors import InvalidInput

__all__ = ["UNANSWERED", "Outcome", "Progress", "Run", "Search", "score"]

Outcome = Literal["answered", "limit", "timeout", "invalid"]
"""An answer was written; the limit came first; a search was cut off; or something was written that has no
meaning: a search that is none, a result that is no word, a token outside the vocabulary, no number at all."""

UNANSWERED = 0.5
"""What an input without an answer scores where the answer is yes or no."""


@final
@dataclass(frozen=True, kw_only=True)
class Search:
    """One search: where its <EndSearch> stands among the written tokens, what it asked, and what came of it.

    `result` is the text that was found; `no word` says that it was found and is no word of the vocabulary.
    """

    place: int
    pattern: str
    text: int
    outcome: Literal["found", "failed", "timeout", "invalid", "no word"]
    result: str | None = None


@final
@dataclass(frozen=True, kw_only=True)
class Run:
    """One prompt's continuation. `returned` are the places of `written` that a search filled in."""

    prompt: int
    written: tuple[int, ...]
    returned: frozenset[int] = frozenset()
    searches: tuple[Search, ...] = ()
    outcome: Outcome

    @property
    def answer(self) -> int | None:
        """The token that ended the run, if it was answered."""
        return self.written[-1] if self.outcome == "answered" else None


@final
@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a generation is: tokens written, prompts done, prompts in all."""

    tokens: int
    done: int
    prompts: int


def score(answers: Sequence[int | None], right: Sequence[int]) -> float:
    """The mean over inputs: 1 for the right answer, 0 for a wrong one, a half for none."""
    if len(answers) != len(right) or not right:
        raise InvalidInput(
            f"A score compares one answer for each input, and at least one; "
            f"got {len(answers)} answers and {len(right)} right ones."
        )
    pairs = zip(answers, right, strict=True)
    return sum(UNANSWERED if got is None else float(got == want) for got, want in pairs) / len(right)
