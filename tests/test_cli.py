"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import dataclasses
import inspect
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

import separatrix
from separatrix.cli import main
from separatrix.cli.sampling import sample as sample_command
from separatrix.tasks import TASKS, Batch
from separatrix.tasks.byte_text import ByteTask
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.theorems import THEOREMS

COMMANDS = ("tasks", "sample", "describe", "atlas")


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def answer(self) -> Any:
        return json.loads(self.out)


def run(*argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(argv)
    return Ran(code, out.getvalue(), err.getvalue())


def refused(*argv: str) -> str:
    ran = run(*argv)
    assert ran.code == 2, ran
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    return ran.err.strip()


def process(*argv: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "separatrix", *argv]
    environment = {**os.environ, "COLUMNS": "80", **settings.pop("env", {})}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=environment, **settings
    )


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


# Start-up.


@pytest.mark.parametrize(
    "argv", [["--help"], ["--version"], [], ["sampl"], ["--nonsense"], ["sample", "--help"], ["sample"]]
)
def test_torch_waits_until_a_command_needs_it(argv: list[str]) -> None:
    script = f"import sys; from separatrix.cli import main; main({argv!r}); print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split()[-1] == "False"


def test_help_and_version() -> None:
    for argv in ((), ("--help",), ("-h",)):
        ran = run(*argv)
        assert ran.code == 0
        assert ran.err == ""
        places = [ran.out.index(f"│ {command} ") for command in COMMANDS]
        assert places == sorted(places)
    assert run("--version") == Ran(0, f"{separatrix.__version__}\n", "")


def test_both_console_scripts_and_the_module_lead_here() -> None:
    scripts = Path(__file__).parents[1] / "pyproject.toml"
    for name in ("separatrix", "sx"):
        assert f'\n{name} = "separatrix.cli:main"\n' in scripts.read_text(encoding="utf-8")
    assert process("--version").stdout == f"{separatrix.__version__}\n"


# Flags of tasks.


@pytest.mark.parametrize("name", TASKS.names())
def test_flags_are_the_tasks_own(name: str) -> None:
    """Every field is a flag with its help and default, unless it is marked as none."""
    page = " ".join(run("sample", name, "--help").out.replace("│", " ").split())
    own = {option for option in inspect.signature(sample_command).parameters if option != "task"}
    for field in dataclasses.fields(TASKS.get(name)):
        assert field.name not in own, f"{name}.{field.name} would hide an option of `sample`"
        flag = f"--{field.name.replace('_', '-')}"
        if not field.metadata["flag"]:
            assert f"{flag} " not in page
            continue
        assert f"{flag} " in page
        assert " ".join(field.metadata["help"].split()) in page
        if isinstance(field.default, (int, float, str)) and not isinstance(field.default, bool):
            assert f"[default: {field.default}]" in page


def test_flags_reach_the_task() -> None:
    ran = run("sample", "index-lookup", "--n", "3", "--alphabet", "2", "--lengths", "full", "--json")
    assert ran.answer["parameters"] == {"n": 3, "alphabet": 2, "lengths": "full"}
    assert all(len(entry["input"]) == 4 for entry in ran.answer["examples"])


def test_options_may_stand_before_the_task_and_after_an_equals_sign() -> None:
    usual = run("sample", "index-lookup", "--n", "3", "--count", "2", "--json")
    assert usual == run("sample", "--json", "--n=3", "index-lookup", "--count=2")


def test_a_users_own_task_has_a_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(IndexLookup):
        """Mine."""

        name = "mine"

    monkeypatch.setitem(TASKS._entries, "mine", Mine)
    assert run("sample", "mine", "--n", "3", "--json").answer["task"] == "mine"
    assert run("describe", "mine").code == 0


# sample.


