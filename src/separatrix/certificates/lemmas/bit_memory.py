"""Recurrent models that are a memory of bits: what a step does, for every state and every token.

The memory has a counter, cells that the counter addresses, and registers. That the weights of a model do what
such a memory does is a matter of finitely many transitions, because each bit of the next state depends on the
counter, on the kind of token, and on very few bits more. Those are read off the weights; then all their
combinations are run, with every value of the counter and every kind of token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.certificates.lemmas.integer_maps import (
    Integers,
    Reach,
    assignments,
    beside,
    bits_of,
    image,
    read_map,
    reads_through,
    whole,
)
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.recurrent import RecurrentModel
from separatrix.models.explicit.recurrent_maps import Coordinates, Field
from separatrix.models.explicit.recurrent_tokens import TokenBlock

__all__ = ["BitMemory", "Cells", "Register", "deviations"]

_MOST_WORK: Final = 1 << 31
_AT_ONCE: Final = 1 << 18  # numbers that stay in a processor's cache


@final
@dataclass(frozen=True, kw_only=True)
class Cells:
    """A field of `slots` equal parts: part c − first takes bits when a token `when` comes at counter c.

    The bits are those of the field `takes`, of the token or of the state before. What was there stays there
    as well (or), or is added modulo 2.
    """

    field: str
    slots: int
    first: int = 0
    when: str
    takes: str
    modulo_2: bool = False


@final
@dataclass(frozen=True, kw_only=True)
class Register:
    """A field that takes the bits of the field `takes` of a token `when`, and else keeps its own."""

    field: str
    when: str
    takes: str


@final
@dataclass(frozen=True, kw_only=True)
class BitMemory:
    """A counter that a token `counts` moves on, modulo a power of two, and a token `resets` sends to 0."""

    counts: str
    resets: str | None = None
    cells: tuple[Cells, ...]
    registers: tuple[Register, ...] = ()

    @property
    def parts(self) -> tuple[Cells | Register, ...]:
        """All but the counter."""
        return (*self.cells, *self.registers)

    def fields(self) -> set[str]:
        """The names of all of its state."""
        return {"counter", *(each.field for each in self.parts)}

    def reads(self, names: _Names) -> tuple[Integers, Integers]:
        """Pairs of a bit of the next state and one of state or token that it may depend on, counter aside."""
        rows: list[Integers] = []
        columns: list[Integers] = []
        for each in self.parts:
            field, taken = names.state.place(each.field), names.both.place(each.takes)
            bits = np.arange(field.start, field.stop)
            rows += [bits, bits]
            columns += [bits, taken.start + (bits - field.start) % (taken.stop - taken.start)]
        return np.concatenate(rows), np.concatenate(columns)

    def after(
        self, state: Float[Tensor, "case state"], token: Float[Tensor, "case code"], names: _Names
    ) -> Float[Tensor, "case state"]:
        """The next state."""
        result = state.clone()
        counter = names.number(state)
        both = torch.cat([state, token], dim=1)
        came = {block: both[:, names.both.start(block)] == 1 for block in names.kinds}
        for cells in self.cells:
            part = result[:, names.state.place(cells.field)].view(len(state), cells.slots, -1)
            slot = counter - cells.first
            rows = (came[cells.when] & (slot >= 0) & (slot < cells.slots)).nonzero()[:, 0]
            old, taken = part[rows, slot[rows]], both[rows, names.both.place(cells.takes)]
            part[rows, slot[rows]] = (old != taken).to(old) if cells.modulo_2 else torch.maximum(old, taken)
        for register in self.registers:
            rows = came[register.when].nonzero()[:, 0]
            result[rows, names.state.place(register.field)] = both[rows, names.both.place(register.takes)]
        counter = counter + came[self.counts].long()
        if self.resets is not None:
            counter = torch.where(came[self.resets], 0, counter)
        result[:, names.state.place("counter")] = names.bits(counter)
        return result


@final
@dataclass(frozen=True, eq=False)
class _Names:
    """Coordinates of the state, and of state and token code one behind the other."""

    state: Coordinates
    both: Coordinates
    kinds: tuple[str, ...]

    def number(self, state: Float[Tensor, "case state"]) -> Int[Tensor, "case"]:
        """What the counter says; the least significant bit is first."""
        bits = state[:, self.state.place("counter")].long()
        return (bits << torch.arange(bits.shape[1])).sum(1)

    def bits(self, counter: Int[Tensor, "case"]) -> Float[Tensor, "case bits"]:
        """The counter's bits, modulo a power of two."""
        return bits_of(counter, self.state.numbers("counter"))


