"""Codes from files: what `spec()` wrote, read strictly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.models.explicit.codes.bch import ExtendedBCH
from separatrix.models.explicit.codes.binary import Binary
from separatrix.models.explicit.codes.interface import Code
from separatrix.models.explicit.codes.plain import Circle, Digits, Ladder, OneHot, Reciprocal
from separatrix.models.explicit.codes.random_sign import RandomSign
from separatrix.models.explicit.codes.squares import Squares
from separatrix.models.explicit.codes.written import BlockCode, Parabola
from separatrix.records import Reader

__all__ = ["code_from"]


def code_from(data: object) -> Code:
    """The code that a JSON object describes; whatever else it may be is refused with a sentence."""
    read = Reader(data, what="a code")
    make = _MAKERS[read.choice("kind", tuple(_MAKERS))]
    try:
        code = make(read)
    except InvalidInput as error:
        raise InvalidFile(f"A code breaks a rule: {error}") from error
    read.finish()
    return code


def _extended_bch(read: Reader) -> ExtendedBCH:
    one_sided = read.value("one_sided")
    if not isinstance(one_sided, bool):
        raise InvalidFile("Field 'one_sided' of a code must be true or false.")
    return ExtendedBCH(
        length=read.count("length"),
        designed=read.count("designed"),
        count=read.count("count"),
        one_sided=one_sided,
    )


def _blocks(read: Reader) -> BlockCode:
    described = read.items("parts")
    if not 1 <= len(described) <= _MOST_PARTS or any(_kind(each) == BlockCode.kind for each in described):
        raise InvalidFile(f"A code of blocks has 1 to {_MOST_PARTS} parts, none of them of blocks again.")
    return BlockCode(parts=tuple(code_from(each) for each in described))


def _kind(data: object) -> object:
    return data.get("kind") if isinstance(data, Mapping) else None


_MOST_PARTS: Final = 1 << 10
_MAKERS: Mapping[str, Callable[[Reader], Code]] = MappingProxyType(
    {
        OneHot.kind: lambda read: OneHot(count=read.count("count")),
        Digits.kind: lambda read: Digits(count=read.count("count")),
        Ladder.kind: lambda read: Ladder(count=read.count("count"), first=read.count("first")),
        Reciprocal.kind: lambda read: Reciprocal(count=read.count("count"), first=read.count("first")),
        Circle.kind: lambda read: Circle(modulus=read.count("modulus")),
        Binary.kind: lambda read: Binary(count=read.count("count")),
        RandomSign.kind: lambda read: RandomSign(
            count=read.count("count"), dim=read.count("dim"), seed=read.count("seed")
        ),
        ExtendedBCH.kind: _extended_bch,
        Parabola.kind: lambda read: Parabola(count=read.count("count"), first=read.count("first")),
        Squares.kind: lambda read: Squares(count=read.count("count"), first=read.count("first")),
        BlockCode.kind: _blocks,
    }
)
