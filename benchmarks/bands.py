"""How much faster steps are that take lengths in bands or two inputs a row, beside the plain way: all are
padded alike.

    python -m benchmarks.bands [--ways 1 4 pairs] [--only MODEL ...] [--json FILE]     # on a GPU
    python -m benchmarks.bands --cpu                     # anywhere: small ones, all ways in turn
    python -m benchmarks.bands --learning                # anywhere: steps until small ones have learned
    python -m benchmarks.bands --page                    # anywhere: the page anew

Populations of S's figures at the paper's sizes, batch 64, products in bfloat16. Where lengths vary, all
examples are padded to the longest there can be; in four bands that take turns a step has on the average five
eighths of the positions, and in pairs about half. Figures go to `results/bands.json`, each as soon as it is
known, and into `results/bands.md`. `benchmarks.step_rates gather` takes them for the projections too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.markdown import table
from benchmarks.step_rates import BANDS as DATA
from benchmarks.step_rates import MEASURED, Row, rows_in, time_population
from separatrix.experiments.protocols import S_MODELS, S_RATES, s_model
from separatrix.experiments.rates import Rate, Size, rates_measured, size_of
from separatrix.files import written_whole
from separatrix.models import MODELS
from separatrix.models.stack import SeamedStack
from separatrix.tasks import task
from separatrix.training import train
from separatrix.training.course import Course
from separatrix.training.jobs import Job, job_for
from separatrix.training.recipes import Member, Training
from separatrix.training.running import placing_for

HERE = Path(__file__).parent
PAGE = HERE / "results" / "bands.md"
Asked = tuple[str, dict[str, Any]]
LOOKUP: Asked = ("index-lookup", {})
NCP: Asked = ("equality", {"form": "ncp"})
RANDOM: Asked = ("equality", {"form": "random"})
POPULATIONS: tuple[tuple[str, int, int, Asked, int, int], ...] = (
    ("TF", 1, 64, LOOKUP, 400, 7),
    ("TF", 2, 64, NCP, 800, 7),
    ("Mamba", 6, 256, LOOKUP, 400, 7),
    ("Mamba", 6, 256, LOOKUP, 400, 1),
    ("RetNet", 6, 256, LOOKUP, 400, 7),
    ("Mamba", 2, 256, LOOKUP, 100, 7),
    ("TF", 2, 256, RANDOM, 200, 7),
    ("Mamba", 2, 64, NCP, 400, 7),
    ("TF", 2, 64, NCP, 200, 1),
    ("DSS", 6, 256, LOOKUP, 400, 7),
    ("LinTF", 6, 256, LOOKUP, 400, 7),
    ("Mamba", 2, 1024, LOOKUP, 400, 7),
)
"""S's label, layers, width, the task, its n, members: those of which most is to be learned first."""
LEARNED: tuple[tuple[str, int, int, Asked, int, float, int], ...] = (
    ("TF", 1, 64, LOOKUP, 50, 1e-3, 6_000),
    ("TF", 2, 64, ("equality", {"form": "ncp", "alphabet": 64}), 20, 1e-3, 6_000),
    ("LSTM", 1, 64, ("equality", {"form": "ncp", "alphabet": 4}), 12, 1e-2, 4_000),
    ("Mamba", 2, 64, ("equality", {"form": "ncp", "alphabet": 4}), 20, 3e-3, 4_000),
    ("RetNet", 2, 64, ("equality", {"form": "ncp", "alphabet": 4}), 20, 3e-3, 4_000),
    ("LinTF", 2, 64, ("equality", {"form": "ncp", "alphabet": 4}), 20, 3e-3, 4_000),
    ("RetNet", 2, 64, ("index-lookup", {"alphabet": 8}), 12, 1e-3, 8_000),
)
"""The same with a learning rate and the most steps, small enough for a CPU."""
ON_A_CPU: tuple[tuple[str, int, int, Asked, int], ...] = (
    ("Mamba", 2, 64, LOOKUP, 200),
    ("LSTM", 2, 64, LOOKUP, 200),
    ("RetNet", 2, 64, LOOKUP, 200),
    ("LinTF", 2, 64, LOOKUP, 200),
    ("Mamba", 2, 64, NCP, 100),
)
"""Of one member."""
SEEDS = range(6)
WAYS = ("1", "4", "pairs")
"""All lengths in every step, in four bands, and two inputs a row."""
ROUNDS, STEPS = 5, 8
_PAGE = """# Steps in bands of lengths, and in pairs

{where}. `python -m benchmarks.bands` measures: batch 64, products in bfloat16, the sizes of
S's figures. What was prepared found its code in the compiler's cache.

{speed}

## Two inputs a row

*Pairs* are two inputs a row, one as much longer as the other is shorter. On the same card, from `python -m
benchmarks.step_rates`, which measures many populations in one go; those of which another way was measured
too. {repeated} of its populations were measured twice, which `--again` does: the second rates were
{least:.1f} % lower to {most:.1f} % higher.

{pairs}

## On a CPU

Batch 64 in float32, one member, two threads: `python -m benchmarks.bands --cpu`. The ways take turns,
{steps} steps each, {rounds} times; the median.

{on_cpu}

## Does it learn as well?

Steps until 99 % of 1,000 examples of full length are right, for {seeds} seeds, looked at every 100 steps,
on a CPU in float32: `python -m benchmarks.bands --learning`. Who has not by the last step, 4,000 to 8,000,
counts with that.

{learned}
"""


