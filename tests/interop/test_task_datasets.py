"""Tasks as JSON lines and datasets: what is written is what the task draws, and a lie is found when read."""

from __future__ import annotations

import importlib
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from separatrix.errors import InvalidFile, InvalidInput, SeparatrixError
from separatrix.interop import task_datasets
from separatrix.interop.harness_tasks import write_harness_folder
from separatrix.interop.task_datasets import (
    as_dataset,
    read_examples,
    read_task_folder,
    require_datasets,
    write_task_folder,
)
from separatrix.interop.task_examples import UNLABELLED, Example, examples
from separatrix.interop.yaml_text import yaml_text
from separatrix.tasks import TASKS, ChainTask, Task, TokenTask, task
from separatrix.tasks.byte_text import ByteTask
from separatrix.tasks.interface import example_task
from separatrix.tasks.specs import task_of

LOOKUP = task("index-lookup", n=12)


def small(name: str) -> Task:
    return example_task(TASKS.get(name))


@pytest.mark.parametrize("name", TASKS.names())
def test_a_folder_of_lines_is_what_the_task_draws(name: str, tmp_path: Path) -> None:
    drawn = small(name)
    write_task_folder(drawn, tmp_path / "deep" / "er", to="jsonl", count=4, seed=7, start=2)
    found = list(read_examples(tmp_path / "deep" / "er"))
    batch = drawn.sample(4, seed=7, start=2)
    assert [(one.n, one.seed, one.number) for one in found] == [
        (drawn.n, 7, number) for number in range(2, 6)
    ]
    for place, one in enumerate(found):
        length = int(batch.lengths[place])
        said = batch.targets[place][batch.mask[place]]
        if one.tokens is None:
            assert drawn.parse(one.input).equal(batch.inputs[place])
        else:
            assert list(one.tokens) == batch.inputs[place, :length].tolist()
            assert one.labels is not None
            labels = torch.tensor(one.labels)
            assert (labels != UNLABELLED).equal(batch.mask[place, :length])
            assert labels[labels != UNLABELLED].equal(said)
        if not isinstance(drawn, ByteTask):
            assert one.target == " ".join(drawn.render_target(label) for label in said)
    assert read_task_folder(tmp_path / "deep" / "er").count == 4
    assert task_of(read_task_folder(tmp_path / "deep" / "er").task) == drawn


@pytest.mark.parametrize("name", TASKS.names())
def test_what_a_model_is_shown_does_not_have_the_answer(name: str) -> None:
    drawn = small(name)
    (one,) = examples(drawn, count=1, seed=3)
    row = drawn.sample(1, seed=3).inputs[0]
    assert drawn.render(row).startswith(one.input) or name == "mqar"
    if isinstance(drawn, ByteTask | ChainTask):
        # The prompt alone gives the whole row again: nothing that is needed is missing.
        assert drawn.parse(one.input).equal(row)
        assert one.target.endswith(one.answer)
        assert isinstance(drawn, ByteTask) or len(one.input.split()) == drawn.prompt
        assert not one.input.endswith(one.target)
    elif name == "mqar":
        words = one.input.split()
        pairs = dict(zip(words[: drawn.n : 2], words[1 : drawn.n : 2], strict=True))
        assert one.target.split() == [pairs[key] for key in words[drawn.n :]]
        assert len(words) == drawn.n + drawn.n // 2
    else:
        assert one.input == drawn.render(row)


