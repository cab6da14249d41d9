"""What is refused, and with which sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import separatrix
import separatrix.certificates.frontier
from separatrix.tasks import TASKS, Batch
from separatrix.tasks.index_lookup import IndexLookup
from tests.cli.running import COMMANDS, refused, run


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "sampl",
            "There is no command 'sampl'. Did you mean sample? Known: tasks, sample, dataset, describe, wi",
        ),
        ("--verion", "There is no option '--verion'. Did you mean --version? Known: --help, --version."),
        ("--nonsense", "There is no option '--nonsense'. Known: --help, --version."),
        ("tasks --jsn", "There is no option '--jsn'. Did you mean --json? Known: --json, --help."),
        ("tasks --help=3", "--help takes no value; got '3'."),
        ("--help=3", "--help takes no value; got '3'."),
        ("sample -h=yes", "-h takes no value; got 'yes'."),
        ("sample dyck --help=", "--help takes no value; got ''."),
        ("--version=0=1", "--version takes no value; got '0=1'."),
        ("tasks -- --help=3", "--help takes no value; got '3'."),
        ("tasks x", "'x' is one word too many; --help shows what tasks takes."),
        ("sample", "sample needs the name of a task; `separatrix tasks` lists them."),
        ("describe --json", "describe needs the name of a task; `separatrix tasks` lists them."),
        ("sample dick --n 4", "There is no task 'dick'. Did you mean dyck? Known: index-lookup, "),
        ("sample index-lookup", "sample needs --n (most symbols before the index); none was given."),
        ("sample index-lookup --n", "--n needs a value; none was given."),
        ("sample index-lookup --n x", "--n needs a whole number; got 'x'."),
        ("sample index-lookup --n 7.5", "--n needs a whole number; got '7.5'."),
        ("sample index-lookup --n 1e3", "--n needs a whole number; got '1e3'."),
        ("sample index-lookup --n 0", "index-lookup needs 1 ≤ n ≤ 2^24; got n=0. Try 64."),
        ("sample index-lookup --n 4 --n 5", "--n was given twice; give it once."),
        ("sample index-lookup 4 --n 5", "'4' is one word too many; --help shows what sample takes."),
        (
            "sample --out dyck index-lookup --n 4",
            "Name the task right after sample; got 'index-",
        ),
        ("sample index-lookup --n 4 --lengths x", "--lengths is one of varied, full; got 'x'."),
        ("sample index-lookup --n 4 --alphabt 2", "There is no option '--alphabt'. Did you mean --alphabet"),
        (
            "sample index-lookup --n 4 --count 0",
            "sample draws 1 to 1,000,000,000 examples; got count=0.",
        ),
        ("sample index-lookup --n 4 --count -3", "examples; got count=-3. Try 5."),
        ("sample index-lookup --n 4 --count 1000000000000000000", "got count=1000000000000000000. Try 5."),
        (
            "sample index-lookup --n 4 --seed -1 --json",
            "A seed is a whole number from 0 to 2^64 − 1; got -1",
        ),
        ("sample dyck --n 7", "7"),
    ],
)
def test_wrong_use_is_one_sentence(line: str, words: str) -> None:
    assert words in refused(*line.split())


def test_a_message_cannot_move_the_cursor() -> None:
    assert "\\x1b[2J\\n" in refused("\x1b[2J\n")


@pytest.mark.parametrize(("text", "digits"), [("9" * 5000, "5,000"), ("-" + "9" * 101, "101")])
def test_a_number_of_many_digits_is_not_repeated(text: str, digits: str) -> None:
    said = f"--n needs a whole number of ordinary size; got one of {digits} digits."
    assert refused("sample", "index-lookup", "--n", text) == said


def test_a_long_word_is_cut() -> None:
    word = "x" * 5000
    assert refused("sample", "index-lookup", "--n", word) == f"--n needs a whole number; got '{'x' * 80}…'."
    assert refused("tasks", word) == f"'{'x' * 80}…' is one word too many; --help shows what tasks takes."


def test_out_of_memory_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried …")):

        def fail(*_: Any, error: Exception = error, **__: Any) -> Batch:
            raise error

        monkeypatch.setattr(IndexLookup, "sample", fail)
        assert refused("sample", "index-lookup", "--n", "4").startswith("This does not fit in memory")


def test_our_own_mistakes_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Batch:
        raise RuntimeError("a bug")

    monkeypatch.setattr(IndexLookup, "sample", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        run("sample", "index-lookup", "--n", "4")


OPTIONS = "--n --n=4 --count --seed --json --no-json --out --help --version --lengths --form -- -n -h - ="
OPTIONS += " --family --variant --addresses --arithmetic --input --file --show --tape --steps --cells"
VALUES = "0 1 2 4 7 8 -1 3.5 nan inf 1e9 0x10 999999999999999999999999 true none full cot varied"
VALUES += " linear-rnn+retrieval hybrid busy-beaver-2 s1 @1 () 1~2"
VALUES += " transformer-1 rnn binary one-hot float32 down:4,2 nearest:9 ."
WORDS = st.one_of(
    st.sampled_from(["", *COMMANDS, *TASKS.names(), *OPTIONS.split(), *VALUES.split()]),
    st.text(st.characters(exclude_characters="/", exclude_categories=()), max_size=3),
)
LINES = st.one_of(
    st.lists(WORDS, max_size=8),
    st.tuples(st.sampled_from(COMMANDS), st.sampled_from(TASKS.names()), st.lists(WORDS, max_size=6)).map(
        lambda parts: [parts[0], parts[1], "--n", "4", *parts[2]]
    ),
)


@pytest.fixture(scope="module")
def _elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Files that a made-up command line writes go to a folder of their own."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("fuzz")
        patch.chdir(folder)
        patch.setattr(separatrix, "make_atlas", lambda *_, **__: folder / "index.html", raising=False)
        # A front takes seconds.
        patch.setattr(separatrix.certificates.frontier, "frontier", lambda *_, **__: ())
        yield


@pytest.mark.usefixtures("_elsewhere")
@given(line=LINES)
@example(line=["--", "sample"])
@example(line=["sample", "index-lookup", "--n", "4", "--out", "x\0"])
@example(line=["sample", "index-lookup", "--n", "4", "--out", "\ud800"])
@settings(max_examples=150, deadline=None)
def test_no_command_line_ends_in_a_traceback(line: list[str]) -> None:
    ran = run(*line)
    assert ran.code in {0, 1, 2}
    assert (ran.code == 2) == (ran.err != "" and not ran.err.startswith("Wrote "))
    if ran.code == 0 and "--json" in line and not {"--help", "-h", "--version"}.intersection(line):
        assert isinstance(ran.answer, dict)
