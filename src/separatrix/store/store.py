"""A store: a folder that remembers every run.

    runs.sqlite                               a row for every run, under the hash of its full config
    curves/<run>.parquet                      its learning curve
    weights/<run>.safetensors                 its weights when it had finished
    evidence/<run>.coverage.json              what is proven about it, case by case
    evidence/<run>.breaking.json              what came of attacks on it
    evidence/<run>.decoding.json              how often it was right when it really wrote
    checkpoints/<population>/step-….safetensors   where a population that is still trained goes on from
    aside/<run>/                              what was found damaged, before the run was trained again

Several processes may write at once. A process that is killed, at any moment, leaves a store that is whole.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from separatrix.errors import InvalidFile, InvalidInput, UnknownName
from separatrix.evidence import Breaking, Coverage, Decoded
from separatrix.records import Reader, parse_json
from separatrix.store.claims import claimant, claiming, is_claimed
from separatrix.store.curves import Point, read_curve, write_curve
from separatrix.store.database import Database
from separatrix.store.evidence import (
    BREAKING,
    COVERAGE,
    DECODING,
    FOLDER,
    Evidence,
    read_evidence,
    suffix_of,
)
from separatrix.store.evidence import write_evidence as write_record
from separatrix.store.keys import SHORT, canonical, key_of, require_key, short
from separatrix.store.runs import FINISHED, Config, Result, Run, Status, checked_config

if TYPE_CHECKING:
    from torch import Tensor

    from separatrix.store.checkpoints import Checkpoints
    from separatrix.store.sealed import Sealed

__all__ = ["Store", "default_place", "has_store"]

_DATABASE: Final = "runs.sqlite"
_COLUMNS: Final = (
    "key, config, status, steps, solved_at, accuracy, correct, examples, low, high, label_accuracy, loss, "
    "seconds, provenance, created, updated"
)
_PREFIX: Final = re.compile(r"[0-9a-f]{1,64}")
_SHOWN: Final = 4


def default_place() -> Path:
    """Where runs are kept unless somebody says otherwise: $SEPARATRIX_STORE, or `runs` where one stands."""
    return Path(os.environ.get("SEPARATRIX_STORE") or "runs")


def has_store(place: Path) -> bool:
    """Whether there is a store in this folder; looking makes none."""
    return (place / _DATABASE).exists()


@final
class Store:
    """The store in a folder, made if need be."""

    def __init__(self, path: Path | str, *, must_exist: bool = False) -> None:
        """With `must_exist`, a folder that is no store is refused rather than made into one."""
        if not isinstance(path, Path) and not str(path).strip():
            raise InvalidInput("A store is in a folder, '.' for the one you are in; got an empty name.")
        self.path = Path(path)
        try:
            if self.path.exists() and not self.path.is_dir():
                raise InvalidFile(f"'{self.path}' is a file; a store is a folder, so name another place.")
            if must_exist and not has_store(self.path):
                raise InvalidFile(
                    f"There is no store in '{self.path}'; `separatrix train` makes one; --store names it."
                )
            self.path.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as failure:  # a null in the name is a ValueError, and so are ours
            if isinstance(failure, InvalidFile):
                raise
            reason = (failure.strerror if isinstance(failure, OSError) else None) or failure
            raise InvalidFile(
                f"There can be no store in '{self.path}': {reason}; name another place."
            ) from failure
        self._database = Database(self.path / _DATABASE)

    def begin(
        self,
        config: Config,
        *,
        population: str | None = None,
        provenance: Mapping[str, object] | None = None,
    ) -> Run:
        """Note that a run begins, or goes on; one that has finished stays as it is and is returned.

        `population` is the key of those that are trained together with it, whose checkpoints it needs.
        """
        return self.begin_all([config], population=population, provenance=provenance)[0]

    def begin_all(
        self,
        configs: Sequence[Config],
        *,
        population: str | None = None,
        provenance: Mapping[str, object] | None = None,
    ) -> tuple[Run, ...]:
        """Begin several at once: all of them are noted, or none."""
        if population is not None:
            require_key(population)
        rows = [_row(config, canonical(provenance or {})) for config in configs]
        with self._database.writing() as connection:
            for row in rows:
                connection.execute(
                    "INSERT INTO runs (key, config, task, model, n, status, provenance, created, updated) "
                    "VALUES (:key, :config, :task, :model, :n, 'running', :provenance, :now, :now) "
                    "ON CONFLICT (key) DO UPDATE SET status = 'running', updated = :now "
                    f"WHERE status NOT IN {FINISHED}",
                    row,
                )
                if population is not None:
                    connection.execute(
                        "INSERT OR IGNORE INTO members (population, run) VALUES (?, ?)",
                        (population, row["key"]),
                    )
            return tuple(_one(connection, str(row["key"])) for row in rows)

    def finish(self, key: str, result: Result) -> Run:
        """Note what became of a run."""
        interval = result.interval
        values = {
            "key": require_key(key),
            "status": result.status,
            "steps": result.steps,
            "solved_at": result.solved_at,
            "accuracy": result.accuracy,
            "correct": result.correct,
            "examples": result.examples,
            "low": None if interval is None else interval.low,
            "high": None if interval is None else interval.high,
            "label_accuracy": result.label_accuracy,
            "loss": result.loss,
            "seconds": float(result.seconds),
            "provenance": canonical(result.provenance) if result.provenance else None,
            "now": _now(),
        }
        with self._database.writing() as connection:
            changed = connection.execute(
                "UPDATE runs SET status = :status, steps = :steps, solved_at = :solved_at, "
                "accuracy = :accuracy, correct = :correct, examples = :examples, low = :low, high = :high, "
                "label_accuracy = :label_accuracy, loss = :loss, seconds = :seconds, "
                "provenance = coalesce(:provenance, provenance), updated = :now WHERE key = :key",
                values,
            )
            if not changed.rowcount:
                raise self._unknown(key)
            return _one(connection, key)

    def reached(self, steps: Mapping[str, int]) -> None:
        """Note how far runs that go on have come, by their keys: where they would be taken up again."""
        rows = [(count, _now(), require_key(key)) for key, count in steps.items()]
        with self._database.writing() as connection:
            connection.executemany(
                "UPDATE runs SET steps = ?, updated = ? WHERE key = ? AND status = 'running'", rows
            )

    def reopen(self, key: str) -> Run:
        """Forget what became of a run, which then has to be trained again."""
        with self._database.writing() as connection:
            changed = connection.execute(
                "UPDATE runs SET status = 'running', steps = 0, solved_at = NULL, accuracy = NULL, "
                "correct = NULL, examples = NULL, low = NULL, high = NULL, label_accuracy = NULL, "
                "loss = NULL, seconds = 0, updated = ? WHERE key = ?",
                (_now(), require_key(key)),
            )
            if not changed.rowcount:
                raise self._unknown(key)
            return _one(connection, key)

    def cut_off(self) -> frozenset[str]:
        """The keys of the runs that have not finished and that no process is training.

        A run that belongs to no population has no claim by which that could be told, and is none of them.
        """
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT population, run FROM members JOIN runs ON run = key WHERE status = 'running'"
            ).fetchall()
        held = {population for population in {str(row[0]) for row in rows} if self._is_trained(population)}
        trained = {str(row[1]) for row in rows if str(row[0]) in held}
        return frozenset(str(row[1]) for row in rows) - trained

    def _is_trained(self, population: str) -> bool:
        try:
            return is_claimed(self.folder_of(population))
        except InvalidFile:
            return True  # nobody can tell

    def run(self, key: str) -> Run:
        """The run whose key begins so, if there is one and no other."""
        if not _PREFIX.fullmatch(key):
            raise InvalidInput(
                f"A key is made of up to 64 of the characters 0 to 9 and a to f; got '{key[:80]}'. "
                "`separatrix runs list` lists them."
            )
        with self._database.reading() as connection:
            found = connection.execute(
                f"SELECT {_COLUMNS} FROM runs WHERE key >= ? AND key < ? ORDER BY key",
                (key, f"{key}g"),
            ).fetchall()
        if not found:
            raise self._unknown(key)
        if len(found) > 1:
            keys = [str(row["key"]) for row in found]
            length = max(
                SHORT, next(i for i in range(64, 0, -1) if len({k[: i - 1] for k in keys}) < len(keys))
            )
            shown = ", ".join(each[:length] for each in keys[:_SHOWN])
            more = f" and {len(keys) - _SHOWN:,} more" if len(keys) > _SHOWN else ""
            raise InvalidInput(
                f"'{key}' begins the keys of {len(keys):,} runs: {shown}{more}. Give more characters."
            )
        return _run(found[0])

    def runs(
        self,
        *,
        task: str | None = None,
        model: str | None = None,
        status: Status | None = None,
        n: int | None = None,
    ) -> tuple[Run, ...]:
        """The runs of which all this is true, in the order in which they were first begun."""
        if n is not None and not 0 <= n < 1 << 63:
            return ()  # more than a row can hold
        wanted = {"task": task, "model": model, "status": status, "n": n}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = " AND ".join(f"{name} = :{name}" for name in given) or "TRUE"
        with self._database.reading() as connection:
            found = connection.execute(f"SELECT {_COLUMNS} FROM runs WHERE {where} ORDER BY rowid", given)
            return tuple(map(_run, found))

    def all_keys(self) -> frozenset[str]:
        """The keys of all runs."""
        with self._database.reading() as connection:
            return frozenset(str(row[0]) for row in connection.execute("SELECT key FROM runs"))

    def members(self, population: str) -> tuple[Run, ...]:
        """The runs that were ever begun as members of a population."""
        with self._database.reading() as connection:
            found = connection.execute(
                f"SELECT {_COLUMNS} FROM runs JOIN members ON run = key WHERE population = ? "
                "ORDER BY runs.rowid",
                (require_key(population),),
            )
            return tuple(map(_run, found))

    def populations(self, key: str) -> tuple[str, ...]:
        """The populations that a run was ever begun in as a member, by key."""
        with self._database.reading() as connection:
            found = connection.execute(
                "SELECT population FROM members WHERE run = ? ORDER BY population", (require_key(key),)
            )
            return tuple(str(row[0]) for row in found)

    def curve(self, key: str) -> tuple[Point, ...]:
        """The learning curve of a run; no points if none was written."""
        return read_curve(self.place("curves", self.run(key).key, "parquet"))

    def write_curve(self, key: str, points: Sequence[Point]) -> None:
        """Put a whole curve in the place of the one before."""
        write_curve(self._made("curves", self._require(key), "parquet"), points)

    def weights(self, key: str) -> Sealed:
        """The weights with which a run finished, and what was said about them."""
        from separatrix.store.sealed import read_sealed  # noqa: PLC0415  torch, which rows do not need

        run = self.run(key)
        path = self.place("weights", run.key, "safetensors")
        if not path.exists():
            raise InvalidInput(f"The run {run.short} has no weights in '{self.path}'; it is {run.status}.")
        sealed = read_sealed(path)
        if sealed.owner != run.key:
            raise InvalidFile(f"'{path}' holds the weights of another run, {short(sealed.owner)}.")
        return sealed

    def write_weights(
        self, key: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, object] | None = None
    ) -> Path:
        """Keep a run's weights; the same weights are the same file, byte for byte."""
        from separatrix.store.sealed import write_sealed  # noqa: PLC0415

        path = self._made("weights", self._require(key), "safetensors")
        write_sealed(path, tensors, owner=key, meta=metadata or {})
        return path

    def coverage(self, key: str) -> Coverage | None:
        """What was last proven about a run; None if nobody tried."""
        return read_evidence(self.place(FOLDER, self.run(key).key, COVERAGE), Coverage)

    def breaking(self, key: str) -> Breaking | None:
        """What came of the attacks on a run that are kept; None if nobody tried."""
        return read_evidence(self.place(FOLDER, self.run(key).key, BREAKING), Breaking)

    def decoding(self, key: str) -> Decoded | None:
        """How often a run was last right when it really wrote; None if nobody let it."""
        return read_evidence(self.place(FOLDER, self.run(key).key, DECODING), Decoded)

    def write_evidence(self, key: str, record: Evidence) -> Path:
        """Keep what was found out about a run, in the place of what was known before, unless that says more,
        as stronger attacks do.
        """
        path = self._made(FOLDER, self._require(key), suffix_of(record))
        write_record(path, record)
        return path

    @contextmanager
    def claim(self, population: str) -> Iterator[Checkpoints]:
        """The checkpoints of a population, which nobody else may train meanwhile."""
        from separatrix.store.checkpoints import Checkpoints  # noqa: PLC0415

        folder = self.folder_of(population)
        with claiming(folder) as mine:
            if not mine:
                raise InvalidInput(
                    f"This population ({short(population)}) is being trained by {claimant(folder)}; wait for "
                    f"it or stop it, or name another store than '{self.path}'."
                )
            for part in folder.glob(".*.part"):  # of a process that was killed; nobody writes here now
                with suppress(OSError):
                    part.unlink()
            yield Checkpoints(folder, population)

    def folder_of(self, population: str) -> Path:
        """Where a population's checkpoints are."""
        return self.path / "checkpoints" / require_key(population)

    def place(self, kind: str, key: str, suffix: str) -> Path:
        """Where a run's file of some kind is."""
        return self.path / kind / f"{require_key(key)}.{suffix}"

    def _made(self, kind: str, key: str, suffix: str) -> Path:
        path = self.place(kind, key, suffix)
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as failure:
            raise InvalidFile(f"The folder '{path.parent}' cannot be made: {failure.strerror}.") from failure
        return path

    def _require(self, key: str) -> str:
        """Files are kept for runs that there are; others would be nobody's."""
        with self._database.reading() as connection:
            if connection.execute("SELECT 1 FROM runs WHERE key = ?", (require_key(key),)).fetchone() is None:
                raise self._unknown(key)
        return key

    def _unknown(self, key: str) -> UnknownName:
        return UnknownName(f"There is no run '{key}' in '{self.path}'; `separatrix runs list` lists them.")


