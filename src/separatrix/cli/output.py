"""Where answers go: one JSON object or readable text on standard output, notes on standard error."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import textwrap
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NoReturn, TextIO

from rich.console import Console

__all__ = [
    "columns",
    "cut",
    "json_line",
    "note",
    "note_if_long",
    "paragraphs",
    "printable",
    "printable_line",
    "stdout_console",
    "wrapped",
    "write_json",
    "write_json_stream",
]

_LINES_SHOWN: Final = 12
_USUAL_COLUMNS: Final = 80
_LONGEST_WIDTH: Final = 6
_LONG: Final = 3.0
"""Seconds after which one wonders whether anything is still going on."""


class _Terminal(Console):
    """rich ends the program with exit code 1 when a reader hangs up; here that is for `main` to decide."""

    def on_broken_pipe(self) -> NoReturn:
        """Called while the error is being handled: let it through."""
        raise  # noqa: PLE0704


def stdout_console() -> Console:
    """A console on what is standard output now: colour only on a terminal, and never with NO_COLOR."""
    return _Terminal(highlight=False, markup=False, emoji=False)


def note(text: str) -> None:
    """A remark for the person at the terminal; it never mixes with the answer.

    A terminal gets lines that fit it; a file or a pipe gets one line, which can be searched for.
    """
    line = printable_line(text)
    if sys.stderr.isatty():
        # A path or a name stays whole, so that it can be copied.
        lines = textwrap.wrap(line, columns(sys.stderr), break_long_words=False, break_on_hyphens=False)
        line = "\n".join(lines)
    print(line, file=sys.stderr)


def columns(terminal: TextIO) -> int:
    """How wide a terminal is; COLUMNS goes before what it says itself, and one that says nothing has 80."""
    with suppress(ValueError):
        wished = int(os.environ.get("COLUMNS", "")[:_LONGEST_WIDTH])
        if wished > 0:
            return wished
    with suppress(OSError):
        return os.get_terminal_size(terminal.fileno()).columns or _USUAL_COLUMNS
    return _USUAL_COLUMNS


@contextmanager
def note_if_long(text: str) -> Iterator[None]:
    """A remark if the block takes long and somebody is watching."""
    if not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(_LONG, note, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def printable_line(text: str) -> str:
    """The text without characters that could move the cursor: each of them is written as its escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable(text: str) -> str:
    """The same for a text of several lines, which it keeps."""
    return "\n".join(map(printable_line, text.split("\n")))


def json_line(value: Any) -> str:
    """JSON in plain ASCII, so that no locale can spoil it."""
    return json.dumps(value, allow_nan=False)


def write_json(value: Any) -> None:
    """One JSON object on standard output."""
    print(json_line(value))


def write_json_stream(file: TextIO, head: dict[str, Any], key: str, items: Iterable[Any]) -> None:
    """The JSON object `{**head, key: [*items]}`, an item a line, holding one item at a time.

    The first item is made before anything is written, so that what is refused then leaves no half object.
    """
    rest = iter(items)
    first = list(itertools.islice(rest, 1))
    file.write(f'{json_line(head)[:-1]}, "{key}": [')
    separator = "\n  "
    for item in itertools.chain(first, rest):
        file.write(separator + json_line(item))
        separator = ",\n  "
    file.write("\n]}\n")


def paragraphs(text: str) -> list[str]:
    """Paragraphs and list items, each with its lines joined to wrap anew; indented blocks stay."""
    parts = re.split(r"\n(?:[ \t]*\n)+|\n(?=- )", text.strip("\n"))
    return [part if part.startswith(" ") else " ".join(part.split()) for part in parts if part.strip()]


def wrapped(text: str, width: int, *, indent: str = "") -> list[str]:
    """Lines of at most `width` characters, long words broken; the text's own line ends are kept."""
    return [
        line
        for paragraph in text.splitlines() or [""]
        for line in textwrap.wrap(
            paragraph,
            width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
            replace_whitespace=False,
        )
        or [""]
    ]


def cut(lines: list[str], *, most: int = _LINES_SHOWN) -> list[str]:
    """The first lines, and how many more there are: a long input says little to a reader."""
    hidden = len(lines) - most
    return lines if hidden <= 1 else [*lines[:most], f"… and {hidden:,} lines more (--json has all)"]
