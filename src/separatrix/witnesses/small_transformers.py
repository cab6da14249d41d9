"""W-4.6: Index, associative recall, c-gram retrieval and counting by Transformers of constant size."""

from __future__ import annotations

from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.c_gram import CGramRetrieval
from separatrix.tasks.counting import Counting
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import Program, build, joined
from separatrix.witnesses.language.forms import Term
from separatrix.witnesses.language.search_heads import Places, copy
from separatrix.witnesses.small_layers import (
    Before,
    answer_label,
    answer_more,
    answer_next,
    answer_symbol_at,
)
from separatrix.witnesses.witness import Witness

__all__ = [
    "associative_recall_constant",
    "c_gram_constant",
    "counting_constant",
    "index_lookup_constant",
]


def index_lookup_constant(task: IndexLookup, choices: Choices) -> Witness:
    """One layer, one head: the index asks for the place that it names, as in `answer_symbol_at`.

    Width 11 whatever n and the alphabet are: three numbers for a symbol, three for an index, three for the
    place, 1, and what is found.
    """
    program = _program(task)
    places = Places(program)
    with program.layer() as layer:
        answer_symbol_at(program, task, layer, place=places.place, square=places.square)
    return _witness(program, choices)


def associative_recall_constant(task: AssociativeRecall, choices: Choices) -> Witness:
    """Two layers, one head each: every place fetches the token before it; then the query looks for itself.

    Layer 1 is COPY one back. The first place has nothing before it and fetches its own token.

    Layer 2 on a sequence is `answer_next`, where the first place counts as early; on pairs it is
    `answer_label`, where the first place is a key and no label.
    """
    program = _program(task)
    places = Places(program)
    if task.form == "pairs":
        before = _before(program, places, block="key", back=1)
        with program.layer() as layer:
            answer_label(program, task, layer, before)
    else:
        before = _before(program, places, block="symbol", back=1)
        with program.layer() as layer:
            answer_next(program, task, layer, before, place=places.place)
    return _witness(program, choices)


def c_gram_constant(task: CGramRetrieval, choices: Choices) -> Witness:
    """Two layers: every place fetches the c − 1 tokens before it, and then the query looks for itself.

    Layer 1 has a COPY head for each of 1, …, c − 1 back; those that would look before the first place look at
    it. The head c − 2 back fetches the mark of the first place too: it finds it at places 1 to c − 1, just
    those with fewer than c − 1 tokens before them. Layer 2 is `answer_next`.
    """
    program = _program(task)
    places = Places(program)
    before = _before(program, places, block="symbol", back=task.c - 1)
    with program.layer() as layer:
        answer_next(program, task, layer, before, place=places.place)
    return _witness(program, choices)


def counting_constant(task: Counting, choices: Choices) -> Witness:
    """Two layers, one head each: the threshold fetches the token before it, and then compares the counts.

    Layer 1 is COPY one back, and layer 2 is `answer_more`. One layer is not enough at this size: the
    threshold's query could not depend on the token that is to be counted.
    """
    program = _program(task)
    before = _before(program, Places(program), block="symbol", back=1)
    with program.layer() as layer:
        answer_more(program, task, layer, before)
    return _witness(program, choices)


def _before(program: Program, places: Places, *, block: str, back: int) -> Before:
    """Layer 1: the numbers and squares of the `back` tokens before each place."""
    words = program.words()
    point = joined([words.number(block), words.square(block)])
    early: Term = places.first
    with program.layer() as layer:
        found = []
        for step in range(1, back + 1):
            marked = step == back - 1
            value = joined([point, places.first]) if marked else point
            found.append(copy(layer, f"{step} back", places, back=step, value=value))
            if marked:
                early = found[-1][2]
    return Before(numbers=[each[0] for each in found], squares=[each[1] for each in found], early=early)


def _program(task: AssociativeRecall | CGramRetrieval | Counting | IndexLookup) -> Program:
    return Program(task, causal=True, gated=True)


def _witness(program: Program, choices: Choices) -> Witness:
    return witness_of(build(program, choices.system), theorem="W-4.6", family="transformer")
