"""What a unit attends to: against the model itself, the target by hand, and the witness's own answers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.experiments import study_of
from separatrix.experiments.attention_pictures import AttentionPictures, attention_picture, distance, figure
from separatrix.experiments.local import LocalEngine
from separatrix.experiments.protocols import Settings
from separatrix.experiments.r_qsa import (
    attention_of,
    qsa_jobs,
    qsa_pictures,
    qsa_task,
    shown_input,
    target_pattern,
    witness_attention,
)
from separatrix.experiments.reproducing import reproduce
from separatrix.figures import encoded, styled
from separatrix.models.population import signature_of
from separatrix.models.sparse_set_unit import SparseSetUnit
from separatrix.store import Store
from separatrix.tasks.q_sparse_averaging import QSparseAveraging
from separatrix.training.evaluation import TEST_EXAMPLES_FROM, TEST_SEED
from separatrix.training.running import run_job
from separatrix.witnesses import witness_for

TASK = QSparseAveraging(n=7, q=2, d=2, grid=2, sizes="up-to")


@pytest.fixture(scope="module")
def pictures() -> AttentionPictures:
    return qsa_pictures(None, "smoke", device="cpu")


def example_of(task: QSparseAveraging, seed: int) -> Tensor:
    return task.sample(1, seed=seed).inputs[0]


def test_attention_times_values_is_what_a_unit_answers() -> None:
    unit = SparseSetUnit(SparseSetUnit.Config(width=6), signature_of(TASK), members=2).initialise([4, 5])
    example = example_of(TASK, 1)
    held = unit.value(unit.reading(example.expand(2, 1, *example.shape)))[0, 0]
    answers = unit(example.expand(2, 1, *example.shape))[0, 0]
    assert torch.allclose(attention_of(unit, example) @ held, answers, atol=1e-6)
    assert torch.equal(attention_of(unit, example), attention_of(unit.alone(0), example))


@pytest.mark.parametrize("task", [TASK, qsa_task("smoke"), qsa_task("quick")], ids=str)
def test_the_witness_s_attention_times_values_is_what_it_answers(task: QSparseAveraging) -> None:
    """The elements that are not shown have the value 0, so nothing is missing from the sum."""
    witness = witness_for(task, family="transformer-1")
    example = example_of(task, 2)
    answers = witness.model.forward(example.unsqueeze(0))[0]
    weights = witness_attention(witness, example)
    assert torch.allclose(weights @ example[:, : task.d].double(), answers, rtol=0, atol=1e-9)
    assert distance(weights, target_pattern(task, example)) < 1 / (4 * task.q)


def test_the_target_is_one_over_q_at_the_members() -> None:
    example = example_of(TASK, 3)
    pattern = target_pattern(TASK, example).tolist()
    sizes = set()
    for query, row in enumerate(example.tolist()):
        members = {int(number) for number in row[2:] if number}
        sizes.add(len(members))
        assert pattern[query] == [0.5 if place in members else 0.0 for place in range(1, 8)]
    assert sizes == {0, 1, 2}
    means = torch.tensor(pattern) @ example[:, :2]
    assert torch.allclose(means, TASK.solve(example.unsqueeze(0)).targets[0])


def test_the_distance_is_the_weight_in_the_wrong_place() -> None:
    target = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.0]])
    weights = torch.tensor([[0.5, 0.2, 0.3], [0.0, 0.5, 0.5], [0.0, 0.25, 0.0]])
    # 0.3 goes from place 3 to 2; 0.5 from place 3 to what is not shown; 0.25 likewise.
    assert distance(weights, target) == pytest.approx((0.3 + 0.5 + 0.25) / 3)
    assert distance(target, target) == 0.0
    assert distance(torch.eye(3)[[2, 0, 0]], target) == 1.0


def test_runs_differ_in_their_steps_alone_and_one_begins_the_other() -> None:
    short, long = qsa_jobs("smoke")
    assert dataclasses.replace(short.training, steps=60, eval_every=3) == long.training
    assert (short.task, short.model, short.members) == (long.task, long.model, long.members)
    stopped = dataclasses.replace(long, training=dataclasses.replace(long.training, eval_every=30))
    (brief,), (whole,) = (run_job(job, device="cpu") for job in (short, stopped))
    assert [point.step for point in whole.curve] == [30, 60]
    assert whole.curve[0].correct == brief.curve[-1].correct
    assert whole.curve[0].label_accuracy == brief.curve[-1].label_accuracy


def test_the_budgets_have_r_s_size() -> None:
    for budget in ("quick", "paper"):
        (first, second) = qsa_jobs(budget)
        assert (first.training.steps, second.training.steps) == (1_000, 40_000)
        assert second.training.stop == "never"
        assert (qsa_task(budget).n, qsa_task(budget).q) == (20, 3)
        assert second.members[0].schedule == "constant"


@pytest.mark.slow
def test_pictures_show_the_first_test_input(pictures: AttentionPictures) -> None:
    task = qsa_task("smoke")
    example = task.sample(1, seed=TEST_SEED, start=TEST_EXAMPLES_FROM).inputs[0]
    assert torch.equal(shown_input(task), example)
    assert pictures.text == task.render(example)
    assert [list(members) for members in pictures.sets] == example[:, 1:].long().tolist()
    assert torch.allclose(
        torch.tensor(pictures.target), target_pattern(task, example).float(), rtol=0, atol=1e-4
    )
    assert pictures.steps == (0, 30, 60)
    begun = qsa_jobs("smoke")[0].population(1).initialise([0])
    assert isinstance(begun, SparseSetUnit)
    first = torch.tensor(pictures.trained[0].weights)
    assert torch.allclose(first, attention_of(begun, example), rtol=0, atol=6e-5)


def test_a_unit_comes_nearer_to_the_target(pictures: AttentionPictures) -> None:
    distances = [picture.distance for picture in pictures.trained]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.75 * distances[0]
    assert pictures.trained[-1].label_accuracy > pictures.trained[0].label_accuracy
    assert (pictures.witness.right, pictures.witness.label_accuracy) == (200, 1.0)
    assert pictures.witness.distance < 0.1


def test_the_record_comes_back(pictures: AttentionPictures) -> None:
    text = json.dumps(pictures.to_json(), allow_nan=False)
    assert AttentionPictures.from_json(json.loads(text)) == pictures
    assert json.loads(text)["target"][0] == list(pictures.target[0])


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("target", [[0.5] * 6] * 6, "contradicts"),
        ("q", 1, "at most q=1 members"),
        ("steps", [0, 60, 30], "these rise"),
        ("steps", [0, 30, "60"], "whole numbers"),
        ("sets", [[1, 2]] * 5, "as many rows"),
        ("sets", [[1, 9]] * 6, "places from 1 to 6"),
        ("sets", [3] * 6, "whole numbers"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(
    pictures: AttentionPictures, field: str, value: object, said: str
) -> None:
    with pytest.raises(InvalidFile, match=said):
        AttentionPictures.from_json({**pictures.to_json(), field: value})


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("weights", [[0.5, 0.5]], "a square"),
        ("weights", [[True]], "rows of numbers"),
        ("weights", [[1.5]], "between 0 and 1"),
        ("weights", [[float("nan")]], "between 0 and 1"),
        ("right", 201, "at most all"),
        ("distance", -0.1, "between 0 and 1"),
        ("name", " ", "needs its name"),
    ],
)
def test_a_picture_that_is_none_is_refused(
    pictures: AttentionPictures, field: str, value: object, said: str
) -> None:
    data = pictures.witness.to_json()
    with pytest.raises(InvalidFile, match=said):
        type(pictures.witness).from_json({**data, field: value})


def test_weights_are_rounded_to_four_digits() -> None:
    weights = torch.tensor([[0.123456, 0.876544], [0.0, 1.0]])
    picture = attention_picture("x", weights, torch.eye(2), right=1, examples=2, label_accuracy=0.75)
    assert picture.weights == ((0.1235, 0.8765), (0.0, 1.0))
    assert picture.distance == round((0.876544 + 0) / 2, 4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["png", "svg"])
def test_the_figure_is_the_same_to_the_last_byte(pictures: AttentionPictures, kind: str) -> None:
    with styled():
        first, second = (encoded(figure(pictures), kind) for _ in range(2))
    assert first == second
    assert len(first) > 1000


def test_the_figure_shows_every_matrix_on_one_scale(pictures: AttentionPictures) -> None:
    drawing = figure(pictures)
    images = [axes.images[0] for axes in drawing.axes if axes.images]
    shown = [*(picture.weights for picture in pictures.trained), pictures.target, pictures.witness.weights]
    assert [np.asarray(image.get_array()).tolist() for image in images] == [
        [list(row) for row in one] for one in shown
    ]
    assert len({image.get_clim() for image in images}) == 1
    headings = [axes.get_title("left") for axes in drawing.axes if axes.images]
    assert headings == ["0 steps", "30 steps", "60 steps", "target", "the theorem's unit"]


@pytest.mark.slow
def test_the_study_trains_measures_and_draws(tmp_path: Path) -> None:
    study, store = study_of("r-qsa", Settings(seeds=(3, 0))), Store(tmp_path / "runs")
    assert study.illustrate is not None
    assert study.illustrate(store) == ()
    found = reproduce(study, store, engine=LocalEngine(device="cpu"), device="cpu")
    assert not found.failed
    unit, witness = found.outcome.cells
    assert (unit.cell.row, unit.runs, unit.state) == ("unit-(1,16)", 4, "done")
    assert (witness.accuracy, witness.cell.column) == (1.0, 6)
    keys = store.all_keys()
    (drawn,) = study.illustrate(store)
    assert store.all_keys() == keys
    assert isinstance(drawn.record, AttentionPictures)
    assert drawn.record.member.seed == 3
    assert drawn.record == qsa_pictures(None, "smoke", seed=3, device="cpu")
    assert drawn.draw().axes


def test_an_unknown_budget_is_refused() -> None:
    with pytest.raises(InvalidInput, match="smoke, quick or paper"):
        study_of("r-qsa", Settings(budget="tiny"))  # type: ignore[arg-type]
