"""`separatrix reproduce`: a paper's figure with its numbers beside ours, trained, shown or priced."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Group, Parameter

from separatrix.cli.flags import AsJson, Whole, Wholes
from separatrix.cli.output import note
from separatrix.cli.runs import Place
from separatrix.cli.surroundings import Terminated
from separatrix.errors import InvalidInput
from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.asked import (
    LANES,
    READS,
    Asked,
    BudgetName,
    EngineName,
    GridName,
    LengthsName,
    SearchName,
    last_asked,
    remember,
)
from separatrix.registry import unknown_name

if TYPE_CHECKING:
    from separatrix.cli.experimenting import Found
    from separatrix.experiments.cells import Study
    from separatrix.store import Store

__all__ = ["reproduce"]

_ALL: Final = "all"
_ONLY: Final = {
    "ray": {"address": "--address", "gpus_per_job": "--gpus-per-job"},
    "local": {name: f"--{name}" for name in ("device", "processes", "abreast", "minutes")},
}
"""Settings that one engine has and the other has not."""

_PART: Final = Group("What is run", sort_key=1.2)
_HOW: Final = Group("How it is trained", sort_key=1.4)
_MODELS: Final = Group(f"Models on disk, for {READS}", sort_key=1.6)
_WHERE: Final = Group("Where it runs", sort_key=1.8)

Names = Annotated[str, Parameter(help="Experiments by name, or all; without one they are listed.")]
Texts = Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative_iterable=())]
BudgetFlag = Annotated[
    BudgetName | None,
    Parameter(
        help="smoke: small sizes, seconds on a CPU; quick: the paper's models with few lengths and steps, on "
        "a GPU; paper: its full protocol. [default: smoke]",
        group=_PART,
    ),
]


def reproduce(
    *names: Names,
    budget: BudgetFlag = None,
    panels: Annotated[Texts, Parameter(help="Only these, by name.", group=_PART)] = None,
    rows: Annotated[Texts, Parameter(help="Only these models, TF-(1,64) or TF.", group=_PART)] = None,
    columns: Annotated[Wholes, Parameter(help="Only these lengths.", group=_PART)] = None,
    grid: Annotated[
        GridName | None,
        Parameter(help="The paper's final architectures, or all it tried. [default: final]", group=_HOW),
    ] = None,
    halving: Annotated[
        bool | None,
        Parameter(help="Drop members that cannot win on their way. [default: yes]", group=_HOW),
    ] = None,
    lengths: Annotated[
        LengthsName | None,
        Parameter(
            help="All in every step; pairs: two inputs a row where a model can, else, with --budget paper, "
            "bands that take turns; bands: those alone. [default: pairs]",
            group=_HOW,
        ),
    ] = None,
    seeds: Annotated[
        Wholes, Parameter(help="Each with every learning rate. [default: 0]", group=_HOW)
    ] = None,
    search: Annotated[
        SearchName | None,
        Parameter(help="The paper's learning rates, or those optuna asks for. [default: grid]", group=_HOW),
    ] = None,
    trials: Annotated[
        Whole | None, Parameter(help="Most runs for a cell with --search optuna. [default: 20]", group=_HOW)
    ] = None,
    model: Annotated[
        Texts,
        Parameter(
            help="NAME=FOLDER, a Hugging Face folder; the paper has Transformer, Hybrid, RNN.", group=_MODELS
        ),
    ] = None,
    file: Annotated[
        Path | None,
        Parameter(help="Hotpot-QA's own questions. [default: questions made here]", group=_MODELS),
    ] = None,
    engine: Annotated[
        EngineName | None, Parameter(help="This machine, or a Ray cluster. [default: local]", group=_WHERE)
    ] = None,
    device: Annotated[
        str | None, Parameter(help="auto, cpu, cuda or cuda:1. [default: auto]", group=_WHERE)
    ] = None,
    processes: Annotated[
        Whole | None,
        Parameter(help="Jobs at once, side by side on one GPU too (MPS). [default: 1]", group=_WHERE),
    ] = None,
    abreast: Annotated[
        Whole | None,
        Parameter(
            help="Jobs at once on one GPU, in one process. [default: 4 for paper on a large GPU, else 1]",
            group=_WHERE,
        ),
    ] = None,
    seats: Annotated[Whole | None, Parameter(help="Most members trained side by side.", group=_WHERE)] = None,
    minutes: Annotated[
        float | None, Parameter(help="End after so long; --resume does the rest.", group=_WHERE)
    ] = None,
    address: Annotated[
        str | None,
        Parameter(help="HOST:PORT of the cluster. [default: the one this machine is in]", group=_WHERE),
    ] = None,
    gpus_per_job: Annotated[
        float | None,
        Parameter(help="A part of a GPU or several; 0 trains on CPUs. [default: 1]", group=_WHERE),
    ] = None,
    store: Place = None,
    out: Annotated[
        Path | None,
        Parameter(
            help="Folder for figures and tables. [default: out/reproduce/NAME]",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        Parameter(
            help="Bundle the finished runs into FOLDER/NAME, beside those there.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        Parameter(
            help="Go on with what was last asked of it in this store.",
            negative=(),
            show_default=False,
        ),
    ] = False,
    plan: Annotated[
        bool,
        Parameter(
            help="Say what it would cost; train nothing.",
            negative=(),
            show_default=False,
        ),
    ] = False,
    show: Annotated[
        bool,
        Parameter(
            help="Show what is known, here and published; train nothing.",
            negative=(),
            show_default=False,
        ),
    ] = False,
    json: AsJson = False,
) -> int:
    """Reproduce figures of the papers, with the paper's number beside ours in every cell.

    What the store has is not trained again, and what was cut off goes on from its last checkpoint.
    Exit code 1 if a job failed or time ran out.
    """
    given: dict[str, Any] = {
        "budget": budget,
        "panels": panels,
        "rows": rows,
        "columns": columns,
        "grid": grid,
        "halving": halving,
        "lengths": lengths,
        "seeds": seeds,
        "search": search,
        "trials": trials,
        "models": _models(model),
        "file": _absolute(file),
        "engine": engine,
        "device": device,
        "processes": processes,
        "abreast": abreast,
        "seats": seats,
        "minutes": minutes,
        "address": address,
        "gpus_per_job": gpus_per_job,
        "out": _absolute(out),
        "keep": _absolute(keep),
    }
    given = {name: value for name, value in given.items() if value is not None}
    if not names:
        if given or resume or plan or show or store is not None:
            raise InvalidInput(
                f"Name an experiment right after reproduce, or {_ALL}; `separatrix reproduce` alone lists "
                "them."
            )
        _list(as_json=json)
        return 0
    place = _place(store)
    asked = _asked(names, given, place, resume=resume)
    _refuse_contradictions(asked, given, plan=plan, show=show)
    call = _Call(
        names=names,
        asked=asked,
        given=given.keys(),
        place=place,
        named=store is not None,
        resume=resume,
        json=json,
    )
    if plan:
        return call.plan()
    return call.look_up() if show else call.run()


def _list(*, as_json: bool) -> None:
    from separatrix.cli.reproduced import print_listing

    print_listing(as_json=as_json)


def _place(store: Path | None) -> Path:
    from separatrix.store import default_place

    return default_place() if store is None else store


def _models(texts: tuple[str, ...] | None) -> tuple[tuple[str, Path], ...] | None:
    if texts is None:
        return None
    found = [(name, _absolute(folder) or folder) for name, folder in map(_model, texts)]
    for name, _ in found:
        if [each for each, _ in found].count(name) > 1:
            raise InvalidInput(f"Every model has a name of its own; '{name[:60]}' was given twice.")
    return tuple(found)


def _model(text: str) -> tuple[str, Path]:
    from separatrix.experiments.reading.hotpot import model_argument

    return model_argument(text)


def _absolute(path: Path | None) -> Path | None:
    """A path that means the same wherever one stands when one goes on."""
    if path is None:
        return None
    try:
        if b"\0" in os.fsencode(path):
            raise InvalidInput("The name of a file or folder has no null in it; got one.")
    except UnicodeEncodeError:
        raise InvalidInput("The name of a file or folder has characters that no name can have.") from None
    return path.expanduser().absolute()


def _asked(names: Sequence[str], given: Mapping[str, Any], place: Path, *, resume: bool) -> tuple[Asked, ...]:
    """What is asked of each experiment: what was asked last if one goes on, and what is given now."""
    known = EXPERIMENTS.names()
    for name in names:
        if name != _ALL and name not in known:
            raise unknown_name("experiment", name, (*known, _ALL))
    everything = _ALL in names
    wanted = known if everything else tuple(dict.fromkeys(names))
    before = {name: last_asked(name, place) for name in wanted} if resume else {}
    if resume and everything:
        wanted = tuple(name for name in wanted if before[name] is not None) or wanted
    found = []
    for name in wanted:
        last = before.get(name)
        if resume and last is None and "budget" not in given:
            what = "nothing" if everything else f"nothing of {name}"
            raise InvalidInput(
                f"There is {what} to go on with in '{place}': it was not begun there; leave --resume out to "
                "begin, or name its --store."
            )
        own = {"out": given["out"] / name} if _are_several(names) and "out" in given else {}
        found.append(replace(last or Asked(name=name), **{**given, **own}))
    return tuple(found)


def _are_several(names: Sequence[str]) -> bool:
    """Whether the answer is about a number of experiments, be it one."""
    return _ALL in names or len(set(names)) > 1


def _refuse_contradictions(asked: Sequence[Asked], given: Collection[str], *, plan: bool, show: bool) -> None:
    if plan and show:
        raise InvalidInput("--plan prices what would be trained, --show shows what was; give one of them.")
    if plan and {"out", "keep"}.intersection(given):
        raise InvalidInput("--plan writes nothing; leave --out and --keep away.")
    if {"models", "file"}.intersection(given) and READS not in {one.name for one in asked}:
        raise InvalidInput(f"--model and --file are for {READS}; {asked[0].name} has neither.")
    for engine, settings in _ONLY.items():
        for name, flag in settings.items():
            if name in given and any(one.engine != engine for one in asked):
                raise InvalidInput(f"{flag} is for --engine {engine}; this one is {asked[0].engine}.")
    if "trials" in given and any(one.search != "optuna" for one in asked):
        raise InvalidInput("--trials is for --search optuna; this one goes through the paper's grid.")


@dataclass(frozen=True, kw_only=True)
class _Call:
    """One call of the command: what is asked for, in which store, and how to answer."""

    names: Sequence[str]
    asked: Sequence[Asked]
    given: Collection[str]
    """What was said about them now."""
    place: Path
    named: bool
    """Whether the store was named, so that it has to be named again."""
    resume: bool
    json: bool

    def plan(self) -> int:
        """Say what it would cost."""
        from separatrix.cli.experimenting import everything_known, local_engine, owed_further, still_to_do
        from separatrix.cli.reproduced import Plan, print_plans
        from separatrix.experiments.projecting import projection_of

        for asked in self.asked:
            if asked.engine == "local":
                local_engine(asked)  # what could not be trained has no price
        store = self._store_if_any()
        solved = everything_known(store).runs
        plans = [
            Plan(
                asked=asked,
                study=study,
                left=still_to_do(asked, study, store),
                owed=owed_further(study, store),
                projection=projection_of(
                    study, solved=solved, abreast=asked.lanes, proposed=self._proposed(asked)
                ),
            )
            for asked, study in self._work()
        ]
        print_plans(plans, as_json=self.json, together=_are_several(self.names))
        return 0

    def _proposed(self, asked: Asked) -> int | None:
        """As many jobs at once as may be worth while, if that was left open."""
        usual = asked.engine == "local" and asked.processes == 1 and not asked.device.startswith("cpu")
        return LANES if usual and asked.abreast is None and asked.lanes == 1 else None

    def look_up(self) -> int:
        """Show what is known, and train nothing."""
        from separatrix.cli.experimenting import looked_up

        store = self._store_if_any()
        return self._answer(
            (looked_up(asked, study, store) for asked, study in self._work()), store, shown=True
        )

    def run(self) -> int:
        """Train what is missing. All is looked through before the first step, so that hours are not lost."""
        from separatrix.cli.experimenting import reachable, require_gpu, require_runnable, trained
        from separatrix.store import Store

        work = self._work(runnable=True)
        for asked, study in work:
            require_runnable(asked, study)
            for flag, folder in (("--out", asked.out), ("--keep", asked.keep)):
                if folder is not None and folder.exists() and not folder.is_dir():
                    raise InvalidInput(f"{flag} names a folder; '{folder}' is a file.")
        known = self._store_if_any()
        require_gpu(work, known)
        with reachable(work, known):
            store = Store(self.place)
            for asked, _ in work:
                if self.resume and not self.json:
                    note(f"{asked.name} goes on at --budget {asked.budget}, as it was asked for last.")
                remember(asked, store.path)
            limits = [asked.minutes for asked, _ in work if asked.minutes is not None]
            ends = time.monotonic() + 60 * max(limits) if limits else None
            found = (trained(asked, study, store, quiet=self.json, ends=ends) for asked, study in work)
            try:
                return self._answer(found, store)
            except (KeyboardInterrupt, Terminated):
                note(f"Interrupted; `{self._again}` goes on from the last checkpoints.")
                raise

    def _store_if_any(self) -> Store | None:
        """Whoever only looks makes no store."""
        from separatrix.store import Store, has_store

        return Store(self.place) if has_store(self.place) else None

    def _work(self, *, runnable: bool = False) -> list[tuple[Asked, Study]]:
        """What is asked for, each with its study; `runnable`, of all those that can be run as they are."""
        work = [(asked, asked.study()) for asked in self.asked]
        if not runnable or _ALL not in self.names:
            return work
        for asked, study in work:
            if study.refusal:
                note(f"{asked.name} is left out: {study.refusal}")
        return [(asked, study) for asked, study in work if not study.refusal]

    def _answer(self, each: Iterable[Found], store: Store | None, *, shown: bool = False) -> int:
        """Write and print one after another, as they come."""
        from separatrix.cli.reproduced import fields_of, keep_runs, print_found, write_answer, write_found

        answers, whole, late = [], True, False
        for place, found in enumerate(each):
            usual = None if shown else Path("out", "reproduce", found.asked.name)
            folder = found.asked.out or usual
            files = [] if folder is None else write_found(found, folder)
            kept = keep_runs(found, store)
            for failure in found.failed:
                note(f"Failed: {failure.job.short_name}: {failure.reason}")
            if self.json:
                answers.append(fields_of(found, store=self.place, files=files, kept=kept))
            else:
                if place:
                    print()
                print_found(found, folder, files, kept)
            whole = whole and found.whole
            late = found.interrupted
            if late:  # the others have no time left either
                break
        if self.json:
            write_answer(answers, together=_are_several(self.names))
        if not whole:
            why = "Time ran out before all was done" if late else "Not all could be done"
            note(f"{why}; `{self._again}` goes on from the last checkpoints.")
        return 0 if whole else 1

    @property
    def _again(self) -> str:
        words = ["separatrix", "reproduce", *self.names, "--resume"]
        words += ["--store", str(self.place)] if self.named else []
        return shlex.join(words)
