"""What a causal model carries across a cut: read up to it, put on the wire, taken off it, gone on from.

A state crosses in the model's own numbers, so many bits as the model's `Size` says it has there: p bits for a
number of a p-bit system, one for a number that is known to be 0 or 1, the stored bits for a float. How a
state is laid out, both parties know; where that depends on the length, as with a cache of keys and values,
the receiver finds it by reading as many tokens of no meaning. Numbers that are no tensors, such as a count of
the tokens so far, are the same for every text and are not sent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from separatrix.communication.protocols.packing import RowsReader, RowsWriter
from separatrix.errors import InvalidInput
from separatrix.models.explicit.base import ExplicitModel
from separatrix.models.explicit.linear_rnn import LayeredRNN
from separatrix.models.explicit.recurrent import RecurrentModel
from separatrix.models.explicit.running import Running
from separatrix.models.explicit.transformer import CausalTransformer
from separatrix.models.interface import CausalModel, SequenceModel
from separatrix.models.quantised import Quantised
from separatrix.options import require
from separatrix.precision import (
    FixedPoint,
    Float32,
    Float64,
    Integers,
    Numbers,
    NumberSystem,
    concatenate,
    stack,
)

__all__ = ["Carrier", "carrier_of"]

State: TypeAlias = Any
Inputs: TypeAlias = Shaped[Tensor, "batch pos *width"]
_SYSTEMS: Final = {torch.float64: Float64(), torch.float32: Float32()}


class Carrier(ABC):
    """A causal model, and how its state crosses."""

    @property
    @abstractmethod
    def system(self) -> NumberSystem:
        """The numbers of its outputs."""

    @abstractmethod
    def state_bits(self, cut: int) -> int:
        """Bits of the state after so many tokens, as the model's size has them."""

    @abstractmethod
    def read(self, tokens: Inputs) -> State:
        """The state behind these tokens, which are the first."""

    @abstractmethod
    def write(self, state: State, writer: RowsWriter, cut: int) -> None:
        """Put the state after `cut` tokens into messages, one for each row."""

    @abstractmethod
    def taken(self, reader: RowsReader, like: Inputs, cut: int) -> State:
        """The state that messages hold; `like` are other tokens of the same texts, for shape and batch."""

    @abstractmethod
    def go_on(self, tokens: Inputs, state: State, wanted: Sequence[int]) -> tuple[Numbers, State]:
        """Outputs (batch, wanted, out) at some of the next tokens, counted from 0, and the state behind."""

    @abstractmethod
    def direct(self, inputs: Inputs, cut: int, asked: Sequence[int]) -> Numbers:
        """The same outputs at positions of whole inputs, without anything crossing.

        In fixed point by the model's own way; floats are rounded as they come, so they are read in the same
        two pieces.
        """


def carrier_of(model: SequenceModel) -> Carrier:
    """How this model's state crosses; a model without one is refused."""
    if isinstance(model, RecurrentModel):
        return _Recurrent(model)
    if isinstance(model, LayeredRNN | CausalTransformer):
        return _Layered(model)
    if isinstance(model, CausalModel) and not isinstance(model, ExplicitModel):
        return _Nested(model)
    raise InvalidInput(
        "A model carries a state across a cut if it reads from left to right; "
        f"{type(model).__name__} sees its input at once. Take a recurrent family."
    )


@final
class _Recurrent(Carrier):
    """One vector, whose fields may be known to hold bits."""

    def __init__(self, model: RecurrentModel) -> None:
        self._model = model

    @property
    def system(self) -> NumberSystem:
        return self._model.arithmetic

    def state_bits(self, cut: int) -> int:
        return self._model.size(max(cut, 1), self.system.bits).state_bits(cut)

    def read(self, tokens: Inputs) -> Numbers:
        state = self._model.start(len(tokens))
        for place in range(tokens.shape[1]):
            state = self._model.advance(tokens[:, place], state)
        return state

    def write(self, state: Numbers, writer: RowsWriter, cut: int) -> None:
        for field in self._model.state.fields:
            held = state[:, self._model.state.place(field.name)]
            if field.name not in self._model.binary:
                writer.numbers(held)
                continue
            bits = self.system.decode_float64(held)
            assert bool(((bits == 0) | (bits == 1)).all()), f"the field {field.name} holds no bits"
            writer.whole(Integers.of(bits.long(), 1), low=0, high=1)

    def taken(self, reader: RowsReader, like: Inputs, cut: int) -> Numbers:
        parts = []
        for field in self._model.state.fields:
            if field.name in self._model.binary:
                parts.append(self.system.encode(reader.whole(field.numbers, low=0, high=1).limbs[0]))
            else:
                parts.append(reader.numbers(self.system, field.numbers))
        return concatenate(parts, axis=1)

    def go_on(self, tokens: Inputs, state: Numbers, wanted: Sequence[int]) -> tuple[Numbers, Numbers]:
        found = {}
        for place in range(tokens.shape[1]):
            state = self._model.advance(tokens[:, place], state)
            if place in wanted:
                found[place] = self._model.scores_of(state)
        return stack([found[place] for place in wanted], axis=1), state

    def direct(self, inputs: Inputs, cut: int, asked: Sequence[int]) -> Numbers:
        at = torch.tensor(asked).expand(len(inputs), -1)
        return self._model.outputs(inputs, at=at)


