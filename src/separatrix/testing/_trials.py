"""What the conformance tests of models build and compare: populations, inputs, gradients, states."""

from __future__ import annotations

import math
import unittest
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import torch
from torch import Tensor

from separatrix.errors import SeparatrixError
from separatrix.models.laws import Numbers
from separatrix.models.members import taken
from separatrix.models.population import ModelConfig, Population, State, signature_of
from separatrix.randomness import Draws
from separatrix.tasks.interface import Task, Tokens

__all__ = ["BATCH", "SEEDS", "Trial"]

Trial: TypeAlias = tuple[type[Population], ModelConfig, Task]
"""A model, its parameters, and a task to put it to."""

BATCH: Final = 3
"""Examples of each member."""
SEEDS: Final = (11, 12, 13)
"""Those of the three members that most tests build."""
_STIR: Final = 0.05


def named(trial: Trial) -> str:
    """A trial in messages."""
    kind, config, task = trial
    return f"{kind.name} ({config}) on {task}"


def made(trial: Trial, *, seeds: Sequence[int] = SEEDS, dtype: torch.dtype = torch.float32) -> Population:
    """The population, its trained weights stirred a little, each member's by its own seed."""
    kind, config, task = trial
    model = kind(config, signature_of(task), members=len(seeds)).initialise(seeds)
    with torch.no_grad():
        for name, values in model.named_parameters():
            for member, seed in enumerate(seeds):
                numbers = Numbers(seed=seed, parameter=f"{name}/stir", shape=tuple(values.shape[1:]))
                values[member] += _STIR * numbers.normal()
    return model.to(dtype)


def inputs_of(trial: Trial, *, seeds: Sequence[int] = SEEDS, dtype: torch.dtype = torch.float32) -> Tensor:
    """Examples of the task, each member's by its own seed."""
    task = trial[2]
    rows = torch.stack([task.sample(BATCH, seed=seed).inputs for seed in seeds])
    return rows if isinstance(task.input_space, Tokens) else rows.to(dtype)


def asked(trial: Trial) -> Iterator[Tensor]:
    """Positions to ask for: one of each example, and several in no order, some of them twice."""
    for labels in (1, 4):
        draws = Draws(seed=1, stream="conformance", batch=len(SEEDS) * BATCH)
        yield draws.integers("at", (labels,), trial[2].length).view(len(SEEDS), BATCH, labels)


def far(found: Tensor, expected: Tensor) -> float:
    """The largest difference, beside the largest expected number or 1; infinite where one is no number."""
    if not expected.numel():
        return 0.0
    gap = float((found.detach() - expected.detach()).abs().max())
    return gap / max(1.0, float(expected.detach().abs().max())) if math.isfinite(gap) else math.inf


def cotangent(outputs: Tensor, seeds: Sequence[int]) -> Tensor:
    """What the loss makes of each output: random numbers, each member's by its own seed."""
    shape = tuple(outputs.shape[1:])
    rows = [Numbers(seed=seed, parameter="cotangent", shape=shape).normal() for seed in seeds]
    return torch.stack(rows).to(outputs)


def gradients(model: Population, outputs: Tensor, seeds: Sequence[int] = SEEDS) -> dict[str, Tensor]:
    """Those of a random combination of each member's outputs, by the parameter's name."""
    names = dict(model.named_parameters())
    loss = (outputs * cotangent(outputs, seeds)).sum()
    slopes = torch.autograd.grad(loss, list(names.values()), retain_graph=True, allow_unused=True)
    return {
        name: torch.zeros_like(values) if slope is None else slope
        for (name, values), slope in zip(names.items(), slopes, strict=True)
    }


def cuts(length: int) -> list[int]:
    """Where to cut an input in two."""
    return sorted({1, 2, length // 3, length // 2, length - 1} & set(range(1, length)))


def replaced(task: Task, inputs: Tensor) -> Tensor:
    """Something else of the same kind at every position."""
    space = task.input_space
    return (inputs + 1) % space.size if isinstance(space, Tokens) else inputs.flip(-1) + 1


def in_one_row(
    model: Population, first: Tensor, second: Tensor, *, seam: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs of two inputs in rows that both share, with something else between them; those at a few
    positions if only they are asked for, and as they are among all.
    """
    between = second[:, :, -1:].expand(*second.shape[:2], seam, *second.shape[3:])
    row, cut = torch.cat([first, between, second], dim=2), first.shape[2]
    begins = torch.full(first.shape[:2], cut + seam)
    place = torch.arange(row.shape[2])
    at = place[(place < cut) | (place >= cut + seam)].expand(*begins.shape, -1)
    few = at[:, :, [0, cut - 1, cut, -1]]
    whole = model(row, None, begins)
    return taken(whole, at), model(row, few, begins), taken(whole, few)


def carried(trial: Trial, state: State, lead: tuple[int, int]) -> Iterator[int]:
    """Numbers that each tensor of a state holds for one member and one example."""
    if isinstance(state, Tensor):
        assert tuple(state.shape[:2]) == lead, (
            f"{named(trial)}: a tensor of its state has shape {tuple(state.shape)}; its first axes must be "
            f"member and batch, {lead}"
        )
        yield state[0, 0].numel()
    elif isinstance(state, list | tuple):
        for part in state:
            yield from carried(trial, part, lead)
    else:
        assert isinstance(state, int | float), (
            f"{named(trial)}: a state is made of lists, tuples, tensors and plain numbers; it has a "
            f"{type(state).__name__}"
        )


def refuses(call: Callable[[], object]) -> bool:
    """Whether a call is answered with an error in words."""
    try:
        call()
    except SeparatrixError:
        return True
    return False


def need_gpu() -> None:
    """Skip the test where there is none."""
    if not torch.cuda.is_available():
        raise unittest.SkipTest("needs a CUDA device")
