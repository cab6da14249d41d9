"""How long the papers' experiments take on one H200, projected from measured rates of steps.

    python -m benchmarks.reproduction [--store STORE ...]

For each experiment: minutes of its quick budget; hours of the paper's protocol for the architectures that it
ended with, and for its whole grid, with and without halving. Runs in `results/` of a checkout, and in stores
that are named, say which cells are solved before their last step. `results/reproduction.json` has every
population, `results/reproduction.md` the tables. `benchmarks.step_rates` measures the rates.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, Final

from benchmarks.abreast_trainings import DATA as TRAININGS
from benchmarks.markdown import table
from benchmarks.step_rates import BARS, FIGURES, known_runs
from separatrix.experiments import EXPERIMENTS, study_of
from separatrix.experiments.asked import LANES
from separatrix.experiments.projecting import Projection, projection_of
from separatrix.experiments.protocols import Settings
from separatrix.experiments.rates import rates_measured
from separatrix.files import written_whole
from separatrix.store import Run

HERE = Path(__file__).parent
DATA = HERE / "results" / "reproduction.json"
LONGEST: Final = 12
CASES: Final = {
    "quick": (Settings(budget="quick"), 1),
    "final, halving": (Settings(budget="paper"), 1),
    "final": (Settings(budget="paper", halving=False), 1),
    "grid, halving": (Settings(budget="paper", grid="full"), 1),
    "grid": (Settings(budget="paper", grid="full", halving=False), 1),
    "final, halving, abreast": (Settings(budget="paper"), LANES),
    "final, abreast": (Settings(budget="paper", halving=False), LANES),
}
"""What is asked for, and how many jobs are done at once."""
SHOWN: Final = ("final, halving", "final", "grid, halving", "grid")
Data = dict[str, Any]


def projected(runs: Sequence[Run]) -> dict[str, dict[str, Projection]]:
    """Every experiment, in every case."""
    return {
        name: {
            case: projection_of(study_of(name, settings), solved=runs, abreast=abreast)
            for case, (settings, abreast) in CASES.items()
        }
        for name in EXPERIMENTS.names()
    }


def data_of(found: Mapping[str, Mapping[str, Projection]]) -> Data:
    """The projections as JSON values; of whole grids, which have thousands of populations, and
    of what is done abreast the sums only.
    """
    return {
        "rates": len(rates_measured().measured),
        "device": sorted({rate.device for rate in rates_measured().measured}),
        "experiments": {
            name: {
                case: _sums(one, whole=case in ("quick", "final, halving", "final"))
                for case, one in cases.items()
            }
            for name, cases in found.items()
        },
    }


def _sums(one: Projection, *, whole: bool) -> Data:
    return {
        "populations": len(one.jobs),
        "solved": sum(job.solved_at is not None for job in one.jobs),
        "hours": round(one.hours, 3),
        "hours_with_known_stops": round(one.ended_hours, 3),
        "further_hours": round(one.further_hours, 3),
        "basis": {known: round(share, 4) for known, share in one.basis.items()},
        "jobs": [
            {
                "name": job.name,
                "seconds": None if job.seconds is None else round(job.seconds, 1),
                "solved_at": job.solved_at,
                "rates": list(job.how),
            }
            for job in (one.jobs if whole else ())
        ],
    }


INTRODUCTION = """# Reproducing the papers: time on one H200

