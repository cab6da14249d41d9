"""Recurrent networks given by their weights: one hidden layer a step, and a readout that sees only the state.

    h_t = carry·h_{t−1} + write·act(from_state·h_{t−1} + from_input·x_t + bias) + offset,    y_t = f(h_t)

x_t is the code of token t, h_0 = 0, act one of ReLU, logistic, tanh and hard sigmoid, and f a network of ReLU
layers. The weights are the same at every step. Nothing is done about padding beyond its code, the vector 0: a
construction whose lengths vary is built so that x_t = 0 changes nothing.

In fixed point each block of a map is an exact sum rounded once, and blocks are then added one after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.accounting import Size, StatePart, recurrent_state
from separatrix.errors import InvalidFile, InvalidInput
from separatrix.models.explicit.base import ExplicitModel, default_arithmetic, weight
from separatrix.models.explicit.recurrent_maps import (
    Coordinates,
    Encoded,
    LinearMap,
    Tensors,
    bounded_items,
    read_map,
)
from separatrix.models.explicit.recurrent_tokens import (
    ACTIVATIONS,
    Activation,
    DigitScores,
    TokenCode,
    activate,
)
from separatrix.models.interface import CausalModel
from separatrix.precision import Numbers, NumberSystem
from separatrix.records import JsonObject, Reader

__all__ = ["Readout", "ReadoutLayer", "RecurrentModel", "Update"]

MOST_LAYERS: Final = 16
NUMBERS_AT_ONCE: Final = 1 << 24


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Update:
    """The step's weights. Rows of `carry` and `write` are the state, those of the other maps the units."""

    activation: Activation
    carry: LinearMap
    write: LinearMap
    from_state: LinearMap
    from_input: LinearMap
    bias: Float[Tensor, "units"]
    offset: Float[Tensor, "state"]

    @property
    def state(self) -> Coordinates:
        """What the model remembers."""
        return self.carry.rows

    @property
    def units(self) -> Coordinates:
        """The hidden layer."""
        return self.from_state.rows

    def __post_init__(self) -> None:
        weight(self.bias, self.units.width)
        weight(self.offset, self.state.width)

    def maps(self) -> dict[str, LinearMap]:
        """The four maps by name."""
        return {
            "carry": self.carry,
            "write": self.write,
            "from_state": self.from_state,
            "from_input": self.from_input,
        }


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ReadoutLayer:
    """One affine map of the readout."""

    map: LinearMap
    bias: Float[Tensor, "rows"]

    def __post_init__(self) -> None:
        weight(self.bias, self.map.rows.width)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Readout:
    """ReLU between the layers, none behind the last: its outputs score classes or spell one in digits."""

    layers: tuple[ReadoutLayer, ...]
    scores: DigitScores | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.layers) <= MOST_LAYERS:
            raise InvalidInput(f"A readout has 1 to {MOST_LAYERS} layers; got {len(self.layers)}.")
        if self.scores is not None and self.scores.digits != self.layers[-1].map.rows.width:
            raise InvalidInput(
                f"A readout that spells a class in {self.scores.digits} digits has as many outputs; "
                f"got {self.layers[-1].map.rows.width}."
            )

    @property
    def classes(self) -> int:
        """How many classes it scores."""
        return self.layers[-1].map.rows.width if self.scores is None else self.scores.classes


@final
@dataclass(frozen=True, eq=False)
class _Weights:
    """Everything in the numbers of one system on one device."""

    maps: Mapping[str, Encoded]
    bias: Numbers
    offset: Numbers
    layers: tuple[tuple[Encoded, Numbers], ...]


