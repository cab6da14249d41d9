"""What a recurrent model sees of a token, how it scores classes, and its activation functions.

Vocabularies of a million tokens need no table: a token is told by the block of the vocabulary it belongs to
and by the binary digits of its place there, and a class is scored by comparing digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, TypeAlias, final

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.explicit.recurrent_maps import Coordinates, Field, bounded_items
from separatrix.precision import Numbers, NumberSystem
from separatrix.record_checks import require_count, require_text
from separatrix.records import JsonObject, Reader

__all__ = ["ACTIVATIONS", "Activation", "DigitScores", "TokenBlock", "TokenCode", "activate", "digits_for"]

MOST_TOKENS: Final = 1 << 40
MOST_CLASSES: Final = 1 << 20
MOST_BLOCKS: Final = 30

Activation: TypeAlias = Literal["relu", "sigmoid", "tanh", "hard-sigmoid"]
ACTIVATIONS: Final[tuple[Activation, ...]] = ("relu", "sigmoid", "tanh", "hard-sigmoid")


def digits_for(count: int) -> int:
    """Binary digits that tell `count` things apart: ⌈log₂ count⌉, and at least one."""
    return max((count - 1).bit_length(), 1)


@final
@dataclass(frozen=True, kw_only=True)
class TokenBlock:
    """Tokens first … first + count − 1: one coordinate says "it is one of these", `digits` others which.

    The digits are those of token − first, the least significant first; fewer than needed, even none, are
    allowed, for a block whose tokens need not be told apart.
    """

    name: str
    first: int
    count: int
    digits: int = 0

    def __post_init__(self) -> None:
        require_text("A block of tokens", name=self.name)
        require_count("A block of tokens", first=self.first, digits=self.digits)
        require_count("A block of tokens", least=1, count=self.count)
        if self.digits > 62 or self.first + self.count > MOST_TOKENS:
            raise InvalidInput(
                f"A block of tokens ends at 2^40 and has at most 62 digits; got digits={self.digits} and "
                f"the last token {self.first + self.count - 1}."
            )

    def to_fields(self) -> JsonObject:
        """As JSON values."""
        return {"name": self.name, "first": self.first, "count": self.count, "digits": self.digits}


@final
@dataclass(frozen=True, kw_only=True)
class TokenCode:
    """A vector of zeros and ones for each of `size` tokens; a token of no block, such as padding, has 0."""

    size: int
    blocks: tuple[TokenBlock, ...]

    def __post_init__(self) -> None:
        require_count("A code of tokens", least=1, size=self.size)
        ends = [(block.first, block.first + block.count) for block in self.blocks]
        if not 1 <= len(ends) <= MOST_BLOCKS or any(end > self.size for _, end in ends):
            raise InvalidInput(
                f"A code of {self.size} tokens has 1 to {MOST_BLOCKS} blocks of tokens below {self.size}."
            )
        if any(later[0] < earlier[1] for earlier, later in pairwise(ends)):
            raise InvalidInput("The blocks of a code of tokens stand in order and do not overlap.")

    @property
    def coordinates(self) -> Coordinates:
        """For each block its name, and its digits under "… digits"."""
        fields = []
        for block in self.blocks:
            fields.append(Field(name=block.name, numbers=1))
            if block.digits:
                fields.append(Field(name=f"{block.name} digits", numbers=block.digits))
        return Coordinates(*fields)

    def rows(self, tokens: Int[Tensor, "batch"]) -> Int[Tensor, "batch width"]:
        """The vectors of tokens, made on their device."""
        columns = []
        for block in self.blocks:
            place = tokens - block.first
            inside = ((place >= 0) & (place < block.count)).to(torch.int64).unsqueeze(1)
            bits = torch.arange(block.digits, device=tokens.device)
            columns += [inside, (place.unsqueeze(1) >> bits) & inside]
        return torch.cat(columns, dim=1)

    def spec(self) -> JsonObject:
        """As JSON values."""
        return {"size": self.size, "blocks": [block.to_fields() for block in self.blocks]}

    @classmethod
    def read(cls, data: object) -> TokenCode:
        """The code that a file holds."""
        read = Reader(data, what="the code of tokens")
        blocks = []
        for place, item in enumerate(bounded_items(read, "blocks", MOST_BLOCKS)):
            inner = Reader(item, what=f"{read.what}.blocks[{place}]")
            blocks.append(
                TokenBlock(
                    name=inner.text("name", longest=80),
                    first=inner.count("first"),
                    count=inner.count("count"),
                    digits=inner.count("digits"),
                )
            )
            inner.finish()
        code = cls(size=read.count("size"), blocks=tuple(blocks))
        read.finish()
        return code


@final
@dataclass(frozen=True, kw_only=True)
class DigitScores:
    """Class s scores Σ_i ±z_i, with + where digit i of s is 1: z of entries ±1 spells the class that wins.

    A class that differs from z's in d digits scores 2d less, so the best is ahead by at least 2.
    """

    classes: int
    digits: int

    def __post_init__(self) -> None:
        require_count("Scores of classes", least=1, classes=self.classes, digits=self.digits)
        if self.classes > MOST_CLASSES or self.digits < digits_for(self.classes) or self.digits > 62:
            raise InvalidInput(
                f"At most 2^20 classes are scored, by enough digits to tell them apart; got "
                f"{self.classes} classes and {self.digits} digits."
            )

    def scores(self, system: NumberSystem, digits: Numbers) -> Numbers:
        """(batch, digits) to (batch, classes)."""
        classes = torch.arange(self.classes, device=digits.device)
        places = torch.arange(self.digits, device=digits.device).unsqueeze(1)
        signs = ((classes >> places) & 1).mul_(2).sub_(1)
        return system.matmul(digits, system.encode(signs))


def activate(system: NumberSystem, activation: Activation, numbers: Numbers) -> Numbers:
    """The activation function, each of its steps an operation of the system."""
    return _FUNCTIONS[activation](system, numbers)


def _relu(system: NumberSystem, numbers: Numbers) -> Numbers:
    return system.relu(numbers)


def _logistic(system: NumberSystem, numbers: Numbers) -> Numbers:
    """1/(1 + e^−|y|), or e^−|y|/(1 + e^−|y|) for y < 0: no exp exceeds 1, so nothing is cut off."""
    one, size, negative = _parts(system, numbers)
    decay = system.exp(system.negate(size))
    return system.divide(system.where(negative, decay, one.expand(*decay.shape)), system.add(one, decay))


def _tanh(system: NumberSystem, numbers: Numbers) -> Numbers:
    """±(1 − e^−2|y|)/(1 + e^−2|y|)."""
    one, size, negative = _parts(system, numbers)
    decay = system.exp(system.negate(system.add(size, size)))
    result = system.divide(system.subtract(one, decay), system.add(one, decay))
    return system.where(negative, system.negate(result), result)


def _hard_sigmoid(system: NumberSystem, numbers: Numbers) -> Numbers:
    """min(6, ReLU(y + 3))/6: exactly 0 up to −3 and exactly 1 from 3 on, while y is no giant."""
    three, six = (system.encode(torch.tensor([value], device=numbers.device)) for value in (3, 6))
    ramp = system.relu(system.add(numbers, three))
    return system.divide(system.subtract(ramp, system.relu(system.subtract(ramp, six))), six)


def _parts(system: NumberSystem, numbers: Numbers) -> tuple[Numbers, Numbers, Tensor]:
    """1, the absolute values, and which numbers are negative."""
    one, zero = (system.encode(torch.tensor([value], device=numbers.device)) for value in (1, 0))
    size = system.add(system.relu(numbers), system.relu(system.negate(numbers)))
    return one, size, system.compare(numbers, zero) < 0


_FUNCTIONS: Final[dict[Activation, Callable[[NumberSystem, Numbers], Numbers]]] = {
    "relu": _relu,
    "sigmoid": _logistic,
    "tanh": _tanh,
    "hard-sigmoid": _hard_sigmoid,
}
