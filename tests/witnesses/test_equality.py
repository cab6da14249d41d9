"""S-T6 and S-L5: equality by two layers, at any places; and disjointness, which is built alike."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.explicit.transformer import UnmaskedTransformer
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks import Task
from separatrix.tasks.disjointness import Disjointness
from separatrix.tasks.equality import Equality
from separatrix.witnesses import Choices, Witness, witness_for
from separatrix.witnesses.choices import Addresses
from separatrix.witnesses.equality import ANY_PARTITION

from .checking import evaluators_agree, right_on_every_input, right_on_samples, wrong_answers

SYSTEMS: tuple[NumberSystem, ...] = (
    Float64(),
    Float32(),
    FixedDown(n=33, k=2),
    FixedDown(n=37, k=3),
    FixedNearest(p=21),
)
SMALL: tuple[Task, ...] = (
    Equality(n=2),
    Equality(n=8),
    Equality(n=6, alphabet=3),
    Equality(n=4, form="one", alphabet=5),
    Equality(n=4, alphabet=1),
    Equality(n=8, alice=(6, 0, 3, 5)),
    Equality(n=4, alice=(2, 3), alphabet=3),
    Disjointness(n=2),
    Disjointness(n=10),
)


def built(
    task: Task,
    system: NumberSystem | None = None,
    addresses: Addresses = "binary",
    variant: str | None = None,
) -> Witness:
    choices = Choices(system=system or Float64(), addresses=addresses)
    witness = witness_for(task, family="transformer-2", variant=variant, choices=choices)
    # Families hold smaller ones, whose witnesses stand in where this one is refused.
    assert witness.theorem in ("S-T6", "S-L5", "S-T13")
    return witness


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("task", SMALL, ids=str)
def test_every_input(task: Task, system: NumberSystem) -> None:
    assert right_on_every_input(built(task, system))


def one_changed(task: Equality) -> Tensor:
    """Strings of zeros, ones and both, equal and with one symbol changed in one digit, at each end."""
    rows = []
    top = 1 << max(0, (task.symbols - 1).bit_length() - 1)
    halves = range(1, task.n // 2 + 1) if task.alice is None else [task.n // 2]
    for half in (h for h in halves if h in (1, 2, task.n // 2 - 1, task.n // 2)):
        for fill in (0, task.symbols - 1, None):
            word = torch.arange(half) % task.symbols if fill is None else torch.full((half,), fill)
            for place, digit in itertools.product({0, half // 2, half - 1, None}, {1, top}):
                other = word.clone()
                if place is not None:
                    other[place] = (other[place] ^ digit) % task.symbols
                row = torch.full((task.length,), task.symbols + 1)
                if task.alice is None:
                    row[: 2 * half + 1] = torch.cat([word, torch.tensor([task.symbols]), other])
                else:
                    first, second = task.places
                    row[task.n // 2] = task.symbols
                    row[list(first)], row[list(second)] = word, other
                task.check(row)
                rows.append(row)
    return torch.stack(rows)


def one_common(task: Disjointness) -> Tensor:
    """Everything but one pair is 10, or 01, or 00; that pair is 11 or like the others."""
    half = task.n // 2
    rows = []
    for a, b in ((0, 0), (0, 1), (1, 0)):
        for place in (0, 1, half // 2, half - 1, None):
            row = torch.tensor([a] * half + [b] * half)
            if place is not None:
                row[[place, half + place]] = 1
            rows.append(row)
    return torch.stack(rows)


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize(
    "task",
    [
        Equality(n=32),
        Equality(n=32, form="one", alphabet=64),
        Equality(n=30, alphabet=37),
        Equality(n=32, alice=tuple(range(31, 0, -2)), alphabet=4),
    ],
    ids=lambda task: f"n={task.n}, {task.symbols} symbols",
)
def test_worst_cases_of_equality(task: Equality, system: NumberSystem) -> None:
    witness = built(task, system)
    assert wrong_answers(witness.model, task, one_changed(task)) == 0
    assert right_on_samples(witness, count=8)


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_worst_cases_of_disjointness(system: NumberSystem) -> None:
    witness = built(Disjointness(n=32), system)
    assert wrong_answers(witness.model, witness.task, one_common(Disjointness(n=32))) == 0
    assert right_on_samples(witness, count=8)


def test_a_blunter_head_fails_on_them() -> None:
    for task, rows in (
        (Equality(n=32), one_changed(Equality(n=32))),
        (Disjointness(n=32), one_common(Disjointness(n=32))),
    ):
        model = built(task).model
        assert isinstance(model, UnmaskedTransformer)
        model.layers[0].heads[0].query.mul_(0.2)  # type: ignore[attr-defined]
        assert wrong_answers(model, task, rows) > 0


@pytest.mark.parametrize("addresses", ["bch-1/4", "random-1/2", "one-hot"])
@pytest.mark.parametrize("task", [Equality(n=30, alphabet=3), Disjointness(n=30)], ids=str)
def test_other_addresses(task: Task, addresses: Addresses) -> None:
    assert right_on_samples(built(task, addresses=addresses), count=20)


@pytest.mark.parametrize("n", [1 << 10, pytest.param(1 << 13, marks=pytest.mark.slow)])
def test_long_strings(n: int) -> None:
    task = Equality(n=n, form="one")
    rows = one_changed(task)
    assert wrong_answers(built(task).model, task, rows[:: len(rows) // 5]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("task", SMALL, ids=str)
def test_the_three_evaluators_agree(task: Task) -> None:
    witness = built(task)
    rows = [row for chunk in task.enumerate() for row in chunk]
    assert all(evaluators_agree(witness, row) for row in rows[:: max(1, len(rows) // 12)])


def test_the_variant_of_a_plain_task_has_the_strings_in_turn() -> None:
    witness = built(Equality(n=8), variant=ANY_PARTITION)
    assert isinstance(witness.task, Equality)
    assert witness.task.alice == (0, 2, 4, 6)
    assert (witness.theorem, witness.variant) == ("S-L5", ANY_PARTITION)
    assert right_on_every_input(witness)
    assert built(Equality(n=8)).theorem == "S-T6"
    assert built(Equality(n=8, alice=(0, 1, 2, 3))).theorem == "S-L5"


def test_every_partition_of_six_places() -> None:
    for alice in itertools.combinations(range(6), 3):
        assert right_on_every_input(built(Equality(n=6, alice=alice)))


def test_width_and_bits_grow_as_the_theorem_says() -> None:
    bits = {}
    for power in (6, 10, 14):
        n = 1 << power
        size = built(Equality(n=n), FixedDown(n=n + 1, k=2)).size
        assert (size.width, size.layers, size.heads) == (power + 2, 2, 1)
        bits[power] = size.parameter_bits
        listed = built(Equality(n=n), FixedDown(n=n + 1, k=2), variant=ANY_PARTITION).size
        # The list of places is stored: a number for each.
        assert listed.embedding_parameters == size.embedding_parameters + n + 1
        assert built(Disjointness(n=n)).size.width == power
    assert math.log(bits[14] / bits[6]) / math.log(14 / 6) <= 3
    assert math.log(bits[14] / bits[10]) / math.log(14 / 10) <= 3


def test_next_character_prediction_is_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        built(Equality(n=8, form="ncp"))
    assert str(caught.value) == (
        "This construction decides whether two strings are equal, in the forms random and one; "
        "next-character prediction (form=ncp) is another question. Try form=random."
    )


def test_places_that_are_named_need_the_variant() -> None:
    with pytest.raises(InvalidInput, match="for equality with alice=None; got alice="):
        built(Equality(n=4, alice=(0, 1)), variant="")


def test_numbers_that_end_too_early_are_refused() -> None:
    with pytest.raises(InvalidInput, match="needs logits up to about"):
        built(Equality(n=64), FixedNearest(p=9))
