"""A Turing machine run by weights: the tape step by step beside the words that the model writes for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from separatrix.errors import InvalidInput
from separatrix.explorer.folder import Folder
from separatrix.explorer.view import Deadline, View, chosen, only, text_in
from separatrix.explorer.views._weights import weights_of
from separatrix.generation.scripts.turing import HybridScript, TapeScript, TuringScript, halted_mark
from separatrix.tasks.machines import Execution, Machine, execute, library_machine
from separatrix.witnesses.solving import Solution, ask
from separatrix.witnesses.turing import compile_turing
from separatrix.witnesses.turing.compile import TuringFamily
from separatrix.witnesses.witness import Witness

__all__ = ["VIEW"]

FAMILIES: Final = ("linear-rnn+retrieval", "hybrid-cot", "linear-rnn-cot")
MOST_CELLS: Final = 10
MOST_STEPS: Final = 110
_LONGEST: Final = 60


class _Shown(NamedTuple):
    """What the page says of a machine, and a tape to begin with."""

    says: str
    example: str


MACHINES: Final[Mapping[str, _Shown]] = MappingProxyType(
    {
        "palindrome": _Shown("Does it read the same from both ends?", "0110"),
        "balanced-brackets": _Shown("Does every bracket have its partner?", "(())()"),
        "binary-increment": _Shown("One more, in binary.", "1011"),
        "parity": _Shown("Is the number of ones even or odd?", "01101"),
        "unary-increment": _Shown("One stroke more.", "111"),
        "busy-beaver-2": _Shown("Six steps, four ones, and two states.", ""),
        "busy-beaver-3": _Shown("Six ones with three states, on an empty tape.", ""),
        "busy-beaver-4": _Shown("Thirteen ones with four states, after 107 steps.", ""),
    }
)
_DEFAULT: Final = MappingProxyType(
    {"machine": "palindrome", "tape": MACHINES["palindrome"].example, "family": "linear-rnn+retrieval"}
)


def _answer(asked: dict[str, object], folder: Folder, deadline: Deadline) -> dict[str, object]:
    only(asked, "machine", "tape", "family")
    name = chosen(asked, "machine", tuple(MACHINES), default="palindrome")
    family = cast(TuringFamily, chosen(asked, "family", FAMILIES, default=FAMILIES[0]))
    machine = library_machine(name)
    tape = _symbols(text_in(asked, "tape", longest=_LONGEST, default=MACHINES[name].example), machine)
    plain = execute(machine, tape, max_steps=MOST_STEPS)
    if plain.outcome != "halted":
        raise InvalidInput(
            f"A run has at most {MOST_STEPS} steps here, and {name} has not halted by then on this tape; "
            "give a shorter one."
        )
    witness = _compiled(machine, family, tape, plain)
    deadline.check()
    row = witness.task.parse(" ".join(["<s>", *tape, "="]))
    solution = ask(witness, row.unsqueeze(0), progress=lambda _: deadline.check())[0]
    return {
        "machine": name,
        "family": family,
        "tape": tape,
        "most_cells": MOST_CELLS,
        "machines": [_listed(each) for each in MACHINES],
        "start": machine.start,
        "halting": list(machine.halting),
        "rules": [[*key, rule.write, rule.move, rule.state] for key, rule in machine.transitions.items()],
        **_told(solution, plain),
        "oracle": plain.state,
        "weights": weights_of(witness),
    }


def _listed(name: str) -> dict[str, object]:
    machine = library_machine(name)
    return {
        "name": name,
        "says": MACHINES[name].says,
        "example": MACHINES[name].example,
        "alphabet": list(machine.alphabet),
        "blank": machine.blank,
    }


def _symbols(text: str, machine: Machine) -> list[str]:
    """The symbols of a tape; every one is a single character, so spaces between them say nothing."""
    found = list("".join(text.split()))
    strange = next((symbol for symbol in found if symbol not in machine.alphabet), None)
    if strange is not None:
        known = " ".join(machine.alphabet)
        raise InvalidInput(f"The tape of {machine.name} has the symbols {known}; got {strange!r}.")
    if len(found) > MOST_CELLS:
        raise InvalidInput(f"A tape has at most {MOST_CELLS} cells here; got {len(found)}.")
    return found


def _compiled(machine: Machine, family: TuringFamily, tape: Sequence[str], plain: Execution) -> Witness:
    """Weights with room for this run and no more, so that they are there at once."""
    beyond = plain.first + len(plain.tape) - len(tape)
    return compile_turing(
        machine,
        family=family,
        n=len(tape),
        steps=max(1, len(plain.steps)),
        cells=max(1, -plain.first, beyond),
    )


def _told(solution: Solution, plain: Execution) -> dict[str, object]:
    """The run as the model's words tell it, each step with the words that it took."""
    script, run = solution.witness.script, solution.run
    assert isinstance(script, TuringScript)
    assert run is not None
    told = script.told(script.prompt(solution.row), run.written)
    ends = _ends(script, solution.words)
    assert len(ends) >= len(told.steps), "every step that was told has words"
    return {
        "words": list(solution.words),
        "returned": sorted(run.returned),
        "steps": [
            {
                "cell": step.cell,
                "state": step.state,
                "read": step.read,
                "write": step.rule.write,
                "move": step.rule.move,
                "next": step.rule.state,
                "end": end,
            }
            for step, end in zip(told.steps, ends, strict=False)
        ],
        "state": told.state,
        "head": told.head,
        "first": told.first,
        "left": list(told.tape),
        "outcome": told.outcome,
        "same": told.steps == plain.steps and told.tape == plain.tape,
        "answer": solution.text,
    }


def _ends(script: TuringScript, words: Sequence[str]) -> list[int]:
    """Behind which word each step is complete: the one that names its next state."""
    if isinstance(script, TapeScript):
        live = {*script.machine.live, *map(halted_mark, script.machine.halting)}
        return [place + 1 for place, word in enumerate(words) if word in live]
    # A step names its cell, then the symbol read if attention told it, the symbol written, move and state.
    behind = 5 if isinstance(script, HybridScript) else 4
    cells = (place for place, word in enumerate(words) if re.fullmatch(r"@-?[0-9]+", word))
    return [place + behind for place in cells if place + behind <= len(words)]


VIEW: Final = View(
    name="turing",
    title="Turing machine",
    says=(
        "A machine compiled to weights: a linear RNN that searches, one with an attention layer, or one that "
        "carries the tape in its state writes the run down, step by step."
    ),
    default=_DEFAULT,
    answer=_answer,
)
