"""A bundle tells what the store that it came from would."""

from __future__ import annotations

from separatrix.experiments import study_of
from separatrix.experiments.outcomes import outcome_of
from separatrix.experiments.reproducing import known_in
from separatrix.store import Point
from separatrix.store.bundles import make_bundle
from tests.evidence.examples import make_decoded
from tests.experiments.fakes import fake_run


def test_runs_curves_and_decoding_come_from_a_bundle() -> None:
    study = study_of("w-istree")
    (cell, *_) = (cell for cell in study.cells if cell.decoded)
    run = fake_run(cell.jobs[0], correct=900)
    other = fake_run(study.cells[0].jobs[0], correct=500)
    record = make_decoded(examples=100, right=60, unanswered=30, cut_off=0, tours_right=None)
    points = (Point(step=10, loss=1.0), Point(step=20, loss=0.5))
    bundle = make_bundle([run, other], {run.key: points}, name="istree", evidence={run.key: [record]})
    known = known_in(bundle)
    assert {each.key for each in known.runs} == {run.key, other.key}
    assert known.curves.get(other.key, ()) == ()
    outcome = outcome_of(study, known, measured={})
    found = {one.cell: one for one in outcome.cells if one.state == "done"}
    assert (found[cell].accuracy, found[cell].curve) == (0.75, points)  # half a point for each unanswered
    assert found[study.cells[0]].accuracy == 0.5
    assert len(found) == 2
