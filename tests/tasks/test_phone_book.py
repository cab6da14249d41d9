"""Phone book against regular expressions, its law, and the words of its errors."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput, TooLarge
from separatrix.tasks import Task, task
from separatrix.tasks._stock import MOST_PEOPLE, MOST_TOWNS, person, town
from separatrix.tasks.phone_book import PhoneBook
from separatrix.testing import TaskConformance


def text_of(row: list[int]) -> str:
    return bytes(token for token in row if token != 256).decode()


class TestPhoneBook(TaskConformance):
    compiles = False
    samples = 64
    typical = (
        PhoneBook(n=12),
        PhoneBook(n=3, digits=1, names=3),
        PhoneBook(n=1, digits=15, names=1),
        PhoneBook(n=64, digits=4, names=64),
    )
    small = (PhoneBook(n=2, digits=1, names=3), PhoneBook(n=1, digits=2, names=2))

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        text = text_of(row)
        (name,) = re.findall(r"number of (.+)\?$", text, re.MULTILINE)
        (number,) = re.findall(rf"^{re.escape(name)}: (\d+)$", text, re.MULTILINE)
        asked = re.match(r"(?s).*\nAnswer:", text)
        assert asked is not None
        last = len(asked[0].encode()) - 1
        return {last + place: byte for place, byte in enumerate(f" {number}\n".encode())}

    def balance(self, task: Task) -> dict[int, float]:
        return {ord("\n"): 1.0}


def test_every_choice_is_uniform() -> None:
    book = PhoneBook(n=2, digits=1, names=3)
    seen: Counter[tuple[str, ...]] = Counter()
    count = 6000
    digits: Counter[str] = Counter()
    for row in book.sample(count, seed=1).inputs:
        text = book.render(row)
        names = re.findall(r"^(\w+ \w+): \d$", text, re.MULTILINE)
        (asked,) = re.findall(r"number of (.*)\?", text)
        seen[(*names, asked)] += 1
        digits.update(re.findall(r": (\d)\n", text))
    assert len(seen) == 12, "three names in order, two at a time, and either asked for"
    assert all(abs(times / count - 1 / 12) < 5 * (1 / 12 / count) ** 0.5 for times in seen.values())
    assert len(digits) == 10
    assert all(abs(times / (2 * count) - 0.1) < 5 * (0.1 / 2 / count) ** 0.5 for times in digits.values())


def test_the_stock_has_no_name_twice() -> None:
    assert len({person(number) for number in range(MOST_PEOPLE)}) == MOST_PEOPLE
    assert len({town(number) for number in range(MOST_TOWNS)}) == MOST_TOWNS
    assert all(":" not in person(number) and "?" not in person(number) for number in range(MOST_PEOPLE))


def test_the_split_is_between_book_and_question() -> None:
    book = PhoneBook(n=2, digits=3, names=5)
    split = book.partitions()["prefix/suffix"]
    row = book.decode(torch.tensor([0]))[0]
    listed, asked, written = (
        text_of(row[list(places)].tolist()) for places in (split.alice, split.bob, split.written)
    )
    assert listed == f"Phone book:\n{person(0)}: 000\n{person(1)}: 000\n"
    assert asked == f"Question: What is the number of {person(0)}?\nAnswer:"
    assert written == " 000"


def test_the_longest_text_fits_exactly() -> None:
    for book in (PhoneBook(n=1, digits=1, names=4), PhoneBook(n=2, digits=1, names=2)):
        longest = max(int((rows != 256).sum(1).max()) for rows in book.enumerate())
        assert longest == book.length


def test_domains_are_counted_not_listed() -> None:
    assert PhoneBook(n=2, digits=3, names=5).domain_size() == 5 * 4 * 10**6 * 2
    large = PhoneBook(n=4096)
    assert large.domain_size() > 10**28_000
    with pytest.raises(TooLarge, match="phone-book has about"):
        next(large.enumerate())
    for book in (PhoneBook(n=20), PhoneBook(n=4, digits=5)):
        for row in book.decode(torch.tensor([0, 2**61])):
            book.check(row)


def test_numbers_stand_for_question_then_digits_then_names() -> None:
    book = PhoneBook(n=2, digits=2, names=3)
    number = (4 * 10**4 + 1234) * 2 + 1
    assert book.render(book.decode(torch.tensor([number]))[0]) == (
        f"Phone book:\n{person(2)}: 12\n{person(0)}: 34\n"
        f"Question: What is the number of {person(0)}?\nAnswer: 34"
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 0}, "phone-book needs 1 ≤ n ≤ 4096, one entry a name; got n=0. Try 32."),
        (
            {"n": 9, "names": 8},
            "phone-book needs 1 ≤ n ≤ 8, one entry a name; got n=9. Try 8.",
        ),
        ({"n": 2, "names": 5000}, "phone-book knows 1 to 4096 names; got names=5000. Try 4096."),
        ({"n": 2, "digits": 0}, "phone-book needs numbers of 1 to 15 digits; got digits=0. Try 7."),
        ({}, "phone-book needs a value for n; none was given."),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("phone-book", **parameters)
    assert str(caught.value) == message


BOOK = f"Phone book:\n{person(0)}: 12\n{person(1)}: 34\n"
ASK = f"Question: What is the number of {person(1)}?\nAnswer:"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "A text of phone-book needs a line that begins with 'Answer:'; got none."),
        (BOOK, "A text of phone-book needs a line that begins with 'Answer:'; got none."),
        (BOOK + ASK + " 12", "After 'Answer:' this text must go on with ' 34'; got ' 12'."),
        (BOOK + ASK + " 34\n", "After 'Answer:' this text must go on with ' 34'; got ' 34\\n'."),
        (
            "Phone book:\n" + ASK,
            (
                "A phone book has the line 'Phone book:', 2 entries, a question and 'Answer:'; got "
                f"'Phone book:\\nQuestion: What is the number of {person(1)}?\\nA…'."
            ),
        ),
        (
            BOOK.replace(person(0), "Nobody") + ASK,
            "An entry needs one of the 5 known names, each once; got 'Nobody: 12'.",
        ),
        (
            BOOK.replace(person(0), person(1)) + ASK,
            f"An entry needs one of the 5 known names, each once; got '{person(1)}: 34'.",
        ),
        (BOOK.replace("34", "345") + ASK, f"The number of {person(1)} must have 2 digits; got '345'."),
        (BOOK.replace("34", "٣٤") + ASK, f"The number of {person(1)} must have 2 digits; got '٣٤'."),
        (
            BOOK + ASK.replace(person(1), person(2)),
            (
                "The question must be 'Question: What is the number of …?' with a name from the book; got "
                f"'Question: What is the number of {person(2)}?'."
            ),
        ),
        (BOOK + ASK + "x" * 999, "This task's texts have at most 101 bytes; got 1,091."),
        ("\ud800" + BOOK, "A text must be valid Unicode; got a lone surrogate at character 1."),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        PhoneBook(n=2, digits=2, names=5).parse(text)
    assert str(caught.value) == message


def test_bad_rows() -> None:
    book = PhoneBook(n=1, digits=1, names=1)
    row = book.decode(torch.tensor([3]))[0]
    assert book.render(row).endswith("Answer: 3")
    for place, token, message in (
        (0, 256, "Padding stands only at the end of an input of phone-book; got it at 0."),
        (0, 999, "Tokens of phone-book run from 0 to 256; got 999."),
        (2, 255, "A row must be valid UTF-8; byte 3 is not."),
    ):
        bad = row.clone()
        bad[place] = token
        with pytest.raises(InvalidInput) as caught:
            book.check(bad)
        assert str(caught.value) == message
    bad = row.clone()
    bad[2] = 255
    assert book.render(bad).startswith("Ph\\xffne")


def test_labels_read_as_characters() -> None:
    assert [PhoneBook(n=1).render_target(torch.tensor(byte)) for byte in (10, 32, 65, 200)] == [
        "\\n",
        " ",
        "A",
        "\\xc8",
    ]


WORDS = st.sampled_from(
    (
        *(
            "Phone book:\n",
            f"{person(0)}: 1",
            f"{person(1)}: 2",
            "Question: What is the number of ",
            person(0),
        ),
        *("?", "Answer:", " 1", "\n", "\n", "\ud800", "é", "x"),
    )
)


@settings(deadline=None)
@given(st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=12).map("".join)))
def test_any_text_is_a_row_or_an_error(text: str) -> None:
    book = PhoneBook(n=1, digits=1, names=2)
    try:
        row = book.parse(text)
    except InvalidInput:
        return
    assert book.parse(book.render(row)).equal(row)


@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(-3, 40) | st.integers(),
    digits=st.integers(-2, 20),
    names=st.integers(-1, 60) | st.integers(),
)
def test_any_numbers_make_a_task_or_an_error(n: int, digits: int, names: int) -> None:
    try:
        book = task("phone-book", n=n, digits=digits, names=names)
    except InvalidInput:
        return
    batch = book.sample(2, seed=1)
    assert batch.inputs.shape == (2, book.length)
    for row in batch.inputs:
        book.check(row)
