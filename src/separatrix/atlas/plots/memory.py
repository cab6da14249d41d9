"""What published models carry against how much they have read, with the wall of index lookup at each.

They are audited from their configs when the page is made; the configs are data, the same that the audits are
tested with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from separatrix.atlas.bits_plot import BitsPlot
from separatrix.atlas.labels import draw_labels
from separatrix.atlas.plots.points import configs
from separatrix.atlas.svg import Canvas, Point, place
from separatrix.audits import Audit, audit
from separatrix.audits.walls import symbols_held

__all__ = ["MODELS", "Audited", "MemoryPlot", "collect_memory"]

MODELS: Final = (
    "llama-3-8b",
    "jamba-v0.1",
    "qwen3-next-80b-a3b",
    "mistral-7b-v0.1",
    "mamba-codestral-7b",
    "falcon-mamba-7b",
    "recurrentgemma-2b",
    "rwkv7-1.5b",
    "mamba-130m",
    "rwkv-4-169m",
)
"""Attention with a cache that grows, hybrids, a window, and states that stay: small and large ones."""
_SHORTEST, _LONGEST = 1 << 8, 1 << 29
_PLOT: Final = BitsPlot(
    least=10.0**5,
    most=10.0**15,
    across="n, tokens read",
    shortest=_SHORTEST,
    longest=_LONGEST,
    base=2,
)


@final
@dataclass(frozen=True, kw_only=True)
class Audited:
    """A published model by name, and where its memory ends."""

    name: str
    audit: Audit

    @property
    def wall(self) -> int | None:
        """The most words of which it can look up any; None where the state grows without end."""
        return None if self.audit.grows else symbols_held(self.audit.bounded_bits, self.audit.vocabulary)

    @property
    def kept(self) -> str:
        """What it carries, in words."""
        return ", ".join(part.name for part in self.audit.size.state)


@final
@dataclass(frozen=True, kw_only=True)
class MemoryPlot:
    """The models, the plot, and what it says."""

    models: tuple[Audited, ...]
    plot: str
    says: str
    lengths: tuple[int, ...] = (1 << 10, 1 << 20)
    """Those of the table."""


def collect_memory() -> MemoryPlot:
    """Audit every model and draw what it carries."""
    models = tuple(Audited(name=name, audit=audit(dict(config))) for name, config in configs().items())
    plot, says = _draw(models)
    return MemoryPlot(models=models, plot=plot, says=says)


def _draw(models: Sequence[Audited]) -> tuple[str, str]:
    canvas = Canvas()
    words = sorted(each.audit.vocabulary for each in models)
    _draw_needed(canvas, words[0], words[-1])
    _PLOT.draw_axes(canvas)
    labels: list[tuple[Point, str, str]] = []
    for each in models:
        bits = each.audit.size.state_bits
        line = [_PLOT.at(n, bits(n)) for n in _lengths(each)]
        canvas.polyline(line, "curve c4" if each.audit.grows else "curve c0 whole")
        labels.append((line[-1], each.name, "small of4" if each.audit.grows else "small of0"))
    for each in models:
        if each.wall is not None:
            canvas.circle(_PLOT.at(each.wall, each.audit.bounded_bits), 3.5, "mark c0 ringed")
    middle = math.sqrt(math.log2(words[0]) * math.log2(words[-1]))
    labels.append((_PLOT.at(_LONGEST, middle * _LONGEST), "needed", "small strong"))
    lowest = draw_labels(canvas, labels)
    says = _sentence(models, words)
    title = "Memory of published models against the length of the input"
    return canvas.svg("audited-memory", title=title, desc=says, height=_PLOT.height(lowest)), says


def _draw_needed(canvas: Canvas, fewest: int, most: int) -> None:
    """A band: the bits of n words, for the smallest vocabulary and the largest."""
    corners = [
        _PLOT.at(n, max(_PLOT.least, n * math.log2(words)))
        for words, n in (
            (fewest, _PLOT.least / math.log2(fewest)),
            (fewest, _LONGEST),
            (most, _LONGEST),
            (most, _PLOT.least / math.log2(most)),
        )
    ]
    canvas.path(f"M{' L'.join(map(place, corners))} Z", "band")


def _lengths(each: Audited) -> list[int]:
    """Four to an octave would be smooth; two are enough, and the bends where a window is full."""
    octaves = math.log2(_LONGEST / _SHORTEST)
    steps = {round(_SHORTEST * 2 ** (step / 2)) for step in range(round(2 * octaves) + 1)}
    windows = {part.window for part in each.audit.size.state if part.window is not None}
    if not windows and not each.audit.grows:
        return [_SHORTEST, _LONGEST]
    return sorted(steps | {window for window in windows if _SHORTEST < window < _LONGEST})


def _sentence(models: Sequence[Audited], words: Sequence[int]) -> str:
    walls = {each.name: each.wall for each in models if each.wall is not None}
    first, last = min(walls, key=lambda name: walls[name]), max(walls, key=lambda name: walls[name])
    growing = [each.name for each in models if each.audit.grows]
    return (
        f"The memory of {', '.join(growing[:-1])} and {growing[-1]} grows with every token (dashed); that of "
        f"the others stops. The band is what n words take, of {words[0]:,} to {words[-1]:,} different ones. "
        f"Where a flat line meets it, at the dot, is the wall of index lookup: beyond {walls[first]:,} words "
        f"for {first}, and {walls[last]:,} for {last}, some input is answered wrongly whatever the weights "
        "(S-T3)."
    )
