"""W-5.6: Index, associative recall, c-gram retrieval and counting by a linear RNN under one attention layer.

The recurrence keeps the last tokens and counts the places, so nothing is told of positions from outside. The
attention layer is the last one of the Transformers of W-4.6.
"""

from __future__ import annotations

from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.c_gram import CGramRetrieval
from separatrix.tasks.counting import Counting
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import Field, LayerScript, Program, build, joined
from separatrix.witnesses.small_layers import (
    Before,
    answer_label,
    answer_more,
    answer_next,
    answer_symbol_at,
)
from separatrix.witnesses.witness import Witness

__all__ = [
    "associative_recall_hybrid",
    "c_gram_hybrid",
    "counting_hybrid",
    "index_lookup_hybrid",
]


def index_lookup_hybrid(task: IndexLookup, choices: Choices) -> Witness:
    """The recurrence (l, l²) ← (l + 1, l² + 2l + 1) counts and squares; then `answer_symbol_at`."""
    program = _program(task)
    with program.recurrent_layer() as layer:
        counted = layer.linear(
            "place and square",
            transition=[[1, 0], [2, 1]],
            feed=joined([program.one, program.one]),
            output=[[1, 0], [0, 1]],
            low=0,
            high=task.length**2,
        )
    with program.layer() as layer:
        answer_symbol_at(program, task, layer, place=counted[0], square=counted[1])
    return _witness(program, choices)


def associative_recall_hybrid(task: AssociativeRecall, choices: Choices) -> Witness:
    """The recurrence keeps the token before each place; then `answer_next` or, on pairs, `answer_label`."""
    program = _program(task)
    if task.form == "pairs":
        with program.recurrent_layer() as layer:
            before = _before(program, layer, block="key", back=1)
        with program.layer() as layer:
            answer_label(program, task, layer, before)
    else:
        _next(program, task, back=1)
    return _witness(program, choices)


def c_gram_hybrid(task: CGramRetrieval, choices: Choices) -> Witness:
    """The recurrence keeps the c − 1 tokens before each place and counts places; then `answer_next`."""
    program = _program(task)
    _next(program, task, back=task.c - 1)
    return _witness(program, choices)


def counting_hybrid(task: Counting, choices: Choices) -> Witness:
    """The recurrence hands the token to be counted on to the threshold; the attention is `answer_more`."""
    program = _program(task)
    with program.recurrent_layer() as layer:
        before = _before(program, layer, block="symbol", back=1)
    with program.layer() as layer:
        answer_more(program, task, layer, before)
    return _witness(program, choices)


def _next(program: Program, task: AssociativeRecall | CGramRetrieval, *, back: int) -> None:
    with program.recurrent_layer() as layer:
        before = _before(program, layer, block="symbol", back=back)
        place = _place(program, layer, task.length)
    with program.layer() as layer:
        answer_next(program, task, layer, before, place=place)


def _place(program: Program, layer: LayerScript, length: int) -> Field:
    return layer.running_sum("place", program.one, low=0, high=length)


def _before(program: Program, layer: LayerScript, *, block: str, back: int) -> Before:
    """A window over the points of the last tokens and over 1, which is 0 where there was no token."""
    words = program.words()
    points = layer.window(
        "before", joined([words.number(block), words.square(block), program.one]), length=back
    )
    return Before(
        numbers=[point[0] for point in points],
        squares=[point[1] for point in points],
        early=1 - points[-1][2],
    )


def _program(task: AssociativeRecall | CGramRetrieval | Counting | IndexLookup) -> Program:
    return Program(task, causal=True, gated=True)


def _witness(program: Program, choices: Choices) -> Witness:
    return witness_of(build(program, choices.system), theorem="W-5.6", family="hybrid")
