"""Sparse averaging on its grid: what stands at a position is one of finitely many values with a set.

A question is a position with its value and its set; a region fixes the values at the members of the set, and
so the mean. All else is free: other positions have any value, and all have any set that samples have.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.certificates.questions.interface import Question, Region, Requirements
from separatrix.certificates.questions.listing import Questions, only, written
from separatrix.errors import InvalidInput
from separatrix.tasks.q_sparse_averaging import QSparseAveraging

__all__ = ["of_q_sparse_averaging"]

_MOST_OPTIONS: Final = 4096
_MOST_CELLS: Final = 200_000


def of_q_sparse_averaging(task: QSparseAveraging) -> Questions:
    """For every position and every value and set there: a region for all values at the set's members."""
    _require_few(task)
    sets = [members for size in _sizes(task) for members in itertools.combinations(range(task.n), size)]
    columns = torch.tensor([_columns(task, members) for members in sets]).view(-1, task.q)
    values = _values(task)
    words = [task.render_target(value) for value in values]
    rows = torch.cat(
        [values.repeat_interleave(len(sets), dim=0), columns.repeat(len(values), 1)],
        dim=1,
    )
    options = rows.expand(task.n, -1, -1)
    of_value = torch.arange(len(values)).repeat_interleave(len(sets))

    def make(number: int) -> Question:
        asked, own = divmod(number, len(rows))
        value, members = own // len(sets), sets[own % len(sets)]
        others = [member for member in members if member != asked]
        free = torch.ones(task.n, len(rows), dtype=torch.bool)
        free[asked] = only(len(rows), own)
        regions = []
        for chosen in itertools.product(range(len(values)), repeat=len(others)):
            allowed = free.clone()
            for member, held in zip(others, chosen, strict=True):
                allowed[member] = of_value == held
            mean = _mean(task, values[[*chosen, *[value] * (asked in members)]])
            told = [f", v{member + 1}={words[held]}" for member, held in zip(others, chosen, strict=True)]
            regions.append(
                Region(
                    target=task.render_target(mean) + "".join(told),
                    allowed=allowed,
                    requirements=Requirements.near(mean, task.target_space.tolerance),
                )
            )
        query = f"{_shown(task, rows[own])} at position {asked + 1}"
        return Question(query=query, asked=asked, options=options, regions=tuple(regions))

    return Questions(task.n * len(rows), _cells(task), make)


def _mean(task: QSparseAveraging, given: Float[Tensor, "member d"]) -> Float[Tensor, "d"]:
    # In float32, as the task divides: an answer is held against what the task says.
    return given.sum(0) / torch.full((task.d,), float(task.q))


def _shown(task: QSparseAveraging, row: Float[Tensor, "width"]) -> str:
    members = ",".join(str(int(member)) for member in row[task.d :].tolist() if member)
    return f"v={task.render_target(row[: task.d])} S={{{members}}}"


def _sizes(task: QSparseAveraging) -> range:
    """How many members a set of a sample has."""
    return range(task.q if task.sizes == "exact" else 0, task.q + 1)


def _values(task: QSparseAveraging) -> Float[Tensor, "value d"]:
    steps = torch.arange(-task.grid, task.grid + 1).float() * task.step
    return torch.cartesian_prod(*[steps] * task.d).view(-1, task.d)


def _columns(task: QSparseAveraging, members: tuple[int, ...]) -> list[float]:
    """A set as a row has it: numbers from one, and zeros behind."""
    return [*(float(member + 1) for member in members), *[0.0] * (task.q - len(members))]


def _options(task: QSparseAveraging) -> int:
    values = (2 * task.grid + 1) ** task.d
    return int(values * sum(math.comb(task.n, size) for size in _sizes(task)))


def _cells(task: QSparseAveraging) -> int:
    """n · Σ_s (C(n−1, s−1)·V^s + C(n−1, s)·V^(s+1)): sets of s that have the position itself, and others."""
    values = (2 * task.grid + 1) ** task.d
    with_itself = (math.comb(task.n - 1, size - 1) * values**size for size in _sizes(task) if size)
    without = (math.comb(task.n - 1, size) * values ** (size + 1) for size in _sizes(task))
    return int(task.n * (sum(with_itself) + sum(without)))


def _fits(task: QSparseAveraging) -> bool:
    return _options(task) <= _MOST_OPTIONS and _cells(task) <= _MOST_CELLS


def _require_few(task: QSparseAveraging) -> None:
    if not _fits(task):
        raise InvalidInput(
            f"q-sparse-averaging is certified where at most {_MOST_OPTIONS:,} values with their sets can "
            f"stand at a position and at most {_MOST_CELLS:,} regions come of it; here are "
            f"{written(_options(task))} and {written(_cells(task))}. Try {_smaller(task)}, or use separatrix "
            "break, which works for any task."
        )


def _smaller(task: QSparseAveraging) -> str:
    """The longest inputs that fit with sets as large as possible, if need be with the fewest values."""
    for start in (task, replace(task, d=1, grid=1)):
        for q in range(start.q, 0, -1):
            sized = [replace(start, n=n, q=q) for n in (max(2, q), task.n)]
            low, high = (each.n for each in sized)
            if not _fits(sized[0]):
                continue
            while low < high:
                middle = (low + high + 1) // 2
                low, high = (middle, high) if _fits(replace(start, n=middle, q=q)) else (low, middle - 1)
            return f"n={low}, q={q}, d={start.d}, grid={start.grid}"
    raise AssertionError("the smallest task fits")
