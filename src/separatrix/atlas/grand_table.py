"""The grand table: for each task and family how much is needed, how much suffices, and what is open.

Every number is a formula, so that the page can move n, the precision and the budget. A cell is

    cannot     the budget is below what is needed
    can        a witness within the budget is built
    law        one would be, by the construction's own law, beyond the longest input it is built for
    gap        neither
    open       the same, where the literature asks the very question
    condition  all that is known is a bound that rests on a condition and has no number
    nothing    nobody has said anything
    absent     the task has no inputs of this length

and `standing_of` is the definition; the page's script has the same in its own language, and a test sets the
two side by side.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, final, get_args

from separatrix.atlas.certified import Certified
from separatrix.atlas.formulas import Formula, as_json, evaluate, written
from separatrix.atlas.grand_table_needs import needs_laws
from separatrix.atlas.grand_table_rows import COLUMNS, Column, Domain, domain_of, names_of, spec_at
from separatrix.atlas.grand_table_suffices import Law, law_of
from separatrix.atlas.grand_table_trained import TrainedLine
from separatrix.atlas.svg import slug
from separatrix.communication.bounds import RULES, Given, bounds_held
from separatrix.communication.bounds.interface import WIRE
from separatrix.errors import InvalidInput
from separatrix.evidence import Bound
from separatrix.records import JsonObject
from separatrix.tasks import TASKS
from separatrix.theorems import (
    Artefact,
    Theorem,
    families_around,
    families_within,
    open_questions,
    theorem,
)
from separatrix.witnesses.catalogue import CATALOGUE, Entry

__all__ = [
    "MEANINGS",
    "PRECISIONS",
    "GrandTable",
    "Need",
    "Row",
    "Standing",
    "Sufficient",
    "TableCell",
    "Values",
    "View",
    "collect_grand_table",
    "short",
    "standing_of",
]

Standing = Literal["can", "law", "cannot", "gap", "open", "condition", "nothing", "absent"]

MEANINGS: Final[tuple[tuple[Standing, str], ...]] = (
    ("can", "weights of that size are built"),
    ("law", "can, by the construction’s formula beyond the longest built"),
    ("cannot", "a proof says no weights of that size do"),
    ("gap", "neither is known at that size"),
    ("open", "neither, and the literature asks"),
    ("condition", "a bound, if a conjecture holds"),
    ("nothing", "is known there: no bound, no weights"),
    ("absent", "of that length: the task has none"),
)
"""What the legend says of each."""
PRECISIONS: Final = (8, 16, 32, 64)
LEAST_N, MOST_N = 1 << 4, 1 << 30
LEAST_BUDGET, MOST_BUDGET = 1 << 4, 1 << 50


@final
@dataclass(frozen=True, kw_only=True)
class View:
    """Where the sliders stand when the page opens."""

    n: int = 1 << 16
    precision: int = 32
    budget: int = 1 << 17

    def __post_init__(self) -> None:
        _require_between("a length n", "n", self.n, LEAST_N, MOST_N)
        _require_between("a budget", "budget", self.budget, LEAST_BUDGET, MOST_BUDGET)
        if self.precision not in PRECISIONS:
            known = ", ".join(map(str, PRECISIONS))
            raise InvalidInput(
                f"The atlas shows numbers of {known} bits; got precision={self.precision}. Try 32."
            )


def _require_between(what: str, name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        powers = f"2^{least.bit_length() - 1} to 2^{most.bit_length() - 1}"
        raise InvalidInput(f"The atlas shows {what} from {powers}; got {name}={value}. Try {least << 6}.")


@final
@dataclass(frozen=True, kw_only=True)
class Need:
    """A bound that binds a cell's family, with its law; `bound` is what the rule says at one size."""

    artefact: Artefact
    law: Formula
    bound: Bound

    @property
    def written(self) -> str:
        """The law, as one writes it."""
        return written(self.law)

    @property
    def code(self) -> str:
        """Where its rule stands."""
        return _place(RULES[self.artefact].function.__module__)

    @property
    def function(self) -> str:
        """The name of the rule there."""
        return RULES[self.artefact].function.__name__


@final
@dataclass(frozen=True, kw_only=True)
class Sufficient:
    """A construction that serves a cell's family, with its law in the column's bits."""

    entry: Entry
    law: Law
    size: Formula
    certified: Certified | None

    @property
    def written(self) -> str:
        """The law, as one writes it."""
        return written(self.size)

    @property
    def code(self) -> str:
        """Where it is built."""
        return _place(f"separatrix.witnesses.{self.entry.home.partition(':')[0]}")

    @property
    def function(self) -> str:
        """The name of the construction there."""
        return self.entry.home.partition(":")[2]


def _place(module: str) -> str:
    return f"src/{module.replace('.', '/')}.py"


@final
@dataclass(frozen=True, kw_only=True)
class Values:
    """A cell at one size: bits needed, bits that suffice, and whether what suffices is built."""

    needs: int | None
    suffices: int | None
    built: bool
    present: bool = True