Projected from {rates:,} measured rates of steps ({devices}), one population after another. Compiling and
looks are in it, all but the first population compiled by a second process while those before are trained;
letting models write, second looks and drawing are not. A time is the most that training can take: a
population ends sooner if a member solves the task. Sizes that were not measured are scaled from those that
were, upwards rather than downwards: `separatrix.experiments.rates` says how. `python -m
benchmarks.reproduction` writes this page, `python -m benchmarks.step_rates` measures."""
ABREAST_NOTE = """*Abreast* is with so many jobs at once on the card, as `reproduce --budget paper` does
them on a large one unless `--abreast` says otherwise. It is reckoned by what [recorded steps](abreast.md) of
equal populations gain; those of which no larger was measured are taken to gain nothing."""
TRAINED_NOTE = """Different ones were [trained whole](abreast_trainings.md), {count} at a time, for about
{short:.0f} seconds each and for {long:.0f}. What is between the two, in which beginning has no part, took
{in_turn:.2f} times what is reckoned of it one after another and {abreast:.2f} times abreast, a gain of
{gain:.2f}. If all of S's figures with halving went as that, they would take {hours_in_turn:.1f} h one after
another and {hours:.1f} h abreast: {verdict}."""
COLUMNS = """*Quick* is the quick budget. *Final* is the paper's protocol, in S seven learning rates and
250,000 steps, for the architectures that the paper ended with; *grid* is that for every architecture it
tried. *Solved* counts the populations of *final* that runs have seen solved, and beside it are the hours if
these end there. *Measured* is the share of steps, with halving, whose rate was measured at that very size."""


def written(data: Data) -> str:
    """The page."""
    experiments: dict[str, dict[str, Data]] = data["experiments"]
    parts = (
        INTRODUCTION.format(rates=data["rates"], devices=", ".join(data["device"])),
        "## Every experiment",
        _experiments(experiments),
        COLUMNS,
        *_further(experiments),
        "## S's figures together",
        _together(experiments),
        f"{', '.join(FIGURES)}: final architectures, seven learning rates.\n{_note(experiments)}",
        "## What takes longest",
        _longest(experiments),
        "Final architectures of S's figures without halving.",
    )
    return "\n\n".join(parts) + "\n"


def _further(experiments: Mapping[str, Mapping[str, Data]]) -> list[str]:
    """What is trained for longer where a model has not learned its task, a sentence an experiment."""
    return [
        f"{name} gives models that have not learned their task by then more samples: at most "
        f"{_hours(cases['final']['further_hours'])} more."
        for name, cases in experiments.items()
        if cases["final"]["further_hours"]
    ]


def _experiments(experiments: Mapping[str, Mapping[str, Data]]) -> str:
    head = (
        "experiment", "quick, minutes", "final, halving", "final, none dropped", "grid, halving",
        "grid, none dropped", "solved", "final, halving, solved ones ended", "measured",
    )  # fmt: skip
    body = []
    for name, cases in experiments.items():
        final = cases["final, halving"]
        if not final["hours"]:
            why = "not measured" if final["populations"] else "trains nothing"
            body.append((name, *[why] * (1 + len(SHOWN)), "", "", ""))
            continue
        body.append(
            (
                name,
                f"{60 * cases['quick']['hours']:.0f}",
                *(_hours(cases[case]["hours"]) for case in SHOWN),
                f"{final['solved']} of {final['populations']}",
                _hours(final["hours_with_known_stops"]),
                f"{100 * final['basis']['measured']:.0f} %",
            )
        )
    return table(head, body)


def _hours(hours: float) -> str:
    if 0 < hours < 0.05:
        return "< 0.1 h"
    return f"{hours:,.1f} h" if hours < 100 else f"{hours:,.0f} h"


def _together(experiments: Mapping[str, Mapping[str, Data]]) -> str:
    body = []
    for words, case in (("with halving", "final, halving"), ("without", "final")):
        one = [experiments[name][case] for name in FIGURES]
        hours, stops = (sum(part[field] for part in one) for field in ("hours", "hours_with_known_stops"))
        abreast = sum(experiments[name][f"{case}, abreast"]["hours"] for name in FIGURES)
        bar = BARS[words]
        met = "yes" if hours <= bar else "as reckoned abreast, see below" if abreast <= bar else "no"
        body.append((words, f"{abreast:.1f} h", f"{hours:.1f} h", f"{stops:.1f} h", f"≤ {bar} h", met))
    return table(
        ("halving", f"{LANES} abreast", "one after another", "the same, solved ones ended", "bar", "met"),
        body,
    )


def _note(experiments: Mapping[str, Mapping[str, Data]]) -> str:
    """What stands behind the hours abreast, and how whole trainings went beside what is reckoned of them."""
    same = _same_trainings(json.loads(TRAININGS.read_text()))
    if same is None:
        return ABREAST_NOTE
    short, long = same
    more_in_turn, more = (mean(long[field]) - mean(short[field]) for field in ("seconds_in_turn", "seconds"))
    reckoned_in_turn, reckoned = (long["reckoned"][one] - short["reckoned"][one] for one in ("1", str(LANES)))
    in_turn, abreast = more_in_turn / reckoned_in_turn, more / reckoned
    hours_in_turn, hours = (
        sum(experiments[name][case]["hours"] for name in FIGURES) * factor
        for case, factor in (("final, halving", in_turn), ("final, halving, abreast", abreast))
    )
    bar = BARS["with halving"]
    trained = TRAINED_NOTE.format(
        count=LANES,
        short=mean(short["seconds_in_turn"]) / len(short["populations"]),
        long=mean(long["seconds_in_turn"]) / len(long["populations"]),
        in_turn=in_turn,
        abreast=abreast,
        gain=more_in_turn / more,
        hours_in_turn=hours_in_turn,
        hours=hours,
        verdict=f"{'within' if hours <= bar else 'over'} the bar of {bar} h",
    )
    return f"{ABREAST_NOTE}\n{trained}"


def _same_trainings(rows: Sequence[Data]) -> tuple[Data, Data] | None:
    """The shortest and the longest training of one set of different populations, as many at a time as an
    experiment does; of the set in which they are furthest apart.
    """
    sets: dict[str, list[Data]] = {}
    for row in rows:
        if row["abreast"] == LANES and len(set(row["populations"])) == len(row["populations"]):
            name = str([row[field] for field in ("populations", "members", "device")])
            sets.setdefault(name, []).append(row)
    pairs = [
        (min(one, key=_seconds_in_turn), max(one, key=_seconds_in_turn)) for one in sets.values() if one[1:]
    ]
    return max(pairs, key=lambda pair: _seconds_in_turn(pair[1]) - _seconds_in_turn(pair[0]), default=None)


def _seconds_in_turn(row: Data) -> float:
    return float(mean(row["seconds_in_turn"]))


def _longest(experiments: Mapping[str, Mapping[str, Data]]) -> str:
    jobs = [(name, job) for name in FIGURES for job in experiments[name]["final"]["jobs"]]
    jobs.sort(key=lambda pair: pair[1]["seconds"] or 0.0, reverse=True)
    body = [
        (name, job["name"], "; ".join(job["rates"]), f"{job['seconds'] / 3600:.2f} h")
        for name, job in jobs[:LONGEST]
        if job["seconds"]
    ]
    return table(("experiment", "population", "rate", "at most"), body, text=3)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path, nargs="*", default=(), help="folders with runs")
    parser.add_argument("--out", type=Path, default=DATA)
    arguments = parser.parse_args()
    data = data_of(projected(known_runs(arguments.store)))
    with written_whole(arguments.out) as file:
        json.dump(data, file, indent=1)
        file.write("\n")
    with written_whole(arguments.out.with_suffix(".md")) as file:
        file.write(written(data))


if __name__ == "__main__":
    main()
