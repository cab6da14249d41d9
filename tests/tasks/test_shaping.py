"""Ragged rows against plain lists; redraws end, agree, and stop early without a trace."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from separatrix.tasks.shaping import lay_out, redraw


@pytest.mark.slow
@given(st.data())
def test_rounds_are_written_one_after_another(data: st.DataObject) -> None:
    batch, rounds = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
    shapes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    present = [torch.tensor(data.draw(grid(batch, rounds, st.booleans()))) for _ in shapes]
    tokens = [
        [torch.tensor(data.draw(grid(batch, rounds, st.integers(1, 99)))) for _ in range(size)]
        for size in shapes
    ]
    expected: list[list[int]] = [[] for _ in range(batch)]
    begins: dict[tuple[int, int, int], int] = {}
    for row in range(batch):
        for turn in range(rounds):
            for number, segment in enumerate(tokens):
                if present[number][row, turn]:
                    begins[number, row, turn] = len(expected[row])
                    expected[row] += [int(token[row, turn]) for token in segment]
    width = rounds * sum(shapes)
    rows = torch.full((batch, 2 + width + 3), -1)
    places, ends = lay_out(rows, list(zip(tokens, present, strict=True)), begin=2, end=2 + width)
    assert ends.tolist() == [2 + len(row) for row in expected]
    assert rows[:, : 2 + width].tolist() == [[-1, -1, *row] + [-1] * (width - len(row)) for row in expected]
    for number, place in enumerate(places):
        assert place.tolist() == [
            [2 + begins.get((number, row, turn), width) for turn in range(rounds)] for row in range(batch)
        ]


def grid(rows: int, columns: int, cell: st.SearchStrategy[int]) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(cell, min_size=columns, max_size=columns), min_size=rows, max_size=rows)


def test_redraw_takes_the_first_that_fits() -> None:
    proposals = torch.tensor([[1, 5, 7], [1, 2, 8], [9, 3, 4]])
    asked = []

    def propose(attempt: int) -> torch.Tensor:
        asked.append(attempt)
        return proposals[attempt]

    chosen, accepted = redraw(propose, lambda values: values > 4, attempts=3)
    assert chosen.tolist() == [9, 5, 7]
    assert accepted.tolist() == [True, True, True]
    assert asked == [0, 1, 2]
    chosen, accepted = redraw(propose, lambda values: values > 4, attempts=2)
    assert chosen.tolist() == [1, 5, 7]
    assert accepted.tolist() == [False, True, True]
    asked.clear()
    redraw(propose, lambda values: values > 0, attempts=3)
    assert asked == [0]
