"""Pictures of matrices: every character stands for its entries, and files are the same on every run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from separatrix.communication.matrices import CommunicationMatrix, matrix_of
from separatrix.communication.pictures import save_picture, terminal_picture
from separatrix.communication.problems import Index, problem
from separatrix.errors import InvalidInput


def test_small_matrices_have_labels() -> None:
    assert terminal_picture(matrix_of(problem("eq", n=2))) == [
        "00  ██      ",
        "01    ██    ",
        "10      ██  ",
        "11        ██",
    ]
    assert terminal_picture(matrix_of(Index(n=2, alphabet=3)))[5] == "12  1122"
    promised = CommunicationMatrix.of_values(np.array([[0, -1], [1, 1]]))
    assert terminal_picture(promised) == ["0    ··", "1  ████"]


def test_labels_and_double_width_give_way_to_the_width() -> None:
    sixteen = matrix_of(problem("gt", n=4))
    assert terminal_picture(sixteen, width=38)[15] == f"1111  {'█' * 30}  "
    assert terminal_picture(sixteen, width=30)[15] == f"1111  {'█' * 15} "
    assert terminal_picture(sixteen, width=18)[15] == f"{'█' * 15} "


@settings(max_examples=40, deadline=None)
@given(arrays.arrays(np.int8, st.tuples(st.integers(17, 40), st.integers(1, 30)), elements=st.integers(0, 1)))
def test_half_blocks_show_two_rows_a_line(values: np.ndarray) -> None:
    lines = terminal_picture(CommunicationMatrix.of_values(values))
    assert len(lines) == -(-len(values) // 2)
    shown = {" ": (0, 0), "▀": (1, 0), "▄": (0, 1), "█": (1, 1)}
    rows = [[shown[character][half] for character in line] for line in lines for half in (0, 1)]
    assert rows[: len(values)] == values.tolist()


def test_a_promise_and_many_answers_take_a_character_an_entry() -> None:
    values = np.random.default_rng(0).integers(-1, 12, (30, 50))
    lines = terminal_picture(CommunicationMatrix.of_values(values))
    shown = {"·": -1, **{character: number for number, character in enumerate("0123456789ab")}}
    assert [[shown[character] for character in line] for line in lines] == values.tolist()


def test_larger_ones_become_shades() -> None:
    values = np.zeros((200, 160), dtype=np.int8)
    values[:50] = 1
    values[100:150, ::2] = 1
    values[199, 0] = 1
    lines = terminal_picture(CommunicationMatrix.of_values(values), width=80, most_lines=20)
    assert (len(lines), {len(line) for line in lines}) == (20, {80})
    assert lines[:5] == ["█" * 80] * 5
    assert lines[5:10] == [" " * 80] * 5
    assert lines[10:15] == ["▒" * 80] * 5
    assert lines[19] == "░" + " " * 79
    values[:, 80:] = -1
    assert terminal_picture(CommunicationMatrix.of_values(values), most_lines=20)[0] == "█" * 40 + "·" * 40


@pytest.mark.parametrize("name", ["a.png", "a.svg"])
def test_files_are_the_same_to_the_last_byte(name: str, tmp_path: Path) -> None:
    matrix = CommunicationMatrix.of_values(np.random.default_rng(1).integers(-1, 2, (40, 30)))
    save_picture(matrix, tmp_path / name)
    first = (tmp_path / name).read_bytes()
    save_picture(matrix, tmp_path / name)
    assert (tmp_path / name).read_bytes() == first
    assert first.startswith(b"\x89PNG" if name.endswith("png") else b"<?xml")
    save_picture(matrix.transposed(), tmp_path / name)
    assert (tmp_path / name).read_bytes() != first


def test_what_is_refused(tmp_path: Path) -> None:
    matrix = matrix_of(problem("eq", n=2))
    with pytest.raises(InvalidInput, match=r"ends in \.svg or \.png; got 'x\.pdf'"):
        save_picture(matrix, tmp_path / "x.pdf")
    with pytest.raises(InvalidInput, match="2 columns and 1 line or more; got 1 and 40"):
        terminal_picture(matrix, width=1)
