"""What goes between two parties: strings of bits of an exact length, and a channel that counts them.

A `BitWriter` packs numbers of stated widths, the first bit the highest of the first byte, the last byte
filled with zeros; a `BitReader` takes them out again and refuses to end early. Nothing else crosses the wire:
no type, no shape, no length. Both parties know the protocol, so a message's meaning follows from its place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from separatrix.errors import InvalidInput
from separatrix.evidence import Message, Party

__all__ = ["BitReader", "BitString", "BitWriter", "Channel", "Recorder"]


@final
@dataclass(frozen=True, kw_only=True)
class BitString:
    """So many bits in as few bytes as hold them."""

    bits: int
    data: bytes

    def __post_init__(self) -> None:
        if len(self.data) != -(-self.bits // 8):
            raise InvalidInput(
                f"{self.bits} bits fill {-(-self.bits // 8)} bytes; got {len(self.data)} bytes."
            )


@final
class BitWriter:
    """Collects numbers, each in its own number of bits."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, int]] = []

    def unsigned(self, number: int, *, bits: int) -> None:
        """A whole number from 0 to 2^bits − 1."""
        if not 0 <= number < 1 << bits:
            raise InvalidInput(f"{bits} bits hold numbers from 0 to {(1 << bits) - 1}; got {number}.")
        self._parts.append((number, bits))

    def signed(self, number: int, *, bits: int) -> None:
        """A whole number from −2^(bits − 1) to 2^(bits − 1) − 1, in two's complement."""
        half = 1 << (bits - 1)
        if not -half <= number < half:
            raise InvalidInput(f"{bits} bits hold numbers from {-half} to {half - 1}; got {number}.")
        self._parts.append((number % (2 * half), bits))

    def all_unsigned(self, numbers: Sequence[int], *, bits: int) -> None:
        """Several, one after another."""
        for number in numbers:
            self.unsigned(number, bits=bits)

    def all_signed(self, numbers: Sequence[int], *, bits: int) -> None:
        """Several, one after another."""
        for number in numbers:
            self.signed(number, bits=bits)

    def done(self) -> BitString:
        """All that was written."""
        total = sum(bits for _, bits in self._parts)
        value = 0
        for number, bits in self._parts:
            value = value << bits | number
        return BitString(bits=total, data=(value << (-total % 8)).to_bytes(-(-total // 8), "big"))


@final
class BitReader:
    """Takes numbers out of a string of bits in the order they were written."""

    def __init__(self, string: BitString) -> None:
        self._value = int.from_bytes(string.data, "big") >> (-string.bits % 8)
        self._left = string.bits

    def unsigned(self, *, bits: int) -> int:
        """The next whole number of so many bits."""
        if bits > self._left:
            raise InvalidInput(f"A message has {self._left} bits left; {bits} were asked for.")
        self._left -= bits
        return self._value >> self._left & ((1 << bits) - 1)

    def signed(self, *, bits: int) -> int:
        """The next whole number in two's complement."""
        number = self.unsigned(bits=bits)
        return number - (1 << bits) if number >> (bits - 1) else number

    def all_unsigned(self, count: int, *, bits: int) -> list[int]:
        """The next so many numbers."""
        return [self.unsigned(bits=bits) for _ in range(count)]

    def all_signed(self, count: int, *, bits: int) -> list[int]:
        """The next so many numbers."""
        return [self.signed(bits=bits) for _ in range(count)]

    def finish(self) -> None:
        """Refuse a message that says more than was read."""
        if self._left:
            raise InvalidInput(f"A message has {self._left} bits more than the protocol reads.")


class Channel(ABC):
    """One party's end of the wire."""

    @abstractmethod
    def send(self, name: str, message: BitString) -> None:
        """Hand the other party a message; the name is for the transcript and is not sent."""

    @abstractmethod
    def receive(self) -> BitString:
        """The other party's next message; waits for it."""


@final
class Recorder:
    """Every message of a run in the order it was sent."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def note(self, sender: Party, name: str, message: BitString, *, keep: bool) -> None:
        """Count a message; with `keep`, remember what it said."""
        payload = message.data if keep else None
        self.messages.append(Message(sender=sender, name=name, bits=message.bits, payload=payload))
