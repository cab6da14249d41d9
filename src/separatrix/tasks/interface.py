"""What a task is: a frozen dataclass of its parameters that samples, solves, lists, writes and splits inputs.

Inputs have a fixed width, `task.length` positions, whatever the example's own length: shapes never depend
on data, so sampling can be compiled and captured. What lies behind an example's end is padding. Labels sit
at the positions where a model must answer; everything else is masked out. In a task with a chain of
thought the inputs hold the chain too (teacher forcing), and the labels are the next tokens from the end of
the prompt on.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import Any, ClassVar, Final

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from separatrix.errors import InvalidInput, TooLarge
from separatrix.randomness import Draws
from separatrix.registry import unknown_name
from separatrix.tasks.vocabulary import Vocabulary

__all__ = [
    "Batch",
    "Classes",
    "Labels",
    "Partition",
    "Reals",
    "Task",
    "TokenTask",
    "Tokens",
    "Vectors",
    "make",
    "option",
    "require",
]

ENUMERATION_LIMIT: Final = 1 << 24


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Inputs are int64 token numbers below `size`, shape (batch, pos)."""

    size: int


@dataclass(frozen=True, kw_only=True)
class Reals:
    """Inputs are float32 rows of `width` numbers, shape (batch, pos, width)."""

    width: int


@dataclass(frozen=True, kw_only=True)
class Classes:
    """Targets are int64 class numbers below `size`, shape (batch, pos)."""

    size: int


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """Targets are float32 vectors of `width`, shape (batch, pos, width); right means within `tolerance`."""

    width: int
    tolerance: float


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The right answers: `targets` where `mask` is true, zero elsewhere."""

    targets: Shaped[Tensor, "batch pos *width"]
    mask: Bool[Tensor, "batch pos"]

    @property
    def answer(self) -> Shaped[Tensor, "batch *width"]:
        """Each example's last label: the answer itself where there is one, the verdict after a chain."""
        positions = torch.arange(self.mask.shape[1], device=self.mask.device)
        last = torch.where(self.mask, positions, -1).amax(1)
        return self.targets[torch.arange(len(last), device=last.device), last]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Examples ready for a model and a loss. `lengths` counts each example's positions without padding."""

    inputs: Shaped[Tensor, "batch pos *width"]
    targets: Shaped[Tensor, "batch pos *target_width"]
    mask: Bool[Tensor, "batch pos"]
    lengths: Int[Tensor, "batch"]

    @staticmethod
    def joined(parts: Sequence[Batch]) -> Batch:
        """The examples of several batches of one task, one after another."""
        fields = (field.name for field in dataclasses.fields(Batch))
        return Batch(**{name: torch.cat([getattr(part, name) for part in parts]) for name in fields})

    @property
    def labels(self) -> Labels:
        """Targets and mask, as `Task.solve` returns them."""
        return Labels(targets=self.targets, mask=self.mask)

    @property
    def prompt_lengths(self) -> Int[Tensor, "batch"]:
        """Positions up to and including the first labelled one: what a model reads before it must write."""
        return self.mask.int().argmax(1) + 1


@dataclass(frozen=True, kw_only=True)
class Partition:
    """A split of the input positions between two parties, for communication arguments."""

    alice: tuple[int, ...]
    bob: tuple[int, ...]

    @staticmethod
    def prefix(length: int, cut: int) -> Partition:
        """Alice holds the first `cut` positions, Bob the rest: the split that binds recurrent models."""
        return Partition(alice=tuple(range(cut)), bob=tuple(range(cut, length)))

    @staticmethod
    def odd_even(length: int) -> Partition:
        """Alice holds positions 1, 3, 5, …, counted from one, and Bob the others."""
        return Partition(alice=tuple(range(0, length, 2)), bob=tuple(range(1, length, 2)))


def option(default: Any = MISSING, *, help: str, flag: bool = True) -> Any:
    """A parameter of a task, with the line that the command line and the page show for it.

    `flag=False` keeps a parameter that no command line can express out of it.
    """
    return dataclasses.field(default=default, metadata={"help": help, "flag": flag})


