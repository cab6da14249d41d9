"""The selective scan: every way to compute it against the definition in float64, outputs and gradients."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.kernels import selective_scan as scans
from separatrix.models.kernels.selective_scan import (
    one_step,
    parallel,
    reference,
    selective_scan,
    step_sizes,
)
from tests.models import kernel_checks
from tests.models.kernel_checks import agree, exact_of, interpreted

Shape = tuple[int, int, int, int, int]
"""Members, batch, length, channels, state."""
NAMES = ("x", "raw", "bias", "rate", "write", "read", "skip")
results = partial(kernel_checks.results, names=NAMES)


def parts_of(shape: Shape, *, seed: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Everything that a scan takes, with decays from nearly 1 to nearly 0."""
    members, batch, length, channels, state = shape
    generator = torch.Generator().manual_seed(seed)

    def normal(*sizes: int) -> Tensor:
        return torch.randn(*sizes, generator=generator, dtype=torch.float64)

    parts = [
        normal(members, batch, length, channels),
        2 * normal(members, batch, length, channels) - 1,
        normal(members, channels) - 1,
        -torch.exp(normal(members, channels, state)),
        normal(members, batch, length, state),
        normal(members, batch, length, state),
        normal(members, channels),
    ]
    return [part.to(dtype).requires_grad_() for part in parts]


@settings(deadline=None, max_examples=40)
@given(
    shape=st.tuples(
        st.integers(1, 3), st.integers(1, 3), st.integers(1, 21), st.integers(1, 5), st.integers(1, 5)
    ),
    numbers=st.sampled_from([1, 60, 1 << 18]),
    seed=st.integers(0, 1000),
)
def test_parallel_is_the_definition(shape: Shape, numbers: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scans, "_CHUNK_NUMBERS", numbers)
        patch.setattr(scans, "_SHORTEST_CHUNK", 3)
        parts = parts_of(shape, seed=seed)
        agree(results(parallel, parts), results(reference, parts), 1e-11)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 100])
def test_parallel_is_the_definition_at_its_own_chunks(length: int) -> None:
    parts = parts_of((2, 4, length, 70, 16), seed=length)
    agree(results(parallel, parts), results(reference, parts), 1e-11)
    small = [part.detach().float().requires_grad_() for part in parts]
    agree(results(parallel, small), results(reference, parts), 1e-5)


def test_bf16_and_autocast_lose_no_more_than_the_rounding_of_inputs_and_outputs() -> None:
    small = parts_of((2, 2, 40, 6, 4), seed=1, dtype=torch.bfloat16)
    expected = results(reference, exact_of(small))
    agree(results(parallel, small), expected, 2**-8)
    assert parallel(*small).dtype == torch.bfloat16
    plain = [part.detach().float().requires_grad_() for part in small]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        agree(results(parallel, plain), expected, 1e-5)


def test_definition_is_a_sum_over_the_past() -> None:
    """y_t = Σ_s C_t exp(a Σ_{s<r≤t} δ_r) δ_s x_s B_s + D x_t, written out."""
    x, raw, bias, rate, write, read, skip = (part.detach() for part in parts_of((2, 2, 6, 3, 4), seed=4))
    y = reference(x, raw, bias, rate, write, read, skip)
    delta = torch.log1p(torch.exp(raw + bias[:, None, None]))
    for t in range(6):
        total = skip[:, None] * x[:, :, t]
        for s in range(t + 1):
            passed = delta[:, :, s + 1 : t + 1].sum(2)
            decay = torch.exp(passed.unsqueeze(-1) * rate.unsqueeze(1))
            weight = (decay * (write[:, :, s] * read[:, :, t]).unsqueeze(2)).sum(-1)
            total += weight * delta[:, :, s] * x[:, :, s]
        assert torch.allclose(y[:, :, t], total, atol=1e-12)


def test_one_step_goes_on_from_a_state() -> None:
    x, raw, bias, rate, write, read, skip = parts = parts_of((2, 3, 5, 4, 2), seed=5)
    delta = step_sizes(raw, bias)
    h = torch.zeros(2, 3, 4, 2, dtype=torch.float64)
    for t in range(5):
        y, h = one_step(h, x[:, :, t], delta[:, :, t], rate, write[:, :, t], read[:, :, t], skip)
        assert torch.allclose(y, parallel(*parts)[:, :, t], atol=1e-12)


def test_steps_are_safe_and_full() -> None:
    """No overflow at either end, and in bf16 the sum with the bias is not rounded."""
    raw = torch.tensor([-300.0, -20.0, 0.0, 19.0, 21.0, 300.0]).view(1, 1, 6, 1)
    steps = step_sizes(raw, torch.zeros(1, 1)).flatten().tolist()
    assert steps[0] == 0
    assert steps[1:] == pytest.approx([2.0611536e-9, 0.6931472, 19, 21, 300], rel=1e-6)
    bias = torch.tensor([[0.001]])
    found = step_sizes(raw.bfloat16(), bias)
    assert torch.equal(found, F.softplus(raw + 0.001))


