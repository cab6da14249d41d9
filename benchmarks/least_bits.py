"""The least p in W's fixed point at which a witness is right, found by search and shown to fail below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch import Tensor

from separatrix.errors import SeparatrixError
from separatrix.precision import system_named
from separatrix.tasks import Task, task
from separatrix.witnesses import CATALOGUE, Choices, Entry
from separatrix.witnesses.solving import ask

__all__ = ["failures", "least_bits", "precision_rows"]

_MOST: Final = 151
_MOST_INPUTS: Final = 300
_RANDOM: Final = 16


def least_bits(chosen: Task, family: str, rows: Tensor, *, variant: str | None = None) -> int:
    """The least odd p with which these rows are answered right, if more bits never do harm."""
    from separatrix.witnesses import entries_for

    entry = next(each for each in entries_for(chosen.name, family, variant) if each.serves(chosen))
    low, high = 3, 15
    while failures(entry, chosen, high, rows):
        low, high = high, 2 * high + 1
        assert low < _MOST, "no p was enough"
    while high - low > 2:
        middle = (low + high) // 2
        middle += 1 - middle % 2
        low, high = (middle, high) if failures(entry, chosen, middle, rows) else (low, middle)
    return high


def failures(entry: Entry, chosen: Task, p: int, rows: Tensor) -> int:
    """How many rows the witness in p bits answers wrongly; all of them where it cannot be written so.

    One that writes is wrong where it writes another word than the same witness does in float64.
    """
    try:
        witness = entry.builder()(chosen, Choices(system=system_named(f"nearest:{p}")))
    except SeparatrixError:
        return len(rows)
    if witness.script is None:
        labels = chosen.solve(rows)
        return int(((witness.model.answers(rows) != labels.targets) & labels.mask).any(1).sum())
    meant = ask(entry.builder()(chosen, Choices()), rows)
    found = ask(witness, rows)
    right = chosen.solve(rows).answer.tolist()
    return sum(
        each.run != as_meant.run or each.answer is None or int(each.answer[0]) != answer
        for each, as_meant, answer in zip(found, meant, right, strict=True)
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
            p = least_bits(chosen, entry.family, rows, variant=entry.variant)
            yield {
                "theorem": entry.theorem,
                "task": entry.task,
                "family": entry.family,
                "variant": entry.variant,
                "n": n,
                "p": p,
                "inputs": len(rows),
                "wrong_below": failures(entry, chosen, p - 2, rows),
            }
