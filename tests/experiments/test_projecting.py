"""How long a study takes on an H200: what its jobs add up to, and what compiling ahead saves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from benchmarks import reproduction, step_rates

from separatrix.errors import InvalidInput
from separatrix.experiments import study_of
from separatrix.experiments.asked import LANES
from separatrix.experiments.cells import Study
from separatrix.experiments.gains import Gains
from separatrix.experiments.projecting import projection_of
from separatrix.experiments.protocols import Lengths, Settings
from separatrix.experiments.rates import Rates, Size, rates_measured, size_of
from separatrix.store import Result, Store
from separatrix.training.jobs import Job
from separatrix.training.recipes import Halving, Member, Training
from separatrix.training.stretches import Stretch, stretches_of
from tests.experiments.fakes import fake_run, only
from tests.experiments.test_gains import gain
from tests.experiments.test_rates import job_of, rate

PAPER = Settings(budget="paper")


# How jobs go on, and what that takes.


def test_all_members_take_all_steps_where_nobody_is_dropped() -> None:
    training = Training(steps=1000, eval_every=300, eval_examples=10, test_examples=50)
    assert stretches_of(job_of(training=training)) == (
        Stretch(rows=7, steps=1000, looked_at=4 * 10 + 50, compiled=True),
    )
    assert stretches_of(job_of(training=training), until=600) == (
        Stretch(rows=7, steps=600, looked_at=2 * 10 + 50, compiled=True),
    )


def test_under_halving_rows_are_given_up_when_at_most_half_are_in_use() -> None:
    training = Training(
        steps=50_000, eval_every=1000, eval_examples=10, test_examples=50, halving=Halving(first=5000)
    )
    assert stretches_of(job_of(training=training)) == (
        Stretch(rows=7, steps=5000, looked_at=100, compiled=True),  # 7 members, of which 4 stay
        Stretch(rows=7, steps=5000, looked_at=100, compiled=False),  # 4 on 7 rows
        Stretch(rows=2, steps=10_000, looked_at=150, compiled=True),
        Stretch(rows=1, steps=20_000, looked_at=200, compiled=True),
        Stretch(rows=1, steps=10_000, looked_at=150, compiled=False),
    )


def test_a_population_is_not_made_anew_for_its_last_steps() -> None:
    training = Training(
        steps=9000, eval_every=2500, eval_examples=10, test_examples=50, halving=Halving(first=4500, factor=7)
    )
    assert stretches_of(job_of(training=training)) == (
        Stretch(rows=7, steps=4500, looked_at=2 * 10 + 50, compiled=True),
        Stretch(rows=7, steps=4500, looked_at=3 * 10 + 50, compiled=False),
    )


def test_members_beyond_the_seats_come_later() -> None:
    training = Training(steps=1000, eval_every=1000, eval_examples=10, test_examples=50)
    assert [one.rows for one in stretches_of(job_of(members=130, training=training))] == [64, 64, 2]


def study_with(training: Training) -> Study:
    study = only(study_of("s-fig3", Settings()), "index-lookup")
    (panel,) = study.panels
    cells = tuple(
        replace(cell, column=n, jobs=(job_of(training=training, n=n),))
        for cell, n in zip(panel.cells, (20, 40), strict=False)
    )
    return replace(study, panels=(replace(panel, cells=cells),))


TRAINING = Training(
    steps=50_000, eval_every=1000, eval_examples=64, test_examples=640, precision="bfloat16", stop="first",
    solved=0.999, halving=Halving(first=10_000, factor=7),
)  # fmt: skip
KNOWN = Rates(
    [rate(0.004, n=n, length=n + 1, members=members, start=30.0) for n in (20, 40) for members in (7,)]
    + [rate(0.001, n=20, length=21, members=1)]
)


def test_a_projection_adds_up_steps_looks_tests_and_compiling() -> None:
    study = study_with(TRAINING)
    found = projection_of(study, rates=KNOWN)
    # 10,000 steps of seven, 10 looks and a test of ten batches, then 40,000 of one with as much again. The
    # longest goes first; its first population is compiled, all others have been by then.
    first = 10 + 0.004 * (10_000 + 10 + 10) + 10 + 0.001 * (40_000 + 40 + 10)
    second = 30 + 0.004 * (10_000 + 10 + 10) + 10 + 0.001 * 41 / 21 * (40_000 + 40 + 10)
    assert [one.seconds for one in found.jobs] == [pytest.approx(first), pytest.approx(second)]
    assert found.seconds == pytest.approx(first + second)
    assert found.minutes == pytest.approx(found.seconds / 60)
    assert found.hours == found.ended_hours == pytest.approx(found.seconds / 3600)
    assert found.basis == {"measured": pytest.approx(0.6), "scaled": pytest.approx(0.4), "not measured": 0}
    assert found.halving
    words = "2 populations take at most about 4.3 minutes on one H200 with halving."
    assert found.lines() == [
        f"{words} Rates of their steps: 60 % measured, 40 % scaled.",
        f"The longest is mamba-(2,64) on index-lookup at 40: {second / 60:.1f} minutes.",
    ]
    json.dumps(found.to_fields(), allow_nan=False)


def test_a_second_process_that_compiles_too_slowly_is_waited_for() -> None:
    """Compiling takes 300 s, so that the populations behind the first are ready after 300, 600 and 900."""
    slow = Rates(replace(one, start_seconds=300.0) for one in KNOWN.measured)
    found = projection_of(study_with(TRAINING), rates=slow)
    seven, alone = 0.004 * 10_020, 0.001 * 40_050
    one_of_40 = 41 / 21 * alone
    second = 300 + seven + 10 + one_of_40
    waited = 600 - second + 10
    first = waited + seven
    assert 10 < waited < 300
    waited = 900 - (second + first) + 10
    assert 10 < waited < 300
    first += waited + alone
    assert [one.seconds for one in found.jobs] == [pytest.approx(first), pytest.approx(second)]


def test_abreast_populations_end_sooner_by_what_they_were_seen_to_gain() -> None:
    study = study_with(TRAINING)
    gains = Gains([gain(1.5, of=2, n=40, length=41, positions=41, members=1)])
    found = projection_of(study, abreast=2, rates=KNOWN, gains=gains)
    seven, one_of_20, one_of_40 = 0.004 * 10_020, 0.001 * 40_050, 0.001 * 41 / 21 * 40_050
    # The longer one is compiled until 30 s and then has the card for itself, until the other is at 60 s.
    # With seven members they gain nothing, and whoever has one left begins with that after 10 s more.
    longer_is_one = 60 + 2 * (seven - 30) + 10
    shorter_has_left = seven - (seven - 30) - 10
    longer_has_left = one_of_40 - 0.75 * 2 * shorter_has_left - 10
    both_are_one = longer_is_one + 2 * shorter_has_left + 10
    longer_ends = both_are_one + longer_has_left / 0.75
    shorter_ends = longer_ends + one_of_20 - longer_has_left
    assert [one.seconds for one in found.jobs] == [pytest.approx(shorter_ends), pytest.approx(longer_ends)]
    assert found.seconds == pytest.approx(shorter_ends)
    in_turn = projection_of(study, rates=KNOWN, gains=gains)
    assert found.seconds_in_turn == in_turn.seconds == in_turn.seconds_in_turn
    first, second, *_ = found.lines()
    assert first.startswith(
        f"2 populations take at most about {found.minutes:.1f} minutes on one H200 with halving, 2 abreast. "
    )
    assert second == (
        f"One after another it would be about {in_turn.minutes:.1f} minutes; a population that has not been "
        "seen to gain abreast is taken to gain nothing."
    )
    fields: Any = found.to_fields()
    assert (fields["abreast"], fields["hours_in_turn"]) == (2, in_turn.hours)


def test_rows_that_are_not_given_up_cost_on_and_nothing_is_compiled_anew() -> None:
    four_of_seven = replace(TRAINING, halving=Halving(first=30_000))
    found = projection_of(study_with(four_of_seven), rates=KNOWN)
    assert found.jobs[0].seconds == pytest.approx(10 + 0.004 * (50_000 + 50 + 2 * 10))


def test_without_halving_all_members_go_to_the_end() -> None:
    found = projection_of(study_with(TRAINING), halving=False, rates=KNOWN)
    steps = 0.004 * (50_000 + 50 + 10)
    assert [one.seconds for one in found.jobs] == [pytest.approx(10 + steps), pytest.approx(30 + steps)]
    assert not found.halving
    assert found == projection_of(study_with(replace(TRAINING, halving=None)), rates=KNOWN)
    with pytest.raises(InvalidInput, match=r"s-fig3 at --budget smoke drops nobody"):
        projection_of(study_with(replace(TRAINING, halving=None)), halving=True)


def test_a_job_ends_where_a_run_with_one_of_its_rates_has_solved_the_task() -> None:
    study = study_with(TRAINING)
    solved, other = study.jobs
    runs = [
        fake_run(solved, 2, solved_at=20_500, steps=20_500),
        fake_run(solved, 3, solved_at=30_000, steps=30_000),
        fake_run(replace(solved, members=(Member(lr=0.7),)), solved_at=5000, steps=5000),  # another rate
        fake_run(other),
    ]
    found = projection_of(study, solved=runs, rates=KNOWN)
    assert [one.solved_at for one in found.jobs] == [21_000, None]  # at the next look
    ended = 10 + 0.004 * (10_000 + 10 + 10) + 10 + 0.001 * (11_000 + 11 + 10)
    assert [one.ended for one in found.jobs] == [pytest.approx(ended), found.jobs[1].seconds]
    assert found.ended_hours < found.hours
    assert found.lines()[1] == (
        "Runs have solved the tasks of 1 of them; if these end where they did, it is about "
        f"{60 * found.ended_hours:.1f} minutes."
    )


def test_what_was_not_measured_is_said() -> None:
    study = study_with(replace(TRAINING, precision="float32"))
    found = projection_of(study, rates=KNOWN)
    assert [one.seconds for one in found.jobs] == [None, None]
    assert (found.seconds, found.basis["not measured"]) == (0, 1)
    assert found.lines() == ["How fast its populations are on an H200 was not measured."]
    assert projection_of(replace(study, panels=())).lines() == ["Nothing is trained."]
    first, _ = study_with(TRAINING).jobs
    cells = study.panels[0].cells
    mixed = (replace(cells[0], jobs=(first,)), replace(cells[1], jobs=study.jobs[1:]))
    half = projection_of(replace(study, panels=(replace(study.panels[0], cells=mixed),)), rates=KNOWN)
    assert half.seconds == half.jobs[0].seconds
    assert "Rates of 1 were not measured; their time is not in it." in half.lines()


@pytest.mark.slow
def test_s_studies_cost_less_with_halving_and_every_job_has_a_time() -> None:
    for name in ("s-fig2", "s-fig3", "s-fig4"):
        study = study_of(name, PAPER)
        thinned, whole = projection_of(study), projection_of(study, halving=False)
        assert 0 < thinned.hours < whole.hours
        assert thinned.basis["not measured"] == whole.basis["not measured"] == 0
        assert projection_of(study_of(name, Settings(budget="quick"))).hours < thinned.hours


# The benchmark that measures, and the one that reports.


def test_rates_come_out_of_a_store_of_runs(tmp_path: Path) -> None:
    store = Store(tmp_path)
    training = Training(precision="bfloat16", steps=3000, eval_every=1000, stop="first")
    on_card = {"device": "NVIDIA H200", "torch": "2.11.0", "steps_per_second": 50.0}
    plans = [
        (job_of(members=3, training=training), 3000, on_card),
        (job_of(members=3, training=training, n=30), 1000, on_card),  # mostly compiling
        (job_of(members=3, training=training, n=40), 3000, {**on_card, "device": "x86_64"}),
        (job_of(members=3, training=training, n=50), 3000, {**on_card, "steps_per_second": None}),
        (job_of(members=3, training=replace(training, halving=Halving(first=2000)), n=60), 3000, on_card),
        (job_of(members=3, training=replace(training, halving=Halving(first=2000)), n=70), 2000, on_card),
        (job_of(members=2, training=replace(training, stop="each"), n=80), 3000, on_card),
        (job_of(members=3, training=training, n=90), 3000, {**on_card, "abreast": True}),  # on a shared card
    ]
    for job, steps, provenance in plans:
        for run in store.begin_all([job.config_of(member) for member in job.members], population=job.key):
            store.finish(run.key, Result(status="done", steps=steps, provenance=provenance))
    found = [one for one in step_rates.gathered(store.runs(), (), measured=()) if one.how == "run"]
    assert [one.size for one in found] == [size_of(plans[place][0]) for place in (0, 5, 6)]
    assert all(one.steps_per_second == 50 for one in found)


def test_what_was_measured_once_can_be_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "rates.json"
    monkeypatch.setattr(step_rates, "FIGURES", ("s-fig3",))
    monkeypatch.setattr(step_rates, "MEASURED", out)
    told = {"steps_per_second": 20.0, "start_seconds": 30.0, "device": "NVIDIA H200", "torch": "2.11.0"}
    three = [size_of(job) for job in study_of("s-fig3", Settings(budget="paper")).jobs[:3]]
    rows = [{"size": vars(size), **told} for size in three]
    out.write_text(json.dumps({"rows": rows, "again": rows[:1]}))

    def measured(jobs: Sequence[Job], _: float) -> Iterator[dict[str, Any]]:
        for job in jobs:
            yield {"size": vars(size_of(job)), **told}

    step_rates.measure(5, out, again=True, measured=measured)
    kept = json.loads(out.read_text())
    assert kept["rows"] == rows
    assert kept["again"][0] == rows[0]
    assert sorted(map(str, kept["again"])) == sorted(map(str, rows))


@pytest.mark.slow
@pytest.mark.parametrize("lengths", get_args(Lengths))
def test_what_most_hours_rest_on_is_measured_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lengths: Lengths
) -> None:
    out, asked = tmp_path / "rates.json", []
    monkeypatch.setattr(step_rates, "FIGURES", ("s-fig3",))
    monkeypatch.setattr(step_rates, "MEASURED", tmp_path / "none.json")
    known = [rate for rate in rates_measured().measured if rate.size.task != "q-sparse-averaging"]
    monkeypatch.setattr(step_rates, "rates_measured", lambda: Rates(known))

    def measured(jobs: Sequence[Job], seconds: float) -> Iterator[dict[str, Any]]:
        assert seconds == 300
        for job in jobs:
            size = size_of(job)
            assert size is not None
            asked.append(size)
            if len(asked) == 3:
                raise KeyboardInterrupt
            row = {"size": vars(size), "steps_per_second": 20.0, "start_seconds": 30.0, "gains": {"4": 1.5}}
            yield {**row, "device": "NVIDIA H200", "torch": "2.11.0"}

    for _ in range(2):  # the second call does not ask again for what the first has kept
        with pytest.raises(KeyboardInterrupt):
            step_rates.measure(5, out, lengths=lengths, measured=measured)
        kept, first = asked, asked[:3]
        asked = []
    assert len(set(first)) == 3
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 4
    assert len({Size(**row["size"]) for row in rows}) == 4
    assert kept[0] not in [Size(**row["size"]) for row in rows[:2]]
    whole = Size(**rows[0]["size"])
    assert whole.task == "q-sparse-averaging"  # nothing at all is known of it
    large = Size(**rows[1]["size"])
    assert (large.width, large.n, large.bands) == (1024, 400, 4 if lengths == "bands" else 1)
    assert large.is_paired == (lengths == "pairs")
    (rate,) = (one for one in step_rates.gathered([], [], measured=rows) if one.size == large)
    assert rate.start_seconds is None  # compiled beside others, which says nothing of one alone


def test_the_report_is_that_of_the_figures() -> None:
    data = json.loads(reproduction.DATA.read_text())
    assert reproduction.DATA.with_suffix(".md").read_text() == reproduction.written(data)
    assert set(data["experiments"]["s-fig2"]) == set(reproduction.CASES)


def test_hours_abreast_are_held_against_two_trainings_of_one_set_of_different_populations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiments = json.loads(reproduction.DATA.read_text())["experiments"]
    short, long = (
        {
            "populations": ["a", "b", "c", "d"],
            "members": 1,
            "abreast": LANES,
            "device": "NVIDIA H200",
            "seconds": [alone / 2 + 4],
            "seconds_in_turn": [alone + 4],
            "reckoned": {"1": alone + 40, str(LANES): alone / 4 + 40},
        }
        for alone in (40.0, 400.0)
    )
    equal = {**long, "populations": ["a"] * 4, "seconds_in_turn": [4000.0]}
    fewer = {**long, "abreast": 2, "seconds_in_turn": [4000.0], "reckoned": {"1": 0.0, "2": 0.0}}
    path = tmp_path / "trainings.json"
    monkeypatch.setattr(reproduction, "TRAININGS", path)
    for rows, said in (
        ([], None),
        ([long, equal], None),
        (
            [long, equal, short, fewer],
            "took\n1.00 times what is reckoned of it one after another and 2.00 times",
        ),
    ):
        path.write_text(json.dumps(rows))
        note = reproduction._note(experiments)
        assert (said is None) == (note == reproduction.ABREAST_NOTE)
        assert said is None or said in note
        assert said is None or "over the bar of 12 h" in note


@pytest.mark.slow
def test_a_report_is_made_of_any_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduction, "EXPERIMENTS", _Only(("s-fig2", "s-fig3", "s-fig4", "r-qsa")))
    smaller = {"grid": (PAPER, 1), "grid, halving": (PAPER, 1)}
    monkeypatch.setattr(reproduction, "CASES", {**reproduction.CASES, **smaller})
    job = study_of("s-fig2", PAPER).jobs[0]
    data = reproduction.data_of(reproduction.projected([fake_run(job, 0, solved_at=2500, steps=2500)]))
    page = reproduction.written(json.loads(json.dumps(data, allow_nan=False)))
    assert data["experiments"]["s-fig2"]["final"]["solved"] == 1
    assert "| 1 of 50 |" in page
    assert "| ≤ 12 h |" in page
    assert "| ≤ 40 h |" in page
    assert f"| {LANES} abreast |" in page
    for name in step_rates.FIGURES:
        cases = data["experiments"][name]
        assert cases["final, halving, abreast"]["hours"] <= cases["final, halving"]["hours"]


class _Only:
    """A few experiments of those there are."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def names(self) -> tuple[str, ...]:
        return self._names
