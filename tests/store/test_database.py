"""The SQLite file: versions, damage, full disks."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from separatrix.errors import InvalidFile
from separatrix.store import Store, database
from separatrix.store.curves import write_curve
from tests.store.examples import config, finished


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "runs")
    for seed in range(3):
        finished(made, seed)
    return made


def sql(path: Path, *statements: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [row for statement in statements for row in connection.execute(statement).fetchall()]


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_file_says_what_it_is(store: Store) -> None:
    path = store.path / "runs.sqlite"
    pragmas = (
        "PRAGMA user_version",
        "PRAGMA application_id",
        "PRAGMA journal_mode",
        "PRAGMA integrity_check",
    )
    assert [row[0] for row in sql(path, *pragmas)] == [1, 0x53505458, "wal", "ok"]


@pytest.mark.parametrize("logged", [False, True])
def test_a_newer_schema_is_refused_and_left_untouched(store: Store, logged: bool) -> None:
    path = store.path / "runs.sqlite"
    keeper = sqlite3.connect(path, isolation_level=None) if logged else None
    if keeper is not None:
        keeper.execute("SELECT count(*) FROM runs").fetchone()
    sql(path, "PRAGMA user_version = 7", "CREATE TABLE later (x)")
    before = everything(store.path)
    with pytest.raises(InvalidFile) as refusal:
        Store(store.path)
    assert str(refusal.value) == (
        f"'{path}' was written by a newer separatrix (schema 7; this one knows up to 1) and is left as it "
        "is; upgrade separatrix, or name another store."
    )
    # What processes share about a log changes with every look at it; it is rebuilt from the log.
    shared = {"runs.sqlite-shm": b""}
    assert everything(store.path) | shared == before | shared
    if keeper is not None:
        assert "runs.sqlite-wal" in before
        keeper.close()


def test_a_newer_store_with_a_log_that_nobody_tends_is_left_untouched(store: Store, tmp_path: Path) -> None:
    """SQLite would fold the log of a killed process into the file as soon as it is opened."""
    path = store.path / "runs.sqlite"
    sql(path, "PRAGMA user_version = 7")
    left = tmp_path / "left"
    left.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as killed:
        killed.execute("CREATE TABLE later (x)")
        for name in ("runs.sqlite", "runs.sqlite-wal"):
            shutil.copy(store.path / name, left)
    before = everything(left)
    assert len(before["runs.sqlite-wal"]) > 0
    with pytest.raises(InvalidFile, match="was written by a newer separatrix"):
        Store(left)
    assert everything(left) == before


def test_an_older_schema_is_brought_up_to_date(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = store.runs()
    step = ("ALTER TABLE runs ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'",)
    monkeypatch.setattr(database, "_STEPS", (*database._STEPS, step))
    assert Store(store.path).runs() == before
    path = store.path / "runs.sqlite"
    assert sql(path, "PRAGMA user_version", "SELECT DISTINCT colour FROM runs") == [(2,), ("red",)]
    assert Store(store.path).runs() == before


def test_a_migration_that_fails_changes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    step = ("ALTER TABLE runs ADD COLUMN colour TEXT", "CREATE TABLE runs (x)")
    with monkeypatch.context() as patch:
        patch.setattr(database, "_STEPS", (*database._STEPS, step))
        with pytest.raises(InvalidFile, match="table runs already exists"):
            Store(store.path)
    assert len(Store(store.path).runs()) == 3
    assert "colour" not in str(sql(store.path / "runs.sqlite", "SELECT sql FROM sqlite_master"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"not a database at all, but long enough to be mistaken for one" * 20,
        lambda content: b"short",
        lambda content: content[:-4096],
        lambda content: content[:4096] + b"\xff" * 4096 + content[8192:],
        lambda content: content[:100] + bytes(4096 - 100) + content[4096:],
    ],
)
def test_a_damaged_file_is_a_sentence_and_nothing_is_lost(store: Store, damage: object) -> None:
    path = store.path / "runs.sqlite"
    assert callable(damage)
    path.write_bytes(damage(path.read_bytes()))
    before = everything(store.path)
    with pytest.raises(InvalidFile) as refusal:
        Store(store.path)
    message = str(refusal.value)
    assert message.startswith(f"'{path}' is damaged or no store of runs (")
    assert message.endswith("move it away to begin anew, or put a copy of it in its place.")
    assert "\n" not in message
    assert everything(store.path) == before


def test_another_programs_file_is_left_alone(tmp_path: Path) -> None:
    for place, statements in enumerate(
        [("CREATE TABLE mail (x)",), ("PRAGMA user_version = 3",), ("PRAGMA application_id = 5",)]
    ):
        folder = tmp_path / str(place)
        folder.mkdir()
        sql(folder / "runs.sqlite", *statements)
        before = everything(folder)
        with pytest.raises(InvalidFile, match="belongs to another program and is left alone"):
            Store(folder)
        assert everything(folder) == before


def test_a_file_without_a_byte_is_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "runs.sqlite").touch()
    assert Store(tmp_path, must_exist=True).runs() == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("status = 'odd'", "Field 'status' of the run"),
        ("steps = 'many'", "must be a whole number; got the text 'many'"),
        ("config = '{'", "is not JSON"),
        ("config = '{}'", "'task' is missing"),
        ("config = replace(config, '64', '65')", "which is not that of its config"),
        ("config = NULL", ""),
        ("provenance = '[]'", "must be an object"),
        ("loss = 'nan'", "must be a number"),
        ("accuracy = 9e999", "must be a finite number"),
        ("created = zeroblob(4)", "must be text"),
    ],
)
def test_rows_from_a_stranger_are_read_strictly(store: Store, change: str, words: str) -> None:
    if change == "config = NULL":
        with pytest.raises(sqlite3.IntegrityError):
            sql(store.path / "runs.sqlite", f"UPDATE runs SET {change}")
        return
    sql(store.path / "runs.sqlite", f"UPDATE runs SET {change}")
    with pytest.raises(InvalidFile) as refusal:
        store.runs()
    assert words in str(refusal.value)


@contextmanager
def small_disk(most: int) -> Iterator[None]:
    """Files may not grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_a_sentence_and_nothing_is_lost(store: Store) -> None:
    before = store.runs()
    with small_disk(8192), pytest.raises(InvalidFile) as refusal:
        store.begin_all([config(seed) for seed in range(100)])
    assert str(refusal.value).startswith(f"'{store.path / 'runs.sqlite'}' cannot be written: the disk ")
    assert store.runs() == before
    store.begin(config(50))
    assert len(Store(store.path).runs()) == 4
    with small_disk(100), pytest.raises(InvalidFile, match=os.strerror(errno.EFBIG)):
        write_curve(store.place("curves", before[0].key, "parquet"), ())
    assert len(store.curve(before[0].key)) == 3


