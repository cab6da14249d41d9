"""Trees as lines of text."""

from __future__ import annotations

from separatrix.cli.trees import drawn


def test_children_stand_below_their_parent_in_the_order_of_the_tour() -> None:
    assert drawn([1, 3, 2, 3, 4, 3, 1, 5, 1], most=60) == ["1", "├─ 3", "│  ├─ 2", "│  └─ 4", "└─ 5"]


def test_a_tour_that_was_broken_off_gives_what_it_saw() -> None:
    assert drawn([1, 3, 2], most=60) == ["1", "└─ 3", "   └─ 2"]
    assert drawn([1], most=60) == ["1"]
    assert drawn([], most=60) == []


def test_a_long_path_is_cut_and_needs_no_stack() -> None:
    path = list(range(1, 5001))
    lines = drawn(path, most=3)
    assert lines == ["1", "└─ 2", "   └─ 3", "… and 4,997 vertices more"]


def test_what_is_too_deep_for_the_page_is_counted_where_it_would_stand() -> None:
    tour = [*range(1, 41), *range(39, 0, -1), 41, 1]
    lines = drawn(tour, most=60, width=40)
    assert max(map(len, lines)) <= 40
    assert lines[-1] == "└─ 41"
    *_, hidden, below = lines[-2].split()
    assert (below, len(lines) + int(hidden)) == ("below", 41)
