"""Graph units of higher order: attention of a vertex over tuples of others, by the edges of a closed walk.

R's graph unit sees an adjacency matrix and lets the attention between two vertices depend on their edge
through an element-wise map κ. In order t a vertex i attends to all tuples (j_1, …, j_{t−1}), and the logit of
a tuple is κ of the edges i → j_1 → … → j_{t−1} → i. A dummy stands beside the tuples, for a vertex whose
tuples are all bad. Nothing here grows with the graph: an affine κ of t numbers, two values and the readout.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.accounting import Size
from separatrix.errors import InvalidFile, InvalidInput, TooLarge
from separatrix.models.explicit.base import ExplicitModel
from separatrix.models.explicit.layers import Readout
from separatrix.models.explicit.linear import Affine, affine, taken
from separatrix.precision import Float64, Numbers, NumberSystem, RoundingPoints, stack
from separatrix.records import JsonObject, Reader

__all__ = ["GraphUnit", "graph_unit_from"]

_EDGES_AT_ONCE: Final = 1 << 21
_LARGEST_ORDER: Final = 8
_MOST_LOGITS: Final = 1 << 33


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GraphUnit(ExplicitModel):
    """softmax over tuples and a dummy of κ(edges of the walk), applied to their values; then a readout.

    `kernel` is κ: `order` edges to a logit. Every tuple has the same value; the dummy has a logit and a value
    of its own. Tuples are taken a bounded number at a time. In fixed point that changes nothing, because sums
    of exps and of products are exact there; in floats it is one of the orders in which a sum may be taken.
    """

    form: ClassVar[str] = "graph-unit"

    kernel: Affine
    value: Float[Tensor, "out"]
    dummy_logit: Float[Tensor, "1"]
    dummy_value: Float[Tensor, "out"]
    readout: Readout
    numbers: NumberSystem = field(default_factory=Float64)

    @property
    def order(self) -> int:
        """t: edges of the walk, and vertices on it."""
        return self.kernel.inner

    @property
    def arithmetic(self) -> NumberSystem:
        """The numbers it computes with."""
        return self.numbers

    def with_arithmetic(self, system: NumberSystem) -> GraphUnit:
        """The same weights, computing with other numbers."""
        return dataclasses.replace(self, numbers=system)

    @property
    def classes(self) -> int | None:
        """How many classes it scores."""
        return self.readout.classes

    def outputs(
        self, inputs: Float[Tensor, "batch pos n"], *, at: Int[Tensor, "batch asked"] | None = None
    ) -> Numbers:
        """Attention in three rounds over the tuples: the largest logit, the sum of exps, the weighted sum."""
        batch, n, width = inputs.shape
        if n != width:
            raise InvalidInput(f"A graph unit reads square matrices; got {n} rows of {width} numbers.")
        if n**self.order > _MOST_LOGITS:
            raise TooLarge(
                f"A graph unit of order {self.order} computes {n}^{self.order} logits on {n} vertices; up to "
                f"{_MOST_LOGITS:,} are taken. Take a smaller graph."
            )
        system, device = self.numbers, inputs.device
        places = torch.arange(n, device=device).expand(batch, -1) if at is None else at
        shape = (batch, places.shape[1])
        dummy = system.encode(self.dummy_logit.to(device)).expand(*shape)
        values = system.encode(torch.stack([self.value, self.dummy_value]).to(device))

        top = dummy
        for logits in self._logits(inputs, places):
            top = system.max(stack([top, system.max(logits, -1)], -1), -1)
        own = system.exp(system.subtract(dummy, top))
        total = own
        for logits in self._logits(inputs, places):
            total = system.add(total, system.sum(system.exp(system.subtract(logits, top[..., None])), -1))
        found = self._weighted(system.divide(own, total)[..., None], values[1:])
        for logits in self._logits(inputs, places):
            exps = system.exp(system.subtract(logits, top[..., None]))
            weights = system.divide(exps, total[..., None])
            found = system.add(found, self._weighted(weights, values[:1]))
        return self.readout(system, found)

    def _weighted(self, weights: Numbers, value: Numbers) -> Numbers:
        """Each weight times one value, every product rounded, and their sum: (batch, asked, out)."""
        rows = weights.reshape(-1, 1, weights.shape[-1])
        column = value.expand(weights.shape[-1], value.shape[1])
        summed = self.numbers.matmul(rows, column, rounding=RoundingPoints.EVERY_STEP)
        return summed.reshape(*weights.shape[:-1], value.shape[1])

    def _logits(
        self, inputs: Float[Tensor, "batch n n"], places: Int[Tensor, "batch asked"]
    ) -> Iterator[Numbers]:
        """The logits (batch, asked, tuple) of some tuples at a time."""
        batch, n = inputs.shape[:2]
        asked, count = places.shape[1], n ** (self.order - 1)
        room = max(1, _EDGES_AT_ONCE // max(1, batch * asked * self.order))
        index = places[:, :, None].expand(-1, -1, n)
        leaving = inputs.gather(1, index)
        entering = inputs.mT.gather(1, index)
        for low in range(0, count, room):
            number = torch.arange(low, min(count, low + room), device=inputs.device)
            tuple_ = [number // n ** (self.order - 2 - step) % n for step in range(self.order - 1)]
            inside = [
                inputs[:, first, second].unsqueeze(1).expand(-1, asked, -1)
                for first, second in itertools.pairwise(tuple_)
            ]
            edges = torch.stack([leaving[..., tuple_[0]], *inside, entering[..., tuple_[-1]]], dim=-1)
            encoded = self.numbers.encode(edges.double())
            yield affine(self.numbers, encoded, self.kernel.matrix, self.kernel.bias)[..., 0]

    def size(self, n: int, precision: int) -> Size:
        """Its few weights; between vertices nothing is kept but the graph itself."""
        own = self.kernel.parameters + 2 * self.value.numel() + 1 + self.readout.map.parameters
        return Size(
            width=max(1, self.value.numel()),
            ffn_width=0,
            layers=1,
            heads=1,
            precision_bits=precision,
            parameters_without_embeddings=own,
            embedding_parameters=0,
            source="counted on the explicit weights",
        )

    def tensors(self) -> dict[str, Tensor]:
        """κ, the values, the dummy, the readout."""
        return {
            **self.kernel.tensors("kernel"),
            "value": self.value,
            "dummy.logit": self.dummy_logit,
            "dummy.value": self.dummy_value,
            **self.readout.map.tensors("readout"),
        }

    def spec(self) -> JsonObject:
        """The order, and what the readout gives."""
        return {"form": self.form, "order": self.order, "readout": self.readout.spec()}

    def work(self, n: int) -> int:
        """A logit for each vertex and tuple."""
        return int(n**self.order)

    def describe(self) -> str:
        """What it attends to."""
        return (
            f"graph unit of order {self.order}: each vertex attends to all tuples of {self.order - 1} others "
            f"by the {self.order} edges of the closed walk through them, and to a dummy"
        )


def graph_unit_from(data: object, tensors: Mapping[str, Tensor]) -> GraphUnit:
    """The graph unit that a file describes, with exactly these weights."""
    read = Reader(data, what="the model")
    read.choice("form", (GraphUnit.form,))
    order = read.count("order")
    if not 2 <= order <= _LARGEST_ORDER:
        raise InvalidFile(f"A graph unit has an order of 2 to {_LARGEST_ORDER}; got {order}.")
    left = dict(tensors)
    kernel = Affine.taken(left, "kernel", inner=order)
    if kernel.out != 1:
        raise InvalidFile(f"The kernel of a graph unit gives one logit; got {kernel.out}.")
    value = taken(left, "value", None)
    unit = GraphUnit(
        kernel=kernel,
        value=value,
        dummy_logit=taken(left, "dummy.logit", 1),
        dummy_value=taken(left, "dummy.value", value.shape[0]),
        readout=Readout.taken(read.value("readout"), left, width=value.shape[0]),
    )
    read.finish()
    if left:
        raise InvalidFile(f"The weights hold the tensor '{min(left)}', which belongs to nothing.")
    return unit
