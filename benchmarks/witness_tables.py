"""The figures of `benchmarks.witnesses` as tables in Markdown, for the report and for the documents."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from benchmarks.markdown import table

__all__ = [
    "bits_series",
    "bits_table",
    "certified_table",
    "lookup_table",
    "page",
    "peer_table",
    "precision_table",
    "read_data",
    "read_peers",
]

HERE = Path(__file__).parent
Row = dict[str, Any]


def read_data() -> Row:
    """The figures as they were last measured."""
    data: Row = json.loads((HERE / "results" / "witnesses.json").read_text())
    return data


def read_peers() -> list[Row]:
    """What was measured of other compilers."""
    rows: list[Row] = json.loads((HERE / "peers" / "weight_compilers.json").read_text())["rows"]
    return rows


def _power(n: int) -> str:
    exponent = n.bit_length() - 1
    return f"2^{exponent}" if n == 1 << exponent else f"{n:,}"


def _named(row: Row) -> str:
    return f"{row['task']} ({row['variant']})" if row["variant"] else f"{row['task']}"


def lookup_table(data: Row) -> str:
    """Index lookup with the fewest bits, beside the bars."""
    return table(
        (
            "N",
            "numbers",
            "verdict",
            "width",
            "at most",
            "ffn width",
            "parameter bits",
            "minimise, s",
            "build, s",
            "certify, s",
            "one query, s",
            "in float64, s",
            "peak memory, MiB",
        ),
        (
            (
                _power(row["n"]),
                f"`{row['arithmetic']}`",
                row["verdict"],
                f"{row['width']}",
                f"{row['width_bar']}",
                f"{row['ffn_width']}",
                f"{row['parameter_bits']:,}",
                f"{row['minimise_seconds']:.1f}",
                f"{row['build_seconds']:.3f}",
                f"{row['certify_seconds']:.2f}",
                f"{row['query_seconds_fixed']:.2f}",
                f"{row['query_seconds']:.2f}",
                f"{row['query_peak_mib']:,}",
            )
            for row in data["lookup"]
        ),
        text=3,
    )


def certified_table(data: Row) -> str:
    """The others in float64, at sizes where trying inputs says nothing."""
    return table(
        ("theorem", "task", "size", "verdict", "width", "parameter bits", "build, s", "certify, s"),
        (
            (
                row["theorem"],
                row["task"],
                row["settings"],
                row["verdict"],
                f"{row['width']}",
                f"{row['parameter_bits']:,}",
                f"{row['build_seconds']:.2f}",
                f"{row['certify_seconds']:.2f}",
            )
            for row in data["certified"]
        ),
        text=4,
    )


def bits_series(data: Row) -> dict[str, list[tuple[int, int]]]:
    """Parameter bits against N, by construction."""
    return {
        f"{row['theorem']} {_named(row)}": [(point["n"], point["parameter_bits"]) for point in row["points"]]
        for row in data["bits"]
    }


def bits_table(data: Row) -> str:
    """Parameter bits of the least witness at each N, and the power of log N that fits."""
    sizes = sorted({point["n"] for row in data["bits"] for point in row["points"]})
    rows = []
    for row in data["bits"]:
        bits = {point["n"]: point["parameter_bits"] for point in row["points"]}
        cells = [f"{bits[n]:,}" if n in bits else "" for n in sizes]
        rows.append((row["theorem"], _named(row), *cells, f"{row['power']:.2f}"))
    return table(("theorem", "task", *map(_power, sizes), "power of log N"), rows, text=2)


def precision_table(data: Row) -> str:
    """The fewest bits a number, to nearest / down, beside S's 2·log N."""
    sizes = sorted({point["n"] for row in data["precision"] for point in row["points"]})
    rows = [("", "2·log₂N", "", *(f"{2 * math.log2(n):.0f}" for n in sizes))]
    for row in data["precision"]:
        cells = {point["n"]: f"{_bits(point['nearest'])} / {_bits(point['down'])}" for point in row["points"]}
        rows.append((row["theorem"], _named(row), row["addresses"], *(cells.get(n, "") for n in sizes)))
    return table(("theorem", "task", "addresses", *map(_power, sizes)), rows, text=3)


def _bits(count: int | None) -> str:
    return "—" if count is None else str(count)


def peer_table(data: Row) -> str:
    """The peer's figures beside the least witness of the nearest measured N that is no smaller."""
    ours = {row["task"]: {point["n"]: point for point in row["points"]} for row in data["bits"]}
    rows = []
    for peer in read_peers():
        larger = [n for n in sorted(ours.get(peer["task"], {})) if n >= peer["n"]]
        beside = ours[peer["task"]][larger[0]] if larger else None
        rows.append(
            (
                peer["task"],
                peer["peer"],
                f"{peer['n']:,}",
                f"{peer['width']:,}",
                f"{peer['parameters']:,}" if peer["parameters"] else "—",
                f"{peer['compile_seconds']}" if peer["compile_seconds"] else "—",
                peer["worst_case"] or "—",
                f"{beside['width']} / {beside['parameters']:,} at {_power(beside['n'])}" if beside else "—",
            )
        )
    head = ("task", "peer", "N", "width", "parameters", "compile, s", "on a worst-case input")
    return table((*head, "proven here: width / parameters"), rows, text=2)


_SECTIONS = (
    ("lookup", "Index lookup, 64 symbols, fewest parameter bits", lookup_table),
    ("certified", "Certified in float64", certified_table),
    ("bits", "Parameter bits of the least proven witness", bits_table),
    ("precision", "Fewest bits a number: to nearest / down", precision_table),
    ("bits", "Beside another compiler", peer_table),
)


def page(data: Row) -> str:
    """The report, with the sections that were measured."""
    parts = [
        "# Witnesses",
        f"{data['made with']}. Times are CPU seconds. Made by `python -m benchmarks.witnesses`.",
    ]
    for section, title, made in _SECTIONS:
        if section in data:
            parts += [f"## {title}", made(data)]
    parts.append(
        "The peer's figures are data (`benchmarks/peers/weight_compilers.json`), measured on two CPU cores."
    )
    return "\n\n".join(parts) + "\n"
