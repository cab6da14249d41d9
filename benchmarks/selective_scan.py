"""The selective scan's speed, forward and backward: ours beside what else there is, in one run.

    python -m benchmarks.selective_scan [--turns 7] [--json FILE]
    python -m benchmarks.selective_scan --device cuda [--sweep] [--json FILE]

On the CPU the peer is mambapy's parallel scan; all take turns in one process and the best turn of each
counts, so that ratios mean something on a busy machine. On a CUDA device each way is recorded in a CUDA
graph, as training runs it, and the median of many replays counts; the peer is torch's `associative_scan`.
Beside it stand the bytes that the kernels read and write and the share of the memory's speed that this is.
The short convolution before the scan is timed in the same way, beside its plain form compiled.
`--sweep` tries a few ways to cut the work and prints them from the fastest to the slowest.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.ceilings import bytes_per_second
from benchmarks.markdown import table
from separatrix.files import written_whole
from separatrix.models.kernels.selective_scan import parallel, reference, step_sizes
from separatrix.version import __version__

CPU = {"members": 1, "batch": 16, "length": 256, "channels": 128, "state": 16}
GPU = {"members": 1, "batch": 64, "length": 200, "channels": 512, "state": 16}
CONVOLUTION = {"members": 7, "batch": 64, "length": 201, "channels": 512, "conv": 4}
CPU_BAR = 5.0  # times mambapy's parallel scan
GPU_BAR = 0.4  # milliseconds
Way = Callable[..., Tensor]
Row = dict[str, Any]


def parts_of(
    *, members: int, batch: int, length: int, channels: int, state: int, device: str, low: bool
) -> list[Tensor]:
    """What a scan takes, as a Mamba at its beginning has it; with `low`, all but the weights is bf16."""
    generator = torch.Generator().manual_seed(1)

    def normal(*sizes: int) -> Tensor:
        return torch.randn(*sizes, generator=generator)

    rates = -torch.arange(1.0, state + 1).expand(members, channels, state)
    parts = [
        normal(members, batch, length, channels),
        normal(members, batch, length, channels),
        normal(members, channels) - 4,
        rates.clone(),
        normal(members, batch, length, state),
        normal(members, batch, length, state),
        torch.ones(members, channels),
    ]
    kinds = [torch.bfloat16 if low and place not in {2, 3, 6} else torch.float32 for place in range(7)]
    return [part.to(device, kind).requires_grad_() for part, kind in zip(parts, kinds, strict=True)]


def both_ways(way: Way, parts: Sequence[Tensor], weights: Tensor) -> tuple[Tensor, ...]:
    """Forward and backward."""
    return torch.autograd.grad(way(*parts), parts, weights)


def mambapy_scan() -> Way | None:
    """mambapy's scan of one model, where it is installed."""
    try:
        from mambapy.mamba import MambaBlock, MambaConfig
    except ImportError:
        return None
    block = MambaBlock(MambaConfig(d_model=CPU["channels"] // 2, n_layers=1))

    def scan(*parts: Tensor) -> Tensor:
        x, raw, bias, rate, write, read, skip = (part[0] for part in parts)
        return block.selective_scan(x, F.softplus(raw + bias), rate, write, read, skip).unsqueeze(0)  # type: ignore[no-any-return]

    return scan


def on_cpu(turns: int) -> list[Row]:
    """Best of several turns, in milliseconds."""
    parts = parts_of(**CPU, device="cpu", low=False)
    weights = torch.ones_like(parts[0])
    ways: dict[str, Way] = {"ours, parallel": parallel, "ours, reference": reference}
    peer = mambapy_scan()
    if peer is not None:
        ways["mambapy, parallel scan"] = peer
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(turns):
        for name, way in ways.items():
            start = time.perf_counter()
            both_ways(way, parts, weights)
            taken[name].append(1000 * (time.perf_counter() - start))
    ours = min(taken["ours, parallel"])
    return [
        {"way": name, "milliseconds": round(min(times), 2), "times_ours": round(min(times) / ours, 2)}
        for name, times in taken.items()
    ]


def replayed(work: Callable[[], object], *, repeats: int = 50) -> float:
    """Median milliseconds of a replay, timed by CUDA events."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    times: list[float] = []
    for turn in range(repeats + 10):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        if turn >= 10:
            times.append(start.elapsed_time(end))
    return statistics.median(times)


def associative(*parts: Tensor) -> Tensor:
    """The scan by torch's own operator, compiled."""
    from torch._higher_order_ops.associative_scan import associative_scan

    def then(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return second[0] * first[0], second[0] * first[1] + second[1]

    x, raw, bias, rate, write, read, skip = parts
    delta = step_sizes(raw, bias)
    decay = torch.exp(delta.unsqueeze(-1) * rate.unsqueeze(1).unsqueeze(1))
    taken = (delta * x).unsqueeze(-1) * write.float().unsqueeze(-2)
    mode = "pointwise" if x.is_cuda else "generic"
    _, states = associative_scan(then, (decay, taken), dim=2, combine_mode=mode)
    y = (states * read.float().unsqueeze(-2)).sum(-1) + skip[:, None, None] * x
    return y.to(x.dtype)  # type: ignore[no-any-return]


def bytes_moved(parts: Sequence[Tensor], steps: int, block: int) -> int:
    """What the two kernels and the sums behind them read and write."""
    x, raw, _, rate, write, read, _ = parts
    rows, channels = x.shape[0] * x.shape[1], x.shape[3]

    def size(*tensors: Tensor) -> int:
        return sum(part.numel() * part.element_size() for part in tensors)

    borders = rows * -(-x.shape[2] // steps) * rate.shape[-1] * channels * x.element_size()
    state_parts = 2 * -(-channels // block) * write.numel() * 4
    rate_parts = rows * rate[0].numel() * 4
    forward = size(x, raw, write, read) + size(x) + borders
    backward = size(x, raw, write, read, x) + borders + size(x, raw, write, read)
    return forward + backward + 2 * (state_parts + rate_parts)


def timed(name: str, way: Way, *, low: bool) -> Row:
    """One way's medians of replays: forward, and forward with backward."""
    parts = parts_of(**GPU, device="cuda", low=low)
    weights, inputs = torch.ones_like(parts[0]), [part.detach() for part in parts]
    row: Row = {"way": name, "numbers": "bf16" if low else "float32"}
    try:
        row["forward"] = round(replayed(lambda: way(*inputs)), 4)
        row["both"] = round(replayed(lambda: both_ways(way, parts, weights)), 4)
    except Exception as error:  # a peer that fails is a result as well
        row["failed"] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
    print(row, file=sys.stderr, flush=True)
    return row


def on_gpu() -> list[Row]:
    """Every way, in float32 and in bf16."""
    from separatrix.models.kernels.triton_selective_scan import blocks_for, scan

    rows: list[Row] = []
    for low in (False, True):
        ours = timed("ours, Triton", scan, low=low)
        if "both" in ours:
            cut = blocks_for(GPU["state"])
            parts = parts_of(**GPU, device="cuda", low=low)
            ours["bytes"] = bytes_moved(parts, cut.steps, cut.block)
            ours["share"] = round(ours["bytes"] / bytes_per_second() / (ours["both"] / 1000), 3)
        peer = timed("torch, associative_scan", torch.compile(associative, fullgraph=True), low=low)
        rows += [ours, timed("ours, parallel", parallel, low=low), peer]
    return rows


def convolution_parts(*, low: bool) -> list[Tensor]:
    """What the short convolution of a population takes."""
    members, batch, length, channels, conv = CONVOLUTION.values()
    generator = torch.Generator(device="cuda").manual_seed(1)
    sizes = ((members, batch, length, channels), (members, conv, channels), (members, channels))
    parts = [torch.randn(*size, generator=generator, device="cuda") for size in sizes]
    parts[0] = parts[0].bfloat16() if low else parts[0]
    return [part.requires_grad_() for part in parts]


def convolution_on_gpu() -> list[Row]:
    """The short convolution in both ways. What moves is u and y, then u and the gradients of both."""
    from separatrix.models.kernels import short_convolution
    from separatrix.models.kernels.triton_short_convolution import convolved

    rows: list[Row] = []
    compiled = torch.compile(short_convolution.parallel, fullgraph=True)
    for low in (False, True):
        parts = convolution_parts(low=low)
        weights, inputs = torch.ones_like(parts[0]), [part.detach() for part in parts]
        for name, way in (("ours, Triton", convolved), ("plain, compiled", compiled)):
            forward = replayed(lambda way=way, inputs=inputs: way(*inputs))  # type: ignore[misc]
            both = replayed(lambda way=way, given=(parts, weights): both_ways(way, *given))  # type: ignore[misc]
            moved = 5 * weights.numel() * weights.element_size()
            times = {"forward": round(forward, 4), "both": round(both, 4)}
            share = round(moved / bytes_per_second() / (both / 1000), 3)
            rows.append(
                {
                    "way": name,
                    "numbers": "bf16" if low else "float32",
                    **times,
                    "bytes": moved,
                    "share": share,
                }
            )
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def convolution_sweep() -> list[Row]:
    """Cuts of the short convolution in bf16, from the fastest to the slowest."""
    from separatrix.models.kernels import triton_short_convolution as kernels

    u, weights, bias = (part.detach() for part in convolution_parts(low=True))
    u = u.flatten(0, 1)
    rows: list[Row] = []
    for span, (steps, lane_channels, registers), warps in itertools.product(
        (51, 101, 201), ((4, 4, 0), (4, 2, 0), (8, 4, 0), (8, 4, 168), (8, 2, 96), (2, 4, 0)), (1, 4)
    ):
        cut = kernels.Cut(
            span=span, steps=steps, lane_channels=lane_channels, warps=warps, registers=registers
        )
        listed = list(astuple(cut))

        def forth(listed: list[int] = listed) -> object:
            return kernels._convolve(u, weights, bias, listed)

        def back(listed: list[int] = listed) -> object:
            return kernels._gradients(u, u, weights, bias, listed)

        forward, backward = replayed(forth, repeats=20), replayed(back, repeats=20)
        times = {"forward": forward, "backward": backward, "both": forward + backward}
        rows.append({**asdict(cut), **{name: round(time, 4) for name, time in times.items()}})
        print(rows[-1], file=sys.stderr, flush=True)
    return sorted(rows, key=lambda row: float(row["both"]))


def sweep() -> list[Row]:
    """A few sensible cuts in bf16: a forward and a backward time for each, from the fastest to the slowest.

    They are timed with four members, as training has them, and given for one.
    """
    from separatrix.models.kernels import triton_selective_scan as kernels

    members = 4
    made = parts_of(**{**GPU, "members": members}, device="cuda", low=True)
    x, raw, bias, rate, write, read, skip = (part.detach() for part in made)
    x, raw, write, read = (part.flatten(0, 1) for part in (x, raw, write, read))
    parts = (x, raw, bias, rate, torch.cat((write, read), -1), skip)
    plain = kernels.blocks_for(GPU["state"])
    trials = [
        replace(plain, steps=steps, registers=registers, early=early)
        for steps, registers, early in (
            *((2, registers, 1) for registers in (0, 200, 168, 128)),
            (2, 0, 0),
            (2, 168, 0),
            (1, 168, 1),
            (1, 128, 1),
            (3, 0, 1),
            (4, 0, 0),
        )
    ]
    rows: list[Row] = []
    forwards: dict[int, float] = {}
    for cut in trials:
        listed = list(astuple(cut))
        _, borders = kernels._scan(*parts, listed, True)

        def forth(listed: list[int] = listed) -> object:
            return kernels._scan(*parts, listed, True)

        def back(listed: list[int] = listed, borders: Tensor = borders) -> object:
            return kernels._gradients(x, borders, *parts, listed)

        if cut.steps not in forwards:
            forwards[cut.steps] = replayed(forth, repeats=20)
        taken = replayed(back, repeats=20)
        forward, backward = forwards[cut.steps] / members, taken / members
        times = {"forward": forward, "backward": backward, "both": forward + backward}
        rows.append({**asdict(cut), **{name: round(time, 4) for name, time in times.items()}})
        print(rows[-1], file=sys.stderr, flush=True)
    return sorted(rows, key=lambda row: float(row["both"]))


def cpu_table(rows: Sequence[Row]) -> str:
    lines = [(row["way"], f"{row['milliseconds']:.1f}", f"{row['times_ours']:.1f}") for row in rows]
    return table(["CPU, forward + backward", "ms", "times ours"], lines)


def gpu_table(rows: Sequence[Row], *, title: str = "GPU") -> str:
    lines = []
    for row in rows:
        moved = f"{row['bytes'] / 1e6:.0f}" if "bytes" in row else ""
        share = f"{100 * row['share']:.0f} %" if "share" in row else ""
        times = [f"{row[key]:.3f}" if key in row else "failed" for key in ("forward", "both")]
        lines.append((row["way"], row["numbers"], *times, moved, share))
    head = [title, "numbers", "forward ms", "forward + backward ms", "MB moved", "of the roofline"]
    return table(head, lines, text=2)


def sweep_table(rows: Sequence[Row]) -> str:
    names = list(rows[0])
    return table(names, [[row[name] for name in names] for row in rows])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="speed of the selective scan")
    parser.add_argument("--device", choices=("cpu", "cuda", "all"), default="all")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--sweep", action="store_true", help="try ways to cut the work on the GPU")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    threads = f"{torch.get_num_threads()} threads on {os.cpu_count()} cores"
    made_with = f"separatrix {__version__}, torch {torch.__version__}, {threads}"
    data: Row = {"made_with": made_with, "cpu_shape": CPU, "gpu_shape": GPU, "convolution_shape": CONVOLUTION}
    met = True
    if asked.device != "cuda" and not asked.sweep:
        data["cpu"] = on_cpu(asked.turns)
        print(cpu_table(data["cpu"]))
        peer = [row["times_ours"] for row in data["cpu"] if row["way"].startswith("mambapy")]
        met &= not peer or peer[0] >= CPU_BAR
        print(f"\nbar: {CPU_BAR:.0f} × mambapy's parallel scan; {'met' if met else 'MISSED'}\n")
    if asked.device != "cpu" and torch.cuda.is_available():
        data["gpu"] = torch.cuda.get_device_name()
        if asked.sweep:
            data["sweep"] = sweep()
            print(sweep_table(data["sweep"]))
            data["convolution_sweep"] = convolution_sweep()
            print(sweep_table(data["convolution_sweep"]))
        else:
            data["gpu_rows"] = on_gpu()
            print(gpu_table(data["gpu_rows"]))
            ours = [row for row in data["gpu_rows"] if row["way"] == "ours, Triton"]
            fast = all(row.get("both", float("inf")) <= GPU_BAR for row in ours)
            print(f"\nbar: {GPU_BAR} ms forward + backward; {'met' if fast else 'MISSED'}")
            met &= fast
            data["convolution_rows"] = convolution_on_gpu()
            print("\n" + gpu_table(data["convolution_rows"], title="GPU, short convolution"))
    if asked.json is not None:
        with written_whole(asked.json) as part:
            part.write(json.dumps(data, indent=1) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