@pytest.mark.parametrize("name", TASKS.names())
def test_samples_are_what_the_task_draws(name: str) -> None:
    described = run("describe", name, "--json").answer
    n = described["n"]
    ran = run("sample", name, "--n", str(n), "--count", "3", "--seed", "5", "--json")
    assert (ran.code, ran.err) == (0, "")
    answer = ran.answer
    assert (answer["task"], answer["n"], answer["seed"]) == (name, n, 5)
    task = separatrix.task(name, n=n)
    batch = task.sample(3, seed=5)
    for number, entry in enumerate(answer["examples"]):
        length = int(batch.lengths[number])
        assert torch.tensor(entry["input"]).equal(batch.inputs[number, :length])
        labels = batch.targets[number][batch.mask[number]]
        assert torch.tensor(entry["target"]).equal(labels if len(labels) > 1 else labels[0])
        assert entry["text"] == task.render(batch.inputs[number])
        assert task.parse(entry["text"]).equal(batch.inputs[number])
        if not isinstance(task, ByteTask):
            assert entry["answer"] == " ".join(task.render_target(label) for label in labels)
    assert len(answer["examples"]) == 3


def test_dyck_is_brackets_and_is_tree_is_edges() -> None:
    text = run("sample", "dyck", "--n", "8", "--count", "1", "--json").answer["examples"][0]["text"]
    assert len(text) == 8
    assert set(text) <= set("()[]")
    text = run("sample", "is-tree", "--n", "4", "--count", "1", "--json").answer["examples"][0]["text"]
    assert text.startswith("<s> ")
    assert text.split()[2::3] == ["~"] * 3


def test_the_answer_to_a_text_is_a_text() -> None:
    entry = run("sample", "phone-book", "--n", "2", "--count", "1", "--json").answer["examples"][0]
    assert entry["answer"].isdigit()
    assert entry["text"].endswith(f" {entry['answer']}")
    assert bytes(entry["target"]).decode() == f" {entry['answer']}\n"


def test_count_and_seed_choose_examples_by_number() -> None:
    def examples(*argv: str) -> list[Any]:
        entries = run("sample", "index-lookup", "--n", "4", "--json", *argv).answer["examples"]
        assert isinstance(entries, list)
        return entries

    assert len(examples()) == 5
    assert examples("--count", "600")[:5] == examples() != examples("--seed", "1")


def test_many_examples_are_drawn_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[int, Any]] = []
    original = IndexLookup.sample

    def watched(self: IndexLookup, batch: int, **options: Any) -> Batch:
        drawn.append((batch, options["start"]))
        return original(self, batch, **options)

    monkeypatch.setattr(IndexLookup, "sample", watched)
    assert len(run("sample", "index-lookup", "--n", "9", "--count", "700").out.splitlines()) == 700
    assert drawn == [(256, 0), (256, 256), (188, 512)]
    drawn.clear()
    run("sample", "index-lookup", "--n", str(1 << 18), "--count", "5", "--out", "/dev/null/x")
    assert drawn == [], "a file that cannot be written is refused before anything is drawn"


def test_readable_lines() -> None:
    ran = run("sample", "index-lookup", "--n", "3", "--alphabet", "4", "--count", "2")
    entries = run("sample", "index-lookup", "--n", "3", "--alphabet", "4", "--count", "2", "--json").answer
    expected = [f"{entry['text']}  → {entry['answer']}" for entry in entries["examples"]]
    assert ran.out.splitlines() == expected


@pytest.mark.parametrize("name", TASKS.names())
def test_everything_fits_eighty_columns(name: str) -> None:
    n = str(run("describe", name, "--json").answer["n"])
    for argv in (("sample", name, "--n", n), ("describe", name), ("sample", name, "--help")):
        ran = run(*argv)
        assert ran.code == 0
        assert max(map(cell_len, ran.out.splitlines())) <= 80
        assert "\x1b" not in ran.out


def test_long_examples_are_wrapped_and_whole() -> None:
    ran = run("sample", "index-lookup", "--n", "200", "--lengths", "full", "--count", "1")
    entry = run("sample", "index-lookup", "--n", "200", "--lengths", "full", "--count", "1", "--json").answer[
        "examples"
    ][0]
    assert max(map(cell_len, ran.out.splitlines())) <= 80
    assert ran.out.split() == [*entry["text"].split(), "→", entry["answer"]]


