"""Undirected 5-cycle: which vertices of a graph lie on a cycle of five edges (R, section 4)?

>>> from separatrix.tasks import task
>>> graph = task("cycle5", n=6).parse("6: 1-2 2-3 3-4 4-5 1-5 5-6")
>>> task("cycle5", n=6).solve(graph.unsqueeze(0)).targets[0].tolist()
[1, 1, 1, 1, 1, 0]
>>> triangle = task("cycle5", n=6).parse("6: 1-2 2-3 1-3 3-4 4-5")
>>> task("cycle5", n=6).solve(triangle.unsqueeze(0)).targets[0].tolist()  # 4, 3, 1, 2, 3, 4
[1, 1, 1, 1, 0, 0]
>>> task("cycle5", n=6, distinct=True).solve(triangle.unsqueeze(0)).targets[0].tolist()
[0, 0, 0, 0, 0, 0]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks import TASKS
from separatrix.tasks._adjacency import (
    check_graph,
    decode_graph,
    few_bits,
    parse_graph,
    random_edges,
    render_graph,
    require_density,
    symmetric,
)
from separatrix.tasks.interface import Asking, Batch, Classes, Labels, Partition, Reals, Task, option, require


@TASKS.register("cycle5")
@dataclass(frozen=True, kw_only=True)
class Cycle5(Task):
    """Find the vertices i for which edges i – j₁ – j₂ – j₃ – j₄ – i exist.

    An input is the adjacency matrix, as float32 zeros and ones, symmetric, without loops; position i is row
    i. Every vertex has a label.

    R's formula takes j₁ … j₄ from all vertices and forgets to ask that they differ. Read to the letter it
    means closed walks of five steps, which also the vertices of a triangle have, and their neighbours. That
    is the default; with `distinct` the five vertices differ, and the label tells of 5-cycles proper.

    R names no distribution. Samples have every possible edge independently with probability `density` (to
    2^-32). The automatic density is one at which about half of the vertices are labelled 1, by a formula
    fitted to simulated graphs, (1.10 + 0.31/√n + 2.05/n) / n^0.8, or if `distinct`
    (1.114 + 1.75/√n − 1.593/n + 18.07/n²) / n^0.8, rounded to six significant bits.
    """

    name = "cycle5"
    title = "Undirected 5-cycle"
    source = "R"
    showcase = MappingProxyType({"n": 10, "density": 0.25, "distinct": True})

    n: int = option(help="how many vertices")
    density: float = option(
        0.0, help="probability of each edge; 0 takes one at which about half of the labels are 1"
    )
    distinct: bool = option(False, help="whether the five vertices must differ")

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        require(5 <= self.n <= 1024, f"cycle5 needs 5 ≤ n ≤ 1024; got n={self.n}. Try 16.")
        require_density(self.name, self.density)

    @property
    def edge_probability(self) -> float:
        """The density, chosen if it was left to be."""
        if self.density:
            return self.density
        root, single, double = self.n**-0.5, 1 / self.n, self.n**-2.0
        scale = 1.114 + 1.75 * root - 1.593 * single + 18.07 * double
        return few_bits((scale if self.distinct else 1.10 + 0.31 * root + 2.05 * single) / self.n**0.8)

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
        """1 on a 5-cycle."""
        return Classes(size=2)

    @property
    def asking(self) -> Asking:
        """Everywhere, about all of the input."""
        return Asking(most=self.n, ahead=True)

    def draw(self, draws: Draws) -> Batch:
        """Independent edges."""
        pairs = self.n * (self.n - 1) // 2
        inputs = symmetric(random_edges(draws, "edges", pairs, self.edge_probability), self.n)
        labels = self.solve(inputs)
        lengths = torch.full((draws.batch,), self.n, device=draws.device)
        return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=lengths)

    def solve(self, inputs: Float[Tensor, "batch pos n"]) -> Labels:
        """Count closed walks of five steps, and take off those that meet a vertex twice.

        With i = j₀, such a walk has j₀ = j₂, j₀ = j₃, j₁ = j₃, j₁ = j₄ or j₂ = j₄. With d_i the degree and
        t_i the number of closed walks of three steps, the first two happen d_i t_i times each, j₁ = j₄ as
        often as the neighbours' t_j say, and the others once for every neighbour j, common neighbour and
        neighbour of j. Five couples of these can hold together, t_i times each, and no three. All counts
        stay below n⁴ ≤ 2^40, so float64 is exact.
        """
        edges = inputs.double()
        two = torch.bmm(edges, edges)
        three = torch.bmm(two, edges)
        walks = (two * three).sum(2)
        if self.distinct:
            degree = edges.sum(2)
            triangles = three.diagonal(dim1=1, dim2=2)
            beside = (edges * (2 * two * degree.unsqueeze(1) + triangles.unsqueeze(1))).sum(2)
            walks = walks - beside - (2 * degree - 5) * triangles
        return Labels(targets=(walks > 0).long(), mask=torch.ones_like(walks, dtype=torch.bool))

    def check_content(self, row: Float[Tensor, "pos n"]) -> None:
        """Zeros and ones, symmetric, no loops."""
        check_graph(self.name, row, directed=False)

    def domain_size(self) -> int:
        """2^(n(n−1)/2) graphs."""
        return 1 << self.n * (self.n - 1) // 2

    def decode(self, numbers: Int[Tensor, "batch"]) -> Float[Tensor, "batch pos n"]:
        """A binary digit for each possible edge."""
        return decode_graph(numbers, self.n, directed=False)

    def render(self, row: Float[Tensor, "pos n"]) -> str:
        """Vertices and edges: `5: 1-2 2-3 3-4`."""
        return render_graph(row, directed=False)

    def parse(self, text: str) -> Float[Tensor, "pos n"]:
        """The graph a text such as `5: 1-2 2-3 3-4` describes."""
        return parse_graph(text, self.n, directed=False)

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """1 on a 5-cycle, 0 off it."""
        return str(int(target))

    def partitions(self) -> Mapping[str, Partition]:
        """Alice holds the rows of the first half of the vertices."""
        return {"halves": Partition.prefix(self.length, self.n // 2)}
