"""`separatrix break`: attacks on runs and witnesses, their exit codes, and what is kept of them."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.cells import cell_len

import separatrix
from separatrix.certificates import certify
from separatrix.certificates.attacks import break_model
from separatrix.evidence import Breaking
from separatrix.store import Run, Store
from separatrix.training import load_run
from separatrix.witnesses import witness_for
from separatrix.witnesses.files import CERTIFICATE, save
from tests.cli.running import refused, run
from tests.cli.trained import RECURRENT, RIGHT, TASK, TWO_LAYERS, trained, with_nan
from tests.witnesses.forging import set_number


class Made(NamedTuple):
    store: Store
    right: Run
    wrong: Run
    deep: Run
    recurrent: Run


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Made:
    store = Store(tmp_path_factory.mktemp("trained") / "runs")
    return Made(
        store,
        trained(store, steps=RIGHT),
        trained(store, steps=1),
        trained(store, steps=1, model=TWO_LAYERS),
        trained(store, steps=1, model=RECURRENT),
    )


@pytest.fixture
def made(original: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A copy in the usual place, with attacks of one round each, so that time decides nothing."""
    monkeypatch.delenv("SEPARATRIX_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(original.store.path, "runs")

    def briefly(*given: Any, **options: Any) -> Breaking:
        return break_model(
            *given,
            rounds=1,
            **{**options, "samples": 100 if options["samples"] is None else options["samples"]},
        )

    monkeypatch.setattr("separatrix.certificates.attacks.break_model", briefly)
    return original._replace(store=Store("runs"))


def test_broken(made: Made) -> None:
    ran = run("break", made.wrong.short, "--json")
    assert (ran.code, ran.err) == (1, "")
    answer = ran.answer
    assert answer["broken"] is True
    assert (answer["run"], answer["model"]) == (made.wrong.key, "transformer-(1,8)")
    assert answer["tried"] == sum(each["tried"] for each in [*answer["attempts"], answer["samples"]])
    population = load_run(made.store, made.wrong.key).population
    assert answer["counterexamples"]
    for found in answer["counterexamples"]:
        row = TASK.parse(found["text"]).unsqueeze(0)
        labels = TASK.solve(row)
        answers = population(row.unsqueeze(0))[0].argmax(-1)
        assert labels.targets[labels.mask].tolist() == found["expected"]
        assert answers[labels.mask].tolist() == found["answered"] != found["expected"]
    kept = made.store.breaking(made.wrong.key)
    assert kept is not None
    assert json.loads(json.dumps(kept.to_fields())).items() <= answer.items()
    assert answer["evidence"] == f"runs/evidence/{made.wrong.key}.breaking.json"


def test_the_page_sets_attacks_beside_samples(made: Made) -> None:
    page = run("break", made.wrong.short, "--samples", "50")
    assert (page.code, page.err) == (1, "")
    lines = page.out.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert lines[0].startswith("broken  index-lookup(n=3, alphabet=2, ")
    found = made.store.breaking(made.wrong.key)
    assert found is not None
    rows = {line[:21].strip(): line[21:].split() for line in lines}
    assert rows["attack"] == ["tried", "failed", "share", "least", "margin"]
    for attempt in (*found.attempts, found.samples):
        assert rows[attempt.attack][:2] == [f"{attempt.tried:,}", f"{attempt.failures:,}"]
    assert rows["all attacks"][1] == f"{found.attack_failures:,}"
    assert rows["random samples"][0] == "50"
    first = found.counterexamples[0]
    place = lines.index(f"  {first.text}")
    assert first.expected == (1 - first.answered[0],)  # type: ignore[index, operator]
    assert lines[place + 1] == f"  right: s{first.expected[0]}; answered: s{first.answered[0]}"  # type: ignore[index]
    count = len(found.counterexamples)
    assert f"{count} counterexamples, each run again alone" in lines
    assert lines[-1] == f"… and {count - 3} more (--json has all)"


def test_not_broken(made: Made) -> None:
    ran = run("break", made.right.short, "--json")
    assert (ran.code, ran.answer["broken"], ran.answer["counterexamples"]) == (0, False, [])
    page = run("break", made.right.short)
    assert page.code == 0
    assert page.out.startswith("not broken  index-lookup(")
    assert page.out.endswith("Nothing found does not mean that there is nothing.\n")
    assert max(map(cell_len, page.out.splitlines())) <= 80


@pytest.mark.slow
def test_models_of_any_kind(made: Made) -> None:
    for each in (made.deep, made.recurrent):
        ran = run("break", str(made.store.place("weights", each.key, "safetensors")), "--json")
        assert (ran.code, ran.answer["run"]) == (1, each.key)
    assert run("break", made.deep.short, "--json").answer["model"] == "transformer-(2,8)"


@pytest.mark.slow
def test_witnesses(made: Made, tmp_path: Path) -> None:
    built = witness_for(separatrix.task("index-lookup", n=4, alphabet=2))
    folder = save(built, tmp_path / "w", certify(built))
    ran = run("break", str(folder), "--json")
    assert (ran.code, ran.answer["broken"], ran.answer["run"]) == (0, False, None)
    assert (ran.answer["path"], ran.answer["evidence"]) == (str(folder), None)
    matrix = separatrix.load(folder).model.tensors()["readout.matrix"].reshape(-1).tolist()
    for place, value in enumerate(matrix):
        set_number(folder, "readout.matrix", place, -value - 1.0)
    (folder / CERTIFICATE).unlink()
    page = run("break", str(folder))
    assert page.code == 1
    assert page.out.startswith("broken  index-lookup(n=4, alphabet=2, ")
    assert "by transformer-1, in" in page.out
    assert "This witness is for" in refused("break", str(folder), "--task", "index-lookup", "--n", "5")


@pytest.mark.slow
def test_what_is_asked_for_arrives(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def note(model: object, task: object, **options: Any) -> Breaking:
        asked.update(options, task=task)
        return break_model(model, task, rounds=1, budget=60.0, samples=10)  # type: ignore[arg-type]

    monkeypatch.setattr("separatrix.certificates.attacks.break_model", note)
    run("break", made.wrong.short, "--budget", "2m", "--seed", "7", "--samples", "33", "--device", "cpu")
    assert (asked["budget"], asked["seed"], asked["samples"], asked["device"].type) == (120.0, 7, 33, "cpu")
    assert asked["task"] == TASK
    run("break", made.wrong.short, "--task", "index-lookup", "--lengths", "full")
    assert asked["task"] == dataclasses.replace(TASK, lengths="full")  # type: ignore[call-arg]
    assert (asked["budget"], asked["seed"], asked["samples"]) == (60.0, 0, None)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("break", "break needs PATH (the beginning of a run's key, "),
        ("break abc0", "There is no run 'abc0' in 'runs'; `separatrix runs list` lists them."),
        (
            "break WRONG --budget soon",
            "A time is a number and a unit, such as 500ms, 60s, 2m or 1h; got 'soon'.",
        ),
        (
            "break WRONG --budget -1s",
            "A time is a number and a unit, such as 500ms, 60s, 2m or 1h; got '-1s'.",
        ),
        ("break WRONG --budget 0s", "A budget is a positive number of seconds; got 0.0. Try 60."),
        ("break WRONG --samples 0", "At least one sample is drawn; got samples=0."),
        ("break WRONG --samples x", "--samples needs a whole number; got 'x'."),
        ("break WRONG --seed -1", "A seed is a whole number from 0 to 2^64 − 1; got -1."),
        ("break WRONG --device abacus", "A device is auto, cpu, cuda or cuda:1; got 'abacus'."),
        (
            "break WRONG --task index-lookup --n 4",
            "made for 4 positions with 6 tokens and 2 classes; index-lookup",
        ),
    ],
)
@pytest.mark.usefixtures("made")
def test_wrong_use_is_one_sentence(original: Made, line: str, words: str) -> None:
    named = line.replace("WRONG", original.wrong.short).split()
    assert words in refused(*named)
    assert not Path("runs/evidence").exists()


