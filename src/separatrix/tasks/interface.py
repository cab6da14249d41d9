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
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from separatrix.errors import InvalidInput, TooLarge
from separatrix.options import check_types, made, option, require
from separatrix.randomness import Band, Draws
from separatrix.tasks.batches import Asking, Batch, Classes, Labels, Partition, Reals, Tokens, Vectors
from separatrix.tasks.vocabulary import Vocabulary

__all__ = [
    "Asking",
    "Batch",
    "ChainTask",
    "Classes",
    "Labels",
    "Partition",
    "Reals",
    "Task",
    "TokenTask",
    "Tokens",
    "Vectors",
    "WordTask",
    "example_task",
    "make",
    "option",
    "require",
    "require_numbered",
]

ENUMERATION_LIMIT: Final = 1 << 24


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """The interface; leaves are the files beside this one."""

    name: ClassVar[str]
    """The registry's name."""
    title: ClassVar[str]
    """A few words for headings."""
    source: ClassVar[str]
    """Letters of the works that define it: S, R, W."""
    showcase: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Parameters at which one example can be taken in at a glance; what is not named keeps its default."""

    n: int = option(help="size of the input")

    def __post_init__(self) -> None:
        check_types(self, name=self.name)
        self.validate()

    @abstractmethod
    def validate(self) -> None:
        """Raise `InvalidInput` unless the parameters, each of its declared type, fit together."""

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

    @property
    @abstractmethod
    def asking(self) -> Asking:
        """How many answers an input asks for, and what they depend on."""

    @abstractmethod
    def draw(self, draws: Draws) -> Batch:
        """An example for each row of random numbers; each may depend on its own row only."""

    @abstractmethod
    def solve(self, inputs: Shaped[Tensor, "batch pos *width"]) -> Labels:
        """The oracle: right answers and where they belong, from the inputs alone."""

    @abstractmethod
    def check_content(self, row: Shaped[Tensor, "pos *width"]) -> None:
        """Raise `InvalidInput` unless a row of the right shape and range is an input of this task."""

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
        """The splits its lower bounds use, by name, for inputs of full length."""

    def check(self, row: Shaped[Tensor, "pos *width"]) -> None:
        """Raise `InvalidInput` unless the row is an input of this task."""
        space = self.input_space
        shape: tuple[int, ...] = (self.length,)
        dtype = torch.int64
        if isinstance(space, Reals):
            shape, dtype = (self.length, space.width), torch.float32
        require(
            tuple(row.shape) == shape and row.dtype == dtype,
            f"An input of {self.name} is {_named(dtype)} of shape {shape}; "
            f"got {_named(row.dtype)} of shape {tuple(row.shape)}.",
        )
        if isinstance(space, Tokens):
            _check_tokens(self.name, row.tolist(), space)
        self.check_content(row)

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

    @property
    def sampled_sizes(self) -> tuple[int, int]:
        """The least and the greatest size that samples are drawn with, in whatever a task counts."""
        return self.n, self.n

    def positions_of(self, size: int) -> int:
        """Positions of an input of this size, from the least to the greatest that is sampled."""
        return self.length

    def longest_in(self, band: Band) -> int:
        """Positions of the longest samples in a band of sizes: what stands behind them is padding."""
        least, most = self.sampled_sizes
        return self.positions_of(least + band.last(most - least + 1))

    def drawn_sizes(self, draws: Draws) -> Int[Tensor, "batch"]:
        """The size of each example: uniform, over all that are sampled or over the band that is asked for."""
        least, most = self.sampled_sizes
        return draws.banded("length", most - least + 1) + least

    def sample(
        self,
        batch: int,
        *,
        seed: int | Tensor,
        start: int | Tensor = 0,
        device: torch.device | str = "cpu",
        band: Band | None = None,
        mirrored: bool = False,
    ) -> Batch:
        """Examples `start` … `start + batch − 1` under a seed: the same bytes in any split, on any device.

        `start` may be a whole number on the device, so that a captured graph draws new ones on each replay.
        Both may be one for each row: the seed and the number of every example. Of a task whose samples vary
        in length, `band` takes those of about the same; with `mirrored` each example with an odd number is as
        much shorter than the longest as the one before it is longer than the shortest.
        """
        draws = Draws(
            seed=seed,
            stream=self.name,
            batch=batch,
            start=start,
            device=device,
            band=band,
            mirrored=mirrored,
        )
        return self.draw(draws)

    def full_length(self) -> Task:
        """The same task sampled at its longest inputs only, as the papers test it."""
        if any(field.name == "lengths" for field in dataclasses.fields(self)):
            return dataclasses.replace(self, lengths="full")  # type: ignore[call-arg]
        return self


@dataclass(frozen=True, kw_only=True)
class WordTask(Task):
    """A task whose inputs are words of a vocabulary: the interface that `TokenTask` and `ChainTask` share."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """The words, answers first, so that a target that is a word has the word's number."""

    @property
    def input_space(self) -> Tokens:
        """Token numbers of the vocabulary."""
        vocabulary = self.vocabulary
        return Tokens(size=vocabulary.size, pad=vocabulary.pad)

    def render(self, row: Int[Tensor, "pos"]) -> str:
        """The words up to the padding."""
        return self.vocabulary.render(row)


