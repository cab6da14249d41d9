"""How much faster steps are that take lengths in bands, beside the plain way: all are padded alike.

    python -m benchmarks.bands [--bands 1 4] [--only MODEL ...] [--json FILE]     # on a GPU
    python -m benchmarks.bands --learning                # anywhere: steps until small ones have learned
    python -m benchmarks.bands --page                    # anywhere: the page anew

Populations of S's figures at the paper's sizes, batch 64, products in bfloat16. Where lengths vary, all
examples are padded to the longest there can be; in four bands that take turns a step has on the average five
eighths of the positions. Figures go to `results/bands.json`, each as soon as it is known, and into
`results/bands.md`. `benchmarks.step_rates gather` takes them for the projections too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.markdown import table
from benchmarks.step_rates import BANDS as DATA
from benchmarks.step_rates import Row, rows_in, time_population
from separatrix.experiments.protocols import S_RATES, s_model
from separatrix.experiments.rates import size_of
from separatrix.files import written_whole
from separatrix.tasks import task
from separatrix.training import train
from separatrix.training.jobs import Job, job_for
from separatrix.training.recipes import Member, Training

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
)
"""The same with a learning rate and the most steps, small enough for a CPU."""
SEEDS = range(6)
_PAGE = """# Steps in bands of lengths

{where}. `python -m benchmarks.bands` measures: batch 64, products in bfloat16, the sizes of
S's figures. What was prepared found its code in the compiler's cache.

{speed}

## Does it learn as well?

Steps until 99 % of 1,000 examples of full length are right, for {seeds} seeds, looked at every 100 steps, on
a CPU in float32: `python -m benchmarks.bands --learning`.

{learned}
"""


def jobs(bands: Sequence[int], only: Sequence[str]) -> Iterator[Job]:
    """Every population with every number of bands, one population after another."""
    for label, layers, width, (name, given), n, members in POPULATIONS:
        if only and label not in only:
            continue
        for count in bands:
            yield job_for(
                task(name, n=n, **given),
                s_model(label, layers=layers, width=width, task=name),
                members=[Member(lr=rate) for rate in S_RATES[:members]],
                training=Training(precision="bfloat16", bands=count),
            )


def learned(before: Sequence[Row]) -> Iterator[Row]:
    """The steps in which each seed has solved a task, with all lengths at every step and in bands; of those
    that were not trained before.
    """
    for label, layers, width, (name, given), n, rate, most in LEARNED:
        asked = task(name, n=n, **given)
        form = f"{name} {given.get('form', '')}".strip()
        population = f"{label}-({layers},{width}) on {form} at {n}"
        for count in (1, 4):
            if any((row["population"], row["bands"]) == (population, count) for row in before):
                continue
            training = Training(
                steps=most, eval_every=100, eval_examples=1000, test_examples=1000, solved=0.99, bands=count
            )
            members = [Member(lr=rate, seed=seed) for seed in SEEDS]
            config = s_model(label, layers=layers, width=width, task=name)
            found = train(asked, config, members=members, training=training)
            solved = [one.solved_at for one in found]
            yield {"population": population, "rate": rate, "bands": count, "solved": solved, "most": most}


def page(rows: Sequence[Row], learning: Sequence[Row]) -> str:
    """The figures as tables, each beside its population in one band."""
    plain = {_population(row): row["steps_per_second"] for row in rows if row["size"]["bands"] == 1}
    lines = []
    for row in rows:
        size, alone = row["size"], plain.get(_population(row))
        name = f"{size['model']}-({size['layers']},{size['width']})"
        asked = f"{size['task']} {size['form']}".strip()
        lines.append(
            (
                f"{name} on {asked} at {size['n']}",
                size["members"],
                size["bands"],
                f"{size['positions'] / size['length']:.2f}",
                f"{row['steps_per_second']:.1f}",
                "not run" if alone is None else f"{row['steps_per_second'] / alone:.2f}",
                f"{row['start_seconds']:.0f}{', prepared' if row.get('prepared') else ''}",
            )
        )
    head = ("population", "members", "bands", "share of positions", "steps/s", "× one band", "s to begin")
    where = f"{rows[0]['device']}, torch {rows[0]['torch']}" if rows else "not run"
    solved = [
        (
            row["population"],
            row["rate"],
            row["bands"],
            f"{sum(one is not None for one in row['solved'])} of {len(row['solved'])}",
            *_spread([row["most"] if one is None else one for one in row["solved"]]),
        )
        for row in learning
    ]
    told = table(("population", "learning rate", "bands", "solved", "median step", "first", "last"), solved)
    return _PAGE.format(where=where, speed=table(head, lines), seeds=len(SEEDS), learned=told)


def _spread(steps: Sequence[int]) -> tuple[int, int, int]:
    return int(statistics.median(steps)), min(steps), max(steps)


def _population(row: Row) -> str:
    return json.dumps({name: row["size"][name] for name in row["size"] if name not in ("bands", "positions")})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bands", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--only", nargs="+", default=[], help="S's labels of models")
    parser.add_argument("--prepared", action="store_true", help="another process has compiled all of it")
    parser.add_argument("--json", type=Path, default=DATA)
    parser.add_argument("--learning", action="store_true", help="train small ones to the end")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    rows, learning = rows_in(DATA), rows_in(DATA, "learning")
    if options.learning:
        for row in learned(tuple(learning)):
            learning.append(row)
            print(row, file=sys.stderr, flush=True)
            _write(options.json, rows, learning)
    elif not options.page:
        if not torch.cuda.is_available():
            parser.error("populations of these sizes are timed on a GPU, and there is none here")
        for job in jobs(options.bands, options.only):
            size = size_of(job)
            assert size is not None
            if any(row["size"] == vars(size) for row in rows):
                continue
            try:
                rows.append(time_population(job) | ({"prepared": True} if options.prepared else {}))
            except RuntimeError as failure:  # one that does not fit says nothing about the others
                print(f"{size}: {failure}", file=sys.stderr, flush=True)
                continue
            _write(options.json, rows, learning)
    with written_whole(PAGE) as file:
        file.write(page(rows, learning))


def _write(path: Path, rows: Sequence[Row], learning: Sequence[Row]) -> None:
    with written_whole(path) as file:
        json.dump({"rows": rows, "learning": learning}, file, indent=1)


if __name__ == "__main__":
    main()
