"""From functions on bits to gates: by running the function on wires, from a table, or from an RNN's weights.

A function written with `&`, `|`, `^` and `~` is run once on wires and leaves a gate for every operation that
is new. A function that is known by its values alone goes through a table, and the table becomes gates in two
ways, of which the one with fewer gates is kept: the sum modulo 2 of products of inputs, and decisions on one
input after another, in several orders, that share all they can.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final

import torch

from separatrix.errors import InvalidInput, TooLarge
from separatrix.models.explicit.recurrent import RecurrentModel
from separatrix.models.explicit.recurrent_tokens import digits_for
from separatrix.witnesses.replay.circuits import (
    MOST_GATES,
    And,
    Constant,
    Gate,
    InputBit,
    RecurrentCircuit,
    StateBit,
    Xor,
)

__all__ = ["Bits", "Table", "Wire", "Wires", "circuit_from_rnn", "circuit_from_table", "circuit_from_wires"]

MOST_INPUTS: Final = 12
MOST_REORDERED: Final = 8
MOST_STATES: Final = 1 << 12

Bits: TypeAlias = tuple[int, ...]
Table: TypeAlias = Mapping[tuple[Bits, Bits], tuple[Bits, Bits]]
"""(bits read, state) to (next state, output); pairs that cannot come up may be left out."""
Entry: TypeAlias = int | None


@final
@dataclass(frozen=True)
class Wire:
    """A bit that a gate computes, or a constant that needs none yet."""

    wires: Wires
    gate: Gate

    def __and__(self, other: Wire | int) -> Wire:
        return self.wires.both(self, self.wires.wire(other))

    def __xor__(self, other: Wire | int) -> Wire:
        return self.wires.differ(self, self.wires.wire(other))

    def __or__(self, other: Wire | int) -> Wire:
        second = self.wires.wire(other)
        return self ^ second ^ (self & second)

    def __invert__(self) -> Wire:
        return self ^ 1

    __rand__, __rxor__, __ror__ = __and__, __xor__, __or__


class Wires:
    """Gates as they come up, each once: a second one that would compute the same is not made."""

    def __init__(self) -> None:
        """No gates yet."""
        self._numbers: dict[Gate, int] = {}
        self._gates: list[Gate] = []

    def wire(self, bit: Wire | int) -> Wire:
        """A constant as a wire; a wire as it is."""
        if isinstance(bit, Wire):
            return bit
        if bit not in (0, 1):
            raise InvalidInput(f"A bit is 0 or 1; got {bit}. Negate with ~ on wires, with 1 ^ on numbers.")
        return Wire(self, Constant(bit))

    def input(self, place: int) -> Wire:
        """A bit of the word that is read."""
        return self._made(InputBit(place))

    def state(self, place: int) -> Wire:
        """A bit of the state."""
        return self._made(StateBit(place))

    def both(self, first: Wire, second: Wire) -> Wire:
        """AND, without a gate where a constant or a repetition decides it."""
        for one, other in ((first, second), (second, first)):
            if isinstance(one.gate, Constant):
                return other if one.gate.value else one
        if first == second:
            return first
        return self._made(And(*sorted((self.number(first), self.number(second)))))

    def differ(self, first: Wire, second: Wire) -> Wire:
        """XOR, likewise; what is negated twice is itself."""
        if first == second:
            return self.wire(0)
        for one, other in ((first, second), (second, first)):
            if isinstance(one.gate, Constant):
                if not one.gate.value:
                    return other
                if isinstance(other.gate, Constant):
                    return self.wire(1 - other.gate.value)
        numbers = sorted((self.number(first), self.number(second)))
        for one, other in ((first, second), (second, first)):
            if isinstance(one.gate, Xor) and self.number(other) in (one.gate.first, one.gate.second):
                left = one.gate.first + one.gate.second - self.number(other)
                return Wire(self, self._gates[left])
        return self._made(Xor(*numbers))

    def number(self, wire: Wire) -> int:
        """The id of a wire's gate, made now if it is a constant that had none."""
        if wire.gate not in self._numbers:
            if len(self._gates) >= MOST_GATES:
                raise TooLarge(
                    f"A step of more than {MOST_GATES:,} gates is not compiled; "
                    "write it with fewer operations, or over fewer bits."
                )
            self._numbers[wire.gate] = len(self._gates)
            self._gates.append(wire.gate)
        return self._numbers[wire.gate]

    def used(self, *groups: Sequence[Wire]) -> tuple[tuple[Gate, ...], list[tuple[int, ...]]]:
        """The gates that these wires need and no others, numbered afresh in order, and the wires' numbers."""
        ends = [[self.number(wire) for wire in group] for group in groups]
        gates = self._gates
        needed = {number for group in ends for number in group}
        for number in range(len(gates) - 1, -1, -1):
            gate = gates[number]
            if number in needed and isinstance(gate, And | Xor):
                needed |= {gate.first, gate.second}
        fresh = {number: place for place, number in enumerate(sorted(needed))}
        kept = tuple(_moved(gates[number], fresh) for number in sorted(needed))
        return kept, [tuple(fresh[number] for number in group) for group in ends]

    def _made(self, gate: Gate) -> Wire:
        wire = Wire(self, gate)
        self.number(wire)
        return wire


