"""`separatrix turing`: machines compiled to weights and run from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from separatrix.cli import showing
from tests.cli.running import refused, run

FAMILIES: Final = ("linear-rnn+retrieval", "hybrid", "linear-rnn-cot")
FLIP: Final = """machine: flip
start: flip
halt: done
flip 0 -> flip 1 R
flip 1 -> flip 0 R
flip _ -> done S
"""
RUNNER: Final = """machine: runner
start: go
halt: never
go _ -> go R
"""


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def flip(tmp_path: Path) -> str:
    path = tmp_path / "flip.txt"
    path.write_text(FLIP, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_machine_of_ones_own(flip: str, family: str) -> None:
    facts = run("turing", flip, "--tape", "0 1", "--family", family, "--cells", "2", "--json").answer
    assert (facts["answer"], facts["machine"], facts["ended"]) == ("done", "flip", "halted")
    assert facts["steps"] == len(facts["run"]) == 3
    assert facts["run"][1] == {
        "state": "flip",
        "cell": 1,
        "read": "1",
        "write": "0",
        "move": "R",
        "next": "flip",
    }
    assert (facts["tape"], facts["first_cell"], facts["head"]) == (["1", "0", "_"], 0, 2)
    assert facts["written"] == len(facts["trace"])
    assert facts["tokens"] == facts["written"] + 4
    assert bool(facts["searches"]) == (family == "linear-rnn+retrieval")


def test_every_step_is_shown_with_its_tape(flip: str) -> None:
    page = run("turing", flip, "--tape", "0 1", "--family", "hybrid", "--steps", "9", "--show").out
    assert page == (
        "W-5.8: flip by hybrid-cot\n"
        "step  state  rule   tape\n"
        "   0  flip   0→1 R  [0]1\n"
        "   1  flip   1→0 R   1[1]\n"
        "   2  flip   _→_ S   1 0[_]\n"
        "   3  done           1 0[_]\n"
        "in the model's words:\n"
        "  flip @0 0 1 R flip @1 1 0 R flip @2 _ _ S done\n"
        "answer: done\n"
        "tape: 1 0\n"
        "3 steps of the machine, 4 tokens read, 16 written\n"
    )


def test_searches_stand_below_their_step(flip: str) -> None:
    page = run("turing", flip, "--tape", "01", "--steps", "9", "--show").out.splitlines()
    assert page[2:6] == [
        "   0  flip   0→1 R  [0]1",
        "      search   .*\\s@0\\s(\\S+)\\s  →  FAILED",
        "      search   ^<s>(?:\\s\\S+){0}\\s(\\S+)\\s(?:\\S+\\s)*?=\\s  →  0",
        "   1  flip   1→0 R   1[1]",
    ]


@pytest.mark.parametrize("family", [FAMILIES[0], pytest.param(FAMILIES[1], marks=pytest.mark.slow)])
def test_busy_beaver_4_runs_to_its_end(family: str) -> None:
    ran = run("turing", "busy-beaver-4", "--family", family, "--steps", "107", "--json")
    assert ran.code == 0
    assert (ran.answer["steps"], ran.answer["tape"].count("1")) == (107, 13)
    page = run("turing", "busy-beaver-4", "--family", family, "--steps", "107", "--show").out
    assert "\n 107  H              1[0]1 1 1 1 1 1 1 1 1 1 1 1\n" in page
    assert max(map(len, page.splitlines())) <= 80


def test_a_long_tape_is_shown_around_the_head(flip: str) -> None:
    page = run("turing", flip, "--tape", "0" * 60, "--family", "hybrid", "--steps", "70", "--show").out
    assert max(map(len, page.splitlines())) <= 80
    assert "\n  30  flip   0→1 R  …  1 " in page
    assert page.count("[") == 62
    assert "in the model's words" not in page


def test_numbers_that_are_too_coarse_are_told_from_too_few_steps() -> None:
    ran = run("turing", "binary-increment", "--tape", "1 1", "--steps", "9", "--arithmetic", "nearest:5")
    assert ran.code == 1
    page = " ".join(ran.out.split())
    assert "tokens are enough for any input: in nearest:5 these weights do not hold" in page
    assert "makes room" not in page


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_machine_that_never_halts(tmp_path: Path, family: str) -> None:
    path = tmp_path / "runner.txt"
    path.write_text(RUNNER, encoding="utf-8")
    line = ("turing", str(path), "--family", family, "--steps", "7", "--cells", "40")
    ran = run(*line)
    assert ran.code == 1
    assert ran.err == ""
    assert "answer: none, out of steps; --steps makes room for more\ntape: _\n" in ran.out
    facts = run(*line, "--json").answer
    assert (facts["answer"], facts["ended"], facts["outcome"]) == (None, "out of steps", "limit")
    assert facts["steps"] >= 7
    assert facts["tape"] == ["_"] * (facts["steps"] + 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_machine_that_leaves_its_room(tmp_path: Path, family: str) -> None:
    path = tmp_path / "runner.txt"
    path.write_text(RUNNER, encoding="utf-8")
    ran = run("turing", str(path), "--family", family, "--steps", "50", "--cells", "3")
    assert ran.code == 1
    assert "answer: none, out of space; --cells makes room for more\ntape: _\n" in ran.out


def test_a_long_run_is_cut(flip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "_MOST_LINES", 10)
    page = run("turing", flip, "--tape", "0" * 20, "--family", "hybrid", "--steps", "30", "--show").out
    assert "\n   8  flip   0→1 R   1 1 1 1 1 1 1 1[0]0 0 0" in page
    assert "\n… and 13 lines more (--json has all)\nanswer: done\n" in page


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            FLIP.replace("flip _ -> done S\n", ""),
            "Machine flip has no rule for state flip reading _; add one.",
        ),
        (
            FLIP.replace("flip _ -> done", "flip _ -> doen"),
            (
                "Machine flip has no rule at all for state doen, which line 6 enters. 'halt:' names done, "
                "which no rule enters. Did you mean done? A state without rules belongs in 'halt:'."
            ),
        ),
        (
            FLIP.replace("halt: done\n", ""),
            "has no halting state, so it could never stop; name one with 'halt:'",
        ),
        (FLIP.replace("start: flip\n", ""), "A machine needs one word after 'start:'; got 0."),
        (
            FLIP.replace("start: flip", "start: flop\nstates: flip done"),
            "has the start state 'flop', which its",
        ),
        (FLIP.replace("flip 1 R", "flip 1 U"), "that moves 'U'; a move is L, R or S."),
        (FLIP + "flip 0 -> done S\n", "Line 7 is a second rule for state flip reading 0"),
        (FLIP + "so it goes\n", "Line 7 is neither a rule"),
        (FLIP + "\x1b[2J\n", "got '\\x1b[2J'"),
        (FLIP.replace("done", "FULL"), "uses the word 'FULL', which stands for something else"),
        ("", "A machine needs one word after 'start:'; got 0."),
    ],
)
def test_a_file_that_is_no_machine(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "machine.txt"
    path.write_text(text, encoding="utf-8")
    assert words in refused("turing", str(path))


def test_a_machine_with_too_many_rules(tmp_path: Path) -> None:
    path = tmp_path / "machine.txt"
    states = "\n".join(f"q{i} any -> q{i + 1} R" for i in range(40))
    path.write_text(
        f"start: q0\nhalt: q40\nalphabet: _ {' '.join(f'a{i}' for i in range(30))}\n{states}\n",
        encoding="utf-8",
    )
    said = refused("turing", str(path))
    assert "A machine of at most 1,000 rules is compiled to linear-rnn+retrieval; unnamed has 1,240." in said


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "turing needs MACHINE (a file with a machine, or the name of one in the library)"),
        ("palindrom", "Did you mean palindrome? Known: unary-increment,"),
        ("missing.txt", "There is no file 'missing.txt'; name a text file that holds a machine."),
        (".", "'.' is a folder; name a text file that holds a machine."),
        ("x\0y.txt", "There is no file 'x\\x00y.txt'"),
        ("\x1b[2J", "\\x1b[2J"),
        ("palindrome --tape 0_2", "The tape of palindrome has the symbols _ 0 1; got '2'."),
        ("palindrome --tape 012", "The tape of palindrome has the symbols _ 0 1; got '012'."),
        ("palindrome --tape \x1b[2J", "got '\\x1b[2J'."),
        ("palindrome --tape -1", "got '-1'."),
        ("palindrome --steps -4", "A run has 1 to 1,048,576 steps; got steps=-4."),
        ("palindrome --steps 0", "A run has 1 to 1,048,576 steps; got steps=0."),
        ("palindrome --steps 100000000", "A run has 1 to 1,048,576 steps; got steps=100000000."),
        ("palindrome --steps x", "--steps needs a whole number; got 'x'."),
        ("palindrome --cells 0", "--cells needs 1 or more; got 0."),
        ("palindrome --cells 20000", "Cells are sought up to number 10,000"),
        ("palindrome --cells 5000 --family linear-rnn-cot", "A tape in the state is carried up to"),
        (
            "palindrome --family rnn",
            "--family is one of linear-rnn+retrieval, hybrid, hybrid-cot, linear-rnn-cot",
        ),
        ("palindrome --arithmetic x", "'x'"),
        ("palindrome 0", "'0' is one word too many"),
    ],
)
def test_wrong_use_is_one_sentence(line: str, words: str) -> None:
    assert words in refused("turing", *(word.replace("_", " ") for word in line.split(" ") if word))


def test_a_binary_file_is_no_machine(tmp_path: Path) -> None:
    path = tmp_path / "machine.txt"
    path.write_bytes(b"\xff\xfe\x00")
    assert "is no text: byte 0 is not UTF-8; name a text file that holds a machine." in refused(
        "turing", str(path)
    )
