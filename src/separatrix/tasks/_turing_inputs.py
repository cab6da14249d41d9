"""The library's machines as problems: which tapes each takes, how they are drawn, how far its runs go.

Tapes are rows of symbol numbers in the machine's alphabet, whose order is blank, then the digits or
brackets. The bounds hold for every tape of n cells and are reached by one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks.domains import digits
from separatrix.tasks.shaping import positions, uniform_between

__all__ = ["PROBLEMS", "Problem", "Reach"]

_BLANK, _FIRST, _SECOND, _STAR = 0, 1, 2, 3
# So many attempts are drawn that the chance that none fits is at most 2^-60.
_CERTAINTY = 60


class Reach(NamedTuple):
    """How far runs go at most: steps until they halt, cells left of the input, cells in all."""

    steps: int
    left: int
    space: int


class Problem(ABC):
    """The tapes of n cells that one machine is run on."""

    least: int = 1
    even: bool = False

    @abstractmethod
    def reach(self, n: int) -> Reach:
        """Bounds for every tape of n cells."""

    @abstractmethod
    def draw(self, draws: Draws, n: int) -> Int[Tensor, "batch n"]:
        """Random tapes."""

    @abstractmethod
    def count(self, n: int) -> int:
        """How many tapes there are."""

    @abstractmethod
    def decode(self, numbers: Int[Tensor, "batch"], n: int) -> Int[Tensor, "batch n"]:
        """The tapes with these numbers, each once."""

    @abstractmethod
    def describe(self, n: int) -> str:
        """What a tape looks like, for messages."""

    @abstractmethod
    def accepts(self, tape: list[int]) -> bool:
        """Whether this is a tape of the problem."""


@dataclass(frozen=True)
class EmptyTape(Problem):
    """Nothing but blanks: there is one run, whose reach is known."""

    known: Reach
    least = 0

    def reach(self, n: int) -> Reach:
        """As the one run goes."""
        return self.known

    def draw(self, draws: Draws, n: int) -> Int[Tensor, "batch n"]:
        """No cells."""
        return torch.zeros(draws.batch, 0, dtype=torch.int64, device=draws.device)

    def count(self, n: int) -> int:
        """One."""
        return 1

    def decode(self, numbers: Int[Tensor, "batch"], n: int) -> Int[Tensor, "batch n"]:
        """No cells."""
        return numbers.new_zeros(len(numbers), 0)

    def describe(self, n: int) -> str:
        """No cells."""
        return "no cells"

    def accepts(self, tape: list[int]) -> bool:
        """No cells."""
        return not tape


class Strokes(Problem):
    """A number k in 0 … n, uniform, written as k strokes and then blanks."""

    def reach(self, n: int) -> Reach:
        """Over the strokes and one more."""
        return Reach(steps=n + 1, left=0, space=n + 1)

    def draw(self, draws: Draws, n: int) -> Int[Tensor, "batch n"]:
        """Uniform k."""
        return self.decode(uniform_between(draws, "strokes", 0, n), n)

    def count(self, n: int) -> int:
        """Zero to n strokes."""
        return n + 1

    def decode(self, numbers: Int[Tensor, "batch"], n: int) -> Int[Tensor, "batch n"]:
        """Number k is k strokes."""
        cells = torch.arange(n, device=numbers.device)
        return torch.where(cells < numbers.unsqueeze(1), _FIRST, _BLANK)

    def describe(self, n: int) -> str:
        """Strokes first."""
        return f"zero to {n} strokes 1 and then blanks _"

    def accepts(self, tape: list[int]) -> bool:
        """No stroke after a blank."""
        return set(tape) <= {_BLANK, _FIRST} and tape == sorted(tape, reverse=True)


class _Pairs(Problem):
    """Every tape over the two input symbols."""

    def count(self, n: int) -> int:
        """Two choices a cell."""
        return 1 << n

    def decode(self, numbers: Int[Tensor, "batch"], n: int) -> Int[Tensor, "batch n"]:
        """Binary digits, the most significant first."""
        return digits(numbers, [2] * n) + _FIRST

    def describe(self, n: int) -> str:
        """Digits, unless a leaf says otherwise."""
        return f"{n} digits 0 or 1"

    def accepts(self, tape: list[int]) -> bool:
        """The two input symbols only."""
        return set(tape) <= {_FIRST, _SECOND}


class Increments(_Pairs):
    """Uniform binary numbers of n digits, to be increased by one."""

    def reach(self, n: int) -> Reach:
        """To the blank behind the last digit and back to the one before the first."""
        return Reach(steps=2 * n + 2, left=1, space=n + 2)

    def draw(self, draws: Draws, n: int) -> Int[Tensor, "batch n"]:
        """Uniform digits."""
        return draws.integers("digits", (n,), 2) + _FIRST


class Parities(_Pairs):
    """Uniform bits, whose ones are to be counted modulo two."""

    def reach(self, n: int) -> Reach:
        """Over the bits to the blank."""
        return Reach(steps=n + 1, left=0, space=n + 1)

    def draw(self, draws: Draws, n: int) -> Int[Tensor, "batch n"]:
        """Uniform digits."""
        return draws.integers("digits", (n,), 2) + _FIRST


class Palindromes(_Pairs):
    """With probability ½ a uniform palindrome, else a uniform word that is none."""

    least = 2

    def reach(self, n: int) -> Reach:
        """A round on m symbols takes 2m + 1 steps and leaves m − 2; the last takes 1 or 3."""
        return Reach(steps=(n + 1) * (n + 2) // 2, left=0, space=n + 1)

    def draw(self, draws: Draws, n: int) -> Int[Tensor, "batch n"]:
        """The left half uniform, the right half its mirror image, changed where the differences say so."""
        half = n // 2
        left = draws.integers("digits", (n - half,), 2)
        attempts = draws.integers("differences", (-(-_CERTAINTY // half), half), 2)
        differences = _first_fit(attempts, attempts.any(2))
        # Should no attempt have one, the first place differs.
        differences[:, 0] |= ~differences.any(1)
        differences *= draws.coins("differ", (1,))
        return torch.cat([left, left[:, :half].flip(1) ^ differences], dim=1) + _FIRST


class Brackets(_Pairs):
    """With probability ½ a uniform balanced word, else a uniform word that is not balanced."""

    least = 2
    even = True

    def reach(self, n: int) -> Reach:
        """Each pair costs twice its distance, at most n²/2 in all when they are nested; and two sweeps."""
        return Reach(steps=n * n // 2 + 2 * n + 2, left=1, space=n + 2)

    def draw(self, draws: Draws, n: int) -> Int[Tensor, "batch n"]:
        """One of each kind, then a coin."""
        balanced = self._balanced(draws, n)
        chance = math.comb(n, n // 2) // (n // 2 + 1) / (1 << n)
        attempts = draws.integers("brackets", (math.ceil(-_CERTAINTY / math.log2(chance)), n), 2)
        unbalanced = _first_fit(attempts, _unbalanced(attempts))
        # Should every attempt have been balanced, a closing bracket in front makes it none.
        unbalanced[:, 0] |= ~_unbalanced(unbalanced)
        chosen = torch.where(draws.coins("balanced", (1,)), balanced, unbalanced)
        return chosen + _FIRST

    def describe(self, n: int) -> str:
        """Brackets."""
        return f"{n} brackets ( or )"

    def _balanced(self, draws: Draws, n: int) -> Int[Tensor, "batch n"]:
        """Uniform by the cycle lemma.

        Of the n + 1 rotations of a word with n/2 + 1 opening brackets and n/2 closing ones exactly one
        stays above zero; it starts right after the last place where the height is least. Its first
        bracket cut off, it is a uniform balanced word.
        """
        closing = (draws.permutations("cycle", n + 1) > n // 2).long()
        height = (1 - 2 * closing).cumsum(1)
        # A later place wins a tie: scale the heights up and subtract the place.
        start = (height * (n + 2) - positions(height)).argmin(1, keepdim=True) + 1
        places = (start + 1 + torch.arange(n, device=start.device)) % (n + 1)
        return closing.gather(1, places)


class Products(Problem):
    """Two uniform factors of ⌈(n − 1)/2⌉ and ⌊(n − 1)/2⌋ digits with a star between."""

    least = 3

    def reach(self, n: int) -> Reach:
        """Digit i of b being 1 adds a, which has m = p + i digits by then; the last factor's all ones worst.

        The addition's m walks take 3m² + 3m steps, cleaning up 4m + 4, the rest crosses what is left of b.
        Rippling carries take 2(ones(a)·ones(b) − ones(ab)) in all, since each addition of a one makes
        one 1 in the sum and each carried place destroys one: at most 2p(q − 1).
        """
        p, q = n // 2, (n - 1) // 2
        stages = sum(3 * m * m + 7 * m + 6 * (p + q - m) + 5 for m in range(p, p + q))
        return Reach(steps=stages + 2 * p + q + 6 + 2 * p * (q - 1), left=n, space=2 * n + 1)

    def draw(self, draws: Draws, n: int) -> Int[Tensor, "batch n"]:
        """Uniform digits."""
        return self._with_star(draws.integers("digits", (n - 1,), 2), n)

    def count(self, n: int) -> int:
        """Two choices a digit."""
        return 1 << (n - 1)

    def decode(self, numbers: Int[Tensor, "batch"], n: int) -> Int[Tensor, "batch n"]:
        """The digits of both factors in a row."""
        return self._with_star(digits(numbers, [2] * (n - 1)), n)

    def describe(self, n: int) -> str:
        """Factor, star, factor."""
        return f"{n // 2} digits, a star * and {(n - 1) // 2} digits"

    def accepts(self, tape: list[int]) -> bool:
        """The star in its place."""
        star = len(tape) // 2
        return tape[star] == _STAR and set(tape[:star] + tape[star + 1 :]) <= {_FIRST, _SECOND}

    @staticmethod
    def _with_star(bits: Int[Tensor, "batch digits"], n: int) -> Int[Tensor, "batch n"]:
        star = torch.full((len(bits), 1), _STAR, dtype=bits.dtype, device=bits.device)
        return torch.cat([bits[:, : n // 2] + _FIRST, star, bits[:, n // 2 :] + _FIRST], dim=1)


def _unbalanced(closing: Int[Tensor, "*batch n"]) -> Bool[Tensor, "*batch"]:
    height = (1 - 2 * closing).cumsum(-1)
    return (height.amin(-1) < 0) | (height[..., -1] != 0)


def _first_fit(
    attempts: Int[Tensor, "batch attempt n"], fits: Bool[Tensor, "batch attempt"]
) -> Int[Tensor, "batch n"]:
    """The first attempt of each example that fits, or the first of all."""
    first = fits.int().argmax(1).view(-1, 1, 1).expand(-1, 1, attempts.shape[2])
    return attempts.gather(1, first).squeeze(1)


PROBLEMS: Final[dict[str, Problem]] = {
    "unary-increment": Strokes(),
    "binary-increment": Increments(),
    "parity": Parities(),
    "palindrome": Palindromes(),
    "balanced-brackets": Brackets(),
    "binary-multiplication": Products(),
    "busy-beaver-2": EmptyTape(Reach(steps=6, left=2, space=4)),
    "busy-beaver-3": EmptyTape(Reach(steps=14, left=1, space=6)),
    "busy-beaver-4": EmptyTape(Reach(steps=107, left=10, space=14)),
}
