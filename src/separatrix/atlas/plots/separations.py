"""The separation, seen: what is needed and what suffices for one task against the length, on one picture.

Everything is in bits of what a model works with at a time: its state where it is recurrent, width × heads ×
bits a number in all layers where it attends. Lines are bounds, dots are witnesses. A dashed line has all bits
of a witness's weights, the other measure there is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from typing import Final, final

from separatrix.atlas.bits_plot import BitsPlot, raised
from separatrix.atlas.labels import draw_labels
from separatrix.atlas.plots.pictured import PICTURES, Picture, Suffices, Who
from separatrix.atlas.plots.points import Measured, sizes
from separatrix.atlas.svg import Canvas, Point
from separatrix.communication.bounds import bounds_for
from separatrix.evidence import Bound
from separatrix.tasks import TASKS

__all__ = ["Separation", "collect_separations"]

_SHORTEST, _LONGEST = 1 << 2, 1 << 20
_PRECISION: Final = 32
"""At which a bound on a count of numbers is asked, before that is turned into bits."""


@final
@dataclass(frozen=True, kw_only=True)
class Line:
    """A bound on a family against n."""

    who: Who
    theorem: str
    formula: str
    points: tuple[tuple[int, Fraction], ...]

    def at(self, n: int) -> Fraction:
        """What is needed at a length, a power of two."""
        return dict(self.points)[n]


@final
@dataclass(frozen=True, kw_only=True)
class Dots:
    """A construction's witnesses from short inputs to long ones."""

    each: Suffices
    points: tuple[Measured, ...]


@final
@dataclass(frozen=True, kw_only=True)
class Separation:
    """A task with its picture, what that says, and the results it is made of."""

    task: str
    title: str
    settings: str
    plot: str
    says: str
    theorems: tuple[str, ...]

    @property
    def parts(self) -> list[tuple[str, str]]:
        """What it says, cut into words and the names of results that follow them."""
        names = "|".join(re.escape(name) for name in sorted(self.theorems, key=len, reverse=True))
        cut = re.split(rf"(?<=\()({names})(?=\))", self.says)
        return list(zip_longest(cut[::2], cut[1::2], fillvalue=""))

    @property
    def unsaid(self) -> list[str]:
        """Results that are drawn and not spoken of."""
        spoken = {name for _, name in self.parts}
        return [name for name in self.theorems if name not in spoken]


def collect_separations() -> tuple[Separation, ...]:
    """Every pictured task."""
    return tuple(_separation(picture) for picture in PICTURES)


def _separation(picture: Picture) -> Separation:
    lines = [_line(picture, who) for who in picture.needs]
    dots = [Dots(each=each, points=tuple(_points(picture, each))) for each in picture.suffices]
    says = _sentence(picture, lines, dots)
    theorems = dict.fromkeys([*(line.theorem for line in lines), *(some.each.theorem for some in dots)])
    return Separation(
        task=picture.task,
        title=TASKS.get(picture.task).title,
        settings=_settings(picture),
        plot=_draw(picture, lines, dots, says),
        says=says,
        theorems=tuple(theorems),
    )


def _settings(picture: Picture) -> str:
    """The parameters that the bits depend on."""
    params = picture.spec(_SHORTEST).params
    shown = {"alphabet": "symbols", "types": "types", "dimension": "dimensions", "q": "in a set"}
    said = [f"{params[name]} {words}" for name, words in shown.items() if params.get(name)]
    return ", ".join([*said, *([f"depth {params['depth']}"] if "depth" in params else [])])


def _line(picture: Picture, who: Who) -> Line:
    found = [(1 << power, _strongest(picture, who, 1 << power)) for power in _powers()]
    return Line(
        who=who,
        theorem=found[-1][1].theorem,
        formula=found[-1][1].formula,
        points=tuple((n, _bits(bound)) for n, bound in found),
    )


def _strongest(picture: Picture, who: Who, n: int) -> Bound:
    spec = picture.spec(n)
    in_bits = [each for each in bounds_for(spec, who.family) if _counts_bits(each)]
    if in_bits:
        return in_bits[0]
    return bounds_for(spec, who.family, precision=_PRECISION)[0]


def _counts_bits(bound: Bound) -> bool:
    return bound.unit == "bits" and bound.at_least is not None and bound.family is not None


def _bits(bound: Bound) -> Fraction:
    """Of a count of numbers, each has as many bits as were assumed."""
    assert bound.at_least is not None
    return Fraction(bound.at_least) * (1 if _counts_bits(bound) else _PRECISION)


def _powers() -> range:
    return range(round(math.log2(_SHORTEST)), round(math.log2(_LONGEST)) + 1)


def _points(picture: Picture, each: Suffices) -> Iterator[Measured]:
    wanted = (each.theorem, each.task or picture.task, each.who.family, each.variant)
    for point in sizes():
        if (point.theorem, point.task.name, point.family, point.variant) == wanted:
            yield point


