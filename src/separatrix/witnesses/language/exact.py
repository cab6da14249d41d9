"""The exact evaluator: a program's softmax and ReLU on the reals, in balls that hold the true value."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import flint

from separatrix.witnesses.language.forms import Field
from separatrix.witnesses.language.interpreting import Evaluator, Held
from separatrix.witnesses.language.operations import Gadget, HeadOperation

__all__ = ["ExactReals"]


class ExactReals(Evaluator[flint.arb]):
    """Heads take the true softmax at the scales that were chosen; gadgets are their units."""

    def __init__(self, scales: Mapping[Field, Fraction]) -> None:
        """With these scales."""
        self._scales = scales

    def number(self, value: Fraction) -> flint.arb:
        """The ball around it, or the number itself where it is short."""
        return flint.arb(flint.fmpq(value.numerator, value.denominator))

    def plus(self, left: flint.arb, right: flint.arb) -> flint.arb:
        """The sum."""
        return left + right

    def times(self, left: flint.arb, right: flint.arb) -> flint.arb:
        """The product."""
        return left * right

    def attend(
        self, head: HeadOperation, logits: list[flint.arb], values: list[tuple[flint.arb, ...]]
    ) -> tuple[flint.arb, ...]:
        """Σ e^(scale·logit) value / Σ e^(scale·logit), the middle of the largest taken off first."""
        scale = self.number(self._scales.get(head.result, Fraction(0)))
        top = max((logit.mid() for logit in logits), key=float)
        weights = [(scale * (logit - top)).exp() for logit in logits]
        mass = sum(weights, flint.arb(0))
        return tuple(
            sum((w * v for w, v in zip(weights, column, strict=True)), flint.arb(0)) / mass
            for column in zip(*values, strict=True)
        )

    def compute(self, gadget: Gadget, held: Held) -> tuple[flint.arb, ...]:
        """mix·units + offset, each unit a ReLU times its gate."""
        hidden = []
        for unit in gadget.units:
            (number,) = self.form(unit.form, held)
            gate = flint.arb(1) if unit.gate is None else self.form(unit.gate, held)[0]
            hidden.append(number.max(flint.arb(0)) * gate)
        found = []
        for row, offset in zip(gadget.mix, gadget.offset, strict=True):
            whole = self.number(offset)
            for coefficient, value in zip(row, hidden, strict=True):
                whole = whole + self.number(coefficient) * value
            found.append(whole)
        return tuple(found)
