"""A lower bound as a value: how much of what is needed, for which task and family, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, get_args

from separatrix.errors import InvalidInput
from separatrix.evidence.exact import as_decimal, as_short_text, require_exact
from separatrix.evidence.fitting import claims_that_cover
from separatrix.evidence.html import pairs
from separatrix.evidence.specs import TaskSpec
from separatrix.record_checks import require_kind, require_text, require_texts
from separatrix.records import JsonObject, Reader, Record, exact_to_text
from separatrix.theorems import Owed, Status, family, theorem

__all__ = ["EXCHANGED_BITS", "ONE_WAY_BITS", "Bound", "Via"]

EXCHANGED_BITS = "exchanged bits"
"""The quantity of a bound that a transcript can be compared with.

It counts all bits that two parties send each other on the worst input, in any number of rounds and both
ways, under the partition that the bound names.
"""
ONE_WAY_BITS = "bits of one message"
"""The quantity of a bound on protocols in which Alice sends one message and Bob then answers.

Two-way protocols may do with less (INDEX needs only log N bits from Bob), so no other run compares with it.
"""
_SPLIT = (EXCHANGED_BITS, ONE_WAY_BITS)

_PLAIN_INTEGERS = 10**15


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
    open one claims nothing and has no number. The theorem must claim a bound for this task and family, and
    the status may not outrun it. `partition` is the task's name for the split of the input, given with
    `EXCHANGED_BITS` and `ONE_WAY_BITS` only.
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
    partition: str = ""
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
            theorem=self.theorem,
        )
        require_texts("A bound", "assumptions", self.assumptions)
        require_kind("A bound", "task", self.task, TaskSpec)
        require_kind("A bound", "via", self.via, Via, or_none=True)
        if self.family is not None:
            require_text("A bound", family=self.family)
            family(self.family)
        entry = theorem(self.theorem)
        object.__setattr__(self, "theorem", entry.id)
        if self.at_least is not None:
            number = require_exact("A bound's number", self.at_least)
            if number < 0:
                raise InvalidInput(f"A bound's number is not negative; got {as_short_text(number)}.")
            object.__setattr__(self, "at_least", number.numerator if number.denominator == 1 else number)
        self._check_partition()
        self._check_status(claims_that_cover(entry, "bound", task=self.task.name, family=self.family))

    def _check_partition(self) -> None:
        if not isinstance(self.partition, str):
            raise InvalidInput("A bound's partition is text, empty where none matters.")
        if self.quantity not in _SPLIT:
            if self.partition:
                raise InvalidInput(
                    f"A partition matters to two parties; only a bound on {' or '.join(_SPLIT)} names one."
                )
            return
        if self.unit != "bits":
            raise InvalidInput(f"A bound on {self.quantity} is counted in bits; got {self.unit[:40]!r}.")
        if not self.partition.strip():
            raise InvalidInput(f"A bound on {self.quantity} names its partition, such as 'odd/even'.")
        require_text("A bound", partition=self.partition)

    def _check_status(self, claims: tuple[Owed, ...]) -> None:
        if self.status not in get_args(Status):
            raise InvalidInput(f"A bound's status is one of {', '.join(get_args(Status))}.")
        if self.status == "open" and self.at_least is not None:
            raise InvalidInput("An open question has no number.")
        if not isinstance(self.condition, str):
            raise InvalidInput("A bound's condition is text, empty where there is none.")
        if (self.status == "conditional") != bool(self.condition):
            raise InvalidInput("A conditional bound names its condition, and only a conditional one does.")
        known = {owed.status for owed in claims}
        if self.status not in known:
            raise InvalidInput(
                f"{self.theorem} is {' or '.join(sorted(known))}; a bound by it cannot be {self.status}."
            )
        conditions = {owed.condition for owed in claims if owed.status == self.status}
        if self.condition not in conditions:
            raise InvalidInput(
                f"{self.theorem} holds if {' or '.join(sorted(conditions))}; "
                f"got the condition {self.condition[:40]!r}."
            )

    def met_by(self, amount: int | Fraction) -> bool | None:
        """Whether this amount reaches the bound; None where no number is proven.

        True says only that this bound does not forbid it.
        """
        return None if self.at_least is None else amount >= self.at_least

    def __str__(self) -> str:
        split = f", split {self.partition}" if self.partition else ""
        where = f"{self.task} by {self.family or 'two parties'}{split}"
        if self.status == "open":
            return f"open: {where}: {self.formula}? ({self.theorem})"
        condition = f", if {self.condition}" if self.condition else ""
        needs = f"{',' if split else ''} needs {self.quantity} {self.requirement}"
        return f"{where}{needs}{condition} ({self._reason()})"

    @property
    def requirement(self) -> str:
        """How much is needed, as one reads it: rounded down where the number is long."""
        if self.at_least is None:
            return self.asymptotic
        plain = isinstance(self.at_least, int) and self.at_least < _PLAIN_INTEGERS
        return f"≥ {f'{self.at_least:,}' if plain else as_decimal(self.at_least, 'down')} {self.unit}"

    def _reason(self) -> str:
        return f"{self.theorem}, via {self.via}" if self.via else self.theorem

    def _repr_html_(self) -> str:
        return pairs(
            f"Bound: {self.status}",
            (
                ("task", str(self.task)),
                ("family", self.family or "two parties, no model"),
                ("quantity", self.quantity),
                ("partition", self.partition),
                ("at least", "open" if self.status == "open" else self.requirement),
                ("asymptotically", self.asymptotic),
                ("formula", self.formula),
                ("if", self.condition),
                ("theorem", f"{self.theorem}: {theorem(self.theorem).source}"),
                ("via", str(self.via) if self.via else ""),
                *(("assumes", assumption) for assumption in self.assumptions),
            ),
        )

    def to_fields(self) -> JsonObject:
        """The fields as JSON values; `at_least` is for reading and its exact text is what counts.

        The readable number is rounded down if need be, and null where it is beyond every float.
        """
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
            "partition": self.partition,
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
            partition=read.text("partition"),
            via=read.optional_record("via", Via),
            assumptions=read.texts("assumptions"),
            status=read.choice("status", get_args(Status)),
            condition=read.text("condition"),
        )
        read.agrees("at_least", _readable(bound.at_least))
        return bound


def _readable(value: int | Fraction | None) -> int | float | None:
    """The number as JSON has it; a fraction becomes the nearest float that is not above it.

    Beyond the floats there is none: many readers would take such a JSON number for infinity.
    """
    if value is None:
        return None
    try:
        near = float(value)
    except OverflowError:
        return None
    if isinstance(value, int):
        return value
    return near if near <= value else math.nextafter(near, -math.inf)
