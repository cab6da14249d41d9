"""Proof of S-T7 on the weights, for labelled points: the query reads the label of the nearest one.

A coordinate of a point is one of two float32 numbers, so a point is a word of signs, and the computed product
of two points depends on where they differ. Layer 1 gives every label its point sign by sign, each in an
interval. For the query of layer 2 the nearest point differs in D coordinates, all other points by at least
the margin more; for each D that gives one interval for the nearest point's label, one for all other labels
and one for the points themselves. No input is left out: the proof asks nothing of a point but to be a vertex.
"""

from __future__ import annotations

import math
from fractions import Fraction

import torch

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.enclosures.boxes import Ends, as_ends
from separatrix.certificates.lemmas.coded import (
    VALUE,
    Coded,
    after_attention,
    answers,
    logits_by_distance,
    plain_logits,
)
from separatrix.certificates.lemmas.proving import claim, least_lead, one_head
from separatrix.certificates.lemmas.signwise import embedded, require_short
from separatrix.certificates.proofs.token_in_front import FETCHED, Fetching, Places, token_in_front
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.codes import Binary
from separatrix.models.explicit.inputs import RealInputs
from separatrix.models.explicit.positions import Remainder
from separatrix.models.explicit.transformer import Transformer
from separatrix.tasks import Task
from separatrix.tasks.nearest_neighbour import NearestNeighbour

__all__ = ["prove"]

_SOURCE = "S-T7"


def prove(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """For every input of every length: the answer at the query is the nearest point's label."""
    if not isinstance(model, Transformer) or not isinstance(task, NearestNeighbour):
        raise NotProved("This proof is about Transformers that find the nearest neighbour.")
    inputs = model.inputs
    if (
        not isinstance(inputs, RealInputs)
        or len(model.layers) != 2
        or len(inputs.appended)
        or not inputs.padded
    ):
        raise NotProved("This proof is about two layers on rows of numbers that end before the padding.")
    if inputs.matrix.shape[1] != task.dimension + task.labels:
        raise NotProved("The rows that the model reads are not those of the task.")
    places = Places.of(inputs.position_tracks, task.length, others=[Remainder(divisor=2)])
    points, labels = _points(rounding, inputs, places, task), _labels(rounding, inputs, places, task)
    front = token_in_front(
        rounding,
        model.layers[0],
        places,
        in_front=points,
        behind=labels,
        dim=task.dimension,
        most=1 if model.causal else task.length,
    )
    found, weights = _second_layer(rounding, model, task, front)
    scores = answers(rounding, model.readout, found)
    if scores.shape[1] != task.labels:
        raise NotProved("The readout scores the labels of the task.")
    return (
        claim(
            "weight on the point in front",
            "on every input each label puts at least this weight on the point in front of it, in layer 1",
            ">",
            Fraction(1, 2),
            "of the attention",
            front.weight,
            source=_SOURCE,
        ),
        claim(
            "weight on the nearest point's label",
            "on every input the query puts at least this weight on the nearest point's label, in layer 2",
            ">",
            Fraction(1, 2),
            "of the attention",
            weights,
            source=_SOURCE,
        ),
        claim(
            "lead of the right label",
            "on every input the right label's score exceeds every other's",
            ">",
            Fraction(0),
            "score",
            least_lead(scores, range(task.labels)),
            source=_SOURCE,
        ),
    )


def _second_layer(
    rounding: Rounding, model: Transformer, task: NearestNeighbour, front: Fetching
) -> tuple[Box, Box]:
    """The stream behind layer 2 at the query, by the nearest point's label; and that label's weight."""
    layer, n, points, labels = model.layers[1], task.n, front.again, front.behind
    head = one_head(layer)
    query = points.image(rounding, head.query)
    by_distance = logits_by_distance(
        rounding, query, VALUE, labels.image(rounding, head.key), FETCHED, task.dimension
    )
    of_points = [
        plain_logits(rounding, query, each.image(rounding, head.key)) for each in (points, front.start)
    ]
    values = labels.image(rounding, head.value).range()
    cases, width = values.shape
    others = Box.concatenate([values.hull(0)] * cases)
    held = [each.image(rounding, head.value).range().hull(0) for each in (points, front.start)]
    nothing = Box.concatenate([Box.union(*held)] * cases)
    kinds, where = _different(Box.stack([values.reshape(-1), others, nothing]))
    outputs, weights = [], []
    for distance, target in enumerate(by_distance):
        groups = [KeyGroup(logit=target, value=kinds[0])]
        further = by_distance[distance + _margin(task) :]
        if further and n > 2:
            logit = Box.union(*(each.reshape(1) for each in further))
            groups.append(KeyGroup(logit=logit, value=kinds[1], least=0, most=n - 2))
        groups.append(KeyGroup(logit=of_points[0], value=kinds[2], most=n - 1))
        groups.append(KeyGroup(logit=of_points[1], value=kinds[2]))
        attended = rounding.attend(groups)
        outputs.append(attended.output)
        weights.append(attended.weights[:1])
    joined = Box.union(*outputs)[where].reshape(cases, width)
    stream = Box.concatenate([points.range().hull(0).reshape(1, -1)] * cases)
    return after_attention(rounding, layer, joined, stream), Box.concatenate(weights)


def _different(columns: Box) -> tuple[Box, list[int]]:
    """The columns that differ from all before them, and which of these each column is."""
    order: dict[tuple[object, ...], int] = {}
    where = [
        order.setdefault((*columns.low[:, place], *columns.high[:, place]), len(order))
        for place in range(columns.shape[1])
    ]
    firsts = [where.index(kind) for kind in range(len(order))]
    return columns[:, firsts], where


def _points(rounding: Rounding, inputs: RealInputs, places: Places, task: NearestNeighbour) -> Coded:
    """Rows at even places: the word is the signs of the coordinates, whose size is one float32 number."""
    size = Box.exact(torch.tensor(1 / math.sqrt(task.dimension), dtype=torch.float32)).low.item()
    word = as_ends(_exact(inputs.matrix[:, : task.dimension]) * size)
    base = _exact(inputs.bias[None, :]) - _side(inputs)
    return embedded(rounding, as_ends(base), {VALUE: word, **_addresses(inputs, places)})


def _labels(rounding: Rounding, inputs: RealInputs, places: Places, task: NearestNeighbour) -> Coded:
    """Rows at odd places, one case for each label."""
    base = _exact(inputs.bias[None, :]) + _side(inputs) + _exact(inputs.matrix[:, task.dimension :].T)
    return embedded(rounding, as_ends(base), _addresses(inputs, places))


def _addresses(inputs: RealInputs, places: Places) -> dict[str, Ends]:
    require_short([inputs.matrix, inputs.bias, *inputs.track_matrices.values()])
    return {name: _exact(inputs.track_matrices[name]) for name in (places.own, places.before)}


def _side(inputs: RealInputs) -> Ends:
    """What the parity of a place adds at labels, and takes off at points."""
    track = next(each for each in inputs.position_tracks if each.rule == Remainder(divisor=2))
    if track.code != Binary(count=2):
        raise NotProved("The parity of a place is one sign.")
    return _exact(inputs.track_matrices[track.name]).reshape(1, -1)


def _margin(task: NearestNeighbour) -> int:
    """In how many coordinates more than the nearest point every other one differs from the query."""
    return math.ceil(Fraction(repr(float(task.margin))) * task.dimension / 2)


def _exact(tensor: torch.Tensor) -> Ends:
    return Box.exact(tensor).low
