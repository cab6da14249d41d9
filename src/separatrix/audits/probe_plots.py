"""The figure of a probe: right answers against n, and the wall of the model's memory on the same scale."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from separatrix import figures
from separatrix.audits.plots import plain
from separatrix.audits.probing import Probe
from separatrix.figures import CURVES, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_probe"]

_LOOK: Final = {**CURVES, "grid.color": "#e4e4e4"}
_EXACT: Final = "#1f4e79"
_CONTAINED: Final = "#548235"
_WALL: Final = "#b22222"
_FAR: Final = 1 << 14
"""A wall so many times further than the last n is named at the edge and not drawn."""


def plot_probe(probe: Probe, path: Path) -> None:
    """Accuracy with Wilson's intervals against n on a logarithmic scale, and where the wall stands."""
    kind = figures.check_figure(path, example=f"{probe.task}.svg")
    with drawn(path, kind, inches=(7.2, 4.4), look=_LOOK) as figure:
        axes = figure.add_subplot()
        _draw_scores(axes, probe)
        first, last = _draw_wall(axes, probe)
        axes.set_xscale("log", base=2)
        axes.set(xlabel=f"n, {probe.counts}", ylabel="answers", ylim=(-0.04, 1.04))
        axes.set_xlim(first / 1.25, last * 1.25)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
        axes.set_title(f"{plain(probe.title)} ({plain(probe.model_type)}) on {probe.task}", loc="left")
        figure.legend(loc="outside lower center", ncols=3)


def _draw_scores(axes: Axes, probe: Probe) -> None:
    lengths = [score.n for score in probe.scores]
    shares = [score.accuracy for score in probe.scores]
    reach = [
        [max(0.0, share - score.interval.low) for share, score in zip(shares, probe.scores, strict=True)],
        [max(0.0, score.interval.high - share) for share, score in zip(shares, probe.scores, strict=True)],
    ]
    contained = [score.contained / score.asked for score in probe.scores]
    if contained != shares:
        axes.plot(lengths, contained, color=_CONTAINED, linewidth=1.4, linestyle=":", label="contained")
    axes.errorbar(
        lengths,
        shares,
        yerr=reach,
        color=_EXACT,
        linewidth=2.2,
        marker="o",
        markersize=5,
        capsize=3,
        label="exact, 95 % interval",
    )


def _draw_wall(axes: Axes, probe: Probe) -> tuple[float, float]:
    """The wall as a line where it is in reach, else in words; the least and largest n to be shown."""
    first, last = probe.scores[0].n, probe.scores[-1].n
    if probe.wall is None:
        _say(axes, "no wall: its memory grows" if probe.grows else "wall not known")
        return first, last
    wall = probe.wall.largest_n
    if wall > _FAR * last:
        _say(axes, f"wall of its memory far to the right, n = {wall:,}")
        return first, last
    place = max(wall, first / 4)  # a memory that holds next to nothing has its wall before the first n
    axes.axvline(place, color=_WALL, linewidth=1.8, linestyle="--", label=f"wall of its memory, n = {wall:,}")
    edge = max(last, 2 * place)
    axes.axvspan(place, 2 * edge, color=_WALL, alpha=0.07, linewidth=0)
    return min(first, place), edge


def _say(axes: Axes, text: str) -> None:
    """In the legend, where no curve can pass over it."""
    axes.plot([], [], linestyle="none", label=text)
