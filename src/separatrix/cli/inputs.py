"""Inputs that a user gives: where they come from, and the task that they fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from separatrix.errors import InvalidInput

if TYPE_CHECKING:
    from torch import Tensor

    from separatrix.cli.flags import Wanted
    from separatrix.tasks import Task
    from separatrix.tasks.machines import Machine

__all__ = ["given_text", "sized", "tape_symbols", "text_of"]

_MOST_BYTES: Final = 1 << 24
_SIZES_TRIED: Final = 4
_LARGEST: Final = 1 << 22
_LONGEST_SHOWN: Final = 60


def given_text(text: str | None, file: Path | None) -> str:
    """The input itself, from the command line or from a file; exactly one of them."""
    if (text is None) == (file is None):
        came = "neither" if text is None else "both"
        raise InvalidInput(f"Give the input with --input TEXT or with --file PATH; got {came}.")
    if text is not None:
        return text
    assert file is not None
    return text_of(file, what="an input")


def text_of(file: Path, *, what: str) -> str:
    """The text of a file, refused in a sentence where there is none."""
    try:
        if file.is_dir():
            raise InvalidInput(f"'{file}' is a folder; name a text file that holds {what}.")
        if not file.is_file():
            raise InvalidInput(f"There is no file '{file}'; name a text file that holds {what}.")
        with file.open("rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
    except OSError as failure:
        raise InvalidInput(f"'{file}' cannot be read: {failure.strerror or failure}.") from failure
    if len(content) > _MOST_BYTES:
        raise InvalidInput(f"'{file}' is too large; at most {_MOST_BYTES:,} bytes are read.")
    try:
        return content.decode()
    except UnicodeDecodeError as failure:
        raise InvalidInput(
            f"'{file}' is no text: byte {failure.start} is not UTF-8; name a text file that holds {what}."
        ) from failure


def tape_symbols(text: str, machine: Machine) -> list[str]:
    """The symbols of a tape; where no blank stands between them each is one character."""
    known = machine.alphabet
    found = text.split()
    if len(found) == 1 and found[0] not in known:
        found = list(found[0]) if all(symbol in known for symbol in found[0]) else found
    for symbol in found:
        if symbol not in known:
            raise InvalidInput(
                f"The tape of {machine.name} has the symbols {_short(' '.join(known))}; "
                f"got '{_short(symbol)}'."
            )
    return found


def sized(wanted: Wanted, text: str, *, family: str | None, variant: str | None) -> tuple[Task, Tensor]:
    """The task with the parameters that were given, else those that a construction and the text need."""
    from separatrix.witnesses.catalogue import entries_for, no_witness

    name, given = wanted.kind.name, dict(wanted.given)
    entries = entries_for(name, family, variant)
    if not entries:
        raise no_witness(name, family, variant)
    agreeing = (
        each for each in entries if all(given.get(key, value) == value for key, value in each.takes.items())
    )
    parameters = {**next(agreeing, entries[0]).takes, **given}
    if name == "is-tree":
        return _graph(wanted, parameters, text)
    if name == "turing":
        return _prompt(wanted, parameters, text)
    if "n" in parameters:
        return _parsed(wanted.made(parameters), text)
    return _fitting(wanted, parameters, text)


def _graph(wanted: Wanted, parameters: dict[str, Any], text: str) -> tuple[Task, Tensor]:
    """Edges as people write them; so many of them that the number of vertices fits."""
    from separatrix.tasks.graph_text import edges_in, graph_words

    edges = edges_in(text)
    if not edges and "n" not in parameters and not text.split():
        raise InvalidInput(
            "There is no edge in this graph; write edges such as `3 ~ 7`, or say --n 1 for a single vertex."
        )
    task = wanted.made({"n": len(edges) + 1, **parameters})
    n = task.n
    if len(edges) != n - 1:
        raise InvalidInput(
            f"A graph of {n:,} vertices is given by {n - 1:,} edges; got {len(edges):,}. "
            "A graph with fewer or more of them is no tree."
        )
    seen = set()
    for edge in edges:
        shown = f"{edge[0]} ~ {edge[1]}"
        if not all(1 <= vertex <= n for vertex in edge):
            raise InvalidInput(
                f"With {n - 1:,} edges there are {n:,} vertices, numbered from 1; got the edge {shown}. "
                "A graph of more vertices has more edges here, as a tree would."
            )
        if edge[0] == edge[1]:
            raise InvalidInput(f"An edge joins two different vertices; got {shown}. Leave it out.")
        if frozenset(edge) in seen:
            raise InvalidInput(f"Every edge stands once; got {shown} again. Leave it out.")
        seen.add(frozenset(edge))
    return task, task.parse(graph_words(edges))


def _prompt(wanted: Wanted, parameters: dict[str, Any], text: str) -> tuple[Task, Tensor]:
    """A tape, alone or between the marks of its prompt, for a machine of the library."""
    from separatrix.tasks.machines import library_machine
    from separatrix.tasks.turing import Turing

    machine = library_machine(parameters.get("machine", Turing.machine))
    words = text.split()
    if words[:1] != ["<s>"]:
        words = ["<s>", *tape_symbols(text, machine), "="]
    cells = words.index("=") - 1 if "=" in words else len(words) - 1
    return _parsed(wanted.made({"n": cells, **parameters}), " ".join(words))


def _parsed(task: Task, text: str) -> tuple[Task, Tensor]:
    """The input that a text is, of a task of a given size."""
    from separatrix.tasks.interface import WordTask

    if isinstance(task, WordTask):
        words, room = _words(task, text), _given_words(task)
        exact = task.vocabulary.pad is None
        if words > room or (exact and words < room):
            most = "" if exact else "at most "
            raise InvalidInput(
                f"{task.name} with n={task.n} takes {most}{room:,} words; got {words:,}. "
                "Give another --n, or leave it out."
            )
    return task, task.parse(_spaced(task, text))


def _fitting(wanted: Wanted, parameters: dict[str, Any], text: str) -> tuple[Task, Tensor]:
    """The smallest size of which the text is an input."""
    refusal: InvalidInput | None = None
    for n in (*_stated(text), *_near(wanted, parameters, text)):
        try:
            task = wanted.made({**parameters, "n": n})
            return task, task.parse(_spaced(task, text))
        except InvalidInput as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def _stated(text: str) -> Iterator[int]:
    """Sizes that a text may say itself: `4: 1>2 …` is a graph of 4 vertices, `…; …; …` are three rows."""
    before = re.match(r"\s*([0-9]{1,6}):", text, re.ASCII)
    if before is not None:
        yield int(before[1])
    if ";" in text:
        yield text.count(";") + 1


def _near(wanted: Wanted, parameters: dict[str, Any], text: str) -> list[int]:
    """The smallest size whose inputs are as long as the text, and then those around it."""

    def fits(n: int) -> bool:
        # A size that is refused counts as too small.
        try:
            task = wanted.made({**parameters, "n": n})
        except InvalidInput:
            return False
        return _given_words(task) >= _words(task, text)

    low, high = 0, 1
    while high < _LARGEST and not fits(high):
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return [high, max(0, high - 1), *range(high + 1, high + _SIZES_TRIED)]


def _given_words(task: Task) -> int:
    """Words of the longest input; a model that writes is given the prompt only."""
    from separatrix.tasks.interface import ChainTask

    return task.prompt if isinstance(task, ChainTask) else task.length


def _words(task: Task, text: str) -> int:
    """Words of a text, as the task counts them."""
    return len("".join(text.split())) if _stands_together(task) else len(text.split())


def _spaced(task: Task, text: str) -> str:
    """The text, without blanks where the task writes none."""
    return "".join(text.split()) if _stands_together(task) else text


def _stands_together(task: Task) -> bool:
    """Whether words are single characters with nothing between them."""
    from separatrix.tasks.interface import WordTask

    return isinstance(task, WordTask) and not task.vocabulary.separator


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
