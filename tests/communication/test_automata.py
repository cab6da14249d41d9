"""Minimal automata: ours against automata-lib's, and the states that S-L4 counts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.communication import automata
from separatrix.communication import language_states as states_module
from separatrix.communication.automata import (
    Automaton,
    AutomatonEntries,
    automaton_of_strings,
    dyck_automaton,
)
from separatrix.communication.language_states import language_states
from separatrix.communication.matrices import OneWay, matrix_of
from separatrix.communication.task_problems import task_problem
from separatrix.errors import InvalidInput, SeparatrixError, TooLarge
from separatrix.tasks import task
from separatrix.tasks.interface import Partition

BITS = ("0", "1")


def every(length: int, symbols: int = 2) -> np.ndarray:
    return np.array(list(itertools.product(range(symbols), repeat=length))).reshape(symbols**length, length)


def residuals(strings: set[tuple[int, ...]], length: int, symbols: int) -> int:
    """How many sets of continuations there are, over all prefixes: the states, by definition."""
    found = {frozenset[tuple[int, ...]]()}
    for size in range(length + 1):
        for prefix in itertools.product(range(symbols), repeat=size):
            found.add(frozenset(string[size:] for string in strings if string[:size] == prefix))
    return len(found)


@settings(max_examples=80, deadline=None)
@given(st.data(), st.integers(0, 4), st.integers(1, 3))
def test_a_finite_language_has_a_state_for_each_residual(
    data: st.DataObject, length: int, symbols: int
) -> None:
    strings = data.draw(st.sets(st.tuples(*[st.integers(0, symbols - 1)] * length)))
    array = np.array(sorted(strings), dtype=np.int64).reshape(len(strings), length)
    found = automaton_of_strings(array, [str(number) for number in range(symbols)])
    everything = every(length, symbols)
    assert found.accepts(everything).tolist() == [tuple(row) in strings for row in everything.tolist()]
    assert found.states == residuals(strings, length, symbols)
    assert found.live == found.states - 1
    assert found.count(length) == len(strings)
    assert found.count(length + 1) == 0
    # The library comes to the same number, and our own refinement finds nothing to merge.
    assert len(found.to_dfa().minify().states) == found.states == found.minimised().states


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 7), st.integers(1, 3))
def test_refinement_agrees_with_the_library(data: st.DataObject, states: int, symbols: int) -> None:
    moves = data.draw(
        st.lists(st.integers(0, states - 1), min_size=states * symbols, max_size=states * symbols)
    )
    final = data.draw(st.lists(st.booleans(), min_size=states, max_size=states))
    given_ = Automaton(
        transitions=np.array(moves).reshape(states, symbols),
        start=data.draw(st.integers(0, states - 1)),
        accepting=np.array(final),
        symbols=tuple(map(str, range(symbols))),
    )
    small = given_.minimised()
    library = Automaton.from_dfa(given_.to_dfa().minify(), given_.symbols)
    assert small.states == library.states
    for length in range(4):
        strings = every(length, symbols)
        right = given_.accepts(strings).tolist()
        assert small.accepts(strings).tolist() == library.accepts(strings).tolist() == right
        assert given_.count(length) == small.count(length) == sum(right)


@pytest.mark.parametrize(("types", "depth"), [(2, 2), (1, 1), (1, 4), (3, 2), (2, 3)])
def test_dyck_automata(types: int, depth: int) -> None:
    found = dyck_automaton(types=types, depth=depth)
    assert found.live == sum(types**height for height in range(depth + 1))
    assert found.states == found.live + 1 == found.minimised().states
    for n in (2, 4, 6):
        if (2 * types) ** n <= 1 << 16:
            asked = task("dyck", n=n, types=types, depth=depth)
            for inputs in asked.enumerate():
                assert found.accepts(inputs.numpy()).tolist() == asked.solve(inputs).answer.bool().tolist()
    assert found.symbols[:2] == ("(", ")")


def test_dyck_22_has_seven_live_states_and_a_dead_one() -> None:
    found = dyck_automaton(types=2, depth=2)
    assert (found.states, found.live) == (8, 7)
    assert found.count(100) == 2**99


@pytest.mark.parametrize("half", [1, 2, 3, 5, 8])
def test_equal_halves_take_three_times_two_to_the_half(half: int) -> None:
    words = np.tile(every(half), 2)
    found = automaton_of_strings(words, BITS)
    assert (found.states, found.live) == (3 * 2**half - 1, 3 * 2**half - 2)


@pytest.mark.parametrize("n", [2, 4, 6, 8])
def test_equality_with_its_separator(n: int) -> None:
    found = language_states(task("equality", n=n))
    half = n // 2
    assert (found.states, found.live, found.bits) == (2 ** (half + 2) - 1, 2 ** (half + 2) - 2, half + 2)
    # S-T11's number is the width in the middle, before the separator and behind it.
    assert found.width(half) == found.width(half + 1) == OneWay(2**half, 2**half)
    assert found.width(1) == OneWay(2, 2)
    assert found.widest() == (half, OneWay(2**half, 2**half))


def test_a_dyck_language_of_one_length() -> None:
    """At length 8: dead, and for each prefix length the stacks that can still be closed."""
    found = language_states(task("dyck", n=8))
    stacks = {0: 1, 1: 2, 2: 4}
    open_after = [
        sum(stacks[height] for height in range(3) if (t - height) % 2 == 0 and height <= min(t, 8 - t))
        for t in range(9)
    ]
    assert found.states == sum(open_after) + 1
    # After four brackets: none open, four stacks of two, or dead.
    assert found.width(4) == OneWay(6, 6)
    assert found.automaton.count(8) == 2**7


def test_disjointness_needs_every_set() -> None:
    found = language_states(task("disjointness", n=8))
    assert found.width(4) == OneWay(16, 16)
    assert found.automaton.count(8) == 4**4 - 3**4


def test_a_promise_is_bounded_from_both_sides() -> None:
    found = language_states(task("is-tree", n=4))
    assert found.width(7) == OneWay(5, 5)
    assert found.states >= found.width(7).at_least


@pytest.mark.parametrize("split", ["odd/even", "halves", "1,4-6"])
@pytest.mark.parametrize(("types", "depth"), [(2, 2), (1, 3)])
def test_an_automaton_fills_the_table_of_its_task(split: str, types: int, depth: int) -> None:
    asked = task("dyck", n=6, types=types, depth=depth)
    table = task_problem(asked, split)
    filled = AutomatonEntries(dyck_automaton(types=types, depth=depth), table.partition)
    assert matrix_of(filled).dense().tolist() == matrix_of(table).dense().tolist()
    assert [filled.row_text(2), filled.column_text(1)] == [table.row_text(2), table.column_text(1)]


def test_many_states_fill_a_table_too() -> None:
    """Beyond 256 states narrow numbers would run over."""
    words = np.tile(every(7), 2)
    wide = automaton_of_strings(words, BITS)
    assert wide.states > 256
    filled = AutomatonEntries(wide, Partition.prefix(14, 7))
    assert np.array_equal(matrix_of(filled).dense(), np.eye(128, dtype=np.int8))


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="1 to 8 types and depth ≥ 1; got types=9, depth=2"):
        dyck_automaton(types=9)
    with pytest.raises(TooLarge, match=r"Dyck-\(2,40\) has more than 65,536 stacks"):
        dyck_automaton(depth=40)
    with pytest.raises(InvalidInput, match=r"symbols 0 … 1 and two axes"):
        automaton_of_strings(np.array([[2]]), BITS)
    with pytest.raises(InvalidInput, match="0 symbols or more; got length=-1"):
        dyck_automaton().count(-1)
    with pytest.raises(InvalidInput, match="each belongs to Alice or to Bob"):
        AutomatonEntries(dyck_automaton(), Partition(alice=(0,), bob=(1,), written=(2,)))
    with pytest.raises(InvalidInput, match=r"A cut leaves symbols on both sides, 1 … 3; got 4"):
        language_states(task("dyck", n=4)).width(4)
    for name, parameters in (("index-lookup", {"n": 3, "alphabet": 3}), ("cycle3", {"n": 3})):
        with pytest.raises(SeparatrixError, match=f"answers yes or no to; {name} with these parameters"):
            language_states(task(name, **parameters))
    monkeypatch.setattr(automata, "_MOST_CELLS", 10)
    with pytest.raises(TooLarge, match="needs more than 10 transitions"):
        automaton_of_strings(every(4), BITS)
    monkeypatch.setattr(states_module, "_MOST_MEMBERS", 5)
    with pytest.raises(TooLarge, match="The language of dyck has more than 5 strings"):
        language_states(task("dyck", n=4))
