"""The plots of the page: to scale, true to the bounds and to the records, and the records made again."""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path
from typing import cast
from xml.etree import ElementTree

import pytest

from separatrix.atlas.bits_plot import BitsPlot
from separatrix.atlas.plots import Plots, collect_plots
from separatrix.atlas.plots.memory import MODELS
from separatrix.atlas.plots.pictured import PICTURES, Picture, Suffices
from separatrix.atlas.plots.points import Measured, configs, fronts, sizes
from separatrix.atlas.plots.separations import collect_separations
from separatrix.audits import audit
from separatrix.certificates.frontier import frontier
from separatrix.certificates.minimising import minimised
from separatrix.communication.bounds import bound
from separatrix.tasks.specs import task_of
from separatrix.witnesses import CATALOGUE
from separatrix.witnesses.files import weights_sha256

CONFIGS = Path(__file__).parents[1] / "audits" / "configs"
SVG = "{http://www.w3.org/2000/svg}"
TINY = 16


@pytest.fixture(scope="module")
def plots() -> Plots:
    return collect_plots()


def drawings(plots: Plots) -> list[str]:
    return [
        *(each.plot for each in plots.separations),
        *(each.plot for each in plots.frontiers),
        plots.memory.plot,
    ]


def test_every_plot_is_well_formed_named_and_small(plots: Plots) -> None:
    found = drawings(plots)
    assert len(found) == len(PICTURES) + 4
    ids = []
    for drawing in found:
        root = ElementTree.fromstring(drawing)
        assert root.find("title") is not None
        assert (root.findtext("desc") or "").endswith(".")
        ids += [one.attrib["id"] for one in root.iter() if "id" in one.attrib]
        assert len(drawing) < 12_000
        assert "nan" not in drawing
    assert len(ids) == len(set(ids))


def test_making_them_again_gives_the_same(plots: Plots) -> None:
    assert collect_separations() == plots.separations


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.task)
def test_no_witness_is_below_a_bound_on_its_family(picture: Picture) -> None:
    """What both sides say of one family must agree: else a bound or a size is wrong."""
    for each, point in _points(picture):
        if each.task or each.who not in picture.needs:
            continue
        precision, heads = (point.precision_bits, point.heads) if point.heads else (None, None)
        needed = bound(picture.spec(point.n), each.who.family, precision=precision, heads=heads)
        has = {
            "state bits": point.state_bits,
            "width": point.width,
            "width × heads": point.width * point.heads,
            "width × precision × heads": point.working_bits,
        }[needed.quantity]
        assert has >= (needed.at_least or 0), (each.theorem, point.n)


@pytest.mark.parametrize(
    ("task", "family", "n", "bits"),
    [
        ("index-lookup", "rnn", 1 << 10, 6 << 10),
        ("equality", "rnn", 1 << 12, 1 << 11),
        ("is-tree", "rnn", 1 << 10, 6321),
    ],
)
def test_lines_are_drawn_where_the_bounds_say(
    plots: Plots, task: str, family: str, n: int, bits: int
) -> None:
    picture = next(picture for picture in PICTURES if picture.task == task)
    assert math.ceil(bound(picture.spec(n), family).at_least or 0) == bits
    each = next(each for each in plots.separations if each.task == task)
    root = ElementTree.fromstring(each.plot)
    line = next(one for one in root.iter("polyline") if one.attrib["class"] == "curve c0 whole")
    points = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    across = {round(x, 0) for x, _ in points}
    frame = _frame_of(root)
    x, y = frame.at(n, bits)
    assert round(x) in across
    assert any(abs(y - other) < 0.6 for at, other in points if round(at) == round(x))


def test_witnesses_are_drawn_where_they_are(plots: Plots) -> None:
    each = next(each for each in plots.separations if each.task == "index-lookup")
    root = ElementTree.fromstring(each.plot)
    frame = _frame_of(root)
    drawn = {
        (round(float(one.attrib["cx"])), round(float(one.attrib["cy"])))
        for one in root.iter("circle")
        if one.attrib["class"] == "mark c1"
    }
    wanted = [point for point in sizes() if point.theorem == "S-T1"]
    assert drawn == {tuple(round(side) for side in frame.at(point.n, point.working_bits)) for point in wanted}
    assert [point.working_bits for point in wanted if point.n == 1 << 10] == [26 * 10]


def test_what_is_not_certified_is_hollow(plots: Plots) -> None:
    for each in plots.separations:
        hollow = each.plot.count("hollow")
        wanted = sum(
            point.verdict == "built"
            for picture in PICTURES
            if picture.task == each.task
            for _, point in _points(picture)
        )
        assert hollow == wanted
    assert sum(point.verdict == "built" for point in sizes()) > 0


