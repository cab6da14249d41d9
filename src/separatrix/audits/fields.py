"""The fields of a config, read by name with their type and their limits.

A `config.json` comes from anybody. A field is read when something is counted from it and not before, so that
what a config says beyond that does not matter; one that is missing, of another type or absurd is refused in a
sentence that names it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, cast

from separatrix.errors import InvalidFile

__all__ = ["MOST_LAYERS", "WIDEST", "Fields", "plain_number"]

WIDEST: Final = 10**8
"""No width, vocabulary or number of heads is larger; a product of a few of them stays a count."""
MOST_LAYERS: Final = 10_000
_LARGEST_RATIO: Final = 1000.0
_TOO_LARGE_TO_SHOW: Final = 10**30
_VERY_LARGE: Final = "a very large number"
_OLD_KINDS: Final = {"mamba": "linear_attention", "attention": "full_attention"}


class Fields:
    """A config, or the part of one that describes its language model."""

    def __init__(self, data: Mapping[str, object], *, what: str) -> None:
        """`what` names the model in messages: "llama" for a config of that type."""
        self.what = what
        self._data = data

    def has(self, name: str) -> bool:
        """Whether a field is there and says something: null is how configs leave out a choice."""
        return self._data.get(name) is not None

    def mentions(self, name: str) -> bool:
        """Whether a field is there at all, be it null."""
        return name in self._data

    def window(self, name: str, *, default: int | None) -> int | None:
        """How far attention looks: null says that it looks at everything, and nothing says the default."""
        if name not in self._data:
            return default
        return self.optional_count(name)

    def filled(self, defaults: Mapping[str, object]) -> Fields:
        """The same config with these values where it says nothing."""
        return Fields({**defaults, **self._data}, what=self.what)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields that say something."""
        return tuple(name for name in self._data if self.has(name))

    def count(self, *names: str, default: int | None = None, least: int = 1, most: int = WIDEST) -> int:
        """A whole number under the first of these names that is there, else the default."""
        found = self.optional_count(*names, least=least, most=most)
        if found is not None:
            return found
        if default is None:
            raise InvalidFile(
                f"The config of a {self.what} model lacks {' or '.join(names)}, without which it cannot be "
                "counted."
            )
        return default

    def optional_count(self, *names: str, least: int = 1, most: int = WIDEST) -> int | None:
        """A whole number under the first of these names that is there, or None."""
        for name in names:
            if self.has(name):
                value = self._data[name]
                if isinstance(value, float) and value.is_integer():
                    value = int(value)
                if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                    raise self._wrong(name, f"a whole number from {least} to {most:,}")
                return value
        return None

    def count_or_auto(self, name: str, *, auto: int) -> int:
        """A whole number, or the one that "auto" (or nothing) stands for."""
        return auto if self._data.get(name) == "auto" else self.count(name, default=auto)

    def ratio(self, name: str, *, default: float) -> float:
        """A positive number by which widths are multiplied."""
        value = self._data[name] if self.has(name) else default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(name, f"a number above 0, at most {_LARGEST_RATIO:g}")
        if not 0 < value <= _LARGEST_RATIO or not math.isfinite(value):
            raise self._wrong(name, f"a number above 0, at most {_LARGEST_RATIO:g}")
        return float(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        value = self._data[name] if self.has(name) else default
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def text(self, name: str) -> str | None:
        """Text, or None."""
        value = self._data.get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, "text")
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of texts, or None."""
        value = self._list(name)
        if value is not None and not all(isinstance(item, str) for item in value):
            raise self._wrong(name, "a list of texts")
        return None if value is None else tuple(cast(Sequence[str], value))

    def counts(self, name: str) -> tuple[int, ...]:
        """Widths, as one number or as a list of them."""
        value = self._data[name]
        listed = value if isinstance(value, list | tuple) else [value]
        if len(listed) > MOST_LAYERS or not all(
            isinstance(item, int) and not isinstance(item, bool) and 1 <= item <= WIDEST for item in listed
        ):
            raise self._wrong(name, f"a whole number from 1 to {WIDEST:,}, or a list of them")
        return tuple(listed)

    def entries(self, name: str) -> int | None:
        """How many entries an object has, or None where there is none."""
        part = self.part(name)
        return None if part is None else len(part.names)

    def places(self, name: str) -> frozenset[int] | None:
        """A list of layers by number, counted from 0, or None."""
        value = self._list(name)
        if value is None:
            return None
        if not all(
            isinstance(item, int) and not isinstance(item, bool) and 0 <= item < MOST_LAYERS for item in value
        ):
            raise self._wrong(name, "a list of layers, counted from 0")
        return frozenset(cast(Sequence[int], value))

    def part(self, name: str) -> Fields | None:
        """A config inside this one, or None."""
        value = self._data.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self._wrong(name, "an object")
        return Fields(cast(Mapping[str, object], value), what=f"{self.what} ({name})")

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return self.count("num_hidden_layers", "n_layer", "num_layers", most=MOST_LAYERS)

    def layer_kinds(self, *names: str, known: Sequence[str], layers: int) -> tuple[str, ...] | None:
        """What each layer is, under the first of these names that is there, in the words used now."""
        for name in names:
            listed = self.texts(name)
            if listed is not None:
                kinds = tuple(_OLD_KINDS.get(kind, kind) for kind in listed)
                strange = next((kind for kind in kinds if kind not in known), None)
                if strange is not None:
                    raise self._wrong(name, f"made of {', '.join(known)}", shown=repr(strange[:40]))
                if len(kinds) != layers:
                    raise InvalidFile(
                        f"Field '{name}' of the config names {len(kinds):,} layers, and the model has "
                        f"{layers:,}."
                    )
                return kinds
        return None

    def shared_evenly(self, whole: int, among: int, *, what: str) -> int:
        """A width shared among heads; one that does not divide evenly is refused."""
        if whole % among:
            raise InvalidFile(f"A {self.what} model shares {what} evenly; got {whole:,} among {among:,}.")
        return whole // among

    def _list(self, name: str) -> Sequence[object] | None:
        value = self._data.get(name)
        if value is None:
            return None
        if not isinstance(value, list | tuple) or len(value) > MOST_LAYERS:
            raise self._wrong(name, f"a list of at most {MOST_LAYERS:,} items")
        return value

    def _wrong(self, name: str, expected: str, *, shown: str | None = None) -> InvalidFile:
        came = shown or _shown(self._data[name])
        return InvalidFile(f"Field '{name}' of the config must be {expected}; got {came}.")


def plain_number(value: object) -> str:
    """What came where a number was expected, for a sentence: Python writes no number of 5,000 digits out."""
    if isinstance(value, int) and abs(value) >= _TOO_LARGE_TO_SHOW:
        return _VERY_LARGE
    return str(value)[:40]


def _shown(value: object) -> str:
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,}" if abs(value) < _TOO_LARGE_TO_SHOW else _VERY_LARGE
    return (
        "an object" if isinstance(value, Mapping) else "a list" if isinstance(value, list | tuple) else "null"
    )