def test_files(tmp_path: Path) -> None:
    lines, text = tmp_path / "e.jsonl", tmp_path / "e.txt"
    argv = ("sample", "index-lookup", "--n", "3", "--count", "2")
    assert run(*argv, "--out", str(lines)) == Ran(0, f"{lines}\n", "Wrote 2 examples of index-lookup.\n")
    answer = run(*argv, "--json", "--out", str(text)).answer
    assert [json.loads(line) for line in lines.read_text().splitlines()] == answer["examples"]
    assert text.read_text() == run(*argv).out
    assert sorted(tmp_path.iterdir()) == [lines, text]


def test_an_unwritable_file_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    argv = ("sample", "index-lookup", "--n", "3", "--out")
    assert refused(*argv, str(tmp_path / "no" / "x")) == (
        f"'{tmp_path}/no/x' cannot be written: there is no folder '{tmp_path}/no'; make it first."
    )
    assert refused(*argv, str(tmp_path)) == f"'{tmp_path}' is a folder; name a file in it."
    refused("sample", "index-lookup", "--n", "3", "--seed", "-1", "--out", str(tmp_path / "x"))
    assert list(tmp_path.iterdir()) == []


# tasks, describe, atlas.


def test_tasks() -> None:
    ran = run("tasks", "--json")
    assert [entry["name"] for entry in ran.answer["tasks"]] == list(TASKS.names())
    assert set(ran.answer["papers"]) == {"S", "R", "W"}
    assert ran.answer["tasks"][0] == {
        "name": "index-lookup",
        "title": "Index lookup",
        "source": "S, W",
        "summary": "Retrieve by position: the symbol that stands where the last token points.",
    }
    page = run("tasks").out
    assert all(any(line.startswith(name) for line in page.splitlines()) for name in TASKS.names())
    assert max(map(cell_len, page.splitlines())) <= 80
    assert "arXiv 2406.09347" in page


def test_describe() -> None:
    ran = run("describe", "index-lookup", "--n", "3", "--alphabet", "2", "--json")
    answer = ran.answer
    assert (answer["length"], answer["input"], answer["inputs"]) == (4, {"kind": "tokens", "size": 6}, 34)
    assert answer["partitions"] == {"prefix/suffix": {"alice": [0, 1, 2], "bob": [3]}}
    assert [entry["id"] for entry in answer["theorems"]] == [
        entry.id for entry in THEOREMS.values() if "index-lookup" in entry.tasks
    ]
    page = run("describe", "index-lookup", "--n", "3", "--alphabet", "2").out
    for words in ("--alphabet  2", "different inputs  34", "Alice holds 1–3; Bob holds 4", "S-T1", "W-4.6"):
        assert words in page
    assert f"→ {answer['example']['answer']}" in page


def test_describe_counts_inputs_only_where_that_is_quick() -> None:
    answer = run("describe", "index-lookup", "--n", str(1 << 20), "--json").answer
    assert (answer["inputs"], answer["input_bits"]) == (None, None)
    answer = run("describe", "index-lookup", "--n", "100", "--json").answer
    assert answer["inputs"] is None
    assert 600 < answer["input_bits"] < 610


def test_atlas(tmp_path: Path) -> None:
    ran = run("atlas", "--out", str(tmp_path))
    path = Path(ran.out.splitlines()[-1])
    assert ran.code == 0
    assert path.parent == tmp_path
    assert path.is_file()
    assert run("atlas", "--out", str(tmp_path), "--json").answer == {"path": str(path)}
    (tmp_path / "file").touch()
    refused("atlas", "--out", str(tmp_path / "file" / "deeper"))


# Wrong use.


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sampl", "There is no command 'sampl'. Did you mean sample? Known: tasks, sample, describe, atlas."),
        ("--verion", "There is no option '--verion'. Did you mean --version? Known: --help, --version."),
        ("--nonsense", "There is no option '--nonsense'. Known: --help, --version."),
        ("tasks --jsn", "There is no option '--jsn'. Did you mean --json? Known: --json, --help."),
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


