"""The page about audits: its commands print what it shows, and its table has every type."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from separatrix.audits.catalogue import KINDS, OTHER_NAMES
from separatrix.audits.walls import RETRIEVAL_TASKS
from separatrix.cli import main

PAGE = (Path(__file__).parent.parent.parent / "docs" / "audits.md").read_text()
CONFIGS = Path(__file__).parent / "configs"


def test_commands_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Word for word, in a folder with the published configs."""
    for config in CONFIGS.iterdir():
        folder = tmp_path / config.stem
        folder.mkdir()
        (folder / "config.json").write_text(config.read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    shown = re.findall(r"^```text\n\$ separatrix (.*?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(shown) == 3
    for command, output in shown:
        assert main(shlex.split(command)) == 0, command
        assert capsys.readouterr().out.split() == output.split(), command


def test_every_type_stands_beside_what_is_counted() -> None:
    rows = dict(re.findall(r"^\| (`[a-z0-9_`, ]+`) \| (.*) \|$", PAGE, re.MULTILINE))
    listed = {name: text for names, text in rows.items() for name in re.findall(r"`([a-z0-9_]+)`", names)}
    assert {name: listed.get(name) for name in KINDS} == {name: kind.counted for name, kind in KINDS.items()}
    assert all(f"`{name}`" in PAGE for name, kind in OTHER_NAMES.items() if kind == "gemma3_text")


def test_every_task_with_a_wall_is_named() -> None:
    words = PAGE.lower().replace("istree", "is tree").replace("c-gram", "c gram")
    assert all(task.replace("-", " ") in words for task in RETRIEVAL_TASKS)
