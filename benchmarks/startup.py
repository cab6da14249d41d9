"""How long the command line takes to answer, beside what importing torch alone takes.

    python -m benchmarks.startup [--runs 7]

Whole processes, wall time, the median of several runs in turn.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from separatrix.files import written_whole

COMMANDS = {
    "`separatrix --help`": ["-m", "separatrix", "--help"],
    "`separatrix --version`": ["-m", "separatrix", "--version"],
    "`separatrix sample --help`": ["-m", "separatrix", "sample", "--help"],
    "`separatrix tasks`": ["-m", "separatrix", "tasks"],
    "`separatrix sample dyck --n 20`": ["-m", "separatrix", "sample", "dyck", "--n", "20"],
    "python, doing nothing": ["-c", "pass"],
    "python, importing torch": ["-c", "import torch"],
}


def seconds(arguments: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "startup.md")
    arguments = parser.parse_args()
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(arguments.runs):
        for name, command in COMMANDS.items():
            taken[name].append(seconds(command))
    lines = [
        "# Start-up",
        "",
        "Made by `python -m benchmarks.startup`.",
        "",
        "| command | median, s |",
        "|---|---:|",
    ]
    lines += [f"| {name} | {statistics.median(times):.2f} |" for name, times in taken.items()]
    with written_whole(arguments.out) as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
