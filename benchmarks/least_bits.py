"""The least p in W's fixed point at which a witness is right, found by search and shown to fail below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch import Tensor

from separatrix.errors import SeparatrixError
from separatrix.precision import system_named
from separatrix.tasks import Task, task
from separatrix.witnesses import CATALOGUE, Choices, Entry, entries_for
from separatrix.witnesses.solving import ask

__all__ = ["Trial", "least_bits", "precision_rows"]

_MOST: Final = 151
_MOST_INPUTS: Final = 300
_RANDOM: Final = 16


def least_bits(
    chosen: Task, family: str, rows: Tensor, *, variant: str | None = None, likely: int | None = None
) -> tuple[int, int]:
    """The least odd p with which these rows are answered right, and how many are not with two bits less.

    That more bits do no harm is taken for granted. A likely p is tried first, with the one below it.
    """
    entry = next(each for each in entries_for(chosen.name, family, variant) if each.serves(chosen))
    trial = Trial(entry, chosen, rows)
    if likely is not None and not trial.failures(likely):
        below = trial.failures(likely - 2)
        if below:
            return likely, below
    low, high = 3, 15
    while trial.failures(high):
        low, high = high, 2 * high + 1
        assert low < _MOST, "no p was enough"
    while high - low > 2:
        middle = (low + high) // 2
        middle += 1 - middle % 2
        low, high = (middle, high) if trial.failures(middle) else (low, middle)
    return high, trial.failures(high - 2)


class Trial:
    """A construction that is run on the same rows with one number system after another."""

    def __init__(self, entry: Entry, chosen: Task, rows: Tensor) -> None:
        self._build, self._task, self._rows = entry.builder(), chosen, rows
        self._labels = chosen.solve(rows)
        meant = self._build(chosen, Choices())
        self._meant = None if meant.script is None else ask(meant, rows)
        self._known: dict[int, int] = {}

    def failures(self, p: int) -> int:
        """How many rows are answered wrongly in p bits; all of them where the weights cannot be written so.

        A witness that writes is wrong where it writes another word than the same witness does in float64.
        """
        if p not in self._known:
            self._known[p] = self._failures(p)
        return self._known[p]

    def _failures(self, p: int) -> int:
        rows, labels = self._rows, self._labels
        try:
            witness = self._build(self._task, Choices(system=system_named(f"nearest:{p}")))
        except SeparatrixError:
            return len(rows)
        if self._meant is None:
            return int(((witness.model.answers(rows) != labels.targets) & labels.mask).any(1).sum())
        return sum(
            each.run != meant.run or each.answer is None or int(each.answer[0]) != answer
            for each, meant, answer in zip(
                ask(witness, rows), self._meant, labels.answer.tolist(), strict=True
            )
        )


def hard_rows(chosen: Task) -> Tensor:
    """Every input, if there are few, else some at random."""
    if chosen.domain_size() <= _MOST_INPUTS:
        return torch.cat(list(chosen.enumerate()))
    return torch.cat(
        [chosen.full_length().sample(_RANDOM, seed=1).inputs, chosen.sample(_RANDOM, seed=2).inputs]
    )


EXAMPLES: Final[Mapping[tuple[str, str], dict[str, Any]]] = {
    ("W-4.1", "turing"): {"machine": "binary-increment"},
    ("W-5.4", "turing"): {"machine": "binary-increment"},
    ("W-5.8", "turing"): {"machine": "binary-increment"},
}


def precision_rows(sizes: list[int], theorems: list[str]) -> Iterator[dict[str, Any]]:
    """For every witness of these theorems and each size: the least p, and how many inputs fail at p − 2."""
    for entry in CATALOGUE:
        if entry.theorem not in theorems:
            continue
        for n in sizes:
            chosen = task(entry.task, n=n, **entry.takes, **EXAMPLES.get((entry.theorem, entry.task), {}))
            rows = hard_rows(chosen)
            p, below = least_bits(chosen, entry.family, rows, variant=entry.variant)
            yield {
                "theorem": entry.theorem,
                "task": entry.task,
                "family": entry.family,
                "variant": entry.variant,
                "n": n,
                "p": p,
                "inputs": len(rows),
                "wrong_below": below,
            }
