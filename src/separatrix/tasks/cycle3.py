"""Directed 3-cycle: which vertices of a directed graph lie on a cycle of three edges (R, section 4)?

>>> from separatrix.tasks import task
>>> cycle = task("cycle3", n=4)
>>> graph = cycle.parse("4: 1>2 2>3 3>1 3>4 4>3")
>>> cycle.solve(graph.unsqueeze(0)).targets[0].tolist()
[1, 1, 1, 0]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.randomness import Draws, host_constant
from separatrix.tasks import TASKS
from separatrix.tasks._adjacency import (
    check_graph,
    decode_graph,
    halving_density,
    parse_graph,
    random_edges,
    render_graph,
    require_density,
)
from separatrix.tasks.interface import Asking, Batch, Classes, Labels, Partition, Reals, Task, option, require


@TASKS.register("cycle3")
@dataclass(frozen=True, kw_only=True)
class Cycle3(Task):
    """Find the vertices i for which edges i → j → k → i exist.

    An input is the adjacency matrix, as float32 zeros and ones: position i is row i, the edges that leave
    vertex i. There are no loops, so the three vertices differ. Every vertex has a label.

    R names no distribution. Samples have every possible edge independently with probability `density` (to
    2^-32). The automatic density is where a vertex is on a 3-cycle with probability one half, rounded to
    six significant bits, which leaves the probability within 0.02 of that.

    `instances="disjointness"` draws the inputs of R's lower bound instead. The first m = ⌊n/3⌋ vertices are
    u_1 … u_m, the next v_1 … v_m, then w_1 … w_m; two more at most stay alone. Two sets a, b of pairs (i, j)
    become edges: u_i → v_j for (i, j) ∈ a, v_j → w_i for (i, j) ∈ b, and w_i → u_i always, so that the
    3-cycles are the common elements. a and b are uniform among disjoint pairs of sets; in half of the
    examples one uniform element is then put into both.
    """

    name = "cycle3"
    title = "Directed 3-cycle"
    source = "R"
    showcase = MappingProxyType({"n": 9})

    n: int = option(help="how many vertices")
    density: float = option(
        0.0, help="probability of each edge; 0 takes one at which half of the vertices are on a 3-cycle"
    )
    instances: Literal["random", "disjointness"] = option(
        "random", help="random graphs, or the hard ones of the lower bound"
    )

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        require(3 <= self.n <= 1024, f"cycle3 needs 3 ≤ n ≤ 1024; got n={self.n}. Try 16.")
        require_density(self.name, self.density)

    @property
    def edge_probability(self) -> float:
        """The density, chosen if it was left to be."""
        return self.density or _automatic_density(self.n)

    @property
    def length(self) -> int:
        """One row a vertex."""
        return self.n

    @property
    def input_space(self) -> Reals:
        """Rows of the adjacency matrix."""
        return Reals(width=self.n)

    @property
    def target_space(self) -> Classes:
        """1 on a 3-cycle."""
        return Classes(size=2)

    @property
    def asking(self) -> Asking:
        """Everywhere, about all of the input."""
        return Asking(most=self.n, ahead=True)

    def draw(self, draws: Draws) -> Batch:
        """Independent edges, or two sets written as a graph."""
        if self.instances == "disjointness":
            inputs, labels = self._sets(draws)
        else:
            edges = random_edges(draws, "edges", self.n * self.n, self.edge_probability)
            inputs = edges.view(draws.batch, self.n, self.n).float()
            inputs.diagonal(dim1=1, dim2=2).zero_()
            labels = self.solve(inputs)
        lengths = torch.full((draws.batch,), self.n, device=draws.device)
        return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=lengths)

    def solve(self, inputs: Float[Tensor, "batch pos n"]) -> Labels:
        """Is there a k with a path of two edges from i to k and an edge back? float32 counts them exactly."""
        paths = torch.bmm(inputs, inputs)
        on_cycle = (paths * inputs.mT).amax(2) > 0
        return Labels(targets=on_cycle.long(), mask=torch.ones_like(on_cycle))

    def check_content(self, row: Float[Tensor, "pos n"]) -> None:
        """Zeros and ones, no loops."""
        check_graph(self.name, row, directed=True)

    def domain_size(self) -> int:
        """2^(n(n−1)) graphs."""
        return 1 << self.n * (self.n - 1)

    def decode(self, numbers: Int[Tensor, "batch"]) -> Float[Tensor, "batch pos n"]:
        """A binary digit for each possible edge."""
        return decode_graph(numbers, self.n, directed=True)

    def render(self, row: Float[Tensor, "pos n"]) -> str:
        """Vertices and edges: `3: 1>2 2>3 3>1`."""
        return render_graph(row, directed=True)

    def parse(self, text: str) -> Float[Tensor, "pos n"]:
        """The graph a text such as `3: 1>2 2>3 3>1` describes."""
        return parse_graph(text, self.n, directed=True)

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """1 on a 3-cycle, 0 off it."""
        return str(int(target))

    def partitions(self) -> Mapping[str, Partition]:
        """Alice holds the rows of u_1 … u_m, Bob those of v_1 … v_m and the rest, which both know."""
        return {"groups": Partition.prefix(self.length, self.n // 3)}

    def _sets(self, draws: Draws) -> tuple[Float[Tensor, "batch n n"], Labels]:
        size = self.n // 3
        u, v, w = (slice(group * size, (group + 1) * size) for group in range(3))
        held = draws.integers("sets", (size * size,), 3)
        common = draws.integers("common", (1,), size * size)
        both = torch.zeros_like(held, dtype=torch.bool).scatter_(1, common, draws.coins("common?", (1,)))
        alice, bob, both = (
            members.view(-1, size, size) for members in ((held == 1) | both, (held == 2) | both, both)
        )
        inputs = torch.zeros(draws.batch, self.n, self.n, dtype=torch.float32, device=draws.device)
        inputs[:, u, v] = alice.float()
        inputs[:, v, w] = bob.mT.float()
        inputs[:, w, u] = torch.eye(size, device=draws.device)
        targets = torch.zeros(draws.batch, self.n, dtype=torch.int64, device=draws.device)
        targets[:, u] = targets[:, w] = both.any(2).long()
        targets[:, v] = both.any(1).long()
        return inputs, Labels(targets=targets, mask=torch.ones_like(targets, dtype=torch.bool))


def share_on_3_cycles(n: int, density: float) -> float:
    """The probability that a vertex of a random directed graph is on a 3-cycle.

    Say the vertex has a out-neighbours. Each of the others is an in-neighbour or not, independently. As one
    it must miss the edges from all a of them, or from the other a − 1 if it is an out-neighbour itself.
    """
    missed, count, keep = 0.0, n - 1, 1 - density
    some = keep**count
    for out in range(count + 1):
        if out:
            some *= (count - out + 1) / out * density / keep
        among = keep + density * keep ** (out - 1) if out else 1.0
        outside = keep + density * keep**out
        missed += some * among**out * outside ** (count - out)
    return 1 - missed


@host_constant
@lru_cache(maxsize=1024)
def _automatic_density(n: int) -> float:
    return halving_density(lambda density: share_on_3_cycles(n, density))
