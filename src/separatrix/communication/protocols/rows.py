"""Row by row: a graph Transformer on an adjacency matrix whose rows two parties hold.

Attention between vertices i and j sees the edge from i to j, which stands in row i. So who holds row i must
form its logits, and needs for that the keys and values of the other party's vertices: they tell each other
these, layer by layer, and each computes its own vertices alone. A layer of H heads of width m costs
2·m·p·H bits for each of the N rows, and the depth multiplies that; the answers are told at the end.

So the 3-cycle, which is DISJ on (N/3)² bits for a split in groups, needs L·H·m·p = Ω(N).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, final

import torch
from jaxtyping import Shaped
from torch import Tensor

from separatrix.communication.protocols.interface import (
    Answer,
    Count,
    Known,
    Part,
    Protocol,
    Speaker,
    direct_answers,
    known_of,
)
from separatrix.communication.protocols.packing import RowsWriter, require_fixed, width_between
from separatrix.communication.wire import Channel
from separatrix.errors import InvalidInput
from separatrix.evidence import Party
from separatrix.models.explicit.graph_transformer import GraphLayer, GraphTransformer
from separatrix.models.interface import SequenceModel
from separatrix.options import require
from separatrix.precision import FixedPoint, Integers, Numbers, NumberSystem, concatenate
from separatrix.tasks.interface import Partition

__all__ = ["RowByRow"]


@final
class RowByRow(Protocol):
    """A graph Transformer, and which rows are whose."""

    theorem: ClassVar[str] = "R-G"
    family: ClassVar[str] = "graph-transformer"

    def __init__(self, model: SequenceModel, partition: Partition, asked: tuple[int, ...]) -> None:
        """Answers are wanted at some vertices."""
        super().__init__(partition, asked)
        if not isinstance(model, GraphTransformer):
            raise InvalidInput(
                "Row by row runs explicit graph Transformers, whose attention is over single vertices; got "
                f"{type(model).__name__}."
            )
        require(bool(asked), "A protocol is run for an answer; name a vertex.")
        self.model = model
        self.numbers: FixedPoint = require_fixed(model.arithmetic, "The protocol row by row")

    @property
    def system(self) -> NumberSystem:
        """The numbers of the model."""
        return self.numbers

    def rows_of(self, party: Party) -> tuple[int, ...]:
        """A party's vertices."""
        return self.partition.alice if party == "Alice" else self.partition.bob

    def asked_of(self, party: Party) -> tuple[int, ...]:
        """Those of them at which an answer is wanted."""
        return tuple(position for position in self.asked if self.holder(position) == party)

    def layer_bits(self, layer: GraphLayer, party: Party) -> int:
        """Keys and values of a party's vertices."""
        return len(self.rows_of(party)) * layer.kept * self.numbers.bits

    def answer_bits(self, party: Party) -> int:
        """A party's answers."""
        out = self.model.readout.map.out * self.numbers.bits
        each = out if self.model.classes is None else width_between(0, self.model.classes - 1)
        return len(self.asked_of(party)) * each

    @property
    def bits(self) -> int:
        """All layers, both ways, and the answers."""
        parties: tuple[Party, Party] = ("Alice", "Bob")
        layers = sum(self.layer_bits(layer, party) for layer in self.model.layers for party in parties)
        return layers + sum(self.answer_bits(party) for party in parties)

    def counts(self) -> tuple[Count, ...]:
        """m is the larger of a head's two widths."""
        rows = len(self.partition.alice) + len(self.partition.bob)
        widths = sum(max(head.inner, head.out) for layer in self.model.layers for head in layer.heads)
        answers = self.answer_bits("Alice") + self.answer_bits("Bob")
        bits = rows * 2 * widths * self.numbers.bits + answers
        return (Count(name="stated", formula="N·2mp·H bits a layer, and the answers", bits=bits),)

    def speaker(self, part: Part) -> Speaker:
        """Both do the same, Alice first."""
        return _Party(part, self)

    def direct(self, inputs: Shaped[Tensor, "batch pos *width"]) -> list[Known]:
        """The model's own outputs."""
        return direct_answers(self.model, inputs, self.asked)


