"""What the protocol of S-T4 sends, counted anew."""

from __future__ import annotations


def counted_bits(*, width: int, heads: int, precision: int, positions: int) -> int:
    """Until the holder of the query knows the answer: the query's vector, and for each head two largest
    logits, two shares of the denominator and the other party's weighted sums in numbers of 2p bits.
    """
    exchanged = 2 * width * precision + 4 * precision + 2 * (positions - 1).bit_length()
    return width * precision + heads * exchanged
