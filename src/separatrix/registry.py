"""One small lazy registry, for tasks now and for models, witnesses and experiments as they come.

A registry is told at birth which names its package holds; the module of a name is the name with
underscores, beside the package's `__init__`. Nothing is imported until somebody asks for an entry, so
listing names costs nothing. Users add entries of their own with the same decorator.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from separatrix.errors import InvalidInput, UnknownName

__all__ = ["Registry", "unknown_name"]

Entry = TypeVar("Entry")
_LONGEST_SHOWN: Final = 60


class Registry(Generic[Entry]):
    """Names to entries, where each built-in entry lives in a module of its own."""

    def __init__(self, kind: str, *, package: str, names: tuple[str, ...]) -> None:
        """`kind` is the noun for messages ("task"); `names` are the modules `package` holds, in order."""
        self._kind = kind
        self._package = package
        self._builtin = names
        self._entries: dict[str, Entry] = {}

    def register(self, name: str) -> Callable[[Entry], Entry]:
        """Decorate the entry that `name` stands for; a second, different entry under one name is refused."""

        def add(entry: Entry) -> Entry:
            home = f"{self._package}.{name.replace('-', '_')}"
            if name in self._builtin and getattr(entry, "__module__", None) != home:
                raise InvalidInput(
                    f"'{name}' is a {self._kind} that comes with the package; choose another name."
                )
            stated = getattr(entry, "name", name)
            if stated != name:
                raise InvalidInput(
                    f"A {self._kind} is registered under its own name '{stated}'; got '{name}'."
                )
            known = self._entries.get(name)
            if known is not None and not _same_definition(known, entry):
                raise InvalidInput(
                    f"{self._kind} names are unique, and '{name}' is taken by {known!r}; choose another name."
                )
            self._entries[name] = entry
            return entry

        return add

    def names(self) -> tuple[str, ...]:
        """Every name: the built-in ones in their order, then the users' in theirs."""
        return self._builtin + tuple(name for name in self._entries if name not in self._builtin)

    def get(self, name: str) -> Entry:
        """The entry of this name, imported now if it was not yet."""
        if name not in self._entries:
            if name not in self._builtin:
                raise unknown_name(self._kind, name, self.names())
            importlib.import_module(f"{self._package}.{name.replace('-', '_')}")
        return self._entries[name]

    def items(self) -> Iterator[tuple[str, Entry]]:
        """Names with their entries, importing each on the way."""
        for name in self.names():
            yield name, self.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self.names()


def unknown_name(kind: str, name: str, known: tuple[str, ...]) -> UnknownName:
    """The error for a name nobody knows: the near matches first, then the whole list."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    shown = name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…"
    shown = shown if shown.isprintable() else repr(shown)[1:-1]
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return UnknownName(f"There is no {kind} '{shown}'.{meant} Known: {', '.join(known)}.")


def _same_definition(first: object, second: object) -> bool:
    """A module that is reloaded registers its entry again; that is no clash."""
    place = "__module__", "__qualname__"
    return all(getattr(first, part, first) == getattr(second, part, second) for part in place)
