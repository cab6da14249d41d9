"""How much populations gain that take their steps abreast on one GPU, beside one after another.

    python -m benchmarks.abreast [--minutes 8]     # on a GPU
    python -m benchmarks.abreast --page            # anywhere: the page and the table of the package anew

Populations of S's figures, whole and with the members that halving leaves: each alone, then two, four and
eight of it, and sets of four different ones. In a set each has as much to do as takes it the same time
alone, so that a set of four that takes as long as one has gained four. What is recorded again on another
stream writes to the same weights, which spoils what it learns and not how long that takes.

Lengths do not come in bands here, as they do in training: compiling takes a quarter of the time, and what
computes more leaves no more of the card to others. Figures go to `results/abreast.json`, each as soon as it
is known; a later call goes on. The page is `results/abreast.md`, and projections take theirs from
`separatrix/experiments/data/gains.csv`.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import random
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.bands import LOOKUP, NCP, RANDOM, Asked
from benchmarks.markdown import table
from benchmarks.populations import timed
from benchmarks.step_rates import csv_of
from separatrix.experiments.gains import GAIN_COLUMNS, Gain, Gains
from separatrix.experiments.lanes import Part, spans_of
from separatrix.experiments.protocols import S_RATES, s_model
from separatrix.experiments.rates import Size, size_of
from separatrix.files import written_whole
from separatrix.tasks import task
from separatrix.training.course import Course
from separatrix.training.engine import Engine
from separatrix.training.jobs import Job, job_for
from separatrix.training.recipes import Member, Training
from separatrix.training.running import placing_for

HERE = Path(__file__).parent
DATA = HERE / "results" / "abreast.json"
PAGE = HERE / "results" / "abreast.md"
TABLE = Path(str(files("separatrix.experiments"))) / "data" / "gains.csv"
DYCK: Asked = ("dyck", {})
Population = tuple[str, int, int, Asked, int, int]
"""S's label, layers, width, the task, its n, members."""
SIZES: Final[tuple[tuple[str, int, int, Asked, int], ...]] = (
    ("LSTM", 3, 256, LOOKUP, 400),
    ("Mamba", 6, 256, LOOKUP, 400),
    ("DSS", 6, 256, LOOKUP, 400),
    ("RetNet", 6, 256, LOOKUP, 400),
    ("LinTF", 6, 256, LOOKUP, 400),
    ("Mamba", 2, 1024, LOOKUP, 400),
    ("LSTM", 2, 64, NCP, 800),
    ("Mamba", 2, 64, NCP, 800),
    ("DSS", 2, 64, NCP, 800),
    ("RetNet", 2, 64, NCP, 800),
    ("LinTF", 2, 64, NCP, 800),
    ("TF", 2, 64, NCP, 800),
    ("TF", 1, 64, LOOKUP, 400),
    ("Mamba", 2, 256, LOOKUP, 400),
    ("LSTM", 2, 256, RANDOM, 400),
    ("DSS", 2, 256, RANDOM, 400),
    ("Mamba", 6, 256, LOOKUP, 100),
    ("RetNet", 6, 256, LOOKUP, 100),
    ("LinTF", 6, 256, LOOKUP, 100),
    ("DSS", 6, 256, LOOKUP, 100),
    ("Mamba", 2, 1024, LOOKUP, 100),
    ("TF", 1, 256, DYCK, 400),
    ("TF", 2, 256, RANDOM, 400),
    ("Mamba", 2, 32, LOOKUP, 50),
)
"""Each speaks for all that are smaller in every way; those first on which most hours rest."""
POPULATIONS: Final[tuple[Population, ...]] = tuple(
    (*size, members) for members in (1, 7, 3) for size in SIZES
)
LANES: Final = (2, 4, 8)
SECONDS: Final = 0.5
SLICES: Final = 40
SETS, SET = 12, 4
"""So many sets of so many different ones, against which it is held what follows from several of the same."""
_HOW = (
    "`python -m benchmarks.abreast` measures: batch 64, products in bfloat16, recorded steps replayed on a "
    "stream for each population, all in one process. No looks are taken and nothing is compiled meanwhile."
)
_PAGE = """# Populations abreast on one GPU

{how}

How many times as much is done as one after another by several of the same:

{same}
"""
_SETS = """
By different ones, where each has as much to do as takes the same time, and what the projections of
`separatrix reproduce --plan` would say of them from the table above:

{sets}
"""


def name_of(population: Population) -> str:
    """In words."""
    job = job_of(population)
    members = len(job.members)
    return f"{job.short_name}, {members} members" if members > 1 else job.short_name


def job_of(population: Population) -> Job:
    """As a job."""
    label, layers, width, (asked, given), n, members = population
    return job_for(
        task(asked, n=n, **given),
        s_model(label, layers=layers, width=width, task=asked),
        members=[Member(lr=rate) for rate in S_RATES[:members]],
        training=Training(precision="bfloat16"),
    )


@dataclass
class Ready:
    """Recorded steps on a stream of their own, with the seconds of one alone."""

    engine: Engine
    stream: Any
    seconds: float = 0.0

    def run(self, steps: int) -> None:
        """Take so many, without waiting for them."""
        with torch.cuda.stream(self.stream):
            self.engine.run(steps)

    def again(self) -> Ready:
        """The same steps of the same weights, recorded once more on another stream."""
        engine = copy.copy(self.engine)
        engine._graphs = {}
        vars(engine).pop("_aside", None)
        return _recorded(engine, _stream(), self.seconds)


def _stream() -> Any:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


def _recorded(engine: Engine, stream: Any, seconds: float = 0.0) -> Ready:
    with torch.cuda.stream(stream):
        engine.record()
    torch.cuda.synchronize()
    return Ready(engine, stream, seconds)


