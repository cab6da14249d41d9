"""The figures of `benchmarks.thinking` as tables in Markdown, for the report and for the documents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "graphs_table",
    "page",
    "precision_table",
    "read_data",
    "small_table",
    "speed_table",
    "state_table",
]

HERE = Path(__file__).parent
Row = dict[str, Any]


def read_data() -> Row:
    """The figures as they were last measured."""
    data: Row = json.loads((HERE / "results" / "thinking.json").read_text())
    return data


def _table(head: Sequence[str], rows: Iterable[Sequence[object]], *, text: int) -> str:
    """The first `text` columns hold words, the others numbers."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * text + "---:|" * (len(head) - text)]
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _rows(data: Row, name: str) -> list[Row]:
    rows: list[Row] = data.get(name, {}).get("rows", [])
    return rows


def graphs_table(data: Row) -> str:
    """IsTree by three families: answers and tours."""
    return _table(
        (
            "family",
            "graphs",
            "n",
            "count",
            "trees",
            "right",
            "tours right",
            "most tokens",
            "most searches",
            "machine",
            "seconds",
        ),
        (
            (
                row["family"],
                "every one, every order" if row["law"] == "all" else row["law"],
                row["n"],
                row["graphs"],
                row["trees"],
                row["right"],
                row["tours"],
                row["most_tokens"],
                row["searches"],
                row["machine"],
                f"{row['seconds']:.1f}",
            )
            for row in _rows(data, "graphs")
        ),
        text=2,
    )


def small_table(data: Row) -> str:
    """Index, associative recall, c-gram retrieval and Counting."""
    return _table(
        ("task", "family", "inputs", "n", "count", "right", "searches", "width", "layers", "parameters"),
        (
            (
                row["task"],
                row["family"],
                row["inputs"],
                row["n"],
                row["count"],
                row["right"],
                row["searches"],
                row["width"],
                row["layers"],
                row["parameters"],
            )
            for row in _rows(data, "small")
        ),
        text=3,
    )


def speed_table(data: Row) -> str:
    """Decoding."""
    return _table(
        ("family", "machine", "n", "batch", "tokens written", "seconds", "tokens a second"),
        (
            (
                row["family"],
                row["machine"],
                row["n"],
                row["batch"],
                row["tokens"],
                f"{row['seconds']:.2f}",
                row["tokens_a_second"],
            )
            for row in _rows(data, "speed")
        ),
        text=2,
    )


def state_table(data: Row) -> str:
    """What linear RNNs with retrieval carry from token to token."""
    return _table(
        ("task", "n", "numbers in the state", "least p", "state bits", "searches", "tokens written"),
        (
            (
                row["task"],
                row["n"],
                row["numbers"],
                row["p"],
                row["bits"],
                row["searches"],
                row["tokens"],
            )
            for row in _rows(data, "state")
        ),
        text=1,
    )


def precision_table(data: Row) -> str:
    """The least p of every witness."""
    return _table(
        ("theorem", "task", "family", "variant", "n", "inputs tried", "least p", "wrong at p − 2"),
        (
            (
                row["theorem"],
                row["task"],
                row["family"],
                row["variant"],
                row["n"],
                row["inputs"],
                row["p"],
                row["wrong_below"],
            )
            for row in _rows(data, "precision")
        ),
        text=4,
    )


def page(data: Row) -> str:
    """All tables."""
    parts = ["# Models that write and search", "Made by `python -m benchmarks.thinking`."]
    sections = (
        ("graphs", "IsTree", graphs_table),
        ("small", "Index, associative recall, c-gram retrieval, Counting", small_table),
        ("speed", "Decoding", speed_table),
        ("state", "What linear RNNs with retrieval carry", state_table),
        ("precision", "The least bits of a number", precision_table),
    )
    for name, title, table in sections:
        if _rows(data, name):
            machines = dict.fromkeys(row["machine"] for row in _rows(data, name))
            parts += [f"## {title}", f"On {' and on '.join(machines)}.", table(data)]
    return "\n\n".join(parts) + "\n"
