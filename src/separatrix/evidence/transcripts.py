"""What two parties said to each other while they ran a model on an input that neither holds whole."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.evidence.bounds import EXCHANGED_BITS, ONE_WAY_BITS, Bound
from separatrix.evidence.fitting import check_run
from separatrix.evidence.html import grid, pairs
from separatrix.evidence.specs import TaskSpec, as_text
from separatrix.record_checks import require_count, require_kind, require_text
from separatrix.records import JsonObject, JsonValue, Reader, Record, freeze, same_json, thaw
from separatrix.theorems import families_within, family, theorem

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
        if len(self.payload) > _LONGEST_PAYLOAD:
            raise InvalidInput(
                f"A payload kept may have {_LONGEST_PAYLOAD} bytes; it has {len(self.payload)}."
            )
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
    """The bits of a transcript beside a bound on the bits needed.

    A bound speaks of the worst input and a transcript of one, so too few bits refute a model only if no run
    of its protocol is longer, as with messages of fixed length. A conditional bound refutes nothing unless
    its condition holds.
    """

    bits: int
    bound: Bound

    @property
    def enough(self) -> bool | None:
        """Whether the bits reach the bound's number; None where it has none."""
        return self.bound.met_by(self.bits)

    def __str__(self) -> str:
        bound = self.bound
        if bound.status == "open":
            return f"{self.bits:,} bits; {bound.theorem} is an open question, from which nothing follows"
        if bound.at_least is None:
            return f"{self.bits:,} bits; {bound.theorem} proves no number to compare with"
        condition = f"if {bound.condition} " if bound.condition else ""
        said = f"{self.bits:,} bits, {bound.requirement} needed {condition}({bound.theorem})"
        if self.enough:
            return f"{said}: the bound is kept"
        return f"{said}: too few, so {condition}a model whose every run is this short is wrong on some input"


@dataclass(frozen=True, kw_only=True)
class Transcript(Record):
    """Every message of one run, in order, with the output of the run and of the model run directly.

    `protocol` is the theorem that gives the protocol; `family` is that of the model that was run; `partition`
    is the name of the split of the input, as the task calls it.
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
        require_text("A transcript", protocol=self.protocol, family=self.family, partition=self.partition)
        require_kind("A transcript", "task", self.task, TaskSpec)
        entry = theorem(self.protocol)
        object.__setattr__(self, "protocol", entry.id)
        family(self.family)
        check_run(entry, task=self.task.name, family=self.family)
        if not isinstance(self.messages, tuple) or not all(
            isinstance(message, Message) for message in self.messages
        ):
            raise InvalidInput("A transcript's messages are a tuple of Message.")
        if entry.id == "S-T2" and any(message.sender == "Bob" for message in self.messages):
            raise InvalidInput("S-T2 claims no protocol in which Bob speaks.")
        for name in ("output", "direct_output"):
            object.__setattr__(self, name, freeze(getattr(self, name)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transcript):
            return NotImplemented
        return same_json(self.to_fields(), other.to_fields())

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
        """Whether the parties' output is the model's own, value for value."""
        return same_json(self.output, self.direct_output)

    def bits_from(self, sender: Party) -> int:
        """The bits that one party sent."""
        return sum(message.bits for message in self.messages if message.sender == sender)

    def compare(self, bound: Bound) -> Comparison:
        """Its bits beside a bound on `EXCHANGED_BITS` or `ONE_WAY_BITS` that speaks of this run.

        That is a bound on the same task with the same parameters and the same partition, on two parties or on
        a family that contains this one; any other is refused. A bound on one message speaks of runs in which
        Alice alone speaks, and then of all of them: what she must say does not depend on how it was computed.
        """
        if not isinstance(bound, Bound):
            raise InvalidInput(f"A transcript is compared with a Bound; got {type(bound).__name__}.")
        if bound.quantity not in {EXCHANGED_BITS, ONE_WAY_BITS}:
            raise InvalidInput(
                f"A transcript counts {EXCHANGED_BITS}; this bound is on {bound.quantity[:40]}."
            )
        if bound.quantity == ONE_WAY_BITS and self.bits_from("Bob"):
            raise InvalidInput("A bound on one message from Alice says nothing of a run in which Bob speaks.")
        if bound.task != self.task:
            raise InvalidInput(f"This transcript is of {self.task}; the bound is on {bound.task}.")
        of_models = bound.family is not None and bound.quantity != ONE_WAY_BITS
        if of_models and self.family not in families_within(bound.family or ""):
            raise InvalidInput(
                f"This transcript is of {self.family}; the bound is on {bound.family}, "
                "which does not contain it."
            )
        if bound.partition != self.partition:
            raise InvalidInput(
                f"This transcript is of the split {self.partition}; "
                f"the bound is on the split {bound.partition}."
            )
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
