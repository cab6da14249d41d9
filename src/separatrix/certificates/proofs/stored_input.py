"""Proof of UP-RNN on the weights: a recurrent model that keeps its input in bits and decides at the end.

The step: from every state of bits, by every token, the weights do what a memory of bits does, with a counter,
cells that it addresses and registers. That is shown for all states, so it holds at every length, and states
are bits for ever. What the memory holds after an input then follows without looking at weights:

*Index lookup.* Symbol t comes with the counter at t and is stored in cell t, which was 0; the index goes to
the register. The counter passes no cell twice, having as many values as there are cells or more.

*Recall of labels.* A key waits in the register, and its label stores both in slot t. The query waits there
too; where labels follow queries, the counter is past the last slot, and has values enough not to come back.

*Recall in a sequence.* Token t waits in the register until the next one comes, with the counter at t + 1, and
then goes to cell t. The query is never stored.

*Equality.* Both strings are added modulo 2 from cell 0 on, so in the end the cells are all 0 iff they agree.

The readout: from the weights it is shown which cell it lets through, or that it tells whether a cell is 1.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from separatrix.certificates.enclosures import Box, Rounding
from separatrix.certificates.lemmas.bit_memory import BitMemory, Cells, Register, deviations
from separatrix.certificates.lemmas.bit_readouts import addressed_lead, difference_lead, matching_key_lead
from separatrix.certificates.lemmas.first_match import first_match_lead
from separatrix.certificates.lemmas.integer_maps import Reach
from separatrix.certificates.lemmas.proving import claim
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.recurrent import RecurrentModel
from separatrix.models.explicit.recurrent_tokens import digits_for
from separatrix.tasks import Task
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.equality import Equality
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.interface import Classes, TokenTask
from separatrix.tasks.mqar import MultiQueryRecall

__all__ = ["prove"]

_SOURCE: Final = "UP-RNN"
_CELLS: Final = ("cells", "keys", "values")


def prove(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """For every input of every length: the state is bits, nothing is rounded, the answer is right."""
    if not isinstance(model, RecurrentModel) or not isinstance(task, TokenTask):
        raise NotProved("This proof is about recurrent models that store their input.")
    answers = task.target_space
    if not isinstance(answers, Classes) or model.classes != answers.size:
        raise NotProved("The model gives other answers than the task's.")
    if model.tokens.size != task.vocabulary.size:
        raise NotProved("The model reads other tokens than the task's.")
    reach = Reach(rounding)
    wrong, lead = _found(model, task, reach)
    return (
        claim(
            "steps of another memory",
            "so many transitions, from states of any bits and by any token, are not those of the memory",
            "==",
            Fraction(0),
            "transitions",
            Box.exact([wrong]),
            source=_SOURCE,
        ),
        claim(
            "bits beyond those of the symbols",
            "all of the state is bits, and so many are not cells for symbols but counter and register",
            "<=",
            Fraction(digits_for(task.length) + digits_for(task.vocabulary.size)),
            "bits",
            Box.exact([sum(field.numbers for field in model.state.fields if field.name not in _CELLS)]),
            source=_SOURCE,
        ),
        claim(
            "largest sum of absolute values",
            "no partial sum leaves the integers that the arithmetic holds, so nothing is ever rounded",
            "<=",
            Fraction(reach.limit),
            "integer",
            Box.exact([reach.largest]),
            source=_SOURCE,
        ),
        claim(
            "lead of the right answer",
            "on every input the right answer's score exceeds every other's",
            ">",
            Fraction(0),
            "score",
            Box.exact([lead]),
            source=_SOURCE,
        ),
    )


def _found(model: RecurrentModel, task: TokenTask, reach: Reach) -> tuple[int, int]:
    """Transitions that are wrong, and the least lead."""
    if isinstance(task, IndexLookup):
        return _index_lookup(model, task, reach)
    if isinstance(task, AssociativeRecall) and task.form == "sequence":
        return _sequence(model, task, reach)
    if isinstance(task, AssociativeRecall):
        return _pairs(model, task, slots=task.n, counted=task.n, reach=reach)
    if isinstance(task, MultiQueryRecall):
        return _pairs(model, task, slots=task.n // 2, counted=task.n, reach=reach)
    if isinstance(task, Equality) and task.form != "ncp" and task.alice is None:
        return _equality(model, task, reach)
    raise NotProved("Of this task there is no proof for models that store their input.")


def _index_lookup(model: RecurrentModel, task: IndexLookup, reach: Reach) -> tuple[int, int]:
    _require_tokens(model, task, "symbol", "index")
    memory = BitMemory(
        counts="symbol",
        cells=(Cells(field="cells", slots=task.n, when="symbol", takes="symbol digits"),),
        registers=(Register(field="wanted", when="index", takes="index digits"),),
    )
    wrong = _deviations(model, memory, values=task.n, reach=reach)
    return wrong, addressed_lead(model.readout, model.state, task.n, reach)


def _pairs(
    model: RecurrentModel, task: TokenTask, *, slots: int, counted: int, reach: Reach
) -> tuple[int, int]:
    _require_tokens(model, task, "value", "key")
    memory = BitMemory(
        counts="value",
        cells=(
            Cells(field="keys", slots=slots, when="value", takes="asked"),
            Cells(field="values", slots=slots, when="value", takes="value digits"),
        ),
        registers=(Register(field="asked", when="key", takes="key digits"),),
    )
    wrong = _deviations(model, memory, values=counted, reach=reach)
    return wrong, matching_key_lead(model.readout, model.state, slots, reach)


def _sequence(model: RecurrentModel, task: AssociativeRecall, reach: Reach) -> tuple[int, int]:
    _require_tokens(model, task, "symbol")
    memory = BitMemory(
        counts="symbol",
        cells=(Cells(field="cells", slots=task.n, first=1, when="symbol", takes="last"),),
        registers=(Register(field="last", when="symbol", takes="symbol digits"),),
    )
    wrong = _deviations(model, memory, values=task.n + 1, reach=reach)
    return wrong, first_match_lead(model.readout, model.state, task.n, reach)


def _equality(model: RecurrentModel, task: Equality, reach: Reach) -> tuple[int, int]:
    _require_tokens(model, task, "symbol", "separator")
    half = task.n // 2
    memory = BitMemory(
        counts="symbol",
        resets="separator",
        cells=(Cells(field="cells", slots=half, when="symbol", takes="symbol digits", modulo_2=True),),
    )
    wrong = _deviations(model, memory, values=half, reach=reach)
    return wrong, difference_lead(model.readout, model.state, reach)


def _deviations(model: RecurrentModel, memory: BitMemory, *, values: int, reach: Reach) -> int:
    """Transitions that are not the memory's; its counter must tell so many values apart."""
    wrong = deviations(model, memory, reach)
    if 1 << model.state.numbers("counter") < values:
        raise NotProved(f"The counter comes back to 0 before it has counted {values} tokens.")
    return wrong


def _require_tokens(model: RecurrentModel, task: TokenTask, *names: str) -> None:
    """Blocks of tokens as in the task's vocabulary, with digits enough to tell their tokens apart."""
    found = tuple(block.name for block in model.tokens.blocks)
    if found != names:
        raise NotProved(f"The model tells other kinds of tokens apart than {' and '.join(names)}.")
    vocabulary = task.vocabulary
    sizes = {block.name: block.size for block in vocabulary.blocks}
    for block in model.tokens.blocks:
        if (block.first, block.count) != (vocabulary.offset(block.name), sizes[block.name]):
            raise NotProved(f"The tokens of the kind {block.name} are not those of the task.")
        if block.name != "separator" and 1 << block.digits < block.count:
            raise NotProved(f"Tokens of the kind {block.name} have too few digits to be told apart.")
