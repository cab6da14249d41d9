"""What `certify` and `break` are about: the folder of a witness, or a trained run, and the task.

A run is named by the beginning of its key, by the file of its weights, or by a store that has no other. Its
task is its own unless `--task` names one, and then what is left out is as the run has it.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, final

from cyclopts import Group, Parameter

import separatrix
from separatrix.cli.flags import Flags, assembled, own_options, task_flags, value_of
from separatrix.cli.runs import Place, shaped
from separatrix.errors import InvalidFile, InvalidInput, UnknownName

if TYPE_CHECKING:
    from separatrix.models.population import Population
    from separatrix.records import JsonValue
    from separatrix.store import Run, Store
    from separatrix.tasks import Task
    from separatrix.witnesses import Witness

__all__ = ["Asked", "RunSubject", "Subject", "WitnessSubject", "about_a_model"]

_KEY: Final = re.compile(r"[0-9a-f]{1,64}")
_SHOWN: Final = 4
_LONGEST: Final = 80


@final
@dataclass(frozen=True, eq=False)
class WitnessSubject:
    """A witness, and the task that was named."""

    folder: Path
    witness: Witness
    task: Task

    def words(self, answers: JsonValue) -> str:
        """Answers in the task's words, numbers in few digits; nothing where the task has no word for one."""
        return _words(self.task, answers)


@final
@dataclass(frozen=True, eq=False)
class RunSubject:
    """A run that has finished, and the task that was named."""

    store: Store
    run: Run
    population: Population
    task: Task

    @property
    def model(self) -> str:
        """Its model with layers and width, where it has both."""
        return shaped(self.run)

    def words(self, answers: JsonValue) -> str:
        """Answers in the task's words, numbers in few digits; nothing where the task has no word for one."""
        return _words(self.task, answers)


Subject = WitnessSubject | RunSubject


@final
@dataclass(frozen=True)
class Asked:
    """What the words of a command line name."""

    path: str
    place: Path | None
    """The store that was named."""
    kind: type[Task] | None
    """The task that was named."""
    parameters: Mapping[str, Any]
    """Those of the task that were given."""
    options: frozenset[str]
    """The names of the command's own options that were given."""

    def subject(self) -> Subject:
        """What stands there, read; refused in a sentence if it is none of these."""
        found = self._located()
        if isinstance(found, Path):
            return self._of_witness(found)
        store, run = found
        return self._of_run(store, run)

    def refuse(self, *options: str, why: str) -> None:
        """Options that mean nothing for what was named are not swallowed."""
        for option in options:
            if option in self.options:
                raise InvalidInput(f"{why}; leave --{option} out.")

    def _located(self) -> Path | tuple[Store, Run]:
        from separatrix.store import has_store
        from separatrix.witnesses.files import SPEC

        path = Path(self.path)
        if not _is_there(path):
            return self._by_key()
        if path.is_dir():
            if has_store(path) and not (path / SPEC).exists():
                return self._only_run(path)
            return path
        inside = path.parent.parent
        if path.suffix == ".safetensors" and path.parent.name == "weights" and has_store(inside):
            store = self._opened(inside)
            return store, store.run(path.stem)
        return path

    def _by_key(self) -> tuple[Store, Run]:
        from separatrix.store import Store, default_place

        if not _KEY.fullmatch(self.path):
            raise InvalidFile(
                f"There is no file or folder '{self.path[:_LONGEST]}', and a run's key has the characters "
                "0 to 9 and a to f only; `separatrix runs list` lists the runs."
            )
        store = Store(default_place() if self.place is None else self.place, must_exist=True)
        try:
            return store, store.run(self.path)
        except UnknownName as unknown:
            raise UnknownName(f"{unknown}{_near(self.path, store.all_keys())}") from None

    def _only_run(self, folder: Path) -> tuple[Store, Run]:
        store = self._opened(folder)
        runs = store.runs()
        if len(runs) != 1:
            shown = f": {', '.join(run.short for run in runs[:_SHOWN])}" if runs else ""
            more = f" and {len(runs) - _SHOWN:,} more" if len(runs) > _SHOWN else ""
            held = f"{len(runs):,} runs{shown}{more}; name one by its key, with --store" if runs else "no run"
            raise InvalidInput(f"'{folder}' is a store with {held}.")
        return store, runs[0]

    def _opened(self, folder: Path) -> Store:
        """The store that a path leads into; another one named beside it is a contradiction."""
        from separatrix.store import Store

        if self.place is not None and self.place.resolve() != folder.resolve():
            raise InvalidInput(
                f"'{self.path}' is in the store '{folder}', and --store names '{self.place}'; leave one out."
            )
        return Store(folder, must_exist=True)

    def _of_witness(self, folder: Path) -> WitnessSubject:
        from separatrix.tasks.specs import spec_of
        from separatrix.witnesses.files import load

        self.refuse("store", why=f"'{folder}' is no key of a run, which is looked up in a store")
        witness = load(folder)
        task = self._task(witness.task)
        if spec_of(task) != spec_of(witness.task):
            raise InvalidInput(
                f"This witness is for {spec_of(witness.task)}; got {spec_of(task)}. Build one for that."
            )
        return WitnessSubject(folder, witness, witness.task)

    def _of_run(self, store: Store, run: Run) -> RunSubject:
        from separatrix.certificates.fitting import require_fit
        from separatrix.evidence import TaskSpec
        from separatrix.records import Reader, thaw
        from separatrix.tasks.specs import task_of
        from separatrix.training.remembered import load_run

        population = load_run(store, run.key).population
        own = task_of(TaskSpec.read(Reader(thaw(run.config["task"]), what=f"the task of run {run.short}")))
        task = self._task(own)
        require_fit(population, task)
        return RunSubject(store, run, population, task)

    def _task(self, own: Task) -> Task:
        """The task that was named; parameters that were not given are those of its own."""
        from separatrix.tasks.interface import make

        if self.kind is None:
            return own
        given = {name: value for name, value in self.parameters.items() if value is not None}
        if self.kind is not type(own):
            return make(self.kind, given)
        known = {field.name: getattr(own, field.name) for field in dataclasses.fields(own) if field.init}
        return make(self.kind, {**known, **given})


