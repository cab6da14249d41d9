"""Exact numbers as strings of bits: one message for each row of a batch, all rows at once.

A whole number between two ends that both parties know is sent as its distance from the lower one, in as many
bits as the upper one needs. A number of a fixed-point system lies between −limit and limit steps, which are
just the p bits of the system; a float is sent as the bits that it is stored in. What is read back is equal,
bit for bit, and a message that is too short, too long or says what cannot be is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from separatrix.communication.wire import BitString
from separatrix.errors import InvalidInput
from separatrix.precision import FixedPoint, Integers, Numbers, NumberSystem
from separatrix.precision.integers import LIMB, WORD, ceil_log2

__all__ = ["RowsReader", "RowsWriter", "numbers_of", "require_fixed", "steps_of", "width_between"]

Bits: TypeAlias = NDArray[np.uint8]


def require_fixed(system: NumberSystem, what: str) -> FixedPoint:
    """Fixed point, where sums do not depend on their order; floats are refused."""
    if not isinstance(system, FixedPoint):
        raise InvalidInput(
            f"{what} is exact in p-bit arithmetic, where a sum does not depend on its order; got "
            f"{type(system).__name__.lower()}. Try down:16,2 (S) or nearest:31 (W)."
        )
    return system


def width_between(low: int, high: int) -> int:
    """Bits that tell the whole numbers from `low` to `high` apart."""
    return (high - low).bit_length()


def steps_of(numbers: Numbers) -> Integers:
    """Fixed-point numbers as whole numbers of steps."""
    system = numbers.system
    assert isinstance(system, FixedPoint), f"{system} has no steps"
    return Integers(system.parts_of(numbers), ceil_log2(system.limit))


def numbers_of(system: FixedPoint, steps: Integers) -> Numbers:
    """So many steps as numbers of a system; beyond an end of its range, that end."""
    inside = steps.clamp(-system.limit, system.limit).bounded(ceil_log2(system.limit))
    return Numbers(system, inside.limbs)


@final
class RowsWriter:
    """Collects numbers of all rows of a batch; axes behind the first are read row by row."""

    def __init__(self, batch: int) -> None:
        """Nothing is written yet."""
        self._batch = batch
        self._parts: list[Bits] = []

    def whole(self, values: Integers, *, low: int, high: int) -> None:
        """Whole numbers from `low` to `high`."""
        assert not bool(values.less(low).any()), f"a number below {low} was to be sent"
        assert bool(values.less(high + 1).all()), f"a number above {high} was to be sent"
        columns = (values - low).each(lambda limb: limb.reshape(self._batch, -1)).columns()
        width = width_between(low, high)
        bits = np.zeros((*columns[0].shape, width), dtype=np.uint8)
        for place in range(width):
            limb = min(place // LIMB, len(columns) - 1)
            bits[..., width - 1 - place] = (columns[limb] >> (place - LIMB * limb)).numpy() & 1
        self._parts.append(bits.reshape(self._batch, -1))

    def numbers(self, numbers: Numbers) -> None:
        """Numbers of a system, as many bits each as the system says."""
        system = numbers.system
        if isinstance(system, FixedPoint):
            self.whole(steps_of(numbers), low=-system.limit, high=system.limit)
        else:
            self.floats(system.parts_of(numbers)[0])

    def floats(self, values: Float[Tensor, "batch *shape"]) -> None:
        """The stored bits of floats, sign first."""
        size = values.dtype.itemsize
        stored = values.detach().contiguous().view(torch.uint8).numpy().reshape(self._batch, -1, size)
        self._parts.append(np.unpackbits(stored[:, :, ::-1].reshape(self._batch, -1), axis=1))

    def done(self) -> list[BitString]:
        """A message for each row."""
        empty = np.zeros((self._batch, 0), dtype=np.uint8)
        bits = np.concatenate([empty, *self._parts], axis=1)
        return [BitString(bits=bits.shape[1], data=row.tobytes()) for row in np.packbits(bits, axis=1)]


@final
class RowsReader:
    """Takes numbers out of one message for each row, in the order they were written."""

    def __init__(self, messages: Sequence[BitString]) -> None:
        """All messages are equally long: nothing about their length depends on the data."""
        lengths = {message.bits for message in messages}
        if len(lengths) != 1:
            raise InvalidInput(f"Messages of a protocol have one length; got {sorted(lengths)[:5]} bits.")
        stored = np.frombuffer(b"".join(message.data for message in messages), dtype=np.uint8)
        self._batch = len(messages)
        self._bits = np.unpackbits(stored.reshape(self._batch, -1), axis=1)[:, : messages[0].bits]

    def expect(self, bits: int) -> None:
        """Refuse messages of another length."""
        if self._bits.shape[1] != bits:
            raise InvalidInput(
                f"This message of the protocol has {bits} bits in every run; got {self._bits.shape[1]}."
            )

    def whole(self, *shape: int, low: int, high: int) -> Integers:
        """Whole numbers from `low` to `high`, (batch, *shape)."""
        width = width_between(low, high)
        bits = self._taken(math.prod(shape) * width).reshape(self._batch, *shape, width).astype(np.int64)
        chunk = width if width <= WORD else LIMB
        limbs = []
        for first in range(0, max(width, 1), max(chunk, 1)):
            places = bits[..., max(0, width - first - chunk) : width - first]
            weights = 1 << np.arange(places.shape[-1] - 1, -1, -1, dtype=np.int64)
            limbs.append(torch.from_numpy((places * weights).sum(-1)))
        found = Integers(tuple(limbs), width)
        if not bool(found.less(high - low + 1).all()):
            raise InvalidInput(f"A message holds a number above {high}, which no run of the protocol sends.")
        return found + low

    def numbers(self, system: NumberSystem, *shape: int) -> Numbers:
        """Numbers of a system, (batch, *shape)."""
        if isinstance(system, FixedPoint):
            return numbers_of(system, self.whole(*shape, low=-system.limit, high=system.limit))
        dtype = torch.float64 if system.bits == 64 else torch.float32
        return Numbers(system, (self.floats(dtype, *shape),))

    def floats(self, dtype: torch.dtype, *shape: int) -> Float[Tensor, "batch *shape"]:
        """Floats by their stored bits, (batch, *shape)."""
        size = dtype.itemsize
        bits = self._taken(math.prod(shape) * 8 * size)
        stored = np.packbits(bits, axis=1).reshape(self._batch, -1, size)[:, :, ::-1]
        flat = torch.from_numpy(np.ascontiguousarray(stored).reshape(self._batch, -1))
        return flat.view(dtype).reshape(self._batch, *shape)

    def finish(self) -> None:
        """Refuse messages that say more than was read."""
        if self._bits.shape[1]:
            raise InvalidInput(f"A message has {self._bits.shape[1]} bits more than the protocol reads.")

    def _taken(self, count: int) -> Bits:
        if count > self._bits.shape[1]:
            raise InvalidInput(f"A message has {self._bits.shape[1]} bits left; {count} were asked for.")
        taken, self._bits = self._bits[:, :count], self._bits[:, count:]
        return taken
