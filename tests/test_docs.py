"""Every example in the documents runs, and the generated pages are up to date."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from docs.generate import FIGURES, PAGES

import separatrix
from separatrix.cli import main
from tests.forked import forked

ROOT = Path(__file__).parent.parent
WRITTEN = (
    "README.md",
    "docs/own-task.md",
    "docs/randomness.md",
    "docs/witnesses.md",
    "docs/certificates.md",
    "docs/thinking.md",
    "docs/models.md",
    "docs/training.md",
    "docs/experiments.md",
    "docs/communication.md",
    "docs/audits.md",
    "docs/trained-models.md",
)
CONFORMANCE = {
    "docs/own-task.md": "ran test_text_round_trip",
    "docs/models.md": "ran test_step_by_step_equals_forward",
}
"""What pages that define a conformance class must have run."""
RUN_CONFORMANCE = """
for value in [value for name, value in list(globals().items()) if name.startswith("Test")]:
    for name in dir(value):
        if name.startswith("test_") and not getattr(value, "__abstractmethods__", None):
            import unittest
            try:
                getattr(value(), name)()
            except unittest.SkipTest:
                pass
            else:
                print("ran", name)
"""


def blocks(page: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    return [text for named, text in found if named == language]


def _slow_unless_first(page: str, *rest: int) -> ParameterSet:
    """What a newcomer runs first is always run; the other pages with all that is slow."""
    return pytest.param(page, *rest, marks=() if page == "README.md" else pytest.mark.slow)


@pytest.mark.parametrize("page", [_slow_unless_first(page) for page in WRITTEN])
def test_python_blocks_run(page: str, tmp_path: Path) -> None:
    """In a process of their own, one after another, and the conformance classes they define."""
    code = "\n".join(blocks(page, "python")) + RUN_CONFORMANCE
    if page == "README.md":  # as a reader runs it
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    else:
        done = forked(code, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert ("ran test_" in done.stdout) == (page in CONFORMANCE)
    assert CONFORMANCE.get(page, "") in done.stdout


@pytest.mark.parametrize(
    ("page", "count"),
    [
        _slow_unless_first(page, count)
        for page, count in (
            ("README.md", 23),
            ("docs/witnesses.md", 3),
            ("docs/certificates.md", 2),
            ("docs/thinking.md", 2),
            ("docs/models.md", 2),
            ("docs/training.md", 6),
            ("docs/experiments.md", 6),
            ("docs/communication.md", 8),
            ("docs/audits.md", 2),
            ("docs/trained-models.md", 5),
        )
    ],
)
def test_commands_run(
    page: str,
    count: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In their order, in one folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEPARATRIX_STORE", raising=False)
    lines = [line for block in blocks(page, "") for line in block.splitlines()]
    commands = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("separatrix ")]
    assert len(commands) == count
    for command in commands:
        if page == "docs/certificates.md":  # which says that the second needs no more than the first's files
            code = subprocess.run([sys.executable, "-m", "separatrix", *command], check=False).returncode
        else:
            code = main(command)
        shown = capfd.readouterr()
        judged = command[0] == "break" or (page == "docs/trained-models.md" and command[0] == "certify")
        assert code == 0 or (judged and code == 1), shown.err  # a trained model may be found wrong
        assert shown.out


@pytest.mark.parametrize("page", PAGES)
def test_generated_pages_are_up_to_date(page: str) -> None:
    assert (ROOT / "docs" / page).read_text() == PAGES[page](), "run `make docs`"


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_up_to_date(name: str, tmp_path: Path) -> None:
    FIGURES[name](tmp_path / name)
    assert (ROOT / "docs" / name).read_bytes() == (tmp_path / name).read_bytes(), "run `make docs`"


def test_commands_of_the_task_page_print_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """Word for word, but for where lines break."""
    for block in blocks("docs/tasks.md", "text"):
        command, *shown = block.splitlines()
        assert main(shlex.split(command, comments=True)[2:]) == 0, command
        printed, expected = capsys.readouterr().out.split(), " ".join(shown).split()
        assert " ".join(printed).endswith(" ".join(expected[:-1] if expected[-1] == "…" else expected)), (
            command
        )


@pytest.mark.parametrize(
    ("page", "count"), [("README.md", 1), ("docs/thinking.md", 4), ("docs/models.md", 1)]
)
def test_commands_print_what_is_shown(page: str, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Word for word, but for where lines break and for what a line of `…` leaves out."""
    shown = [block for block in blocks(page, "text") if block.startswith("$ separatrix ")]
    assert len(shown) == count
    for block in shown:
        command, _, output = block.partition("\n")
        assert main(shlex.split(command)[2:]) == 0, command
        printed = " ".join(capsys.readouterr().out.split())
        first, *others = [" ".join(part.split()) for part in re.split(r"^ *…$", output, flags=re.MULTILINE)]
        assert printed.startswith(first), command
        assert len(others) <= 1
        assert printed.endswith(others[0] if others else first), command


@pytest.mark.parametrize("trained", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_commands_that_train_print_what_is_shown_but_for_figures(
    trained: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In their order, in one folder. Floats and clocks differ from machine to machine; words do not.

    A plan without the training before it says the same, but for what is in the store.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEPARATRIX_STORE", raising=False)
    shown = [block for block in blocks("docs/training.md", "text") if block.startswith("$ separatrix ")]
    assert len(shown) == 2
    for block in shown if trained else shown[1:]:
        command, _, output = block.partition("\n")
        assert main(shlex.split(command)[2:]) == 0, command
        if not trained:
            output = re.sub(r"^in the store already .*\n", "", output, count=1, flags=re.MULTILINE)
        assert without_figures(capsys.readouterr().out) == without_figures(output), command


def without_figures(text: str) -> str:
    words = re.sub(r"threads?", "thread", re.sub(r"[0-9][0-9.,]*", "#", " ".join(text.split())))
    return re.sub(r" scaled up from .*? (?=time )", " ", words)  # which a busy machine says


def modules() -> list[str]:
    return [module.name for module in pkgutil.walk_packages(separatrix.__path__, "separatrix.")]


@pytest.mark.parametrize("name", [name for name in modules() if not name.endswith("__main__")])
def test_docstring_examples_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_task_has_a_worked_example() -> None:
    for name, kind in separatrix.TASKS.items():
        module = importlib.import_module(kind.__module__)
        found = doctest.DocTestFinder().find(module)
        assert any(example.examples for example in found), f"{name} has no doctest"


def test_links_between_documents_lead_somewhere() -> None:
    for page in (*WRITTEN, "CONTRIBUTING.md", "CHANGELOG.md", *(f"docs/{page}" for page in PAGES)):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"