def test_the_same_numbers_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_task_folder(LOOKUP, tmp_path / name, to="jsonl", count=300, seed=1)
    for file in ("test.jsonl", "task.json", "README.md"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    later = list(examples(LOOKUP, count=3, seed=1, start=270))
    assert later == list(examples(LOOKUP, count=300, seed=1))[270:273]
    assert later != list(examples(LOOKUP, count=3, seed=2, start=270))


def test_the_verdict_is_told_from_the_tour() -> None:
    for one in examples(task("is-tree", n=9, form="cot"), count=5):
        assert one.answer in {"YES", "NO"}
        assert one.target.split()[0] == "1"
        assert one.target.split()[-1] == one.answer
    (quiz,) = examples(task("distractor-qa", n=4), count=1)
    assert quiz.target.endswith(f"\nAnswer: {quiz.answer}")


def changed(path: Path, number: int, /, **fields: Any) -> None:
    lines = path.read_text().splitlines()
    lines[number] = json.dumps(json.loads(lines[number]) | fields)
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"target": "s99"}, "Line 2 .* has another target than index-lookup gives for it"),
        ({"answer": "s99"}, "has another answer"),
        ({"input": "s1 s2 @1"}, "has another input"),
        ({"n": 13}, "has another n .* 13 stands there, and 12 is right"),
        ({"tokens": [1, 2]}, "Line 2 .* is no example of index-lookup: "),
        ({"tokens": [1] * 40}, "at most 13 tokens; got 40"),
        ({"tokens": [1, 5000]}, "Tokens of index-lookup run from 0 to"),
        ({"tokens": [1, 2**70]}, "a list of whole numbers of 64 bits"),
        ({"tokens": [1, True]}, "a list of whole numbers of 64 bits"),
        ({"tokens": "1 2"}, "'tokens' of Line 2"),
        ({"labels": []}, "has another labels"),
        ({"number": 5}, "must be example 1 under seed 0; it says it is example 5"),
        ({"seed": 1}, "example 1 under seed 1"),
        ({"more": 1}, "more"),
    ],
)
def test_a_lie_is_found(fields: dict[str, Any], words: str, tmp_path: Path) -> None:
    write_task_folder(LOOKUP, tmp_path, to="jsonl", count=3)
    changed(tmp_path / "test.jsonl", 1, **fields)
    with pytest.raises(InvalidFile, match=words):
        list(read_examples(tmp_path))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=r"task\.json' cannot be read: No such file"):
        list(read_examples(tmp_path))
    with pytest.raises(InvalidFile, match=r"x\.jsonl' cannot be read: No such file"):
        list(read_examples(tmp_path / "x.jsonl", task=LOOKUP))
    write_task_folder(LOOKUP, tmp_path, to="jsonl", count=3)
    lines = (tmp_path / "test.jsonl").read_text().splitlines()
    (tmp_path / "test.jsonl").write_text("\n".join(lines[:2]) + "\n")
    with pytest.raises(InvalidFile, match="promises 3 examples and has 2"):
        list(read_examples(tmp_path))
    for line in ("{", "[]", "\0", '{"input": NaN}'):
        (tmp_path / "test.jsonl").write_text(f"{lines[0]}\n{line}\n")
        with pytest.raises(InvalidFile, match="Line 2 of"):
            list(read_examples(tmp_path / "test.jsonl"))
    described = json.loads((tmp_path / "task.json").read_text())
    (tmp_path / "task.json").write_text(json.dumps(described | {"file": "../x"}))
    with pytest.raises(InvalidFile, match="names a file in it"):
        list(read_examples(tmp_path))


def break_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Iterator[Example]:
        yield from examples(LOOKUP, count=2)
        raise RuntimeError("power cut")

    monkeypatch.setattr(task_datasets, "examples", broken)


def test_what_breaks_off_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_off(monkeypatch)
    with pytest.raises(RuntimeError, match="power cut"):
        write_task_folder(LOOKUP, tmp_path / "deep" / "er", to="jsonl", count=3)
    assert not list(tmp_path.iterdir())


def test_what_breaks_off_leaves_the_dataset_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_task_folder(LOOKUP, tmp_path, to="jsonl", count=3)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    break_off(monkeypatch)
    with pytest.raises(RuntimeError, match="power cut"):
        write_task_folder(task("dyck", n=8), tmp_path, to="jsonl", count=3)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_dataset_is_replaced_whole_and_what_is_beside_it_stays(tmp_path: Path) -> None:
    write_harness_folder(LOOKUP, tmp_path, count=3)
    for name in ("test.parquet", "notes.txt", "separatrix_of_mine.yaml"):
        (tmp_path / name).write_text("old")
    write_task_folder(task("dyck", n=8), tmp_path, to="jsonl", count=2)
    assert {path.name for path in tmp_path.iterdir()} == {
        "README.md", "notes.txt", "separatrix_of_mine.yaml", "task.json", "test.jsonl",
    }  # fmt: skip
    assert len(list(read_examples(tmp_path, task=task("dyck", n=8)))) == 2
    described = json.loads((tmp_path / "task.json").read_text())
    described["file"] = "notes.txt"  # a lie must not have anything of others removed
    (tmp_path / "task.json").write_text(json.dumps(described))
    write_task_folder(LOOKUP, tmp_path, to="jsonl", count=2)
    assert (tmp_path / "notes.txt").read_text() == "old"


