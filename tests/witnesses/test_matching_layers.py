"""UP-M3 and the local form of R-M3′: attention gathers numbers, and the feed-forward map decides."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.models.explicit.codes import SignCode
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks.match3 import Match3
from separatrix.witnesses import Choices, Witness, witness_for

from .checking import right_on_every_input, right_on_samples, wrong_answers

SYSTEMS: tuple[NumberSystem, ...] = (Float64(), Float32(), FixedDown(n=16, k=4), FixedNearest(p=41))


def wide(system: NumberSystem | None = None, **options: Any) -> Witness:
    task = Match3(**options)
    return witness_for(task, family="transformer-1", variant="", choices=Choices(system=system or Float64()))


def local(system: NumberSystem | None = None, **options: Any) -> Witness:
    task = Match3(variant="local", **options)
    return witness_for(task, choices=Choices(system=system or Float64()))


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("distinct", [False, True])
def test_whole_rows_on_every_input(system: NumberSystem, distinct: bool) -> None:
    assert right_on_every_input(wide(system, n=3, modulus=4, distinct=distinct))


@pytest.mark.parametrize("distinct", [False, True])
def test_longer_rows_on_every_input(distinct: bool) -> None:
    assert right_on_every_input(wide(n=5, modulus=4, distinct=distinct))


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("distinct", [False, True])
def test_windows_on_every_input(system: NumberSystem, distinct: bool) -> None:
    assert right_on_every_input(local(system, n=4, modulus=3, window=1, distinct=distinct))


@pytest.mark.parametrize("window", [1, 2, 3, 64])
def test_windows_of_every_size_on_every_input(window: int) -> None:
    assert right_on_every_input(local(n=5, modulus=3, window=window))
    assert right_on_every_input(local(n=4, modulus=5, window=window, distinct=True))


@pytest.mark.parametrize("system", [Float64(), Float32(), FixedNearest(p=51)], ids=str)
def test_sums_one_away_from_every_multiple(system: NumberSystem) -> None:
    modulus = 1000
    rows = []
    for off in (-1, 1):
        for multiple in (0, modulus, 2 * modulus):
            row = torch.full((12,), modulus - 1 if multiple else 0)
            row[5] = min(max(multiple + off - int(row[4] + row[6]), 0), modulus - 1)
            rows.append(row)
    batch = torch.stack(rows)
    for witness in (wide(system, n=12, modulus=modulus), local(system, n=12, modulus=modulus, window=1)):
        assert wrong_answers(witness.model, witness.task, batch) == 0


@pytest.mark.slow
def test_random_rows() -> None:
    assert right_on_samples(wide(n=16, modulus=250), count=8)
    assert right_on_samples(wide(n=16, modulus=250, distinct=True), count=8)
    assert right_on_samples(local(n=60, modulus=40, window=3), count=8)
    assert right_on_samples(local(n=60, modulus=40, window=3, distinct=True), count=8)


@pytest.mark.slow
def test_sizes_are_those_of_the_theorems() -> None:
    row = wide(n=16, modulus=100)
    heads = row.model.layers[0].heads  # type: ignore[attr-defined]
    assert (row.theorem, len(heads), heads[0].inner) == ("UP-M3", 16, 4)
    assert row.size.ffn_width == 6 * 136
    widths = [local(n=48, modulus=9, window=reach).model.inputs.code.dim for reach in (1, 2, 4)]  # type: ignore[attr-defined]
    assert all(width <= 32 * (2 * reach + 1) for width, reach in zip(widths, (1, 2, 4), strict=True))
    code = local(n=48, modulus=9, window=2).model.inputs.code  # type: ignore[attr-defined]
    assert isinstance(code, SignCode)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at most 48 numbers"):
        wide(n=64, modulus=10)
    with pytest.raises(InvalidInput, match="more bits"):
        wide(FixedNearest(p=15), n=4, modulus=1000)
    with pytest.raises(InvalidInput, match="variant"):
        witness_for(Match3(n=8, modulus=9, variant="bigram"))
