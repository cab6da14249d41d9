"""`separatrix turing`: compile a machine to weights, and let them run it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from separatrix.cli.flags import Arithmetic, AsJson, Whole
from separatrix.cli.inputs import tape_symbols, text_of
from separatrix.cli.output import note_if_long, write_json
from separatrix.cli.progress import shown_progress
from separatrix.cli.showing import print_answer, run_facts

if TYPE_CHECKING:
    from separatrix.tasks.machines import Machine

__all__ = ["turing"]

Families = Literal["linear-rnn+retrieval", "hybrid", "hybrid-cot", "linear-rnn-cot"]
_STEPS: Final = 1000
"""So many take half a minute to compile, and the time grows faster than their number."""


def turing(
    machine: Annotated[str, Parameter(help="a file with a machine, or the name of one in the library")],
    /,
    *,
    tape: Annotated[
        str,
        Parameter(
            help="Symbols on the tape, with spaces between them.",
            allow_leading_hyphen=True,
            show_default=False,
        ),
    ] = "",
    family: Annotated[
        Families,
        Parameter(
            help="linear-rnn+retrieval looks cells up by searches, hybrid by attention, linear-rnn-cot keeps "
            "the tape in its state."
        ),
    ] = "linear-rnn+retrieval",
    steps: Annotated[Whole, Parameter(help="Steps to make room for.")] = _STEPS,
    cells: Annotated[
        Whole | None,
        Parameter(help="Room on either side of the input. [default: as far as the steps can reach]"),
    ] = None,
    arithmetic: Arithmetic = None,
    show: Annotated[
        bool,
        Parameter(help="Print every step with the tape, and the searches.", negative=(), show_default=False),
    ] = False,
    json: AsJson = False,
) -> int:
    """Compile a Turing machine to the weights of a recurrent model, and let the model run it.

    Exit code 0 if the machine halts, 1 if the run ends before that.
    """
    from separatrix.precision import name_of, system_named
    from separatrix.tasks.interface import require
    from separatrix.witnesses import Choices
    from separatrix.witnesses.solving import ask
    from separatrix.witnesses.turing import compile_turing

    read = _machine(machine)
    symbols = tape_symbols(tape, read)
    require(cells is None or cells >= 1, f"--cells needs 1 or more; got {cells}. Leave it out for enough.")
    choices = Choices() if arithmetic is None else Choices(system=system_named(arithmetic))
    with note_if_long("Compiling the machine; this may take a while."):
        witness = compile_turing(
            read,
            family="hybrid-cot" if family == "hybrid" else family,
            n=len(symbols),
            steps=steps,
            cells=cells,
            choices=choices,
        )
    row = witness.task.parse(" ".join(["<s>", *symbols, "="]))
    with shown_progress() as progress:
        solution = ask(witness, row.unsqueeze(0), progress=progress)[0]
    if json:
        about = {
            "answer": solution.text,
            "machine": read.name,
            "theorem": witness.theorem,
            "family": witness.family,
            "arithmetic": name_of(witness.arithmetic),
        }
        write_json({**about, **run_facts(solution)})
    else:
        print_answer(solution, about=read.name, show=show)
    return 0 if solution.answer is not None and solution.right is not False else 1


def _machine(named: str) -> Machine:
    from separatrix.registry import unknown_name
    from separatrix.tasks.machines import MACHINE_NAMES, library_machine, parse_machine

    if named in MACHINE_NAMES:
        return library_machine(named)
    path = Path(named)
    if path.name == named and path.suffix == "" and not path.exists():
        raise unknown_name("machine file, and no machine in the library, called", named, MACHINE_NAMES)
    return parse_machine(text_of(path, what="a machine"))
