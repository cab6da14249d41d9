"""What tests of kernels on a CUDA device share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
import torch
from torch import Tensor

__all__ = ["NEEDS_CUDA", "graph_replays", "home", "member_alone", "random_shapes", "same_bytes"]

NEEDS_CUDA = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

Compute = Callable[..., Tensor]


def home(found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Everything on the CPU."""
    return {name: values.cpu() for name, values in found.items()}


def random_shapes(*most: int) -> Iterator[tuple[int, ...]]:
    """A dozen shapes with sizes from 1 to the given ones."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(12):
        yield tuple(int(torch.randint(1, top + 1, (), generator=generator)) for top in most)


def same_bytes(run: Callable[[], Mapping[str, Tensor]]) -> bool:
    """Whether four runs give the same."""
    first, *others = (run() for _ in range(4))
    return all(torch.equal(first[name], again[name]) for again in others for name in first)


def member_alone(compute: Compute, parts: Sequence[Tensor]) -> bool:
    """Whether the second member's outputs and gradients are those that it has alone, to the last bit."""
    whole = compute(*parts)
    single = [part.detach()[1:2].requires_grad_() for part in parts]
    alone = compute(*single)
    slopes = torch.ones_like(whole)
    together = torch.autograd.grad(whole, list(parts), slopes)
    lonely = torch.autograd.grad(alone, single, slopes[1:2])
    return torch.equal(whole[1:2], alone) and all(
        torch.equal(mine[1:2], right) for mine, right in zip(together, lonely, strict=True)
    )


def graph_replays(compute: Compute, parts: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Whether a CUDA graph that recorded gradients for some numbers gives, replayed, those for others.

    An output has the shape of the first part.
    """
    slopes = torch.ones_like(parts[0])
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            torch.autograd.grad(compute(*parts), list(parts), slopes)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = torch.autograd.grad(compute(*parts), list(parts), slopes)
    with torch.no_grad():
        for part, other in zip(parts, others, strict=True):
            part.copy_(other)
    graph.replay()
    plain = torch.autograd.grad(compute(*others), list(others), slopes)
    return all(torch.equal(mine, right) for mine, right in zip(recorded, plain, strict=True))
