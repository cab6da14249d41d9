"""Triton's kernels are translated and assembled for an H200, without one: the compiler needs no GPU.

The interpreter says what a kernel computes, and nothing of whether the compiler takes it and whether its
blocks find room on the chip. In a process of its own every launch compiles and runs nothing, so that what is
called gets memory for an answer that nobody has written to.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[2]
CAPABILITY, WARP = 90, 32
MOST_SHARED = 227 * 1024
"""Bytes of shared memory that a block may have on this chip."""
POPULATIONS = [
    ("RetNet", 64),
    ("RetNet", 256),
    ("LinTF", 64),
    ("LinTF", 256),
    ("Mamba", 64),
    ("Mamba", 1024),
    ("LSTM", 64),
    ("LSTM", 256),
]
"""S's labels and widths of its figures."""


@pytest.mark.slow
def test_every_kernel_compiles_and_finds_room() -> None:
    found = translated("used")
    unused = {name for name in found["kernels"] if name not in found["shared"]}
    assert unused == set(), "no population of the figures launches these"
    too_large = {name: most for name, most in found["shared"].items() if most > MOST_SHARED}
    assert not too_large
    assert max(found["shared"].values()) > 0


@pytest.mark.slow
def test_a_kernel_that_the_compiler_refuses_is_noticed() -> None:
    with pytest.raises(AssertionError, match="CompilationError"):
        translated("refused")


def translated(what: str) -> dict[str, Any]:
    """What one of the functions below prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"from {__name__} import {what}; {what}()"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# What follows runs in the other process.


class Hopper:
    """What Triton asks of a driver before it compiles."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", CAPABILITY, WARP)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _: int) -> int:
        return 0


def compiling_only() -> dict[str, int]:
    """From now on a launch compiles and nothing else; the most shared memory that each kernel asked for."""
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    driver.set_active(Hopper())
    most: dict[str, int] = {}
    run = JITFunction.run

    def compiled(self: Any, *args: Any, grid: Any, warmup: bool, **given: Any) -> Any:
        kernel = run(self, *args, grid=grid, warmup=True, **given)
        name = name_of(self)
        most[name] = max(most.get(name, 0), kernel.metadata.shared)
        return kernel

    JITFunction.run = compiled
    return most


def name_of(kernel: Any) -> str:
    return f"{kernel.fn.__module__.rpartition('.')[2]}.{kernel.fn.__name__}"


def own_kernels() -> list[str]:
    """All that are launched, by the names that are followed by a grid in some module of the package."""
    from triton.runtime.jit import JITFunction

    from separatrix.models import kernels

    found = []
    for module in pkgutil.iter_modules(kernels.__path__):
        if not module.name.startswith("triton_"):
            continue
        loaded = importlib.import_module(f"{kernels.__name__}.{module.name}")
        source = Path(str(loaded.__file__)).read_text()
        found += [
            name_of(value)
            for name, value in vars(loaded).items()
            if isinstance(value, JITFunction) and f" {name}[" in source
        ]
    return sorted(set(found))


def pretend_to_interpret() -> None:
    """Have tensors of a CPU taken by kernels that were made for a compiler."""
    os.environ["TRITON_INTERPRET"] = "1"
    for name, loaded in list(sys.modules.items()):
        if name.startswith("separatrix.models.kernels") and "_INTERPRETED" in vars(loaded):
            vars(loaded)["_INTERPRETED"] = True


def used() -> None:
    """Print all kernels, and the shared memory of those that the figures' populations launch in a step."""
    from separatrix.models.kernels.class_scores import class_costs
    from separatrix.models.kernels.table_rows import table_rows
    from separatrix.training.engine import arithmetic

    kernels, shared = own_kernels(), compiling_only()
    pretend_to_interpret()
    for model, rows in populations():
        for precision in ("bfloat16", "float32"):
            with arithmetic(precision, torch.device("cpu")):
                for outputs in answers(model, rows):
                    slopes(outputs, list(model.parameters()))
    for kind in (torch.float32, torch.bfloat16):
        for classes in (64, 1026):
            scores = torch.zeros(2, 6, classes, dtype=kind, requires_grad=True)
            costs, _ = class_costs(scores, torch.zeros(2, 6, dtype=torch.int64), backend="triton")
            slopes(costs, [scores])
        table = torch.zeros(2, 70, 64, dtype=kind, requires_grad=True)
        index = torch.zeros(2, 6, 9, dtype=torch.int64)
        slopes(table_rows(table, index, backend="triton"), [table])
    print(json.dumps({"kernels": kernels, "shared": shared}))


def populations() -> Iterator[tuple[Any, Tensor]]:
    from separatrix.experiments.protocols import s_model
    from separatrix.models.kernels.choice import use_backend
    from separatrix.tasks import task
    from separatrix.training.jobs import job_for
    from separatrix.training.recipes import Member

    for asked in (task("index-lookup", n=50), task("equality", n=30, form="ncp", alphabet=30)):
        rows = asked.sample(4, seed=0).inputs.unsqueeze(0)
        for label, width in POPULATIONS:
            config = s_model(label, layers=1, width=width, task=asked.name)
            model = job_for(asked, config, members=[Member()]).population(1)
            use_backend(model, "triton")
            yield model, rows


def answers(model: Any, rows: Tensor) -> Iterator[Tensor]:
    """At all positions, at one, and with two inputs a row."""
    yield model(rows)
    yield model(rows, torch.full((*rows.shape[:2], 1), 9))
    yield model(rows, None, torch.full(rows.shape[:2], 9))


def slopes(outputs: Tensor, of: list[nn.Parameter] | list[Tensor]) -> None:
    torch.autograd.grad(outputs.float().sum(), of, allow_unused=True)


def refused() -> None:
    """A product of vectors, which the language does not have."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def kernel(x, size: tl.constexpr):  # type: ignore[no-untyped-def]
        part = tl.load(x + tl.arange(0, size))
        tl.store(x, tl.dot(part, part))

    compiling_only()
    kernel[1,](torch.zeros(16), 16)
    print("{}")
