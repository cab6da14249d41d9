"""What two parties said to each other while they ran a model on an input that neither holds whole."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.evidence.bounds import Bound
from separatrix.evidence.html import grid, pairs
from separatrix.evidence.specs import TaskSpec, as_text
from separatrix.records import (
    JsonObject,
    JsonValue,
    Reader,
    Record,
    freeze,
    require_count,
    require_text,
    same_json,
    thaw,
)
from separatrix.theorems import family, theorem

__all__ = ["Comparison", "Message", "Party", "Transcript"]

Party = Literal["Alice", "Bob"]
_HEX = re.compile(r"(?:[0-9a-f]{2})*")
_LONGEST_PAYLOAD = 2**24


@dataclass(frozen=True, kw_only=True)
class Message(Record):
    """One message: who sent it, what it is, and its exact length in bits.

    `payload` is what went over the wire, if kept: the first bit is the highest of the first byte, and the
    unused low bits of the last byte are zero.
    """

    SCHEMA: ClassVar[str] = "separatrix.message"

    sender: Party
    name: str
    bits: int
    payload: bytes | None = None

    def __post_init__(self) -> None:
        if self.sender not in get_args(Party):
            raise InvalidInput(f"A message is sent by {' or '.join(get_args(Party))}.")
        require_text("A message", name=self.name)
        require_count("A message", bits=self.bits)
        if self.payload is None:
            return
        if not isinstance(self.payload, bytes) or len(self.payload) != -(-self.bits // 8):
            raise InvalidInput(f"A message of {self.bits} bits has a payload of {-(-self.bits // 8)} bytes.")
        unused = -self.bits % 8
        if unused and self.payload[-1] & ((1 << unused) - 1):
            raise InvalidInput("The unused bits at the end of a message's payload are zero.")

    def __str__(self) -> str:
        return f"{self.sender} sends {self.name}: {self.bits:,} bits"

    def to_fields(self) -> JsonObject:
        """The fields as JSON values; the payload in hexadecimal."""
        return {
            "sender": self.sender,
            "name": self.name,
            "bits": self.bits,
            "payload": None if self.payload is None else self.payload.hex(),
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Message:
        """The message whose fields `read` holds."""
        sender, name, bits = read.choice("sender", get_args(Party)), read.text("name"), read.count("bits")
        payload = None if read.skip_null("payload") else read.text("payload", longest=2 * _LONGEST_PAYLOAD)
        if payload is not None and not _HEX.fullmatch(payload):
            raise InvalidFile(f"Field 'payload' of {read.what} must be lower-case hexadecimal.")
        return cls(
            sender=sender, name=name, bits=bits, payload=None if payload is None else bytes.fromhex(payload)
        )


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The bits of a transcript beside a bound on the bits needed."""

    bits: int
    bound: Bound

    @property
    def enough(self) -> bool | None:
        """Whether the bits reach the bound; None where the bound has no number."""
        return self.bound.met_by(self.bits)

    def __str__(self) -> str:
        least = self.bound.at_least
        if least is None:
            return f"{self.bits:,} bits; {self.bound.theorem} proves no number to compare with"
        said = f"{self.bits:,} bits of at least {least} ({self.bound.theorem})"
        if self.enough:
            return f"{said}: the bound is kept"
        return f"{said}: too few, so the model is wrong on some input"


@dataclass(frozen=True, kw_only=True)
class Transcript(Record):
    """Every message of one run, in order, with the output of the run and of the model run directly.

    `protocol` is the theorem that gives the protocol; `partition` says in words who holds what.
    """

    SCHEMA: ClassVar[str] = "separatrix.transcript"

    protocol: str
    task: TaskSpec
    family: str
    partition: str
    messages: tuple[Message, ...]
    output: JsonValue
    direct_output: JsonValue

    def __post_init__(self) -> None:
        object.__setattr__(self, "protocol", theorem(self.protocol).id)
        family(self.family)
        require_text("A transcript", partition=self.partition)
        if not isinstance(self.messages, tuple) or not all(
            isinstance(message, Message) for message in self.messages
        ):
            raise InvalidInput("A transcript's messages are a tuple of Message.")
        for name in ("output", "direct_output"):
            object.__setattr__(self, name, freeze(getattr(self, name)))

    def __hash__(self) -> int:
        return hash((self.protocol, self.task, self.family, self.partition, self.messages))

    @property
    def bits(self) -> int:
        """All bits exchanged, both ways."""
        return sum(message.bits for message in self.messages)

    @property
    def rounds(self) -> int:
        """How often the word passes: one for a one-way protocol, none if nobody speaks."""
        senders = [message.sender for message in self.messages]
        return sum(1 for place, sender in enumerate(senders) if place == 0 or sender != senders[place - 1])

    @property
    def agrees(self) -> bool:
        """Whether the parties' output is the model's own, bit for bit."""
        return same_json(self.output, self.direct_output)

    def bits_from(self, sender: Party) -> int:
        """The bits that one party sent."""
        return sum(message.bits for message in self.messages if message.sender == sender)

    def compare(self, bound: Bound) -> Comparison:
        """Its bits beside a bound on bits for the same task; a bound on anything else is refused."""
        if bound.unit != "bits":
            raise InvalidInput(f"A transcript is counted in bits; this bound is in {bound.unit}.")
        if bound.task.name != self.task.name:
            raise InvalidInput(f"This transcript is of {self.task.name}; the bound is on {bound.task.name}.")
        return Comparison(bits=self.bits, bound=bound)

    def __str__(self) -> str:
        lines = [f"{self.task} by {self.family}, {self.partition} ({self.protocol})"]
        lines += [f"  {message}" for message in self.messages]
        agreement = (
            "as the model itself" if self.agrees else f"but the model says {as_text(self.direct_output)}"
        )
        return "\n".join([*lines, f"{self.bits:,} bits in all; output {as_text(self.output)}, {agreement}"])

    def _repr_html_(self) -> str:
        about = pairs(
            f"Transcript: {self.bits:,} bits",
            (
                ("task", str(self.task)),
                ("family", self.family),
                ("who holds what", self.partition),
                ("protocol", self.protocol),
                ("rounds", str(self.rounds)),
                ("output", as_text(self.output)),
                ("model's own output", as_text(self.direct_output)),
                ("agrees", "yes" if self.agrees else "no"),
            ),
        )
        rows = ((message.sender, message.name, f"{message.bits:,}") for message in self.messages)
        return about + grid("Messages", ("sender", "message", "bits"), rows)

    def to_fields(self) -> JsonObject:
        """The fields as JSON values, and what follows from them for readers."""
        return {
            "protocol": self.protocol,
            "task": self.task.to_fields(),
            "family": self.family,
            "partition": self.partition,
            "bits": self.bits,
            "agrees": self.agrees,
            "messages": [message.to_fields() for message in self.messages],
            "output": thaw(self.output),
            "direct_output": thaw(self.direct_output),
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Transcript:
        """The transcript whose fields `read` holds."""
        transcript = cls(
            protocol=read.text("protocol"),
            task=read.record("task", TaskSpec),
            family=read.text("family"),
            partition=read.text("partition"),
            messages=read.records("messages", Message),
            output=read.value("output"),
            direct_output=read.value("direct_output"),
        )
        read.agrees("bits", transcript.bits)
        read.agrees("agrees", transcript.agrees)
        return transcript
