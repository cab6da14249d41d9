"""S-T2: Alice reads her prefix, sends the state, and Bob goes on: one message, as long as the state is.

It runs every model that reads from left to right, whatever its state is made of: numbers of a recurrence,
or keys and values of all that was read. Where an input has answers between its questions, as many queries
with an answer behind each, nobody is given these: Bob writes what the model says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, final

import torch
from jaxtyping import Shaped
from torch import Tensor

from separatrix.communication.protocols.carriers import Carrier, carrier_of
from separatrix.communication.protocols.interface import Count, Known, Part, Protocol, Speaker, known_of
from separatrix.communication.protocols.packing import RowsWriter
from separatrix.communication.wire import Channel
from separatrix.models.interface import SequenceModel
from separatrix.options import require
from separatrix.precision import Numbers, NumberSystem, concatenate
from separatrix.tasks.interface import Partition

__all__ = ["OneWay", "is_prefix"]


def is_prefix(partition: Partition) -> bool:
    """Whether Alice holds a beginning of the input, and Bob begins where she ends."""
    cut = len(partition.alice)
    return cut > 0 and partition.alice == tuple(range(cut)) and cut in partition.bob


@final
class OneWay(Protocol):
    """A causal model, cut in two behind Alice's last token."""

    theorem: ClassVar[str] = "S-T2"
    family: ClassVar[str] = "rnn"

    def __init__(
        self, model: SequenceModel, partition: Partition, asked: tuple[int, ...], *, scores: bool
    ) -> None:
        """`scores` says that outputs score classes."""
        super().__init__(partition, asked)
        require(
            is_prefix(partition),
            "One message from Alice to Bob runs a model on a prefix and a suffix; this split gives Alice "
            "something else. Take prefix/suffix, or her first positions, as in 1-4.",
        )
        self.cut = len(partition.alice)
        require(
            bool(asked) and min(asked) >= self.cut,
            "Bob gives the answers in a one-way protocol, so they are at his positions; "
            f"got position {min(asked, default=0) + 1} of a prefix of {self.cut}.",
        )
        require(
            scores or not partition.written, "Only classes are written between the questions, not vectors."
        )
        self.carrier: Carrier = carrier_of(model)
        self.scores = scores

    @property
    def system(self) -> NumberSystem:
        """The numbers of the model's outputs."""
        return self.carrier.system

    @property
    def bits(self) -> int:
        """The bits of the state at the cut."""
        return self.carrier.state_bits(self.cut)

    def counts(self) -> tuple[Count, ...]:
        """mp: what the model's size says of its state."""
        return (Count(name="stated", formula="mp bits, the state at the cut", bits=self.bits),)

    def speaker(self, part: Part) -> Speaker:
        """Alice sends, Bob answers."""
        return _Alice(part, self) if part.party == "Alice" else _Bob(part, self)

    def direct(self, inputs: Shaped[Tensor, "batch pos *width"]) -> list[Known]:
        """The model reads the whole input, with its own answers between the questions if it writes any."""
        cut, end = self.cut, max(self.asked) + 1
        if self.partition.written:
            rows = inputs.clone()
            _, behind = self.gone_on(rows[:, cut:end], self.carrier.read(rows[:, :cut]))
            rows[:, cut:end] = behind
            inputs = rows
        return known_of(self.carrier.direct(inputs, cut, self.asked), self.asked, scores=self.scores)

    def gone_on(
        self, tokens: Shaped[Tensor, "batch pos *width"], state: Any
    ) -> tuple[Numbers, Shaped[Tensor, "batch pos *width"]]:
        """Outputs at the positions asked for, from the state at the cut on, and the tokens that were read.

        What stands in `tokens` at positions that the model writes is not looked at.
        """
        wanted = [position - self.cut for position in self.asked]
        written = {position - self.cut for position in self.partition.written}
        if not written:
            return self.carrier.go_on(tokens, state, wanted)[0], tokens
        read: list[Tensor] = []
        outputs: list[Numbers] = []
        for place in range(max(wanted) + 1):
            token = tokens[:, place : place + 1]
            if place in written:
                token = self.system.argmax(outputs[-1], -1)
            said, state = self.carrier.go_on(token, state, [0])
            read.append(token)
            outputs.append(said)
        return concatenate([outputs[place] for place in wanted], axis=1), torch.cat(read, dim=1)


@final
class _Alice(Speaker):
    def __init__(self, part: Part, public: OneWay) -> None:
        super().__init__(part)
        self._public = public

    def run(self, wires: Sequence[Channel]) -> list[Known]:
        """Read, send, and know nothing in the end."""
        carrier, cut = self._public.carrier, self._public.cut
        writer = RowsWriter(self.part.batch)
        carrier.write(carrier.read(self.part.values), writer, cut)
        self.send(wires, f"state after {cut} token{'s' if cut > 1 else ''}", writer)
        return [{} for _ in wires]


@final
class _Bob(Speaker):
    def __init__(self, part: Part, public: OneWay) -> None:
        super().__init__(part)
        self._public = public

    def run(self, wires: Sequence[Channel]) -> list[Known]:
        """Take the state and go on."""
        public = self._public
        reader = self.receive(wires, bits=public.bits)
        state = public.carrier.taken(reader, self.part.values, public.cut)
        reader.finish()
        outputs, _ = public.gone_on(self.part.rows()[:, public.cut : max(public.asked) + 1], state)
        return known_of(outputs, public.asked, scores=public.scores)
