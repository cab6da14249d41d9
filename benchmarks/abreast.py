"""How much populations gain that take their steps abreast on one GPU, beside one after another.

    python -m benchmarks.abreast [--minutes 4]     # on a GPU
    python -m benchmarks.abreast --page            # anywhere: the page anew

Populations of S's figures as halving leaves them, mostly of one member: each alone, then several of the same,
every two different ones, and sets of four. In a set each has as much to do as takes it the same time alone,
so that a set of four that takes as long as one has gained four. Figures go to `results/abreast.json`, each as
soon as it is known, and into `results/abreast.md`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from benchmarks.bands import LOOKUP, NCP, RANDOM, Asked
from benchmarks.markdown import table
from benchmarks.populations import timed
from separatrix.experiments.protocols import S_RATES, s_model
from separatrix.files import written_whole
from separatrix.tasks import task
from separatrix.training.course import Course
from separatrix.training.jobs import Job, job_for
from separatrix.training.recipes import Member, Training
from separatrix.training.running import placing_for

HERE = Path(__file__).parent
DATA = HERE / "results" / "abreast.json"
PAGE = HERE / "results" / "abreast.md"
POPULATIONS: dict[str, tuple[str, int, int, Asked, int, int]] = {
    "lstm-(3,256) on index-lookup at 400": ("LSTM", 3, 256, LOOKUP, 400, 1),
    "mamba-(6,256) on index-lookup at 100": ("Mamba", 6, 256, LOOKUP, 100, 1),
    "mamba-(6,256) on index-lookup at 400": ("Mamba", 6, 256, LOOKUP, 400, 1),
    "mamba-(2,256) on equality random at 200": ("Mamba", 2, 256, RANDOM, 200, 1),
    "transformer-(2,64) on equality ncp at 400": ("TF", 2, 64, NCP, 400, 1),
    "retnet-(6,256) on index-lookup at 200": ("RetNet", 6, 256, LOOKUP, 200, 1),
    "linear-transformer-(6,256) on index-lookup at 400": ("LinTF", 6, 256, LOOKUP, 400, 1),
    "lstm-(2,64) on equality ncp at 800": ("LSTM", 2, 64, NCP, 800, 1),
    "mamba-(2,32) on index-lookup at 50": ("Mamba", 2, 32, LOOKUP, 50, 1),
    "lstm-(3,256) on index-lookup at 400, 7 members": ("LSTM", 3, 256, LOOKUP, 400, 7),
    "retnet-(2,64) on equality ncp at 400, 7 members": ("RetNet", 2, 64, NCP, 400, 7),
}
"""S's label, layers, width, the task, its n, members: those of which most is to be learned first."""
SECONDS = 0.8
SLICES = 40
_PAGE = """# Populations abreast on one GPU

{where}. `python -m benchmarks.abreast` measures: batch 64, products in bfloat16, recorded steps
replayed on a stream for each population, all in one process. No looks are taken and nothing is compiled
meanwhile.{notes}

{alone}

How many times as much is done as one after another, where each has as much to do as takes the same time:

{sets}
"""


def job_of(name: str) -> Job:
    """One of the populations as a job."""
    label, layers, width, (asked, given), n, members = POPULATIONS[name]
    return job_for(
        task(asked, n=n, **given),
        s_model(label, layers=layers, width=width, task=asked),
        members=[Member(lr=rate) for rate in S_RATES[:members]],
        training=Training(precision="bfloat16", bands=4 if n >= 100 else 1),
    )


@dataclass
class Ready:
    """A population on a stream of its own, with the seconds of its step alone."""

    course: Course
    stream: Any
    seconds: float = 0.0

    @property
    def bands(self) -> int:
        """Steps of a turn."""
        return self.course.training.bands

    def run(self, turns: int) -> None:
        """Take so many turns, without waiting for them."""
        with torch.cuda.stream(self.stream):
            self.course.engine.run(self.bands * turns)


def ready(name: str) -> Ready:
    """Compiled, recorded and timed."""
    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    job = job_of(name)
    with torch.cuda.stream(stream):
        course = Course(job, placing_for(job, device="cuda"))
        course.engine.record()
    torch.cuda.synchronize()
    found = Ready(course, stream)
    found.seconds = 1 / (found.bands * timed(found.run, seconds=SECONDS))
    return found


def gain_of(together: Sequence[Ready]) -> float:
    """How many times as much is done as one after another, each with as much to do as takes the same time."""
    turns = [max(1, round(SECONDS / (one.seconds * one.bands))) for one in together]
    done = [0] * len(together)
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for part in range(1, SLICES + 1):
        for number, one in enumerate(together):
            due = turns[number] * part // SLICES
            if due > done[number]:
                one.run(due - done[number])
                done[number] = due
    torch.cuda.synchronize()
    taken = time.perf_counter() - begun
    return sum(count * one.bands * one.seconds for count, one in zip(turns, together, strict=True)) / taken


def measure(minutes: float) -> None:
    """Time all of it until the minutes are over: several of the same first, then sets of different ones."""
    ends = time.monotonic() + 60 * minutes
    device, version = torch.cuda.get_device_name(), torch.__version__
    data: dict[str, Any] = {"device": device, "torch": version, "alone": [], "sets": []}
    made: dict[str, list[Ready]] = {}
    for name in POPULATIONS:
        if time.monotonic() > ends:
            return
        made[name] = [ready(name)]
        data["alone"].append({"name": name, "steps_per_second": 1 / made[name][0].seconds})
        _keep(data)
    names, chance = list(made), random.Random(0)
    wanted = [[name] * count for name in names[:4] for count in (2, 4)]
    wanted += [chance.sample(names, k=4) for _ in range(12)]
    wanted += map(list, combinations(names, 2))
    for chosen in wanted:
        if time.monotonic() > ends:
            return
        for name in chosen:
            made[name] += [ready(name) for _ in range(chosen.count(name) - len(made[name]))]
        together = [made[name][chosen[:place].count(name)] for place, name in enumerate(chosen)]
        data["sets"].append({"names": chosen, "gain": gain_of(together)})
        print(data["sets"][-1], file=sys.stderr, flush=True)
        _keep(data)


def _keep(data: dict[str, Any]) -> None:
    with written_whole(DATA) as file:
        json.dump(data, file, indent=1)


def page(data: dict[str, Any]) -> str:
    """The figures as tables."""
    alone = [(row["name"], f"{row['steps_per_second']:.1f}") for row in data["alone"]]
    sets = [(_counted(row["names"]), f"{row['gain']:.2f}") for row in data["sets"]]
    return _PAGE.format(
        where=f"{data['device']}, torch {data['torch']}",
        notes=f" {data['notes']}" if "notes" in data else "",
        alone=table(("population", "steps/s alone"), alone),
        sets=table(("abreast", "gain"), sets),
    )


def _counted(names: Sequence[str]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in Counter(names).items())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    if not options.page:
        if not torch.cuda.is_available():
            parser.error("populations of these sizes are timed on a GPU, and there is none here")
        measure(options.minutes)
    with written_whole(PAGE) as file:
        file.write(page(json.loads(DATA.read_text())))


if __name__ == "__main__":
    main()
