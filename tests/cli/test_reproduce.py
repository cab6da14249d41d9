"""`separatrix reproduce`: what is listed, run, shown, priced, kept and gone on with."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from separatrix.cli import experimenting, reproduced
from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.asked import Asked, last_asked
from separatrix.experiments.cells import Study
from separatrix.experiments.cluster import ray_connection
from separatrix.experiments.cluster.ray_engine import RayEngine
from separatrix.experiments.engines import Engine, Ran, Tell
from separatrix.experiments.illustrations import Illustration
from separatrix.experiments.local import LocalEngine
from separatrix.experiments.protocols import Settings
from separatrix.store import Store
from separatrix.store.bundles import bundle_runs, read_bundle
from separatrix.training import Job, Member
from tests.cli.running import run
from tests.cli.small_experiments import (
    MEMBERS,
    ONE,
    STEPS,
    narrow,
    no_training,
    reproduce,
    settled,
    tiny,
    without,
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store of a test."""
    return settled(tmp_path, monkeypatch)


@pytest.mark.slow
def test_without_a_name_they_are_listed() -> None:
    ran = reproduce()
    narrow(ran.out)
    assert ran.err == ""
    for words in ("s-fig2", "S, figure 2", "w-hotpot", "tiny", "Bhattamishra"):
        assert words in ran.out
    entries = {entry["name"]: entry for entry in reproduce("--json").answer["experiments"]}
    assert entries["tiny"]["cells"] == {"smoke": 5, "quick": 5, "paper": 5}
    assert entries["s-fig2"]["cells"]["paper"] == 50
    assert 0 < entries["s-fig2"]["h200_minutes_quick"] < 60
    assert entries["w-hotpot"]["h200_minutes_quick"] is None


@pytest.mark.slow
def test_help_needs_no_torch() -> None:
    script = (
        "import sys; from separatrix.cli import main\n"
        "codes = [main(['reproduce', '--help']), main(['reproduce', 's-fg2'])]\n"
        "print(codes, 'torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[0, 2] False"


@pytest.mark.slow
def test_jobs_are_numbered_and_told_apart_abreast(place: Path) -> None:
    ran = reproduce("tiny", "--abreast", "2", "--device", "cpu")
    assert ran.code == 0
    jobs = [line for line in ran.err.splitlines() if line.startswith("Job ")]
    assert len(jobs) > 1
    assert [line.split(":")[0] for line in jobs] == [
        f"Job {number} of {len(jobs)}" for number in range(1, len(jobs) + 1)
    ]
    asked = last_asked("tiny", place)
    assert asked is not None
    assert asked.abreast == 2
    again = reproduce("tiny", "--resume", "--out", "again")
    assert "jobs are in the store already" in again.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--abreast", "0"), "Between 1 and 32 jobs are done at a time; got abreast=0."),
        (("--abreast", "33"), "Between 1 and 32 jobs are done at a time; got abreast=33."),
        (("--abreast", "2", "--processes", "2"), "in one process, or in several processes; got abreast=2"),
        (("--abreast", "2", "--engine", "ray"), "--abreast is for --engine local; this one is ray."),
    ],
)
def test_abreast_where_it_makes_no_sense_is_refused(words: tuple[str, ...], said: str) -> None:
    for how in ((), ("--plan",)):
        ran = run("reproduce", *ONE, *words, *how)
        assert ran.code == 2
        assert said in ran.err


