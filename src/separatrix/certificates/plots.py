"""Figures of what is proven: the frontier of sizes, and bits against N."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from separatrix import figures
from separatrix.certificates.frontier import Point
from separatrix.errors import InvalidInput
from separatrix.figures import CURVES, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["check_figure", "plot_bits", "plot_frontier"]

_LOOK: Final = {**CURVES, "axes.spines.right": False, "grid.color": "#dddddd"}
_MARKS: Final = "osD^vP"


def plot_frontier(points: Sequence[Point], path: Path, *, title: str = "") -> None:
    """Width against bits a number: the corners of what is proven, joined by the steps between them."""
    if not points:
        raise InvalidInput("A frontier has at least one point to draw; got none.")
    corners = sorted(points, key=lambda point: point.width)
    with _axes(path) as axes:
        axes.step(
            [point.width for point in corners],
            [point.precision for point in corners],
            where="post",
            color="#9aa5b1",
            zorder=1,
        )
        axes.scatter(
            [point.width for point in corners],
            [point.precision for point in corners],
            color="#1f4e79",
            zorder=2,
        )
        for point in corners:
            axes.annotate(
                f"{point.addresses}, {point.arithmetic}",
                (point.width, point.precision),
                xytext=(6, 6),
                textcoords="offset points",
            )
        axes.set(xlabel="width", ylabel="bits a number", title=title)
        axes.margins(x=0.35, y=0.25)


def plot_bits(series: Mapping[str, Sequence[tuple[int, int]]], path: Path, *, title: str = "") -> None:
    """Bits against N, both on logarithmic scales, a line for each name."""
    if not any(series.values()):
        raise InvalidInput("There is nothing to draw: no series has a point.")
    with _axes(path) as axes:
        for number, (name, points) in enumerate(series.items()):
            lengths, bits = [n for n, _ in points], [count for _, count in points]
            axes.plot(lengths, bits, marker=_MARKS[number % len(_MARKS)], markersize=4, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=10)
        axes.set(xlabel="N", ylabel="bits", title=title)
        axes.legend()


def check_figure(path: Path) -> str:
    """The format that the end of a name stands for; `InvalidInput` for any other end."""
    return figures.check_figure(path, example="frontier.svg")


@contextmanager
def _axes(path: Path) -> Iterator[Axes]:
    """Empty axes, in a figure that is written when the block ends well."""
    with drawn(path, check_figure(path), inches=(6.4, 4.0), look=_LOOK) as figure:
        yield figure.add_subplot()
