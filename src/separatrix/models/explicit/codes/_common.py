"""What the codes share: limits on their sizes, which numbers have a vector, and bits as signs.

A code's fields are slots (`slots=True`) because an interface declares `count` and `dim` as properties: a slot
is an attribute of the class and takes the property's place, where an ordinary field could not be set.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from separatrix.errors import InvalidInput

__all__ = [
    "LARGEST_COUNT",
    "WORD",
    "absolute_coherence",
    "bits_for",
    "require_between",
    "require_gamma",
    "signs_of_words",
    "whole_numbers",
    "zero_outside",
]

LARGEST_COUNT = 1 << 40
"""So many numbers a code may have: far beyond any input, and every product below stays inside int64."""

WORD = 32
"""Bits that are packed into one int64, as the random generator delivers them."""


def require_between(owner: str, *, least: int, most: int, **values: int) -> None:
    """Refuse sizes that are no whole numbers from `least` to `most`."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidInput(f"{owner} needs {name} as a whole number; got {type(value).__name__}.")
        if not least <= value <= most:
            came = value if abs(value) < 10**20 else "a number of more than 20 digits"
            raise InvalidInput(f"{owner} needs {name} between {least} and {most}; got {came}.")


def require_gamma(gamma: Fraction | float) -> Fraction:
    """The wanted coherence as an exact number, refused unless 0 ≤ γ < 1."""
    wrong = isinstance(gamma, bool) or not isinstance(gamma, int | float | Fraction)
    if wrong or not 0 <= gamma < 1:
        raise InvalidInput(f"A coherence is a number with 0 ≤ γ < 1; got {gamma!r}. Try Fraction(1, 4).")
    return Fraction(gamma)


def bits_for(count: int) -> int:
    """Binary digits that tell `count` numbers apart: ⌈log2 count⌉, and 0 where there is nothing to tell."""
    return max(0, count - 1).bit_length()


def whole_numbers(
    numbers: Int[Tensor, "*shape"], count: int
) -> tuple[Int[Tensor, "*shape"], Bool[Tensor, "*shape"]]:
    """The numbers as int64, those without a vector replaced by 0, and which of them have one."""
    if numbers.dtype == torch.bool or numbers.is_floating_point() or numbers.is_complex():
        raise InvalidInput(
            f"A code takes whole numbers; got a tensor of {numbers.dtype}. Try numbers.to(torch.int64)."
        )
    wide = numbers.to(torch.int64)
    inside = (wide >= 0) & (wide < count)
    return torch.where(inside, wide, 0), inside


def zero_outside(
    rows: Float[Tensor, "*shape dim"], inside: Bool[Tensor, "*shape"]
) -> Float[Tensor, "*shape dim"]:
    """The rows, with zeros where the number has no vector."""
    return torch.where(inside.unsqueeze(-1), rows, 0.0)


def signs_of_words(words: Int[Tensor, "*shape words"], dim: int) -> Float[Tensor, "*shape dim"]:
    """Bit b of word w as entry 32w + b: a 0 becomes +1 and a 1 becomes −1.

    Words are cut into bytes first, so that a single bit never takes the room of an int64.
    """
    places = torch.arange(0, WORD, 8, device=words.device)
    octets = (words.unsqueeze(-1) >> places).bitwise_and_(255).to(torch.uint8).flatten(-2)
    shifts = torch.arange(8, dtype=torch.uint8, device=words.device)
    bits = (octets.unsqueeze(-1) >> shifts).bitwise_and_(1).flatten(-2)[..., :dim]
    return bits.to(torch.float64).mul_(-2).add_(1)


def absolute_coherence(distances: Mapping[int, int], dim: int) -> Fraction:
    """The largest |⟨u, v⟩| / dim of two different words whose distances are among those given."""
    return max((Fraction(abs(dim - 2 * distance), dim) for distance in distances), default=Fraction(0))
