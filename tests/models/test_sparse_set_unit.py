"""R's unit for sparse averaging: against its formula written out number by number, and like every model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.models import MODELS, model
from separatrix.models.population import signature_of
from separatrix.models.sparse_set_unit import SparseSetUnit
from separatrix.models.specs import build, model_spec_of
from separatrix.tasks.equality import Equality
from separatrix.tasks.nearest_neighbour import NearestNeighbour
from separatrix.tasks.q_sparse_averaging import QSparseAveraging
from separatrix.testing.model_conformance import ModelConformance, Trial

AVERAGING = QSparseAveraging(n=5, q=2, d=3, sizes="up-to")


class TestTheUnit(ModelConformance):
    def populations(self) -> Sequence[Trial]:
        return [
            (SparseSetUnit, SparseSetUnit.Config(width=8), AVERAGING),
            (SparseSetUnit, SparseSetUnit.Config(width=5), QSparseAveraging(n=7, q=1)),
        ]


def made(members: int = 2) -> SparseSetUnit:
    unit = SparseSetUnit(SparseSetUnit.Config(width=4), signature_of(AVERAGING), members=members)
    return unit.initialise(range(3, 3 + members)).double()


def by_hand(unit: SparseSetUnit, member: int, row: list[list[float]]) -> tuple[list[list[float]], ...]:
    """The weights and the answers, with Python's own numbers and R's formula."""
    names, places = unit.reading.names[member].tolist(), unit.reading.places[member].tolist()
    inward, query, key, value = (
        linear.weight[member].tolist() for linear in (unit.reading.inward, unit.query, unit.key, unit.value)
    )

    def times(vector: list[float], matrix: list[list[float]]) -> list[float]:
        return [
            sum(x * line[c] for x, line in zip(vector, matrix, strict=True)) for c in range(len(matrix[0]))
        ]

    elements = []
    for i, numbers in enumerate(row):
        element = [a + b for a, b in zip(times(numbers[:3], inward), places[i], strict=True)]
        for member_of_set in numbers[3:]:
            element = [a + b for a, b in zip(element, names[int(member_of_set)], strict=True)]
        elements.append(element)
    weights, answers = [], []
    for asking in elements:
        logits = [
            sum(a * b for a, b in zip(times(asking, query), times(other, key), strict=True))
            for other in elements
        ]
        masses = [math.exp(logit) for logit in logits]
        weights.append([mass / sum(masses) for mass in masses])
        held = [times(other, value) for other in elements]
        answers.append([sum(w * v[c] for w, v in zip(weights[-1], held, strict=True)) for c in range(3)])
    return weights, answers


def test_it_is_r_s_formula() -> None:
    unit = made()
    inputs = AVERAGING.sample(6, seed=1).inputs.view(2, 3, 5, 5)
    assert (inputs[..., 3:] == 0).any()  # absent members are among them
    weights, outputs = unit.attention(inputs), unit(inputs)
    for member in range(2):
        for example in range(3):
            expected, answers = by_hand(unit, member, inputs[member, example].tolist())
            assert torch.allclose(weights[member, example], torch.tensor(expected).double(), atol=1e-6)
            assert torch.allclose(outputs[member, example], torch.tensor(answers).double(), atol=1e-6)


def test_the_attention_is_what_the_answers_are_made_with() -> None:
    unit, inputs = made(), AVERAGING.sample(6, seed=2).inputs.view(2, 3, 5, 5)
    held = unit.value(unit.reading(inputs))
    assert torch.allclose(unit.attention(inputs) @ held, unit(inputs), rtol=0, atol=1e-12)
    assert torch.allclose(unit.attention(inputs).sum(-1), torch.ones(2, 3, 5).double())


def test_it_is_found_by_name_and_listed_nowhere() -> None:
    config = model("sparse-set-unit", width=6)
    assert isinstance(config, SparseSetUnit.Config)
    spec = model_spec_of(SparseSetUnit, config)
    assert spec.to_fields() == {"name": "sparse-set-unit", "params": {"layers": 1, "width": 6}}
    assert isinstance(build(spec, signature_of(AVERAGING), 1), SparseSetUnit)
    assert "sparse-set-unit" not in MODELS.names()


def test_its_size_is_counted() -> None:
    size = made(1).size(5, 32)
    assert (size.heads, size.ffn_width, size.layers, size.width) == (1, 0, 1, 4)
    assert size.embedding_parameters == 4 * (6 + 5)
    assert size.parameters_without_embeddings == 4 * (3 + 4 + 4 + 3)


@pytest.mark.parametrize("task", [Equality(n=4), NearestNeighbour(n=4)], ids=str)
def test_other_tasks_are_refused(task: Equality | NearestNeighbour) -> None:
    with pytest.raises(InvalidInput, match="values with sets of places"):
        SparseSetUnit(SparseSetUnit.Config(), signature_of(task), members=1)


def test_it_is_one_layer() -> None:
    with pytest.raises(InvalidInput, match="SparseSetUnit is one layer; got layers=2"):
        SparseSetUnit.Config(layers=2)
