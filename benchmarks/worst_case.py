"""The exact worst case of one softmax head, beside plain ways of looking for it.

    python -m benchmarks.worst_case [--threads 1] [--repeats 5]

Logits and values are normal, the logits times a spread. The peers, which are run on the same head:

- a loop over the positions, one numpy row at a time, with the same rounds;
- the same rounds on whole numpy arrays;
- gradient search: Adam on relaxed choices (every position mixes its options), then the likeliest options. It
  finds an upper end only, and how far that is from the minimum is its column.

Times are the least of the repeats, wall and CPU. Figures go to `results/worst_case.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.markdown import table
from separatrix.certificates.worst_case import Head, worst_case
from separatrix.certificates.worst_case_enclosed import enclosed
from separatrix.files import written_whole
from separatrix.version import __version__

DATA = Path(__file__).parent / "results" / "worst_case.json"
OPTIONS = 64
CASES = ((1_000, 1.0), (10_000, 1.0), (100_000, 1.0), (100_000, 3.0), (100_000, 10.0), (100_000, 300.0))
QUERIES, DIRECTIONS, SHORT = 100, 64, 50
SEARCHED = 10_000  # gradient search is run up to this length
STEPS = 100
Row = dict[str, Any]
HEAD = """# The worst case of a head

The least readout of one softmax head over 64^N inputs, one query and one direction, in float64; logits and
values are normal, the logits times the spread. `proven` is the time with the interval by ball arithmetic, of
the width given. Two peers find the same minimum in the same rounds: `loop` takes one numpy row at a time,
`arrays` whole numpy arrays. Gradient search (Adam on relaxed choices, 100 steps) ends above it by the gap
given. Peers' times are ratios to ours. `python -m benchmarks.worst_case` measures."""


