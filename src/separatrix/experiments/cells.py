"""What an experiment asks for: a study of panels, a panel of cells, and in each cell one number of a figure.

A cell is a row, which is a model, and a column, mostly the length. It says how its number is had: by a job of
training, whose best member counts as in the papers, or by something that needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, final

from separatrix.errors import InvalidInput
from separatrix.options import require
from separatrix.records import JsonObject
from separatrix.registry import unknown_name
from separatrix.store.intervals import Interval, wilson
from separatrix.store.keys import key_of
from separatrix.training.jobs import Job

if TYPE_CHECKING:
    from separatrix.experiments.illustrations import Illustration
    from separatrix.store import Store

__all__ = ["OURS", "Budget", "Cell", "Measured", "Panel", "Series", "Study", "chosen"]

Budget = Literal["smoke", "quick", "paper"]
"""Tiny sizes that a laptop runs in seconds; the papers' models with few cells and steps on one GPU; all."""
OURS: Final = "beyond the papers"
"""Where a study stands that no paper has."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A number that no training run holds: right answers among so many, half a point for one not given.

    Where nothing could be asked there is no number, and the note says why.
    """

    right: float
    examples: int
    seconds: float = 0.0
    note: str = ""

    @property
    def accuracy(self) -> float:
        """The share that is right."""
        return self.right / self.examples

    @property
    def interval(self) -> Interval:
        """Wilson's at 95 %, half points rounded outwards."""
        low, high = int(self.right), -int(-self.right // 1)
        return Interval(wilson(low, self.examples).low, wilson(high, self.examples).high)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Series:
    """Numbers of a row, by column, that are measured together and written down: they take too long to be
    measured whenever they are shown.

    `question` is all that decides what comes out. Its hash is the name under which they are kept.
    """

    question: JsonObject
    measure: Callable[[], Mapping[int, Measured]]

    @cached_property
    def key(self) -> str:
        """The hash of the question."""
        return key_of(self.question)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One number of a figure, and how it is had: by `jobs`, or by `measure` where nothing is trained.

    Of what takes long without training it is the number that a `series` has in its column.

    Of all members of all jobs the best counts. Where none of them has learned its task when its steps are
    over, `further` are trained, from the beginning. Where the model writes before it answers, `decoded` has
    its accuracy counted by letting it write.
    """

    row: str
    column: int
    jobs: tuple[Job, ...] = ()
    further: tuple[Job, ...] = ()
    measure: Callable[[Store], Measured] | None = None
    series: Series | None = None
    decoded: bool = False

    def __post_init__(self) -> None:
        ways = (bool(self.jobs), self.measure is not None, self.series is not None)
        require(sum(ways) == 1, "A cell has jobs or a measure, and not both.")
        require(bool(self.jobs) or not self.further, "What is trained further was trained before.")


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Cells that stand in one picture.

    `published` names the table with the paper's numbers, `said` what the paper says in words instead.
    `curves_at` is the column whose learning curves the paper shows. `wide` has a table of rows by columns,
    where a line for each cell would be too many. With `column_labels` a column is the number of a label.
    """

    name: str
    title: str
    cells: tuple[Cell, ...]
    column_name: str = "N"
    published: str | None = None
    said: str = ""
    curves_at: int | None = None
    wide: bool = False
    column_labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        places = [(cell.row, cell.column) for cell in self.cells]
        require(len(set(places)) == len(places), f"The panel {self.name} has two cells in one place.")

    @property
    def rows(self) -> tuple[str, ...]:
        """The names of the rows, in order."""
        return tuple(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns, ascending."""
        return tuple(sorted({cell.column for cell in self.cells}))

    def label(self, column: int) -> str:
        """What stands above a column."""
        return self.column_labels[column] if self.column_labels else f"{column:,}"

    def place(self, row: str, column: int) -> str:
        """A cell in words."""
        return f"{row} at {self.column_name} = {self.label(column)}"


@dataclass(frozen=True, kw_only=True)
class Study:
    """A named experiment at a budget: what the paper claims, and every cell that speaks to it.

    Where no paper has it, `work` is None, and the claim is what was looked for.

    `illustrate` draws what is no table of accuracies, from what the store holds when all is trained.
    """

    name: str
    title: str
    work: Literal["S", "R", "W"] | None
    where: str
    claim: str
    budget: Budget
    panels: tuple[Panel, ...]
    illustrate: Callable[[Store], Sequence[Illustration]] | None = None
    refusal: str = ""
    """Why it cannot be run as it is, in a sentence; what is known of it can be shown all the same."""

    @property
    def source(self) -> str:
        """The paper and the place in it, or that there is none."""
        return self.where if self.work is None else f"{self.work}, {self.where}"

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, panel by panel."""
        return tuple(cell for panel in self.panels for cell in panel.cells)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Every job once, in the order of the cells."""
        return tuple({job.key: job for cell in self.cells for job in cell.jobs}.values())

    @property
    def further(self) -> tuple[Job, ...]:
        """Every job once that is for cells which do not learn their task at first."""
        return tuple({job.key: job for cell in self.cells for job in cell.further}.values())

    @property
    def series(self) -> tuple[Series, ...]:
        """Every series once, in the order of the cells."""
        return tuple(
            {cell.series.key: cell.series for cell in self.cells if cell.series is not None}.values()
        )


def chosen(
    study: Study,
    *,
    panels: Collection[str] = (),
    rows: Collection[str] = (),
    columns: Collection[int] = (),
) -> Study:
    """The part of a study in these panels, rows and columns; none given means all.

    A row is named whole, `LSTM-(3,256)`, or by its beginning, `LSTM`.
    """
    for wanted in panels:
        if wanted not in {panel.name for panel in study.panels}:
            raise unknown_name("panel", wanted, tuple(panel.name for panel in study.panels))
    names = tuple(dict.fromkeys(cell.row for cell in study.cells))
    for wanted in rows:
        if not any(_is_named(name, wanted) for name in names):
            raise unknown_name("row", wanted, names)
    known = sorted({cell.column for cell in study.cells})
    for column in columns:
        if column not in known:
            raise InvalidInput(
                f"{study.name} at --budget {study.budget} has the columns {_listed(known)}; got {column}."
            )

    def stays(cell: Cell) -> bool:
        named = not rows or any(_is_named(cell.row, wanted) for wanted in rows)
        return named and (not columns or cell.column in columns)

    kept = [
        replace(panel, cells=tuple(cell for cell in panel.cells if stays(cell)))
        for panel in study.panels
        if not panels or panel.name in panels
    ]
    if not any(panel.cells for panel in kept):
        raise InvalidInput(f"No cell of {study.name} lies in all that was chosen; choose less narrowly.")
    return replace(study, panels=tuple(panel for panel in kept if panel.cells))


def _is_named(row: str, wanted: str) -> bool:
    name, beginning = row.casefold(), wanted.casefold()
    return name.startswith(beginning) and not name[len(beginning) : len(beginning) + 1].isalnum()


def _listed(columns: Iterable[int]) -> str:
    return ", ".join(f"{column:,}" for column in columns)
