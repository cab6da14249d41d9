"""What a step holds in memory: reckoned before the first, so that what cannot fit is refused in a sentence.

On a CPU nothing else would do that: a system that has no memory left kills the process without a word.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from torch import Tensor

from separatrix.errors import TooLarge
from separatrix.models.kernels.choice import use_backend
from separatrix.models.population import Population, signature_of
from separatrix.models.specs import config_of, kind_of
from separatrix.models.stack import Frame
from separatrix.tasks.interface import Classes, Reals
from separatrix.training.engine import arithmetic
from separatrix.training.jobs import Job
from separatrix.training.labelled import Questions, answered, judged, length_of_two

if TYPE_CHECKING:
    from separatrix.training.placing import Placing

__all__ = ["in_thousands", "memory_of", "ran_out", "require_room", "step_bytes"]

_MATRICES: Final = 5
"""Weights, Adam's two moments of each, and their gradient as it comes and as one matrix."""
_MEASURED_AT: Final = (128, 256)
"""Lengths at which a long input's memory is measured; between them it grows as it does beyond."""
_GENEROUS: Final = 256
"""Streams of numbers that a block keeps for its gradient at the very most."""
_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container says how much of the machine it may use."""
_OUT_OF_MEMORY: Final = ("can't allocate memory", "not enough memory", "DefaultCPUAllocator", "out of memory")


def ran_out(error: BaseException) -> bool:
    """Whether an error says that there is no memory left; torch has several ways to say it."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY)


def require_room(job: Job, placing: Placing) -> None:
    """Refuse a job of which a single step cannot fit in the memory of its device."""
    memory = memory_of(placing.device)
    if memory is None or _surely_fits(job, placing, memory):
        return
    needed = step_bytes(job, placing)
    if needed <= memory:
        return
    seats, batch, where = placing.seats, job.training.batch, placing.device.type
    members = "1 member" if seats == 1 else f"{seats:,} members"
    examples = "1 example" if batch == 1 else f"{batch:,} examples"
    fitting = memory * seats // needed
    advice = f"seats={fitting:,}" if fitting else "a smaller model, batch or n"
    raise TooLarge(
        f"A step of {members} on {examples} of {job.built_task.length:,} positions needs at least "
        f"{in_thousands(needed)}B of memory, and {'this machine' if where == 'cpu' else 'the device'} has "
        f"{in_thousands(memory)}B; try {advice}."
    )


def step_bytes(job: Job, placing: Placing) -> int:
    """Bytes that a step of the whole population holds at once, at least.

    Weights with what the optimiser keeps, the examples, and what the way forward keeps for the way back.
    """
    task, seats = job.built_task, placing.seats
    parameters = sum(values.numel() for values in _single(job, placing).parameters())
    targets = 8 if isinstance(task.target_space, Classes) else 4 * task.target_space.width
    inputs = 4 * task.input_space.width if isinstance(task.input_space, Reals) else 8
    example = task.length * (inputs + targets + 1)  # with the mask of what is labelled
    kept = _floor(job, placing) if placing.device.type == "cuda" else _kept(job, placing)
    kept_of_example = int(kept.example * _share_of_length(job))
    return seats * (
        _MATRICES * _number(job) * parameters + kept.member + job.training.batch * (example + kept_of_example)
    )


