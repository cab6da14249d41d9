"""S-T7: MQAR and associative recall, by two layers of one head each."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from separatrix.models.explicit.codes import Binary, Digits
from separatrix.models.explicit.positions import Own
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.mqar import MultiQueryRecall
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import Built, Program, Rival, address_rivals, build
from separatrix.witnesses.recall_in_sequences import sequence_program
from separatrix.witnesses.witness import Witness

__all__ = ["associative_recall", "mqar"]


def associative_recall(task: AssociativeRecall, choices: Choices) -> Witness:
    """S's pairs as in `pairs_program`, or W's sequence as in `sequence_program`.

    Among pairs every other key occurs once, so at distance w from the query's word there are at most as many
    labels of other keys as the code has words there.
    """
    if task.form == "sequence":
        return _witness(task, build(sequence_program(task, choices), choices.system))
    return _witness(task, build(pairs_program(task, choices, times=1), choices.system))


def mqar(task: MultiQueryRecall, choices: Choices) -> Witness:
    """Pairs as in `pairs_program`, of which the second half are queries that their answers follow.

    The causal mask hides the answer to a query, and all later ones, from the query. What it shows of the
    second half are earlier queries with their answers; these ask for other keys, because each is asked
    for once. So exactly one label in sight belongs to the query's key, and every other key has at most two
    there: one where it was stored, one where it was asked for before.
    """
    return _witness(task, build(pairs_program(task, choices, times=2), choices.system))


def pairs_program(task: AssociativeRecall | MultiQueryRecall, choices: Choices, *, times: int) -> Program:
    """Every label fetches the key in front of it, and then a query looks for the label that fetched its key.

    Keys are the signs of their number's binary digits, d of them; different keys have products of at most
    d − 2w, where w is in how many places they differ.

    Layer 1. Place j holds its address T(j) and that of the place before it, T(j − 1), and has the logit
    η₁⟨T(j − 1), T(j′)⟩ with place j′, so a label fetches the key in front of it. Each of its coordinates is
    off by at most twice the weight of all other places; η₁ makes that at most 1/(8d), and then a product with
    a query is off by at most ⅛.

    Layer 2. The logit of a query with a label is η₂(⟨x_q, x̃_i⟩ + 1), with a key token η₂(⟨x_q, x̃_i⟩ − 1),
    where x̃ is what the place fetched. The label of the query's key leads that of another key by 2w − ¼. A key
    token has a label in front of it, which holds no key, so it falls behind by d + 2 − ¼; place 0, with
    nothing in front, fetches its own key and falls behind by 2 − ⅛. η₂ is derived from these leads with ½
    taken off instead of ¼ or ⅛, and what is left pays for rounding. It returns the label's binary digits, off
    by less than ¼, and a step makes them exact. In fixed point every rival's exponential is rounded to 0.

    `times` is how often another key's label may be in sight. Width 2d + ⌈log values⌉ + 2·dim + 1, where dim
    is that of the code of as many addresses as an input has tokens.
    """
    blocks = {block.name: block.size for block in task.vocabulary.blocks}
    keys, values = Binary(count=blocks["key"]), Digits(count=blocks["value"])
    code = choices.code(task.length)
    program = Program(task, causal=True)
    key = program.token("key", block="key", code=keys)
    value = program.token("value", block="value", code=values)
    address = program.position("address", Own(), code)
    before = program.position("before", Own(shift=-1), code)
    side = program.flag("side", {"value": 1, "key": -1})
    with program.layer() as layer:
        fetched = layer.select(
            "fetched",
            match=[(before, address)],
            value=key,
            rivals=address_rivals(code),
            within=Fraction(1, 8 * keys.dim),
        )
    with program.layer() as layer:
        found = layer.select(
            "found",
            match=[(key, fetched), (-side, side)],
            value=value,
            rivals=[
                *_other_keys(keys, times),
                Rival(gap=keys.dim + Fraction(3, 2), count=task.length - task.length // 2 - 1),
                Rival(gap=Fraction(3, 2), count=1),
            ],
        )
        digits = layer.step("digits", found, off=0, on=1)
    program.answer_code(2 * digits - 1, code=Binary(count=values.count))
    return program


def _other_keys(keys: Binary, times: int) -> Sequence[Rival]:
    half = Fraction(1, 2)
    return [Rival(gap=2 * apart - half, count=times * count) for apart, count in keys.distances().items()]


def _witness(task: AssociativeRecall | MultiQueryRecall, built: Built) -> Witness:
    return witness_of(built, theorem="S-T7", family="transformer-2")
