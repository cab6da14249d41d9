"""A step of training through LSTM layers, all members at once, beside torch.nn.LSTM member by member.

    python -m benchmarks.lstm_scan [--json PATH] [--sweep]

On a CUDA device: forward and backward of three layers of width 256 on 64 examples of 200 positions, input
projections included, for seven members, captured in one CUDA graph, beside cuDNN's. Without one: a small size
on the CPU. Both sides are timed in turns in one run; what counts is the ratio. `--sweep` tries other blocks.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from benchmarks.cuda_graphs import captured
from benchmarks.markdown import table
from separatrix.models.lstm import Cells
from separatrix.models.members import initialise

Row = dict[str, Any]
Step = Callable[[], object]
ASKED = 6.0
PEAKS = {"bfloat16": 989e12, "float32": 67e12}  # an H200's products a second, dense; float32 without TF32
INTRODUCTION = (
    "Forward and backward through LSTM layers, input projections included. Ours computes all members at "
    "once; torch.nn.LSTM runs them one after another. The share of the peak is that of the products needed, "
    "at 989 TFLOP/s in bfloat16 and 67 in float32. Steps follow one another, so that what bounds the time is "
    "the chain: microseconds of one launch are the time over all launches of the recurrence."
)


class Ours(nn.Module):
    """Layers of cells, for all members."""

    def __init__(self, members: int, layers: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Cells(members, width) for _ in range(layers))
        initialise(self, range(members))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def our_step(x: Tensor, layers: int, kind: torch.dtype) -> Step:
    """Forward of all members, and the gradients of their weights."""
    model = Ours(x.shape[0], layers, x.shape[-1]).to(x.device)
    weights, outer = list(model.parameters()), torch.ones_like(x)

    def step() -> Sequence[Tensor]:
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=kind == torch.bfloat16):
            h = model(x)
        return torch.autograd.grad(h, weights, outer.to(h.dtype))

    return step


def their_step(x: Tensor, layers: int, kind: torch.dtype) -> Step:
    """The same by torch.nn.LSTM in this type, member by member."""
    members, width = x.shape[0], x.shape[-1]
    models = [
        nn.LSTM(width, width, layers, batch_first=True).to(x.device, dtype=kind) for _ in range(members)
    ]
    weights = [list(model.parameters()) for model in models]
    inputs, outer = x.to(kind), torch.ones_like(x[0], dtype=kind)

    def step() -> Sequence[Sequence[Tensor]]:
        return [
            torch.autograd.grad(model(inputs[member])[0], weights[member], outer)
            for member, model in enumerate(models)
        ]

    return step


def milliseconds(steps: Sequence[Step], *, rounds: int, repeats: int, device: str) -> list[float]:
    """The median time of each step, all of them in turns."""
    taken: list[list[float]] = [[] for _ in steps]
    for step in steps:
        step()
    for _ in range(rounds):
        for step, times in zip(steps, taken, strict=True):
            _wait(device)
            begun = time.perf_counter()
            for _ in range(repeats):
                step()
            _wait(device)
            times.append((time.perf_counter() - begun) / repeats * 1e3)
    return [statistics.median(times) for times in taken]


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def row(
    device: Literal["cpu", "cuda"],
    kind: torch.dtype,
    *,
    members: int,
    layers: int,
    width: int,
    batch: int,
    length: int,
) -> Row:
    """One size in one type: both sides and their ratio."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(members, batch, length, width, generator=generator).to(device)
    ours, theirs = our_step(x, layers, kind), their_step(x, layers, kind)
    if device == "cuda":
        ours = captured(ours)
    mine, peer = milliseconds((ours, theirs), rounds=9, repeats=5 if device == "cuda" else 1, device=device)
    # Products of (batch · length, width) by (width, 4 width): two a layer forward and four backward, one less
    # in the first, whose inputs want no gradient.
    operations = (6 * layers - 1) * 2 * batch * length * width * 4 * width * members
    name = str(kind).removeprefix("torch.")
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else "CPU",
        "size": f"LSTM-({layers},{width}), {length} positions, batch {batch}, {members} members",
        "type": name,
        "ours_ms": mine,
        "nn_lstm_ms": peer,
        "ratio": peer / mine,
        "microseconds_a_launch": 1e3 * mine / (2 * layers * length) if device == "cuda" else None,
        "share_of_peak": operations / (mine / 1e3) / PEAKS[name] if device == "cuda" else None,
    }