def _moved(gate: Gate, fresh: Mapping[int, int]) -> Gate:
    if isinstance(gate, And | Xor):
        return type(gate)(fresh[gate.first], fresh[gate.second])
    return gate


WireStep: TypeAlias = Callable[
    [Sequence[Wire], Sequence[Wire]], tuple[Sequence[Wire | int], Sequence[Wire | int]]
]
"""(bits read, state) to (next state, output), by operations on wires."""


def circuit_from_wires(
    step: WireStep,
    *,
    name: str,
    reads: Mapping[str, Bits],
    writes: Sequence[str],
    start: Bits,
) -> RecurrentCircuit:
    """The circuit of a step that is written in operations on bits, run once on wires."""
    wires = Wires()
    width = len(next(iter(reads.values()), ()))
    inputs = [wires.input(place) for place in range(width)]
    before = [wires.state(place) for place in range(len(start))]
    after, output = step(inputs, before)
    return _circuit(
        wires,
        [wires.wire(bit) for bit in after],
        [wires.wire(bit) for bit in output],
        name=name,
        reads=reads,
        writes=writes,
        start=start,
    )


def circuit_from_table(
    table: Table,
    *,
    name: str,
    reads: Mapping[str, Bits],
    writes: Sequence[str],
    start: Bits,
) -> RecurrentCircuit:
    """The circuit of a step that is known by its values; entries left out may come out either way."""
    width = len(next(iter(reads.values()), ()))
    inputs = width + len(start)
    columns = _columns(name, table, width, len(start))
    forms, refusals = [], []
    for write, order in [(_products, range(inputs)), *((_decisions, order) for order in _orders(inputs))]:
        wires = Wires()
        given = [wires.input(place) for place in range(width)]
        given += [wires.state(place) for place in range(len(start))]
        try:
            ends = [
                write(wires, [given[place] for place in order], _reordered(column, order))
                for column in columns
            ]
        except TooLarge as refusal:
            refusals.append(refusal)
            continue
        after, output = ends[: len(start)], ends[len(start) :]
        forms.append(_circuit(wires, after, output, name=name, reads=reads, writes=writes, start=start))
    if not forms:
        raise refusals[0]
    return min(forms, key=lambda circuit: len(circuit.gates))


def circuit_from_rnn(
    model: RecurrentModel, *, name: str, reads: Sequence[str], writes: Sequence[str]
) -> RecurrentCircuit:
    """The circuit of a recurrent network whose state is bits: its own step, at every state it can reach.

    Token i of the network is the i-th word it reads, and class i the i-th it writes. What the network would
    do in states that it never reaches is not asked.
    """
    digits, kinds = digits_for(len(reads)), digits_for(len(writes))
    codes = {word: _digits(number, digits) for number, word in enumerate(reads)}
    tokens = torch.arange(len(reads))
    system = model.arithmetic

    def bits_of(rows: list[list[float]]) -> list[Bits]:
        if any(value not in (0, 1) for row in rows for value in row):
            raise InvalidInput(
                f"The network {name[:40]} reaches a state that is not made of zeros and ones; "
                "give a step function on bits instead."
            )
        return [tuple(int(value) for value in row) for row in rows]

    begin = model.start(1)
    start = bits_of(system.decode_float64(begin).tolist())[0]
    table: dict[tuple[Bits, Bits], tuple[Bits, Bits]] = {}
    frontier, seen = [start], {start}
    while frontier:
        state = frontier.pop()
        here = system.encode(torch.tensor([state] * len(reads), dtype=torch.int64))
        scores, after = model.step(tokens, here)
        states = bits_of(system.decode_float64(after).tolist())
        for code, following, best in zip(codes.values(), states, scores.argmax(1).tolist(), strict=True):
            table[code, state] = following, _digits(best, kinds)
            if following not in seen:
                seen.add(following)
                frontier.append(following)
        if len(seen) > MOST_STATES:
            raise TooLarge(
                f"The network {name[:40]} has more than {MOST_STATES:,} states; "
                "write its step in operations on wires instead."
            )
    padded = [*writes, *[writes[-1]] * ((1 << kinds) - len(writes))]
    return circuit_from_table(table, name=name, reads=codes, writes=padded, start=start)


def _circuit(
    wires: Wires,
    after: Sequence[Wire],
    output: Sequence[Wire],
    *,
    name: str,
    reads: Mapping[str, Bits],
    writes: Sequence[str],
    start: Bits,
) -> RecurrentCircuit:
    gates, (state_gates, output_gates) = wires.used(after, output)
    return RecurrentCircuit(
        name=name,
        reads=dict(reads),
        writes=tuple(writes),
        start=start,
        gates=gates,
        state=state_gates,
        output=output_gates,
    )


