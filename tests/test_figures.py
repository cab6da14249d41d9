"""Figures as files: the same bytes whatever matplotlib was told before, and no half file."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pytest

from separatrix.errors import InvalidInput
from separatrix.figures import CURVES, check_figure, drawn


def draw(path: Path) -> bytes:
    with drawn(path, check_figure(path, example="a.svg"), inches=(3, 2), look=CURVES) as figure:
        axes = figure.add_subplot()
        axes.plot([1, 2], [3, 4], label="curve")
        axes.legend()
    return path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one.svg", "one.PNG"])
def test_settings_from_outside_neither_show_nor_change(name: str, tmp_path: Path) -> None:
    plain = draw(tmp_path / name)
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 20.0, "savefig.dpi": 30.0}):
        before = dict(mpl.rcParams)
        assert draw(tmp_path / name) == plain
        assert dict(mpl.rcParams) == before


def test_a_figure_tells_neither_its_time_nor_its_maker(tmp_path: Path) -> None:
    text = draw(tmp_path / "one.svg").decode()
    assert "dc:date" not in text
    assert "matplotlib v" not in text.lower()
    assert b"Software" not in draw(tmp_path / "one.png")


def test_what_goes_wrong_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "one.svg"
    path.write_text("old")
    with pytest.raises(RuntimeError), drawn(path, "svg", inches=(3, 2)):
        raise RuntimeError
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


def test_other_formats_are_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        check_figure(Path("b/a.pdf"), what="A map", example="map.svg")
    assert str(refused.value) == "A map is a file that ends in .svg or .png; got 'a.pdf'. Try map.svg."
