"""By how much the target of each search head leads: every case there is, in exact numbers.

A case is a position that a query looks at: a match, position 1, or another one, with the numbers on which its
logit depends. `order` says which of two a head ought to prefer. The least lead is the least difference of
two logits in that order. Logits fall with the distance D of two marks, so D = 1 stands for all that do not
match, and E cancels, so a few values stand for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from separatrix.witnesses.language.search_heads import nearest_coefficients, pentagonal

__all__ = ["LAWS", "Law", "Look", "least_lead", "proven_gap"]


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a query finds at a place: D, E, and what some heads compare besides.

    `wanted` is the place a query wants (COPY, tally) or wants to be near; `count` is the key's count m′ and
    `asked` the query's, m.
    """

    place: int
    distance: int = 0
    square: int = 1
    wanted: int = 1
    count: int = 0
    asked: int = 1

    @property
    def first(self) -> int:
        """1 at position 1."""
        return int(self.place == 1)


Order = tuple[Fraction | int, ...]


@dataclass(frozen=True)
class Law:
    """A head's logit, for texts up to n; what it ought to prefer, the least first; and all it can meet."""

    logit: Callable[[Look, int], Fraction]
    order: Callable[[Look], Order]
    queries: Callable[[int], Iterator[list[Look]]]
    """For each query, all that may stand before it."""


def proven_gap(head: str, n: int) -> Fraction:
    """The least lead of a head's target over a rival, for texts of up to n tokens, by going through all."""
    return least_lead(LAWS[head], n)


def least_lead(law: Law, n: int) -> Fraction:
    """The least difference of the logits of two positions of which one is to be preferred.

    Positions that are equally good must have equal logits.
    """
    least: Fraction | None = None
    for looks in law.queries(n):
        groups: dict[Order, list[Fraction]] = {}
        for look in looks:
            groups.setdefault(law.order(look), []).append(law.logit(look, n))
        ranked = [groups[order] for order in sorted(groups)]
        better = min(ranked[0])
        for i, group in enumerate(ranked):
            if i < len(ranked) - 1:
                assert min(group) == max(group), "what is equally good has one logit"
            if i:
                lead = better - max(group)
                least = lead if least is None else min(least, lead)
                better = min(better, *group)
    assert least is not None, "a text of one token has no rivals"
    return least


def _marked(look: Look, factor: int) -> int:
    """−factor·D + [k′ = 1]·factor·E."""
    return -factor * look.distance + look.first * factor * look.square


def _copied(look: Look, n: int) -> Fraction:
    return Fraction(-((look.wanted - look.place) ** 2))


def _tallied(look: Look, n: int) -> Fraction:
    return n * (2 * look.place - Fraction(look.place**2, look.wanted))


def _counted(look: Look, n: int) -> Fraction:
    return Fraction(_marked(look, 1))


def _matched(look: Look, n: int) -> Fraction:
    return Fraction(_marked(look, n) - look.place - look.first * n)


def _closed(look: Look, n: int) -> Fraction:
    return Fraction(_marked(look, n) + look.place)


def _neared(look: Look, n: int) -> Fraction:
    factor, alpha, beta = nearest_coefficients(n, 1, n)
    far = pentagonal(look.place - look.wanted)
    return Fraction(_marked(look, factor) - far - look.first * (alpha + beta * look.wanted))


def _alone(look: Look, n: int) -> Fraction:
    return Fraction(_marked(look, 2) - look.first)


def _next(look: Look, n: int) -> Fraction:
    off = (look.count - look.asked - 1) ** 2
    return _alone(look, n) - 2 * off + look.first * 2 * (look.asked + 1) ** 2


def _next_share(look: Look, n: int) -> Fraction:
    x, y = Fraction(1, look.asked), _share(look)
    return _alone(look, n) - 2 * n**4 * ((x - (1 + x) * y) ** 2 - look.first * x**2)


def _next_by_w(look: Look, n: int) -> Fraction:
    z, y = Fraction(1, look.asked + 1), _share(look)
    factor = n**4 + 2
    return _marked(look, factor) - n**4 * ((y - z) ** 2 - look.first * z**2) - look.first * (factor - 1)


def _share(look: Look) -> Fraction:
    return Fraction(1, look.count) if look.count else Fraction(0)


def _target(look: Look) -> Order:
    return (int(look.place != max(1, look.wanted)),)


def _ranked(best: Callable[[Look], Order]) -> Callable[[Look], Order]:
    """Matches in their order, then position 1, then all others."""

    def order(look: Look) -> Order:
        if look.first:
            return (1,)
        return (2,) if look.distance else (0, *best(look))

    return order


def _tied_with_first(look: Look) -> Order:
    return (int(bool(look.distance) and not look.first),)


def _successor(look: Look) -> Order:
    if look.first:
        return (1,)
    return (0,) if not look.distance and look.count == look.asked + 1 else (2,)


def _nearest_share(look: Look) -> Order:
    """The match with the count that is wanted, or position 1 where that is 0; the rest in any order."""
    found = look.first if not look.wanted else not look.distance and look.count == look.wanted
    return (int(not found),)


def _by_place(n: int, wanted: range) -> Iterator[list[Look]]:
    for target in wanted:
        yield [Look(place=place, wanted=target) for place in range(1, n + 1)]


def _by_mark(n: int) -> Iterator[list[Look]]:
    """Whether each place matches or not; the place that is wanted is anywhere."""
    for square in (1, 4, n * n):
        for wanted in range(1, n + 1):
            found = [Look(place=1, distance=square, square=square, wanted=wanted)]
            for place in range(2, n + 1):
                found += [
                    Look(place=place, distance=distance, square=square, wanted=wanted)
                    for distance in (0, 1, 2)
                ]
            yield found


def _by_count(n: int) -> Iterator[list[Look]]:
    """Matches and others with every count; the place plays no part."""
    for asked in range(1, n + 1):
        found = [Look(place=1, distance=1, asked=asked)]
        found += [
            Look(place=2, distance=distance, count=m, asked=asked)
            for distance in (0, 1, 2)
            for m in range(n + 1)
        ]
        yield found


def _consecutive(n: int) -> Iterator[list[Look]]:
    """Matches with all counts from 1 to some number, or none; `wanted` is the count that is to be found."""
    for asked in range(1, n):
        for largest in range(n + 1):
            wanted = min(largest, asked + 1)
            found = [Look(place=1, distance=1, asked=asked, wanted=wanted)]
            for m in range(n + 1):
                distances = (0, 1) if 1 <= m <= largest else (1,)
                found += [
                    Look(place=2, distance=distance, count=m, asked=asked, wanted=wanted)
                    for distance in distances
                ]
            yield found


LAWS: Final[Mapping[str, Law]] = MappingProxyType(
    {
        "COPY": Law(_copied, _target, lambda n: _by_place(n, range(-n, n + 1))),
        "COUNT": Law(_counted, _tied_with_first, _by_mark),
        "tally": Law(_tallied, _target, lambda n: _by_place(n, range(1, n + 1))),
        "MATCH": Law(_matched, _ranked(lambda look: (look.place,)), _by_mark),
        "CLOSE": Law(_closed, _ranked(lambda look: (-look.place,)), _by_mark),
        "NEAREST": Law(_neared, _ranked(lambda look: (abs(look.place - look.wanted), -look.place)), _by_mark),
        "only": Law(_alone, _ranked(lambda look: ()), _by_mark),
        "EXACTNEXT": Law(_next, _successor, _by_count),
        "EXACTNEXT on shares": Law(_next_share, _successor, _by_count),
        "MATCHNEXT": Law(_next_by_w, _nearest_share, _consecutive),
    }
)
