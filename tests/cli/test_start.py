"""Start-up, help, and the flags that tasks bring along."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import separatrix
from separatrix.cli.sampling import sample as sample_command
from separatrix.tasks import TASKS
from separatrix.tasks.index_lookup import IndexLookup
from tests.cli.running import COMMANDS, Ran, process, run


def test_help_offers_nothing_that_is_no_use() -> None:
    page = run("serve", "--help").out
    assert "--allow-host" in page
    assert "--empty-allow-host" not in page
    assert "()" not in page
    usage = run("protocol", "--help").out.splitlines()[0]
    assert usage == "Usage: separatrix protocol TASK --n N [OPTIONS]"


@pytest.mark.slow
def test_torch_waits_until_a_command_needs_it() -> None:
    named = ("sample", "witness", "certify", "frontier", "bound", "wall", "solve", "turing")
    lines = [[], ["--help"], ["--version"], ["sampl"], ["--nonsense"]]
    lines += [[command, *rest] for command in named for rest in ([], ["--help"])]
    script = (
        "import sys; from separatrix.cli import main\n"
        f"print([line for line in {lines!r} if main(line) is not None and 'torch' in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]", "the first of these imports torch"


def test_help_and_version() -> None:
    for argv in ((), ("--help",), ("-h",)):
        ran = run(*argv)
        assert ran.code == 0
        assert ran.err == ""
        places = [ran.out.index(f"│ {command} ") for command in COMMANDS]
        assert places == sorted(places)
    assert run("--version") == Ran(0, f"{separatrix.__version__}\n", "")


def test_both_console_scripts_and_the_module_lead_here() -> None:
    scripts = Path(__file__).parents[2] / "pyproject.toml"
    for name in ("separatrix", "sx"):
        assert f'\n{name} = "separatrix.cli:main"\n' in scripts.read_text(encoding="utf-8")
    assert process("--version").stdout == f"{separatrix.__version__}\n"


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
