"""Attention over pairs of positions: against a sum written out pair by pair, and in every arithmetic."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from separatrix.models.explicit.third_order import ThirdOrderHead
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem

SYSTEMS: tuple[NumberSystem, ...] = (Float64(), Float32(), FixedDown(n=10, k=4), FixedNearest(p=33))


def head_and_stream(seed: int = 0) -> tuple[ThirdOrderHead, Tensor, Tensor]:
    torch.manual_seed(seed)
    shapes = {"query": 3, "first_key": 3, "second_key": 3, "first_value": 2, "second_value": 2}
    head = ThirdOrderHead(**{name: torch.randn(rows, 4).double() for name, rows in shapes.items()})
    stream = torch.randn(2, 5, 4).double()
    mask = torch.rand(2, 5, 5) < 0.7
    return head, stream, mask | torch.eye(5, dtype=torch.bool)


def by_hand(head: ThirdOrderHead, stream: Tensor, mask: Tensor, batch: int, query: int) -> list[float]:
    """Σ over pairs that the mask shows of e^logit · value, over Σ e^logit, with Python's own numbers."""
    x = stream[batch]
    top, bottom = [0.0, 0.0], 0.0
    for j in range(5):
        for k in range(5):
            if not (mask[batch, query, j] and mask[batch, query, k]):
                continue
            parts = zip(head.query @ x[query], head.first_key @ x[j], head.second_key @ x[k], strict=True)
            mass = math.exp(sum(float(q) * float(a) * float(b) for q, a, b in parts))
            values = zip(head.first_value @ x[j], head.second_value @ x[k], strict=True)
            top = [t + mass * float(v) * float(w) for t, (v, w) in zip(top, values, strict=True)]
            bottom += mass
    return [t / bottom for t in top]


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_it_is_the_mean_over_all_pairs(system: NumberSystem) -> None:
    head, stream, mask = head_and_stream()
    encoded = system.encode(stream)
    found = system.decode_float64(head.attend(system, encoded, head.keep(system, encoded), mask))
    wanted = torch.tensor([[by_hand(head, stream, mask, b, q) for q in range(5)] for b in range(2)])
    assert torch.allclose(found, wanted.double(), atol=2e-2 if system.bits < 32 else 2e-3)
    if system == Float64():
        assert torch.allclose(found, wanted.double(), atol=1e-6)


def test_a_pair_needs_both_of_its_positions() -> None:
    head, stream, _ = head_and_stream(1)
    alone = torch.eye(5, dtype=torch.bool).expand(2, -1, -1)
    system = Float64()
    encoded = system.encode(stream)
    found = system.decode_float64(head.attend(system, encoded, head.keep(system, encoded), alone))
    assert torch.allclose(found, (stream @ head.first_value.T) * (stream @ head.second_value.T))


def test_weights_go_out_and_come_back() -> None:
    head, _, _ = head_and_stream(2)
    tensors = head.tensors("h")
    again = ThirdOrderHead.taken(dict(tensors), "h", width=4)
    assert all(torch.equal(tensors[name], each) for name, each in again.tensors("h").items())
    assert (head.inner, head.out, head.kept, head.logits_at_once(7)) == (3, 2, 10, 49)
