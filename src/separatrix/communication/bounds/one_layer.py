"""From bits on a wire to the size of one attention layer, by counting what S-T4's protocol sends.

Whoever holds the query ends the run. In p bits, with N positions, H heads, and m the larger of the stream's
width and a head's, the wire carries

- the query's vector, once: mp bits;
- for each head the largest logit of either party: 2p bits;
- for each head either party's share of the softmax's denominator: 2(p + ⌈log N⌉) bits;
- for each head the other party's weighted sums, exact, m numbers of 2p bits: 2mp bits;

which is mp + H(2mp + 4p + 2⌈log N⌉) bits. Then one party knows the answer, and with one bit more both do. If
both need X + 1 bits to know it, then

    mp + H(2mp + 4p + 2⌈log N⌉) ≥ X.                                          (counted)

Since m ≥ 1 and H ≥ 1, the left side is at most mH(7p + 2⌈log N⌉); and where p ≥ ⌈log N⌉, at most 9·mpH. It is
at most 3mH(p + log N), the count as S prints it, only where 3m·log N ≥ 4p + 2·log N; then

    mH ≥ X/(3(p + log N)).                                                    (printed)

The printed form is the larger one unless p is small. It is left out where the width is known to break its
condition, or where heads and precision leave no width between the condition and the number; stated plainly
where they settle it; and else stated under its condition, behind the counted form, which has none. Numbers
have ⌈log N⌉ for log N, so that they are rational and still hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

from separatrix.communication.bounds.counts import ceil_log
from separatrix.communication.bounds.interface import (
    PRECISION_AND_LENGTH,
    WIDTH,
    WIDTH_BITS,
    WIDTH_HEADS,
    Ask,
)
from separatrix.evidence import Bound, Via
from separatrix.theorems import theorem

__all__ = ["WIDE_ENOUGH", "Needed", "layer_bounds"]

WIDE_ENOUGH: Final = (
    "3m·log N ≥ 4p + 2·log N: below that the protocol sends more than the 3m(p + log N)H bits that S prints"
)
"""The condition of the printed form, among a bound's assumptions where the size does not settle it."""
_LARGE: Final = "numbers have p ≥ ⌈log N⌉ bits; where the precision is given, this is not assumed"
_GROWTH: Final = {
    PRECISION_AND_LENGTH: "Ω({})",
    WIDTH_BITS: "Ω({})",
    WIDTH_HEADS: "Ω({}/(p + log N))",
    WIDTH: "Ω({}/(H(p + log N)))",
}


@final
@dataclass(frozen=True, kw_only=True)
class Needed:
    """X: what one party must be sent to know the answer, both together one bit more.

    `formula` is that number as one writes it, and `growth` without its constants.
    """

    bits: int
    formula: str
    growth: str


def layer_bounds(
    ask: Ask,
    needed: Needed,
    *,
    positions: int,
    via: Via,
    printed: str = "",
    assuming: tuple[str, ...] = (),
) -> Iterator[Bound]:
    """Both forms, in the quantity that what is known of the size allows.

    `printed` is the theorem's own formula where it has the constant. S-T4's assumptions are made, and those
    that are given.
    """
    precision, heads, width = ask.given.precision, ask.given.heads, ask.given.width
    log = ceil_log(positions)

    def says(quantity: str, least: int | Fraction, formula: str, *also: str) -> Bound:
        growth = _GROWTH[quantity].format(needed.growth)
        assumed = (*theorem("S-T4").assumptions, *assuming, *also)
        return ask.says(quantity, least, asymptotic=growth, formula=formula, via=via, assuming=assumed)

    known = width is not None and precision is not None
    if not known or 3 * (width or 0) * log >= 4 * (precision or 0) + 2 * log:
        formula = printed or f"mH ≥ {_over(needed.formula, '(3(p + log N))')}"
        if precision is None:
            yield says(PRECISION_AND_LENGTH, Fraction(needed.bits, 3), formula, WIDE_ENOUGH)
        elif heads is None:
            under = () if known else (WIDE_ENOUGH,)
            yield says(WIDTH_HEADS, Fraction(needed.bits, 3 * (precision + log)), formula, *under)
        else:
            least, enough = Fraction(needed.bits, 3 * heads * (precision + log)), 4 * precision + 2 * log
            # A narrower model can be made as wide as the condition asks, if that is still too narrow.
            if -(-enough // (3 * log)) < least:
                yield says(WIDTH, least, formula)
    if precision is None:
        yield says(WIDTH_BITS, Fraction(needed.bits, 9), f"mpH ≥ {_over(needed.formula, '9')}", _LARGE)
    elif heads is None:
        formula = f"mH ≥ {_over(needed.formula, '(7p + 2⌈log N⌉)')}"
        yield says(WIDTH_HEADS, Fraction(needed.bits, 7 * precision + 2 * log), formula)
    else:
        least = Fraction(needed.bits - heads * (4 * precision + 2 * log), precision * (2 * heads + 1))
        formula = f"mp + H(2mp + 4p + 2⌈log N⌉) ≥ {needed.formula}"
        yield says(WIDTH, max(1, -(-least.numerator // least.denominator)), formula)


def _over(dividend: str, divisor: str) -> str:
    """A quotient, with parentheses where the first part is no single term."""
    single = dividend.startswith("⌊") or not any(sign in dividend for sign in " /")
    return f"{dividend}/{divisor}" if single else f"({dividend})/{divisor}"
