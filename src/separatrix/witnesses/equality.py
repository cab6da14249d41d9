"""S-T6 and S-L5: equality of two strings by two layers, for any alphabet and any places of the strings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import torch

from separatrix.errors import InvalidInput
from separatrix.models.explicit.codes import Digits
from separatrix.models.explicit.positions import Across, Listed, PositionRule
from separatrix.tasks.equality import Equality
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import (
    Built,
    Field,
    Program,
    address_rivals,
    build,
    constant,
    joined,
)
from separatrix.witnesses.language.operations import Gadget, Obligation, Undecided, Unit
from separatrix.witnesses.witness import Witness

__all__ = ["ANY_PARTITION", "equality", "partition_equality"]

ANY_PARTITION = "any balanced partition"


def equality(task: Equality, choices: Choices) -> Witness:
    """Two layers of one head: every symbol meets its partner, and the mean tells whether one of them differs.

    Let the i-th symbols of both halves have one address T(i). In layer 1 both query it, with logits η⟨T, T′⟩,
    and since they are the only two keys that have it, both get the mean (x + r)/2 of their own digits and
    the partner's. Keys whose addresses differ in w places stay 2ηw below, and there are two at each such
    address for the two targets; the separator has no address and stays η·dim below. So the rivals weigh
    Σ_w A_w e^(−2ηw) + ½e^(−η·dim) of the targets together. A digit differs from its mean by 0 or by ½, and
    η is the least scale at which the rivals move the mean by less than ⅛. The feed-forward map takes ⅛ off
    either way, so that equal symbols give 0 exactly, and others at least 1 for each digit that differs. The
    separator holds no digits; a flag of its own gives it the logit η·dim with itself and 0 with all others,
    so it reads zeros, up to the same noise, and gives 0 as well.

    In layer 2 all logits are 0, and the mean over the L ≤ n + 1 positions is 0 for equal strings and at
    least 2/L ≥ 2/(n + 1) for others, because both symbols of an unequal pair count. The readout compares it
    with 3/(2n + 2): without noise the least is 3/L.

    Width 2⌈log|Σ|⌉ + ⌈log n/2⌉ + 1 with binary addresses. Nothing is stored for a position: its number is
    its place, or its place behind the separator. One length is like another, as the number of a place in the
    second half is computed from the length.
    """
    if task.alice is not None:
        raise InvalidInput(
            "This construction is for strings that stand before and behind the separator; "
            f"ask for the variant '{ANY_PARTITION}' where alice is given."
        )
    built = _built(task, Across(between=1), choices)
    return _witness(task, built, theorem="S-T6", variant="")


def partition_equality(task: Equality, choices: Choices) -> Witness:
    """The same two layers where the places of w and w′ are any two halves of the positions.

    Only the rule that numbers the places differs: the i-th place of either party, in the order the task
    names, has the number i, from a list of n + 1 numbers. Width and precision are those of S-T6, so for
    every partition into halves this is a Transformer of O(log n) width whose output needs as many bits
    exchanged as equality does. The list is stored and counted as n + 1 parameters.

    A task that names no places for the first string has them at every other place.
    """
    if task.alice is None:
        task = interleaved(task)
    built = _built(task, Listed(table=torch.tensor(_pair_numbers(task))), choices)
    return _witness(task, built, theorem="S-L5", variant=ANY_PARTITION)


def interleaved(task: Equality) -> Equality:
    """The same symbols with w and w′ in turn, w first."""
    return dataclasses.replace(task, alice=tuple(range(0, task.n, 2)), lengths="full")


def _pair_numbers(task: Equality) -> list[int]:
    """For each place the number of its symbol in its string; −1 for the separator."""
    numbers = [-1] * task.length
    for string in task.places:
        for number, place in enumerate(string):
            numbers[place] = number
    return numbers


def _built(task: Equality, rule: PositionRule, choices: Choices) -> Built:
    if task.form == "ncp":
        raise InvalidInput(
            "This construction decides whether two strings are equal, in the forms random and one; "
            "next-character prediction (form=ncp) is another question. Try form=random."
        )
    code = choices.any_code(task.n // 2)
    program = Program(task)
    symbol = program.token("symbol", block="symbol", code=Digits(count=task.symbols))
    pair = program.position("pair", rule, code, on=("symbol",))
    middle = program.flag("separator", {"separator": 1})
    with program.layer() as layer:
        mean = layer.select(
            "mean of both",
            match=[(pair, pair), (code.square * middle, middle)],
            value=symbol,
            rivals=address_rivals(code, silent=task.n),
        )
        wrong = layer.gadget(
            lambda result: _excess(result, symbol, mean, apart=Fraction(1, 2)), "wrong", 0, 2 * symbol.dim
        )
    with program.layer() as layer:
        share = layer.average("share", wrong)
    program.answer_scores(joined([share, constant([Fraction(3, 2 * task.length)])]))
    return build(program, choices.system)


def _excess(result: Callable[[int], Field], first: Field, second: Field, *, apart: Fraction) -> Gadget:
    """0 where two vectors are equal, else at least 1 for each coordinate in which they are `apart`.

    Σ (ReLU(d − q) + ReLU(−d − q)) / 2q with q a quarter of the distance; noise up to q changes neither side.
    """
    form = first - second
    quarter = apart / 4
    units = tuple(Unit(form=sign * form[row] - quarter) for row in range(form.out) for sign in (1, -1))

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        if any(abs(value) not in (0, apart) for value in values[0]):
            raise Undecided
        return (sum((Fraction(3, 2) for value in values[0] if value), Fraction(0)),)

    return Gadget(
        result=result(1),
        inputs=(form,),
        units=units,
        mix=np.array([[1 / (2 * quarter)] * len(units)], dtype=object),
        offset=(Fraction(0),),
        tolerance=quarter,
        meaning=meaning,
        obligation=Obligation(
            name="noise",
            statement=f"{form} stays near 0 or ±{apart}",
            relation="<=",
            threshold=quarter,
            unit="error",
        ),
        text=f"more than 0 for each coordinate of {form} that is not 0",
    )


def _witness(task: Equality, built: Built, *, theorem: str, variant: str) -> Witness:
    return witness_of(built, theorem=theorem, family="transformer-2", variant=variant)