@dataclass(frozen=True, kw_only=True)
class TokenTask(WordTask):
    """A task on words whose whole input is given."""

    def parse(self, text: str) -> Int[Tensor, "pos"]:
        """The words as token numbers, padded; a word or a shape that does not belong is named."""
        row = self.vocabulary.parse(text, length=self.length)
        self.check(row)
        return row


@dataclass(frozen=True, kw_only=True)
class ChainTask(WordTask):
    """A task on words whose input is a prompt and the chain of thought that belongs to it."""

    @property
    @abstractmethod
    def prompt(self) -> int:
        """Words of the prompt, the same for every input."""

    @abstractmethod
    def check_prompt(self, row: Int[Tensor, "prompt"]) -> None:
        """Raise `InvalidInput` unless a row begins with a prompt of this task."""

    @abstractmethod
    def completed(self, prompt: Int[Tensor, "prompt"]) -> Int[Tensor, "pos"]:
        """The whole input that begins with this prompt."""

    def parse(self, text: str) -> Int[Tensor, "pos"]:
        """A prompt alone is completed with its chain; a chain that is given must be the right one."""
        row = self.vocabulary.parse(text, length=self.length)
        self.check_prompt(row[: self.prompt])
        whole = self.completed(row[: self.prompt])
        if any(token != self.vocabulary.pad for token in row[self.prompt :].tolist()):
            self._compare(row, whole)
        return whole

    def check_content(self, row: Int[Tensor, "pos"]) -> None:
        """A prompt of this task, and nothing but its own chain behind it."""
        self.check_prompt(row[: self.prompt])
        self._compare(row, self.completed(row[: self.prompt]))

    def _compare(self, row: Int[Tensor, "pos"], whole: Int[Tensor, "pos"]) -> None:
        place = int((row != whole).int().argmax())
        right, got = (self.vocabulary.word(int(tokens[place])) for tokens in (whole, row))
        require(
            right == got,
            f"Behind this prompt, word {place + 1} must be {right}; got {got}. "
            "Leave the chain out and it is written for you.",
        )


def example_task(kind: type[Task], parameters: Mapping[str, Any] | None = None) -> Task:
    """A small task of this kind with these parameters, for showing: what is left open is chosen for it."""
    given = dict(parameters or {})
    if given.keys() <= {"n"} and kind.showcase:
        return make(kind, {**kind.showcase, **given})
    sizes = [kind.showcase[key] for key in ("n",) if key in kind.showcase]
    refusals: list[InvalidInput] = []
    for n in (*sizes, *_LIKELY_SIZES):
        try:
            return make(kind, {"n": n, **given})
        except InvalidInput as refusal:
            refusals.append(refusal)
    raise refusals[0]


def make(kind: type[Task], parameters: Mapping[str, Any]) -> Task:
    """A task from named parameters, with unknown, missing and mistyped ones refused in a sentence."""
    return made(kind, parameters, name=kind.name)


_LIKELY_SIZES: Final = (8, 4, 16, 2, 32)


def _check_tokens(name: str, tokens: list[int], space: Tokens) -> None:
    strange = next((token for token in tokens if not 0 <= token < space.size), None)
    if strange is not None:
        raise InvalidInput(f"Tokens of {name} run from 0 to {space.size - 1}; got {strange}.")
    written = len(tokens)
    while written and tokens[written - 1] == space.pad:
        written -= 1
    if space.pad in tokens[:written]:
        raise InvalidInput(
            f"Padding stands only at the end of an input of {name}; got it at {tokens.index(space.pad)}."
        )


def require_numbered(task: Task) -> None:
    """Refuse to number inputs whose numbers no int64 holds."""
    size = task.domain_size()
    if size > 1 << 62:
        raise TooLarge(
            f"{task.name} has {_count(size)} inputs with these parameters; at most 2^62 are numbered."
        )


def _named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _count(size: int) -> str:
    # Python refuses to print the digits of very large numbers, so the power of ten comes from the bits.
    return f"{size:,}" if size < 10**9 else f"about 10^{int((size.bit_length() - 1) * math.log10(2))}"
