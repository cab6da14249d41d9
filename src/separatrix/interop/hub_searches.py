"""Searches while `generate` of transformers writes: what each returns is the next word of its row.

Whatever the model would write behind an <EndSearch>, the result stands there. `generate` takes the word with
the largest score, so the result gets a score and no other word does. A row ends with padding: behind an
answer that the model itself wrote outside a search, and behind a search that is none.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.generation.asking import Asking, Transcript
from separatrix.generation.patterns import SearchLimits
from separatrix.generation.scripts import Script
from separatrix.generation.searching import require_engine

__all__ = ["FREE", "SearchWatch", "forced_scores"]

FREE: Final = -1
"""In the place of a token, where the model chooses."""


@final
class SearchWatch:
    """The rows of a batch, told every token once, and what has to follow."""

    def __init__(self, script: Script, prompts: Sequence[Sequence[int]], *, end: int) -> None:
        """`prompts` have no padding, and `end` is the token of it."""
        require_engine()
        asking = Asking(script.vocabulary, SearchLimits(), script.spelling)
        self._seen = 0
        self._rows = [_Row(asking, script.answers, end, prompt) for prompt in prompts]

    def next(self, written: Int[Tensor, "row pos"]) -> list[int]:
        """What follows these words behind the prompts, `FREE` where the model is to choose."""
        for row, tokens in zip(self._rows, written[:, self._seen :].tolist(), strict=True):
            for token in tokens:
                row.read(token)
        self._seen = written.shape[1]
        return [row.following for row in self._rows]

    def reorder(self, rows: Sequence[int]) -> None:
        """Row i goes on from row `rows[i]`."""
        self._rows = [copy.deepcopy(self._rows[row]) for row in rows]


@final
class _Row:
    """One text, its searches, and what has to follow it."""

    def __init__(self, asking: Asking, answers: frozenset[int], end: int, prompt: Sequence[int]) -> None:
        self._asking, self._answers, self._end = asking, answers, end
        self._transcript = Transcript(asking)
        for token in prompt:
            self._transcript.add(token)
        self.following = FREE

    def read(self, token: int) -> None:
        """One more token; it is what `following` said, if that said anything."""
        returned, self.following = self.following != FREE, FREE
        if token == self._end:
            self.following = self._end
        elif token == self._asking.end and not returned:
            result = self._transcript.ask(0)[1] if self._transcript.searching else None
            self.following = self._end if result is None else result
        else:
            self._transcript.add(token)
            if token in self._answers and not returned and not self._transcript.searching:
                self.following = self._end

    def __deepcopy__(self, memo: dict[int, object]) -> _Row:
        twin = copy.copy(self)
        memo[id(self._asking)] = self._asking
        twin._transcript = copy.deepcopy(self._transcript, memo)
        return twin


def forced_scores(
    logits: Float[Tensor, "row pos out"], following: Sequence[int], words: int
) -> Float[Tensor, "row pos word"]:
    """Scores of so many words, padding among them; where a word has to follow, no other has any."""
    if len(following) != len(logits):
        raise InvalidInput(f"There are {len(logits)} rows; got what follows {len(following)} of them.")
    scores = logits.new_full((*logits.shape[:2], words), -torch.inf)
    scores[..., : logits.shape[2]] = logits
    forced = torch.tensor(following, device=logits.device)
    rows = (forced != FREE).nonzero()[:, 0]
    scores[rows, -1] = -torch.inf
    scores[rows, -1, forced[rows]] = 0
    return scores
