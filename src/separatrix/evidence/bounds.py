"""A lower bound as a value: how much of what is needed, for which task and family, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, get_args

from separatrix.errors import InvalidInput
from separatrix.evidence.exact import as_decimal, require_exact
from separatrix.evidence.html import pairs
from separatrix.evidence.specs import TaskSpec
from separatrix.records import (
    JsonObject,
    Reader,
    Record,
    exact_to_text,
    require_text,
    require_texts,
)
from separatrix.theorems import Status, Theorem, family, theorem

__all__ = ["Bound", "Via"]


@dataclass(frozen=True, kw_only=True)
class Via(Record):
    """What a bound rests on: a communication problem (or another argument) and the reductions to the task."""

    SCHEMA: ClassVar[str] = "separatrix.via"

    problem: str
    reductions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_text("A bound's argument", problem=self.problem)
        require_texts("A bound's argument", "reductions", self.reductions)

    def __str__(self) -> str:
        return " → ".join((self.problem, *self.reductions))

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {"problem": self.problem, "reductions": list(self.reductions)}

    @classmethod
    def from_fields(cls, read: Reader) -> Via:
        """The argument whose fields `read` holds."""
        return cls(problem=read.text("problem"), reductions=read.texts("reductions"))


@dataclass(frozen=True, kw_only=True)
class Bound(Record):
    """No model of `family` does `task` with less than `at_least` of `quantity`.

    `at_least` is a number only where a constant is proven; else it is None and `asymptotic` says what is
    known. `family` is None for a bound on communication alone. A conditional bound names its condition; an
    open one claims nothing and has no number. The status may not outrun the theorem's.
    """

    SCHEMA: ClassVar[str] = "separatrix.bound"

    task: TaskSpec
    family: str | None
    quantity: str
    unit: str
    at_least: int | Fraction | None
    asymptotic: str
    formula: str
    theorem: str
    via: Via | None = None
    assumptions: tuple[str, ...] = ()
    status: Status = "proven"
    condition: str = ""

    def __post_init__(self) -> None:
        require_text(
            "A bound",
            quantity=self.quantity,
            unit=self.unit,
            asymptotic=self.asymptotic,
            formula=self.formula,
        )
        require_texts("A bound", "assumptions", self.assumptions)
        if self.family is not None:
            family(self.family)
        entry = theorem(self.theorem)
        object.__setattr__(self, "theorem", entry.id)
        if self.at_least is not None:
            number = require_exact("A bound's number", self.at_least)
            if number < 0:
                raise InvalidInput(f"A bound's number is not negative; got {number}.")
            object.__setattr__(self, "at_least", number.numerator if number.denominator == 1 else number)
        self._check_status(entry)

    def _check_status(self, entry: Theorem) -> None:
        if self.status not in get_args(Status):
            raise InvalidInput(f"A bound's status is one of {', '.join(get_args(Status))}.")
        if self.status == "open" and self.at_least is not None:
            raise InvalidInput("An open question has no number.")
        if (self.status == "conditional") != bool(self.condition):
            raise InvalidInput("A conditional bound names its condition, and only a conditional one does.")
        source = theorem(entry.restates) if entry.restates else entry
        known = {owed.status for owed in source.owes if owed.kind == "bound"} or {source.status}
        if self.status not in known:
            raise InvalidInput(
                f"{entry.id} is {' or '.join(sorted(known))}; a bound by it cannot be {self.status}."
            )

    def met_by(self, amount: int | Fraction) -> bool | None:
        """Whether this amount reaches the bound; None where no number is proven.

        True says only that this bound does not forbid it.
        """
        return None if self.at_least is None else amount >= self.at_least

    def __str__(self) -> str:
        where = f"{self.task} by {self.family}" if self.family else f"{self.task}, two parties"
        if self.status == "open":
            return f"open: {where}: {self.formula}? ({self.theorem})"
        condition = f", if {self.condition}" if self.condition else ""
        return f"{where} needs {self.quantity} {self._least()}{condition} ({self._reason()})"

    def _least(self) -> str:
        if self.at_least is None:
            return self.asymptotic
        exact = isinstance(self.at_least, int)
        return f"≥ {f'{self.at_least:,}' if exact else as_decimal(self.at_least, 'down')} {self.unit}"

    def _reason(self) -> str:
        return f"{self.theorem}, via {self.via}" if self.via else self.theorem

    def _repr_html_(self) -> str:
        return pairs(
            f"Bound: {self.status}",
            (
                ("task", str(self.task)),
                ("family", self.family or "two parties, no model"),
                ("quantity", self.quantity),
                ("at least", "open" if self.status == "open" else self._least()),
                ("asymptotically", self.asymptotic),
                ("formula", self.formula),
                ("if", self.condition),
                ("theorem", f"{self.theorem}: {theorem(self.theorem).source}"),
                ("via", str(self.via) if self.via else ""),
                *(("assumes", assumption) for assumption in self.assumptions),
            ),
        )

    def to_fields(self) -> JsonObject:
        """The fields as JSON values; `at_least` for reading, rounded down if need be, and its exact text."""
        return {
            "task": self.task.to_fields(),
            "family": self.family,
            "quantity": self.quantity,
            "unit": self.unit,
            "at_least": _readable(self.at_least),
            "at_least_exact": None if self.at_least is None else exact_to_text(self.at_least),
            "asymptotic": self.asymptotic,
            "formula": self.formula,
            "theorem": self.theorem,
            "via": None if self.via is None else self.via.to_fields(),
            "assumptions": list(self.assumptions),
            "status": self.status,
            "condition": self.condition,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Bound:
        """The bound whose fields `read` holds."""
        bound = cls(
            task=read.record("task", TaskSpec),
            family=read.optional_text("family"),
            quantity=read.text("quantity"),
            unit=read.text("unit"),
            at_least=read.optional_exact("at_least_exact"),
            asymptotic=read.text("asymptotic"),
            formula=read.text("formula"),
            theorem=read.text("theorem"),
            via=read.optional_record("via", Via),
            assumptions=read.texts("assumptions"),
            status=read.choice("status", get_args(Status)),
            condition=read.text("condition"),
        )
        read.agrees("at_least", _readable(bound.at_least))
        return bound


def _readable(value: int | Fraction | None) -> int | float | None:
    """The number as JSON has it; a fraction becomes the nearest float that is not above it."""
    if value is None or isinstance(value, int):
        return value
    near = float(value)
    return near if near <= value else math.nextafter(near, -math.inf)
