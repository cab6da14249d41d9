"""How much populations gain that take their steps abreast on one GPU, beside one after another.

    python -m benchmarks.abreast [--minutes 4] [--json FILE]     # on a GPU
    python -m benchmarks.abreast --page                          # anywhere: the page anew

Populations of S's figures as halving leaves them, mostly of one member: each alone, every two of them, and
sets of four and of eight. In a set each has as much to do as alone takes it the same time, so that a set of
four that takes as long as one has gained four. Figures go to `results/abreast.json`, each as soon as it is
known, and into `results/abreast.md`.

A population's *share* of the card is what it takes from the others: those abreast go on as fast as alone
while their shares add up to no more than 1, and that many times slower where they add up to more. Shares are
the least for which this errs on the slow side in every set that was measured.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from benchmarks.bands import LOOKUP, NCP, RANDOM, Asked
from benchmarks.populations import timed
from separatrix.experiments.protocols import S_RATES, s_model
from separatrix.experiments.rates import size_of
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
    "mamba-(6,256) on index-lookup at 100": ("Mamba", 6, 256, LOOKUP, 100, 1),
    "lstm-(3,256) on index-lookup at 400": ("LSTM", 3, 256, LOOKUP, 400, 1),
    "mamba-(6,256) on index-lookup at 400": ("Mamba", 6, 256, LOOKUP, 400, 1),
    "retnet-(6,256) on index-lookup at 200": ("RetNet", 6, 256, LOOKUP, 200, 1),
    "linear-transformer-(6,256) on index-lookup at 20": ("LinTF", 6, 256, LOOKUP, 20, 1),
    "lstm-(2,64) on equality ncp at 800": ("LSTM", 2, 64, NCP, 800, 1),
    "mamba-(2,64) on index-lookup at 50": ("Mamba", 2, 64, LOOKUP, 50, 1),
    "transformer-(2,64) on equality ncp at 400": ("TF", 2, 64, NCP, 400, 1),
    "mamba-(2,256) on equality random at 200": ("Mamba", 2, 256, RANDOM, 200, 1),
    "lstm-(3,256) on index-lookup at 400, 7 members": ("LSTM", 3, 256, LOOKUP, 400, 7),
    "mamba-(2,1024) on index-lookup at 400": ("Mamba", 2, 1024, LOOKUP, 400, 1),
}
"""S's label, layers, width, the task, its n, members: those of which most is to be learned first."""
SECONDS = 0.8
SLICES = 40
_PAGE = """# Populations abreast on one GPU

{where}. `python -m benchmarks.abreast` measures: batch 64, products in bfloat16, streams of one process. A
population's share is what it takes of the card from the others, as the measured sets say.

{alone}

Sets in which each population has the same time to do: how many times as much is done as one after another, as
measured and as the shares say.

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


def measure(minutes: float, out: Path) -> None:
    """Time all of it until the minutes are over: the populations, then sets of those that are ready."""
    ends = time.monotonic() + 60 * minutes
    data: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "alone": [],
        "sets": [],
    }
    found: dict[str, Ready] = {}
    for name in POPULATIONS:
        if time.monotonic() > ends - 60:  # what is left is for the sets
            break
        found[name] = ready(name)
        size = size_of(job_of(name))
        assert size is not None
        data["alone"].append({"name": name, "size": vars(size), "steps_per_second": 1 / found[name].seconds})
        _keep(out, data)
    names, chance = list(found), random.Random(0)
    wanted = [chance.sample(names, k=min(4, len(names))) for _ in range(12)]
    wanted += [*map(list, combinations(names, 2)), names[:8]]
    for chosen in wanted:
        if time.monotonic() > ends:
            return
        gain = gain_of([found[name] for name in chosen])
        data["sets"].append({"names": chosen, "gain": gain})
        print(f"{gain:.2f} × {', '.join(chosen)}", file=sys.stderr, flush=True)
        _keep(out, data)


def _keep(out: Path, data: dict[str, Any]) -> None:
    with written_whole(out) as file:
        json.dump(data, file, indent=1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--json", type=Path, default=DATA)
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    if not options.page:
        if not torch.cuda.is_available():
            parser.error("populations of these sizes are timed on a GPU, and there is none here")
        measure(options.minutes, options.json)


if __name__ == "__main__":
    main()
