"""W-5.8: any Turing machine by a linear RNN with one attention layer on top, writing five words a step."""

from __future__ import annotations

from typing import Final

from separatrix.generation.scripts.turing import CELL, FULL, LEFT_CELL, HybridScript, RunTask
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import Program, build
from separatrix.witnesses.language.forms import Linear, Term, as_linear
from separatrix.witnesses.language.gated import product
from separatrix.witnesses.language.program import LayerScript
from separatrix.witnesses.language.rules import (
    Equals,
    Number,
    Rule,
    Word,
    bits_of_rules,
    decide_by_rules,
)
from separatrix.witnesses.language.search_heads import Mark, Places, close
from separatrix.witnesses.language.words import Words
from separatrix.witnesses.turing.past import Past, entered
from separatrix.witnesses.witness import Witness

__all__ = [
    "CELLS_BACK",
    "KINDS_BACK",
    "asking_rules",
    "cell_mark",
    "cell_number",
    "control_rules",
    "reading_rules",
    "symbol_id",
    "turing_hybrid",
]

KINDS_BACK: Final = 4
CELLS_BACK: Final = 4
"""How far back the furthest word and the furthest cell stand that a rule reads."""
_MARK_BACK: Final = 2


def turing_hybrid(task: RunTask, choices: Choices) -> Witness:
    """One recurrent layer, and one head that finds the symbol that was written last to a cell.

    A step is `@p r w M q`: cell, symbol read, symbol written, move, next state. All but r follow from words
    at most 4 back, by the machine's table: kinds and cells of that many words are in two shift registers.

    For r, cell p asks with a mark: p + 1 on the input's side and −k for cell k on the left, whole numbers
    that are never 0. The same mark has every symbol w that was written to the cell, because p stands two
    words before it, and so has symbol p of the prompt: its place is p + 2, and no `=` has come yet. So the
    head CLOSE, on marks, finds the last write, or else the input; and position 1 if there is neither, where
    `<s>` counts as a blank.

    The recurrent state has 5 kinds, 5 cells, 3 marks with their squares and a count of `=`: O(log n) bits.
    """
    script = HybridScript(task)
    longest = task.n + 2 + script.limit
    program = Program(task, causal=True, gated=True, vocabulary=script.vocabulary, longest=longest)
    words, places = program.words(), Places(program)
    asked = cell_mark(words)
    with program.recurrent_layer() as layer:
        kinds = layer.window("kinds", words.kind, length=KINDS_BACK)
        cells = layer.window("cells", cell_number(words), length=CELLS_BACK)
        past = Past(words, [words.kind, *kinds], [cell_number(words), *cells])
        control = control_rules(script, past)
        bits = bits_of_rules(layer, [*control, *asking_rules(script, past)])
        known = _known_marks(layer, words, places)
    with program.layer() as layer:
        found = close(layer, "symbol", places, key=known, query=asked, value=symbol_id(script, words))
        decide_by_rules(program, layer, [*control, *reading_rules(script, past, found)], bits)
    return witness_of(build(program, choices.system), theorem="W-5.8", family="hybrid-cot", script=script)


def cell_number(words: Words) -> Linear:
    """The cell that a word names; on the left it is negative."""
    return words.number(CELL) - words.number(LEFT_CELL)


def cell_mark(words: Words) -> Mark:
    """p + 1 at cell p, −k at cell k on the left, 0 elsewhere; (p + 1)² = p² + 2p + 1."""
    number, square = words.number(CELL), words.square(CELL)
    return Mark(
        number + words.is_(CELL) - words.number(LEFT_CELL),
        square + 2 * number + words.is_(CELL) + words.square(LEFT_CELL),
    )


def _known_marks(layer: LayerScript, words: Words, places: Places) -> Mark:
    """The mark of the cell that a symbol was written to, or that it was given for, else 0."""
    mark = cell_mark(words)
    written = layer.window("mark", mark.form, length=_MARK_BACK)[-1]
    written_square = layer.window("mark squared", mark.square, length=_MARK_BACK)[-1]
    ended = layer.running_sum("input ended", words.is_("="), low=0, high=1)
    # Symbol p of the input has place p + 2, and `<s>` gets the mark 0.
    place, square = as_linear(places.place), as_linear(places.square)
    most = places.longest
    given = product(layer, "given mark", 1 - ended, place - 1, 0, most)
    given_square = product(layer, "given mark squared", 1 - ended, square - 2 * place + 1, 0, most**2)
    return Mark(written + given, written_square + given_square)


def symbol_id(script: HybridScript, words: Words) -> Linear:
    """The id of the symbol that stands here; `<s>`, where nothing was found, stands for a blank."""
    blank = script.machine.blank
    form = words.id(blank) * words.is_("<s>")
    for symbol in script.machine.alphabet:
        form = form + words.id(symbol) * words.is_(symbol)
    return form


def control_rules(script: HybridScript, past: Past) -> list[Rule]:
    """Every word of a run but the symbols read, from those before it."""
    machine = script.machine
    rules = [
        Rule((past.is_(0, "="),), Word(machine.start)),
        Rule((past.is_(1, "="),), Number(CELL, as_linear(0))),
    ]
    # @p r w M q
    for case in entered(past, script.room, move=1, cell=4):
        if case.side is None:
            rules.append(Rule(case.when, Word(FULL)))
        else:
            rules.append(Rule(case.when, Number(CELL if case.side == "right" else LEFT_CELL, case.number)))
    # q @p r w M
    for (state, read), rule in machine.transitions.items():
        for since, word in enumerate((rule.write, rule.move, rule.state)):
            rules.append(Rule(past.holding({since: read, since + 2: state}), Word(word)))
    return rules


def asking_rules(script: HybridScript, past: Past) -> list[Rule]:
    """Behind a cell comes its symbol; which one the recurrent layer does not know yet."""
    return [Rule((past.is_(0, side),), Word(script.machine.blank)) for side in (CELL, LEFT_CELL)]


def reading_rules(script: HybridScript, past: Past, found: Term) -> list[Rule]:
    """Behind a cell comes the symbol whose id attention has found."""
    return [
        Rule((*asked.when, Equals(found, past.words.id(symbol))), Word(symbol))
        for asked in asking_rules(script, past)
        for symbol in script.machine.alphabet
    ]
