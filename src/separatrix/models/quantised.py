"""A recurrent model whose state has few bits: after every token each number it carries is rounded to a grid.

Trained models carry floats, 32 bits a number, and a lower bound on the bits of a state says little of them
until that is cut down. `Quantised` is the same model with p bits a number: 2^p points from −reach to reach,
evenly spaced, ends included. What is beyond an end becomes that end.
"""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from separatrix.accounting import Size
from separatrix.errors import InvalidInput
from separatrix.models.interface import CausalModel
from separatrix.models.population import State
from separatrix.options import require

__all__ = ["Quantised"]


@final
class Quantised(CausalModel[State]):
    """Another causal model's weights, with a state of `bits` bits a number."""

    def __init__(self, model: CausalModel[State], *, bits: int, reach: float = 1.0) -> None:
        require(1 <= bits <= 16, f"A state is rounded to 1 to 16 bits a number; got bits={bits}.")
        require(reach > 0, f"A state is rounded within a positive reach; got reach={reach}.")
        self.model, self.bits, self.reach = model, bits, reach

    def start(self, batch: int, *, device: torch.device | str = "cpu") -> State:
        """The model's own beginning, rounded."""
        return self._rounded(self.model.start(batch, device=device))

    def step(
        self, token: Shaped[Tensor, "batch *width"], state: State
    ) -> tuple[Float[Tensor, "batch out"], State]:
        """The model's own step from a rounded state; the output is made before the new state is rounded."""
        outputs, state = self.model.step(token, state)
        return outputs, self._rounded(state)

    def forward(self, inputs: Shaped[Tensor, "batch pos *width"]) -> Float[Tensor, "batch pos out"]:
        """Token by token: there is no other way once states are rounded."""
        state, found = self.start(len(inputs), device=inputs.device), []
        for place in range(inputs.shape[1]):
            outputs, state = self.step(inputs[:, place], state)
            found.append(outputs)
        return torch.stack(found, 1)

    def kept(self, state: State, rows: Int[Tensor, "row"]) -> State:
        """As the model keeps them."""
        return self.model.kept(state, rows)

    @property
    def longest(self) -> int | None:
        """As far as the model goes."""
        return self.model.longest

    def size(self, n: int, precision: int) -> Size:
        """The model's own counts, with a state of `bits` bits a number whatever the parameters have."""
        counted = self.model.size(n, self.bits)
        own = self.model.size(n, precision)
        return Size(
            width=own.width,
            ffn_width=own.ffn_width,
            layers=own.layers,
            heads=own.heads,
            precision_bits=own.precision_bits,
            parameters_without_embeddings=own.parameters_without_embeddings,
            embedding_parameters=own.embedding_parameters,
            state=counted.state,
            source=f"{own.source}; the state rounded to {self.bits} bits a number",
        )

    def _rounded(self, state: State) -> State:
        if isinstance(state, Tensor):
            if not state.is_floating_point():
                return state
            steps = (1 << self.bits) - 1
            share = (state.clamp(-self.reach, self.reach) / self.reach + 1) / 2
            return ((share * steps).round() / steps * 2 - 1) * self.reach
        if isinstance(state, list | tuple):
            return type(state)(self._rounded(part) for part in state)
        if isinstance(state, int | float):
            return state
        raise InvalidInput(f"A state to be rounded is made of tensors; got {type(state).__name__}.")
