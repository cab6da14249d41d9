"""Where the time of a population's step goes, kernel by kernel.

    python -m benchmarks.step_profile [--only mamba] [--minutes 3] [--out FILE]        # on a GPU

Populations of S's figures, a few of the largest and a few of the smallest, take recorded steps under the
profiler: one step of one band, all lengths padded to the longest. For each the file has every kernel with
its launches and microseconds of a step, and the rate without the profiler beside it; what is printed is the
sum for each kind of kernel and the longest ones.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.bands import LOOKUP, NCP, RANDOM, Asked
from benchmarks.in_turns import measured_in_turns
from benchmarks.recorded import Turn, ready
from separatrix.experiments.protocols import Settings, s_model, s_protocol
from separatrix.files import written_whole
from separatrix.tasks import task
from separatrix.training.jobs import Job

Row = dict[str, Any]
POPULATIONS: Final[tuple[tuple[str, int, int, Asked, int, int], ...]] = (
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
STEPS: Final = 4
LONGEST: Final = 14
KINDS: Final = (
    ("products", ("gemm", "nvjet", "cutlass", "bmm", "matmul", "cublas", "xmma", "splitk")),
    ("attention", ("flash", "fmha", "attention")),
    ("compiled", ("triton_",)),
    ("copies and fills", ("memcpy", "memset", "copy", "fill", "catarray", "cat_")),
)


def job_of(label: str, layers: int, width: int, asked: Asked, n: int, members: int) -> Job:
    """A population of S's figures, without bands."""
    name, params = asked
    protocol = s_protocol(Settings(budget="paper", halving=False, bands=False), label, width=width)
    config = s_model(label, layers=layers, width=width, task=name)
    whole = protocol.job(task(name, n=n, **params), config)
    return Job(task=whole.task, model=whole.model, training=whole.training, members=whole.members[:members])


def kind_of(kernel: str) -> str:
    """What a kernel does, by its name."""
    lower = kernel.lower()
    return next((kind for kind, marks in KINDS if any(mark in lower for mark in marks)), "other")


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
        {"name": name[:300], "launches": launches[name] / STEPS, "microseconds": time / STEPS}
        for name, time in microseconds.most_common()
    ]
    return {
        "population": job.short_name,
        "members": len(job.members),
        "steps_per_second": one.steps_per_second,
        "start_seconds": one.start_seconds,
        "kernels": kernels,
    }


def lines_of(row: Row) -> Iterable[str]:
    """A population's step in words."""
    kernels = row["kernels"]
    whole = sum(kernel["microseconds"] for kernel in kernels)
    launches = sum(kernel["launches"] for kernel in kernels)
    yield (
        f"{row['population']}, {row['members']} members: {1e6 / row['steps_per_second']:,.0f} us a step, "
        f"{whole:,.0f} us in {launches:,.0f} kernels"
    )
    kinds: Counter[str] = Counter()
    for kernel in kernels:
        kinds[kind_of(kernel["name"])] += kernel["microseconds"]
    yield "    " + ", ".join(f"{kind} {time:,.0f}" for kind, time in kinds.most_common())
    for kernel in kernels[:LONGEST]:
        yield f"    {kernel['microseconds']:8,.0f} us {kernel['launches']:6,.1f} x {kernel['name'][:90]}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="populations with this in their name")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--processes", type=int, default=15, help="that compile")
    parser.add_argument("--out", type=Path, default=Path("step_profile.json"))
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("a profile of steps needs a GPU, and there is none here")
    jobs = [job for job in (job_of(*one) for one in POPULATIONS) if arguments.only in job.short_name]
    found: list[Row] = []
    for row in measured_in_turns(
        jobs, profiled, processes=arguments.processes, seconds=60 * arguments.minutes
    ):
        found.append(row)
        print("\n".join(lines_of(row)), file=sys.stderr, flush=True)
        with written_whole(arguments.out) as file:
            json.dump({"rows": found}, file, indent=1)


if __name__ == "__main__":
    main()