def standing_of(values: Values, budget: int, *, asked: bool, conditional: bool) -> Standing:
    """How a cell stands at a budget.

    `asked` says that the literature leaves it open, `conditional` that a bound without a number rests on a
    condition.
    """
    if not values.present:
        return "absent"
    if values.needs is not None and budget < values.needs:
        return "cannot"
    if values.suffices is not None and budget >= values.suffices:
        return "can" if values.built else "law"
    if asked:
        return "open"
    if values.needs is not None or values.suffices is not None:
        return "gap"
    return "condition" if conditional else "nothing"


@final
@dataclass(frozen=True, kw_only=True)
class TableCell:
    """One task by one family: all that is known of it."""

    task: str
    column: Column
    domain: Domain
    names: Mapping[str, int]
    needs: tuple[Need, ...] = ()
    suffices: tuple[Sufficient, ...] = ()
    question: Theorem | None = None
    numberless: tuple[Bound, ...] = ()
    easier: tuple[Entry, ...] = ()
    trained: tuple[TrainedLine, ...] = ()

    @property
    def says_something(self) -> bool:
        """Whether there is anything to open."""
        return bool(
            self.needs or self.suffices or self.question or self.numberless or self.easier or self.trained
        )

    @property
    def silence(self) -> str:
        """What it says where it has no number and no condition."""
        if self.suffices:
            longest = max(each.law.built_to for each in self.suffices)
            return f"only to n = {longest:,}"
        return "easier form" if self.easier else "trained"

    @property
    def anchor(self) -> str:
        """Its name in the page."""
        return f"cell-{self.task}-{self.column.family}"

    def at(self, n: int, precision: int) -> Values:
        """The greatest number that is needed and the smallest that suffices, one that is built if any is."""
        if not self.domain.holds(n):
            return Values(needs=None, suffices=None, built=False, present=False)
        names = {**self.names, "n": n, "p": precision}
        needed = [evaluate(each.law, names) for each in self.needs]
        built = [each for each in self.suffices if n <= each.law.built_to]
        going_on = built or [each for each in self.suffices if each.law.continues]
        enough = [evaluate(each.size, names) for each in going_on]
        return Values(needs=max(needed, default=None), suffices=min(enough, default=None), built=bool(built))

    def standing(self, view: View) -> Standing:
        """How it stands in a view."""
        values = self.at(view.n, view.precision)
        return standing_of(
            values, view.budget, asked=self.question is not None, conditional=bool(self.numberless)
        )


@final
@dataclass(frozen=True, kw_only=True)
class Row:
    """A task with its cells, one for each column."""

    task: str
    title: str
    parameters: str
    domain: Domain
    cells: tuple[TableCell, ...]