@pytest.mark.slow
def test_a_study_is_trained_printed_and_written(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = reproduce("tiny")
    narrow(ran.out)
    for words in ("tiny  Index lookup, small", "S, nowhere; --budget smoke", "a coin", "Words."):
        assert words in ran.out
    assert "out/reproduce/tiny\n" in ran.out
    narrow(ran.err)
    assert ran.err.splitlines()[:2] == ["4 jobs to do, the longest first.", ran.err.splitlines()[1]]
    numbered = [line for line in ran.err.splitlines() if line.startswith("Job ")]
    assert [line.partition(":")[0] for line in numbered] == [f"Job {k} of 4" for k in range(1, 5)]
    folder = tmp_path / "out" / "reproduce" / "tiny"
    assert "| TF-(1,8) | 2 |" in (folder / "table.md").read_text(encoding="utf-8")
    assert "TF-(1,8)" in (folder / "table.csv").read_text(encoding="utf-8")
    numbers = json.loads((folder / "outcome.json").read_text(encoding="utf-8"))
    assert [cell["state"] for cell in numbers["panels"][0]["cells"]] == ["done"] * 4
    assert len(Store(place).runs()) == 4 * MEMBERS
    no_training(monkeypatch)
    (folder / "table.md").unlink()
    monkeypatch.setattr(reproduced, "write_figures", lambda outcome, folder: [])
    again = reproduce("tiny")
    assert again.err == "4 of 4 jobs are in the store already.\n"
    assert again.out == ran.out
    assert (folder / "table.md").exists()


def test_json_is_one_object_and_all_there_is(tmp_path: Path) -> None:
    ran = reproduce(*ONE, "--json")
    assert ran.err == ""
    answer = ran.answer
    assert (answer["experiment"], answer["budget"]) == ("tiny", "smoke")
    assert (answer["failed"], answer["interrupted"], answer["kept"]) == ([], False, None)
    for entry in answer["runs"]:
        low, high = entry["interval"]
        assert low <= entry["accuracy"] <= high
        assert entry["steps"] == entry["config"]["training"]["steps"] == STEPS
        assert entry["seconds"] > 0
    best = max(entry["accuracy"] for entry in answer["runs"])
    (panel,) = answer["panels"]
    (cell,) = panel["cells"]
    assert (cell["row"], cell["column"], cell["accuracy"]) == ("TF-(1,8)", 2, best)
    assert {Path(name).name for name in answer["files"]} == {"table.md", "table.csv", "outcome.json"}


@pytest.mark.slow
def test_figures_and_illustrations_are_in_three_formats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    from separatrix.experiments.figures import write_figures

    asked: list[Store] = []

    def illustrate(store: Store) -> Sequence[Illustration]:
        asked.append(store)
        picture = Illustration(name="seen", caption="What was seen.", record=Asked(name="tiny"), draw=Figure)
        return [picture]

    def drawn(settings: Settings) -> Study:
        return replace(tiny("tiny")(settings), illustrate=illustrate)

    monkeypatch.setitem(EXPERIMENTS._entries, "tiny", drawn)
    monkeypatch.setattr(reproduced, "write_figures", write_figures)
    ran = reproduce("tiny", "--panels", "guesses", "--out", "figures")
    assert "What was seen." in ran.out
    assert "2 figures (png, svg, pdf), table.md" in ran.out
    assert ran.out.endswith("figures\n")
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    pictures = {f"{name}.{kind}" for name in ("tiny-guesses", "seen") for kind in ("png", "svg", "pdf")}
    assert names == {*pictures, "seen.json", "table.md", "table.csv", "outcome.json"}
    assert len(asked) == 1


def test_several_and_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "w-hotpot", "s-fig2")
    ran = reproduce("tiny", "other", "tiny", "--panels", "guesses", "--out", "figs", "--json")
    answers = ran.answer["experiments"]
    assert [answer["experiment"] for answer in answers] == ["tiny", "other"]
    assert (ran.answer["runs"], ran.answer["failed"], ran.answer["interrupted"]) == ([], [], False)
    assert sorted(path.name for path in (tmp_path / "figs").iterdir()) == ["other", "tiny"]
    every = reproduce("all", "--rows", "TF", "--columns", "2", "--json").answer
    assert [answer["experiment"] for answer in every["experiments"]] == ["tiny", "other"]
    assert len(every["runs"]) == 2 * MEMBERS


def test_of_all_what_cannot_be_run_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "s-fig2", "other")
    ran = run("reproduce", "all", "--budget", "quick", "--device", "cpu")
    assert ran.code == 0
    assert "w-hotpot is left out: w-hotpot asks models that you have on disk" in ran.err
    assert "tiny  Index lookup, small" in ran.out


