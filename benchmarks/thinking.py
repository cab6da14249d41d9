"""Models that write and search, run for real: how often they are right, how fast, and how little they carry.

    python -m benchmarks.thinking [graphs] [speed] [state] [precision] [small]      # all by default
    python -m benchmarks.thinking graphs --families transformer-cot --device cuda --out FOLDER

`graphs` decides every graph of up to five vertices in every order of its edges, and 1000 random ones of
several sizes, by each family, and compares every tour with the task's own. `small` does the same for Index,
associative recall, c-gram retrieval and Counting. `state` counts what linear RNNs carry, `precision` searches
the least p, `speed` decodes. A section that is not asked for keeps its figures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from benchmarks.thinking_tables import page
from separatrix.files import written_whole
from separatrix.generation.decoding import generate
from separatrix.generation.runs import Run
from separatrix.generation.scripts import TreeScript
from separatrix.models.interface import CausalModel
from separatrix.tasks import Task, task
from separatrix.tasks.is_tree import IsTree
from separatrix.version import __version__
from separatrix.witnesses import Witness, witness_for
from separatrix.witnesses.solving import ask

HERE = Path(__file__).parent
DATA = HERE / "results" / "thinking.json"
Row = dict[str, Any]

FORMS: Final[dict[str, Row]] = {
    "transformer-cot": {"form": "cot"},
    "linear-rnn+retrieval": {"form": "retrieval", "trace": "full"},
    "hybrid-cot": {"form": "cot"},
}
SMALL: Final[dict[str, Callable[[int], Task]]] = {
    "index-lookup": lambda n: task("index-lookup", n=n, alphabet=64),
    "associative-recall": lambda n: task("associative-recall", n=n),
    "c-gram": lambda n: task("c-gram", n=n),
    "counting": lambda n: task("counting", n=n),
}
TINY: Final[dict[str, Callable[[], Task]]] = {
    "index-lookup": lambda: task("index-lookup", n=6, alphabet=3),
    "associative-recall": lambda: task("associative-recall", n=4, form="sequence", alphabet=3),
    "c-gram": lambda: task("c-gram", n=6, c=3, alphabet=3),
    "counting": lambda: task("counting", n=6, alphabet=3),
}
SMALL_FAMILIES: Final = ("transformer", "hybrid", "linear-rnn+retrieval")
THEOREMS: Final = ("W-4.1", "W-4.6", "W-4.7", "W-4.8", "W-5.2", "W-5.3", "W-5.4", "W-5.6", "W-5.7", "W-5.8")
SIZES: Final = (16, 64, 128)
STATE_SIZES: Final = (16, 64, 256, 1024)
RANDOM: Final = 1000
BATCH: Final = 250


def tree_task(family: str, n: int, graphs: str = "hub") -> IsTree:
    made = task("is-tree", n=n, graphs=graphs, **FORMS[family])
    assert isinstance(made, IsTree)
    return made


def decided(witness: Witness, rows: Tensor, device: str) -> tuple[list[Run], Row]:
    """Runs of all rows, and how many answers and tours are right."""
    script, chosen = witness.script, witness.task
    assert isinstance(script, TreeScript)
    assert isinstance(chosen, IsTree)
    assert isinstance(witness.model, CausalModel)
    started = time.perf_counter()
    prompts = [script.prompt(row) for row in rows]
    runs = generate(witness.model, prompts, script, batch=BATCH, device=device)
    seconds = time.perf_counter() - started
    right, tours = compared(chosen, script, rows, runs)
    trees = int((chosen.solve(rows).answer == 1).sum())
    return runs, {
        "graphs": len(rows),
        "trees": trees,
        "right": right,
        "tours": tours,
        "tokens": sum(len(run.written) for run in runs),
        "most_tokens": max(len(run.written) for run in runs),
        "searches": max(len(run.searches) for run in runs),
        "unanswered": sum(run.outcome != "answered" for run in runs),
        "seconds": round(seconds, 2),
    }


def compared(chosen: IsTree, script: TreeScript, rows: Tensor, runs: Sequence[Run]) -> tuple[int, int]:
    """How many answers are right; and how many tours are algorithm 1's, word by word until the answer."""
    told = task("is-tree", n=chosen.n, form="cot")
    assert isinstance(told, IsTree)
    prompts = torch.full((len(rows), told.length), told.vocabulary.size - 1)
    prompts[:, : told.prompt] = rows[
        :, : chosen.prompt
    ]  # the words of a graph have the same numbers in all forms
    labels, first = told.solve(prompts), told.vocabulary.offset("vertex")
    right = tours = 0
    for run, targets, mask, answer in zip(
        runs, labels.targets, labels.mask, labels.answer.tolist(), strict=True
    ):
        right += run.outcome == "answered" and script.answer(run.written) == answer
        whole = (targets[mask][:-1] - first).tolist()
        found = script.tour(run.written)
        tours += found == (whole if answer else whole[: len(found)])
    return right, tours


