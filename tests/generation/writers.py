"""Small models that write, whose next token is given by a plain function of all tokens so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.accounting import Size
from separatrix.models.interface import CausalModel
from separatrix.tasks.vocabulary import Vocabulary, numbered, words

Histories = list[list[int]]


@dataclass(frozen=True, eq=False)
class Writer(CausalModel[Histories]):
    """Its state is every token that it has read; `following` chooses the next one from them."""

    following: Callable[[Sequence[int]], int]
    size_of_vocabulary: int
    batches: list[int] = field(default_factory=list)
    """Rows of each step, for tests of what is dropped."""

    def forward(self, inputs: Int[Tensor, "*lead pos"]) -> Float[Tensor, "*lead pos out"]:
        raise NotImplementedError

    def size(self, n: int, precision: int) -> Size:
        raise NotImplementedError

    def start(self, batch: int, *, device: torch.device | str = "cpu") -> Histories:
        return [[] for _ in range(batch)]

    def step(
        self, token: Int[Tensor, "batch"], state: Histories
    ) -> tuple[Float[Tensor, "batch out"], Histories]:
        assert len(token) == len(state)
        self.batches.append(len(state))
        scores = torch.zeros(len(state), self.size_of_vocabulary, dtype=torch.float64)
        for row, (read, history) in enumerate(zip(token.tolist(), state, strict=True)):
            history.append(read)
            scores[row, self.following(history)] = 1.0
        return scores, state

    def kept(self, state: Histories, rows: Int[Tensor, "row"]) -> Histories:
        return [state[row] for row in rows.tolist()]


@dataclass(frozen=True, eq=False)
class Turner(CausalModel[Tensor]):
    """A linear recurrence mod m, h ← a·h + token + 1, whose state is one number a row; it writes h."""

    factor: int
    modulus: int

    def forward(self, inputs: Int[Tensor, "*lead pos"]) -> Float[Tensor, "*lead pos out"]:
        raise NotImplementedError

    def size(self, n: int, precision: int) -> Size:
        raise NotImplementedError

    def start(self, batch: int, *, device: torch.device | str = "cpu") -> Tensor:
        return torch.zeros(batch, dtype=torch.int64)

    def step(self, token: Int[Tensor, "batch"], state: Tensor) -> tuple[Float[Tensor, "batch out"], Tensor]:
        after = (self.factor * state + token + 1) % self.modulus
        return torch.nn.functional.one_hot(after, self.modulus).double(), after

    def kept(self, state: Tensor, rows: Int[Tensor, "row"]) -> Tensor:
        return state[rows]


@dataclass(frozen=True)
class Told:
    """Rules given one by one."""

    vocabulary: Vocabulary
    answers: frozenset[int] = frozenset()
    limit: int = 100
    searches: bool = True


SEARCHING = Vocabulary(
    words("answer", "NO", "YES"),
    words("search", "<StartSearch>", "<EndSearch>", "FAILED"),
    words(
        "piece",
        "(",
        ")",
        r"\s",
        "|",
        "*",
        "+",
        ".",
        "a",
        "ab",
        "b",
        r"(\S+)",
        "^",
        "$",
        "é",
        "a+)+$",
        "((",
        "{",
        "}",
    ),
    numbered("number", 5000),
    padded=True,
)


def told(*, limit: int = 100, searches: bool = True) -> Told:
    answers = frozenset((SEARCHING.token("NO"), SEARCHING.token("YES")))
    return Told(vocabulary=SEARCHING, answers=answers, limit=limit, searches=searches)


def tokens(text: str) -> list[int]:
    return [SEARCHING.token(word) for word in text.split()]


def spelled(run: Sequence[int]) -> str:
    return " ".join(SEARCHING.word(token) for token in run)


def reciting(*texts: str) -> Writer:
    """Row i has the prompt that begins with the number i, and writes its text; behind it, 0 for ever.

    What a search returns is not in the text: a gap `_` stands where it comes.
    """
    recited = [[SEARCHING.token(word) if word != "_" else -1 for word in text.split()] for text in texts]

    def following(history: Sequence[int]) -> int:
        # A prompt is a number for its row, a number for its length, and whatever makes it so long.
        which, length = (history[i] - SEARCHING.offset("number") if len(history) > i else 0 for i in (0, 1))
        place = len(history) - length
        text = recited[which]
        wanted = text[place] if 0 <= place < len(text) else SEARCHING.token("0")
        return wanted if wanted >= 0 else SEARCHING.token("NO")

    return Writer(following, SEARCHING.size)


def prompt(which: int, text: str = "") -> list[int]:
    """A prompt for `reciting`."""
    rest = tokens(text)
    return tokens(f"{which} {len(rest) + 2}") + rest
