"""What tests of kernels share: outputs and gradients side by side, and Triton interpreted on the CPU."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

__all__ = ["agree", "exact_of", "interpreted", "results"]

_ROOT = Path(__file__).parents[2]


def exact_of(parts: Sequence[Tensor]) -> list[Tensor]:
    """The same numbers in float64."""
    return [part.detach().double().requires_grad_() for part in parts]


def results(
    compute: Callable[..., Tensor], parts: Sequence[Tensor], *, names: Sequence[str]
) -> dict[str, Tensor]:
    """The output y and the gradient of every input, under weights that are the same in every type."""
    y = compute(*parts)
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(9)).bfloat16()
    slopes = torch.autograd.grad((y * weights.to(y)).sum(), parts)
    return {"y": y.detach(), **dict(zip(names, slopes, strict=True))}


def agree(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], tolerance: float) -> None:
    """All that is expected is found, within a share of its largest number or of 1."""
    for name, right in expected.items():
        assert found[name].shape == right.shape
        scale = max(1.0, right.abs().max().item())
        gap = (found[name].double() - right.double()).abs().max().item() / scale
        assert gap <= tolerance, f"{name} differs by {gap:.1e}"


def interpreted(check: Callable[[], None]) -> str:
    """What a function prints in a process of its own, where Triton interprets its kernels on the CPU."""
    if importlib.util.find_spec("triton") is None:
        pytest.fail("the development tools include triton")
    done = subprocess.run(
        [sys.executable, "-c", f"from {check.__module__} import {check.__name__} as check; check()"],
        cwd=_ROOT,
        env=os.environ
        | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{_ROOT / 'src'}:{_ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
