"""The proof of R-G: it goes through on honest weights and on no others that matter."""

from __future__ import annotations

import pytest
import torch

from separatrix.certificates import certify
from separatrix.certificates.enclosures import real, rounding_of
from separatrix.certificates.lemmas.presence import ranges
from separatrix.certificates.proofs.cycles import prove
from separatrix.certificates.refusals import NotProved
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks.cycle3 import Cycle3
from separatrix.tasks.cycle5 import Cycle5
from separatrix.witnesses import Choices, Witness, witness_for
from tests.certificates.proving import proved
from tests.witnesses.checking import mutations, right_on_every_input


def built(task: Cycle3 | Cycle5, system: NumberSystem) -> Witness:
    return witness_for(task, choices=Choices(system=system))


@pytest.mark.parametrize(
    ("task", "system"),
    [
        (Cycle3(n=1024), Float64()),
        (Cycle3(n=1024), Float32()),
        (Cycle3(n=1024), FixedDown(n=1024, k=2)),
        (Cycle3(n=1024), FixedNearest(p=21)),
        (Cycle5(n=1024), Float64()),
        (Cycle5(n=32), Float32()),
        (Cycle5(n=1024), FixedDown(n=1024, k=2)),
        (Cycle5(n=30), FixedNearest(p=25)),
    ],
    ids=str,
)
def test_large_graphs_are_certified(task: Cycle3 | Cycle5, system: NumberSystem) -> None:
    certificate = certify(built(task, system))
    assert certificate.verdict == "proved"
    assert certificate.inputs.log10 > 100


@pytest.mark.slow
@pytest.mark.parametrize("system", [Float64(), FixedDown(n=3, k=4)], ids=str)
def test_every_survivor_of_a_mutation_is_harmless(system: NumberSystem) -> None:
    witness = built(Cycle3(n=3), system)
    assert proved(witness)
    tried = list(mutations(witness))
    survivors = [mutant for _, mutant in tried if proved(mutant)]
    assert len(survivors) < len(tried) / 2
    assert all(right_on_every_input(mutant) for mutant in survivors)


def test_sums_over_a_trillion_tuples_are_not_proven_in_float32() -> None:
    witness = built(Cycle5(n=1024), Float64())
    claims = prove(witness.model, witness.task, rounding_of(Float32()))
    assert any(claim.verdict == "unknown" for claim in claims)


def test_proven_leads_hold_in_the_worst_graphs() -> None:
    witness = built(Cycle3(n=10), Float64())
    leads = [claim.interval for claim in prove(witness.model, witness.task, real())[2:]]
    order = torch.triu(torch.ones(10, 10), 1)
    one = order.clone()
    one[2, 0] = 1
    scores = witness.model.forward(torch.stack([order, one]))
    without = float((scores[0, :, 0] - scores[0, :, 1]).min())
    found = float((scores[1, :3, 1] - scores[1, :3, 0]).min())
    assert leads[0] is not None
    assert leads[1] is not None
    assert float(leads[0].low) <= without + 1e-12
    assert float(leads[1].low) <= found + 1e-12


def test_another_task_or_order_is_not_proven() -> None:
    witness = built(Cycle3(n=5), Float64())
    with pytest.raises(NotProved, match="order 3"):
        prove(witness.model, Cycle5(n=5), real())
    with pytest.raises(NotProved, match="need not differ"):
        prove(built(Cycle5(n=5), Float64()).model, Cycle5(n=5, distinct=True), real())


def test_counts_are_covered_without_gaps() -> None:
    for most in (1, 2, 3, 7, 8, 100):
        covered = [count for least, last in ranges(most) for count in range(least, last + 1)]
        assert covered == list(range(1, most + 1))
