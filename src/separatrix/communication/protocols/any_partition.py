"""S-T4: a Transformer of one layer, its input split in any way, in p-bit arithmetic.

Who holds the query sends its vector. Each party finds the largest logit over its own keys; they tell each
other, so both know the largest of all. Each sums its exps, and they tell each other, so both know Z and the
weights of their own keys. The other party sends its part of each head's weighted sum, the holder of the query
adds its own, computes the rest of the layer alone and sends the answer back.

Widths of messages depend on p, on N and on the model's widths, never on the data; `attention_parts` says why
they are enough. The elements that a model puts behind its input are known to both, and who asks counts them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Literal, final

import torch
from jaxtyping import Shaped
from torch import Tensor

from separatrix.communication.protocols.attention_parts import AttentionPart, largest_part, largest_sum
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
from separatrix.communication.protocols.packing import (
    RowsReader,
    RowsWriter,
    numbers_of,
    require_fixed,
    steps_of,
    width_between,
)
from separatrix.communication.wire import Channel
from separatrix.errors import InvalidInput
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.linear import affine
from separatrix.models.explicit.transformer import Transformer
from separatrix.models.interface import SequenceModel
from separatrix.options import require
from separatrix.precision import Integers, Numbers, NumberSystem, concatenate
from separatrix.tasks.interface import Partition, Reals, Task, Tokens

__all__ = ["AnyPartition", "Query"]

Query = Literal["vector", "queries", "token"]
"""How the query crosses: its vector, d numbers of p bits as in S; what each head makes of it, m numbers a
head; or the token itself."""


@final
class AnyPartition(Protocol):
    """A one-layer Transformer and its number of keys."""

    theorem: ClassVar[str] = "S-T4"
    family: ClassVar[str] = "transformer-1"

    def __init__(
        self,
        model: SequenceModel,
        task: Task,
        partition: Partition,
        asked: tuple[int, ...],
        *,
        query: Query = "vector",
    ) -> None:
        """`query` says how the query crosses."""
        super().__init__(partition, asked)
        if not isinstance(model, Transformer) or len(model.layers) != 1:
            found = f"{len(model.layers)} layers" if isinstance(model, Transformer) else type(model).__name__
            raise InvalidInput(
                f"Any partition will do for explicit Transformers of one layer; got {found}. "
                "Take --family transformer-1."
            )
        heads = tuple(head for head in model.layers[0].heads if isinstance(head, Head))
        require(
            len(heads) == len(model.layers[0].heads),
            "This protocol runs attention over single positions; a head of this layer attends to pairs.",
        )
        require(bool(asked), "A protocol is run for an answer; name a position.")
        self.model, self.heads, self.space, self.query = model, heads, task.input_space, query
        self.numbers = require_fixed(model.arithmetic, "The protocol of S-T4")
        self.length = len(partition.alice) + len(partition.bob)
        self.keys = self.length + len(model.inputs.appended)
        self.sum_limit = largest_sum(self.numbers, self.keys)
        self.part_limit = largest_part(self.numbers, self.keys)

    @property
    def system(self) -> NumberSystem:
        """The numbers of the model."""
        return self.numbers

    @property
    def query_bits(self) -> int:
        """Bits of the query."""
        if self.query == "vector":
            return self.model.inputs.width * self.numbers.bits
        if self.query == "queries":
            return sum(head.inner for head in self.heads) * self.numbers.bits
        if isinstance(self.space, Tokens):
            return width_between(0, self.space.size - 1)
        return 32 * self.space.width

    @property
    def maxima_bits(self) -> int:
        """Bits of one party's largest logits."""
        return len(self.heads) * self.numbers.bits

    @property
    def sums_bits(self) -> int:
        """Bits of one party's sums of exps."""
        return len(self.heads) * width_between(0, self.sum_limit)

    @property
    def parts_bits(self) -> int:
        """Bits of the other party's parts of the weighted sums."""
        return sum(head.out for head in self.heads) * width_between(-self.part_limit, self.part_limit)

    @property
    def answer_bits(self) -> int:
        """Bits of the answer."""
        if self.model.classes is None:
            return self.model.readout.map.out * self.numbers.bits
        return width_between(0, self.model.classes - 1)

    @property
    def bits(self) -> int:
        """All messages, for each answer that is wanted."""
        once = self.query_bits + 2 * self.maxima_bits + 2 * self.sums_bits + self.parts_bits
        return len(self.asked) * (once + self.answer_bits)

    def counts(self) -> tuple[Count, ...]:
        """As printed, and as the proof's steps add up when one party ends the run and sends the answer back.

        m is the larger of a head's inner width and its values', N the number of keys, d the stream's width.
        """
        p, log_n = self.numbers.bits, math.log2(self.keys)
        widths = [max(head.inner, head.out) for head in self.heads]
        printed = sum(3 * m * (p + log_n) for m in widths)
        steps = self.model.inputs.width * p + sum(4 * p + 2 * log_n + 2 * m * p for m in widths)
        asked = len(self.asked)
        return (
            Count(name="printed", formula="3m(p + log N)H", bits=asked * math.ceil(printed)),
            Count(
                name="counted",
                formula="dp + (4p + 2·log N + 2mp)H + the answer",
                bits=asked * (math.ceil(steps) + self.answer_bits),
            ),
        )

    def speaker(self, part: Part) -> Speaker:
        """Both play both roles, each where it holds the query."""
        return _Party(part, self)

    def direct(self, inputs: Shaped[Tensor, "batch pos *width"]) -> list[Known]:
        """The model's own outputs."""
        return direct_answers(self.model, inputs, self.asked)


