"""A feed-forward net on the whole input at once, as R sets against attention for sparse averaging.

The input is flattened, token vectors or real numbers one after another; hidden layers of one width with ReLU
follow, and one output vector holds the answers at all positions. So it is made for one length, and its first
matrix grows with the input.

Initial weights after He et al., 2015: normal with deviation √(2/fan-in) into a ReLU, √(1/fan-in) into the
answers, biases zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from separatrix.accounting import StatePart
from separatrix.errors import InvalidInput
from separatrix.models import MODELS
from separatrix.models.kernels.table_rows import table_rows
from separatrix.models.laws import constant, normal
from separatrix.models.members import Linear, MemberModule, taken
from separatrix.models.population import ModelConfig, Population, Signature
from separatrix.options import option, require
from separatrix.tasks.interface import Reals, Tokens

__all__ = ["FeedForwardNet"]


@MODELS.register("fnn")
class FeedForwardNet(Population):
    """Hidden layers of one width on the flattened input."""

    name = "fnn"
    title = "Feed-forward net"
    source = "He et al., 2015; for sparse averaging, Sanford, Hsu and Telgarsky, 2023"

    @dataclass(frozen=True, kw_only=True)
    class Config(ModelConfig):
        """Hidden layers and their width; tokens become vectors of `token_width` numbers."""

        layers: int = option(2, help="hidden layers")
        width: int = option(256, help="numbers of a hidden layer")
        token_width: int = option(8, help="numbers that a token becomes, where the input is tokens")

        def validate(self) -> None:
            """A token becomes something."""
            require(
                self.token_width >= 1,
                f"{self.owner} needs token_width of at least 1; got token_width={self.token_width}. Try 8.",
            )

    config: Config

    def __init__(self, config: Config, signature: Signature, *, members: int) -> None:
        super().__init__(config, signature, members=members)
        inputs, length = signature.inputs, signature.length
        tokens = inputs.size if isinstance(inputs, Tokens) else 0
        self.reading = TokenTable(members, tokens, config.token_width) if tokens else None
        wide = length * (inputs.width if isinstance(inputs, Reals) else config.token_width)
        widths = [wide, *[config.width] * config.layers]
        self.hidden = nn.ModuleList(
            Linear(members, fan_in, out, law=normal(math.sqrt(2 / fan_in)), bias=constant(0))
            for fan_in, out in pairwise(widths)
        )
        law = normal(config.width**-0.5)
        self.readout = Linear(members, config.width, length * signature.out, law=law, bias=constant(0))

    @property
    def shape(self) -> tuple[int, int]:
        """The hidden width; no heads."""
        return self.config.width, 0

    @property
    def longest(self) -> int | None:
        """The one length that it reads."""
        return self.signature.length

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """It does not read token by token."""
        return ()

    def embeddings(self) -> Iterator[Float[Tensor, "member *shape"]]:
        """The token table, where there is one."""
        if self.reading is not None:
            yield self.reading.table

    def forward(
        self,
        inputs: Shaped[Tensor, "member batch pos *width"],
        at: Int[Tensor, "member batch label"] | None = None,
    ) -> Float[Tensor, "member batch label out"]:
        """The answers at the positions `at`, out of the one vector that holds all of them."""
        length = self.signature.length
        if inputs.shape[2] != length:
            raise InvalidInput(
                f"This fnn reads inputs of exactly {length} positions and got one of {inputs.shape[2]}; "
                "build it for that length."
            )
        x = inputs if self.reading is None else self.reading(inputs)
        x = x.flatten(2).to(self.readout.weight.dtype)
        for layer in self.hidden:
            x = torch.relu(layer(x))
        return taken(self.readout(x).view(*inputs.shape[:3], self.signature.out), at)


class TokenTable(MemberModule):
    """A vector for each token."""

    def __init__(self, members: int, tokens: int, width: int) -> None:
        super().__init__(members)
        self.table = self.parameter("table", (tokens, width), normal(1))

    def forward(self, tokens: Int[Tensor, "member batch pos"]) -> Float[Tensor, "member batch pos width"]:
        """Each member's own rows."""
        return table_rows(self.table, tokens)
