"""What can be exported: a witness, a finished run, a population of one, or a member of a larger one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from separatrix.certificates.fitting import require_fit
from separatrix.errors import InvalidInput
from separatrix.evidence import TaskSpec
from separatrix.models.interface import SequenceModel
from separatrix.models.population import Population, population_of
from separatrix.records import Reader, thaw
from separatrix.tasks.interface import Task
from separatrix.tasks.specs import spec_of, task_of
from separatrix.training.remembered import Trained
from separatrix.witnesses.witness import Witness

__all__ = ["Exportable", "Source", "TrainedSource", "WitnessSource", "source_of"]

Exportable = Witness | Trained | Population | SequenceModel


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class WitnessSource:
    """A witness, which knows its task."""

    witness: Witness

    @property
    def task(self) -> Task:
        """What it is a witness for."""
        return self.witness.task


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedSource:
    """A population of one, and its task if that is known."""

    population: Population
    task: Task | None


Source = WitnessSource | TrainedSource


def source_of(model: Exportable, task: Task | None) -> Source:
    """What a caller has given; a task beside it must fit it."""
    if isinstance(model, Witness):
        if task is not None and spec_of(task) != spec_of(model.task):
            raise InvalidInput(
                f"This witness is for {spec_of(model.task)}; got {spec_of(task)}. Leave it out."
            )
        return WitnessSource(witness=model)
    if isinstance(model, Trained):
        own = _task_of(model)
        population, task = model.population, own if task is None else task
    else:
        found = model if isinstance(model, Population) else population_of(model)
        if found is None:
            raise InvalidInput(
                "A witness, a run, a population of one or a member of a population is exported; got a "
                f"{type(model).__name__}."
            )
        population = found
    if population.members != 1:
        raise InvalidInput(
            f"One model is exported; this population has {population.members} members. Give one of them, "
            "such as population.member(0)."
        )
    if task is not None:
        require_fit(population, task)
    return TrainedSource(population=population, task=task)


def _task_of(trained: Trained) -> Task | None:
    if trained.run is None:
        return None
    what = f"the task of run {trained.run.short}"
    return task_of(TaskSpec.read(Reader(thaw(trained.run.config["task"]), what=what)))
