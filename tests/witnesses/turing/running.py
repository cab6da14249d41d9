"""Runs of machines three ways: rules on lists of words, weights that generate, and the plain simulator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from hypothesis import strategies as st

from separatrix.generation.decoding import generate
from separatrix.generation.scripts.turing import (
    LEFT_CELL,
    SEEK_LEFT,
    HybridScript,
    RunTask,
    SearchScript,
    TapeScript,
    TuringScript,
)
from separatrix.models.explicit.linear_rnn import LayeredRNN
from separatrix.tasks.machine_runs import MachineRuns
from separatrix.tasks.machines import MOVES, Execution, Machine, Transition, execute
from separatrix.witnesses.language.forms import Field, as_linear
from separatrix.witnesses.language.rules import interpret
from separatrix.witnesses.language.words import Words
from separatrix.witnesses.turing import hybrid, searches
from separatrix.witnesses.turing.past import Past
from separatrix.witnesses.turing.tape import rules_on_a_tape
from separatrix.witnesses.witness import Witness

__all__ = ["SCRIPTS", "generated", "is_right", "machines", "plain", "small_tasks"]

SCRIPTS: dict[str, type[TuringScript]] = {
    "linear-rnn+retrieval": SearchScript,
    "hybrid-cot": HybridScript,
    "linear-rnn-cot": TapeScript,
}


class _Plain:
    """The rules of a family on a list of words, with Python's searches and a dictionary for attention."""

    def __init__(self, script: TuringScript) -> None:
        self.script, self.known = script, Words(script.vocabulary)
        kinds, cells = {
            SearchScript: (searches.KINDS_BACK, searches.CELLS_BACK),
            HybridScript: (hybrid.KINDS_BACK, hybrid.CELLS_BACK),
            TapeScript: (script.line if isinstance(script, TapeScript) else 0, -1),
        }[type(script)]
        self.kinds = [_field(f"kind {back}") for back in range(kinds + 1)]
        self.cells = [_field(f"cell {back}") for back in range(cells + 1)]
        self.found = _field("found")
        past = Past(
            self.known, [as_linear(each) for each in self.kinds], [as_linear(each) for each in self.cells]
        )
        if isinstance(script, SearchScript):
            self.rules = searches.rules_by_searches(script, past)
        elif isinstance(script, HybridScript):
            read = hybrid.reading_rules(script, past, self.found)
            self.rules = [*hybrid.control_rules(script, past), *read]
        else:
            assert isinstance(script, TapeScript)
            self.rules = rules_on_a_tape(script, past)

    def run(self, prompt: Sequence[str]) -> list[str]:
        text = list(prompt)
        ends = {self.script.vocabulary.word(token) for token in self.script.answers}
        while len(text) < len(prompt) + self.script.limit and text[-1] not in ends:
            text.append(_searched(text) if text[-1] == "<EndSearch>" else self.next(text))
        return text

    def next(self, text: Sequence[str]) -> str:
        named = [self.named(word) for word in text[::-1][: len(self.kinds)]]
        named += [("", 0)] * len(self.kinds)
        held = {
            each: (self.known.id(name) if name else 0,)
            for each, (name, _) in zip(self.kinds, named, strict=False)
        }
        held |= {each: (cell,) for each, (_, cell) in zip(self.cells, named, strict=False)}
        if isinstance(self.script, HybridScript):
            held[self.found] = (self.known.id(self.latest(text)),)
        written = interpret(self.rules, held)
        assert written is not None, f"no rule applies behind {' '.join(text[-4:])}"
        if isinstance(written, str):
            return written
        block = next(each for each in self.script.vocabulary.blocks if each.name == written[0])
        assert 0 <= written[1] - block.first < block.size, f"{written} is no word"
        return block.word(written[1] - block.first)

    def named(self, word: str) -> tuple[str, int]:
        """A word itself, or its block and the cell that it names."""
        for block in self.script.vocabulary.blocks:
            place = None if block.spelled else block.place(word)
            if place is not None:
                number = block.first + place
                return block.name, -number if block.name in (LEFT_CELL, SEEK_LEFT) else number
        return word, 0

    def latest(self, text: Sequence[str]) -> str:
        """The symbol last written to the cell that stands last, or given for it, else a blank."""
        cells = {f"@{cell}": symbol for cell, symbol in enumerate(text[1 : text.index("=")])}
        for cell, _, written in zip(text, text[1:], text[2:], strict=False):
            if cell.startswith("@"):
                cells[cell] = written
        return cells.get(text[-1], self.script.machine.blank)


