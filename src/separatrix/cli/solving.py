"""`separatrix solve`: put an input to hand-built weights, and watch them think and search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from separatrix.cli.flags import Arithmetic, AsJson, Family, Variant, Wanted
from separatrix.cli.inputs import given_text, sized
from separatrix.cli.output import note_if_long, write_json
from separatrix.cli.progress import shown_progress
from separatrix.cli.showing import print_answer, run_facts

if TYPE_CHECKING:
    from separatrix.tasks import Task
    from separatrix.witnesses.solving import Solution

__all__ = ["solve"]


def solve(
    task: Wanted,
    *,
    input: Annotated[
        str | None, Parameter(help="The input, in the task's words.", allow_leading_hyphen=True)
    ] = None,
    file: Annotated[
        Path | None, Parameter(help="A file with the input; for is-tree, an edge a line.")
    ] = None,
    family: Family = None,
    variant: Variant = None,
    arithmetic: Arithmetic = None,
    show: Annotated[
        bool,
        Parameter(
            help="Print the chain of thought, the searches, and the tree or the tape.",
            negative=(),
            show_default=False,
        ),
    ] = False,
    json: AsJson = False,
) -> int:
    """Build the weights for one input and put it to them.

    Without --n, the task is as large as the input needs. Exit code 0 if their answer is right, else 1.
    """
    from separatrix.precision import system_named
    from separatrix.witnesses import Choices, witness_for
    from separatrix.witnesses.solving import ask

    choices = Choices() if arithmetic is None else Choices(system=system_named(arithmetic))
    made, row = sized(task, given_text(input, file), family=family, variant=variant)
    with note_if_long("Writing the weights; this may take a while."):
        witness = witness_for(made, family=family, variant=variant, choices=choices)
    with shown_progress() as progress:
        solution = ask(witness, row.unsqueeze(0), progress=progress)[0]
    if json:
        write_json(_facts(solution))
    else:
        print_answer(solution, about=_about(made), show=show)
    return 0 if solution.answer is not None and solution.right is not False else 1


def _about(task: Task) -> str:
    from separatrix.tasks.turing import Turing

    return f"{task.name} {task.machine}" if isinstance(task, Turing) else task.name


def _facts(solution: Solution) -> dict[str, Any]:
    from separatrix.precision import name_of
    from separatrix.tasks.specs import spec_of

    witness = solution.witness
    return {
        "answer": solution.text,
        "task": spec_of(witness.task).to_fields(),
        "theorem": witness.theorem,
        "family": witness.family,
        "variant": witness.variant,
        "n": witness.task.n,
        "arithmetic": name_of(witness.arithmetic),
        **run_facts(solution),
    }
