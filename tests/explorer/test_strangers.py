"""A folder from a stranger: one odd file in it spoils nothing but itself."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import separatrix
from separatrix.errors import InvalidFile, SeparatrixError
from separatrix.explorer.folder import Folder
from separatrix.explorer.listing import listing
from separatrix.explorer.opening import opened_run, opened_store
from separatrix.explorer.view import Deadline


def listed(place: Path, *, seconds: float = 10.0) -> dict[str, dict[str, Any]]:
    entries: Any = listing(Folder(place), Deadline(seconds))["entries"]
    json.dumps(entries, allow_nan=False)
    return {each["path"]: each for each in entries}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", []),
        ("model", None),
        ("model", {}),
        ("model", {"form": {"a": 1}}),
        ("model", {"form": "x" * 5000}),
        ("n", {"a": 1}),
        ("n", "\ud800"),
        ("n", [1]),
    ],
)
def test_a_witness_that_says_nonsense_is_listed_beside_the_others(
    witnesses: Path, tmp_path: Path, field: str, value: object
) -> None:
    shutil.copytree(witnesses / "kept" / "dyck", tmp_path / "good")
    shutil.copytree(witnesses / "kept" / "dyck", tmp_path / "odd")
    fields = json.loads((tmp_path / "odd" / "witness.json").read_text())
    (fields if field == "model" else fields["task"]["params"])[field] = value
    (tmp_path / "odd" / "witness.json").write_text(json.dumps(fields))
    found = listed(tmp_path)
    assert found["good"]["form"] == "recurrent"
    assert "does not say of which size" in found["odd"]["problem"]


def view(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE runs RENAME TO old")
    connection.execute(
        "CREATE VIEW runs AS WITH RECURSIVE more(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM more) "
        "SELECT old.* FROM old, more"
    )


def trigger(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END")


def column(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE runs ADD COLUMN more TEXT AS (hex(zeroblob(400000000)))")


@pytest.mark.parametrize("change", [view, trigger, column])
def test_a_store_whose_tables_compute_is_not_read(
    tmp_path: Path, change: Callable[[sqlite3.Connection], None]
) -> None:
    separatrix.Store(tmp_path / "good").runs()
    shutil.copytree(tmp_path / "good", tmp_path / "odd")
    connection = sqlite3.connect(tmp_path / "odd" / "runs.sqlite")
    change(connection)
    connection.commit()
    connection.close()
    found = listed(tmp_path)
    assert found["good"]["finished"] == 0
    assert "more than the tables of a store" in found["odd"]["problem"]
    with (
        pytest.raises(InvalidFile, match=r"'odd/runs\.sqlite' has more"),
        opened_store(Folder(tmp_path), "odd"),
    ):
        pass


def test_what_is_wrong_is_said_of_the_file_and_not_of_its_copy(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "runs.sqlite").write_bytes(b"nothing of the kind")
    assert listed(tmp_path)["old"]["problem"].startswith("'old/runs.sqlite' is damaged")
    separatrix.Store(tmp_path / "empty").runs()
    with pytest.raises(SeparatrixError, match="There is no run '00' in 'empty'"):
        opened_run(Folder(tmp_path), "empty", "00")


def test_what_there_was_no_time_for_is_listed_without_being_read(witnesses: Path) -> None:
    found = listed(witnesses, seconds=0.0)
    assert found.keys() == {"kept/dyck", "kept/equality"}
    assert all("no time left" in each["problem"] for each in found.values())
