"""Decayed linear attention, forward and backward: chunks and Triton against a masked square and plain steps.

    python -m benchmarks.decayed_attention [--lengths 200 1600] [--json FILE]
    python -m benchmarks.decayed_attention --sweep          # launch plans of the Triton kernels, on a GPU

On a CPU float32 and few rows; on a GPU the shapes of a layer of width 256 in bfloat16 and float32, as RetNet
asks for it (decays, values twice as wide as keys) and as the linear Transformer does (no decay, totals). All
ways take turns in one process, on a GPU each from a CUDA graph, and the median of their times counts; ratios
are against the masked square, which is what one writes first: scores of all pairs, a mask of decays, a
product. Bytes are those every way must move (inputs, output and their gradients once, and what the backward
pass reads again), FLOPs those of the chunked form; the roofline is that of an H200, 4.8 TB/s and 989 TFLOP/s
in bfloat16.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks.ceilings import bytes_per_second, products_per_second
from benchmarks.cuda_graphs import captured
from benchmarks.markdown import table
from separatrix.files import written_whole
from separatrix.models.kernels.choice import Backend
from separatrix.models.kernels.decayed_attention import attention_with_totals, decayed_attention
from separatrix.version import __version__

CHUNK = 64
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One layer's attention."""

    model: str
    rows: int
    length: int
    heads: int
    key: int
    value: int
    totals: bool
    kind: torch.dtype
    device: str

    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        generator = torch.Generator().manual_seed(0)
        q, k, v = (
            torch.randn(self.rows, self.length, self.heads, width, generator=generator)
            .to(self.device, self.kind)
            .requires_grad_()
            for width in (self.key, self.key, self.value)
        )
        return q, k, v

    def log_decay(self) -> Tensor | None:
        number = torch.arange(self.heads, device=self.device, dtype=torch.float32)
        return None if self.totals else torch.log1p(-torch.exp2(-5 - number))

    @property
    def bytes(self) -> int:
        """Forward reads q, k, v and writes y; backward reads them again with y's gradient, in two passes."""
        positions = self.rows * self.length * self.heads * torch.finfo(self.kind).bits // 8
        forward = 2 * self.key + 2 * self.value
        queries = self.key + 2 * self.value + self.key
        rest = 2 * self.key + 2 * self.value + self.key + self.value
        return positions * (forward + queries + rest)

    @property
    def flops(self) -> int:
        """Products of the chunked form: 4 forward, 4 for the queries, 6 for keys and values."""
        within = (
            5 * CHUNK * self.key + 4 * CHUNK * self.value
        )  # scores and their gradients, and what they weigh
        between = 7 * self.key * self.value
        return 2 * self.rows * self.length * self.heads * (within + between)


def masked_square(
    query: Tensor, key: Tensor, value: Tensor, log_decay: Tensor | None, *, totals: bool
) -> tuple[Tensor, ...]:
    """All pairs at once."""
    place = torch.arange(query.shape[1], device=query.device)
    apart = place.unsqueeze(1) - place
    if log_decay is None:
        mask = (apart >= 0).to(query.dtype)
    else:
        mask = ((log_decay.view(-1, 1, 1) * apart.clamp(min=0)).exp() * (apart >= 0)).to(query.dtype)
    weights = query.transpose(1, 2) @ key.permute(0, 2, 3, 1) * mask
    read = (weights @ value.transpose(1, 2)).transpose(1, 2)
    return (read, weights.sum(-1).transpose(1, 2)) if totals else (read,)


def training_step(case: Case, way: str) -> Callable[[], None]:
    """Forward and backward by one way."""
    inputs, log_decay = case.inputs(), case.log_decay()
    to_read = torch.randn_like(inputs[2])

    def run() -> None:
        if way == "square":
            outputs = masked_square(*inputs, log_decay, totals=case.totals)
        elif case.totals:
            outputs = attention_with_totals(*inputs, backend=_backend(way))
        else:
            outputs = (decayed_attention(*inputs, log_decay, backend=_backend(way)),)
        gradients = [to_read, *(torch.ones_like(each) for each in outputs[1:])]
        torch.autograd.grad(outputs, inputs, gradients)

    return run


def _backend(way: str) -> Backend:
    if way == "triton":
        return "triton"
    return "reference" if way == "reference" else "parallel"


def seconds(run: Callable[[], None], *, device: str) -> float:
    """The time of one call, on a GPU between two events on its stream."""
    if device == "cpu":
        begin = time.perf_counter()
        run()
        return time.perf_counter() - begin
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    first.record()
    run()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) / 1000


