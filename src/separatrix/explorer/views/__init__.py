"""The views of the explorer, in the order in which the page lists them.

A view is two files of the same name. `views/NAME.py` has `VIEW`, a `View`: its answer takes what was asked
as a JSON object, the folder that may be read and a deadline, and returns a JSON object; wrong input raises
`InvalidInput` with one sentence. `page/views/NAME.js` is a plain ES module that exports `mount(root, ask)`:
it builds the view into the empty element `root`, and `ask(payload)` puts a question to `/api/NAME`, a promise
of the answer that fails with an `Error` whose message is that sentence. A third argument, `about`, has
`name`, `title`, `says`, `default` and `hint` (the part of the address behind `#NAME/`). `mount` may return a
function that is called when the reader leaves the view. What several views need is in `page/common.js`.

There is no inline script and no inline style: the content-security policy refuses both. Positions and
colours go into SVG attributes or classes of `page/explorer.css`; `element.style.x = …` from a script is
allowed too.

The answers are computed in worker processes (explorer/workers.py), so a view may import torch at its head.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Final

from separatrix.errors import UnknownName
from separatrix.explorer.view import View

__all__ = ["VIEWS", "every_view", "view_named"]

VIEWS: Final = ("attention", "state", "worst", "thinking", "searching", "turing", "protocol")


def view_named(name: str) -> View:
    """The view of this name, imported now."""
    if name not in VIEWS:
        raise UnknownName(f"There is no view {name[:40]!r}; there are {', '.join(VIEWS)}.")
    view = importlib.import_module(f"{__name__}.{name}").VIEW
    assert isinstance(view, View), f"{name}.VIEW is no view"
    return view


def every_view() -> tuple[View, ...]:
    """All of them, in order."""
    return tuple(view_named(name) for name in VIEWS if importlib.util.find_spec(f"{__name__}.{name}"))
