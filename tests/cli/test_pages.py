"""`separatrix tasks`, `describe` and `atlas`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import separatrix
from separatrix.cli.output import paragraphs
from separatrix.store import Store
from separatrix.store.bundles import bundle_runs
from separatrix.tasks import TASKS
from separatrix.theorems import THEOREMS
from tests.cli.running import COMMANDS, refused, run
from tests.store.examples import finished


def test_tasks() -> None:
    ran = run("tasks", "--json")
    assert [entry["name"] for entry in ran.answer["tasks"]] == list(TASKS.names())
    assert set(ran.answer["papers"]) == {"S", "R", "W"}
    assert ran.answer["tasks"][0] == {
        "name": "index-lookup",
        "title": "Index lookup",
        "source": "S, W",
        "summary": "Retrieve by position: the symbol that stands where the last token points.",
    }
    page = run("tasks").out
    assert all(any(line.startswith(name) for line in page.splitlines()) for name in TASKS.names())
    assert max(map(cell_len, page.splitlines())) <= 80
    assert "arXiv 2406.09347" in page


def test_describe() -> None:
    ran = run("describe", "index-lookup", "--n", "3", "--alphabet", "2", "--json")
    answer = ran.answer
    assert (answer["length"], answer["inputs"]) == (4, 34)
    assert answer["input"].items() >= {"kind": "tokens", "size": 6}.items()
    assert answer["partitions"] == {"prefix/suffix": {"alice": [0, 1, 2], "bob": [3]}}
    assert [entry["id"] for entry in answer["theorems"]] == [
        entry.id for entry in THEOREMS.values() if "index-lookup" in entry.tasks
    ]
    page = run("describe", "index-lookup", "--n", "3", "--alphabet", "2").out
    for words in ("--alphabet  2", "different inputs  34", "Alice holds 1–3; Bob holds 4", "S-T1", "W-4.6"):
        assert words in page
    assert f"→ {answer['example']['answer']}" in page


@pytest.mark.slow
def test_describe_counts_inputs_only_where_that_is_quick() -> None:
    answer = run("describe", "index-lookup", "--n", str(1 << 20), "--json").answer
    assert (answer["inputs"], answer["input_bits"]) == (None, None)
    answer = run("describe", "index-lookup", "--n", "100", "--json").answer
    assert answer["inputs"] is None
    assert 600 < answer["input_bits"] < 610


@pytest.mark.slow
def test_atlas(tmp_path: Path) -> None:
    ran = run("atlas", "--out", str(tmp_path))
    path = Path(ran.out.splitlines()[-1])
    assert ran.code == 0
    assert path.parent == tmp_path
    assert path.is_file()
    assert run("atlas", "--out", str(tmp_path), "--json").answer == {"path": str(path)}
    (tmp_path / "file").touch()
    refused("atlas", "--out", str(tmp_path / "file" / "deeper"))


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said beside the page does not need one."""
    monkeypatch.setattr(separatrix, "make_atlas", lambda *_, **__: Path("page.html"), raising=False)


@pytest.mark.slow
@pytest.mark.usefixtures("no_page")
def test_the_atlas_says_which_runs_it_does_not_show(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ran = run("atlas", "--results", str(tmp_path / "empty"))
    assert (ran.code, ran.out) == (0, "page.html\n")
    assert ran.err.startswith(f"No runs in '{tmp_path}/empty'; `separatrix runs bundle --out FOLDER` writes")
    store = Store(tmp_path / "store")
    finished(store)
    bundle_runs(store, store.runs(), tmp_path / "all" / "mine")
    for place in (tmp_path / "all", tmp_path / "all" / "mine"):  # a folder of bundles, and a bundle itself
        assert run("atlas", "--results", str(place)).err == (
            f"0 of the 1 run in '{place}' are shown: the atlas has those that answer an experiment of "
            "`separatrix reproduce`.\n"
        )


def test_results_that_are_not_there_are_refused(tmp_path: Path) -> None:
    words = refused("atlas", "--results", str(tmp_path / "nowhere"), "--out", str(tmp_path / "page"))
    assert words.endswith("nowhere' is none.")
    assert not (tmp_path / "page").exists()


@pytest.mark.slow
def test_every_command_speaks_json(tmp_path: Path) -> None:
    lines = {
        "tasks": (),
        "sample": ("index-lookup", "--n", "3"),
        "dataset": ("index-lookup", "--n", "3", "--count", "2", "--out", str(tmp_path / "d")),
        "describe": ("index-lookup",),
        "witness": ("index-lookup", "--n", "3", "--alphabet", "2", "--out", str(tmp_path / "w")),
        "certify": (str(tmp_path / "w"),),
        "break": (str(tmp_path / "w"), "--budget", "500ms"),
        "frontier": ("index-lookup", "--n", "3", "--alphabet", "2", "--plot", str(tmp_path / "w.svg")),
        "bound": ("index-lookup", "--n", "3", "--family", "rnn"),
        "wall": ("index-lookup", "--family", "rnn", "--state-bits", "64"),
        "protocol": ("index-lookup", "--n", "3", "--family", "rnn"),
        "matrix": ("eq", "--n", "2", "--picture", str(tmp_path / "m.svg")),
        "solve": ("index-lookup", "--input", "s1 s0 @2"),
        "turing": ("busy-beaver-2",),
        "models": (),
        "size": ("lstm", "--n", "3"),
        "audit": ("lstm", "--n", "3"),
        "train": (
            "index-lookup",
            "--model",
            "lstm",
            "--n",
            "3",
            "--steps",
            "1",
            "--store",
            str(tmp_path / "s"),
        ),
        "reproduce": ("r-qsa", "--store", str(tmp_path / "q"), "--out", str(tmp_path / "figures")),
        "runs": ("list", "--store", str(tmp_path / "s")),
        "atlas": ("--out", str(tmp_path)),
    }
    # probe needs a language model, which test_probing.py makes.
    assert tuple(lines) == tuple(command for command in COMMANDS if command != "probe")
    for command, rest in lines.items():
        ran = run(command, *rest, "--json")
        assert ran.code == 0
        assert isinstance(ran.answer, dict)


@pytest.mark.slow
def test_descriptions_do_not_need_sizes_to_be_given() -> None:
    for name in TASKS.names():
        assert run("describe", name, "--json").answer["n"] == TASKS.get(name).showcase["n"]
    assert run("describe", "dyck", "--types", "3", "--json").answer["n"] == TASKS.get("dyck").showcase["n"]


def test_describe_has_no_python_in_it() -> None:
    page = " ".join(run("describe", "distractor-qa").out.split())
    assert "--file none a Hotpot-QA file (distractor form) to take questions from --pool" in page
    assert "--order random where the gold paragraphs stand (random | gold-last)" in page
    types = {p["name"]: p["type"] for p in run("describe", "distractor-qa", "--json").answer["parameters"]}
    assert (types["file"], types["n"], types["order"]) == ("file", "int", "random | gold-last")


def test_paragraphs_join_lines_and_keep_list_items_and_indented_blocks_apart() -> None:
    text = "One\ntwo.\n\nThree:\n- a\n  b\n- c\n \t\n\n  code  here\n    deeper\n\nFour\n"
    assert paragraphs(text) == ["One two.", "Three:", "- a b", "- c", "  code  here\n    deeper", "Four"]
    assert paragraphs("") == paragraphs(" \n\n ") == []


@given(st.text("ab- \n"))
def test_paragraphs_lose_no_word(text: str) -> None:
    assert " ".join(paragraphs(text)).split() == text.split()
    assert all(part.strip() for part in paragraphs(text))
