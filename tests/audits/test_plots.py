"""The figure: the same bytes every time, for one model and for several, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from separatrix.audits import audit
from separatrix.audits.plots import check_figure, plot_state
from separatrix.errors import InvalidInput

CONFIGS = Path(__file__).parent / "configs"
HYBRID, SCAN, CACHE = (audit(CONFIGS / f"{name}.json") for name in ("jamba-v0.1", "mamba-130m", "llama-3-8b"))


@pytest.mark.slow
@pytest.mark.parametrize("audits", [[HYBRID], [SCAN], [CACHE], [SCAN, CACHE, HYBRID]], ids=len)
def test_a_figure_is_the_same_every_time(audits: list[object], tmp_path: Path) -> None:
    first, second = tmp_path / "one.svg", tmp_path / "two.svg"
    for path in (first, second):
        plot_state(audits, path)  # type: ignore[arg-type]
    assert first.read_bytes() == second.read_bytes()
    assert first.read_text().startswith("<?xml")


@pytest.mark.slow
def test_a_figure_in_pixels(tmp_path: Path) -> None:
    plot_state([HYBRID], tmp_path / "one.PNG")
    assert (tmp_path / "one.PNG").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_names_that_look_like_formulas_are_drawn_as_they_are(tmp_path: Path) -> None:
    strange = dataclasses.replace(SCAN, source="_$\\frac{$x\x1b\u4e00" + "y" * 100, model_type="_x")
    plot_state([strange, CACHE], tmp_path / "one.svg")
    plot_state([strange], tmp_path / "two.svg")


@pytest.mark.slow
def test_lengths_without_a_wall_in_sight(tmp_path: Path) -> None:
    plot_state([audit(CONFIGS / "mistral-7b-v0.1.json", n=[1])], tmp_path / "one.svg")
    plot_state([audit(CONFIGS / "mamba-130m.json", n=[10**12])], tmp_path / "two.svg")


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"ends in \.svg or \.png; got 'a\.pdf'"):
        check_figure(Path("a.pdf"))
    with pytest.raises(InvalidInput, match="nothing to draw"):
        plot_state([audit(CONFIGS / "bert-base-uncased.json")], tmp_path / "one.svg")
    assert not list(tmp_path.iterdir())
