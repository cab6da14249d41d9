"""A small bundle, and files as they are found in a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from separatrix.store import Run, Store
from separatrix.store.bundles import Bundle, make_bundle
from tests.evidence.examples import make_breaking
from tests.store.examples import CURVE, finished
from tests.store.test_evidence import make_coverage


def three_runs(folder: Path) -> list[Run]:
    """Runs of a store in a folder, in the order of their keys."""
    store = Store(folder)
    return sorted((finished(store, seed) for seed in range(3)), key=lambda run: run.key)


def bundle_of(runs: Sequence[Run]) -> Bundle:
    """Three runs: one with evidence, one without a curve."""
    first, second, third = runs
    return make_bundle(
        runs,
        {first.key: CURVE, third.key: CURVE[1:]},
        name="mine",
        notes="made by a test",
        evidence={second.key: [make_coverage(), make_breaking()]},
    )


def put(folder: Path, contents: Mapping[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in contents.items():
        (folder / file).write_bytes(content)
    return folder


def found_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
