"""`separatrix bound` and `separatrix wall`: the page, the JSON object, exit codes, and what is refused."""

from __future__ import annotations

import dataclasses
import inspect
import json

import pytest
from rich.cells import cell_len

from separatrix.cli.bounding import bound as bound_command
from separatrix.communication.bounds import artefacts, bounds_for
from separatrix.tasks import TASKS, task
from separatrix.theorems import Artefact
from tests.cli.running import refused, run

LOOKUP = ("bound", "index-lookup", "--n", "1024", "--family", "rnn")
OWED = tuple(artefacts())


def test_the_object_has_the_strongest_bound_and_all_others() -> None:
    ran = run(*LOOKUP, "--precision", "16", "--json")
    answer = ran.answer
    assert ran.code == 0
    assert {name: answer[name] for name in ("quantity", "at_least", "theorem", "formula", "asymptotic")} == {
        "quantity": "state bits",
        "at_least": 6144,
        "theorem": "S-T3",
        "formula": "mp ≥ N·log|Σ|",
        "asymptotic": "Ω(N·log|Σ|)",
    }
    assert answer["via"]["problem"] == "INDEX"
    assert (answer["asked_family"], answer["least_width"], answer["meets"]) == ("rnn", 384, None)
    assert run(*LOOKUP, "--precision", "1000", "--json").answer["least_width"] == 7
    listed = bounds_for(task("index-lookup", n=1024), "rnn", precision=16)
    assert len(answer["bounds"]) == len(listed) == 4
    for fields, each in zip(answer["bounds"], listed, strict=True):
        assert fields.pop("meets") is None
        assert fields == json.loads(json.dumps(each.to_fields()))


def test_the_page_says_it_in_words() -> None:
    page = run(*LOOKUP, "--precision", "16").out
    for words in (
        "state bits ≥ 6,144 bits  S-T3, rnn",
        "  formula    mp ≥ N·log|Σ|",
        "  via        INDEX → index-lookup",
        "  width      m ≥ 384 numbers of 16 bits",
        "  length     N symbols; the index token comes after them",
        "that is not a proof that it can be done",
    ):
        assert words in page
    assert max(map(cell_len, page.splitlines())) <= 80


@pytest.mark.slow
@pytest.mark.parametrize("key", OWED, ids=lambda key: f"{key.theorem}-{key.task}-{key.family}-{key.variant}")
def test_every_bound_answers_on_the_command_line(key: Artefact) -> None:
    name = key.task or "equality"
    line = ["bound", name, "--n", str(TASKS.get(name).showcase["n"]), "--precision", "16"]
    line += [] if key.family is None else ["--family", key.family]
    answer = run(*line, "--json").answer
    found = [each for each in answer["bounds"] if each["theorem"] == key.theorem]
    assert found
    assert all(each["formula"] for each in found)
    page = " ".join(run(*line).out.split())
    assert all(" ".join(each["formula"].split()) in page for each in found)


def test_a_size_meets_a_bound_or_not() -> None:
    enough = run(*LOOKUP, "--width", "384", "--precision", "16", "--json")
    assert (enough.code, enough.answer["meets"]) == (0, True)
    short = run(*LOOKUP, "--width", "383", "--precision", "16", "--json")
    assert (short.code, short.answer["meets"]) == (1, False)
    assert [each["meets"] for each in short.answer["bounds"]] == [False, False, True, True]
    page = run(*LOOKUP, "--state-bits", "6143")
    assert page.code == 1
    assert "this size  6,143 bits: too little" in page.out
    assert "This size is too small by S-T3 and W-4.6: no such model does it on all inputs." in page.out
    assert "This size meets every bound" in run(*LOOKUP, "--state-bits", "6144").out
    layer = ("bound", "dyck", "--n", "1024", "--family", "transformer-1", "--precision", "32", "--heads", "1")
    assert run(*layer, "--width", "8").code == 1
    assert run(*layer, "--width", "9").code == 1
    assert run(*layer, "--width", "10").code == 0
    assert run(*layer).code == 0


