"""Which weights a view is about: built by name, or read from the folder; and which input is put to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from jaxtyping import Shaped
from torch import Tensor

from separatrix.errors import InvalidInput, SeparatrixError
from separatrix.explorer.view import number_in, text_in
from separatrix.tasks import TASKS, Task, Tokens
from separatrix.tasks.interface import TokenTask, make
from separatrix.witnesses.catalogue import CATALOGUE, Entry, witness_for
from separatrix.witnesses.witness import Witness

__all__ = ["LONGEST_INPUT", "Named", "drawn", "input_for", "named", "offered", "text_for", "words_of"]

LONGEST_INPUT: Final = 2000
LARGEST: Final = 32
_LONGEST_PATH: Final = 400
_FEW: Final = 4
_SMALL: Final[Mapping[str, Mapping[str, object]]] = {
    "index-lookup": {"alphabet": 8},
    "mqar": {"vocabulary_size": 64},
    "counting": {"alphabet": 8},
    "associative-recall": {"keys": 16, "values": 16},
}
"""Parameters that keep a name short enough to be read in a picture."""


@final
@dataclass(frozen=True, kw_only=True)
class Named:
    """A construction by the name that a menu shows."""

    name: str
    entry: Entry

    def task(self, n: int) -> Task:
        """The task of this size that it is about."""
        parameters: dict[str, Any] = {**_SMALL.get(self.entry.task, {}), **self.entry.takes, "n": n}
        if "keys" in parameters:
            parameters["keys"] = max(parameters["keys"], n)  # each of the n pairs has a key of its own
        return make(TASKS.get(self.entry.task), parameters)

    def built(self, task: Task) -> Witness:
        """Its weights."""
        return witness_for(task, family=self.entry.family, variant=self.entry.variant)


def offered(*families: str) -> tuple[Named, ...]:
    """The constructions of these families that answer at once."""
    return tuple(
        Named(
            name=" · ".join(part for part in (entry.task, entry.family, entry.variant) if part), entry=entry
        )
        for entry in CATALOGUE
        if entry.family in families
    )


def named(asked: Mapping[str, object], choices: tuple[Named, ...]) -> Named:
    """The construction that was asked for."""
    name = text_in(asked, "witness", longest=_LONGEST_PATH)
    found = next((each for each in choices if each.name == name), None)
    if found is None:
        raise InvalidInput(f"There is no such witness in this view: {name[:60]!r}; choose one of the menu.")
    return found


def text_for(asked: Mapping[str, object], choice: Named) -> tuple[Task, str]:
    """The task and the input: what was typed decides the size, nothing typed draws an input of the size."""
    typed = text_in(asked, "input", longest=LONGEST_INPUT, default="")
    size = number_in(asked, "n", least=1, most=LARGEST, default=8)
    seed = number_in(asked, "seed", least=0, most=2**31, default=0)
    if not typed.strip():
        task = choice.task(size)
        return task, drawn(task, seed)
    problem: SeparatrixError | None = None
    for n in (size, *(each for each in range(1, LARGEST + 1) if each != size)):
        try:
            task = choice.task(n)
            task.check(task.parse(typed))
        except SeparatrixError as error:
            problem = problem or error
        else:
            return task, typed
    assert problem is not None
    raise InvalidInput(f"{problem} An example: {_example(choice, size)}")


def input_for(asked: Mapping[str, object], task: Task) -> str:
    """The input for weights whose task is fixed: what was typed, or one that is drawn."""
    typed = text_in(asked, "input", longest=LONGEST_INPUT, default="")
    seed = number_in(asked, "seed", least=0, most=2**31, default=0)
    if task.n > LARGEST:
        raise InvalidInput(f"The explorer shows weights for n up to {LARGEST}; these are for n={task.n}.")
    return typed if typed.strip() else drawn(task, seed)


def drawn(task: Task, seed: int) -> str:
    """An input of the full length."""
    return task.render(task.full_length().sample(1, seed=seed).inputs[0])


def _example(choice: Named, size: int) -> str:
    for n in (size, *range(1, LARGEST + 1)):
        try:
            task = choice.task(n)
            return drawn(task, 0)
        except SeparatrixError:
            continue
    raise AssertionError("every task has a size that fits")


def words_of(task: Task, row: Shaped[Tensor, "pos *width"]) -> list[str]:
    """What stands at each position, in few characters."""
    if isinstance(task, TokenTask):
        padding = task.input_space.pad
        return [task.vocabulary.word(token) for token in row.tolist() if token != padding]
    if isinstance(task.input_space, Tokens):
        return [str(token) for token in row.tolist()]
    return [_vector(each.flatten().tolist()) for each in row]


def _vector(numbers: list[float]) -> str:
    """A few numbers as such; of many, where it is above and below 0."""
    if len(numbers) <= _FEW:
        return " ".join(f"{number:g}" for number in numbers)
    return "".join("+" if number > 0 else "-" if number < 0 else "·" for number in numbers)
