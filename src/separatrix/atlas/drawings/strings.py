"""Drawings of the tasks that decide something about a whole string."""

from __future__ import annotations

from dataclasses import dataclass

from separatrix.atlas.drawings.layout import Sketch, verdict
from separatrix.atlas.examples import Example
from separatrix.atlas.svg import WIDTH, Canvas, Point, text_width
from separatrix.tasks.dyck import BRACKETS, Dyck
from separatrix.tasks.sparse_threshold import SparseThreshold

__all__ = ["draw_disjointness", "draw_dyck", "draw_equality", "draw_sparse_threshold"]


@dataclass(frozen=True, kw_only=True)
class _Nesting:
    """Brackets matched as far as it goes: partners, the depth after each, and where and why it went wrong."""

    pairs: list[tuple[int, int]]
    depths: list[int]
    fault: int | None
    reason: str


def draw_dyck(canvas: Canvas, example: Example) -> Sketch:
    """The depth as a mountain range over the brackets, partners joined, and the first fault if any."""
    assert isinstance(example.task, Dyck)
    brackets, limit = example.text, example.task.depth
    nesting = _match(brackets, limit)
    step = (WIDTH - 34) / len(brackets)
    low, high = min(0, *nesting.depths), max(limit, *nesting.depths)
    rise = 30

    def at(place: float, depth: float) -> Point:
        return (step * place, 18 + rise * (high - depth))

    for depth in range(low, high + 1):
        bound = depth in (0, limit)
        canvas.line(at(0, depth), at(len(brackets), depth), "edge dashed" if bound else "edge faint")
        if bound:
            canvas.text((WIDTH, at(0, depth)[1]), str(depth), "small", anchor="end")
    profile = [at(0, 0), *(at(place + 1, depth) for place, depth in enumerate(nesting.depths))]
    canvas.polyline(profile, "edge ridge")
    for opened, closed in nesting.pairs:
        level = nesting.depths[opened] - 0.5
        canvas.line(at(opened + 0.5, level), at(closed + 0.5, level), "edge on")
    line = at(0, low)[1] + 26
    for place, bracket in enumerate(brackets):
        wrong = place == nesting.fault
        canvas.tile((step * (place + 0.5), line), (step - 3, 26), bracket, "tile on" if wrong else "tile")
    if nesting.fault is not None:
        before = nesting.depths[nesting.fault - 1] if nesting.fault else 0
        middle = (before + nesting.depths[nesting.fault]) / 2
        canvas.circle(at(nesting.fault + 0.5, middle), 6, "edge on")
    member = example.answers[-1] == "1"
    verdict(canvas, line + 42, "1: member" if member else "0: no member")
    where = f"bracket {(nesting.fault or 0) + 1}"
    return Sketch(
        height=line + 58,
        says="Every bracket has its partner and the depth never exceeds the limit: a member."
        if member
        else f"At {where} {nesting.reason}: no member.",
    )


def draw_equality(canvas: Canvas, example: Example) -> Sketch:
    """One string over the other; where they differ is what decides, or everywhere if they do not."""
    words = example.text.split()
    middle = words.index("[SEP]")
    above, below = words[:middle], words[middle + 1 :]
    different = [place for place, pair in enumerate(zip(above, below, strict=True)) if len(set(pair)) > 1]
    equal = example.answers[-1] == "1"
    places = ", ".join(str(place + 1) for place in different)
    return _draw_rows(
        canvas,
        above,
        below,
        strong=different or list(range(len(above))),
        answer="1: equal" if equal else "0: different",
        says=f"The strings agree at all {len(above)} places: equal."
        if equal
        else f"The strings disagree at place {places}: different.",
    )


def draw_disjointness(canvas: Canvas, example: Example) -> Sketch:
    """One set over the other as bits; a place where both have a one decides."""
    bits, half = example.text, len(example.text) // 2
    above, below = list(bits[:half]), list(bits[half:])
    common = [place for place in range(half) if above[place] == below[place] == "1"]
    meet = example.answers[-1] == "1"
    places = ", ".join(str(place + 1) for place in common)
    return _draw_rows(
        canvas,
        above,
        below,
        strong=common,
        answer="1: they meet" if meet else "0: disjoint",
        says=f"Both sets have the element {places}: they meet."
        if meet
        else "No element is in both sets: disjoint.",
    )


def draw_sparse_threshold(canvas: Canvas, example: Example) -> Sketch:
    """The bits, below them the features tied to the bits they read, those that hold tinted."""
    task, bits = example.task, example.text
    assert isinstance(task, SparseThreshold)
    above = [WIDTH * (place + 0.5) / len(bits) for place in range(len(bits))]
    below = [WIDTH * (place + 0.5) / len(task.function) for place in range(len(task.function))]
    values = [
        feature.table[int("".join(bits[index] for index in feature.indices) or "0", 2)]
        for feature in task.function
    ]
    for holds in (0, 1):
        for x, feature, value in zip(below, task.function, values, strict=True):
            for index in feature.indices if value == holds else ():
                canvas.line((above[index], 30), (x, 125), "edge on" if holds else "edge faint")
    for x, bit in zip(above, bits, strict=True):
        canvas.tile((x, 17), (28, 26), bit, "tile")
    for x, value in zip(below, values, strict=True):
        canvas.node((x, 138), str(value), "tile on" if value else "tile faint", radius=13)
    answer, reached = example.answers[-1], f"{sum(values)} of {len(values)} features hold"
    compared = f"{'' if answer == '1' else 'not '}more than {task.bound}"
    verdict(canvas, 184, f"{answer}: {compared}")
    return Sketch(
        height=200,
        says=f"Each feature reads {task.k} bits; {reached}, {compared}.",
    )


def _draw_rows(
    canvas: Canvas, above: list[str], below: list[str], *, strong: list[int], answer: str, says: str
) -> Sketch:
    """Two aligned rows, joined place by place; the places that decide are tinted."""
    width = max(text_width(word) for word in (*above, *below)) + 12
    step = min(max(width, 26) + 4, WIDTH / len(above))
    left = (WIDTH - step * (len(above) - 1)) / 2
    for place, pair in enumerate(zip(above, below, strict=True)):
        x, decides = left + step * place, place in strong
        canvas.line((x, 30), (x, 66), "edge on" if decides else "edge faint")
        for y, word in zip((17, 79), pair, strict=True):
            canvas.tile((x, y), (step - 4, 26), word, "tile on" if decides else "tile")
    verdict(canvas, 128, answer)
    return Sketch(height=145, says=says)


def _match(brackets: str, limit: int) -> _Nesting:
    opening = dict(zip(BRACKETS[1::2], BRACKETS[::2], strict=True))
    pairs, depths, stack = [], [], []
    fault, reason, depth = None, "", 0
    for place, bracket in enumerate(brackets):
        closes = bracket in opening
        depth += -1 if closes else 1
        depths.append(depth)
        if fault is not None:
            continue
        if not closes:
            stack.append(place)
            if depth > limit:
                fault, reason = place, f"more than {limit} brackets are open"
        elif not stack:
            fault, reason = place, "there is nothing to close"
        elif brackets[stack[-1]] != opening[bracket]:
            fault, reason = place, f"{bracket} meets an open {brackets[stack[-1]]}"
        else:
            pairs.append((stack.pop(), place))
    if fault is None and stack:
        fault, reason = stack[-1], "an opened bracket is never closed"
    return _Nesting(pairs=pairs, depths=depths, fault=fault, reason=reason)
