"""The first three views: what they answer, and what they refuse."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import separatrix
from separatrix.errors import SeparatrixError
from separatrix.evidence import Case
from separatrix.explorer.folder import Folder
from separatrix.explorer.listing import listing
from separatrix.explorer.view import Deadline, TimeIsUp, View
from separatrix.explorer.views import VIEWS, attention, every_view, state, view_named, worst
from separatrix.models.explicit.transformer import Transformer

OURS = (attention.VIEW, state.VIEW, worst.VIEW)


def answer(view: View, folder: Path, **asked: object) -> dict[str, Any]:
    """An answer, which must be JSON without NaN."""
    found = view.answer(asked, Folder(folder), Deadline(60.0))
    json.dumps(found, allow_nan=False)
    return found


def test_every_view_is_listed_under_its_name() -> None:
    assert [view.name for view in every_view()] == list(VIEWS)
    assert view_named("state") is state.VIEW
    with pytest.raises(SeparatrixError, match="there are attention, state"):
        view_named("os")


@pytest.mark.parametrize("view", OURS, ids=lambda view: view.name)
def test_the_first_input_is_answered(view: View, tmp_path: Path) -> None:
    assert answer(view, tmp_path, **view.default)["witnesses"]


@pytest.mark.parametrize("name", [each.name for each in attention._CHOICES])
def test_attention_is_right_and_its_weights_add_up(name: str, tmp_path: Path) -> None:
    found = answer(attention.VIEW, tmp_path, witness=name, n=6, seed=3)
    assert found["right"] is True
    words = found["words"]
    for head in (head for layer in found["layers"] for head in layer):
        assert len(head["weights"]) == len(head["reads"]) == len(head["leads"]) <= len(words)
        for row, reads in zip(head["weights"], head["reads"], strict=True):
            assert len(row) == len(words)
            assert sum(row) == pytest.approx(1, abs=0.01)
            assert row.index(max(row)) in reads
            assert 2 * min(row[place] for place in reads) >= max(row) - 1e-3


def test_watching_changes_nothing() -> None:
    task = separatrix.task("dyck", n=6)
    model = separatrix.witness_for(task, family="transformer-3").model
    assert isinstance(model, Transformer)
    row = task.sample(1, seed=1).inputs
    before = model.forward(row)
    attention.watched(model, row[0])
    assert torch.equal(model.forward(row), before)


def test_index_lookup_reads_the_place_that_is_named(tmp_path: Path) -> None:
    found = answer(attention.VIEW, tmp_path, witness="index-lookup · transformer-1", input="s1 s7 s3 @2")
    assert (found["answer"], found["expected"], found["words"]) == ("s7", "s7", ["s1", "s7", "s3", "@2"])
    head = found["layers"][0][0]
    assert [len(row) for row in head["weights"]] == [4] * 4  # without the padding
    assert head["reads"][3] == [1]
    target, *others = sorted(head["weights"][3], reverse=True)
    assert math.exp(head["leads"][3]) == pytest.approx(target / others[0], rel=0.01)


def test_what_is_typed_decides_the_size(tmp_path: Path) -> None:
    found = answer(attention.VIEW, tmp_path, witness="dyck · transformer-3", n=4, input="([])()[]")
    assert (found["n"], found["answer"]) == (8, "1")


def test_the_state_of_the_bracket_machine_is_its_stack(tmp_path: Path) -> None:
    found = answer(state.VIEW, tmp_path, witness="dyck · rnn", input="[()]")
    assert found["frames"][-1] == "00000"
    assert found["frames"][0] != found["frames"][1] != found["frames"][2] == found["frames"][0]
    assert (found["carried"], found["bound"]["at_least"], found["right"]) == (5, 3.0, True)


@pytest.mark.parametrize("name", [each.name for each in state._CHOICES])
def test_states_have_as_many_bits_as_they_say_and_enough(name: str, tmp_path: Path) -> None:
    found = answer(state.VIEW, tmp_path, witness=name, n=6, seed=2)
    assert found["right"] is True
    assert {len(frame) for frame in found["frames"]} == {found["carried"]}
    assert sum(field["bits"] for field in found["fields"]) == found["carried"] >= found["bound"]["at_least"]
    assert len(found["frames"]) == len(found["words"])


def test_weak_queries_are_refuted_by_an_input_that_fails_again(tmp_path: Path) -> None:
    found = answer(worst.VIEW, tmp_path, witness="index-lookup · transformer-1", n=6, strength=20)
    assert (found["verdict"], found["replayed"], found["worst"]["kind"]) == ("refuted", True, "wrong")
    assert found["worst"]["expected"] != found["worst"]["answered"]
    assert found["evidence"]["schema"] == "separatrix.counterexample"


def test_whole_queries_are_proved_and_the_tightest_input_is_right(tmp_path: Path) -> None:
    found = answer(worst.VIEW, tmp_path, witness="index-lookup · transformer-1", n=6)
    assert (found["verdict"], found["worst"]["kind"]) == ("proved", "tightest")
    assert found["worst"]["expected"] == found["worst"]["answered"]
    assert found["worst"]["margin"] > 0
    assert all(claim["margin"] > 0 for claim in found["claims"])


def test_coarse_numbers_are_refuted(tmp_path: Path) -> None:
    found = answer(worst.VIEW, tmp_path, witness="match2 · transformer-1", n=4, arithmetic="nearest:7")
    assert (found["verdict"], found["arithmetic"]) == ("refuted", "nearest:7")
    vectors = answer(worst.VIEW, tmp_path, witness="q-sparse-averaging · transformer-1", n=4, strength=5)
    assert vectors["worst"]["answered"].startswith("(")


def test_witnesses_of_the_folder_are_listed_and_shown(witnesses: Path) -> None:
    entries = listing(Folder(witnesses), Deadline(10.0))["entries"]
    assert isinstance(entries, list)
    assert [(each["path"], each["task"], each["form"]) for each in entries] == [
        ("kept/dyck", "dyck", "recurrent"),
        ("kept/equality", "equality", "transformer"),
    ]
    assert answer(state.VIEW, witnesses, path="kept/dyck", input="[()]()")["right"] is True
    assert answer(attention.VIEW, witnesses, path="kept/equality", seed=1)["right"] is True
    assert answer(worst.VIEW, witnesses, path="kept/equality", strength=10)["verdict"] == "refuted"


@pytest.mark.parametrize(
    ("view", "name"),
    [(attention.VIEW, "associative-recall · transformer-2"), (state.VIEW, "associative-recall · rnn")],
)
def test_the_largest_n_that_the_page_offers_is_answered(view: View, name: str, tmp_path: Path) -> None:
    assert answer(view, tmp_path, witness=name, n=32)["right"] is True


def test_cases_say_together_what_each_says() -> None:
    task = separatrix.task("index-lookup", n=3, alphabet=4)
    proved = Case(query="@1", target="s0", verdict="proved", margin=1.5, asked=3)
    unknown = Case(query="@2", target="s1", verdict="unknown", margin=-1e30, asked=3)
    row = task.parse("s1 s2 s3 @2")
    wrong = Case(
        query="@2",
        target="s2",
        verdict="refuted",
        margin=-2.0,
        asked=3,
        input=tuple(row.tolist()),
        answered=1,
    )
    assert worst._of_cases(task, [proved], complete=True)["verdict"] == "proved"
    cut = worst._of_cases(task, [proved], complete=False)
    assert cut["verdict"] == "unknown"
    assert "no time for the others" in str(cut["reason"])
    mixed = worst._of_cases(task, [proved, unknown], complete=True)
    assert (mixed["verdict"], mixed["worst"]) == ("unknown", None)
    assert [each["margin"] for each in mixed["cases"]] == [None, 1.5]  # type: ignore[attr-defined]
    found: Any = worst._of_cases(task, [proved, unknown, wrong], complete=False)
    assert (found["verdict"], found["worst"]["input"]) == ("refuted", "s1 s2 s3 @2")
    assert (found["worst"]["expected"], found["worst"]["answered"]) == ("s2", "s1")


def test_a_damaged_witness_is_listed_with_the_reason(witnesses: Path, tmp_path: Path) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "witness.json").write_text('{"schema": "another"}')
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "runs.sqlite").write_bytes(b"nothing of the kind")
    entries = listing(Folder(tmp_path), Deadline(10.0))["entries"]
    assert isinstance(entries, list)
    assert [bool(each["problem"]) for each in entries] == [True, True]
    with pytest.raises(SeparatrixError, match=r"weights\.safetensors"):
        answer(state.VIEW, tmp_path, path="odd")


@pytest.mark.parametrize(
    ("view", "asked", "words"),
    [
        (attention.VIEW, {}, "'witness' is a text"),
        (attention.VIEW, {"witness": "os · system"}, "choose one of the menu"),
        (attention.VIEW, {"witness": 7}, "got the number 7"),
        (attention.VIEW, {"witness": "dyck · transformer-3", "n": 33}, "between 1 and 32"),
        (attention.VIEW, {"witness": "dyck · transformer-3", "n": 1e9}, "whole number"),
        (attention.VIEW, {"witness": "dyck · transformer-3", "n": True}, "whole number"),
        (attention.VIEW, {"witness": "dyck · transformer-3", "n": 7}, "Dyck|dyck"),
        (attention.VIEW, {"witness": "dyck · transformer-3", "input": "a b"}, "An example: "),
        (attention.VIEW, {"witness": "dyck · transformer-3", "input": "(" * 2001}, "2000 characters"),
        (attention.VIEW, {"witness": "dyck · transformer-3", "more": 1}, "got 'more'"),
        (attention.VIEW, {"path": "../kept"}, "not followed"),
        (attention.VIEW, {"path": "kept/dyck"}, "Transformers that answer at once"),
        (state.VIEW, {"path": "kept/equality"}, "zeros and ones"),
        (state.VIEW, {"path": "kept/dyck", "input": "((((((((("}, "6|length"),
        (state.VIEW, {"path": "kept", "run": "00"}, "runs.sqlite"),
        (worst.VIEW, {"witness": "dyck · rnn", "strength": 50}, "queries of a Transformer"),
        (worst.VIEW, {"witness": "dyck · rnn", "arithmetic": "nearest:4000"}, "is one of as built"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    view: View, asked: dict[str, object], words: str, witnesses: Path
) -> None:
    with pytest.raises(SeparatrixError, match=words):
        answer(view, witnesses, **asked)


def test_time_that_is_up_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(TimeIsUp, match="smaller n"):
        attention.VIEW.answer(dict(attention.VIEW.default), Folder(tmp_path), Deadline(0.0))


@pytest.mark.slow
def test_trained_runs_of_a_store_are_shown(tmp_path: Path) -> None:
    task = separatrix.task("dyck", n=6)
    training = separatrix.Training(steps=5)
    for name in ("lstm", "transformer"):
        member = separatrix.Member(seed=0, lr=1e-3)
        store = separatrix.Store(tmp_path / "runs")
        separatrix.train(task, name, members=[member], training=training, store=store, device="cpu")
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    entries = listing(Folder(tmp_path), Deadline(10.0))["entries"]
    assert isinstance(entries, list)
    runs = {each["model"]: each["key"] for each in entries[0]["runs"]}
    found = answer(state.VIEW, tmp_path, path="runs", run=runs["lstm"][:12], bits=2)
    numbers = found["rounded"]["numbers"]
    assert found["carried"] == 2 * numbers == len(found["frames"][0])
    assert answer(worst.VIEW, tmp_path, path="runs", run=runs["lstm"])["verdict"] in ("refuted", "unknown")
    with pytest.raises(SeparatrixError, match="grows with every token"):
        answer(state.VIEW, tmp_path, path="runs", run=runs["transformer"])
    assert {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()} == before


@pytest.mark.slow
def test_a_trained_layer_of_attention_is_proved_or_broken_case_by_case(tmp_path: Path) -> None:
    task = separatrix.task("index-lookup", n=4, alphabet=4)
    member, training = separatrix.Member(seed=0, lr=1e-3), separatrix.Training(steps=3)
    store = separatrix.Store(tmp_path / "runs")
    model = separatrix.model("transformer", layers=1, width=16, heads=2)
    separatrix.train(task, model, members=[member], training=training, store=store, device="cpu")
    (run,) = store.runs()
    found = answer(worst.VIEW, tmp_path, path="runs", run=run.key)
    assert (found["verdict"], len(found["cases"])) == ("refuted", 16)
    assert found["worst"]["expected"] != found["worst"]["answered"]
    row = task.parse(found["worst"]["input"])
    assert task.render_target(task.solve(row.unsqueeze(0)).answer[0]) == found["worst"]["expected"]
    cut: Any = worst.VIEW.answer({"path": "runs", "run": run.key}, Folder(tmp_path), Deadline(0.0))
    assert 1 <= len(cut["cases"]) < 16
    assert "no time for the others" in cut["reason"]
