"""No rounding at all: exact real arithmetic, whose only irrational step, e^x, is enclosed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from separatrix.certificates.enclosures.boxes import Box, exp_ends, exps, matrix_product, products, quotients
from separatrix.certificates.enclosures.key_groups import (
    Attended,
    KeyGroup,
    Masses,
    highest,
    require_groups,
)
from separatrix.certificates.enclosures.rounding import Rounding, rows_of

__all__ = ["RealRounding"]


@final
@dataclass(frozen=True)
class RealRounding(Rounding):
    """Real numbers. Ends that have grown long are rounded outward, which never loses a result."""

    def error_model(self) -> tuple[str, ...]:
        """Nothing but the reals."""
        return ("All operations are those of the real numbers; nothing is rounded.",)

    def encode(self, values: Box) -> Box:
        """The numbers themselves."""
        return values

    def add(self, left: Box, right: Box) -> Box:
        """The real sum."""
        return (left + right).shortened()

    def multiply(self, left: Box, right: Box) -> Box:
        """The real product."""
        return products(left, right).shortened()

    def divide(self, left: Box, right: Box) -> Box:
        """The real quotient."""
        return quotients(left, right).shortened()

    def exp(self, box: Box) -> Box:
        """The true e^x."""
        return exps(box)

    def affine(self, x: Box, weights: Box, bias: Box | None = None) -> Box:
        """The real affine map."""
        image = matrix_product(rows_of(x), weights)
        image = image if bias is None else image + bias
        return image.shortened().reshape(*x.shape[:-1], weights.shape[0])

    def dot(self, left: Box, right: Box) -> Box:
        """The real inner product."""
        return products(left, right).sum(-1).shortened()

    def attend(self, groups: Sequence[KeyGroup]) -> Attended:
        """Exact up to the outward rounding of e^x: masses relative to a fixed logit are independent."""
        present = require_groups(groups)
        reference, _ = highest(present)
        ends = [group.logit.scalar for group in present]
        masses = Masses(
            low=tuple(
                group.least * exp_ends(low - reference)[0]
                for group, (low, _) in zip(present, ends, strict=True)
            ),
            high=tuple(
                group.most * exp_ends(high - reference)[1]
                for group, (_, high) in zip(present, ends, strict=True)
            ),
            leads=tuple(high >= reference for _, high in ends),
        )
        output = masses.mean(Box.stack([group.value for group in present]))
        return Attended.of(groups, output, masses.shares())
