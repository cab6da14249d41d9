"""Where a position's vectors come from: rules that give each position a whole number, and codes for these.

A Transformer that is built for a length may use any function of position and length. Rules are such
functions given by name, so that files hold no table of positions; the one exception, `Listed`, is for
functions that differ from position to position without a pattern.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.errors import InvalidFile
from separatrix.models.explicit.codes import Code
from separatrix.models.explicit.codes.reading import code_from
from separatrix.records import JsonObject, Reader

__all__ = [
    "Across",
    "Halves",
    "Listed",
    "Own",
    "PositionRule",
    "Remainder",
    "Track",
    "rule_from",
    "track_from",
]


class PositionRule(ABC):
    """A whole number for each place, counted from 0, of an input of a given length; −1 for none."""

    kind: ClassVar[str]
    knows_length: ClassVar[bool]
    """Whether the number depends on the length, so that no causal model can use it."""

    @abstractmethod
    def numbers(
        self, places: Int[Tensor, "batch asked"], lengths: Int[Tensor, "batch 1"]
    ) -> Int[Tensor, "batch asked"]:
        """The number of each place."""

    @abstractmethod
    def spec(self) -> JsonObject:
        """`kind` and parameters."""

    def stored(self) -> Int[Tensor, "place"] | None:
        """A table that has to be kept, if it needs one."""
        return None


@final
@dataclass(frozen=True, kw_only=True)
class Own(PositionRule):
    """The place itself, moved by `shift`; places that would fall below 0 have none."""

    kind: ClassVar[str] = "own"
    knows_length: ClassVar[bool] = False

    shift: int = 0

    def numbers(
        self, places: Int[Tensor, "batch asked"], lengths: Int[Tensor, "batch 1"]
    ) -> Int[Tensor, "batch asked"]:
        """Place + shift."""
        return (places + self.shift).clamp(min=-1)

    def spec(self) -> JsonObject:
        """The shift."""
        return {"kind": self.kind, "shift": self.shift}


@final
@dataclass(frozen=True, kw_only=True)
class Remainder(PositionRule):
    """The place modulo `divisor`: 0 and 1 in turn tell keys from labels."""

    kind: ClassVar[str] = "remainder"
    knows_length: ClassVar[bool] = False

    divisor: int

    def numbers(
        self, places: Int[Tensor, "batch asked"], lengths: Int[Tensor, "batch 1"]
    ) -> Int[Tensor, "batch asked"]:
        """Place mod divisor."""
        return places % self.divisor

    def spec(self) -> JsonObject:
        """The divisor."""
        return {"kind": self.kind, "divisor": self.divisor}


@final
@dataclass(frozen=True, kw_only=True)
class Across(PositionRule):
    """Two halves with `between` tokens in the middle: a place of the second half has its partner's number.

    With h = (length − between) / 2, a place before h has its own number, the tokens between have none, and
    the place h + between + i has the number i.
    """

    kind: ClassVar[str] = "across"
    knows_length: ClassVar[bool] = True

    between: int = 0

    def numbers(
        self, places: Int[Tensor, "batch asked"], lengths: Int[Tensor, "batch 1"]
    ) -> Int[Tensor, "batch asked"]:
        """The place in its half."""
        half = (lengths - self.between) // 2
        second = places - half - self.between
        return torch.where(places < half, places, second.clamp(min=-1))

    def spec(self) -> JsonObject:
        """How many tokens lie between."""
        return {"kind": self.kind, "between": self.between}


@final
@dataclass(frozen=True, kw_only=True)
class Halves(PositionRule):
    """Two halves with `between` tokens in the middle: the second one is counted from `second` on.

    So a place of either half has the same number whatever the length is, as long as no half is longer than
    `second`; the tokens between have none.
    """

    kind: ClassVar[str] = "halves"
    knows_length: ClassVar[bool] = True

    second: int
    between: int = 0

    def numbers(
        self, places: Int[Tensor, "batch asked"], lengths: Int[Tensor, "batch 1"]
    ) -> Int[Tensor, "batch asked"]:
        """The place in its half, moved in the second one."""
        half = (lengths - self.between) // 2
        inside = places - half - self.between
        return torch.where(places < half, places, torch.where(inside < 0, -1, inside + self.second))

    def spec(self) -> JsonObject:
        """Where the second half is counted from, and how many tokens lie between."""
        return {"kind": self.kind, "second": self.second, "between": self.between}


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Listed(PositionRule):
    """A number for each place, one by one; places behind the list have none."""

    kind: ClassVar[str] = "listed"
    knows_length: ClassVar[bool] = False

    table: Int[Tensor, "place"]

    def numbers(
        self, places: Int[Tensor, "batch asked"], lengths: Int[Tensor, "batch 1"]
    ) -> Int[Tensor, "batch asked"]:
        """Looked up."""
        table = torch.cat([self.table, self.table.new_full((1,), -1)]).to(places.device)
        return table[places.clamp(max=len(self.table))]

    def spec(self) -> JsonObject:
        """The table is a tensor of the file."""
        return {"kind": self.kind}

    def stored(self) -> Int[Tensor, "place"]:
        """The list."""
        return self.table


@final
@dataclass(frozen=True, kw_only=True)
class Track:
    """What a position knows about its place: a rule, and the code that turns its numbers into vectors."""

    name: str
    rule: PositionRule
    code: Code

    def rows(
        self, places: Int[Tensor, "batch asked"], lengths: Int[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch asked dim"]:
        """The vector of each place."""
        return self.code.rows(self.rule.numbers(places, lengths))

    def spec(self) -> JsonObject:
        """Name, rule and code."""
        return {"name": self.name, "rule": self.rule.spec(), "code": self.code.spec()}


_READERS: Final[Mapping[str, Callable[[Reader], PositionRule]]] = MappingProxyType(
    {
        Own.kind: lambda read: Own(shift=_whole(read, "shift")),
        Remainder.kind: lambda read: Remainder(divisor=max(read.count("divisor"), 1)),
        Across.kind: lambda read: Across(between=read.count("between")),
        Halves.kind: lambda read: Halves(second=read.count("second"), between=read.count("between")),
    }
)


def track_from(data: object, tables: Mapping[str, Tensor]) -> Track:
    """The track that a file describes; `tables` holds the lists, by the track's name."""
    read = Reader(data, what="a position track")
    name, rule_data, code = read.text("name", longest=100), read.value("rule"), code_from(read.value("code"))
    read.finish()
    rule_read = Reader(rule_data, what=f"the rule of the position track '{name}'")
    kind = rule_read.choice("kind", (*_READERS, Listed.kind))
    if kind == Listed.kind:
        if name not in tables:
            raise InvalidFile(f"The position track '{name}' is listed, but the weights hold no list for it.")
        rule: PositionRule = Listed(table=_table(name, tables[name]))
    else:
        rule = _READERS[kind](rule_read)
    rule_read.finish()
    return Track(name=name, rule=rule, code=code)


def rule_from(data: object, *, what: str) -> PositionRule:
    """A rule by itself, as a file describes it; lists belong to tracks only."""
    read = Reader(data, what=what)
    rule = _READERS[read.choice("kind", tuple(_READERS))](read)
    read.finish()
    return rule


def _table(name: str, table: Tensor) -> Int[Tensor, "place"]:
    if table.dtype != torch.int64 or table.ndim != 1:
        raise InvalidFile(f"The list of the position track '{name}' must be one row of int64 numbers.")
    return table


def _whole(read: Reader, name: str) -> int:
    value = read.value(name)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 1 << 40:
        raise InvalidFile(f"Field '{name}' of {read.what} must be a whole number.")
    return value
