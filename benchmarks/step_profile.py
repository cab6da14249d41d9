"""Where the time of a population's step goes, kernel by kernel.

    python -m benchmarks.step_profile [--only mamba] [--minutes 3] [--out FILE]     # on a GPU
    python -m benchmarks.step_profile --page                                        # the page anew, anywhere

Populations of S's figures, a few of the largest and a few of the smallest, take recorded steps under the
profiler, all lengths padded to the longest. For each the file `results/step_profile.json` has the time of a
step in each kind of kernel and in the longest ones, and the rate without the profiler beside it; the page is
`results/step_profile.md`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.abreast import Population, job_of
from benchmarks.bands import LOOKUP, NCP, RANDOM
from benchmarks.in_turns import measured_in_turns
from benchmarks.markdown import table
from benchmarks.recorded import Turn, ready
from separatrix.files import written_whole
from separatrix.training.jobs import Job

Row = dict[str, Any]
POPULATIONS: Final[tuple[Population, ...]] = (
    ("RetNet", 6, 256, LOOKUP, 400, 7),
    ("RetNet", 6, 256, LOOKUP, 400, 1),
    ("LinTF", 6, 256, LOOKUP, 400, 7),
    ("Mamba", 6, 256, LOOKUP, 400, 7),
    ("Mamba", 6, 256, LOOKUP, 400, 1),
    ("Mamba", 2, 1024, LOOKUP, 400, 7),
    ("DSS", 6, 256, LOOKUP, 400, 7),
    ("LSTM", 3, 256, LOOKUP, 400, 1),
    ("LSTM", 3, 256, LOOKUP, 400, 7),
    ("TF", 2, 64, NCP, 800, 7),
    ("TF", 2, 256, RANDOM, 400, 7),
    ("LinTF", 2, 64, NCP, 800, 1),
    ("Mamba", 6, 256, LOOKUP, 50, 1),
    ("RetNet", 6, 256, LOOKUP, 20, 1),
    ("Mamba", 2, 64, LOOKUP, 100, 1),
)
HERE = Path(__file__).parent
DATA = HERE / "results" / "step_profile.json"
PAGE = HERE / "results" / "step_profile.md"
STEPS: Final = 4
LONGEST: Final = 14
_SHOWN: Final = 8
_LONGEST_NAME: Final = 200
_SHORT_NAME: Final = 90
_PAGE = """# Where the time of a step goes

{device}, torch {torch}. `python -m benchmarks.step_profile` measures: batch 64, products in bfloat16,
recorded steps with all lengths padded to the longest, under the profiler. *Compiled* is what Inductor has
fused, mostly norms, gates and the stream between blocks; *our own* are the kernels in Triton of this package.
{notes}

{table}
"""
KINDS: Final = (
    ("compiled", r"triton_"),
    ("our own", r"_?[a-z]+(_[a-z]+)*$"),
    ("products", r".*(gemm|nvjet|cutlass|cublas|xmma|splitk)"),
    ("attention", r".*(flash|fmha|sdpa|compute_dot_do_o)"),
    ("copies and fills", r".*(memcpy|memset|copy|fill|catarray)"),
)
"""What kernels do, by how their names begin; the first that fits. `triton_…` is what Inductor has fused."""


def kind_of(kernel: str) -> str:
    """What a kernel does, by its name."""
    lower = kernel.lower()
    return next((kind for kind, pattern in KINDS if re.match(pattern, lower)), "other")


def profiled(job: Job, turn: Turn) -> Row:
    """A population's kernels with their launches and microseconds of a step."""
    one = ready(job, seconds=0.5, turn=turn)
    with turn:
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            one.run(STEPS)
            torch.cuda.synchronize()
    launches: Counter[str] = Counter()
    microseconds: Counter[str] = Counter()
    for event in seen.events():
        if "CUDA" in str(event.device_type):
            launches[event.name] += 1
            microseconds[event.name] += event.time_range.elapsed_us()
    kernels = [
        {"name": name[:_LONGEST_NAME], "launches": launches[name] / STEPS, "microseconds": time / STEPS}
        for name, time in microseconds.most_common()
    ]
    return {
        "population": job.short_name,
        "members": len(job.members),
        "steps_per_second": one.steps_per_second,
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        **summed(kernels),
    }


def summed(kernels: Sequence[Row]) -> Row:
    """Microseconds and launches of all kernels, microseconds of each kind, and the longest kernels."""
    kinds: Counter[str] = Counter()
    for kernel in kernels:
        kinds[kind_of(kernel["name"])] += kernel["microseconds"]
    return {
        "microseconds": sum(kernel["microseconds"] for kernel in kernels),
        "launches": sum(kernel["launches"] for kernel in kernels),
        "kinds": dict(kinds.most_common()),
        "longest": list(kernels[:LONGEST]),
    }


def page(rows: Sequence[Row], *, notes: str = "") -> str:
    """The page of these rows."""
    kinds = [*(kind for kind, _ in KINDS), "other"]
    first = table(
        ("population", "members", "ms in kernels", "launches", *kinds),
        (
            (
                row["population"],
                row["members"],
                f"{row['microseconds'] / 1000:.1f}",
                f"{row['launches']:,.0f}",
                *(f"{100 * row['kinds'].get(kind, 0) / row['microseconds']:.0f} %" for kind in kinds),
            )
            for row in rows
        ),
    )
    parts = [_PAGE.format(device=rows[0]["device"], torch=rows[0]["torch"], notes=notes, table=first)]
    for row in rows:
        longest = table(
            ("kernel", "launches", "µs a step", "share"),
            (
                (
                    f"`{kernel['name'][:_SHORT_NAME]}`",
                    f"{kernel['launches']:,.0f}",
                    f"{kernel['microseconds']:,.0f}",
                    f"{100 * kernel['microseconds'] / row['microseconds']:.0f} %",
                )
                for kernel in row["longest"][:_SHOWN]
            ),
        )
        parts.append(f"## {row['population']}, {row['members']} members\n\n{longest}")
    return "\n".join(f"{part.rstrip()}\n" for part in parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="populations with this in their name")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--processes", type=int, default=15, help="that compile")
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--page", action="store_true", help="only the page anew")
    arguments = parser.parse_args()
    if arguments.page:
        kept = json.loads(DATA.read_text())
        with written_whole(PAGE) as file:
            file.write(page(kept["rows"], notes=kept.get("notes", "")))
        return
    if not torch.cuda.is_available():
        parser.error("a profile of steps needs a GPU, and there is none here")
    jobs = [
        job for job in (job_of(one, lengths="all") for one in POPULATIONS) if arguments.only in job.short_name
    ]
    found: list[Row] = []
    for row in measured_in_turns(
        jobs, profiled, processes=arguments.processes, seconds=60 * arguments.minutes
    ):
        found.append(row)
        print(page([row]), file=sys.stderr, flush=True)
        with written_whole(arguments.out) as file:
            json.dump({"rows": found}, file, indent=1)


if __name__ == "__main__":
    main()