def measure(case: Case, ways: Sequence[str], turns: int) -> Row:
    """Median times of all ways, taking turns."""
    runs = {}
    for way in ways:
        run = training_step(case, way)
        run()
        runs[way] = run if case.device == "cpu" or way == "reference" else captured(run)
    times: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(turns):
        for way, run in runs.items():
            if way != "reference" or turn < 2:  # steps are slow, and their ratio is large enough
                times[way].append(seconds(run, device=case.device))
    row: Row = {
        "model": case.model,
        "rows": case.rows,
        "length": case.length,
        "heads": case.heads,
        "key": case.key,
        "value": case.value,
        "type": str(case.kind).removeprefix("torch."),
        "device": case.device,
        "milliseconds": {way: 1000 * median(each) for way, each in times.items()},
    }
    if case.device != "cpu":
        least = max(case.bytes / bytes_per_second(), case.flops / products_per_second())
        row |= {"bytes": case.bytes, "flops": case.flops, "roofline": least / median(times["triton"])}
    return row


def cases(device: str, lengths: Sequence[int]) -> list[Case]:
    kinds = (torch.float32,) if device == "cpu" else (torch.bfloat16, torch.float32)
    rows = 4 if device == "cpu" else 64
    made = []
    for kind in kinds:
        for length in lengths:
            shape: Row = {"rows": rows, "length": length, "kind": kind, "device": device}
            made.append(Case(model="linear Transformer", heads=8, key=32, value=32, totals=True, **shape))
            made.append(Case(model="RetNet", heads=8, key=32, value=64, totals=False, **shape))
            if device != "cpu":
                made.append(Case(model="RetNet", heads=4, key=64, value=128, totals=False, **shape))
    return made


def page(data: Row) -> str:
    """The figures as a table, each way's time and how many times as fast as the square it is."""
    ways = list(dict.fromkeys(way for row in data["rows"] for way in row["milliseconds"]))
    head = ["layer", "type", "rows", "positions", "heads", "key", "value"]
    head += [f"{way}, ms" for way in ways] + [f"square / {way}" for way in ways if way != "square"]
    head += ["of the roofline"] if any("roofline" in row for row in data["rows"]) else []
    lines = []
    for row in data["rows"]:
        times = row["milliseconds"]
        line = [
            row["model"],
            row["type"],
            *(row[name] for name in ("rows", "length", "heads", "key", "value")),
        ]
        line += [f"{times[way]:.3g}" if way in times else "" for way in ways]
        line += [
            f"{times['square'] / times[way]:.3g} ×" if way in times else "" for way in ways if way != "square"
        ]
        lines.append(line + ([f"{row['roofline']:.0%}"] if "roofline" in row else []))
    return f"{data['made_with']}\n\n{table(head, lines, text=2)}\n"


def sweep(lengths: Sequence[int], turns: int) -> list[Row]:
    """Times of the Triton kernels under other launch plans than their own."""
    from separatrix.models.kernels import triton_decayed_attention as kernels

    own, rows = kernels.plan_for, []
    for case in cases("cuda", lengths):
        plan = own(case.length, case.key, case.value, torch.finfo(case.kind).bits // 8)
        tried = {
            plan._replace(chunk=chunk, warps=warps, stages=stages, block_v=block)
            for chunk in (16, 32, 64)
            for warps in (2, 4, 8)
            for stages in (1, 2, 3)
            for block in {plan.block_v, max(16, plan.block_v // 2)}
        }
        timed = []
        for other in sorted(tried):
            kernels.plan_for = lambda *_, other=other: other
            try:
                taken = measure(case, ("triton",), turns)["milliseconds"]["triton"]
            except Exception as error:  # a plan that does not fit the card is a result as well
                print(case.model, other, type(error).__name__, file=sys.stderr)
                continue
            timed.append((taken, other))
        kernels.plan_for = own
        for taken, other in sorted(timed)[:6]:
            row = {"model": case.model, "type": str(case.kind), "length": case.length, "key": case.key}
            rows.append(row | {"value": case.value, "ms": taken, "own": other == plan, **other._asdict()})
            print(rows[-1], flush=True)
        mine = next((taken for taken, other in timed if other == plan), None)
        print("its own plan:", plan, mine, flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lengths", type=int, nargs="+", default=(200, 1600))
    parser.add_argument("--device", choices=("cpu", "cuda"), default=None)
    parser.add_argument("--turns", type=int, default=0, help="0 for 7 on a CPU and 50 on a GPU")
    parser.add_argument("--sweep", action="store_true", help="try other launch plans of the Triton kernels")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    asked = parser.parse_args(arguments)
    device = asked.device or ("cuda" if torch.cuda.is_available() else "cpu")
    turns = asked.turns or (7 if device == "cpu" else 50)
    if asked.sweep:
        rows = sweep(asked.lengths, asked.turns or 20)
    else:
        ways = ("square", "parallel", "reference") if device == "cpu" else ("square", "parallel", "triton")
        rows = []
        for case in cases(device, asked.lengths):
            rows.append(measure(case, ways, turns))
            print(rows[-1], file=sys.stderr, flush=True)
    where = f"{torch.get_num_threads()} CPU threads" if device == "cpu" else torch.cuda.get_device_name()
    made_with = (
        f"separatrix {__version__}, torch {torch.__version__}, Python {platform.python_version()}, {where}."
    )
    data = {"made_with": made_with, "rows": rows}
    if not asked.sweep:
        print(page(data))
    if asked.json:
        with written_whole(asked.json) as part:
            part.write(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
