"""`separatrix dataset`: folders of examples, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from separatrix.interop.task_datasets import read_examples
from separatrix.tasks import task
from tests.cli.running import refused, run


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_folder_of_lines() -> None:
    ran = run("dataset", "dyck", "--n", "8", "--depth", "3", "--count", "5", "--seed", "2", "--out", "d")
    assert (ran.code, ran.out, ran.err) == (0, "d\n", "Wrote 5 examples of dyck.\n")
    found = list(read_examples("d", task=task("dyck", n=8, depth=3)))
    assert [(example.seed, example.number) for example in found] == [(2, number) for number in range(5)]
    again = run("dataset", "dyck", "--n", "8", "--count", "1", "--start", "9", "--out", "d", "--json")
    assert again.answer["sha256"]
    assert (again.answer["format"], again.answer["count"], again.answer["start"]) == ("jsonl", 1, 9)
    assert again.answer["parameters"]["params"]["depth"] == 2
    assert [example.number for example in read_examples("d")] == [9]


def test_a_task_of_the_harness() -> None:
    ran = run("dataset", "index-lookup", "--n", "8", "--count", "2", "--to", "harness", "--out", "h")
    assert "lm_eval --include_path h --tasks separatrix_index_lookup_n8" in ran.err
    assert Path("h/separatrix_index_lookup_n8.yaml").is_file()
    assert len(Path("h/shown.jsonl").read_text().splitlines()) == 4
    # The shots of distractor-qa are its own, and stand in the texts.
    ran = run("dataset", "distractor-qa", "--n", "4", "--shots", "1", "--count", "2", "--to", "harness",
              "--out", "q", "--json")  # fmt: skip
    assert ran.answer["harness_task"] == "separatrix_distractor_qa_n4"
    assert ran.answer["parameters"]["params"]["shots"] == 1


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("dataset", "dyck", "--n", "8")
    assert refused("dataset") == "dataset needs the name of a task; `separatrix tasks` lists them."
    assert refused(*asked).startswith("dataset needs --out (Folder to write to")
    assert refused(*asked, "--out", "d", "--to", "csv").startswith("--to is one of jsonl, datasets, harness")
    assert refused(*asked, "--out", "d", "--count", "0").startswith("A dataset has 1 to 1,000,000,000 exam")
    assert refused(*asked, "--out", "d", "--shots", "2").startswith("--shots is for --to harness; got --to j")
    assert "0 to 64 worked examples" in refused(*asked, "--out", "d", "--to", "harness", "--shots", "65")
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "pip install 'separatrix[data]'" in refused(*asked, "--out", "d", "--to", "datasets")
    Path("file").touch()
    assert "'file' is a file; name a folder" in refused(*asked, "--out", "file")


def test_a_dataset_is_replaced_and_that_is_said() -> None:
    run("dataset", "index-lookup", "--n", "8", "--count", "20", "--to", "harness", "--out", "d")
    ran = run("dataset", "dyck", "--n", "8", "--count", "1", "--out", "d")
    assert ran.err == "Replaced 20 examples of index-lookup there by 1 example of dyck.\n"
    assert (ran.code, ran.out) == (0, "d\n")
    assert {path.name for path in Path("d").iterdir()} == {"README.md", "task.json", "test.jsonl"}


def test_a_witness_and_a_dataset_leave_each_other_alone() -> None:
    run("witness", "index-lookup", "--n", "4", "--alphabet", "2", "--out", "w")
    run("dataset", "dyck", "--n", "8", "--count", "2", "--out", "d")
    before = {path: path.read_bytes() for path in (*Path("w").iterdir(), *Path("d").iterdir())}
    assert refused("dataset", "dyck", "--n", "8", "--out", "w") == (
        "'w' holds 'README.md' and no dataset, so it is left alone; name a folder that is new, empty or "
        "holds a dataset."
    )
    assert refused("witness", "index-lookup", "--n", "4", "--out", "d").startswith(
        "'d' holds 'README.md' and no witness, so it is left alone"
    )
    assert {path: path.read_bytes() for path in (*Path("w").iterdir(), *Path("d").iterdir())} == before
