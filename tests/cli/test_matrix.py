"""`separatrix matrix`: the picture, the numbers, the object, and what is refused."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from separatrix.cli import main, progress
from separatrix.communication import entries
from tests.cli.running import refused, run


def test_the_page_shows_the_matrix_and_what_follows() -> None:
    ran = run("matrix", "eq", "--n", "3")
    assert (ran.code, ran.err) == (0, "")
    lines = [line.rstrip() for line in ran.out.splitlines()]
    assert lines[:2] == ["EQ, n = 3: 8 × 8 entries, 2 answers", "000  ██"]
    page = " ".join(ran.out.split())
    for sentence in (
        "one message 8 different rows: 3 bits",
        "rank over the reals 8 for 0, 8 for 1: at least 16 leaves, 4 bits",
        "rank over GF(2) 8 for 0, 8 for 1: at least 16 leaves, 4 bits",
        "8 for 1 (none is larger), 3 for 0 (none is larger): at least 4 bits",
        "(000, 000), (001, 001), (010, 010), (011, 011), …",
        "rectangles at least 4 bits",
        "best protocol 4 bits, 16 leaves",
        "both know it after 4 bits, exactly",
    ):
        assert sentence in page
    assert max(map(len, lines)) <= 80


def test_the_object_has_the_same_numbers() -> None:
    answer = run("matrix", "index", "--n", "2", "--alphabet", "3", "--json").answer
    assert answer["problem"] == "INDEX, n = 2, alphabet 3"
    assert (answer["rows"], answer["columns"], answer["values"], answer["total"]) == (9, 2, 3, True)
    assert answer["one_way"] == {
        "messages_at_least": 9,
        "messages_at_most": 9,
        "bits": 4,
        "bits_enough": 4,
    }
    assert answer["rank_over_reals"] == {"ranks": [2, 2, 2], "bits": 3}
    assert [one["size"] for one in answer["fooling_sets"]] == [2, 2, 2]
    assert all(len(one["members"]) == one["size"] for one in answer["fooling_sets"])
    assert (answer["bits_at_least"], answer["bits_at_most"]) == (3, 3)
    assert list(answer["left_out"]) == ["discrepancy"]
    assert answer["picture"] is None


@pytest.mark.slow
def test_dyck_under_a_partition(tmp_path: Path) -> None:
    picture = tmp_path / "dyck.png"
    line = ("matrix", "dyck", "--n", "6", "--partition", "odd/even", "--picture", str(picture))
    answer = run(*line, "--json").answer
    assert answer["problem"] == "dyck, n = 6, split odd/even"
    best = answer["fooling_sets"][0]
    assert (best["value"], best["size"], best["at_most"]) == (1, 32, 32)
    assert answer["picture"] == str(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    halves = run("matrix", "dyck", "--n", "6", "--partition", "1-3", "--json").answer
    assert halves["one_way"]["messages_at_least"] == 3
    assert run(*line).out.splitlines()[-1] == str(picture)


def test_a_position_chooses_the_label() -> None:
    line = ("matrix", "match2", "--n", "4", "--modulus", "3")
    answers = [run(*line, *more, "--json").answer for more in ((), ("--position", "1"), ("--position", "4"))]
    # For any match, and for her own first number, she says "there is one", "I lack a 1" or "I lack a 2"; for
    # a number of Bob's she says which of 1 and 2 she has.
    assert [answer["one_way"]["messages_at_least"] for answer in answers] == [3, 3, 4]
    assert "there is no label at position 5" in refused(*line, "--position", "5")
    assert "there is no label at position 0" in refused(*line, "--position", "0")


def test_a_promise_says_what_it_leaves_out() -> None:
    page = " ".join(run("matrix", "is-tree", "--n", "3", "--budget", "1").out.split())
    assert "not every pair an input" in page
    assert "messages, by a clique and a colouring" in page
    assert "rank over GF(2) left out: A rank bounds total functions only" in page


def test_help_knows_the_flags_of_what_is_named() -> None:
    general = run("matrix", "--help").out
    assert "--alphabet" in general
    assert "--partition" in general
    assert "--types" in run("matrix", "dyck", "--help").out
    equality = run("matrix", "eq", "--help").out
    assert "--alphabet" not in equality
    assert "--partition" not in equality


def test_wrong_use_is_refused_in_a_sentence() -> None:
    assert refused("matrix", "eqq", "--n", "3").startswith(
        "There is no problem or task 'eqq'. Did you mean eq"
    )
    assert refused("matrix", "--n", "3", "eq") == "Name the problem right after matrix; got 'eq' later on."
    assert "here position 4 is given to nobody" in refused(
        "matrix", "dyck", "--n", "4", "--partition", "1,2/3"
    )
    assert "got 'x.pdf'" in refused("matrix", "eq", "--n", "3", "--picture", "x.pdf")
    assert "A budget is a number of seconds" in refused("matrix", "eq", "--n", "3", "--budget", "0")
    assert "Alice may hold 2^60 strings" in refused("matrix", "eq", "--n", "60")
    assert "eq needs n of at least 1; got n=0" in refused("matrix", "eq", "--n", "0")
    assert "takes 2,048 MiB packed; at most 512 are held" in refused("matrix", "eq", "--n", "17")
    assert "answers with vectors" in refused("matrix", "q-sparse-averaging", "--n", "4")
    assert "needs --n" in refused("matrix", "gt")


@pytest.mark.parametrize("name", ["INDEX", "Index", "index"])
def test_a_problem_is_named_in_letters_of_either_case(name: str) -> None:
    said = run("matrix", name, "--n", "3", "--alphabet", "3", "--json").answer
    assert said["problem"] == "INDEX, n = 3, alphabet 3"
    assert said["rows"] == 27


def test_so_is_a_task_with_its_own_options() -> None:
    assert run("matrix", "Dyck", "--n", "4", "--types", "1", "--json").answer == (
        run("matrix", "dyck", "--n", "4", "--types", "1", "--json").answer
    )


def test_how_far_the_filling_is_shows_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(progress, "_FIRST", 0.0)
    monkeypatch.setattr(progress, "_BETWEEN", 0.0)
    monkeypatch.setattr(entries, "_BLOCK", 1 << 4)
    for screen, told in ((Terminal(), True), (io.StringIO(), False)):
        with redirect_stderr(screen), redirect_stdout(io.StringIO()):
            assert main(["matrix", "eq", "--n", "3", "--json"]) == 0
        said = screen.getvalue()
        assert said.startswith("\r2 of 8 rows filled, about 0 s to go") is told
        assert ("8 of 8 rows filled" in said and said.endswith("\n")) is told
