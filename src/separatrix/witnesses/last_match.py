"""R-M3′, last output: is there a pair that sums to 0, asked at the end only? Two layers of one head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from separatrix.errors import InvalidInput
from separatrix.models.explicit.codes import Circle, OneHot
from separatrix.models.explicit.positions import Own
from separatrix.tasks.match3 import Match3
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import Field, Linear, Obligation, Program, Rival, build, constant
from separatrix.witnesses.language.operations import Gadget, Unit
from separatrix.witnesses.matching import THRESHOLD, dummy_field, dummy_level, gap, mirrored
from separatrix.witnesses.witness import Witness

__all__ = ["match3_last"]

_BAR: Final = Fraction(1, 4)


def match3_last(task: Match3, choices: Choices) -> Witness:
    """Pair matching at every position, and then the last position asks whether any of them succeeded.

    Layer 1 is the head of R-M2: it returns at most ⅛ at a position whose number has no negative in the row,
    and at least ⅞ where there is one. That the last number, 0, is a key too does no harm, for it matches 0
    only, and a 0 matches itself. A single unit, ReLU(found − last − dummy − ¼), is then 0 where nothing
    matches, between ½ and ¾ where something does, and 0 at the last position and at the dummy, whatever they
    found. Layer 2 takes the mean over all n + 1 elements: 0 exactly, or at least ½/(n + 1), and the readout
    asks for more than ¼/(n + 1).

    Inner width 3 and 1, stream width 6, one hidden unit. The two positions may coincide: the form with
    distinct ones is refused, because a position takes its own number for another's.
    """
    if task.variant != "last":
        raise InvalidInput(
            f"This construction answers at the last position only; got variant={task.variant!r}. "
            "Try variant='last'."
        )
    if task.distinct:
        raise InvalidInput(
            "Layer 1 sees what the numbers are and not where they stand, so a 0 before the end matches "
            "itself; got distinct=True. Try distinct=False."
        )
    modulus = task.residues
    program = Program(task)
    point = program.token("point", block="residue", code=Circle(modulus=modulus))
    dummy = dummy_field(program)
    last = program.position("last", Own(shift=1 - task.n), OneHot(count=1))
    with program.layer() as layer:
        found = layer.select(
            "found",
            match=[(point, mirrored(point)), (program.one, dummy_level(modulus) * dummy)],
            value=program.one - dummy,
            rivals=[Rival(gap=gap(modulus, choices.system, order=2), count=task.n)],
            within=THRESHOLD / 2,
        )
        matched = layer.gadget(_above(found - last - dummy), "matched", 0, 1 - _BAR)
    with program.layer() as layer:
        share = layer.average("share", matched)
    signs = np.array([[Fraction(-1)], [Fraction(1)]], dtype=object)
    bar = _BAR / (task.n + 1)
    program.answer_scores((1 * share).through(signs) + constant([bar, -bar]))
    built = build(program, choices.system)
    return witness_of(built, theorem="R-M3′", family="transformer-2", variant="last-output")


def _above(form: Linear) -> Callable[[Callable[[int], Field]], Gadget]:
    """ReLU(form − ¼): what a number exceeds the bar by."""

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        return (max(Fraction(0), values[0][0] - _BAR),)

    def make(result: Callable[[int], Field]) -> Gadget:
        return Gadget(
            result=result(1),
            inputs=(form,),
            units=(Unit(form=form - _BAR),),
            mix=np.array([[Fraction(1)]], dtype=object),
            offset=(Fraction(0),),
            tolerance=_BAR / 2,
            meaning=meaning,
            obligation=Obligation(
                name="noise",
                statement=f"{form} stays near what is at most 0, or near 1",
                relation="<=",
                threshold=_BAR / 2,
                unit="error",
            ),
            text=f"what {form} exceeds {_BAR} by",
        )

    return make
