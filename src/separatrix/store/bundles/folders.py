"""Bundles in folders: written beside what is there, whole or not at all, and read back strictly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from separatrix.errors import InvalidFile
from separatrix.files import written_whole
from separatrix.options import require
from separatrix.store.bundles.bundle import KINDS, Bundle, make_bundle, merge_bundles
from separatrix.store.bundles.contents import bundle_from, contents_of
from separatrix.store.bundles.tables import EVIDENCE, MOST_BYTES, RUNS, TABLES
from separatrix.store.curves import Point
from separatrix.store.evidence import FOLDER, Evidence, read_evidence
from separatrix.store.runs import Run
from separatrix.store.store import Store

__all__ = ["bundle_runs", "has_bundle", "read_bundle", "write_bundle"]


def write_bundle(
    folder: Path,
    runs: Iterable[Run],
    curves: Mapping[str, Sequence[Point]],
    *,
    name: str,
    notes: str = "",
    evidence: Mapping[str, Sequence[Evidence]] | None = None,
) -> Bundle:
    """Put finished runs into a folder, made if need be, beside those that are there; what is in it then."""
    bundle = make_bundle(runs, curves, name=name, notes=notes, evidence=evidence)
    if has_bundle(folder):
        there = read_bundle(folder)
        require(
            there.name == name,
            f"The bundle in '{folder}' is called '{there.name}', not '{name}'; name another folder, or give "
            "its own name to add to it.",
        )
        bundle = merge_bundles(there, bundle)
    contents = contents_of(bundle)
    written = bundle_from(contents, folder)  # what nobody could read is refused before it replaces anything
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as failure:  # a null in the name
        raise InvalidFile(f"The folder '{folder}' cannot be made: {_reason(failure)}.") from failure
    with ExitStack() as stack:  # all of them are written before the first takes its place; the runs come last
        for file, content in contents.items():
            part = stack.enter_context(written_whole(folder / file, durable=True)).buffer
            part.write(content)
            part.flush()
    if EVIDENCE.file not in contents:
        (folder / EVIDENCE.file).unlink(missing_ok=True)
    return written


def bundle_runs(
    store: Store, runs: Iterable[Run], folder: Path, *, name: str | None = None, notes: str = ""
) -> Bundle:
    """Put those of a store's runs that have finished into a folder, with their curves and evidence.

    Without a name it is that of the bundle in the folder, else the folder's own.
    """
    chosen = [run for run in runs if run.finished]
    if name is None:
        name = read_bundle(folder).name if has_bundle(folder) else folder.absolute().name
    return write_bundle(
        folder,
        chosen,
        {run.key: store.curve(run.key) for run in chosen},
        name=name,
        notes=notes,
        evidence={run.key: _evidence_of(store, run.key) for run in chosen},
    )


def has_bundle(folder: Path) -> bool:
    """Whether there is a bundle in this folder, or a part of one."""
    try:
        return any((folder / table.file).exists() or (folder / table.file).is_symlink() for table in TABLES)
    except (OSError, ValueError):  # a null in the name
        return False


def read_bundle(folder: Path | str) -> Bundle:
    """The bundle in a folder, read strictly; it may be a stranger's."""
    folder, contents = Path(folder), {}
    for table in TABLES:
        content = _content_of(folder / table.file)
        if content is not None:
            contents[table.file] = content
    if RUNS.file not in contents:
        raise InvalidFile(
            f"There is no bundle in '{folder}': it has no {RUNS.file}; `separatrix runs bundle` writes one."
        )
    return bundle_from(contents, folder)


def _evidence_of(store: Store, key: str) -> tuple[Evidence, ...]:
    kinds: Mapping[str, Any] = KINDS  # each is one that `read_evidence` takes
    found = [read_evidence(store.place(FOLDER, key, f"{name}.json"), kind) for name, kind in kinds.items()]
    return tuple(record for record in found if record is not None)


def _content_of(path: Path) -> bytes | None:
    """The bytes of a file; None if there is none."""
    try:
        if not path.exists() and not path.is_symlink():
            return None
        if not path.is_file():
            raise InvalidFile(f"'{path}' is no ordinary file.")
        if path.stat().st_size > MOST_BYTES:
            raise InvalidFile(f"'{path}' may have {MOST_BYTES:,} bytes; it has {path.stat().st_size:,}.")
        return path.read_bytes()
    except (OSError, ValueError) as failure:
        if isinstance(failure, InvalidFile):
            raise
        raise InvalidFile(f"'{path}' cannot be read: {_reason(failure)}.") from failure


def _reason(failure: Exception) -> object:
    return (failure.strerror if isinstance(failure, OSError) else None) or failure
