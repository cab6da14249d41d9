"""Names to entries: lazily, with near matches, and open to users."""

from __future__ import annotations

from pathlib import Path

import pytest

from separatrix.errors import InvalidInput, UnknownName
from separatrix.registry import Registry
from separatrix.tasks import TASKS
from tests.forked import forked


def fruits() -> Registry[type]:
    return Registry("fruit", package="no.such.package", names=())


def test_an_unknown_name_is_answered_with_near_ones_and_the_list() -> None:
    with pytest.raises(UnknownName) as caught:
        TASKS.get("dyk")
    assert str(caught.value).startswith("There is no task 'dyk'. Did you mean dyck? Known: index-lookup, ")
    with pytest.raises(UnknownName, match=r"There is no fruit 'pear'\. Known: \."):
        fruits().get("pear")


def test_users_add_entries_but_do_not_replace_any() -> None:
    registry = fruits()

    @registry.register("apple")
    class Apple:
        pass

    assert registry.names() == ("apple",)
    assert registry.get("apple") is Apple
    assert "apple" in registry
    with pytest.raises(InvalidInput, match="'apple' is taken"):

        @registry.register("apple")
        class Pear:
            pass


def test_a_built_in_name_is_not_shadowed_before_it_is_loaded() -> None:
    registry: Registry[type] = Registry("fruit", package="my.fruits", names=("fig",))
    with pytest.raises(InvalidInput, match="'fig' is a fruit that comes with the package"):

        @registry.register("fig")
        class Fig:
            pass


def test_an_entry_is_registered_under_its_own_name() -> None:
    with pytest.raises(InvalidInput, match="A fruit is registered under its own name 'peach'; got 'paech'"):

        @fruits().register("paech")
        class Peach:
            name = "peach"


def test_listing_names_imports_no_task(tmp_path: Path) -> None:
    code = "import sys, separatrix.tasks as t; t.TASKS.names(); print('separatrix.tasks.dyck' in sys.modules)"
    assert forked(code, folder=tmp_path).stdout == "False\n"


def test_every_name_has_its_module() -> None:
    assert [name for name, kind in TASKS.items() if kind.name != name] == []
    assert len(TASKS.names()) == 19
