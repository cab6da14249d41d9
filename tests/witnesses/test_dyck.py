"""S-E-cited: bounded Dyck by two and by three layers."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidInput, TooLarge
from separatrix.models.explicit.transformer import CausalTransformer
from separatrix.precision import FixedDown, FixedNearest, FixedPoint, Float32, Float64, NumberSystem
from separatrix.tasks.dyck import Dyck
from separatrix.witnesses import Choices, Witness, witness_for

from .checking import evaluators_agree, right_on_every_input, right_on_samples, wrong_answers

SYSTEMS: tuple[NumberSystem, ...] = (Float64(), Float32(), FixedDown(n=64, k=2), FixedNearest(p=25))
SMALL = (
    Dyck(n=2),
    Dyck(n=6),
    Dyck(n=4, types=3, depth=3),
    Dyck(n=8, types=1, depth=3),
    Dyck(n=4, types=2, depth=1),
    Dyck(n=2, types=8, depth=1 << 20),
)


def built(task: Dyck, system: NumberSystem | None = None) -> Witness:
    return witness_for(task, choices=Choices(system=system or Float64()))


def writing(task: Dyck) -> Dyck:
    return dataclasses.replace(task, form="next")


@pytest.mark.parametrize("task", SMALL, ids=str)
def test_every_string_is_recognised(task: Dyck) -> None:
    witness = built(task)
    assert (witness.theorem, witness.family, witness.variant) == ("S-E-cited", "transformer-3", "")
    assert witness.size.layers == 3
    assert right_on_every_input(witness)


@pytest.mark.parametrize("task", [*SMALL, Dyck(n=10), Dyck(n=8, types=3, depth=9)], ids=str)
def test_what_may_follow_every_prefix_of_every_member(task: Dyck) -> None:
    witness = built(writing(task))
    assert (witness.family, witness.variant) == ("transformer-2", "next characters")
    assert witness.size.layers == 2
    assert right_on_every_input(witness)


@pytest.mark.parametrize("system", SYSTEMS[1:], ids=str)
def test_every_input_in_other_arithmetics(system: NumberSystem) -> None:
    assert right_on_every_input(built(Dyck(n=4), system))
    assert right_on_every_input(built(Dyck(n=8, form="next"), system))


def test_the_answer_is_right_at_every_prefix_and_so_at_every_length() -> None:
    witness = built(Dyck(n=6))
    for rows in witness.task.enumerate():
        answers = witness.model.answers(rows)
        for length in range(1, 7):
            member = torch.zeros(len(rows), dtype=torch.int64)
            if length % 2 == 0:
                member = Dyck(n=length).solve(rows[:, :length]).answer
            assert torch.equal(answers[:, length - 1], member)


def worst_strings(n: int, depth: int) -> Tensor:
    """Partners as far apart as can be, with as many rivals as can be, and each with its type exchanged."""
    inside = n // 2 - 1
    texts = [
        "(" + "[]" * inside + ")",
        "(" + "()" * inside + ")",
        "()" * (n // 2),
        "[]" * (n // 2 - 1) + "()",
        "(" * depth + "[]" * (n // 2 - depth) + ")" * depth,
        "([])" * (n // 4) + "()" * (n % 4 // 2),
    ]
    rows = [Dyck(n=n, depth=depth).parse(text) for text in texts]
    changed = []
    for row in rows:
        for place in (0, 1, n // 2, n - 2, n - 1):
            for turn in (1, 2):
                other = row.clone()
                other[place] ^= turn
                changed.append(other)
    return torch.stack([*rows, *changed])


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("depth", [2, 5])
def test_the_worst_strings(system: NumberSystem, depth: int) -> None:
    n = 32 if isinstance(system, FixedPoint) else 64
    task = Dyck(n=n, depth=depth)
    rows = worst_strings(n, depth)
    labels = task.solve(rows).answer
    assert 0 < int(labels.sum()) < len(rows)
    assert wrong_answers(built(task, system).model, task, rows) == 0
    members = rows[labels == 1]
    following = built(writing(task), system)
    assert wrong_answers(following.model, following.task, members) == 0


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("task", [Dyck(n=64), Dyck(n=60, types=8, depth=7)], ids=str)
def test_long_strings(task: Dyck, system: NumberSystem) -> None:
    count = 4 if isinstance(system, FixedPoint) else 32
    assert right_on_samples(built(task, system), count=count)
    assert right_on_samples(built(writing(task), system), count=count)


def test_longer_strings_in_single_precision() -> None:
    task = Dyck(n=512)
    witness = built(task, Float32())
    rows = torch.cat([worst_strings(512, 2)[::5], task.sample(4, seed=3).inputs])
    assert wrong_answers(witness.model, task, rows) == 0


def test_a_blunter_head_fails_where_the_partner_is_far() -> None:
    task = Dyck(n=64)
    witness = built(task)
    assert isinstance(witness.model, CausalTransformer)
    witness.model.layers[1].heads[0].query.mul_(0.4)  # type: ignore[attr-defined]
    assert wrong_answers(witness.model, task, worst_strings(64, 2)) > 0


def test_the_three_evaluators_agree() -> None:
    for task in (
        Dyck(n=4),
        Dyck(n=2, types=3, depth=1),
        Dyck(n=6, form="next"),
        Dyck(n=4, types=1, form="next"),
    ):
        witness = built(task)
        rows = [row for chunk in task.enumerate() for row in chunk]
        assert all(evaluators_agree(witness, row) for row in rows[:: max(1, len(rows) // 16)])


def test_the_width_does_not_grow_with_the_length() -> None:
    assert built(Dyck(n=16)).size.width == built(Dyck(n=4096)).size.width == 15
    assert built(Dyck(n=16, form="next")).size.width == built(Dyck(n=4096, form="next")).size.width == 10


def test_what_cannot_be_built_is_refused_in_a_sentence() -> None:
    with pytest.raises(InvalidInput, match="for dyck with form=next; got form=recognise"):
        witness_for(Dyck(n=8), variant="next characters")
    with pytest.raises(TooLarge, match="up to depth 512, a hidden unit for each; got depth=600 at n=2000"):
        built(Dyck(n=2000, depth=600))
    with pytest.raises(
        InvalidInput, match=r"dyck with n=64 needs logits up to .* take a smaller n or more bits"
    ):
        witness_for(Dyck(n=64), variant="", choices=Choices(system=FixedNearest(p=11)))
