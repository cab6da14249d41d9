"""A search has no memory but the store: killed at any moment, it asks for what it would have asked for."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from separatrix.errors import InvalidInput
from separatrix.experiments import study_of
from separatrix.experiments.cells import Cell, Panel, Study, chosen
from separatrix.experiments.engines import Failure, Ran, Tell
from separatrix.experiments.protocols import Settings
from separatrix.experiments.searching import Space, found_in, next_job, search, search_study, space_of
from separatrix.models.lstm import LSTM
from separatrix.store import Result, Status, Store, key_of
from separatrix.tasks import task
from separatrix.training import Halving, Job, Member, Training, run_job
from separatrix.training.jobs import job_for

TRAINING = Training(
    steps=8, batch=4, eval_every=4, eval_examples=10, test_examples=10, stop="each", solved=1.0
)
WIDTHS, LAYERS = (8, 16, 32), (1, 2)


def job(
    width: int, layers: int = 1, *, n: int = 4, training: Training = TRAINING, rates: Any = (1e-3, 1e-2)
) -> Job:
    return job_for(
        task("index-lookup", n=n, alphabet=4),
        LSTM.Config(width=width, layers=layers),
        members=[Member(lr=lr, schedule="cosine", warmup=2) for lr in rates],
        training=training,
    )


GRID = [job(width, layers) for width in WIDTHS for layers in LAYERS]
SPACE = space_of(GRID)


def value_of(run_job: Job, member: Member) -> float:
    """Best at width 16, two layers and a rate of 3e-4."""
    params: Any = run_job.model.params
    away = abs(math.log10(member.lr / 3e-4)) / 4
    wrong = 0.2 * (params["width"] != 16) + 0.1 * (params["layers"] != 2)
    return float(0.9 - 0.4 * away - wrong)


class Pretended:
    """Writes down what a training would have come to; dies before the member that `dies_at` counts."""

    def __init__(self, store: Store, *, dies_at: int = 10**9, status: Status = "done") -> None:
        self.store, self.dies_at, self.status, self.jobs = store, dies_at, status, list[Job]()

    def __call__(self, jobs: Sequence[Job]) -> None:
        for each in jobs:
            self.jobs.append(each)
            configs = [each.config_of(member) for member in each.members]
            self.store.begin_all(configs, population=each.key)
            for member, config in zip(each.members, configs, strict=True):
                if self.store.run(key_of(config)).finished:
                    continue
                self.dies_at -= 1
                if self.dies_at < 0:
                    raise KeyboardInterrupt
                right = round(1000 * value_of(each, member))
                self.store.finish(
                    key_of(config), Result(status=self.status, steps=8, correct=right, examples=1000)
                )


@pytest.mark.slow
def test_the_space_of_the_papers_grid() -> None:
    study = study_of("s-fig2", Settings(budget="paper", grid="full"))
    [cell] = chosen(study, panels=["index-lookup"], rows=["TF"], columns=[400]).cells
    space = space_of(cell.jobs)
    assert space.choices == {"layers": (1, 2, 4, 6), "width": (64, 128, 256, 512), "heads": (4, 8)}
    assert (space.lowest, space.highest) == (1e-6, 1e-2)
    assert space_of(cell.jobs[:1]).choices == {}


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ([], "none was given"),
        ([job(8), job(8, n=5)], "one model on one task"),
        ([job(8), job(8, training=replace(TRAINING, steps=9))], "one model on one task"),
        ([job(8, 1), job(16, 2)], "every choice of layers, width with every other"),
    ],
)
def test_jobs_that_make_no_space(jobs: list[Job], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        space_of(jobs)


def test_rates_need_two_ends() -> None:
    with pytest.raises(InvalidInput, match="two that differ"):
        space_of(GRID, lowest=1e-2, highest=1e-3)
    with pytest.raises(InvalidInput, match="no parameter of a model"):
        Space(template=GRID[0], choices={"lr": (1, 2)})


@pytest.mark.parametrize(
    ("other", "fits"),
    [
        (job(8), True),
        (job(32, 2, rates=(1e-6, 1e-2)), True),
        (replace(job(8), members=(Member(lr=1e-3, seed=5, schedule="cosine", warmup=2),)), True),
        (job(64), False),
        (job(8, n=5), False),
        (job(8, training=replace(TRAINING, batch=5)), False),
        (job(8, rates=(2e-2, 9e-7)), False),
        (replace(job(8), members=(Member(lr=1e-3),)), False),
    ],
)
def test_which_past_runs_lie_in_the_space(tmp_path: Path, other: Job, fits: bool) -> None:
    store = Store(tmp_path)
    Pretended(store)([other])
    assert found_in(SPACE, store).trials == (len(other.members) if fits else 0)


def test_a_job_is_one_architecture_with_several_rates(tmp_path: Path) -> None:
    store = Store(tmp_path)
    asked = next_job(SPACE, store, trials=20, seats=5)
    assert asked is not None
    assert len({member.lr for member in asked.members}) == 5
    assert all(1e-6 <= member.lr <= 1e-2 for member in asked.members)
    assert {replace(member, lr=1.0) for member in asked.members} == {replace(GRID[0].members[0], lr=1.0)}
    assert asked.model in {each.model for each in GRID}
    assert (asked.task, asked.training) == (GRID[0].task, GRID[0].training)
    assert next_job(SPACE, store, trials=20, seats=5) == asked
    assert next_job(SPACE, store, trials=20, seats=5, seed=1) != asked


@pytest.mark.slow
def test_it_finds_what_is_good(tmp_path: Path) -> None:
    store = Store(tmp_path)
    pretended = Pretended(store)
    found = search(SPACE, store, trials=60, run=pretended, seats=4)
    assert found.trials == 60
    assert sum(len(each.members) for each in pretended.jobs) == 60
    assert found.best is not None
    config: Any = found.best.config
    assert (config["model"]["params"]["width"], config["model"]["params"]["layers"]) == (16, 2)
    assert 1e-4 < config["member"]["lr"] < 1e-3
    late = [each for each in pretended.jobs[-5:] if each.model == job(16, 2).model]
    assert len(late) >= 3  # against one in six by chance


@pytest.mark.parametrize("dies_at", [0, 3, 4, 9])
def test_killed_at_any_moment_it_goes_on(tmp_path: Path, dies_at: int) -> None:
    whole, cut = Store(tmp_path / "whole"), Store(tmp_path / "cut")
    search(SPACE, whole, trials=12, run=Pretended(whole), seats=4)
    with pytest.raises(KeyboardInterrupt):
        search(SPACE, cut, trials=12, run=Pretended(cut, dies_at=dies_at), seats=4)
    search(SPACE, cut, trials=12, run=Pretended(cut), seats=4)
    assert cut.all_keys() == whole.all_keys()


def test_what_was_cut_off_is_taken_up_as_it_was(tmp_path: Path) -> None:
    store = Store(tmp_path)
    pretended = Pretended(store, dies_at=2)
    grid = job(16, 2, rates=(1e-3, 1e-4, 1e-5))
    with pytest.raises(KeyboardInterrupt):
        pretended([grid])
    assert store.populations(key_of(grid.config_of(grid.members[0]))) == (grid.key,)
    assert next_job(SPACE, store, trials=9) == grid
    with store.claim(grid.key):  # another process is at it
        other = next_job(SPACE, store, trials=9)
    assert other is not None
    assert other != grid


def test_a_population_that_is_not_whole_is_left_alone(tmp_path: Path) -> None:
    store, grid = Store(tmp_path), job(16, 2, rates=(1e-3, 1e-4))
    store.begin(grid.config_of(grid.members[0]), population=grid.key)
    asked = next_job(SPACE, store, trials=9)
    assert asked is not None
    assert asked.members[0] != grid.members[0]


def test_past_runs_count_and_a_search_that_is_over_asks_for_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    Pretended(store)(GRID)
    pretended = Pretended(store)
    found = search(SPACE, store, trials=12, run=pretended)
    assert (found.trials, pretended.jobs) == (12, [])
    search(SPACE, store, trials=13, run=pretended)
    assert [len(each.members) for each in pretended.jobs] == [1]


def test_a_solved_task_ends_the_search(tmp_path: Path) -> None:
    store = Store(tmp_path)
    Pretended(store)([job(8)])
    assert next_job(SPACE, store, trials=9) is not None
    solved = job(16, rates=(1e-4,))
    config = solved.config_of(solved.members[0])
    store.begin(config)
    store.finish(key_of(config), Result(status="done", steps=4, solved_at=4, correct=9, examples=10))
    assert next_job(SPACE, store, trials=9) is None
    assert found_in(SPACE, store).solved


def test_a_round_that_adds_nothing_ends_the_search(tmp_path: Path) -> None:
    rounds: list[Sequence[Job]] = []
    found = search(SPACE, Store(tmp_path), trials=9, run=rounds.append)
    assert (len(rounds), found.best, found.trials) == (1, None, 0)


def told(monkeypatch: pytest.MonkeyPatch, store: Store) -> list[Any]:
    import optuna

    seen: list[Any] = []
    real: Callable[..., None] = optuna.study.Study.add_trials

    def add(study: Any, trials: Any) -> None:
        seen.extend(trials)
        real(study, trials)

    monkeypatch.setattr(optuna.study.Study, "add_trials", add)
    next_job(SPACE, store, trials=100)
    return seen


@pytest.mark.parametrize(
    ("status", "state"), [("done", "COMPLETE"), ("retired", "COMPLETE"), ("dropped", "PRUNED")]
)
def test_optuna_is_told_what_became_of_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: Status, state: str
) -> None:
    store = Store(tmp_path)
    Pretended(store, status=status)([job(16, 2, rates=(3e-4,))])
    [trial] = told(monkeypatch, store)
    assert trial.state.name == state
    assert trial.params == {"lr": 3e-4, "width": 16, "layers": 2}
    assert trial.intermediate_values == {8: 0.9}
    assert trial.value == (None if state == "PRUNED" else 0.9)


class Listener(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())


def test_it_says_nothing(tmp_path: Path) -> None:
    listener = Listener()
    logging.getLogger("optuna").addHandler(listener)
    try:
        search(SPACE, Store(tmp_path), trials=3, run=Pretended(Store(tmp_path)))
    finally:
        logging.getLogger("optuna").removeHandler(listener)
    assert listener.heard == []


def test_without_optuna_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InvalidInput, match=r"pip install 'separatrix\[search\]'"):
        next_job(SPACE, Store(tmp_path), trials=3)


@pytest.mark.parametrize("given", [{"trials": 0}, {"trials": 3, "seats": 0}])
def test_counts_that_make_no_sense(tmp_path: Path, given: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match=r"[Aa]t least one"):
        next_job(SPACE, Store(tmp_path), **given)


def test_trained_for_real(tmp_path: Path) -> None:
    training = replace(TRAINING, stop="never", halving=Halving(first=4))
    space = space_of([job(width, training=training) for width in (8, 16)])
    store = Store(tmp_path)
    found = search(
        space, store, trials=6, seats=3, run=lambda jobs: [run_job(each, store=store) for each in jobs]
    )
    assert found.trials == 6
    assert {run.status for run in store.runs()} == {"done", "dropped"}


class PretendedEngine:
    """Does jobs as above, but for those of one width."""

    def __init__(self, *, refuses: int | None = None, rounds: int = 10**9) -> None:
        self.refuses, self.rounds = refuses, rounds
        self.asked: list[Sequence[Job]] = []

    def run(self, jobs: Sequence[Job], store: Store, *, tell: Tell) -> Ran:
        self.asked.append(jobs)
        refused = [each for each in jobs if each.model.params["width"] == self.refuses]
        Pretended(store)([each for each in jobs if each not in refused])
        return Ran(
            done=len(jobs) - len(refused),
            failed=tuple(Failure(job=each, reason="no") for each in refused),
            interrupted=len(self.asked) == self.rounds,
        )


def study_with(*cells: Cell) -> Study:
    panel = Panel(name="one", title="One", cells=cells)
    return Study(name="s", title="S", work="S", where="here", claim="it is", budget="smoke", panels=(panel,))


TWO = study_with(
    Cell(row="a", column=4, jobs=(job(8),)),
    Cell(row="b", column=4, jobs=(job(16),)),
)


def test_a_round_has_a_job_for_every_cell(tmp_path: Path) -> None:
    engine, said = PretendedEngine(), list[str]()
    ran = search_study(TWO, Store(tmp_path), trials=6, seats=3, engine=engine, tell=said.append)
    assert (ran.done, ran.failed, ran.interrupted) == (4, (), False)
    assert [[each.model.params["width"] for each in jobs] for jobs in engine.asked] == [[16, 8], [16, 8]]
    assert len(said) == 2


def test_a_cell_that_fails_is_not_asked_for_again(tmp_path: Path) -> None:
    engine = PretendedEngine(refuses=8)
    ran = search_study(TWO, Store(tmp_path), trials=6, seats=3, engine=engine, tell=lambda _: None)
    assert (ran.done, len(ran.failed), ran.interrupted) == (2, 1, False)


def test_an_engine_that_is_interrupted_ends_it(tmp_path: Path) -> None:
    engine = PretendedEngine(rounds=1)
    ran = search_study(TWO, Store(tmp_path), trials=6, seats=3, engine=engine, tell=lambda _: None)
    assert ran.interrupted
    assert len(engine.asked) == 1
