"""That a quick look can show the papers' order: runs of no more steps, at its rates, have shown it."""

from __future__ import annotations

import pytest

from separatrix.cli.experimenting import everything_known
from separatrix.experiments import study_of
from separatrix.experiments.cells import Cell
from separatrix.experiments.outcomes import Known, fitting, outcome_of
from separatrix.experiments.protocols import Settings
from separatrix.store import Run
from separatrix.store.intervals import Interval, wilson

QUICK = Settings(budget="quick")


def up_to(run: Run, steps: int, known: Known) -> Interval | None:
    """How often the run was right after so many steps: at its test if it ended by then, else at the last look
    before; None if it had none.
    """
    if run.finished and run.steps <= steps:
        assert run.correct is not None
        assert run.examples is not None
        return wilson(run.correct, run.examples)
    looks = [look for look in known.curves.get(run.key, ()) if look.step <= steps and look.examples]
    return wilson(looks[-1].correct, looks[-1].examples) if looks else None


def best(cell: Cell, known: Known, *, own_rates: bool) -> Interval:
    """The best of a cell's runs after the steps that it gives, at its own learning rates or at any."""
    (job,) = cell.jobs
    rates = {member.lr for member in job.members}
    found = [
        up_to(run, job.training.steps, known)
        for run in fitting(cell, known.runs)
        if run.rate in rates or not own_rates
    ]
    reached = [interval for interval in found if interval is not None]
    assert reached, f"{cell.row} at {cell.column} was not run"
    return max(reached, key=sum)


@pytest.mark.parametrize(
    ("name", "panel", "pairs", "reversed_here"),
    [
        ("s-fig2", "index-lookup", 20, set()),
        ("s-fig3", "index-lookup", 11, set()),
        ("s-fig4", "eq-ncp", 5, set()),
        ("s-fig4", "eq-random", 9, {"LinTF-(2,256)", "RetNet-(2,256)"}),
    ],
)
def test_runs_of_no_more_steps_came_in_the_paper_s_order(
    name: str, panel: str, pairs: int, reversed_here: set[str]
) -> None:
    known = everything_known(None)
    (asked,) = [
        one for one in outcome_of(study_of(name, QUICK), known, measured={}).panels if one.panel.name == panel
    ]
    separations = asked.separations()
    assert len(separations) == pairs
    for pair in separations:
        better, worse = asked.at(pair.better, pair.column), asked.at(pair.worse, pair.column)
        assert better is not None
        assert worse is not None
        ours, theirs = best(better.cell, known, own_rates=True), best(worse.cell, known, own_rates=False)
        if pair.worse in reversed_here:  # it learns here what it does not in the paper
            assert theirs.low > 0.9, pair
        else:
            assert ours.low > theirs.high, (pair, ours, theirs)
