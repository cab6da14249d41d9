"""What `separatrix reproduce` prints and writes: tables on a terminal, JSON, and figures in a folder.

Imported when the command is run, since it needs torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from separatrix.cli.experimenting import Found, time_taken
from separatrix.cli.listing import papers
from separatrix.cli.output import printable_line, stdout_console, wrapped, write_json
from separatrix.experiments import EXPERIMENTS, study_of
from separatrix.experiments.asked import Asked
from separatrix.experiments.cells import Budget, Study
from separatrix.experiments.figures import FORMATS, write_drawing, write_figures
from separatrix.experiments.measurements import keep_series, series_in
from separatrix.experiments.outcomes import PanelOutcome
from separatrix.experiments.projecting import Projection, projection_of
from separatrix.experiments.protocols import Settings
from separatrix.experiments.scheduling import packed
from separatrix.experiments.tables import csv_text, headings_of, lines_below, markdown, rows_of
from separatrix.files import replace_file
from separatrix.records import JsonObject
from separatrix.store import Run, Store
from separatrix.store.bundles import bundle_runs
from separatrix.training.jobs import Job

__all__ = [
    "Plan",
    "fields_of",
    "keep_runs",
    "print_found",
    "print_listing",
    "print_plans",
    "write_answer",
    "write_found",
]

_BUDGETS: Final[tuple[Budget, ...]] = ("smoke", "quick", "paper")
_NONE: Final = "–"
_SHORTER: Final = {"difference": "diff", "learning rate": "lr"}
_BROKEN: Final = frozenset({"model", "paper", "steps"})
"""Columns whose words may go on in the next line."""
_NAME: Final = 30
"""Letters of a row's name in a table that is cut into several."""
_UNKNOWN: Final = frozenset({"not run", "under way"})
_SCHEMA: Final = {"schema": "separatrix.outcome", "version": 1}


def print_listing(*, as_json: bool) -> None:
    """Every experiment: what it is, where it stands, how large it is, how long the quick form takes."""
    entries = [_entry(name) for name in EXPERIMENTS.names()]
    if as_json:
        write_json({"experiments": entries})
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("experiment", style="bold cyan", no_wrap=True)
    table.add_column("title and source", ratio=1)
    for budget in _BUDGETS:
        table.add_column(f"cells\n{budget}", justify="right", no_wrap=True)
    table.add_column("H200 min\nquick", justify="right", no_wrap=True)
    for entry in entries:
        cells, minutes = entry["cells"], entry["h200_minutes_quick"]
        table.add_row(
            entry["name"],
            Text.assemble((entry["title"], "bold"), f"\n{entry['source']}"),
            *(f"{cells[budget]:,}" for budget in _BUDGETS),
            _NONE if minutes is None else f"{minutes:.0f}" if minutes >= 1 else "< 1",
        )
    console = stdout_console()
    console.print(table)
    console.print()
    for letter, paper in papers({entry["source"].partition(",")[0] for entry in entries}).items():
        console.print(f"{letter}: {paper}")
    console.print("`separatrix reproduce NAME` runs one; several can be named, or all.")


def _entry(name: str) -> dict[str, Any]:
    studies = {budget: study_of(name, Settings(budget=budget)) for budget in _BUDGETS}
    small = studies["smoke"]
    return {
        "name": name,
        "title": small.title,
        "source": small.source,
        "claim": small.claim,
        "cells": {budget: len(study.cells) for budget, study in studies.items()},
        "h200_minutes_quick": _minutes(projection_of(studies["quick"])),
    }