def page(rows: Sequence[Row]) -> str:
    """The figures in Markdown."""
    shown = [
        (
            one["device"],
            one["size"],
            one["type"],
            f"{one['ours_ms']:.2f}",
            f"{one['nn_lstm_ms']:.1f}",
            f"{one['ratio']:.1f} ×",
            "" if one["microseconds_a_launch"] is None else f"{one['microseconds_a_launch']:.1f}",
            "" if one["share_of_peak"] is None else f"{one['share_of_peak']:.1%}",
        )
        for one in rows
    ]
    head = ("device", "size", "type", "ours ms", "nn.LSTM ms", "ratio", "µs a launch", "share of peak")
    return f"{INTRODUCTION}\n\n{table(head, shown, text=3)}\n"


def sweep(*, members: int, width: int, batch: int, length: int) -> str:
    """Microseconds a step of one layer's recurrence, forward and backward, with other blocks."""
    from separatrix.models.kernels import triton_lstm_scan as kernels

    usual = kernels.blocks_for
    lines: list[tuple[object, ...]] = []
    for kind in (torch.bfloat16, torch.float32):
        inward = torch.randn(members, batch, length, 4 * width, device="cuda", dtype=kind)
        weight = torch.randn(members, width, 4 * width, device="cuda", dtype=kind) / width**0.5
        h, gates, c = kernels._forward(inward, weight, True)
        outer = torch.ones_like(h)
        for rows, units, warps in (
            (64, 16, 4),
            (64, 32, 4),
            (32, 16, 4),
            (32, 32, 4),
            (32, 16, 2),
            (16, 16, 4),
        ):
            for terms, stages in ((32, 4), (64, 3), (64, 4), (128, 2), (128, 3), (256, 2)):
                blocks = kernels.Blocks(rows=rows, units=units, terms=terms, warps=warps, stages=stages)
                kernels.blocks_for = lambda *_, backward, blocks=blocks: blocks
                try:
                    steps = (
                        captured(lambda: kernels._forward(inward, weight, True)),  # noqa: B023
                        captured(lambda: kernels._backward(outer, weight, h, gates, c)),  # noqa: B023
                    )
                except Exception as error:  # a block that does not fit the card is a line of the table
                    print(blocks, type(error).__name__, file=sys.stderr)
                    continue
                times = milliseconds(steps, rounds=3, repeats=3, device="cuda")
                forward, backward = (f"{1e3 * each / length:.2f}" for each in times)
                lines.append((str(kind)[6:], rows, units, terms, warps, stages, forward, backward))
    kernels.blocks_for = usual
    head = ("type", "rows", "units", "terms", "warps", "stages", "forward µs", "backward µs")
    return table(head, lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="LSTM layers beside torch.nn.LSTM")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--sweep", action="store_true", help="try other blocks (CUDA only)")
    asked = parser.parse_args(arguments)
    if asked.sweep:
        print(sweep(members=7, width=256, batch=64, length=200))
        return
    if torch.cuda.is_available():
        rows = [
            row("cuda", kind, members=members, layers=3, width=256, batch=64, length=200)
            for kind in (torch.bfloat16, torch.float32)
            for members in (1, 7)
        ]
    else:
        rows = [
            row("cpu", torch.float32, members=7, layers=1, width=width, batch=batch, length=50)
            for width, batch in ((32, 16), (64, 16), (64, 64))
        ]
    print(page(rows))
    if asked.json is not None:
        asked.json.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")
    missed = [
        one for one in rows if one["device"] != "CPU" and "7 members" in one["size"] and one["ratio"] < ASKED
    ]
    if missed:
        sys.exit(f"below {ASKED:.0f} times cuDNN member by member")


if __name__ == "__main__":
    main()
