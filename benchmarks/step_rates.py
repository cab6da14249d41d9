"""Rates of steps that the projections of `benchmarks.reproduction` need: measured, and put into one table.

    python -m benchmarks.step_rates measure [--minutes 20] [--processes 10] [--lengths pairs] [--out FILE]
    python -m benchmarks.step_rates measure --again ...                     # what was measured once
    python -m benchmarks.step_rates gather [STORE ...]                      # into data/rates.csv

`measure` times on a GPU what experiments train at the quick budget of which no rate can be had, then
populations of S's figures at the paper's sizes, whole and with the members that halving leaves, those first
on which most hours rest, and what several of the same gain abreast; with all lengths in every step, or in
pairs, it compiles a quarter as much for each as in bands, and what bands save is reckoned. Most of its time
is compiling, which several processes do, and one of them at a time has the GPU. What it finds is added to
`results/step_rates.json`, and it goes on where it ended. With `--again` it times what was timed before,
which says how well rates repeat; no rate of the table comes from that. `gather` writes the table of the
package from that file, from `results/bands.json`, `results/abreast.json` and `results/populations.json`,
from the runs in `results/` of the checkout and in these stores, and from those that the table has already.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import torch

from benchmarks.in_turns import measured_in_turns
from benchmarks.populations import BATCH
from benchmarks.populations import DATA as POPULATIONS
from benchmarks.recorded import Ready, Turn, gain_of, ready
from separatrix.evidence import TaskSpec
from separatrix.experiments import EXPERIMENTS, study_of
from separatrix.experiments.protocols import Lengths, Settings
from separatrix.experiments.rates import (
    COLUMNS,
    Rate,
    Rates,
    Size,
    rates_from,
    rates_measured,
    seconds_per_step,
    size_of,
)
from separatrix.files import written_whole
from separatrix.models import model
from separatrix.models.population import ModelConfig
from separatrix.models.specs import ModelSpec, kind_and_config, model_spec_of
from separatrix.store import Run, Store, key_of
from separatrix.store.bundles import bundles_in, read_bundle
from separatrix.tasks import task
from separatrix.tasks.interface import Task
from separatrix.tasks.specs import spec_of, task_of
from separatrix.training.jobs import Job
from separatrix.training.recipes import Member, Precision, Training
from separatrix.training.stretches import stretches_of

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
MEASURED = HERE / "results" / "step_rates.json"
BANDS = HERE / "results" / "bands.json"
ABREAST = HERE / "results" / "abreast.json"
TABLE = Path(str(files("separatrix.experiments"))) / "data" / "rates.csv"
BARS = {"with halving": 12, "without": 40}
"""Hours that S's three figures are to take at most."""
FIGURES = ("s-fig2", "s-fig3", "s-fig4")
PARTS = ("transformer", "models", "lengths")
FASTER_SINCE = "2026-11-16T17:00:00Z"
"""Then scores of classes, the gradient of token tables and LSTMs of few cells became up to three times as
fast. What was measured before of populations in which these count for much says nothing any more; other rates
stand as the upper bounds that they are."""
LANES = 4
"""So many of the same are tried at once."""
_ALONE, _BESIDE = 0.5, 0.15
"""Seconds that populations are timed: alone, and with others by what each would take alone."""
_FILLS = 8_000_000
"""Numbers in flight that leave a card with next to nothing to do for others."""
_UNKNOWN = 1.0
"""Seconds of a step that nothing is known of: more than any has, so that it is measured first."""
Row = dict[str, Any]


def is_outgrown(size: Size) -> bool:
    """Whether populations of this size became much faster at the time `FASTER_SINCE`."""
    many_scores = size.task == "equality" and size.labels > 1
    return many_scores or (size.model == "lstm" and size.width <= 64)


