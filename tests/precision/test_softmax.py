"""Softmax and attention: where S rounds, what follows from it, and the same program in every system."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem, RoundingPoints
from tests.precision.oracle import (
    SOME,
    SYSTEMS,
    Fixed,
    listed,
    members,
    rounded,
    softmax_every_step,
    softmax_last_step,
)

ORACLES = {RoundingPoints.EVERY_STEP: softmax_every_step, RoundingPoints.LAST_STEP: softmax_last_step}


def rows_of(system: Fixed) -> list[list[Fraction]]:
    """Spread, close, tied, far apart and both ends of the range."""
    rows = [members(system, 6, seed, spread=spread) for seed, spread in ((1, 1), (2, 5), (3, 20), (4, 60))]
    step, end = system.smallest, system.largest
    rows.append([Fraction(1)] * 6)
    rows.append([Fraction(1), Fraction(0), Fraction(1), Fraction(0), Fraction(0), Fraction(1)])
    rows.append([end, -end, Fraction(0), end - step, end, step])
    rows.append([i * step for i in range(6)])
    return [[rounded(system, logit) for logit in row] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("rounding", RoundingPoints)
def test_softmax_is_the_definition(system: Fixed, rounding: RoundingPoints) -> None:
    rows = rows_of(system)
    got = system.decode(system.softmax(system.encode(rows), rounding=rounding))
    for row, weights in zip(rows, got, strict=True):
        assert list(weights) == ORACLES[rounding](system, row)


@pytest.mark.parametrize("system", SOME, ids=str)
@pytest.mark.parametrize("rounding", RoundingPoints)
def test_masked_logits_play_no_part(system: Fixed, rounding: RoundingPoints) -> None:
    row = [system.largest, *members(system, 5, 5, spread=4), system.largest]
    mask = torch.tensor([False, True, True, False, True, True, False])
    got = listed(system, system.softmax(system.encode([row]), mask=mask, rounding=rounding))
    want = iter(ORACLES[rounding](system, [logit for logit, keep in zip(row, mask, strict=True) if keep]))
    assert got == [next(want) if keep else 0 for keep in mask]
    # Even the least number must beat what is masked.
    least = system.encode([-system.largest, system.largest, -system.largest])
    weights = system.softmax(least, mask=torch.tensor([True, False, True]), rounding=rounding)
    half = rounded(system, Fraction(1, 2))
    assert listed(system, weights) == [half, 0, half]


@pytest.mark.parametrize("n", [8, 1000, 2**10, 2**20])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_losing_exps_vanish_before_the_sum_and_only_then_are_weights_zero_and_one(n: int, k: int) -> None:
    """S-T6: hard attention once η(1 - γ) > K ln N; rounding only the quotient leaves it a step short."""
    system = FixedDown(n=n, k=k)
    step = system.smallest
    with localcontext() as context:
        context.prec = 60
        needed = Fraction(k * Decimal(n).ln())
    beneath = rounded(system, needed)
    threshold = beneath + step
    assert beneath < needed < threshold
    for losers in (1, 15):
        logits = system.encode([threshold] + [0] * losers)
        assert listed(system, system.softmax(logits)) == [1] + [0] * losers
        far = system.encode([threshold + 4] + [0] * losers)
        once = listed(system, system.softmax(far, rounding=RoundingPoints.LAST_STEP))
        assert once == [1 - step] + [0] * losers
    assert listed(system, system.softmax(system.encode([beneath, 0]))) == [1 - step, 0]


@pytest.mark.parametrize("p", [21, 41])
@pytest.mark.parametrize("losers", [1, 15])
def test_rounding_only_the_quotient_to_nearest_needs_a_larger_gap(p: int, losers: int) -> None:
    """The winner is 1 from gap >= ln(losers · (2/step - 1)) on, and a step less just below."""
    system = FixedNearest(p=p)
    gap = Fraction(math.log(losers * (2 / float(system.smallest) - 1)))
    for shift, want in ((Fraction(1, 2**8), 1), (-Fraction(1, 2**8), 1 - system.smallest)):
        logits = system.encode([gap + shift] + [0] * losers)
        assert listed(system, system.softmax(logits, rounding=RoundingPoints.LAST_STEP))[0] == want


def test_hard_and_uniform_rows_need_no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(self: Fixed, gap: int, row: list[int]) -> int:
        raise AssertionError("the bounds should have decided")

    monkeypatch.setattr(FixedDown, "_true_weight", unexpected)
    system = FixedDown(n=2**10, k=2)
    rows = system.encode([[10**6, 0, 0, 0], [5, 5, 5, 5], [10**6, 10**6, 0, 0]])
    got = listed(system, system.softmax(rows, rounding=RoundingPoints.LAST_STEP))
    step, quarter, half = system.smallest, Fraction(1, 4), Fraction(1, 2)
    assert got == [1 - step, 0, 0, 0] + [quarter] * 4 + [half - step] * 2 + [0, 0]


@pytest.mark.parametrize("system", [FixedDown(n=1000, k=2), FixedNearest(p=41)], ids=str)
def test_weights_that_the_bounds_leave_open_are_settled_on_the_host(
    system: Fixed, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [members(system, 6, seed, spread=3) for seed in range(20)]
    mask = torch.tensor([True, True, False, True, True, True])
    want = [softmax_last_step(system, row[:2] + row[3:]) for row in rows]
    settled: list[int] = []
    settle = type(system)._true_weight

    def counted(self: Fixed, gap: int, row: list[int]) -> int:
        settled.append(gap)
        return settle(self, gap, row)

    monkeypatch.setattr(type(system), "_true_weight", counted)
    monkeypatch.setattr("separatrix.precision.fixed.WEIGHT_GUARD", 6)
    got = system.decode(system.softmax(system.encode(rows), mask=mask, rounding=RoundingPoints.LAST_STEP))
    assert [[*row[:2], *row[3:]] for row in got] == want
    assert len(settled) > 10


def test_sum_of_exps_is_clamped_like_any_number() -> None:
    system = FixedDown(n=4, k=1)
    weights = listed(system, system.softmax(system.encode([0] * 9)))
    assert weights == [Fraction(1, 4)] * 9
    once = listed(system, system.softmax(system.encode([0] * 9), rounding=RoundingPoints.LAST_STEP))
    assert once == [0] * 9


@pytest.mark.parametrize("rounding", RoundingPoints)
@pytest.mark.parametrize(
    "system", [FixedDown(n=1000, k=1), FixedDown(n=2**20, k=2), FixedNearest(p=31)], ids=str
)
def test_attention_rounds_each_logit_then_the_softmax_then_products_and_sum(
    system: Fixed, rounding: RoundingPoints
) -> None:
    queries, keys = members(system, 6, 1, spread=2), members(system, 12, 2, spread=2)
    values = members(system, 8, 3, spread=9)
    mask = torch.tensor([[True, True, True, False], [False, True, True, True]])
    got = system.attention(
        system.encode(queries).reshape(2, 3),
        system.encode(keys).reshape(4, 3),
        system.encode(values).reshape(4, 2),
        mask=mask,
        rounding=rounding,
    )
    want = []
    for query in range(2):
        places = [place for place in range(4) if mask[query, place]]
        logits = [
            rounded(system, sum((queries[3 * query + i] * keys[3 * at + i] for i in range(3)), Fraction(0)))
            for at in places
        ]
        weights = ORACLES[rounding](system, logits)
        for column in range(2):
            products = [w * values[2 * at + column] for w, at in zip(weights, places, strict=True)]
            if rounding is RoundingPoints.EVERY_STEP:
                products = [rounded(system, product) for product in products]
            want.append(rounded(system, sum(products, Fraction(0))))
    assert listed(system, got) == want


def test_a_logit_is_rounded_once_not_product_by_product() -> None:
    """0.5 · 0.1 twice is 0.1 if the sum is rounded, 0 if each product were."""
    system = FixedDown(n=10, k=1)
    half, tenth = Fraction(1, 2), Fraction(1, 10)
    queries, keys = system.encode([[half, half]]), system.encode([[tenth, tenth], [0, 0]])
    got = system.attention(queries, keys, system.encode([[1, 0], [0, 1]]))
    assert listed(system, got) == [half, 4 * tenth]


@pytest.mark.parametrize(
    "system", [FixedDown(n=1024, k=2), FixedNearest(p=61), Float32(), Float64()], ids=str
)
def test_one_program_runs_in_every_system(system: NumberSystem) -> None:
    generator = torch.Generator().manual_seed(3)
    queries, keys, values = (
        torch.rand(2, 5, 4, generator=generator, dtype=torch.float64) - 0.5 for _ in range(3)
    )
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    got = system.attention(system.encode(queries), system.encode(keys), system.encode(values), mask=causal)
    logits = (queries @ keys.transpose(-1, -2)).masked_fill(~causal, -torch.inf)
    want = torch.softmax(logits, -1) @ values
    assert got.shape == (2, 5, 4)
    assert torch.allclose(system.decode_float64(got), want, atol=2e-5)


@pytest.mark.parametrize("system", [FixedDown(n=16, k=2), Float64()], ids=str)
def test_masks_that_make_no_sense_are_refused(system: NumberSystem) -> None:
    logits = system.encode([[1, 2], [3, 4]])
    with pytest.raises(InvalidInput, match="must keep a logit in every row"):
        system.softmax(logits, mask=torch.tensor([[True, False], [False, False]]))
    with pytest.raises(InvalidInput, match=r"a bool tensor; got torch\.int64"):
        system.softmax(logits, mask=torch.ones(2, 2, dtype=torch.int64))


@pytest.mark.parametrize("system", [FixedDown(n=16, k=2), FixedNearest(p=65), Float64()], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_an_axis_without_numbers_has_no_softmax_and_no_maximum(
    system: NumberSystem, shape: tuple[int, ...]
) -> None:
    numbers = system.encode(torch.zeros(shape))
    rest = f"needs an axis with at least one number; got shape {shape} and axis -1. Leave empty rows out"
    rest += " and reshape a lone number to (1,)."
    for rounding in RoundingPoints:
        for mask in (None, torch.ones(shape, dtype=torch.bool)):
            with pytest.raises(InvalidInput) as caught:
                system.softmax(numbers, mask=mask, rounding=rounding)
            assert str(caught.value) == f"A softmax {rest}"
    for take in (system.max, system.argmax):
        with pytest.raises(InvalidInput) as caught:
            take(numbers, -1)
        assert str(caught.value) == f"A maximum {rest}"
        with pytest.raises(InvalidInput, match="and axis 5"):
            take(numbers, 5)
    assert system.softmax(system.encode(torch.zeros(0, 3))).shape == (0, 3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_gpu_gives_the_same_numbers() -> None:
    for system in SYSTEMS:
        rows = rows_of(system)
        on_cpu, on_gpu = system.encode(rows), system.encode(rows, device="cuda")
        floats = torch.linspace(-9, 9, 1000, dtype=torch.float64)
        assert listed(system, system.encode(floats.to("cuda"))) == listed(system, system.encode(floats))
        for rounding in RoundingPoints:
            weights = system.softmax(on_gpu, rounding=rounding)
            assert weights.device.type == "cuda"
            assert listed(system, weights) == listed(system, system.softmax(on_cpu, rounding=rounding))
            product = system.matmul(on_gpu, on_gpu.transpose(0, 1), rounding=rounding)
            want = system.matmul(on_cpu, on_cpu.transpose(0, 1), rounding=rounding)
            assert listed(system, product) == listed(system, want)
        assert listed(system, system.exp(on_gpu)) == listed(system, system.exp(on_cpu))
        total = system.add(system.multiply(on_gpu, on_gpu), system.encode(1, device="cuda"))
        quotient = system.divide(on_gpu, total)
        assert listed(system, quotient) == listed(system, system.divide(on_cpu, total.to("cpu")))
        assert torch.equal(system.argmax(on_gpu, 1).cpu(), system.argmax(on_cpu, 1))


@pytest.mark.parametrize("system", [Float32(), Float64()], ids=str)
def test_floats_divide_and_round_every_quotient_once(system: Float32 | Float64) -> None:
    """Exps, their sum, quotients: to the last bit, also where exps vanish, and not by way of a reciprocal."""
    generator = torch.Generator().manual_seed(1)
    logits = -5 * torch.rand(4000, 3, generator=generator, dtype=torch.float64)
    logits[:, 0], logits[:, 2] = 0, torch.linspace(-2000, 0, 4000)
    encoded = system.encode(logits)
    (tensor,) = system.parts_of(encoded)
    exps = torch.exp(tensor)
    (found,) = system.parts_of(system.softmax(encoded))
    wanted = exps / exps.sum(-1, keepdim=True)
    assert torch.equal(found, wanted)
    assert not torch.equal(wanted, exps * (1 / exps.sum(-1, keepdim=True)))
    vanished = tensor < (-104 if isinstance(system, Float32) else -746)
    assert bool(vanished.any())
    assert bool((exps[vanished] == 0).all())
