"""Sparse averaging against its definition in fractions, the law of its sets, and the words of its errors."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput, TooLarge
from separatrix.tasks import Task, Vectors, task
from separatrix.tasks.q_sparse_averaging import QSparseAveraging
from separatrix.testing import TaskConformance


class TestQSparseAveraging(TaskConformance):
    samples = 64
    typical = (
        QSparseAveraging(n=20),
        QSparseAveraging(n=20, sizes="up-to"),
        QSparseAveraging(n=7, q=7, d=3, grid=2),
        QSparseAveraging(n=7, q=6, d=2, grid=5, sizes="up-to"),
        QSparseAveraging(n=2, q=1),
        QSparseAveraging(n=40, q=11, d=5, grid=3),
    )
    small = (
        QSparseAveraging(n=2, q=2),
        QSparseAveraging(n=2, q=1, d=2),
        QSparseAveraging(n=2, q=2, grid=3, sizes="up-to"),
        QSparseAveraging(n=3, q=2),
    )

    def definition(self, task: Task, row: list[Any]) -> dict[int, list[float]]:
        assert isinstance(task, QSparseAveraging)
        values = [[Fraction(coordinate) for coordinate in numbers[: task.d]] for numbers in row]
        means = {}
        for i, numbers in enumerate(row):
            wanted = {int(member) for member in numbers[task.d :]} - {0}
            asked = [value for j, value in enumerate(values, start=1) if j in wanted]
            means[i] = [float(sum(column, Fraction(0)) / task.q) for column in zip(*asked, strict=True)]
            means[i] = means[i] or [0.0] * task.d
        return means

    def balance(self, task: Task) -> None:
        return None


def test_an_answer_is_right_within_a_quarter_of_one_share() -> None:
    average = QSparseAveraging(n=9, q=5, d=2)
    assert average.target_space == Vectors(width=2, tolerance=1 / 20)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 16, 17, 64])
@pytest.mark.parametrize("grid", [1, 2, 3, 1024])
def test_the_step_is_the_greatest_that_keeps_the_norm_within_one(d: int, grid: int) -> None:
    step = Fraction(QSparseAveraging(n=2, q=1, d=d, grid=grid).step)
    assert step.numerator == 1
    assert step.denominator & (step.denominator - 1) == 0
    assert d * (grid * step) ** 2 <= 1 < d * (grid * 2 * step) ** 2


def assert_uniform(seen: Counter[Any], outcomes: list[Any], *, share: float = 1.0, of: int) -> None:
    each = share / len(outcomes)
    for outcome in outcomes:
        assert abs(seen[outcome] / of - each) <= 5 * math.sqrt(each * (1 - each) / of), outcome


def test_values_are_uniform_on_the_grid() -> None:
    inputs = QSparseAveraging(n=2, q=1, d=2, grid=1).sample(4000, seed=3).inputs
    seen = Counter(tuple(value) for row in inputs[..., :2].tolist() for value in row)
    outcomes = list(itertools.product((-0.5, 0.0, 0.5), repeat=2))
    assert set(seen) == set(outcomes)
    assert_uniform(seen, outcomes, of=8000)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "q"), [(4, 2), (5, 3), (4, 4), (5, 1)])
def test_sets_are_uniform(n: int, q: int) -> None:
    inputs = QSparseAveraging(n=n, q=q).sample(3000, seed=3).inputs
    seen = Counter(tuple(members) for row in inputs[..., 1:].tolist() for members in row)
    outcomes = list(itertools.combinations(range(1, n + 1), q))
    assert set(seen) == set(outcomes)
    assert_uniform(seen, outcomes, of=3000 * n)


def test_sets_of_one_example_are_independent() -> None:
    inputs = QSparseAveraging(n=3, q=2).sample(6000, seed=3).inputs
    seen = Counter((tuple(row[0]), tuple(row[1])) for row in inputs[..., 1:].tolist())
    outcomes = list(itertools.product(itertools.combinations((1, 2, 3), 2), repeat=2))
    assert_uniform(seen, outcomes, of=6000)


def test_sizes_up_to_q_are_uniform_and_so_are_the_sets_of_each_size() -> None:
    inputs = QSparseAveraging(n=4, q=3, sizes="up-to").sample(5000, seed=3).inputs
    seen = Counter(tuple(m for m in members if m) for row in inputs[..., 1:].tolist() for members in row)
    for size in range(4):
        outcomes = list(itertools.combinations(range(1, 5), size))
        assert_uniform(seen, outcomes, share=1 / 4, of=20_000)


def test_the_reduction_from_index() -> None:
    """R: with q = d = 1, bits as values and empty sets, the last position reads the bit it asks for."""
    average = QSparseAveraging(n=5, q=1)
    for bits in itertools.product((0, 1), repeat=4):
        for wanted in range(1, 5):
            text = "; ".join([*(f"v=({bit}) S={{}}" for bit in bits), f"v=(0) S={{{wanted}}}"])
            answers = average.solve(average.parse(text).unsqueeze(0)).targets[0].flatten().tolist()
            assert answers == [0, 0, 0, 0, bits[wanted - 1]]


def test_the_mean_is_the_nearest_float() -> None:
    average = QSparseAveraging(n=50, q=49, d=2, grid=700)
    inputs = average.sample(4, seed=1).inputs
    targets = average.solve(inputs).targets
    for row, means in zip(inputs.double(), targets, strict=True):
        for numbers, mean in zip(row, means, strict=True):
            total = row[numbers[2:].long() - 1, :2].sum(0)
            assert torch.equal((total / 49).float(), mean)


def test_large_tasks_are_counted_and_not_listed() -> None:
    average = QSparseAveraging(n=1 << 16, q=3, d=1)
    sets = sum(math.comb(1 << 16, size) for size in range(4))
    assert average.domain_size().bit_length() - 1 == math.floor((1 << 16) * math.log2(3 * sets))
    with pytest.raises(TooLarge):
        next(average.enumerate())
    with pytest.raises(TooLarge, match="too many inputs to number at n=9, q=2 and d=64"):
        QSparseAveraging(n=9, q=2, d=64).decode(torch.arange(3))


def test_the_text() -> None:
    average = QSparseAveraging(n=3, q=2, d=2, grid=2)
    row = average.parse("v=(+0.25,-.5)S={3,1};v=(0,0.50) S={ };v=(-0,0)   S={2}".replace("-.5", "-0.5"))
    assert average.render(row) == "v=(0.25,-0.5) S={1,3}; v=(0,0.5) S={}; v=(0,0) S={2}"
    means = average.solve(row.unsqueeze(0)).targets[0]
    assert [average.render_target(mean) for mean in means] == ["(0.125,-0.25)", "(0,0)", "(0,0.25)"]
    thirds = QSparseAveraging(n=3, q=3)
    row = thirds.parse("v=(1) S={1}; v=(0) S={}; v=(-1) S={1,2,3}")
    means = thirds.solve(row.unsqueeze(0)).targets[0]
    assert [thirds.render_target(mean) for mean in means] == ["(0.3333)", "(0)", "(0)"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 1}, "q-sparse-averaging needs 2 ≤ n ≤ 2^16; got n=1. Try 20."),
        (
            {"n": 4, "q": 5},
            "q-sparse-averaging needs sets of 1 ≤ q ≤ 4 of the n=4 positions; got q=5. Try 3.",
        ),
        (
            {"n": 400, "q": 0},
            "q-sparse-averaging needs sets of 1 ≤ q ≤ 64 of the n=400 positions; got q=0. Try 3.",
        ),
        ({"n": 2, "q": 1, "d": 0}, "q-sparse-averaging needs 1 ≤ d ≤ 64; got d=0. Try 1."),
        ({"n": 4, "grid": 9999}, "q-sparse-averaging needs 1 ≤ grid ≤ 1024; got grid=9999. Try 1."),
        (
            {"n": 1 << 16, "d": 5},
            "q-sparse-averaging needs n·(d + q) ≤ 2^18; got 65536·(5 + 3) = 524,288. Try n=32768.",
        ),
        ({"n": 4, "sizes": "any"}, "q-sparse-averaging knows sizes as exact or up-to; got 'any'."),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("q-sparse-averaging", **parameters)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "v=(1) S={1}",
            "q-sparse-averaging needs 2 values with their sets, separated by ';'; got 1.",
        ),
        ("v=(1) S={1}; S={1}", "A position is written like v=(0) S={1}; got 'S={1}'."),
        ("v=(1) S={1}; v=(1,1) S={1}", "A value has 1 coordinate; got '(1,1)'."),
        ("v=(1) S={1}; v=(x) S={1}", "A coordinate is a decimal number such as -0.5; got 'x'."),
        ("v=(1) S={1}; v=() S={1}", "A coordinate is a decimal number such as -0.5; got ''."),
        ("v=(1) S={1}; v=(0.3) S={1}", "A coordinate is a multiple of 1 from -1 to 1; got 0.3."),
        ("v=(2) S={1}; v=(0) S={1}", "A coordinate is a multiple of 1 from -1 to 1; got 2."),
        (
            "v=(1.000000000000000000001) S={1}; v=(0) S={1}",
            "A coordinate is a multiple of 1 from -1 to 1; got 1.000000000000000000001.",
        ),
        ("v=(1) S={3}; v=(0) S={1}", "A member of a set is a number from 1 to 2; got '3'."),
        ("v=(1) S={0}; v=(0) S={1}", "A member of a set is a number from 1 to 2; got '0'."),
        ("v=(1) S={1,}; v=(0) S={1}", "A member of a set is a number from 1 to 2; got ''."),
        ("v=(1) S={1,1}; v=(0) S={1}", "A set has at most 2 different members; got '{1,1}'."),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        QSparseAveraging(n=2, q=2).parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "row",
    [
        [[1, 2, 1], [0, 0, 0]],
        [[1, 0, 1], [0, 0, 0]],
        [[1, 1, 1], [0, 0, 0]],
        [[1, 1, 3], [0, 0, 0]],
        [[1, 1.5, 2], [0, 0, 0]],
        [[1, -1, 0], [0, 0, 0]],
        [[1, math.nan, 0], [0, 0, 0]],
    ],
)
def test_sets_that_are_no_inputs(row: list[list[float]]) -> None:
    average = QSparseAveraging(n=2, q=2)
    with pytest.raises(InvalidInput, match="The set of position 1 must be increasing numbers from 1 to 2"):
        average.check(torch.tensor(row, dtype=torch.float32))


@pytest.mark.parametrize("value", [0.5, -2, math.nan, math.inf])
def test_values_that_are_no_inputs(value: float) -> None:
    with pytest.raises(InvalidInput, match="A coordinate is a multiple of 1 from -1 to 1; got"):
        QSparseAveraging(n=2, q=1).check(torch.tensor([[value, 1.0], [0.0, 2.0]]))
    with pytest.raises(InvalidInput, match=r"float32 of shape \(2, 2\); got float32 of shape \(2, 3\)\."):
        QSparseAveraging(n=2, q=1).check(torch.zeros(2, 3))


pieces = st.lists(
    st.sampled_from(["v=(1)", "v=(0.5)", " S={1}", "S={2,1}", "S={}", "; ", ";", "1"]), max_size=8
)


@given(st.text(max_size=30) | pieces.map("".join))
def test_parse_answers_any_text(text: str) -> None:
    average = QSparseAveraging(n=2, q=2)
    try:
        row = average.parse(text)
    except InvalidInput:
        return
    average.check(row)
    assert torch.equal(average.parse(average.render(row)), row)


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(-2, 24) | st.sampled_from([-(2**60), 2**60, 1 << 16]),
    q=st.integers(-1, 9) | st.integers(),
    d=st.integers(-1, 9) | st.integers(),
    grid=st.integers(-1, 9) | st.integers(),
    sizes=st.sampled_from(["exact", "up-to"]),
)
def test_any_parameters_are_refused_or_work(**parameters: Any) -> None:
    try:
        average = task("q-sparse-averaging", **parameters)
    except InvalidInput:
        return
    batch = average.sample(2, seed=1)
    if average.n < 100:
        for row in batch.inputs:
            average.check(row)
    assert torch.equal(average.solve(batch.inputs).targets, batch.targets)