def in_ways(ways: Sequence[str], label: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each way that this model can be trained in, and the settings that say so."""
    for way in ways:
        if way != "pairs":
            yield way, {"bands": int(way)}
        elif issubclass(MODELS.get(S_MODELS[label]), SeamedStack):
            yield way, {"paired": True}


def jobs(ways: Sequence[str], only: Sequence[str]) -> Iterator[Job]:
    """Every population in every way, one population after another."""
    for label, layers, width, (name, given), n, members in POPULATIONS:
        if only and label not in only:
            continue
        for _, setting in in_ways(ways, label):
            yield job_for(
                task(name, n=n, **given),
                s_model(label, layers=layers, width=width, task=name),
                members=[Member(lr=rate) for rate in S_RATES[:members]],
                training=Training(precision="bfloat16", **setting),
            )


def on_a_cpu() -> Iterator[Row]:
    """Small populations in all ways, which take turns, so that what else the machine does slows all alike."""
    torch.set_num_threads(2)
    for label, layers, width, (name, given), n in ON_A_CPU:
        asked = task(name, n=n, **given)
        config = s_model(label, layers=layers, width=width, task=name)
        engines = {}
        for way, setting in in_ways(WAYS, label):
            job = job_for(asked, config, members=[Member(lr=1e-3)], training=Training(**setting))
            engines[way] = Course(job, placing_for(job, device="cpu")).engine
            engines[way].run(STEPS)
        seconds: dict[str, list[float]] = {way: [] for way in engines}
        for _ in range(ROUNDS):
            for way, engine in engines.items():
                begun = time.perf_counter()
                engine.run(STEPS)
                seconds[way].append((time.perf_counter() - begun) / STEPS)
        median = {way: statistics.median(taken) for way, taken in seconds.items()}
        yield {"population": _named(label, layers, width, name, given, n), "seconds": median}


def learned(before: Sequence[Row]) -> Iterator[Row]:
    """The steps in which each seed has solved a task, in each way; of those that were not trained before."""
    for label, layers, width, (name, given), n, rate, most in LEARNED:
        asked = task(name, n=n, **given)
        population = _named(label, layers, width, name, given, n)
        for way, setting in in_ways(WAYS, label):
            if any((row["population"], way_of(row)) == (population, way) for row in before):
                continue
            training = Training(
                steps=most, eval_every=100, eval_examples=1000, test_examples=1000, solved=0.99, **setting
            )
            members = [Member(lr=rate, seed=seed) for seed in SEEDS]
            config = s_model(label, layers=layers, width=width, task=name)
            found = train(asked, config, members=members, training=training)
            solved = [one.solved_at for one in found]
            yield {
                "population": population,
                "rate": rate,
                "bands": 1,
                **setting,
                "solved": solved,
                "most": most,
            }


def in_pairs(rates: Sequence[Rate]) -> list[tuple[str, ...]]:
    """Steps a second of populations that were timed in pairs and in another way too."""
    ways: dict[Size, dict[str, float]] = {}
    for rate in rates:
        if rate.compiled and rate.how == "benchmark":
            anyhow = replace(rate.size, bands=1, positions=rate.size.length)
            ways.setdefault(anyhow, {})[way_of(vars(rate.size))] = rate.steps_per_second
    lines = []
    for size, found in ways.items():
        if "pairs" in found and len(found) > 1:
            pairs = found["pairs"]
            beside = [found.get(way) for way in WAYS[:2]]
            lines.append(
                (
                    _called(vars(size)),
                    f"{size.members}",
                    *("" if one is None else f"{one:,.1f}" for one in beside),
                    f"{pairs:,.1f}",
                    *("" if one is None else f"{pairs / one:.2f}" for one in beside),
                )
            )
    return lines


def repeated() -> dict[str, float]:
    """How many populations `benchmarks.step_rates` has timed twice, and the least and the most difference."""
    first = {json.dumps(row["size"]): row["steps_per_second"] for row in rows_in(MEASURED)}
    ratios = [
        row["steps_per_second"] / first[json.dumps(row["size"])] - 1 for row in rows_in(MEASURED, "again")
    ]
    least, most = min(ratios, default=0.0), max(ratios, default=0.0)
    return {"repeated": len(ratios), "least": -100 * least, "most": 100 * most}


def page(
    rows: Sequence[Row], on_cpu: Sequence[Row], learning: Sequence[Row], rates: Sequence[Rate] = ()
) -> str:
    """The figures as tables, each beside its population in one band."""
    plain = {_population(row): row["steps_per_second"] for row in rows if way_of(row["size"]) == "1"}
    lines = []
    for row in rows:
        size, alone = row["size"], plain.get(_population(row))
        lines.append(
            (
                _called(size),
                size["members"],
                way_of(size),
                f"{size['positions'] / size['length']:.2f}",
                f"{row['steps_per_second']:.1f}",
                "not run" if alone is None else f"{row['steps_per_second'] / alone:.2f}",
                f"{row['start_seconds']:.0f}{', prepared' if row.get('prepared') else ''}",
            )
        )
    head = ("population", "members", "bands", "share of positions", "steps/s", "× one band", "s to begin")
    where = f"{rows[0]['device']}, torch {rows[0]['torch']}" if rows else "not run"
    compared = [
        (
            row["population"],
            f"{1000 * row['seconds']['1']:.0f}",
            *(f"{row['seconds']['1'] / row['seconds'][way]:.2f}" for way in WAYS[1:]),
        )
        for row in on_cpu
    ]
    solved = [
        (
            row["population"],
            row["rate"],
            way_of(row),
            f"{sum(one is not None for one in row['solved'])} of {len(row['solved'])}",
            *_spread([row["most"] if one is None else one for one in row["solved"]]),
        )
        for row in learning
    ]
    return _PAGE.format(
        where=where,
        speed=table(head, lines),
        **repeated(),
        pairs=table(
            ("population", "members", "all lengths", "four bands", "pairs", "× all lengths", "× four bands"),
            in_pairs(rates),
        ),
        steps=STEPS,
        rounds=ROUNDS,
        on_cpu=table(("population", "ms a step, all lengths", "× in four bands", "× in pairs"), compared),
        seeds=len(SEEDS),
        learned=table(
            ("population", "learning rate", "bands", "solved", "median step", "first", "last"), solved
        ),
    )


def _called(size: Row) -> str:
    asked = f"{size['task']} {size['form']}".strip()
    return f"{size['model']}-({size['layers']},{size['width']}) on {asked} at {size['n']}"


def _named(label: str, layers: int, width: int, name: str, given: dict[str, Any], n: int) -> str:
    form = f"{name} {given.get('form', '')}".strip()
    return f"{label}-({layers},{width}) on {form} at {n}"


def way_of(row: Row) -> str:
    """Of a size, or of a row about what was learned."""
    paired = row.get("paired") or (row["bands"] == 1 and row.get("positions") != row.get("length"))
    return "pairs" if paired else str(row["bands"])


def _spread(steps: Sequence[int]) -> tuple[int, int, int]:
    return int(statistics.median(steps)), min(steps), max(steps)


def _population(row: Row) -> str:
    return json.dumps({name: row["size"][name] for name in row["size"] if name not in ("bands", "positions")})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ways", choices=WAYS, nargs="+", default=WAYS)
    parser.add_argument("--only", nargs="+", default=[], help="S's labels of models")
    parser.add_argument("--prepared", action="store_true", help="another process has compiled all of it")
    parser.add_argument("--json", type=Path, default=DATA)
    parser.add_argument("--cpu", action="store_true", help="time small ones on a CPU")
    parser.add_argument("--learning", action="store_true", help="train small ones to the end")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    rows, on_cpu, learning = (rows_in(DATA, part) for part in ("rows", "on_cpu", "learning"))
    if options.cpu:
        on_cpu = list(on_a_cpu())
        _write(options.json, rows, on_cpu, learning)
    elif options.learning:
        for row in learned(tuple(learning)):
            learning.append(row)
            print(row, file=sys.stderr, flush=True)
            _write(options.json, rows, on_cpu, learning)
    elif not options.page:
        if not torch.cuda.is_available():
            parser.error("populations of these sizes are timed on a GPU, and there is none here")
        for job in jobs(options.ways, options.only):
            size = size_of(job)
            assert size is not None
            if any(row["size"] == vars(size) for row in rows):
                continue
            try:
                rows.append(time_population(job) | ({"prepared": True} if options.prepared else {}))
            except RuntimeError as failure:  # one that does not fit says nothing about the others
                print(f"{size}: {failure}", file=sys.stderr, flush=True)
                continue
            _write(options.json, rows, on_cpu, learning)
    with written_whole(PAGE) as file:
        file.write(page(rows, on_cpu, learning, rates_measured().measured))


def _write(path: Path, rows: Sequence[Row], on_cpu: Sequence[Row], learning: Sequence[Row]) -> None:
    with written_whole(path) as file:
        json.dump({"rows": rows, "on_cpu": on_cpu, "learning": learning}, file, indent=1)


if __name__ == "__main__":
    main()
