"""W's recurrent models: layers of linear recurrences, and the hybrid with one attention layer on top."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, final

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.accounting import Size, StatePart
from separatrix.errors import InvalidFile, InvalidInput
from separatrix.models.explicit.base import ExplicitModel
from separatrix.models.explicit.input_reading import input_map_from
from separatrix.models.explicit.inputs import InputMap
from separatrix.models.explicit.layers import Layer, Readout
from separatrix.models.explicit.layout import Layout
from separatrix.models.explicit.recurrence import RecurrentLayer
from separatrix.models.explicit.running import Running, TokenByToken
from separatrix.precision import Float64, Numbers, NumberSystem
from separatrix.records import JsonObject, Reader

__all__ = ["Hybrid", "LayeredRNN", "LinearRNN", "layered_rnn_from"]

_MOST_LAYERS: Final = 256
_STEP: Final = 1 << 14  # products that take about as long as what every step needs


@dataclass(frozen=True, kw_only=True, eq=False)
class LayeredRNN(ExplicitModel, TokenByToken):
    """An input map, recurrent layers, what may stand on top of them, a readout."""

    inputs: InputMap
    recurrent: tuple[RecurrentLayer, ...]
    readout: Readout
    layout: Layout = field(default_factory=Layout)
    numbers: NumberSystem = field(default_factory=Float64)

    def __post_init__(self) -> None:
        if self.inputs.knows_length or len(self.inputs.appended):
            raise InvalidInput(
                "A recurrent model reads token by token, so its positions cannot know the length and "
                "nothing can stand behind the input."
            )

    @property
    @abstractmethod
    def attention(self) -> tuple[Layer, ...]:
        """The attention layers on top."""

    @property
    def layers(self) -> tuple[RecurrentLayer | Layer, ...]:
        """All layers in order."""
        return (*self.recurrent, *self.attention)

    @property
    def arithmetic(self) -> NumberSystem:
        """The numbers it computes with."""
        return self.numbers

    def with_arithmetic(self, system: NumberSystem) -> LayeredRNN:
        """The same weights, computing with other numbers."""
        return dataclasses.replace(self, numbers=system)

    @property
    def classes(self) -> int | None:
        """How many classes it scores."""
        return self.readout.classes

    def outputs(
        self, inputs: Int[Tensor, "batch pos"], *, at: Int[Tensor, "batch asked"] | None = None
    ) -> Numbers:
        """From the first token on, all positions at once layer by layer; read where something is asked."""
        self.inputs.check(inputs)
        running = self.start(len(inputs), device=inputs.device)
        stream = running.advance(inputs)
        if at is not None:
            index = at.unsqueeze(2).expand(-1, -1, stream.shape[2])
            stream = stream.each(lambda part: part.gather(1, index))
        return running.outputs(stream)

    def start(self, batch: int, *, device: torch.device | str = "cpu") -> Running:
        """Every state is 0, nothing is kept."""
        return Running(
            self.inputs, self.layers, self.readout, self.numbers, batch=batch, device=torch.device(device)
        )

    @property
    def longest(self) -> int | None:
        """As far as its places go."""
        return self.inputs.longest

    def size(self, n: int, precision: int) -> Size:
        """Every count: weights; the numbers of all states; keys and values that grow with n."""
        numbers = sum(layer.state for layer in self.recurrent)
        kept = sum(head.kept for layer in self.attention for head in layer.heads)
        state = [StatePart(name="recurrent state", fixed_bits=numbers * precision)]
        if kept:
            state.append(StatePart(name="key-value cache", bits_per_position=kept * precision))
        inner = [layer.feed_forward.hidden for layer in self.layers if layer.feed_forward is not None]
        return Size(
            width=self.inputs.width,
            ffn_width=max(inner, default=0),
            layers=len(self.layers),
            heads=max((len(layer.heads) for layer in self.attention), default=0),
            precision_bits=precision,
            parameters_without_embeddings=sum(layer.parameters for layer in self.layers)
            + self.readout.map.parameters,
            embedding_parameters=self.inputs.parameters,
            state=tuple(state),
            source="counted on the explicit weights",
        )

    def tensors(self) -> dict[str, Tensor]:
        """Inputs, layers, readout."""
        found = {**self.inputs.tensors()}
        for i, layer in enumerate(self.layers):
            found |= layer.tensors(f"layers.{i}")
        return found | self.readout.map.tensors("readout")

    def spec(self) -> JsonObject:
        """All that is no weight."""
        return {
            "form": self.form,
            "inputs": self.inputs.spec(),
            "recurrent": [layer.spec() for layer in self.recurrent],
            "attention": [layer.spec() for layer in self.attention],
            "readout": self.readout.spec(),
            "layout": self.layout.spec(),
        }

    def work(self, n: int) -> int:
        """Steps of all recurrences, a large one as several, and logits of the heads."""
        heads = sum(head.logits_at_once(n) for layer in self.attention for head in layer.heads)
        width = self.inputs.width
        steps = sum(1 + layer.state * (layer.state + 2 * width) // _STEP for layer in self.recurrent)
        return n * (steps + heads)

    def describe(self) -> str:
        """The stream's slots, and what each head and memory reads and writes."""
        numbers = sum(layer.state for layer in self.recurrent)
        first = (
            f"{self.form}, width {self.inputs.width}, layers: {len(self.layers)}, "
            f"numbers in the state: {numbers}"
        )
        return "\n".join([first, *self.layout.lines()])


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class LinearRNN(LayeredRNN):
    """Recurrent layers and nothing else."""

    form: ClassVar[str] = "linear-rnn"

    @property
    def attention(self) -> tuple[Layer, ...]:
        """None."""
        return ()


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Hybrid(LayeredRNN):
    """Recurrent layers, and exactly one layer of causal attention behind them."""

    form: ClassVar[str] = "hybrid"

    top: Layer

    @property
    def attention(self) -> tuple[Layer, ...]:
        """The one on top."""
        return (self.top,)


def layered_rnn_from(data: object, tensors: Mapping[str, Tensor]) -> LayeredRNN:
    """The model that a file describes, with exactly these weights."""
    read = Reader(data, what="the model")
    form = read.choice("form", (LinearRNN.form, Hybrid.form))
    left = dict(tensors)
    inputs = input_map_from(read.value("inputs"), left)
    width = inputs.width
    described, above = read.items("recurrent"), read.items("attention")
    wanted = 1 if form == Hybrid.form else 0
    if not 1 <= len(described) <= _MOST_LAYERS or len(above) != wanted:
        raise InvalidFile(
            f"A model of the form {form} has 1 to {_MOST_LAYERS} recurrent layers and {wanted} of attention; "
            f"got {len(described)} and {len(above)}."
        )
    recurrent = tuple(
        RecurrentLayer.taken(each, left, f"layers.{i}", width=width) for i, each in enumerate(described)
    )
    top = [Layer.taken(each, left, f"layers.{len(recurrent)}", width=width) for each in above]
    readout = Readout.taken(read.value("readout"), left, width=top[-1].out if top else width)
    layout = Layout.from_spec(read.value("layout"))
    read.finish()
    if left:
        raise InvalidFile(f"The weights hold the tensor '{min(left)}', which belongs to nothing.")
    if top:
        return Hybrid(inputs=inputs, recurrent=recurrent, top=top[0], readout=readout, layout=layout)
    return LinearRNN(inputs=inputs, recurrent=recurrent, readout=readout, layout=layout)
