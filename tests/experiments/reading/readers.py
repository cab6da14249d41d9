"""Scripted readers: what a model that reads in a known way would write, from the prompt's text alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from separatrix.interop import Completer
from separatrix.interop.asking import Contestant

__all__ = ["Script", "contestant", "looks_up", "reads_last", "reads_most", "silent"]


class Script(Completer):
    """Continues each prompt by a function of it, and notes what it was asked."""

    def __init__(self, write: Callable[[str], str]) -> None:
        self.write = write
        self.asked: list[str] = []

    def refusal(self, prompts: Sequence[str], *, most_tokens: int) -> str | None:
        return None

    def complete(self, prompts: Sequence[str], *, most_tokens: int, stop: str) -> list[str]:
        assert most_tokens > 0
        self.asked += prompts
        return [self.write(prompt).partition(stop)[0] for prompt in prompts]


def contestant(name: str, model: Completer) -> Contestant:
    return Contestant(name=name, config_sha256="0" * 64, identity=name, open=lambda: model)


def _answered(paragraphs: Sequence[str], question: str) -> str:
    text = "\n".join(paragraphs)
    asked = re.search(r"(?:where|number of) (.+?)(?: lives)?\?", question)
    assert asked
    if "number of" in question:
        entry = re.search(rf"^{asked[1]}: (\d+)$", text, re.M)
        return f" {entry[1]}\n" if entry else " nobody knows\n"
    home = re.search(rf"{asked[1]} works as a \w+ and lives in the town of (\w+)", text)
    town = home and re.search(rf"{home[1]} lies on the river (\w+), and its market day is (\w+)", text)
    if not town:
        return " It does not say.\nAnswer: unknown\n\n[More] and more"
    return f" Both are there.\nAnswer: {town[1 if 'river' in question else 2]}\n\n[More] and more"


def _parts(prompt: str) -> tuple[list[str], str]:
    *paragraphs, question, _ = prompt.rpartition("\n\n")[2].split("\n")
    return paragraphs, question


def reads_most(prompt: str) -> str:
    """Reads all there is, and answers."""
    return _answered(*_parts(prompt))


def reads_last(prompt: str) -> str:
    """Remembers the last two paragraphs only."""
    paragraphs, question = _parts(prompt)
    return _answered(paragraphs[-2:], question)


def looks_up(prompt: str) -> str:
    """Reads all, and knows nothing of rivers."""
    paragraphs, question = _parts(prompt)
    return " Well.\nAnswer: unknown" if "river" in question else _answered(paragraphs, question)


def silent(prompt: str) -> str:
    """Says nothing."""
    return ""
