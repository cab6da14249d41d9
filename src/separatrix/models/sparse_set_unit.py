"""R's self-attention unit, made for sparse averaging: softmax((φ(X)Wq)(φ(X)Wk)ᵀ) φ(X)Wv.

R lets φ be any map of one element, and there it does most of the work. A Transformer that reads the members
of S_i as q numbers, linearly, has nothing but the logits of one head between them and the places, and those
cannot single out q places. Here φ(v, S, i) = W v + Σ_{j ∈ S} e_j + p_i, with a learned vector e_j for every
name in a set and a learned vector p_i for every place: what the theorem's w_S and u_i become in training.

All initial weights are normal with deviation 1/√width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from separatrix.accounting import StatePart
from separatrix.errors import InvalidInput
from separatrix.models.kernels.table_rows import table_rows
from separatrix.models.laws import normal
from separatrix.models.members import Linear, MemberModule, taken
from separatrix.models.population import ModelConfig, Population, Signature
from separatrix.options import option, require
from separatrix.tasks.interface import Reals, Vectors

__all__ = ["SparseSetUnit"]


class SparseSetUnit(Population):
    """One head and nothing else: no residual, no norm, no feed-forward map, logits not divided."""

    name = "sparse-set-unit"
    title = "Self-attention unit"
    source = "Sanford, Hsu and Telgarsky, 2023"

    @dataclass(frozen=True, kw_only=True)
    class Config(ModelConfig):
        """The width of φ(X), queries and keys."""

        layers: int = option(1, help="always one")
        width: int = option(64, help="numbers of an element, of a query and of a key")

        def validate(self) -> None:
            """One unit."""
            require(self.layers == 1, f"{self.owner} is one layer; got layers={self.layers}. Leave it out.")

    config: Config

    def __init__(self, config: Config, signature: Signature, *, members: int) -> None:
        super().__init__(config, signature, members=members)
        inputs, targets = signature.inputs, signature.targets
        if not (isinstance(inputs, Reals) and isinstance(targets, Vectors) and inputs.width > targets.width):
            raise InvalidInput(
                f"{self.name} reads values with sets of places and answers with values, as "
                "q-sparse-averaging asks; this task is another."
            )
        width, law = config.width, normal(config.width**-0.5)
        self.dimension = targets.width
        self.reading = _Elements(members, signature.length, self.dimension, width)
        self.query = Linear(members, width, width, law=law)
        self.key = Linear(members, width, width, law=law)
        self.value = Linear(members, width, self.dimension, law=law)

    def attention(
        self, inputs: Float[Tensor, "member batch pos row"]
    ) -> Float[Tensor, "member batch query key"]:
        """Row i says how much place i takes from every place."""
        return self._weights(self.reading(inputs))

    def forward(
        self,
        inputs: Float[Tensor, "member batch pos row"],
        at: Int[Tensor, "member batch label"] | None = None,
    ) -> Float[Tensor, "member batch label dimension"]:
        """The means of what the places hold, weighted by the attention."""
        self.check_length(inputs, self.longest)
        elements = self.reading(inputs)
        return taken(self._weights(elements) @ self.value(elements), at)

    def _weights(
        self, elements: Float[Tensor, "member batch pos width"]
    ) -> Float[Tensor, "member batch query key"]:
        logits: Tensor = self.query(elements) @ self.key(elements).mT
        return logits.softmax(-1)

    @property
    def shape(self) -> tuple[int, int]:
        """No feed-forward map, one head."""
        return 0, 1

    @property
    def longest(self) -> int | None:
        """As many places as it has vectors for."""
        return self.signature.length

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """It does not read token by token."""
        return ()

    def embeddings(self) -> Iterator[Float[Tensor, "member rows width"]]:
        """The tables of names and of places."""
        yield self.reading.names
        yield self.reading.places


class _Elements(MemberModule):
    """φ, element by element."""

    def __init__(self, members: int, length: int, dimension: int, width: int) -> None:
        super().__init__(members)
        law = normal(width**-0.5)
        self.dimension = dimension
        # Row j of the names is e_j; row 0 stands for a member that is absent.
        self.names = self.parameter("names", (length + 1, width), law)
        self.places = self.parameter("places", (length, width), law)
        self.inward = Linear(members, dimension, width, law=law)

    def forward(
        self, inputs: Float[Tensor, "member batch pos row"]
    ) -> Float[Tensor, "member batch pos width"]:
        """φ(X)."""
        values, names = inputs[..., : self.dimension], inputs[..., self.dimension :].long()
        mixed: Tensor = self.inward(values.to(self.places.dtype)) + table_rows(self.names, names).sum(-2)
        return mixed + self.places[:, : inputs.shape[2]].unsqueeze(1)
