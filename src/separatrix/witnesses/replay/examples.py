"""Circuits to replay: parity, a counter, and bounded Dyck from the weights of a recurrent network."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.errors import InvalidInput
from separatrix.models.explicit.recurrent_tokens import digits_for
from separatrix.tasks.dyck import Dyck
from separatrix.witnesses.dyck_rnn import dyck_rnn_model
from separatrix.witnesses.replay.circuits import InputBit, RecurrentCircuit, StateBit, Xor
from separatrix.witnesses.replay.gates_of import MOST_INPUTS, Wire, circuit_from_rnn, circuit_from_wires

__all__ = ["counter", "dyck_circuit", "parity"]


def parity() -> RecurrentCircuit:
    """Is the number of b's EVEN or ODD? Three gates."""
    return RecurrentCircuit(
        name="parity",
        reads={"a": (0,), "b": (1,)},
        writes=("EVEN", "ODD"),
        start=(0,),
        gates=(InputBit(0), StateBit(0), Xor(0, 1)),
        state=(2,),
        output=(2,),
    )


def counter(*, bits: int) -> RecurrentCircuit:
    """How many b's, modulo 2^bits? Adds one with a carry; the answers are #0, #1, …."""
    if not 1 <= bits <= 8:
        raise InvalidInput(f"A counter has 1 to 8 bits; got bits={bits}.")

    def step(read: Sequence[Wire], state: Sequence[Wire]) -> tuple[list[Wire], list[Wire]]:
        carry, after = read[0], []
        for bit in reversed(state):
            after.append(bit ^ carry)
            carry = bit & carry
        return after[::-1], after[::-1]

    return circuit_from_wires(
        step,
        name=f"counter modulo {1 << bits}",
        reads={"a": (0,), "b": (1,)},
        writes=[f"#{number}" for number in range(1 << bits)],
        start=(0,) * bits,
    )


def dyck_circuit(task: Dyck) -> RecurrentCircuit:
    """Is a string of brackets in the bounded Dyck language? The step of the recurrent witness, as gates.

    The network's state are types·depth + 1 bits; the table that becomes gates has its answers at the states
    that it can reach, which are those of the automaton.
    """
    if task.form != "recognise":
        raise InvalidInput(f"The circuit recognises members: form='recognise'; got form='{task.form}'.")
    inputs = digits_for(2 * task.types) + task.types * task.depth + 1
    if inputs > MOST_INPUTS:
        raise InvalidInput(
            f"A circuit is made of a bracket's and a stack's bits, {MOST_INPUTS} at most; types={task.types} "
            f"and depth={task.depth} need {inputs:,}. Try types=2 and depth=2."
        )
    brackets = task.vocabulary
    return circuit_from_rnn(
        dyck_rnn_model(task),
        name=f"dyck {task.types},{task.depth}",
        reads=[brackets.word(token) for token in range(brackets.size)],
        writes=("NO", "YES"),
    )
