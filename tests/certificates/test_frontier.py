"""The front: proven, not beaten, complete against the slow way; figures the same to the last byte."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from separatrix.certificates import certify
from separatrix.certificates.frontier import Point, frontier
from separatrix.certificates.plots import plot_bits, plot_frontier
from separatrix.certificates.searching import ADDRESS_CODES, LADDERS, construction_for
from separatrix.errors import InvalidInput
from separatrix.precision import system_named
from separatrix.tasks import task
from separatrix.witnesses import Choices, witness_for
from separatrix.witnesses.files import weights_sha256

TASK = task("index-lookup", n=300, alphabet=2)


@pytest.fixture(scope="module")
def points() -> tuple[Point, ...]:
    return frontier(TASK)


def test_every_point_is_proven_from_its_own_choices(points: tuple[Point, ...]) -> None:
    assert len(points) > 1
    for point in points:
        choices = Choices(system=system_named(point.arithmetic), addresses=point.addresses)
        witness = witness_for(TASK, choices=choices)
        assert weights_sha256(witness.model) == point.weights_sha256
        assert witness.size == point.size
        assert certify(witness).verdict == "proved"


def test_wider_points_have_fewer_bits(points: tuple[Point, ...]) -> None:
    for narrow, wide in itertools.pairwise(points):
        assert narrow.width < wide.width
        assert narrow.precision > wide.precision


@pytest.mark.slow
def test_nothing_proven_beats_a_point(points: tuple[Point, ...]) -> None:
    construction = construction_for(TASK)
    most = max(point.precision for point in points)
    systems = [system for ladder in LADDERS.values() for system in ladder if system.bits <= most]
    codes = itertools.chain.from_iterable(ADDRESS_CODES[:2])
    for system, addresses in itertools.product(systems, codes):
        witness = construction.proved(system, addresses)
        if witness is not None:
            assert any(
                point.width <= witness.size.width and point.precision <= witness.size.precision_bits
                for point in points
            )


@pytest.mark.slow
def test_figures_are_the_same_to_the_last_byte(points: tuple[Point, ...], tmp_path: Path) -> None:
    for suffix in ("svg", "png"):
        first, second = tmp_path / f"first.{suffix}", tmp_path / f"second.{suffix}"
        plot_frontier(points, first, title="index lookup")
        plot_frontier(points, second, title="index lookup")
        assert first.read_bytes() == second.read_bytes()
    text = (tmp_path / "first.svg").read_text()
    assert "<dc:date>" not in text
    assert "matplotlib" not in text.partition("<defs>")[0].lower()
    plot_frontier(points[:1], tmp_path / "second.svg", title="index lookup")
    assert text != (tmp_path / "second.svg").read_text()


@pytest.mark.slow
def test_bits_are_drawn_for_every_series(tmp_path: Path) -> None:
    plot_bits({"one": [(16, 100), (64, 200)]}, tmp_path / "one.svg")
    plot_bits({"one": [(16, 100), (64, 200)], "two": [(16, 50)]}, tmp_path / "two.svg")
    assert len((tmp_path / "two.svg").read_text()) > len((tmp_path / "one.svg").read_text())


def test_what_cannot_be_drawn_is_refused(points: tuple[Point, ...], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"ends in \.svg or \.png; got 'front\.pdf'\. Try frontier\.svg"):
        plot_frontier(points, tmp_path / "front.pdf")
    with pytest.raises(InvalidInput, match="at least one point"):
        plot_frontier((), tmp_path / "front.svg")
    with pytest.raises(InvalidInput, match="nothing to draw"):
        plot_bits({"one": []}, tmp_path / "bits.svg")
    assert not list(tmp_path.iterdir())