def require(condition: bool, message: str) -> None:
    """Refuse a user's value with one sentence: what was expected, what came, what would work."""
    if not condition:
        raise InvalidInput(message)


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """The interface; leaves are the files beside this one."""

    name: ClassVar[str]
    """The registry's name."""
    title: ClassVar[str]
    """A few words for headings."""
    source: ClassVar[str]
    """Letters of the works that define it: S, R, W."""

    n: int = option(help="size of the input")

    @property
    @abstractmethod
    def length(self) -> int:
        """Positions of an input, padding included."""

    @property
    @abstractmethod
    def input_space(self) -> Tokens | Reals:
        """What stands at a position."""

    @property
    @abstractmethod
    def target_space(self) -> Classes | Vectors:
        """What an answer is."""

    @abstractmethod
    def sample(
        self, batch: int, *, seed: int, start: int | Tensor = 0, device: torch.device | str = "cpu"
    ) -> Batch:
        """Examples `start` … `start + batch − 1` under a seed: the same bytes in any split, on any device."""

    @abstractmethod
    def solve(self, inputs: Shaped[Tensor, "batch pos *width"]) -> Labels:
        """The oracle: right answers and where they belong, from the inputs alone."""

    @abstractmethod
    def check(self, row: Shaped[Tensor, "pos *width"]) -> None:
        """Raise `InvalidInput` unless the row is an input of this task."""

    @abstractmethod
    def domain_size(self) -> int:
        """How many inputs there are, over all lengths; real-valued tasks count their grid."""

    @abstractmethod
    def decode(self, numbers: Int[Tensor, "batch"]) -> Shaped[Tensor, "batch pos *width"]:
        """The inputs with these numbers in 0 … domain_size() − 1, each input once."""

    @abstractmethod
    def render(self, row: Shaped[Tensor, "pos *width"]) -> str:
        """One input as text."""

    @abstractmethod
    def parse(self, text: str) -> Shaped[Tensor, "pos *width"]:
        """The input a text describes; `parse(render(row))` is the row."""

    @abstractmethod
    def render_target(self, target: Shaped[Tensor, "*width"]) -> str:
        """One label as text."""

    @abstractmethod
    def partitions(self) -> Mapping[str, Partition]:
        """The splits its lower bounds use, by name."""

    def enumerate(self, *, chunk: int = 1 << 14) -> Iterator[Shaped[Tensor, "batch pos *width"]]:
        """Every input, in chunks."""
        size = self.domain_size()
        if size > ENUMERATION_LIMIT:
            raise TooLarge(
                f"{self.name} has {_count(size)} inputs with these parameters, and at most "
                f"{ENUMERATION_LIMIT:,} are listed; choose a smaller n or alphabet."
            )
        for low in range(0, size, chunk):
            yield self.decode(torch.arange(low, min(size, low + chunk)))

    def draws(self, batch: int, seed: int, start: int | Tensor, device: torch.device | str) -> Draws:
        """The random numbers of these examples."""
        return Draws(seed=seed, stream=self.name, batch=batch, start=start, device=device)

    def full_length(self) -> Task:
        """The same task sampled at its longest inputs only, as the papers test it."""
        if any(field.name == "lengths" for field in dataclasses.fields(self)):
            return dataclasses.replace(self, lengths="full")  # type: ignore[call-arg]
        return self


@dataclass(frozen=True, kw_only=True)
class TokenTask(Task):
    """A task whose inputs are words of a vocabulary."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """The words, answers first, so that a target that is a word has the word's number."""

    @property
    def input_space(self) -> Tokens:
        """Token numbers of the vocabulary."""
        return Tokens(size=self.vocabulary.size)

    def render(self, row: Int[Tensor, "pos"]) -> str:
        """The words up to the padding."""
        return self.vocabulary.render(row)

    def parse(self, text: str) -> Int[Tensor, "pos"]:
        """The words as token numbers, padded; a word or a shape that does not belong is named."""
        row = self.vocabulary.parse(text, length=self.length)
        self.check(row)
        return row


def make(kind: type[Task], parameters: Mapping[str, Any]) -> Task:
    """A task from named parameters, with unknown, missing and mistyped ones refused in a sentence."""
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    types = typing.get_type_hints(kind)
    for key, value in parameters.items():
        if key not in fields:
            raise unknown_name(f"option of {kind.name} called", key, tuple(fields))
        if types[key] is int and (isinstance(value, bool) or not isinstance(value, int)):
            raise InvalidInput(f"{kind.name} needs a whole number for {key}; got {value!r}.")
        allowed = typing.get_args(types[key]) if typing.get_origin(types[key]) is typing.Literal else ()
        if allowed and value not in allowed:
            raise InvalidInput(f"{kind.name} knows {key} as {' or '.join(map(str, allowed))}; got {value!r}.")
    missing = [
        key
        for key, field in fields.items()
        if field.default is MISSING and field.default_factory is MISSING and key not in parameters
    ]
    if missing:
        raise InvalidInput(f"{kind.name} needs a value for {' and '.join(missing)}; none was given.")
    return kind(**parameters)


def _count(size: int) -> str:
    # Python refuses to print the digits of very large numbers, so the power of ten comes from the bits.
    return f"{size:,}" if size < 10**9 else f"about 10^{int(size.bit_length() * math.log10(2))}"
