"""Threshold of sparse features: do more than b of the g_j(x) hold, each a function of at most k bits of x?

S, appendix F.3: the functions Th_b(g₁(x), …, g_m(x)), m ≤ n, which take in k-DNF, k-CNF, equality and
disjointness.

>>> from separatrix.tasks import task
>>> formula = SparseThreshold.from_dnf("x1 & ~x3 | x2 & x4", n=4)
>>> rows = torch.stack([formula.parse("1001"), formula.parse("1010")])
>>> formula.solve(rows).answer.tolist()
[1, 0]
>>> task("sparse-threshold", n=8, k=3, function_seed=1).function[0]
Feature(indices=(0, 4, 6), table=(1, 1, 0, 1, 0, 0, 1, 0))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final, Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks import TASKS
from separatrix.tasks._sparse_features import (
    MOST_BITS,
    Feature,
    Literals,
    formula_features,
    paired_features,
)
from separatrix.tasks.domains import digits
from separatrix.tasks.interface import Asking, Batch, Classes, Labels, Partition, TokenTask, option, require
from separatrix.tasks.shaping import labels_at, redraw
from separatrix.tasks.vocabulary import Vocabulary, numbered

__all__ = ["Feature", "SparseThreshold"]

_MOST_TABLE_ENTRIES: Final = 1 << 22


@dataclass(frozen=True, kw_only=True)
class _Tables:
    """The features as tensors: bit `places[j]` of each feature counts `weights[j]` in its table's index."""

    places: Int[Tensor, "bit feature"]
    weights: Int[Tensor, "bit feature"]
    starts: Int[Tensor, "feature"]
    values: Int[Tensor, "entry"]


