"""The symbolic evaluator: what a program means, in exact fractions and without softmax or ReLU.

Where a gadget is asked about a value that lies between those it tells apart, its result is undefined, None,
and so is all that follows from it. That happens at positions whose answer nobody reads: a right program
never lets it reach an answer.
"""

from __future__ import annotations

from fractions import Fraction

from separatrix.witnesses.language.interpreting import Evaluator, Held
from separatrix.witnesses.language.operations import Gadget, HeadOperation, Undecided

__all__ = ["Symbolic"]


class Symbolic(Evaluator[Fraction | None]):
    """A head returns the mean over the keys of the largest logit; a gadget does what its meaning says."""

    def number(self, value: Fraction) -> Fraction | None:
        """Itself."""
        return value

    def plus(self, left: Fraction | None, right: Fraction | None) -> Fraction | None:
        """The sum, if both are defined."""
        return None if left is None or right is None else left + right

    def times(self, left: Fraction | None, right: Fraction | None) -> Fraction | None:
        """The product; 0 times what is undefined is 0."""
        if left == 0 or right == 0:
            return Fraction(0)
        return None if left is None or right is None else left * right

    def attend(
        self, head: HeadOperation, logits: list[Fraction | None], values: list[tuple[Fraction | None, ...]]
    ) -> tuple[Fraction | None, ...]:
        """The mean over the best keys."""
        known = [logit for logit in logits if logit is not None]
        if len(known) < len(logits):
            return (None,) * head.result.dim
        best = max(known)
        chosen = [value for logit, value in zip(logits, values, strict=True) if logit == best]
        return tuple(_mean(column) for column in zip(*chosen, strict=True))

    def compute(self, gadget: Gadget, held: Held) -> tuple[Fraction | None, ...]:
        """The gadget's meaning."""
        inputs = [self.form(form, held) for form in gadget.inputs]
        defined = [tuple(value for value in vector if value is not None) for vector in inputs]
        if any(len(all_) < len(each) for all_, each in zip(defined, inputs, strict=True)):
            return (None,) * gadget.result.dim
        try:
            return gadget.meaning(defined)
        except Undecided:
            return (None,) * gadget.result.dim


def _mean(column: tuple[Fraction | None, ...]) -> Fraction | None:
    known = [value for value in column if value is not None]
    return sum(known, Fraction(0)) / len(known) if len(known) == len(column) else None