@pytest.mark.parametrize("name", ["README.md", "test.jsonl", "witness.json", "some folder"])
def test_a_folder_with_other_things_is_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / ".hidden").touch()
    there = tmp_path / name
    if "." in name:
        there.write_text("somebody's")
    else:
        there.mkdir()
    words = rf"holds '{re.escape(name)}' and no dataset, so it is left alone; name a folder that is new"
    with pytest.raises(InvalidFile, match=words):
        write_task_folder(LOOKUP, tmp_path, to="jsonl", count=1)
    with pytest.raises(InvalidFile, match=words):
        write_harness_folder(LOOKUP, tmp_path, count=1)
    assert {path.name for path in tmp_path.iterdir()} == {".hidden", name}
    assert there.is_dir() or there.read_text() == "somebody's"


def test_a_task_file_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "task.json").write_text("{}")
    with pytest.raises(InvalidFile, match=r"task\.json' is of no use: separatrix\.task-folder lacks the"):
        write_task_folder(LOOKUP, tmp_path, to="jsonl", count=1)
    assert (tmp_path / "task.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"count": 0}, "1 to 1,000,000,000 examples; got count=0"),
        ({"count": 1, "start": -1}, "numbered from 0"),
        ({"count": 1, "seed": -1}, "seed is a whole number from 0"),
        ({"count": 1, "seed": 1 << 63}, "seed is a whole number from 0"),
    ],
)
def test_wishes_that_cannot_be_met(wanted: dict[str, int], words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=words):
        write_task_folder(LOOKUP, tmp_path / "x", to="jsonl", **wanted)
    assert not list(tmp_path.iterdir())


def test_a_format_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="jsonl or datasets; got to='csv'"):
        write_task_folder(LOOKUP, str(tmp_path / "x"), to="csv", count=1)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(InvalidFile, match="is a file; name a folder, which is made if need be"):
        write_task_folder(LOOKUP, tmp_path / "x", to="jsonl", count=1)


def test_a_task_that_reads_a_file_is_not_written(tmp_path: Path) -> None:
    quiz = task("distractor-qa", n=2, file=Path("tests/data/hotpot_small.json"))
    with pytest.raises(SeparatrixError, match="cannot be written to a file"):
        write_task_folder(quiz, tmp_path / "x", to="jsonl", count=1)
    assert not list(tmp_path.iterdir())


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(InvalidInput, match=r"need the extra data; install it with: pip install"):
        require_datasets()


def test_yaml_is_text_and_nothing_else() -> None:
    value = {"a": 'q"\\\n\t\x7f é\u2028', "no": {"b": [1, {"c": True, "d": [None, "x"]}], "e": []}, "f": {}}
    assert yaml_text(value) == (
        'a: "q\\"\\\\\\n\\x09\\x7f é\\u2028"\n"no":\n  b:\n    - 1\n    - c: true\n      d:\n        - null\n'
        '        - "x"\n  e: []\nf: {}\n'
    )


@pytest.mark.extra
def test_yaml_is_read_as_it_was_meant() -> None:
    yaml = importlib.import_module("yaml")
    value = {"a-b": 'q"\\\n\t\x7f é\u2028\U0001f600 {{x}} # !!', "no": {"y": [[1, [2]], "on"]}, "!x": "!y"}
    assert yaml.safe_load(yaml_text(value)) == value


@pytest.mark.extra
@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS.names())
def test_a_dataset_has_typed_columns(name: str) -> None:
    drawn = small(name)
    dataset = as_dataset(drawn, count=5, seed=3, start=1)
    assert [example.to_fields() for example in examples(drawn, count=5, seed=3, start=1)] == list(dataset)
    kinds = {column: str(feature) for column, feature in dataset.features.items()}
    assert kinds["input"] == kinds["answer"] == "Value('string')"
    assert kinds["number"] == "Value('int64')"
    assert ("tokens" in kinds) == (isinstance(drawn, TokenTask | ChainTask | ByteTask))


@pytest.mark.extra
@pytest.mark.slow
@pytest.mark.parametrize("to", ["jsonl", "datasets"])
def test_folders_load_without_a_network(to: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = require_datasets()
    monkeypatch.setattr(socket.socket, "connect", refuse)
    folder = tmp_path / "folder"
    write_task_folder(LOOKUP, folder, to=to, count=40, seed=(1 << 63) - 1)
    loaded = datasets.load_dataset(str(folder), split="test", cache_dir=str(tmp_path / "cache"))
    assert list(loaded) == list(as_dataset(LOOKUP, count=40, seed=(1 << 63) - 1))
    if to == "datasets":
        assert loaded.features == as_dataset(LOOKUP, count=1).features
        again = tmp_path / "again"
        write_task_folder(LOOKUP, again, to=to, count=40, seed=(1 << 63) - 1)
        assert (again / "test.parquet").read_bytes() == (folder / "test.parquet").read_bytes()


def refuse(*_: object) -> None:
    raise AssertionError("somebody wants to connect")
