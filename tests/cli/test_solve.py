"""`separatrix solve`: inputs put to hand-built weights from the command line."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Final

import pytest

import separatrix
from separatrix.cli import main, progress
from separatrix.witnesses.catalogue import CATALOGUE
from tests.cli.running import refused, run
from tests.forked import forked

TREE: Final = "1 ~ 3 2 ~ 3 3 ~ 4"
FAMILIES: Final = ("transformer-cot", "linear-rnn+retrieval", "hybrid-cot")
HOSTILE: Final = "\x1b[2J\x07\u202e"
HARMLESS: Final = r"\x1b[2J\x07\u202e"


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("graph", "answer"), [(TREE, "YES"), ("1 2 2 3 1 3", "NO"), ("2 1", "YES")])
def test_graphs(family: str, graph: str, answer: str) -> None:
    ran = run("solve", "is-tree", "--family", family, "--input", graph, "--json")
    assert ran.code == 0
    facts = ran.answer
    assert (facts["answer"], facts["family"], facts["outcome"]) == (answer, family, "answered")
    assert facts["steps"] == facts["written"] == len(facts["trace"])
    assert facts["tokens"] == facts["steps"] + 1 + 3 * (facts["n"] - 1)
    assert facts["trace"][-1] == {"word": answer, "by": "model"}
    returned = [each["word"] for each in facts["trace"] if each["by"] == "search"]
    assert returned == [each["result"] or "FAILED" for each in facts["searches"]]
    assert bool(returned) == (family == "linear-rnn+retrieval")


def test_a_tour_is_shown_with_its_tree() -> None:
    assert run("solve", "is-tree", "--input", TREE, "--show").out == (
        "W-4.7: is-tree by transformer-cot\n"
        "Chain of thought:\n"
        "  1 3 2 3 4 3 1 YES\n"
        "What the walk saw, 4 of 4 vertices:\n"
        "  1\n"
        "  └─ 3\n"
        "     ├─ 2\n"
        "     └─ 4\n"
        "answer: YES\n"
        "10 tokens read, 8 written\n"
    )


def test_searches_are_shown_one_by_one() -> None:
    page = run("solve", "is-tree", "--form", "retrieval", "--input", TREE, "--show").out
    assert "\n  search   (\\d+)\\s-\\s1\\s  →  0\n" in page
    assert "\n  search   (\\d+)\\s-\\s3\\s  →  FAILED\n  1 - 3 3\n" in page
    assert page.count("\n  search   ") == 20
    assert "\n     ├─ 2\n     └─ 4\nanswer: YES\n10 tokens read, 208 written, 20 searches\n" in page
    assert max(map(len, page.splitlines())) <= 80


def test_what_a_broken_walk_saw() -> None:
    page = run("solve", "is-tree", "--family", "hybrid-cot", "--input", "1 2 2 3 1 3", "--show").out
    assert "What the walk saw, 3 of 4 vertices:\n  1\n  └─ 2\n     └─ 3\nanswer: NO\n" in page


@pytest.mark.slow
def test_a_long_path_stays_within_the_page() -> None:
    path = " ".join(f"{v} {v + 1}" for v in range(1, 100))
    page = run("solve", "is-tree", "--input", path, "--show").out
    assert max(map(len, page.splitlines())) <= 80
    assert " below\nanswer: YES\n" in page


def test_a_graph_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_text("# a star\n3 1\n3-2\n\n3,4\n", encoding="utf-8")
    given = run("solve", "is-tree", "--file", str(path), "--json").answer
    assert given == run("solve", "is-tree", "--input", TREE, "--json").answer


@pytest.mark.slow
@pytest.mark.parametrize("family", ["transformer", "hybrid", "linear-rnn+retrieval"])
@pytest.mark.parametrize(
    ("line", "n", "larger", "answer"),
    [
        ("index-lookup --alphabet 4 --input", ("s2 s0 s3 s1 @3", 4), 9, "s3"),
        ("associative-recall --keys 4 --values 5 --input", ("k1 v2 k3 v4 k1", 2), 4, "v2"),
        ("c-gram --alphabet 5 --input", ("s2 s4 s1 s3 s2 s4", 4), 4, "s1"),
        ("counting --alphabet 4 --input", ("s3 s1 s3 s3 >1", 3), 3, "1"),
    ],
)
def test_small_tasks(family: str, line: str, n: tuple[str, int], larger: int, answer: str) -> None:
    text, fitting = n
    for flags in ((), ("--n", str(larger))):
        facts = run("solve", *line.split(), text, "--family", family, *flags, "--json").answer
        assert (facts["answer"], facts["family"]) == (answer, family)
        assert facts["n"] == (larger if flags else fitting)
    assert len(facts["searches"]) == (family == "linear-rnn+retrieval")


def test_one_search_is_shown() -> None:
    line = ("solve", "index-lookup", "--family", "linear-rnn+retrieval", "--input", "s2 s0 s3 @3", "--show")
    assert run(*line).out.splitlines()[1:] == [
        "Chain of thought, with its searches:",
        "  search   ^(?:\\S+\\s){3}(\\S+)  →  s3",
        "  s3",
        "answer: s3",
        "5 tokens read, 7 written, 1 search",
    ]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("dyck --family rnn --input ([])", "1"),
        ("dyck --input ([)]", "0"),
        ("mqar --input k1_v2_k2_v1_k1_v2_k2_v1", "v2 v1"),
        ("nearest-neighbour --input +-+++--++----+++_:1_++-+-+-+-+++++--_:0_--+++--++----+++?", ":1"),
        ("nearest-neighbour --input -+++---++----+++_:1_++-+-+-+-+++++--_:0_++-+-+-+-+++++++?", ":0"),
        ("equality --input 0_1_[SEP]_0_1", "1"),
        ("cycle3 --input 4:_1>2_2>3_3>1_4>3", "1 1 1 0"),
        ("match2 --input 4_2_0_0", "0 0 1 1"),
        ("disjointness --input 0110", "0"),
    ],
)
def test_answers_at_once(line: str, answer: str) -> None:
    words = [word.replace("_", " ") for word in line.split()]
    ran = run("solve", *words, "--show")
    assert ran.code == 0
    assert f"It answers at once and writes nothing down.\nanswer: {answer}\n" in ran.out
    assert ran.out.endswith(" read, 0 written\n")


def test_brackets_may_have_blanks_between_them() -> None:
    assert run("solve", "dyck", "--input", "( [ ] )", "--json").answer["n"] == 4


@pytest.mark.slow
def test_every_task_with_a_witness_is_solved_without_naming_a_family() -> None:
    for name in dict.fromkeys(entry.task for entry in CATALOGUE if entry.task not in {"is-tree", "turing"}):
        task = separatrix.task(name, n=6)
        text = task.render(task.sample(1, seed=3).inputs[0])
        ran = run("solve", name, "--n", "6", "--input", text, "--json")
        assert ran.code == 0, ran
        assert ran.answer["answer"] != ""


def test_progress_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(progress, "_FIRST", 0.0)
    monkeypatch.setattr(progress, "_BETWEEN", 0.0)
    with redirect_stderr(screen), redirect_stdout(io.StringIO()):
        assert main(["solve", "is-tree", "--input", TREE]) == 0
    assert re.fullmatch(r"(?:\r\d+ tokens, [\d,]+ a second   )+\n", screen.getvalue())


@pytest.mark.slow
def test_machines_of_the_library() -> None:
    facts = run("solve", "turing", "--machine", "palindrome", "--input", "0 1 1 0", "--json").answer
    assert (facts["answer"], facts["steps"], facts["ended"]) == ("yes", 15, "halted")
    again = run("solve", "turing", "--machine", "palindrome", "--input", "<s> 0 1 1 0 =", "--json").answer
    assert facts == again
    tape = ("--family", "linear-rnn-cot")
    assert run("solve", "turing", "--machine", "palindrome", "--input", "0111", *tape).out.endswith(
        "6 steps of the machine, 6 tokens read, 54 written\n"
    )
    assert run("solve", "turing", "--machine", "busy-beaver-2", "--input", "", "--json").answer["steps"] == 6


@pytest.mark.slow
def test_an_arithmetic_too_small_gives_no_answer_and_exit_code_1() -> None:
    line = (
        "solve",
        "is-tree",
        "--family",
        "linear-rnn+retrieval",
        "--input",
        TREE,
        "--arithmetic",
        "nearest:5",
    )
    ran = run(*line)
    assert (ran.code, ran.err) == (1, "")
    page = " ".join(ran.out.split())
    assert "answer: none, though 208 tokens are enough for any input: in nearest:5 these weights" in page
    ran = run(*line, "--json")
    assert (ran.code, ran.answer["answer"], ran.answer["outcome"]) == (1, None, "limit")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("is-tree", "Give the input with --input TEXT or with --file PATH; got neither."),
        ("is-tree --input 1_2 --file x", "Give the input with --input TEXT or with --file PATH; got both."),
        (
            "is-tree --file missing.txt",
            "There is no file 'missing.txt'; name a text file that holds an input.",
        ),
        ("is-tree --file .", "'.' is a folder; name a text file that holds an input."),
        ("is-tree --file x\0y", "There is no file 'x\\x00y'"),
        ("is-tree --input some_words", "A graph is a list of edges such as `3 ~ 7`"),
        ("is-tree --input _", "There is no edge in this graph"),
        ("is-tree --input _ --n 3", "A graph of 3 vertices is given by 2 edges; got 0."),
        ("is-tree --input 1_2 --n 5", "A graph of 5 vertices is given by 4 edges; got 1."),
        ("is-tree --input 1_2_2_3 --n 2", "A graph of 2 vertices is given by 1 edges; got 2."),
        ("is-tree --input 1_2_2_9", "With 2 edges there are 3 vertices, numbered from 1; got the edge 2 ~ 9"),
        ("is-tree --input 0_1", "got the edge 0 ~ 1."),
        ("is-tree --input -1_2", "got '-1 2' in line 1."),
        ("is-tree --input 1_2_3_3_4_1", "An edge joins two different vertices; got 3 ~ 3."),
        ("is-tree --input 1_2_2_1", "Every edge stands once; got 2 ~ 1 again."),
        ("is-tree --input 1_2 --n 100000", "is-tree needs 1 ≤ n ≤ 4096 vertices; got n=100000."),
        ("is-tree --input 1_2 --n -5", "is-tree needs 1 ≤ n ≤ 4096 vertices; got n=-5."),
        (
            "is-tree --input 1_2 --family rnn",
            "There is no witness for is-tree in the family 'rnn'. Known: tr",
        ),
        ("is-tree --input 1_2 --family transfomer-cot", "Did you mean transformer-cot"),
        ("is-tree --input 1_2 --variant x", "There is no witness for is-tree of the variant 'x'."),
        ("is-tree --input 1_2 --form direct", "There are such witnesses for is-tree with form=cot or"),
        ("is-tree --input 1_2 --arithmetic x", "'x'"),
        (f"is-tree --input 1_{HOSTILE}", HARMLESS),
        (f"is-tree --input 1_2 --family {HOSTILE}", HARMLESS),
        (f"is-tree --file {HOSTILE}", HARMLESS),
        ("is-tree --input 1_\udcff", "\\udcff"),
        ("index-lookup --input s2_s0_x_@1", "'x' is no word of this task; known are s0 … s63, @1 @2 @3."),
        (
            "index-lookup --input s2_s0_s1_@1 --n 2",
            "index-lookup with n=2 takes at most 3 words; got 4. Give another",
        ),
        ("index-lookup --input _", "index-lookup"),
        ("dyck --input (a)b", "'a' is no word of this task"),
        ("dyck --input ()()() --n 4", "dyck with n=4 takes 4 words; got 6."),
        ("counting --input s1_s0_s1_>1 --n 6", "counting with n=6 takes 8 words; got 4."),
        ("turing --input 0_x", "The tape of binary-increment has the symbols _ 0 1; got 'x'."),
        ("turing --input <s>_0_1", "needs the prompt '<s> tape ='"),
        ("phone-book --input x", "There is no witness for phone-book yet."),
        ("dick --input x", "There is no task 'dick'. Did you mean dyck"),
    ],
)
def test_bad_input_is_one_sentence(line: str, words: str) -> None:
    assert words in refused("solve", *(" ".join(word.split("_")) for word in line.split(" ")))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"To whom it may concern,\n", "got 'To whom it may concern,' in line 1."),
        (b"1 2\n2 three\n", "got '2 three' in line 2."),
        (b"\x7fELF\x02\x01\x00\xff", "is no text: byte 7 is not UTF-8"),
        (b"", "There is no edge in this graph"),
        (b"\x1b]0;title\x07", "got '\\x1b]0;title\\x07' in line 1."),
        (b"1 2\n" * 5000, "is-tree needs 1 ≤ n ≤ 4096 vertices; got n=5001."),
        (b" " * ((1 << 24) + 1), "is too large; at most 16,777,216 bytes are read."),
    ],
)
def test_files_that_are_no_graph(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "graph.txt"
    path.write_bytes(content)
    assert words in refused("solve", "is-tree", "--file", str(path))


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "graph.txt"
    path.write_text("1 2\n", encoding="utf-8")

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    assert refused("solve", "is-tree", "--file", str(path)).endswith("cannot be read: Permission denied.")


@pytest.mark.slow
def test_as_a_process(tmp_path: Path) -> None:
    line = ["solve", "is-tree", "--input", TREE]
    ran = forked(f"import sys; from separatrix.cli import main; sys.exit(main({line!r}))", folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[1] == "answer: YES"
