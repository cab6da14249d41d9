"""The proofs of R-M2, R-M3, R-M3′, UP-M3: they go through on honest weights and on no others that matter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from separatrix.certificates import certify
from separatrix.certificates.enclosures import real, rounding_of
from separatrix.certificates.proofs import proof_for
from separatrix.certificates.proofs.matching import CircleHead, cosine_of_turn, points
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.linear import affine
from separatrix.models.explicit.transformer import UnmaskedTransformer
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks import Task
from separatrix.tasks.match2 import Match2
from separatrix.tasks.match3 import Match3
from separatrix.witnesses import Choices, Witness, witness_for
from tests.certificates.proving import proved
from tests.witnesses.checking import mutations, right_on_every_input


def built(task: Task, system: NumberSystem, family: str | None = None, variant: str | None = None) -> Witness:
    return witness_for(task, family=family, variant=variant, choices=Choices(system=system))


def pairs(n: int, modulus: int, system: NumberSystem) -> Witness:
    return built(Match2(n=n, modulus=modulus), system)


def triples(n: int, modulus: int, system: NumberSystem) -> Witness:
    return built(Match3(n=n, modulus=modulus), system, family="third-order")


def last(n: int, modulus: int, system: NumberSystem) -> Witness:
    return built(Match3(n=n, modulus=modulus, variant="last"), system)


def local(n: int, modulus: int, system: NumberSystem, **options: Any) -> Witness:
    return built(Match3(n=n, modulus=modulus, variant="local", **options), system)


def wide(n: int, modulus: int, system: NumberSystem, **options: Any) -> Witness:
    return built(Match3(n=n, modulus=modulus, **options), system, family="transformer-1", variant="")


HONEST = {
    "pairs, float64": lambda: pairs(65536, 10**7, Float64()),
    "pairs, float32": lambda: pairs(64, 2048, Float32()),
    "pairs, rounded down": lambda: pairs(4096, 10**6, FixedDown(n=4096, k=4)),
    "pairs, rounded to nearest": lambda: pairs(64, 500, FixedNearest(p=51)),
    "triples, float64": lambda: triples(4096, 10**6, Float64()),
    "triples, float32": lambda: triples(64, 1024, Float32()),
    "triples, rounded down": lambda: triples(256, 10**4, FixedDown(n=256, k=5)),
    "last, float64": lambda: last(4096, 10**6, Float64()),
    "last, float32": lambda: last(64, 1500, Float32()),
    "last, rounded down": lambda: last(1024, 10**4, FixedDown(n=1024, k=4)),
    "local, float64": lambda: local(64, 300, Float64(), window=3),
    "local, distinct": lambda: local(32, 100, Float64(), window=2, distinct=True),
    "local, rounded down": lambda: local(32, 100, FixedDown(n=32, k=6), window=2),
    "wide, float64": lambda: wide(20, 10**5, Float64()),
    "wide, float32": lambda: wide(12, 1000, Float32(), distinct=True),
    "wide, rounded to nearest": lambda: wide(12, 1000, FixedNearest(p=41)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_honest_weights_are_certified(name: str) -> None:
    certificate = certify(HONEST[name]())
    assert certificate.verdict == "proved"
    assert certificate.inputs.log10 > 30


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "every"),
    [
        (lambda: pairs(3, 3, Float64()), 3),
        (lambda: pairs(2, 4, FixedNearest(p=25)), 3),
        (lambda: triples(3, 3, Float64()), 5),
        (lambda: last(3, 3, Float64()), 5),
        (lambda: wide(3, 3, Float64()), 41),
        (lambda: local(3, 3, Float64(), window=1), 61),
    ],
    ids=["pairs", "pairs in few bits", "triples", "last", "wide", "local"],
)
def test_every_survivor_of_a_mutation_is_harmless(make: Any, every: int) -> None:
    witness = make()
    assert proved(witness)
    tried = list(mutations(witness, every=every))
    survivors = [mutant for _, mutant in tried if proved(mutant)]
    assert len(tried) > 30
    assert len(survivors) < len(tried) / 2
    assert all(right_on_every_input(mutant) for mutant in survivors)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: pairs(3, 3, Float64()),
        lambda: pairs(2, 4, FixedNearest(p=25)),
        lambda: triples(3, 3, Float64()),
        lambda: last(3, 3, Float64()),
        lambda: wide(3, 2, FixedNearest(p=31)),
    ],
    ids=["pairs", "pairs in few bits", "triples", "last", "wide"],
)
def test_every_survivor_of_any_mutation_is_harmless(make: Any) -> None:
    survivors = [mutant for _, mutant in mutations(make()) if proved(mutant)]
    assert all(right_on_every_input(mutant) for mutant in survivors)


@pytest.mark.parametrize("make", [pairs, triples], ids=["pairs", "triples"])
def test_the_wrong_modulus_is_not_proven(make: Any) -> None:
    witness = make(4, 5, Float64())
    prove = proof_for(witness.theorem, witness.task.name, witness.variant)
    assert prove is not None
    other = type(witness.task)(n=4, modulus=6)
    with pytest.raises(NotProved):
        prove(witness.model, other, real())


@pytest.mark.parametrize("make", [pairs, triples, last], ids=["pairs", "triples", "last"])
def test_too_large_a_modulus_for_float32_is_refused_with_a_reason(make: Any) -> None:
    witness = make(64, 8192, Float64())
    prove = proof_for(witness.theorem, witness.task.name, witness.variant)
    assert prove is not None
    with pytest.raises(NotProved, match="between a match and a near miss modulo 8192"):
        prove(witness.model, witness.task, rounding_of(Float32()))


@pytest.mark.parametrize("system", [Float64(), Float32(), FixedDown(n=64, k=4), FixedNearest(p=51)], ids=str)
@pytest.mark.parametrize("make", [pairs, triples], ids=["pairs", "triples"])
def test_computed_logits_are_as_near_as_proven(make: Any, system: NumberSystem) -> None:
    """Each computed logit, against the cosine in Python's floats: off by no more than the proof says."""
    modulus = 300
    witness = make(16, modulus, system)
    model = witness.model
    assert isinstance(model, UnmaskedTransformer)
    found = points(rounding_of(system), model.inputs, modulus)
    head = CircleHead.read(rounding_of(system), model.layers[0].heads[0], found)
    amplitude, rest, off = head._cosine(rounding_of(system))
    assert rest * 2**50 <= amplitude
    numbers = torch.randint(0, modulus, (1, 400), generator=torch.Generator().manual_seed(0))
    where = torch.arange(400).expand(1, -1)
    stream = system.encode(model.inputs.embed(numbers, where, torch.tensor([400])))
    query = affine(system, stream, head.query)
    sides = [affine(system, stream, key) for key in head.keys]
    shifted = [side.each(lambda part, by=by: part.roll(by, 1)) for by, side in enumerate(sides, start=1)]  # type: ignore[misc]
    both = shifted[0] if len(shifted) == 1 else system.multiply(*shifted)
    logits = system.decode_float64(system.dot(query, both))[0]
    total = numbers[0] + sum(numbers[0].roll(by) for by in range(1, len(sides) + 1))
    true = float(amplitude) * np.cos(2 * math.pi * (total % modulus).numpy() / modulus)
    worst = float(np.abs(logits.numpy() - true).max())
    assert worst <= float(off) + 1e-9 * float(amplitude)
    if system == Float32():
        assert worst > float(off) / 100  # the bound is about the real error


def test_cosines_are_enclosed() -> None:
    for modulus in (1, 2, 3, 1000, 10**9):
        low, high = cosine_of_turn(1, modulus)
        assert float(high - low) < 1e-60
        assert math.isclose(float(low), math.cos(2 * math.pi / modulus), rel_tol=1e-12, abs_tol=1e-12)
