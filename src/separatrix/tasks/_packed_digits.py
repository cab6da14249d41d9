"""Many small random digits from few random words, in little memory."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.randomness import Draws

__all__ = ["packed_digits"]

# A fraction of 58 bits leaves four bits of an int64 for the digit that a multiplication brings out.
_FRACTION_BITS = 58
_LARGEST_BASE = 16


def packed_digits(draws: Draws, site: str, count: int, base: int) -> Int[Tensor, "batch count"]:
    """`count` digits uniform in [0, base) for each example, as int8: twenty base-3 digits from two words.

    A random 58-bit fraction is written in base `base`, and so many leading digits are kept that there are
    at most 2^32 strings of them. A string's probability is then right to 2^-58, that is to one part in
    2^26, and exactly right if the base is a power of two.
    """
    assert 1 <= base <= _LARGEST_BASE
    if base == 1:
        return torch.zeros(draws.batch, count, dtype=torch.int8, device=draws.device)
    kept = max(number for number in range(1, 33) if base**number <= 1 << 32)
    words = draws.words(site, 2 * -(-count // kept)).reshape(draws.batch, -1, 2)
    fraction = (words[..., 0] << 26) | (words[..., 1] >> 6)
    digits = []
    for _ in range(kept):
        fraction = fraction * base
        digits.append((fraction >> _FRACTION_BITS).to(torch.int8))
        fraction = fraction.bitwise_and_((1 << _FRACTION_BITS) - 1)
    return torch.stack(digits, dim=1).flatten(1)[:, :count]
