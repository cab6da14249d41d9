"""Some cells of the papers' figures, trained in a given order on a GPU that is had for a short time.

    python -m benchmarks.round CELL ... --out FOLDER [--processes 8] [--steps 100000] [--minutes 18]

A cell is EXPERIMENT/PANEL/ROW@COLUMN, with learning rates if not all of the protocol's are wanted, and with
steps of its own if it is to have others than the rest:

    "w-istree/cot/Mamba 2M@64"  "s-fig3/index-lookup/Mamba-(2,512)@75:0.0001,0.0005"
    "s-fig2/index-lookup/RetNet-(6,256)@200:0.0001:8000"  "s-fig2/index-lookup/DSS-(6,256)@50::40000"

Several processes train them side by side, those first that come first; so many steps stand for those of the
protocol, and where there is a single rate, or an end before the first comparison, nobody is dropped. A
model that answers by writing is decoded as soon as it is trained. After each that has finished
`FOLDER/bundles/EXPERIMENT` has all that is known, also if the round ends before its time. The store is
`FOLDER/store`: run again, the same goes on from the last checkpoints.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from separatrix.errors import InvalidInput, SeparatrixError
from separatrix.experiments import study_of
from separatrix.experiments.cells import Cell, Study
from separatrix.experiments.decoded import decoded_score
from separatrix.experiments.engines import Tell
from separatrix.experiments.local import LocalEngine
from separatrix.experiments.protocols import Lengths, Settings
from separatrix.options import require
from separatrix.store import Run, Store, key_of
from separatrix.store.bundles import bundle_runs
from separatrix.training.jobs import Job
from separatrix.training.memory import ran_out
from separatrix.training.running import chosen_device, load_run

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
    """The cell that a text names, at the first of its architectures; its own steps come before these."""
    path, _, asked = text.partition(":")
    rates, _, own_steps = asked.partition(":")
    try:
        experiment, panel_name, rest = path.split("/")
        row, column = rest.rsplit("@", 1)
        number, wanted = int(column), [float(rate) for rate in rates.split(",") if rate]
        steps = int(own_steps) if own_steps else steps
    except ValueError:
        raise InvalidInput(
            f"A cell is EXPERIMENT/PANEL/ROW@COLUMN[:RATE,RATE[:STEPS]]; got '{text}'."
        ) from None
    study = study_of(experiment, settings)
    cell = _cell_of(study, panel_name, row, number, text)
    job = cell.jobs[0]
    members = tuple(member for member in job.members if not wanted or member.lr in wanted)
    tried = ", ".join(f"{member.lr:g}" for member in job.members)
    require(len(members) == (len(wanted) or len(members)), f"'{text}' may have the rates {tried}.")
    steps, halving = job.training.steps if steps is None else steps, job.training.halving
    if len(members) == 1 or (halving and halving.first >= steps):
        halving = None
    training = replace(job.training, steps=steps, halving=halving)
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


class Keeper:
    """Who looks after what has finished while others are trained: lets models write, and bundles all."""

    def __init__(self, places: Sequence[Place], store: Store, out: Path, *, device: str, tell: Tell) -> None:
        self._places, self._store, self._out, self._tell = places, store, out, tell
        self._device = chosen_device(device)
        self._kept: set[str] = set()
        self._for_later: set[str] = set()
        """Runs whose models found no memory to write beside those that were trained."""
        self.failed = False

    def follow(self, over: threading.Event) -> None:
        """Look now and then, until it is over."""
        while not over.wait(_BETWEEN):
            self.look()

    def look(self, *, is_last: bool = False) -> None:
        """Keep every run that has finished since; the last time also let those write that had no room."""
        finished = {run.key: run for run in self._store.runs() if run.finished}
        for place in self._places:
            for key in sorted(place.keys & finished.keys()):
                if key not in self._kept:
                    self._tell(_in_words(place, finished[key]))
                    self.bundle(place.experiment)  # whatever comes of the rest
                elif not (is_last and key in self._for_later):
                    continue
                self._kept.add(key)
                if place.cell.decoded and finished[key].examples and self._store.decoding(key) is None:
                    self._decode(place, finished[key])
                    self.bundle(place.experiment)

    def bundle(self, experiment: str) -> None:
        """Put what is known of an experiment's cells where it can be taken away."""
        own = frozenset[str]().union(
            *(place.keys for place in self._places if place.experiment == experiment)
        )
        runs = [run for run in self._store.runs() if run.finished and run.key in own]
        try:
            bundle_runs(self._store, runs, self._out / "bundles" / experiment, name=experiment)
        except (SeparatrixError, OSError) as problem:
            self.failed = True
            self._tell(f"{experiment} is not bundled: {problem}")

    def _decode(self, place: Place, run: Run) -> None:
        try:
            model = load_run(self._store, run.key).population
            examples = run.examples or 0
            found = decoded_score(model, place.job.built_task, examples=examples, device=self._device)
            self._store.write_evidence(run.key, found)
        except (SeparatrixError, MemoryError, RuntimeError) as problem:
            if not isinstance(problem, SeparatrixError) and not ran_out(problem):
                raise
            again = run.key not in self._for_later and not isinstance(problem, SeparatrixError)
            self._for_later.add(run.key)
            self.failed |= not again
            self._tell(f"    not decoded{', tried again at the end' if again else ''}: {problem}"[:400])
            return
        self._tell(f"    decoded {found.right:,} of {found.examples:,}, {found.unanswered:,} unanswered")


def _in_words(place: Place, run: Run) -> str:
    return (
        f"{place.cell.row} at {place.cell.column}, rate {run.rate:g}: {run.status} after {run.steps:,} "
        f"steps, {run.correct} of {run.examples}"
    )


def have_round(places: Sequence[Place], out: Path, *, engine: LocalEngine, tell: Tell) -> bool:
    """Train the cells, let those write that do, and keep what comes as it comes; whether all was done."""
    store = Store(out / "store")
    keeper = Keeper(places, store, out, device=engine.device, tell=tell)
    over = threading.Event()
    keeping = threading.Thread(target=keeper.follow, args=(over,))
    keeping.start()
    is_whole = False
    try:
        ran = engine.run([place.job for place in places], store, tell=tell)
        is_whole = not ran.failed and not ran.interrupted
        for failure in ran.failed:
            tell(f"Failed: {failure.job.short_name}: {failure.reason}")
    finally:
        over.set()
        keeping.join()
        keeper.look()
        keeper.look(is_last=True)
    return is_whole and not keeper.failed


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
    parser.add_argument("--lengths", choices=get_args(Lengths), default="pairs")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--minutes", type=float, help="end training after so long")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args(argv)
    begun = time.monotonic()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - begun:7.1f}  {line}", file=sys.stderr, flush=True)

    try:
        settings = Settings(budget=options.budget, lengths=options.lengths)
        places = [place_of(text, settings, steps=options.steps) for text in options.cells]
        chosen_device(options.device)
        engine = LocalEngine(device=options.device, processes=options.processes, minutes=options.minutes)
    except SeparatrixError as problem:
        tell(str(problem))
        return 2
    try:
        return 0 if have_round(places, options.out, engine=engine, tell=tell) else 1
    except KeyboardInterrupt:
        tell("Interrupted; run the same again to go on from the last checkpoints.")
        return 130
    except SeparatrixError as problem:
        tell(str(problem))
        return 1


if __name__ == "__main__":
    sys.exit(main())