@final
class RecurrentModel(ExplicitModel, CausalModel[Numbers]):
    """A recurrent network that scores classes after every token."""

    form = "recurrent"

    def __init__(
        self,
        *,
        tokens: TokenCode,
        update: Update,
        readout: Readout,
        binary: tuple[str, ...] = (),
        arithmetic: NumberSystem | None = None,
    ) -> None:
        """`binary` names fields of the state of which it is proven that they only ever hold 0 and 1."""
        unknown = set(binary) - {field.name for field in update.state.fields}
        if unknown or len(set(binary)) != len(binary):
            raise InvalidInput(f"Binary fields are different fields of the state; got {', '.join(binary)}.")
        self.tokens = tokens
        self.update = update
        self.readout = readout
        self.binary = binary
        self._arithmetic = arithmetic or default_arithmetic()
        self._encoded: dict[torch.device, _Weights] = {}

    @property
    def arithmetic(self) -> NumberSystem:
        """The numbers it computes with."""
        return self._arithmetic

    def with_arithmetic(self, system: NumberSystem) -> RecurrentModel:
        """The same weights, computing with other numbers."""
        return RecurrentModel(
            tokens=self.tokens,
            update=self.update,
            readout=self.readout,
            binary=self.binary,
            arithmetic=system,
        )

    @property
    def state(self) -> Coordinates:
        """What it remembers, by name."""
        return self.update.state

    @property
    def classes(self) -> int:
        """How many classes it scores."""
        return self.readout.classes

    def start(self, batch: int, *, device: torch.device | str = "cpu") -> Numbers:
        """All zeros."""
        zeros = torch.zeros(batch, self.state.width, dtype=torch.int64, device=device)
        return self._arithmetic.encode(zeros)

    def step(self, token: Int[Tensor, "batch"], state: Numbers) -> tuple[Float[Tensor, "batch out"], Numbers]:
        """The scores after one more token, as float64, and the state they were read from."""
        state = self.advance(token, state)
        return self._arithmetic.decode_float64(self.scores_of(state)), state

    def advance(self, token: Int[Tensor, "batch"], state: Numbers) -> Numbers:
        """The state after one more token."""
        system, update = self._arithmetic, self.update
        weights = self._weights(token.device)
        vectors = system.encode(self.tokens.rows(token))
        units = _rows_of(weights.bias, len(token))
        update.from_state.add_to(units, system, weights.maps["from_state"], state)
        update.from_input.add_to(units, system, weights.maps["from_input"], vectors)
        units = activate(system, update.activation, units)
        after = _rows_of(weights.offset, len(token))
        update.carry.add_to(after, system, weights.maps["carry"], state)
        update.write.add_to(after, system, weights.maps["write"], units)
        return after

    def kept(self, state: Numbers, rows: Int[Tensor, "row"]) -> Numbers:
        """Their states."""
        return state[rows]

    def scores_of(self, state: Numbers) -> Numbers:
        """The scores of the classes, from the state alone."""
        system, numbers = self._arithmetic, state
        for place, (matrices, bias) in enumerate(self._weights(state.device).layers):
            total = _rows_of(bias, state.shape[0])
            self.readout.layers[place].map.add_to(total, system, matrices, numbers)
            numbers = total if place == len(self.readout.layers) - 1 else system.relu(total)
        return numbers if self.readout.scores is None else self.readout.scores.scores(system, numbers)

    def outputs(
        self, inputs: Int[Tensor, "batch pos"], *, at: Int[Tensor, "batch asked"] | None = None
    ) -> Numbers:
        """Scores (batch, asked, classes), token by token; only what is asked for is read out."""
        self._check(inputs, at)
        batch, length = inputs.shape
        if at is None:
            at = torch.arange(length, device=inputs.device).expand(batch, length)
        zero = self._arithmetic.encode(torch.zeros(1, dtype=torch.int64, device=inputs.device))
        result = zero.each(lambda part: part.new_zeros(batch, at.shape[1], self.classes))
        widest = max(self.update.units.width, *(layer.map.rows.width for layer in self.readout.layers))
        rows_at_once = max(NUMBERS_AT_ONCE // (widest + self.classes), 1)
        for low in range(0, batch, rows_at_once):
            rows = slice(low, low + rows_at_once)
            self._fill(result[rows], inputs[rows], at[rows])
        return result

    def _fill(
        self, result: Numbers, inputs: Int[Tensor, "batch pos"], at: Int[Tensor, "batch asked"]
    ) -> None:
        """Run over the rows once and put the scores where they are asked for."""
        asked: dict[int, list[tuple[int, int]]] = {}
        for row, positions in enumerate(at.tolist()):
            for column, position in enumerate(positions):
                asked.setdefault(position, []).append((row, column))
        state = self.start(len(inputs), device=inputs.device)
        for position in range(max(asked, default=-1) + 1):
            state = self.advance(inputs[:, position], state)
            if position in asked:
                rows, columns = torch.tensor(asked[position], device=inputs.device).T
                scores = self.scores_of(state[rows])
                for target, source in zip(result.parts, scores.parts, strict=True):
                    target[rows, columns] = source

    def _check(self, inputs: Tensor, at: Tensor | None) -> None:
        if inputs.ndim != 2 or inputs.dtype != torch.int64:
            raise InvalidInput(
                f"A recurrent model reads int64 tokens of shape (batch, pos); got {inputs.dtype} of shape "
                f"{tuple(inputs.shape)}."
            )
        if inputs.numel() and not 0 <= int(inputs.min()) <= int(inputs.max()) < self.tokens.size:
            low, high = int(inputs.min()), int(inputs.max())
            raise InvalidInput(f"Tokens run from 0 to {self.tokens.size - 1}; got {low} to {high}.")
        if at is None:
            return
        if at.ndim != 2 or len(at) != len(inputs):
            raise InvalidInput(
                f"Positions asked for have the shape (batch, asked) with batch {len(inputs)}; "
                f"got {tuple(at.shape)}."
            )
        if at.numel() and not 0 <= int(at.min()) <= int(at.max()) < inputs.shape[1]:
            raise InvalidInput(
                f"Positions run from 0 to {inputs.shape[1] - 1}; got {int(at.min())} to {int(at.max())}."
            )

    def _weights(self, device: torch.device) -> _Weights:
        if device not in self._encoded:
            system = self._arithmetic
            self._encoded[device] = _Weights(
                maps={name: each.encoded(system, device) for name, each in self.update.maps().items()},
                bias=system.encode(self.update.bias.to(device)),
                offset=system.encode(self.update.offset.to(device)),
                layers=tuple(
                    (layer.map.encoded(system, device), system.encode(layer.bias.to(device)))
                    for layer in self.readout.layers
                ),
            )
        return self._encoded[device]

    @property
    def connections(self) -> int:
        """Weights and biases of the network written out, without those that no block holds."""
        maps = [*self.update.maps().values(), *(layer.map for layer in self.readout.layers)]
        biases = [self.update.bias, self.update.offset, *(layer.bias for layer in self.readout.layers)]
        return sum(each.connections for each in maps) + sum(bias.numel() for bias in biases)

    def size(self, n: int, precision: int) -> Size:
        """Weights as connections; a field that only ever holds 0 and 1 has one bit a number, others p bits.

        The tables of token and score codes count as embeddings, as if they were stored.
        """
        scores = self.readout.scores
        state: list[StatePart] = []
        for field in self.state.fields:
            bits = 1 if field.name in self.binary else precision
            state.append(recurrent_state(numbers=field.numbers, precision_bits=bits, name=field.name))
        width = self.state.width
        return Size(
            width=width,
            ffn_width=self.update.units.width,
            layers=1,
            heads=0,
            precision_bits=precision,
            parameters_without_embeddings=self.connections,
            embedding_parameters=self.tokens.size * self.tokens.coordinates.width
            + (0 if scores is None else scores.classes * scores.digits),
            state=tuple(state),
            source=(
                f"the weights written out, zeros between blocks left out; the state is {width:,} numbers, "
                f"which are {width * precision:,} bits at {precision} bits each were none known to be 0 or 1"
            ),
        )

    def tensors(self) -> Mapping[str, Float[Tensor, "..."]]:
        """The matrices of all blocks and the biases, by name."""
        return dict(self._named_tensors())

    def _named_tensors(self) -> Iterator[tuple[str, Float[Tensor, "..."]]]:
        for name, each in self.update.maps().items():
            yield from each.tensors(f"update.{name}")
        yield "update.bias", self.update.bias
        yield "update.offset", self.update.offset
        for place, layer in enumerate(self.readout.layers):
            yield from layer.map.tensors(f"readout.{place}")
            yield f"readout.{place}.bias", layer.bias

    def spec(self) -> JsonObject:
        """Codes, names of the coordinates, and where each block stands."""
        scores = self.readout.scores
        return {
            "form": self.form,
            "tokens": self.tokens.spec(),
            "state": self.state.spec(),
            "binary": list(self.binary),
            "units": self.update.units.spec(),
            "activation": self.update.activation,
            "update": {name: each.spec() for name, each in self.update.maps().items()},
            "readout": [
                {"rows": layer.map.rows.spec(), "blocks": layer.map.spec()} for layer in self.readout.layers
            ],
            "scores": None if scores is None else {"classes": scores.classes, "digits": scores.digits},
        }

    @classmethod
    def from_parts(cls, spec: object, tensors: Mapping[str, Tensor]) -> RecurrentModel:
        """The model that `spec` and `tensors` gave, read strictly."""
        given = Tensors(tensors)
        try:
            model = cls._read(Reader(spec, what="the recurrent model"), given)
        except InvalidInput as error:
            raise InvalidFile(f"The recurrent model breaks a rule: {error}") from error
        given.finish()
        return model

    @classmethod
    def _read(cls, read: Reader, given: Tensors) -> RecurrentModel:
        form = read.text("form", longest=80)
        if form != cls.form:
            raise InvalidFile(f"Expected a model of the form '{cls.form}'; got '{form}'.")
        tokens = TokenCode.read(read.value("tokens"))
        state, units = Coordinates.read(read, "state"), Coordinates.read(read, "units")
        inner = Reader(read.value("update"), what=f"{read.what}.update")
        shapes = {
            "carry": (state, state),
            "write": (state, units),
            "from_state": (units, state),
            "from_input": (units, tokens.coordinates),
        }
        maps = {
            name: read_map(inner, name, given, prefix=f"update.{name}", rows=rows, columns=columns)
            for name, (rows, columns) in shapes.items()
        }
        inner.finish()
        update = Update(
            activation=read.choice("activation", ACTIVATIONS),
            bias=given.vector("update.bias", units.width),
            offset=given.vector("update.offset", state.width),
            **maps,
        )
        readout = Readout(layers=_read_layers(read, given, state), scores=_read_scores(read))
        model = cls(tokens=tokens, update=update, readout=readout, binary=read.texts("binary"))
        read.finish()
        return model

    def work(self, n: int) -> int:
        """A step for each token."""
        return n

    def describe(self) -> str:
        """Tokens, state, units, what each block reads and writes, and the readout layer by layer."""
        blocks = ", ".join(
            f"{block.name} {block.first}–{block.first + block.count - 1} in {block.digits} digits"
            for block in self.tokens.blocks
        )
        lines = [
            f"tokens: {blocks}",
            f"state, {self.state.width:,} numbers: {self.state}",
            f"always 0 or 1: {', '.join(self.binary) or 'nothing is known to be'}",
            f"units, {self.update.units.width:,} with {self.update.activation}: {self.update.units}",
        ]
        for name, each in self.update.maps().items():
            lines += [f"  {name}: {line}" for line in each.describe()]
        for place, layer in enumerate(self.readout.layers, start=1):
            lines.append(f"readout layer {place}: {layer.map.rows}")
            lines += [f"  {line}" for line in layer.map.describe()]
        if self.readout.scores is not None:
            scores = self.readout.scores
            lines.append(f"scores: {scores.classes:,} classes by their {scores.digits} digits")
        return "\n".join(lines)


def _rows_of(vector: Numbers, batch: int) -> Numbers:
    """A copy of the vector for each row of a batch, to be added to in place."""
    return vector.each(lambda part: part.expand(batch, len(part)).clone())


def _read_layers(read: Reader, given: Tensors, state: Coordinates) -> tuple[ReadoutLayer, ...]:
    layers: list[ReadoutLayer] = []
    columns = state
    for place, item in enumerate(bounded_items(read, "readout", MOST_LAYERS)):
        inner = Reader(item, what=f"{read.what}.readout[{place}]")
        rows = Coordinates.read(inner, "rows")
        layers.append(
            ReadoutLayer(
                map=read_map(inner, "blocks", given, prefix=f"readout.{place}", rows=rows, columns=columns),
                bias=given.vector(f"readout.{place}.bias", rows.width),
            )
        )
        inner.finish()
        columns = rows
    return tuple(layers)


def _read_scores(read: Reader) -> DigitScores | None:
    if read.skip_null("scores"):
        return None
    inner = Reader(read.value("scores"), what=f"{read.what}.scores")
    scores = DigitScores(classes=inner.count("classes"), digits=inner.count("digits"))
    inner.finish()
    return scores
