"""How fast tasks are sampled: ours, the plain way, and the peers' measured rates, in one table.

    make bench            or            python -m benchmarks.task_sampling [--seconds 3] [--out FILE]
    python -m benchmarks.task_sampling --device cuda        # sampling captured in a CUDA graph

The plain way is what one writes first: one example after another, in NumPy and Python lists. Ours and the
plain way run in the same process, taking turns, so that their ratio means something on a busy machine; the
best of several turns counts. Peers that cannot be installed here stand as data in `peers/`. Last, memory:
the resident set after many batches of a task, against the set after a few.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from separatrix.files import written_whole
from separatrix.tasks import Task, task
from separatrix.version import __version__

HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Case:
    label: str
    settings: str
    task: Task
    batch: int
    bar: int
    plain: Callable[[np.random.Generator], object]


def plain_mqar(random: np.random.Generator) -> object:
    keys = random.choice(4096, 64, replace=False)
    values = 4096 + random.integers(0, 4096, 64)
    order = random.permutation(64)
    tokens = np.empty(256, dtype=np.int64)
    tokens[0:128:2], tokens[1:128:2] = keys, values
    tokens[128::2], tokens[129::2] = keys[order], values[order]
    targets = np.zeros(256, dtype=np.int64)
    targets[128::2] = values[order]
    return tokens, targets


def plain_index_lookup(random: np.random.Generator) -> object:
    count = random.integers(10, 401)
    symbols = random.integers(0, 64, count)
    index = random.integers(0, count)
    tokens = np.full(401, 464, dtype=np.int64)
    tokens[:count], tokens[count] = symbols, 64 + index
    return tokens, symbols[index]


def plain_dyck(random: np.random.Generator, n: int = 400) -> object:
    stack: list[int] = []
    text: list[int] = []
    for _ in range(n - 2):
        if len(stack) == 2 or (stack and random.integers(0, 3) == 2):
            text.append(stack.pop() + 2)
        else:
            stack.append(int(random.integers(0, 2)))
            text.append(stack[-1])
    if not stack:
        text += [0, 2]
    while stack:
        text.append(stack.pop() + 2)
    label = int(random.integers(0, 2))
    while not label:
        spoiled = list(text)
        for place in random.choice(n, int(random.integers(1, n // 10 + 1)), replace=False):
            spoiled[place] ^= 1 if random.integers(0, 2) else 2
        if not _balanced(spoiled):
            text = spoiled
            break
    return np.array(text), label


def _balanced(text: list[int]) -> bool:
    stack: list[int] = []
    for bracket in text:
        if bracket < 2:
            stack.append(bracket)
            if len(stack) > 2:
                return False
        elif not stack or stack.pop() != bracket - 2:
            return False
    return not stack


def _hub_edges(random: np.random.Generator, n: int = 32) -> list[tuple[int, int]]:
    number = random.permutation(n) + 1
    edges = [(number[i], number[random.integers(0, 2)]) for i in range(2, n)]
    bridge = random.integers(2, n - 1)
    edges.append((number[bridge], number[bridge + 1]))
    random.shuffle(edges)
    return [(int(min(edge)), int(max(edge))) for edge in edges]


def plain_tour(random: np.random.Generator) -> object:
    edges = _hub_edges(random)
    stack, visited, walk = [1], {1}, []
    while stack:
        walk.append(stack[-1])
        for u, v in edges:
            other = v if u == stack[-1] else u if v == stack[-1] else 0
            if other and other not in visited:
                visited.add(other)
                stack.append(other)
                break
        else:
            stack.pop()
    return edges, walk, len(visited) == 32


def plain_trace(random: np.random.Generator) -> object:
    edges = _hub_edges(random)
    parent, text, stack, previous = {1: 0}, ["0", "1"], [1], 0

    def edge_after(v: int, last: tuple[int, int] | None) -> int:
        begin = 0 if last is None else edges.index(last) + 1
        return next((b if a == v else a for a, b in edges[begin:] if v in (a, b)), 0)

    while stack:
        v = stack[-1]
        text += [str(v), "<StartSearch>", str(v), "<EndSearch>", str(parent[v])]
        last = None if previous == parent[v] else (min(previous, v), max(previous, v))
        u = edge_after(v, last)
        text += ["<StartSearch>", str(previous), str(v), "<EndSearch>", str(u)]
        if u and u == parent[v]:
            u = edge_after(v, (min(u, v), max(u, v)))
            text += ["<StartSearch>", str(parent[v]), str(v), "<EndSearch>", str(u)]
        if not u:
            previous = stack.pop()
        elif u in parent:
            return text, False
        else:
            text += ["<StartSearch>", str(u), "<EndSearch>", "FAILED", str(v), str(u)]
            parent[u] = v
            stack.append(u)
            previous = v
    return text, len(parent) == 32


CASES = (
    Case(
        label="mqar",
        settings="64 pairs, length 256, vocabulary 8192",
        task=task("mqar", n=128, vocabulary_size=8192),
        batch=2048,
        bar=30_000,
        plain=plain_mqar,
    ),
    Case(
        label="index-lookup",
        settings="N = 400",
        task=task("index-lookup", n=400),
        batch=4096,
        bar=200_000,
        plain=plain_index_lookup,
    ),
    Case(
        label="dyck",
        settings="Dyck-(2,2), N = 400",
        task=task("dyck", n=400),
        batch=2048,
        bar=50_000,
        plain=plain_dyck,
    ),
    Case(
        label="is-tree tour",
        settings="n = 32",
        task=task("is-tree", n=32, form="cot"),
        batch=4096,
        bar=50_000,
        plain=plain_tour,
    ),
    Case(
        label="is-tree retrieval",
        settings="n = 32, compact",
        task=task("is-tree", n=32, form="retrieval"),
        batch=2048,
        bar=10_000,
        plain=plain_trace,
    ),
    Case(
        label="is-tree retrieval",
        settings="n = 32, full",
        task=task("is-tree", n=32, form="retrieval", trace="full"),
        batch=1024,
        bar=10_000,
        plain=plain_trace,
    ),
)


def rate(run: Callable[[int], int], seconds: float) -> float:
    """Examples per second over at least this long."""
    done, turn, begin = 0, 0, time.perf_counter()
    while (spent := time.perf_counter() - begin) < seconds:
        done += run(turn)
        turn += 1
    return done / spent


def measure(case: Case, seconds: float, turns: int = 3) -> tuple[float, float]:
    """Best rate of ours and of the plain way, taking turns."""
    random = np.random.default_rng(0)

    def ours(turn: int) -> int:
        case.task.sample(case.batch, seed=turn)
        return case.batch

    def plain(turn: int) -> int:
        for _ in range(16):
            case.plain(random)
        return 16

    ours(0)
    rates = [(rate(ours, seconds / turns), rate(plain, seconds / turns)) for _ in range(turns)]
    return max(first for first, _ in rates), max(second for _, second in rates)


def growth(batches: int = 60) -> tuple[float, float]:
    """Peak memory in MiB after five batches of every row, and after many more of each."""

    def peak(count: int) -> float:
        for case in CASES:
            for turn in range(count):
                case.task.sample(case.batch, seed=0, start=turn * case.batch)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    return peak(5), peak(batches)


def table(seconds: float) -> str:
    peers = json.loads((HERE / "peers" / "task_sampling.json").read_text())["rows"]
    versions = f"separatrix {__version__}, torch {torch.__version__}, Python {sys.version.split()[0]}"
    lines = [
        "# Sampling speed",
        "",
        f"{versions}, {torch.get_num_threads()} threads on {os.cpu_count()} cores. Made by `make bench`.",
        "",
        "| task | settings | batch | ours, examples/s | bar | plain way | ours / plain | peer, examples/s |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for case in CASES:
        ours, plain = measure(case, seconds)
        named = [
            f"{row['peer']} {row['low']:,}" + (f" to {row['high']:,}" if row["high"] > row["low"] else "")
            for row in peers
            if row["task"] == case.label
        ]
        lines.append(
            f"| {case.label} | {case.settings} | {case.batch:,} | {ours:,.0f} | {case.bar:,} | {plain:,.0f} "
            f"| {ours / plain:,.0f} × | {'; '.join(named) or '—'} |"
        )
        print(lines[-1], file=sys.stderr)
    few, many = growth()
    lines += [
        "",
        f"Memory: peak resident set {few:,.0f} MiB after 5 batches of every row, {many:,.0f} MiB after 65.",
        "",
        "Peers' rates are data (`benchmarks/peers/task_sampling.json`), measured on two CPU cores.",
    ]
    return "\n".join(lines) + "\n"


def captured_rate(case: Case, batch: int, seconds: float) -> float:
    """Examples per second of replays of a graph that draws fresh examples each time."""
    start = torch.zeros((), dtype=torch.int64, device="cuda")
    case.task.sample(batch, seed=0, start=start, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        case.task.sample(batch, seed=0, start=start, device="cuda")
        start += batch

    def replays(_: int) -> int:
        for _ in range(10):
            graph.replay()
        torch.cuda.synchronize()
        return 10 * batch

    replays(0)
    return rate(replays, seconds)


def device_table(seconds: float) -> str:
    device = f"separatrix {__version__}, torch {torch.__version__}, {torch.cuda.get_device_name()}"
    lines = [
        "# Sampling speed in a CUDA graph",
        "",
        f"{device}. Made by `python -m benchmarks.task_sampling --device cuda`.",
        "Examples per second over replays of one graph, eager kernels, fresh examples on every replay.",
        "",
        "| task | settings | batch 64 | batch 4,096 |",
        "|---|---|---:|---:|",
    ]
    for case in CASES:
        small, large = (captured_rate(case, batch, seconds / 2) for batch in (64, 4096))
        lines.append(f"| {case.label} | {case.settings} | {small:,.0f} | {large:,.0f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=6.0, help="time for each row, shared by both ways")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, help="where the table goes; by default into results/")
    arguments = parser.parse_args()
    make, name = {"cpu": (table, "task_sampling.md"), "cuda": (device_table, "task_sampling_cuda.md")}[
        arguments.device
    ]
    text = make(arguments.seconds)
    with written_whole(arguments.out or HERE / "results" / name) as file:
        file.write(text)
    print(text)


if __name__ == "__main__":
    main()
