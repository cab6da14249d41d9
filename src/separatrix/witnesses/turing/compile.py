"""From a Turing machine to the weights of a model that runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, get_args

from separatrix.errors import TooLarge
from separatrix.registry import unknown_name
from separatrix.tasks.machine_runs import MachineRuns
from separatrix.tasks.machines import Machine
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.turing.hybrid import turing_hybrid
from separatrix.witnesses.turing.searches import turing_searches
from separatrix.witnesses.turing.tape import turing_tape
from separatrix.witnesses.witness import Witness

__all__ = ["TuringFamily", "compile_turing", "runs_within"]

TuringFamily = Literal["linear-rnn+retrieval", "hybrid-cot", "linear-rnn-cot"]

_BUILDERS: Final[dict[str, Callable[[MachineRuns, Choices], Witness]]] = {
    "linear-rnn+retrieval": turing_searches,
    "hybrid-cot": turing_hybrid,
    "linear-rnn-cot": turing_tape,
}
_MOST_CELLS: Final = {"linear-rnn+retrieval": 10_000, "hybrid-cot": 1 << 20, "linear-rnn-cot": 100}
"""Room on either side where none is asked for and the steps could reach further."""
_MOST_RULES: Final = {"linear-rnn+retrieval": 1000, "hybrid-cot": 1000, "linear-rnn-cot": 500}
"""What is compiled in less than a minute: every rule is compared with all words that could stand there."""


def compile_turing(
    machine: Machine,
    *,
    family: TuringFamily,
    n: int,
    steps: int,
    cells: int | None = None,
    choices: Choices | None = None,
) -> Witness:
    """Weights that run a machine on any tape of at most n cells.

    `steps` is how many steps there is room for in the text, and `cells` how many cells on either side of the
    input: where nothing is said as many as the steps can reach, within what the family can number or carry.
    A run that needs more cells than there are ends with FULL, one that needs more steps at the limit.
    """
    task = runs_within(machine, family=family, n=n, steps=steps, cells=cells)
    return _BUILDERS[family](task, choices or Choices())


def runs_within(
    machine: Machine, *, family: TuringFamily, n: int, steps: int, cells: int | None = None
) -> MachineRuns:
    """The runs that weights of a family are built for."""
    if family not in _BUILDERS:
        raise unknown_name("family of models that run Turing machines called", family, get_args(TuringFamily))
    most = _MOST_RULES[family]
    if len(machine.transitions) > most:
        raise TooLarge(
            f"A machine of at most {most:,} rules is compiled to {family}; {machine.name[:40]} has "
            f"{len(machine.transitions):,}. Take another family, or fewer states and symbols."
        )
    if cells is None:
        side = min(steps, _MOST_CELLS[family])
        return MachineRuns(n=n, program=machine, steps=steps, left=side, right=max(n, side))
    return MachineRuns(n=n, program=machine, steps=steps, left=cells, right=n + cells)
