"""INDEX and DISJ in sparse averaging: Alice holds values, and the last position's set is Bob's (R-qSA).

All other sets are empty. A model's answer may be off by nearly 1/(4q), and the mean of a single value is that
value divided by q. So the values that stand for symbols are at least ½ apart, and Bob takes the nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.communication.problems import Disjointness, Index
from separatrix.communication.reductions.interface import Reduction, label_at, one_question, places
from separatrix.tasks.domains import digits
from separatrix.tasks.q_sparse_averaging import QSparseAveraging

__all__ = ["DisjToSparseAveraging", "IndexToSparseAveraging"]


class _Levels(NamedTuple):
    """Values at least ½ apart: the coordinates in groups of `group`, each group at one of `steps` levels.

    All coordinates of a group are equal and levels are `stride` steps apart, so two levels differ by at least
    stride·step·√group. Coordinates left over are zero.
    """

    group: int
    groups: int
    stride: int
    steps: int

    @property
    def symbols(self) -> int:
        """How many values there are."""
        return int(self.steps**self.groups)


@lru_cache(maxsize=256)
def _levels(dimension: int, grid: int, step: float) -> _Levels:
    """The grouping with the most values; the step is a power of two, so its square is exact.

    The group of all coordinates always has three levels: by the choice of the step its greatest value has a
    norm above ½.
    """
    found = []
    for group in range(1, dimension + 1):
        stride = 1
        while stride**2 * group * step**2 < 0.25:
            stride += 1
        found.append(
            _Levels(group=group, groups=dimension // group, stride=stride, steps=2 * grid // stride + 1)
        )
    return max(found, key=lambda levels: levels.symbols)


@dataclass(frozen=True, kw_only=True)
class _ToSparseAveraging(Reduction[QSparseAveraging]):
    """Values at Alice's positions with empty sets; at Bob's the value 0 and a set."""

    task_name: ClassVar[str] = QSparseAveraging.name

    def validate(self) -> None:
        """Every such task has two positions and values that are ½ apart."""

    @property
    def split(self) -> str:
        """All positions but the last are Alice's."""
        return "prefix/suffix"

    @property
    def _levels(self) -> _Levels:
        return _levels(self.task.d, self.task.grid, self.task.step)

    def _values(self, symbols: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch d"]:
        """The value of each symbol."""
        levels = self._levels
        level = digits(symbols.flatten(), [levels.steps] * levels.groups) * levels.stride - self.task.grid
        value = level.repeat_interleave(levels.group, dim=1).float() * self.task.step
        padded = torch.nn.functional.pad(value, (0, self.task.d - value.shape[1]))
        return padded.view(*symbols.shape, self.task.d)

    def _without_sets(self, values: Float[Tensor, "batch alice_pos d"]) -> Float[Tensor, "batch alice_pos w"]:
        return torch.nn.functional.pad(values, (0, self.task.q))

    def _only_set(self, members: Int[Tensor, "batch member"]) -> Float[Tensor, "batch 1 1 w"]:
        """Bob's position with the value 0 and these members, in increasing order with zeros behind."""
        missing = self.task.q - members.shape[1]
        row = torch.nn.functional.pad(members.float(), (self.task.d, missing))
        return one_question(row.unsqueeze(1))


@final
@dataclass(frozen=True, kw_only=True)
class IndexToSparseAveraging(_ToSparseAveraging):
    """A value for each of n − 1 symbols; Bob's set is his place alone, whatever q is."""

    problem_name: ClassVar[str] = Index.name
    size: ClassVar[str] = "n − 1 symbols, of an alphabet of 3 where d = grid = 1"
    reads: ClassVar[str] = "the mean at the last position, times q: the nearest value"

    @property
    def problem(self) -> Index:
        """As many symbols as values that are ½ apart."""
        return Index(n=self.task.n - 1, alphabet=self._levels.symbols)

    def alice(self, x: Int[Tensor, "batch alice_place"]) -> Float[Tensor, "batch alice_pos w"]:
        """The value of each symbol."""
        return self._without_sets(self._values(x))

    def bob(self, y: Int[Tensor, "batch 1"]) -> Float[Tensor, "batch 1 1 w"]:
        """The set of place y."""
        return self._only_set(y + 1)

    def read(
        self, targets: Float[Tensor, "batch ask pos d"], y: Int[Tensor, "batch 1"]
    ) -> Int[Tensor, "batch"]:
        """Group by group the nearest level: the mean over a group is no further off than the whole."""
        levels, mean = self._levels, label_at(targets, self.task.n - 1) * self.task.q
        used = mean[:, : levels.groups * levels.group].reshape(-1, levels.groups, levels.group).mean(2)
        level = ((used / self.task.step + self.task.grid) / levels.stride).round().long()
        symbol = torch.zeros_like(level[:, 0])
        for group in level.clamp(0, levels.steps - 1).unbind(1):
            symbol = symbol * levels.steps + group
        return symbol


@final
@dataclass(frozen=True, kw_only=True)
class DisjToSparseAveraging(_ToSparseAveraging):
    """min(q, n − 1) bits: a common element pushes the mean over Bob's set up, and any other pushes it down.

    Alice's value is v for a one and −v for a zero, v as long as the grid allows, above ½. The sum over Bob's
    set b along v is ‖v‖·(2·|a ∩ b| − |b|). Bob knows |b|, and the least intersection moves the mean by
    2‖v‖/q > 1/q, four times what an answer may be off.
    """

    problem_name: ClassVar[str] = Disjointness.name
    size: ClassVar[str] = "min(q, n − 1) bits"
    reads: ClassVar[str] = "the mean at the last position: is it above that of a set without common elements"

    @property
    def problem(self) -> Disjointness:
        """A bit for each position that fits into Bob's set."""
        return Disjointness(n=min(self.task.q, self.task.n - 1))

    def alice(self, x: Int[Tensor, "batch alice_place"]) -> Float[Tensor, "batch alice_pos w"]:
        """v or −v for each bit, and −v where there is none."""
        signs = torch.nn.functional.pad(2 * x - 1, (0, self.task.n - 1 - x.shape[1]), value=-1)
        values = signs.unsqueeze(2).float() * (self.task.grid * self.task.step)
        return self._without_sets(values.expand(-1, -1, self.task.d))

    def bob(self, y: Int[Tensor, "batch bob_place"]) -> Float[Tensor, "batch 1 1 w"]:
        """The set itself: its members first, in order."""
        member = places(y.shape[1], y) + 1
        order = torch.where(y == 1, member, y.shape[1] + 1).sort(dim=1).values
        return self._only_set(order.masked_fill(order > y.shape[1], 0))

    def read(
        self, targets: Float[Tensor, "batch ask pos d"], y: Int[Tensor, "batch bob_place"]
    ) -> Int[Tensor, "batch"]:
        """How many common elements there are, from the mean over the coordinates."""
        along = label_at(targets, self.task.n - 1).mean(1) * (self.task.q / (self.task.grid * self.task.step))
        return (along > 1 - y.sum(1)).long()