def test_a_number_of_five_thousand_digits_is_no_number() -> None:
    assert refused("sample", "index-lookup", "--n", "9" * 5000).startswith("--n needs a whole number")


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
VALUES = "0 1 2 4 7 8 -1 3.5 nan inf 1e9 0x10 999999999999999999999999 true none full cot varied"
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
        patch.setattr(separatrix, "make_atlas", lambda _: folder / "index.html", raising=False)
        yield


@pytest.mark.usefixtures("_elsewhere")
@given(line=LINES)
@example(line=["--", "sample"])
@example(line=["sample", "index-lookup", "--n", "4", "--out", "x\0"])
@example(line=["sample", "index-lookup", "--n", "4", "--out", "\ud800"])
@settings(max_examples=300, deadline=None)
def test_no_command_line_ends_in_a_traceback(line: list[str]) -> None:
    ran = run(*line)
    assert ran.code in {0, 1, 2}
    assert (ran.code == 2) == (ran.err != "" and not ran.err.startswith("Wrote "))
    if ran.code == 0 and "--json" in line and not {"--help", "-h", "--version"}.intersection(line):
        assert isinstance(ran.answer, dict)


# The world outside.


def test_a_reader_may_leave_early() -> None:
    command = [sys.executable, "-m", "separatrix", "sample", "index-lookup", "--n", "40", "--count", "20000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(timeout=60) == 0


def test_a_reader_may_have_left_before() -> None:
    for argv in (["--help"], ["describe", "index-lookup"]):
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "separatrix", *argv]
        ran = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
        os.close(writer)
        assert (ran.returncode, ran.stderr) == (0, b"")


def test_ctrl_c_ends_quietly(tmp_path: Path) -> None:
    """A test run in the background has Ctrl-C switched off and hands that on: the script turns it on."""
    script = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from separatrix.cli import main;"
        f"sys.exit(main(['sample', 'index-lookup', '--n', '4', '--count', '{10**9}']))"
    )
    out = tmp_path / "out"
    with (
        out.open("w") as file,
        subprocess.Popen([sys.executable, "-c", script], stdout=file, stderr=subprocess.PIPE) as running,
    ):
        assert running.stderr is not None
        while not out.stat().st_size:
            assert running.poll() is None
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        assert running.stderr.read() == b""
        assert running.wait(timeout=30) == 130


def test_a_full_disk_is_a_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "separatrix", "sample", "index-lookup", "--n", "4"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert ran.returncode == 2
    assert ran.stderr == "The answer cannot be written: No space left on device.\n"


def test_any_locale_will_do() -> None:
    ran = process("sample", "index-lookup", "--n", "3", "--count", "1", env={"PYTHONIOENCODING": "ascii"})
    assert ran.returncode == 0
    assert "\\u2192" in ran.stdout


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colour_only_on_a_terminal_that_wants_it(no_color: str, coloured: bool) -> None:
    environment = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": no_color, "COLUMNS": "80"}
    environment.pop("FORCE_COLOR", None)
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "separatrix", "describe", "index-lookup"],
        stdout=follower, stderr=follower, env=environment,
    ) as running:  # fmt: skip
        os.close(follower)
        shown = b""
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:
                break
            shown += piece
        running.wait(timeout=30)
    os.close(leader)
    assert (b"\x1b[36m" in shown) == coloured


def test_every_command_speaks_json(tmp_path: Path) -> None:
    lines = {
        "tasks": (),
        "sample": ("index-lookup", "--n", "3"),
        "describe": ("index-lookup",),
        "atlas": ("--out", str(tmp_path)),
    }
    assert tuple(lines) == COMMANDS
    for command, rest in lines.items():
        ran = run(command, *rest, "--json")
        assert ran.code == 0
        assert isinstance(ran.answer, dict)


def test_descriptions_do_not_need_sizes_to_be_given() -> None:
    for name in TASKS.names():
        assert run("describe", name, "--json").answer["n"] == TASKS.get(name).showcase["n"]
    assert run("describe", "dyck", "--types", "3", "--json").answer["n"] == TASKS.get("dyck").showcase["n"]
