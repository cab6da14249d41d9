"""Decayed linear attention: every way to compute it against the sum written out, forward and gradients."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.kernels import choice, fla_backend
from separatrix.models.kernels.choice import Backend
from separatrix.models.kernels.decayed_attention import (
    attention_at,
    attention_with_totals,
    decayed_attention,
    parallel,
    reference,
)
from tests.models.kernel_checks import interpreted

Inputs = tuple[Tensor, Tensor, Tensor]
Way = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, ...]]


def drawn(
    rows: int,
    length: int,
    heads: int,
    key: int,
    value: int,
    *,
    seed: int = 0,
    kind: torch.dtype = torch.float64,
) -> Inputs:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((rows, length, heads, width) for width in (key, key, value))
    q, k, v = (torch.randn(shape, generator=generator, dtype=torch.float64).to(kind) for shape in shapes)
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_()


def decays(*values: float, kind: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor([math.log(value) for value in values], dtype=kind)


def results(way: Way, inputs: Inputs) -> list[Tensor]:
    """What comes out, and the gradients of a random weighting of it."""
    outputs = way(*inputs)
    generator = torch.Generator().manual_seed(99)
    weights = [torch.randn(each.shape, generator=generator, dtype=torch.float64) for each in outputs]
    loss = sum((each.double() * w).sum() for each, w in zip(outputs, weights, strict=True))
    assert isinstance(loss, Tensor)
    return [each.detach() for each in (*outputs, *torch.autograd.grad(loss, inputs))]


def gaps(found: list[Tensor], meant: list[Tensor]) -> list[float]:
    """The largest difference of each, beside its largest number."""
    return [float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, meant, strict=True)]


def test_the_reference_is_the_sum_written_out() -> None:
    q, k, v = (x.detach() for x in drawn(2, 5, 2, 3, 4))
    gammas = (0.9, 0.3)
    found = reference(q, k, v, decays(*gammas))
    for row in range(2):
        for head, gamma in enumerate(gammas):
            for t in range(5):
                meant = sum(
                    gamma ** (t - s) * float(q[row, t, head] @ k[row, s, head]) * v[row, s, head]
                    for s in range(t + 1)
                )
                assert torch.allclose(found[row, t, head], torch.as_tensor(meant), rtol=0, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 3),
    st.sampled_from([1, 2, 7, 63, 64, 65, 130]),
    st.integers(1, 3),
    st.integers(1, 5),
    st.integers(1, 5),
    st.sampled_from([None, 0.999, 0.5, 1e-3]),
    st.sampled_from([None, 1, 5, 16]),
)
def test_chunks_give_what_steps_give(
    rows: int, length: int, heads: int, key: int, value: int, decay: float | None, chunk: int | None
) -> None:
    inputs = drawn(rows, length, heads, key, value, seed=length)
    rates = None if decay is None else decays(*(decay ** (head + 1) for head in range(heads)))
    meant = results(lambda q, k, v: (reference(q, k, v, rates),), inputs)
    found = results(lambda q, k, v: (parallel(q, k, v, rates, chunk=chunk),), inputs)
    assert max(gaps(found, meant)) < 1e-12


def apart(way: Way, begins: Tensor, inputs: Inputs) -> list[Tensor]:
    """The same with each input of each row in a row of its own, joined again."""

    def each(*given: Tensor) -> tuple[Tensor, ...]:
        found = []
        for row, begin in enumerate(begins.tolist()):
            rows = [x[row : row + 1] for x in given]
            parts = [way(*(x[:, span] for x in rows)) for span in (slice(None, begin), slice(begin, None))]
            found.append([torch.cat(both, dim=1) for both in zip(*parts, strict=True)])
        return tuple(torch.cat(column) for column in zip(*found, strict=True))

    return results(each, inputs)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([2, 3, 31, 64, 65, 130]),
    st.sampled_from([None, 0.999, 0.5]),
    st.sampled_from([None, 1, 5, 16]),
    st.data(),
)
def test_two_inputs_of_a_row_do_not_see_each_other(
    length: int, decay: float | None, chunk: int | None, data: st.DataObject
) -> None:
    """Wherever the second begins: at a chunk's border, in its middle, at the first position or the last."""
    begins = torch.tensor(data.draw(st.lists(st.integers(1, length - 1), min_size=3, max_size=3)))
    inputs = drawn(3, length, 2, 3, 4, seed=length)
    rates = None if decay is None else decays(decay, decay**2)
    meant = apart(lambda q, k, v: (reference(q, k, v, rates),), begins, inputs)
    stepped = results(lambda q, k, v: (reference(q, k, v, rates, begins=begins),), inputs)
    chunked = results(lambda q, k, v: (parallel(q, k, v, rates, begins=begins, chunk=chunk),), inputs)
    assert max(gaps(stepped, meant)) < 1e-12
    assert max(gaps(chunked, meant)) < 1e-12
    inputs = tuple(x.detach() for x in inputs)  # type: ignore[assignment]
    read, total = attention_with_totals(*inputs, rates, begins=begins)
    at = torch.stack([begins - 1, begins, torch.full((3,), length - 1), torch.zeros(3, dtype=torch.int64)], 1)
    asked = inputs[0].gather(1, at.view(3, 4, 1, 1).expand(3, 4, 2, 3))
    few, few_totals = attention_at(asked, inputs[1], inputs[2], at, rates, begins=begins)
    place = at.view(3, 4, 1, 1)
    assert max(gaps([few], [read.gather(1, place.expand(3, 4, 2, 4))])) < 1e-12
    assert max(gaps([few_totals], [total.gather(1, at.unsqueeze(2).expand(3, 4, 2))])) < 1e-12