@final
@dataclass(frozen=True, kw_only=True)
class GrandTable:
    """The table, where it opens, and its formulas for the page's script."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    view: View

    @property
    def groups(self) -> tuple[tuple[str, str, int], ...]:
        """Name, quantity and width of every group of columns."""
        counts: dict[tuple[str, str], int] = {}
        for column in self.columns:
            key = (column.group, column.quantity)
            counts[key] = counts.get(key, 0) + 1
        return tuple((group, quantity, count) for (group, quantity), count in counts.items())

    @property
    def cells(self) -> tuple[TableCell, ...]:
        """All that say something, row by row."""
        return tuple(cell for row in self.rows for cell in row.cells if cell.says_something)

    @property
    def tally(self) -> Mapping[Standing, int]:
        """How many cells stand how in the view."""
        found = [cell.standing(self.view) for row in self.rows for cell in row.cells]
        return {standing: found.count(standing) for standing in get_args(Standing)}

    def laws(self) -> str:
        """JSON for the script: each formula once a row, and each cell by the numbers of its formulas."""
        formulas: dict[tuple[int, str], int] = {}
        rows: list[JsonObject] = []
        cells: list[JsonObject] = []
        for place, row in enumerate(self.rows):
            names: JsonObject = dict(row.cells[0].names)
            silent = sum(not cell.says_something for cell in row.cells)
            rows.append({"names": names, "even": row.domain.even, "most": row.domain.most, "silent": silent})

            def numbered(law: Formula, place: int = place) -> int:
                key = (place, json.dumps(as_json(law), ensure_ascii=False))
                return formulas.setdefault(key, len(formulas))

            for cell in row.cells:
                if cell.says_something:
                    needs = [numbered(each.law) for each in cell.needs]
                    suffices = [
                        [numbered(each.size), each.law.built_to, each.law.continues] for each in cell.suffices
                    ]
                    cells.append(
                        {
                            "id": slug(cell.anchor),
                            "row": place,
                            "needs": list(dict.fromkeys(needs)),
                            "suffices": list(suffices),
                            "asked": cell.question is not None,
                            "conditional": bool(cell.numberless),
                        }
                    )
        listed = [[place, json.loads(law)] for place, law in formulas]
        return json.dumps(
            {"rows": rows, "formulas": listed, "cells": cells}, ensure_ascii=False, separators=(",", ":")
        )


def collect_grand_table(
    proven: Mapping[Artefact, Certified],
    *,
    trained: Mapping[tuple[str, str], Sequence[TrainedLine]] | None = None,
    view: View | None = None,
) -> GrandTable:
    """Every cell, from the rules of bounds, the catalogue of witnesses, what is certified and what ran."""
    found = trained or {}
    return GrandTable(
        columns=COLUMNS,
        rows=tuple(_row(name, proven, found) for name in TASKS.names()),
        view=view or View(),
    )


def _row(
    task: str,
    proven: Mapping[Artefact, Certified],
    trained: Mapping[tuple[str, str], Sequence[TrainedLine]],
) -> Row:
    spec = spec_at(task, View().n)
    names, domain = names_of(spec), domain_of(task)
    shown = {name: value for name, value in names.items() if name not in ("states", "levels", "places")}
    return Row(
        task=task,
        title=TASKS.get(task).title,
        parameters=", ".join(f"{name} = {value:,}" for name, value in shown.items()),
        domain=domain,
        cells=tuple(
            TableCell(
                task=task,
                column=column,
                domain=domain,
                names=names,
                needs=tuple(_needs(task, column.family, names)),
                suffices=tuple(_suffices(task, column, names, proven)),
                question=_question(task, column.family),
                numberless=tuple(_numberless(task, column.family)),
                easier=tuple(_easier(task, column.family)),
                trained=tuple(trained.get((task, column.family), ())),
            )
            for column in COLUMNS
        ),
    )


def _needs(task: str, family: str, names: Mapping[str, int]) -> Iterator[Need]:
    """Laws that bind the family, the strongest first at the length where the page opens."""
    found: list[Need] = []
    for key, law in needs_laws().items():
        by_states = key.task is None and "states" in names
        if (key.task == task or by_states) and key.family and family in families_within(key.family):
            said = _strongest(_said(key, task))
            if said is not None:
                found.append(Need(artefact=key, law=law, bound=said))
    values = {**names, "n": View().n, "p": View().precision}
    return iter(sorted(found, key=lambda each: -evaluate(each.law, values)))


def _said(key: Artefact, task: str) -> tuple[Bound, ...]:
    """What a rule says of models, at the size where the page opens."""
    given = Given(precision=View().precision)
    return tuple(
        each for each in bounds_held(key, spec_at(task, View().n), given=given) if each.quantity not in WIRE
    )


def _strongest(said: Iterable[Bound]) -> Bound | None:
    """The greatest number that holds whatever the width; the law is of that one."""
    firm = [each for each in said if each.at_least is not None and not _of_wide_models(each)]
    return max(firm, key=lambda each: each.at_least or 0, default=None)


def _of_wide_models(each: Bound) -> bool:
    return any(assumption.startswith("3m·log N") for assumption in each.assumptions)


def _numberless(task: str, family: str) -> Iterator[Bound]:
    """Bounds under a condition, which have no number."""
    for key in RULES:
        if key.task == task and key.family and family in families_within(key.family):
            yield from (each for each in _said(key, task) if each.status == "conditional")


def _suffices(
    task: str, column: Column, names: Mapping[str, int], proven: Mapping[Artefact, Certified]
) -> Iterator[Sufficient]:
    """Constructions that serve the family, the smallest first at the length where the page opens."""
    found: list[Sufficient] = []
    for entry in CATALOGUE:
        law = law_of(entry) if entry.task == task else None
        size = None if law is None else law.sizes.get(column.quantity)
        if law is not None and size is not None and column.family in families_around(entry.family):
            found.append(Sufficient(entry=entry, law=law, size=size, certified=proven.get(entry.artefact)))
    values = {**names, "n": View().n, "p": View().precision}
    return iter(sorted(found, key=lambda each: evaluate(each.size, values)))


def _easier(task: str, family: str) -> Iterator[Entry]:
    """Constructions for an easier form of the task: shown, and not counted."""
    return (
        entry
        for entry in CATALOGUE
        if entry.task == task and family in families_around(entry.family) and law_of(entry) is None
    )


def _question(task: str, family: str) -> Theorem | None:
    """The open question that asks about this cell, unless a bound with a number settles it."""
    for question in open_questions():
        for owed in question.owes:
            reached = family in owed.reach and task in owed.tasks
            if reached and not any(
                key.task == task and key.family and family in families_within(key.family)
                for key in needs_laws()
            ):
                return theorem(question.id)
    return None


_SUFFIXES: Final = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_WRITTEN_OUT: Final = 100_000


def short(number: int, *, up: bool) -> str:
    """At most six characters: three digits and a unit of a thousand, rounded so that the claim stays true."""
    if number < _WRITTEN_OUT:
        return f"{number:,}"
    dropped = len(str(number)) - 3
    digits, rest = divmod(number, 10**dropped)
    if up and rest:
        digits += 1
    if digits == 1000:
        digits, dropped = 100, dropped + 1
    unit = (dropped + 2) // 3
    before = 3 - (3 * unit - dropped)
    text = str(digits)
    return (f"{text[:before]}.{text[before:]}" if before < 3 else text) + _SUFFIXES[unit]
