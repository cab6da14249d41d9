"""Functions of a few bits, given by truth tables, and formulas made of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from separatrix.errors import InvalidInput
from separatrix.tasks.interface import require

__all__ = ["MOST_BITS", "Feature", "Literals", "formula_features", "paired_features"]

MOST_BITS = 16
Literals = Sequence[Sequence[int]]

_LITERAL = re.compile(r"\s*([~!¬]?)\s*x([1-9][0-9]{0,8})\s*", re.ASCII)


@dataclass(frozen=True)
class Feature:
    """A function of the bits at `indices`, counted from zero; `table` lists its values.

    The value at bits b₁ … b_k stands at the place with the binary number b₁…b_k: (0, 0, 0, 1) is AND.
    As in S, appendix F.3, a function of no bits is 0.
    """

    indices: tuple[int, ...]
    table: tuple[int, ...]

    def __post_init__(self) -> None:
        require(
            isinstance(self.indices, tuple)
            and len(set(self.indices)) == len(self.indices)
            and all(type(index) is int and index >= 0 for index in self.indices),
            f"A feature's indices are different whole numbers from 0; got {str(self.indices)[:80]}.",
        )
        require(
            len(self.indices) <= MOST_BITS,
            f"A feature reads at most {MOST_BITS} bits; got {len(self.indices)} indices.",
        )
        size = 1 << len(self.indices)
        require(
            isinstance(self.table, tuple) and len(self.table) == size,
            f"A feature of {len(self.indices)} bits needs a table of {size} values; got {_many(self.table)}.",
        )
        require(
            all(type(value) is int and value in (0, 1) for value in self.table),
            f"A feature's table holds 0 and 1; got {str(self.table)[:80]}.",
        )
        require(
            bool(self.indices) or self.table == (0,),
            "A feature of no bits is 0; got the table (1,). Give it an index.",
        )


def formula_features(formula: str | Literals, *, n: int, dual: bool) -> tuple[Feature, ...]:
    """One feature for each term of a DNF, or, if `dual`, for each clause of a CNF."""
    part = "clause" if dual else "term"
    groups = _read(formula, dual=dual) if isinstance(formula, str) else _listed(formula)
    require(bool(groups), f"A formula needs at least one {part}; got none.")
    return tuple(_feature(group, n=n, part=part, holds=any if dual else all) for group in groups)


def paired_features(n: int, table: tuple[int, int, int, int]) -> tuple[Feature, ...]:
    """The same function of bit i and bit n/2 + i, for every i."""
    require(
        n >= 2 and n % 2 == 0,
        f"Two halves of equal length need an even n ≥ 2; got n={n}. Try {max(n + n % 2, 2)}.",
    )
    return tuple(Feature((place, n // 2 + place), table) for place in range(n // 2))


def _feature(literals: list[int], *, n: int, part: str, holds: Callable[[Iterable[bool]], bool]) -> Feature:
    require(bool(literals), f"A {part} needs at least one literal; got an empty one.")
    for literal in literals:
        require(
            type(literal) is int and 1 <= abs(literal) <= n,
            f"With n={n}, literals are 1 to {n}, or −1 to −{n} for their negations; got {literal!r}.",
        )
    variables = sorted({abs(literal) for literal in literals})
    require(
        len(variables) <= MOST_BITS,
        f"A {part} has at most {MOST_BITS} variables; got {len(variables)}.",
    )
    table = []
    for bits in itertools.product((0, 1), repeat=len(variables)):
        value = dict(zip(variables, bits, strict=True))
        table.append(int(holds(value[abs(literal)] == (literal > 0) for literal in literals)))
    return Feature(tuple(variable - 1 for variable in variables), tuple(table))


def _read(text: str, *, dual: bool) -> list[list[int]]:
    """Literals from `x1 & ~x3 | x2`, or, if dual, from `(x1 | ~x2) & x3`."""
    outer, inner = ("&", "|") if dual else ("|", "&")
    groups = []
    for group in text.split(outer):
        content = group.strip()
        bracketed = content.startswith("(") and content.endswith(")")
        words = (content[1:-1] if bracketed else content).split(inner)
        read = [_LITERAL.fullmatch(word) for word in words]
        # `&` binds closer than `|`, so a bare `x1 | x2` is no clause.
        if None in read or (dual and len(words) > 1 and not bracketed):
            example = "(x1 | ~x2) & x3" if dual else "x1 & ~x3 | x2"
            raise InvalidInput(
                f"A formula in {'conjunctive' if dual else 'disjunctive'} form is written like "
                f"{example}; could not read {content[:40]!r}."
            )
        groups.append([int(found[2]) * (-1 if found[1] else 1) for found in read if found])
    return groups


def _listed(groups: Literals) -> list[list[int]]:
    try:
        return [list(group) for group in groups]
    except TypeError:
        raise InvalidInput(
            f"A formula is a list of lists of literals, such as [[1, -3], [2]]; got {str(groups)[:60]}."
        ) from None


def _many(table: object) -> str:
    return f"{len(table)}" if isinstance(table, tuple) else str(table)[:60]
