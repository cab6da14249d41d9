"""`separatrix frontier`: the table, the JSON object, the figure, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import refused, run

LOOKUP = ("index-lookup", "--n", "300", "--alphabet", "2")


@pytest.mark.slow
def test_the_table_and_the_object_say_the_same(tmp_path: Path) -> None:
    figure = tmp_path / "front.svg"
    answer = run("frontier", *LOOKUP, "--json").answer
    assert answer["task"]["name"] == "index-lookup"
    shown = run("frontier", *LOOKUP, "--plot", str(figure))
    lines = shown.out.splitlines()
    assert lines[-1] == str(figure)
    assert len(answer["points"]) == len(lines) - 2
    for point, line in zip(answer["points"], lines[1:], strict=False):
        assert line.split() == [
            str(point["width"]),
            str(point["precision_bits"]),
            f"{point['parameter_bits']:,}",
            point["arithmetic"],
            point["addresses"],
        ]
    assert figure.read_text().startswith("<?xml")


def test_a_figure_of_another_kind_is_refused_before_the_search() -> None:
    assert "ends in .svg or .png; got 'front.pdf'" in refused("frontier", *LOOKUP, "--plot", "front.pdf")
