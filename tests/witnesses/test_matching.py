"""R-M2, R-M3 and the last-output form of R-M3′: matching by cosines."""

from __future__ import annotations

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks import Task
from separatrix.tasks.match2 import Match2
from separatrix.tasks.match3 import Match3
from separatrix.witnesses import Choices, Witness, witness_for

from .checking import evaluators_agree, right_on_every_input, right_on_samples, wrong_answers

SYSTEMS: tuple[NumberSystem, ...] = (
    Float64(),
    Float32(),
    FixedDown(n=16, k=4),
    FixedNearest(p=25),
    FixedNearest(p=61),
)


def built(task: Task, system: NumberSystem | None = None, family: str | None = None) -> Witness:
    return witness_for(task, family=family, choices=Choices(system=system or Float64()))


def triples(n: int, modulus: int, system: NumberSystem | None = None) -> Witness:
    return built(Match3(n=n, modulus=modulus), system, family="third-order")


def last(n: int, modulus: int, system: NumberSystem | None = None) -> Witness:
    return built(Match3(n=n, modulus=modulus, variant="last"), system)


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize(("n", "modulus"), [(2, 2), (3, 3), (3, 7), (4, 4)])
def test_pairs_on_every_input(n: int, modulus: int, system: NumberSystem) -> None:
    assert right_on_every_input(built(Match2(n=n, modulus=modulus), system))


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize(("n", "modulus"), [(3, 2), (3, 5), (4, 3)])
def test_triples_on_every_input(n: int, modulus: int, system: NumberSystem) -> None:
    assert right_on_every_input(triples(n, modulus, system))


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize(("n", "modulus"), [(3, 3), (4, 5), (5, 4)])
def test_the_last_output_on_every_input(n: int, modulus: int, system: NumberSystem) -> None:
    assert right_on_every_input(last(n, modulus, system))


def near_misses(n: int, modulus: int, order: int) -> torch.Tensor:
    """Every sum with the first number is 1 away from 0, or M − 1; then once more with a match at the end."""
    rows = []
    for off in (1, modulus - 1):
        for other in (modulus // 5, 1, modulus // 2 - 1):
            first = (off - (order - 1) * other) % modulus
            row = torch.full((n,), other)
            row[0] = first
            rows.append(row)
            matched = row.clone()
            matched[-1] = -(first + (order - 2) * other) % modulus
            rows.append(matched)
    return torch.stack(rows)


@pytest.mark.parametrize(
    ("n", "modulus", "system"),
    [
        (64, 2048, Float32()),
        (64, 100_000, Float64()),
        (512, 10**7, Float64()),
        (64, 1000, FixedDown(n=64, k=4)),
        (64, 20_000, FixedNearest(p=81)),
    ],
    ids=str,
)
def test_pairs_that_nearly_match(n: int, modulus: int, system: NumberSystem) -> None:
    witness = built(Match2(n=n, modulus=modulus), system)
    assert wrong_answers(witness.model, witness.task, near_misses(n, modulus, 2)) == 0


@pytest.mark.parametrize(
    ("n", "modulus", "system"),
    [
        (24, 1000, Float32()),
        (24, 100_000, Float64()),
        (12, 10**7, Float64()),
        (10, 500, FixedDown(n=64, k=4)),
    ],
    ids=str,
)
def test_triples_that_nearly_match(n: int, modulus: int, system: NumberSystem) -> None:
    witness = triples(n, modulus, system)
    assert wrong_answers(witness.model, witness.task, near_misses(n, modulus, 3)) == 0


@pytest.mark.parametrize(("n", "modulus", "system"), [(48, 1500, Float32()), (48, 10**6, Float64())], ids=str)
def test_the_last_output_among_near_misses(n: int, modulus: int, system: NumberSystem) -> None:
    rows = near_misses(n - 1, modulus, 2)
    rows = torch.nn.functional.pad(rows, (0, 1))
    witness = last(n, modulus, system)
    assert wrong_answers(witness.model, witness.task, rows) == 0


def test_a_blunter_head_fails_on_near_misses() -> None:
    witness = built(Match2(n=64, modulus=1000))
    witness.model.layers[0].heads[0].query.mul_(0.6)  # type: ignore[attr-defined]
    assert wrong_answers(witness.model, witness.task, near_misses(64, 1000, 2)) > 0


def test_random_rows() -> None:
    assert right_on_samples(built(Match2(n=200)), count=4)
    assert right_on_samples(triples(24, 400), count=4)
    assert right_on_samples(last(100, 5000), count=20)
    assert right_on_samples(
        built(Match3(n=31, modulus=40, variant="last", instances="disjointness")), count=40
    )


@pytest.mark.slow
def test_the_three_evaluators_agree() -> None:
    for witness in (built(Match2(n=2, modulus=3)), last(3, 3)):
        rows = [row for chunk in witness.task.enumerate() for row in chunk]
        assert all(evaluators_agree(witness, row) for row in rows)


def test_widths_are_those_of_the_theorems() -> None:
    pairs, three, end = built(Match2(n=64, modulus=999)), triples(64, 999), last(64, 999)
    assert pairs.model.layers[0].heads[0].inner == 3  # type: ignore[attr-defined]
    assert three.model.layers[0].heads[0].inner == 5  # type: ignore[attr-defined]
    assert (pairs.size.layers, three.size.layers, end.size.layers) == (1, 1, 2)
    assert (pairs.size.width, three.size.width, end.size.width) == (4, 4, 6)
    assert {each.size.heads for each in (pairs, three, end)} == {1}
    keys = [(each.theorem, each.family, each.variant) for each in (pairs, three, end)]
    assert keys == [
        ("R-M2", "transformer-1", ""),
        ("R-M3", "third-order", ""),
        ("R-M3′", "transformer-2", "last-output"),
    ]


def test_what_a_unit_cannot_see_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not where they stand"):
        built(Match2(n=4, modulus=4, distinct=True))
    with pytest.raises(InvalidInput, match="not where they stand"):
        built(Match3(n=4, modulus=4, distinct=True), family="third-order")
    with pytest.raises(InvalidInput, match="not where they stand"):
        built(Match3(n=4, modulus=4, variant="last", distinct=True), family="transformer-2")


def test_residues_too_close_for_the_arithmetic_are_refused() -> None:
    with pytest.raises(InvalidInput, match="take a modulus up to about 22"):
        built(Match2(n=64, modulus=8192), Float32())
    with pytest.raises(InvalidInput, match="more bits"):
        triples(64, 10**5, FixedNearest(p=25))
