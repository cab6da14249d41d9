"""W-5.4: any Turing machine by a linear RNN that searches its own text with regular expressions."""

from __future__ import annotations

from typing import Final

from separatrix.generation.scripts.turing import (
    CELL,
    CELL_END,
    FULL,
    INPUT_END,
    LEFT_CELL,
    SEEK,
    SEEK_INPUT,
    SEEK_LEFT,
    RunTask,
    SearchScript,
)
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import Program, build
from separatrix.witnesses.language.forms import Linear, as_linear
from separatrix.witnesses.language.rules import Equals, Number, Rule, Word, bits_of_rules, decide_by_rules
from separatrix.witnesses.language.words import Words
from separatrix.witnesses.turing.past import Past, entered
from separatrix.witnesses.witness import Witness

__all__ = ["CELLS_BACK", "KINDS_BACK", "cell_number", "rules_by_searches", "turing_searches"]

KINDS_BACK: Final = 13
CELLS_BACK: Final = 4
"""How far back the furthest word and the furthest cell stand that a rule reads."""

_START, _END, _NONE = "<StartSearch>", "<EndSearch>", "FAILED"


def turing_searches(task: RunTask, choices: Choices) -> Witness:
    """Two recurrent layers run the machine with at most two searches a step.

    A step begins behind the name of the state. The cell p that the head is on follows from the cell and the
    move that were written last, and the text is searched for the last `@p w`: `@p` stands nowhere else as a
    word, so that is the latest write. If there is none, word p of the input is searched for; `=` must
    follow somewhere behind it, so behind the input there is none, which means a blank. Left of the input a
    cell that was not written is blank at once. Then `@p`, the symbol written, the move and the next state
    follow from the state and the result, by the machine's table.

    All that a rule reads stands at fixed distances: the result up to three words back, the state five words
    before the result or ten, if there were two searches (then FAILED stands five words before it). So layer
    1 keeps the kinds of 13 words and the cells of 4 in two shift registers, 19 numbers with those of the last
    word, and makes a bit of each condition; layer 2 has no state and a hidden unit for each rule. There are
    as many kinds as the machine has words, and a constant more; only cells grow with n, to O(log n) bits.

    The weights know how far the cells go, but not where the input ends: they serve every shorter one.
    """
    script = SearchScript(task)
    program = Program(
        task,
        causal=True,
        gated=True,
        vocabulary=script.vocabulary,
        longest=task.n + 2 + script.limit,
    )
    words = program.words()
    with program.recurrent_layer() as layer:
        kinds = layer.window("kinds", words.kind, length=KINDS_BACK)
        cells = layer.window("cells", cell_number(words), length=CELLS_BACK)
        rules = rules_by_searches(script, Past(words, [words.kind, *kinds], [cell_number(words), *cells]))
        bits = bits_of_rules(layer, rules)
    with program.recurrent_layer() as layer:
        decide_by_rules(program, layer, rules, bits)
    return witness_of(
        build(program, choices.system),
        theorem="W-5.4",
        family="linear-rnn+retrieval",
        script=script,
    )


def cell_number(words: Words) -> Linear:
    """The cell that a word names, in the text or in a pattern; on the left it is negative."""
    right = words.number(CELL) + words.number(SEEK) + words.number(SEEK_INPUT)
    return right - words.number(LEFT_CELL) - words.number(SEEK_LEFT)


def rules_by_searches(script: SearchScript, past: Past) -> list[Rule]:
    """Every word of a run that is no result of a search, from those before it."""
    return [*_looking_up(script, past), *_patterns(past), *_results(past), *_control(script, past)]


def _looking_up(script: SearchScript, past: Past) -> list[Rule]:
    """From a state, by way of the cell its head is on, to the beginning of a pattern."""
    rules = [
        Rule((past.is_(0, "="),), Word(script.machine.start)),
        Rule((past.is_(1, "="),), Word(_START)),
        Rule((past.is_(2, "="), past.is_(0, _START)), Number(SEEK, as_linear(0))),
    ]
    # @p w M q
    for case in entered(past, script.room, move=1, cell=3):
        rules.append(Rule(case.when, Word(_START if case.side else FULL)))
    # @p w M q <StartSearch>
    for case in entered(past, script.room, move=2, cell=4):
        if case.side:
            rules.append(Rule(case.when, Number(SEEK if case.side == "right" else SEEK_LEFT, case.number)))
    return rules


def _patterns(past: Past) -> list[Rule]:
    """What has begun goes on."""
    return [
        Rule((past.is_(0, SEEK),), Word(CELL_END)),
        Rule((past.is_(0, SEEK_LEFT),), Word(CELL_END)),
        Rule((past.is_(0, CELL_END),), Word(_END)),
        # <StartSearch> p C <EndSearch> FAILED <StartSearch>
        Rule((past.is_(0, _START), past.is_(1, _NONE)), Number(SEEK_INPUT, past.cells[4])),
        Rule((past.is_(0, SEEK_INPUT),), Word(INPUT_END)),
        Rule((past.is_(0, INPUT_END),), Word(_END)),
    ]


def _results(past: Past) -> list[Rule]:
    """Behind p C <EndSearch> and a result: the cell once more, or a search of the input."""
    found = past.is_(1, _END)
    return [
        Rule((found, past.is_(3, SEEK), past.is_(0, _NONE)), Word(_START)),
        Rule((found, past.is_(3, SEEK), past.is_not(0, _NONE)), Number(CELL, past.cells[3])),
        Rule((found, past.is_(3, SEEK_INPUT)), Number(CELL, past.cells[3])),
        Rule((found, past.is_(3, SEEK_LEFT)), Number(LEFT_CELL, -past.cells[3])),
    ]


def _control(script: SearchScript, past: Past) -> list[Rule]:
    """The machine's table: behind the cell what is written, then the move, then the next state."""
    machine = script.machine
    rules = []
    for (state, read), rule in machine.transitions.items():
        for since, word in enumerate((rule.write, rule.move, rule.state), start=1):
            contexts: list[tuple[Equals, ...]] = [
                past.holding({since: read, since + 5: state}),
                past.holding({since: read, since + 5: _NONE, since + 10: state}),
            ]
            if read == machine.blank:
                contexts += [
                    past.holding({since: _NONE, since + 3: SEEK_LEFT, since + 5: state}),
                    past.holding({since: _NONE, since + 5: _NONE, since + 10: state}),
                ]
            rules += [Rule(context, Word(word)) for context in contexts]
    return rules
