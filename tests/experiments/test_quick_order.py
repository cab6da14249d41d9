"""That a quick look may show the papers' order: runs of no more steps, those of the better model at one of
its rates, have shown it, whatever else was different about them.
"""

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
        right, examples = run.correct, run.examples
        assert right is not None
        assert examples is not None
        return wilson(right, examples)
    looks = [
        (look.correct, look.examples)
        for look in known.curves.get(run.key, ())
        if look.step <= steps and look.correct is not None and look.examples
    ]
    return wilson(*looks[-1]) if looks else None


def reached(cell: Cell, known: Known, *, own_rates: bool) -> list[Interval]:
    """What a cell's runs had after the steps that it gives, at its own learning rates or at any."""
    (job,) = cell.jobs
    rates = {member.lr for member in job.members}
    found = [
        up_to(run, job.training.steps, known)
        for run in fitting(cell, known.runs)
        if run.rate in rates or not own_rates
    ]
    intervals = [interval for interval in found if interval is not None]
    assert intervals, f"{cell.row} at {cell.column} was not run"
    return intervals


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
        ours = max(one.low for one in reached(better.cell, known, own_rates=True))
        theirs = reached(worse.cell, known, own_rates=False)
        if pair.worse in reversed_here:  # it learns here what it does not in the paper
            assert max(one.low for one in theirs) > 0.9, pair
        else:
            assert ours > max(one.high for one in theirs), pair