@final
class _Party(Speaker):
    """Keys and values of one's own positions, made once."""

    def __init__(self, part: Part, public: AnyPartition) -> None:
        super().__init__(part)
        self._public, self._system = public, public.numbers
        self._rows = part.rows()
        self._mine = self._kept(part.positions)
        self._own = self._kept(range(public.length, public.keys))

    def _kept(self, places: Sequence[int]) -> tuple[tuple[Numbers, ...], ...]:
        """What every head keeps of some places."""
        if not places:
            return ()
        return self._public.model.layers[0].keep(self._system, self._vectors(self._rows, places))

    def _vectors(self, rows: Tensor, places: Sequence[int]) -> Numbers:
        """The stream at some places; nothing of the rows is read elsewhere."""
        batch = len(rows)
        at = torch.tensor(places, dtype=torch.int64).expand(batch, -1)
        lengths = torch.full((batch,), self._public.length)
        return self._system.encode(self._public.model.inputs.embed(rows, at, lengths))

    def _queries(self, stream: Numbers) -> list[Numbers]:
        """What each head makes of the query's vector."""
        return [affine(self._system, stream, head.query) for head in self._public.heads]

    def _heads(self, queries: Sequence[Numbers], position: int, *, asking: bool) -> list[AttentionPart]:
        """Every head over the keys of one's own that the query sees; who asks also sees the model's own."""
        public, causal = self._public, self._public.model.causal
        shown = [n for n, place in enumerate(self.part.positions) if not causal or place <= position]
        parts = []
        for number, head in enumerate(public.heads):
            groups = [tuple(part[:, shown] for part in self._mine[number])] if shown else []
            groups += [self._own[number]] if asking and self._own else []
            kept = tuple(concatenate(list(each), axis=1) for each in zip(*groups, strict=True)) or None
            parts.append(AttentionPart(self._system, queries[number], kept, out=head.out))
        return parts

    def run(self, wires: Sequence[Channel]) -> list[Known]:
        """Answer by answer."""
        found: list[dict[int, Answer]] = [{} for _ in wires]
        for position in self._public.asked:
            asking = self._public.holder(position) == self.part.party
            answers = (self._ask if asking else self._help)(wires, position)
            for known, answer in zip(found, answers, strict=True):
                known.update(answer)
        return [*found]

    def _ask(self, wires: Sequence[Channel], position: int) -> list[Known]:
        """The part of the one who holds the query and ends the run."""
        public, system, batch = self._public, self._system, self.part.batch
        stream = self._vectors(self._rows, (position,))
        queries = self._queries(stream)
        self._send_query(wires, stream, queries, position)
        heads = self._heads(queries, position, asking=True)
        self._send_numbers(wires, "largest logits", [head.top() for head in heads])

        reader = self.receive(wires, bits=public.maxima_bits)
        for head in heads:
            head.raise_top(reader.numbers(system))
        reader.finish()
        sums = self._received_sums(wires)
        self._send_sums(wires, heads)
        for head, other in zip(heads, sums, strict=True):
            head.set_total(other)

        reader = self.receive(wires, bits=public.parts_bits)
        limit = public.part_limit
        joined = [
            numbers_of(system, head.part() + reader.whole(head.out, low=-limit, high=limit)) for head in heads
        ]
        reader.finish()
        rows = concatenate([each.reshape(batch, 1, -1) for each in joined], axis=2)
        outputs = public.model.readout(system, public.model.layers[0].behind(system, stream, rows))
        found = known_of(outputs, (position,), scores=public.model.classes is not None)
        self._send_answer(wires, outputs, found, position)
        return found

    def _help(self, wires: Sequence[Channel], position: int) -> list[Known]:
        """The part of the other one."""
        public, system = self._public, self._system
        heads = self._heads(self._received_queries(wires, position), position, asking=False)
        reader = self.receive(wires, bits=public.maxima_bits)
        others = [reader.numbers(system) for _ in heads]
        reader.finish()
        self._send_numbers(wires, "largest logits", [head.top() for head in heads])
        for head, other in zip(heads, others, strict=True):
            head.raise_top(other)
        self._send_sums(wires, heads)
        for head, total in zip(heads, self._received_sums(wires), strict=True):
            head.set_total(total)

        writer = RowsWriter(self.part.batch)
        for head in heads:
            writer.whole(head.part(), low=-public.part_limit, high=public.part_limit)
        self.send(wires, "parts of the weighted sums", writer)
        return self._received_answer(wires, position)

    def _send_query(
        self, wires: Sequence[Channel], stream: Numbers, queries: Sequence[Numbers], position: int
    ) -> None:
        public, writer = self._public, RowsWriter(self.part.batch)
        token = self._rows[:, position]
        if public.query == "vector":
            writer.numbers(stream)
        elif public.query == "queries":
            for each in queries:
                writer.numbers(each)
        elif isinstance(public.space, Tokens):
            writer.whole(Integers.of(token, 62), low=0, high=public.space.size - 1)
        else:
            writer.floats(token.to(torch.float32))
        names = {
            "vector": "the query's vector",
            "queries": "the heads' queries",
            "token": "the query's token",
        }
        self.send(wires, names[public.query], writer)

    def _received_queries(self, wires: Sequence[Channel], position: int) -> list[Numbers]:
        """What each head makes of the query that the other party holds."""
        public = self._public
        reader = self.receive(wires, bits=public.query_bits)
        if public.query == "queries":
            queries = [reader.numbers(self._system, 1, head.inner) for head in public.heads]
        elif public.query == "vector":
            queries = self._queries(reader.numbers(self._system, 1, public.model.inputs.width))
        else:
            rows = self._rows.clone()
            rows[:, position] = _token(reader, public.space)
            queries = self._queries(self._vectors(rows, (position,)))
        reader.finish()
        return queries

    def _send_numbers(self, wires: Sequence[Channel], name: str, numbers: Sequence[Numbers]) -> None:
        writer = RowsWriter(self.part.batch)
        for each in numbers:
            writer.numbers(each)
        self.send(wires, name, writer)

    def _send_sums(self, wires: Sequence[Channel], heads: Sequence[AttentionPart]) -> None:
        writer = RowsWriter(self.part.batch)
        for head in heads:
            writer.whole(steps_of(head.total()), low=0, high=self._public.sum_limit)
        self.send(wires, "sums of exps", writer)

    def _received_sums(self, wires: Sequence[Channel]) -> list[Numbers]:
        reader = self.receive(wires, bits=self._public.sums_bits)
        found = [
            numbers_of(self._system, reader.whole(low=0, high=self._public.sum_limit))
            for _ in self._public.heads
        ]
        reader.finish()
        return found

    def _send_answer(
        self, wires: Sequence[Channel], outputs: Numbers, found: Sequence[Known], position: int
    ) -> None:
        writer, classes = RowsWriter(self.part.batch), self._public.model.classes
        if classes is None:
            writer.numbers(outputs)
        else:
            chosen = self._system.argmax(outputs[:, 0], -1)
            writer.whole(Integers.of(chosen, 62), low=0, high=classes - 1)
        self.send(wires, "the answer", writer)

    def _received_answer(self, wires: Sequence[Channel], position: int) -> list[Known]:
        public = self._public
        reader = self.receive(wires, bits=public.answer_bits)
        if public.model.classes is None:
            vectors = reader.numbers(self._system, 1, public.model.readout.map.out)
            reader.finish()
            return known_of(vectors, (position,), scores=False)
        chosen = reader.whole(low=0, high=public.model.classes - 1).limbs[0]
        reader.finish()
        return [{position: Answer(value=value)} for value in chosen.tolist()]


def _token(reader: RowsReader, space: Tokens | Reals) -> Tensor:
    if isinstance(space, Tokens):
        return reader.whole(low=0, high=space.size - 1).limbs[0]
    return reader.floats(torch.float32, space.width)