def test_what_is_open_conditional_or_unknown_is_said() -> None:
    assert (
        "open: width ω(log N)?"
        in run("bound", "associative-recall", "--n", "8", "--family", "transformer-1").out
    )
    turing = run("bound", "turing", "--n", "4", "--family", "rnn")
    assert "if PSPACE ⊄ P/poly" in " ".join(turing.out.split())
    silent = run("bound", "dyck", "--n", "64", "--family", "hybrid")
    assert silent.code == 0
    assert "No bound is known for dyck by hybrid; that is not a proof that it can be done." in silent.out
    answer = run("bound", "dyck", "--n", "64", "--family", "hybrid", "--json").answer
    assert (answer["bounds"], answer["at_least"], answer["theorem"]) == ([], None, None)
    assert "not a proof" in answer["says"]


def test_walls() -> None:
    line = ("wall", "index-lookup", "--family", "rnn", "--state-bits", "6144")
    answer = run(*line, "--json").answer
    assert (answer["largest_n"], answer["theorem"], answer["amount"]) == (1024, "S-T3", 6144)
    assert answer["bound"]["at_least"] == 6150
    page = run(*line).out
    assert page.startswith("largest n: 1,024  index-lookup by rnn\n")
    assert max(map(cell_len, page.splitlines())) <= 80
    assert run(*line, "--alphabet", "2", "--json").answer["largest_n"] == 6144
    layer = ("wall", "dyck", "--family", "transformer-1", "--width", "4", "--precision", "8", "--heads", "1")
    assert run(*layer, "--json").answer["largest_n"] == 144
    assert run("wall", "index-lookup", "--family", "rnn", "--state-bits", "0").out.startswith("no n at all")
    assert run("wall", "nearest-neighbour", "--family", "rnn", "--state-bits", "9999999").out.startswith(
        "no wall"
    )


def test_the_help_of_a_wall_has_no_n() -> None:
    """It is what is looked for; who gives one all the same is told so."""
    for words in (("wall", "--help"), ("wall", "dyck", "--help")):
        page = run(*words).out
        assert "--family" in page
        assert "--n " not in page
    assert "--types" in page
    assert "--n " in run("bound", "dyck", "--help").out
    assert "wall finds the largest n; leave --n out." in refused(
        "wall", "dyck", "--family", "rnn", "--state-bits", "9", "--n", "4"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            ("bound", "dyck", "--n", "8", "--precision", "0"),
            "precision of a model is a whole number from 1 on",
        ),
        (("bound", "dyck", "--n", "8", "--family", "rn"), "There is no family 'rn'. Did you mean rnn?"),
        (("bound", "dyck", "--n", "8", "--width", "4"), "say which with --family"),
        (("bound", "dyck"), "needs --n"),
        (("bound",), "bound needs the name of a task"),
        (("wall", "dyck", "--family", "rnn", "--n", "8"), "wall finds the largest n; leave --n out."),
        (("wall", "dyck", "--state-bits", "8"), "needs --family"),
        (("wall", "dyck", "--family", "transformer-1"), "A wall needs a model's size"),
        (("wall", "dyck", "--family", "transformer-1", "--width", "9"), "give width, heads and precision"),
        (("wall", "index-lookup", "--family", "hybrid", "--state-bits", "9"), "that is not a proof"),
        (("wall", "equality", "--family", "rnn", "--state-bits", "9", "--alphabet", "-3"), "alphabet=-3"),
    ],
    ids=str,
)
def test_wrong_use_is_refused_in_a_sentence(line: tuple[str, ...], message: str) -> None:
    assert message in refused(*line)


def test_no_option_hides_a_parameter_of_a_task() -> None:
    own = {*inspect.signature(bound_command).parameters} - {"task"}
    for _, kind in TASKS.items():
        assert not own & {field.name for field in dataclasses.fields(kind)}
