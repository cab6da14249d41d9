"""What a model is made of, as far as it is counted: layers, their mixers and what each of them carries along.

A mixer is what moves information from position to position: attention, a recurrence. Only mixers have a state
(and RWKV's feed-forward map, which looks at the token before). Everything is a count of numbers or of bits;
nothing here holds a weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from separatrix.accounting import Size, StatePart, kv_cache

__all__ = [
    "CACHE",
    "CONVOLUTION",
    "RECURRENT",
    "SHIFT",
    "Anatomy",
    "Layer",
    "Mixer",
    "NumberBits",
    "attention_state",
    "convolution_state",
    "linear_map",
    "recurrent_state",
    "shift_state",
]

CACHE: Final = "key-value cache"
RECURRENT: Final = "recurrent state"
CONVOLUTION: Final = "convolution state"
SHIFT: Final = "token shift"


@dataclass(frozen=True, kw_only=True)
class NumberBits:
    """Bits of a number: where a model keeps its weights and caches, and where it keeps recurrent states.

    The two differ because transformers and flash-linear-attention accumulate most recurrent states in float32
    whatever the model's own dtype is.
    """

    stored: int
    recurrent: int


@dataclass(frozen=True, kw_only=True)
class Mixer:
    """A map across positions: its name, its parameters, and what it carries from token to token."""

    kind: str
    parameters: int
    state: tuple[StatePart, ...] = ()
    heads: int = 0


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Mixers that work side by side, and the parameters of what works on each position alone.

    `others` are norms and whatever else belongs to the layer.
    """

    mixers: tuple[Mixer, ...]
    feed_forward: int = 0
    others: int = 0

    @property
    def parameters(self) -> int:
        """Every number of the layer."""
        return sum(mixer.parameters for mixer in self.mixers) + self.feed_forward + self.others

    @property
    def kind(self) -> str:
        """Its mixers by name; a layer without any is a feed-forward map."""
        return " + ".join(mixer.kind for mixer in self.mixers) or "feed-forward"


@dataclass(frozen=True, kw_only=True)
class Anatomy:
    """A whole model: its layers, its tables, and what stands outside the layers.

    `outside` counts the last norm, the output head where it is no copy of the embeddings, and parts that
    several layers share. `positions` are the tokens that a learned table of positions has rows for, and
    more of them the model cannot read; None where there is no such table. `notes` tell the reader of a report
    what is special about the count.
    """

    model_type: str
    width: int
    ffn_width: int
    vocabulary: int
    layers: tuple[Layer, ...]
    embeddings: int
    outside: int
    bits: NumberBits
    positions: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def composition(self) -> str:
        """How many layers of each kind there are."""
        kinds = Counter(layer.kind for layer in self.layers)
        return ", ".join(f"{count} × {kind}" for kind, count in kinds.items())

    @property
    def state(self) -> tuple[StatePart, ...]:
        """The parts of all layers, those of one name added up."""
        return _added(part for layer in self.layers for mixer in layer.mixers for part in mixer.state)

    def size(self, *, source: str) -> Size:
        """Every count under the names that all models here share."""
        return Size(
            width=self.width,
            ffn_width=self.ffn_width,
            layers=len(self.layers),
            heads=max((mixer.heads for layer in self.layers for mixer in layer.mixers), default=0),
            precision_bits=self.bits.stored,
            parameters_without_embeddings=sum(layer.parameters for layer in self.layers) + self.outside,
            embedding_parameters=self.embeddings,
            state=self.state,
            source=source,
        )


def linear_map(inputs: int, outputs: int, *, bias: bool = False) -> int:
    """Parameters of an affine map, or of a linear one."""
    return inputs * outputs + (outputs if bias else 0)


def attention_state(
    *, heads: int, head_width: int, bits: int, window: int | None = None, kept: int | None = None
) -> tuple[StatePart, ...]:
    """The keys and values of one layer.

    `window` is how far a position looks, itself included; `kept` is how many positions are carried to the
    next token, by default one less, because the next token brings its own key.
    """
    if window is None:
        return (kv_cache(layers=1, heads=heads, head_width=head_width, precision_bits=bits, name=CACHE),)
    rows = window - 1 if kept is None else kept
    if rows == 0:
        return ()
    name = f"sliding window of {window:,}"
    return (
        kv_cache(layers=1, heads=heads, head_width=head_width, precision_bits=bits, window=rows, name=name),
    )


def recurrent_state(numbers: int, bits: int) -> tuple[StatePart, ...]:
    """A recurrence's own memory."""
    return (StatePart(name=RECURRENT, fixed_bits=numbers * bits),)


def convolution_state(*, channels: int, columns: int, bits: int) -> tuple[StatePart, ...]:
    """The last inputs of a short convolution; `columns` of them are kept."""
    numbers = channels * columns
    return (StatePart(name=CONVOLUTION, fixed_bits=numbers * bits),) if numbers else ()


def shift_state(numbers: int, bits: int) -> tuple[StatePart, ...]:
    """The token before, as RWKV keeps it."""
    return (StatePart(name=SHIFT, fixed_bits=numbers * bits),)


def _added(parts: Iterable[StatePart]) -> tuple[StatePart, ...]:
    """Parts of one name become one, the cache first and what does not grow behind it."""
    merged: dict[str, StatePart] = {}
    for part in parts:
        known = merged.get(part.name)
        merged[part.name] = (
            part
            if known is None
            else StatePart(
                name=part.name,
                fixed_bits=known.fixed_bits + part.fixed_bits,
                bits_per_position=known.bits_per_position + part.bits_per_position,
                window=part.window,
            )
        )
    return tuple(sorted(merged.values(), key=lambda part: (part.most_bits is not None, part.window is None)))