def test_a_busy_file_is_waited_for_and_then_a_sentence(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_SECONDS", 0.05)
    with closing(sqlite3.connect(store.path / "runs.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert len(store.runs()) == 3, "readers do not wait"
        with pytest.raises(InvalidFile, match="another process has been writing to it"):
            store.begin(config(9))
        other.execute("ROLLBACK")
    store.begin(config(9))


@pytest.fixture
def commoner() -> Iterator[Path]:
    """A folder of a user who is not allowed everything; root, who is, becomes that user for a while."""
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        if root:
            os.seteuid(65534)
        try:
            yield Path(folder)
        finally:
            if root:
                os.seteuid(0)


def test_a_store_that_may_only_be_read_is_read(commoner: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(commoner / "runs")
    run = finished(store)
    # `os.access` asks for the real user, who may be root.
    monkeypatch.setattr(os, "access", lambda path, mode: bool(os.stat(path).st_mode & 0o200))
    store.path.chmod(0o500)
    try:
        assert Store(store.path, must_exist=True).runs() == (run,)
        assert store.curve(run.key)
        with pytest.raises(
            InvalidFile, match="it is not allowed here; choose a place that can be written to"
        ):
            store.begin(config(1))
    finally:
        store.path.chmod(0o700)


def test_the_header_is_read_where_sqlite_has_it(store: Store) -> None:
    content = (store.path / "runs.sqlite").read_bytes()
    assert struct.unpack(">I", content[60:64]) == (1,)
    assert content[68:72] == b"SPTX"