def _draw(picture: Picture, lines: Sequence[Line], dots: Sequence[Dots], says: str) -> str:
    canvas, plot = Canvas(), _frame(lines, dots)
    plot.draw_axes(canvas)
    labels: list[tuple[Point, str, str]] = []
    for line in lines:
        drawn = [plot.at(n, float(bits)) for n, bits in line.points if bits >= plot.least]
        if drawn:
            canvas.polyline(drawn, f"curve c{line.who.hue} whole")
            labels.append((drawn[-1], f"{line.who.called}: needs", f"small of{line.who.hue}"))
    for some in dots:
        labels += _draw_dots(canvas, plot, some)
    lowest = draw_labels(canvas, labels)
    title = f"{TASKS.get(picture.task).title}: bits needed and bits that suffice against n"
    return canvas.svg(f"separation-{picture.task}", title=title, desc=says, height=plot.height(lowest))


def _draw_dots(canvas: Canvas, plot: BitsPlot, some: Dots) -> list[tuple[Point, str, str]]:
    hue, called = some.each.who.hue, some.each.who.called
    working = [plot.at(point.n, point.working_bits) for point in some.points]
    labels = [(_led_out(canvas, plot, working[-1]), f"{called}: does", f"small strong of{hue}")]
    if some.points[-1].heads:
        weights = [plot.at(point.n, point.parameter_bits) for point in some.points]
        canvas.polyline(weights, f"curve c{hue} weights")
        labels.append((_led_out(canvas, plot, weights[-1]), f"{called}: weights", f"small of{hue}"))
    canvas.polyline(working, f"curve c{hue} joined")
    for point, at in zip(some.points, working, strict=True):
        canvas.circle(at, 3, f"mark c{hue}" if point.verdict == "proved" else f"mark c{hue} hollow")
    return labels


def _led_out(canvas: Canvas, plot: BitsPlot, end: Point) -> Point:
    """The right edge of the plot beside the end of a curve, with dots on the way there."""
    edge = (plot.at(plot.longest, plot.least)[0], end[1])
    if end[0] + 6 < edge[0]:
        canvas.line((end[0] + 6, end[1]), edge, "edge led")
    return edge


def _frame(lines: Sequence[Line], dots: Sequence[Dots]) -> BitsPlot:
    """Whole decades around all that is drawn."""
    found = [float(bits) for line in lines for _, bits in line.points if bits >= 1]
    found += [bits for some in dots for point in some.points for bits in _drawn_bits(point)]
    return BitsPlot(
        least=10.0 ** math.floor(math.log10(min(found))),
        most=10.0 ** math.ceil(math.log10(max(found))),
        across="n",
        shortest=_SHORTEST,
        longest=_LONGEST,
        base=2,
        bottom=262.0,
    )


def _drawn_bits(point: Measured) -> list[int]:
    return [point.working_bits, *([point.parameter_bits] if point.heads else [])]


def _sentence(picture: Picture, lines: Sequence[Line], dots: Sequence[Dots]) -> str:
    """In numbers at a length where the sides are apart, what one needs and the other does with."""
    own = [some for some in dots if not some.each.task]
    least = min(own, key=lambda some: some.points[-1].working_bits / some.points[-1].n)
    last, family = least.points[-1], least.each.who.family
    others = [line for line in lines if line.who != least.each.who and line.at(_LONGEST) > last.working_bits]
    n = last.n if all(line.at(last.n) > last.working_bits for line in others) else _LONGEST
    needed = " and ".join(
        f"{_NAMED[line.who.family]} must have {math.ceil(line.at(n)):,} bits ({line.theorem})"
        for line in others
    )
    if last.verdict == "proved":
        done = f"{_NAMED[family]} {'do' if family in _SEVERAL else 'does'} it with {last.working_bits:,}"
    else:
        done = f"{_NAMED[family]} is built with {last.working_bits:,}"
    where = "" if n == last.n else f" at n = {_as_power(last.n)}"
    text = f"At n = {_as_power(n)} {needed}, while {done}{where} ({last.theorem})."
    for some in dots:
        if some.each.task:
            end, whose = some.points[-1], _NAMED[some.each.who.family]
            text += f" For {some.each.task} {whose} takes {end.working_bits:,} ({end.theorem})."
    return f"{text} {picture.remark}".rstrip()


def _as_power(n: int) -> str:
    return f"2{raised(n.bit_length() - 1)}"


_NAMED: Final = {
    "rnn": "a recurrent model",
    "transformer-1": "one layer of attention",
    "transformer-2": "two layers",
    "transformer-3": "three layers",
    "third-order": "one third-order unit",
    "graph-transformer": "a graph Transformer",
    "transformer-cot": "a Transformer with a chain of thought",
    "linear-rnn+retrieval": "a linear RNN that searches its text",
}
_SEVERAL: Final = ("transformer-2", "transformer-3")
