"""What the README and the page on trained models say was found, number by number against what is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import pytest

from separatrix.cli.experimenting import everything_known
from separatrix.experiments import study_of
from separatrix.experiments.outcomes import CellOutcome, outcome_of
from separatrix.experiments.protocols import Settings
from tests.markdown_tables import section_of, tables_in

CERTIFIED = "task, one-layer Transformer of width 64"
README = tables_in(section_of("README.md", "## What was found"))
TRAINED = tables_in(section_of("docs/trained-models.md", "## What was found"))
COUNTS = {"cases": "cases", "proved": "proved", "broken": "refuted", "unknown": "unknown"}
"""Columns of counts, and what the record calls them."""
Certified = dict[str, Any]

COVERED: Mapping[str, str] = {
    "index lookup": "index-lookup",
    "recall": "associative-recall",
    "Match2": "match2",
    "sparse averaging": "q-sparse-averaging",
    "Dyck-(2,2)": "dyck",
}
STUDIED: Mapping[str, tuple[str, str]] = {
    "index lookup": ("index-lookup", ""),
    "Dyck-(2,2)": ("dyck", "recognise"),
    "equality by next characters": ("equality", "ncp"),
    "equality with random negatives": ("equality", "random"),
    "IsTree by a chain of thought": ("is-tree", "cot"),
}
"""The tasks of the second table with their forms."""
LABELS: Mapping[str, str] = {
    "Transformer": "TF",
    "linear Transformer": "LinTF",
    "RetNet": "RetNet",
    "DSS": "DSS",
    "Mamba": "Mamba",
    "LSTM": "LSTM",
}
COUNTED = ("", "one", "two", "three", "four", "five", "six")


def number(text: str) -> int:
    assert re.fullmatch(r"\d{1,3}(,\d{3})*", text), f"{text!r} is no whole number as the pages write them"
    return int(text.replace(",", ""))


def as_precisely(value: float, text: str) -> str:
    """A value with as many decimals as the text has."""
    return f"{value:.{len(text.partition('.')[2])}f}"


# Trained models on every input.


@cache
def certified() -> tuple[Certified, ...]:
    text = (files("separatrix.atlas") / "data" / "coverage.json").read_text("utf-8")
    return tuple(json.loads(text)["rows"])


def came_by_itself(row: Certified) -> bool:
    """Whether training ended at the first look at which all was right: of its kind nothing ended sooner."""
    alike = [one for one in certified() if all(one[key] == row[key] for key in ("task", "model", "seed"))]
    return row["against"] is None and bool(row["steps"] == min(one["steps"] for one in alike))


def param(row: Certified, name: str) -> object:
    return row["task"]["params"].get(name)


SAYINGS: Mapping[str, Callable[[Certified, list[str]], bool]] = {
    "LLaMA's form": lambda row, _: row["model"] == "llama",
    "against": lambda row, _: row["against"] is not None,
    "as it comes": lambda row, _: came_by_itself(row),
    r"([nq]) = (\d+)": lambda row, said: param(row, said[0]) == int(said[1]),
    r"(\d+) fixed keys": lambda row, said: (param(row, "order"), param(row, "n")) == ("fixed", int(said[0])),
    r"(\d+) of the (\d+) places": lambda row, said: (
        [len(row["verdicts"]), param(row, "n")] == [int(each) for each in said]
    ),
    r"([\d,]+) steps": lambda row, said: row["steps"] == number(said[0]),
    r"seed (\d+)": lambda row, said: row["seed"] == int(said[0]),
}
"""What cells say of task, model and training, and when that is so of a row of the record."""


def is_about(words: str, row: Certified) -> bool:
    """Whether what is said is so of a row; what nobody understands fails."""
    for pattern, holds in SAYINGS.items():
        if said := re.fullmatch(pattern, words):
            return holds(row, list(said.groups()))
    raise AssertionError(f"No test understands {words!r} in a table of what was certified.")


def meant(cells: Mapping[str, str]) -> list[Certified]:
    """The certified models that a row can mean, by all that it says but for its results."""
    task = cells["task"] if "task" in cells else cells[CERTIFIED]
    said = [*task.split(", "), *(cells["training"].split(", ") if "training" in cells else ())]
    said += [f"seed {cells['seed']}"] if "seed" in cells else []
    whole = not any("places" in words for words in said)
    assert said[0] in COVERED, f"No test knows the task {said[0]!r}."
    found = [row for row in certified() if row["task"]["name"] == COVERED[said[0]]]
    found = [row for row in found if all(is_about(words, row) for words in said[1:])]
    found = [row for row in found if (row["model"] == "llama") == ("LLaMA's form" in said)]
    found = [row for row in found if "against" in said or row["against"] is None]
    found = [row for row in found if (row["every"] == 1) == whole]
    assert found, f"Nothing was certified that {dict(cells)} can mean."
    assert all((row["layers"], row["width"]) == (1, 64) for row in found)
    return found


def results_as_written(row: Certified, cells: Mapping[str, str]) -> dict[str, str]:
    """The results of a certified model in the columns that a row has."""
    margin, printed = row["least_margin"], cells.get("least margin", "")
    known = {
        **{heading: f"{row[name]:,}" for heading, name in COUNTS.items()},
        "right on samples": f"{row['right']:,} of {row['examples']:,}",
        "least margin": "–" if margin is None else as_precisely(margin, printed),
    }
    others = set(cells) - {CERTIFIED, "task", "training", "seed"}
    assert set(COUNTS) <= others <= set(known), f"Nobody compares the columns {sorted(others - set(known))}."
    return {heading: known[heading] for heading in others}


def results_in(cells: Mapping[str, str]) -> dict[str, str]:
    return {name: cell for name, cell in cells.items() if name not in (CERTIFIED, "task", "training", "seed")}


def test_the_readme_says_of_certified_models_what_the_record_has() -> None:
    rows = README[0]
    assert rows
    for cells in rows:
        candidates = [results_as_written(row, cells) for row in meant(cells)]
        assert results_in(cells) in candidates, f"The record has {candidates} for {cells[CERTIFIED]}."


def test_the_page_on_trained_models_has_every_row_of_the_record_once() -> None:
    (table,) = TRAINED
    found, task, training = [], "", ""
    for row in table:
        training = row["training"] or ("" if row["task"] else training)
        task = row["task"] or task
        cells = {**row, "task": task, "training": training}
        candidates = meant(cells)
        assert len(candidates) == 1, f"{cells} can mean {len(candidates)} certified models."
        assert results_in(cells) == results_as_written(candidates[0], cells), task
        found.append(candidates[0]["run"])
    assert sorted(found) == sorted(row["run"] for row in certified())


# What was reproduced.


@dataclass(frozen=True, kw_only=True)
class Place:
    """The cell that a row speaks of."""

    task: str
    n: int
    row: str


@cache
def outcomes(name: str) -> tuple[CellOutcome, ...]:
    """What `separatrix reproduce NAME --budget paper --show` has of what was trained."""
    study = study_of(name, Settings(budget="paper"))
    return outcome_of(study, everything_known(None), measured={}).cells


def place_of(words: str, above: Place | None) -> Place:
    """The cell that is meant; `the same` is that of the row above but for what is said."""
    words = words.removesuffix(", decoded")
    if again := re.fullmatch(r"the same(?: at (\d+))?(?: by an? (.+))?", words):
        assert above is not None, "The first row is the same as none."
        n, row = again[1], again[2]
        return replace(above, n=int(n) if n else above.n, row=row_of(row) if row else above.row)
    named = re.fullmatch(r"(.+?) at (\d+)( by a chain of thought)?, (.+)", words)
    assert named is not None, f"{words!r} names no task, length and model."
    return Place(task=named[1] + (named[3] or ""), n=int(named[2]), row=row_of(named[4]))


def row_of(words: str) -> str:
    """What the experiments call a model that the README describes."""
    if sized := re.fullmatch(r"(\w+) of ([\d.]+M)", words):
        return f"{sized[1].capitalize()} {sized[2]}"
    shaped = re.fullmatch(r"(.+) of (\w+) layers?, width (\d+)", words)
    assert shaped is not None, f"{words!r} is no model with its size."
    assert shaped[1] in LABELS, f"No test knows what the experiments call a {shaped[1]}."
    return f"{LABELS[shaped[1]]}-({COUNTED.index(shaped[2])},{shaped[3]})"


def outcome_at(place: Place) -> CellOutcome:
    assert place.task in STUDIED, f"No test knows the task {place.task!r}."
    name, form = STUDIED[place.task]
    found = [
        one
        for study in ("s-fig2", "s-fig3", "s-fig4", "w-istree")
        for one in outcomes(study)
        if (one.cell.row, one.cell.column) == (place.row, place.n)
        for asked in (one.cell.jobs[0].task,)
        if (asked.name, asked.params.get("form", "")) == (name, form)
    ]
    assert len(found) == 1, f"The experiments have {len(found)} cells for {place}."
    return found[0]


def steps_as_written(one: CellOutcome) -> str:
    assert one.best is not None
    if one.best.solved_at is not None:
        return f"{one.best.solved_at:,}, solved"
    assert one.most_steps is not None
    wanted = max(one.most_steps, *(job.training.steps for job in one.cell.jobs))
    return f"{one.steps:,} of {wanted:,}"


def paper_as_written(one: CellOutcome, text: str) -> str:
    """The paper's number with the decimals of the text, or its words."""
    if one.paper is None:
        return one.paper_said or "–"
    return f"{as_precisely(100 * one.paper, text.removesuffix(' %'))} %"


def test_the_readme_says_of_reproductions_what_the_kept_runs_give() -> None:
    rows = README[1]
    assert rows
    above = None
    for cells in rows:
        above = place_of(cells[""], above)
        one = outcome_at(above)
        assert one.accuracy is not None, f"The README has a number for {above}, which was not run."
        assert one.cell.decoded == ("IsTree" in above.task), "only chains of thought are decoded"
        assert cells == {
            "": cells[""],
            "ours": f"{100 * one.accuracy:.1f} %",
            "paper": paper_as_written(one, cells["paper"]),
            "steps": steps_as_written(one),
        }


@pytest.mark.parametrize("words", ["at once", "index lookup at 20", "n = twenty", "7 places"])
def test_words_that_no_test_understands_are_not_passed_over(words: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(repr(words))):
        is_about(words, certified()[0])
    with pytest.raises(AssertionError, match=re.escape(repr(words))):
        place_of(words, None)
