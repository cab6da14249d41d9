"""Floats behind the same interface, and the numbers' own shape operations."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.precision import FixedDown, Float32, Float64, NumberSystem, concatenate, stack
from tests.precision.oracle import listed

FLOATS: tuple[NumberSystem, ...] = (Float32(), Float64())


def test_sizes_are_ieees() -> None:
    assert (Float32().bits, Float64().bits) == (32, 64)
    assert Float32().largest == Fraction((2**24 - 1) * 2**104)
    assert Float32().smallest == Fraction(1, 2**149)
    assert Float64().largest == Fraction((2**53 - 1) * 2**971)
    assert Float64().smallest == Fraction(1, 2**1074)


@pytest.mark.parametrize(("system", "mantissa"), [(Float32(), 24), (Float64(), 53)], ids=str)
def test_encode_rounds_once_to_nearest_even(system: NumberSystem, mantissa: int) -> None:
    ulp = Fraction(1, 2 ** (mantissa - 1))
    hair = Fraction(1, 2**80)
    cases = {
        1 + ulp / 2: 1 + 0 * ulp,
        1 + ulp / 2 + hair: 1 + ulp,
        1 + 3 * ulp / 2: 1 + 2 * ulp,
        1 + 3 * ulp / 2 - hair: 1 + ulp,
        -1 - ulp / 2 - hair: -1 - ulp,
        system.smallest / 2: Fraction(0),
        system.smallest * 3 / 4: system.smallest,
        system.largest * 2: system.largest,
        -system.largest * 10**400: -system.largest,
        Fraction(0): Fraction(0),
    }
    assert listed(system, system.encode(list(cases))) == list(cases.values())


def test_float32_from_float64_is_clamped_and_keeps_its_shape() -> None:
    system = Float32()
    got = system.encode(torch.tensor([[1e300, -1e300], [0.5, 1.0]], dtype=torch.float64))
    assert system.decode(got).tolist() == [[system.largest, -system.largest], [Fraction(1, 2), 1]]
    assert got.parts[0].dtype == torch.float32
    assert system.encode(np.array([0.1])).parts[0].item() == np.float32(0.1)


@pytest.mark.parametrize("system", FLOATS, ids=str)
def test_operations_are_torchs(system: NumberSystem) -> None:
    left, right = torch.tensor([1.5, -2.25, 0.1]), torch.tensor([0.75, 4.0, -3.0])
    a, b = system.encode(left), system.encode(right)
    x, y = a.parts[0], b.parts[0]
    for got, want in (
        (system.add(a, b), x + y),
        (system.subtract(a, b), x - y),
        (system.multiply(a, b), x * y),
        (system.divide(a, b), x / y),
        (system.negate(a), -x),
        (system.exp(a), torch.exp(x)),
        (system.relu(a), torch.relu(x)),
        (system.max(a, 0), x.amax(0)),
        (system.sum(a, 0), x.sum(0)),
        (system.dot(a, b), x @ y),
        (system.where(x > 0, a, b), torch.where(x > 0, x, y)),
    ):
        assert torch.equal(got.parts[0], want)
    assert system.compare(a, b).tolist() == [1, -1, 1]
    assert int(system.argmax(system.encode([1, 3, 3]), 0)) == 1


@pytest.mark.parametrize("system", FLOATS, ids=str)
def test_what_has_no_finite_value_is_refused(system: NumberSystem) -> None:
    for value in (torch.nan, torch.inf):
        with pytest.raises(InvalidInput, match="got infinity or NaN"):
            system.encode(torch.tensor([value]))
    with pytest.raises(InvalidInput, match="A divisor must not be 0"):
        system.divide(system.encode(1), system.encode(0))
    overflow = system.exp(system.encode(10**5))
    with pytest.raises(InvalidInput, match="got inf"):
        system.decode(overflow)


@pytest.mark.parametrize("system", [FixedDown(n=2**20, k=2), Float64()], ids=str)
def test_numbers_reshape_like_tensors(system: NumberSystem) -> None:
    numbers = system.encode([[1, 2, 3], [4, 5, 6]])
    assert numbers.shape == (2, 3)
    assert listed(system, numbers.reshape(3, 2)[1]) == [3, 4]
    assert listed(system, numbers.transpose(0, 1)[0]) == [1, 4]
    assert listed(system, numbers[:, 2]) == [3, 6]
    assert listed(system, numbers[:, :1].expand(2, 2)) == [1, 1, 4, 4]
    assert listed(system, stack([numbers[0], numbers[1]], axis=1)) == [1, 4, 2, 5, 3, 6]
    assert listed(system, concatenate([numbers, numbers[:, :1]], axis=1)) == [1, 2, 3, 1, 4, 5, 6, 4]
    with pytest.raises(InvalidInput, match="was given numbers of Float32"):
        stack([numbers[0], Float32().encode([1, 2, 3])])
