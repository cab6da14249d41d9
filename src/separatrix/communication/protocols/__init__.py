"""Two parties run a model on an input that neither holds whole, and every bit between them is counted.

    transcript = run_protocol(witness, task, row, partition="odd/even")
    transcript.bits, transcript.agrees

Three theorems give the protocols: S-T2 for a prefix and a suffix, S-T4 for one-layer Transformers under any
partition, and R-G's argument for graph Transformers, row by row.
"""

from __future__ import annotations

from separatrix.communication.protocols.arranging import Arrangement, arrange, artefacts, check_input
from separatrix.communication.protocols.comparing import comparisons
from separatrix.communication.protocols.interface import Answer, Count, Part, Protocol, Speaker
from separatrix.communication.protocols.running import run_protocol, run_protocols

__all__ = [
    "Answer",
    "Arrangement",
    "Count",
    "Part",
    "Protocol",
    "Speaker",
    "arrange",
    "artefacts",
    "check_input",
    "comparisons",
    "run_protocol",
    "run_protocols",
]
