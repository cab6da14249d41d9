"""What a population is asked and how its answers are judged: at labelled positions only."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.kernels.class_scores import class_costs
from separatrix.models.population import Population
from separatrix.randomness import Band
from separatrix.tasks.interface import Batch, Classes, Task, Vectors

__all__ = [
    "Judged",
    "Questions",
    "answered",
    "judged",
    "labels_on_average",
    "length_of_two",
    "padded_lengths",
    "questions",
    "side_by_side",
]

_ALIGNED = 16
"""Lengths that are a multiple of this suit the products of a GPU."""
_COUNTED = 1024
"""Examples whose labels are counted."""


@dataclass(frozen=True, kw_only=True)
class Questions:
    """A batch for every member: inputs, the positions at which answers are due, and the right ones.

    `at` is None where so many positions are labelled that all may as well be answered; `due` then says which.
    Where a row has two inputs, `begins` is where the second does, and `second` says which labels are its.
    """

    inputs: Shaped[Tensor, "member batch pos *width"]
    at: Int[Tensor, "member batch label"] | None
    targets: Shaped[Tensor, "member batch label *width"]
    due: Bool[Tensor, "member batch label"]
    begins: Int[Tensor, "member batch"] | None = None
    second: Bool[Tensor, "member batch label"] | None = None

    def cut(self, length: int) -> Questions:
        """The same without the positions behind the first `length`, where nothing but padding may stand."""
        inputs = self.inputs[:, :, :length].contiguous()
        if self.at is not None:
            return replace(self, inputs=inputs)
        targets, due = self.targets[:, :, :length], self.due[:, :, :length]
        return Questions(inputs=inputs, at=None, targets=targets.contiguous(), due=due.contiguous())


def padded_lengths(task: Task, bands: int) -> tuple[int, ...]:
    """Positions with which the examples of each band of lengths are computed."""
    longest = [task.longest_in(Band(number=number, of=bands)) for number in range(bands)]
    return tuple(min(-(-length // _ALIGNED) * _ALIGNED, task.length) for length in longest)


def length_of_two(task: Task, seam: int) -> int:
    """Positions of a row with two mirrored inputs: a long one, so many between them, and a short one."""
    least, most = task.sampled_sizes
    together = {
        task.positions_of(least + more) + task.positions_of(most - more) for more in range(most - least + 1)
    }
    if len(together) > 1:
        raise InvalidInput(
            f"Positions of {task.name} do not grow evenly with its size, so that two inputs do not always "
            "fill a row; got paired=True. Leave it out."
        )
    return together.pop() + seam


def labels_on_average(task: Task) -> float:
    """How many labels a sample has: one, or a mean over some that are always the same."""
    if task.asking.most == 1:
        return 1.0
    return float(task.sample(_COUNTED, seed=0).mask.sum()) / _COUNTED


def questions(batch: Batch, members: int, *, most: int) -> Questions:
    """The rows of a batch shared out among the members, each example with `most` labels at most."""

    def shared(values: Shaped[Tensor, "rows *shape"]) -> Shaped[Tensor, "member batch *shape"]:
        return values.view(members, -1, *values.shape[1:])

    length = batch.mask.shape[1]
    if 2 * most > length:
        return Questions(
            inputs=shared(batch.inputs), at=None, targets=shared(batch.targets), due=shared(batch.mask)
        )
    at, due = _labelled(batch.mask, most)
    column = at if batch.targets.dim() == 2 else at.unsqueeze(-1).expand(*at.shape, batch.targets.shape[-1])
    return Questions(
        inputs=shared(batch.inputs),
        at=shared(at),
        targets=shared(batch.targets.gather(1, column)),
        due=shared(due),
    )


def side_by_side(asked: Questions, lengths: Int[Tensor, "rows"], *, length: int, seam: int) -> Questions:
    """Neighbours in one row of so many positions, which they fill: the first, the seam, the second."""
    members, batch, longest = asked.inputs.shape[:3]
    begins = lengths.view(members, batch)[:, ::2] + seam
    place = torch.arange(length, device=begins.device)
    begin = begins.unsqueeze(-1)
    is_second = place >= begin
    own = torch.where(is_second, place - begin, place).clamp(max=longest - 1)

    def joined(values: Shaped[Tensor, "member batch pos *width"]) -> Shaped[Tensor, "member half pos *width"]:
        more = (1,) * (values.dim() - 3)
        column = own.view(*own.shape, *more).expand(*own.shape, *values.shape[3:])
        from_first, from_second = values[:, ::2].gather(2, column), values[:, 1::2].gather(2, column)
        return torch.where(is_second.view(*is_second.shape, *more), from_second, from_first)

    inputs = joined(asked.inputs)
    if asked.at is None:
        due = joined(asked.due) & (is_second | (place < begin - seam))
        targets = joined(asked.targets)
        return Questions(inputs=inputs, at=None, targets=targets, due=due, begins=begins, second=is_second)
    due = torch.cat([asked.due[:, ::2], asked.due[:, 1::2]], dim=2)
    return Questions(
        inputs=inputs,
        at=torch.cat([asked.at[:, ::2], asked.at[:, 1::2] + begin], dim=2),
        targets=torch.cat([asked.targets[:, ::2], asked.targets[:, 1::2]], dim=2),
        due=due,
        begins=begins,
        second=(torch.arange(due.shape[2], device=due.device) >= asked.at.shape[2]).expand(due.shape),
    )


def answered(population: Population, asked: Questions) -> Float[Tensor, "member batch label out"]:
    """What the population answers."""
    if asked.begins is None:
        return population(asked.inputs, asked.at)  # type: ignore[no-any-return]
    return population(asked.inputs, asked.at, asked.begins)  # type: ignore[no-any-return]


def _labelled(
    mask: Bool[Tensor, "rows pos"], most: int
) -> tuple[Int[Tensor, "rows label"], Bool[Tensor, "rows label"]]:
    """The labelled positions of each row, in order; rows with fewer repeat position 0, which is not due."""
    if most == 1:
        place = mask.int().argmax(1, keepdim=True)
        return place, torch.ones_like(place, dtype=torch.bool)
    number = torch.where(mask, mask.cumsum(1) - 1, most)
    places = torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)
    # What is not labelled goes into a spare column that is cut off.
    at = torch.zeros(len(mask), most + 1, dtype=torch.int64, device=mask.device).scatter(1, number, places)
    due = torch.arange(most, device=mask.device) < mask.sum(1, keepdim=True)
    return at[:, :most], due


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Each member's loss, and how many of its labels and of its whole examples were right."""

    losses: Float[Tensor, "member"]
    labels: Int[Tensor, "member"]
    labels_right: Int[Tensor, "member"]
    examples_right: Int[Tensor, "member"]


