"""R-qSA: sparse averaging by one unit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.evidence import Claim
from separatrix.models.explicit.codes import Binary, ExtendedBCH, RandomSign, SignCode
from separatrix.models.explicit.duals import DUAL_ERROR, cumulative_coherence, duals
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.layers import Layer, Readout
from separatrix.models.explicit.layout import Layout, Slot
from separatrix.models.explicit.linear import Affine
from separatrix.models.explicit.sparse_sets import SparseSetInputs
from separatrix.models.explicit.transformer import UnmaskedTransformer
from separatrix.precision import name_of
from separatrix.tasks.q_sparse_averaging import QSparseAveraging
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.language.operations import Rival
from separatrix.witnesses.language.scales import least_scale
from separatrix.witnesses.witness import Witness

__all__ = ["sparse_averaging"]

_LARGEST_PRODUCT: Final = Fraction(7, 8)
"""Addresses outside a set may have this product with its vector, where those inside have 1."""
_MOST_SETS_LISTED: Final = 1 << 15
_MOST_WORDS_COMPARED: Final = 1 << 12
_WIDEST: Final = 1 << 12
_SEEDS: Final = 4


def sparse_averaging(task: QSparseAveraging, choices: Choices) -> Witness:
    """One head: the query is a vector that has the product 1 with exactly the addresses of the set.

    Place j has the address u_j, signs in k dimensions, and a set S the vector w_S with ⟨w_S, u_j⟩ = k for all
    j in S: the combination of the set's own addresses that solves these q equations. Elsewhere the product is
    at most ρk. So with the logits α⟨w_S, u_j⟩/k the members of the set share the attention evenly, and all
    others together have at most (n/q)·e^(−α(1−ρ)) times their weight. Values have norm at most 1; an answer
    is off by at most twice the weight of the others; α is the least scale that keeps that below 1/(8q), half
    of what the task allows. Sets smaller than q are filled up with q elements of the model's own whose values
    are 0, because the target divides by q always.

    Why ρ < 1 for every set, by the size of the task:
    - q = 1: w_S is the address itself, and ρ the coherence of the code; binary addresses, ρ = 1 − 2/k.
    - few sets: random signs, k as small as a search finds, and every set is looked at.
    - otherwise: with μ₁(q) the most that |⟨u_j, u_i⟩|/k adds up to over q other addresses,
      ρ ≤ μ₁(q) / (1 − μ₁(q − 1)): for extended BCH codes from their weights, for random signs from all pairs.

    Stream width d + 2k, inner width k. The last way needs k of order q²·log n, and not q·log n as R's
    existence proof, which looks at all sets at once, does.
    """
    code, product = _addresses(task)
    if product >= 1:
        raise InvalidInput("Addresses must tell a set from its complement.")
    others = max(1, -(-task.n // task.q))
    scale = least_scale(
        [Rival(gap=1 - product - 2 * DUAL_ERROR, count=others)], Fraction(1, 16 * task.q), choices.system
    )
    if 2 * scale * task.q > choices.system.largest:
        raise InvalidInput(
            f"q-sparse-averaging with n={task.n} and q={task.q} needs logits of about {float(scale):.3g} and "
            f"numbers {2 * task.q} times as large, and {name_of(choices.system)} ends at "
            f"{float(choices.system.largest):.3g}; take more bits."
        )
    model = _model(task, code, scale, choices)
    return Witness(
        task=task,
        theorem="R-qSA",
        family="transformer-1",
        variant="",
        model=model,
        claims=(
            Claim(
                name="product outside the set",
                statement="no address outside a set has a larger product with its vector",
                relation="<",
                threshold=Fraction(1),
                unit="of the product inside",
                source="R-qSA",
            ),
            Claim(
                name="distance from the mean",
                statement="on every input every answer is nearer than this to the mean of its set",
                relation="<",
                threshold=Fraction(1, 4 * task.q),
                unit="Euclidean distance",
                source="R-qSA",
            ),
        ),
    )


def _model(task: QSparseAveraging, code: SignCode, scale: Fraction, choices: Choices) -> UnmaskedTransformer:
    d, k = task.d, code.dim
    width = d + 2 * k
    value, address, wanted = slice(0, d), slice(d, d + k), slice(d + k, width)

    def placed(rows: slice) -> Tensor:
        matrix = torch.zeros(width, rows.stop - rows.start, dtype=torch.float64)
        matrix[rows] = torch.eye(rows.stop - rows.start, dtype=torch.float64)
        return matrix

    own = torch.zeros(task.q, width, dtype=torch.float64)
    own[:, address] = code.rows(torch.arange(task.n, task.n + task.q))
    inputs = SparseSetInputs(
        code=code,
        places=task.n,
        value=placed(value),
        address=placed(address),
        wanted=placed(wanted),
        bias=torch.zeros(width, dtype=torch.float64),
        own=own,
        members=task.q,
    )
    head = Head(
        query=placed(wanted).T * float(scale / k),
        key=placed(address).T.clone(),
        value=placed(value).T.clone(),
    )
    layer = Layer(
        heads=(head,),
        output=torch.eye(d, dtype=torch.float64),
        attention_residual=False,
        feed_forward=None,
        feed_forward_residual=False,
    )
    readout = Readout(
        map=Affine(matrix=torch.eye(d, dtype=torch.float64), bias=torch.zeros(d, dtype=torch.float64)),
        code=None,
        scores=False,
    )
    named = (
        ("value", value, "the value"),
        ("address", address, f"{type(code).__name__} of the place"),
        ("wanted", wanted, "the vector of the set"),
    )
    layout = Layout(
        slots=tuple(
            Slot(name=name, start=rows.start, stop=rows.stop, since=0, note=note)
            for name, rows, note in named
        ),
        heads=(("the mean of value, where ⟨wanted, address⟩ is largest",),),
    )
    return UnmaskedTransformer(
        inputs=inputs, layers=(layer,), readout=readout, layout=layout, numbers=choices.system
    )


def _addresses(task: QSparseAveraging) -> tuple[SignCode, Fraction]:
    """The narrowest code for which some way of proof goes through, and its ρ."""
    count, q = task.n + task.q, task.q
    if q == 1:
        binary = Binary(count=count)
        return binary, binary.coherence
    for code in _candidates(count, few=_few_sets(task)):
        product = _by_coherence(code, q)
        if product > _LARGEST_PRODUCT and isinstance(code, RandomSign) and _few_sets(task):
            product = _by_listing(code, task)
        if product <= _LARGEST_PRODUCT:
            return code, product
    raise InvalidInput(
        f"No addresses of up to {_WIDEST} signs are known to tell all sets of {q} among {task.n} places "
        "apart; take a smaller q or n."
    )


def _candidates(count: int, *, few: bool) -> Iterator[SignCode]:
    """Codes by their width: two-sided BCH codes as far as they have the words, and random signs."""
    widths = {8 << step for step in range(6)}
    width = 8
    while width <= _WIDEST:
        widths.add(width)
        width += max(8, (width // (4 if few else 2)) // 8 * 8)
    for width in sorted(widths):
        if width <= 256 and width & (width - 1) == 0:
            yield from _bch(width, count)
        if few or count <= _MOST_WORDS_COMPARED:
            yield from (RandomSign(count=count, dim=width, seed=seed) for seed in range(_SEEDS if few else 1))


def _bch(length: int, count: int) -> Iterator[SignCode]:
    """The code of this length with the fewest words that are enough, whose distances are the largest."""
    for designed in range(length - 1, 0, -1):
        if ExtendedBCH(length=length, designed=designed, count=0, one_sided=False).words >= count:
            yield ExtendedBCH(length=length, designed=designed, count=count, one_sided=False)
            return


def _few_sets(task: QSparseAveraging) -> bool:
    return sum(math.comb(task.n, size) for size in range(task.q + 1)) <= _MOST_SETS_LISTED


def _by_coherence(code: SignCode, q: int) -> Fraction:
    beside = cumulative_coherence(code, q - 1)
    return cumulative_coherence(code, q) / (1 - beside) if beside < 1 else Fraction(2)


def _by_listing(code: SignCode, task: QSparseAveraging) -> Fraction:
    """The largest product outside, over all sets there are."""
    worst = Fraction(0)
    every = code.rows(torch.arange(code.count))
    try:
        for sets in _all_sets(task):
            products = duals(code, sets) @ every.T
            products.scatter_(1, sets, -float(code.dim))
            worst = max(worst, Fraction(float(products.max())) / code.dim)
    except InvalidInput:
        return Fraction(2)
    return worst


def _all_sets(task: QSparseAveraging) -> Iterator[Int[Tensor, "set q"]]:
    """Sets of each size, filled up as the input map does."""
    for size in range(task.q + 1):
        chosen = torch.tensor(list(itertools.combinations(range(task.n), size)), dtype=torch.int64)
        filler = torch.arange(task.n + size, task.n + task.q).expand(math.comb(task.n, size), -1)
        yield torch.cat([chosen.view(len(filler), size), filler], dim=1)
