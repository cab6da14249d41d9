"""What the config of one of our folders says about its model, read as if a stranger had written it.

The same record goes for a witness and for a trained model. It holds all but the weights, and reading it runs
nothing: a model that is made by code of the user's own is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.evidence import TaskSpec
from separatrix.generation.scripts import Script, script_named
from separatrix.models.population import CausalPopulation, Population, signature_of
from separatrix.models.specs import ModelSpec, build, is_own
from separatrix.records import JsonObject, Reader, Record
from separatrix.tasks.interface import Task
from separatrix.tasks.is_tree import IsTree
from separatrix.tasks.specs import task_of
from separatrix.witnesses.files import WitnessRecord

__all__ = ["HubRecord", "TensorShape", "shapes_of"]

_DTYPES: Final[Mapping[str, torch.dtype]] = {"float64": torch.float64, "int64": torch.int64}
_MOST_TENSORS: Final = 1 << 16
_MOST_NUMBERS: Final = 1 << 27
_MOST_AXES: Final = 8
_LONGEST_NAME: Final = 200
_SCRIPTS: Final = {
    "direct": "is-tree-verdict",
    "cot": "is-tree-tour",
    "retrieval": "is-tree-compact-searches",
}


@final
@dataclass(frozen=True, kw_only=True)
class TensorShape(Record):
    """One of a witness's weights: its name, its type and its axes."""

    SCHEMA = "separatrix.tensor-shape"

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.dtype not in _DTYPES:
            raise InvalidInput(f"Weights of a witness are {' or '.join(_DTYPES)}; got {self.dtype[:40]!r}.")
        if len(self.shape) > _MOST_AXES:
            raise InvalidInput(f"A tensor has at most {_MOST_AXES} axes; got {len(self.shape)}.")

    @property
    def numbers(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    def empty(self) -> Tensor:
        """Room for it, on the default device."""
        return torch.zeros(self.shape, dtype=_DTYPES[self.dtype])

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}

    @classmethod
    def from_fields(cls, read: Reader) -> TensorShape:
        """The shape whose fields `read` holds."""
        axes = read.items("shape")
        if not all(isinstance(axis, int) and not isinstance(axis, bool) and axis >= 0 for axis in axes):
            raise InvalidFile(f"Field 'shape' of {read.what} must be a list of whole numbers from 0.")
        return cls(
            name=read.text("name", longest=_LONGEST_NAME),
            dtype=read.text("dtype", longest=_LONGEST_NAME),
            shape=tuple(int(axis) for axis in axes if isinstance(axis, int)),
        )


@final
@dataclass(frozen=True, kw_only=True)
class HubRecord(Record):
    """A witness with the shapes of its weights, or a trained model and the task it was trained on."""

    SCHEMA = "separatrix.hub"

    task: TaskSpec
    model: ModelSpec | None = None
    witness: WitnessRecord | None = None
    tensors: tuple[TensorShape, ...] = ()
    """Of a witness; the weights of a trained model have the shapes that its spec gives them."""

    def __post_init__(self) -> None:
        if (self.model is None) == (self.witness is None):
            raise InvalidInput("A folder holds a witness or a trained model, one of the two.")
        if self.model is not None and is_own(self.model.name):
            raise InvalidInput(
                f"The model {self.model.name} is made by code of its own, which no folder brings along; "
                "only the models that `separatrix models` lists are exported."
            )
        if self.witness is not None and self.witness.task != self.task:
            raise InvalidInput("A folder and the witness in it are for one task.")
        names = {each.name for each in self.tensors}
        if len(names) != len(self.tensors) or bool(names) != (self.witness is not None):
            raise InvalidInput("A witness names each of its weights once, and a trained model names none.")
        if len(names) > _MOST_TENSORS or sum(each.numbers for each in self.tensors) > _MOST_NUMBERS:
            raise InvalidInput(
                f"A witness has at most {_MOST_TENSORS:,} tensors and {_MOST_NUMBERS:,} numbers here."
            )

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "task": self.task.to_fields(),
            "model": None if self.model is None else self.model.to_fields(),
            "witness": None if self.witness is None else self.witness.to_fields(),
            "tensors": [each.to_fields() for each in self.tensors],
        }

    @classmethod
    def from_fields(cls, read: Reader) -> HubRecord:
        """The record whose fields `read` holds."""
        return cls(
            task=read.record("task", TaskSpec),
            model=read.optional_record("model", ModelSpec),
            witness=read.optional_record("witness", WitnessRecord),
            tensors=read.records("tensors", TensorShape),
        )

    def made_task(self) -> Task:
        """The task."""
        return task_of(self.task)

    def script(self) -> Script | None:
        """How it is asked, where it writes before it answers."""
        task = self.made_task()
        if self.witness is not None:
            return None if self.witness.script is None else script_named(self.witness.script, task)
        if not isinstance(task, IsTree):
            return None
        kind = (
            "is-tree-searches" if task.form == "retrieval" and task.trace == "full" else _SCRIPTS[task.form]
        )
        return script_named(kind, task)

    def population(self) -> CausalPopulation:
        """The trained model, without its weights yet."""
        assert self.model is not None
        population = build(self.model, signature_of(self.made_task()), 1)
        return require_causal(population)


def require_causal(population: Population) -> CausalPopulation:
    """Refuse a model that looks ahead."""
    if not isinstance(population, CausalPopulation) or not population.is_causal:
        raise InvalidInput(
            f"This {population.name} does not read from left to right, so it is no causal language model; "
            "export it to ONNX instead."
        )
    return population


def shapes_of(tensors: Mapping[str, Tensor]) -> tuple[TensorShape, ...]:
    """Names, types and axes of a witness's weights, in the order of their names."""
    return tuple(
        TensorShape(name=name, dtype=str(value.dtype).removeprefix("torch."), shape=tuple(value.shape))
        for name, value in sorted(tensors.items())
    )
