"""A run in lines that can be read: what was written, what was searched for, and the tree or the tape."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from separatrix.cli.output import cut, printable_line, stdout_console, wrapped
from separatrix.cli.tapes import final_tape, run_lines
from separatrix.cli.trees import drawn

if TYPE_CHECKING:
    from separatrix.generation.runs import Run, Search
    from separatrix.generation.scripts import TreeScript
    from separatrix.tasks.machines import Execution
    from separatrix.witnesses.solving import Solution

__all__ = ["print_answer", "run_facts", "told"]

_MOST_LINES: Final = 400
_MOST_DRAWN: Final = 60
_FEW_WORDS: Final = 60
"""A run of no more words is shown word by word as well."""
_INDENT: Final = "  "
_UNDER_A_STEP: Final = " " * len("step  ")


def print_answer(solution: Solution, *, about: str, show: bool) -> None:
    """What was asked of whom, the run if it is to be shown, the answer, and what it took."""
    console = stdout_console()
    witness = solution.witness
    console.print(Text(f"{witness.theorem}: {printable_line(about)} by {witness.family}", "bold cyan"))
    if show:
        print("\n".join(_shown(solution, console.width)))
    lines = wrapped(
        printable_line(solution.text or f"none, {_why(solution)}"), console.width - len("answer: ")
    )
    style = "bold yellow" if solution.answer is None else "bold red" if _wrong(solution) else "bold green"
    console.print(Text.assemble("answer: ", ("\n".join(cut(lines)), style)), soft_wrap=True)
    if _wrong(solution):
        print("\n".join(wrapped(printable_line(_right_one(solution)), console.width)))
    machine = told(solution)
    if machine is not None:
        tape = wrapped(f"tape: {printable_line(final_tape(machine, _blank(solution)))}", console.width)
        print("\n".join(cut(tape)))
    print(", ".join(_amounts(solution, machine)))


def _wrong(solution: Solution) -> bool:
    return solution.answer is not None and solution.right is False


def _do_not_hold(solution: Solution) -> str:
    from separatrix.precision import name_of

    return f"in {name_of(solution.witness.arithmetic)} these weights do not hold"


def _right_one(solution: Solution) -> str:
    witness = solution.witness
    labels = witness.task.solve(solution.row.unsqueeze(0))
    wanted = labels.answer if solution.run is not None else labels.targets[labels.mask]
    right = " ".join(witness.task.render_target(each) for each in wanted)
    return f"That is wrong, it is {right}: {_do_not_hold(solution)}."


def run_facts(solution: Solution) -> dict[str, Any]:
    """What JSON has of a run: tokens, steps, how it ended, and the trace word by word.

    Steps are those of the Turing machine where one runs, else the tokens that were written.
    """
    run, machine = solution.run, told(solution)
    facts = {
        "right": solution.right,
        "tokens": solution.tokens,
        "steps": solution.steps if machine is None else len(machine.steps),
        "written": solution.steps,
        "outcome": "answered" if run is None else run.outcome,
        **({} if machine is None else _machine_facts(machine)),
        "trace": [],
        "searches": [],
    }
    if run is not None:
        facts["trace"] = [
            {"word": word, "by": "search" if place in run.returned else "model"}
            for place, word in enumerate(solution.words)
        ]
        facts["searches"] = [
            {
                "place": each.place,
                "pattern": each.pattern,
                "text_characters": each.text,
                "outcome": each.outcome,
                "result": each.result,
            }
            for each in run.searches
        ]
    return facts


def _machine_facts(machine: Execution) -> dict[str, Any]:
    return {
        "ended": machine.outcome,
        "tape": list(machine.tape),
        "first_cell": machine.first,
        "head": machine.head,
        "run": [
            {
                "state": step.state,
                "cell": step.cell,
                "read": step.read,
                "write": step.rule.write,
                "move": step.rule.move,
                "next": step.rule.state,
            }
            for step in machine.steps
        ],
    }


def told(solution: Solution) -> Execution | None:
    """The run of a Turing machine that a model has written; None if it wrote something else."""
    from separatrix.generation.scripts.turing import TuringScript

    script, run = solution.witness.script, solution.run
    if run is None or not isinstance(script, TuringScript):
        return None
    return script.told(script.prompt(solution.row), run.written)


def _amounts(solution: Solution, machine: Execution | None) -> Iterator[str]:
    if machine is not None:
        yield _counted(len(machine.steps), "step") + " of the machine"
    read = solution.tokens - solution.steps
    yield _counted(read, "token") + " read"
    yield f"{solution.steps:,} written"
    if solution.run is not None and solution.run.searches:
        yield _counted(len(solution.run.searches), "search", "searches")


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _why(solution: Solution) -> str:
    """Why there is no answer."""
    machine, run = told(solution), solution.run
    assert run is not None
    if run.outcome == "timeout":
        return "as a search was cut off"
    if run.outcome == "invalid":
        return "as a search was no search, or its result no word"
    if solution.right is False and run.outcome == "limit":
        return f"though {solution.steps:,} tokens are enough for any input: {_do_not_hold(solution)}"
    if machine is not None:
        return machine.outcome + _more_room(solution, machine)
    if run.outcome == "limit":
        return f"as the limit of {solution.steps:,} tokens came first"
    return "as its last word says nothing"


def _more_room(solution: Solution, machine: Execution) -> str:
    """The option that makes room for more steps or cells, where a run has ended for want of them."""
    from separatrix.tasks.turing import Turing

    steps, cells = (
        ("--max-steps", "--space") if isinstance(solution.witness.task, Turing) else ("--steps", "--cells")
    )
    option = {"out of steps": steps, "out of space": cells}.get(machine.outcome)
    return "" if option is None else f"; {option} makes room for more"


def _blank(solution: Solution) -> str:
    from separatrix.generation.scripts.turing import TuringScript

    script = solution.witness.script
    assert isinstance(script, TuringScript)
    return script.machine.blank


def _shown(solution: Solution, width: int) -> list[str]:
    from separatrix.generation.scripts import TreeScript

    run, script = solution.run, solution.witness.script
    if run is None:
        return ["It answers at once and writes nothing down."]
    machine = told(solution)
    if machine is not None:
        return _shown_machine(solution, machine, width)
    heading = "Chain of thought, with its searches:" if run.searches else "Chain of thought:"
    lines = [heading, *cut(list(_written(solution, run, width)), most=_MOST_LINES)]
    return [*lines, *_shown_tree(script, run, width)] if isinstance(script, TreeScript) else lines


def _shown_tree(script: TreeScript, run: Run, width: int) -> Iterator[str]:
    tour = script.tour(run.written)
    reached, vertices = len(set(tour)), script.task.n
    yield f"What the walk saw, {reached:,} of {_counted(vertices, 'vertex', 'vertices')}:"
    for line in drawn(tour, most=_MOST_DRAWN, width=width - len(_INDENT)):
        yield _INDENT + line


def _shown_machine(solution: Solution, machine: Execution, width: int) -> list[str]:
    """A line a step, below it the searches that told what the cell holds; then the text itself if short."""
    run, script = solution.run, solution.witness.script
    assert run is not None
    assert script is not None
    given = [script.vocabulary.word(token) for token in script.prompt(solution.row)][1:-1]
    # A step names its cell once it knows what stands there.
    ends = [place for place, word in enumerate(solution.words) if re.fullmatch(r"@-?[0-9]+", word)]
    below: list[list[str]] = [[] for _ in range(len(ends) + 1)]
    step = 0
    for each in run.searches:
        while step < len(ends) and ends[step] < each.place:
            step += 1
        below[step] += _search(each, width, indent=_UNDER_A_STEP)
    lines = cut(list(run_lines(machine, given, width=width, below=below)), most=_MOST_LINES)
    if len(solution.words) <= _FEW_WORDS:
        lines += ["in the model's words:", *_wrapped(solution.words, width)]
    return lines


def _written(solution: Solution, run: Run, width: int) -> Iterator[str]:
    """The words between searches, and each search with its result."""
    words, at = solution.words, 0
    for each in run.searches:
        start = each.place - 1
        while start > at and words[start] != "<StartSearch>":
            start -= 1
        yield from _wrapped(words[at:start], width)
        yield from _search(each, width)
        at = each.place + 2
    yield from _wrapped(words[at:], width)


def _wrapped(words: tuple[str, ...], width: int) -> list[str]:
    return wrapped(printable_line(" ".join(words)), width, indent=_INDENT) if words else []


def _search(each: Search, width: int, *, indent: str = _INDENT) -> list[str]:
    """Its pattern, and behind an arrow what came back."""
    label = f"{indent}search   "
    found = each.result if each.result is not None else each.outcome.upper()
    lines = wrapped(printable_line(f"{each.pattern}  →  {found}"), max(20, width - len(label))) or [""]
    return cut([label + lines[0], *(" " * len(label) + line for line in lines[1:])])
