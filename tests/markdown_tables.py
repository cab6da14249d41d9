"""Tables of the documents as their readers see them: rows of cells under the headings of their columns."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["section_of", "tables_in"]

ROOT = Path(__file__).parent.parent


def section_of(page: str, heading: str) -> str:
    """What stands under a heading, up to the next one that is as high."""
    lines = (ROOT / page).read_text().splitlines()
    assert lines.count(heading) == 1, f"{page} has {lines.count(heading)} headings {heading!r}"
    first = lines.index(heading) + 1
    higher = re.compile(rf"#{{1,{len(heading.split(maxsplit=1)[0])}}} ")
    last = next((place for place in range(first, len(lines)) if higher.match(lines[place])), len(lines))
    return "\n".join(lines[first:last])


def tables_in(text: str) -> list[list[dict[str, str]]]:
    """Every table of a text, each a list of rows that have a cell for every heading."""
    found = []
    for block in re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE):
        head, rule, *rows = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()
        ]
        assert all(re.fullmatch(":?-+:?", cell) for cell in rule), f"no rule below {head}"
        assert len(set(head)) == len(head), f"two columns have the same heading: {head}"
        found.append([dict(zip(head, row, strict=True)) for row in rows])
    return found
