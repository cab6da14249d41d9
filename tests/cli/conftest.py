from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _usual_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eighty columns, and output held back as Python does by default: what is held back can fail late."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
