"""What a counterexample says: the hash of the weights it is about, their arithmetic, and numbers as JSON."""

from __future__ import annotations

import hashlib
import math
from typing import cast

import safetensors.torch
import torch
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.explicit.base import ExplicitModel
from separatrix.models.interface import SequenceModel
from separatrix.models.population import Population, population_of
from separatrix.models.quantised import Quantised
from separatrix.precision.naming import name_of
from separatrix.records import JsonValue
from separatrix.witnesses.weight_files import weights_sha256

__all__ = ["arithmetic_of", "json_of", "weights_of"]


def weights_of(model: SequenceModel) -> str:
    """The hash that names the weights: of a witness as its files have it, else of all parameters."""
    if isinstance(model, ExplicitModel):
        return weights_sha256(model)
    tensors = {name: values.contiguous() for name, values in _population(model).state_dict().items()}
    return hashlib.sha256(safetensors.torch.save(tensors)).hexdigest()


def arithmetic_of(model: SequenceModel) -> str:
    """The numbers that a model computes with, and those of its state where they are rounded."""
    if isinstance(model, ExplicitModel):
        return name_of(model.arithmetic)
    dtype = next((values.dtype for values in _population(model).parameters()), torch.float32)
    floats = str(dtype).removeprefix("torch.")
    if isinstance(model, Quantised):
        return f"{floats}, {model.bits} bits a number of the state within ±{model.reach:g}"
    return floats


def json_of(values: Tensor) -> JsonValue:
    """Numbers as JSON has them; what is no finite number, as a word."""
    if values.ndim == 0:
        number = values.item()
        return number if math.isfinite(number) else str(number)
    if values.is_floating_point() and not bool(values.isfinite().all()):
        return tuple(json_of(each) for each in values)
    return cast(JsonValue, values.tolist())


def _population(model: SequenceModel) -> Population:
    inner = model.model if isinstance(model, Quantised) else model
    population = population_of(inner)
    if population is None:
        raise InvalidInput(
            "Counterexamples are about the weights of a witness or of a member of a population; "
            f"got {type(inner).__name__}."
        )
    return population
