"""Records: frozen values that go to JSON and come back exactly, read strictly.

A file may come from a stranger. Reading one takes every field by name with its type and its limits, refuses
what is missing, unknown or absurd with one clear sentence, and never executes anything. Exact numbers are
written as strings ("3/4", "-17"), because a JSON number is a float to many readers.
"""

from __future__ import annotations

import json
import math
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeAlias, TypeVar, cast

from separatrix.errors import InvalidFile, InvalidInput, NewerFile, UnknownName

__all__ = [
    "FrozenMapping",
    "JsonObject",
    "JsonValue",
    "Reader",
    "Record",
    "Upgrade",
    "exact_from_text",
    "exact_to_text",
    "fits_exact_text",
    "freeze",
    "kind_of",
    "parse_json",
    "same_json",
    "thaw",
    "upgraded",
]

JsonValue: TypeAlias = "bool | int | float | str | tuple[JsonValue, ...] | Mapping[str, JsonValue] | None"
"""A JSON value made immutable: arrays are tuples, objects are `FrozenMapping`s."""

JsonObject: TypeAlias = dict[str, object]
"""A JSON object as the standard library reads and writes it."""

Upgrade: TypeAlias = Callable[[JsonObject], JsonObject]
"""The fields of a document of one version as the next version has them."""

LONGEST_TEXT = 20_000
MOST_ITEMS = 1_000_000
MOST_BYTES = 64 * 2**20
DEEPEST = 32
MOST_DIGITS = 2_000
LARGEST_COUNT = 10**30

_TOO_LONG: int = 10**MOST_DIGITS
_EXACT = re.compile(r"-?(0|[1-9][0-9]*)(/[1-9][0-9]*)?")

Self = TypeVar("Self", bound="Record")
Choice = TypeVar("Choice", bound=str)


@dataclass(frozen=True, kw_only=True)
class Record(ABC):
    """A value with a schema name and version, written to JSON and read back equal to itself.

    A record inside another is written without its schema; the outermost one carries it, and changes its
    version when one inside it changes.
    """

    SCHEMA: ClassVar[str]
    UPGRADES: ClassVar[tuple[Upgrade, ...]] = ()
    """Upgrade i brings the fields of version i + 1 to version i + 2; what is written now has the last."""

    @abstractmethod
    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""

    @classmethod
    @abstractmethod
    def from_fields(cls: type[Self], read: Reader) -> Self:
        """The record whose fields `read` holds."""

    def to_json(self) -> JsonObject:
        """A JSON object with the schema's name and version first."""
        return {"schema": self.SCHEMA, "version": len(self.UPGRADES) + 1, **self.to_fields()}

    @classmethod
    def from_json(cls: type[Self], data: object) -> Self:
        """The record that a JSON object of this version or an older one describes, read strictly."""
        read = Reader(data, what=cls.SCHEMA)
        schema = read.text("schema")
        if schema != cls.SCHEMA:
            raise InvalidFile(f"Expected a record of schema '{cls.SCHEMA}'; got {schema[:60]!r}.")
        version = read.count("version")
        fields = upgraded(read.rest(), version=version, upgrades=cls.UPGRADES, what=cls.SCHEMA)
        return cls.read(Reader(fields, what=cls.SCHEMA))

    @classmethod
    def read(cls: type[Self], read: Reader) -> Self:
        """The record that a reader holds, with nothing left over and every rule of the record kept."""
        try:
            record = cls.from_fields(read)
        except (InvalidInput, UnknownName) as error:
            raise InvalidFile(f"{read.what} breaks a rule: {error}") from error
        read.finish()
        return record


