"""Costs of class scores by Triton on a CUDA device, against the definition in float64."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from separatrix.models.kernels.class_scores import class_costs, reference
from tests.gpu.kernel_checks import NEEDS_CUDA
from tests.models.test_class_scores import SHAPES, case, gap, results

pytestmark = NEEDS_CUDA

by_triton = partial(class_costs, backend="triton")


def on_gpu(lead: tuple[int, ...], classes: int) -> tuple[Tensor, Tensor, Tensor]:
    scores, targets, outer = (part.cuda() for part in case(lead, classes, seed=8))
    return scores, targets, outer


@pytest.mark.parametrize(("lead", "classes"), [*SHAPES, ((7, 64, 100), 403), ((3,), 16384)], ids=str)
def test_costs_choices_and_gradients(lead: tuple[int, ...], classes: int) -> None:
    scores, targets, outer = on_gpu(lead, classes)
    small = scores.float()
    assert (
        gap(results(by_triton, small, targets, outer), results(reference, small.double(), targets, outer))
        < 1e-5
    )
    low = scores.bfloat16()
    costs, right, slopes = results(class_costs, low, targets, outer)
    exact = results(reference, low.double(), targets, outer)
    assert gap((costs, right), exact[:2]) < 1e-5
    assert slopes.dtype == torch.bfloat16
    assert gap((slopes,), exact[2:]) <= 2**-8 * float(exact[2].abs().max())


def test_rows_may_stand_apart() -> None:
    scores, targets, outer = on_gpu((5, 40), 64)
    part, targets = scores.bfloat16()[..., :51], targets % 51
    costs, right, slopes = results(class_costs, part, targets, outer)
    exact = results(reference, part.double(), targets, outer)
    assert gap((costs, right), exact[:2]) < 1e-5
    assert gap((slopes,), exact[2:]) <= 2**-8 * float(exact[2].abs().max())


def test_scores_that_are_no_numbers_choose_nothing() -> None:
    scores, targets, _ = on_gpu((4,), 7)
    spoilt = scores.float()
    spoilt[2, 3] = float("nan")
    costs, right = class_costs(spoilt, targets)
    assert bool(costs[2].isnan())
    assert not right[2]
    assert bool(costs[[0, 1, 3]].isfinite().all())


def test_more_classes_than_a_program_holds() -> None:
    scores, targets, outer = on_gpu((3,), 20000)
    found = results(class_costs, scores.float(), targets, outer)
    assert gap(found, results(reference, scores, targets, outer)) < 1e-4