def gathered(runs: Sequence[Run], known: Iterable[Rate], *, measured: Iterable[Row]) -> list[Rate]:
    """Every rate there is, each size and way once: of those that were repeated the slowest, and how long it
    took to begin from whichever says it.

    Runs that would be faster today do not count.
    """
    before = [rate for rate in known if rate.how == "run"]
    found: dict[tuple[Size, bool, str], Rate] = {}
    for rate in (*_of_benchmarks(), *map(_of_row, measured), *before, *_of_runs(runs)):
        place = rate.size, rate.compiled, rate.how
        before_it = found.get(place)
        if before_it is None:
            found[place] = rate
        elif rate.seconds > before_it.seconds:
            start = before_it.start_seconds if rate.start_seconds is None else rate.start_seconds
            found[place] = replace(rate, start_seconds=start)
    return sorted(found.values(), key=_order)


def _order(rate: Rate) -> tuple[object, ...]:
    size = rate.size
    return (size.model, size.layers, size.width, size.task, size.form, size.n, size.members, rate.how)


def table_of(rates: Iterable[Rate]) -> str:
    """The rates as CSV, with figures as long as they are worth."""
    return csv_of(
        COLUMNS,
        (
            {
                **vars(rate.size),
                "compiled": "yes" if rate.compiled else "no",
                "steps_per_second": f"{rate.steps_per_second:.5g}",
                "start_seconds": "" if rate.start_seconds is None else f"{rate.start_seconds:.1f}",
                "how": rate.how,
                "device": rate.device,
                "torch": rate.torch,
            }
            for rate in rates
        ),
    )


