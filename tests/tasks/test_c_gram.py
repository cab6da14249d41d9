"""c-gram retrieval against a search in the text, its sampling law, its domain, and its errors."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput, TooLarge
from separatrix.tasks import Task, task
from separatrix.tasks._overlaps import occurrences
from separatrix.tasks.c_gram import CGramRetrieval
from separatrix.testing import TaskConformance


def size_of(retrieval: CGramRetrieval) -> int:
    return retrieval.target_space.size


class TestCGramRetrieval(TaskConformance):
    typical = (
        CGramRetrieval(n=40),
        CGramRetrieval(n=20, c=2),
        CGramRetrieval(n=30, c=4, alphabet=2),
        CGramRetrieval(n=8, c=8, alphabet=3),
    )
    small = (
        CGramRetrieval(n=6, c=3, alphabet=2),
        CGramRetrieval(n=5, c=2, alphabet=3),
        CGramRetrieval(n=7, c=4, alphabet=2),
        CGramRetrieval(n=4, c=4, alphabet=3),
        CGramRetrieval(n=5, c=3, alphabet=1),
        CGramRetrieval(n=4, c=3),
    )

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        assert isinstance(task, CGramRetrieval)
        words = task.render(torch.tensor(row)).split()
        sequence, query = " ".join(words[: task.n]), r"\s".join(words[task.n :])
        found = re.search(rf"(?:^|\s){query}\ss(\d+)", sequence)
        assert found is not None
        return {len(row) - 1: int(found.group(1))}

    def balance(self, task: Task) -> dict[int, float]:
        assert isinstance(task, CGramRetrieval)
        return dict.fromkeys(range(size_of(task)), 1 / size_of(task))


def test_a_sequence_is_uniform_and_its_query_is_copied_from_a_uniform_place() -> None:
    retrieval = CGramRetrieval(n=4, c=3, alphabet=2)
    law = Counter(
        (*tokens, *tokens[place : place + 2]) for tokens in product(range(2), repeat=4) for place in range(2)
    )
    count = 16_000
    seen = Counter(map(tuple, retrieval.sample(count, seed=2).inputs.tolist()))
    assert set(seen) == set(law)
    for row, weight in law.items():
        assert abs(seen[row] - count * weight / 32) < 5 * (count * weight / 32) ** 0.5


@pytest.mark.parametrize(
    ("n", "c", "size"),
    [(64, 2, 64), (64, 3, 8), (65, 3, 9), (64, 4, 4), (65, 4, 5), (3, 3, 2), (2, 2, 2), (1 << 16, 3, 256)],
)
def test_the_alphabet_has_as_many_queries_as_the_sequence_has_tokens(n: int, c: int, size: int) -> None:
    assert size_of(CGramRetrieval(n=n, c=c)) == size


@pytest.mark.parametrize("alphabet", [1, 2, 3])
def test_occurrences_are_counted(alphabet: int) -> None:
    for within in range(8 if alphabet == 2 else 6):
        words = list(product(range(alphabet), repeat=within))
        for length in range(1, 6):
            listed = sum(len({word[i : i + length] for i in range(within - length + 1)}) for word in words)
            assert occurrences(length, alphabet, within) == listed


def test_large_domains_are_counted_but_not_numbered() -> None:
    assert CGramRetrieval(n=1 << 12).domain_size().bit_length() > 1 << 12
    # For c = 2 the count has a closed form: A²(A^(n−1) − (A−1)^(n−1)).
    assert CGramRetrieval(n=300, c=2, alphabet=7).domain_size() == 49 * (7**299 - 6**299)
    with pytest.raises(TooLarge, match=r"c-gram has 6\^31 sequences with these parameters"):
        CGramRetrieval(n=32).decode(torch.tensor([0]))


def test_bob_holds_the_query_alone() -> None:
    assert CGramRetrieval(n=9, c=4).partitions()["prefix/suffix"].bob == (9, 10, 11)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 8, "c": 1}, "c-gram needs 2 ≤ c ≤ 8; got c=1. Try 3."),
        ({"n": 8, "c": 9}, "c-gram needs 2 ≤ c ≤ 8; got c=9. Try 3."),
        ({"n": 3, "c": 4}, "c-gram with c=4 needs 4 ≤ n ≤ 2^16; got n=3. Try 64."),
        ({"n": 1 << 60}, f"c-gram with c=3 needs 3 ≤ n ≤ 2^16; got n={1 << 60}. Try 64."),
        (
            {"n": 8, "alphabet": -1},
            "c-gram needs an alphabet of 1 to 2^20 tokens, or 0 to choose; got alphabet=-1. Try 0.",
        ),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("c-gram", **parameters)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s0 s1 s1 s0 s0", "This task's inputs have exactly 6 words; got 5."),
        (
            "s0 s1 s1 s0 s0 s0",
            "The query must occur in the sequence with a token after it; s0 s0 does not.",
        ),
        (
            "s0 s1 s1 s0 s1 s0",
            "The query must occur in the sequence with a token after it; s1 s0 does not.",
        ),
        ("s0 s1 s1 s0 s1 s2", "'s2' is no word of this task; known are s0 s1."),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        CGramRetrieval(n=4, c=3, alphabet=2).parse(text)
    assert str(caught.value) == message


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(), st.lists(st.sampled_from(["s0", "s1", "s2"]), max_size=7).map(" ".join)))
def test_any_text_is_an_input_or_refused(text: str) -> None:
    retrieval = CGramRetrieval(n=4, c=2, alphabet=2)
    try:
        row = retrieval.parse(text)
    except InvalidInput:
        return
    assert retrieval.render(row) == " ".join(text.split())


@settings(max_examples=150, deadline=None)
@given(
    n=st.one_of(st.integers(-1, 40), st.integers((1 << 16) + 1), st.integers(max_value=0)),
    c=st.one_of(st.integers(), st.integers(1, 9)),
    alphabet=st.one_of(st.integers(), st.integers(-1, 60)),
)
def test_any_parameters_make_a_task_or_are_refused(n: int, c: int, alphabet: int) -> None:
    try:
        retrieval = task("c-gram", n=n, c=c, alphabet=alphabet)
    except InvalidInput:
        return
    batch = retrieval.sample(2, seed=0)
    retrieval.check(batch.inputs[1])
    assert torch.equal(retrieval.solve(batch.inputs).targets, batch.targets)
