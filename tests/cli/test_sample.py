"""`separatrix sample`: the examples, as JSON, as lines and as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.cells import cell_len

import separatrix
from separatrix.tasks import TASKS, Batch
from separatrix.tasks.byte_text import ByteTask
from separatrix.tasks.index_lookup import IndexLookup
from tests.cli.running import Ran, refused, run


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS.names())
def test_samples_are_what_the_task_draws(name: str) -> None:
    described = run("describe", name, "--json").answer
    n = described["n"]
    ran = run("sample", name, "--n", str(n), "--count", "3", "--seed", "5", "--json")
    assert (ran.code, ran.err) == (0, "")
    answer = ran.answer
    assert (answer["task"], answer["n"], answer["seed"]) == (name, n, 5)
    task = separatrix.task(name, n=n)
    batch = task.sample(3, seed=5)
    for number, entry in enumerate(answer["examples"]):
        length = int(batch.lengths[number])
        assert torch.tensor(entry["input"]).equal(batch.inputs[number, :length])
        labels = batch.targets[number][batch.mask[number]]
        assert torch.tensor(entry["target"]).equal(labels if len(labels) > 1 else labels[0])
        assert entry["text"] == task.render(batch.inputs[number])
        assert task.parse(entry["text"]).equal(batch.inputs[number])
        if not isinstance(task, ByteTask):
            assert entry["answer"] == " ".join(task.render_target(label) for label in labels)
    assert len(answer["examples"]) == 3


def test_dyck_is_brackets_and_is_tree_is_edges() -> None:
    text = run("sample", "dyck", "--n", "8", "--count", "1", "--json").answer["examples"][0]["text"]
    assert len(text) == 8
    assert set(text) <= set("()[]")
    text = run("sample", "is-tree", "--n", "4", "--count", "1", "--json").answer["examples"][0]["text"]
    assert text.startswith("<s> ")
    assert text.split()[2::3] == ["~"] * 3


def test_the_answer_to_a_text_is_a_text() -> None:
    entry = run("sample", "phone-book", "--n", "2", "--count", "1", "--json").answer["examples"][0]
    assert entry["answer"].isdigit()
    assert entry["text"].endswith(f" {entry['answer']}")
    assert bytes(entry["target"]).decode() == f" {entry['answer']}\n"


def test_count_and_seed_choose_examples_by_number() -> None:
    def examples(*argv: str) -> list[Any]:
        entries = run("sample", "index-lookup", "--n", "4", "--json", *argv).answer["examples"]
        assert isinstance(entries, list)
        return entries

    assert len(examples()) == 5
    assert examples("--count", "600")[:5] == examples() != examples("--seed", "1")


def test_many_examples_are_drawn_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[int, Any]] = []
    original = IndexLookup.sample

    def watched(self: IndexLookup, batch: int, **options: Any) -> Batch:
        drawn.append((batch, options["start"]))
        return original(self, batch, **options)

    monkeypatch.setattr(IndexLookup, "sample", watched)
    assert len(run("sample", "index-lookup", "--n", "9", "--count", "700").out.splitlines()) == 700
    assert drawn == [(256, 0), (256, 256), (188, 512)]
    drawn.clear()
    run("sample", "index-lookup", "--n", str(1 << 18), "--count", "5", "--out", "/dev/null/x")
    assert drawn == [], "a file that cannot be written is refused before anything is drawn"


def test_readable_lines() -> None:
    ran = run("sample", "index-lookup", "--n", "3", "--alphabet", "4", "--count", "2")
    entries = run("sample", "index-lookup", "--n", "3", "--alphabet", "4", "--count", "2", "--json").answer
    expected = [f"{entry['text']}  → {entry['answer']}" for entry in entries["examples"]]
    assert ran.out.splitlines() == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS.names())
def test_everything_fits_eighty_columns(name: str) -> None:
    n = str(run("describe", name, "--json").answer["n"])
    for argv in (("sample", name, "--n", n), ("describe", name), ("sample", name, "--help")):
        ran = run(*argv)
        assert ran.code == 0
        assert max(map(cell_len, ran.out.splitlines())) <= 80
        assert "\x1b" not in ran.out


def test_long_examples_are_wrapped_and_whole() -> None:
    ran = run("sample", "index-lookup", "--n", "200", "--lengths", "full", "--count", "1")
    entry = run("sample", "index-lookup", "--n", "200", "--lengths", "full", "--count", "1", "--json").answer[
        "examples"
    ][0]
    assert max(map(cell_len, ran.out.splitlines())) <= 80
    assert ran.out.split() == [*entry["text"].split(), "→", entry["answer"]]


def test_files(tmp_path: Path) -> None:
    lines, text = tmp_path / "e.jsonl", tmp_path / "e.txt"
    argv = ("sample", "index-lookup", "--n", "3", "--count", "2")
    assert run(*argv, "--out", str(lines)) == Ran(0, f"{lines}\n", "Wrote 2 examples of index-lookup.\n")
    answer = run(*argv, "--json", "--out", str(text)).answer
    assert [json.loads(line) for line in lines.read_text().splitlines()] == answer["examples"]
    assert text.read_text() == run(*argv).out
    assert sorted(tmp_path.iterdir()) == [lines, text]


def test_an_unwritable_file_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    argv = ("sample", "index-lookup", "--n", "3", "--out")
    assert refused(*argv, str(tmp_path / "no" / "x")) == (
        f"'{tmp_path}/no/x' cannot be written: there is no folder '{tmp_path}/no'; make it first."
    )
    assert refused(*argv, str(tmp_path)) == f"'{tmp_path}' is a folder; name a file in it."
    refused("sample", "index-lookup", "--n", "3", "--seed", "-1", "--out", str(tmp_path / "x"))
    assert list(tmp_path.iterdir()) == []
