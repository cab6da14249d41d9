"""Walls: against brute force, against the registry of bounds, and where there are none."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as some

from separatrix.audits import Wall, audit
from separatrix.audits.walls import RETRIEVAL_TASKS, keys_held, symbols_held, walls_of
from separatrix.communication.walls import wall
from separatrix.errors import InvalidInput
from separatrix.theorems import theorem

CONFIGS = Path(__file__).parent / "configs"


def by_task(state_bits: int, vocabulary: int) -> dict[tuple[str, int | None], Wall]:
    return {(one.task, one.vocabulary): one for one in walls_of(state_bits, vocabulary)}


@given(bits=some.integers(0, 3000), alphabet=some.integers(2, 300_000))
def test_symbols_held_is_exact(bits: int, alphabet: int) -> None:
    held = symbols_held(bits, alphabet)
    assert alphabet**held <= 2**bits < alphabet ** (held + 1)


@pytest.mark.parametrize("bits", [10**9, 10**12, 10**24])
def test_symbols_held_is_exact_for_large_states(bits: int) -> None:
    for alphabet in (2, 3, 4, 50_280, 65_536, 262_208):
        held = symbols_held(bits, alphabet)
        assert symbols_held(bits + alphabet.bit_length(), alphabet) > held
        assert abs(held * alphabet.bit_length() - bits) < 0.2 * bits or alphabet < 5


def test_one_wall_for_every_task_and_a_stronger_one_where_words_say_more() -> None:
    found = by_task(1000, 50_280)
    assert {task for task, words in found if words is None} == set(RETRIEVAL_TASKS)
    stronger = {task for task, words in found if words is not None}
    assert stronger == set(RETRIEVAL_TASKS) - {"counting", "is-tree"}
    for task in stronger:
        assert found[task, 50_280].largest_n < found[task, None].largest_n
    for one in found.values():
        assert one.task in theorem(one.theorem).tasks
    assert all(words is None for _, words in by_task(1000, 2))


def test_the_paper_s_numbers() -> None:
    """A state of N bits holds N bits, N labels of one bit, the first half of 2N bits."""
    found = {task: one.largest_n for (task, _), one in by_task(6144, 2).items()}
    assert found["index-lookup"] == found["associative-recall"] == found["counting"] == 6144
    assert found["mqar"] == found["nearest-neighbour"] == found["equality"] == 12288
    assert found["c-gram"] == 3 * 6144 + 2
    assert by_task(6144, 64)["index-lookup", 64].largest_n == 1024


@pytest.mark.parametrize("bits", [1, 7, 100, 2_000, 10_000, 1_000_000])
def test_no_wall_is_nearer_than_the_registry_of_bounds_says(bits: int) -> None:
    """They may be further: the registry knows more reductions."""
    words = 1000
    same: dict[str, dict[str, Any]] = {
        "index-lookup": {"alphabet": words},
        "associative-recall": {"values": words},
        "mqar": {"vocabulary_size": 2 * words},
        "equality": {"alphabet": words},
        "c-gram": {"alphabet": words, "c": 3},
        "is-tree": {},
    }
    mine = by_task(bits, words)
    for task, parameters in same.items():
        known = wall(task, family="rnn", state_bits=bits, **parameters).largest_n
        nearest = min(one.largest_n for (name, _), one in mine.items() if name == task)
        if known is None and task == "mqar":  # its vocabulary ends before the state is full
            continue
        assert known is not None
        # A short input may be none of the task's; the registry starts at the shortest.
        assert nearest >= known or known <= 4, task
        if bits >= 2_000 and task not in {"associative-recall", "mqar"}:  # there some words must be keys
            assert nearest <= 1.02 * known, task


@pytest.mark.parametrize("vocabulary", [3, 4, 7, 30])
def test_keys_are_different_words(vocabulary: int) -> None:
    for bits in range(1, 120):
        over = [k for k in range(1, vocabulary - 1) if (vocabulary - k) ** k > 2**bits]
        assert keys_held(bits, vocabulary) == (min(over) - 1 if over else None), bits


def test_a_state_that_holds_every_table_of_a_vocabulary_has_no_wall_with_it() -> None:
    named = {(one.task, one.vocabulary) for one in walls_of(23_592_960, 50_280)}
    assert ("associative-recall", None) in named
    assert not {("associative-recall", 50_280), ("mqar", 50_280)} & named


def test_counting_tells_all_beginnings_of_its_reduction_apart() -> None:
    """n places that hold their own word or none: 2^n beginnings, each pair of which a question parts."""
    n = 5
    sequences = [
        tuple(place + 1 if bit else 0 for place, bit in enumerate(bits))
        for bits in itertools.product((0, 1), repeat=n)
    ]
    questions = [tuple(sequence.count(word) > 0 for word in range(1, n + 1)) for sequence in sequences]
    assert len(set(questions)) == 2**n


@pytest.mark.parametrize(("vertices", "hubs"), [(5, 2), (6, 2), (6, 3), (7, 3), (7, 4)])
def test_is_tree_tells_all_beginnings_of_its_reduction_apart(vertices: int, hubs: int) -> None:
    leaves = range(hubs, vertices - 1)
    last = vertices - 1
    answers = set()
    for hung in itertools.product(range(hubs), repeat=len(leaves)):
        first = list(zip(leaves, hung, strict=True))
        asked = []
        for leaf, hub in itertools.product(leaves, range(hubs)):
            second = [(last, leaf), *((last, other) for other in range(hubs) if other != hub)]
            graph = nx.Graph([*first, *second])
            graph.add_nodes_from(range(vertices))
            assert graph.number_of_edges() == len(first) + len(second) == vertices - 1
            asked.append(nx.is_tree(graph))
        answers.add(tuple(asked))
    assert len(answers) == hubs ** (vertices - hubs - 1)


def test_c_grams_tell_all_beginnings_of_their_reduction_apart() -> None:
    """Two words begin blocks, three others are values and second words of keys; six keys, blocks of three."""
    markers, others = (0, 1), (2, 3, 4)
    keys = list(itertools.product(markers, others))
    answers = set()
    for values in itertools.product(others, repeat=len(keys)):
        text = [word for key, value in zip(keys, values, strict=True) for word in (*key, value)]
        found = []
        for key in keys:
            places = [at for at in range(len(text) - 2) if tuple(text[at : at + 2]) == key]
            found.append(text[places[0] + 2])
        answers.add(tuple(found))
    assert len(answers) == len(others) ** len(keys)


def test_a_cache_that_grows_has_no_wall_and_a_hybrid_that_of_its_bounded_part() -> None:
    assert audit(CONFIGS / "llama-3-8b.json").walls == ()
    assert audit(CONFIGS / "bert-base-uncased.json").walls == ()
    hybrid = audit(CONFIGS / "jamba-v0.1.json")
    scans = 28 * 8192 * (16 * 32 + 4 * 16)
    assert hybrid.bounded_bits == scans
    assert hybrid.walls == walls_of(scans, 65536)
    window = audit(CONFIGS / "mistral-7b-v0.1.json")
    assert not window.grows
    assert window.walls[0].largest_n == 2 * 32 * 8 * 128 * 16 * 4095


def test_absurd_states_are_refused() -> None:
    with pytest.raises(InvalidInput, match="state bits as a whole number"):
        walls_of(-1, 10)
    with pytest.raises(InvalidInput, match="vocabulary as a whole number from 1"):
        walls_of(10, 0)
