"""Associative recall in both forms against its definition, its sampling laws, and the words of its errors."""

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
from separatrix.evidence import TaskSpec
from separatrix.tasks import Task, task
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.specs import defaults_of, spec_of, task_of
from separatrix.testing import TaskConformance


class TestPairs(TaskConformance):
    typical = (
        AssociativeRecall(n=32),
        AssociativeRecall(n=5, keys=5, values=3),
        AssociativeRecall(n=12, keys=1000, values=2, lengths="full"),
        AssociativeRecall(n=1, keys=3, values=2),
    )
    small = (
        AssociativeRecall(n=3, keys=3, values=2),
        AssociativeRecall(n=2, keys=4, values=3),
        AssociativeRecall(n=1, keys=1, values=2),
    )

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        assert isinstance(task, AssociativeRecall)
        *pairs, query = task.render(torch.tensor(row)).split()
        memory = dict(zip(pairs[::2], pairs[1::2], strict=True))
        return {len(pairs): int(memory[query].removeprefix("v"))}

    def balance(self, task: Task) -> dict[int, float]:
        assert isinstance(task, AssociativeRecall)
        values = task.values or 64
        return dict.fromkeys(range(values), 1 / values)


class TestFixedOrder(TaskConformance):
    typical = (
        AssociativeRecall(n=32, order="fixed"),
        AssociativeRecall(n=5, keys=5, values=3, order="fixed"),
        AssociativeRecall(n=12, keys=1000, values=2, lengths="full", order="fixed"),
        AssociativeRecall(n=1, keys=3, values=2, order="fixed"),
    )
    small = (
        AssociativeRecall(n=4, keys=5, values=3, order="fixed"),
        AssociativeRecall(n=3, keys=3, values=2, order="fixed"),
        AssociativeRecall(n=3, keys=3, values=1, order="fixed"),
        AssociativeRecall(n=1, keys=1, values=2, order="fixed"),
    )

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        """The query's number says which of the labels is meant."""
        *pairs, query = task.render(torch.tensor(row)).split()
        place = int(query.removeprefix("k"))
        assert pairs[::2] == [f"k{number}" for number in range(len(pairs) // 2)]
        return {len(pairs): int(pairs[1::2][place].removeprefix("v"))}

    def balance(self, task: Task) -> dict[int, float]:
        assert isinstance(task, AssociativeRecall)
        values = task.target_space.size
        return dict.fromkeys(range(values), 1 / values)


class TestSequence(TaskConformance):
    typical = (
        AssociativeRecall(n=20, form="sequence"),
        AssociativeRecall(n=30, form="sequence", alphabet=4),
        AssociativeRecall(n=6, form="sequence", alphabet=3, lengths="full"),
        AssociativeRecall(n=2, form="sequence", alphabet=5),
    )
    small = (
        AssociativeRecall(n=5, form="sequence", alphabet=2),
        AssociativeRecall(n=4, form="sequence", alphabet=3),
        AssociativeRecall(n=3, form="sequence"),
        AssociativeRecall(n=4, form="sequence", alphabet=1),
        AssociativeRecall(n=2, form="sequence", alphabet=3),
    )

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        """As a search in the text: the first word after the query."""
        text = task.render(torch.tensor(row))
        *sequence, query = text.split()
        found = re.search(rf"(?:^|\s){query}\s+s(\d+)", text)
        assert found is not None
        return {len(sequence): int(found.group(1))}

    def balance(self, task: Task) -> dict[int, float]:
        assert isinstance(task, AssociativeRecall)
        size = task.alphabet or task.n
        return dict.fromkeys(range(size), 1 / size)


@pytest.mark.parametrize(("form", "words"), [("pairs", 2), ("sequence", 1)])
def test_lengths_are_uniform_from_ten_to_n(form: str, words: int) -> None:
    recall = task("associative-recall", n=14, form=form)
    seen = Counter(recall.sample(4000, seed=1).lengths.tolist())
    assert sorted(seen) == [words * k + 1 for k in range(10, 15)]
    assert all(abs(count - 800) < 130 for count in seen.values())
    assert set(recall.full_length().sample(50, seed=1).lengths.tolist()) == {words * 14 + 1}


def test_pairs_of_one_length_are_all_equally_likely() -> None:
    recall = AssociativeRecall(n=2, keys=3, values=2)
    seen = Counter(map(tuple, recall.sample(12_000, seed=2).inputs.tolist()))
    assert len(seen) == 6 * 4 * 2
    assert all(abs(count - 250) < 5 * 250**0.5 for count in seen.values())


def test_labels_and_queries_at_fixed_keys_are_all_equally_likely() -> None:
    recall = AssociativeRecall(n=2, keys=3, values=2, order="fixed")
    seen = Counter(map(recall.render, recall.sample(12_000, seed=2).inputs))
    assert set(seen) == {
        f"k0 v{first} k1 v{second} k{asked}" for first, second, asked in product(range(2), repeat=3)
    }
    assert all(abs(count - 1500) < 5 * 1500**0.5 for count in seen.values())


def test_the_order_leaves_everything_else_as_it_was() -> None:
    """Lengths, labels and queries of a seed are the same; so is the description of the task before."""
    fixed, free = (AssociativeRecall(n=14, keys=20, values=5, order=order) for order in ("fixed", "any"))
    assert fixed.vocabulary.describe() == free.vocabulary.describe()
    drawn, before = fixed.sample(200, seed=5), free.sample(200, seed=5)
    assert torch.equal(drawn.lengths, before.lengths)
    assert torch.equal(drawn.targets, before.targets)
    assert torch.equal(drawn.inputs[:, 1:-1:2], before.inputs[:, 1:-1:2])
    assert spec_of(free) == TaskSpec(
        name="associative-recall",
        params={"n": 14, "form": "pairs", "keys": 20, "values": 5, "alphabet": 0, "lengths": "varied"},
    )
    assert {**defaults_of(AssociativeRecall), "n": 14} == spec_of(AssociativeRecall(n=14)).params
    assert spec_of(fixed).params["order"] == "fixed"
    assert task_of(spec_of(fixed)) == fixed
    assert task_of(spec_of(free)) == free


def test_a_sequence_is_uniform_and_its_query_stands_at_a_uniform_place() -> None:
    recall = AssociativeRecall(n=3, form="sequence", alphabet=2)
    law = Counter((*tokens, tokens[place]) for tokens in product(range(2), repeat=3) for place in range(2))
    count = 16_000
    seen = Counter(map(tuple, recall.sample(count, seed=2).inputs.tolist()))
    assert set(seen) == set(law)
    for row, weight in law.items():
        assert abs(seen[row] - count * weight / 16) < 5 * (count * weight / 16) ** 0.5


def test_the_alphabet_grows_with_n() -> None:
    assert AssociativeRecall(n=8).vocabulary.describe() == "v0 … v63, k0 … k63"
    assert AssociativeRecall(n=100).vocabulary.describe() == "v0 … v63, k0 … k99"
    assert AssociativeRecall(n=100, form="sequence").vocabulary.describe() == "s0 … s99"


def test_bob_holds_the_query_alone() -> None:
    for form, length in ("pairs", 9), ("sequence", 5):
        split = task("associative-recall", n=4, form=form).partitions()["prefix/suffix"]
        assert split.bob == (length - 1,)


@pytest.mark.parametrize("parameters", [{"form": "pairs"}, {"form": "sequence"}, {"order": "fixed"}])
def test_large_domains_are_counted_but_not_numbered(parameters: dict[str, Any]) -> None:
    recall = task("associative-recall", n=1 << 12, **parameters)
    assert recall.domain_size().bit_length() > 1 << 12
    with pytest.raises(TooLarge, match="associative-recall with n=4096 has too many inputs to number"):
        recall.decode(torch.tensor([0]))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 0}, "associative-recall in pairs form needs 1 ≤ n ≤ 2^16; got n=0. Try 64."),
        (
            {"n": 1, "form": "sequence"},
            "associative-recall in sequence form needs 2 ≤ n ≤ 2^16; got n=1. Try 64.",
        ),
        ({"n": 1 << 60}, f"associative-recall in pairs form needs 1 ≤ n ≤ 2^16; got n={1 << 60}. Try 64."),
        (
            {"n": 100, "keys": 99},
            "associative-recall needs keys from 100 to 2^20, or 0 to choose; got keys=99. Try 100.",
        ),
        (
            {"n": 4, "values": -1},
            "associative-recall needs values from 1 to 2^20, or 0 to choose; got values=-1. Try 64.",
        ),
        (
            {"n": 4, "form": "sequence", "alphabet": 1 << 21},
            "associative-recall needs alphabet from 1 to 2^20, or 0 to choose; got alphabet=2097152. Try 64.",
        ),
        (
            {"n": 4, "alphabet": 5},
            (
                "associative-recall knows alphabet only in sequence form; got alphabet=5 with form=pairs. "
                "Leave it out."
            ),
        ),
        (
            {"n": 4, "form": "sequence", "keys": 5},
            (
                "associative-recall knows keys only in pairs form; got keys=5 with form=sequence. "
                "Leave it out."
            ),
        ),
        (
            {"n": 4, "form": "sequence", "order": "fixed"},
            "associative-recall knows order=fixed only in pairs form; got form=sequence. Leave it out.",
        ),
        ({"n": 4, "order": "up"}, "associative-recall knows order as any or fixed; got 'up'."),
        ({"n": 4, "form": "list"}, "associative-recall knows form as pairs or sequence; got 'list'."),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("associative-recall", **parameters)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "k1 v0",
            (
                "An input has an odd number of words from 3 to 7, pairs of key and label and then a query; "
                "got 2."
            ),
        ),
        ("k1 v0 k2 k2 k1", "Word 4 must be a label; got 'k2'."),
        ("v1 v0 k1", "Word 1 must be a key; got 'v1'."),
        ("k1 v0 k1 v1 k1", "Keys must differ; k1 is there twice."),
        ("k1 v0 k2 v1 k0", "The query must be one of the keys before it; got k0."),
        ("k1 v0 k2 v1 v0", "Word 5 must be a key; got 'v0'."),
        ("k1 v0 k9 v1 k1", "'k9' is no word of this task; known are v0 v1, k0 k1 k2."),
    ],
)
def test_bad_pairs(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        AssociativeRecall(n=3, keys=3, values=2).parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k1 v0 k0", "Keys stand in their order here, k0 k1 k2 …, so key 1 must be k0; got k1."),
        ("k0 v0 k2 v1 k0", "Keys stand in their order here, k0 k1 k2 …, so key 2 must be k1; got k2."),
        ("k0 v0 k0 v1 k0", "Keys must differ; k0 is there twice."),
        ("k0 v0 k1 v1 k2", "The query must be one of the keys before it; got k2."),
    ],
)
def test_bad_pairs_in_fixed_order(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        AssociativeRecall(n=3, keys=3, values=2, order="fixed").parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s1 s1", "An input has 3 to 4 words, a sequence and then a query; got 2."),
        ("s0 s1 s1", "The query must occur in the sequence with a token after it; s1 does not."),
        ("s0 s1 s2", "The query must occur in the sequence with a token after it; s2 does not."),
        ("s0 s1 s2 s0 s1", "This task's inputs have at most 4 words; got 5."),
    ],
)
def test_bad_sequences(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        AssociativeRecall(n=3, form="sequence").parse(text)
    assert str(caught.value) == message


WORDS = ["k0", "k1", "k2", "v0", "v1", "s0", "s1", "s2", "<pad>", "s01", "k"]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join))
PAIRED = st.lists(st.tuples(st.sampled_from(["k0", "k1", "k2"]), st.sampled_from(["v0", "v1"])), max_size=4)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.one_of(TEXTS, PAIRED.map(lambda pairs: " ".join([word for pair in pairs for word in pair] + ["k1"])))
)
def test_any_text_is_an_input_or_refused(text: str) -> None:
    for recall in (
        AssociativeRecall(n=3, keys=3, values=2),
        AssociativeRecall(n=3, keys=3, values=2, order="fixed"),
        AssociativeRecall(n=4, form="sequence", alphabet=3),
    ):
        try:
            row = recall.parse(text)
        except InvalidInput:
            continue
        assert recall.render(row) == " ".join(text.split())


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    n=st.one_of(st.integers(-1, 40), st.integers((1 << 16) + 1), st.integers(max_value=0)),
    form=st.sampled_from(["pairs", "sequence"]),
    order=st.sampled_from(["any", "fixed"]),
    sizes=st.dictionaries(
        st.sampled_from(["keys", "values", "alphabet"]),
        st.one_of(st.integers(), st.integers(-1, 60)),
        max_size=2,
    ),
)
def test_any_parameters_make_a_task_or_are_refused(
    n: int, form: str, order: str, sizes: dict[str, int]
) -> None:
    try:
        recall = task("associative-recall", n=n, form=form, order=order, **sizes)
    except InvalidInput:
        return
    batch = recall.sample(2, seed=0)
    recall.check(batch.inputs[1])
    assert torch.equal(recall.solve(batch.inputs).targets, batch.targets)
