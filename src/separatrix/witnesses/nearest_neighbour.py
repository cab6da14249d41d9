"""S-T7: the label of the nearest neighbour, by two layers of one head each."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import torch

from separatrix.models.explicit.codes import Binary
from separatrix.models.explicit.positions import Own, Remainder
from separatrix.tasks.nearest_neighbour import NearestNeighbour
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import Program, Rival, address_rivals, build
from separatrix.witnesses.witness import Witness

__all__ = ["nearest_neighbour"]

_SIDES: Final = 2  # half of the lead that labels have over points in the second layer, for a scale of 1


def nearest_neighbour(task: NearestNeighbour, choices: Choices) -> Witness:
    """Every label fetches the point in front of it, and then the query compares itself with these copies.

    Coordinates are ±s with s = 1/√d as float32 has it. Points that differ in D coordinates have the product
    (d − 2D)s², and the task's margin says that all points but the nearest differ from the query in at least
    G more coordinates than that one, so the nearest leads by g = 2Gs².

    Layer 1. Place j holds its address T(j) and that of the place before it, T(j − 1), and has the logit
    η₁⟨T(j − 1), T(j′)⟩ with place j′. A label thus fetches the coordinates of its point, each off by at most
    2s times the weight of all other places. η₁ makes that weight less than G/(16d), so that a product with
    the query is off by at most d·s·2s·G/(16d) = g/16.

    Layer 2. The query's logit with a label is η₂(⟨x_q, x̃_i⟩ + 2), with a point η₂(⟨x_q, x̃_i⟩ − 2), where x̃ is
    what the place fetched, at points something between −s and s in each coordinate. The nearest point's
    label leads every other label by g − 2g/16 and every point by at least 4 − 2ds² − g/16, which is more;
    η₂ is derived from ¾g, and what is left pays for rounding. At most n − 2 labels and n points are
    rivals; with a quarter of the weight at most, they leave the right label's score above ¾ and all others
    below ¼. In fixed point every rival's exponential is rounded to 0.

    Width 2d + labels + 2·dim + 1, where dim is that of the code of 2n − 1 addresses, ⌈log(2n − 1)⌉ if it is
    binary; no feed-forward maps. The model is causal, so that it can read row by row, and nothing rests on
    that: without a mask a label has rivals behind it as well, but they are counted; padding is never a key.
    """
    code = choices.code(task.length)
    size = _coordinate(task)
    program = Program(task, causal=True)
    point = program.reals("point", tuple(range(task.dimension)), low=-size, high=size)
    label = program.reals("label", tuple(range(task.dimension, task.input_space.width)), low=0, high=1)
    address = program.position("address", Own(), code)
    before = program.position("before", Own(shift=-1), code)
    side = program.position("side", Remainder(divisor=2), Binary(count=2))
    square = size * size
    lead = 2 * _margin(task) * square
    points_lead = 2 * _SIDES - 2 * task.dimension * square - lead / 4
    with program.layer() as layer:
        fetched = layer.select(
            "fetched",
            match=[(before, address)],
            value=point,
            rivals=address_rivals(code),
            within=lead / 16 / (task.dimension * size),
        )
    with program.layer() as layer:
        found = layer.select(
            "found",
            match=[(point, fetched), (-_SIDES * side, side)],
            value=label,
            rivals=[Rival(gap=lead * 3 / 4, count=task.n - 2), Rival(gap=points_lead, count=task.n)],
            within=Fraction(1, 4),
        )
    program.answer_scores(found)
    built = build(program, choices.system)
    return witness_of(built, theorem="S-T7", family="transformer-2")


def _coordinate(task: NearestNeighbour) -> Fraction:
    """s: every coordinate of every point is s or −s, a float32 number."""
    return Fraction(torch.tensor(1 / math.sqrt(task.dimension), dtype=torch.float32).item())


def _margin(task: NearestNeighbour) -> int:
    """G: the margin in coordinates, at least ⌈γd/2⌉."""
    return math.ceil(Fraction(repr(float(task.margin))) * task.dimension / 2)
