"""Whole trainings abreast, beside the same ones one after another: with looks, checkpoints and tests.

    python -m benchmarks.abreast_trainings [--seconds 12] [--lanes 4] [--members 1] [--sizes 8]     # on a GPU
    python -m benchmarks.abreast_trainings --sizes 1 --copies 4                          # four of the same
    python -m benchmarks.abreast_trainings --page                                        # anywhere

Populations of S's figures as the paper's budget trains them, each for as many steps as take it so many
seconds alone by the package's rates. All are trained for a few steps first, so that both ways find their
code compiled; then they go abreast, twice in turn, and abreast again, so that a card that grows warm or a
cache that fills favours neither; with `--once` they go each way once. What the two ways say of a population
is compared too: abreast it is to learn what it learns alone, but for rounding. Figures go to
`results/abreast_trainings.json`, the page is `results/abreast_trainings.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.abreast import SIZES, expected, job_of
from benchmarks.markdown import table
from separatrix.experiments.gains import gains_measured
from separatrix.experiments.lanes import Part, spans_of
from separatrix.experiments.local import LocalEngine
from separatrix.experiments.rates import PREPARED_START, seconds_per_step, size_of
from separatrix.experiments.scheduling import work_of
from separatrix.files import written_whole
from separatrix.store import Store
from separatrix.training.jobs import Job
from separatrix.training.stretches import stretches_of

HERE = Path(__file__).parent
DATA = HERE / "results" / "abreast_trainings.json"
Row = dict[str, Any]
LOOKS: Final = 4
_RATE: Final = 1e-3
_STEPS_DIVIDE: Final = 64
"""Steps and looks are to be multiples of the bands."""
_FIRST_STEPS: Final = 64
_PAGE = """# Whole trainings abreast on one GPU

{where}. `python -m benchmarks.abreast_trainings` measures: populations of S's figures as
the paper's budget trains them, with looks, checkpoints and the last test, each for as many steps as take it
about as long alone; their code is in the compiler's cache. Trainings so short spend much of their time on
beginning and on looks. *Steps* is what steps alone would gain, by what equal populations gained. *Reckoned*
is what plans say of the whole, in turn and abreast; they give each population {start:.0f} seconds to
begin in. Each way was timed once, abreast first, or twice where two times stand, abreast first and last.
*Apart* is the most by which the accuracy of a member differs between the two ways, in points, and *accuracy*
the range of those that came one after another: who has learned nothing yet is nowhere apart.

