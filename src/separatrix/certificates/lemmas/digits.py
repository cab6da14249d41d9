"""Tokens by their binary digits: one case for each value of a digit, and never one for each token.

A token's vector is start + Σ columns[j]·digit j. What is linear in it can be bounded digit by digit, so an
alphabet of 2^20 symbols costs as much as twenty digits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from flint import fmpq

from separatrix.certificates.enclosures import Box, Rounding
from separatrix.certificates.enclosures.boxes import Ends, as_ends
from separatrix.certificates.lemmas.coded import Coded, token_rows
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.codes import Code, Digits
from separatrix.models.explicit.inputs import TokenClass, TokenInputs

__all__ = ["DigitRows", "digit_rows", "same_code"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class DigitRows:
    """The vectors start + Σ columns[j]·digit j + Σ parts[name]·T(number of that name)."""

    start: Ends
    columns: tuple[Ends, ...]
    parts: dict[str, Ends]

    @property
    def digits(self) -> int:
        """How many there are."""
        return len(self.columns)

    def rows(self, digits: Sequence[int | None]) -> Coded:
        """The one case whose digits are these; None leaves a digit open."""
        base = Box.exact(self.start)
        for column, digit in zip(self.columns, digits, strict=True):
            ends = (0, 1) if digit is None else (digit, digit)
            low, high = (column * fmpq(end) for end in ends)
            base = base + Box(as_ends(np.minimum(low, high)), as_ends(np.maximum(low, high)))
        return Coded(base=base.simplified().reshape(1, -1), parts=self.parts)

    def open(self) -> Coded:
        """The one case in which nothing is known about any digit."""
        return self.rows([None] * self.digits)

    def all(self, digit: int) -> Coded:
        """The one case in which every digit is this one."""
        return self.rows([digit] * self.digits)


def digit_rows(rounding: Rounding, inputs: TokenInputs, kind: TokenClass, *, count: int) -> DigitRows:
    """The tokens of a class that carry `count` numbers in the code of digits."""
    if not isinstance(kind.code, Digits) or kind.code.count != count:
        raise NotProved(f"The tokens of the class {kind.name} are told apart by digits.")
    alone = dataclasses.replace(inputs, classes=(kind,))

    def row(number: int) -> Coded:
        return token_rows(rounding, alone, kind.name, rows=range(number, number + 1))

    start = row(0)
    powers = [row(1 << place).base.low[0] for place in range(kind.code.dim) if 1 << place < count]
    # The vector of the number 0 has no digits; where the code is wider than needed the rest is never set.
    columns = tuple(as_ends(power - start.base.low[0]) for power in powers)
    return DigitRows(start=start.base.low[0], columns=columns, parts=dict(start.parts))


def same_code(first: Code, second: Code) -> bool:
    """Whether two codes give every number the same word."""
    return first.spec() == second.spec()
