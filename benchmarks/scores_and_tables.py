"""How fast the two ends of a model are: costs of class scores, and the gradient of a token table.

    python -m benchmarks.scores_and_tables [--json PATH]
    python -m benchmarks.scores_and_tables --device cuda     # in CUDA graphs, the plain ways compiled
    python -m benchmarks.scores_and_tables --sweep           # scores cut into other programs (CUDA only)

Forward and backward together; ways take turns, and the fastest turn of each counts. Sizes on a GPU are those
of seven members of width 64 on equality by next characters at N = 800, batch 64. The share of the roofline is
the time in which its memory could move what has to be moved, divided by the time taken: scores are read twice
and their gradient written once; what comes back to a table is read once.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.ceilings import bytes_per_second
from benchmarks.long_convolution import Run, captured, fastest
from benchmarks.markdown import table
from separatrix.models.kernels.choice import Backend
from separatrix.models.kernels.class_scores import class_costs
from separatrix.models.kernels.table_rows import table_rows
from separatrix.tasks import task
from separatrix.tasks.interface import Classes, Tokens

Row = dict[str, Any]
PARTS = {"scores": "costs of class scores", "table": "gradient of a token table"}


def sizes(device: str) -> tuple[int, int, int, int, int]:
    """Members, uses of a member, width, rows of the token table, classes."""
    n, members, batch = (800, 7, 64) if device == "cuda" else (20, 2, 16)
    asked = task("equality", n=n, form="ncp")
    assert isinstance(asked.input_space, Tokens)
    assert isinstance(asked.target_space, Classes)
    return members, batch * asked.length, 64, asked.input_space.size, asked.target_space.size


def scores_runs(device: str) -> tuple[dict[str, Run], int]:
    """Each way to judge scores, and the bytes that have to be moved."""
    members, uses, _, _, classes = sizes(device)
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    scores = torch.randn(members, uses, classes, device=device).to(kind).requires_grad_()
    targets = torch.randint(classes, (members, uses), device=device)

    def run(way: Any) -> Run:
        def both() -> object:
            costs, right = way(scores, targets)
            return right.sum(), torch.autograd.grad(costs.sum(), scores)

        return both

    found = {"plain PyTorch": run(partial(class_costs, backend="reference"))}
    if device == "cuda":
        found["plain, compiled"] = run(
            torch.compile(partial(class_costs, backend="reference"), fullgraph=True, dynamic=False)
        )
        found["ours, Triton"] = run(partial(class_costs, backend="triton"))
    return found, 3 * scores.numel() * scores.element_size()


def table_runs(device: str) -> tuple[dict[str, Run], int]:
    """Each way to sum what comes back to a table's rows, and the bytes that have to be read."""
    members, uses, width, rows, _ = sizes(device)
    learned = torch.randn(members, rows, width, device=device, requires_grad=True)
    index = torch.randint(rows, (members, uses), device=device)
    came = torch.randn(members, uses, width, device=device)

    def run(backend: Backend) -> Run:
        def both() -> tuple[Tensor, ...]:
            with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
                read = table_rows(learned, index, backend=backend)
            return torch.autograd.grad(read, learned, came)

        return both

    found = {"one by one": run("reference"), "a product, written out": run("parallel")}
    if device == "cuda":
        found["ours, Triton"] = run("triton")
    return found, came.numel() * came.element_size()


def measure(part: str, device: str, turns: int) -> list[Row]:
    """Milliseconds of every way."""
    found, moved = (scores_runs if part == "scores" else table_runs)(device)
    runs = {name: captured(run) if device == "cuda" else run for name, run in found.items()}
    repeats = 5 if device == "cuda" else 1
    rows = []
    for name, seconds in fastest(runs, turns).items():
        row: Row = {"part": part, "way": name, "ms": 1e3 * seconds / repeats}
        if device == "cuda":
            row["roofline"] = moved / bytes_per_second() / (seconds / repeats)
        rows.append(row)
    return rows


def sweep(turns: int) -> None:
    """Milliseconds with other numbers of scores and warps in a program, the usual ones among them."""
    from separatrix.models.kernels import triton_class_scores as kernels

    usual = vars(kernels)["_AT_ONCE"], vars(kernels)["_WARPS"]
    for at_once, warps in product((1024, 2048, 4096, 8192), (1, 2, 4, 8)):
        vars(kernels).update(_AT_ONCE=at_once, _WARPS=warps)
        run = captured(scores_runs("cuda")[0]["ours, Triton"])
        seconds = fastest({"ours": run}, turns)["ours"] / 5
        mark = ", as it is" if (at_once, warps) == usual else ""
        print(f"{at_once:,} scores, {warps} warps: {1e3 * seconds:.3f} ms{mark}", flush=True)
    vars(kernels).update(_AT_ONCE=usual[0], _WARPS=usual[1])


def page(rows: Sequence[Row], device: str) -> str:
    """The figures as tables, each way beside the first."""
    parts = []
    for part, title in PARTS.items():
        here = [row for row in rows if row["part"] == part]
        head = [title, "ms", "times the first's"]
        body = [[row["way"], f"{row['ms']:.3f}", f"{row['ms'] / here[0]['ms']:.2f}"] for row in here]
        if device == "cuda":
            head.append("of the roofline")
            for cells, row in zip(body, here, strict=True):
                cells.append(f"{100 * row['roofline']:.0f} %")
        parts.append(table(head, body))
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="speed of class scores and token tables")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    if asked.sweep:
        if not torch.cuda.is_available():
            parser.error("--sweep needs a GPU, and there is none here")
        sweep(asked.turns)
        return
    rows: list[Row] = []
    for part in PARTS:
        rows += measure(part, asked.device, asked.turns)
        print(rows[-1], file=sys.stderr, flush=True)
    print(page(rows, asked.device))
    if asked.json is not None:
        asked.json.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
