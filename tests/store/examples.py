"""Configs and results as a trainer would hand them over."""

from __future__ import annotations

from separatrix.store import Point, Result, Run, Store


def config(
    seed: int = 0, *, task: str = "index-lookup", model: str = "transformer", n: int = 20
) -> dict[str, object]:
    return {
        "task": {"name": task, "params": {"n": n, "alphabet": 8}},
        "model": {"name": model, "params": {"layers": 1, "width": 64}},
        "member": {"lr": 0.001, "seed": seed, "weight_decay": 0.0, "schedule": "constant", "warmup": 0},
        "training": {"steps": 1000, "batch": 64, "precision": "float32", "clip": 1.0},
    }


RIGHT = Result(
    status="done",
    steps=1000,
    solved_at=400,
    correct=990,
    examples=1000,
    label_accuracy=0.995,
    loss=0.01,
    seconds=2.5,
    provenance={"torch": "2", "threads": 1, "deterministic": True, "commit": None},
)

CURVE = (
    Point(step=0, loss=2.5, rate=0.001, correct=100, examples=1000, label_accuracy=0.1),
    Point(step=500, loss=0.3, rate=0.0005),
    Point(step=1000, loss=0.01, correct=990, examples=1000, n=20),
)


def finished(store: Store, seed: int = 0, result: Result = RIGHT) -> Run:
    run = store.begin(config(seed))
    store.write_curve(run.key, CURVE)
    return store.finish(run.key, result)
