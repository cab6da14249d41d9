"""UP-TF1: one layer of linear width for Dyck, equality and disjointness."""

from __future__ import annotations

import pytest
import torch

from separatrix.errors import InvalidInput, TooLarge
from separatrix.models.explicit.reading import model_from
from separatrix.precision import FixedDown, FixedNearest, FixedPoint, Float32, Float64, NumberSystem
from separatrix.tasks.disjointness import Disjointness
from separatrix.tasks.dyck import Dyck
from separatrix.tasks.equality import Equality
from separatrix.witnesses import Choices, Witness, witness_for

from .checking import right_on_every_input, right_on_samples, wrong_answers
from .test_dyck import worst_strings

Tasks = Dyck | Equality | Disjointness

SYSTEMS: tuple[NumberSystem, ...] = (Float64(), Float32(), FixedDown(n=64, k=2), FixedNearest(p=21))
SMALL: tuple[Tasks, ...] = (
    Dyck(n=2, depth=9),
    Dyck(n=6),
    Dyck(n=4, types=4),
    Dyck(n=6, depth=1),
    Dyck(n=8, types=1),
    Equality(n=2, alphabet=1),
    Equality(n=6),
    Equality(n=4, alphabet=5),
    Equality(n=4, form="one", alphabet=3, lengths="full"),
    Disjointness(n=2),
    Disjointness(n=10),
)


def built(task: Tasks, system: NumberSystem | None = None) -> Witness:
    return witness_for(task, variant="linear size", choices=Choices(system=system or Float64()))


@pytest.mark.parametrize("task", SMALL, ids=str)
def test_every_input(task: Tasks) -> None:
    witness = built(task)
    assert (witness.theorem, witness.family) == ("UP-TF1", "transformer-1")
    assert (witness.size.layers, witness.size.heads) == (1, 1)
    assert right_on_every_input(witness)


@pytest.mark.parametrize("system", SYSTEMS[1:], ids=str)
def test_every_input_in_other_arithmetics(system: NumberSystem) -> None:
    for task in (Dyck(n=4, types=3), Equality(n=4, alphabet=3), Disjointness(n=6)):
        assert right_on_every_input(built(task, system))


def test_every_even_length_of_dyck() -> None:
    witness = built(Dyck(n=6))
    for rows in witness.task.enumerate():
        answers = witness.model.answers(rows)
        for length in (2, 4, 6):
            assert torch.equal(answers[:, length - 1], Dyck(n=length).solve(rows[:, :length]).answer)


def test_every_even_length_of_disjointness() -> None:
    model = built(Disjointness(n=8)).model
    for length in (2, 4, 6):
        task = Disjointness(n=length)
        for rows in task.enumerate():
            assert wrong_answers(model, task, rows) == 0


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_long_inputs(system: NumberSystem) -> None:
    n, count = (16, 6) if isinstance(system, FixedPoint) else (64, 24)
    longer = (Dyck(n=n), Dyck(n=n, types=8), Equality(n=n, form="one", alphabet=100), Disjointness(n=n))
    for task in longer:
        assert right_on_samples(built(task, system), count=count)
    strings = Dyck(n=n)
    assert wrong_answers(built(strings, system).model, strings, worst_strings(n, 2)) == 0


def test_one_place_decides() -> None:
    task = Equality(n=16, alphabet=4)
    word = torch.arange(8) % 4
    rows = []
    for place in range(8):
        for turn in (1, 2, 3):
            other = word.clone()
            other[place] = (other[place] + turn) % 4
            rows.append(torch.cat([word, torch.tensor([4]), other]))
    assert wrong_answers(built(task).model, task, torch.stack(rows)) == 0
    sets = Disjointness(n=16)
    pairs = torch.ones(8, 16, dtype=torch.int64)
    pairs[:, 8:] = torch.eye(8, dtype=torch.int64)
    alone = pairs.clone()
    alone[:, :8] = 1 - torch.eye(8, dtype=torch.int64)
    assert sets.solve(pairs).answer.tolist() == [1] * 8
    assert sets.solve(alone).answer.tolist() == [0] * 8
    assert wrong_answers(built(sets).model, sets, torch.cat([pairs, alone])) == 0


def test_the_widths_are_as_stated() -> None:
    for n in (4, 16, 64):
        dyck, equality, sets = (
            built(t).size for t in (Dyck(n=n), Equality(n=n, alphabet=16), Disjointness(n=n))
        )
        assert (dyck.width, dyck.ffn_width) == (2 * n + 1, 2 * n)
        assert (equality.width, equality.ffn_width) == (4 * n + 1, 4 * n)
        assert (sets.width, sets.ffn_width) == (n + 1, n // 2)
    assert built(Dyck(n=16, depth=1)).size.ffn_width == 25


def test_models_come_back_from_their_spec_and_tensors() -> None:
    for task in (Dyck(n=6), Equality(n=4, alphabet=3), Disjointness(n=6)):
        model = built(task).model
        again = model_from(model.spec(), dict(model.tensors()))
        rows = task.sample(16, seed=5).inputs
        assert torch.equal(model.forward(rows), again.forward(rows))


def test_what_cannot_be_built_is_refused_in_a_sentence() -> None:
    with pytest.raises(
        InvalidInput, match="recognises Dyck of depth 1 or 2; got depth=3 in the form recognise"
    ):
        built(Dyck(n=8, depth=3))
    with pytest.raises(
        InvalidInput, match="compares two halves, in the forms random and one; got form='ncp'"
    ):
        built(Equality(n=8, form="ncp"))
    with pytest.raises(InvalidInput, match=r"dyck with n=64 needs numbers up to 256 and the weight 1/64"):
        built(Dyck(n=64), FixedNearest(p=11))
    with pytest.raises(TooLarge, match=r"at most 67,108,864 are built\. Try n=2364"):
        built(Dyck(n=10_000))
