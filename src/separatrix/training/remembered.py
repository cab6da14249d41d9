"""What a store remembers of members that have finished: as they came out then, or why that is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from separatrix.errors import InvalidFile, InvalidInput, NewerFile
from separatrix.evidence import TaskSpec
from separatrix.models.population import Population
from separatrix.models.specs import ModelSpec
from separatrix.records import Reader, freeze, thaw
from separatrix.store import Interval, Point, Run, Store, key_of, wilson
from separatrix.store.aside import set_aside
from separatrix.store.runs import FINISHED
from separatrix.training.jobs import Job
from separatrix.training.recipes import Member, Training

__all__ = ["Remembered", "Trained", "is_finished", "load_run", "population_of", "remembered"]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A member at its end: what came of it, its curve, and its weights as a population of one."""

    member: Member
    status: str
    steps: int
    solved_at: int | None
    correct: int
    examples: int
    label_accuracy: float
    """Of single labels, where an example has several."""
    seconds: float
    curve: tuple[Point, ...] = field(repr=False)
    population: Population = field(repr=False)
    run: Run | None = field(repr=False)
    """Its row in the store, if there is a store."""

    @property
    def accuracy(self) -> float:
        """On fresh inputs of full length, each right if all its labels are."""
        return self.correct / self.examples

    @property
    def interval(self) -> Interval:
        """Wilson's 95 % interval of the accuracy."""
        return wilson(self.correct, self.examples)


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """The members of a job that a store has, by number; `notes` say whose files are of no use, and why."""

    finished: Mapping[int, Trained] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def remembered(job: Job, store: Store, *, own_code: bool) -> Remembered:
    """What a store has of a job. A run of which a file is damaged or missing is set aside and begun anew."""
    keys = store.all_keys()
    finished: dict[int, Trained] = {}
    lost: list[tuple[Run, Member, str]] = []
    for number, member in enumerate(job.members):
        key = key_of(job.config_of(member))
        run = store.run(key) if key in keys else None
        if run is None or run.status not in FINISHED:
            continue
        try:
            finished[number] = _as_it_was(job, store, member, run, own_code=own_code)
        except InvalidFile as problem:
            # The file may be whole: its owner can say so, or a newer version.
            if isinstance(problem, NewerFile) or isinstance(problem.__cause__, PermissionError):
                raise
            lost.append((run, member, f"{problem} The run"))
    if lost and job.training.stop == "first":
        # Else one of the lost would be taken for one that never began, because another had solved the task.
        # The solver goes first: who is killed on the way must find the others as they are.
        for number in [number for number, one in finished.items() if one.solved_at is not None]:
            one = finished.pop(number)
            assert one.run is not None
            lost.insert(0, (one.run, one.member, "With those it had solved the task for, the run"))
    notes = tuple(
        f"{why} {run.short} ({member}) is trained again; what there was of it is kept in "
        f"'{set_aside(store, run)}'."
        for run, member, why in lost
    )
    return Remembered(finished=finished, notes=notes)


def load_run(store: Store, key: str, *, own_code: bool = False) -> Trained:
    """A finished member from a store, by its key or the beginning of it, ready to be asked.

    `own_code` allows to run the code that a model such as `module:factory` names.
    """
    run = store.run(key)
    read = Reader(thaw(freeze(run.config)), what=f"the config of run {run.short}")
    member = read.record("member", Member)
    job = Job(
        task=read.record("task", TaskSpec),
        model=read.record("model", ModelSpec),
        training=read.record("training", Training),
        members=(member,),
    )
    if run.status not in FINISHED:
        raise InvalidInput(f"The run {run.short} has not finished; train it to its end first.")
    return _as_it_was(job, store, member, run, own_code=own_code)


def _as_it_was(job: Job, store: Store, member: Member, run: Run, *, own_code: bool) -> Trained:
    if run.correct is None or run.examples is None:
        raise InvalidFile(f"The run {run.short} has finished without an accuracy; `separatrix runs show` it.")
    path = store.place("weights", run.key, "safetensors")
    if not path.exists():
        raise InvalidFile(f"The weights '{path}' are missing.")
    tensors = store.weights(run.key).tensors
    try:
        population = population_of(job, tensors, own_code=own_code)
    except (RuntimeError, StopIteration) as failure:  # names and shapes of another version
        raise InvalidFile(
            f"'{path}' does not fit this model: {' '.join(str(failure).split())[:200]}."
        ) from failure
    return Trained(
        member=member,
        status=run.status,
        steps=run.steps,
        solved_at=run.solved_at,
        correct=run.correct,
        examples=run.examples,
        label_accuracy=run.label_accuracy or 0.0,
        seconds=run.seconds,
        curve=store.curve(run.key),
        population=population,
        run=run,
    )


def population_of(job: Job, tensors: Mapping[str, Tensor], *, own_code: bool) -> Population:
    """A population of one with the weights of a finished member."""
    kind = next(value.dtype for value in tensors.values() if value.is_floating_point())
    single = job.population(1, own_code=own_code).to(kind)
    single.load_state_dict({name: value.unsqueeze(0) for name, value in tensors.items()})
    return single


def is_finished(job: Job, store: Store) -> bool:
    """Whether the store holds an end for each member, or needs none because another has won."""
    found = [run.status for run in _members(job, store)]
    return len(found) == len(job.members) and all(status in (*FINISHED, "stopped") for status in found)


def _members(job: Job, store: Store) -> list[Run]:
    wanted = {key_of(job.config_of(member)) for member in job.members}
    return [run for run in store.runs(task=job.task.name, model=job.model.name) if run.key in wanted]
