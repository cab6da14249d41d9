"""Equality by shortcuts: what S's two classification tasks do not test.

S, appendix H.2, names two. Of random strings, w and w′ differ early or not at all, so whoever remembers the
first few symbols of w decides `random`. If one symbol is changed, some symbol's count changes, so whoever
counts symbols decides `one` and compares nothing. For the latter even less will do: the sum of the symbols'
numbers modulo |Σ|, which is ours.

A shortcut answers 1, for equal, if all that it keeps of w is the same for w′. It never calls equal strings
different. Hard negatives show the rest: two different symbols behind the prefix are swapped, so w′ ≠ w begins
like w, has its counts and its sum, and every shortcut is wrong on every one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.options import require
from separatrix.randomness import Draws
from separatrix.registry import unknown_name
from separatrix.store.intervals import Interval, wilson
from separatrix.tasks.batches import Batch
from separatrix.tasks.equality import Equality
from separatrix.tasks.interface import Task
from separatrix.tasks.shaping import positions
from separatrix.training.evaluation import TEST_EXAMPLES_FROM, TEST_SEED

__all__ = [
    "PREFIX",
    "SHORTCUTS",
    "Shortcut",
    "ShortcutScore",
    "exact_state_bits",
    "hard_negatives",
    "shortcut_answers",
    "shortcut_score",
]

Shortcut = Literal["prefix", "counts", "sum"]

PREFIX: Final = 10
"""Symbols that the prefix shortcut remembers: of random bits it then lets one unequal pair in 1024 pass."""
_TOKENS_AT_ONCE: Final = 1 << 21


class _Halves(NamedTuple):
    """w and w′ side by side; beyond the end of a short string both hold |Σ|, which is no symbol."""

    first: Int[Tensor, "batch half"]
    second: Int[Tensor, "batch half"]


@dataclass(frozen=True, kw_only=True)
class _Way:
    """A shortcut: what it keeps of both strings, as rows to compare, and in how many states."""

    kept: Callable[[_Halves, int, int], _Halves]
    """From the halves, |Σ| and the length of the prefix."""
    states: Callable[[int, int, int], int]
    """From the length of w, |Σ| and the length of the prefix."""


def _prefix(halves: _Halves, symbols: int, prefix: int) -> _Halves:
    return _Halves(halves.first[:, :prefix], halves.second[:, :prefix])


def _counts(halves: _Halves, symbols: int, prefix: int) -> _Halves:
    # Strings have the same counts if and only if they are the same once sorted, and large alphabets make
    # long rows of counts.
    return _Halves(halves.first.sort(1).values, halves.second.sort(1).values)


def _sum(halves: _Halves, symbols: int, prefix: int) -> _Halves:
    # Beyond the end stands |Σ|, which is 0 here.
    return _Halves(*(half.sum(1, keepdim=True) % symbols for half in halves))


_WAYS: Final[Mapping[str, _Way]] = {
    "prefix": _Way(kept=_prefix, states=lambda half, symbols, prefix: symbols ** min(half, prefix)),
    # Multisets. As a table of counters it would be |Σ|·log₂(n/2 + 1) bits, for large |Σ| more than w has.
    "counts": _Way(
        kept=_counts, states=lambda half, symbols, prefix: math.comb(half + symbols - 1, symbols - 1)
    ),
    "sum": _Way(kept=_sum, states=lambda half, symbols, prefix: symbols),
}
SHORTCUTS: Final = tuple(_WAYS)


@dataclass(frozen=True, kw_only=True)
class ShortcutScore:
    """How often a shortcut is right, and what it carries from w to w′ beside what the task itself needs."""

    name: str
    right: int
    examples: int
    state_bits: int
    """log₂ of the number of states it can be in at the separator, rounded up. The place is not counted, as
    it is not in the bound on recurrent models either."""
    exact_bits: int
    """What a recurrent model that is right on every input must carry there."""

    @property
    def accuracy(self) -> float:
        """The share that is right."""
        return self.right / self.examples

    @property
    def interval(self) -> Interval:
        """Wilson's at 95 %."""
        return wilson(self.right, self.examples)


def shortcut_answers(
    name: str, task: Task, inputs: Int[Tensor, "batch pos"], *, prefix: int = PREFIX
) -> Int[Tensor, "batch"]:
    """1 where what the shortcut keeps of w and of w′ is the same, else 0."""
    equality, way = _applied(name, task, prefix)
    first, second = way.kept(_halves(equality, inputs), equality.symbols, prefix)
    return (first == second).all(1).long()


