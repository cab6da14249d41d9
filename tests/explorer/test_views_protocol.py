from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from separatrix.explorer.view import TimeIsUp
from separatrix.explorer.views.protocol import SETTINGS, VIEW
from tests.explorer.view_asking import put, refused


def lookup(text: str) -> str:
    *symbols, index = text.split()
    return symbols[int(index[1:]) - 1]


def equal(text: str) -> str:
    first, second = text.split("[SEP]")
    return str(int(first.split() == second.split()))


def common(text: str) -> str:
    half = len(text) // 2
    return str(int(any(a == b == "1" for a, b in zip(text[:half], text[half:], strict=True))))


def ten(text: str) -> str:
    numbers = [int(word) for word in text.split()]
    return str(int(any((number + numbers[-1]) % 10 == 0 for number in numbers)))


def recall(text: str) -> str:
    words = text.split()
    return words[words.index(words[-1]) + 1]


ORACLES: dict[str, tuple[Callable[[str], str], list[str]]] = {
    "index-lookup": (lookup, ["s2 s0 s3 s1 s7 s4 @3", "s1 s2 @2", "s15 s0 s3 s15 s1 @5"]),
    "equality": (equal, ["1 0 1 1 [SEP] 1 0 1 1", "1 0 [SEP] 1 1", "0 0 1 [SEP] 0 0 1"]),
    "disjointness": (common, ["01101001", "01101010", "1111"]),
    "match2": (ten, ["3 8 7 1 4 2", "3 8 7 1 4", "9 9 9 5"]),
    "associative-recall": (recall, ["k5 v1 k0 v3 k7 v1 k0", "k15 v2 k3 v9 k3"]),
}


def checked(told: Any) -> None:
    """The bits add up, reach every bound, and the parties say what the model and the oracle say."""
    assert told["agrees"]
    assert told["bits"] == sum(each["bits"] for each in told["messages"])
    assert all(bound["enough"] and told["bits"] >= bound["at_least"] for bound in told["bounds"])
    for each in told["answers"]:
        assert each["answer"] == each["model"] == each["oracle"]
    for each in told["messages"]:
        assert each["sender"] in {"Alice", "Bob"}
        assert len(each["first"]) == min(each["bits"], 128)
        assert set(each["first"]) <= {"0", "1"}
        assert each["means"]
    assert {each["holder"] for each in told["held"]} == {"Alice", "Bob"}
    assert told["knows"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_every_run_on_its_example_under_every_split(name: str) -> None:
    for partition in SETTINGS[name].splits:
        told = put(VIEW, {"run": name, "partition": partition})
        checked(told)
        assert (told["run"], told["partition"]) == (name, partition)


@pytest.mark.parametrize("name", [name for name in SETTINGS if SETTINGS[name].task in ORACLES])
@pytest.mark.slow
def test_other_inputs_against_oracles_of_the_test(name: str) -> None:
    oracle, texts = ORACLES[SETTINGS[name].task]
    for text in texts:
        told = put(VIEW, {"run": name, "text": text})
        checked(told)
        assert [each["answer"] for each in told["answers"]] == [oracle(text)]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("([])[()]", "1"),
        ("([)]", "0"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (("((()))[]", "0"), ("()", "1"), ("(]", "0"))
        ),
    ],
)
def test_brackets(text: str, answer: str) -> None:
    for name in ("dyck by rnn", "dyck by transformer-1"):
        told = put(VIEW, {"run": name, "text": text})
        checked(told)
        assert told["answers"][0]["answer"] == answer


def test_triangles() -> None:
    told = put(VIEW, {"run": "cycle3 by graph-transformer", "text": "5: 1>2 2>3 3>1 3>4 4>3"})
    checked(told)
    assert [each["answer"] for each in told["answers"]] == ["1", "1", "1", "0", "0"]
    assert [each["word"] for each in told["held"]] == ["1→2", "2→3", "3→1,4", "4→3", "5→·"]
    assert told["knows"] == ["Alice", "Bob"]


def test_who_holds_what_and_who_speaks() -> None:
    one_way = put(VIEW, {"run": "index-lookup by rnn", "text": "s2 s0 s3 @1"})
    assert [each["holder"] for each in one_way["held"]] == ["Alice"] * 3 + ["Bob"]
    assert [each["sender"] for each in one_way["messages"]] == ["Alice"]
    assert one_way["knows"] == ["Bob"]
    assert one_way["bounds"][0]["at_least"] == 12  # three symbols of sixteen
    both = put(VIEW, {"run": "dyck by transformer-1", "partition": "odd/even", "text": "()[]"})
    assert [each["holder"] for each in both["held"]] == ["Alice", "Bob", "Alice", "Bob"]
    assert {each["sender"] for each in both["messages"]} == {"Alice", "Bob"}
    assert both["knows"] == ["Alice", "Bob"]


def test_nothing_asked_is_the_default_and_tells_of_every_run() -> None:
    told = put(VIEW, {})
    assert {key: told[key] for key in ("run", "partition", "text")} == dict(VIEW.default)
    assert [each["name"] for each in told["runs"]] == list(SETTINGS)


@pytest.mark.parametrize(
    ("asked", "saying"),
    [
        ({"run": "dyck"}, "'run' is one of"),
        ({"run": "dyck by rnn", "partition": "odd/even"}, "'partition' is one of prefix/suffix"),
        ({"run": "dyck by rnn", "text": "(()"}, "even length"),
        ({"run": "dyck by rnn", "text": "(x"}, "x"),
        ({"run": "index-lookup by rnn", "text": "s1"}, "n from 2 to 12, such as `s2 s0"),
        ({"run": "index-lookup by rnn", "text": "s1 " * 40}, "n from 2 to 12"),
        ({"run": "index-lookup by rnn", "text": "s1 s99 @1"}, "no word of this task"),
        ({"run": "equality by rnn", "text": "1 0 [SEP] 1"}, "even n"),
        ({"run": "cycle3 by graph-transformer", "text": "²: 1>2"}, "n from 2 to 7"),
        ({"run": "cycle3 by graph-transformer", "text": "3: 1>4"}, "4"),
        ({"text": None}, "'text' is a text"),
        ({"n": 3}, "run, partition, text"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(asked: dict[str, Any], saying: str) -> None:
    refused(VIEW, asked, saying)


def test_the_deadline_is_kept() -> None:
    with pytest.raises(TimeIsUp):
        put(VIEW, {}, seconds=0)
