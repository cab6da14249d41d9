"""Some cells of the papers' figures, trained in a given order on a GPU that is had for a short time.

    python -m benchmarks.round CELL ... --out FOLDER [--processes 8] [--steps 100000] [--minutes 18]

A cell is EXPERIMENT/PANEL/ROW@COLUMN, with learning rates if not all of the protocol's are wanted:

    "w-istree/cot/Mamba 2M@64"  "s-fig3/index-lookup/Mamba-(2,512)@75:0.0001,0.0005"

Several processes train them side by side, those first that come first; so many steps stand for those of the
protocol, and where there is a single rate nobody is dropped. A model that answers by writing is decoded as
soon as it is trained. After each that has finished `FOLDER/bundles/EXPERIMENT` has all that is known, so that
whatever ends the round costs what was under way and no more. The store is `FOLDER/store`: run again, the same
goes on from the last checkpoints.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from separatrix.errors import InvalidInput, SeparatrixError
from separatrix.experiments import study_of
from separatrix.experiments.cells import Cell, Study
from separatrix.experiments.decoded import decoded_score
from separatrix.experiments.engines import Tell
from separatrix.experiments.local import LocalEngine
from separatrix.experiments.protocols import Settings
from separatrix.options import require
from separatrix.store import Run, Store, key_of
from separatrix.store.bundles import bundle_runs
from separatrix.training.jobs import Job
from separatrix.training.running import load_run

_BETWEEN = 2.0


@dataclass(frozen=True, kw_only=True)
class Place:
    """A cell of an experiment, and the one job that is done for it."""

    experiment: str
    cell: Cell
    job: Job

    @property
    def keys(self) -> frozenset[str]:
        """Of its runs."""
        return frozenset(key_of(self.job.config_of(member)) for member in self.job.members)


def place_of(text: str, settings: Settings, *, steps: int | None = None) -> Place:
    """The cell that a text names, at the first of its architectures."""
    path, _, rates = text.partition(":")
    try:
        experiment, panel_name, rest = path.split("/")
        row, column = rest.rsplit("@", 1)
        number, wanted = int(column), [float(rate) for rate in rates.split(",") if rate]
    except ValueError:
        raise InvalidInput(f"A cell is EXPERIMENT/PANEL/ROW@COLUMN[:RATE,RATE]; got '{text}'.") from None
    study = study_of(experiment, settings)
    cell = _cell_of(study, panel_name, row, number, text)
    job = cell.jobs[0]
    members = tuple(member for member in job.members if not wanted or member.lr in wanted)
    tried = ", ".join(f"{member.lr:g}" for member in job.members)
    require(len(members) == (len(wanted) or len(members)), f"'{text}' may have the rates {tried}.")
    halving = job.training.halving if len(members) > 1 else None
    training = replace(job.training, steps=steps or job.training.steps, halving=halving)
    return Place(experiment=experiment, cell=cell, job=replace(job, members=members, training=training))


def _cell_of(study: Study, panel_name: str, row: str, column: int, text: str) -> Cell:
    for panel in study.panels:
        for cell in panel.cells:
            if (panel.name, cell.row, cell.column) == (panel_name, row, column) and cell.jobs:
                return cell
    places = "; ".join(
        f"{panel.name}: {', '.join(panel.rows)} at {', '.join(map(str, panel.columns))}"
        for panel in study.panels
    )
    raise InvalidInput(f"{study.name} trains no cell '{text}'. It has {places}.")


def have_round(places: Sequence[Place], out: Path, *, engine: LocalEngine, tell: Tell) -> bool:
    """Train the cells, let those write that do, and keep what comes as it comes; whether all was done."""
    store, done = Store(out / "store"), [False]

    def train() -> None:
        try:
            ran = engine.run([place.job for place in places], store, tell=tell)
            for failure in ran.failed:
                tell(f"Failed: {failure.job.short_name}: {failure.reason}")
            done[0] = not ran.failed and not ran.interrupted
        except SeparatrixError as problem:
            tell(str(problem))

    training = threading.Thread(target=train)
    training.start()
    looked_at: set[str] = set()
    while True:
        is_last = not training.is_alive()
        finished = {run.key: run for run in store.runs() if run.finished}
        new = [place for place in places if place.keys & finished.keys() - looked_at]
        for place in new:
            for key in sorted(place.keys & finished.keys() - looked_at):
                _told(place, finished[key], store, device=engine.device, tell=tell)
        for name in {place.experiment for place in new}:
            own = frozenset[str]().union(*(place.keys for place in places if place.experiment == name))
            runs = [run for key, run in finished.items() if key in own]
            bundle_runs(store, runs, out / "bundles" / name, name=name)
        looked_at |= finished.keys()
        if is_last:
            return done[0]
        time.sleep(_BETWEEN)


def _told(place: Place, run: Run, store: Store, *, device: str, tell: Tell) -> None:
    """Say how a run ended, and let its model write if that is how it is scored."""
    said = (
        f"{place.cell.row} at {place.cell.column}, rate {run.rate:g}: {run.status} after {run.steps:,} steps"
    )
    if not place.cell.decoded or not run.examples:
        tell(f"{said}, {run.correct} of {run.examples}")
        return
    try:
        model = load_run(store, run.key).population
        task = place.job.built_task
        found = decoded_score(model, task, examples=run.examples, device=None if device == "auto" else device)
    except SeparatrixError as problem:
        tell(f"{said}; not decoded: {problem}")
        return
    store.write_evidence(run.key, found)
    tell(f"{said}; decoded {found.right:,} of {found.examples:,}, {found.unanswered:,} unanswered")


def main(argv: Sequence[str] | None = None) -> int:
    """0 if all is done, 1 if something failed or time was over first, 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.round",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cells", nargs="+", metavar="CELL")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", choices=("smoke", "quick", "paper"), default="paper")
    parser.add_argument("--steps", type=int, help="instead of the protocol's")
    parser.add_argument("--no-bands", action="store_true", help="every step has all lengths")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--minutes", type=float, help="end after so long")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args(argv)
    begun = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - begun:7.1f}  {line}", file=sys.stderr, flush=True)

    try:
        settings = Settings(budget=options.budget, bands=not options.no_bands)
        places = [place_of(text, settings, steps=options.steps) for text in options.cells]
        engine = LocalEngine(device=options.device, processes=options.processes, minutes=options.minutes)
        return 0 if have_round(places, options.out, engine=engine, tell=tell) else 1
    except SeparatrixError as problem:
        tell(str(problem))
        return 2


if __name__ == "__main__":
    sys.exit(main())
