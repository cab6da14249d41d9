"""Nearest neighbour against distances, the margin of every sample, its sampling law, and its errors."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput, TooLarge
from separatrix.tasks import Reals, Task, task
from separatrix.tasks._hypercube import chances
from separatrix.tasks.nearest_neighbour import NearestNeighbour
from separatrix.testing import TaskConformance


class TestNearestNeighbour(TaskConformance):
    typical = (
        NearestNeighbour(n=24),
        NearestNeighbour(n=7, dimension=5, labels=3, margin=0.4, noise=3),
        NearestNeighbour(n=10, dimension=6, margin=2.0, noise=0, lengths="full"),
        NearestNeighbour(n=2, dimension=3, labels=5, noise=1),
    )
    small = (
        NearestNeighbour(n=4, dimension=2, labels=1, margin=0.5, noise=1),
        NearestNeighbour(n=3, dimension=3, labels=2, margin=1, noise=1),
        NearestNeighbour(n=3, dimension=2, labels=2, margin=1.5, noise=0),
        NearestNeighbour(n=5, dimension=1, labels=2, margin=2.0, noise=0),
        NearestNeighbour(n=2, dimension=4, labels=2, noise=2),
    )

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        """The other way to say it: the least Euclidean distance."""
        assert isinstance(task, NearestNeighbour)
        written = [position for position in row if any(position)]
        points, labels = written[::2], written[1::2]
        query = points.pop()
        distances = [math.dist(query, point) for point in points]
        return {len(written) - 1: labels[distances.index(min(distances))].index(1.0) - task.dimension}

    def balance(self, task: Task) -> dict[int, float]:
        assert isinstance(task, NearestNeighbour)
        return dict.fromkeys(range(task.labels), 1 / task.labels)


def spelled(nearest: NearestNeighbour, row: torch.Tensor) -> tuple[list[str], str]:
    """The points and the query of an input, as signs."""
    *points, query = nearest.render(row).removesuffix("?").split()[::2]
    return points, query


def counted(nearest: NearestNeighbour, samples: int, *, seed: int) -> Counter[tuple[str, ...]]:
    """How often each list of points, the query last, is sampled."""
    batch = nearest.sample(samples, seed=seed)
    rows, times = torch.unique(batch.inputs, dim=0, return_counts=True)
    seen: Counter[tuple[str, ...]] = Counter()
    for row, count in zip(rows, times.tolist(), strict=True):
        points, query = spelled(nearest, row)
        seen[(*points, query)] += count
    return seen


def differences(first: str, second: str) -> int:
    return sum(ours != theirs for ours, theirs in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("dimension", "margin", "noise"), [(16, 0.25, 2), (8, 1.0, 4), (5, 0.4, 4), (20, 0.1, 0), (6, 2.0, 0)]
)
def test_the_margin_holds_for_every_sample(dimension: int, margin: float, noise: int) -> None:
    nearest = NearestNeighbour(n=9, dimension=dimension, margin=margin, noise=noise)
    closest = set()
    for row in nearest.sample(400, seed=3).inputs:
        points, query = spelled(nearest, row)
        products = sorted(Fraction(dimension - 2 * differences(p, query), dimension) for p in points)
        assert products[-1] - products[-2] >= Fraction(str(margin))
        closest.add(dimension * (1 - products[-1]) / 2)
    assert closest == set(range(noise + 1))


def test_points_are_unit_vectors_with_labels_beside_them() -> None:
    nearest = NearestNeighbour(n=6, dimension=7, labels=3, noise=1)
    batch = nearest.sample(100, seed=1)
    assert nearest.input_space == Reals(width=10)
    positions = torch.arange(11).expand(100, -1)
    end = batch.lengths.unsqueeze(1) - 1
    norms = batch.inputs[..., :7].square().sum(2)
    is_point = (positions % 2 == 0) & (positions <= end)
    assert torch.allclose(norms, is_point.float(), atol=1e-6, rtol=0)
    is_label = (positions % 2 == 1) & (positions < end)
    assert torch.equal(batch.inputs[..., 7:].sum(2), is_label.float())
    assert set(batch.inputs[..., 7:].flatten().tolist()) == {0.0, 1.0}
    assert torch.equal(batch.mask, positions == end)


@pytest.mark.parametrize(("n", "least"), [(2, 2), (3, 2), (8, 5), (9, 5)])
def test_the_query_is_uniform_in_the_second_half(n: int, least: int) -> None:
    nearest = NearestNeighbour(n=n, dimension=4, noise=1)
    seen = Counter(((nearest.sample(4000, seed=1).lengths + 1) // 2).tolist())
    assert sorted(seen) == list(range(least, n + 1))
    share = 4000 / len(seen)
    assert all(abs(count - share) < 5 * share**0.5 for count in seen.values())
    assert set(nearest.full_length().sample(20, seed=1).lengths.tolist()) == {2 * n - 1}


def test_samples_follow_the_stated_law() -> None:
    """Every pair of points and query of dimension 3, with its exact probability."""
    nearest = NearestNeighbour(n=3, dimension=3, labels=1, margin=0.1, noise=1, lengths="full")
    vertices = ["".join(signs) for signs in product("+-", repeat=3)]
    law: dict[tuple[str, str, str], Fraction] = {}
    for query, flips in product(vertices, range(2)):
        near = [point for point in vertices if differences(point, query) == flips]
        far = [point for point in vertices if differences(point, query) > flips]
        for first, second in product(near, far):
            for order in (first, second), (second, first):
                triple = (*order, query)
                law[triple] = law.get(triple, Fraction(0)) + Fraction(1, 8 * 2 * len(near) * len(far) * 2)
    assert sum(law.values()) == 1
    count = 40_000
    seen = counted(nearest, count, seed=8)
    assert set(seen) == set(law)
    for triple, share in law.items():
        assert abs(seen[triple] - count * share) < 5 * math.sqrt(count * share), triple


def test_chances_are_conditional_probabilities_of_fair_coins() -> None:
    table = chances(6, "cpu")
    for left in range(1, 7):
        for missing in range(left + 1):
            enough = [coins for coins in product((0, 1), repeat=left) if sum(coins) >= missing]
            exact = Fraction(sum(coins[0] for coins in enough), len(enough))
            assert int(table[left, missing]) == math.floor(exact * 2**32)
        assert int(table[left, left]) == 1 << 32


def test_the_domain_is_every_input_with_the_margin() -> None:
    nearest = NearestNeighbour(n=3, dimension=2, labels=2, margin=1.0, noise=1)
    signs, labels = ["++", "+-", "-+", "--"], [":0", ":1"]
    texts = [" ".join(words) + "?" for count in (1, 2) for words in product(*[signs, labels] * count, signs)]
    accepted = set()
    for text in texts:
        try:
            nearest.parse(text)
        except InvalidInput:
            continue
        accepted.add(text)
    listed = [nearest.render(row) for rows in nearest.enumerate() for row in rows]
    assert sorted(listed) == sorted(accepted)
    assert len(accepted) < len(texts)


def test_a_decimal_margin_is_taken_as_written() -> None:
    """A tenth of dimension 20 is one coordinate, though the float 0.1 is a little more than a tenth."""
    for margin, gap in (0.1, 1), (0.2, 2), (0.3, 3), (0.31, 4), (1e-9, 1):
        nearest = NearestNeighbour(n=3, dimension=20, margin=margin, noise=0)
        query = "+" * 20
        for other, fits in (gap, True), (gap - 1, False):
            text = f"{query} :0 {'-' * other}{'+' * (20 - other)} :1 {query}?"
            if fits:
                nearest.parse(text)
            else:
                with pytest.raises(InvalidInput, match="asks that every point but the nearest"):
                    nearest.parse(text)


def test_large_domains_are_counted_but_not_numbered() -> None:
    nearest = NearestNeighbour(n=100)
    total = 0
    for stored in range(50, 100):
        for distance in range(17):
            others = sum(math.comb(16, far) for far in range(distance + 2, 17))
            total += 2**16 * 2**stored * stored * math.comb(16, distance) * others ** (stored - 1)
    assert nearest.domain_size() == total
    for large in nearest, NearestNeighbour(n=2, dimension=17):
        with pytest.raises(TooLarge, match="has too many inputs to number; choose a smaller n or dimension"):
            large.decode(torch.tensor([0]))


def test_splits() -> None:
    splits = NearestNeighbour(n=7).partitions()
    assert splits["prefix/suffix"].bob == (12,)
    assert splits["halves"].alice == (0, 1, 2, 3, 4, 5)


PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"n": 1}, "nearest-neighbour needs 2 ≤ n ≤ 2^16; got n=1. Try 64."),
    ({"n": 1 << 60}, f"nearest-neighbour needs 2 ≤ n ≤ 2^16; got n={1 << 60}. Try 64."),
    (
        {"n": 8, "dimension": 0},
        "nearest-neighbour needs a dimension from 1 to 512; got dimension=0. Try 16.",
    ),
    ({"n": 8, "labels": 0}, "nearest-neighbour needs 1 to 2^12 labels; got labels=0. Try 2."),
    (
        {"n": 1 << 16, "dimension": 62},
        "nearest-neighbour with dimension + labels = 64 needs n ≤ 32768; got n=65536. Try 32768.",
    ),
    (
        {"n": 8, "dimension": 4, "noise": 4},
        (
            "nearest-neighbour with dimension=4 and margin=0.25 needs noise from 0 to 3, to leave room for "
            "the margin; got noise=4. Try 3."
        ),
    ),
    (
        {"n": 8, "noise": -1},
        (
            "nearest-neighbour with dimension=16 and margin=0.25 needs noise from 0 to 14, to leave room for "
            "the margin; got noise=-1. Try 0."
        ),
    ),
    *(
        (
            {"n": 8, "margin": margin},
            (
                "nearest-neighbour needs 0 < margin ≤ 2, since inner products lie between -1 and 1; "
                f"got margin={margin}. Try 0.25."
            ),
        )
        for margin in (0.0, -1.0, 2.1, math.nan, math.inf)
    ),
]


@pytest.mark.parametrize(("parameters", "message"), PARAMETERS)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("nearest-neighbour", **parameters)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The last word must be the query: 3 signs and a question mark, such as +-+?."),
        ("+++ :0 ++-", "The last word must be the query: 3 signs and a question mark, such as +-+?."),
        ("+++ :0 ++?", "'++' is neither a point of 3 signs + and - nor a label from :0 to :1."),
        ("+++ :2 +++?", "':2' is neither a point of 3 signs + and - nor a label from :0 to :1."),
        ("+++ :00 +++?", "':00' is neither a point of 3 signs + and - nor a label from :0 to :1."),
        ("++? :0 +++?", "'++?' is neither a point of 3 signs + and - nor a label from :0 to :1."),
        (
            "+++?",
            "An input has an odd number of words from 5 to 7, points with labels and then a query; got 1.",
        ),
        (
            "+++ :0 +++?",
            "An input has an odd number of words from 5 to 7, points with labels and then a query; got 3.",
        ),
        ("+++ +-+ --- :0 +++?", "Word 2 must be a label; got '+-+'."),
        ("+++ :0 :1 :0 +++?", "Word 3 must be a point; got ':1'."),
        ("+++ :0 --- :1 :0?", "Word 5 must be a point; got ':0'."),
        (
            "+++ :0 --- :1 --- :1 +++ :0 +++?",
            "nearest-neighbour with n=4 has inputs of at most 7 words; got 9.",
        ),
        (
            "+++ :0 ++- :1 --- :1 +++?",
            (
                "A margin of 1.0 asks that every point but the nearest differ from the query in at least 2 "
                "more coordinates; the nearest differs in 0 and another in 1."
            ),
        ),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        NearestNeighbour(n=4, dimension=3, margin=1.0, noise=1).parse(text)
    assert str(caught.value) == message


def test_bad_rows() -> None:
    nearest = NearestNeighbour(n=3, dimension=4, noise=1)
    row = nearest.parse("++++ :1 ++++?")
    for place, column, value in (
        (0, 0, 0.4),
        (0, 0, math.nan),
        (0, 5, 1.0),
        (1, 4, 1.0),
        (1, 5, 0.5),
        (4, 2, 0.5),
    ):
        wrong = row.clone()
        wrong[place, column] = value
        message = f"Position {place} holds neither a point with coordinates ±0.5, nor a label as a single 1"
        with pytest.raises(InvalidInput, match=message):
            nearest.check(wrong)
    with pytest.raises(InvalidInput, match=r"is float32 of shape \(5, 6\); got float32 of shape \(3, 6\)\."):
        nearest.check(row[:3])
    gap = torch.zeros_like(row)
    gap[2:] = row[:3]
    with pytest.raises(InvalidInput, match=r"Word 1 must be a point; got ''\."):
        nearest.check(gap)
    with pytest.raises(InvalidInput, match="and then a query; got 0"):
        nearest.check(torch.zeros_like(row))


FUZZED = NearestNeighbour(n=3, dimension=2, labels=2, noise=1)
WORDS = st.sampled_from(["++", "+-", "--", ":0", ":1", ":2", "+", "?", "++?", "-+?", "−+?"])


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.text(),
        st.lists(WORDS, max_size=6).map(" ".join),
        st.lists(st.text("+-", min_size=2, max_size=2), min_size=2, max_size=3).map(
            lambda p: " :1 ".join(p) + "?"
        ),
    )
)
def test_any_text_is_an_input_or_refused(text: str) -> None:
    try:
        row = FUZZED.parse(text)
    except InvalidInput:
        return
    assert FUZZED.render(row) == " ".join(text.split())


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    n=st.one_of(st.integers(1, 12), st.integers((1 << 16) + 1), st.integers(max_value=1)),
    dimension=st.one_of(st.integers(), st.integers(0, 20)),
    labels=st.one_of(st.integers(), st.integers(0, 5)),
    margin=st.one_of(st.floats(), st.floats(0, 2)),
    noise=st.one_of(st.integers(), st.integers(-1, 8)),
)
def test_any_parameters_make_a_task_or_are_refused(
    n: int, dimension: int, labels: int, margin: float, noise: int
) -> None:
    try:
        nearest = task(
            "nearest-neighbour", n=n, dimension=dimension, labels=labels, margin=margin, noise=noise
        )
    except InvalidInput:
        return
    batch = nearest.sample(2, seed=0)
    nearest.check(batch.inputs[1])
    assert torch.equal(nearest.solve(batch.inputs).targets, batch.targets)


def test_flipped_coordinates_are_a_uniform_subset() -> None:
    nearest = NearestNeighbour(n=2, dimension=4, labels=1, noise=2)
    seen: Counter[tuple[int, ...]] = Counter()
    for (point, query), count in counted(nearest, 12_000, seed=5).items():
        seen[tuple(place for place in range(4) if point[place] != query[place])] += count
    for flips in range(3):
        subsets = list(combinations(range(4), flips))
        share = 4000 / len(subsets)
        assert all(abs(seen[subset] - share) < 5 * share**0.5 for subset in subsets)
