"""Small models of one layer with weights of any size, and all inputs of a region, one by one."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from separatrix.certificates.one_layer.contexts import Contexts
from separatrix.certificates.one_layer.form import OneLayer, form_of
from separatrix.certificates.one_layer.tables import Tables, tables_of
from separatrix.certificates.questions import Question, Region, Requirements
from separatrix.models import MODELS, model
from separatrix.models.population import Population, signature_of
from separatrix.models.stack import Stack
from separatrix.tasks import Task, Tokens


def drawn(
    asked: Task,
    kind: str = "transformer",
    *,
    seed: int = 0,
    scale: float = 1.0,
    dtype: torch.dtype = torch.float64,
    **params: Any,
) -> Stack:
    """A model with random weights: its initial ones times `scale`, and biases and norms that are not plain.

    Every weight is a float32, so that the same model can compute in either width.
    """
    params = {"width": 8, "heads": 2, "ffn": 16} | params
    population = MODELS.get(kind)(model(kind, **params), signature_of(asked), members=1).initialise([seed])
    assert isinstance(population, Stack)
    dice = torch.Generator().manual_seed(seed + 7919)
    with torch.no_grad():
        for name, values in population.named_parameters():
            noise = torch.randn(values.shape, generator=dice)
            if "norm" in name or "second" in name:
                values.add_(noise * 0.3)
            elif "bias" in name:
                values.copy_(noise * 0.02 * scale)
            else:
                values.mul_(scale)
    return population.to(dtype)


def every(region: Region, seen: int) -> Tensor:
    """All sequences of options of a region, as far as a model has seen them, each once."""
    region = region.upto(seen)
    choices = [row.nonzero().squeeze(1).tolist() for row in region.allowed]
    if region.order is None:
        return torch.tensor(list(itertools.product(*choices)))
    paths: list[tuple[tuple[int, ...], int]] = [((), 0)]
    after = region.order.after.tolist()
    for allowed in choices:
        paths = [
            ((*path, option), after[state][option])
            for path, state in paths
            for option in allowed
            if after[state][option] >= 0
        ]
    return torch.tensor([path for path, state in paths if bool(region.order.accepts[state])])


def spelled(asked: Task, question: Question, region: Region, options: Tensor) -> Tensor:
    """The inputs that these options begin, whole, with padding behind.

    What a model does not see is any option that is allowed; it need not be one that the region's order has.
    """
    missing = question.length - options.shape[1]
    if missing:
        rest = region.allowed[-missing:].int().argmax(1).expand(len(options), -1)
        options = torch.cat([options, rest], 1)
    rows = question.inputs(options)
    space = asked.input_space
    behind = asked.length - rows.shape[1]
    if behind:
        assert isinstance(space, Tokens)
        assert space.pad is not None
        rows = torch.cat([rows, torch.full((len(rows), behind), space.pad)], 1)
    return rows


@torch.no_grad()
def outputs(population: Population, question: Question, rows: Tensor, *, at: bool = True) -> Tensor:
    """The model's own outputs where the question asks, by either of its paths."""
    places = torch.full((1, len(rows), 1), question.asked)
    found: Tensor = population(rows.unsqueeze(0), places if at else None)[0]
    return found[:, 0 if at else question.asked]


def weights_of(population: Population) -> dict[str, Tensor]:
    """The weights by name, to be edited in place."""
    return {name: values.data for name, values in population.named_parameters()}


def leads(found: Tensor, required: Requirements) -> Tensor:
    """How far each answer is from each rival, in float64."""
    return found.double() @ required.directions.T + required.offsets


def seen_by(population: Population, question: Question) -> tuple[OneLayer, Tables]:
    """The form of a model, and a question's tables in it."""
    form = form_of(population)
    return form, tables_of(form, question)


def streams(contexts: Contexts, options: Tensor) -> Tensor:
    """The streams behind attention that these options make."""
    return contexts.tables.stream(*contexts.tables.sums(options))


def random_tables(dice: torch.Generator, *, heads: int, positions: int, options: int, sharp: float) -> Tables:
    """Tables of no model: scores with deviation `sharp`, values and the rest of size 1."""
    part, width = 3, 5
    scores = torch.randn(heads, positions, options, generator=dice, dtype=torch.float64) * sharp
    return Tables(
        weights=(scores - scores.amax((1, 2), keepdim=True)).exp(),
        values=torch.randn(heads, positions, options, part, generator=dice, dtype=torch.float64),
        own=torch.randn(width, generator=dice, dtype=torch.float64),
        outward=torch.randn(heads, part, width, generator=dice, dtype=torch.float64) / math.sqrt(part),
    )
