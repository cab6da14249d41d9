"""Small tables in HTML for notebooks and pages. Whatever goes in is escaped here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["grid", "pairs"]


def pairs(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and values under a title; empty values are left out."""
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in rows
        if value
    )
    return f'<table class="separatrix"><caption>{escape(title)}</caption><tbody>{body}</tbody></table>'


def grid(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a header row."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<table class="separatrix"><caption>{escape(title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