class Reader:
    """One JSON object while it is read: each field is taken once, by its name and type."""

    def __init__(self, data: object, *, what: str) -> None:
        """`what` names the object in messages."""
        if not isinstance(data, Mapping):
            raise InvalidFile(f"{what} is a JSON object; got {kind_of(data)}.")
        if not all(isinstance(name, str) for name in data):
            raise InvalidFile(f"{what} has field names that are not text.")
        self.what = what
        self._left = dict(cast(Mapping[str, object], data))

    def _take(self, name: str) -> object:
        if name not in self._left:
            raise InvalidFile(f"{self.what} lacks the field '{name}'.")
        return self._left.pop(name)

    def _wrong(self, name: str, expected: str, value: object) -> InvalidFile:
        return InvalidFile(f"Field '{name}' of {self.what} must be {expected}; got {kind_of(value)}.")

    def text(self, name: str, *, longest: int = LONGEST_TEXT) -> str:
        """Text of bounded length."""
        value = self._take(name)
        if not isinstance(value, str):
            raise self._wrong(name, "text", value)
        if len(value) > longest:
            raise InvalidFile(
                f"Field '{name}' of {self.what} may have {longest} characters; it has {len(value)}."
            )
        return value

    def optional_text(self, name: str) -> str | None:
        """Text or null."""
        return self.text(name) if not self.skip_null(name) else None

    def texts(self, name: str) -> tuple[str, ...]:
        """An array of texts."""
        values = self.items(name)
        for value in values:
            if not isinstance(value, str):
                raise self._wrong(name, "an array of texts", value)
            if len(value) > LONGEST_TEXT:
                raise InvalidFile(f"Field '{name}' of {self.what} has a text of {len(value)} characters.")
        return cast(tuple[str, ...], values)

    def choice(self, name: str, choices: tuple[Choice, ...]) -> Choice:
        """One of a few texts."""
        value = self.text(name)
        for choice in choices:
            if value == choice:
                return choice
        raise InvalidFile(f"Field '{name}' of {self.what} is one of {' '.join(choices)}; got {value[:40]!r}.")

    def yes(self, name: str) -> bool:
        """True or false."""
        value = self._take(name)
        if not isinstance(value, bool):
            raise InvalidFile(f"Field '{name}' of {self.what} must be true or false.")
        return value

    def count(self, name: str) -> int:
        """A whole number that is not negative, written as a JSON number."""
        value = self._take(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(name, "a whole number", value)
        if not 0 <= value <= LARGEST_COUNT:
            raise InvalidFile(f"Field '{name}' of {self.what} must lie between 0 and 10^30.")
        return value

    def optional_count(self, name: str) -> int | None:
        """A whole number or null."""
        return self.count(name) if not self.skip_null(name) else None

    def measured(self, name: str) -> float:
        """A finite measured number."""
        value = self._take(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(name, "a number", value)
        if (isinstance(value, int) and abs(value) > LARGEST_COUNT) or not math.isfinite(value):
            raise InvalidFile(f"Field '{name}' of {self.what} must be a finite number of ordinary size.")
        return float(value)

    def exact(self, name: str) -> Fraction:
        """An exact number, written as text."""
        value = self.text(name, longest=2 * MOST_DIGITS + 2)
        number = exact_from_text(value)
        if number is None:
            raise InvalidFile(
                f"Field '{name}' of {self.what} must be an exact number in lowest terms, such as \"3/4\" or "
                f'"-17"; got {value[:40]!r}.'
            )
        return number

    def optional_exact(self, name: str) -> Fraction | None:
        """An exact number or null."""
        return self.exact(name) if not self.skip_null(name) else None

    def value(self, name: str) -> JsonValue:
        """Any JSON value of bounded depth and size, made immutable."""
        value = self._take(name)
        try:
            return freeze(value)
        except InvalidInput as error:
            raise InvalidFile(f"Field '{name}' of {self.what}: {error}") from error

    def items(self, name: str) -> tuple[object, ...]:
        """An array of anything, of bounded length."""
        value = self._take(name)
        if not isinstance(value, list | tuple):
            raise self._wrong(name, "an array", value)
        if len(value) > MOST_ITEMS:
            raise InvalidFile(
                f"Field '{name}' of {self.what} may have {MOST_ITEMS} items; it has {len(value)}."
            )
        return tuple(value)

    def record(self, name: str, kind: type[Self]) -> Self:
        """A record inside this one."""
        return kind.read(Reader(self._take(name), what=f"{self.what}.{name}"))

    def optional_record(self, name: str, kind: type[Self]) -> Self | None:
        """A record inside this one, or null."""
        return self.record(name, kind) if not self.skip_null(name) else None

    def records(self, name: str, kind: type[Self]) -> tuple[Self, ...]:
        """An array of records of one kind."""
        return tuple(
            kind.read(Reader(item, what=f"{self.what}.{name}[{place}]"))
            for place, item in enumerate(self.items(name))
        )

    def has(self, name: str) -> bool:
        """Whether a field that may be left out is there and not yet taken."""
        return name in self._left

    def skip_null(self, name: str) -> bool:
        """Take the field if it is there and null, and say whether it was."""
        if name in self._left and self._left[name] is None:
            del self._left[name]
            return True
        return False

    def agrees(self, name: str, value: object) -> None:
        """Check a field that is written for readers and follows from the others."""
        written = self._take(name)
        if type(written) is not type(value) or written != value:
            raise InvalidFile(f"Field '{name}' of {self.what} contradicts the fields it follows from.")

    def rest(self) -> JsonObject:
        """The fields that nobody has asked for yet."""
        return dict(self._left)

    def finish(self) -> None:
        """Refuse what nobody asked for."""
        if self._left:
            unknown = ", ".join(repr(name[:40]) for name in list(self._left)[:5])
            raise InvalidFile(f"{self.what} has fields that its schema does not know: {unknown}.")


def upgraded(fields: JsonObject, *, version: int, upgrades: Sequence[Upgrade], what: str) -> JsonObject:
    """The fields of a document of some version as the newest version has them, one upgrade after another.

    What is newer than all that is known is refused, and so is version 0, which there never was.
    """
    newest = len(upgrades) + 1
    if version > newest:
        raise NewerFile(
            f"{what} was written by a newer separatrix (version {version}; this one knows up to {newest}); "
            "upgrade separatrix to read it."
        )
    if version < 1:
        raise InvalidFile(f"{what} says that it is of version {version}, which there never was.")
    for number, upgrade in enumerate(upgrades[version - 1 :], start=version):
        try:
            fields = upgrade(fields)
        except (LookupError, TypeError, ValueError, AttributeError) as failure:
            raise InvalidFile(f"{what} does not have the fields of its version {number}.") from failure
    return fields


def parse_json(
    text: str | bytes, *, what: str = "the file", most_bytes: int = MOST_BYTES, infinities: bool = False
) -> object:
    """JSON text to plain values; refuses size bombs, deep nesting, repeated names, NaN and infinities.

    `infinities` lets NaN and Infinity pass, as null, for files of others that have them.
    """
    if len(text) > most_bytes:
        raise InvalidFile(f"{what} may have {most_bytes} bytes; it has {len(text)}.")

    def once(pairs: list[tuple[str, object]]) -> JsonObject:
        if len({name for name, _ in pairs}) != len(pairs):
            raise InvalidFile(f"{what} repeats a field name within one object.")
        return dict(pairs)

    def constant(name: str) -> object:
        if infinities:
            return None
        raise InvalidFile(f"{what} has {name}, which is no JSON number.")

    def finite(digits: str) -> float:
        number = float(digits)
        if math.isinf(number):
            shown = digits if len(digits) <= 40 else f"{digits[:40]}…"
            raise InvalidFile(f"{what} has the number {shown}, which is beyond every float.")
        return number

    try:
        data: object = json.loads(text, object_pairs_hook=once, parse_constant=constant, parse_float=finite)
    except InvalidFile:
        raise
    except RecursionError as error:
        raise InvalidFile(f"{what} is nested too deep.") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{what} is not JSON: {str(error)[:120]}.") from error
    except ValueError as error:  # all that is left: Python reads whole numbers of some length only
        most = f"{sys.get_int_max_str_digits():,} digits"
        raise InvalidFile(f"{what} has a whole number of more than {most}, beyond every count.") from error
    _check_depth(data, what=what)
    return data


class FrozenMapping(Mapping[str, "JsonValue"]):
    """A JSON object that cannot change, and unlike a mapping proxy can be hashed, copied and pickled.

    Equal as JSON: the order of names does not matter, 1 equals 1.0 and differs from true.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, JsonValue]) -> None:
        """`items` are frozen already; see `freeze`."""
        self._items = dict(items)

    def __getitem__(self, name: str) -> JsonValue:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return same_json(self, other) if isinstance(other, Mapping) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)

    def __reduce__(self) -> tuple[type[FrozenMapping], tuple[dict[str, JsonValue]]]:
        return FrozenMapping, (self._items,)


def freeze(value: object) -> JsonValue:
    """A JSON value made immutable; refuses other types, NaN, nesting over 32 and over a million items."""
    budget = [MOST_ITEMS]
    return _freeze(value, DEEPEST, budget)


def _freeze(value: object, depth: int, budget: list[int]) -> JsonValue:
    budget[0] -= 1
    if depth == 0 or budget[0] < 0:
        raise InvalidInput(f"a value may nest {DEEPEST} deep and hold {MOST_ITEMS} items.")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) > LARGEST_COUNT:
            raise InvalidInput("whole numbers in a value lie between -10^30 and 10^30.")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"numbers in a value are finite; got {value}.")
        return float(value)
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT * 50:
            raise InvalidInput(f"a text in a value may have {LONGEST_TEXT * 50} characters.")
        return str(value)
    if isinstance(value, list | tuple):
        return tuple(_freeze(item, depth - 1, budget) for item in value)
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise InvalidInput("names in a value are text.")
        return FrozenMapping({name: _freeze(item, depth - 1, budget) for name, item in value.items()})
    raise InvalidInput(f"a value is made of JSON types; got {type(value).__name__}.")


def thaw(value: JsonValue) -> object:
    """The plain lists and dicts that the standard library writes."""
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    if isinstance(value, Mapping):
        return {name: thaw(item) for name, item in value.items()}
    return value


def same_json(first: object, second: object) -> bool:
    """Equal as JSON, frozen or not: numbers by their value, so that 1 is 1.0; 1 and true differ."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(same_json(first[name], second[name]) for name in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(same_json, first, second))
    return bool(first == second)


def exact_to_text(number: int | Fraction) -> str:
    """An exact number as text: "7", "-3/4"."""
    return str(Fraction(number))


def exact_from_text(text: str) -> Fraction | None:
    """The number that `exact_to_text` wrote, or None if it cannot have written this."""
    if not _EXACT.fullmatch(text) or any(len(part) > MOST_DIGITS for part in text.lstrip("-").split("/")):
        return None
    number = Fraction(text)
    return number if str(number) == text else None


def fits_exact_text(number: Fraction) -> bool:
    """Whether `exact_from_text` reads what `exact_to_text` writes, that is whether it is short enough."""
    return max(abs(number.numerator), number.denominator) < _TOO_LONG


def _check_depth(data: object, *, what: str) -> None:
    layer = [data]
    for _ in range(DEEPEST + 1):
        children: list[object] = []
        for item in layer:
            if isinstance(item, dict):
                children += item.values()
            elif isinstance(item, list):
                children += item
        if not children:
            return
        layer = children
    raise InvalidFile(f"{what} is nested deeper than {DEEPEST} levels.")


def kind_of(value: object) -> str:
    """What a value is, in the words of a message about it."""
    names = {dict: "an object", list: "an array", tuple: "an array", bool: "a boolean", type(None): "null"}
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "a very large number" if LARGEST_COUNT <= abs(value) < math.inf else f"the number {value}"
    return names.get(type(value), f"a {type(value).__name__}")
