"""What is proven of trained models: every run of some stores, certified case by case.

    python -m benchmarks.coverage STORE… [--device cuda] [--out results/coverage.json] [--cases FOLDER]

Writes one row a run: accuracy on samples, cases proved, broken and unknown, a letter for every case (p, b, u)
in the order of questions, and one counterexample with the attention of every head. Runs that the file has
already are not certified again.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import torch

from separatrix.certificates.one_layer import certify_one_layer
from separatrix.certificates.one_layer.attention import attention_of
from separatrix.evidence import Coverage, TaskSpec
from separatrix.files import replace_file
from separatrix.models.population import Population
from separatrix.store import Store
from separatrix.tasks import Task
from separatrix.tasks.specs import task_of
from separatrix.training import load_run
from separatrix.version import __version__

LETTERS = {"proved": "p", "refuted": "b", "unknown": "u"}


def row_of(key: str, trained: Any, task: Task, found: Coverage) -> dict[str, Any]:
    """What the page and the tables say of one run."""
    queries: dict[str, str] = {}
    for case in found.cases:
        queries[case.query] = queries.get(case.query, "") + LETTERS[case.verdict]
    proved = [case.margin for case in found.cases if case.verdict == "proved"]
    leads = [case.found for case in found.cases if case.found is not None]
    member = trained.member
    return {
        "run": key,
        "task": found.task.to_fields(),
        "model": trained.run.config["model"]["name"],
        "layers": trained.population.config.layers,
        "width": trained.population.config.width,
        "lr": member.lr,
        "seed": member.seed,
        "weight_decay": member.weight_decay,
        "against": trained.run.config["training"].get("against"),
        "steps": trained.steps,
        "right": trained.correct,
        "examples": trained.examples,
        "cases": len(found.cases),
        "proved": found.proved,
        "refuted": found.refuted,
        "unknown": found.unknown,
        "least_margin": min(proved) if proved else None,
        "least_lead": min(leads) if leads else None,
        "verdicts": queries,
        "sampled": found.sampled,
        "sampled_right": found.sampled_right,
        "counterexample": _shown(trained.population, task, found),
        "weights_sha256": found.weights_sha256,
        "arithmetic": found.arithmetic,
        "seconds": found.seconds,
    }


def _shown(population: Population, task: Task, found: Coverage) -> dict[str, Any] | None:
    if found.counterexample is None:
        return None
    broken = [case for case in found.cases if case.verdict == "refuted"]
    worst = min(broken, key=lambda case: case.found or 0.0)
    row = torch.tensor(worst.input)
    weights = attention_of(population.cpu(), row, worst.asked)
    return {
        "query": worst.query,
        "target": worst.target,
        "text": task.render(row),
        "answered": worst.answered,
        "lead": worst.found,
        "attention": [[round(float(each), 4) for each in head] for head in weights],
    }


def main() -> None:
    """Certify every finished run of the stores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("stores", nargs="+", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("coverage.json"))
    parser.add_argument("--least", type=float, default=0.999, help="accuracy below which a run is left out")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no further run after so long")
    options = parser.parse_args()
    started = time.monotonic()
    known = json.loads(options.out.read_text()) if options.out.exists() else {"rows": []}
    rows = {row["run"]: row for row in known["rows"]}
    for place in options.stores:
        store = Store(place)
        for run in store.runs(status="done"):
            if run.key in rows or (run.accuracy or 0.0) < options.least:
                continue
            if time.monotonic() - started > options.seconds:
                break
            trained = load_run(store, run.key)
            config: Any = run.config
            task = task_of(TaskSpec(name=config["task"]["name"], params=config["task"]["params"]))
            found = certify_one_layer(
                trained.population.to(options.device),
                task,
                device=options.device,
                processes=options.processes,
            )
            rows[run.key] = row_of(run.key, trained, task, found)
            print(run.short, found.task, *(f"{k} {v:.1%}" for k, v in found.shares.items()), found.seconds)
            device = torch.cuda.get_device_name() if options.device.startswith("cuda") else platform.machine()
            facts = {"separatrix": __version__, "torch": torch.__version__, "device": device}
            text = json.dumps({"provenance": facts, "rows": [*rows.values()]}, indent=None)
            replace_file(options.out, text.encode())


if __name__ == "__main__":
    main()
