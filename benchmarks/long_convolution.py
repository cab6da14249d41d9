"""How fast long convolutions are: the Fourier transform, the Toeplitz matrix and the plain sum, side by side.

    python -m benchmarks.long_convolution [--lengths 200 1600] [--json PATH]
    python -m benchmarks.long_convolution --device cuda     # in CUDA graphs, with DSS's mixer compiled

Forward and backward together; ways take turns, and the fastest turn of each counts. On a GPU the share of the
roofline is the time in which its memory could read the input and the gradient, read the input once more and
write both results (five times the input's bytes), divided by the time taken.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.ceilings import bytes_per_second
from benchmarks.markdown import table
from separatrix.models.dss import StateSpace
from separatrix.models.kernels.long_convolution import (
    convolution_by_fft,
    convolution_by_matrix,
    reference_convolution,
)
from separatrix.models.members import initialise

LONGEST_REFERENCE = 400  # on a GPU, where each delay is a launch
Row = dict[str, Any]
Run = Callable[[], object]
Way = Callable[[Tensor, Tensor], Tensor]


def inputs(device: str, length: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """One layer of DSS-(6,256) at batch 64 on a GPU, seven members where they fit; less of it on a CPU."""
    members, width, batch = (7 if length <= 400 else 1, 256, 64) if device == "cuda" else (1, 16, 16)
    generator = torch.Generator(device).manual_seed(1)
    u = torch.randn(members, width, batch, length, generator=generator, device=device).to(dtype)
    kernel = torch.randn(members, width, length, generator=generator, device=device) / length
    return u.requires_grad_(), kernel.requires_grad_()


def there_and_back(way: Way, u: Tensor, kernel: Tensor) -> Run:
    weights = torch.ones_like(u)
    return lambda: torch.autograd.grad(way(u, kernel), (u, kernel), weights)


def ways(device: str, length: int) -> dict[str, tuple[Run, int]]:
    """Each way's run, and the bytes of its input."""
    u, kernel = inputs(device, length, torch.float32)
    size = u.numel() * u.element_size()
    found = {
        "Fourier transform, float32": (there_and_back(convolution_by_fft, u, kernel), size),
        "Toeplitz matrix, float32": (there_and_back(convolution_by_matrix, u, kernel), size),
    }
    if device == "cpu" or length <= LONGEST_REFERENCE:
        found["plain sum, float32"] = there_and_back(reference_convolution, u, kernel), size
    if device == "cuda":
        half, kernel = inputs(device, length, torch.bfloat16)
        found["Toeplitz matrix, bfloat16"] = there_and_back(convolution_by_matrix, half, kernel), size // 2
        found["DSS mixer, Fourier transform"] = mixer(length, convolution_by_fft), size
        found["DSS mixer, Toeplitz matrix"] = mixer(length, convolution_by_matrix), size
    return found


def mixer(length: int, way: Way) -> Run:
    """A layer of DSS-(6,256) under autocast, compiled, with its convolution done in this way."""
    members = 7 if length <= 400 else 1
    layer = StateSpace(members, 256, 64)
    initialise(layer, range(members))
    layer = layer.cuda()
    x = torch.randn(members, 64, length, 256, device="cuda", requires_grad=True)
    weights = torch.ones_like(x, dtype=torch.bfloat16)
    values = [x, *layer.parameters()]

    @torch.compile(fullgraph=True, dynamic=False)
    def forward() -> Tensor:
        channels = way(x.permute(0, 3, 1, 2), layer.kernel(length))
        return layer.outward(F.gelu(channels.permute(0, 2, 3, 1)))  # type: ignore[no-any-return]

    def run() -> object:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            y = forward()
        return torch.autograd.grad(y, values, weights)

    return run


def captured(run: Run) -> Run:
    """The same, replayed from a CUDA graph, until it is done."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()

    def replay(times: int = 5) -> None:
        for _ in range(times):
            graph.replay()
        torch.cuda.synchronize()

    return replay


def fastest(runs: Mapping[str, Run], turns: int) -> dict[str, float]:
    """Seconds of each run's fastest turn; they take turns."""
    times = dict.fromkeys(runs, float("inf"))
    for _ in range(turns):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def measure(device: str, length: int, turns: int) -> list[Row]:
    """Milliseconds of every way at this length."""
    found = ways(device, length)
    runs = {name: captured(run) if device == "cuda" else run for name, (run, _) in found.items()}
    times = fastest(runs, turns)
    members = inputs(device, length, torch.float32)[0].shape[0]
    repeats = 5 if device == "cuda" else 1
    rows = []
    for name, seconds in times.items():
        each = seconds / repeats
        row: Row = {"length": length, "members": members, "way": name, "ms_a_member": 1e3 * each / members}
        if device == "cuda":
            row["roofline"] = 5 * found[name][1] / bytes_per_second() / each
        rows.append(row)
    return rows


def page(rows: Sequence[Row], device: str) -> str:
    """The figures as tables, one a length, with each way beside the Fourier transform."""
    parts = []
    for length in sorted({row["length"] for row in rows}):
        here = [row for row in rows if row["length"] == length]
        base = here[0]["ms_a_member"]
        head = [f"length {length}, members: {here[0]['members']}", "ms a member", "times the transform's"]
        body = [[row["way"], f"{row['ms_a_member']:.3f}", f"{row['ms_a_member'] / base:.2f}"] for row in here]
        if device == "cuda":
            head.append("of the roofline")
            for cells, row in zip(body, here, strict=True):
                cells.append(f"{100 * row['roofline']:.0f} %")
        parts.append(table(head, body))
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="speed of long convolutions")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--lengths", type=int, nargs="+", default=(200, 1600))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    rows: list[Row] = []
    for length in asked.lengths:
        rows += measure(asked.device, length, asked.turns)
        print(rows[-1], file=sys.stderr, flush=True)
        if asked.device == "cuda":
            torch._dynamo.reset()
    print(page(rows, asked.device))
    if asked.json is not None:
        asked.json.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
