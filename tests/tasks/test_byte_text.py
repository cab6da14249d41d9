"""Pieces of text written into rows, against joining them in plain Python."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.tasks.byte_text import Pieces, divide, largest_sum, shorten


@settings(deadline=None)
@given(
    texts=st.lists(st.text(alphabet="aé€😀", max_size=5), min_size=1, max_size=6),
    data=st.data(),
    lead=st.sampled_from(["", "x", "é\n"]),
)
def test_rows_are_the_pieces_in_order(texts: list[str], data: st.DataObject, lead: str) -> None:
    width = data.draw(st.integers(1, 4))
    places = st.lists(st.integers(0, len(texts) - 1), min_size=width, max_size=width)
    chosen = data.draw(st.lists(places, min_size=1, max_size=5))
    joined = ["".join(texts[place] for place in row).encode() for row in chosen]
    room = max(map(len, joined)) + data.draw(st.integers(0, 3))
    rows, bounds = Pieces(texts, width=room).write(torch.tensor(chosen), lead=lead)
    before = lead.encode()
    assert rows.dtype == torch.int64
    for row, ends, text, places_of_row in zip(rows.tolist(), bounds.tolist(), joined, chosen, strict=True):
        assert row == [*before, *text, *[256] * (room - len(text))]
        sizes = [len(texts[place].encode()) for place in places_of_row]
        assert ends == [len(before) + sum(sizes[:count]) for count in range(len(sizes) + 1)]


def test_no_text_at_all() -> None:
    rows, bounds = Pieces([""], width=2).write(torch.zeros(1, 1, dtype=torch.int64))
    assert rows.tolist() == [[256, 256]]
    assert bounds.tolist() == [[0, 0]]


@settings(deadline=None)
@given(st.integers(0, 2**63 - 1), st.integers(1, 2**100))
def test_division_by_any_size(number: int, size: int) -> None:
    if number >= 2**62:
        number >>= 1
    quotient, remainder = divide(torch.tensor([number]), size)
    assert (int(quotient), int(remainder)) == divmod(number, size)


def test_largest_sum() -> None:
    assert [largest_sum([3, 1, 4, 1], count) for count in range(5)] == [0, 4, 7, 8, 9]


def test_messages_stay_on_one_line() -> None:
    assert shorten("a\nb") == "a\\nb"
    assert shorten("x" * 61) == "x" * 57 + "…"
