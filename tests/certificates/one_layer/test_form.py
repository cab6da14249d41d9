"""Tables and tail together are the model: the same outputs as its own forward, in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from separatrix.certificates.one_layer.attention import attention_of
from separatrix.certificates.questions import questions_of
from separatrix.tasks import task
from tests.certificates.one_layer.drawn import drawn, every, outputs, seen_by, spelled

MODELS_AND_TASKS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("transformer", {}, "index-lookup", {"n": 5, "alphabet": 3}),
    ("transformer", {"tied": True, "embedding": "sinusoidal"}, "index-lookup", {"n": 4, "alphabet": 3}),
    ("transformer", {"embedding": "frozen", "heads": 4}, "index-lookup", {"n": 4, "alphabet": 3}),
    ("transformer", {"heads": 1}, "index-lookup", {"n": 11, "alphabet": 2}),
    ("transformer", {}, "associative-recall", {"n": 3, "keys": 3, "values": 3, "order": "fixed"}),
    ("transformer", {}, "associative-recall", {"n": 4, "form": "sequence", "alphabet": 3}),
    ("transformer", {"causal": False}, "match2", {"n": 4, "modulus": 4}),
    ("transformer", {"causal": False}, "q-sparse-averaging", {"n": 3, "q": 2}),
    ("transformer", {}, "dyck", {"n": 6, "types": 2, "depth": 2}),
    ("transformer", {}, "dyck", {"n": 6, "types": 2, "depth": 2, "form": "next"}),
    ("transformer", {"causal": False}, "dyck", {"n": 6, "types": 1, "depth": 2, "form": "next"}),
    ("llama", {}, "index-lookup", {"n": 5, "alphabet": 3}),
    ("llama", {"tied": True, "heads": 4}, "index-lookup", {"n": 4, "alphabet": 3}),
    ("llama", {"causal": False}, "match2", {"n": 4, "modulus": 4}),
    ("llama", {"causal": False, "heads": 1}, "q-sparse-averaging", {"n": 3, "q": 1, "sizes": "up-to"}),
    ("llama", {}, "dyck", {"n": 6, "types": 1, "depth": 2, "form": "next"}),
]


@pytest.mark.parametrize(("kind", "params", "name", "sizes"), MODELS_AND_TASKS)
def test_tables_and_tail_are_the_model(
    kind: str, params: dict[str, Any], name: str, sizes: dict[str, Any]
) -> None:
    asked = task(name, **sizes)
    population = drawn(asked, kind, seed=3, scale=15, **params)
    questions = questions_of(asked)
    for number in {0, len(questions) // 2, len(questions) - 1}:
        question = questions[number]
        form, tables = seen_by(population, question)
        assert bool((tables.weights <= 1).all())
        region = question.regions[-1]
        options = every(region, tables.positions)[:300]
        rows = spelled(asked, question, region, options)
        found = form.tail(tables.stream(*tables.sums(options)))
        for at in (True, False):
            torch.testing.assert_close(
                found, outputs(population, question, rows, at=at), rtol=1e-12, atol=1e-12
            )


@pytest.mark.parametrize("kind", ["transformer", "llama"])
def test_attention_of_one_input(kind: str) -> None:
    """The weights add up to 1, and their mean of the values is what the tables' sums are."""
    asked = task("index-lookup", n=5, alphabet=3)
    population = drawn(asked, kind, scale=15)
    question = questions_of(asked)[2]
    _, tables = seen_by(population, question)
    options = every(question.regions[1], tables.positions)[7:8]
    row = spelled(asked, question, question.regions[1], options)[0]
    weights = attention_of(population, row, question.asked)[:, : tables.positions]
    above, below = tables.sums(options)
    place = torch.arange(tables.positions)
    torch.testing.assert_close(weights.sum(1), torch.ones(len(weights), dtype=torch.float64))
    torch.testing.assert_close(
        torch.einsum("ht,htp->hp", weights, tables.values[:, place, options[0]]),
        (above / below[..., None])[0],
    )