def test_the_sentences_have_the_numbers_of_both_sides(plots: Plots) -> None:
    says = {each.task: each.says for each in plots.separations}
    assert says["index-lookup"] == (
        "At n = 2²⁰ a recurrent model must have 6,291,456 bits (S-T3), while one layer of attention does it "
        "with 598 (S-T1)."
    )
    for each in plots.separations:
        needed, held = (
            int(re.sub(",", "", number)) for number in re.findall(r"(?:have|with) ([\d,]+)", each.says)[:2]
        )
        if each.task != "equality":
            assert needed > held, each.says
        assert "".join(words + name for words, name in each.parts) == each.says


def test_no_corner_of_a_front_is_beaten() -> None:
    for front in fronts():
        for one, other in itertools.permutations(front.corners, 2):
            assert one.width > other.width or one.precision_bits > other.precision_bits
    by_task = {
        name: list(each) for name, each in itertools.groupby(fronts(), key=lambda front: front.task.name)
    }
    assert len(by_task) == 3
    for each in by_task.values():
        lengths = [cast(int, front.task.params["n"]) for front in each]
        assert lengths == sorted(lengths)
        assert len(lengths) >= 4


@pytest.mark.slow
def test_the_smallest_points_are_made_again() -> None:
    point = next(point for point in sizes() if point.theorem == "S-T6" and point.n == TINY)
    assert _again(point) == point.weights_sha256
    front = next(front for front in fronts() if front.task.name == "associative-recall")
    again = frontier(task_of(front.task), family=front.family)
    assert [one.to_fields() for one in again] == [dict(corner.to_fields()) for corner in front.corners]


@pytest.mark.slow
@pytest.mark.parametrize("theorem", sorted({point.theorem for point in sizes()}))
def test_every_proven_point_of_a_short_length_is_made_again(theorem: str) -> None:
    for point in sizes():
        if (
            point.theorem == theorem
            and point.verdict == "proved"
            and point.family != "rnn"
            and point.n <= 4 * TINY
        ):
            assert _again(point) == point.weights_sha256


def test_every_recorded_construction_is_in_the_catalogue_and_pictured() -> None:
    held = {(entry.theorem, entry.task, entry.family, entry.variant) for entry in CATALOGUE}
    recorded = {(point.theorem, point.task.name, point.family, point.variant) for point in sizes()}
    assert recorded <= held
    pictured = {
        (each.theorem, each.task or picture.task, each.who.family, each.variant)
        for picture in PICTURES
        for each in picture.suffices
    }
    assert recorded == pictured


def test_the_configs_are_those_that_the_audits_are_tested_with(plots: Plots) -> None:
    assert tuple(configs()) == MODELS
    for each in plots.memory.models:
        published = audit(CONFIGS / f"{each.name}.json")
        assert each.audit.size == published.size, "run python -m benchmarks.atlas_plots --only configs"
        walls = [
            wall.largest_n for wall in published.walls if wall.task == "index-lookup" and wall.vocabulary
        ]
        assert each.wall == (None if published.grows else walls[0])


def test_walls_lie_on_the_band_of_what_is_needed(plots: Plots) -> None:
    root = ElementTree.fromstring(plots.memory.plot)
    walls = [each for each in plots.memory.models if each.wall is not None]
    dots = list(root.iter("circle"))
    assert len(dots) == len(walls) == 7
    for each in walls:
        assert each.wall is not None
        bits = each.audit.bounded_bits
        assert each.wall * math.log2(each.audit.vocabulary) <= bits
        assert (each.wall + 1) * math.log2(each.audit.vocabulary) > bits


def test_a_frame_names_as_many_powers_as_have_room() -> None:
    frame = BitsPlot(least=1, most=100, across="n", shortest=4, longest=1 << 20, base=2)
    assert list(frame._powers()) == [4, 8, 12, 16, 20]
    assert list(BitsPlot(least=1, most=100, across="n")._powers()) == [1, 2, 3, 4, 5]


def test_the_records_are_plain_json() -> None:
    folder = Path(__file__).parents[2] / "src" / "separatrix" / "atlas" / "data"
    for name in ("separations.json", "frontiers.json", "published_configs.json"):
        text = (folder / name).read_text(encoding="utf-8")
        assert json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n" == text


def _points(picture: Picture) -> list[tuple[Suffices, Measured]]:
    return [
        (each, point)
        for each in picture.suffices
        for point in sizes()
        if (point.theorem, point.family, point.variant) == (each.theorem, each.who.family, each.variant)
        and point.task.name == (each.task or picture.task)
    ]


def _again(point: Measured) -> str:
    witness, certificate = minimised(
        task_of(point.task), family=point.family, variant=point.variant, by="bits"
    )
    assert certificate.verdict == "proved"
    return weights_sha256(witness.model)


def _frame_of(root: ElementTree.Element) -> BitsPlot:
    """The frame, from the names on its axis."""
    digits = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
    words = [one.text or "" for one in root.iter("text")]
    named = [int(each[2:].translate(digits)) for each in words if each.startswith("10")]
    return BitsPlot(
        least=10.0 ** min(named),
        most=10.0 ** max(named),
        across="n",
        shortest=4,
        longest=1 << 20,
        base=2,
        bottom=262.0,
    )