def test_a_long_input_with_strong_decays_stays_finite() -> None:
    parts = parts_of((1, 1, 600, 3, 4), seed=6, dtype=torch.float32)
    parts[1] = (parts[1] * 100).detach().requires_grad_()
    assert all(bool(values.isfinite().all()) for values in results(parallel, parts).values())


def test_backends_are_chosen_by_name() -> None:
    parts = parts_of((1, 2, 5, 3, 2), seed=7)
    expected = reference(*parts)
    for backend in ("auto", "reference", "parallel"):
        assert torch.allclose(selective_scan(*parts, backend=backend), expected)
    with pytest.raises(InvalidInput, match="computed by reference, parallel, triton; got backend=fla"):
        selective_scan(*parts, backend="fla")


@pytest.mark.slow
def test_a_compiler_sees_one_operation() -> None:
    parts = parts_of((1, 2, 30, 3, 2), seed=8)
    x, delta, _, rate, write, read, _ = (part.detach() for part in parts)
    x, delta, write, read = (part.permute(2, 0, 1, 3).contiguous() for part in (x, delta, write, read))
    torch.library.opcheck(
        torch.ops.separatrix.selective_scan_in_chunks.default,
        (x, delta, rate.transpose(1, 2).contiguous(), write, read),
        test_utils=("test_schema", "test_faketensor"),
    )
    torch.compiler.reset()
    compiled = torch.compile(selective_scan, backend="aot_eager", fullgraph=True)
    agree(results(compiled, parts), results(reference, parts), 1e-11)


TRITON_SHAPES: tuple[Shape, ...] = (
    (1, 1, 1, 1, 1),
    (1, 1, 2, 35, 4),  # a warp's channels and a part of another's
    (1, 1, 3, 32, 16),  # all whole
    (1, 1, 1, 20, 11),
    (1, 1, 2, 9, 20),  # lanes that own two numbers of B and C
    (1, 1, 1, 2, 130),  # all lanes share a state
)


def check_triton_kernels() -> None:
    """Run in a process of its own, where Triton interprets its kernels on the CPU."""
    from separatrix.models.kernels.triton_selective_scan import Blocks, blocks_for, scan

    for place, shape in enumerate(TRITON_SHAPES):
        exact = parts_of(shape, seed=place)
        small = [part.detach().float().requires_grad_() for part in exact]
        agree(results(scan, small), results(reference, exact), 1e-5)
    assert blocks_for(16).is_whole(3, 32, 16)
    assert not any(blocks_for(16).is_whole(*sizes) for sizes in ((4, 32, 16), (3, 33, 16), (3, 32, 15)))

    exact = parts_of((2, 1, 5, 5, 3), seed=9)
    small = [part.detach().float().requires_grad_() for part in exact]
    expected = results(reference, exact)
    for cut in (
        Blocks(steps=3, state_lanes=8, lane_channels=2, registers=0, early=0),
        Blocks(steps=4, state_lanes=2, lane_channels=2, registers=0, early=0),
    ):
        agree(results(lambda *parts, cut=cut: scan(*parts, blocks=cut), small), expected, 1e-5)
    with torch.no_grad():
        assert torch.equal(scan(*small), selective_scan(*small, backend="triton"))

    far = [part.detach().clone() for part in small]
    far[1] = torch.tensor([-300.0, -20.0, 0.0, 21.0, 300.0]).view(1, 1, 5, 1).expand(2, 1, 5, 5)
    far = [part.requires_grad_() for part in far]
    agree(results(scan, far), results(reference, exact_of(far)), 1e-5)

    whole = [part.detach().bfloat16().requires_grad_() for part in parts_of((1, 1, 3, 32, 16), seed=3)]
    mixed = [part.detach().bfloat16().requires_grad_() for part in exact]
    for parts in (whole, mixed):
        for place in (2, 3, 6):  # weights keep their precision
            parts[place] = parts[place].detach().float().requires_grad_()
        found = results(scan, parts)
        assert [found[name].dtype for name in NAMES] == [part.dtype for part in parts]
        agree(found, results(reference, exact_of(parts)), 2**-7)

    weights = torch.ones_like(small[0])
    together = torch.autograd.grad(scan(*small), small, weights)
    single = [part.detach()[1:].requires_grad_() for part in small]
    alone = torch.autograd.grad(scan(*single), single, weights[1:])
    assert all(torch.equal(mine[1:], right) for mine, right in zip(together, alone, strict=True))
    print("agreed")


@pytest.mark.slow
def test_triton_kernels_are_the_definition() -> None:
    assert interpreted(check_triton_kernels) == "agreed\n"
