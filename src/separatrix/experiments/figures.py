"""The papers' figures with our numbers: a heat map for each panel, learning curves where a paper shows them.

In a heat map our number is large and the paper's small beneath it, not bold where the run has steps left; a
cell that was not run is hatched. The files are the same to the last byte whenever they are written from the
same numbers.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from separatrix.errors import InvalidFile
from separatrix.experiments.outcomes import CellOutcome, PanelOutcome, StudyOutcome
from separatrix.experiments.tables import per_cent, whole_per_cent
from separatrix.figures import CURVES, encoded, styled
from separatrix.files import replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

__all__ = ["FORMATS", "figures_of", "write_drawing", "write_figures"]

FORMATS: Final = ("png", "svg", "pdf")
_PAGE: Final = 7.2
"""Inches across a page."""
_LETTERS: Final = 118
"""That many small ones go across it."""
_APART: Final = 0.12
_INK: Final = "#1c2733"
_FAINT: Final = "#5b6875"
_EMPTY: Final = "#f4f5f7"
_HATCH: Final = "#dbe0e6"
_SHADES: Final = ("#f7fafd", "#d3e3f1", "#9cc2de", "#4f8fc0", "#1f5f99", "#0b3a66")
"""From 0 to 100 per cent: one hue that darkens evenly, which every eye can order."""
_DARK: Final = 0.65
"""From here on a shade is dark enough for white letters."""
_LINES: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#1a1a1a", "#56b4e9")
"""Okabe's and Ito's colours, which stay apart for the colour-blind."""
_SOON: Final = 0.1
_SMALL: Final = 6.5
"""Letters of a map with many cells."""
_DASHES: Final = ("-", "--", "-.", ":")
_MARKS: Final = "osD^vP*X"
_LOOK: Final[Mapping[str, object]] = {
    **CURVES,
    "font.size": 9.0,
    "axes.spines.right": False,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": _INK,
    "grid.color": "#e4e8ec",
    "hatch.linewidth": 0.8,
    "text.color": _INK,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
}


def figures_of(outcome: StudyOutcome) -> Mapping[str, Figure]:
    """Every figure of a study: `s-fig2-dyck` is the heat map of a panel, `s-fig2-dyck-curves` its curves."""
    with styled(_LOOK):
        return {name: draw() for name, draw in _drawings(outcome)}


def write_figures(outcome: StudyOutcome, folder: Path) -> list[Path]:
    """Each figure of a study as PNG, SVG and PDF in a folder; the files that were written."""
    return [path for name, draw in _drawings(outcome) for path in write_drawing(draw, folder, name=name)]


def write_drawing(draw: Callable[[], Figure], folder: Path, *, name: str) -> list[Path]:
    """What `draw` draws as PNG, SVG and PDF under this name, in a folder that is made if there is none."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise InvalidFile(
            f"Figures need a folder; '{folder}' cannot be one: {failure.strerror}."
        ) from failure
    written = [folder / f"{name}.{kind}" for kind in FORMATS]
    for kind, path in zip(FORMATS, written, strict=True):
        with styled(_LOOK):
            # Drawn anew for each: a figure that was saved once keeps what its layout came to.
            replace_file(path, encoded(draw(), kind))
    return written


def _drawings(outcome: StudyOutcome) -> Iterator[tuple[str, Callable[[], Figure]]]:
    for panel in outcome.panels:
        name = f"{outcome.study.name}-{panel.panel.name}"
        yield name, partial(_heat_map, panel)
        if _curved(panel):
            yield f"{name}-curves", partial(_curves, panel)


def _axes(inches: tuple[float, float], *, beneath: str) -> tuple[Figure, Axes]:
    """An empty figure with one pair of axes, and small letters under it."""
    from matplotlib.figure import Figure  # noqa: PLC0415  a heavy import, needed for figures only

    figure = Figure(figsize=inches, layout="constrained")
    text = "\n".join(textwrap.wrap(beneath, _LETTERS, break_on_hyphens=False))
    figure.supxlabel(_plain(text), x=0.012, ha="left", fontsize=7.0, color=_FAINT)
    return figure, figure.add_subplot()


def _heat_map(panel: PanelOutcome) -> Figure:
    columns, heights = panel.panel.columns, _heights(panel)
    beneath = "Accuracy in per cent."
    beneath += " Large: ours. Small: the paper's." if panel.source else ""
    beneath += " Not bold: has steps left." if any(one.has_steps_left for one in panel.cells) else ""
    beneath += f" {panel.source}" if panel.source else ""
    bottom = max(heights.values()) + 0.5
    small = panel.panel.wide
    figure, axes = _axes((_PAGE, 1.15 + (0.24 if small else 0.46) * bottom), beneath=beneath)
    shades, draw = _shades(), _draw_small_cell if small else _draw_cell
    for row, y in heights.items():
        for x, column in enumerate(columns):
            draw(axes, panel.at(row, column), (x, y), shades)
    axes.set(
        title=_plain(panel.panel.title),
        xlabel=_plain(panel.panel.column_name),
        xlim=(-0.5, len(columns) - 0.5),
        ylim=(bottom, -0.5),
    )
    axes.set_xticks(range(len(columns)), [_plain(panel.panel.label(column)) for column in columns])
    axes.set_yticks(list(heights.values()), [_plain(row) for row in heights])
    axes.tick_params(length=0, labelsize=_SMALL if small else None)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    return figure


