"""Proven intervals hold the exact worst case of small heads, and are as narrow as floats can be."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from flint import arb, ctx
from torch import Tensor

from separatrix.certificates import worst_case_enclosed as module
from separatrix.certificates.worst_case import Head, WorstCase, worst_case
from separatrix.certificates.worst_case_enclosed import EnclosedWorstCase, enclosed
from separatrix.errors import InvalidInput
from separatrix.evidence import Claim
from tests.certificates.heads import KINDS, DrawnHead, draw, every_input

TRUE_BITS = 256


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


def true_least(drawn: DrawnHead) -> arb:
    """The least readout of all inputs in balls of 256 bits, every readout by the definition."""
    logits, values = drawn.head.logits.tolist(), drawn.values.tolist()
    with ctx.workprec(TRUE_BITS):
        least = arb.pos_inf()
        for options in every_input(drawn).tolist():
            highest = max(row[option] for row, option in zip(logits, options, strict=True))
            weighted, total = arb(0), arb(0)
            for place, option in enumerate(options):
                weight = (arb(logits[place][option]) - arb(highest)).exp()
                weighted += weight * arb(values[place][option])
                total += weight
            least = least.min(weighted / total)
        return least


def check(found: EnclosedWorstCase, drawn: DrawnHead) -> None:
    truth = true_least(drawn)
    with ctx.workprec(TRUE_BITS):
        low, high = arb(float(found.interval.low)), arb(float(found.interval.high))
        assert low <= truth.upper()
        assert truth.lower() <= high
    ulps = float(found.interval.high - found.interval.low) / math.ulp(drawn.size)
    assert ulps <= 4
    assert bool(drawn.allowed.gather(1, torch.tensor(found.options)[:, None]).all())


@pytest.mark.slow
@pytest.mark.parametrize("floats", [False, True], ids=["balls", "floats first"])
@pytest.mark.parametrize("kind", KINDS)
def test_holds_the_exact_minimum(kind: str, floats: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SMALL", 0 if floats else 10**6)
    generator = seeded(100 + KINDS.index(kind) + 50 * floats)
    for _ in range(25):
        drawn = draw(kind, generator, positions=4, options=3)
        found = enclosed(drawn.head, drawn.values)
        assert bool(found.assumptions) is floats
        check(found, drawn)


def first_option(head: Head, values: Tensor) -> WorstCase:
    """A search that looks at nothing."""
    zeros = torch.zeros(head.logits.shape[0], dtype=torch.int64)
    return WorstCase(value=torch.zeros(()), options=zeros, rounds=torch.zeros(()))


def test_a_poor_start_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof does not rest on the search: from the first option everywhere it ends at the same place."""
    generator = seeded(7)
    heads = [draw("plain", generator, positions=4, options=3) for _ in range(20)]
    monkeypatch.setattr(module, "worst_case", first_option)
    for drawn in heads:
        check(enclosed(drawn.head, drawn.values), drawn)


def test_a_start_that_is_off_by_very_little_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "worst_case", first_option)
    values = torch.tensor([[0.3, 0.3 - 1e-15], [0.3, 0.3]], dtype=torch.float64)
    found = enclosed(Head(torch.zeros(2, 2)), values)
    assert found.options == (1, 0)
    assert found.interval.low <= (Fraction(0.3 - 1e-15) + Fraction(0.3)) / 2 <= found.interval.high < 0.3


def test_a_minimum_of_zero_that_balls_cannot_tell_from_zero_is_approached() -> None:
    """e^-1 - e^-1 is a ball around 0, and so is F near it."""
    head = Head(torch.tensor([[0.0], [-1.0], [-1.0]]))
    values = torch.tensor([[0.0], [1.0], [-1.0]], dtype=torch.float64)
    found = enclosed(head, values)
    assert 0 in found.interval
    assert found.interval.high - found.interval.low < 1e-28
    assert module._Terms.of(head, values, floats=False).least_sum(0.0, reference=[0, 0, 0])[0] < 0


