"""The parts of a search: which rows are inputs, how they are changed, and where gradients point."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from separatrix.certificates.attacks.bracket_strings import deep_and_near_miss
from separatrix.certificates.attacks.domains import Domain
from separatrix.certificates.attacks.evolution import crossed, mutated
from separatrix.certificates.attacks.gradients import Options, estimates
from separatrix.certificates.attacks.subjects import labelled, margins_of
from separatrix.errors import InvalidInput
from separatrix.models import MODELS, model
from separatrix.models.population import signature_of
from separatrix.models.stack import Frame
from separatrix.randomness import Draws
from separatrix.tasks import TASKS, ChainTask, Classes, Labels, Task, Vectors, task
from separatrix.tasks.brackets import depths, in_bounded_dyck
from separatrix.tasks.dyck import Dyck
from separatrix.tasks.interface import example_task


def accepted(asked: Task, row: Tensor) -> bool:
    try:
        asked.check(row)
    except InvalidInput:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS.names())
def test_the_domain_says_what_the_task_says_and_searches_stay_inside(name: str) -> None:
    asked = example_task(TASKS.get(name))
    domain = Domain(asked, seed=1)
    rows, batch = domain.pool, 48
    draws = Draws(seed=3, stream="test", batch=batch)
    children = torch.cat(
        [
            mutated(rows[:batch], domain, draws),
            crossed(rows[:batch], rows[-batch:], domain, draws),
            rows[:8],
        ]
    )
    assert children.dtype == rows.dtype
    settled, valid = domain.settled(children)
    if not isinstance(asked, ChainTask):
        assert torch.equal(settled, children)
    assert [accepted(asked, row) for row in settled] == valid.tolist()
    assert bool(valid[-8:].all())
    changed = (children[:batch] != rows[:batch]).flatten(1).any(1)
    assert int(changed.sum()) > batch // 2
    new = int((valid[:batch] & changed).sum())
    # A story in which one letter is changed is no story of the task.
    assert new == 0 if name == "distractor-qa" else new >= 1


def test_broken_rows_of_index_lookup_are_refused_as_the_task_refuses_them() -> None:
    asked = task("index-lookup", n=3, alphabet=2)
    every = torch.cartesian_prod(*[torch.arange(6)] * 4)  # two symbols, three indices, padding
    _, valid = Domain(asked, seed=0).settled(every)
    assert valid.tolist() == [accepted(asked, row) for row in every]
    assert 0 < int(valid.sum()) < len(every)


def test_changes_never_touch_padding() -> None:
    asked = task("index-lookup", n=20, alphabet=4)
    domain = Domain(asked, seed=0)
    rows = asked.sample(64, seed=9).inputs
    assert domain.padding is not None
    assert bool((rows == domain.padding).any())
    children = mutated(rows, domain, Draws(seed=1, stream="test", batch=64))
    assert torch.equal(rows == domain.padding, children == domain.padding)


@pytest.mark.parametrize("form", ["recognise", "next"])
def test_brackets_are_deep_and_one_mistake_away(form: str) -> None:
    asked = task("dyck", n=12, types=2, depth=3, form=form)
    assert isinstance(asked, Dyck)
    members, *neighbours = deep_and_near_miss(asked, 0)
    assert bool(in_bounded_dyck(members, depth=3).all())
    assert int(depths(members).amax()) == 3
    for member, rows in zip(members, neighbours, strict=True):
        assert bool(((rows != member).sum(1) <= 2).all())
    near = torch.cat(neighbours)
    assert not bool(in_bounded_dyck(near, depth=3).all())
    too_deep = near[in_bounded_dyck(near, depth=4) & ~in_bounded_dyck(near, depth=3)]
    assert len(too_deep) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("transformer", {"layers": 2, "width": 8, "heads": 2}),
        ("lstm", {"layers": 1, "width": 8}),
        ("mamba", {"layers": 1, "width": 8}),
        ("fnn", {"layers": 1, "width": 8}),
    ],
)
def test_estimates_are_derivatives_along_the_change_of_a_token(kind: str, params: dict[str, Any]) -> None:
    asked = task("index-lookup", n=6, alphabet=5, lengths="full")
    population = MODELS.get(kind)(model(kind, **params), signature_of(asked), members=1).initialise([2])
    population = population.double()
    rows = asked.sample(3, seed=0).inputs
    options = Options.of(Domain(asked, seed=0))
    found = estimates(population, asked, rows, options)
    reading = population.reading if isinstance(population, Frame) else population.get_submodule("reading")
    table = dict(reading.named_parameters())["table"][0].detach()
    labels = asked.solve(rows)
    at, due, targets = labelled(labels, 1)

    def margins(place: int, token: int, step: float) -> Tensor:
        def nudge(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
            output = output.detach().clone()
            output[0, :, place] += step * (table[token] - table[rows[:, place]])
            return output

        hook = reading.register_forward_hook(nudge)
        with torch.no_grad():
            scores = population(rows.unsqueeze(0), at.unsqueeze(0))[0]
        hook.remove()
        return margins_of(scores, scores.argmax(-1), targets, asked.target_space)[0].squeeze(1)

    assert bool(due.all())
    for place, token in [(0, 1), (3, 4), (6, 7)]:
        slope = (margins(place, token, 1e-6) - margins(place, token, -1e-6)) / 2e-6
        assert torch.allclose(found[:, place, token], slope, atol=1e-6)
        assert float(slope.abs().amax()) > 1e-6
    assert bool(found[:, 0, 5:].isinf().all())  # an index never stands first
    assert bool(found[:, 6, :5].isinf().all())  # nor a symbol last


def test_estimates_of_real_inputs_are_derivatives_too() -> None:
    asked = task("q-sparse-averaging", n=5, q=2, d=1)
    population = MODELS.get("fnn")(
        model("fnn", layers=1, width=8), signature_of(asked), members=1
    ).initialise([0])
    rows = asked.sample(4, seed=0).inputs
    options = Options.of(Domain(asked, seed=0))
    found = estimates(population, asked, rows, options)
    labels = asked.solve(rows)

    def least(inputs: Tensor) -> Tensor:
        with torch.no_grad():
            scores = population.double()(inputs.double().unsqueeze(0))[0]
        return margins_of(scores, scores.argmax(-1), labels.targets, asked.target_space)[0].amin(1)

    for place, option in [(0, 1), (3, 7)]:
        way = torch.zeros_like(rows, dtype=torch.float64)
        way[:, place] = (options.values[option, place] - rows[:, place]).double()
        slope = (least(rows + 1e-6 * way) - least(rows - 1e-6 * way)) / 2e-6
        assert torch.allclose(found[:, place, option], slope, atol=1e-4)
        assert float(slope.abs().amax()) > 1e-3


def test_margins_and_wrong_answers_go_together() -> None:
    scores = torch.tensor([[[1.0, 3.0, 2.0], [2.0, 2.0, 0.0], [2.0, 2.0, 0.0]]])
    margins, wrong = margins_of(scores, scores.argmax(-1), torch.tensor([[1, 0, 1]]), Classes(size=3))
    assert margins.tolist() == [[1.0, 0.0, 0.0]]
    assert wrong.tolist() == [[False, False, True]]  # of equal scores the first is the answer
    near = torch.tensor([[[0.0, 0.0], [3.0, 4.0], [float("nan"), 0.0]]])
    margins, wrong = margins_of(near, near.argmax(-1), torch.zeros(1, 3, 2), Vectors(width=2, tolerance=5.0))
    assert margins[0, :2].tolist() == [5.0, 0.0]
    assert wrong.tolist() == [[False, True, True]]


def test_labelled_positions_come_in_order_and_the_rest_do_not_count() -> None:
    mask = torch.tensor([[False, True, False, True], [False, False, True, False]])
    at, due, targets = labelled(Labels(targets=torch.arange(8).view(2, 4), mask=mask), 2)
    assert at[0].tolist() == [1, 3]
    assert int(at[1, 0]) == 2
    assert due.tolist() == [[True, True], [True, False]]
    assert targets[0].tolist() == [1, 3]
