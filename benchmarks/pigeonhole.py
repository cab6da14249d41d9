"""Recurrent models that carry fewer bits than a task needs: how many are proved wrong, and how soon.

    python -m benchmarks.pigeonhole [--count 100] [--steps 400]

Each row holds `count` models whose state is smaller than the bound. For each of them two inputs are sought
that lead to one state and have different right answers. Figures go to `results/pigeonhole.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.markdown import table
from separatrix.communication.pigeonhole import collide
from separatrix.communication.reductions import reduction_for
from separatrix.files import written_whole
from separatrix.models import MODELS, model
from separatrix.models.interface import CausalModel
from separatrix.models.population import CausalPopulation, Population, signature_of
from separatrix.models.quantised import Quantised
from separatrix.tasks import Task, task
from separatrix.training import Member, Training, train
from separatrix.version import __version__

DATA = Path(__file__).parent / "results" / "pigeonhole.json"
Case = tuple[str, Task, int, Iterator[CausalModel[Any]]]
HEAD = """# Two inputs, one state

Models whose state has fewer bits than the task needs, each rounded after every token to so many bits a
number. A collision is two inputs that lead to the same state and whose right answers differ, so that the
model is wrong on one of them. `python -m benchmarks.pigeonhole` measures."""


def single(population: Population, member: int) -> CausalModel[Any]:
    assert isinstance(population, CausalPopulation)
    alone = population.member(member)
    assert isinstance(alone, CausalModel)
    return alone


def random_models(name: str, params: dict[str, Any], asked: Task, *, bits: int, count: int) -> Case:
    def made() -> Iterator[CausalModel[Any]]:
        config = model(name, **params)
        population = MODELS.get(name)(config, signature_of(asked), members=count)
        population.initialise(list(range(count)))
        for member in range(count):
            yield Quantised(single(population, member), bits=bits)

    return f"random {name}, {params}", asked, bits, made()


def trained_models(width: int, asked: Task, *, bits: int, count: int, steps: int) -> Case:
    def made() -> Iterator[CausalModel[Any]]:
        settings = Training(steps=steps, batch=32, eval_every=steps, eval_examples=256, test_examples=256)
        config = model("lstm", layers=1, width=width)
        members = [Member(lr=5e-3, seed=seed) for seed in range(count)]
        for one in train(asked, config, members=members, training=settings):
            yield Quantised(single(one.population, 0), bits=bits)

    return f"trained lstm, width {width}, {steps} steps", asked, bits, made()


def cases(count: int, steps: int) -> Iterator[Case]:
    lookup, equality = task("index-lookup", n=40, alphabet=2), task("equality", n=80)
    longer = task("index-lookup", n=48, alphabet=2)
    for bits in (1, 2, 4):
        yield random_models("lstm", {"layers": 1, "width": 4}, lookup, bits=bits, count=count)
    yield random_models("lstm", {"layers": 1, "width": 4}, equality, bits=4, count=count)
    yield random_models("mamba", {"layers": 1, "width": 4, "state": 2}, longer, bits=1, count=count)
    for bits in (1, 2):
        yield trained_models(8, lookup, bits=bits, count=count, steps=steps)


def row_of(case: Case) -> dict[str, Any]:
    name, asked, bits, models = case
    reduction = reduction_for(asked)
    begin, tried, found = time.perf_counter(), [], 0
    state = count = 0
    for count, each in enumerate(models, start=1):  # noqa: B007
        state = each.size(asked.length, 32).state_bits(len(reduction.partition.alice))
        assert state < reduction.one_way_bits, f"{name} carries {state} bits"
        collision = collide(each, asked)
        if collision is not None:
            found += 1
            tried.append(collision.tried)
    row = {
        "models": name,
        "task": f"{asked.name} n={asked.n}",
        "bits": bits,
        "state_bits": state,
        "needed": reduction.one_way_bits,
        "count": count,
        "found": found,
        "median_tried": statistics.median(tried) if tried else None,
        "most_tried": max(tried, default=None),
        "seconds": round(time.perf_counter() - begin, 1),
    }
    print(row, flush=True)
    return row


def page(rows: list[dict[str, Any]]) -> str:
    head = [
        "models",
        "task",
        "bits a number",
        "state bits",
        "bits needed",
        "proved wrong",
        "prefixes read, median",
        "most",
    ]
    body = [
        (r["models"], r["task"], r["bits"], r["state_bits"], r["needed"], f"{r['found']} of {r['count']}",
         r["median_tried"], r["most_tried"])
        for r in rows
    ]  # fmt: skip
    return f"{HEAD}\n\n{table(head, body, text=2)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--steps", type=int, default=400)
    asked = parser.parse_args()
    rows = [row_of(case) for case in cases(asked.count, asked.steps)]
    data = {"separatrix": __version__, "command": "python -m benchmarks.pigeonhole", "rows": rows}
    with written_whole(DATA) as file:
        json.dump(data, file, indent=1)
    with written_whole(DATA.with_suffix(".md")) as file:
        file.write(page(rows))


if __name__ == "__main__":
    main()
