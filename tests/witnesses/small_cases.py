"""Hard inputs of the four retrieval tasks, and their answers told a second way: by words, in plain Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.generation.decoding import generate
from separatrix.generation.patterns import SearchLimits
from separatrix.generation.scripts import Script, answers_of
from separatrix.models.interface import CausalModel
from separatrix.tasks import Task
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.c_gram import CGramRetrieval
from separatrix.tasks.counting import Counting
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.witnesses import Witness

__all__ = ["ENUMERATED", "LARGE", "SMALL", "at_size", "hard_inputs", "right", "right_on_all", "told"]

SMALL: tuple[Task, ...] = (
    IndexLookup(n=1, alphabet=1),
    IndexLookup(n=4, alphabet=3),
    AssociativeRecall(n=2, form="sequence", alphabet=2),
    AssociativeRecall(n=4, form="sequence", alphabet=3),
    AssociativeRecall(n=7, form="sequence", alphabet=2),
    AssociativeRecall(n=1, keys=1, values=1),
    AssociativeRecall(n=2, keys=4, values=3),
    CGramRetrieval(n=4, c=2, alphabet=3),
    CGramRetrieval(n=3, c=3, alphabet=2),
    CGramRetrieval(n=6, c=3, alphabet=2),
    CGramRetrieval(n=7, c=5, alphabet=2),
    Counting(n=1, alphabet=2),
    Counting(n=3, alphabet=3),
    Counting(n=5, alphabet=2),
)
_LARGER: tuple[Task, ...] = (
    IndexLookup(n=6, alphabet=3),
    AssociativeRecall(n=6, form="sequence", alphabet=4),
    AssociativeRecall(n=3, keys=5, values=3),
    CGramRetrieval(n=7, c=3, alphabet=3),
    CGramRetrieval(n=9, c=4, alphabet=2),
    Counting(n=6, alphabet=3),
)
ENUMERATED = tuple(
    pytest.param(task, marks=pytest.mark.slow if task in _LARGER else (), id=str(task))
    for task in (*SMALL, *_LARGER)
)
"""Every input of these is tried."""

LARGE = tuple(
    pytest.param(task, marks=pytest.mark.slow if task.n > 64 else (), id=str(task))
    for n in (64, 4096)
    for task in (
        IndexLookup(n=n),
        AssociativeRecall(n=n, form="sequence"),
        AssociativeRecall(n=n // 2, keys=n),
        CGramRetrieval(n=n),
        CGramRetrieval(n=n, c=6, alphabet=2),
        Counting(n=n),
    )
)
"""Random and hard inputs of these are tried."""


def at_size(n: int) -> tuple[Task, ...]:
    """One task of each kind with n tokens or pairs, in which every number is about n or less."""
    return (
        IndexLookup(n=n, alphabet=n, lengths="full"),
        AssociativeRecall(n=n, form="sequence", lengths="full"),
        AssociativeRecall(n=n, keys=n, values=n, lengths="full"),
        CGramRetrieval(n=n),
        Counting(n=n, alphabet=n),
    )


def right(witness: Witness, rows: Int[Tensor, "batch pos"]) -> bool:
    """Whether it answers every row as its words tell, and as the task says."""
    task, few = witness.task, max(1, (1 << 17) // rows.shape[1])
    for part in torch.split(rows, few):
        answers = [task.render_target(answer) for answer in task.solve(part).answer]
        if answers != [told(task, row) for row in part] or answers != _answered(witness, part):
            return False
    return True


def right_on_all(witness: Witness) -> bool:
    """Whether it does so on every input there is."""
    return all(right(witness, rows) for rows in witness.task.enumerate())


def _answered(witness: Witness, rows: Int[Tensor, "batch pos"]) -> list[str | None]:
    if witness.script is not None:
        return _written(witness, witness.script, rows)
    # Only where there is a question: at 4096 places the others would take most of the time.
    asked = witness.task.solve(rows).mask.long().argmax(1, keepdim=True)
    return [witness.task.render_target(answer[0]) for answer in witness.model.answers(rows, at=asked)]


def _written(witness: Witness, script: Script, rows: Int[Tensor, "batch pos"]) -> list[str | None]:
    """With time enough for a search on a busy machine: what is tested is what it finds."""
    assert isinstance(witness.model, CausalModel)
    runs = generate(
        witness.model, [script.prompt(row) for row in rows], script, search_limits=SearchLimits(seconds=30)
    )
    found = answers_of(runs, script)
    return [None if each is None else witness.task.render_target(torch.tensor(each)) for each in found]


def told(task: Task, row: Int[Tensor, "pos"]) -> str:
    """The answer, from the input's words."""
    words = task.render(row).split()
    match task:
        case IndexLookup():
            return words[int(words[-1].removeprefix("@")) - 1]
        case Counting():
            *sequence, token, threshold = words
            return "1" if sum(word == token for word in sequence) > int(threshold[1:]) else "0"
        case AssociativeRecall() | CGramRetrieval():
            length = task.c - 1 if isinstance(task, CGramRetrieval) else 1
            query = " ".join(["", *words[-length:], ""])
            return f" {' '.join(words)}".split(query, 1)[1].split()[0]
    raise AssertionError(task.name)