def about_a_model(command: Callable[..., int | None], words: Sequence[str]) -> Callable[..., int | None]:
    """`command(asked, *, …)` as a function of a path, a task's flags and the command's own options."""
    name = value_of("--task", words)
    kind = None if name is None else separatrix.TASKS.get(name)
    of_task = Flags([], {}) if kind is None else task_flags(kind)
    own = own_options(command, taken={"asked", *of_task.names})

    def run(path: str, /, **options: Any) -> int | None:
        parameters = of_task.popped(options)
        given = frozenset(options)
        place = options.pop("store", None)
        options.pop("task", None)
        return command(Asked(path, place, kind, parameters, given), **options)

    flags = [_PATH, _TASK, *map(_left_open, of_task.flags), _STORE, *own]
    return assembled(run, flags, like=command)


def _left_open(flag: inspect.Parameter) -> inspect.Parameter:
    """A flag that may be left out, since the run says the rest."""
    type_, *others = typing.get_args(flag.annotation)
    return flag.replace(
        default=None, annotation=Annotated[type_ | None, *others, Parameter(show_default=False)]
    )


_PATH: Final = inspect.Parameter(
    "path",
    inspect.Parameter.POSITIONAL_ONLY,
    annotation=Annotated[
        str,
        Parameter(
            help="the beginning of a run's key, its weights/….safetensors, a store with one run, or the "
            "folder of a witness"
        ),
    ],
)
_TASK: Final = inspect.Parameter(
    "task",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        str | None,
        Parameter(
            help="Task to hold it to, with flags of its own; what is left out is as the run has it. "
            "[default: the run's task]",
            group=Group("Task", sort_key=0),
        ),
    ],
)
_STORE: Final = inspect.Parameter("store", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Place)


def _words(task: Task, answers: JsonValue) -> str:
    import torch

    from separatrix.tasks.interface import Classes

    space = task.target_space
    given = answers if isinstance(answers, tuple) else (answers,)
    if not isinstance(space, Classes):
        rows = given if isinstance(given[0], tuple) else (given,)
        return " ".join(f"({', '.join(map(_short, row))})" for row in rows if isinstance(row, tuple))
    if not all(isinstance(one, int) and one < space.size for one in given):
        return ""
    return " ".join(task.render_target(torch.tensor(one)) for one in given)


def _short(number: JsonValue) -> str:
    """Four digits; what is no finite number is a word already."""
    return f"{number:.4g}" if isinstance(number, int | float) else str(number)


def _is_there(path: Path) -> bool:
    """Whether a path leads somewhere; one that is no path at all does not."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _near(key: str, known: frozenset[str]) -> str:
    """The keys that begin much like this one, as a question."""
    beginnings = {each[: len(key)]: each[: max(len(key), 12)] for each in sorted(known)}
    near = difflib.get_close_matches(key, beginnings, n=3, cutoff=0.7) if len(key) > 2 else []
    return f" Did you mean {' or '.join(beginnings[each] for each in near)}?" if near else ""
