"""Random numbers of a system and boxes around them, for tests that compute and enclose the same thing."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from separatrix.certificates.enclosures import Box
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, Numbers, NumberSystem

FIXED: tuple[NumberSystem, ...] = (
    FixedDown(n=2, k=1),
    FixedDown(n=8, k=1),
    FixedDown(n=10, k=3),
    FixedDown(n=1024, k=2),
    FixedNearest(p=3),
    FixedNearest(p=9),
    FixedNearest(p=15),
    FixedNearest(p=31),
    FixedNearest(p=65),
)
FLOATS: tuple[NumberSystem, ...] = (Float32(), Float64())
SYSTEMS = FIXED + FLOATS


def seeds(quick: int, slow: int) -> list[object]:
    """A few seeds that are always tried, and all up to a larger number in the long run."""
    return [pytest.param(seed, marks=pytest.mark.slow if seed >= quick else ()) for seed in range(slow)]


def reals(dice: random.Random, shape: tuple[int, ...], scale: float) -> NDArray[np.object_]:
    """Fractions of several kinds: round ones, small ones, long ones, zeros and signs."""
    array = np.empty(shape, dtype=object)
    for place in np.ndindex(shape):
        kind = dice.randrange(5)
        if kind == 0:
            array[place] = Fraction(dice.randint(-3, 3))
        elif kind == 1:
            array[place] = Fraction(dice.randint(-16, 16), 8)
        elif kind == 2:
            array[place] = Fraction(dice.gauss(0, 1e-3))
        else:
            array[place] = Fraction(dice.gauss(0, scale))
    return array


def numbers(dice: random.Random, system: NumberSystem, shape: tuple[int, ...], scale: float = 2.0) -> Numbers:
    return system.encode(reals(dice, shape, scale))


def around(dice: random.Random, system: NumberSystem, value: Numbers) -> Box:
    """A box that holds the numbers; some intervals are points, some wide, some one-sided."""
    exact = system.decode(value)
    low, high = exact.copy(), exact.copy()
    for place in np.ndindex(exact.shape):
        kind = dice.randrange(4)
        slack = Fraction(dice.choice([1, 3, 40]), dice.choice([1000, 10, 4]))
        low[place] -= slack if kind in (1, 2) else 0
        high[place] += slack if kind in (1, 3) else 0
    return Box.between(low, high)


def point(system: NumberSystem, value: Numbers) -> Box:
    return Box.exact(system.decode(value))


def tight_or_wide(dice: random.Random, system: NumberSystem, value: Numbers) -> Box:
    return around(dice, system, value) if dice.random() < 0.5 else point(system, value)


def shuffled(dice: random.Random, size: int) -> torch.Tensor:
    order = list(range(size))
    dice.shuffle(order)
    return torch.tensor(order)
