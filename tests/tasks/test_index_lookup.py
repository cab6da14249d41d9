"""Index lookup against its definition, and the words of its errors."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.errors import InvalidInput
from separatrix.tasks import Task, task
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.testing import TaskConformance


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


def test_lengths_are_uniform_from_ten_to_n() -> None:
    lengths = IndexLookup(n=14).sample(4000, seed=1).lengths - 1
    assert sorted(set(lengths.tolist())) == [10, 11, 12, 13, 14]
    assert set((IndexLookup(n=14).full_length().sample(50, seed=1).lengths - 1).tolist()) == {14}


def test_the_index_is_uniform_over_the_symbols_present() -> None:
    lookup = IndexLookup(n=2, alphabet=2, lengths="full")
    index = lookup.sample(4000, seed=1).inputs[:, 2]
    assert abs((index == 2).double().mean().item() - 0.5) < 0.04


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
