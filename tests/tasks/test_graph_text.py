"""Graphs as people write them."""

from __future__ import annotations

import pytest

from separatrix.errors import InvalidInput
from separatrix.tasks.graph_text import edges_in, graph_words

EDGES = [(3, 1), (2, 3), (4, 3)]


@pytest.mark.parametrize(
    "text",
    [
        "3 ~ 1 2 ~ 3 4 ~ 3",
        "<s> 3 ~ 1 2 ~ 3 4 ~ 3",
        "3~1 2~3 4~3",
        "3 1\n2 3\n4 3\n",
        "# a star\n3-1\n\n2,3 # twice\n4 – 3",
        "3 1; 2 3; 4 3;",
        "\t3\t1\r\n 2 3 \n4 3",
    ],
)
def test_every_way_of_writing_gives_the_same_edges(text: str) -> None:
    assert edges_in(text) == EDGES


def test_they_are_written_as_the_task_does() -> None:
    assert graph_words(EDGES) == "<s> 1 ~ 3 2 ~ 3 3 ~ 4"
    assert graph_words([]) == "<s>"
    assert edges_in("<s>") == edges_in("  \n# nothing") == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("1 2\nfoo", "'foo' in line 2"),
        ("1", "'1' in line 1"),
        ("1 ~ 2 3", "'3' in line 1"),
        ("1 2 -3 4", "'-3 4' in line 1"),
        ("1 2x", "'1 2x' in line 1"),
        ("1.5 2", "'1.5 2' in line 1"),
        ("1 ~ ~ 2", "line 1"),
        ("¹ ²", "line 1"),
        ("1 2\n<s> 2 3", "'<s> 2 3' in line 2"),
        ("12345678901 2", "line 1"),
    ],
)
def test_what_is_no_graph_is_named_with_its_line(text: str, named: str) -> None:
    with pytest.raises(InvalidInput, match="list of edges") as refusal:
        edges_in(text)
    assert named in str(refusal.value)


def test_a_text_too_long_is_refused() -> None:
    with pytest.raises(InvalidInput, match="characters"):
        edges_in(" " * (1 << 24) + "1 2")
