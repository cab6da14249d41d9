"""W's heads: each finds one earlier position by what stands there, or counts how many there are.

A mark is a vector of whole numbers with the sum of its squares. D is the squared distance of a key's mark and
the query's: 0 where they match and at least 1 where they do not. E is the sum of squares of the query's mark.
Keys have the mark 0 at position 1, so that D = E there, and a term that only position 1 has lets a head look
there when nothing matches. For that the query's mark must not be 0: other keys without a mark would match it.

Positions run from 1 to N, the longest text of the program; k is the position that asks, k′ the one that is
looked at. Every logit below is a whole number, up to a part that the query alone has, and the target's leads
each rival's by at least 1 for a scale of 1; `head_gaps` proves that again, case by case. All heads are hard:
the rivals' exponentials vanish, and what is returned is the value at the target itself.

Two things keep numbers short in fixed point. What the query alone decides is taken off every logit where it
is known, so that the target's logit is small; a rival whose logit is cut off at the least number is still a
rival. And a power of two moves between the queries and the keys of a pair, so that both are about as large.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

from separatrix.models.explicit.codes import Ladder, OneHot, Squares
from separatrix.models.explicit.positions import Own
from separatrix.witnesses.language.forms import Exact, Field, Linear, Term, as_linear, constant, joined
from separatrix.witnesses.language.operations import Rival
from separatrix.witnesses.language.program import LayerScript, Program

__all__ = [
    "Mark",
    "Places",
    "close",
    "copy",
    "count",
    "exact_next",
    "exact_next_share",
    "match",
    "match_next",
    "nearest",
    "nearest_coefficients",
    "only",
    "tally",
]

Pairs = list[tuple[Term, Term]]
_USUAL_SCALE: Final = 16  # about what heads get in 25 to 60 bits


@final
class Places:
    """What positions know about their place: its number from 1, that number squared, and which is first."""

    def __init__(self, program: Program) -> None:
        """Three fields of the program's input, up to its longest text."""
        self.longest: int = program.longest
        self.place: Field = program.position("place", Own(), Ladder(count=self.longest, first=1))
        self.square: Field = program.position("place squared", Own(), Squares(count=self.longest, first=1))
        self.first: Field = program.position("first place", Own(), OneHot(count=1))


@final
@dataclass(frozen=True, eq=False)
class Mark:
    """Whole numbers to compare, and one number that is the sum of their squares wherever it is read."""

    form: Term
    square: Term

    def and_(self, other: Mark) -> Mark:
        """Both marks in one: two such match where both do."""
        return Mark(joined([self.form, other.form]), as_linear(self.square) + other.square)

    def plus_one(self) -> Mark:
        """The mark of the next whole number; (m + 1)² = m² + 2m + 1."""
        form = as_linear(self.form)
        assert form.out == 1, "one number has a successor"
        return Mark(form + 1, as_linear(self.square) + 2 * form + 1)


def copy(layer: LayerScript, name: str, places: Places, *, back: int, value: Term) -> Field:
    """COPY: the value `back` tokens before this one; that of position 1 if there are not so many.

    Logit −(k − back − k′)². Gap: with t = k − back ≥ 1 the position t has distance 0 and every other at least
    1. With t ≤ 0 the logits of k′ and k′ + 1 differ by 2(k′ − t) + 1 ≥ 3, so position 1 leads by 3.
    """
    assert back >= 0, "a text is read from the left"
    wanted = places.place - back
    pairs: Pairs = [
        (2 * wanted, places.place),
        (constant([-1]), places.square),
        (places.square - 2 * back * places.place + back**2, constant([-1])),
    ]
    return _select(layer, name, places, pairs, value)


def count(layer: LayerScript, name: str, places: Places, *, key: Mark, query: Mark) -> Field:
    """COUNT: 1/(1 + c), where c is how many positions from 2 to k have the mark that is asked for.

    Logit −D + [k′ = 1]·E. Gap: positions that match, and position 1, all have 0; any other has −D ≤ −1. So
    the weight is shared evenly by c + 1 positions, and the value 1 at position 1 gets 1/(1 + c) of it. In
    floats and in fixed point that is the quotient of 1 and 1 + c rounded once.
    """
    return _select(layer, name, places, _unlike(places, 1, key, query), places.first)


def tally(layer: LayerScript, name: str, places: Places, *, share: Term, most: int | None = None) -> Field:
    """From 1/m, as COUNT gives it, to the whole numbers m and m²: they stand at position m.

    There is such a position, because m counts positions of the text that was read, and `most` (N, if nothing
    is said) is the largest m. Logit most·(2k′ − k′²/m) = most·(m − d²/m) at k′ = m + d. Gap: most/m ≥ 1. If
    the share is off by ε the lead over m + d changes by at most most·ε·|d|·(2m + d), which is at most a
    quarter of most·d²/m as long as 4ε·m·(2m + 1) ≤ 1; float64 has room to spare, and b bits behind the point
    are enough if 2^b ≥ 2m(2m + 1).
    """
    largest = places.longest if most is None else most
    pairs: Pairs = [
        (constant([2 * largest]), places.place),
        (-largest * as_linear(share), places.square),
        (constant([largest]), constant([Fraction(-largest, 2)])),  # half of the greatest logit there is
    ]
    value = joined([places.place, places.square])
    return _select(layer, name, places, pairs, value, gap=Fraction(3, 4))


