"""Tapes as lines of text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from separatrix.cli.tapes import final_tape, run_lines, tape_line
from separatrix.tasks.machines import execute, library_machine, parse_machine

CELLS = dict(enumerate("abcdef"))


def test_the_head_is_in_brackets() -> None:
    assert tape_line(CELLS, 0, ends=(0, 5), symbol=1, width=40) == "[a]b c d e f"
    assert tape_line(CELLS, 3, ends=(0, 5), symbol=1, width=40) == " a b c[d]e f"
    assert tape_line(CELLS, 5, ends=(0, 5), symbol=1, width=40) == " a b c d e[f]"


def test_cells_that_nobody_knows_are_left_blank() -> None:
    assert tape_line({0: "a", 2: "c"}, 2, ends=(-1, 3), symbol=1, width=40) == "   a  [c]"
    assert tape_line({0: "ab", 1: "c"}, 1, ends=(0, 1), symbol=2, width=40) == " ab[c ]"


def test_a_narrow_page_shows_the_cells_around_the_head() -> None:
    assert tape_line(CELLS, 0, ends=(0, 5), symbol=1, width=11) == "[a]b c  …"
    assert tape_line(CELLS, 3, ends=(0, 5), symbol=1, width=11) == "…  c[d]e  …"
    assert tape_line(CELLS, 5, ends=(0, 5), symbol=1, width=11) == "…  d e[f]"


@given(
    count=st.integers(1, 40),
    symbol=st.integers(1, 3),
    width=st.integers(12, 60),
    place=st.integers(0, 39),
)
def test_no_line_is_too_wide_and_the_head_is_always_seen(
    count: int, symbol: int, width: int, place: int
) -> None:
    head = place % count
    cells = dict.fromkeys(range(count), "x" * symbol)
    line = tape_line(cells, head, ends=(0, count - 1), symbol=symbol, width=width)
    assert len(line) <= width
    assert f"[{'x' * symbol}]" in line


def test_lines_are_the_configurations_of_the_simulator() -> None:
    beaver = library_machine("busy-beaver-3")
    done = execute(beaver, [], max_steps=100)
    lines = list(run_lines(done, [], width=80))
    assert len(lines) == 1 + len(done.steps) + 1
    column = lines[0].index("tape")
    for steps, line in enumerate(lines[1:]):
        at = execute(beaver, [], max_steps=steps)
        assert line.split()[:2] == [str(steps), at.state]
        shown = line[column:].replace("[", " ").replace("]", " ").split()
        assert shown == list(at.tape)
        assert line.index("[") == column + 2 * (at.head - done.first)


def test_the_final_tape_has_no_blanks_around_it() -> None:
    back_and_forth = parse_machine("start: go\nhalt: end\ngo 1 _ -> go L")
    for tape, left in (("__1_1_", "1 _ 1"), ("1", "1"), ("_", "_"), ("", "_")):
        done = execute(back_and_forth, tape, max_steps=20)
        assert done.tape[:5] == ("_",) * 5
        assert final_tape(done, "_") == left


def test_a_hostile_symbol_cannot_move_the_cursor() -> None:
    assert tape_line({0: "\x1b"}, 0, ends=(0, 0), symbol=4, width=40) == "[\\x1b]"
