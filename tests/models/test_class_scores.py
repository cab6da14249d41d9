"""Costs of class scores: every way to compute them against the definition, costs, choices and gradients."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.kernels.class_scores import class_costs, reference
from tests.models import kernel_checks


def case(lead: tuple[int, ...], classes: int, *, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Scores with many ties, targets, and a gradient of the costs, in float64."""
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(*lead, classes, generator=generator, dtype=torch.float64)
    scores = torch.where(torch.rand(scores.shape, generator=generator) < 0.5, scores.round(), scores)
    targets = torch.randint(classes, lead, generator=generator)
    return scores, targets, torch.randn(*lead, generator=generator, dtype=torch.float64)


def test_the_definition_number_by_number() -> None:
    scores, targets, _ = case((3, 4), 5, seed=1)
    costs, right = class_costs(scores, targets)
    for first, second in torch.cartesian_prod(torch.arange(3), torch.arange(4)).tolist():
        row, target = scores[first, second].tolist(), int(targets[first, second])
        assert float(costs[first, second]) == pytest.approx(
            math.log(sum(map(math.exp, row))) - row[target], abs=1e-12
        )
        assert bool(right[first, second]) == (row.index(max(row)) == target)


def test_costs_are_at_least_float32() -> None:
    scores, targets, _ = case((6,), 3, seed=2)
    for kind, expected in (("bfloat16", "float32"), ("float32", "float32"), ("float64", "float64")):
        costs, right = class_costs(scores.to(getattr(torch, kind)), targets)
        assert costs.dtype == getattr(torch, expected)
        assert right.dtype == torch.bool


def test_ways_that_do_not_fit_are_refused() -> None:
    scores, targets, _ = case((2,), 3, seed=3)
    with pytest.raises(InvalidInput, match="on a CUDA device; these numbers are on cpu"):
        class_costs(scores, targets, backend="triton")


def spoils_alike(way: object) -> None:
    """Whichever score of a row is no finite number, its cost is none and it is not right."""
    scores, targets, _ = case((6,), 5, seed=9)
    targets[2] = 1
    plain = way(scores.float(), targets)[1]  # type: ignore[operator]
    for value in (math.nan, math.inf):
        for place in range(5):
            spoilt = scores.float()
            spoilt[2, place] = value
            costs, right = way(spoilt, targets)  # type: ignore[operator]
            assert bool(costs[2].isnan())
            assert not right[2]
            others = torch.tensor([0, 1, 3, 4, 5])
            assert torch.equal(right[others], plain[others])


def test_what_is_no_number_is_not_right() -> None:
    spoils_alike(reference)


def results(way: object, scores: Tensor, targets: Tensor, outer: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Costs, which are right, and the gradient of the scores."""
    scores = scores.detach().requires_grad_()
    costs, right = way(scores, targets)  # type: ignore[operator]
    (slopes,) = torch.autograd.grad(costs, scores, outer.to(costs.dtype))
    return costs.detach(), right, slopes


def gap(mine: tuple[Tensor, ...], right: tuple[Tensor, ...]) -> float:
    """The largest difference; 1 if a choice differs."""
    assert all(one.shape == other.shape for one, other in zip(mine, right, strict=True))
    pairs = zip(mine, right, strict=True)
    return float(torch.stack([(one.double() - other.double()).abs().max() for one, other in pairs]).max())


SHAPES = (((1,), 1), ((5,), 2), ((3, 2, 7), 37), ((2, 300), 16), ((9,), 4097))


def interpreted() -> None:
    """Print how far the kernels, run by Triton's interpreter, are from the definition."""

    def mine(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return class_costs(scores, targets, backend="triton")

    found = {}
    for lead, classes in SHAPES:
        scores, targets, outer = case(lead, classes, seed=4)
        scores = scores.float()
        found[f"{lead} {classes}"] = gap(
            results(mine, scores, targets, outer), results(reference, scores.double(), targets, outer)
        )
    scores, targets, outer = case((4, 6), 24, seed=5)
    part = scores.float()[..., :19]
    found["rows apart"] = gap(
        results(mine, part, targets % 19, outer), results(reference, part.double(), targets % 19, outer)
    )
    compiled = torch.compile(mine, fullgraph=True, backend="aot_eager")
    found["compiled"] = gap(
        results(compiled, scores.float(), targets, outer),
        results(reference, scores.float().double(), targets, outer),
    )
    low = scores.bfloat16()
    costs, right, slopes = results(mine, low, targets, outer)
    exact = results(reference, low.double(), targets, outer)
    assert slopes.dtype == torch.bfloat16
    found["bfloat16"] = gap((costs, right), exact[:2])
    assert gap((slopes,), exact[2:]) <= 2**-8 * float(exact[2].abs().max())  # rounded once, to eight bits
    for wrong in (-1, -100, 24, 31, 99):  # no classes, within the block and beyond
        costs, right = mine(scores.float(), torch.full_like(targets, wrong))
        assert bool(costs.isnan().all()), wrong
        assert not right.any(), wrong
    with pytest.raises(InvalidInput, match=r"in float32 and in 16 bits; got torch\.float64"):
        mine(scores, targets)
    spoils_alike(mine)
    print(json.dumps(found))


@pytest.mark.slow
def test_kernels_under_the_interpreter() -> None:
    found: dict[str, float] = json.loads(kernel_checks.interpreted(interpreted))
    assert len(found) == len(SHAPES) + 3
    assert all(value < 1e-5 for value in found.values()), found  # which no NaN is