def match(layer: LayerScript, name: str, places: Places, *, key: Mark, query: Mark, value: Term) -> Field:
    """MATCH: the value at the first position that matches, at position 1 if there is none.

    Logit −N·D − k′ + [k′ = 1]·(N·E − N). Gap: a match has −k′ ≥ −N, an earlier one at least 1 more; position
    1 has −N − 1; any other has at most −N − 2. A factor of N is the least with which all three differ by 1.
    """
    n = places.longest
    pairs = _unlike(places, n, key, query)
    pairs.append((constant([-1]), places.place + n * places.first))
    return _select(layer, name, places, pairs, value)


def close(layer: LayerScript, name: str, places: Places, *, key: Mark, query: Mark, value: Term) -> Field:
    """CLOSE: the value at the last position that matches, at position 1 if there is none.

    Logit −N·D + k′ + [k′ = 1]·N·E. Gap: a match has k′ ≥ 2, a later one at least 1 more; position 1 has 1;
    any other has at most −N + N = 0. Again N is the least factor.
    """
    pairs = _unlike(places, places.longest, key, query)
    pairs.append((constant([1]), places.place))
    return _select(layer, name, places, pairs, value)


def only(layer: LayerScript, name: str, places: Places, *, key: Mark, query: Mark, value: Term) -> Field:
    """The mean of the value over all positions that match, its value at position 1 if there is none.

    For marks that at most one position has, or positions whose values agree: it needs no factor that grows.
    Logit −2D + [k′ = 1]·(2E − 1). Gap: a match has 0, position 1 has −1, any other at most −2.
    """
    pairs = _unlike(places, 2, key, query)
    pairs.append((constant([-1]), places.first))
    return _select(layer, name, places, pairs, value)


def nearest(
    layer: LayerScript,
    name: str,
    places: Places,
    *,
    key: Mark,
    query: Mark,
    near: Term,
    value: Term,
    low: int | None = None,
    high: int | None = None,
) -> Field:
    """NEAREST: the value at the match nearest to position `near`, the later of two; if none, at position 1.

    `near` is a whole number t from `low` to `high` (by its own range, if nothing is said), inside the text or
    not. With u = k′ − t the logit is −B·D − (3u² − u)/2 + [k′ = 1]·(B·E − α − βt).

    The pentagonal numbers (3u² − u)/2 for u = 0, 1, −1, 2, −2, … are 0, 1, 2, 5, 7, 12, …: they order
    positions by distance, the later of two first, and no two are less than 1 apart; no smaller multiple of u²
    does that. Position 1 has −g(t), where g(t) = (3(1−t)² − (1−t))/2 + α + βt, and must lie at least 1 below
    every match: α + βt ≥ max_{k′} (3u² − u)/2 − (3(1−t)² − (1−t))/2 + 1. The largest is that of k′ = 2 or of
    k′ = N, and either way the square of t cancels: the right side is the greater of two linear functions, so
    the line α + βt through its values at both ends of the range lies above it. Others must lie 1 below
    position 1: B is the largest g(t) + 1 − min_{k′} (3u² − u)/2 there is. For 1 ≤ t ≤ N it is about 3N²/2.
    """
    target = as_linear(near)
    ends = target.bounds()[0]
    least, most = math.ceil(ends[0]) if low is None else low, math.floor(ends[1]) if high is None else high
    factor, alpha, beta = nearest_coefficients(places.longest, least, most)
    pairs = _unlike(places, factor, key, query)
    # −(3u² − u)/2 without what t alone gives: 3tk′ − (3k′² − k′)/2. The square of t is not known here; a
    # line through its values at both ends stands for it.
    pairs.append((3 * target + Fraction(1, 2), places.place))
    pairs.append((constant([Fraction(-3, 2)]), places.square))
    pairs.append((Fraction(3, 2) * ((least + most) * target - least * most), constant([-1])))
    pairs.append((-alpha - beta * target, places.first))
    return _select(layer, name, places, pairs, value)


@functools.cache
def nearest_coefficients(longest: int, low: int, high: int) -> tuple[int, int, int]:
    """B, α and β of NEAREST for positions up to `longest` and targets from `low` to `high`."""
    assert low <= high, "a target has a range"

    def above(t: int) -> int:
        return max(pentagonal(2 - t), pentagonal(longest - t)) - pentagonal(1 - t) + 1

    # Anchored at the upper end, a slope rounded down keeps the line above and its values whole.
    slope = (above(high) - above(low)) // (high - low) if high > low else 0
    start = above(high) - slope * high

    def needed(t: int) -> int:
        closest = min(max(t, 2), longest)
        return pentagonal(1 - t) + start + slope * t + 1 - pentagonal(closest - t)

    return max(needed(t) for t in range(low, high + 1)), start, slope


def pentagonal(u: int) -> int:
    """(3u² − u)/2."""
    return (3 * u * u - u) // 2