def csv_of(columns: Sequence[str], rows: Iterable[Row]) -> str:
    """Rows as CSV, with a head."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _of_benchmarks() -> Iterator[Rate]:
    """Those of `benchmarks.populations`: index lookup with the letters that it has of itself."""
    data = json.loads(POPULATIONS.read_text())
    for part in PARTS:
        for row in data[part]["rows"]:
            if "failed" in row:
                continue
            config: ModelConfig = model(row["model"], **row["params"])
            size = size_of(_alike(task("index-lookup", n=row["n"]), config, members=row["members"]))
            assert size is not None
            yield Rate(
                size=size,
                compiled=row["compiled"],
                steps_per_second=row["steps_per_second"],
                start_seconds=row.get("seconds_to_first_step") if row["compiled"] else None,
                how="benchmark",
                device=data[part]["device"],
                torch=data[part]["torch"],
            )


def _alike(
    asked: Task,
    config: ModelConfig | ModelSpec,
    *,
    members: int,
    precision: Precision = "bfloat16",
    bands: int = 1,
    paired: bool = False,
) -> Job:
    """A job of this size; its learning rates do not matter."""
    return Job(
        task=spec_of(asked),
        model=config if isinstance(config, ModelSpec) else model_spec_of(*kind_and_config(config)),
        training=Training(precision=precision, batch=BATCH, bands=bands, paired=paired),
        members=tuple(Member(seed=seed) for seed in range(members)),
    )


def _of_row(row: Row) -> Rate:
    """A rate that `measure` wrote."""
    size = row["size"]
    return Rate(
        size=Size(**{"bands": 1, "positions": size["length"], **size}),
        compiled=True,
        steps_per_second=row["steps_per_second"],
        start_seconds=None if row.get("prepared") or "gains" in row else row["start_seconds"],
        how="benchmark",
        device=row["device"],
        torch=row["torch"],
    )


def _of_runs(runs: Sequence[Run]) -> Iterator[Rate]:
    """The rates of finished runs on a GPU.

    Those that ended at their first look were compiling most of the time. Under halving only the first who
    leave do so from a population of a size that is known.
    """
    runs = tuple({run.key: run for run in runs if run.provenance.get("steps_per_second")}.values())
    together = Counter(_population(run) for run in runs)
    for run in runs:
        config: Any = run.config
        training, halving = config["training"], config["training"]["halving"]
        if (
            run.steps <= training["eval_every"]
            or training["batch"] != BATCH
            or run.provenance.get("abreast")
            or "NVIDIA" not in str(run.provenance["device"])
            or (halving is not None and run.steps > halving["first"])
        ):
            continue
        job = _alike(
            task_of(TaskSpec(name=config["task"]["name"], params=config["task"]["params"])),
            ModelSpec(name=config["model"]["name"], params=config["model"]["params"]),
            members=together[_population(run)],
            precision=training["precision"],
            bands=training.get("bands", 1),
            paired=training.get("paired", False),
        )
        size = size_of(job)
        if size is not None and not (is_outgrown(size) and run.created < FASTER_SINCE):
            yield Rate(
                size=size,
                compiled=True,
                steps_per_second=float(str(run.provenance["steps_per_second"])),
                start_seconds=None,
                how="run",
                device=str(run.provenance["device"]),
                torch=str(run.provenance["torch"]),
            )


def _population(run: Run) -> str:
    """Who was trained together with a run: its job, or those who left with it at one rate to the bit."""
    config = {name: value for name, value in run.config.items() if name != "member"}
    alone = {} if "population" in config else {"rate": run.provenance["steps_per_second"]}
    return key_of({**config, **alone})


def known_runs(stores: Iterable[Path]) -> list[Run]:
    """All runs of these stores, and those in `results/`."""
    runs = [run for place in stores for run in Store(place).runs()]
    return runs + [run for folder in bundles_in(RESULTS) for run in read_bundle(folder).runs]


def measure(
    minutes: float,
    out: Path,
    *,
    lengths: Lengths = "pairs",
    processes: int = 10,
    again: bool = False,
    measured: Callable[[Sequence[Job], float], Iterable[Row]] | None = None,
) -> None:
    """Time populations on this GPU until the minutes are over or all that is needed is measured, those first
    on which most hours rest. So many processes compile them. `again`, what has been measured once.
    """
    part = "again" if again else "rows"
    found = rows_in(MEASURED, part)
    found += [row for row in rows_in(out, part) if row not in found]
    jobs = most_telling(
        needed(lengths=lengths), known_with(rows_in(MEASURED) if again else found), again=again
    )
    if again:
        repeated = {Size(**row["size"]) for row in found}
        once = {Size(**row["size"]) for row in rows_in(MEASURED)} - repeated
        jobs = [job for job in jobs if size_of(job) in once]
    way = measured or partial(_in_turns, processes=processes)
    kept = json.loads(out.read_text()) if out.exists() else {}
    for row in way(jobs, 60 * minutes):
        found.append(row)
        with written_whole(out) as file:
            json.dump({**kept, part: found}, file, indent=1)
            file.write("\n")


def _in_turns(jobs: Sequence[Job], seconds: float, *, processes: int) -> Iterator[Row]:
    return measured_in_turns(jobs, time_with_gains, processes=processes, seconds=seconds)


def needed(*, lengths: Lengths) -> list[Job]:
    """What S's figures train, and what the quick budgets do of which nothing is known."""
    settings = Settings(budget="paper", lengths=lengths)
    jobs = [job for name in FIGURES for job in study_of(name, settings).jobs]
    return jobs + [job for name in EXPERIMENTS.names() for job in unknown_of(name)]


def known_with(found: Iterable[Row]) -> Rates:
    """All rates there are, with those that were just found."""
    return Rates(gathered([], rates_measured().measured, measured=[*found, *rows_beside()]))


def unknown_of(name: str) -> list[Job]:
    """What an experiment trains at its quick budget of which the package has no rate, not even scaled."""
    try:
        quick, known = study_of(name, Settings(budget="quick")).jobs, rates_measured()
    except ModuleNotFoundError as missing:  # where there is little more than torch, what proves cannot be had
        print(f"{name} is left out: there is no {missing.name} here.", file=sys.stderr, flush=True)
        return []
    return [job for job in quick if size_of(job) is not None and seconds_per_step(job, rates=known) is None]


def measured_rows() -> list[Row]:
    """What was measured here and by others."""
    return [*rows_in(MEASURED), *rows_beside()]


def rows_beside() -> list[Row]:
    """What was measured by `benchmarks.bands`, and by `benchmarks.abreast` of each alone."""
    alone = {row["name"]: {**row, "start_seconds": None} for row in rows_in(ABREAST, "same")}
    return [*rows_in(BANDS), *alone.values()]


