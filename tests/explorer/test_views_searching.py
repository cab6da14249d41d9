from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from separatrix.explorer.view import TimeIsUp
from separatrix.explorer.views.searching import TASKS, VIEW
from tests.explorer.view_asking import put, refused


def text_before(told: Any, search: Any) -> str:
    return "".join(f"{word} " for word in told["words"][: search["start"]])


def checked(told: Any) -> None:
    """Python's own engine finds what was found, and what was found is what was pasted back."""
    assert told["answer"] == told["oracle"]
    assert len(told["states"]) == len(told["words"]) - told["prompt"]
    for search in told["searches"]:
        words = told["words"]
        assert (words[search["start"]], words[search["end"]]) == ("<StartSearch>", "<EndSearch>")
        assert "".join(words[search["start"] + 1 : search["end"]]) == search["pattern"]
        assert search["end"] + 1 - told["prompt"] in told["returned"]
        text = text_before(told, search)
        found = re.search(search["pattern"], text)
        assert (None if found is None else list(found.span())) == search["match"]
        assert (None if found is None else list(found.span(1))) == search["group"]
        assert (found[1] if found else "FAILED") == search["result"] == words[search["end"] + 1]


@pytest.mark.parametrize(
    ("task", "text", "answer"),
    [
        ("associative-recall", "k5 v1 k0 v3 k7 v1 k0", "v3"),
        ("associative-recall", "k5 v1 k0 v3 k7 v1 k5", "v1"),
        ("index-lookup", "s2 s0 s3 s1 s7 @5", "s7"),
        ("index-lookup", "s2 s0 s3 s1 s7 @1", "s2"),
        ("index-lookup", " ".join(["s11"] * 22 + ["s4", "@23"]), "s4"),
        ("c-gram", "s2 s0 s1 s0 s2 s1 s0 s2", "s1"),
        ("c-gram", "s2 s0 s1 s0 s2 s1 s2 s0", "s1"),
        ("counting", "s3 s1 s3 s0 s3 s2 s3 >2", "1"),
        ("counting", "s3 s1 s3 s0 s3 s2 s3 >3", "0"),
        ("counting", "s13 s1 s3 s0 s3 s2 s1 >0", "1"),
    ],
)
def test_one_search_finds_the_answer(task: str, text: str, answer: str) -> None:
    told = put(VIEW, {"task": task, "text": text})
    assert told["answer"] == answer
    assert len(told["searches"]) == 1
    assert told["words"][: told["prompt"]] == ["<s>", *text.split()]
    checked(told)


@pytest.mark.parametrize(
    ("vertices", "edges", "answer", "walk"),
    [
        (1, [], "YES", [1]),
        (4, [[1, 3], [2, 3], [1, 4]], "YES", [1, 3, 2, 3, 1, 4, 1]),
        (4, [[1, 2], [2, 3], [1, 3]], "NO", [1, 2, 3]),
        (5, [[1, 2], [3, 4], [4, 5], [3, 5]], "NO", [1, 2, 1]),
        pytest.param(
            8,
            [[i, i + 1] for i in range(1, 8)],
            "YES",
            [*range(1, 9), *range(7, 0, -1)],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_walk_by_searches(vertices: int, edges: list[list[int]], answer: str, walk: list[int]) -> None:
    told = put(VIEW, {"task": "is-tree", "vertices": vertices, "edges": edges})
    assert told["answer"] == answer
    assert [vertex for _, vertex in told["walk"]] == walk
    for place, vertex in told["walk"]:
        assert told["words"][told["prompt"] + place] == str(vertex)
    checked(told)


def test_the_questions_of_the_walk_are_in_words() -> None:
    told = put(VIEW, {"task": "is-tree", "vertices": 3, "edges": [[1, 3], [2, 3]]})
    asks = [search["asks"] for search in told["searches"]]
    assert asks[0] == "From which vertex was 1 reached? The pair `… - 1` says it."
    assert asks[1] == "Where does the first edge of 1 lead?"
    assert "Where does the edge of 3 lead that comes after 1 ~ 3?" in asks


def test_the_state_is_what_the_model_carries() -> None:
    told = put(VIEW, {"task": "is-tree", "vertices": 3, "edges": [[1, 3], [2, 3]]})
    names = [(each["name"], each["size"], each["shifts"]) for each in told["registers"]]
    assert names == [("kinds", 4, True), ("vertices", 18, True), ("pairs less edges", 1, False)]
    for before, after in itertools.pairwise(told["states"]):
        assert after[1:4] == before[:3]
        assert after[5:22] == before[4:21]
    # The newest of each register tells of the word that was read last.
    for number, state in enumerate(told["states"]):
        word = told["words"][told["prompt"] + number - 1]
        assert told["kinds"][state[0]] == ("vertex" if word.isdigit() else word)
        assert state[4] == (int(word) if word.isdigit() else 0)
    assert told["states"][0][-1] == -2  # two edges and no pair


def test_every_task_has_an_example_of_its_own() -> None:
    for task in TASKS:
        told = put(VIEW, {"task": task})
        assert told["asked"]
        checked(told)
        assert task == "is-tree" or told["text"] == told["examples"][task]
    assert put(VIEW, {}) == put(VIEW, {"task": "associative-recall"})


@pytest.mark.parametrize(
    ("asked", "saying"),
    [
        ({"task": "dyck"}, "'task' is one of"),
        ({"task": "counting", "text": "s1 >1"}, "3 to 24 words here, such as `s3 s1"),
        ({"task": "counting", "text": "s1 " * 25}, "3 to 24 words"),
        ({"text": 7}, "'text' is a text"),
        ({"text": "k1 " * 100}, "200 characters"),
        ({"text": "k1 v1 k1 v2 k1"}, "k1"),
        ({"task": "index-lookup", "text": "s1 s2 @3"}, "@3"),
        ({"task": "index-lookup", "text": "s1 s2 <EndSearch>"}, "no word of this task"),
        ({"task": "is-tree", "vertices": 9, "edges": []}, "between 1 and 8"),
        ({"pattern": "(a*)*"}, "got 'pattern'"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(asked: dict[str, Any], saying: str) -> None:
    refused(VIEW, asked, saying)


def test_a_graph_that_is_settled_by_counting_is_not_searched() -> None:
    told = put(VIEW, {"task": "is-tree", "vertices": 3, "edges": []})
    assert (told["asked"], told["answer"], told["oracle"]) == (False, "NO", "NO")


def test_the_deadline_is_kept() -> None:
    with pytest.raises(TimeIsUp):
        put(VIEW, {}, seconds=0)