def test_long_inputs_have_longer_chunks() -> None:
    q, k, v = (x.detach() for x in drawn(1, 5000, 1, 2, 2))
    rates = decays(0.999)
    assert max(gaps([parallel(q, k, v, rates)], [reference(q, k, v, rates)])) < 1e-11


@pytest.mark.parametrize("rates", [None, decays(0.9, 0.5)])
def test_totals_are_the_sums_of_weights(rates: Tensor | None) -> None:
    inputs = drawn(2, 70, 2, 3, 4)

    def written_out(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        apart = (torch.arange(70).view(-1, 1) - torch.arange(70)).double()
        faded = torch.ones(2, 70, 70) if rates is None else (rates.view(-1, 1, 1) * apart).exp()
        weights = torch.einsum("rthk,rshk->rhts", q, k) * faded.tril()
        return torch.einsum("rhts,rshv->rthv", weights, v), weights.sum(-1).transpose(1, 2)

    meant = results(written_out, inputs)
    backends: tuple[Backend, ...] = ("reference", "parallel", "auto")
    for backend in backends:

        def way(q: Tensor, k: Tensor, v: Tensor, backend: Backend = backend) -> tuple[Tensor, ...]:
            return attention_with_totals(q, k, v, rates, backend=backend)

        assert max(gaps(results(way, inputs), meant)) < 1e-12
    at = torch.tensor([[3, 69], [0, 3]])

    def few(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        asked = q.gather(1, at.view(2, 2, 1, 1).expand(2, 2, 2, 3))
        return attention_at(asked, k, v, at, rates)

    def gathered(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        read, total = written_out(q, k, v)
        place = at.view(2, 2, 1, 1)
        return read.gather(1, place.expand(2, 2, 2, 4)), total.gather(1, at.unsqueeze(2).expand(2, 2, 2))

    assert max(gaps(results(few, inputs), results(gathered, inputs))) < 1e-12


def test_decays_get_no_gradient() -> None:
    inputs, rates = drawn(1, 70, 1, 2, 2), decays(0.9).requires_grad_()
    for way in (reference, parallel):
        torch.autograd.backward(way(*inputs, rates).sum())
        assert rates.grad is None


def test_low_precision_is_summed_in_float32() -> None:
    exact = drawn(2, 200, 2, 8, 8)
    q, k, v = (x.detach().bfloat16() for x in exact)
    meant = reference(q.double(), k.double(), v.double(), decays(0.99, 0.9))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for way in (reference, parallel):
            found = way(q, k, v, decays(0.99, 0.9, kind=torch.float32))
            assert found.dtype == torch.bfloat16
            assert gaps([found.double()], [meant])[0] < 2**-8  # one rounding, at the end


def test_ways_that_are_not_there_are_refused() -> None:
    inputs = drawn(1, 3, 1, 2, 2, kind=torch.float32)
    with pytest.raises(InvalidInput, match="reference, parallel, triton, fla; got backend=cuda"):
        decayed_attention(*inputs, backend="cuda")  # type: ignore[arg-type]
    with pytest.raises(
        InvalidInput, match="backend=triton computes on a CUDA device; these numbers are on cpu"
    ):
        decayed_attention(*inputs, backend="triton")
    if importlib.util.find_spec("fla") is None:
        with pytest.raises(InvalidInput, match="needs the package flash-linear-attention; install it"):
            attention_with_totals(*inputs, backend="fla")
        with pytest.raises(InvalidInput, match="needs the package flash-linear-attention"):
            fla_backend.attention(*inputs)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """A package `fla` that computes by definition, with the real one's signature and default scale."""
    scales: list[float | None] = []

    def chunk_simple_gla(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        g: Tensor | None = None,
        g_gamma: Tensor | None = None,
        scale: float | None = None,
    ) -> tuple[Tensor, None]:
        assert g is None
        scales.append(scale)
        return reference(q * (k.shape[-1] ** -0.5 if scale is None else scale), k, v, g_gamma), None

    package, ops, simple = (ModuleType(name) for name in ("fla", "fla.ops", "fla.ops.simple_gla"))
    package.__spec__ = ModuleSpec("fla", loader=None, is_package=True)
    vars(simple)["chunk_simple_gla"] = chunk_simple_gla
    for module in (package, ops, simple):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(choice, "_FOUND", frozenset({"fla", "triton"}))
    return scales


@pytest.mark.parametrize("rates", [None, decays(0.9, 0.5, 0.7)])
def test_flash_linear_attention_is_called_in_its_own_layout(
    stand_in: list[float | None], rates: Tensor | None
) -> None:
    inputs = drawn(2, 9, 3, 4, 5, kind=torch.float32)
    meant = results(lambda q, k, v: attention_with_totals(q, k, v, rates, backend="reference"), inputs)
    found = results(lambda q, k, v: fla_backend.attention_with_totals(q, k, v, rates), inputs)
    assert max(gaps(found, meant)) < 1e-5
    assert set(stand_in) == {1.0}
    with pytest.raises(InvalidInput, match="backend=fla computes on a CUDA device"):
        decayed_attention(*inputs, rates, backend="fla")
    with pytest.raises(InvalidInput, match="backend=fla computes rows of one input each"):
        decayed_attention(*inputs, rates, begins=torch.tensor([3, 4]), backend="fla")
    q, k, v = (x.double() for x in inputs)
    with pytest.raises(InvalidInput, match=r"in float32 and in 16 bits; got torch\.float64"):
        fla_backend.attention(q, k, v)


# Rows, positions, heads, key width, value width, decays, totals, where second inputs begin: one to three
# chunks, one or two blocks.
INTERPRETED: list[tuple[int, int, int, int, int, bool, bool, list[int] | None]] = [
    (1, 1, 1, 3, 5, True, False, None),
    (2, 70, 2, 8, 5, True, True, None),
    (1, 50, 2, 16, 20, False, True, None),
    (1, 20, 1, 16, 300, True, True, None),
    (5, 70, 2, 8, 5, True, True, [1, 32, 40, 64, 69]),
    (2, 50, 2, 16, 20, False, True, [33, 17]),
    (1, 20, 1, 16, 300, True, True, [7]),
]


def interpreted_gaps() -> None:
    """Print how far the Triton kernels, run by Triton's interpreter, are from the reference."""
    from separatrix.models.kernels import triton_decayed_attention as kernels

    found = []
    for rows, length, heads, key, value, decayed, totals, starts in INTERPRETED:
        begins = None if starts is None else torch.tensor(starts)
        rates = decays(*(0.99, 0.5)[:heads]) if decayed else None
        kept = 2 if totals else 1

        def by_steps(
            q: Tensor,
            k: Tensor,
            v: Tensor,
            rates: Tensor | None = rates,
            begins: Tensor | None = begins,
            kept: int = kept,
        ) -> tuple[Tensor, ...]:
            return attention_with_totals(q, k, v, rates, begins=begins, backend="reference")[:kept]

        def by_kernels(
            q: Tensor,
            k: Tensor,
            v: Tensor,
            rates: Tensor | None = rates,
            begins: Tensor | None = begins,
            kept: int = kept,
        ) -> tuple[Tensor, ...]:
            return kernels.attention(q, k, v, rates, totals=kept > 1, begins=begins)[:kept]

        meant = results(by_steps, drawn(rows, length, heads, key, value))
        for kind in (torch.float32, torch.float16):
            q, k, v = (x.detach() for x in drawn(rows, length, heads, key, value, kind=kind))
            # Queries and keys lie head by head, values as a slice of something wider.
            q, k = (x.transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in (q, k))
            v = torch.cat([v, v], dim=-1)[..., :value].requires_grad_()
            found.append((str(kind), max(gaps(results(by_kernels, (q, k, v)), meant))))
    print(json.dumps(found))


@pytest.mark.slow
def test_triton_kernels_under_the_interpreter() -> None:
    found = json.loads(interpreted(interpreted_gaps))
    assert len(found) == 2 * len(INTERPRETED)
    for kind, gap in found:
        assert gap < (1e-6 if "32" in kind else 2e-3), found
