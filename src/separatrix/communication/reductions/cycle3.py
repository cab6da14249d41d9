"""DISJ in directed 3-cycles: m² elements in a graph of 3m vertices (R-G).

Element (i, j) is the edge u_i → v_j if Alice has it and v_j → w_i if Bob has it; w_i → u_i is always there.
Edges lead from U to V, from V to W and from W to U only, so a cycle of three edges is u_i → v_j → w_k → u_i;
the last of these has k = i, and then both have (i, j).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.communication.problems import Disjointness
from separatrix.communication.reductions.interface import Reduction, one_question
from separatrix.tasks.cycle3 import Cycle3

__all__ = ["DisjToCycle3"]


@final
@dataclass(frozen=True, kw_only=True)
class DisjToCycle3(Reduction[Cycle3]):
    """⌊n/3⌋² bits; element (i, j) is place ⌊n/3⌋·i + j, and at most two vertices stay alone.

    Alice's rows are those of U. Bob's are those of V and W, and the edges from W both parties know.
    """

    problem_name: ClassVar[str] = Disjointness.name
    task_name: ClassVar[str] = Cycle3.name
    size: ClassVar[str] = "⌊n/3⌋² bits"
    reads: ClassVar[str] = "the labels of V, whose rows are Bob's: is one of them 1"

    def validate(self) -> None:
        """Every such task has three vertices."""

    @property
    def problem(self) -> Disjointness:
        """A bit for each pair (i, j)."""
        return Disjointness(n=self._group**2)

    @property
    def split(self) -> str:
        """The rows of U are Alice's, the others Bob's."""
        return "groups"

    @property
    def _group(self) -> int:
        return self.task.n // 3

    def alice(self, x: Int[Tensor, "batch alice_place"]) -> Float[Tensor, "batch alice_pos n"]:
        """Row u_i has the edges to v_j."""
        group, n = self._group, self.task.n
        edges = x.float().reshape(-1, group, group)
        return torch.nn.functional.pad(edges, (group, n - 2 * group))

    def bob(self, y: Int[Tensor, "batch bob_place"]) -> Float[Tensor, "batch 1 bob_pos n"]:
        """Row v_j has the edges to w_i, row w_i that to u_i; what is left over has none."""
        group, n = self._group, self.task.n
        rows = torch.zeros(len(y), n - group, n, dtype=torch.float32, device=y.device)
        rows[:, :group, 2 * group : 3 * group] = y.float().reshape(-1, group, group).mT
        rows[:, group : 2 * group, :group] = torch.eye(group, device=y.device)
        return one_question(rows)

    def read(
        self, targets: Int[Tensor, "batch ask pos"], y: Int[Tensor, "batch bob_place"]
    ) -> Int[Tensor, "batch"]:
        """Some v_j is on a cycle."""
        return targets[:, 0, self._group : 2 * self._group].amax(1)
