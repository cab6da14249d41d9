"""How much populations gain that take their steps abreast on one GPU, beside one after another.

    python -m benchmarks.abreast [--minutes 8] [--lengths bands]     # on a GPU
    python -m benchmarks.abreast --page            # anywhere: the page and the table of the package anew

Populations of S's figures as they are trained, whole and with the members that halving leaves: each alone,
then several of it, and sets of four different ones. In a set each has as much to do as takes it the same time
alone, so that a set of four that takes as long as one has gained four. What is recorded again on another
stream writes to the same weights, which spoils what it learns and not how long that takes.

Figures go to `results/abreast.json`, each as soon as it is known; a later call goes on. The page is
`results/abreast.md`, projections take gains from `separatrix/experiments/data/gains.csv`, which has those of
`benchmarks.step_rates measure` too, and `benchmarks.step_rates gather` takes the speeds alone. `--only mamba`
is about the populations with that in their name.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, get_args

import torch

from benchmarks import step_rates
from benchmarks.bands import LOOKUP, NCP, RANDOM, Asked
from benchmarks.markdown import table
from benchmarks.recorded import Ready, gain_of, ready
from separatrix.experiments.gains import GAIN_COLUMNS, Gain, Gains
from separatrix.experiments.lanes import Part, spans_of
from separatrix.experiments.protocols import Lengths, Settings, s_model, s_protocol
from separatrix.experiments.rates import Size, size_of
from separatrix.files import written_whole
from separatrix.tasks import task
from separatrix.training.jobs import Job

HERE = Path(__file__).parent
DATA = step_rates.ABREAST
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
    ("LSTM", 2, 256, RANDOM, 400),
    ("Mamba", 6, 256, LOOKUP, 100),
    ("RetNet", 6, 256, LOOKUP, 100),
    ("LinTF", 6, 256, LOOKUP, 100),
    ("DSS", 6, 256, LOOKUP, 100),
    ("Mamba", 2, 1024, LOOKUP, 100),
    ("Mamba", 2, 256, LOOKUP, 400),
    ("RetNet", 2, 256, RANDOM, 400),
    ("LinTF", 2, 256, RANDOM, 400),
    ("DSS", 2, 256, RANDOM, 400),
    ("TF", 2, 256, RANDOM, 400),
    ("TF", 1, 64, LOOKUP, 400),
    ("TF", 1, 256, DYCK, 400),
    ("Mamba", 2, 32, LOOKUP, 50),
)
"""Each speaks for all that are smaller in every way; those first on which most hours rest."""
ALONE: Final = 18
"""So many of the sizes are measured with one member before any is with seven."""
POPULATIONS: Final[tuple[Population, ...]] = tuple(
    (*size, members)
    for members, sizes in (
        (1, SIZES[:ALONE]),
        (7, SIZES[:ALONE]),
        (1, SIZES[ALONE:]),
        (7, SIZES[ALONE:]),
        (3, SIZES),
    )
    for size in sizes
)
LANES: Final = (2, 4, 8)
"""So many of the same at once; two only where somebody measured it before."""
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
_BESIDE = """
## Many more sizes

What four of the same gained while `benchmarks.step_rates measure` timed them, on the same card: the least,
the median and the most of so many populations. Which they are stands in
`src/separatrix/experiments/data/gains.csv`.

{beside}
"""


def name_of(population: Population, *, lengths: Lengths = "bands") -> str:
    """In words."""
    job = job_of(population, lengths=lengths)
    members = f", {len(job.members)} members" if len(job.members) > 1 else ""
    in_bands = job_of(population).training.bands > 1
    other = {"all": ", all lengths" if in_bands else "", "pairs": ", in pairs" if job.training.paired else ""}
    return job.short_name + members + other.get(lengths, "")


def job_of(population: Population, *, lengths: Lengths = "bands") -> Job:
    """As a job of the paper's protocol."""
    label, layers, width, (asked, given), n, members = population
    whole = s_protocol(Settings(budget="paper", halving=False, lengths=lengths), label, width=width).job(
        task(asked, n=n, **given), s_model(label, layers=layers, width=width, task=asked)
    )
    return replace(whole, members=whole.members[:members])


def lanes_of(population: Population) -> tuple[int, ...]:
    """How many of it are tried at once: of several members fewer, since they leave less of the card idle."""
    return (4, 8) if population[-1] == 1 else (4,)


def chosen(only: Sequence[str]) -> list[Population]:
    """Those with one of these words in their name, or all."""
    return [one for one in POPULATIONS if not only or any(word in name_of(one) for word in only)]