def _minutes(projection: Projection) -> float | None:
    """What it takes on an H200; None where nothing is trained or some of it was never measured."""
    known = projection.jobs and not projection.basis["not measured"]
    return projection.minutes if known else None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What an experiment would cost."""

    asked: Asked
    study: Study
    left: int
    """Jobs that the store lacks, or cells that a search is not done with."""
    owed: int
    """Jobs for models of the store that have not learned their task in the steps they had."""
    projection: Projection

    @property
    def fields(self) -> JsonObject:
        """All of it as JSON values."""
        jobs = packed(self.study)
        return {
            "experiment": self.study.name,
            "budget": self.study.budget,
            "cells": len(self.study.cells),
            "measured": sum(not cell.jobs for cell in self.study.cells),
            "jobs": len(jobs),
            "left": self.left,
            "owed_further": self.owed,
            "members": sum(len(job.members) for job in jobs),
            "steps": _steps(jobs),
            "further_steps": _steps(self.study.further),
            "h200_minutes": _minutes(self.projection),
            "projection": self.projection.to_fields(),
        }


def _steps(jobs: Iterable[Job]) -> int:
    return sum(job.training.steps * len(job.members) for job in jobs)


def print_plans(plans: Sequence[Plan], *, as_json: bool, together: bool) -> None:
    """What each would cost, and all together."""
    if as_json:
        fields = [plan.fields for plan in plans]
        write_json({"experiments": fields} if together else fields[0])
        return
    console = stdout_console()
    for place, plan in enumerate(plans):
        if place:
            console.print()
        _print_title(console, plan.study)
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(ratio=1)
        for name, text in _plan_rows(plan):
            table.add_row(name, text)
        console.print(table)
    if together:
        known = [plan.projection.most_minutes for plan in plans if _minutes(plan.projection) is not None]
        console.print()
        console.print(f"Together at most about {time_taken(sum(known))} on one H200.")


def _plan_rows(plan: Plan) -> list[tuple[str, str]]:
    fields: Mapping[str, Any] = plan.fields
    measured = f", {fields['measured']:,} of them without training" if fields["measured"] else ""
    rows = [("cells", f"{fields['cells']:,}{measured}")]
    if plan.asked.search == "optuna":
        rows.append(("search", f"up to {plan.asked.trials:,} runs for each of {plan.left:,} cells"))
    elif fields["jobs"]:
        there = fields["jobs"] - plan.left
        known = f", {there:,} of them in the store already" if there else ""
        owed = f"; {plan.owed:,} more to train models for longer" if plan.owed else ""
        rows.append(("jobs", f"{fields['jobs']:,}{known}{owed}"))
        rows.append(("members", f"{fields['members']:,}"))
        more = f", and {fields['further_steps']:,} more" if fields["further_steps"] else ""
        rows.append(("steps", f"{fields['steps']:,}{more} at most, of all members together"))
    return [*rows, ("time", "\n".join(plan.projection.lines()))]


def print_found(found: Found, folder: Path | None, files: Sequence[Path], kept: Path | None) -> None:
    """A study's tables, what follows from them, and where its figures and runs are."""
    console = stdout_console()
    _print_title(console, found.outcome.study)
    for line in wrapped(printable_line(found.outcome.study.claim), console.width):
        console.print(line)
    for panel in found.outcome.panels:
        console.print()
        console.print(Text(printable_line(panel.panel.title), "bold"))
        for table in _tables(console, panel):
            console.print(table)
        for line in lines_below(panel):
            for part in wrapped(printable_line(line), console.width):
                console.print(part)
    for one in found.illustrations:
        console.print()
        for part in wrapped(printable_line(one.caption), console.width):
            console.print(part)
    if folder is not None:
        console.print()
        drawn = len({file.stem for file in files if file.suffix == ".png"})
        figures = f"{drawn:,} figure{'' if drawn == 1 else 's'}"
        print(f"{figures} ({', '.join(FORMATS)}), table.md, table.csv and outcome.json are in")
        print(printable_line(str(_shown(folder))))
    if kept is not None:
        print("Finished runs are bundled in")
        print(printable_line(str(_shown(kept))))


def _print_title(console: Console, study: Study) -> None:
    console.print(Text.assemble((study.name, "bold cyan"), "  ", (printable_line(study.title), "bold")))
    console.print(f"{study.source}; --budget {study.budget}")