def shortcut_score(name: str, task: Task, *, examples: int, prefix: int = PREFIX) -> ShortcutScore:
    """The shortcut on the test examples of trained models: so many of full length."""
    equality, way = _applied(name, task, prefix)
    right = tested = 0
    for batch in _tests(equality, examples):
        said = shortcut_answers(name, equality, batch.inputs, prefix=prefix)
        right += int((said == batch.labels.answer).sum())
        tested += len(said)
    return ShortcutScore(
        name=name,
        right=right,
        examples=tested,
        state_bits=_bits(way.states(equality.n // 2, equality.symbols, prefix)),
        exact_bits=exact_state_bits(equality),
    )


def hard_negatives(task: Task, *, examples: int, prefix: int = PREFIX, first: int = 0) -> Batch:
    """Unequal strings of full length that begin alike and have the same counts: two symbols are swapped.

    w is uniform, but where the two symbols to be swapped are the same the second is drawn again among the
    others. `first` numbers the first example.
    """
    equality, _ = _applied("prefix", task, prefix)
    half, symbols = equality.n // 2, equality.symbols
    require(symbols >= 2, "Hard negatives swap two different symbols; got an alphabet of one.")
    require(
        half >= prefix + 2,
        f"Hard negatives swap two symbols behind the prefix; got a prefix of {prefix} in strings of {half}. "
        f"Try n={2 * prefix + 4}.",
    )
    draws = Draws(seed=TEST_SEED, stream="equality, hard negatives", batch=examples, start=first)
    string = draws.integers("symbols", (half,), symbols)
    pair = draws.distinct("swapped places", 2, half - prefix) + prefix
    one, other = string.gather(1, pair).unbind(1)
    turned = (one + draws.integers("another symbol", (), symbols - 1) + 1) % symbols
    other = torch.where(one == other, turned, other)
    string = string.scatter(1, pair, torch.stack([one, other], dim=1))
    swapped = string.scatter(1, pair, torch.stack([other, one], dim=1))
    places, others = (torch.tensor(held) for held in equality.places)
    inputs = torch.full((examples, equality.length), symbols)  # the separator, where no string stands
    inputs[:, places], inputs[:, others] = string, swapped
    labels = equality.solve(inputs)
    lengths = torch.full((examples,), equality.length)
    return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=lengths)


def exact_state_bits(task: Equality) -> int:
    """Every string w of full length needs a state of its own (S, lemma 4): n/2 · log₂|Σ| bits, rounded up."""
    return _bits(task.symbols ** (task.n // 2))


def _applied(name: str, task: Task, prefix: int) -> tuple[Equality, _Way]:
    """The task and the shortcut, if the one is a question that the other answers."""
    if name not in _WAYS:
        raise unknown_name("shortcut", name, SHORTCUTS)
    require(isinstance(task, Equality), f"The shortcuts are for equality; got {task.name}.")
    assert isinstance(task, Equality)
    require(
        task.form != "ncp",
        "A shortcut says whether two strings are equal, and the form ncp asks which symbol follows; take "
        "form=random or form=one.",
    )
    require(prefix >= 0, f"A prefix has no or some symbols; got prefix={prefix}.")
    return task, _WAYS[name]


def _halves(task: Equality, inputs: Int[Tensor, "batch pos"]) -> _Halves:
    if task.alice is not None:
        first, second = task.places
        return _Halves(inputs[:, first], inputs[:, second])
    half = (inputs == task.symbols).int().argmax(1, keepdim=True)
    place = positions(inputs[:, : task.n // 2])
    beyond: Bool[Tensor, "batch half"] = place >= half
    behind = inputs.gather(1, (place + half + 1).clamp(max=task.n))
    return _Halves(
        inputs[:, : task.n // 2].masked_fill(beyond, task.symbols), behind.masked_fill(beyond, task.symbols)
    )


def _tests(task: Equality, examples: int) -> Iterator[Batch]:
    """The examples that trained models are tested on."""
    full, chunk = task.full_length(), max(1, _TOKENS_AT_ONCE // task.length)
    for low in range(0, examples, chunk):
        count = min(chunk, examples - low)
        yield full.sample(count, seed=TEST_SEED, start=TEST_EXAMPLES_FROM + low)


def _bits(states: int) -> int:
    return (states - 1).bit_length()
