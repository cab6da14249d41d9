"""Formulas in n, p and the parameters of a task, with two evaluators: one here, one in the page.

A formula is a value. `evaluate` computes it in Python; `as_json` writes it as nested lists, which the script
of the page reads and computes by itself, so that a slider can move without Python and nothing is ever handed
to JavaScript's `eval`.

Every value is a whole number and exact at any size: Python's integers here, `BigInt` there. Quotients say
which way they round, and logarithms too. Floating point occurs in one place, the search for the peak of a
concave function: both sides climb in doubles to a place near the top, and the formula there is exact again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, final

from separatrix.communication.bounds.counts import bits_for, ceil_log, floor_log, least_base, peak
from separatrix.records import JsonValue

__all__ = [
    "Const",
    "Formula",
    "N",
    "Name",
    "Op",
    "P",
    "Peak",
    "Steps",
    "as_json",
    "bits_to_tell",
    "ceil_divide",
    "ceil_log2",
    "choose",
    "evaluate",
    "floor_bits",
    "floor_divide",
    "largest",
    "log2",
    "power",
    "root",
    "smallest",
    "written",
]


class Formula:
    """Something with a value; `+`, `−` and `×` make larger ones."""

    def __add__(self, other: Formula | int) -> Formula:
        return Op("+", (self, formula(other)))

    def __radd__(self, other: int) -> Formula:
        return Op("+", (formula(other), self))

    def __sub__(self, other: Formula | int) -> Formula:
        return Op("-", (self, formula(other)))

    def __rsub__(self, other: int) -> Formula:
        return Op("-", (formula(other), self))

    def __mul__(self, other: Formula | int) -> Formula:
        return Op("*", (self, formula(other)))

    def __rmul__(self, other: int) -> Formula:
        return Op("*", (formula(other), self))


@final
@dataclass(frozen=True)
class Const(Formula):
    """A whole number."""

    value: int

    def __post_init__(self) -> None:
        assert abs(self.value) < 1 << 53, "a constant is written as a JSON number"


@final
@dataclass(frozen=True)
class Name(Formula):
    """n, p, a parameter of the task, or what a peak goes over."""

    name: str


@final
@dataclass(frozen=True)
class Op(Formula):
    """An operation of `_OPERATIONS` on its arguments."""

    kind: str
    arguments: tuple[Formula, ...]

    def __post_init__(self) -> None:
        assert self.kind in _OPERATIONS or self.kind == "log", f"there is no operation {self.kind}"


@final
@dataclass(frozen=True, kw_only=True)
class Steps(Formula):
    """The value of the first step whose end `of` does not pass; `beyond` where it passes all."""

    of: Formula
    steps: tuple[tuple[int, int], ...]
    beyond: int


@final
@dataclass(frozen=True, kw_only=True)
class Peak(Formula):
    """`there`, where `over` is the whole number from `low` to `high` with the greatest (concave) `height`."""

    over: str
    low: Formula
    high: Formula
    height: Formula
    there: Formula


N: Final = Name("n")
P: Final = Name("p")


def formula(value: Formula | int) -> Formula:
    """A number as a formula."""
    return Const(value) if isinstance(value, int) else value


def floor_divide(over: Formula | int, under: Formula | int) -> Formula:
    """A quotient, rounded down."""
    return Op("floor/", (formula(over), formula(under)))


def ceil_divide(over: Formula | int, under: Formula | int) -> Formula:
    """A quotient, rounded up."""
    return Op("ceil/", (formula(over), formula(under)))


def power(base: Formula | int, exponent: Formula | int) -> Formula:
    """A power."""
    return Op("^", (formula(base), formula(exponent)))


def smallest(*of: Formula | int) -> Formula:
    """The least of several."""
    return Op("min", tuple(formula(each) for each in of))


def largest(*of: Formula | int) -> Formula:
    """The greatest of several."""
    return Op("max", tuple(formula(each) for each in of))


def ceil_log2(of: Formula | int) -> Formula:
    """⌈log x⌉: the bits that name one of so many."""
    return Op("ceil log", (formula(of),))


def bits_to_tell(base: Formula | int, exponent: Formula | int) -> Formula:
    """⌈e·log b⌉: the bits that tell b^e cases apart."""
    return Op("ceil bits", (formula(base), formula(exponent)))


def floor_bits(base: Formula | int, exponent: Formula | int) -> Formula:
    """⌊e·log b⌋."""
    return Op("floor bits", (formula(base), formula(exponent)))


def choose(total: Formula | int, chosen: Formula | int) -> Formula:
    """The binomial coefficient."""
    return Op("choose", (formula(total), formula(chosen)))


def root(of: Formula | int, degree: Formula | int) -> Formula:
    """The least whole number from 2 whose power is at least x."""
    return Op("root", (formula(of), formula(degree)))


def log2(of: Formula | int) -> Formula:
    """The logarithm as a double, for the height of a peak only."""
    return Op("log", (formula(of),))


_OPERATIONS: Final[Mapping[str, Callable[..., int]]] = {
    "+": lambda *of: sum(of),
    "-": lambda a, b: a - b,
    "*": lambda *of: math.prod(of),
    "floor/": lambda a, b: a // b,
    "ceil/": lambda a, b: -(-a // b),
    "^": lambda a, b: a**b,
    "min": min,
    "max": max,
    "ceil log": ceil_log,
    "ceil bits": bits_for,
    "floor bits": floor_log,
    "choose": math.comb,
    "root": least_base,
}


def evaluate(of: Formula, values: Mapping[str, int]) -> int:
    """The value, given those of all names."""
    if isinstance(of, Const):
        return of.value
    if isinstance(of, Name):
        return values[of.name]
    if isinstance(of, Op):
        return _OPERATIONS[of.kind](*(evaluate(each, values) for each in of.arguments))
    if isinstance(of, Steps):
        at = evaluate(of.of, values)
        return next((value for end, value in of.steps if at <= end), of.beyond)
    assert isinstance(of, Peak)
    bound, height = of.over, of.height
    low, high = evaluate(of.low, values), evaluate(of.high, values)
    top = peak(lambda place: _height(height, {**values, bound: place}), low, high)
    return evaluate(of.there, {**values, bound: top})


def _height(of: Formula, values: Mapping[str, int]) -> float:
    """The same in doubles; products, differences, minima and logarithms are all that heights need."""
    if isinstance(of, Op) and of.kind == "log":
        return math.log2(_height(of.arguments[0], values))
    if isinstance(of, Op) and of.kind in _IN_DOUBLES:
        return _IN_DOUBLES[of.kind](*(_height(each, values) for each in of.arguments))
    return float(evaluate(of, values))


_IN_DOUBLES: Final[Mapping[str, Callable[..., float]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "^": lambda a, b: a**b,
    "min": min,
}


def as_json(of: Formula) -> JsonValue:
    """As the page's script reads it: numbers, names, and lists that begin with what to do."""
    if isinstance(of, Const):
        return of.value
    if isinstance(of, Name):
        return of.name
    if isinstance(of, Op):
        return (of.kind, *(as_json(each) for each in of.arguments))
    if isinstance(of, Steps):
        return ("steps", as_json(of.of), of.steps, of.beyond)
    assert isinstance(of, Peak)
    return ("peak", of.over, as_json(of.low), as_json(of.high), as_json(of.height), as_json(of.there))


