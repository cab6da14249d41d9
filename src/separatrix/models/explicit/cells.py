"""Causal layers token by token: what each carries along, and how it goes on from there.

A cell holds a layer's weights in one number system on one device, and what the layer keeps of the tokens so
far: keys and values, or the state of a recurrence. `advance` takes the stream at the next positions, one or
many, and gives it back behind the layer; many at once are what the same positions one by one are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.layers import Layer
from separatrix.models.explicit.linear import Prepared
from separatrix.models.explicit.recurrence import RecurrentLayer
from separatrix.precision import Numbers, NumberSystem, concatenate

__all__ = ["AttentionCell", "Cell", "RecurrentCell", "cell_of"]

_LOGITS_AT_ONCE: Final = 1 << 18  # so few that they stay in cache; a GPU has room for more
_LOGITS_ON_A_GPU: Final = 1 << 24
_FIRST_ROOM: Final = 64


class Cell(ABC):
    """A causal layer at some place of a text."""

    @abstractmethod
    def advance(self, stream: Numbers) -> Numbers:
        """The stream behind the layer at the next positions, (batch, position, width)."""

    @abstractmethod
    def keep_rows(self, rows: Int[Tensor, "row"]) -> None:
        """Go on with these rows of the batch only."""

    @property
    @abstractmethod
    def carried(self) -> int:
        """Numbers that it carries for a row of the batch, zeros that only fill up left out."""

    @abstractmethod
    def carried_after(self, seen: int) -> int:
        """How many it carries after so many positions."""

    @abstractmethod
    def numbers(self) -> Numbers:
        """What it carries, (batch, number)."""

    @abstractmethod
    def resume(self, numbers: Numbers, seen: int) -> None:
        """Go on from the numbers that another such cell carried after `seen` positions."""


def cell_of(layer: Layer | RecurrentLayer, system: NumberSystem, batch: int, device: torch.device) -> Cell:
    """The layer before the first token."""
    if isinstance(layer, Layer):
        return AttentionCell(layer, system, batch, device)
    return RecurrentCell(layer, system, batch, device)


class _Growing:
    """Numbers (batch, head, position, ·) to which positions are added, in room that doubles as it fills."""

    def __init__(self) -> None:
        self._room: Numbers | None = None
        self.length = 0

    def append(self, fresh: Numbers) -> Numbers:
        """All positions there are now, the new ones last."""
        after = self.length + fresh.shape[2]
        if self._room is None or self._room.shape[2] < after:
            self._room = self._larger(fresh, max(_FIRST_ROOM, 2 * after))
        for held, new in zip(self._room.parts, fresh.parts, strict=True):
            held[:, :, self.length : after] = new
        self.length = after
        return self._room[:, :, :after]

    @property
    def held(self) -> Numbers:
        """All positions there are."""
        assert self._room is not None, "nothing is kept yet"
        return self._room[:, :, : self.length]

    def _larger(self, like: Numbers, room: int) -> Numbers:
        shape = (*like.shape[:2], room, like.shape[3])
        larger = like.each(lambda part: part.new_zeros(shape))
        if self._room is not None:
            for held, old in zip(larger.parts, self._room.parts, strict=True):
                held[:, :, : self.length] = old[:, :, : self.length]
        return larger

    def keep_rows(self, rows: Int[Tensor, "row"]) -> None:
        if self._room is not None:
            self._room = self._room[rows]


@final
class AttentionCell(Cell):
    """Attention with a cache. All heads of the layer are computed side by side, the narrow ones filled up.

    What is filled up with zeros adds nothing but zeros to a logit and to a value.
    """

    def __init__(self, layer: Layer, system: NumberSystem, batch: int, device: torch.device) -> None:
        """Nothing is kept yet."""
        heads = [head for head in layer.heads if isinstance(head, Head)]
        if len(heads) != len(layer.heads):
            raise InvalidInput(
                "Token by token, attention is over single positions; this layer has heads of a higher order."
            )
        self._system, self._layer = system, layer
        self._heads, self._inner = len(heads), max(head.inner for head in heads)
        self._value = max(head.out for head in heads)
        stacked = [
            _filled([getattr(head, name) for head in heads], rows)
            for name, rows in (("query", self._inner), ("key", self._inner), ("value", self._value))
        ]
        self._queries_keys_values = Prepared(system, torch.cat(stacked), None, device)
        self._output = Prepared(system, _spread(layer.output, heads, self._value), None, device)
        self._psi = None if layer.feed_forward is None else layer.feed_forward.prepared(system, device)
        self._keys, self._values = _Growing(), _Growing()

    def advance(self, stream: Numbers) -> Numbers:
        """Keys and values first, then the queries, as many at once as there is room for."""
        system, (batch, count) = self._system, stream.shape[:2]
        projected = self._queries_keys_values(stream)
        ends = (self._heads * self._inner, 2 * self._heads * self._inner)
        queries = self._by_head(projected[..., : ends[0]])
        before = self._keys.length
        keys = self._keys.append(self._by_head(projected[..., ends[0] : ends[1]]))
        values = self._values.append(self._by_head(projected[..., ends[1] :]))
        most = _LOGITS_ON_A_GPU if stream.device.type == "cuda" else _LOGITS_AT_ONCE
        step = max(1, most // (batch * self._heads * keys.shape[2]))
        parts = []
        for low in range(0, count, step):
            here, seen = queries[:, :, low : low + step], before + min(count, low + step)
            # Keys behind the last of these queries are seen by none of them.
            shown = keys[:, :, :seen], values[:, :, :seen]
            parts.append(system.attention(here, *shown, mask=_mask(here, seen, before + low)))
        found = parts[0] if len(parts) == 1 else concatenate(parts, axis=2)
        joined = found.transpose(1, 2).reshape(batch, count, self._heads * self._value)
        y = self._output(joined)
        if self._layer.attention_residual:
            y = system.add(stream, y)
        if self._psi is None:
            return y
        image = self._psi(y)
        return system.add(y, image) if self._layer.feed_forward_residual else image

    def _by_head(self, projected: Numbers) -> Numbers:
        batch, count, width = projected.shape
        return projected.reshape(batch, count, self._heads, width // self._heads).transpose(1, 2)

    def keep_rows(self, rows: Int[Tensor, "row"]) -> None:
        """Their keys and values."""
        self._keys.keep_rows(rows)
        self._values.keep_rows(rows)

    @property
    def carried(self) -> int:
        """Keys and values of all positions so far."""
        return self.carried_after(self._keys.length)

    def carried_after(self, seen: int) -> int:
        """Keys and values of so many positions."""
        return seen * sum(head.kept for head in self._layer.heads)

    def numbers(self) -> Numbers:
        """Head by head, the keys and then the values."""
        parts = []
        for place, (inner, out) in enumerate(self._widths):
            for kept, width in ((self._keys, inner), (self._values, out)):
                held = kept.held[:, place, :, :width]
                parts.append(held.reshape(held.shape[0], held.shape[1] * width))
        return concatenate(parts, axis=1)

    def resume(self, numbers: Numbers, seen: int) -> None:
        """Taken apart again, the narrow heads filled up."""
        batch, start = numbers.shape[0], 0
        self._keys, self._values = _Growing(), _Growing()
        keys = numbers.each(lambda part: part.new_zeros(batch, self._heads, seen, self._inner))
        values = numbers.each(lambda part: part.new_zeros(batch, self._heads, seen, self._value))
        for place, (inner, out) in enumerate(self._widths):
            for room, width in ((keys, inner), (values, out)):
                found = numbers[:, start : start + seen * width].reshape(batch, seen, width)
                for held, new in zip(room.parts, found.parts, strict=True):
                    held[:, place, :, :width] = new
                start += seen * width
        self._keys.append(keys)
        self._values.append(values)

    @property
    def _widths(self) -> list[tuple[int, int]]:
        return [(head.inner, head.out) for head in self._layer.heads]


@final
class RecurrentCell(Cell):
    """A recurrence: its state is all it carries."""

    def __init__(self, layer: RecurrentLayer, system: NumberSystem, batch: int, device: torch.device) -> None:
        """The state is 0."""
        self._system, self._layer = system, layer
        nothing = torch.zeros(batch, layer.state, dtype=torch.int64, device=device)
        self.state = system.encode(nothing)
        self._move = Prepared(system, torch.cat([layer.transition, layer.feed], dim=1), None, device)
        self._output = Prepared(system, layer.output, None, device)
        self._psi = None if layer.feed_forward is None else layer.feed_forward.prepared(system, device)

    def advance(self, stream: Numbers) -> Numbers:
        """State by state; what is read of the states, and g, for all positions at once."""
        y = stream
        if self._layer.state:
            states = []
            for place in range(stream.shape[1]):
                self.state = self._move(concatenate([self.state, stream[:, place]], axis=1))
                states.append(self.state.each(lambda part: part.unsqueeze(1)))
            joined = states[0] if len(states) == 1 else concatenate(states, axis=1)
            y = self._system.add(stream, self._output(joined))
        return y if self._psi is None else self._system.add(y, self._psi(y))

    def keep_rows(self, rows: Int[Tensor, "row"]) -> None:
        """Their states."""
        self.state = self.state[rows]

    @property
    def carried(self) -> int:
        """The state."""
        return self.state.shape[1]

    def carried_after(self, seen: int) -> int:
        """Always the same."""
        return self.carried

    def numbers(self) -> Numbers:
        """The state itself."""
        return self.state

    def resume(self, numbers: Numbers, seen: int) -> None:
        """The state is all there is."""
        self.state = numbers


def _filled(matrices: Sequence[Tensor], rows: int) -> Tensor:
    """Matrices one below the other, each filled up with rows of zeros."""
    return torch.cat([torch.nn.functional.pad(each, (0, 0, 0, rows - len(each))) for each in matrices])


def _spread(output: Tensor, heads: Sequence[Head], width: int) -> Tensor:
    """Wo with columns of zeros where heads were filled up."""
    parts = torch.split(output, [head.out for head in heads], dim=1)
    return torch.cat([torch.nn.functional.pad(each, (0, width - each.shape[1])) for each in parts], dim=1)


def _mask(queries: Numbers, total: int, first: int) -> Bool[Tensor, "query key"] | None:
    """Which of so many keys a query sees; None where it is the last position and sees them all."""
    count = queries.shape[2]
    if count == 1:
        return None
    asking = torch.arange(first, first + count, device=queries.device)
    return torch.arange(total, device=queries.device) <= asking.unsqueeze(1)
