"""Explicit Transformers: the layers of S, R and W with given weights, in any number system.

Queries are taken a few at a time and vectors of positions are made in chunks, so that what is in memory is
the keys, the values and a bounded number of logits, whatever the length.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias, final

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from separatrix.accounting import Size, StatePart
from separatrix.errors import InvalidFile, InvalidInput
from separatrix.models.explicit.base import ExplicitModel
from separatrix.models.explicit.input_reading import input_map_from
from separatrix.models.explicit.inputs import InputMap
from separatrix.models.explicit.layers import Layer, Readout
from separatrix.models.explicit.layout import Layout
from separatrix.models.explicit.running import Running, TokenByToken
from separatrix.precision import Float64, Numbers, NumberSystem, concatenate
from separatrix.records import JsonObject, Reader

__all__ = ["CausalTransformer", "Transformer", "UnmaskedTransformer", "transformer_from"]

_LOGITS_AT_ONCE: Final = 1 << 22
_NUMBERS_AT_ONCE: Final = 1 << 22

Rows: TypeAlias = Callable[[Int[Tensor, "batch asked"]], Numbers]
"""The stream before a layer at any places."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Transformer(ExplicitModel):
    """An input map, layers, a readout. The leaves say whether a position sees those behind it."""

    inputs: InputMap
    layers: tuple[Layer, ...]
    readout: Readout
    layout: Layout = field(default_factory=Layout)
    numbers: NumberSystem = field(default_factory=Float64)

    @property
    @abstractmethod
    def causal(self) -> bool:
        """Whether a position sees itself and those before it only."""

    @property
    def arithmetic(self) -> NumberSystem:
        """The numbers it computes with."""
        return self.numbers

    def with_arithmetic(self, system: NumberSystem) -> Transformer:
        """The same weights, computing with other numbers."""
        return dataclasses.replace(self, numbers=system)

    @property
    def classes(self) -> int | None:
        """How many classes it scores."""
        return self.readout.classes

    def outputs(
        self, inputs: Shaped[Tensor, "batch pos *width"], *, at: Int[Tensor, "batch asked"] | None = None
    ) -> Numbers:
        """Layer by layer, all positions; the last layer only where something is asked."""
        self.inputs.check(inputs)
        batch, end, device = inputs.shape[0], inputs.shape[1], inputs.device
        own = len(self.inputs.appended)
        lengths = self.inputs.lengths(inputs)
        places = torch.arange(end + own, device=device).expand(batch, -1)
        shown = (places < lengths[:, None]) | (places >= end)
        asked = places[:, :end] if at is None else at

        def embedded(wanted: Int[Tensor, "batch asked"]) -> Numbers:
            return self.numbers.encode(self.inputs.embed(inputs, wanted, lengths))

        rows: Rows = embedded
        for number, layer in enumerate(self.layers):
            kept = self._keep(layer, rows, places)
            wanted = asked if number == len(self.layers) - 1 else places
            stream = self._queries(layer, rows, kept, wanted, places, shown)
            rows = _rows_of(stream)
        return self.readout(self.numbers, stream)

    def _keep(
        self, layer: Layer, rows: Rows, places: Int[Tensor, "batch pos"]
    ) -> tuple[tuple[Numbers, ...], ...]:
        """What every head keeps of every position, made chunk by chunk."""
        step = max(1, _NUMBERS_AT_ONCE // max(1, places.shape[0] * self.inputs.width))
        chunks = [
            layer.keep(self.numbers, rows(places[:, low : low + step]))
            for low in range(0, places.shape[1], step)
        ]
        return tuple(
            tuple(concatenate([chunk[head][part] for chunk in chunks], axis=1) for part in range(len(known)))
            for head, known in enumerate(chunks[0])
        )

    def _queries(
        self,
        layer: Layer,
        rows: Rows,
        kept: tuple[tuple[Numbers, ...], ...],
        wanted: Int[Tensor, "batch asked"],
        places: Int[Tensor, "batch pos"],
        shown: Shaped[Tensor, "batch pos"],
    ) -> Numbers:
        """The layer's outputs at the wanted places, as many at once as there is room for."""
        batch, keys = places.shape
        most = max(head.logits_at_once(keys) for head in layer.heads)
        step = max(1, _LOGITS_AT_ONCE // max(1, batch * most))
        parts = []
        for low in range(0, wanted.shape[1], step):
            here = wanted[:, low : low + step]
            mask = shown[:, None, :].expand(-1, here.shape[1], -1)
            if self.causal:
                mask = mask & (places[:, None, :] <= here[:, :, None])
            # A place behind the end of its input asks for nothing; it must see something all the same.
            mask = mask | (~mask.any(2, keepdim=True) & (places[:, None, :] == here[:, :, None]))
            parts.append(layer(self.numbers, rows(here), kept, mask))
        return concatenate(parts, axis=1)

    def size(self, n: int, precision: int) -> Size:
        """Every count: weights and what codes store; keys and values as state."""
        kept = sum(head.kept for layer in self.layers for head in layer.heads)
        return Size(
            width=max(self.inputs.width, *(layer.out for layer in self.layers)),
            ffn_width=max(
                (layer.feed_forward.hidden for layer in self.layers if layer.feed_forward is not None),
                default=0,
            ),
            layers=len(self.layers),
            heads=max(len(layer.heads) for layer in self.layers),
            precision_bits=precision,
            parameters_without_embeddings=sum(layer.parameters for layer in self.layers)
            + self.readout.map.parameters,
            embedding_parameters=self.inputs.parameters,
            state=(StatePart(name="key-value cache", bits_per_position=kept * precision),),
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
            "layers": [layer.spec() for layer in self.layers],
            "readout": self.readout.spec(),
            "layout": self.layout.spec(),
        }

    def work(self, n: int) -> int:
        """Logits of all heads at all positions."""
        keys = n + len(self.inputs.appended)
        return sum(keys * head.logits_at_once(keys) for layer in self.layers for head in layer.heads)

    def describe(self) -> str:
        """The stream's slots, and what each head reads and writes."""
        masked = "causal" if self.causal else "unmasked"
        heads = " and ".join(f"{len(layer.heads)}" for layer in self.layers)
        first = f"{masked} Transformer, width {self.inputs.width}, layers: {len(self.layers)}, heads: {heads}"
        return "\n".join([first, *self.layout.lines()])


def _rows_of(stream: Numbers) -> Rows:
    def rows(wanted: Int[Tensor, "batch asked"]) -> Numbers:
        index = wanted.unsqueeze(2).expand(-1, -1, stream.shape[2])
        return stream.each(lambda part: part.gather(1, index))

    return rows


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class UnmaskedTransformer(Transformer):
    """Every position sees every other."""

    form: ClassVar[str] = "transformer"

    @property
    def causal(self) -> bool:
        """It is not."""
        return False


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class CausalTransformer(Transformer, TokenByToken):
    """A position sees itself and those before it, so tokens can be read one by one."""

    form: ClassVar[str] = "causal-transformer"

    def __post_init__(self) -> None:
        if self.inputs.knows_length or len(self.inputs.appended):
            raise InvalidInput(
                "A causal Transformer reads token by token, so its positions cannot know the length and "
                "nothing can stand behind the input; make it unmasked."
            )

    @property
    def causal(self) -> bool:
        """It is."""
        return True

    def start(self, batch: int, *, device: torch.device | str = "cpu") -> Running:
        """Nothing is kept yet."""
        return Running(
            self.inputs, self.layers, self.readout, self.numbers, batch=batch, device=torch.device(device)
        )

    @property
    def longest(self) -> int | None:
        """As far as its places go."""
        return self.inputs.longest


_FORMS: Final[Mapping[str, type[UnmaskedTransformer] | type[CausalTransformer]]] = {
    UnmaskedTransformer.form: UnmaskedTransformer,
    CausalTransformer.form: CausalTransformer,
}


def transformer_from(data: object, tensors: Mapping[str, Tensor]) -> Transformer:
    """The Transformer that a file describes, with exactly these weights."""
    read = Reader(data, what="the model")
    form = read.choice("form", tuple(_FORMS))
    left = dict(tensors)
    inputs = input_map_from(read.value("inputs"), left)
    width, layers = inputs.width, []
    described = read.items("layers")
    if not 1 <= len(described) <= 64:
        raise InvalidFile(f"A Transformer has 1 to 64 layers; got {len(described)}.")
    for i, each in enumerate(described):
        layers.append(Layer.taken(each, left, f"layers.{i}", width=width))
        width = layers[-1].out
    readout = Readout.taken(read.value("readout"), left, width=width)
    layout = Layout.from_spec(read.value("layout"))
    read.finish()
    if left:
        raise InvalidFile(f"The weights hold the tensor '{min(left)}', which belongs to nothing.")
    return _FORMS[form](inputs=inputs, layers=tuple(layers), readout=readout, layout=layout)