def rows_in(path: Path, what: str = "rows") -> list[Row]:
    """What a file of measurements has, if there is one."""
    rows: list[Row] = json.loads(path.read_text()).get(what, []) if path.exists() else []
    return rows


def most_telling(jobs: Iterable[Job], rates: Rates, *, again: bool = False) -> list[Job]:
    """The populations that were not measured, each as a job that drops nobody; those first on which most of
    the time rests that the bars are about. `again`, those that were.
    """
    weights: dict[str, float] = {}
    populations: dict[str, Job] = {}
    for job in {job.key: job for job in jobs}.values():
        plain = replace(job, training=replace(job.training, halving=None))
        for one, bar in ((job, BARS["with halving"]), (plain, BARS["without"])):
            for stretch in stretches_of(one):
                found = seconds_per_step(job, members=stretch.rows, rates=rates)
                if (found is not None and found.basis == "measured") == again:
                    cost = _UNKNOWN if found is None else found.seconds
                    population = replace(plain, members=job.members[: stretch.rows])
                    populations[population.key] = population
                    weight = stretch.steps * cost / bar
                    weights[population.key] = weights.get(population.key, 0.0) + weight
    return [populations[key] for key in sorted(weights, key=lambda key: weights[key], reverse=True)]


def time_population(job: Job, turn: Turn | None = None, *, seconds: float = 2.0) -> Row:
    """A population's rate, and how long it took to begin."""
    return _row(job, ready(job, seconds=seconds, turn=turn))


def time_with_gains(job: Job, turn: Turn) -> Row:
    """The same, and what several of it gain that take their steps at once, if it leaves room for others."""
    one, size = ready(job, seconds=_ALONE, turn=turn), size_of(job)
    gains: dict[str, float] = {}
    if size is None or (size.model != "lstm" and size.in_flight > _FILLS):
        return {**_row(job, one), "gains": gains}
    try:
        several = [one, *(one.again() for _ in range(LANES - 1))]
        with turn:
            gains[str(LANES)] = gain_of(several, seconds=_BESIDE)
    except RuntimeError as failure:  # no memory for so many
        print(f"{job.short_name}: {failure}"[:400], file=sys.stderr, flush=True)
    told = ", ".join(f"{count} abreast gain {gain:.2f}" for count, gain in gains.items())
    return {**_row(job, one, told=told), "gains": gains}


def _row(job: Job, one: Ready, *, told: str = "") -> Row:
    size = size_of(job)
    assert size is not None
    rate, start = one.steps_per_second, one.start_seconds
    what = f"{job.short_name}, {size.members} of {size.positions}"
    words = f"{what}: {rate:,.1f} steps/s, ready after {start:.0f} s{told and ', '}{told}"
    print(words, file=sys.stderr, flush=True)
    return {
        "size": vars(size),
        "steps_per_second": rate,
        "start_seconds": start,
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    timing = parts.add_parser("measure")
    timing.add_argument("--minutes", type=float, default=20.0)
    timing.add_argument("--processes", type=int, default=10, help="that compile")
    timing.add_argument("--out", type=Path, default=MEASURED)
    timing.add_argument("--lengths", choices=get_args(Lengths), default="pairs")
    timing.add_argument("--again", action="store_true", help="what was timed once")
    gathering = parts.add_parser("gather")
    gathering.add_argument("stores", nargs="*", type=Path)
    arguments = parser.parse_args()
    if arguments.part != "gather" and not torch.cuda.is_available():
        parser.error(f"{arguments.part} needs a GPU, and there is none here")
    if arguments.part == "measure":
        lengths, processes = arguments.lengths, arguments.processes
        again = arguments.again
        measure(arguments.minutes, arguments.out, lengths=lengths, processes=processes, again=again)
        return
    known = rates_from(TABLE.read_text().splitlines()) if TABLE.exists() else ()
    runs = known_runs(arguments.stores)
    with written_whole(TABLE) as file:
        file.write(table_of(gathered(runs, known, measured=measured_rows())))


if __name__ == "__main__":
    main()
