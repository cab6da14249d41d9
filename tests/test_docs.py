"""Every example in the documents runs, and the generated pages are up to date."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from docs.generate import FIGURES, PAGES

import separatrix
from separatrix.cli import main
from tests.forked import forked

ROOT = Path(__file__).parent.parent
FIRST = "README.md"
PAGES_HERE = (FIRST, *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
TABLES_ONLY = {"docs/results.md", "docs/theorem-to-code.md"}
"""Pages with nothing to run."""
SAME_FOLDER = {"docs/certificates.md", "docs/read-a-certificate.md"}
"""Pages that say that a command needs only the files of the one before: each is a process of its own."""
EXTRA = {"docs/interop.md": "transformers and datasets"}
"""Pages whose examples need an extra."""
ELSEWHERE = {
    "make atlas": "a person; all that it calls is tested",
    "make test": "whoever reads this",
    "PYTHONPATH=src python3 -m separatrix.training": "tests/training/test_plans.py",
    "separatrix serve": "tests/explorer: it would never end",
}
"""Lines of blocks of commands that are run by others, by how they begin."""
NOT_HERE = {
    "docs/experiments.md": "a cluster, and models of gigabytes",
    "docs/explorer.md": "a server",
    "docs/interop.md": "models of gigabytes",
    "docs/tutorial.md": "the installation; tests/test_release.py",
}
"""Pages with blocks marked `sh`, and what those need."""
SHOWN_ELSEWHERE = {"docs/tasks.md", "docs/training.md", "docs/audits.md"}
"""Pages whose blocks `$ separatrix …` are compared by tests of their own."""
CONFORMANCE = {
    "docs/own-architecture.md": "ran test_step_by_step_equals_forward",
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


def all_blocks(page: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    return [text for named, text in all_blocks(page) if named == language]


def commands(page: str) -> list[list[str]]:
    lines = [line for block in blocks(page, "") for line in block.splitlines()]
    return [
        shlex.split(line, comments=True)[1:]
        for line in lines
        if line.startswith("separatrix ") and not line.startswith(tuple(ELSEWHERE))
    ]


def shown(page: str) -> list[str]:
    return [block for block in blocks(page, "text") if block.startswith("$ separatrix ")]


def marked(page: str) -> ParameterSet:
    """What a newcomer runs first is always run; the other pages with all that is slow."""
    marks = [] if page == FIRST else [pytest.mark.slow]
    return pytest.param(page, marks=[*marks, *([pytest.mark.extra] if page in EXTRA else [])])


def which(has: Callable[[str], object]) -> list[ParameterSet]:
    return [marked(page) for page in PAGES_HERE if has(page)]


@pytest.mark.parametrize("page", PAGES_HERE)
def test_no_block_is_left_out(page: str) -> None:
    """Every block of every page is one that is run below, shown with its output, or named with its reason."""
    found = all_blocks(page)
    fences = re.findall(r"^ *(?:```|~~~)", (ROOT / page).read_text(), re.MULTILINE)
    assert len(fences) == 2 * len(found), "a fence that is indented, or says more than a language"
    assert {language for language, _ in found} <= {"", "python", "text", "json", "sh"}
    for block in blocks(page, ""):
        for line in filter(None, block.splitlines()):
            assert line.startswith(("separatrix ", *ELSEWHERE)), f"nobody runs {line!r}"
            assert not line.endswith("\\"), f"{line!r} goes on in the next line, which nobody reads"
    assert not blocks(page, "sh") or page in NOT_HERE
    run = len(blocks(page, "python")) + len(commands(page)) + len(shown(page))
    assert (run == 0) == (page in TABLES_ONLY)


@pytest.mark.parametrize("page", which(lambda page: blocks(page, "python")))
def test_python_blocks_run(page: str, tmp_path: Path) -> None:
    """In a process of their own, one after another, and the conformance classes they define."""
    code = "\n".join(blocks(page, "python")) + RUN_CONFORMANCE
    if page == FIRST:  # as a reader runs it
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    else:
        done = forked(code, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert ("ran test_" in done.stdout) == (page in CONFORMANCE)
    assert CONFORMANCE.get(page, "") in done.stdout


@pytest.mark.parametrize("page", which(commands))
def test_commands_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In their order, in one folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEPARATRIX_STORE", raising=False)
    for command in commands(page):
        if page in SAME_FOLDER:
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


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_up_to_date(name: str, tmp_path: Path) -> None:
    FIGURES[name](tmp_path / name)
    assert (ROOT / "docs" / name).read_bytes() == (tmp_path / name).read_bytes(), "run `make docs`"


@pytest.mark.slow
def test_commands_of_the_task_page_print_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """Word for word, but for where lines break."""
    for block in blocks("docs/tasks.md", "text"):
        command, *shown = block.splitlines()
        assert main(shlex.split(command, comments=True)[2:]) == 0, command
        printed, expected = capsys.readouterr().out.split(), " ".join(shown).split()
        assert " ".join(printed).endswith(" ".join(expected[:-1] if expected[-1] == "…" else expected)), (
            command
        )


@pytest.mark.parametrize("page", which(lambda page: page not in SHOWN_ELSEWHERE and shown(page)))
def test_commands_print_what_is_shown(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Word for word, but for where lines break and for what lines of `…` leave out."""
    for block in shown(page):
        command, _, output = block.partition("\n")
        assert main(shlex.split(command)[2:]) == 0, command
        printed = " ".join(capsys.readouterr().out.split())
        parts = [" ".join(part.split()) for part in re.split(r"^ *…$", output, flags=re.MULTILINE)]
        assert re.fullmatch(".*".join(map(re.escape, parts)), printed), command


