"""Every witness on every input of a small task, and on 10,000 random inputs of a larger one.

    python -m benchmarks.exhaustive plan                   # which arithmetics each witness is proven in
    python -m benchmarks.exhaustive run [--device cuda]    # run them; needs torch alone
    python -m benchmarks.exhaustive table

Proofs speak of all inputs; this is the other way to find out. A small task has at most 2^20 inputs over all
its lengths. An arithmetic is tried where the certificate of that very task proves it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from benchmarks.witness_tasks import asked
from separatrix.errors import SeparatrixError
from separatrix.files import written_whole
from separatrix.precision import name_of, system_named
from separatrix.tasks import TASKS, Task, Vectors
from separatrix.tasks.interface import make
from separatrix.witnesses import CATALOGUE, Choices, Entry

RESULTS: Final = Path(__file__).parent / "results"
PLAN: Final = RESULTS / "exhaustive_plan.json"
FOUND: Final = RESULTS / "exhaustive.json"
TABLE: Final = RESULTS / "exhaustive.md"
RANDOM: Final = 10_000
ABOUT: Final = (
    "Made by `python -m benchmarks.exhaustive`: each witness on every input of a small task, and on 10,000 "
    "random inputs of a larger one, many of full length, in arithmetics in which it is proven there."
)
ARITHMETICS: Final = ("float64", "float32", "nearest:25", "nearest:49", "down:16,4", "down:2,20")

SIZES: Final[Mapping[tuple[str, str], tuple[dict[str, Any], dict[str, Any]]]] = {
    ("S-T1", "index-lookup"): ({"n": 8, "alphabet": 4}, {"n": 200}),
    ("S-E-cited", "dyck"): ({"n": 10}, {"n": 100}),
    ("S-T7", "nearest-neighbour"): ({"n": 3, "dimension": 5, "margin": 0.4}, {"n": 64}),
    ("S-T7", "mqar"): ({"n": 6, "vocabulary_size": 8}, {"n": 64, "vocabulary_size": 256}),
    ("S-T7", "associative-recall"): ({"n": 3, "keys": 8, "values": 6}, {"n": 64}),
    ("R-qSA", "q-sparse-averaging"): ({"n": 3, "q": 2, "grid": 2}, {"n": 20, "q": 3}),
    ("R-M2", "match2"): ({"n": 6, "modulus": 10}, {"n": 100, "modulus": 128}),
    ("R-M3", "match3"): ({"n": 6, "modulus": 10}, {"n": 24, "modulus": 64}),
    ("R-M3′", "match3"): ({"n": 6, "modulus": 10}, {"n": 40, "modulus": 64}),
    ("UP-M3", "match3"): ({"n": 6, "modulus": 10}, {"n": 8, "modulus": 16}),
    ("R-G", "cycle3"): ({"n": 5}, {"n": 16}),
    ("R-G", "cycle5"): ({"n": 6}, {"n": 8}),
    ("S-T6", "equality"): ({"n": 12, "alphabet": 3}, {"n": 200, "form": "one"}),
    ("S-L5", "equality"): ({"n": 12, "alphabet": 3}, {"n": 100, "form": "one"}),
    ("S-T13", "sparse-threshold"): ({"n": 20, "k": 3}, {"n": 100, "k": 3}),
    ("S-T13", "disjointness"): ({"n": 20}, {"n": 200}),
    ("UP-TF1", "dyck"): ({"n": 10}, {"n": 64}),
    ("UP-TF1", "equality"): ({"n": 12, "alphabet": 3}, {"n": 64}),
    ("UP-TF1", "disjointness"): ({"n": 20}, {"n": 64}),
    ("S-E", "dyck"): ({"n": 10}, {"n": 200}),
    ("UP-RNN", "index-lookup"): ({"n": 8, "alphabet": 4}, {"n": 64}),
    ("UP-RNN", "associative-recall"): ({"n": 3, "keys": 8, "values": 6}, {"n": 32}),
    ("UP-RNN", "mqar"): ({"n": 6, "vocabulary_size": 8}, {"n": 32, "vocabulary_size": 64}),
    ("UP-RNN", "equality"): ({"n": 12, "alphabet": 3}, {"n": 100, "form": "one"}),
}


def tasks_of(entry: Entry) -> dict[str, Task]:
    """The small task and the long one, with what this construction asks for."""
    found = {}
    for name, parameters in zip(("every input", "random"), SIZES[entry.theorem, entry.task], strict=True):
        kind = TASKS.get(entry.task)
        task = make(kind, {**parameters, **asked(entry)})
        if entry.theorem == "S-L5":
            task = make(kind, {**parameters, "alice": tuple(range(0, task.n, 2)), "lengths": "full"})
        found[name] = task
    return found


def plan() -> None:
    """For every witness and both tasks, the arithmetics in which it is built and proven."""
    from separatrix.certificates.searching import is_proved

    lines = []
    for entry in CATALOGUE:
        for name, task in tasks_of(entry).items():
            assert name == "random" or task.domain_size() <= 1 << 20, (entry, task.domain_size())
            proven = []
            for arithmetic in ARITHMETICS:
                try:
                    witness = entry.builder()(task, Choices(system=system_named(arithmetic)))
                except SeparatrixError:
                    continue
                if is_proved(witness):
                    proven.append(arithmetic)
            key = [entry.theorem, entry.task, entry.family, entry.variant]
            lines.append({"witness": key, "inputs": name, "arithmetics": proven})
            print(*key, name, proven, flush=True)
    _write(PLAN, lines)


def run(device: str) -> None:
    """Run the plan, going on where an earlier run was cut off."""
    found = json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.exists() else []
    done = {(*line["witness"], line["inputs"], line["arithmetics"]) for line in found}
    for line in json.loads(PLAN.read_text(encoding="utf-8")):
        entry = next(
            each
            for each in CATALOGUE
            if [each.theorem, each.task, each.family, each.variant] == line["witness"]
        )
        task = tasks_of(entry)[line["inputs"]]
        for arithmetic in _chosen(line["arithmetics"]):
            if (*line["witness"], line["inputs"], arithmetic) in done:
                continue
            model = entry.builder()(task, Choices(system=system_named(arithmetic))).model
            begin, tried, wrong = time.perf_counter(), 0, 0
            for rows in _batches(task, line["inputs"], device, model.work(task.length)):
                tried += len(rows)
                wrong += int(_wrong(model.answers(rows), task, rows).sum())
            seconds = round(time.perf_counter() - begin, 1)
            made = {**line, "arithmetics": name_of(system_named(arithmetic)), "tried": tried, "wrong": wrong}
            found.append({**made, "task": repr(task), "seconds": seconds, "device": device})
            print(*line["witness"], line["inputs"], arithmetic, tried, wrong, seconds, flush=True)
            _write(FOUND, found)


def _chosen(proven: list[str]) -> list[str]:
    """Floats, and the coarsest fixed point of either kind."""
    kinds = ("float64", "float32", "nearest", "down")
    first = (next((each for each in proven if each.startswith(kind)), None) for kind in kinds)
    return [each for each in first if each is not None]


def _batches(task: Task, which: str, device: str, work: int) -> Iterator[Tensor]:
    size = max(1, min(1 << 14, (1 << 25) // work))
    if which == "every input":
        for rows in task.enumerate(chunk=size):
            yield rows.to(device)
        return
    longest = task.full_length()
    for start in range(0, RANDOM, size):
        count = min(size, RANDOM - start)
        yield (
            (longest if (start // size) % 2 else task)
            .sample(count, seed=11, start=start, device=device)
            .inputs
        )


def _wrong(answers: Tensor, task: Task, rows: Tensor) -> Tensor:
    labels, space = task.solve(rows), task.target_space
    if isinstance(space, Vectors):
        right = (answers - labels.targets.double()).norm(dim=2) < space.tolerance
    else:
        right = answers == labels.targets
    wrong: Tensor = (~right & labels.mask).any(1)
    return wrong


def table() -> None:
    """The results as a page."""
    found = json.loads(FOUND.read_text(encoding="utf-8"))
    rows = [
        "# Every input, and random ones",
        "",
        ABOUT,
        "",
        "| theorem | task | inputs | tried | wrong, by arithmetic |",
        "|---|---|---|---:|---|",
    ]
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for line in found:
        theorem, _, family, variant = line["witness"]
        name = f"{theorem}, {family}{', ' if variant else ''}{variant}"
        groups.setdefault((name, line["task"], line["inputs"]), []).append(line)
    for (name, task, which), lines in groups.items():
        wrong = ", ".join(f"{line['arithmetics']}: {line['wrong']}" for line in lines)
        rows.append(f"| {name} | `{task[:90]}` | {which} | {lines[0]['tried']:,} | {wrong} |")
    total = sum(line["tried"] for line in found)
    mistakes = sum(line["wrong"] for line in found)
    rows += ["", f"{total:,} runs in all, {mistakes} wrong; on {found[0]['device']}."]
    with written_whole(TABLE) as file:
        file.write("\n".join(rows) + "\n")


def _write(path: Path, data: object) -> None:
    with written_whole(path) as file:
        file.write(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("step", choices=("plan", "run", "table"))
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    if arguments.step == "plan":
        plan()
    elif arguments.step == "run":
        run(arguments.device)
    else:
        table()


if __name__ == "__main__":
    main()
