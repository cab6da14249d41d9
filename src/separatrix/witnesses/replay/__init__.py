"""W-4.8: recurrent networks given as circuits, and Transformers that replay them."""

from __future__ import annotations

from separatrix.witnesses.replay.circuits import (
    And,
    Constant,
    InputBit,
    RecurrentCircuit,
    StateBit,
    Xor,
)
from separatrix.witnesses.replay.gates_of import (
    circuit_from_rnn,
    circuit_from_table,
    circuit_from_wires,
    table_of,
)
from separatrix.witnesses.replay.replays import circuit_replay, dyck_replay, replay
from separatrix.witnesses.replay.script import ReplayScript
from separatrix.witnesses.replay.task import CircuitRuns

__all__ = [
    "And",
    "CircuitRuns",
    "Constant",
    "InputBit",
    "RecurrentCircuit",
    "ReplayScript",
    "StateBit",
    "Xor",
    "circuit_from_rnn",
    "circuit_from_table",
    "circuit_from_wires",
    "circuit_replay",
    "dyck_replay",
    "replay",
    "table_of",
]
