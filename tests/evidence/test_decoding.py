"""Scores by decoding: what follows from the counts, and counts that cannot be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.evidence import Decoded
from tests.evidence.examples import make_decoded


def test_an_unanswered_input_scores_a_half() -> None:
    found = make_decoded(examples=8, right=5, unanswered=1, cut_off=0, tours_right=3)
    assert (found.wrong, found.points, found.score) == (2, 5.5, 5.5 / 8)
    assert make_decoded(examples=3, right=3, unanswered=0, cut_off=0, tours_right=0).score == 1.0
    nothing = make_decoded(examples=3, right=0, unanswered=3, cut_off=3, tours_right=0)
    assert (nothing.score, nothing.wrong) == (0.5, 0)


def test_it_says_what_it_counted() -> None:
    text = str(make_decoded())
    assert text.startswith(
        'score 0.9300: is-tree(n=16, form="retrieval", trace="compact") in float32, 900 right'
    )
    assert "40 wrong, 60 unanswered (2 cut off)" in text
    assert "every word right: 850 of 1,000" in text
    assert "searches run: 41,234" in text
    short = str(make_decoded(tours_right=None, searches=0, cut_off=0, weights_sha256=None))
    assert not any(word in short for word in ("every word", "searches", "cut off", "weights"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"examples": 0}, "examples as a whole number from 1"),
        ({"right": -1}, "right as a whole number from 0"),
        ({"right": 950}, "Of 1000 inputs, 950 cannot be right and 60 unanswered"),
        ({"cut_off": 61}, "cut off is unanswered; got 61 of 60"),
        ({"tours_right": 901}, "Where every word is right, so is the answer; got 901 tours and 900"),
        ({"searches": 1.5}, "searches as a whole number"),
        ({"seconds": -1.0}, "its time in seconds"),
        ({"weights_sha256": "abc"}, "64 lower-case hexadecimal digits"),
        ({"arithmetic": " "}, "arithmetic as text"),
        ({"task": "is-tree"}, "task is a TaskSpec"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make_decoded(**changes)


@pytest.mark.parametrize(("name", "value"), [("score", 0.94), ("wrong", 39), ("wrong", 40.0), ("score", 1)])
def test_a_file_that_contradicts_itself_is_refused(name: str, value: float) -> None:
    data = json.loads(json.dumps(make_decoded().to_json())) | {name: value}
    with pytest.raises(InvalidFile, match=f"Field '{name}' .* contradicts the fields it follows from"):
        Decoded.from_json(data)
