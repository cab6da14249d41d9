"""The p-bit numbers a second, slower way: fractions, and decimal exponentials of 160 digits."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

from separatrix.precision import FixedDown, FixedNearest, Numbers, NumberSystem

Fixed = FixedDown | FixedNearest

SYSTEMS: tuple[Fixed, ...] = (
    *(FixedDown(n=n, k=k) for n in (2, 3, 10, 1000, 2**20) for k in (1, 2, 3)),
    FixedDown(n=2**20, k=4),
    *(FixedNearest(p=p) for p in (3, 5, 7, 21, 41, 63, 65, 121)),
)


SOME: tuple[Fixed, ...] = (
    FixedDown(n=2, k=1),
    FixedDown(n=10, k=3),
    FixedDown(n=1000, k=3),
    FixedDown(n=2**20, k=2),
    FixedNearest(p=3),
    FixedNearest(p=41),
    FixedNearest(p=65),
)


def step_of(system: Fixed) -> Fraction:
    if isinstance(system, FixedDown):
        return Fraction(1, system.n**system.k)
    return Fraction(1, 2 ** ((system.p - 1) // 2))


def end_of(system: Fixed) -> Fraction:
    if isinstance(system, FixedDown):
        return Fraction(system.n**system.k)
    return sum((Fraction(2) ** ((system.p - 1) // 2 - i) for i in range(1, system.p)), Fraction(0))


def rounded(system: Fixed, value: Fraction) -> Fraction:
    """The definition: the largest multiple below, or the nearest, ties to the even one; then the range."""
    step, end = step_of(system), end_of(system)
    below = math.floor(value / step)
    if isinstance(system, FixedNearest):
        rest = value / step - below
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1)
        below += up
    return min(max(below * step, -end), end)


def true_exp(value: Fraction) -> Fraction:
    """e^value to 160 digits, far more than the tested arguments need to be rounded rightly."""
    with localcontext() as context:
        context.prec = 160
        return Fraction((Decimal(value.numerator) / Decimal(value.denominator)).exp())


def rounded_exp(system: Fixed, value: Fraction) -> Fraction:
    if value > 2000:
        return end_of(system)
    return rounded(system, Fraction(1) if value == 0 else true_exp(value) if value > -2000 else Fraction(0))


def softmax_every_step(system: Fixed, logits: Sequence[Fraction]) -> list[Fraction]:
    top = max(logits)
    exps = [rounded_exp(system, rounded(system, logit - top)) for logit in logits]
    total = rounded(system, sum(exps, Fraction(0)))
    return [rounded(system, each / total) for each in exps]


def softmax_last_step(system: Fixed, logits: Sequence[Fraction]) -> list[Fraction]:
    top = max(logits)
    exps = [true_exp(max(logit - top, Fraction(-200))) if logit != top else Fraction(1) for logit in logits]
    total = sum(exps, Fraction(0))
    return [rounded(system, each / total) for each in exps]


def members(system: Fixed, count: int, seed: int, *, spread: int | None = None) -> list[Fraction]:
    """Numbers of the system: ends, 0, 1, single steps, then random ones of every magnitude."""
    source = random.Random(f"{system} {seed}")
    step, end = step_of(system), end_of(system)
    most = int(end / step) if spread is None else min(int(end / step), int(spread / step))
    found = [Fraction(0), step, -step, Fraction(1), Fraction(-1)]
    found += [end, -end, end - step, step - end] if spread is None else []
    while len(found) < count:
        found.append(source.randint(-most >> source.randint(0, most.bit_length()), most) * step)
        found.append(-source.randint(0, max(most >> source.randint(0, most.bit_length()), 1)) * step)
    source.shuffle(found)
    return found[:count]


def listed(system: NumberSystem, numbers: Numbers) -> list[Fraction]:
    return list(system.decode(numbers).reshape(-1))
