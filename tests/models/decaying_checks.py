"""What tests of the linear Transformer and of RetNet share: their states are sums of outer products."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from separatrix.errors import InvalidInput
from separatrix.models.kernels.choice import Backend, use_backend
from separatrix.models.population import Signature
from separatrix.models.stack import Stack
from separatrix.tasks.interface import Classes, Tokens

__all__ = ["SIGNATURE", "few_labels_and_many", "near_under_autocast", "random", "same_by_every_way"]

SIGNATURE = Signature(inputs=Tokens(size=5), targets=Classes(size=5), length=200)
_WAYS: tuple[Backend, ...] = ("reference", "parallel")


def random(*shape: int) -> Tensor:
    """Normal numbers in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def _tokens(length: int) -> Tensor:
    return torch.randint(5, (2, 3, length), generator=torch.Generator().manual_seed(0))


def few_labels_and_many(mixer: nn.Module, labels: int, *, within: float) -> None:
    """Two members of width 8 that are asked at some positions give what stands there among all."""
    x = random(2, 3, 70, 8)
    at = torch.randint(70, (2, 3, labels), generator=torch.Generator().manual_seed(labels))
    asked = mixer(x).gather(2, at.unsqueeze(-1).expand(2, 3, labels, 8))
    torch.testing.assert_close(mixer(x, at), asked, rtol=0, atol=within)


def same_by_every_way(model: Stack, *, within: float) -> None:
    """Two members in float64; what needs a GPU says so."""
    model, tokens = model.initialise([1, 2]).double(), _tokens(130)
    meant = model(tokens)
    for backend in _WAYS:
        use_backend(model, backend)
        torch.testing.assert_close(model(tokens), meant, rtol=0, atol=within)
    use_backend(model, "triton")
    with pytest.raises(InvalidInput, match="CUDA device"):
        model(tokens)


def near_under_autocast(model: Stack) -> None:
    """Two members, at once and token by token, and their gradients."""
    model, tokens = model.initialise([1, 2]), _tokens(100)
    meant = model(tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = model(tokens)
        found.float().square().sum().backward()
        state, outputs = model.start(3), []
        for token in tokens.unbind(2):
            output, state = model.step(token, state)
            outputs.append(output)
    assert (found.float() - meant).abs().max() < 0.05 * meant.abs().max()
    assert (torch.stack(outputs, 2).float() - meant).abs().max() < 0.05 * meant.abs().max()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())
