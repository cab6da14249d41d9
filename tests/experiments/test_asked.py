"""What was asked last: kept whole, read back strictly."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.experiments.asked import Asked, last_asked, remember

ALL = Asked(
    name="s-fig2",
    budget="paper",
    grid="full",
    halving=False,
    lengths="all",
    seeds=(3, 4),
    models=(("Transformer", Path("/models/one")),),
    file=Path("/hotpot.json"),
    panels=("dyck",),
    rows=("TF", "LSTM-(1,64)"),
    columns=(20, 400),
    search="optuna",
    trials=5,
    engine="ray",
    device="cpu",
    processes=2,
    abreast=3,
    seats=3,
    minutes=1.5,
    address="10.0.0.1:6379",
    gpus_per_job=0.5,
    out=Path("/out"),
    keep=Path("/results"),
)


def test_every_field_comes_back(tmp_path: Path) -> None:
    plain = Asked(name="r-qsa")
    for field in fields(Asked):
        assert getattr(ALL, field.name) != getattr(plain, field.name), f"{field.name} is not put to the test"
    for asked in (ALL, plain):
        remember(asked, tmp_path)
        assert last_asked(asked.name, tmp_path) == asked


@pytest.mark.parametrize(("bands", "lengths"), [(False, "all"), (True, "bands")])
def test_what_was_asked_before_there_were_pairs_is_understood(
    tmp_path: Path, bands: bool, lengths: str
) -> None:
    remember(Asked(name="s-fig2", lengths="bands"), tmp_path)
    kept = tmp_path / "experiments" / "s-fig2.json"
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"bands": bands}))
    assert last_asked("s-fig2", tmp_path) == Asked(name="s-fig2", lengths=lengths)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "lanes"),
    [
        ({"budget": "paper"}, 4),
        ({"budget": "paper", "device": "cuda:1"}, 4),
        ({"budget": "paper", "abreast": 1}, 1),
        ({"budget": "paper", "processes": 2}, 1),
        ({"budget": "paper", "engine": "ray"}, 1),
        ({"budget": "paper", "device": "cpu"}, 1),
        ({"budget": "quick"}, 1),
        ({"budget": "quick", "abreast": 3}, 3),
        ({}, 1),
    ],
)
def test_several_jobs_at_once_are_usual_where_they_are_long(given: dict[str, Any], lanes: int) -> None:
    assert Asked(name="s-fig2", **given).lanes == lanes


def test_what_was_asked_before_several_at_once_were_usual_is_left_open(tmp_path: Path) -> None:
    remember(Asked(name="s-fig2", budget="paper"), tmp_path)
    assert "abreast" not in json.loads((tmp_path / "experiments" / "s-fig2.json").read_text())
    one = Asked(name="s-fig3", budget="paper", abreast=1)
    remember(one, tmp_path)
    assert last_asked("s-fig3", tmp_path) == one


def test_lengths_come_in_ways_that_there_are() -> None:
    with pytest.raises(InvalidInput, match="An experiment's lengths is one of all, bands, pairs; got 'some'"):
        Asked(name="s-fig2", lengths="some")  # type: ignore[arg-type]


def test_the_last_counts_and_each_has_its_own(tmp_path: Path) -> None:
    assert last_asked("s-fig2", tmp_path) is None
    remember(Asked(name="s-fig2", seeds=(1,)), tmp_path)
    remember(Asked(name="s-fig3"), tmp_path)
    remember(ALL, tmp_path)
    assert last_asked("s-fig2", tmp_path) == ALL
    assert last_asked("s-fig3", tmp_path) == Asked(name="s-fig3")
    assert sorted(path.name for path in (tmp_path / "experiments").iterdir()) == [
        "s-fig2.json",
        "s-fig3.json",
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"more": 1}, "has fields that its schema does not know: 'more'"),
        ({"budget": "huge"}, "is one of smoke quick paper"),
        ({"halving": 1}, "'halving' of separatrix.asked-experiment must be true or false"),
        ({"seeds": [0, -1]}, "must lie between 0 and 10"),
        ({"seeds": [0] * 10_001}, "may have 10,000 items; it has 10,001"),
        ({"columns": ["20"]}, "must be a whole number"),
        ({"models": [{"name": "a", "folder": "b", "code": "c"}]}, "does not know: 'code'"),
        ({"trials": 0}, "at least one trial"),
        ({"minutes": "5"}, "must be a number"),
        ({"name": "s-fig3"}, "is about s-fig3, not about s-fig2"),
        ({"name": "../../etc"}, "The name of an experiment has"),
        ({"version": 2}, "was written by a newer separatrix"),
    ],
)
def test_a_file_is_read_strictly(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    remember(ALL, tmp_path)
    path = tmp_path / "experiments" / "s-fig2.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **change}), encoding="utf-8")
    with pytest.raises(InvalidFile) as refused:
        last_asked("s-fig2", tmp_path)
    assert words in str(refused.value)


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    path = tmp_path / "experiments" / "s-fig2.json"
    for content in ("", "[]", "{" * 100, '{"schema": "separatrix.plan"}', " " * (2**20 + 1)):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(InvalidFile):
            last_asked("s-fig2", tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InvalidFile, match="cannot be read"):
        last_asked("s-fig2", tmp_path)


def test_nothing_endless_is_asked() -> None:
    endless = float("inf")
    with pytest.raises(InvalidInput, match="An experiment's minutes is a finite number; got minutes=inf"):
        Asked(name="s-fig2", minutes=endless)
    with pytest.raises(InvalidInput, match="An experiment's gpus_per_job is a finite number"):
        Asked(name="s-fig2", gpus_per_job=endless)
