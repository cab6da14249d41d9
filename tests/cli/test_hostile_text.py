"""Text from strangers is shown, not obeyed: no character of it moves the cursor or rings the bell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.cli.running import run

HOSTILE: Final = "\x1b[31m\x00\x07\x9b\x7f\u202e"
HARMLESS: Final = r"\x1b[31m\x00\x07\x9b\x7f\u202e"


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """A Hotpot-QA file, in a folder of a hostile name, with these characters wherever text may stand."""
    record = {
        "_id": "1",
        "question": f"Was ist im Päckchen{HOSTILE}?",
        "answer": f"tea{HOSTILE}",
        "type": "bridge",
        "level": "easy",
        "supporting_facts": [["Box", 0], [f"Tin{HOSTILE}", 0]],
        "context": [["Box", [f"A box{HOSTILE}."]], [f"Tin{HOSTILE}", ["A tin."]]],
    }
    folder = tmp_path / "\x1b[2J"
    folder.mkdir()
    path = folder / "f.json"
    path.write_text(json.dumps([record]), encoding="utf-8")
    return path


def shown(text: str) -> str:
    """The text without the ends of its lines, once it is certain that all of it is printable."""
    assert all(line.isprintable() for line in text.split("\n")), ascii(text)
    return text.replace("\n", "")


def test_samples(questions: Path, tmp_path: Path) -> None:
    argv = ("sample", "distractor-qa", "--n", "2", "--shots", "0", "--count", "2", "--file", str(questions))
    ran = run(*argv)
    assert ran.code == 0
    text = shown(ran.out)
    for words in ("Was ist im Päckchen", "tea", "A box", "[Tin"):
        assert f"{words}{HARMLESS}" in text
    assert "\nQuestion: " in ran.out
    out = tmp_path / "out.txt"
    assert run(*argv, "--out", str(out)).code == 0
    assert f"tea{HARMLESS}" in shown(out.read_text(encoding="utf-8"))
    exact = run(*argv, "--json")
    assert exact.out.isascii()
    assert exact.answer["examples"][0]["answer"].endswith(f"tea{HOSTILE}")


def test_descriptions(questions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(questions.parent.parent)
    argv = ("describe", "distractor-qa", "--n", "2", "--shots", "0", "--file", "\x1b[2J/f.json")
    text = shown(run(*argv).out)
    assert f"A box{HARMLESS}." in text
    assert r"\x1b[2J/f.json" in text
    assert run(*argv, "--json").answer["example"]["answer"].endswith(f"tea{HOSTILE}")


@pytest.mark.slow
def test_paths(tmp_path: Path) -> None:
    folder = tmp_path / "a\n\x1b[2J"
    folder.mkdir()
    ran = run("sample", "dyck", "--n", "4", "--out", str(folder / "x"))
    assert ran.out.removesuffix("\n") == rf"{tmp_path}/a\n\x1b[2J/x"
    assert shown(ran.err)
    ran = run("atlas", "--out", str(folder))
    assert ran.out.removesuffix("\n") == rf"{tmp_path}/a\n\x1b[2J/index.html"
