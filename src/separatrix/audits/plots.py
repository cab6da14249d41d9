"""The figure of an audit: what a model carries against how much it has read, the same to the last byte."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from separatrix import figures
from separatrix.audits.auditing import Audit
from separatrix.audits.walls import symbols_held
from separatrix.errors import InvalidInput
from separatrix.figures import CURVES, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["check_figure", "plain", "plot_state"]

_LOOK: Final = {**CURVES, "grid.color": "#e4e4e4"}
_COLOURS: Final = ("#1f4e79", "#c55a11", "#548235", "#7b4b94")
_PART_COLOURS: Final = ("#7f9db9", "#c9a227", "#8db580", "#b48ead", "#a0a0a0")
_NEEDED: Final = "#b22222"
_POINTS: Final = 97
_FAR: Final = 1024
"""A wall so many times further than the last length is left outside the figure."""
_LONGEST_LABEL: Final = 32
_MANY_BYTES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB")


def check_figure(path: Path) -> str:
    """The format that the end of a name stands for; any other end is refused."""
    return figures.check_figure(path, example="audit.svg")


def plot_state(audits: Sequence[Audit], path: Path) -> None:
    """State against n, both on logarithmic scales, and the bits that looking up one of n words needs.

    One model is drawn part by part; several are drawn as a whole each. Where the line of what is needed
    passes that of a bounded state is the wall of index lookup.
    """
    kind = check_figure(path)
    if not any(audit.size.state for audit in audits):
        raise InvalidInput("There is nothing to draw: no model here carries a state from token to token.")
    with drawn(path, kind, inches=(7.2, 4.8), look=_LOOK) as figure:
        axes = figure.add_subplot()
        lengths = _lengths(audits)
        if len(audits) == 1:
            _draw_parts(axes, audits[0], lengths)
        else:
            _draw_wholes(axes, audits, lengths)
        _draw_needed(axes, audits, lengths)
        _scale(axes)
        figure.legend(loc="outside upper center", ncols=2)


def _draw_parts(axes: Axes, audit: Audit, lengths: Sequence[int]) -> None:
    parts = audit.size.state
    if len(parts) > 1:
        for part, colour in zip(parts, _PART_COLOURS * len(parts), strict=False):
            axes.plot(lengths, [part.bits(n) for n in lengths], color=colour, linewidth=1.2, label=part.name)
    whole = [audit.size.state_bits(n) for n in lengths]
    name = plain(audit.model_type)
    label = f"state of {name}" if len(parts) > 1 else f"{parts[0].name} of {name}"
    axes.plot(lengths, whole, color=_COLOURS[0], linewidth=2.4, label=label)
    if audit.walls and audit.grows:
        bounded = [sum(part.bits(n) for part in parts if part.most_bits is not None) for n in lengths]
        axes.plot(lengths, bounded, color=_COLOURS[0], linewidth=1.6, linestyle=":", label="its bounded part")
    _mark_wall(axes, audit, lengths, _COLOURS[0])


def _draw_wholes(axes: Axes, audits: Sequence[Audit], lengths: Sequence[int]) -> None:
    for audit, colour in zip(audits, _COLOURS * len(audits), strict=False):
        whole = [audit.size.state_bits(n) for n in lengths]
        if any(whole):
            label = f"{plain(audit.title)} ({plain(audit.model_type)})"
            axes.plot(lengths, whole, color=colour, linewidth=2.2, label=label)
            if not audit.grows:
                _mark_wall(axes, audit, lengths, colour)


def _draw_needed(axes: Axes, audits: Sequence[Audit], lengths: Sequence[int]) -> None:
    words = max(audit.vocabulary for audit in audits)
    if words < 2:
        return
    label = f"needed to look up one of n words, |Σ| = {words:,}"
    needed = [n * math.log2(words) for n in lengths]
    axes.plot(lengths, needed, color=_NEEDED, linewidth=1.6, linestyle="--", label=label)


def _mark_wall(axes: Axes, audit: Audit, lengths: Sequence[int], colour: str) -> None:
    if not audit.walls:
        return
    wall = symbols_held(audit.bounded_bits, max(2, audit.vocabulary))
    if lengths[0] < wall < lengths[-1]:
        axes.plot([wall], [audit.bounded_bits], marker="o", color=colour, markersize=6, zorder=3)
        axes.annotate(
            f"wall at {wall:,}",
            (wall, audit.bounded_bits),
            xytext=(-8, 8),
            textcoords="offset points",
            ha="right",
            color=colour,
        )


def plain(text: str) -> str:
    """Text without what matplotlib would read as a formula, hide from the legend or has no letters for."""
    text = text.lstrip("_")
    short = text if len(text) <= _LONGEST_LABEL else f"{text[:_LONGEST_LABEL]}..."
    return "".join(letter if " " <= letter <= "~" else "?" for letter in short).replace("$", r"\$")


def _lengths(audits: Sequence[Audit]) -> list[int]:
    """From the first length to the last, and on past the walls that are not too far."""
    first = min(audit.lengths[0] for audit in audits)
    last = max(2 * first, *(audit.lengths[-1] for audit in audits))
    walls = [symbols_held(audit.bounded_bits, max(2, audit.vocabulary)) for audit in audits if audit.walls]
    last = max([last, *(8 * wall for wall in walls if wall < _FAR * last)])
    steps = [first * (last / first) ** (place / (_POINTS - 1)) for place in range(_POINTS)]
    # Where a window is full the curve bends, and the bend belongs on the figure.
    windows = [part.window for audit in audits for part in audit.size.state if part.window is not None]
    bends = [window for window in windows if first < window < last]
    return sorted({*(round(step) for step in steps), *bends})


def _scale(axes: Axes) -> None:
    """Powers of two for lengths; bits on the left, bytes on the right."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=10)
    axes.set(xlabel="n, tokens read", ylabel="bits")
    right = axes.secondary_yaxis("right", functions=(_bytes_of, _bits_of))
    low, high = (bound / 8 for bound in axes.get_ylim())
    powers = [power for power in range(len(_MANY_BYTES)) if low <= 1024**power <= high]
    right.set_yticks([1024.0**power for power in powers], [f"1 {_MANY_BYTES[power]}" for power in powers])
    right.minorticks_off()
    right.grid(visible=False)


def _bytes_of(bits: Any) -> Any:
    return bits / 8


def _bits_of(count: Any) -> Any:
    return count * 8
