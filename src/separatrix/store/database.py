"""The SQLite file behind a store: its schema, its versions, and what goes wrong with it in sentences.

Every read and write opens the file anew and is one short transaction, so that nothing is held between them:
processes may come, fork and be killed as they like. The journal is a write-ahead log, so readers never wait.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from separatrix.errors import InvalidFile, NewerFile

__all__ = ["Database"]

_APPLICATION: Final = 0x53505458
"""Marks the file as a store's ("SPTX"); SQLite keeps it in the file's header."""
_SECONDS: Final = 30.0
"""How long a write waits for its turn."""
_MAGIC: Final = b"SQLite format 3\0"
_HEADER: Final = struct.Struct(">16s44xI4xI")
"""SQLite's own header: its magic, the schema's version at byte 60 and the application at byte 68."""

_STEPS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE runs (
            key TEXT PRIMARY KEY NOT NULL,
            config TEXT NOT NULL,
            task TEXT NOT NULL,
            model TEXT NOT NULL,
            n INTEGER,
            status TEXT NOT NULL,
            steps INTEGER NOT NULL DEFAULT 0,
            solved_at INTEGER,
            accuracy REAL,
            correct INTEGER,
            examples INTEGER,
            low REAL,
            high REAL,
            label_accuracy REAL,
            loss REAL,
            seconds REAL NOT NULL DEFAULT 0,
            provenance TEXT NOT NULL DEFAULT '{}',
            created TEXT NOT NULL,
            updated TEXT NOT NULL
        )
        """,
        "CREATE INDEX runs_by_task ON runs (task, model, n)",
        """
        CREATE TABLE members (
            population TEXT NOT NULL,
            run TEXT NOT NULL REFERENCES runs (key),
            PRIMARY KEY (population, run)
        ) WITHOUT ROWID
        """,
    ),
)
"""Step i brings a file of version i to version i + 1; the first makes an empty one."""


class Database:
    """The file at a path, brought to the newest version of its schema when it is first opened."""

    def __init__(self, path: Path) -> None:
        """A file that is newer, damaged or another program's is refused and stays as it is, to the byte."""
        self.path = path
        self._refuse_foreign_header()
        with self._opened() as connection:
            if self._version(connection) < len(_STEPS):
                self._migrate(connection)
            # Writing to a damaged file would do more damage.
            found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
            if found != "ok":
                raise _damaged(path, " ".join(found.split()))

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction of its own; all of it happens, or nothing."""
        with self._opened() as connection, _transaction(connection):
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the file."""
        with self._opened() as connection:
            connection.execute("BEGIN")
            yield connection
            connection.execute("ROLLBACK")

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with _in_sentences(self.path), closing(self._connection()) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA synchronous = FULL")
            yield connection

    def _connection(self) -> sqlite3.Connection:
        """Where nothing may be written, not even a log can be shared: the file is then read as it stands."""
        address = self.path.absolute().as_uri()
        unwritable = self.path.exists() and not os.access(self.path.parent, os.W_OK)
        mode = "mode=ro&immutable=1" if unwritable and not _log_of(self.path) else "mode=rwc"
        return sqlite3.connect(f"{address}?{mode}", uri=True, timeout=_SECONDS, isolation_level=None)

    def _refuse_foreign_header(self) -> None:
        """Look at the version before SQLite does, because even looking it may tidy up a file."""
        try:
            with self.path.open("rb") as file:
                content = file.read(_HEADER.size)
        except FileNotFoundError:
            return
        except OSError as failure:
            raise InvalidFile(f"'{self.path}' cannot be read: {failure.strerror or failure}.") from failure
        if not content:
            return  # a writer was killed before its first byte
        magic, version, application = (
            _HEADER.unpack(content) if len(content) == _HEADER.size else (content, 0, 0)
        )
        if magic != _MAGIC:
            raise _damaged(self.path, "it is no SQLite database")
        if application == _APPLICATION:
            self._refuse_newer(version)
        elif application or version:
            raise InvalidFile(
                f"'{self.path}' belongs to another program and is left alone; name another store."
            )

    def _refuse_newer(self, version: int) -> None:
        if version > len(_STEPS):
            raise NewerFile(
                f"'{self.path}' was written by a newer separatrix (schema {version}; this one knows up to "
                f"{len(_STEPS)}) and is left as it is; upgrade separatrix, or name another store."
            )

    def _version(self, connection: sqlite3.Connection) -> int:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        self._refuse_newer(version)
        return version

    def _migrate(self, connection: sqlite3.Connection) -> None:
        with _transaction(connection):
            version = self._version(connection)  # again: another process may have been faster
            if version == 0 and connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                raise InvalidFile(
                    f"'{self.path}' belongs to another program and is left alone; name another store."
                )
            for step in _STEPS[version:]:
                for statement in step:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {len(_STEPS)}")
        self._log_ahead(connection)

    def _log_ahead(self, connection: sqlite3.Connection) -> None:
        """Switch to the write-ahead log, for good; SQLite does not wait its turn for that by itself."""
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk may have rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _log_of(path: Path) -> int:
    """Bytes of the log that has not found its way into the file yet."""
    log = path.with_name(f"{path.name}-wal")
    return log.stat().st_size if log.exists() else 0


@contextmanager
def _in_sentences(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.IntegrityError:
        raise  # ours
    except sqlite3.DatabaseError as error:
        match error.sqlite_errorcode & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                reason = f"another process has been writing to it for {_SECONDS:.0f} seconds; try again"
            case sqlite3.SQLITE_FULL:
                reason = "the disk is full; free some space, then run the same command again"
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                reason = "it is not allowed here; choose a place that can be written to"
            case sqlite3.SQLITE_IOERR:
                reason = f"the disk reports an error ({error}); see whether it is full or broken"
            case _:
                raise _damaged(path, str(error)) from error
        raise InvalidFile(f"'{path}' cannot be written: {reason}.") from error


def _damaged(path: Path, reason: str) -> InvalidFile:
    return InvalidFile(
        f"'{path}' is damaged or no store of runs ({reason}) and is left as it is; move it away to "
        "begin anew, or put a copy of it in its place."
    )
