"""What a protocol is: all that both parties know, and two who know their own part of the input besides.

A `Protocol` holds the model, who holds which position and which answers are wanted. From it and a `Part` a
`Speaker` is made, who talks to the other one through a channel and through nothing else. A batch of inputs is
run at once, each with a channel of its own, so that the messages of one input never meet those of another.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias, final

import torch
from jaxtyping import Shaped
from torch import Tensor

from separatrix.communication.protocols.packing import RowsReader, RowsWriter
from separatrix.communication.wire import BitString, Channel
from separatrix.evidence import Party
from separatrix.models.explicit.base import ExplicitModel
from separatrix.precision import Numbers, NumberSystem
from separatrix.records import JsonValue
from separatrix.tasks.interface import Partition

__all__ = ["Answer", "Count", "Known", "Part", "Protocol", "Speaker", "direct_answers", "known_of"]

_MOST_SPELLED: Final = 1024
"""Bits of outputs that a transcript writes out."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """What one party holds: its positions of an input of `length`, and what stands there in each row."""

    party: Party
    length: int
    positions: tuple[int, ...]
    values: Shaped[Tensor, "batch held *width"]

    @staticmethod
    def of(party: Party, inputs: Shaped[Tensor, "batch pos *width"], partition: Partition) -> Part:
        """The party's part of whole inputs, copied out of them."""
        positions = partition.alice if party == "Alice" else partition.bob
        values = inputs[:, torch.tensor(positions, dtype=torch.int64)].clone()
        return Part(party=party, length=inputs.shape[1], positions=positions, values=values)

    @property
    def batch(self) -> int:
        """How many inputs there are."""
        return len(self.values)

    def rows(self) -> Shaped[Tensor, "batch pos *width"]:
        """Whole rows with zeros at the positions of the other party."""
        rows = self.values.new_zeros(self.batch, self.length, *self.values.shape[2:])
        rows[:, torch.tensor(self.positions, dtype=torch.int64)] = self.values
        return rows


@final
@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer at a position: a class or a vector; with the model's outputs, bit for bit, if known."""

    value: JsonValue
    outputs: str | None = None
    """The outputs as they would be sent, in hexadecimal, or the hash of very many."""

    def to_fields(self) -> dict[str, JsonValue]:
        """The fields as JSON values."""
        return {"answer": self.value, "outputs": self.outputs}


Known: TypeAlias = Mapping[int, Answer]
"""What a party knows at the end of a run, by the position asked for."""


@final
@dataclass(frozen=True, kw_only=True)
class Count:
    """A number of bits that a theorem allows, beside the formula that gives it."""

    name: str
    formula: str
    bits: int


class Speaker(ABC):
    """Alice or Bob: one part of the input, and what both know."""

    def __init__(self, part: Part) -> None:
        """What it holds."""
        self.part = part

    @abstractmethod
    def run(self, wires: Sequence[Channel]) -> list[Known]:
        """Talk, one wire for each input, and say what is known in the end."""

    def send(self, wires: Sequence[Channel], name: str, writer: RowsWriter) -> None:
        """One message on each wire."""
        for wire, message in zip(wires, writer.done(), strict=True):
            wire.send(name, message)

    def receive(self, wires: Sequence[Channel], *, bits: int) -> RowsReader:
        """The next message of each wire, which has so many bits in every run."""
        messages: list[BitString] = [wire.receive() for wire in wires]
        reader = RowsReader(messages)
        reader.expect(bits)
        return reader


class Protocol(ABC):
    """What both parties know. Every run of a protocol has the same messages, `bits` bits in all."""

    theorem: ClassVar[str]
    """The theorem that gives it."""
    family: ClassVar[str]
    """The family of models that the theorem speaks of."""

    def __init__(self, partition: Partition, asked: tuple[int, ...]) -> None:
        """Who holds which position, and the positions at which an answer is wanted."""
        self.partition, self.asked = partition, asked

    @abstractmethod
    def speaker(self, part: Part) -> Speaker:
        """The party that holds this part."""

    @abstractmethod
    def direct(self, inputs: Shaped[Tensor, "batch pos *width"]) -> list[Known]:
        """The model's own answers, computed by one who holds everything."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """All bits of a run, known beforehand."""

    @abstractmethod
    def counts(self) -> tuple[Count, ...]:
        """What the theorem says that a run takes, in each form in which it is stated."""

    @property
    @abstractmethod
    def system(self) -> NumberSystem:
        """The numbers of the model's outputs."""

    def holder(self, position: int) -> Party:
        """Who holds a position."""
        return "Alice" if position in self.partition.alice else "Bob"


def known_of(outputs: Numbers, positions: Sequence[int], *, scores: bool) -> list[Known]:
    """Outputs (batch, asked, out) as answers: the first class of the largest score, or the vector."""
    system, batch = outputs.system, outputs.shape[0]
    if scores:
        values: list[list[JsonValue]] = system.argmax(outputs, -1).tolist()
    else:
        values = [[tuple(vector) for vector in row] for row in system.decode_float64(outputs).tolist()]
    found: list[dict[int, Answer]] = [{} for _ in range(batch)]
    for place, position in enumerate(positions):
        for known, row, bits in zip(found, values, _spelled(outputs[:, place]), strict=True):
            known[position] = Answer(value=row[place], outputs=bits)
    return [*found]


def direct_answers(
    model: ExplicitModel, inputs: Shaped[Tensor, "batch pos *width"], asked: Sequence[int]
) -> list[Known]:
    """What the model itself says of whole inputs at the positions asked for."""
    outputs = model.outputs(inputs, at=torch.tensor(asked).expand(len(inputs), -1))
    return known_of(outputs, asked, scores=model.classes is not None)


def _spelled(outputs: Numbers) -> list[str]:
    """Each row's numbers as they would be sent, in hexadecimal; where they are many, a hash of them."""
    batch, out = outputs.shape
    if out * outputs.system.bits <= _MOST_SPELLED:
        writer = RowsWriter(batch)
        writer.numbers(outputs)
        return [message.data.hex() for message in writer.done()]
    limbs = [part.contiguous().view(torch.uint8).numpy() for part in outputs.parts]
    return [
        "sha256:" + hashlib.sha256(b"".join(limb[row].tobytes() for limb in limbs)).hexdigest()
        for row in range(batch)
    ]
