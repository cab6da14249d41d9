from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import separatrix
from separatrix.explorer.limits import Limits
from tests.explorer.serving import STAND_IN, Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose one worker does as it is told, with little time and a short queue."""
    limits = Limits(workers=1, seconds=0.4, waiting=1, patience=20.0, body=2000)
    with serving(tmp_path_factory.mktemp("served"), limits=limits, command=STAND_IN) as running:
        yield running


@pytest.fixture(scope="session")
def witnesses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two small witnesses in it."""
    place = tmp_path_factory.mktemp("explored")
    for name, family, n in (("dyck", "rnn", 6), ("equality", "transformer-2", 6)):
        made = separatrix.witness_for(separatrix.task(name, n=n), family=family)
        separatrix.save(made, place / "kept" / name)
    return place


@pytest.fixture(scope="session")
def explored(witnesses: Path) -> Iterator[Served]:
    """The explorer as it is, with its own workers, on that folder."""
    with serving(witnesses) as running:
        yield running
