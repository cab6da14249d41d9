"""Multi-query recall against a dictionary, its sampling law, and the words of its errors."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.tasks import Task, task
from separatrix.tasks.mqar import MultiQueryRecall
from separatrix.testing import TaskConformance
from tests.tasks.laws import follow


class TestMultiQueryRecall(TaskConformance):
    typical = (
        MultiQueryRecall(n=32),
        MultiQueryRecall(n=10, vocabulary_size=14),
        MultiQueryRecall(n=8, vocabulary_size=8),
    )
    small = (
        MultiQueryRecall(n=2, vocabulary_size=2),
        MultiQueryRecall(n=2, vocabulary_size=6),
        MultiQueryRecall(n=4, vocabulary_size=6),
        MultiQueryRecall(n=6, vocabulary_size=6),
    )

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        words = [task.vocabulary.word(token) for token in row]  # type: ignore[attr-defined]
        memory: dict[str, str] = {}
        answers = {}
        for place in range(0, len(words), 2):
            if words[place] in memory:
                answers[place] = int(memory[words[place]].removeprefix("v"))
            memory[words[place]] = words[place + 1]
        return answers

    def balance(self, task: Task) -> dict[int, float] | None:
        assert isinstance(task, MultiQueryRecall)
        values = task.vocabulary_size // 2
        return dict.fromkeys(range(values), 1 / values) if values < 10 else None


def test_shape_of_an_input() -> None:
    recall = MultiQueryRecall(n=128)
    batch = recall.sample(50, seed=1)
    assert recall.length == batch.inputs.shape[1] == 256
    assert recall.vocabulary.size == 8192
    assert set(batch.lengths.tolist()) == {256}
    assert batch.mask.nonzero()[:64, 1].tolist() == list(range(128, 256, 2))
    assert torch.equal(batch.mask, batch.mask[:1].expand(50, -1))
    assert torch.equal(batch.targets[:, 128::2], batch.inputs[:, 129::2]), "a query is followed by its answer"
    for row in batch.inputs.tolist():
        keys, queries = row[:128:2], row[128::2]
        assert len(set(keys)) == 64
        assert sorted(keys) == sorted(queries)
        assert min(keys) >= 4096 > max(row[1::2])


def test_keys_labels_and_order_are_uniform() -> None:
    """With two of three keys and labels of three there are 6 · 9 · 2 inputs, all equally likely."""
    recall = MultiQueryRecall(n=4, vocabulary_size=6)
    count = 21_600
    seen = Counter(map(tuple, recall.sample(count, seed=5).inputs.tolist()))
    assert len(seen) == recall.domain_size() == 108
    assert all(abs(share - count / 108) < 5 * (count / 108) ** 0.5 for share in seen.values())


def test_every_order_of_the_queries_is_equally_likely() -> None:
    rows = MultiQueryRecall(n=8, vocabulary_size=10).sample(6000, seed=5).inputs.tolist()
    orders = [tuple(row[:8:2].index(query) for query in row[8::2]) for row in rows]
    assert follow(orders, dict.fromkeys(itertools.permutations(range(4)), 1))


def test_large_numbers_decode() -> None:
    recall = MultiQueryRecall(n=64)
    rows = recall.decode(torch.tensor([0, (1 << 62) - 1]))
    for row in rows:
        recall.check(row)
    assert not torch.equal(rows[0], rows[1])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 7}, "mqar needs an even n from 2 to 2^17; got n=7. Try 8."),
        ({"n": -3}, "mqar needs an even n from 2 to 2^17; got n=-3. Try 2."),
        ({"n": 1 << 60}, f"mqar needs an even n from 2 to 2^17; got n={1 << 60}. Try 131072."),
        (
            {"n": 8, "vocabulary_size": 7},
            (
                "mqar with n=8 needs an even vocabulary_size from 8 to 2^20, so that 4 keys can differ; "
                "got vocabulary_size=7. Try 8."
            ),
        ),
        (
            {"n": 1 << 14},
            (
                "mqar with n=16384 needs an even vocabulary_size from 16384 to 2^20, so that 8192 keys can "
                "differ; got vocabulary_size=8192. Try 16384."
            ),
        ),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("mqar", **parameters)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k0 v1 k2", "This task's inputs have exactly 8 words; got 3."),
        ("k0 v1 k2 v0 k2 v0 v0 v1", "Word 7 must be a key; got 'v0'."),
        ("k0 k1 k2 v0 k2 v0 k0 v1", "Word 2 must be a label; got 'k1'."),
        ("k0 v1 k0 v0 k2 v0 k0 v1", "The first 2 keys must differ; k0 is there twice."),
        ("k0 v1 k2 v0 k1 v0 k0 v1", "Every query must be one of the first 2 keys; got k1."),
        ("k0 v1 k2 v0 k0 v1 k0 v1", "Every key must be asked for once; k0 is asked for twice."),
        ("k0 v1 k2 v0 k2 v1 k0 v1", "k2 has the label v0; its query is followed by v1."),
        ("k0 v1 k2 v0 k2 v0 k0 v3", "'v3' is no word of this task; known are v0 v1 v2, k0 k1 k2."),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        MultiQueryRecall(n=4, vocabulary_size=6).parse(text)
    assert str(caught.value) == message


FUZZED = MultiQueryRecall(n=4, vocabulary_size=4)
WORDS = st.one_of(st.sampled_from(["k0", "k1", "v0", "v1", "k2", "<pad>", "k01"]), st.text(max_size=3))
INPUTS = st.integers(0, FUZZED.domain_size() - 1).map(
    lambda number: FUZZED.render(FUZZED.decode(torch.tensor([number]))[0]).split()
)


@st.composite
def nearly_inputs(draw: st.DrawFn) -> str:
    written = draw(INPUTS)
    written[draw(st.integers(0, len(written) - 1))] = draw(WORDS)
    return " ".join(written)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(), nearly_inputs()))
def test_any_text_is_an_input_or_refused(text: str) -> None:
    try:
        row = FUZZED.parse(text)
    except InvalidInput:
        return
    assert FUZZED.render(row) == " ".join(text.split())


@settings(max_examples=150, deadline=None)
@given(
    n=st.one_of(st.integers(-2, 40), st.integers((1 << 17) + 1), st.integers(max_value=0)),
    size=st.one_of(st.integers(), st.integers(-2, 60)),
)
def test_any_parameters_make_a_task_or_are_refused(n: int, size: int) -> None:
    try:
        recall = task("mqar", n=n, vocabulary_size=size)
    except InvalidInput:
        return
    batch = recall.sample(2, seed=0)
    recall.check(batch.inputs[1])
    assert torch.equal(recall.solve(batch.inputs).targets, batch.targets)