{rows}
"""


def jobs_of(members: int, *, seconds: float, sizes: Sequence[Any] = SIZES[:8], copies: int = 1) -> list[Job]:
    """Populations with so many members, each with about so many seconds of steps; longest first, as an
    experiment takes them. Copies of one differ in their seeds.
    """
    found = []
    for size in sizes:
        job = job_of((*size, members), lengths="pairs")
        known = seconds_per_step(job)
        assert known is not None, "S's populations have a rate"
        steps = max(1, round(seconds / known.seconds / _STEPS_DIVIDE)) * _STEPS_DIVIDE
        found += [_seeded(for_steps(job, steps), seed) for seed in range(copies)]
    return sorted(found, key=work_of, reverse=True)


def _seeded(job: Job, seed: int) -> Job:
    return replace(job, members=tuple(replace(member, seed=seed) for member in job.members))


def for_steps(job: Job, steps: int) -> Job:
    """The job to its last step, with a few looks on the way; one member has a rate that learns early."""
    if len(job.members) == 1:
        job = replace(job, members=(replace(job.members[0], lr=_RATE),))
    training = replace(job.training, steps=steps, eval_every=steps // LOOKS, stop="never", halving=None)
    return replace(job, training=training)


def compared(jobs: Sequence[Job], *, lanes: int, device: str, once: bool = False) -> Row:
    """The seconds that jobs take abreast and in turn, each twice or `once`, and how far apart what they learn
    is.
    """
    with tempfile.TemporaryDirectory(prefix="separatrix-") as folder:
        _seconds([for_steps(job, _FIRST_STEPS) for job in jobs], 1, Path(folder, "first"), device)
        taken: dict[int, list[float]] = {lanes: [], 1: []}
        for count in (lanes, 1) if once else (lanes, 1, 1, lanes):
            place = Path(folder, f"{count}-{len(taken[count])}")
            taken[count].append(_seconds(jobs, count, place, device))
        beside, alone = (_accuracies(Path(folder, f"{count}-0")) for count in (lanes, 1))
    if beside.keys() != alone.keys() or not alone:
        raise RuntimeError(f"{len(alone)} runs ended one after another and {len(beside)} abreast.")
    return {
        "populations": [job.short_name for job in jobs],
        "members": len(jobs[0].members),
        "abreast": lanes,
        "seconds": taken[lanes],
        "seconds_in_turn": taken[1],
        "projected": projected(jobs, lanes=lanes),
        "reckoned": {str(count): reckoned(jobs, lanes=count) for count in (1, lanes)},
        "apart": max(abs(alone[key] - beside[key]) for key in alone),
        "accuracies": sorted(alone.values()),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "torch": torch.__version__,
    }


def _seconds(jobs: Sequence[Job], lanes: int, place: Path, device: str) -> float:
    engine = LocalEngine(device=device, abreast=lanes)
    begun = time.perf_counter()
    ran = engine.run(jobs, Store(place), tell=_say)
    if ran.failed or ran.done < len(jobs):
        raise RuntimeError(f"{ran.done} of {len(jobs)} jobs were done: {[one.reason for one in ran.failed]}")
    taken = time.perf_counter() - begun
    _say(f"{len(jobs)} jobs, {lanes} at a time: {taken:.1f} s")
    return taken


def _accuracies(place: Path) -> dict[str, float]:
    """In points, of every finished run."""
    return {
        run.key: 100 * run.accuracy
        for run in Store(place).runs()
        if run.finished and run.accuracy is not None
    }


def projected(jobs: Sequence[Job], *, lanes: int) -> float:
    """What their steps gain so many at a time, by the tables of the package."""
    work = []
    for job in jobs:
        size, known = size_of(job), seconds_per_step(job)
        assert size is not None
        assert known is not None
        work.append((size, known.seconds * job.training.steps))
    return expected(work, gains_measured(), lanes=lanes)


def reckoned(jobs: Sequence[Job], *, lanes: int) -> float:
    """The seconds that plans say of jobs whose code is compiled, so many at a time."""
    gains, parts = gains_measured(), []
    for job in jobs:
        size, known = size_of(job), seconds_per_step(job)
        assert size is not None
        assert known is not None
        looks = sum(one.looked_at for one in stretches_of(job)) / job.training.batch
        seconds = known.seconds * (job.training.steps + looks)
        parts.append([Part(alone=seconds, compiling=PREPARED_START, speed=partial(gains.speed, size))])
    return max(span.ended for span in spans_of(parts, lanes=lanes))


def page(rows: Sequence[Row]) -> str:
    """The figures as a table."""
    lines = [
        (
            ", ".join(row["populations"]),
            row["members"],
            ", ".join(f"{one:.0f}" for one in row["seconds_in_turn"]),
            ", ".join(f"{one:.0f}" for one in row["seconds"]),
            row["abreast"],
            f"{sum(row['seconds_in_turn']) / sum(row['seconds']):.2f}",
            f"{row['projected']:.2f}",
            ", ".join(f"{row['reckoned'][str(count)]:.0f}" for count in (1, row["abreast"])),
            f"{row['apart']:.2f}",
            _range(row.get("accuracies", ())),
        )
        for row in rows
    ]
    head = (
        "populations",
        "members",
        "s in turn",
        "s abreast",
        "at a time",
        "gain",
        "steps",
        "reckoned s",
        "apart",
        "accuracy",
    )
    where = f"{rows[0]['device']}, torch {rows[0]['torch']}" if rows else "Not run"
    return _PAGE.format(where=where, start=PREPARED_START, rows=table(head, lines) if lines else "Not run.")


def _range(accuracies: Sequence[float]) -> str:
    return f"{min(accuracies):.1f}–{max(accuracies):.1f}" if accuracies else "not kept"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=12.0, help="of steps for each population")
    parser.add_argument("--lanes", type=int, default=4, help="jobs at a time")
    parser.add_argument("--members", type=int, default=1, choices=range(1, 8), metavar="1-7")
    parser.add_argument(
        "--sizes",
        type=int,
        default=8,
        choices=range(2, len(SIZES) + 1),
        metavar=f"2-{len(SIZES)}",
        help="so many of the sizes, those first on which most hours rest",
    )
    parser.add_argument("--only", metavar="LABEL", help="of these sizes those of one model, as S calls it")
    parser.add_argument("--copies", type=int, default=1, help="so many of each, with seeds of their own")
    parser.add_argument("--once", action="store_true", help="time each way once")
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    rows: list[Row] = json.loads(options.out.read_text()) if options.out.exists() else []
    if not options.page:
        if not torch.cuda.is_available():
            parser.error("populations of these sizes are trained on a GPU, and there is none here")
        sizes = [size for size in SIZES[: options.sizes] if options.only in (None, size[0])]
        if not sizes or options.copies < 1:
            parser.error(f"nothing is to be trained: of these sizes there are {SIZES[: options.sizes]}")
        jobs = jobs_of(options.members, seconds=options.seconds, sizes=sizes, copies=options.copies)
        rows.append(compared(jobs, lanes=options.lanes, device="cuda", once=options.once))
        with written_whole(options.out) as file:
            json.dump(rows, file, indent=1)
            file.write("\n")
    with written_whole(options.out.with_suffix(".md")) as file:
        file.write(page(rows))


if __name__ == "__main__":
    main()