def test_floats_rule_out_most_terms_and_none_too_many() -> None:
    logits, values = 3 * normal(3000, 20, seed=1), normal(3000, 20, seed=2)
    head = Head(logits)
    quick, slow = enclosed(head, values), enclosed(head, values, trust_floats=False)
    assert quick.assumptions
    assert not slow.assumptions
    assert quick.interval == slow.interval
    assert quick.options == slow.options
    level = float(quick.interval.low)
    kept = module._Terms.of(head, values, floats=True)._undecided(level)
    assert int(kept.sum()) < 3100
    terms = logits.exp() * (values - level)
    assert bool(kept.gather(1, terms.argmin(1, keepdim=True)).all())


def test_terms_closer_than_floats_can_tell_are_all_kept() -> None:
    logits = torch.tensor([[0.0, math.log(2.0), -5.0, -700.0]], dtype=torch.float64)
    values = torch.tensor([[1.0, 0.5 - 1e-14, 300.0, 3.0]], dtype=torch.float64)
    allowed = torch.tensor([[True, True, True, False]])
    assert module._not_ruled_out(logits, values, allowed, 0.0).tolist() == [[True, True, False, False]]
    wide = torch.ones_like(allowed)
    assert bool(module._not_ruled_out(logits, values, wide, 0.0).all())


def test_exact_where_the_minimum_is_a_float() -> None:
    equal = enclosed(Head(normal(9, 3, seed=3)), torch.full((9, 3), 0.3, dtype=torch.float64))
    assert equal.interval.low == equal.interval.high == Fraction(0.3)
    halves = enclosed(Head(torch.full((2, 2), 1.7)), torch.tensor([[0.0, 3.0], [1.0, 4.0]]))
    assert halves.interval.low == halves.interval.high == Fraction(1, 2)


def test_logits_beyond_every_ball_still_give_a_sound_interval() -> None:
    head = Head(torch.tensor([[1e300, 0.0], [0.0, 0.0]], dtype=torch.float64))
    found = enclosed(head, torch.tensor([[5.0, 2.0], [1.0, 1.0]], dtype=torch.float64))
    assert found.interval.low <= Fraction(3, 2) <= found.interval.high
    assert found.interval.low >= 1


def claim_of(logits: Tensor, values: Tensor, threshold: float) -> Claim:
    return enclosed(Head(logits), values).above(threshold)


def test_a_changed_weight_at_the_worst_input_flips_the_verdict() -> None:
    for seed in range(20):
        logits, values = normal(12, 4, seed=seed), normal(12, 4, seed=seed + 100)
        worst = worst_case(Head(logits), values)
        threshold = float(worst.value) - 1e-9
        claim = claim_of(logits, values, threshold)
        assert claim.verdict == "proved"
        assert claim.margin == pytest.approx(1e-9, rel=1e-5)
        place = seed % 12
        option = int(worst.options[place])
        lowered = values.clone()
        lowered[place, option] -= 1e-6
        assert claim_of(logits, lowered, threshold).verdict == "refuted"
        heavier = logits.clone()
        heavier[place, option] += 1e-5 if values[place, option] < worst.value else -1e-5
        assert claim_of(heavier, values, threshold).verdict == "refuted"


def test_the_claim_says_what_was_proven() -> None:
    allowed = torch.ones((5, 3), dtype=torch.bool)
    allowed[0, 1:] = False
    allowed[1, 0] = False
    values = normal(5, 3, seed=5)
    found = enclosed(Head(normal(5, 3, seed=4), allowed), values)
    assert found.inputs == "3^3 · 2"
    claim = found.above(Fraction(-7, 2))
    assert claim.statement == "The head's readout is above -3.5 on each of 3^3 · 2 inputs."
    assert str(claim).startswith("proved: least readout > -7/2 score (worst case in [")
    assert claim.source.endswith("in balls")
    assert Claim.from_json(claim.to_json()) == claim
    assert enclosed(Head(torch.zeros(1, 1)), torch.ones(1, 1)).inputs == "1"
    within = found.interval.low
    assert within < found.interval.high
    assert found.above(within).verdict == "unknown"
    assert found.above(found.interval.high).verdict == "refuted"


def test_batches_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"of one query and one direction, .* got logits \(2, 3, 4\)"):
        enclosed(Head(torch.zeros(2, 3, 4)), torch.zeros(3, 4))
    with pytest.raises(InvalidInput, match=r"values \(5, 3, 4\). Index both first"):
        enclosed(Head(torch.zeros(3, 4)), torch.zeros(5, 3, 4))
