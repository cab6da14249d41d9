"""Questions to a view without a server: its own answer, and the sentence with which it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from separatrix.errors import InvalidInput
from separatrix.explorer.folder import Folder
from separatrix.explorer.view import Deadline, View


def put(view: View, asked: dict[str, Any], *, seconds: float = 60.0) -> Any:
    """The answer as the page has it: through JSON, and small."""
    told = json.dumps(view.answer(asked, Folder(Path(__file__).parent), Deadline(seconds)))
    assert len(told) < 60_000
    return json.loads(told)


def refused(view: View, asked: dict[str, Any], saying: str) -> None:
    """One sentence, or two, in one line, with these words."""
    with pytest.raises(InvalidInput) as refusal:
        put(view, asked)
    said = str(refusal.value)
    assert saying in said
    assert "\n" not in said
    assert len(said) < 300
    assert said.endswith((".", "?"))
