"""A job: one task, one model, one way to train, and the members that differ. A plan is several jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

from separatrix.evidence import TaskSpec
from separatrix.models.population import ModelConfig, Population, signature_of
from separatrix.models.specs import ModelSpec, build, kind_and_config, model_spec_of
from separatrix.options import require
from separatrix.records import JsonObject, Reader, Record
from separatrix.store.keys import key_of
from separatrix.tasks.interface import Task
from separatrix.tasks.specs import spec_of, task_of
from separatrix.training.labelled import length_of_two
from separatrix.training.recipes import Member, Training

__all__ = ["Job", "Plan", "job_for"]

_TRIED: Final = 16
"""Samples by which one sees whether a task draws neighbours that fill a row."""

_MOST_MEMBERS = 100_000


@dataclass(frozen=True, kw_only=True)
class Job(Record):
    """Everything that decides what comes of a training, and nothing else."""

    SCHEMA: ClassVar[str] = "separatrix.job"

    task: TaskSpec
    model: ModelSpec
    training: Training
    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        require(len(self.members) >= 1, "A job has at least one member; none was given.")
        require(
            len(self.members) <= _MOST_MEMBERS,
            f"A job has at most {_MOST_MEMBERS:,} members; got {len(self.members):,}.",
        )
        twice = next((m for m in self.members if self.members.count(m) > 1), None) if self._few else None
        require(twice is None, f"The members of a job differ; there are two with {twice}.")

    @property
    def _few(self) -> bool:
        return len(self.members) != len(set(self.members))

    @cached_property
    def built_task(self) -> Task:
        """The task itself."""
        return task_of(self.task)

    def population(self, members: int, *, own_code: bool = False) -> Population:
        """The model without weights, for so many members; a task that does not fit it is refused.

        `own_code` allows to run the code that a model such as `module:factory` names.
        """
        population = build(self.model, signature_of(self.built_task), members, own_code=own_code)
        if self.training.against is not None:
            from separatrix.training.against import require_covered  # noqa: PLC0415  few trainings need it

            require_covered(population, self.built_task)
        if self.training.bands > 1:
            self._require_banded(population)
        if self.training.paired:
            self._require_paired(population)
        return population

    def _require_banded(self, population: Population) -> None:
        """Refuse bands where there is nothing to leave out, or where what is left out would be seen."""
        least, most = self.built_task.sampled_sizes
        bands = self.training.bands
        require(
            least < most,
            f"Samples of {self.task.name} are not drawn by length with these parameters, so it has no bands; "
            f"got bands={bands}. Try bands=1.",
        )
        require(
            population.is_causal,
            f"Bands leave padding out, which a model that looks ahead sees, and {self.model.name} is not "
            f"known to be causal; got bands={bands}. Try bands=1.",
        )

    def _require_paired(self, population: Population) -> None:
        """Refuse two inputs a row where there is nothing to gain, or where one would see the other."""
        least, most = self.built_task.sampled_sizes
        require(
            least < most,
            f"Samples of {self.task.name} are not drawn by length with these parameters, so that two of them "
            "fill no row; got paired=True. Leave it out.",
        )
        require(
            population.seam is not None,
            f"{self.model.name} cannot keep two inputs of a row apart, so each needs its own; got "
            "paired=True. Leave it out, or take lstm, mamba, retnet or linear-transformer.",
        )
        drawn = self.built_task.sample(_TRIED, seed=0, mirrored=True)
        together = set(drawn.lengths.view(-1, 2).sum(1).tolist())
        require(
            together == {length_of_two(self.built_task, 0)},
            f"Samples of {self.task.name} do not heed `mirrored`: two of them do not fill a row; got "
            "paired=True. Take their sizes from `self.drawn_sizes(draws)`, or leave it out.",
        )

    def config_of(self, member: Member) -> JsonObject:
        """The full config of one run, which its key is the hash of.

        Where how long a member goes on depends on the others, the whole job belongs to it.
        """
        config: JsonObject = {
            "task": self.task.to_fields(),
            "model": self.model.to_fields(),
            "member": member.to_fields(),
            "training": self.training.to_fields(),
        }
        return {**config, "population": self.key} if self.training.compares else config

    @property
    def short_name(self) -> str:
        """The model and the task in a few words."""
        sizes = [self.model.params[name] for name in ("layers", "width") if name in self.model.params]
        size = f"-({','.join(map(str, sizes))})" if sizes else ""
        form = self.task.params.get("form")
        task = f"{self.task.name} {form}" if form else self.task.name
        return f"{self.model.name}{size} on {task} at {self.built_task.n:,}"

    @property
    def key(self) -> str:
        """The hash of the whole job: checkpoints are kept under it."""
        return key_of(self.to_fields())

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "task": self.task.to_fields(),
            "model": self.model.to_fields(),
            "training": self.training.to_fields(),
            "members": [member.to_fields() for member in self.members],
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Job:
        """The job whose fields `read` holds."""
        return cls(
            task=read.record("task", TaskSpec),
            model=read.record("model", ModelSpec),
            training=read.record("training", Training),
            members=read.records("members", Member),
        )


@dataclass(frozen=True, kw_only=True)
class Plan(Record):
    """Jobs to be done one after another."""

    SCHEMA: ClassVar[str] = "separatrix.plan"

    jobs: tuple[Job, ...]

    def __post_init__(self) -> None:
        require(len(self.jobs) >= 1, "A plan has at least one job; none was given.")

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {"jobs": [job.to_fields() for job in self.jobs]}

    @classmethod
    def from_fields(cls, read: Reader) -> Plan:
        """The plan whose fields `read` holds."""
        return cls(jobs=read.records("jobs", Job))


def job_for(
    task: Task, model: str | ModelConfig, *, members: Sequence[Member], training: Training | None = None
) -> Job:
    """The job of training these members of a model, given by name or by config, on a task."""
    require(
        isinstance(task, Task),
        f"A task is made by separatrix.task('dyck', n=20), for one; got a {type(task).__name__}.",
    )
    kind, config = kind_and_config(model)
    return Job(
        task=spec_of(task),
        model=model_spec_of(kind, config),
        training=training or Training(),
        members=tuple(members),
    )
