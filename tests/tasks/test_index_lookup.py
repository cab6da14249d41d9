"""Index lookup against its definition, and the words of its errors."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.errors import InvalidInput
from separatrix.tasks import Task, task
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.testing import TaskConformance
from tests.tasks.laws import follow


class TestIndexLookup(TaskConformance):
    typical = (IndexLookup(n=32), IndexLookup(n=3, alphabet=5), IndexLookup(n=20, lengths="full"))
    small = (IndexLookup(n=3, alphabet=2), IndexLookup(n=1, alphabet=3), IndexLookup(n=4, alphabet=1))

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        assert isinstance(task, IndexLookup)
        words = task.vocabulary
        written = [words.word(token) for token in row if words.word(token) != "<pad>"]
        *symbols, index = written
        return {len(symbols): int(symbols[int(index.removeprefix("@")) - 1].removeprefix("s"))}

    def balance(self, task: Task) -> dict[int, float]:
        assert isinstance(task, IndexLookup)
        return dict.fromkeys(range(task.alphabet), 1 / task.alphabet)


def test_lengths_are_uniform_from_ten_to_n_and_indices_up_to_each() -> None:
    batch = IndexLookup(n=12, alphabet=2).sample(12_000, seed=1)
    count = batch.lengths - 1
    index = batch.inputs.gather(1, count.unsqueeze(1)).squeeze(1) - 1
    law = {(k, place): 1 / (3 * k) for k in (10, 11, 12) for place in range(1, k + 1)}
    assert follow(zip(count.tolist(), index.tolist(), strict=True), law)


def test_at_full_length_the_index_is_uniform() -> None:
    batch = IndexLookup(n=12, alphabet=2).full_length().sample(6000, seed=1)
    assert set(batch.lengths.tolist()) == {13}
    assert follow((batch.inputs[:, 12] - 1).tolist(), dict.fromkeys(range(1, 13), 1 / 12))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 0}, "index-lookup needs 1 ≤ n ≤ 2^24; got n=0. Try 64."),
        (
            {"n": 4, "alphabet": 0},
            "index-lookup needs an alphabet of 1 to 2^20 symbols; got alphabet=0. Try 64.",
        ),
        ({"n": 4, "lengths": "long"}, "index-lookup knows lengths as varied or full; got 'long'."),
        ({"n": 4.5}, "index-lookup needs a whole number for n; got 4.5."),
        ({}, "index-lookup needs a value for n; none was given."),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("index-lookup", **parameters)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s1 s0 @3", "The index must point at one of the 2 symbols; got @3."),
        ("s1 s0", "The last word must be an index from @1 to @1; got 's0'."),
        ("@1", "index-lookup needs one to 3 symbols and then one index; got '@1'."),
        ("s1 s2 @1", "'s2' is no word of this task; known are s0 s1, @1 @2 @3."),
        ("s1 s0 s1 s0 @1", "This task's inputs have at most 4 words; got 5."),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        IndexLookup(n=3, alphabet=2).parse(text)
    assert str(caught.value) == message
