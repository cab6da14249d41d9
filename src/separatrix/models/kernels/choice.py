"""Which of several ways to compute the same thing: the choice is made by name or by where the numbers are.

`reference` is the definition, step by step; `parallel` is plain PyTorch made fast; `triton` are this
package's GPU kernels; `fla` those of flash-linear-attention, where that is installed. `auto` takes Triton on
a CUDA device, in any type but float64, and `parallel` otherwise.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Final, Literal, TypeAlias

import torch
from torch import Tensor, nn

from separatrix.errors import InvalidInput
from separatrix.registry import unknown_name

__all__ = ["BACKENDS", "Backend", "chosen", "use_backend"]

Backend: TypeAlias = Literal["auto", "reference", "parallel", "triton", "fla"]
BACKENDS: Final[tuple[Backend, ...]] = ("auto", "reference", "parallel", "triton", "fla")


def chosen(backend: Backend, x: Tensor, *, offers: tuple[Backend, ...]) -> Backend:
    """The way to compute on numbers like `x`; `reference` and `parallel` are always on offer."""
    if backend == "auto":
        on_gpu = x.is_cuda and x.dtype != torch.float64 and "triton" in offers and _installed("triton")
        return "triton" if on_gpu else "parallel"
    if backend not in offers:
        raise InvalidInput(f"This mixer is computed by {', '.join(offers)}; got backend={backend}.")
    if backend in {"triton", "fla"} and not _installed(backend):
        raise InvalidInput(
            f"backend={backend} needs the package {_PACKAGES[backend]}; install it, or leave it out."
        )
    if backend == "triton" and not x.is_cuda and not _INTERPRETED:
        raise InvalidInput(f"backend=triton computes on a CUDA device; these numbers are on {x.device}.")
    return backend


def use_backend(model: nn.Module, backend: Backend) -> None:
    """Have every mixer of a model that offers several ways compute in this one."""
    if backend not in BACKENDS:
        raise unknown_name("backend", backend, BACKENDS)
    offering = [module for module in model.modules() if "backend" in vars(module)]
    if not offering and backend != "auto":
        raise InvalidInput(
            f"This model's mixers are computed in one way only; got backend={backend}. Leave it out."
        )
    for module in offering:
        vars(module)["backend"] = backend


_PACKAGES: Final = {"triton": "triton", "fla": "flash-linear-attention"}


_INTERPRETED: Final = os.environ.get("TRITON_INTERPRET") == "1"
"""Triton's own way to run kernels on a CPU, slowly, for tests."""
# Looked up once and not on demand: a compiler that traces the choice cannot trace the search for a package.
_FOUND: Final = frozenset(package for package in _PACKAGES if importlib.util.find_spec(package) is not None)


def _installed(package: str) -> bool:
    return package in _FOUND
