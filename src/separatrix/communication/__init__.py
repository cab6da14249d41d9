"""What provably cannot be done: two-party problems, matrices, reductions, bounds, protocols.

`problems` are what two parties may be asked, `matrices` their tables, with the numbers that follow from one
in `studying`; `reductions` turn a problem into a task, `bounds` say what a task therefore needs, `walls` how
far a size reaches, `protocols` run a model with two parties and count their bits, and `pigeonhole` finds the
two inputs that a state too small cannot tell apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from separatrix.communication import bounds, protocols
from separatrix.communication.bounds import bound, bounds_for
from separatrix.communication.matrices import CommunicationMatrix
from separatrix.communication.pigeonhole import Collision, collide
from separatrix.communication.problems import PROBLEMS, Problem, problem
from separatrix.communication.protocols import run_protocol
from separatrix.communication.reductions import REDUCTIONS, Reduction, reduction_for
from separatrix.communication.walls import Wall, wall
from separatrix.theorems import Artefact

__all__ = [
    "PROBLEMS",
    "REDUCTIONS",
    "Collision",
    "CommunicationMatrix",
    "Problem",
    "Reduction",
    "Wall",
    "artefacts",
    "bound",
    "bounds_for",
    "collide",
    "problem",
    "reduction_for",
    "run_protocol",
    "wall",
]


def artefacts() -> Iterator[Artefact]:
    """The key of every bound and of every protocol."""
    yield from bounds.artefacts()
    yield from protocols.artefacts()
