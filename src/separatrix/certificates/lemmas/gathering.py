"""One uniform head and units of the feed-forward map as whole-number functions of the input.

Where all logits are 0, every position has the same weight w, and what a unit reads is w times a linear
function of what the positions hold. If embeddings and weights are whole numbers, so are the coefficients of
that function, and they are found exactly; what is rounded is w times whole numbers. Floats err by a part of
the sizes involved, so the error of a unit is again w times something; fixed point does not err at all,
because whole multiples of w are numbers of the system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
import torch
from flint import fmpq
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.enclosures.boxes import as_rational
from separatrix.certificates.enclosures.fixed_rounding import FixedRounding
from separatrix.certificates.enclosures.float_rounding import FloatRounding
from separatrix.certificates.lemmas.proving import one_head
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.inputs import TokenClass, TokenInputs
from separatrix.models.explicit.layers import Layer
from separatrix.models.explicit.linear import Affine
from separatrix.models.explicit.positions import Own

__all__ = ["Units", "gathered_units", "weight_of_one"]

Whole = NDArray[np.int64]
Sizes = NDArray[np.float64]

_EXACT: Final = 2.0**53
_LARGEST_WEIGHT: Final = 2.0**20
_OUTWARD: Final = 1 + 2.0**-30  # more than float64 can err in a sum of fewer than 2^20 sizes, relatively


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Units:
    """For every unit: w·(once + Σ over places of symbols[unit, place, digit]·digit ± error), before its ReLU.

    `symbols` are the coefficients of a token's code at the places' blocks, `once` is what every input adds,
    and `score` is the row behind the ReLU.
    """

    symbols: Whole
    once: Whole
    error: Sizes
    score: Whole


def gathered_units(
    rounding: Rounding, inputs: TokenInputs, layer: Layer, symbol: TokenClass, weights: Sequence[Box]
) -> Units:
    """Read off the tensors of a layer, where `symbol` are the tokens that write at their places; checked.

    `weights` are the weights of one position at every length there is.
    """
    _check_embedding(inputs, symbol)
    hidden, last = _maps(layer)
    head = one_head(layer)
    if bool((head.query != 0).any()) and bool((head.key != 0).any()):
        raise NotProved("The head's logits may differ from 0, so that its attention may not be uniform.")
    assert symbol.placed is not None
    if isinstance(rounding, FloatRounding) and any(_too_large(each) for each in (head.query, head.key)):
        raise NotProved("Queries or keys may overflow, and 0 times infinity is no logit of 0.")
    every = [
        symbol.placed.matrix,
        *symbol.tracks.values(),
        head.value,
        layer.output,
        hidden.matrix,
        last.matrix,
    ]
    for tensor in every:
        _require_whole(rounding, tensor)
    once = next(iter(symbol.tracks.values()))[:, 0]
    blocks = _blocks(symbol, inputs.width)
    _require_exact_values(rounding, head.value, once.abs() + blocks.abs().sum(1))
    value = _product(head.value, torch.cat([once[:, None], blocks], dim=1))
    chain = _product(hidden.matrix, _product(layer.output, value))
    if bool((chain.abs().sum(1) * _OUTWARD >= _EXACT).any()):
        raise NotProved("The weights are too large for sums over all places to be exact.")
    error = _errors(rounding, [value, layer.output, hidden.matrix], _terms(symbol, value), _spread(weights))
    dim = symbol.placed.matrix.shape[1]
    coefficients = chain.numpy().astype(np.int64)
    return Units(
        once=coefficients[:, 0],
        symbols=coefficients[:, 1:].reshape(len(coefficients), symbol.placed.count, dim),
        error=error,
        score=last.matrix[0].numpy().astype(np.int64),
    )


def weight_of_one(rounding: Rounding, length: int) -> Box:
    """The weight of one of `length` positions whose logits are all 0."""
    nothing = Box.exact([0])
    groups = [
        KeyGroup(logit=nothing, value=nothing),
        KeyGroup(logit=nothing, value=nothing, least=length - 1, most=length - 1, tied=True),
    ]
    return rounding.attend(groups).weights[:1]


def _check_embedding(inputs: TokenInputs, symbol: TokenClass) -> None:
    """Symbols write at their places, and at the first place a vector that does not depend on them."""
    if symbol.placed is None or symbol.code is None or len(symbol.tracks) != 1 or len(inputs.appended):
        raise NotProved("The symbols write at their places, know the first one, and nothing is appended.")
    for each in inputs.classes:
        silent = each is symbol or (not each.tracks and each.placed is None)
        if not silent or bool((each.bias != 0).any()) or bool((each.matrix != 0).any()):
            raise NotProved("Tokens hold something beside what they write at their places.")
    track = next(track for track in inputs.tracks if track.name in symbol.tracks)
    if track.rule != Own(shift=0) or track.code.spec() != {"kind": "one-hot", "count": 1}:
        raise NotProved("The position track of the symbols tells the first place from all others.")


def _maps(layer: Layer) -> tuple[Affine, Affine]:
    psi = layer.feed_forward
    if layer.attention_residual or layer.feed_forward_residual or psi is None:
        raise NotProved("The layer is attention and a feed-forward map, without residuals.")
    if psi.kind != "relu" or len(psi.maps) != 2 or psi.maps[1].out != 1:
        raise NotProved("The feed-forward map has one hidden layer and one output.")
    if any(bool((each.bias != 0).any()) for each in psi.maps):
        raise NotProved("The feed-forward map adds constants, which this proof does not follow.")
    return psi.maps[0], psi.maps[1]


def _require_whole(rounding: Rounding, tensor: Float[Tensor, "..."]) -> None:
    """Short whole numbers are numbers of every arithmetic that reaches so far."""
    if bool((tensor != tensor.round()).any()) or bool((tensor.abs() >= _LARGEST_WEIGHT).any()):
        raise NotProved("A weight is no whole number below 2^20.")
    if isinstance(rounding, FixedRounding) and int(tensor.abs().max()) > rounding.largest:
        raise NotProved("A weight is beyond the largest number of the arithmetic.")


def _too_large(tensor: Float[Tensor, "..."]) -> bool:
    """Embeddings are below 2^21 and few enough: products with these stay far from overflow in any width."""
    return bool((tensor.abs() >= 2.0**40).any())


def _require_exact_values(
    rounding: Rounding, value: Float[Tensor, "inner width"], held: Float[Tensor, "width"]
) -> None:
    """Before terms cancel: coordinates of at most these sizes are not clamped, and their sums not rounded."""
    read = (value != 0).any(0)
    if isinstance(rounding, FixedRounding) and bool(
        (held * read > float(as_rational(rounding.largest))).any()
    ):
        raise NotProved("A coordinate of an embedding is beyond the largest number of the arithmetic.")
    if isinstance(rounding, FloatRounding):
        reach = (value.abs() @ held) * _OUTWARD
        if bool((reach >= float(1 << rounding.form.digits)).any()):
            raise NotProved("Values of the head may be too large to be exact.")


def _blocks(symbol: TokenClass, width: int) -> Float[Tensor, "width entries"]:
    """The embedding as a matrix: column (place, digit) is what that digit of a token at that place adds."""
    placed = symbol.placed
    assert placed is not None
    rows, dim = placed.matrix.shape
    columns = torch.zeros(width, placed.count * dim, dtype=torch.float64)
    for row in range(rows):
        for digit in range(dim):
            columns[placed.start + row : placed.end : rows, digit::dim].fill_diagonal_(
                float(placed.matrix[row, digit])
            )
    return columns


def _product(left: Float[Tensor, "a b"], right: Float[Tensor, "b c"]) -> Float[Tensor, "a c"]:
    """The exact product of whole matrices; the sparser factor decides how long it takes."""
    sizes = float(left.abs().sum(1).max()) * float(right.abs().max())
    if sizes >= _EXACT:
        raise NotProved("The weights are too large for their products to be exact.")
    if int((left != 0).sum()) <= int((right != 0).sum()):
        product: Tensor = torch.sparse.mm(left.to_sparse(), right)
        return product
    turned: Tensor = torch.sparse.mm(right.T.to_sparse(), left.T)
    return turned.T


def _terms(symbol: TokenClass, value: Float[Tensor, "inner entries"]) -> NDArray[np.int64]:
    """At how many positions each coordinate of the head's values can differ from 0."""
    placed = symbol.placed
    assert placed is not None
    blocks = (value[:, 1:].reshape(len(value), placed.count, -1) != 0).any(2).sum(1)
    return (blocks + (value[:, 0] != 0)).numpy().astype(np.int64)