def _columns(name: str, table: Table, width: int, states: int) -> list[list[Entry]]:
    """For each result its values at every input, in counting order; None where nothing is said."""
    inputs = width + states
    if inputs > MOST_INPUTS:
        raise TooLarge(
            f"A step of {inputs} bits has too large a table, which may have {MOST_INPUTS}; "
            "write it in operations on wires instead."
        )
    outputs = {len(output) for _, output in table.values()}
    if len(outputs) != 1:
        raise InvalidInput(
            f"The table of {name[:40]} gives outputs of {sorted(outputs)} bits; give all the same number."
        )
    columns: list[list[Entry]] = [[None] * (1 << inputs) for _ in range(states + outputs.pop())]
    for (bits, state), (after, output) in table.items():
        if len(bits) != width or len(state) != states or len(after) != states:
            raise InvalidInput(
                f"The table of {name[:40]} is for {width} bits of input and {states} of state; "
                f"got {bits} and {state} to {after}."
            )
        row = int("".join(map(str, (*bits, *state))) or "0", 2)
        for column, value in zip(columns, (*after, *output), strict=True):
            column[row] = value
    return columns


def _orders(inputs: int) -> list[Sequence[int]]:
    """Orders to decide in: as given, and for few inputs every rotation of that, forwards and backwards."""
    places = list(range(inputs))
    if not 0 < inputs <= MOST_REORDERED:
        return [places]
    turned = [places[turn:] + places[:turn] for turn in places]
    return [*turned, *(order[::-1] for order in turned)]


def _reordered(column: Sequence[Entry], order: Sequence[int]) -> list[Entry]:
    """The same function with its inputs in another order."""
    last = len(order) - 1
    return [
        column[sum((row >> (last - i) & 1) << (last - place) for i, place in enumerate(order))]
        for row in range(len(column))
    ]


def _products(wires: Wires, inputs: Sequence[Wire], column: Sequence[Entry]) -> Wire:
    """Σ modulo 2 of products of inputs; what is not said counts as 0.

    The coefficient of a product is the sum of the function over all inputs with ones inside it only.
    """
    values = [value or 0 for value in column]
    for place in range(len(inputs)):
        for row in range(len(values)):
            if row >> place & 1:
                values[row] ^= values[row ^ 1 << place]
    result = wires.wire(0)
    for row, value in enumerate(values):
        if value:
            factors = (wire for place, wire in enumerate(inputs) if row >> (len(inputs) - 1 - place) & 1)
            result = result ^ _all(wires, factors)
    return result


def _all(wires: Wires, factors: Iterable[Wire]) -> Wire:
    result = wires.wire(1)
    for factor in factors:
        result = result & factor
    return result


def _decisions(wires: Wires, inputs: Sequence[Wire], column: Sequence[Entry]) -> Wire:
    """low ⊕ x·(low ⊕ high) on the first input; without x where low and high can be the same function.

    Where high can be low negated, x ⊕ low is enough. Equal columns come out as the same wire, since the
    gates that would compute them are the same.
    """
    said = {value for value in column if value is not None}
    if len(said) < 2:
        return wires.wire(said.pop() if said else 0)
    half = len(column) // 2
    low, high = column[:half], column[half:]
    merged = _merged(low, high)
    if merged is not None:
        return _decisions(wires, inputs[1:], merged)
    merged = _merged(low, [None if value is None else 1 - value for value in high])
    if merged is not None:
        return inputs[0] ^ _decisions(wires, inputs[1:], merged)
    no, yes = (_decisions(wires, inputs[1:], part) for part in (low, high))
    return no ^ (inputs[0] & (no ^ yes))


def _merged(first: Sequence[Entry], second: Sequence[Entry]) -> list[Entry] | None:
    """One function for both, where none of what they say is different."""
    if any(None not in pair and pair[0] != pair[1] for pair in zip(first, second, strict=True)):
        return None
    return [b if a is None else a for a, b in zip(first, second, strict=True)]


def _digits(number: int, count: int) -> Bits:
    return tuple(number >> (count - 1 - place) & 1 for place in range(count))


def table_of(step: Callable[[Bits, Bits], tuple[Bits, Bits]], *, inputs: int, states: int) -> Table:
    """A step function on numbers 0 and 1, tried on everything."""
    if inputs + states > MOST_INPUTS:
        raise TooLarge(
            f"A step of {inputs + states} bits is not tried on everything, at most one of {MOST_INPUTS}; "
            "write it in operations on wires instead."
        )
    return {
        (bits, state): step(bits, state)
        for bits in itertools.product((0, 1), repeat=inputs)
        for state in itertools.product((0, 1), repeat=states)
    }
