"""How fast populations train, beside the plain way: an ordinary module in an ordinary loop, one at a time.

    python -m benchmarks.populations PART ... [--members 7] [--seconds 2] [--only MODEL ...]
    python -m benchmarks.populations --floors         # on any machine: the work that each measured step is

Parts: `transformer` (one layer, width 64, lengths 20 … 400, plain loop beside it), `models` (every model of
six layers and width 256 at N = 200), `lengths` (cost of a step against N), `deterministic` (what
--deterministic costs), `cpu` (two cores, N = 50). The task is index lookup, batch 64, fresh examples at every
step. On a GPU products are in bfloat16. Figures go to `results/populations.json`, and from there into
`results/populations.md`. A member-step is one step of one member; a population of seven that takes 1,000
steps a second makes 7,000.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.plain_training import PlainTransformer, plain_loop
from benchmarks.population_tables import written
from separatrix.files import written_whole
from separatrix.models import MODELS
from separatrix.models.population import ModelConfig, signature_of
from separatrix.tasks import task
from separatrix.training.engine import Engine, Meters
from separatrix.training.optimiser import OptimiserState, Rates
from separatrix.training.packing import pack
from separatrix.training.recipes import Member, Training
from separatrix.training.running import deterministically
from separatrix.version import __version__

HERE = Path(__file__).parent
DATA = HERE / "results" / "populations.json"
BATCH = 64
RATES = (1e-2, 5e-3, 1e-3, 5e-4, 1e-4, 5e-5, 1e-6)
DEEP: dict[str, dict[str, Any]] = {
    "transformer": {"layers": 6, "width": 256, "heads": 8},
    "llama": {"layers": 6, "width": 256, "heads": 8},
    "lstm": {"layers": 3, "width": 256},
    "linear-transformer": {"layers": 6, "width": 256, "heads": 8},
    "retnet": {"layers": 6, "width": 256, "heads": 8},
    "dss": {"layers": 6, "width": 256},
    "mamba": {"layers": 6, "width": 256},
    "hybrid": {"layers": 5, "width": 256, "heads": 8},
    "linear-rnn": {"layers": 6, "width": 256},
}
Row = dict[str, Any]


def engine(name: str, params: dict[str, Any], n: int, members: int, *, compiled: bool) -> Engine:
    """A population ready to take steps, with the settings of everyday use."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind = MODELS.get(name)
    config: ModelConfig = kind.Config(**params)
    lookup = task("index-lookup", n=n)
    people = [Member(lr=RATES[i % len(RATES)], seed=i // len(RATES)) for i in range(members)]
    population = kind(config, signature_of(lookup), members=members)
    population = population.initialise([member.seed for member in people]).to(device)
    training = Training(batch=BATCH, precision="bfloat16" if device.type == "cuda" else "float32")
    packed = pack(population)
    return Engine(
        lookup,
        population,
        packed,
        OptimiserState.fresh(packed),
        Rates.of(people, steps=training.steps, device=device),
        Meters.zero(members, device),
        training,
        compiled=compiled,
    )


def timed(run: Callable[[int], None], *, seconds: float) -> float:
    """Steps a second, the median of five stretches; `run` takes a number of steps."""
    run(2)
    _settle()
    begin = time.perf_counter()
    run(3)
    _settle()
    steps = max(3, int(seconds / 5 * 3 / (time.perf_counter() - begin)))
    found = []
    for _ in range(5):
        begin = time.perf_counter()
        run(steps)
        _settle()
        found.append(steps / (time.perf_counter() - begin))
    return statistics.median(found)


def _settle() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def measured(
    name: str, params: dict[str, Any], n: int, members: int, *, compiled: bool, seconds: float
) -> Row:
    """One population's speed, its memory and the work that a step is."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    made = engine(name, params, n, members, compiled=compiled)
    made.run(1)
    _settle()
    ready = time.perf_counter() - begin
    rate = timed(made.run, seconds=seconds)
    memory = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
    parameters = made.packed.values.shape[1]
    row = {
        "model": name,
        "params": params,
        "n": n,
        "members": members,
        "compiled": compiled,
        "steps_per_second": rate,
        "member_steps_per_second": rate * members,
        "seconds_to_first_step": ready,
        "memory_bytes": memory,
        "parameters": parameters,
        "bytes": least_bytes(params, n, parameters),
    }
    print(
        f"{name} {params} N={n} members={members} compiled={compiled}: {rate:,.1f} steps/s, "
        f"{rate * members:,.0f} member-steps/s, ready after {ready:.0f} s",
        file=sys.stderr,
        flush=True,
    )
    del made
    return row


def products(name: str, params: dict[str, Any], n: int) -> int:
    """Floating-point operations of the matrix products in a member's step, counted by torch on the CPU.

    Counted at batch 2 and scaled: everything is linear in the batch. What a kernel does outside products
    (scans, transforms, element by element) is not in it.
    """
    kind = MODELS.get(name)
    lookup = task("index-lookup", n=n)
    population = kind(kind.Config(**params), signature_of(lookup), members=1).initialise([0])
    drawn = lookup.sample(2, seed=0)
    at = drawn.mask.int().argmax(1).view(1, 2, 1)
    with FlopCounterMode(display=False) as counter:
        population(drawn.inputs.unsqueeze(0), at).sum().backward()
    return int(counter.get_total_flops()) * BATCH // 2


def least_bytes(params: dict[str, Any], n: int, parameters: int) -> int:
    """Bytes that a member's step moves at the least.

    Weights, both of Adam's averages and the gradient are read and written once in float32; the stream between
    the blocks is written and read once on the way forward and once on the way back, in bfloat16.
    """
    stream = BATCH * (n + 1) * int(params.get("width", 64)) * 2
    return parameters * 4 * 8 + 4 * stream * (int(params.get("layers", 1)) + 1)


def plain(n: int, *, seconds: float, layers: int = 1, width: int = 64, heads: int = 4) -> float:
    """Steps a second of the plain loop."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lookup = task("index-lookup", n=n)
    model = PlainTransformer(lookup, layers=layers, width=width, heads=heads).to(device)

    def run(steps: int) -> None:
        plain_loop(lookup, model, lr=1e-3, batch=BATCH, steps=steps, bfloat16=device == "cuda")

    found = timed(run, seconds=seconds)
    print(f"plain loop N={n}: {found:,.1f} steps/s", file=sys.stderr, flush=True)
    return found


def transformer(members: int, seconds: float, only: Sequence[str] = ()) -> Iterator[Row]:
    """One layer of width 64 at several lengths, and with more members and with one."""
    for n in (20, 100, 200, 400):
        row = measured("transformer", {}, n, members, compiled=True, seconds=seconds)
        yield {**row, "plain_steps_per_second": plain(n, seconds=seconds)}
    for count in (1, 4 * members):
        yield measured("transformer", {}, 200, count, compiled=True, seconds=seconds)


def models(members: int, seconds: float, only: Sequence[str] = ()) -> Iterator[Row]:
    """Every deep model at N = 200."""
    for name in only or DEEP:
        yield _tried(name, DEEP[name], 200, members, True, seconds)


def lengths(members: int, seconds: float, only: Sequence[str] = ()) -> Iterator[Row]:
    """Every deep model at N = 100 … 3200, recorded in a graph but not compiled: the shape of the growth."""
    for name in only or DEEP:
        for n in (100, 200, 400, 800, 1600, 3200):
            yield _tried(name, DEEP[name], n, 1, False, seconds / 4)


def _tried(name: str, params: dict[str, Any], n: int, members: int, compiled: bool, seconds: float) -> Row:
    """A figure, or why there is none."""
    try:
        return measured(name, params, n, members, compiled=compiled, seconds=seconds)
    except Exception as failure:
        print(f"{name} N={n}: {type(failure).__name__}: {failure}", file=sys.stderr, flush=True)
        return {"model": name, "params": params, "n": n, "members": members, "failed": str(failure)[:300]}


def deterministic(members: int, seconds: float, only: Sequence[str] = ()) -> Iterator[Row]:
    """The same population with and without --deterministic."""
    cases: dict[str, dict[str, Any]] = {"transformer": {}, "mamba": DEEP["mamba"]}
    for name in only or cases:
        for wanted in (False, True):
            with deterministically(wanted):
                row = _tried(name, cases[name], 200, members, True, seconds)
            yield {**row, "deterministic": wanted}


def cpu(members: int, seconds: float, only: Sequence[str] = ()) -> Iterator[Row]:
    """N = 50 on the CPU: the population beside the plain loop over as many members."""
    row = measured("transformer", {}, 50, members, compiled=False, seconds=seconds)
    yield {**row, "plain_steps_per_second": plain(50, seconds=seconds)}


def _kept(data: dict[str, Any], part: str, only: Sequence[str]) -> list[Row]:
    """Rows of an earlier run that this one does not measure again."""
    return [row for row in data.get(part, {}).get("rows", []) if only and row["model"] not in only]


PARTS = {
    "transformer": transformer,
    "models": models,
    "lengths": lengths,
    "deterministic": deterministic,
    "cpu": cpu,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--members", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", nargs="*", default=(), choices=DEEP, help="these of the deep models")
    parser.add_argument("--floors", action="store_true", help="count the products of what was measured")
    parser.add_argument("--out", type=Path, default=DATA)
    arguments = parser.parse_args()
    data = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for part in arguments.parts:
        rows = _kept(data, part, arguments.only)
        data[part] = {
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine(),
            "torch": torch.__version__,
            "separatrix": __version__,
            "threads": torch.get_num_threads(),
            "command": f"python -m benchmarks.populations {part} --members {arguments.members}",
            "rows": rows,
        }
        for row in PARTS[part](arguments.members, arguments.seconds, arguments.only):
            rows.append(row)
            with written_whole(arguments.out) as file:
                json.dump(data, file, indent=1)
    if arguments.floors:
        for part in ("transformer", "models"):
            for row in data.get(part, {}).get("rows", []):
                if "flops" not in row and "failed" not in row:
                    row["flops"] = products(row["model"], row["params"], row["n"])
        with written_whole(arguments.out) as file:
            json.dump(data, file, indent=1)
    if arguments.out == DATA:
        with written_whole(DATA.with_suffix(".md")) as file:
            file.write(written(data))


if __name__ == "__main__":
    main()