def graphs(arguments: argparse.Namespace) -> Iterator[Row]:
    """Every small graph in every order; random ones, half of them trees, hubs and uniform."""
    for family in arguments.families:
        for n in range(1, 6):
            chosen = tree_task(family, n)
            witness = witness_for(chosen, family=family)
            rows = torch.cat(list(chosen.enumerate()))
            yield {"family": family, "law": "all", "n": n, **decided(witness, rows, arguments.device)[1]}
        for n in arguments.sizes:
            witness = witness_for(tree_task(family, n), family=family)
            for law in ("hub", "uniform"):
                rows = tree_task(family, n, law).sample(RANDOM, seed=n).inputs
                found = decided(witness, rows, arguments.device)[1]
                yield {"family": family, "law": law, "n": n, **found}


def small(arguments: argparse.Namespace) -> Iterator[Row]:
    """Index, associative recall, c-gram retrieval and Counting: every input, then random ones."""
    for family in SMALL_FAMILIES:
        for name, make in SMALL.items():
            tiny = TINY[name]()
            rows = torch.cat(list(tiny.enumerate()))
            yield {"family": family, "task": name, "inputs": "all", **answered(tiny, family, rows)}
            for n in (64, 512, 4096):
                chosen = make(n)
                rows = chosen.full_length().sample(min(64, (1 << 16) // n), seed=n).inputs
                yield {"family": family, "task": name, "inputs": "random", **answered(chosen, family, rows)}


def answered(chosen: Task, family: str, rows: Tensor) -> Row:
    witness = witness_for(chosen, family=family)
    labels = chosen.solve(rows)
    started = time.perf_counter()
    if witness.script is None:
        asked = labels.mask.int().argmax(1, keepdim=True)
        wrong = witness.model.answers(rows, at=asked)[:, 0] != labels.answer
        searches = 0
    else:
        solutions = ask(witness, rows)
        found = [-1 if each.answer is None else int(each.answer[0]) for each in solutions]
        wrong = torch.tensor(found) != labels.answer
        searches = max(len(each.run.searches) for each in solutions if each.run is not None)
    seconds = time.perf_counter() - started
    return {
        "n": chosen.n,
        "count": len(rows),
        "right": int((~wrong).sum()),
        "searches": searches,
        "width": witness.size.width,
        "layers": witness.size.layers,
        "parameters": witness.size.parameters_without_embeddings,
        "seconds": round(seconds, 2),
    }


def speed(arguments: argparse.Namespace) -> Iterator[Row]:
    """Tokens a second of the IsTree Transformer; one tree of 1000 vertices by every family."""
    family = "transformer-cot"
    witness = witness_for(tree_task(family, 128), family=family)
    for batch in (1, 64):
        rows = only_trees(tree_task(family, 128, "uniform"), batch)
        decided(witness, rows[:1], arguments.device)
        row = decided(witness, rows, arguments.device)[1]
        yield {"family": family, "n": 128, "batch": batch, **row, "tokens_a_second": rate(row)}
    for each in arguments.families:
        chosen = tree_task(each, 1000, "uniform")
        started = time.perf_counter()
        built = witness_for(chosen, family=each)
        building = time.perf_counter() - started
        row = decided(built, only_trees(chosen, 1), arguments.device)[1]
        yield {
            "family": each,
            "n": 1000,
            "batch": 1,
            **row,
            "building": round(building, 2),
            "tokens_a_second": rate(row),
        }


def rate(row: Row) -> int:
    return int(row["tokens"] / row["seconds"])


def only_trees(chosen: IsTree, count: int) -> Tensor:
    rows, seed = torch.empty(0, chosen.length, dtype=torch.int64), 0
    while len(rows) < count:
        batch = chosen.sample(4 * count, seed=seed)
        rows = torch.cat([rows, batch.inputs[chosen.solve(batch.inputs).answer == 1]])
        seed += 1
    return rows[:count]


def state(_: argparse.Namespace) -> Iterator[Row]:
    """What linear RNNs with retrieval carry: numbers, bits of a number, bits; and how often they search."""
    from benchmarks.least_bits import least_bits

    tasks: dict[str, Callable[[int], Task]] = {
        **SMALL,
        "is-tree": lambda n: tree_task("linear-rnn+retrieval", n, "uniform"),
    }
    for name, make in tasks.items():
        for n in STATE_SIZES:
            chosen = make(n)
            witness = witness_for(chosen, family="linear-rnn+retrieval")
            rows = (
                only_trees(chosen, 1)
                if isinstance(chosen, IsTree)
                else chosen.full_length().sample(1, seed=1).inputs
            )
            solution = ask(witness, rows)[0]
            assert solution.run is not None
            # The scores of the tied embedding, up to n² + 1, are the largest numbers there are.
            likely = 2 * max(chosen.n**2 + 1, 17).bit_length() + 1 if name == "is-tree" else None
            p, below = least_bits(chosen, "linear-rnn+retrieval", rows, likely=likely)
            numbers = witness.size.state_bits(chosen.length) // witness.size.precision_bits
            yield {
                "task": name,
                "n": n,
                "numbers": numbers,
                "p": p,
                "bits": numbers * p,
                "wrong_below": below,
                "searches": len(solution.run.searches),
                "tokens": solution.steps,
                "right": solution.text == chosen.render_target(chosen.solve(rows).answer[0]),
            }


def precision(arguments: argparse.Namespace) -> Iterator[Row]:
    """The least p at which each witness answers all of its hard inputs, and what goes wrong below it."""
    from benchmarks.least_bits import precision_rows

    yield from precision_rows(arguments.sizes_of_precision, arguments.theorems)


SECTIONS: Final[dict[str, Callable[[argparse.Namespace], Iterator[Row]]]] = {
    "graphs": graphs,
    "small": small,
    "speed": speed,
    "state": state,
    "precision": precision,
}


def machine(device: str) -> str:
    if device.startswith("cuda"):
        return torch.cuda.get_device_name()
    return f"{os.cpu_count()} CPU cores"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=[])
    parser.add_argument("--families", nargs="+", choices=list(FORMS), default=list(FORMS))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--sizes-of-precision", nargs="+", type=int, default=[8, 16])
    parser.add_argument("--theorems", nargs="+", choices=THEOREMS, default=list(THEOREMS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=DATA.parent)
    arguments = parser.parse_args(argv)
    path = arguments.out / DATA.name
    data: Row = json.loads(path.read_text()) if path.exists() else {}
    for name in arguments.sections or SECTIONS:
        kept = [row for row in data.get(name, {}).get("rows", []) if not mine(name, row, arguments)]
        rows: list[Row] = []
        for row in SECTIONS[name](arguments):
            print(json.dumps({name: row}), flush=True)
            rows.append({**row, "machine": machine(arguments.device)})
            data[name] = {"rows": kept + rows, "package": f"separatrix {__version__}"}
            write(path, data)
    data["versions"] = {"torch": torch.__version__, "python": platform.python_version()}
    write(path, data)


def mine(name: str, row: Row, arguments: argparse.Namespace) -> bool:
    """Whether a row is measured anew: those of families and theorems that are not asked for stay."""
    if name == "precision":
        return row["theorem"] in arguments.theorems
    return name not in ("graphs", "speed") or row["family"] in arguments.families


def write(path: Path, data: Row) -> None:
    with written_whole(path) as file:
        file.write(json.dumps(data, indent=1) + "\n")
    with written_whole(path.with_suffix(".md")) as file:
        file.write(page(data))


if __name__ == "__main__":
    main()
