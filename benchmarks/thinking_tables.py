"""The figures of `benchmarks.thinking` as tables in Markdown, for the report and for the documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.markdown import table

__all__ = ["TABLES", "page", "read_data", "table_of"]

HERE = Path(__file__).parent
Row = dict[str, Any]


class Shown(NamedTuple):
    """A section: its title, how many columns hold words, and what each column takes of a row."""

    title: str
    text: int
    columns: Mapping[str, str]


TABLES: Final[Mapping[str, Shown]] = {
    "graphs": Shown(
        "IsTree",
        2,
        {
            "family": "family",
            "graphs": "law",
            "n": "n",
            "count": "graphs",
            "trees": "trees",
            "right": "right",
            "tours right": "tours",
            "most tokens": "most_tokens",
            "most searches": "searches",
            "machine": "machine",
            "seconds": "seconds",
        },
    ),
    "small": Shown(
        "Index, associative recall, c-gram retrieval, Counting",
        3,
        {
            "task": "task",
            "family": "family",
            "inputs": "inputs",
            "n": "n",
            "count": "count",
            "right": "right",
            "searches": "searches",
            "width": "width",
            "layers": "layers",
            "parameters": "parameters",
        },
    ),
    "speed": Shown(
        "Decoding",
        2,
        {
            "family": "family",
            "machine": "machine",
            "n": "n",
            "batch": "batch",
            "tokens written": "tokens",
            "seconds": "seconds",
            "tokens a second": "tokens_a_second",
        },
    ),
    "state": Shown(
        "What linear RNNs with retrieval carry",
        1,
        {
            "task": "task",
            "n": "n",
            "numbers in the state": "numbers",
            "least p": "p",
            "state bits": "bits",
            "searches": "searches",
            "tokens written": "tokens",
        },
    ),
    "precision": Shown(
        "The least bits of a number",
        4,
        {
            "theorem": "theorem",
            "task": "task",
            "family": "family",
            "variant": "variant",
            "n": "n",
            "inputs tried": "inputs",
            "least p": "p",
            "wrong at p − 2": "wrong_below",
        },
    ),
}
_WORDS: Final = {"law": {"all": "every one, every order"}}


def read_data() -> Row:
    """The figures as they were last measured."""
    data: Row = json.loads((HERE / "results" / "thinking.json").read_text())
    return data


def table_of(data: Row, name: str) -> str:
    """One section."""
    shown = TABLES[name]
    rows = ([_shown(key, row[key]) for key in shown.columns.values()] for row in _rows(data, name))
    return table(tuple(shown.columns), rows, text=shown.text)


def _shown(key: str, value: object) -> object:
    return f"{value:.2f}" if isinstance(value, float) else _WORDS.get(key, {}).get(str(value), value)


def _rows(data: Row, name: str) -> list[Row]:
    rows: list[Row] = data.get(name, {}).get("rows", [])
    return rows


def page(data: Row) -> str:
    """All tables."""
    parts = ["# Models that write and search", "Made by `python -m benchmarks.thinking`."]
    for name, shown in TABLES.items():
        if _rows(data, name):
            machines = dict.fromkeys(row["machine"] for row in _rows(data, name))
            parts += [f"## {shown.title}", f"On {' and on '.join(machines)}.", table_of(data, name)]
    return "\n\n".join(parts) + "\n"
