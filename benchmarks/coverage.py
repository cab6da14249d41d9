"""What is proven of trained models: every run of some stores, certified case by case.

    python -m benchmarks.coverage STORE… [--out coverage.json] [--every 10]

Writes one row a run: accuracy on samples, cases proved, broken and unknown, a letter for every case (p, b, u)
in the order of questions, and one counterexample with the attention of every head. Runs that the file has
already are not certified again.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from separatrix.certificates.one_layer.attack import Effort
from separatrix.certificates.one_layer.attention import attention_of
from separatrix.certificates.one_layer.certifying import Judge
from separatrix.certificates.questions import questions_of
from separatrix.evidence import Case, TaskSpec
from separatrix.files import replace_file
from separatrix.models.population import Population
from separatrix.records import Reader, freeze, thaw
from separatrix.store import Run, Store
from separatrix.tasks import Task
from separatrix.tasks.specs import spec_of, task_of
from separatrix.training import Trained, load_run
from separatrix.version import __version__

LETTERS = {"proved": "p", "refuted": "b", "unknown": "u"}


def row_of(run: Run, trained: Trained, task: Task, options: argparse.Namespace) -> dict[str, Any]:
    """What the page and the tables say of one run."""
    begun = time.monotonic()
    judge = Judge(trained.population, task, device=options.device, effort=Effort(), seed=0)
    asked = questions_of(task)
    cases = [case for number in range(0, len(asked), options.every) for case in judge.answered(asked[number])]
    sampled, right = judge.sampled(10_000)
    queries: dict[str, str] = {}
    for case in cases:
        queries[case.query] = queries.get(case.query, "") + LETTERS[case.verdict]
    proved = [case.margin for case in cases if case.verdict == "proved"]
    leads = [case.found for case in cases if case.found is not None]
    verdicts = Counter(case.verdict for case in cases)
    member, config = trained.member, _plain(run)
    return {
        "run": run.key,
        "task": spec_of(task).to_fields(),
        "model": config["model"]["name"],
        "layers": trained.population.config.layers,
        "width": trained.population.config.width,
        "lr": member.lr,
        "seed": member.seed,
        "weight_decay": member.weight_decay,
        "against": config["training"].get("against"),
        "steps": trained.steps,
        "right": trained.correct,
        "examples": trained.examples,
        "every": options.every,
        "cases": len(cases),
        "proved": verdicts["proved"],
        "refuted": verdicts["refuted"],
        "unknown": verdicts["unknown"],
        "least_margin": min(proved) if proved else None,
        "least_lead": min(leads) if leads else None,
        "verdicts": queries,
        "sampled": sampled,
        "sampled_right": right,
        "counterexample": _shown(trained.population, task, cases),
        "weights_sha256": judge.sha256,
        "arithmetic": judge.form.precision,
        "seconds": round(time.monotonic() - begun, 1),
    }


def _plain(run: Run) -> Any:
    return thaw(freeze(run.config))


def _shown(population: Population, task: Task, cases: Sequence[Case]) -> dict[str, Any] | None:
    broken = [case for case in cases if case.verdict == "refuted"]
    if not broken:
        return None
    worst = min(broken, key=lambda case: case.found or 0.0)
    row = torch.tensor(worst.input)
    weights = attention_of(population.cpu(), row, worst.asked)
    return {
        "query": worst.query,
        "target": worst.target,
        "text": task.render(row),
        "answered": thaw(worst.answered),
        "lead": worst.found,
        "attention": [[round(float(each), 4) for each in head] for head in weights],
    }


def main() -> None:
    """Certify every finished run of the stores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("stores", nargs="+", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--every", type=int, default=1, help="ask only every so many of the questions")
    parser.add_argument("--number", type=int, help="only this run of each store, counted from 0")
    parser.add_argument("--out", type=Path, default=Path("coverage.json"))
    parser.add_argument("--least", type=float, default=0.999, help="accuracy below which a run is left out")
    options = parser.parse_args()
    known = json.loads(options.out.read_text()) if options.out.exists() else {"rows": []}
    rows = {row["run"]: row for row in known["rows"]}
    for place in options.stores:
        store = Store(place)
        runs = [run for run in store.runs(status="done") if (run.accuracy or 0.0) >= options.least]
        for run in runs if options.number is None else runs[options.number : options.number + 1]:
            if run.key in rows:
                continue
            task = task_of(Reader(_plain(run), what="a run").record("task", TaskSpec))
            row = rows[run.key] = row_of(run, load_run(store, run.key), task, options)
            print(
                run.short,
                task,
                *(f"{name} {row[name]}" for name in ("proved", "refuted", "unknown", "seconds")),
            )
            device = torch.cuda.get_device_name() if options.device.startswith("cuda") else platform.machine()
            facts = {"separatrix": __version__, "torch": torch.__version__, "device": device}
            said = {"schema": "separatrix.coverage-record", "version": 1, "provenance": facts}
            text = json.dumps({**said, "rows": [*rows.values()]}, indent=None)
            replace_file(options.out, text.encode())


if __name__ == "__main__":
    main()
