"""Proof of R-qSA on the weights: every answer on every input is nearer than 1/(4q) to the mean of its set.

The input map must place value, address and dual vector in coordinates of their own. Then the logit of a key
is a multiple of its address's product with the dual vector, which is bounded for every set at once: by the
code's coherence, or by looking at every set where there are few. What follows is the weight of each member
and of all others, and the distance of a mean with these weights from the true one.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Final

import numpy as np
import torch
from flint import fmpq
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.certificates.enclosures import Box, Rounding
from separatrix.certificates.enclosures.boxes import as_ends
from separatrix.certificates.lemmas.nearness import Near, near_affine, zeros
from separatrix.certificates.lemmas.proving import claim, one_head
from separatrix.certificates.lemmas.set_attention import (
    Products,
    SetAttention,
    by_coherence,
    by_listing,
    require_exactly,
)
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.sparse_sets import SparseSetInputs
from separatrix.models.explicit.transformer import UnmaskedTransformer
from separatrix.tasks import Task
from separatrix.tasks.q_sparse_averaging import QSparseAveraging

__all__ = ["prove"]

_SOURCE: Final = "R-qSA"
_MOST_SETS_LISTED: Final = 1 << 15


def prove(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """For all values and all sets of at most q places at each of n positions."""
    if not isinstance(model, UnmaskedTransformer) or not isinstance(task, QSparseAveraging):
        raise NotProved("This proof is about unmasked Transformers that do sparse averaging.")
    inputs = model.inputs
    if not isinstance(inputs, SparseSetInputs) or len(model.layers) != 1 or model.readout.scores:
        raise NotProved("This proof is about one layer on values and sets, and vectors as answers.")
    layer, head = model.layers[0], one_head(model.layers[0])
    if layer.attention_residual or layer.feed_forward is not None or model.readout.code is not None:
        raise NotProved("This proof is about attention alone, without residual and feed-forward map.")
    value, address, wanted = _places(inputs, task)
    for matrix, used in ((head.query, wanted), (head.key, address), (head.value, value)):
        rest = matrix.clone()
        rest[:, used] = 0
        if bool((rest != 0).any()):
            raise NotProved("Queries read the dual vector, keys the address and values the value only.")
    products = _products(inputs, task)
    attention = SetAttention.enclosed(
        rounding,
        query=_square(head.query[:, wanted]),
        key=_square(head.key[:, address]),
        products=products,
        members=task.q,
        others=task.n,
    )
    distance = _distance(model, task, rounding, attention, head.value[:, value])
    return (
        claim(
            "product outside the set",
            f"no address outside a set has a larger product with its vector; by {products.how}",
            "<",
            Fraction(1),
            "of the product inside",
            Box.between([products.outside_low], [products.outside_high]),
            source=_SOURCE,
        ),
        claim(
            "distance from the mean",
            "on every input every answer is nearer than this to the mean of its set",
            "<",
            Fraction(1, 4 * task.q),
            "Euclidean distance",
            Box.between([0], [distance]),
            source=_SOURCE,
        ),
    )


def _places(inputs: SparseSetInputs, task: QSparseAveraging) -> tuple[slice, slice, slice]:
    """Where value, address and dual vector lie; the input map copies them there and does nothing else."""
    d, k, width = task.d, inputs.code.dim, inputs.width
    if (inputs.places, inputs.members, inputs.value.shape[1]) != (task.n, task.q, d) or width != d + 2 * k:
        raise NotProved("The input map is for rows of another kind.")
    if inputs.code.count < task.n + task.q:
        raise NotProved("There is an address for each position and for q elements more.")
    value, address, wanted = slice(0, d), slice(d, d + k), slice(d + k, width)
    for matrix, rows in ((inputs.value, value), (inputs.address, address), (inputs.wanted, wanted)):
        placed = torch.zeros(width, rows.stop - rows.start, dtype=torch.float64)
        placed[rows] = torch.eye(rows.stop - rows.start, dtype=torch.float64)
        require_exactly(matrix, placed, "values, addresses and sets in coordinates of their own")
    require_exactly(inputs.bias, torch.zeros(width, dtype=torch.float64), "an input map without a bias")
    own = torch.zeros(task.q, width, dtype=torch.float64)
    own[:, address] = inputs.code.rows(torch.arange(task.n, task.n + task.q))
    require_exactly(inputs.own, own, "q elements with the next addresses and the value 0")
    return value, address, wanted


def _square(matrix: Float[Tensor, "inner dim"]) -> Float[Tensor, "dim dim"]:
    if matrix.shape[0] != matrix.shape[1]:
        raise NotProved("The head is as wide as an address.")
    return matrix


def _products(inputs: SparseSetInputs, task: QSparseAveraging) -> Products:
    """By coherence if that is enough, else set by set if there are few."""
    found: Products | None = None
    try:
        found = by_coherence(inputs.code, task.q)
    except NotProved:
        found = None
    if found is not None and found.outside_high < 1:
        return found
    if sum(math.comb(task.n, size) for size in range(task.q + 1)) > _MOST_SETS_LISTED:
        raise NotProved(
            "The code's coherence does not settle it, and there are too many sets to look at each."
        )
    return by_listing(inputs.code, _all_sets(task))


def _all_sets(task: QSparseAveraging) -> Int[Tensor, "set q"]:
    """A missing member in column c is element n + c."""
    parts = []
    for size in range(task.q + 1):
        count = math.comb(task.n, size)
        chosen = torch.tensor(list(itertools.combinations(range(task.n), size)), dtype=torch.int64)
        filler = torch.arange(task.n + size, task.n + task.q).expand(count, -1)
        parts.append(torch.cat([chosen.reshape(count, size), filler], dim=1))
    return torch.cat(parts)


def _distance(
    model: UnmaskedTransformer,
    task: QSparseAveraging,
    rounding: Rounding,
    attention: SetAttention,
    copies: Float[Tensor, "out d"],
) -> fmpq:
    """The Euclidean distance of an answer from the mean: of the weighted mean, and of what each step adds.

    Values have norm at most 1, hence so has each coordinate. The error of the weights moves the mean by a
    vector of bounded norm; everything else is bounded coordinate by coordinate, and these bounds are added.
    """
    d, layer, readout = task.d, model.layers[0], model.readout
    same = torch.eye(d, dtype=torch.float64)
    one = as_ends(np.full(d, fmpq(1), dtype=object))
    if copies.shape != (d, d) or layer.output.shape != (d, d) or readout.map.matrix.shape != (d, d):
        raise NotProved("Values and answers have as many coordinates as the task says.")
    values = near_affine(rounding, Near(size=one, off=zeros(d)).encoded(rounding), copies, ideal=same)
    size = fmpq(1) + max(values.off)
    moved = attention.moved(share=fmpq(1, task.q), size=size, contributing=task.q)
    rounded = attention.rounded(rounding, size=size, contributing=task.q, nonzero=attention.keys)
    attended = Near(size=as_ends(one + moved), off=as_ends(values.off + rounded))
    attended = near_affine(rounding, attended, layer.output, ideal=same)
    answer = near_affine(
        rounding,
        attended,
        readout.map.matrix,
        readout.map.bias,
        ideal=same,
        ideal_bias=torch.zeros(d, dtype=torch.float64),
    )
    return moved + sum(answer.off, start=fmpq(0))
