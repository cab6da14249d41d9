"""Thresholds of sparse features against formulas and tables read by hand, their law, and their errors."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.tasks import Task, task
from separatrix.tasks.disjointness import Disjointness
from separatrix.tasks.equality import Equality
from separatrix.tasks.sparse_threshold import Feature, SparseThreshold
from separatrix.testing import TaskConformance

Bits = tuple[int, ...]
MIXED = SparseThreshold(
    n=5,
    k=3,
    threshold=1,
    features=(
        Feature((4, 0), (0, 0, 1, 0)),
        Feature((), (0,)),
        Feature((2,), (1, 0)),
        Feature((1, 2, 3), (0, 1, 1, 0, 1, 0, 0, 1)),
    ),
)


def value(task: SparseThreshold, bits: list[int]) -> int:
    """The function as the paper writes it, each table as a dictionary from bit strings."""
    held = 0
    for feature in task.function:
        known = dict(zip(itertools.product((0, 1), repeat=len(feature.indices)), feature.table, strict=True))
        held += known[tuple(bits[index] for index in feature.indices)]
    bound = task.threshold if task.threshold >= 0 else len(task.function) / 2
    return int(held - bound > 0)


def share_of_ones(task: SparseThreshold) -> float:
    inputs = itertools.product((0, 1), repeat=task.n)
    return sum(value(task, list(bits)) for bits in inputs) / (1 << task.n)


class TestSparseThreshold(TaskConformance):
    compiles = False
    typical = (
        SparseThreshold(n=9, k=3),
        SparseThreshold(n=8, k=1, function_seed=3, threshold=2),
        SparseThreshold(n=40),
        SparseThreshold(n=10, law="balanced"),
        dataclasses.replace(SparseThreshold.equality(8), law="balanced"),
        dataclasses.replace(SparseThreshold.equality(60), law="balanced"),
        MIXED,
    )
    small = (
        SparseThreshold(n=2, k=5),
        SparseThreshold(n=7, k=2, threshold=5),
        MIXED,
        SparseThreshold.from_cnf("(x1 | ~x2) & x3 & (x2 | x4 | ~x5)", n=6),
    )

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        assert isinstance(task, SparseThreshold)
        return {task.n - 1: value(task, row)}

    def balance(self, task: Task) -> dict[int, float] | None:
        assert isinstance(task, SparseThreshold)
        if task.n > 10:
            return None
        one = share_of_ones(task)
        if task.law == "balanced":
            one = (1 - (1 - one) ** task.ATTEMPTS + one**task.ATTEMPTS) / 2
        return {0: 1 - one, 1: one}


def agrees(task: SparseThreshold, function: Callable[[Bits], bool]) -> None:
    for inputs in task.enumerate():
        answers = task.solve(inputs).answer.tolist()
        assert answers == [int(function(tuple(row))) for row in inputs.tolist()]


def test_formulas_mean_what_they_say() -> None:
    def dnf(x: Bits) -> bool:
        return bool((x[0] and not x[2]) or (x[1] and x[3]) or not x[4])

    def cnf(x: Bits) -> bool:
        return bool((x[0] or not x[2]) and (x[1] or x[3]) and not x[4])

    agrees(SparseThreshold.from_dnf("x1 & ~x3 | x2 & x4 | !x5", n=5), dnf)
    agrees(SparseThreshold.from_dnf(" (x1&¬ x3)|(x4 & x2) | (~x5)", n=5), dnf)
    agrees(SparseThreshold.from_dnf([[1, -3], [2, 4], [-5]], n=5), dnf)
    agrees(SparseThreshold.from_cnf("(x1 | ~x3) & (x2 | x4) & ~x5", n=5), cnf)
    agrees(SparseThreshold.from_cnf([(1, -3), (4, 2), (-5,)], n=5), cnf)
    agrees(SparseThreshold.from_dnf("x1 & ~x1", n=2), lambda x: False)
    agrees(SparseThreshold.from_cnf("(x1 | ~x1)", n=2), lambda x: True)
    agrees(SparseThreshold.from_dnf("x1 & x1 & x2", n=2), lambda x: x == (1, 1))


@pytest.mark.slow
@given(
    groups=st.lists(
        st.lists(st.sampled_from([-4, -3, -2, -1, 1, 2, 3, 4]), min_size=1, max_size=4),
        min_size=1,
        max_size=4,
    )
)
def test_de_morgan(groups: list[list[int]]) -> None:
    """A DNF holds exactly where the CNF of the negated literals does not."""
    dnf = SparseThreshold.from_dnf(groups, n=4)
    cnf = SparseThreshold.from_cnf([[-literal for literal in group] for group in groups], n=4)
    (inputs,) = dnf.enumerate()
    assert torch.equal(dnf.solve(inputs).answer, 1 - cnf.solve(inputs).answer)
    text = " | ".join(" & ".join(f"x{i}" if i > 0 else f"~x{-i}" for i in group) for group in groups)
    assert SparseThreshold.from_dnf(text, n=4) == dnf


@pytest.mark.parametrize("n", [2, 4, 6, 8])
def test_equality_and_disjointness_are_thresholds(n: int) -> None:
    (inputs,) = SparseThreshold.equality(n).enumerate()
    equality = Equality(n=n)
    separated = torch.stack(
        [
            equality.parse(" ".join([*text[: n // 2], "[SEP]", *text[n // 2 :]]))
            for text in (SparseThreshold.equality(n).render(row) for row in inputs)
        ]
    )
    expected = equality.solve(separated).answer
    assert torch.equal(SparseThreshold.equality(n).solve(inputs).answer, expected)
    disjointness = Disjointness(n=n).solve(inputs)
    assert torch.equal(SparseThreshold.disjointness(n).solve(inputs).targets, disjointness.targets)
    for function in (SparseThreshold.equality(n), SparseThreshold.disjointness(n)):
        assert len(function.function) == n // 2
        assert all(len(feature.indices) == 2 for feature in function.function)


def test_the_threshold_is_strict() -> None:
    bits = tuple(Feature((place,), (0, 1)) for place in range(4))
    for threshold in range(4):
        function = SparseThreshold(n=4, features=bits, threshold=threshold)
        agrees(function, lambda x, b=threshold: sum(x) > b)  # type: ignore[misc]
    agrees(SparseThreshold(n=4, features=bits), lambda x: sum(x) > 2)
    agrees(SparseThreshold(n=4, features=bits[:3]), lambda x: sum(x[:3]) > 1.5)


@pytest.mark.slow
def test_drawn_functions_have_the_stated_law() -> None:
    functions = [SparseThreshold(n=4, k=2, function_seed=seed).function for seed in range(1500)]
    features = [feature for function in functions for feature in function]
    assert all(len(function) == 4 for function in functions)
    places = Counter(feature.indices for feature in features)
    assert set(places) == set(itertools.combinations(range(4), 2))
    assert all(abs(count / len(features) - 1 / 6) < 0.03 for count in places.values())
    tables = Counter(feature.table for feature in features)
    assert set(tables) == {table for table in itertools.product((0, 1), repeat=4) if sum(table) == 2}
    assert all(abs(count / len(features) - 1 / 6) < 0.03 for count in tables.values())
    assert len(set(functions)) > 1400


def test_a_function_is_part_of_the_task() -> None:
    assert hash(MIXED) == hash(dataclasses.replace(MIXED))
    assert SparseThreshold(n=6) == SparseThreshold(n=6)
    assert SparseThreshold(n=6).function == SparseThreshold(n=6).function
    assert SparseThreshold(n=6).function != SparseThreshold(n=6, function_seed=1).function
    assert task("sparse-threshold", n=5, k=3, threshold=1, features=MIXED.features) == MIXED


def test_uniform_bits_are_uniform() -> None:
    inputs = SparseThreshold(n=3).sample(8000, seed=1).inputs
    seen = Counter((inputs * torch.tensor([4, 2, 1])).sum(1).tolist())
    assert all(abs(seen[code] / 8000 - 1 / 8) < 0.02 for code in range(8))


AND = (0, 0, 0, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: task("sparse-threshold", n=1), "sparse-threshold needs 2 ≤ n ≤ 2^14; got n=1. Try 64."),
        (
            lambda: task("sparse-threshold", n=1 << 60),
            f"sparse-threshold needs 2 ≤ n ≤ 2^14; got n={1 << 60}. Try 64.",
        ),
        (lambda: task("sparse-threshold", n=8, k=0), "sparse-threshold needs 1 ≤ k ≤ 16; got k=0. Try 2."),
        (
            lambda: task("sparse-threshold", n=1 << 13, k=10),
            "n drawn features of k bits have n·2^k ≤ 2^22 table entries; got n=8192 and k=10. Try k=2.",
        ),
        (
            lambda: task("sparse-threshold", n=8, threshold=8),
            "A threshold of 8 features lies between 0 and 7, or is −1 for half; got threshold=8. Try 4.",
        ),
        (
            lambda: task("sparse-threshold", n=8, function_seed=-1),
            "A function_seed is a whole number from 0 to 2^64 − 1; got -1. Try 0.",
        ),
        (
            lambda: SparseThreshold(n=4, k=1, features=(Feature((0, 1), AND),)),
            "Each feature reads at most k=1 bits; got 2 indices. Try k=2.",
        ),
        (
            lambda: SparseThreshold(n=4, features=(Feature((0, 4), AND),)),
            "With n=4, a feature's indices run from 0 to 3; got (0, 4).",
        ),
        (
            lambda: SparseThreshold(n=4, features=()),
            "sparse-threshold takes 1 to n features (S, theorem 13); got 0 with n=4.",
        ),
        (
            lambda: SparseThreshold(n=2, features=(Feature((0,), (0, 1)),) * 3),
            "sparse-threshold takes 1 to n features (S, theorem 13); got 3 with n=2.",
        ),
        (
            lambda: SparseThreshold(n=2, features=[1]),  # type: ignore[arg-type]
            "features is a tuple of Feature(indices, table); got [1].",
        ),
        (
            lambda: SparseThreshold(n=100, k=16, features=(Feature(tuple(range(16)), (1,) * 2**16),) * 65),
            "The features' tables have at most 2^22 entries together; got 4,259,840.",
        ),
        (lambda: Feature((0, 1), (0, 1)), "A feature of 2 bits needs a table of 4 values; got 2."),
        (lambda: Feature((0,), (0, 2)), "A feature's table holds 0 and 1; got (0, 2)."),
        (lambda: Feature((), (1,)), "A feature of no bits is 0; got the table (1,). Give it an index."),
        (
            lambda: Feature((1, 1), AND),
            "A feature's indices are different whole numbers from 0; got (1, 1).",
        ),
        (lambda: Feature(tuple(range(17)), (0,)), "A feature reads at most 16 bits; got 17 indices."),
        (lambda: SparseThreshold.from_dnf([], n=4), "A formula needs at least one term; got none."),
        (
            lambda: SparseThreshold.from_cnf([[1], []], n=4),
            "A clause needs at least one literal; got an empty one.",
        ),
        (
            lambda: SparseThreshold.from_dnf([[1, -5]], n=4),
            "With n=4, literals are 1 to 4, or −1 to −4 for their negations; got -5.",
        ),
        (
            lambda: SparseThreshold.from_dnf([[0]], n=4),
            "With n=4, literals are 1 to 4, or −1 to −4 for their negations; got 0.",
        ),
        (
            lambda: SparseThreshold.from_dnf([1, 2], n=4),  # type: ignore[list-item]
            "A formula is a list of lists of literals, such as [[1, -3], [2]]; got [1, 2].",
        ),
        (
            lambda: SparseThreshold.from_dnf("x1 & (x2 | x3)", n=4),
            "A formula in disjunctive form is written like x1 & ~x3 | x2; could not read 'x1 & (x2'.",
        ),
        (
            lambda: SparseThreshold.from_cnf("x1 | x2 & x3", n=4),
            "A formula in conjunctive form is written like (x1 | ~x2) & x3; could not read 'x1 | x2'.",
        ),
        (
            lambda: SparseThreshold.from_dnf("", n=4),
            "A formula in disjunctive form is written like x1 & ~x3 | x2; could not read ''.",
        ),
        (
            lambda: SparseThreshold.from_dnf([range(1, 18)], n=20),
            "A term has at most 16 variables; got 17.",
        ),
        (
            lambda: SparseThreshold.equality(7),
            "Two halves of equal length need an even n ≥ 2; got n=7. Try 8.",
        ),
        (
            lambda: SparseThreshold.disjointness(1 << 60),
            f"sparse-threshold needs 2 ≤ n ≤ 2^14; got n={1 << 60}. Try 64.",
        ),
    ],
)
def test_bad_parameters(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("01", "This task's inputs have exactly 4 words; got 2."),
        ("01x1", "'x' is no word of this task; known are 0 1."),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        SparseThreshold(n=4).parse(text)
    assert str(caught.value) == message


def test_check_names_a_row_that_is_no_input() -> None:
    with pytest.raises(InvalidInput, match=r"Tokens of sparse-threshold run from 0 to 1; got 2\."):
        SparseThreshold(n=2).check(torch.tensor([0, 2]))


@given(text=st.text(max_size=6) | st.text("01 ²", min_size=3, max_size=6))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    function = SparseThreshold(n=4)
    try:
        row = function.parse(text)
    except InvalidInput:
        return
    assert function.render(row) == text.strip()


@pytest.mark.slow
@given(text=st.text(max_size=12) | st.text("x12~&|() ", max_size=16), dual=st.booleans())
def test_any_formula_is_read_or_refused(text: str, dual: bool) -> None:
    read = SparseThreshold.from_cnf if dual else SparseThreshold.from_dnf
    try:
        function = read(text, n=4)
    except InvalidInput:
        return
    assert 1 <= len(function.function) <= 4


AWKWARD = st.sampled_from([0, -1, -2, 1 << 60, -(1 << 70)])


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(-3, 60) | AWKWARD,
    k=st.integers(-1, 7) | AWKWARD,
    threshold=st.integers(-2, 60) | AWKWARD,
    function_seed=st.integers(0, 5) | AWKWARD,
    law=st.sampled_from(["uniform", "balanced"]),
)
def test_any_parameters_make_a_task_or_are_refused(
    n: int, k: int, threshold: int, function_seed: int, law: Any
) -> None:
    try:
        function = SparseThreshold(n=n, k=k, threshold=threshold, function_seed=function_seed, law=law)
    except InvalidInput:
        return
    batch = function.sample(3, seed=n)
    for row, label in zip(batch.inputs, batch.labels.answer.tolist(), strict=True):
        function.check(row)
        assert value(function, row.tolist()) == label
