from __future__ import annotations

from pathlib import Path

import pytest

from separatrix.atlas import make_atlas


@pytest.fixture(scope="session")
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real page, made once."""
    return make_atlas(tmp_path_factory.mktemp("atlas"))


@pytest.fixture(scope="session")
def page(page_path: Path) -> str:
    return page_path.read_text(encoding="utf-8")
