"""How few bits a number needs for each of W's search heads, alone, on texts of n tokens.

    python -m benchmarks.heads [--sizes 16 64 256 1024] [--only MATCH ...]

Numbers are W's: p bits, p odd, (p − 1)/2 of them behind the point, rounded to nearest. A head is right at p
if at the positions asked of every hard text it returns what plain Python says, rounded once. The least such p
is found by bisection, and that it fails at p − 2 is shown by how many answers are wrong there. Marks, counts
and places all reach n. Figures go to `results/heads.json` and from there into `results/heads.md`.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.head_cases import CASES, Token, as_rows, built_head, hard_texts
from separatrix.files import written_whole
from separatrix.precision import FixedNearest
from separatrix.version import __version__

HERE = Path(__file__).parent
DATA = HERE / "results" / "heads.json"
SIZES = (16, 64, 256, 1024)
MEASURED = tuple(name for name in CASES if name != "only")  # a mean of places is no exact number
MOST_BITS = 201
EVERYWHERE = 256  # up to this length every position is asked, beyond it as many, and those at both ends
Row = dict[str, Any]
INTRODUCTION = (
    "Least p at which a head alone is right on every hard text of n tokens, in W's fixed point (p odd, "
    "rounded to nearest), with marks, counts and places up to n; every position is asked up to n = 256, some "
    "320 of them beyond. In brackets: wrong answers at p − 2, of so many."
)
REMARKS = (
    "`tally` turns a share 1/m into the whole number m, and EXACTNEXT compares such whole numbers. EXACTNEXT "
    "on shares compares 1/m and 1/m′ themselves; MATCHNEXT is W's, right only where the counts of matches "
    "are consecutive, as they are here."
)


def wrong_answers(head: str, n: int, p: int, texts: Sequence[list[Token]], asked: Sequence[int]) -> int:
    """How many answers at the asked positions (from 1) differ from what the head means."""
    system = FixedNearest(p=p)
    model = built_head(CASES[head], n, system).model
    at = torch.tensor([[k - 1 for k in asked]])
    wrong = 0
    for text in texts:
        found = system.decode(model.outputs(as_rows([text]), at=at))[0, :, 0].tolist()
        meant = system.decode(system.encode([CASES[head].meaning(text, k) for k in asked])).tolist()
        wrong += sum(a != b for a, b in zip(found, meant, strict=True))
    return wrong


def least_bits(head: str, n: int) -> Row:
    """The least p by bisection on some positions, then many of them at that p, and the failure below it."""
    texts = list(hard_texts(n, seed=n))
    places = list(range(1, n + 1))
    some = sorted({*places[:4], *places[:: max(1, n // 12)], *places[-4:]})
    many = sorted({*places[:32], *places[:: max(1, n // EVERYWHERE)], *places[-32:]})
    low, high = 3, MOST_BITS  # `low` fails, `high` is right
    while high - low > 2:
        middle = (low + high) // 4 * 2 + 1
        if wrong_answers(head, n, middle, texts, some):
            low = middle
        else:
            high = middle
    while wrong_answers(head, n, high, texts, many):
        high += 2
    below = wrong_answers(head, n, high - 2, texts, many)
    assert below, "the least p is right and the one below it is not"
    return {
        "head": head,
        "n": n,
        "p": high,
        "answers": len(texts) * len(many),
        "wrong_below": below,
    }


def page(data: Row) -> str:
    """The figures as a table: p, and the wrong answers at p − 2 behind it."""
    sizes = sorted({row["n"] for row in data["rows"]})
    lines = [
        "# Bits that W's heads need",
        "",
        f"{data['made_with']} Made by `python -m benchmarks.heads`.",
        "",
        INTRODUCTION,
        "",
        "| head | " + " | ".join(f"n = {n}" for n in sizes) + " |",
        "|---|" + "---:|" * len(sizes),
    ]
    for head in dict.fromkeys(row["head"] for row in data["rows"]):
        cells = []
        for n in sizes:
            row = next((r for r in data["rows"] if (r["head"], r["n"]) == (head, n)), None)
            shown = "" if row is None else f"{row['p']} ({row['wrong_below']:,} of {row['answers']:,})"
            cells.append(shown)
        lines.append(f"| {head} | " + " | ".join(cells) + " |")
    lines += ["", REMARKS]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="least bits of W's heads")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--only", nargs="+", choices=MEASURED, default=MEASURED)
    asked = parser.parse_args(arguments)
    kept = json.loads(DATA.read_text())["rows"] if DATA.exists() else []
    rows = {(row["head"], row["n"]): row for row in kept}
    for n in asked.sizes:
        for head in asked.only:
            rows[head, n] = least_bits(head, n)
            print(rows[head, n], file=sys.stderr, flush=True)
            data = {
                "made_with": f"separatrix {__version__}, torch {torch.__version__}, "
                f"Python {platform.python_version()}.",
                "rows": [rows[key] for key in sorted(rows, key=lambda key: (MEASURED.index(key[0]), key[1]))],
            }
            with written_whole(DATA) as part:
                part.write(json.dumps(data, indent=1) + "\n")
            with written_whole(DATA.with_suffix(".md")) as part:
                part.write(page(data))


if __name__ == "__main__":
    main()