_SUM, _PRODUCT, _TERM = range(3)
_SIGNS: Final = {"+": (_SUM, " + "), "-": (_SUM, " − "), "*": (_PRODUCT, "·")}
_FORMS: Final = {
    "min": "min({})",
    "max": "max({})",
    "choose": "C({})",
    "root": "root({})",
    "ceil log": "⌈log {}⌉",
    "log": "log {}",
    "floor/": "⌊{}/{}⌋",
    "ceil/": "⌈{}/{}⌉",
    "floor bits": "⌊{1}·log {0}⌋",
    "ceil bits": "⌈{1}·log {0}⌉",
    "^": "{}^{}",
}
_LISTS: Final = ("min", "max", "choose", "root")
"""Forms whose arguments stand between commas; those of the others stand in one term."""


def written(of: Formula) -> str:
    """As one writes it."""
    return _written(of, _SUM)


def _written(of: Formula, within: int) -> str:
    """With parentheses where the part binds less than what it stands in."""
    if isinstance(of, Const):
        return f"{of.value:,}"
    if isinstance(of, Name):
        return of.name
    if isinstance(of, Steps):
        parts = [f"{value:,} up to {end:,}" for end, value in of.steps]
        return f"(by {written(of.of)}: {', '.join(parts)}, then {of.beyond:,})"
    if isinstance(of, Peak):
        return f"{written(of.there)}, for the best {of.over}"
    assert isinstance(of, Op)
    return _written_sum(of, within) if of.kind in _SIGNS else _written_form(of)


def _written_sum(of: Op, within: int) -> str:
    level, sign = _SIGNS[of.kind]
    first, *rest = of.arguments
    behind = _PRODUCT if of.kind == "-" else level  # a sum that is subtracted needs its parentheses
    text = sign.join([_written(first, level), *(_written(each, behind) for each in rest)])
    return f"({text})" if level < within else text


def _written_form(of: Op) -> str:
    if of.kind in _LISTS:
        return _FORMS[of.kind].format(", ".join(written(each) for each in of.arguments))
    return _FORMS[of.kind].format(*(_written(each, _TERM) for each in of.arguments))
