"""How large proven witnesses are, how long proofs take, and how few bits a number needs.

    python -m benchmarks.witnesses [lookup] [certified] [bits] [precision]        # all by default

Times are CPU seconds of all threads: on an idle machine no less than what the clock shows, and on a busy one
they still mean something. Figures go to `results/witnesses.json`, from there into `results/witnesses.md` and
`docs/witnesses.md`. A section that is not asked for keeps the figures it has. The peer's figures are data.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from benchmarks.witness_tables import page
from benchmarks.witness_tasks import label, task_for
from separatrix.certificates import certify
from separatrix.certificates.minimising import minimised
from separatrix.certificates.searching import (
    LADDERS,
    MOST_BITS,
    Construction,
    construction_for,
    first_proved,
    ladder_below,
)
from separatrix.errors import SeparatrixError
from separatrix.files import written_whole
from separatrix.precision import name_of, system_named
from separatrix.tasks import Task, task
from separatrix.version import __version__
from separatrix.witnesses import CATALOGUE, Choices, Entry, Witness, witness_for
from separatrix.witnesses.choices import Addresses

HERE = Path(__file__).parent
DATA = HERE / "results" / "witnesses.json"
SIZES = tuple(1 << power for power in range(4, 21, 2))
PRECISION_SIZES = SIZES[::2]
LOOKUP_SIZES = (1 << 10, 1 << 16, 1 << 20)
LOOKUP_CODES: tuple[Addresses, ...] = ("binary", "bch-1/2", "bch-1/4")
MOST_PROVEN = {"dyck": 1 << 8}  # where a proof goes place by place
LONGEST_STEP = 60.0  # seconds of this process; a row ends where a size takes longer
Row = dict[str, Any]
Result = TypeVar("Result")


CERTIFIED: tuple[Callable[[], Task], ...] = (
    lambda: task("equality", n=1 << 14, form="one", alphabet=64),
    *((lambda k=k: task("sparse-threshold", n=1 << 12, k=k)) for k in (1, 2, 3, 4)),
    lambda: task("disjointness", n=1 << 12),
    lambda: task("nearest-neighbour", n=1 << 12),
    lambda: task("mqar", n=1 << 12, vocabulary_size=1 << 13),
    lambda: task("associative-recall", n=1 << 12),
)
GROWTH = ("S-T1", "S-T6", "S-T7")


def counts(witness: Witness) -> Row:
    size = witness.size
    return {
        "width": size.width,
        "ffn_width": size.ffn_width,
        "layers": size.layers,
        "parameters": size.parameters,
        "precision_bits": size.precision_bits,
        "parameter_bits": size.parameter_bits,
        "arithmetic": name_of(witness.arithmetic),
    }


# Index lookup


def lookup_rows() -> Iterator[Row]:
    for n in LOOKUP_SIZES:
        about = task("index-lookup", n=n, alphabet=64)
        (found, _), searched = timed(lambda about=about: minimised(about, by="bits"))  # type: ignore[misc]
        choices = Choices(system=found.arithmetic)
        witness, built = timed(lambda about=about, choices=choices: witness_for(about, choices=choices))  # type: ignore[misc]
        certificate, certified = timed(lambda witness=witness: certify(witness))  # type: ignore[misc]
        fixed, floats = (_query_in_a_process(n, name) for name in (name_of(found.arithmetic), "float64"))
        yield {
            "n": n,
            **counts(witness),
            "width_bar": 6 + 2 * math.ceil(math.log2(n)) + 4,
            "verdict": certificate.verdict,
            "minimise_seconds": round(searched, 2),
            "build_seconds": round(built, 3),
            "certify_seconds": round(certified, 2),
            "query_seconds_fixed": fixed["seconds"],
            "query_seconds": floats["seconds"],
            "query_peak_mib": max(fixed["peak_mib"], floats["peak_mib"]),
        }


def timed(run: Callable[[], Result]) -> tuple[Result, float]:
    begin = time.process_time()
    result = run()
    return result, time.process_time() - begin


def _query_in_a_process(n: int, arithmetic: str) -> Row:
    command = [sys.executable, "-m", "benchmarks.witnesses", "--query", str(n), arithmetic]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # threads that wait for each other count as work
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=HERE.parent, env=environment
    )
    row: Row = json.loads(done.stdout)
    return row


def one_query(n: int, arithmetic: str) -> Row:
    """Time of one answer on an input of full length, and the most memory the process ever held."""
    about = task("index-lookup", n=n, alphabet=64, lengths="full")
    witness = witness_for(about, choices=Choices(system=system_named(arithmetic)))
    drawn = about.sample(1, seed=0)
    asked = drawn.mask.int().argmax(1, keepdim=True)
    answer, seconds = timed(lambda: witness.model.answers(drawn.inputs, at=asked))
    assert answer.tolist() == drawn.targets.gather(1, asked).tolist(), "the query is answered rightly"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": round(seconds, 2), "peak_mib": round(peak)}


# The others


def certified_rows() -> Iterator[Row]:
    for make in CERTIFIED:
        about = make()
        try:
            witness, built = timed(lambda about=about: witness_for(about))  # type: ignore[misc]
        except SeparatrixError as refusal:
            print(f"left out: {refusal}", file=sys.stderr)
            continue
        certificate, certified = timed(lambda witness=witness: certify(witness))  # type: ignore[misc]
        yield {
            "theorem": witness.theorem,
            "task": about.name,
            "settings": _settings(about),
            **counts(witness),
            "verdict": certificate.verdict,
            "build_seconds": round(built, 3),
            "certify_seconds": round(certified, 2),
        }


def _settings(about: Task) -> str:
    shown = {"n": about.n} | {
        name: getattr(about, name) for name in ("k", "dimension", "alphabet", "keys") if hasattr(about, name)
    }
    return ", ".join(f"{name} = {value}" for name, value in shown.items())


# Growth with N


def bits_rows() -> Iterator[Row]:
    for entry in CATALOGUE:
        if entry.theorem not in GROWTH:
            continue
        points = []
        for n in SIZES:
            begin = time.process_time()
            try:
                witness, _ = minimised(
                    task_for(entry, n), family=entry.family, variant=entry.variant, by="bits"
                )
            except SeparatrixError as refusal:
                print(f"{label(entry)} ends before {n}: {refusal}", file=sys.stderr)
                break
            points.append({"n": n, **counts(witness)})
            if time.process_time() - begin > LONGEST_STEP:
                break
        if len(points) > 2:
            yield {
                "theorem": entry.theorem,
                "task": entry.task,
                "variant": entry.variant,
                "power": round(fitted_power([(p["n"], p["parameter_bits"]) for p in points]), 2),
                "points": points,
            }


def fitted_power(points: list[tuple[int, int]]) -> float:
    """The exponent of log N in a least-squares fit of log bits on log log N."""
    slope, _ = np.polyfit([math.log(math.log2(n)) for n, _ in points], [math.log(b) for _, b in points], 1)
    return float(slope)


# Precision


def precision_rows() -> Iterator[Row]:
    for entry in CATALOGUE:
        if entry.theorem.startswith("UP-") or entry.variant == "local":
            continue  # their size grows with N
        codes = LOOKUP_CODES if entry.theorem == "S-T1" else LOOKUP_CODES[:1]
        for addresses in codes:
            points = list(_least_precisions(entry, addresses))
            if points:
                yield {
                    "theorem": entry.theorem,
                    "task": entry.task,
                    "family": entry.family,
                    "variant": entry.variant,
                    "addresses": addresses,
                    "points": points,
                }


def _least_precisions(entry: Entry, addresses: Addresses) -> Iterator[Row]:
    for n in PRECISION_SIZES:
        if n > MOST_PROVEN.get(entry.task, n):
            return
        begin = time.process_time()
        try:
            construction = construction_for(task_for(entry, n), entry.family, entry.variant)
        except SeparatrixError as refusal:
            print(f"{label(entry)} ends before {n}: {refusal}", file=sys.stderr)
            return
        least = {kind: _least(construction, kind, addresses) for kind in ("nearest", "down")}
        if not any(least.values()):
            print(f"{label(entry)}: nothing proven at {n}", file=sys.stderr)
            return
        yield {"n": n, **least}
        if time.process_time() - begin > LONGEST_STEP:
            return


def _least(construction: Construction, kind: str, addresses: Addresses) -> int | None:
    found = first_proved(
        ladder_below(kind, MOST_BITS), lambda system: construction.proved(system, addresses), limited=False
    )
    return None if found is None else found.arithmetic.bits


SECTIONS: Mapping[str, Callable[[], Iterator[Row]]] = {
    "lookup": lookup_rows,
    "certified": certified_rows,
    "bits": bits_rows,
    "precision": precision_rows,
}
assert {"nearest", "down"} <= {*LADDERS}


def measured(section: str) -> list[Row]:
    rows = []
    for row in SECTIONS[section]():
        print(section, json.dumps(row)[:300], file=sys.stderr, flush=True)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="default: all")
    parser.add_argument("--query", nargs=2, metavar=("N", "ARITHMETIC"), help="one query, in this process")
    arguments = parser.parse_args()
    if arguments.query:
        print(json.dumps(one_query(int(arguments.query[0]), arguments.query[1])))
        return
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    data["made with"] = (
        f"separatrix {__version__}, torch {torch.__version__}, Python {sys.version.split()[0]}, "
        f"{torch.get_num_threads()} threads on {os.cpu_count()} cores"
    )
    for section in arguments.sections or SECTIONS:
        data[section] = measured(section)
        with written_whole(DATA) as file:
            json.dump(data, file, indent=1)
            file.write("\n")
        with written_whole(DATA.with_suffix(".md")) as file:
            file.write(page(data))


if __name__ == "__main__":
    main()
