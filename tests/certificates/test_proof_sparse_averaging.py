"""The proof of R-qSA: it goes through on honest weights and on no others that matter."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from separatrix.certificates import certify
from separatrix.certificates.enclosures import real
from separatrix.certificates.lemmas.set_attention import by_coherence, by_listing
from separatrix.certificates.proofs.sparse_averaging import prove
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.codes import ExtendedBCH, RandomSign
from separatrix.models.explicit.duals import duals
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks.q_sparse_averaging import QSparseAveraging
from separatrix.witnesses import Choices, Witness, witness_for
from tests.certificates.proving import proved
from tests.witnesses.checking import mutations, right_on_every_input


def built(system: NumberSystem, **options: Any) -> Witness:
    return witness_for(QSparseAveraging(**options), choices=Choices(system=system))


@pytest.mark.parametrize(
    ("system", "options"),
    [
        (Float64(), {"n": 65536, "q": 1}),
        (Float32(), {"n": 65536, "q": 1}),
        (FixedDown(n=1024, k=2), {"n": 1024, "q": 1}),
        (Float64(), {"n": 50000, "q": 2}),
        (Float64(), {"n": 200, "q": 3, "d": 8, "grid": 5}),
        (Float32(), {"n": 200, "q": 3}),
        (FixedNearest(p=41), {"n": 64, "q": 3, "d": 2}),
        (Float64(), {"n": 20, "q": 10}),
    ],
    ids=str,
)
def test_honest_weights_are_certified(system: NumberSystem, options: dict[str, int]) -> None:
    certificate = certify(built(system, **options))
    assert certificate.verdict == "proved"


@pytest.mark.parametrize("system", [Float64(), FixedNearest(p=31)], ids=str)
def test_every_survivor_of_a_mutation_is_harmless(system: NumberSystem) -> None:
    witness = built(system, n=2, q=2)
    assert proved(witness)
    tried = list(mutations(witness, every=7))
    survivors = [mutant for _, mutant in tried if proved(mutant)]
    assert len(tried) > 100
    assert len(survivors) < len(tried) / 2
    assert all(right_on_every_input(mutant) for mutant in survivors)


def test_a_code_that_coherence_does_not_settle_is_settled_set_by_set() -> None:
    code = RandomSign(count=12, dim=40, seed=0)
    sets = torch.tensor(list(itertools.combinations(range(12), 3)))
    found = by_listing(code, sets)
    assert found.how == "every set, one by one"
    words = code.rows(torch.arange(12))
    worst = max(
        float(duals(code, chosen.unsqueeze(0))[0] @ words[other]) / 40
        for chosen in sets[::5]
        for other in range(12)
        if other not in chosen.tolist()
    )
    assert worst - 1e-9 <= float(found.outside_high) <= 1.5 * worst
    with_all = by_coherence(code, 3)
    assert with_all.outside_high >= found.outside_high


def test_bounds_by_coherence_hold_for_every_set() -> None:
    code = ExtendedBCH(length=32, designed=11, count=14, one_sided=False)
    bound = by_coherence(code, 2)
    every = by_listing(code, torch.tensor(list(itertools.combinations(range(14), 2))))
    assert every.outside_high <= bound.outside_high
    assert every.entry <= bound.entry


def test_dependent_addresses_prove_nothing() -> None:
    with pytest.raises(NotProved, match="dependent"):
        by_coherence(RandomSign(count=12, dim=8, seed=0), 6)


def test_answers_stay_within_the_proven_distance() -> None:
    witness = built(Float64(), n=8, q=2)
    bound = prove(witness.model, witness.task, real())[1].interval
    assert bound is not None
    rows = []
    for pair in itertools.combinations(range(8), 2):
        row = torch.full((8, 3), -1.0)
        row[list(pair), 0] = 1
        row[:, 1:] = torch.tensor([float(member + 1) for member in pair])
        rows.append(row)
    batch = torch.stack(rows)
    measured = float((witness.model.forward(batch) - witness.task.solve(batch).targets).abs().max())
    assert float(bound.high) / 4 < measured <= float(bound.high)


def test_another_size_is_not_proven() -> None:
    witness = built(Float64(), n=8, q=2)
    with pytest.raises(NotProved, match="another kind"):
        prove(witness.model, QSparseAveraging(n=9, q=2), real())