def exact_next(
    layer: LayerScript,
    name: str,
    places: Places,
    *,
    key: Mark,
    query: Mark,
    key_count: Mark,
    query_count: Mark,
    value: Term,
) -> Field:
    """EXACTNEXT: the value at the match whose count is one more than the query's; if none, at position 1.

    Counts are whole numbers, as `tally` gives them, with their squares; the key's count must be 0 at position
    1 (take the field `first` away from m and from m²). The count is one more number of the mark, so this is
    `only`: logit −2(D + (m′ − m − 1)²) + [k′ = 1]·(2E + 2(m + 1)² − 1), with the same gap. At most one
    position should have a mark and a count together; the mean is taken over several.
    """
    return only(
        layer,
        name,
        places,
        key=key.and_(key_count),
        query=query.and_(query_count.plus_one()),
        value=value,
    )


def exact_next_share(
    layer: LayerScript,
    name: str,
    places: Places,
    *,
    key: Mark,
    query: Mark,
    key_share: Mark,
    query_share: Mark,
    value: Term,
    most: int,
) -> Field:
    """EXACTNEXT on shares x = 1/m and y = 1/m′ themselves, m and m′ at most `most`; y is 0 at position 1.

    Logit −2D − 2M⁴(x − (1 + x)y)² + [k′ = 1]·(2E + 2M⁴x² − 1), M = most. Gap: x − (1 + x)y is
    (m′ − m − 1)/(mm′), which is 0 for the successor and else at least 1/M² in size (the least is at
    m = m′ = M), or 1/m where y = 0. So a match with the next count has 0, position 1 has −1, any other at
    most −2. Shares and their squares are rounded, and 2M⁴ makes much of it: a quarter of the gap is left to
    that. `exact_next` compares whole numbers instead and needs about half the bits.
    """
    x, x2 = as_linear(query_share.form), as_linear(query_share.square)
    factor = 2 * most**4
    pairs = _unlike(places, 2, key, query)
    pairs.append((constant([-1]), places.first))
    pairs.append((2 * factor * (x + x2), key_share.form))
    pairs.append((-factor * (1 + 2 * x + x2), key_share.square))
    pairs.append((factor * x2, places.first - 1))
    return _select(layer, name, places, pairs, value, gap=Fraction(3, 4))


def match_next(
    layer: LayerScript,
    name: str,
    places: Places,
    *,
    key: Mark,
    query: Mark,
    key_share: Mark,
    next_share: Mark,
    value: Term,
    most: int,
) -> Field:
    """W's MATCHNEXT: the value at the match whose share 1/m′ is nearest to z = 1/(m + 1), else at position 1.

    It is here to be shown wrong. As long as the matches have all counts from 1 on, what it finds is the
    successor or has a count of at most m, and the reader can tell. A head that sees only some of the counted
    positions finds a match with a larger count that is no successor. Counts are at most M = most, and the
    share y = 1/m′ is 0 at position 1. Logit −B·D − M⁴(y − z)² + [k′ = 1]·(B·E + M⁴z² − B + 1), B = M⁴ + 2.
    Gap, for counts from 1 on: if m + 1 is among them the others are off by 1/(m(m+1)) or 1/((m+1)(m+2)) at
    least, else the largest leads by no less than the square of the step to the one before; both make 1. A
    match has more than 2 − B, position 1 has 1 − B, any other at most −B. A quarter of the gap is left to the
    rounding of shares.
    """
    power = most**4
    factor = power + 2
    z, z_square = as_linear(next_share.form), as_linear(next_share.square)
    pairs = _unlike(places, factor, key, query)
    pairs.append((2 * power * z, key_share.form))
    pairs.append((constant([-power]), key_share.square))
    pairs.append((power * z_square, places.first - 1))
    pairs.append((constant([1 - factor]), places.first))
    return _select(layer, name, places, pairs, value, gap=Fraction(3, 4))


def _unlike(places: Places, factor: Exact, key: Mark, query: Mark) -> Pairs:
    """−factor·D + [k′ = 1]·factor·E, as 2⟨q, k⟩ − ⟨k, k⟩ − (1 − [k′ = 1])·⟨q, q⟩."""
    return [
        (2 * as_linear(query.form), factor * as_linear(key.form)),
        (constant([-factor]), key.square),
        (query.square, factor * (places.first - 1)),
    ]


def _select(
    layer: LayerScript, name: str, places: Places, pairs: Pairs, value: Term, *, gap: Exact = 1
) -> Field:
    rivals = [Rival(gap=Fraction(gap), count=places.longest)]
    balanced = [_balanced(as_linear(query), as_linear(key)) for query, key in pairs]
    return layer.select(name, match=balanced, value=value, rivals=rivals, hard=True)


def _balanced(query: Linear, key: Linear) -> tuple[Linear, Linear]:
    """The same product with both sides about as large, once the query has its scale."""
    asked, offered = (max(max(-low, high) for low, high in form.bounds()) for form in (query, key))
    if not asked or not offered:
        return query, key
    shift = round(math.log2(_USUAL_SCALE * asked / offered) / 2)
    power = Fraction(2) ** shift
    return query * (1 / power), key * power