def _errors(
    rounding: Rounding,
    maps: list[Float[Tensor, "out inner"]],
    terms: NDArray[np.int64],
    spread: float,
) -> Sizes:
    """What rounding can add to each unit, in multiples of w.

    The values themselves are whole and short, and so exact. Products with weights, whose own spread counts as
    an error of each product, are summed by the head; two affine maps follow. No number is near underflow:
    all are multiples of the last digit of w. In fixed point the sums before the units stay within range, and
    a unit that is clamped keeps its sign.
    """
    value, output, hidden = (np.abs(each.numpy()) for each in maps)
    size = value.sum(1) * _OUTWARD
    error = size * ((1 + spread) * (1 + _growth(rounding, terms)) - 1) * _OUTWARD
    reach = max(float(size.max()), float((output @ (size + error)).max())) * 2
    if isinstance(rounding, FixedRounding) and reach > as_rational(rounding.largest):
        raise NotProved("What the head gathers may leave the range of the arithmetic.")
    if isinstance(rounding, FloatRounding) and reach >= float(1 << rounding.form.digits):
        raise NotProved("Values of the head may be too large to be exact.")
    for matrix in (output, hidden):
        growth = _growth(rounding, (matrix != 0).sum(1))
        before = size + error
        error = (matrix @ error + growth * (matrix @ before)) * _OUTWARD
        size = matrix @ size * _OUTWARD
    return np.asarray(error, dtype=np.float64)


def _spread(weights: Sequence[Box]) -> float:
    """How far the weights of one input's positions may be apart in floats, relatively."""
    ends = [weight.scalar for weight in weights]
    if any(low <= 0 for low, _ in ends):
        raise NotProved("The weight of one position may be rounded to 0.")
    return max(_above((high - low) / low) for low, high in ends)


def _growth(rounding: Rounding, terms: NDArray[np.int64]) -> Sizes:
    if not isinstance(rounding, FloatRounding):
        return np.zeros(len(terms))
    known = {int(count): _above(rounding.form.growth(int(count))) for count in np.unique(terms)}
    return np.array([known[int(count)] for count in terms])


def _above(value: fmpq) -> float:
    exact = as_rational(value)
    near = float(exact)
    return near if Fraction(near) >= exact else float(np.nextafter(near, np.inf))
