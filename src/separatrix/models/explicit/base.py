"""Models whose every weight is written down: plain tensors, evaluated in any number system.

An explicit model is data. `tensors()` and `spec()` are all of it: a file holds these two, and reading them
back gives the same model. Which numbers it computes with is no part of them but a value beside them, so the
same weights run in float64, in float32 and in p bits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from separatrix.models.interface import SequenceModel
from separatrix.precision import Float64, Numbers, NumberSystem
from separatrix.records import JsonObject

__all__ = ["ExplicitModel"]


class ExplicitModel(SequenceModel):
    """The interface of all explicit models. Weights are float64 and on the CPU; they follow the inputs."""

    form: ClassVar[str]
    """The name under which a file says of which form a model is."""

    @property
    @abstractmethod
    def arithmetic(self) -> NumberSystem:
        """The numbers it computes with."""

    @abstractmethod
    def with_arithmetic(self, system: NumberSystem) -> ExplicitModel:
        """The same weights, computing with other numbers."""

    @abstractmethod
    def outputs(
        self, inputs: Shaped[Tensor, "batch pos *width"], *, at: Int[Tensor, "batch asked"] | None = None
    ) -> Numbers:
        """Outputs (batch, asked, out) at the positions asked for, at all of them if none are named."""

    @property
    @abstractmethod
    def classes(self) -> int | None:
        """How many classes it scores; None if its outputs are vectors."""

    @abstractmethod
    def tensors(self) -> Mapping[str, Float[Tensor, "..."] | Int[Tensor, "..."]]:
        """Every weight, by a name that says where it belongs."""

    @abstractmethod
    def spec(self) -> JsonObject:
        """All that is no weight: the form, the shapes, the codes, which residuals there are."""

    @abstractmethod
    def work(self, n: int) -> int:
        """Logits, or steps of a recurrence, for an input of n positions: to tell minutes from years."""

    @abstractmethod
    def describe(self) -> str:
        """What is in it, line by line: inputs, heads, what each reads and writes."""

    def __str__(self) -> str:
        return self.describe()

    def forward(self, inputs: Shaped[Tensor, "batch pos *width"]) -> Float[Tensor, "batch pos out"]:
        """The outputs at every position, as float64."""
        return self.arithmetic.decode_float64(self.outputs(inputs))

    def answers(
        self, inputs: Shaped[Tensor, "batch pos *width"], *, at: Int[Tensor, "batch asked"] | None = None
    ) -> Int[Tensor, "batch asked"] | Float[Tensor, "batch asked out"]:
        """The class of the largest score, the first where several are; or the vector itself, as float64."""
        outputs = self.outputs(inputs, at=at)
        if self.classes is None:
            return self.arithmetic.decode_float64(outputs)
        return self.arithmetic.argmax(outputs, -1)


def default_arithmetic() -> NumberSystem:
    """What a model computes with unless told otherwise."""
    return Float64()


def weight(values: object, *shape: int) -> Float[Tensor, "..."]:
    """A float64 weight of the given shape, checked to be finite."""
    tensor = torch.as_tensor(values, dtype=torch.float64)
    assert tuple(tensor.shape) == shape, f"a weight of shape {shape} came as {tuple(tensor.shape)}"
    return tensor