def test_the_certificate_that_is_read_is_the_one_that_is_made() -> None:
    (page,) = blocks("docs/read-a-certificate.md", "json")
    witness = separatrix.witness_for(separatrix.task("index-lookup", n=4, alphabet=2))
    made, read = separatrix.certify(witness).to_json(), json.loads(page)
    for changes in ("seconds", "checker"):
        assert made.pop(changes)
        assert read.pop(changes)
    assert read == made


@pytest.mark.parametrize("trained", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_commands_that_train_print_what_is_shown_but_for_figures(
    trained: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In their order, in one folder. Floats and clocks differ from machine to machine; words do not.

    A plan without the training before it says the same, but for what is in the store.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEPARATRIX_STORE", raising=False)
    examples = shown("docs/training.md")
    assert len(examples) == 2
    for block in examples if trained else examples[1:]:
        command, _, output = block.partition("\n")
        assert main(shlex.split(command)[2:]) == 0, command
        if not trained:
            output = re.sub(r"^in the store already .*\n", "", output, count=1, flags=re.MULTILINE)
        assert without_figures(capsys.readouterr().out) == without_figures(output), command


def without_figures(text: str) -> str:
    words = re.sub(r"threads?", "thread", re.sub(r"[0-9][0-9.,]*", "#", " ".join(text.split())))
    words = re.sub(r"about # (s|min|h)\b", "about # of time", words)  # a busy machine takes minutes,
    return re.sub(r" scaled up from .*? (?=time )", " ", words)  # and says this


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
    for page in (*PAGES_HERE, "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


def test_the_api_page_has_every_public_name() -> None:
    named = re.findall(r"^::: separatrix\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(set(separatrix.__all__) - {"__version__"})


def test_the_readme_begins_as_it_should() -> None:
    """Three sentences, the picture, the two commands; five examples of one line."""
    text = (ROOT / FIRST).read_text()
    before, _, after = text.partition("![")
    assert len(re.findall(r"[.?](?=\s|\*\*)", before)) == 3
    picture = re.match(r"[^]]*\]\(([^)]*)\)\s*```\n(make atlas [^\n]*)\n(make test [^\n]*)\n```", after)
    assert picture is not None
    assert 20_000 < (ROOT / picture[1]).stat().st_size < 300_000
    assert len(commands(FIRST)) == 5