def _heights(panel: PanelOutcome) -> dict[str, float]:
    """How far down each row lies; what is not trained stands a little apart from the models."""
    trained = {cell.row for cell in panel.panel.cells if cell.jobs}
    return {row: y + (0.0 if row in trained else _APART) for y, row in enumerate(panel.panel.rows)}


def _draw_small_cell(axes: Axes, one: CellOutcome | None, place: tuple[int, float], shades: Colormap) -> None:
    """One shade and one number, for there are many."""
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    if one is None:
        return
    (x, y), corner = place, (place[0] - 0.5, place[1] - 0.5)
    if one.accuracy is None:
        axes.add_patch(
            Rectangle(corner, 1, 1, facecolor=_EMPTY, edgecolor=_HATCH, hatch="////", linewidth=0.8)
        )
        return
    shade = shades(one.accuracy)
    axes.add_patch(Rectangle(corner, 1, 1, facecolor=shade, edgecolor="white", linewidth=0.8))
    ink = "white" if one.accuracy >= _DARK else _INK
    said = whole_per_cent(one.accuracy)
    axes.text(x, y, said, ha="center", va="center_baseline", fontsize=_SMALL, color=ink)


def _draw_cell(axes: Axes, one: CellOutcome | None, place: tuple[int, float], shades: Colormap) -> None:
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    if one is None:
        return
    (x, y), known = place, one.accuracy is not None
    corner, shade = (x - 0.5, y - 0.5), _EMPTY if one.accuracy is None else shades(one.accuracy)
    axes.add_patch(Rectangle(corner, 1, 1, facecolor=shade, edgecolor="none"))
    if not known:
        axes.add_patch(Rectangle(corner, 1, 1, facecolor="none", edgecolor=_HATCH, hatch="////", linewidth=0))
    # The white edge comes last and over all, so that hatching does not run into the next cell.
    axes.add_patch(Rectangle(corner, 1, 1, facecolor="none", edgecolor="white", linewidth=2.0))
    dark = one.accuracy is not None and one.accuracy >= _DARK
    paper = per_cent(one.paper) if one.paper is not None else one.paper_said
    ours = one.state if one.accuracy is None else per_cent(one.accuracy)
    axes.text(
        x,
        y - 0.12 if paper else y,
        ours,
        ha="center",
        va="center",
        fontsize=11.0 if known else 8.0,
        fontweight="bold" if known and not one.has_steps_left else "normal",
        fontstyle="normal" if known else "italic",
        color="white" if dark else _INK if known else _FAINT,
    )
    axes.text(
        x,
        y + 0.27,
        paper,
        ha="center",
        va="center",
        fontsize=7.0,
        color="#e6eef6" if dark else _INK if known else _FAINT,
    )


def _curved(panel: PanelOutcome) -> list[CellOutcome]:
    """The cells, one a row, whose learning curves are to be drawn and known."""
    at = panel.panel.curves_at
    cells = [] if at is None else [panel.at(row, at) for row in panel.panel.rows]
    return [one for one in cells if one is not None and _looks(one)]


def _curves(panel: PanelOutcome) -> Figure:
    cells = _curved(panel)
    drawn = {one.cell.row for one in cells}
    missing = [
        one.cell.row
        for one in panel.cells
        if one.cell.column == panel.panel.curves_at and one.cell.jobs and one.cell.row not in drawn
    ]
    beneath = "The best run of each model. A mark where one solved the task and stopped."
    beneath += f" Without a curve: {', '.join(missing)}." if missing else ""
    figure, axes = _axes((_PAGE, 3.7), beneath=beneath)
    for one in cells:
        _draw_curve(axes, one, number=panel.panel.rows.index(one.cell.row))
    axes.set(
        title=_plain(f"{panel.panel.title}, {panel.panel.column_name} = {panel.panel.curves_at:,}"),
        xlabel="training step",
        ylabel="validation accuracy, per cent",
        ylim=(-3, 103),
    )
    _scale_steps(axes, [_looks(one)[-1][0] for one in cells])
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=2.6)
    return figure


def _scale_steps(axes: Axes, ends: list[int]) -> None:
    """Steps from nought on; on a logarithmic scale where some were done so soon that they would be a dot."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator  # noqa: PLC0415

    if 0 < min(ends) < _SOON * max(ends):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_xlim(0, 1.015 * max(ends) or 1)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))


def _draw_curve(axes: Axes, one: CellOutcome, *, number: int) -> None:
    steps, accuracies = zip(*_looks(one), strict=True)
    solved = one.best is not None and one.best.solved_at is not None
    axes.plot(
        steps,
        accuracies,
        color=_LINES[number % len(_LINES)],
        linestyle=_DASHES[number // len(_LINES) % len(_DASHES)],
        linewidth=1.7,
        marker=_MARKS[number % len(_MARKS)],
        markersize=5.5,
        # Where it was solved, and where there is no line because there is one look only.
        markevery=[len(steps) - 1] if solved or len(steps) == 1 else [],
        clip_on=False,
        label=_plain(one.cell.row),
    )


def _looks(one: CellOutcome) -> list[tuple[int, float]]:
    """The steps at which a run was looked at, with its accuracies in per cent."""
    return [(point.step, 100 * point.accuracy) for point in one.curve if point.accuracy is not None]


def _shades() -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

    return LinearSegmentedColormap.from_list("accuracy", _SHADES)


def _plain(text: str) -> str:
    """Text without what matplotlib would read as a formula, or hide from a legend."""
    return text.lstrip("_").replace("$", r"\$")
