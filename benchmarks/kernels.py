"""Every kernel beside its reference and its peers, in one command.

    python -m benchmarks.kernels [--device cpu|cuda] [--only selective_scan ...] [--tables]

Each benchmark stands in a file of its own and is run from here with its usual settings. Figures go to
`results/kernels/NAME-DEVICE.json`, and from all that are there into `results/kernels.md`; `--tables` writes
the page alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import decayed_attention, long_convolution, lstm_scan, scores_and_tables, selective_scan
from separatrix.files import written_whole

HERE = Path(__file__).parent / "results"
FIGURES = HERE / "kernels"
Data = dict[str, Any]
RUN: dict[str, Callable[[list[str]], object]] = {
    "selective_scan": selective_scan.main,
    "lstm_scan": lstm_scan.main,
    "decayed_attention": decayed_attention.main,
    "long_convolution": long_convolution.main,
    "scores_and_tables": scores_and_tables.main,
}
TITLES = {
    "selective_scan": "The selective scan (Mamba)",
    "lstm_scan": "LSTM layers, members side by side",
    "decayed_attention": "Decayed linear attention (linear Transformer, RetNet)",
    "long_convolution": "Long convolutions (DSS)",
    "scores_and_tables": "Scores of classes, and token tables",
}
HEAD = """# Kernels

Forward and backward of each mixer's own computation: the readable reference, the form in plain PyTorch, the
Triton kernels where there are any, and what else one could use. `python -m benchmarks.kernels` measures; this
page is written from the files in `kernels/`. Whole training steps stand in [populations](populations.md)."""


def run(name: str, device: str) -> None:
    """One benchmark, its figures into a file."""
    target = ["--json", str(FIGURES / f"{name}-{device}.json")]
    where = [] if name == "lstm_scan" else ["--device", device]
    try:
        RUN[name]([*where, *target])
    except SystemExit as verdict:  # a bar that was missed
        print(f"{name}: {verdict}", file=sys.stderr)


def table_of(name: str, device: str, data: Data) -> str:
    """A benchmark's own table of its figures."""
    if name == "selective_scan" and device == "cpu":
        return selective_scan.cpu_table(data["cpu"])
    if name == "selective_scan":
        convolution = selective_scan.gpu_table(data["convolution_rows"], title="GPU, short convolution")
        return f"{selective_scan.gpu_table(data['gpu_rows'])}\n\n{convolution}"
    if name == "lstm_scan":
        return lstm_scan.page(data["rows"])
    if name == "decayed_attention":
        return decayed_attention.page(data)
    if name == "scores_and_tables":
        return scores_and_tables.page(data["rows"], device)
    return long_convolution.page(data["rows"], device)


def page() -> str:
    """All that has been measured."""
    parts = [HEAD]
    for name, title in TITLES.items():
        parts.append(f"## {title}")
        for device, words in (("cuda", "On a GPU"), ("cpu", "On a CPU")):
            path = FIGURES / f"{name}-{device}.json"
            if not path.exists():
                parts.append(f"{words}: not run.")
                continue
            parts += [f"{words}:", table_of(name, device, json.loads(path.read_text()))]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu"
    )
    parser.add_argument("--only", nargs="*", choices=RUN, default=tuple(RUN))
    parser.add_argument("--tables", action="store_true", help="measure nothing, write the page")
    asked = parser.parse_args()
    FIGURES.mkdir(exist_ok=True)
    for name in () if asked.tables else asked.only:
        run(name, asked.device)
    with written_whole(HERE / "kernels.md") as file:
        file.write(page())


if __name__ == "__main__":
    main()
