"""Width against precision: the proven witnesses that no other beats in both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from separatrix.accounting import Size
from separatrix.certificates.searching import (
    LADDERS,
    MOST_BITS,
    Construction,
    construction_for,
    first_proved,
    ladder_below,
)
from separatrix.precision import name_of
from separatrix.records import JsonObject
from separatrix.tasks import Task
from separatrix.witnesses import Witness
from separatrix.witnesses.choices import Addresses
from separatrix.witnesses.files import weights_sha256

__all__ = ["Point", "frontier"]


@final
@dataclass(frozen=True, kw_only=True)
class Point:
    """A witness that is proven right on every input, by its choices; `weights_sha256` says which weights."""

    addresses: Addresses
    arithmetic: str
    size: Size
    weights_sha256: str

    @property
    def width(self) -> int:
        """Of the stream between layers."""
        return self.size.width

    @property
    def precision(self) -> int:
        """Bits a number."""
        return self.size.precision_bits

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "addresses": self.addresses,
            "arithmetic": self.arithmetic,
            "width": self.width,
            "precision_bits": self.precision,
            "parameter_bits": self.size.parameter_bits,
            "weights_sha256": self.weights_sha256,
        }


def frontier(task: Task, *, family: str | None = None, variant: str | None = None) -> tuple[Point, ...]:
    """The Pareto front of width against bits a number, from the narrowest to the most coarse.

    For each address code, from the shortest words to the longest, the fewest bits at which the weights are
    proven, in fixed point rounded to nearest, rounded down, and in floats. A code with longer words has to
    do with fewer bits than all narrower weights before it.
    """
    construction = construction_for(task, family, variant)
    proved: list[Point] = []
    for addresses in (code for kind in construction.codes() for code in kind):
        proved += _points(construction, addresses, proved)
    return tuple(
        sorted((point for point in proved if not _beaten(point, proved)), key=lambda point: point.width)
    )


def _points(construction: Construction, addresses: Addresses, known: list[Point]) -> list[Point]:
    """For each kind of numbers the fewest bits, while they are fewer than those of what is no wider."""
    sample = construction.built(construction.default.arithmetic, addresses)
    width = None if sample is None else sample.size.width
    limit = min((p.precision for p in known if width is not None and p.width <= width), default=MOST_BITS)
    found = []
    for kind in LADDERS:
        witness = first_proved(
            ladder_below(kind, limit),
            lambda system: construction.proved(system, addresses),
            limited=limit < MOST_BITS,
        )
        if witness is not None:
            found.append(_point(witness, addresses))
            limit = found[-1].precision
    return found


def _point(witness: Witness, addresses: Addresses) -> Point:
    return Point(
        addresses=addresses,
        arithmetic=name_of(witness.arithmetic),
        size=witness.size,
        weights_sha256=weights_sha256(witness.model),
    )


def _beaten(point: Point, others: list[Point]) -> bool:
    return any(
        other.width <= point.width
        and other.precision <= point.precision
        and (other.width, other.precision) != (point.width, point.precision)
        for other in others
    )