def test_a_plan_trains_nothing_and_makes_no_store(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = reproduce("tiny", "--seeds", "0", "1", "2", "--plan", "--json").answer
    assert (answer["cells"], answer["measured"], answer["jobs"], answer["left"]) == (5, 1, 4, 4)
    assert (answer["members"], answer["steps"]) == (4 * 6, 4 * 6 * STEPS)
    assert not place.exists()
    reproduce(*ONE, "--json")
    no_training(monkeypatch)
    text = reproduce("tiny", "--plan").out
    narrow(text)
    assert "4, 1 of them in the store already" in text
    assert last_asked("tiny", place) == Asked(name="tiny", rows=("TF",), columns=(2,))
    fields = reproduce("tiny", "--plan", "--abreast", "4", "--json").answer["projection"]
    assert fields["abreast"] == 4
    both = reproduce("tiny", "other", "--plan")
    assert "Together at most about" in both.out
    assert len(reproduce("tiny", "other", "--plan", "--json").answer["experiments"]) == 2


@pytest.mark.slow
def test_the_plan_of_a_paper_has_its_price() -> None:
    ran = reproduce("s-fig2", "--budget", "paper", "--plan")
    narrow(ran.out)
    assert "50 populations take at most about" in " ".join(ran.out.split())
    assert "with halving, 4 abreast." in " ".join(ran.out.split())
    answer = reproduce("s-fig2", "--budget", "paper", "--plan", "--json").answer
    assert answer["h200_minutes"] > 60
    usual = answer["projection"]
    assert usual["abreast"] == 4
    assert 0 < usual["hours"] < 0.9 * usual["hours_in_turn"]
    for other in (("--abreast", "1"), ("--processes", "2"), ("--device", "cpu")):
        asked = reproduce("s-fig2", "--budget", "paper", "--plan", "--json", *other).answer["projection"]
        assert (asked["abreast"], asked["proposed"]) == (1, None), "the user has chosen"
        assert asked["hours"] == usual["hours_in_turn"]


@pytest.mark.parametrize(("given", "lanes"), [(None, 4), (1, 1), (2, 2)])
def test_who_says_how_many_at_once_gets_them_on_any_gpu(given: int | None, lanes: int) -> None:
    engine = experimenting.local_engine(Asked(name="s-fig2", budget="paper", abreast=given))
    assert (engine.abreast, engine.with_room) == (lanes, given is None)


def test_a_plan_for_a_gpu_needs_none() -> None:
    assert reproduce("tiny", "--budget", "paper", "--plan", "--device", "cuda").code == 0


@pytest.mark.slow
def test_the_plan_of_a_quick_look_says_what_more_at_once_would_save() -> None:
    assert "With --abreast 4 all of it would take about" in " ".join(
        reproduce("s-fig2", "--budget", "quick", "--plan").out.split()
    )
    proposed = reproduce("s-fig2", "--budget", "quick", "--plan", "--json").answer["projection"]
    assert (proposed["abreast"], proposed["proposed"]["abreast"]) == (1, 4)
    assert 0 < proposed["proposed"]["hours"] < 0.9 * proposed["hours"]


def test_show_has_the_store_and_what_is_published(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    reproduce("tiny", "--rows", "TF", "--columns", "3", "--store", str(elsewhere), "--json")
    there = Store(elsewhere)
    bundle_runs(there, there.runs(), tmp_path / "results" / "tiny")
    (tmp_path / "results" / "broken").mkdir()
    (tmp_path / "results" / "broken" / "runs.parquet").write_bytes(b"nothing")
    monkeypatch.setattr(experimenting, "results_folder", lambda: tmp_path / "results")
    no_training(monkeypatch)

    ran = reproduce("tiny", "--show", "--json")
    assert "broken" in ran.err
    cells = [cell for panel in ran.answer["panels"] for cell in panel["cells"]]
    done = [(cell["row"], cell["column"]) for cell in cells if cell["state"] == "done"]
    assert done == [("TF-(1,8)", 3), ("guess", 2)]
    assert not place.exists()


def test_show_merges_and_writes_only_where_told(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for column, store in (("2", place), ("3", tmp_path / "elsewhere")):
        reproduce(
            "tiny", "--rows", "TF", "--columns", column, "--store", str(store), "--json", "--out", column
        )
    there = Store(tmp_path / "elsewhere")
    bundle_runs(there, there.runs(), tmp_path / "results" / "tiny")
    monkeypatch.setattr(experimenting, "results_folder", lambda: tmp_path / "results")
    no_training(monkeypatch)
    answer = reproduce("tiny", "--show", "--json").answer
    done = [cell["column"] for cell in answer["panels"][0]["cells"] if cell["state"] == "done"]
    assert done == [2, 3]
    assert len(answer["runs"]) == 2 * MEMBERS
    assert answer["files"] == []
    assert not (tmp_path / "out").exists()
    assert reproduce("tiny", "--show", "--out", "here", "--json").answer["files"]
    kept = reproduce("tiny", "--show", "--keep", "kept", "--json").answer["kept"]
    assert {run.n for run in read_bundle(kept).runs} == {2}, "what is published is not the store's to keep"


def test_a_wide_table_fits_a_terminal() -> None:
    ran = reproduce("s-fig2", "--show", "--budget", "paper")
    narrow(ran.out)
    assert "not run" in ran.out
    assert "near-perfect" in ran.out


def test_runs_are_kept_beside_those_there(place: Path, tmp_path: Path) -> None:
    first = reproduce(*ONE, "--keep", "results")
    assert "Finished runs are bundled in\nresults/tiny\n" in first.out
    assert len(read_bundle(tmp_path / "results" / "tiny").runs) == MEMBERS
    answer = reproduce("tiny", "--rows", "TF", "--keep", "results", "--out", "o", "--json").answer
    assert answer["kept"] == str(tmp_path / "results" / "tiny")
    bundle = read_bundle(tmp_path / "results" / "tiny")
    assert (bundle.name, len(bundle.runs)) == ("tiny", 2 * MEMBERS)
    assert (
        reproduce("tiny", "--panels", "guesses", "--keep", "other", "--out", "p", "--json").answer["kept"]
        is None
    )


def test_resume_needs_no_flags(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reproduce("tiny", "--rows", "TF", "--columns", "2", "--seeds", "5", "--out", "figs", "--json")
    asked = Asked(name="tiny", rows=("TF",), columns=(2,), seeds=(5,), out=tmp_path / "figs")
    assert last_asked("tiny", place) == asked
    no_training(monkeypatch)
    monkeypatch.setattr(reproduced, "write_figures", lambda outcome, folder: [])
    monkeypatch.chdir(place)  # elsewhere the paths mean the same
    ran = reproduce("tiny", "--resume")
    assert ran.err.startswith("tiny goes on at --budget smoke, as it was asked for last.\n")
    assert ran.out.endswith(f"{tmp_path / 'figs'}\n")
    assert ran.out.count("TF-(1,8)") == 1
    assert last_asked("tiny", place) == asked
    without(monkeypatch, "w-hotpot", "s-fig2")
    every = reproduce("all", "--resume", "--json").answer["experiments"]
    assert [answer["experiment"] for answer in every] == ["tiny"]


def test_what_is_given_goes_before_what_was_asked(place: Path) -> None:
    reproduce(*ONE, "--json")
    reproduce("tiny", "--columns", "3", "--resume", "--out", "o", "--json")
    assert last_asked("tiny", place) == Asked(
        name="tiny", rows=("TF",), columns=(3,), out=Path("o").absolute()
    )
    begun = reproduce("other", "--budget", "smoke", "--panels", "guesses", "--resume", "--out", "p", "--json")
    assert begun.answer["experiment"] == "other"


def test_a_cluster_is_connected_once_and_answers_stay_answers(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    @contextmanager
    def connected(address: str | None) -> Iterator[None]:
        asked.append(address)
        with redirect_stdout(sys.stderr):  # as the real one does
            yield

    def here(self: RayEngine, jobs: Sequence[Job], store: Store, *, tell: Tell) -> Ran:
        asked.append(self.gpus_per_job)
        return LocalEngine(device="cpu").run(jobs, store, tell=tell)

    monkeypatch.setattr(ray_connection, "connected", connected)
    monkeypatch.setattr(RayEngine, "run", here)
    cluster = ("--engine", "ray", "--address", "10.0.0.1:6379", "--gpus-per-job", "0.25")
    ran = reproduce(*ONE, *cluster, "--json")
    assert asked == ["10.0.0.1:6379", 0.25]
    assert len(ran.answer["runs"]) == MEMBERS
    assert reproduce("tiny", "--resume", "--out", "o", "--json").answer["interrupted"] is False
    assert len(asked) == 2, "nobody asks a cluster for what the store has"


def test_a_search_takes_the_place_of_the_grid(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def search(study: Study, store: Store, *, trials: int, engine: Engine, tell: Any, seats: int) -> Ran:
        asked.append((trials, seats))
        (job,) = study.jobs
        return engine.run([replace(job, members=(Member(lr=3e-3, seed=0),))], store, tell=tell)

    monkeypatch.setattr(experimenting, "search_study", search)
    ran = reproduce(*ONE, "--search", "optuna", "--trials", "3", "--seats", "2", "--json")
    assert asked == [(3, 2)]
    assert [entry["config"]["member"]["lr"] for entry in ran.answer["runs"]] == [3e-3]
    plan = reproduce(*ONE, "--search", "optuna", "--trials", "3", "--plan").out
    assert "up to 3 runs for each of 1 cells" in plan
    assert (
        "up to 1 runs for each of 0 cells"
        in reproduce(*ONE, "--search", "optuna", "--trials", "1", "--plan").out
    )


def test_second_looks_are_no_search(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experimenting, "search_study", lambda *_, **__: Ran(done=0))
    study = Asked(name="tiny", rows=("TF",), columns=(2,)).study()
    (job,) = study.jobs
    asked = Asked(name="tiny", search="optuna")
    done: list[Job] = []

    class Recorded:
        def run(self, jobs: Sequence[Job], store: Store, *, tell: Any) -> Ran:
            done.extend(jobs)
            return Ran(done=len(jobs))

    engine = experimenting._Searching(Recorded(), study, asked)
    other = replace(job, members=(Member(lr=0.5, seed=9),))
    engine.run([job], Store(place), tell=print)
    engine.run([other], Store(place), tell=print)
    assert done == [other]