@final
class _Layered(Carrier):
    """The states of recurrences, and the keys and values of attention."""

    def __init__(self, model: LayeredRNN | CausalTransformer) -> None:
        self._model = model

    @property
    def system(self) -> NumberSystem:
        return self._model.arithmetic

    def state_bits(self, cut: int) -> int:
        return self._model.size(max(cut, 1), self.system.bits).state_bits(cut)

    def read(self, tokens: Inputs) -> Running:
        state = self._model.start(len(tokens))
        state.advance(tokens)
        return state

    def write(self, state: Running, writer: RowsWriter, cut: int) -> None:
        writer.numbers(state.numbers())

    def taken(self, reader: RowsReader, like: Inputs, cut: int) -> Running:
        state = self._model.start(len(like))
        state.resume(reader.numbers(self.system, state.carried_after(cut)), cut)
        return state

    def go_on(self, tokens: Inputs, state: Running, wanted: Sequence[int]) -> tuple[Numbers, Running]:
        stream = state.advance(tokens)
        return state.outputs(stream[:, torch.tensor(wanted)]), state

    def direct(self, inputs: Inputs, cut: int, asked: Sequence[int]) -> Numbers:
        if isinstance(self.system, FixedPoint):
            return self._model.outputs(inputs, at=torch.tensor(asked).expand(len(inputs), -1))
        behind = [position - cut for position in asked]
        return self.go_on(inputs[:, cut:], self.read(inputs[:, :cut]), behind)[0]


@final
class _Nested(Carrier):
    """Lists and tuples of tensors (member, batch, …) and of plain numbers, as trained models carry them."""

    def __init__(self, model: CausalModel[State]) -> None:
        self._model = model
        self._grid = model if isinstance(model, Quantised) else None
        first = next(_tensors(model.start(1)), None)
        require(first is not None, "This model carries nothing from token to token, so nothing can cross.")
        assert first is not None
        require(
            first.dtype in _SYSTEMS,
            f"States of float32 and float64 cross exactly; this model carries {first.dtype}.",
        )
        self._dtype = first.dtype

    @property
    def system(self) -> NumberSystem:
        return _SYSTEMS[self._dtype]

    def state_bits(self, cut: int) -> int:
        return self._model.size(max(cut, 1), self.system.bits).state_bits(cut)

    def read(self, tokens: Inputs) -> State:
        state = self._model.start(len(tokens))
        for place in range(tokens.shape[1]):
            _, state = self._model.step(tokens[:, place], state)
        return state

    def write(self, state: State, writer: RowsWriter, cut: int) -> None:
        for values in _tensors(state):
            rows = _rows_first(values)
            if self._grid is None:
                writer.floats(rows)
                continue
            points = _points(self._grid, rows)
            assert torch.equal(_at_points(self._grid, points, rows.dtype), rows), "a state off its grid"
            writer.whole(Integers.of(points, self._grid.bits), low=0, high=(1 << self._grid.bits) - 1)

    def taken(self, reader: RowsReader, like: Inputs, cut: int) -> State:
        return self._filled(self.read(like.new_zeros(len(like), cut, *like.shape[2:])), reader)

    def _filled(self, state: State, reader: RowsReader) -> State:
        """A state of the same shape with the numbers that were sent."""
        if isinstance(state, Tensor):
            shape = _rows_first(state).shape[1:]
            if self._grid is None:
                return reader.floats(state.dtype, *shape).unsqueeze(0)
            points = reader.whole(*shape, low=0, high=(1 << self._grid.bits) - 1).limbs[0]
            return _at_points(self._grid, points, state.dtype).unsqueeze(0)
        if isinstance(state, list | tuple):
            return type(state)(self._filled(part, reader) for part in state)
        return state

    def go_on(self, tokens: Inputs, state: State, wanted: Sequence[int]) -> tuple[Numbers, State]:
        found = {}
        for place in range(tokens.shape[1]):
            scores, state = self._model.step(tokens[:, place], state)
            if place in wanted:
                found[place] = scores
        return Numbers(self.system, (torch.stack([found[place] for place in wanted], 1),)), state

    def direct(self, inputs: Inputs, cut: int, asked: Sequence[int]) -> Numbers:
        return self.go_on(inputs, self._model.start(len(inputs)), asked)[0]


def _tensors(state: State) -> Iterator[Tensor]:
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, list | tuple):
        for part in state:
            yield from _tensors(part)
    elif not isinstance(state, int | float):
        raise InvalidInput(
            f"A state is made of lists, tuples, tensors and numbers; got {type(state).__name__}."
        )


def _rows_first(values: Float[Tensor, "member batch *shape"]) -> Float[Tensor, "batch *shape"]:
    require(
        values.dim() >= 2 and values.shape[0] == 1 and values.is_floating_point(),
        f"Tensors of a state are floats (member, batch, …) with one member; got {values.dtype} of shape "
        f"{tuple(values.shape)}.",
    )
    return values.squeeze(0)


def _points(grid: Quantised, values: Tensor) -> Tensor:
    """The numbers of the points that a rounded state lies on."""
    steps = (1 << grid.bits) - 1
    return ((values / grid.reach + 1) / 2 * steps).round().long()


def _at_points(grid: Quantised, points: Tensor, dtype: torch.dtype) -> Tensor:
    """The points of these numbers, computed as the model rounds to them."""
    steps = (1 << grid.bits) - 1
    return (points.to(dtype) / steps * 2 - 1) * grid.reach