def drawn(positions: int, spread: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (positions, OPTIONS)
    logits = spread * torch.randn(shape, generator=generator, dtype=torch.float64)
    return logits, torch.randn(shape, generator=generator, dtype=torch.float64)


def timed(work: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """Least wall time, least CPU time, and what came out."""
    walls, processor, result = [], [], None
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        walls.append(time.perf_counter() - wall)
        processor.append(time.process_time() - cpu)
    return min(walls), min(processor), result


def by_loop(logits: Tensor, values: Tensor, rounds: int) -> float:
    """Newton's rounds, position after position."""
    weights, numbers = np.exp(logits.numpy() - float(logits.max())), values.numpy()
    level = float(numbers.min(axis=1).mean())
    for _ in range(rounds):
        total, weighted = 0.0, 0.0
        for weight, value in zip(weights, numbers, strict=True):
            option = int((weight * (value - level)).argmin())
            total += float(weight[option])
            weighted += float(weight[option] * value[option])
        level = weighted / total
    return level


def by_arrays(logits: Tensor, values: Tensor, rounds: int) -> float:
    """The same with arrays of all positions."""
    weights, numbers = np.exp(logits.numpy() - float(logits.max())), values.numpy()
    level = float(numbers.min(axis=1).mean())
    for _ in range(rounds):
        options = (weights * (numbers - level)).argmin(axis=1)[:, None]
        chosen = np.take_along_axis(weights, options, axis=1)
        level = float((chosen * np.take_along_axis(numbers, options, axis=1)).sum() / chosen.sum())
    return level


def by_gradient(logits: Tensor, values: Tensor) -> float:
    """What the likeliest options after Adam on relaxed choices give."""
    choice = torch.zeros_like(logits, requires_grad=True)
    optimiser = torch.optim.Adam([choice], lr=0.3)
    weights = (logits - logits.max()).exp()
    for _ in range(STEPS):
        mixed = choice.softmax(-1) * weights
        readout = (mixed * values).sum() / mixed.sum()
        optimiser.zero_grad()
        readout.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    index = choice.detach().argmax(-1, keepdim=True)
    chosen = weights.gather(-1, index)
    return float((chosen * values.gather(-1, index)).sum() / chosen.sum())


def row_of(positions: int, spread: float, repeats: int) -> Row:
    logits, values = drawn(positions, spread)
    wall, cpu, worst = timed(lambda: worst_case(Head(logits), values), repeats)
    proven, _, found = timed(lambda: enclosed(Head(logits), values), 1)
    rounds, least = int(worst.rounds), float(worst.value)
    assert abs(least - float(found.interval.low)) <= 1e-12
    row: Row = {"positions": positions, "spread": spread, "rounds": rounds, "seconds": wall, "cpu": cpu}
    row |= {"proven": proven, "width": float(found.interval.high - found.interval.low)}
    narrow = spread <= 10  # beyond, weights vanish in floats, and the peers choose wrong
    if narrow:
        row["loop"], _, same = timed(lambda: by_loop(logits, values, rounds), 1)
        assert abs(same - least) <= 1e-9
        row["arrays"], _, same = timed(lambda: by_arrays(logits, values, rounds), min(repeats, 2))
        assert abs(same - least) <= 1e-9
    if positions <= SEARCHED:
        row["gradient"], _, reached = timed(lambda: by_gradient(logits, values), 1)
        row["gap"] = reached - least
    print(row, flush=True)
    return row


def batch_row(repeats: int) -> Row:
    """Many queries and directions of short heads: what a certifier of a whole model asks for."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn((QUERIES, SHORT, OPTIONS), generator=generator, dtype=torch.float64)
    values = torch.randn((DIRECTIONS, SHORT, OPTIONS), generator=generator, dtype=torch.float64)
    together, cpu, _ = timed(lambda: worst_case(Head(logits), values), repeats)
    some = [(query, direction) for query in range(5) for direction in range(20)]
    singly, _, _ = timed(lambda: [worst_case(Head(logits[q]), values[d]) for q, d in some], repeats)
    problems = QUERIES * DIRECTIONS
    row = {
        "problems": problems,
        "positions": SHORT,
        "microseconds": together / problems * 1e6,
        "cpu": cpu / problems * 1e6,
        "singly": singly / len(some) * 1e6,
    }
    print(row, flush=True)
    return row


def page(data: Row) -> str:
    head = ["N", "spread", "rounds", "seconds", "CPU", "proven", "width", "loop", "arrays", "gradient", "gap"]

    def cells(row: Row) -> Sequence[object]:
        own = row["seconds"]
        ratios = [
            f"{row[peer] / own:,.1f} ×" if peer in row else "" for peer in ("loop", "arrays", "gradient")
        ]
        gap = f"{row['gap']:.2g}" if "gap" in row else ""
        times = [f"{row[name]:.3f}" for name in ("seconds", "cpu", "proven")]
        return [row["positions"], row["spread"], row["rounds"], *times, f"{row['width']:.1e}", *ratios, gap]

    many = data["batch"]
    together = (
        f"{many['problems']:,} problems at once (N = {many['positions']}, {QUERIES} queries, {DIRECTIONS} "
        f"directions) take {many['microseconds']:.0f} µs each ({many['cpu']:.0f} µs of CPU), one by one "
        f"{many['singly']:.0f} µs: {many['singly'] / many['microseconds']:.1f} ×."
    )
    return f"{HEAD}\n\n{data['made_with']}\n\n{table(head, map(cells, data['rows']), text=0)}\n\n{together}\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    rows = [row_of(positions, spread, asked.repeats) for positions, spread in CASES]
    data = {
        "made_with": f"separatrix {__version__}, torch {torch.__version__}, numpy {np.__version__}, "
        f"Python {platform.python_version()}, {asked.threads} thread{'s' * (asked.threads > 1)}.",
        "rows": rows,
        "batch": batch_row(asked.repeats),
    }
    with written_whole(DATA) as file:
        json.dump(data, file, indent=1)
    with written_whole(DATA.with_suffix(".md")) as file:
        file.write(page(data))


if __name__ == "__main__":
    main()