@TASKS.register("sparse-threshold")
@dataclass(frozen=True, kw_only=True)
class SparseThreshold(TokenTask):
    """Evaluate one function of the class: strictly more than `threshold` of its features are 1.

    The function is part of the task. `features` gives it, or `from_dnf`, `from_cnf`, `equality` and
    `disjointness` do; else it is drawn from `function_seed`: n features, each on k different places, uniform,
    with a table that is uniform among those with as many ones as zeros.

    An input is n bits; the label, at the last one, is 0 or 1. The papers give no law. With law "uniform"
    the bits are uniform, so the share of ones among the labels is what it is for this function: near a half
    for a drawn one with the default threshold, close to none for a formula that hardly ever holds. With
    law "balanced" a label is drawn first, 0 or 1 with probability ½, and the example is the first of
    16 uniform inputs to have it, or the first of all if none has. If a uniform input has label 1
    with probability p, the example then has it with probability ½·(1 − (1 − p)^16 + p^16).
    """

    name = "sparse-threshold"
    title = "Threshold of k-sparse features"
    source = "S"
    showcase = MappingProxyType({"n": 10})

    ATTEMPTS = 16

    n: int = option(help="number of bits")
    k: int = option(2, help="most bits that a feature reads")
    threshold: int = option(-1, help="b: the label is 1 if more than b features are; −1: half of them")
    function_seed: int = option(0, help="what the features are drawn from")
    law: Literal["uniform", "balanced"] = option(
        "uniform", help="uniform bits, or redrawn towards as many labels 1 as 0"
    )
    features: tuple[Feature, ...] | None = option(
        None, help="the features; None: drawn from function_seed", flag=False
    )

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        _check_size(self.n)
        require(
            1 <= self.k <= MOST_BITS, f"sparse-threshold needs 1 ≤ k ≤ {MOST_BITS}; got k={self.k}. Try 2."
        )
        require(
            0 <= self.function_seed < 1 << 64,
            f"A function_seed is a whole number from 0 to 2^64 − 1; got {self.function_seed}. Try 0.",
        )
        if self.features is None:
            require(
                self.n << self._drawn_bits <= _MOST_TABLE_ENTRIES,
                f"n drawn features of k bits have n·2^k ≤ 2^22 table entries; got n={self.n} and k={self.k}. "
                f"Try k=2.",
            )
        else:
            self._check_features(self.features)
        count = self.n if self.features is None else len(self.features)
        require(
            -1 <= self.threshold < count,
            f"A threshold of {count} features lies between 0 and {count - 1}, or is −1 for half; "
            f"got threshold={self.threshold}. Try {count // 2}.",
        )

    @classmethod
    def from_dnf(cls, terms: str | Literals, *, n: int) -> SparseThreshold:
        """An OR of ANDs: [[1, -3], [2, 4]] or "x1 & ~x3 | x2 & x4", variables counted from one."""
        _check_size(n)
        features = formula_features(terms, n=n, dual=False)
        return cls(n=n, k=_widest(features), features=features, threshold=0)

    @classmethod
    def from_cnf(cls, clauses: str | Literals, *, n: int) -> SparseThreshold:
        """An AND of ORs: [[1, -2], [3]] or "(x1 | ~x2) & x3", variables counted from one."""
        _check_size(n)
        features = formula_features(clauses, n=n, dual=True)
        return cls(n=n, k=_widest(features), features=features, threshold=len(features) - 1)

    @classmethod
    def equality(cls, n: int) -> SparseThreshold:
        """Whether the first half of the bits equals the second: all n/2 pairs agree."""
        _check_size(n)
        features = paired_features(n, (1, 0, 0, 1))
        return cls(n=n, k=2, features=features, threshold=len(features) - 1)

    @classmethod
    def disjointness(cls, n: int) -> SparseThreshold:
        """Whether the two halves, as sets, intersect: some pair of bits is 11."""
        _check_size(n)
        return cls(n=n, k=2, features=paired_features(n, (0, 0, 0, 1)), threshold=0)

    @cached_property
    def function(self) -> tuple[Feature, ...]:
        """The features, given or drawn."""
        if self.features is not None:
            return self.features
        bits = self._drawn_bits
        # Feature j is example j of its own stream.
        draws = Draws(seed=self.function_seed, stream="sparse-threshold/function", batch=self.n)
        indices = draws.distinct("indices", bits, self.n).sort(dim=1).values
        tables = draws.permutations("table", 1 << bits) % 2
        return tuple(
            Feature(tuple(places), tuple(table))
            for places, table in zip(indices.tolist(), tables.tolist(), strict=True)
        )

    @property
    def bound(self) -> int:
        """b: the label is 1 iff more than b features are 1."""
        return len(self.function) // 2 if self.threshold == -1 else self.threshold

    @property
    def vocabulary(self) -> Vocabulary:
        """The bits 0 and 1."""
        return Vocabulary(numbered("bit", 2), separator="")

    @property
    def length(self) -> int:
        """n bits."""
        return self.n

    @property
    def target_space(self) -> Classes:
        """The value of the function."""
        return Classes(size=2)

    @property
    def asking(self) -> Asking:
        """One answer, behind everything it depends on."""
        return Asking()

    def draw(self, draws: Draws) -> Batch:
        """Uniform bits, or bits for a label drawn first."""
        if self.law == "uniform":
            inputs = draws.coins("bits 0", (self.n,)).long()
        else:
            wanted = draws.coins("label", ())
            inputs, _ = redraw(
                lambda attempt: draws.integers(f"bits {attempt}", (self.n,), 2),
                lambda rows: self._value(rows) == wanted,
                attempts=self.ATTEMPTS,
            )
        labels = self.solve(inputs)
        lengths = torch.full((draws.batch,), self.n, dtype=torch.int64, device=inputs.device)
        return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=lengths)

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """Look every feature up in its table and count."""
        last = torch.full((len(inputs),), self.n - 1, dtype=torch.int64, device=inputs.device)
        return labels_at(last, self._value(inputs).long(), length=self.n)

    def check_content(self, row: Int[Tensor, "pos"]) -> None:
        """Bits stand in any order."""

    def domain_size(self) -> int:
        """2^n bit strings."""
        return 1 << self.n

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """The bits of the number, the first one most significant."""
        return digits(numbers, [2] * self.n)

    def partitions(self) -> Mapping[str, Partition]:
        """Which split is hard depends on the function: for equality and disjointness, the halves."""
        middle = Partition.prefix(self.n, self.n // 2)
        return {"halves": middle, "odd/even": Partition.odd_even(self.n), "prefix/suffix": middle}

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """1 or 0."""
        return str(int(target))

    @property
    def _drawn_bits(self) -> int:
        return min(self.k, self.n)

    def _check_features(self, features: tuple[Feature, ...]) -> None:
        require(
            isinstance(features, tuple) and all(isinstance(feature, Feature) for feature in features),
            f"features is a tuple of Feature(indices, table); got {str(features)[:60]}.",
        )
        require(
            1 <= len(features) <= self.n,
            f"sparse-threshold takes 1 to n features (S, theorem 13); got {len(features)} with n={self.n}.",
        )
        for feature in features:
            require(
                len(feature.indices) <= self.k,
                f"Each feature reads at most k={self.k} bits; got {len(feature.indices)} indices. "
                f"Try k={len(feature.indices)}.",
            )
            require(
                all(index < self.n for index in feature.indices),
                f"With n={self.n}, a feature's indices run from 0 to {self.n - 1}; got {feature.indices}.",
            )
        entries = sum(len(feature.table) for feature in features)
        require(
            entries <= _MOST_TABLE_ENTRIES,
            f"The features' tables have at most 2^22 entries together; got {entries:,}.",
        )

    def _value(self, inputs: Int[Tensor, "batch pos"]) -> Bool[Tensor, "batch"]:
        """Whether more than `bound` features are 1."""
        tables = self._tables(inputs.device)
        entry = tables.starts.unsqueeze(0)
        for place, weight in zip(tables.places, tables.weights, strict=True):
            entry = entry + inputs.index_select(1, place).mul_(weight)
        return tables.values.take(entry).sum(1) > self.bound

    def _tables(self, device: torch.device) -> _Tables:
        """The features on this device, moved there once: a copy from the host cannot be captured."""
        made = self._tables_by_device
        if device not in made:
            made[device] = self._make_tables(device)
        return made[device]

    @cached_property
    def _tables_by_device(self) -> dict[torch.device, _Tables]:
        return {}

    def _make_tables(self, device: torch.device) -> _Tables:
        features = self.function
        widest = _widest(features)
        sizes = torch.tensor([len(feature.table) for feature in features])
        # A feature of fewer bits reads bit 0 with weight 0 in the places it does not need.
        places = [[*f.indices, *[0] * (widest - len(f.indices))] for f in features]
        weights = [
            [*(1 << bit for bit in reversed(range(len(f.indices)))), *[0] * (widest - len(f.indices))]
            for f in features
        ]
        return _Tables(
            places=torch.tensor(places, dtype=torch.int64).view(-1, widest).t().contiguous().to(device),
            weights=torch.tensor(weights, dtype=torch.int64).view(-1, widest).t().contiguous().to(device),
            starts=(sizes.cumsum(0) - sizes).to(device),
            values=torch.tensor([value for f in features for value in f.table]).to(device),
        )


def _widest(features: tuple[Feature, ...]) -> int:
    return max(1, *(len(feature.indices) for feature in features))


def _check_size(n: int) -> None:
    require(2 <= n <= 1 << 14, f"sparse-threshold needs 2 ≤ n ≤ 2^14; got n={n}. Try 64.")