def deviations(model: RecurrentModel, memory: BitMemory, reach: Reach) -> int:
    """How many transitions are not the memory's, of a few that stand for all.

    All are those from states of bits, whatever bits these are, by tokens of every kind with whatever digits.
    If there is no deviation, then all states ever are bits, since the start is.
    """
    names = _names_of(model, memory)
    vectors = _combinations(model, memory, names, reach)
    counters = 1 << model.state.numbers("counter")
    kinds: list[TokenBlock | None] = [None, *model.tokens.blocks]
    width = max(model.update.units.width, model.state.width)
    total = len(kinds) * len(vectors) * counters
    if total * width > _MOST_WORK:
        raise NotProved(f"{total:,} transitions of {width:,} units are too many to run.")
    step = max(_AT_ONCE // width, 1)
    found = 0
    for kind in kinds:
        for vector in vectors:
            for low in range(0, counters, step):
                counter = torch.arange(low, min(low + step, counters))
                found += _differing(model, memory, names, kind, vector, counter)
    return found


def _differing(
    model: RecurrentModel,
    memory: BitMemory,
    names: _Names,
    kind: TokenBlock | None,
    vector: Float[Tensor, "both"],
    counter: Int[Tensor, "case"],
) -> int:
    """Transitions by one kind of token from states with these bits, at several values of the counter."""
    state = vector[: names.state.width].repeat(len(counter), 1)
    state[:, names.state.place("counter")] = names.bits(counter)
    code = torch.zeros_like(vector)
    if kind is not None:
        code[names.both.start(kind.name)] = 1
        if kind.digits:
            digits = names.both.place(f"{kind.name} digits")
            code[digits] = vector[digits]
    token = code[names.state.width :].repeat(len(counter), 1)
    return int((_stepped(model, state, token) != memory.after(state, token, names)).any(1).sum())


def _stepped(model: RecurrentModel, state: Tensor, token: Tensor) -> Float[Tensor, "case state"]:
    update = model.update
    units = image(update.bias, (update.from_state, state), (update.from_input, token))
    return image(update.offset, (update.carry, state), (update.write, torch.relu(units)))


def _names_of(model: RecurrentModel, memory: BitMemory) -> _Names:
    if model.update.activation != "relu":
        raise NotProved("This proof is about ReLU units.")
    state, tokens = model.state, model.tokens.coordinates
    names = [field.name for field in (*state.fields, *tokens.fields)]
    if {field.name for field in state.fields} != memory.fields() or len({*names}) != len(names):
        raise NotProved(f"The state has other fields than {', '.join(sorted(memory.fields()))}.")
    both = Coordinates(*(Field(name=f.name, numbers=f.numbers) for f in (*state.fields, *tokens.fields)))
    kinds = tuple(block.name for block in model.tokens.blocks)
    asked = {each.when for each in memory.parts} | {memory.counts}
    taken = {each.takes for each in memory.parts}
    if not asked | ({memory.resets} - {None}) <= {*kinds} or not taken <= {*names}:
        raise NotProved("The tokens are told in other fields than the memory reads.")
    for each in memory.parts:
        slots = each.slots if isinstance(each, Cells) else 1
        if state.numbers(each.field) != slots * both.numbers(each.takes):
            raise NotProved(f"The field {each.field} has not the size that {slots} times {each.takes} need.")
    return _Names(state, both, kinds)


def _combinations(
    model: RecurrentModel, memory: BitMemory, names: _Names, reach: Reach
) -> list[Float[Tensor, "both"]]:
    """Bits of state and token that show every row of the next state all that it can meet.

    What a row should read counts as well as what it does read: else one bit could stand for another.
    """
    update = model.update
    carry, write = read_map(update.carry), read_map(update.write)
    units = beside(read_map(update.from_state), read_map(update.from_input))
    bias, offset = whole(update.bias), whole(update.offset)
    reach.take(np.abs(bias) + units.reach())
    most = np.maximum(bias + units.highest(), 0)
    reach.take(np.abs(offset) + carry.reach() + write.reach(most))
    pairs = (carry.reads(), reads_through(write, units), memory.reads(names))
    rows, columns = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return assignments(rows, columns, names.both, ("counter", *names.kinds))
