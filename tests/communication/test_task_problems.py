"""A task under a partition is the table that two loops over all inputs make."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.communication.matrices import OneWay, matrix_of, one_way
from separatrix.communication.task_problems import (
    Reading,
    TaskProblem,
    input_positions,
    partition_of,
    task_problem,
)
from separatrix.errors import InvalidInput, SeparatrixError, TooLarge
from separatrix.tasks import task
from separatrix.tasks.interface import ChainTask, Partition, Task

SMALL: list[tuple[str, dict[str, Any], str | None]] = [
    ("dyck", {"n": 4}, "odd/even"),
    ("dyck", {"n": 6, "types": 1, "depth": 3}, "halves"),
    ("dyck", {"n": 4, "types": 3, "depth": 1}, "1,4"),
    ("equality", {"n": 6}, "halves"),
    ("equality", {"n": 4, "alphabet": 3}, "odd/even"),
    ("equality", {"n": 4, "alice": (0, 3)}, None),
    ("disjointness", {"n": 6}, None),
    ("sparse-threshold", {"n": 5}, "odd/even"),
    ("counting", {"n": 3, "alphabet": 2}, None),
    ("match2", {"n": 4, "modulus": 3}, None),
    ("match3", {"n": 4, "modulus": 5, "variant": "last"}, None),
    ("cycle3", {"n": 3}, None),
    ("cycle5", {"n": 5}, None),
    ("is-tree", {"n": 4}, None),
    ("is-tree", {"n": 4, "form": "cot"}, None),
    ("turing", {"n": 4, "machine": "palindrome"}, "halves"),
    ("turing", {"n": 3, "machine": "parity"}, "2"),
    ("index-lookup", {"n": 3, "alphabet": 3}, None),
    ("c-gram", {"n": 4, "alphabet": 3}, None),
]


def by_two_loops(asked: Task, split: Partition) -> dict[tuple[Any, Any], int]:
    """From what stands at Alice's and at Bob's positions to the answer, input by input."""
    pad = getattr(asked.input_space, "pad", None)
    found: dict[tuple[Any, Any], int] = {}
    for rows in asked.enumerate():
        for row, targets, mask in zip(rows, *vars(asked.solve(rows)).values(), strict=True):
            held = [row[list(part)].flatten().tolist() for part in (split.alice, split.bob)]
            if pad is not None and pad in itertools.chain(*held):
                continue
            labels = targets[mask].tolist()
            answer = labels[-1] if asked.asking.most == 1 or isinstance(asked, ChainTask) else max(labels)
            pair = tuple(held[0]), tuple(held[1])
            assert found.setdefault(pair, answer) == answer
    return found


@pytest.mark.parametrize(("name", "parameters", "split"), SMALL)
def test_every_entry_is_the_tasks_own_answer(
    name: str, parameters: dict[str, Any], split: str | None
) -> None:
    asked = task(name, **parameters)
    table = task_problem(asked, split)
    expected = by_two_loops(asked, table.partition)
    alice = [tuple(row.flatten().tolist()) for row in table.alice_strings(np.arange(table.rows))]
    bob = [tuple(row.flatten().tolist()) for row in table.bob_strings(np.arange(table.columns))]
    assert sorted(alice) == sorted({x for x, _ in expected})
    assert sorted(bob) == sorted({y for _, y in expected})
    entries = matrix_of(table).dense()
    meaning = dict(enumerate(table.answers))
    for (i, x), (j, y) in itertools.product(enumerate(alice), enumerate(bob)):
        if (x, y) in expected:
            answer = asked.render_target(torch.tensor(expected[x, y]))
            assert meaning[int(entries[i, j])] == answer
        else:
            assert entries[i, j] == -1
    assert table.total == (len(expected) == len(alice) * len(bob))


def test_is_tree_is_a_promise_and_dyck_is_not() -> None:
    tree = task_problem(task("is-tree", n=4))
    assert not tree.total
    assert tree.answers == ("NO", "YES")
    # Three vertex pairs, chosen in order, of six; the last edge may not be one of the first two.
    assert (tree.rows, tree.columns, int((matrix_of(tree).dense() >= 0).sum())) == (30, 6, 120)
    assert one_way(tree) == OneWay(5, 5)
    assert task_problem(task("dyck", n=20), "odd/even").total


def test_across_a_cut_dyck_needs_its_stack_and_between_odd_and_even_nearly_everything() -> None:
    # What four brackets lead to: nothing open, one of four stacks of two, or a string beyond repair.
    assert one_way(task_problem(task("dyck", n=8), "halves")) == OneWay(6, 6)
    # Every string of Alice's with a partner has a row of its own, and the others share one.
    assert one_way(task_problem(task("dyck", n=8), "odd/even")) == OneWay(2**7 + 1, 2**7 + 1)


def test_equality_over_the_halves_is_eq() -> None:
    split = task_problem(task("equality", n=8))
    assert matrix_of(split).dense().tolist() == np.eye(16, dtype=int).tolist()
    assert split.row_text(5) == "0 1 0 1 [SEP]"
    assert split.column_text(5) == "0 1 0 1"


def test_real_inputs_have_texts_too() -> None:
    graph = task_problem(task("cycle3", n=3))
    assert graph.row_text(1) == "0 0 1"
    assert graph.column_text(0) == "0 0 0; 0 0 0"


@pytest.mark.parametrize(("name", "parameters", "split"), SMALL)
def test_numbers_find_the_entry_of_an_input(name: str, parameters: dict[str, Any], split: str | None) -> None:
    asked = task(name, **parameters)
    table = task_problem(asked, split)
    inputs = next(iter(asked.enumerate()))
    held = [*table.partition.alice, *table.partition.bob]
    pad = getattr(asked.input_space, "pad", None)
    full = inputs if pad is None else inputs[(inputs[:, held] != pad).all(1)]
    pairs = table.numbers(full[::5])
    strings = torch.cat([table.alice_strings(pairs[:, 0]), table.bob_strings(pairs[:, 1])], dim=1)
    assert torch.equal(strings, full[::5][:, held])


def test_a_reading_is_the_label_at_a_position_or_any() -> None:
    asked = task("match2", n=4, modulus=3)
    for reading in (0, 3, "any"):
        wanted: Reading = reading
        table = task_problem(asked, "halves", reading=wanted)
        for rows in asked.enumerate():
            targets = asked.solve(rows).targets
            right = targets.amax(1) if reading == "any" else targets[:, int(reading)]
            pairs = table.numbers(rows)
            entries = [int(table.at(pairs[i, :1], pairs[i, 1:])[0, 0]) for i in range(len(rows))]
            assert entries == right.tolist()
    with pytest.raises(InvalidInput, match="match2 has 4 positions; there is no label at position 5"):
        task_problem(asked, reading=4)
    with pytest.raises(InvalidInput, match="has no label at position 2 of every input"):
        matrix_of(task_problem(task("disjointness", n=4), reading=1))
    with pytest.raises(InvalidInput, match="'any' needs answers of yes or no"):
        task_problem(task("index-lookup", n=3, alphabet=3), reading="any")


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 5), min_size=1, max_size=5), st.booleans())
def test_any_partition_will_do(alice: set[int], by_text: bool) -> None:
    asked = task("dyck", n=6, types=1, depth=2)
    bob = {*range(6)} - alice
    given_: str | Partition = Partition(alice=tuple(alice), bob=tuple(bob))
    if by_text:
        given_ = ",".join(str(place + 1) for place in alice)
    table = task_problem(asked, given_)
    expected = by_two_loops(asked, table.partition)
    entries = matrix_of(table).dense()
    for (x, y), answer in expected.items():
        row, column = (int("".join(map(str, string)), 2) for string in (x, y))
        assert entries[row, column] == answer


def test_positions_are_written_as_numbers_and_ranges() -> None:
    asked = task("dyck", n=8)
    assert partition_of(asked, "1-3,7")[1] == Partition(alice=(0, 1, 2, 6), bob=(3, 4, 5, 7))
    assert partition_of(asked, "2, 1 / 3-8")[1] == Partition(alice=(0, 1), bob=(2, 3, 4, 5, 6, 7))
    assert partition_of(asked)[0] == "odd/even"
    assert partition_of(task("equality", n=6), "odd/even")[1] == Partition.odd_even(7)
    chain = task("is-tree", n=4, form="cot")
    assert input_positions(chain) == tuple(range(10))
    assert partition_of(chain, "1-4")[1] == Partition(
        alice=(0, 1, 2, 3), bob=tuple(range(4, 10)), written=tuple(range(10, chain.length))
    )


@pytest.mark.parametrize(
    ("given_", "sentence"),
    [
        (
            "1,3/2,4,5",
            "gives each of its 6 positions to Alice or to Bob; here position 6 is given to nobody.",
        ),
        ("1-3/3-6", "here position 3 is given to Alice and Bob."),
        ("1,1/2-6", "here position 1 is given to Alice and Alice."),
        ("5-7", "Positions of dyck run from 1 to 6; got '5-7'."),
        ("0-2", "Positions of dyck run from 1 to 6; got '0-2'."),
        ("3-1", "Positions of dyck run from 1 to 6; got '3-1'."),
        ("thirds", "by a name (odd/even, prefix/suffix, halves) or by Alice's positions counted from 1"),
        ("1/2/3", "such as 1,4-6; got '1/2/3'."),
        ("", "such as 1,4-6; got ''."),
        ("1-6", "Both parties hold a position of dyck; here one holds none."),
        (Partition(alice=(0, 1), bob=(2,)), "here position 4 is given to nobody."),
        (Partition.odd_even(8), "here there is no position 7."),
        (Partition(alice=(0, 1), bob=(2, 3, 4), written=(5,)), "here position 6 is part of the input"),
    ],
)
def test_a_partition_that_does_not_cover_the_input_is_refused(given_: str | Partition, sentence: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        task_problem(task("dyck", n=6), given_)
    assert sentence in str(refusal.value)


def test_tasks_without_one_of_finitely_many_answers_are_refused() -> None:
    for name, parameters, sentence in (
        ("q-sparse-averaging", {"n": 4}, "answers with vectors"),
        ("mqar", {"n": 4}, "asks for 2 at once; say which position's label they want"),
        ("dyck", {"n": 4, "form": "next"}, "names no split of its own"),
    ):
        with pytest.raises(SeparatrixError) as refusal:
            matrix_of(task_problem(task(name, **parameters)))
        assert sentence in str(refusal.value)


@pytest.mark.slow
def test_few_inputs_among_many_words_are_listed() -> None:
    """Thirteen thresholds are words too, but only the last word is one."""
    table = task_problem(task("counting", n=12, alphabet=2))
    assert (table.rows, table.columns, table.total) == (2**12, 2 * 13, True)
    short = task("equality", n=4).parse("0 [SEP] 0").unsqueeze(0)
    with pytest.raises(InvalidInput, match="Row 0 is no input of equality of full length"):
        task_problem(task("equality", n=4)).numbers(short)


def test_what_is_too_large_says_so() -> None:
    with pytest.raises(TooLarge, match=r"A party holds 50 of 100 positions of dyck, one of up to 4\^50"):
        matrix_of(task_problem(task("dyck", n=100)))
    with pytest.raises(TooLarge, match=r"A party holds 524288 of 1048576 positions"):
        matrix_of(task_problem(task("disjointness", n=1 << 20)))
    with pytest.raises(TooLarge, match=r"equality has more than 2\^40 inputs"):
        matrix_of(task_problem(task("equality", n=40)))


def test_what_nobody_holds_must_not_matter() -> None:
    """Two given positions declared to be the model's: the answer is then open."""
    asked = task("is-tree", n=4)
    broken = TaskProblem(asked, Partition(alice=(0, 1, 2, 3), bob=(4, 5, 6, 7), written=(8, 9)))
    with pytest.raises(InvalidInput, match="does not settle the answer of is-tree"):
        matrix_of(broken)


@pytest.mark.parametrize("at_once", [1, 3, 9, 10, 40])
def test_entries_do_not_depend_on_how_many_are_solved_at_once(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine columns: fewer at once than one row has, just one row, and several."""
    asked = task_problem(task("match2", n=4, modulus=3, distinct=True))
    rows, columns = np.array([8, 0, 3, 3, 5, 1, 7]), np.array([4, 0, 8, 2, 6, 1, 3, 7, 5])
    whole = asked.at(rows, columns)
    by_hand = [[int(any((a + b) % 3 == 0 for a, b in _pairs(x, y))) for y in columns] for x in rows]
    assert whole.tolist() == by_hand
    monkeypatch.setattr("separatrix.communication.task_problems._SOLVED", at_once)
    assert asked.at(rows, columns).tolist() == by_hand


def _pairs(x: int, y: int) -> list[tuple[int, int]]:
    """Pairs of different positions among the digits of a row's and a column's number."""
    digits = (x // 3, x % 3, y // 3, y % 3)
    return list(itertools.combinations(digits, 2))
