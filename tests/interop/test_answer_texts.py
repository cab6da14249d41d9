"""Finding answers in texts, and Hotpot-QA's rule for comparing them."""

from __future__ import annotations

import pytest

from separatrix.interop.answer_texts import (
    answer_in_reasoning,
    answer_on_first_line,
    normalised,
    same_answer,
)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (" She lives there.\nAnswer: Friday", "Friday"),
        (" She lives there.\nAnswer:  the Tarn. \nAnswer: Lune", "the Tarn."),
        ("\n  ANSWER: yes", "yes"),
        ("So the answer is Friday. It is not Monday.", "Friday"),
        ("The answer is: St. Ives", "St. Ives"),
        ("the answer is U.S. Navy. Done", "U.S. Navy"),
        ("The answer is one? No, the answer is two!", "two"),
        ("The answer is Monday.\nAnswer: Friday", "Friday"),
        ("I do not know.", None),
        ("Answer:", None),
        ("the answer is ", None),
        ("", None),
    ],
)
def test_answers_after_reasoning(text: str, answer: str | None) -> None:
    assert answer_in_reasoning(text) == answer


def test_answers_on_the_first_line() -> None:
    assert answer_on_first_line(" 407 1234 \nmore") == "407 1234"
    assert answer_on_first_line(" \n407") is None
    assert answer_on_first_line("") is None


@pytest.mark.parametrize(
    ("answer", "plain"),
    [
        ("The  Beatles!", "beatles"),
        ("an apple a day", "apple day"),
        ("Theatre", "theatre"),
        ("rock-'n'-roll", "rocknroll"),
        ("1,234", "1234"),
        ("the", ""),
    ],
)
def test_normalising(answer: str, plain: str) -> None:
    assert normalised(answer) == plain


def test_same_answers() -> None:
    assert same_answer("the Tarn.", "Tarn")
    assert not same_answer("Tarn river", "Tarn")
    assert not same_answer(None, "the")
