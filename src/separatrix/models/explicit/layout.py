"""Names for the coordinates of a stream and for the heads that read it: what a model says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from separatrix.errors import InvalidFile
from separatrix.records import JsonObject, Reader

__all__ = ["Layout", "Slot"]


@final
@dataclass(frozen=True, kw_only=True)
class Slot:
    """Coordinates `start` … `stop − 1` of the stream from layer `since` on, and what is held there."""

    name: str
    start: int
    stop: int
    since: int
    note: str

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "name": self.name,
            "start": self.start,
            "stop": self.stop,
            "since": self.since,
            "note": self.note,
        }


@final
@dataclass(frozen=True, kw_only=True)
class Layout:
    """Slots of the stream and a line for each head. For readers: no proof relies on it."""

    slots: tuple[Slot, ...] = ()
    heads: tuple[tuple[str, ...], ...] = ()

    def slot(self, name: str) -> Slot:
        """The slot of this name."""
        return next(slot for slot in self.slots if slot.name == name)

    def lines(self) -> list[str]:
        """Slots, then heads layer by layer."""
        named = max((len(slot.name) for slot in self.slots), default=0)
        rows = []
        for slot in self.slots:
            where = f"{slot.start}–{slot.stop - 1}" if slot.stop - slot.start > 1 else f"{slot.start}"
            since = "the input" if slot.since == 0 else f"layer {slot.since}"
            rows.append(f"  {slot.name:<{named}}  coordinates {where}, from {since}: {slot.note}")
        for number, heads in enumerate(self.heads, start=1):
            rows += [f"  layer {number}, head {i}: {line}" for i, line in enumerate(heads, start=1)]
        return rows

    def spec(self) -> JsonObject:
        """The whole as JSON."""
        return {
            "slots": [slot.to_fields() for slot in self.slots],
            "heads": [list(lines) for lines in self.heads],
        }

    @classmethod
    def from_spec(cls, data: object) -> Layout:
        """The layout a file holds."""
        read = Reader(data, what="the layout")
        slots = []
        for each in read.items("slots"):
            part = Reader(each, what="a slot of the layout")
            slots.append(
                Slot(
                    name=part.text("name", longest=100),
                    start=part.count("start"),
                    stop=part.count("stop"),
                    since=part.count("since"),
                    note=part.text("note"),
                )
            )
            part.finish()
        lines = []
        for heads in read.items("heads"):
            if not isinstance(heads, list | tuple) or not all(isinstance(line, str) for line in heads):
                raise InvalidFile("The layout's heads are lists of lines.")
            lines.append(tuple(str(line)[:2000] for line in heads))
        read.finish()
        return cls(slots=tuple(slots), heads=tuple(lines))
