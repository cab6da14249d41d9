"""A step that is exact in every arithmetic: two ReLUs one behind the other.

ReLU(x) − ReLU(x − 1) is a difference of two computed numbers, and if x is large, so is what rounding leaves
of it. But ReLU(1 − ReLU(1 − x)) is 1, to the last digit, wherever the computed 1 − x is at most 0, and 0
wherever it is at least 1: nothing that was rounded on the way is left in the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from separatrix.witnesses.language.forms import Exact, Field, Term, as_linear, identity
from separatrix.witnesses.language.operations import Gadget, Obligation, Undecided, Unit

__all__ = ["saturated", "shortfall"]

_ZERO, _ONE = Fraction(0), Fraction(1)


def shortfall(result: Callable[[int], Field], term: Term, *, noise: Exact) -> Gadget:
    """ReLU(1 − x): what numbers lack of 1, coordinate by coordinate."""
    form = as_linear(term)
    lack = 1 - form
    bound = Fraction(noise)
    return Gadget(
        result=result(form.out),
        inputs=(form,),
        units=tuple(Unit(form=lack[row]) for row in range(form.out)),
        mix=identity(form.out),
        offset=(_ZERO,) * form.out,
        tolerance=bound,
        meaning=lambda values: tuple(max(_ZERO, 1 - value) for value in values[0]),
        obligation=Obligation(
            name="noise",
            statement=f"{form} stays near what is at most {-bound} or at least {1 + bound}",
            relation="<=",
            threshold=bound,
            unit="error",
        ),
        text=f"what {form} lacks of 1",
    )


def saturated(result: Callable[[int], Field], lack: Field) -> Gadget:
    """ReLU(1 − lack): 1 where nothing is lacking, 0 where 1 or more is."""
    form = 1 - as_linear(lack)

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        if any(0 < value < 1 for value in values[0]):
            raise Undecided
        return tuple(max(value, _ZERO) for value in values[0])

    return Gadget(
        result=result(form.out),
        inputs=(form,),
        units=tuple(Unit(form=form[row]) for row in range(form.out)),
        mix=identity(form.out),
        offset=(_ZERO,) * form.out,
        tolerance=_ZERO,
        meaning=meaning,
        obligation=Obligation(
            name="saturation",
            statement=f"{lack.name} is 0 or at least 1, so that nothing of its rounding remains",
            relation="==",
            threshold=_ZERO,
            unit="error",
        ),
        text=f"1 if {lack.name} is 0, 0 if it is at least 1",
    )