def _row(config: Config, provenance: str) -> dict[str, object]:
    frozen = checked_config(config)
    task, model = frozen["task"], frozen["model"]
    assert isinstance(task, Mapping)
    assert isinstance(model, Mapping)
    params = task["params"]
    assert isinstance(params, Mapping)
    n = params.get("n")
    return {
        "key": key_of(frozen),
        "config": canonical(frozen),
        "task": task["name"],
        "model": model["name"],
        "n": n if isinstance(n, int) and not isinstance(n, bool) else None,
        "provenance": provenance,
        "now": _now(),
    }


def _one(connection: sqlite3.Connection, key: str) -> Run:
    return _run(connection.execute(f"SELECT {_COLUMNS} FROM runs WHERE key = ?", (key,)).fetchone())


def _run(row: sqlite3.Row) -> Run:
    """The run in a row, read as strictly as one from a file: the file may be a stranger's."""
    what = f"the run {str(row['key'])[:SHORT]!r}"
    fields = {name: row[name] for name in row.keys()}  # noqa: SIM118  iterating over a row gives its values
    for name in ("config", "provenance"):
        text = fields[name]
        fields[name] = parse_json(text if isinstance(text, str) else "", what=f"the {name} of {what}")
    return Run.read(Reader(fields, what=what))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