def measure(minutes: float, out: Path, only: Sequence[str] = (), *, lengths: Lengths = "pairs") -> None:
    """Time what was not, until the minutes are over: several of the same first, then sets of four."""
    ends = time.monotonic() + 60 * minutes
    data: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {"same": [], "sets": []}
    data |= {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    known = {(row["name"], row["abreast"]) for row in data["same"]}
    kept: list[tuple[str, Ready]] = []
    for population in chosen(only):
        if time.monotonic() > ends:
            return
        name = name_of(population, lengths=lengths)
        if (name, lanes_of(population)[0]) in known:
            continue
        found: list[dict[str, Any]] = []
        one = _measure(population, found, lengths=lengths)
        if found:
            data["same"] = [row for row in data["same"] if row["name"] != name] + found
        if one is not None and population[-1] == 1:
            kept.append((name, one))
        _keep(data, out)
        gc.collect()
        torch.cuda.empty_cache()
    chance = random.Random(0)
    while len(kept) >= SET and len(data["sets"]) < SETS and time.monotonic() < ends:
        names, together = zip(*chance.sample(kept, k=SET), strict=True)
        data["sets"].append({"names": list(names), "gain": gain_of(together)})
        _keep(data, out)


def _measure(population: Population, rows: list[dict[str, Any]], *, lengths: Lengths) -> Ready | None:
    """Time one alone and several of it, and add that to the rows; None if it cannot be had."""
    name, job, begun = (
        name_of(population, lengths=lengths),
        job_of(population, lengths=lengths),
        time.monotonic(),
    )
    size = size_of(job)
    assert size is not None
    try:
        one = ready(job)
        rate = one.steps_per_second
        _say(f"{name}: {rate:,.1f} steps/s, ready after {time.monotonic() - begun:.0f} s")
        several = [one]
        for count in lanes_of(population):
            several += [one.again() for _ in range(count - len(several))]
            gain = gain_of(several)
            rows.append(
                {
                    "name": name,
                    "size": vars(size),
                    "steps_per_second": rate,
                    "abreast": count,
                    "gain": gain,
                    "device": torch.cuda.get_device_name(),
                    "torch": torch.__version__,
                }
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
            device=row["device"],
            torch=row["torch"],
        )
        for row in data["same"]
    ]


def gains_beside() -> list[Gain]:
    """What `benchmarks.step_rates measure` found on the way."""
    return [
        Gain(
            size=Size(**row["size"]),
            abreast=int(count),
            gain=gain,
            device=row["device"],
            torch=row["torch"],
        )
        for row in step_rates.rows_in(step_rates.MEASURED)
        for count, gain in row.get("gains", {}).items()
    ]


def table_of(gains: Iterable[Gain]) -> str:
    """The gains as CSV, with figures as long as they are worth."""
    return step_rates.csv_of(
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


def expected(work: Sequence[tuple[Size, float]], gains: Gains, *, lanes: int) -> float:
    """What the projections say that these gain, so many at a time; each with the time that it takes alone."""
    parts = [[Part(alone=alone, speed=partial(gains.speed, size))] for size, alone in work]
    return sum(alone for _, alone in work) / max(span.ended for span in spans_of(parts, lanes=lanes))


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
    sizes, known = {row["name"]: Size(**row["size"]) for row in data["same"]}, Gains(gains_in(data))
    sets = [
        (
            _counted(row["names"]),
            f"{row['gain']:.2f}",
            f"{expected([(sizes[name], 1.0) for name in row['names']], known, lanes=len(row['names'])):.2f}",
        )
        for row in data["sets"]
    ]
    text += _SETS.format(sets=table(("abreast", "gain", "projected"), sets)) if sets else ""
    return text + _BESIDE.format(
        beside=table(("model", "members", "populations", "least", "median", "most"), _summed(gains_beside()))
    )


def _summed(gains: Iterable[Gain]) -> list[tuple[str, int, int, str, str, str]]:
    """What four of them gain, by model and members, LSTMs first and then by their name."""
    found: dict[tuple[str, int], list[float]] = {}
    for one in gains:
        if one.abreast == step_rates.LANES:
            found.setdefault((one.size.model, one.size.members), []).append(one.gain)
    return [
        (model, members, len(some), f"{min(some):.2f}", f"{statistics.median(some):.2f}", f"{max(some):.2f}")
        for (model, members), some in sorted(found.items(), key=lambda item: (item[0][0] != "lstm", item[0]))
    ]


def _counted(names: Sequence[str]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in Counter(names).items())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--only", nargs="+", default=(), metavar="WORD", help="those with such a name")
    parser.add_argument("--page", action="store_true", help="only write the page and the table")
    parser.add_argument("--lengths", choices=get_args(Lengths), default="pairs")
    options = parser.parse_args()
    if not options.page:
        if not torch.cuda.is_available():
            parser.error("populations of these sizes are timed on a GPU, and there is none here")
        measure(options.minutes, options.out, options.only, lengths=options.lengths)
    data = json.loads(options.out.read_text())
    with written_whole(options.out.with_suffix(".md")) as file:
        file.write(page(data))
    if options.out == DATA:
        with written_whole(TABLE) as file:
            file.write(table_of([*gains_in(data), *gains_beside()]))


if __name__ == "__main__":
    main()