def _tables(console: Console, panel: PanelOutcome) -> Iterator[Table]:
    """The widest gap between columns for which no word is broken; a wide panel is cut where it must be."""
    headings, rows = headings_of(panel), rows_of(panel)
    for gap in (2, 1):
        table = _spaced(headings, rows, gap=gap)
        wide = console.options.update(max_width=10 * console.width)
        if Measurement.get(console, wide, table).maximum <= console.width:
            yield table
            return
    if not panel.panel.wide:
        yield table
        return
    room = console.width - min(_NAME, max(len(row[0]) for row in rows)) - 1
    longest = max(len(word) for row in (headings, *rows) for word in row[1:])
    step = max(1, room // (longest + 1))
    for low in range(1, len(headings), step):
        part = slice(low, low + step)
        yield _spaced((headings[0], *headings[part]), [(row[0], *row[part]) for row in rows], gap=1)


def _spaced(headings: Sequence[str], rows: Iterable[Sequence[str]], *, gap: int) -> Table:
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for name in headings:
        left = name == "model"
        table.add_column(
            _SHORTER.get(name, name),
            justify="left" if left else "right",
            no_wrap=name not in _BROKEN,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*map(printable_line, row), style="dim" if _UNKNOWN.intersection(row) else "")
    return table


def _shown(path: Path) -> Path:
    """A path from where one stands, if it lies below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path


def write_found(found: Found, folder: Path) -> list[Path]:
    """Figures, tables and numbers of a study in a folder; the files that were written."""
    outcome = found.outcome
    written = write_figures(outcome, folder)
    for one in found.illustrations:
        written += write_drawing(one.draw, folder, name=one.name)
        written.append(_written(folder / f"{one.name}.json", _json(one.record.to_json())))
    written.append(_written(folder / "table.md", markdown(outcome)))
    written.append(_written(folder / "table.csv", csv_text(outcome)))
    written.append(_written(folder / "outcome.json", _json({**_SCHEMA, **outcome.to_fields()})))
    return written


def _written(path: Path, text: str) -> Path:
    replace_file(path, text.encode())
    return path


def _json(value: object) -> str:
    return json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def keep_runs(found: Found, store: Store | None) -> Path | None:
    """Bundle the store's runs and series of a study where that is asked for; the folder, if there are any."""
    if found.asked.keep is None or store is None:
        return None
    there = store.all_keys()
    own = [run for run in found.runs if run.key in there]
    known = series_in(store)
    series = [known[one.key] for one in found.outcome.study.series if one.key in known]
    folder = found.asked.keep / found.asked.name
    if own:
        bundle_runs(store, own, folder, name=found.asked.name)
    if series:
        keep_series(folder, series)
    return folder if own or series else None


def fields_of(found: Found, *, store: Path, files: Iterable[Path], kept: Path | None) -> JsonObject:
    """Everything about a study as JSON values."""
    return {
        **found.outcome.to_fields(),
        "runs": [_run_fields(run) for run in found.runs],
        "failed": [
            {
                "model": failure.job.model.to_fields(),
                "task": failure.job.task.to_fields(),
                "reason": failure.reason,
            }
            for failure in found.failed
        ],
        "interrupted": found.interrupted,
        "seconds": found.seconds,
        "store": str(store),
        "files": [str(path) for path in files],
        "kept": None if kept is None else str(kept),
    }


def _run_fields(run: Run) -> JsonObject:
    interval = None if run.low is None or run.high is None else [run.low, run.high]
    fields = run.to_fields()
    names = ("key", "config", "status", "steps", "solved_at", "accuracy", "correct", "examples", "seconds")
    return {**{name: fields[name] for name in names}, "interval": interval}


def write_answer(answers: Sequence[Mapping[str, Any]], *, together: bool) -> None:
    """One JSON object: the study's, or of several all of them, with their runs together."""
    if not together:
        write_json(answers[0])
        return
    write_json(
        {
            "experiments": answers,
            "runs": [run for answer in answers for run in answer["runs"]],
            "failed": [failure for answer in answers for failure in answer["failed"]],
            "interrupted": any(answer["interrupted"] for answer in answers),
        }
    )
