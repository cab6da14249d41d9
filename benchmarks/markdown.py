"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["table"]


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, text: int = 1) -> str:
    """The first `text` columns hold words, the others numbers; whole numbers get their commas."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * text + "---:|" * (len(head) - text)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