def memory_of(device: torch.device) -> int | None:
    """Bytes of a device's memory, or of what this process may use of the machine's; None if nobody says."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return min(_machine(), default=None)


def _machine() -> Iterator[int]:
    with suppress(OSError, ValueError):
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for place in _LIMITS:
        with suppress(OSError, ValueError):  # no such file, or `max`
            yield int(Path(place).read_text())


def _share_of_length(job: Job) -> float:
    """Positions of the longest step for each of its examples, over those that the task has."""
    task = job.built_task
    return length_of_two(task, 0) / (2 * task.length) if job.training.paired else 1.0


def _single(job: Job, placing: Placing) -> Population:
    return job.population(1, own_code=placing.own_code)


def _number(job: Job) -> int:
    return 8 if job.training.precision == "float64" else 4


def _surely_fits(job: Job, placing: Placing, memory: int) -> bool:
    """Whether a look at the counts is enough."""
    population = _single(job, placing)
    parameters = sum(values.numel() for values in population.parameters())
    widest = max(population.config.width, *population.shape, population.signature.out)
    stream = job.training.batch * job.built_task.length * widest * (population.depth + 1)
    return placing.seats * 8 * (_MATRICES * parameters + _GENEROUS * stream) < memory


class _Kept(NamedTuple):
    """Bytes that the way forward keeps for the way back: once for a member, and for each of its examples."""

    member: int
    example: int


def _floor(job: Job, placing: Placing) -> _Kept:
    """What is left whatever kernels compute it: the stream before both halves of a block."""
    population = _single(job, placing)
    if not isinstance(population, Frame):
        return _Kept(0, 0)
    number = 2 if job.training.precision == "bfloat16" else _number(job)
    # The last block answers at labelled positions only.
    return _Kept(0, 2 * number * (population.depth - 1) * population.config.width * job.built_task.length)


def _kept(job: Job, placing: Placing) -> _Kept:
    """Measured at the task's own length or at shorter ones; too little where it grows faster than they."""
    length = job.built_task.length
    low, high = _MEASURED_AT
    if length <= high:
        return _measured(job, placing, length)
    first, second = _measured(job, placing, low), _measured(job, placing, high)
    member, example = (
        most + max(0, most - least) * (length - high) // (high - low)
        for least, most in zip(first, second, strict=True)
    )
    return _Kept(member, example)


def _measured(job: Job, placing: Placing, length: int) -> _Kept:
    """From what one example of this length leaves, and what two do; nothing if it cannot be run."""
    try:
        kind = kind_of(job.model.name, own_code=placing.own_code)
        config = config_of(job.model, own_code=placing.own_code)
        signature = dataclasses.replace(signature_of(job.built_task), length=length)
        population = kind(config, signature, members=1)
        population.to(torch.float64 if job.training.precision == "float64" else torch.float32)
        use_backend(population, placing.backend)
        one, two = (_left_behind(job, population, batch) for batch in (1, 2))
    except Exception:  # a user's own module may raise anything at a length that it was not made for
        return _Kept(0, 0)
    return _Kept(max(0, 2 * one - two), max(0, two - one))


def _left_behind(job: Job, population: Population, batch: int) -> int:
    """Bytes that the way forward on so many examples keeps for the way back, weights left out."""
    known = {values.untyped_storage().data_ptr() for values in population.state_dict().values()}
    kept: dict[int, int] = {}

    def keep(values: Tensor) -> Tensor:
        storage = values.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return values

    asked = _questions(job, population, batch)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda values: values):
        with arithmetic(job.training.precision, torch.device("cpu")):
            outputs = answered(population, asked)
        # The loss holds on to all that was kept, so that no two of it have one address.
        loss = judged(outputs, asked, job.built_task.target_space).losses.sum()
    del loss
    return sum(size for place, size in kept.items() if place not in known)


def _questions(job: Job, population: Population, batch: int) -> Questions:
    """Examples of noughts, with as many labels for their length as the task's have."""
    task, length = job.built_task, population.signature.length
    labels = -(-task.asking.most * length // task.length)
    at = torch.arange(labels).expand(1, batch, labels) if 2 * labels <= length else None
    due = torch.ones(1, batch, length if at is None else labels, dtype=torch.bool)
    space, answers = task.input_space, task.target_space
    return Questions(
        inputs=torch.zeros(1, batch, length, space.width)
        if isinstance(space, Reals)
        else torch.zeros(1, batch, length, dtype=torch.int64),
        at=at,
        targets=torch.zeros(due.shape, dtype=torch.int64)
        if isinstance(answers, Classes)
        else torch.zeros(*due.shape, answers.width),
        due=due,
    )


def in_thousands(count: int) -> str:
    """Three digits and a power of a thousand."""
    value, powers = float(count), iter(("", "k", "M", "G", "T", "P", "E", "Z", "Y"))
    power = next(powers)
    while value >= 999.5:
        value, power = value / 1000, next(powers)
    return f"{value:.3g} {power}"