def judged(
    outputs: Float[Tensor, "member batch label out"],
    asked: Questions,
    space: Classes | Vectors,
    usual: float | None = None,
) -> Judged:
    """Cross-entropy, or the mean square for vectors, over the labels of each member; an example is right if
    all of its labels are.

    `usual` is the number of labels that a batch has on the average, for one that has more or fewer of them
    because of its lengths: a label then weighs what it does in every other batch.
    """
    if isinstance(space, Classes):
        cost, right = class_costs(outputs, asked.targets)
    else:
        outputs = outputs if outputs.dtype == torch.float64 else outputs.float()
        apart = (outputs - asked.targets).square()
        cost = apart.mean(-1)
        right = apart.sum(-1).sqrt() < space.tolerance
    labels = asked.due.sum((1, 2))
    wrong = ~right & asked.due
    return Judged(
        losses=torch.where(asked.due, cost, 0).sum((1, 2)) / (labels if usual is None else usual),
        labels=labels,
        labels_right=(right & asked.due).sum((1, 2)),
        examples_right=_without(wrong)
        if asked.second is None
        else _without(wrong & ~asked.second) + _without(wrong & asked.second),
    )


def _without(wrong: Bool[Tensor, "member batch label"]) -> Int[Tensor, "member"]:
    """How many have none."""
    return (~wrong.any(2)).sum(1)