def hard_inputs(task: Task) -> Int[Tensor, "batch pos"]:
    """Largest and least numbers, matches at both ends, near misses everywhere else, counts at the edge."""
    match task:
        case IndexLookup():
            texts = _index(task.n, task.alphabet)
        case AssociativeRecall(form="pairs"):
            texts = _pairs(task.n, task.vocabulary.blocks[1].size, task.vocabulary.blocks[0].size)
        case AssociativeRecall():
            texts = _grams(task.n, 1, task.vocabulary.blocks[0].size)
        case CGramRetrieval():
            texts = _grams(task.n, task.c - 1, task.vocabulary.blocks[0].size)
        case Counting():
            texts = _counts(task.n, task.alphabet)
        case _:
            raise AssertionError(task.name)
    return torch.stack([task.parse(text) for text in texts])


def _index(n: int, alphabet: int) -> Iterator[str]:
    for place in sorted({1, 2, n // 2, n - 1, n} & set(range(1, n + 1))):
        for inside, outside in ((0, alphabet - 1), (alphabet - 1, 0)):
            symbols = [outside] * n
            symbols[place - 1] = inside
            yield " ".join(f"s{symbol}" for symbol in symbols) + f" @{place}"


def _pairs(n: int, keys: int, values: int) -> Iterator[str]:
    for first in (0, keys - n):
        for asked in sorted({0, n // 2, n - 1}):
            pairs = [f"k{first + i} v{values - 1 if i == asked else 0}" for i in range(n)]
            for order in (pairs, pairs[::-1]):
                yield f"{' '.join(order)} k{first + asked}"


def _grams(n: int, length: int, alphabet: int) -> Iterator[str]:
    """All equal; and a query of one token among its neighbours, at the first place, at the last, at both."""
    last = alphabet - 1
    for symbol in (0, last):
        yield " ".join([f"s{symbol}"] * (n + length))
    for wanted, other in ((0, min(1, last)), (last, max(0, last - 1)), (last, 0), (0, last)):
        for places in ([0], [n - length - 1], [0, n - length - 1], [0, n - length]):
            sequence = [other] * n
            for place in places:
                sequence[place : place + length] = [wanted] * length
            sequence[places[0] + length] = other if wanted else last
            yield " ".join(f"s{symbol}" for symbol in sequence + [wanted] * length)


def _counts(n: int, alphabet: int) -> Iterator[str]:
    last = alphabet - 1
    for token, other in ((0, 1), (last, last - 1), (last, 0)):
        for count in sorted({0, 1, n // 2, n - 1, n}):
            for threshold in sorted({max(0, count - 1), count, min(n, count + 1), n}):
                sequence = [token] * count + [other] * (n - count)
                for order in (sequence, sequence[::-1]):
                    yield " ".join(f"s{symbol}" for symbol in [*order, token]) + f" >{threshold}"