def test_weights_that_are_no_numbers(made: Made) -> None:
    with_nan(made.store, made.wrong)
    assert "Weights are finite numbers, and '" in refused("break", made.wrong.short)


def test_runs_show_mentions_it(made: Made) -> None:
    run("break", made.wrong.short)
    found = made.store.breaking(made.wrong.key)
    assert found is not None
    attacked = found.tried - found.samples.tried
    text = f"{found.attack_failures:,} of {attacked:,} inputs failed, {found.samples.failures:,} of 100 drawn"
    assert f"attacked broken: {text}" in " ".join(run("runs", "show", made.wrong.short).out.split())
    assert run("runs", "show", made.wrong.short, "--json").answer["evidence"]["attacked.broken"] is True


def test_a_weaker_attack_does_not_take_the_place_of_a_stronger_one(made: Made) -> None:
    run("break", made.wrong.short, "--samples", "200")
    strong = made.store.breaking(made.wrong.key)
    assert strong is not None
    weak = run("break", made.wrong.short, "--samples", "10", "--json")
    assert (weak.code, weak.answer["samples"]["tried"], weak.answer["evidence"]) == (1, 10, None)
    failed = strong.attack_failures + strong.samples.failures
    assert weak.err == (
        f"The store keeps its stronger attacks on these weights: {failed:,} of {strong.tried:,} inputs "
        "failed. This result is not kept.\n"
    )
    assert made.store.breaking(made.wrong.key) == strong
    stronger = run("break", made.wrong.short, "--samples", "300", "--json")
    assert (stronger.err, stronger.answer["evidence"] is None) == ("", False)
    kept = made.store.breaking(made.wrong.key)
    assert kept is not None
    assert kept.samples.tried == 300


def test_attacks_that_cannot_be_read_are_replaced(made: Made) -> None:
    run("break", made.wrong.short, "--samples", "200")
    (path,) = Path("runs/evidence").iterdir()
    path.write_text("{}")
    assert run("break", made.wrong.short, "--samples", "10", "--json").answer["evidence"] == str(path)
    assert made.store.breaking(made.wrong.key) is not None
