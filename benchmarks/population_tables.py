"""The figures of `benchmarks.populations` as a page: speeds, ratios, growth, and shares of the roofline."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.ceilings import bytes_per_second, products_per_second
from benchmarks.markdown import table

__all__ = ["written"]

Row = dict[str, Any]
INTRODUCTION = """# Populations: how fast members train

A member-step is one step of one member: 64 fresh examples of index lookup drawn, answered and
differentiated, and Adam. Every population stands beside the plain way in the same run: an ordinary module,
one at a time, in an eager loop. `python -m benchmarks.populations PART …` measures; this page is written from
`populations.json`."""
ROOFLINE = f"""
## Shares of the roofline

The floor of a step is the larger of two times: its matrix products at
{products_per_second() / 1e12:.0f} TFLOP/s in bfloat16, and the bytes it cannot avoid (weights, both averages
of Adam and gradients once each way in float32; the stream between blocks once each way, forward and back, in
bfloat16) at {bytes_per_second() / 1e12:.2f} TB/s. Both rates are measured (`python -m benchmarks.ceilings`).
Small models are far from it because a step is a few hundred small kernels one after another; scans and
transforms are not in the count of products."""


def written(data: dict[str, Any]) -> str:
    """The page."""
    parts = [INTRODUCTION]
    for name, section in _SECTIONS.items():
        if name in data:
            about = data[name]
            parts.append(section(about["rows"]))
            parts.append(
                f"{about['device']}, torch {about['torch']}, {about['threads']} threads: "
                f"`{about['command']}`.{about.get('remark', '')}"
            )
    floors = [row for name in ("transformer", "models") for row in data.get(name, {}).get("rows", [])]
    if floors:
        parts += [ROOFLINE, _floors(floors)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _transformer(rows: list[Row]) -> str:
    head = ("N", "members", "steps/s", "member-steps/s", "plain loop, steps/s", "ratio")
    return "## One layer, width 64, four heads\n\n" + table(
        head, [(r["n"], r["members"], *_speeds(r), *_beside(r)) for r in rows if "failed" not in r], text=0
    )


def _models(rows: list[Row]) -> str:
    head = (
        "model",
        "layers, width",
        "parameters",
        "members",
        "steps/s",
        "member-steps/s",
        "memory",
        "ready after",
    )
    body = []
    for row in rows:
        shape = f"{row['params'].get('layers')}, {row['params'].get('width')}"
        if "failed" in row:
            body.append((row["model"], shape, "", row["members"], "not run", "not run", "", ""))
            continue
        memory = f"{row['memory_bytes'] / 2**30:.1f} GiB" if row["memory_bytes"] else ""
        ready = f"{row['seconds_to_first_step']:.0f} s"
        body.append((row["model"], shape, row["parameters"], row["members"], *_speeds(row), memory, ready))
    return "## Deep models at N = 200\n\n" + table(head, body, text=2)


def _lengths(rows: list[Row]) -> str:
    sizes = sorted({row["n"] for row in rows})
    head = ("model", *(f"N = {n:,}" for n in sizes), "exponent")
    body = []
    for name in dict.fromkeys(row["model"] for row in rows):
        own = {row["n"]: row for row in rows if row["model"] == name and "failed" not in row}
        cells = [f"{1000 / own[n]['steps_per_second']:.2f}" if n in own else "not run" for n in sizes]
        body.append((name, *cells, _exponent(own)))
    return (
        "## Milliseconds of a member-step against length\n\nOne member, batch 64, recorded in a CUDA graph "
        "without the compiler. The exponent is that of the last doubling measured: time grows like N to "
        "it.\n\n" + table(head, body)
    )


def _exponent(own: dict[int, Row]) -> str:
    sizes = sorted(own)
    if len(sizes) < 2:
        return "not run"
    last, before = sizes[-1], sizes[-2]
    ratio = own[before]["steps_per_second"] / own[last]["steps_per_second"]
    return f"{math.log(ratio) / math.log(last / before):.2f}"


def _deterministic(rows: list[Row]) -> str:
    body = [
        (r["model"], "yes" if r["deterministic"] else "no", r["members"], *_speeds(r))
        for r in rows
        if "failed" not in r
    ]
    head = ("model", "--deterministic", "members", "steps/s", "member-steps/s")
    return "## What --deterministic costs\n\n" + table(head, body, text=2)


def _cpu(rows: list[Row]) -> str:
    head = ("N", "members", "steps/s", "member-steps/s", "plain loop, steps/s", "ratio")
    body = [(row["n"], row["members"], *_speeds(row), *_beside(row)) for row in rows]
    return "## On a CPU: one layer, width 64\n\n" + table(head, body, text=0)


def _floors(rows: list[Row]) -> str:
    body = []
    for row in rows:
        if "flops" not in row:
            continue
        by_products = row["flops"] * row["members"] / products_per_second()
        by_bytes = row["bytes"] * row["members"] / bytes_per_second()
        took = 1 / row["steps_per_second"]
        floor = max(by_products, by_bytes)
        what = "products" if by_products > by_bytes else "bytes"
        shape = f"{row['params'].get('layers', 1)}, {row['params'].get('width', 64)}"
        body.append(
            (row["model"], shape, row["n"], row["members"], f"{took * 1e3:.3f}", f"{floor * 1e3:.3f}", what,
             f"{100 * floor / took:.0f} %")
        )  # fmt: skip
    head = ("model", "layers, width", "N", "members", "ms a step", "floor, ms", "bound by", "of the roofline")
    return table(head, body, text=2)


def _speeds(row: Row) -> tuple[str, str]:
    return f"{row['steps_per_second']:,.1f}", f"{row['member_steps_per_second']:,.0f}"


def _beside(row: Row) -> tuple[str, str]:
    if "plain_steps_per_second" not in row:
        return "", ""
    plain = row["plain_steps_per_second"]
    return f"{plain:,.1f}", f"{row['member_steps_per_second'] / plain:.1f} ×"


_SECTIONS = {
    "transformer": _transformer,
    "models": _models,
    "lengths": _lengths,
    "deterministic": _deterministic,
    "cpu": _cpu,
}
