"""The least readout of one softmax head equals that of trying every input, whatever the weights."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from separatrix.certificates import worst_case as module
from separatrix.certificates.worst_case import Head, worst_case
from separatrix.errors import InvalidInput
from tests.certificates.heads import KINDS, draw, every_input, readouts


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_brute_force(kind: str) -> None:
    generator = seeded(KINDS.index(kind))
    for _ in range(150):
        drawn = draw(kind, generator)
        worst = worst_case(drawn.head, drawn.values)
        least = float(readouts(drawn, every_input(drawn)).min())
        assert abs(float(worst.value) - least) <= 1e-12 * drawn.size
        assert bool(drawn.allowed.gather(1, worst.options[:, None]).all())
        assert abs(float(readouts(drawn, worst.options[None])) - least) <= 1e-12 * drawn.size


def least_by_bisection(logits: Tensor, values: Tensor) -> float:
    """Second and slower: halve the range in which Σ_t min e^s (v − λ) changes its sign."""
    rows = list(zip(logits.tolist(), values.tolist(), strict=True))
    top = float(logits.max())
    low, high = float(values.min()), float(values.max())
    for _ in range(60):
        middle = (low + high) / 2
        total = math.fsum(
            min(math.exp(s - top) * (v - middle) for s, v in zip(*row, strict=True)) for row in rows
        )
        low, high = (middle, high) if total >= 0 else (low, middle)
    return low


@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0, 30.0])
def test_long_heads_equal_bisection(spread: float) -> None:
    logits, values = spread * normal(120, 9, seed=1), normal(120, 9, seed=2)
    found = worst_case(Head(logits), values)
    assert float(found.value) == pytest.approx(least_by_bisection(logits, values), abs=1e-12)


def test_weights_that_floats_cannot_add_still_decide() -> None:
    """The heavy option is worth 0.3 with or without the others, and λ that rounds up would keep it."""
    for value in torch.linspace(0.21, 0.9, 400, dtype=torch.float64).tolist():
        logits = torch.tensor([[0.0, -46.0, 0.0], [-46.0, -46.0, -46.0]], dtype=torch.float64)
        values = torch.tensor([[value, value - 0.01, value], [0.2, 0.2, 0.2]], dtype=torch.float64)
        found = worst_case(Head(logits), values)
        assert float(found.value) == pytest.approx((value + 0.19) / 2, abs=1e-12)
        assert int(found.options[0]) == 1


@pytest.mark.parametrize(("height", "size"), [(500.0, 1.0), (500.0, 1e-250), (5000.0, 1e250), (1e17, 1.0)])
def test_options_far_below_a_heavy_one_are_told_apart(height: float, size: float) -> None:
    """Relative to the heavy option, which the worst input avoids, the next two weigh next to nothing."""
    low = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    values = torch.tensor([[2.0, 2.0], [-1.0, -2.0]], dtype=torch.float64)
    inputs = torch.cartesian_prod(torch.arange(2), torch.arange(2))
    places = torch.arange(2)
    each = (low[places, inputs].softmax(-1) * values[places, inputs]).sum(-1)
    column = torch.ones((2, 1), dtype=torch.float64)
    head = Head(
        torch.cat([height * column, low, 900 * column], dim=1), torch.tensor([[True, True, True, False]] * 2)
    )
    found = worst_case(head, torch.cat([9 * size * column, size * values, -1e300 * column], dim=1))
    assert found.options.tolist() == (inputs[each.argmin()] + 1).tolist()
    assert float(found.value) / size == pytest.approx(float(each.min()), abs=1e-14)


@pytest.mark.parametrize("at_once", [1, 40, 700, 10**6])
def test_queries_and_directions_are_independent(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOGETHER", at_once)
    monkeypatch.setattr(module, "IN_CACHE", at_once // 2)
    logits, values = 4 * normal(2, 3, 11, 5, seed=3), normal(4, 11, 5, seed=4)
    logits[1] *= 400
    allowed = torch.rand((2, 3, 11, 5), generator=seeded(5)) < 0.6
    allowed[..., 2] = True
    together = worst_case(Head(logits, allowed), values)
    assert together.value.shape == together.rounds.shape == (2, 3, 4)
    assert together.options.shape == (2, 3, 4, 11)
    monkeypatch.undo()
    for place in torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(4)).tolist():
        row, column, direction = place
        alone = worst_case(Head(logits[row, column], allowed[row, column]), values[direction])
        at = (row, column, direction)
        assert float(together.value[at]) == pytest.approx(float(alone.value), abs=1e-13)
        if row == 0:  # in the other rows some options weigh nothing, and any of them will do
            assert torch.equal(together.options[at], alone.options)


def test_options_allowed_once_hold_for_every_query() -> None:
    logits, values = normal(3, 6, 4, seed=6), normal(6, 4, seed=7)
    allowed = torch.zeros((6, 4), dtype=torch.bool)
    allowed[:, 1] = True
    allowed[3] = True
    found = worst_case(Head(logits, allowed), values)
    assert torch.equal(found.options[:, [0, 1, 2, 4, 5]], torch.ones((3, 5), dtype=torch.int64))
    repeated = worst_case(Head(logits, allowed.expand(3, -1, -1)), values)
    assert torch.equal(found.options, repeated.options)
    assert torch.equal(found.value, repeated.value)


def test_lambda_falls_and_few_rounds_do(monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[float] = []
    choose = module._Block.choose

    def noted(self: module._Block, values: Tensor, level: Tensor) -> Tensor:
        levels.append(float(level))
        return choose(self, values, level)

    monkeypatch.setattr(module._Block, "choose", noted)
    found = worst_case(Head(3 * normal(2000, 16, seed=8)), normal(2000, 16, seed=9))
    assert int(found.rounds) == len(levels) <= 15
    falling = levels[1:]  # the first is a guess
    assert all(after < before for before, after in itertools.pairwise(falling))
    assert falling[-1] == pytest.approx(float(found.value), abs=1e-13)
    assert falling[-1] < float(found.value)


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    shift=st.sampled_from([-1e4, -3.0, 800.0]),
    spread=st.sampled_from([1.0, 9.0, 400.0]),
)
def test_no_input_is_below_and_shifts_do_nothing(seed: int, shift: float, spread: float) -> None:
    logits, values = spread * normal(40, 6, seed=seed), normal(40, 6, seed=seed + 1)
    found = worst_case(Head(logits), values)
    inputs = torch.randint(0, 6, (200, 40), generator=seeded(seed))
    near = found.options.repeat(200, 1)
    changed = torch.randint(0, 40, (200, 1), generator=seeded(seed + 2))
    near.scatter_(1, changed, inputs[:, :1])
    places = torch.arange(40)
    for tried in (inputs, near):
        each = (logits[places, tried].softmax(-1) * values[places, tried]).sum(-1)
        assert float(each.min()) >= float(found.value) - 1e-12
    moved = worst_case(Head(logits + shift), values)
    assert float(moved.value) == pytest.approx(float(found.value), abs=1e-11 * max(1.0, spread))
    mirrored = worst_case(Head(logits), 2 - values)
    assert -float(mirrored.value) + 2 >= float(found.value)


def test_narrow_floats_are_read_exactly() -> None:
    logits, values = normal(9, 4, seed=10).float(), normal(9, 4, seed=11).bfloat16()
    found, same = worst_case(Head(logits), values), worst_case(Head(logits.double()), values.double())
    assert found.value.dtype == torch.float64
    assert torch.equal(found.value, same.value)


NOT_A_NUMBER = torch.full((2, 3), math.nan)
ENDLESS = torch.tensor([[0.0, -math.inf]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Head(NOT_A_NUMBER), "A head's logits are finite numbers .* at least one is nan"),
        (lambda: Head(ENDLESS), "at least one is -inf. Say which options may occur with `allowed`"),
        (
            lambda: Head(torch.tensor([[1e301]], dtype=torch.float64)),
            r"at most 1e\+300; at least one is 1e\+301",
        ),
        (lambda: Head(torch.zeros(3)), r"at least one position and one option, .* the shape \(3,\)"),
        (lambda: Head(torch.zeros(0, 4)), r"got the shape \(0, 4\)"),
        (lambda: Head(torch.zeros(3, 4, dtype=torch.int64)), "a tensor of floats .* got torch.int64"),
        (lambda: Head([[1.0]]), "a tensor of floats .* got list"),  # type: ignore[arg-type]
        (lambda: Head(torch.zeros(3, 2), torch.ones(2, 2, dtype=torch.bool)), r"\(3, 2\); got \(2, 2\)"),
        (lambda: Head(torch.zeros(3, 2), torch.ones(3, 2)), "a tensor of booleans"),
        (
            lambda: Head(torch.zeros(3, 2), torch.tensor([[True, False], [False, False], [True, True]])),
            "none is allowed at position 1",
        ),
        (lambda: worst_case(Head(torch.zeros(2, 3)), NOT_A_NUMBER), "A readout's values are finite"),
        (
            lambda: worst_case(Head(torch.zeros(2, 3)), torch.zeros(5, 3, 2)),
            r"for every position and option of its head, \(2, 3\); got \(3, 2\)",
        ),
    ],
)
def test_what_is_no_head_is_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidInput, match=message):
        make()
