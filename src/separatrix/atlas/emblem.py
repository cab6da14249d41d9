"""The mark at the head of the page: a pendulum's phase portrait, where one curve parts two ways of moving."""

from __future__ import annotations

import math
from typing import Final

from separatrix.atlas.svg import Point, place

__all__ = ["emblem"]

_WIDTH: Final = 420
_HEIGHT: Final = 190
_TURNS: Final = 1.62
"""How many half-turns of the pendulum the picture spans to either side."""


def emblem() -> str:
    """Curves of constant energy E = v²/2 − cos x; the one with E = 1 is the separatrix."""
    swings = [path for energy in (-0.86, -0.45, 0.1, 0.62) for path in _closed(energy)]
    turns = [path for energy in (1.5, 2.15, 2.9) for path in _open(energy)]
    curves = [f'<path class="orbit" d="{path}"/>' for path in (*swings, *turns)]
    curves += [f'<path class="separatrix" d="{path}"/>' for path in _open(1.0)]
    return f'<svg class="emblem" viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-hidden="true">{"".join(curves)}</svg>'


def _open(energy: float) -> list[str]:
    """The pendulum goes round and round: one curve above, one below."""
    steps = 120
    angles = [(2 * step / steps - 1) * _TURNS * math.pi for step in range(steps + 1)]
    speeds = [math.sqrt(max(0.0, 2 * (energy + math.cos(angle)))) for angle in angles]
    return [
        _path([_at(angle, sign * speed) for angle, speed in zip(angles, speeds, strict=True)])
        for sign in (1, -1)
    ]


def _closed(energy: float) -> list[str]:
    """The pendulum swings to and fro about each place where it can hang still."""
    widest, steps = math.acos(-energy), 40
    path = []
    for step in range(2 * steps + 1):
        turn = math.pi * step / steps
        angle = widest * math.cos(turn)
        speed = math.sqrt(max(0.0, 2 * (energy + math.cos(angle)))) * (1 if turn <= math.pi else -1)
        path.append((angle, speed))
    return [
        _path([_at(angle + centre, speed) for angle, speed in path])
        for centre in (-2 * math.pi, 0, 2 * math.pi)
    ]


def _at(angle: float, speed: float) -> Point:
    return (
        _WIDTH / 2 * (1 + angle / (_TURNS * math.pi)),
        _HEIGHT / 2 * (1 - speed / 2.95),
    )


def _path(points: list[Point]) -> str:
    return "M" + " ".join(place(point) for point in points)