@final
class _Party(Speaker):
    def __init__(self, part: Part, public: RowByRow) -> None:
        super().__init__(part)
        self._public, self._system = public, public.numbers
        self._first = part.party == "Alice"
        self._other: Party = "Bob" if self._first else "Alice"

    def run(self, wires: Sequence[Channel]) -> list[Known]:
        """Layer by layer; in the end both know every answer."""
        public, batch = self._public, self.part.batch
        places = torch.tensor(self.part.positions, dtype=torch.int64).expand(batch, -1)
        stream = public.model.vectors(self.part.rows(), places)
        for number, layer in enumerate(public.model.layers, start=1):
            kept = layer.keep(self._system, stream)
            flat = concatenate([part for head in kept for part in head], axis=2)
            others = self._exchange(wires, flat, layer, f"keys and values of layer {number}")
            stream = layer(self._system, stream, self.part.values, self._joined(layer, flat, others))
        return self._answers(wires, stream)

    def _exchange(self, wires: Sequence[Channel], mine: Numbers, layer: GraphLayer, name: str) -> Numbers:
        """The other's keys and values, (batch, its rows, kept), for one's own."""
        writer = RowsWriter(self.part.batch)
        writer.numbers(mine)
        if self._first:
            self.send(wires, name, writer)
        public, other = self._public, self._other
        reader = self.receive(wires, bits=public.layer_bits(layer, other))
        found = reader.numbers(self._system, len(public.rows_of(other)), layer.kept)
        reader.finish()
        if not self._first:
            self.send(wires, name, writer)
        return found

    def _joined(
        self, layer: GraphLayer, mine: Numbers, others: Numbers
    ) -> tuple[tuple[Numbers, Numbers], ...]:
        """Keys and values of all vertices in order, head by head."""
        held = torch.tensor((*self.part.positions, *self._public.rows_of(self._other)))
        order = held.argsort()
        whole = concatenate([mine, others], axis=1)[:, order]
        pairs, start = [], 0
        for head in layer.heads:
            middle, end = start + head.inner, start + head.inner + head.out
            pairs.append((whole[:, :, start:middle], whole[:, :, middle:end]))
            start = end
        return tuple(pairs)

    def _answers(self, wires: Sequence[Channel], stream: Numbers) -> list[Known]:
        public, system = self._public, self._system
        mine, others = public.asked_of(self.part.party), public.asked_of(self._other)
        places = [self.part.positions.index(position) for position in mine]
        outputs = public.model.readout(system, stream)[:, places]
        classes = public.model.classes
        known: list[dict[int, Answer]] = [{} for _ in wires]
        writer = RowsWriter(self.part.batch)
        if mine:
            for row, found in zip(known, known_of(outputs, mine, scores=classes is not None), strict=True):
                row.update(found)
            if classes is None:
                writer.numbers(outputs)
            else:
                writer.whole(Integers.of(system.argmax(outputs, -1), 62), low=0, high=classes - 1)
        if self._first and mine:
            self.send(wires, "answers", writer)
        if others:
            for row, found in zip(known, self._received(wires, others), strict=True):
                row.update(found)
        if not self._first and mine:
            self.send(wires, "answers", writer)
        return [*known]

    def _received(self, wires: Sequence[Channel], others: tuple[int, ...]) -> list[Known]:
        public = self._public
        reader = self.receive(wires, bits=public.answer_bits(self._other))
        if public.model.classes is None:
            vectors = reader.numbers(self._system, len(others), public.model.readout.map.out)
            reader.finish()
            return known_of(vectors, others, scores=False)
        chosen = reader.whole(len(others), low=0, high=public.model.classes - 1).limbs[0].tolist()
        reader.finish()
        return [
            {position: Answer(value=value) for position, value in zip(others, row, strict=True)}
            for row in chosen
        ]