def _field(name: str) -> Field:
    return Field(name=name, dim=1, low=Fraction(-999), high=Fraction(999), note="")


def _searched(text: Sequence[str]) -> str:
    start = len(text) - 1 - text[::-1].index("<StartSearch>")
    found = re.search("".join(text[start + 1 : -1]), "".join(f"{word} " for word in text[:start]))
    return found.group(1) if found else "FAILED"


def plain(task: RunTask, family: str, tapes: Sequence[Sequence[str]]) -> bool:
    """Whether the rules run every tape as the simulator does."""
    script = SCRIPTS[family](task)
    rules, token = _Plain(script), script.vocabulary.token
    for tape in tapes:
        text = rules.run(["<s>", *tape, "="])
        prompt, written = text[: len(tape) + 2], text[len(tape) + 2 :]
        if not is_right(script, tape, script.told([*map(token, prompt)], [*map(token, written)])):
            return False
    return True


def generated(witness: Witness, tapes: Sequence[Sequence[str]]) -> list[Execution]:
    """What the weights write, read back."""
    script, model = witness.script, witness.model
    assert isinstance(script, TuringScript)
    assert isinstance(model, LayeredRNN)
    prompts = [[script.vocabulary.token(word) for word in ("<s>", *tape, "=")] for tape in tapes]
    runs = generate(model, prompts, script)
    assert all(run.outcome in ("answered", "limit") for run in runs)
    return [script.told(prompt, run.written) for prompt, run in zip(prompts, runs, strict=True)]


def is_right(script: TuringScript, tape: Sequence[str], told: Execution) -> bool:
    """Step for step what the simulator does, and to the end if there are steps and cells enough for it."""
    room = script.room
    whole = execute(script.machine, tape, max_steps=room.steps)
    if whole.outcome == "halted" and all(-room.left <= step.cell <= room.right for step in whole.steps):
        return told == whole
    same = execute(script.machine, tape, max_steps=len(told.steps))
    if (told.steps, told.state, told.head, told.tape) != (same.steps, same.state, same.head, same.tape):
        return False
    match told.outcome:
        case "out of space":
            return not -room.left <= told.head <= room.right
        case "out of steps":
            return len(told.steps) >= room.steps
        case "halted":
            # The limit is one of words, so a run of few words a step may go on for longer than it has to.
            return same.outcome == "halted" and len(told.steps) > room.steps


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Two to four states, one or two of them halting, and one to three symbols; some start in the end."""
    live = [f"q{number}" for number in range(draw(st.integers(1, 3)))]
    halting = ["yes", "no"][: draw(st.integers(1, 2))]
    alphabet = ["_", "a", "("][: draw(st.integers(1, 3))]
    rule = st.builds(
        Transition,
        st.sampled_from([*live, *live, *halting]),
        st.sampled_from(alphabet),
        st.sampled_from(sorted(MOVES)),
    )
    return Machine(
        name="random",
        states=(*live, *halting),
        alphabet=tuple(alphabet),
        blank="_",
        transitions={(state, symbol): draw(rule) for state in live for symbol in alphabet},
        start=draw(st.sampled_from([*live, *live, *live, halting[0]])),
        halting=tuple(halting),
    )


@st.composite
def small_tasks(draw: st.DrawFn) -> MachineRuns:
    """A random machine with room for a few steps, and for few cells or for all it can reach."""
    n = draw(st.integers(0, 3))
    roomy = draw(st.booleans())
    return MachineRuns(
        n=n,
        program=draw(machines()),
        steps=draw(st.integers(1, 12)),
        left=None if roomy else draw(st.integers(0, 3)),
        right=None if roomy else draw(st.integers(n, n + 3)),
    )
