"""Functions on bits as gates: equal to the function wherever it says something, and small."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from separatrix.errors import InvalidInput, TooLarge
from separatrix.tasks import task
from separatrix.tasks.dyck import Dyck
from separatrix.witnesses.dyck_rnn import dyck_rnn_model
from separatrix.witnesses.replay import circuit_from_rnn, circuit_from_table, circuit_from_wires, table_of
from separatrix.witnesses.replay.examples import counter, dyck_circuit
from separatrix.witnesses.replay.gates_of import Bits, Wire

READS = {"a": (0, 0), "b": (0, 1), "c": (1, 0), "d": (1, 1)}
BINARY: tuple[tuple[int, ...], ...] = ((0, 0), (0, 1), (1, 0), (1, 1))


@given(st.integers(0, 3), st.integers(1, 2), st.floats(0, 1), st.integers(0, 999))
def test_tables_become_gates_that_say_the_same(states: int, outputs: int, said: float, seed: int) -> None:
    drawn = random.Random(seed)
    rows = list(itertools.product(BINARY, itertools.product((0, 1), repeat=states)))
    table = {
        row: (_bits(drawn, states), _bits(drawn, outputs))
        for row in rows
        if drawn.random() < said or row == rows[0]
    }
    names = [f"answer{i}" for i in range(1 << outputs)]
    circuit = circuit_from_table(table, name="t", reads=READS, writes=names, start=(0,) * states)
    for (bits, state), (after, output) in table.items():
        values = circuit.evaluate(bits, state)
        assert tuple(values[gate] for gate in circuit.state) == after
        assert tuple(values[gate] for gate in circuit.output) == output


def test_gates_are_few() -> None:
    """A sum modulo 2 of 8 bits takes 7 gates and its inputs; constants and repetitions take none."""
    table = table_of(lambda bits, state: (state, ((sum(bits) + sum(state)) % 2,)), inputs=2, states=6)
    circuit = circuit_from_table(table, name="sum", reads=READS, writes=("E", "O"), start=(0,) * 6)
    assert len(circuit.gates) == 8 + 7
    table = table_of(lambda bits, state: ((), (bits[0] & bits[0],)), inputs=2, states=0)
    assert len(circuit_from_table(table, name="copy", reads=READS, writes=("E", "O"), start=()).gates) == 1
    assert [len(counter(bits=bits).gates) for bits in (1, 2, 3, 8)] == [3, 6, 9, 24]
    assert len(dyck_circuit(Dyck(n=8)).gates) == 54


@given(st.integers(0, 3), st.integers(0, 3))
def test_a_function_on_wires_is_the_function_on_numbers(number: int, state: int) -> None:
    def on_wires(read: Sequence[Wire], before: Sequence[Wire]) -> tuple[list[Wire | int], list[Wire | int]]:
        (x, y), (s, t) = read, before
        return [(x | y) & ~s, 1 ^ (t ^ t) ^ x ^ (x ^ y)], [(s ^ 1) | 0 | (t & t & 1), x & 0]

    def on_numbers(x: int, y: int, s: int, t: int) -> tuple[Bits, Bits]:
        return (int((x or y) and not s), int(not y)), (int(not s or t), 0)

    circuit = circuit_from_wires(on_wires, name="w", reads=READS, writes=("A", "B", "C", "D"), start=(0, 0))
    values = circuit.evaluate(BINARY[number], BINARY[state])
    found = tuple(values[g] for g in circuit.state), tuple(values[g] for g in circuit.output)
    assert found == on_numbers(*BINARY[number], *BINARY[state])


def test_a_recurrent_network_is_asked_only_where_it_can_be() -> None:
    """For every reachable state and token the gates give the network's own next state and class."""
    strings = task("dyck", n=8)
    assert isinstance(strings, Dyck)
    circuit, model = dyck_circuit(strings), dyck_rnn_model(strings)
    seen, frontier = {circuit.start}, [circuit.start]
    while frontier:
        state = frontier.pop()
        for token, word in enumerate("()[]"):
            scores, after = model.step(torch.tensor([token]), model.arithmetic.encode(torch.tensor([state])))
            step = circuit.step(word, state)
            assert list(step.state) == model.arithmetic.decode_float64(after)[0].tolist()
            assert step.written == ("NO", "YES")[int(scores.argmax())]
            if step.state not in seen:
                seen.add(step.state)
                frontier.append(step.state)
    assert len(seen) == 8


def test_what_cannot_be_gates_is_told_in_a_sentence() -> None:
    with pytest.raises(InvalidInput, match="not made of zeros and ones"):
        circuit_from_rnn(
            dyck_rnn_model(Dyck(n=4), activation="sigmoid"), name="soft", reads="()[]", writes=("NO", "YES")
        )
    with pytest.raises(TooLarge, match="at most one of 12; write it in operations on wires"):
        table_of(lambda bits, state: (state, bits), inputs=6, states=7)
    with pytest.raises(TooLarge, match="A step of 13 bits has too large a table"):
        circuit_from_table({}, name="t", reads=READS, writes=("A", "B"), start=(0,) * 11)
    with pytest.raises(InvalidInput, match=r"gives outputs of \[\] bits"):
        circuit_from_table({}, name="t", reads=READS, writes=("A", "B"), start=())
    with pytest.raises(InvalidInput, match=r"for 2 bits of input and 1 of state; got \(0,\)"):
        circuit_from_table({((0,), (0,)): ((0,), (0,))}, name="t", reads=READS, writes=("A", "B"), start=(0,))
    with pytest.raises(InvalidInput, match="A bit is 0 or 1; got 2"):
        circuit_from_wires(
            lambda read, state: ([], [read[0] ^ 2]), name="t", reads=READS, writes=("A", "B"), start=()
        )
    with pytest.raises(TooLarge, match="more than 4,096 gates"):
        circuit_from_wires(_endless, name="t", reads=READS, writes=("A", "B"), start=(0,) * 8)


def _endless(read: Sequence[Wire], state: Sequence[Wire]) -> tuple[list[Wire], list[Wire]]:
    bits = [*read, *state]
    for turn in range(5000):
        bits[turn % 10] = bits[turn % 10] ^ (bits[(turn + 1) % 10] & bits[(turn + 3) % 10])
    return bits[2:], bits[:1]


def _bits(drawn: random.Random, count: int) -> Bits:
    return tuple(drawn.randint(0, 1) for _ in range(count))
