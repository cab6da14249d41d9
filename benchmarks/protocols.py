"""Alice and Bob run every witness: do they find what the model finds, and how many bits does it take?

    python -m benchmarks.protocols [--runs 100] [--only index-lookup …]

For each witness, in S's numbers and in W's, under each of several splits, so many inputs are drawn and run by
two parties; every transcript is compared with the direct run bit for bit. Beside the bits of a run stand what
the theorem prints, what its proof's steps add up to when one party ends the run, and what must be sent.
Figures go to `results/protocols.json` and from there into `results/protocols.md`.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.markdown import table
from separatrix.communication.protocols import arrange, comparisons, run_protocols
from separatrix.communication.protocols.any_partition import Query
from separatrix.communication.protocols.arranging import Model
from separatrix.communication.protocols.cycle_model import cycle3_model
from separatrix.files import written_whole
from separatrix.models import MODELS
from separatrix.models.population import signature_of
from separatrix.precision import FixedDown, FixedNearest, NumberSystem, name_of
from separatrix.tasks import Task, task
from separatrix.version import __version__
from separatrix.witnesses import Choices, witness_for

DATA = Path(__file__).parent / "results" / "protocols.json"
AT_ONCE = 100
ZOO = ("lstm", "mamba", "linear-rnn", "retnet", "linear-transformer", "dss", "hybrid", "transformer")
SPLITS = ("odd/even", "halves")
Row = dict[str, Any]
INTRODUCTION = (
    "Two parties run a model, each on its own part of an input, and every bit between them is counted. "
    "`agree` counts transcripts with the outputs of the direct run, bit for bit. `bits` are those of one "
    "run, the same for every input. `printed` is 3m(p + log N)H of S-T4; `counted` adds up the steps of its "
    "proof when one party ends the run and sends the answer back; for S-T2 it is the state that the model's "
    "size states, for R-G two widths a head, row and layer. A query is sent as its vector, as what each head "
    "makes of it, or as its token. `needed` is the largest bound on messages that speaks of task and split."
)


class Case(NamedTuple):
    """A model to be run."""

    task: str
    parameters: dict[str, Any]
    family: str
    systems: tuple[NumberSystem, ...]
    splits: tuple[str | None, ...]


def cases() -> Iterator[Case]:
    """One-layer Transformers, recurrent networks, hybrids, a deep model with a cache, a graph Transformer."""
    for name, parameters, systems in (
        ("index-lookup", {"n": 64}, (FixedDown(n=65, k=2), FixedDown(n=65, k=3), FixedNearest(p=31))),
        ("dyck", {"n": 32}, (FixedDown(n=32, k=2), FixedNearest(p=31))),
        ("equality", {"n": 32}, (FixedDown(n=64, k=2), FixedNearest(p=31))),
        ("disjointness", {"n": 30}, (FixedDown(n=64, k=2), FixedNearest(p=31))),
        ("match2", {"n": 32, "modulus": 31}, (FixedDown(n=32, k=4), FixedNearest(p=41))),
        ("match3", {"n": 6, "modulus": 8}, (FixedDown(n=16, k=4), FixedNearest(p=41))),
        ("match3", {"n": 12, "modulus": 9, "variant": "local", "window": 1}, (FixedNearest(p=51),)),
        ("q-sparse-averaging", {"n": 16}, (FixedDown(n=64, k=3), FixedNearest(p=31))),
    ):
        yield Case(name, parameters, "transformer-1", systems, (None, *SPLITS, "1", "2-4"))
    numbers = (FixedDown(n=64, k=3), FixedNearest(p=31))
    for name, parameters in (
        ("index-lookup", {"n": 64}),
        ("associative-recall", {"n": 16}),
        ("equality", {"n": 32}),
        ("mqar", {"n": 8, "vocabulary_size": 64}),
        ("dyck", {"n": 32}),
        ("dyck", {"n": 32, "types": 4, "depth": 6}),
    ):
        yield Case(name, parameters, "rnn", numbers, (None,))
    wide = (FixedNearest(p=61),)
    yield Case("index-lookup", {"n": 16}, "hybrid", wide, (None, "1-4"))
    yield Case("c-gram", {"n": 16}, "hybrid", wide, (None, "1-4"))
    yield Case("counting", {"n": 16}, "hybrid", wide, (None, "1-4"))
    yield Case("dyck", {"n": 16}, "transformer-3", (FixedNearest(p=31),), (None, "1-4"))
    yield Case(
        "cycle3", {"n": 9}, "graph-transformer", (FixedDown(n=9, k=2), FixedNearest(p=21)), (None, *SPLITS)
    )


def built(case: Case, made: Task, system: NumberSystem) -> Model:
    """The weights."""
    if case.family == "graph-transformer":
        return cycle3_model(made.n, system)
    return witness_for(made, family=case.family, choices=Choices(system=system))


def measured(
    weights: Model, made: Task, about: Row, *, split: str | None, runs: int, query: Query = "vector"
) -> Row:
    """One row: so many runs of one model under one split."""
    arrangement = arrange(weights, made, partition=split, query=query)
    started, agree, first = time.monotonic(), 0, None
    for start in range(0, runs, AT_ONCE):
        inputs = made.full_length().sample(min(AT_ONCE, runs - start), seed=7, start=start).inputs
        said = run_protocols(arrangement, inputs)
        first = first or said[0]
        agree += sum(each.agrees for each in said)
        assert {each.bits for each in said} == {arrangement.protocol.bits}
    assert first is not None
    counts = {count.name: count.bits for count in arrangement.protocol.counts()}
    beside = comparisons(first)
    needed = int(beside[0].bound.at_least or 0) if beside and beside[0].bound.at_least is not None else None
    return {
        "task": made.name,
        **about,
        "theorem": first.protocol,
        "numbers": name_of(arrangement.protocol.system),
        "p": arrangement.protocol.system.bits,
        "split": first.partition,
        "query": query if first.protocol == "S-T4" else "",
        "runs": runs,
        "agree": agree,
        "rounds": first.rounds,
        "bits": first.bits,
        "printed": counts.get("printed"),
        "counted": counts.get("counted", counts.get("stated")),
        "needed": needed,
        "seconds": round(time.monotonic() - started, 2),
    }


def rows(runs: int, only: Sequence[str]) -> Iterator[Row]:
    """Witnesses in p bits, then models of the zoo as they begin, in float32."""
    for case in cases():
        if only and case.task not in only:
            continue
        made = task(case.task, **case.parameters)
        for system in case.systems:
            model = built(case, made, system)
            about = {"parameters": case.parameters, "model": case.family}
            first = arrange(model, made).partition_name
            for split in (each for each in case.splits if each != first):
                yield measured(model, made, about, split=split, runs=runs)
            for query in ("queries", "token") if case.family == "transformer-1" else ():
                yield measured(model, made, about, split=None, runs=runs, query=query)
    lookup = task("index-lookup", n=16)
    for name in ZOO:
        if not only or lookup.name in only:
            kind = MODELS.get(name)
            model = kind(kind.Config(width=16, layers=2), signature_of(lookup), members=1).initialise([1])
            yield measured(model, lookup, {"parameters": {"n": 16}, "model": name}, split=None, runs=runs)


def page(data: Row) -> str:
    """The figures as a table."""
    found = data["rows"]
    total, agreeing = (sum(row[key] for row in found) for key in ("runs", "agree"))
    seconds = sum(row["seconds"] for row in found)
    head = (
        *("task", "model", "theorem", "numbers", "split", "query"),
        *("p", "runs", "agree", "bits", "printed", "counted", "needed"),
    )
    cells = []
    for row in found:
        size = ", ".join(f"{key}={value}" for key, value in row["parameters"].items())
        named = [f"{row['task']} ({size})", *(row[key] for key in head[1:6])]
        cells.append([*named, *("" if row[key] is None else row[key] for key in head[6:])])
    lines = [
        "# Protocols",
        "",
        f"{data['made_with']} Made by `python -m benchmarks.protocols`.",
        "",
        INTRODUCTION,
        "",
        f"**{agreeing:,} of {total:,} transcripts agree bit for bit**; {total / seconds:,.0f} runs a second.",
        "",
        table(head, cells, text=6),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="transcripts against direct runs")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", nargs="+", default=())
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found = []
    for row in rows(asked.runs, asked.only):
        found.append(row)
        print({key: value for key, value in row.items() if value is not None}, file=sys.stderr, flush=True)
    versions = f"separatrix {__version__}, torch {torch.__version__}, Python {platform.python_version()}."
    data = {"made_with": versions, "rows": found}
    if not asked.only:
        with written_whole(DATA) as part:
            part.write(json.dumps(data, indent=1) + "\n")
        with written_whole(DATA.with_suffix(".md")) as part:
            part.write(page(data))
    if any(row["agree"] != row["runs"] for row in found):
        sys.exit("Some transcripts do not agree with the direct run.")


if __name__ == "__main__":
    main()
