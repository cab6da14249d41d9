"""Witnesses of W-4.8: the Transformer of a circuit, hung on the task that the circuit does."""

from __future__ import annotations

from separatrix.tasks.dyck import Dyck
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import Program, build
from separatrix.witnesses.replay.circuits import RecurrentCircuit
from separatrix.witnesses.replay.compile import longest_text, replay_program
from separatrix.witnesses.replay.script import ReplayScript
from separatrix.witnesses.replay.task import CircuitRuns
from separatrix.witnesses.witness import Witness

__all__ = ["circuit_replay", "dyck_replay", "replay"]


def replay(circuit: RecurrentCircuit, *, n: int, choices: Choices, steps: int | None = None) -> Witness:
    """The Transformer that follows a circuit on every text of 1 to n words, in at most so many steps.

    `steps` counts the words read and those that the network writes to itself; one for each word, if nothing
    is said.
    """
    return circuit_replay(CircuitRuns(n=n, circuit=circuit, steps=steps), choices)


def circuit_replay(task: CircuitRuns, choices: Choices) -> Witness:
    """The replay of a task's own circuit."""
    return _replayed(ReplayScript(task), choices)


def dyck_replay(task: Dyck, choices: Choices) -> Witness:
    """Bounded Dyck by replaying its recurrent witness, whose step was turned into gates."""
    return _replayed(ReplayScript(task), choices)


def _replayed(script: ReplayScript, choices: Choices) -> Witness:
    program = Program(
        script.task,
        causal=True,
        gated=True,
        vocabulary=script.vocabulary,
        longest=longest_text(script.circuit, n=script.task.n, steps=script.steps),
    )
    replay_program(program, script.circuit)
    return witness_of(
        build(program, choices.system), theorem="W-4.8", family="transformer-cot", script=script
    )