def ready(job: Job) -> Ready:
    """Compiled, recorded and timed."""
    stream = _stream()
    with torch.cuda.stream(stream):
        engine = Course(job, placing_for(job, device="cuda")).engine
    found = _recorded(engine, stream)
    found.seconds = 1 / timed(found.run, seconds=SECONDS)
    return found


def gain_of(together: Sequence[Ready]) -> float:
    """How many times as much is done as one after another, each with as much to do as takes the same time."""
    steps = [max(1, round(SECONDS / one.seconds)) for one in together]
    done = [0] * len(together)
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for part in range(1, SLICES + 1):
        for number, one in enumerate(together):
            due = steps[number] * part // SLICES
            if due > done[number]:
                one.run(due - done[number])
                done[number] = due
    torch.cuda.synchronize()
    taken = time.perf_counter() - begun
    return sum(count * one.seconds for count, one in zip(steps, together, strict=True)) / taken


def measure(minutes: float, out: Path) -> None:
    """Time what was not, until the minutes are over: several of the same first, then sets of four."""
    ends = time.monotonic() + 60 * minutes
    data: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {"same": [], "sets": []}
    data |= {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    known = {row["name"] for row in data["same"]}
    kept: list[tuple[str, Ready]] = []
    for population in POPULATIONS:
        if time.monotonic() > ends:
            return
        name = name_of(population)
        if name in known:
            continue
        one = _measure(population, data["same"])
        if one is not None and population[-1] == 1:
            kept.append((name, one))
        _keep(data, out)
        gc.collect()
        torch.cuda.empty_cache()
    chance = random.Random(0)
    while len(kept) >= SET and len(data["sets"]) < SETS and time.monotonic() < ends:
        names, chosen = zip(*chance.sample(kept, k=SET), strict=True)
        data["sets"].append({"names": list(names), "gain": gain_of(chosen)})
        _keep(data, out)


def _measure(population: Population, rows: list[dict[str, Any]]) -> Ready | None:
    """Time one alone and several of it, and add that to the rows; None if it cannot be had."""
    name, job, begun = name_of(population), job_of(population), time.monotonic()
    size = size_of(job)
    assert size is not None
    try:
        one = ready(job)
        rate = 1 / one.seconds
        _say(f"{name}: {rate:,.1f} steps/s, ready after {time.monotonic() - begun:.0f} s")
        several = [one]
        for count in LANES:
            several += [one.again() for _ in range(count - len(several))]
            gain = gain_of(several)
            rows.append(
                {"name": name, "size": vars(size), "steps_per_second": rate, "abreast": count, "gain": gain}
            )
            _say(f"    {count} abreast gain {gain:.2f}")
    except RuntimeError as failure:  # no memory for so many, or no code for this size
        _say(f"{name}: {failure}")
        return None
    return one


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _keep(data: dict[str, Any], out: Path) -> None:
    with written_whole(out) as file:
        json.dump(data, file, indent=1)
        file.write("\n")


def gains_in(data: dict[str, Any]) -> list[Gain]:
    """What was measured of several of the same."""
    return [
        Gain(
            size=Size(**row["size"]),
            abreast=row["abreast"],
            gain=row["gain"],
            device=data["device"],
            torch=data["torch"],
        )
        for row in data["same"]
    ]


def table_of(gains: Iterable[Gain]) -> str:
    """The gains as CSV, with figures as long as they are worth."""
    return csv_of(
        GAIN_COLUMNS,
        (
            {
                **vars(one.size),
                "abreast": one.abreast,
                "gain": f"{one.gain:.3g}",
                "device": one.device,
                "torch": one.torch,
            }
            for one in gains
        ),
    )


def expected(sizes: Sequence[Size], gains: Gains) -> float:
    """What the projections say of a set, each of which takes the same time alone."""
    parts = [[Part(alone=1.0, speed=partial(gains.speed, size))] for size in sizes]
    return len(sizes) / max(span.ended for span in spans_of(parts, lanes=len(sizes)))


def page(data: dict[str, Any]) -> str:
    """The figures as tables."""
    rates = {row["name"]: row["steps_per_second"] for row in data["same"]}
    gains = {(row["name"], row["abreast"]): row["gain"] for row in data["same"]}
    same = [
        (name, f"{rate:,.1f}", *(f"{gains[name, n]:.2f}" if (name, n) in gains else "" for n in LANES))
        for name, rate in rates.items()
    ]
    text = _PAGE.format(
        how=textwrap.fill(
            " ".join((f"{data['device']}, torch {data['torch']}.", _HOW, data.get("notes", ""))), width=110
        ),
        same=table(("population", "steps/s alone", *(f"{count} abreast" for count in LANES)), same),
    )
    sizes = {row["name"]: Size(**row["size"]) for row in data["same"]}
    sets = [
        (
            _counted(row["names"]),
            f"{row['gain']:.2f}",
            f"{expected([sizes[name] for name in row['names']], Gains(gains_in(data))):.2f}",
        )
        for row in data["sets"]
    ]
    return text + (_SETS.format(sets=table(("abreast", "gain", "projected"), sets)) if sets else "")


def _counted(names: Sequence[str]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in Counter(names).items())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--page", action="store_true", help="only write the page and the table")
    options = parser.parse_args()
    if not options.page:
        if not torch.cuda.is_available():
            parser.error("populations of these sizes are timed on a GPU, and there is none here")
        measure(options.minutes, options.out)
    data = json.loads(options.out.read_text())
    with written_whole(options.out.with_suffix(".md")) as file:
        file.write(page(data))
    if options.out == DATA:
        with written_whole(TABLE) as file:
            file.write(table_of(gains_in(data)))


if __name__ == "__main__":
    main()
