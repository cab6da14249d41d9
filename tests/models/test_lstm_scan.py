"""The LSTM's recurrence: every way to compute it against the definition in float64, values and gradients."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.kernels import lstm_scan as kernels
from separatrix.models.kernels.lstm_scan import lstm_scan, parallel, reference
from tests.models import kernel_checks

Way = Callable[[Tensor, Tensor], Tensor]
DOUBLE, SINGLE = torch.float64, torch.float32


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def case(members: int, batch: int, length: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Gates from outside, recurrent weights, and a gradient of what comes out."""
    inward = 1.5 * numbers(members, batch, length, 4 * width, seed=1)
    weight = 1.5 * numbers(members, width, 4 * width, seed=2) / width**0.5
    return inward, weight, numbers(members, batch, length, width, seed=3)


def results(way: Way, inward: Tensor, weight: Tensor, outer: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What comes out, and the gradients of both inputs."""
    inward, weight = inward.detach().requires_grad_(), weight.detach().requires_grad_()
    h = way(inward, weight)
    to_inward, to_weight = torch.autograd.grad(h, (inward, weight), outer)
    return h, to_inward, to_weight


def gaps(way: Way, shape: tuple[int, int, int, int], kind: torch.dtype) -> list[float]:
    """How far a way is from the definition in float64, beside the largest number or 1."""
    inward, weight, outer = case(*shape)
    expected = results(reference, inward, weight, outer)
    found = results(way, inward.to(kind), weight.to(kind), outer.to(kind))
    assert all(each.dtype == kind for each in found)
    return [
        float((a.double() - b).abs().max()) / max(1.0, float(b.abs().max()))
        for a, b in zip((each.detach() for each in found), (each.detach() for each in expected), strict=True)
    ]


def test_the_definition_written_out_number_by_number() -> None:
    inward, weight, _ = case(2, 2, 3, 2)
    h = reference(inward, weight)
    for member in range(2):
        for row in range(2):
            seen, kept = [0.0, 0.0], [0.0, 0.0]
            for t in range(3):
                gates = [
                    float(inward[member, row, t, column])
                    + sum(seen[k] * float(weight[member, k, column]) for k in range(2))
                    for column in range(8)
                ]
                opened = [float(torch.tensor(gate, dtype=DOUBLE).sigmoid()) for gate in gates]
                bent = [float(torch.tensor(gate, dtype=DOUBLE).tanh()) for gate in gates]
                kept = [opened[2 + k] * kept[k] + opened[k] * bent[4 + k] for k in range(2)]
                seen = [opened[6 + k] * float(torch.tensor(kept[k], dtype=DOUBLE).tanh()) for k in range(2)]
                assert h[member, row, t].tolist() == pytest.approx(seen, abs=1e-14)


@settings(max_examples=30, deadline=None)
@given(members=st.integers(1, 3), batch=st.integers(1, 5), length=st.integers(1, 9), width=st.integers(1, 7))
def test_parallel_is_the_definition(members: int, batch: int, length: int, width: int) -> None:
    assert max(gaps(parallel, (members, batch, length, width), DOUBLE)) < 1e-12
    assert max(gaps(parallel, (members, batch, length, width), SINGLE)) < 1e-5


def test_half_precision_keeps_what_is_carried_in_single() -> None:
    """Many small numbers add up to 1.2; half of the digits would stop at 1."""
    opened, small = torch.full((1, 1, 400, 1), 20.0), torch.full((1, 1, 400, 1), 0.003)
    inward = torch.cat([opened, opened, small, opened], dim=-1).bfloat16()
    weight = torch.zeros(1, 1, 4).bfloat16()
    for way in (reference, parallel):
        assert max(gaps(way, (2, 3, 40, 8), torch.bfloat16)) < 0.05
        assert abs(math.atanh(float(way(inward, weight)[0, 0, -1, 0])) - 1.2) < 0.02


def test_large_numbers_saturate() -> None:
    inward, weight, outer = case(1, 2, 4, 3)
    for scale in (1e3, 1e30):
        for kind in (DOUBLE, SINGLE):
            for each in results(parallel, (scale * inward).to(kind), weight.to(kind), outer.to(kind)):
                assert bool(each.isfinite().all())


def test_without_a_backward_nothing_is_kept() -> None:
    inward, weight, _ = case(2, 3, 5, 4)
    with torch.no_grad():
        assert torch.equal(parallel(inward, weight), parallel(inward.requires_grad_(), weight))
    h, gates, c = kernels._forward(inward, weight, False)
    assert h.shape == (2, 3, 5, 4)
    assert gates.numel() == c.numel() == 0


def test_only_one_of_the_inputs_may_want_a_gradient() -> None:
    inward, weight, outer = case(2, 3, 5, 4)
    _, to_inward, to_weight = results(reference, inward, weight, outer)
    found = torch.autograd.grad(parallel(inward.requires_grad_(), weight), inward, outer)[0]
    assert torch.allclose(found, to_inward, atol=1e-12)
    found = torch.autograd.grad(parallel(inward.detach(), weight.requires_grad_()), weight, outer)[0]
    assert torch.allclose(found, to_weight, atol=1e-12)


@pytest.mark.slow
def test_it_keeps_the_rules_of_an_operator() -> None:
    """Schema, shapes without numbers, gradients and compilation, as torch checks them."""
    inward, weight, _ = case(2, 3, 4, 3)
    inward.requires_grad_()
    weight.requires_grad_()
    torch.library.opcheck(kernels._forward, (inward, weight, True))
    torch.library.opcheck(kernels._forward, (inward.detach(), weight.detach(), False))


def test_autocast_gives_bfloat16() -> None:
    inward, weight, _ = case(2, 3, 4, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = lstm_scan(inward.to(torch.bfloat16), weight.to(SINGLE))
    assert h.dtype == torch.bfloat16
    assert (h.double() - reference(inward, weight)).abs().max() < 0.02


INTERPRETED = ((2, 3, 4, 5), (1, 17, 2, 20), (1, 1, 1, 1))


def interpreted() -> None:
    """Print how far the Triton kernels, run by Triton's interpreter, are from the definition."""
    from separatrix.models.kernels import triton_lstm_scan as kernels
    from separatrix.models.kernels import triton_lstm_whole as whole

    found = {"float32": [gaps(kernels.scan, shape, SINGLE) for shape in INTERPRETED]}
    found["float16"] = [gaps(kernels.scan, (2, 3, 4, 5), torch.float16)]
    inward_kept, weight_kept, _ = (each.to(SINGLE) for each in case(*INTERPRETED[1]))
    with torch.no_grad():
        forgetful = lstm_scan(inward_kept, weight_kept, backend="triton")
    remembering = kernels.scan(inward_kept.clone().requires_grad_(), weight_kept)
    found["nothing kept"] = [[float((forgetful - remembering).abs().max())]]
    compiled = torch.compile(partial(lstm_scan, backend="triton"), fullgraph=True, backend="aot_eager")
    found["compiled"] = [gaps(compiled, INTERPRETED[0], SINGLE)]
    # Cells that hardly open leave tiny numbers behind, whose digits must be right.
    inward, weight, _ = case(1, 4, 2, 4)
    inward = inward * torch.logspace(-6, 0, 4, dtype=DOUBLE).view(1, 4, 1, 1)
    tiny = kernels.scan(inward.to(SINGLE), 0 * weight.to(SINGLE)).double()
    found["tiny"] = [[float((tiny / reference(inward, 0 * weight) - 1).abs().max())]]
    found["no positions"] = [[float(kernels.scan(torch.ones(1, 2, 0, 16), torch.ones(1, 4, 16)).numel())]]
    found["all examples and cells"] = [gaps(kernels.scan, (2, 33, 3, 64), SINGLE)]
    # So far all steps were one kernel, as cells were few; from here on each has its own.
    vars(whole)["MOST_CELLS"] = 0
    found["steps"] = [gaps(kernels.scan, shape, SINGLE) for shape in INTERPRETED]
    with torch.no_grad():
        again = lstm_scan(inward_kept, weight_kept, backend="triton")
    found["steps, nothing kept"] = [[float((again - forgetful).abs().max())]]
    # With blocks smaller than the shape, each loop and each axis of the grid goes round more than once.
    small = kernels.Blocks(rows=16, units=16, terms=16, warps=4, stages=2)
    kernels.blocks_for = lambda *_, backward: small
    found["small blocks"] = [gaps(kernels.scan, (2, 18, 3, 21), SINGLE)]
    print(json.dumps(found))


@pytest.mark.slow
def test_triton_kernels_under_the_interpreter() -> None:
    printed = json.loads(kernel_checks.interpreted(interpreted))
    found = {name: max(max(each) for each in parts) for name, parts in printed.items()}
    assert found.pop("float16") < 2e-3
    assert found.pop("nothing kept") == 0
    assert set(found) == {
        "float32", "compiled", "tiny", "no positions", "all examples and cells", "steps",
        "steps, nothing kept",
        "small blocks",
    }  # fmt: skip
    assert max(found.values()) < 2e-6, found


def test_ways_that_do_not_fit_are_refused() -> None:
    inward, weight, _ = case(1, 2, 3, 4)
    with pytest.raises(InvalidInput, match="computed by reference, parallel, triton; got backend=fla"):
        lstm_scan(inward, weight, backend="fla")
    with pytest.raises(InvalidInput, match="on a CUDA device; these numbers are on cpu"):
        lstm_scan(inward, weight, backend="triton")
