"""What the papers report: their numbers and words, as data that comes with the package, each with its source.

`data/tables.csv` lists the tables and says where each comes from. A table's numbers stand in a file of their
own, with a line for each model; `data/said.csv` has what a paper says in words, for the rows that a pattern
fits and the columns from one to another.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Final

__all__ = ["Published", "Said", "published"]

_ROWS: Final = {
    ("model", "layers", "width"): "{model}-({layers},{width})",
    ("model", "params"): "{model} {params}",
    ("order", "model"): "{model}, {order}",
}
"""How an experiment names the row that a file describes in these columns."""
_UNITS: Final = {"per cent": Decimal(100), "share": Decimal(1)}


@dataclass(frozen=True, kw_only=True)
class Said:
    """Words about the rows that fit a pattern, in the columns from `first` to `last`."""

    row: str
    first: int
    last: int
    words: str

    def is_about(self, row: str, column: int) -> bool:
        """Whether these words are meant for this place."""
        return self.first <= column <= self.last and fnmatchcase(row, self.row)


@dataclass(frozen=True, kw_only=True)
class Published:
    """One table or figure of a paper. Rows go by the names that the experiments give them."""

    name: str
    source: str
    """Where it stands, and whether it is printed, read off with some error, or said in words."""
    numbers: Mapping[tuple[str, int], float]
    """Accuracies from 0 to 1, by row and column."""
    said: tuple[Said, ...]

    def number(self, row: str, column: int) -> float | None:
        """The accuracy in this place, None if the paper gives none."""
        return self.numbers.get((row, column))

    def words(self, row: str, column: int) -> str:
        """What is said of this place, empty if nothing."""
        return next((said.words for said in self.said if said.is_about(row, column)), "")


@cache
def published(name: str | None) -> Published | None:
    """The paper's table of this name; None for None."""
    if name is None:
        return None
    known = {line["table"]: line for line in _lines("tables")}
    assert name in known, f"data/tables.csv has no table {name}"
    described = known[name]
    return Published(
        name=name,
        source=described["source"],
        numbers=_numbers(described["numbers"], described["unit"]) if described["numbers"] else {},
        said=tuple(
            Said(row=line["row"], first=int(line["from"]), last=int(line["to"]), words=line["words"])
            for line in _lines("said")
            if line["table"] == name
        ),
    )


def _numbers(name: str, unit: str) -> dict[tuple[str, int], float]:
    found = {}
    for line in _lines(name):
        described = tuple(heading for heading in line if not heading.isdigit())
        row = _ROWS[described].format_map(line)
        for heading in (heading for heading in line if heading.isdigit()):
            # Division in decimals, so that 49.8 % is the float nearest to 0.498.
            found[row, int(heading)] = float(Decimal(line[heading]) / _UNITS[unit])
    return found


def _lines(name: str) -> list[dict[str, str]]:
    text = (files("separatrix.experiments") / "data" / f"{name}.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines(), strict=True))
