"""Every architecture learns what is easy for it, on a CPU."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.models import MODELS
from separatrix.tasks import Task, task
from separatrix.training import Member, Training, train

Case = tuple[dict[str, Any], Task, float, int, float]
"""Its parameters, the task, the learning rate, the most steps, and the accuracy to come to."""

QUICK: dict[str, Case] = {
    "transformer": ({}, task("index-lookup", n=20), 1e-3, 800, 0.99),
    "lstm": ({"width": 32}, task("dyck", n=20), 1e-2, 1200, 0.99),
}
OTHERS: dict[str, Case] = {
    "llama": ({"layers": 2, "width": 32}, task("dyck", n=12), 3e-3, 1000, 0.99),
    "linear-transformer": (
        {"layers": 2, "width": 32},
        task("index-lookup", n=8, alphabet=8),
        3e-3,
        1000,
        0.99,
    ),
    "retnet": ({"layers": 2, "width": 32}, task("dyck", n=12), 3e-3, 1000, 0.99),
    "dss": ({"layers": 2, "width": 32, "state": 16}, task("dyck", n=12), 5e-3, 1000, 0.99),
    "mamba": ({"layers": 2, "width": 32}, task("dyck", n=12), 5e-3, 1000, 0.99),
    "hybrid": (
        {"base": "lstm", "layers": 1, "width": 32},
        task("index-lookup", n=8, alphabet=8),
        5e-3,
        1000,
        0.99,
    ),
    "linear-rnn": ({"layers": 2, "width": 32, "state": 32}, task("dyck", n=12), 3e-3, 1000, 0.99),
    "third-order": ({"layers": 1, "width": 32}, task("match3", n=4, modulus=4), 3e-3, 600, 0.99),
    "graph-transformer": ({"layers": 2, "width": 32}, task("cycle3", n=4), 3e-3, 1500, 0.9),
    "fnn": ({"layers": 2, "width": 128}, task("disjointness", n=8), 3e-3, 600, 0.99),
}


def learns(name: str, case: Case) -> None:
    params, asked, rate, steps, wanted = case
    training = Training(
        steps=steps, batch=64, eval_every=100, eval_examples=500, test_examples=1000, solved=0.995
    )
    members = [Member(lr=rate, seed=0)]
    (found,) = train(
        asked, MODELS.get(name).Config(**params), members=members, training=training, device="cpu"
    )
    assert found.accuracy >= wanted, f"{name} is right on {found.accuracy:.1%} of {asked.name}"


def test_every_model_has_its_case() -> None:
    assert {*QUICK, *OTHERS} == set(MODELS.names())


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_it_learns_its_easy_case(name: str) -> None:
    learns(name, QUICK[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_the_others_learn_theirs(name: str) -> None:
    learns(name, OTHERS[name])
