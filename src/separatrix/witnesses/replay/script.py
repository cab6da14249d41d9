"""Replays of recurrent circuits: the words between marks, then gate values and a word for every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, final

from jaxtyping import Int
from torch import Tensor

from separatrix.generation.scripts import Script
from separatrix.tasks.dyck import Dyck
from separatrix.tasks.vocabulary import Vocabulary
from separatrix.witnesses.replay.circuits import BEGIN, EQUALS, RecurrentCircuit
from separatrix.witnesses.replay.compile import replay_vocabulary
from separatrix.witnesses.replay.examples import dyck_circuit
from separatrix.witnesses.replay.task import CircuitRuns

__all__ = ["ReplayScript"]


@final
class ReplayScript(Script):
    """`<s> b a b =`, and then `1 0 1 a 0 1 1 b 1 1 0 EVEN` for a circuit of 3 gates.

    The circuit is the task's own; for bounded Dyck it is made of the weights of the recurrent witness.
    """

    kind: ClassVar[str] = "replay"

    def __init__(self, task: CircuitRuns | Dyck) -> None:
        """For a task that has a circuit."""
        self._task = task
        self._circuit = task.circuit if isinstance(task, CircuitRuns) else dyck_circuit(task)
        self._vocabulary = replay_vocabulary(self._circuit)

    @property
    def task(self) -> CircuitRuns | Dyck:
        """The task whose words are read."""
        return self._task

    @property
    def circuit(self) -> RecurrentCircuit:
        """The network that is replayed."""
        return self._circuit

    @property
    def steps(self) -> int:
        """The most steps of a run."""
        return self._task.most_steps if isinstance(self._task, CircuitRuns) else self._task.n

    @property
    def vocabulary(self) -> Vocabulary:
        """Answers, words that are read, gate values, marks."""
        return self._vocabulary

    @property
    def answers(self) -> frozenset[int]:
        """The circuit's, whose tokens are the task's classes."""
        return frozenset(range(len(self._circuit.answers)))

    @property
    def limit(self) -> int:
        """All steps."""
        return self.steps * (len(self._circuit.gates) + 1)

    def prompt(self, row: Int[Tensor, "pos"]) -> list[int]:
        """The input's words between the marks, without padding."""
        own = self._task.vocabulary
        given = [own.word(token) for token in row.tolist() if token != own.pad]
        return [self._vocabulary.token(word) for word in (BEGIN, *given, EQUALS)]

    def answer(self, written: Sequence[int]) -> int | None:
        """The number of the answer that a run ends with."""
        return written[-1] if written and written[-1] in self.answers else None
