from __future__ import annotations

import itertools
from typing import Any

import pytest

from separatrix.explorer.view import TimeIsUp
from separatrix.explorer.views.turing import FAMILIES, MACHINES, VIEW
from separatrix.tasks.machines import execute, library_machine
from tests.explorer.view_asking import put, refused


def checked(told: Any) -> None:
    """The run is the plain simulator's, and each step has the words that it took."""
    plain = execute(library_machine(told["machine"]), told["tape"], max_steps=1000)
    assert told["same"]
    assert (told["answer"], told["oracle"]) == (plain.state, plain.state)
    assert (told["state"], told["head"], told["first"]) == (plain.state, plain.head, plain.first)
    assert told["left"] == list(plain.tape)
    begin = 0
    for step, right in zip(told["steps"], plain.steps, strict=True):
        wanted = (right.cell, right.state, right.read, right.rule.write, right.rule.move, right.rule.state)
        assert tuple(step[key] for key in ("cell", "state", "read", "write", "move", "next")) == wanted
        words = told["words"][begin : step["end"]]
        assert begin < step["end"] <= len(told["words"])
        assert words[-1].removeprefix(">") == right.rule.state
        cell = f"@{right.cell}"
        if told["family"] == "hybrid-cot":
            assert words[-5:] == [cell, right.read, right.rule.write, right.rule.move, right.rule.state]
        elif told["family"] == "linear-rnn+retrieval":
            assert words[-4:] == [cell, right.rule.write, right.rule.move, right.rule.state]
        begin = step["end"]
    assert told["words"][-1] == plain.state


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_runs_a_machine(family: str) -> None:
    for tape in ("", "01"):
        checked(put(VIEW, {"machine": "parity", "tape": tape, "family": family}))
    told = put(VIEW, {"machine": "busy-beaver-2", "family": family})
    assert told["first"] < 0
    checked(told)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_runs_on_its_tape(machine: str, family: str) -> None:
    told = put(VIEW, {"machine": machine, "family": family})
    assert told["tape"] == list(MACHINES[machine].example)
    checked(told)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_short_tape_and_the_longest_ones(family: str) -> None:
    for length in range(5):
        for tape in itertools.product("01", repeat=length):
            told = put(VIEW, {"machine": "palindrome", "tape": "".join(tape), "family": family})
            checked(told)
            assert told["answer"] == ("yes" if tape == tape[::-1] else "no")
    for machine, longest in (("palindrome", "0101001010"), ("balanced-brackets", "((((()))))")):
        checked(put(VIEW, {"machine": machine, "tape": longest, "family": family}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "tape", "answer"),
    [
        ("palindrome", "", "yes"),
        ("palindrome", "0 1 1", "no"),
        ("balanced-brackets", "())", "no"),
        ("parity", "111", "odd"),
        ("binary-increment", "111", "done"),
    ],
)
def test_other_tapes(machine: str, tape: str, answer: str) -> None:
    told = put(VIEW, {"machine": machine, "tape": tape, "family": "hybrid-cot"})
    checked(told)
    assert told["answer"] == answer


def test_what_searches_pasted_back_is_marked() -> None:
    told = put(VIEW, {"machine": "parity", "tape": "01"})
    words = told["words"]
    assert told["returned"] == [place + 1 for place, word in enumerate(words) if word == "<EndSearch>"]
    assert put(VIEW, {"machine": "parity", "tape": "01", "family": "hybrid-cot"})["returned"] == []


def test_the_page_is_told_of_every_machine() -> None:
    told = put(VIEW, {"family": "hybrid-cot"})
    assert [each["name"] for each in told["machines"]] == list(MACHINES)
    assert told["machines"][0]["alphabet"] == ["_", "0", "1"]
    assert ["first", "0", "_", "R", "carry0"] in told["rules"]
    assert told["machine"] == VIEW.default["machine"]


@pytest.mark.parametrize(
    ("asked", "saying"),
    [
        ({"machine": "binary-multiplication"}, "'machine' is one of"),
        ({"family": "rnn"}, "'family' is one of"),
        ({"tape": "0120"}, "palindrome has the symbols _ 0 1; got '2'"),
        ({"tape": "0" * 11}, "at most 10 cells here; got 11"),
        ({"tape": ["0"]}, "'tape' is a text"),
        ({"tape": "0" * 99}, "60 characters"),
        ({"machine": "busy-beaver-4", "tape": "00011"}, "at most 110 steps here"),
        ({"cells": 3}, "machine, tape, family"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(asked: dict[str, Any], saying: str) -> None:
    refused(VIEW, asked, saying)


def test_the_deadline_is_kept() -> None:
    with pytest.raises(TimeIsUp):
        put(VIEW, {}, seconds=0)
