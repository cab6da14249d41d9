"""The worst case of a softmax head on a CUDA device is that of the CPU."""

from __future__ import annotations

import pytest
import torch

from separatrix.certificates.worst_case import Head, worst_case
from tests.certificates.heads import KINDS, draw

pytestmark = pytest.mark.gpu

NEEDS = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@NEEDS
@pytest.mark.parametrize("kind", KINDS)
def test_small_heads_have_the_worst_case_of_the_cpu(kind: str) -> None:
    generator = torch.Generator().manual_seed(KINDS.index(kind))
    for _ in range(20):
        drawn = draw(kind, generator)
        given = drawn.head.allowed
        on_device = Head(drawn.head.logits.cuda(), None if given is None else given.cuda())
        host, device = worst_case(drawn.head, drawn.values), worst_case(on_device, drawn.values.cuda())
        assert device.value.is_cuda
        assert device.options.is_cuda
        assert abs(float(device.value) - float(host.value)) <= 1e-12 * drawn.size


@NEEDS
def test_many_queries_and_directions_and_one_long_head() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn((300, 50, 64), generator=generator, dtype=torch.float64)
    values = torch.randn((8, 50, 64), generator=generator, dtype=torch.float64)
    host, device = worst_case(Head(logits), values), worst_case(Head(logits.cuda()), values.cuda())
    assert torch.allclose(device.value.cpu(), host.value, rtol=0, atol=1e-13)
    assert torch.equal(device.options.cpu(), host.options)

    logits = torch.randn((400_000, 64), generator=generator, dtype=torch.float64)  # more than one part
    values = torch.randn((400_000, 64), generator=generator, dtype=torch.float64)
    host, device = worst_case(Head(logits), values), worst_case(Head(logits.cuda()), values.cuda())
    assert float(device.value) == pytest.approx(float(host.value), abs=1e-12)


@NEEDS
def test_the_enclosure_of_a_head_on_the_device_is_that_of_the_cpu() -> None:
    enclosed = pytest.importorskip("separatrix.certificates.worst_case_enclosed").enclosed  # ball arithmetic
    generator = torch.Generator().manual_seed(1)
    logits, values = (torch.randn((5000, 64), generator=generator, dtype=torch.float64) for _ in range(2))
    found = enclosed(Head(logits.cuda()), values.cuda())
    assert found.interval == enclosed(Head(logits), values).interval
