"""Proofs of UP-M3 and of R-M3′ in a window, on the weights: attention gathers, the feed-forward map decides.

Either the heads fetch one number each, by address, or one head takes the mean over a window whose numbers lie
in different coordinates. In both cases what arrives is near known multiples of whole numbers: as near as the
weight of all other keys and the arithmetic allow. The decision on these is exact (see `triple_decision`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
import torch
from flint import fmpq
from jaxtyping import Float
from torch import Tensor

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.enclosures.boxes import as_ends
from separatrix.certificates.lemmas.nearness import (
    Near,
    exact,
    near_affine,
    near_dot,
    near_sum,
    whole,
    zeros,
)
from separatrix.certificates.lemmas.presence import share_claims
from separatrix.certificates.lemmas.proving import claim, heads_of, one_head
from separatrix.certificates.lemmas.set_attention import SetAttention, by_listing, require_exactly
from separatrix.certificates.lemmas.triple_decision import Decision, decided
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.codes import Code, Ladder, OneHot, SignCode
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.inputs import TokenInputs
from separatrix.models.explicit.layers import Layer
from separatrix.models.explicit.positions import Own
from separatrix.models.explicit.transformer import UnmaskedTransformer
from separatrix.models.explicit.windows import WindowInputs
from separatrix.tasks import Task
from separatrix.tasks.match3 import Match3

__all__ = ["prove_local", "prove_wide"]

_NUMBER: Final = 0  # the coordinate in which a position holds its own number


def prove_wide(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """UP-M3, for every row of n residues: the answer at each position is whether two complete it to 0."""
    model, task, layer = _checked(model, task, "full")
    inputs, n, modulus = model.inputs, task.n, task.residues
    if not isinstance(inputs, TokenInputs):
        raise NotProved("This proof is about rows of tokens.")
    code = _wide_inputs(inputs, task)
    one, address = 1, range(2, 2 + code.dim)
    place = range(address.stop, address.stop + n) if task.distinct else range(address.stop, address.stop)
    row = range(place.stop, place.stop + n)
    stream = _stream(rounding, inputs.width, whole_size=modulus - 1, ones=[one, *address, *place])
    found = [
        _fetched(rounding, head, stream, code, asked, one=one, address=address, most=modulus - 1)
        for asked, head in enumerate(heads_of(layer, n))
    ]
    joined = Near(
        size=as_ends(np.full(n, fmpq(modulus - 1), dtype=object)), off=as_ends(np.array(found, dtype=object))
    )
    behind = _joined(rounding, layer, stream, joined, row)
    assert layer.feed_forward is not None
    decision = decided(
        rounding,
        layer.feed_forward,
        behind,
        number=_NUMBER,
        slots=[(coordinate, 1.0) for coordinate in row],
        modulus=modulus,
        barred=list(place) if task.distinct else None,
    )
    return _claims(rounding, model, decision, "UP-M3")


def prove_local(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """R-M3′, for every row: the answer is whether two numbers within the window complete one to 0."""
    model, task, layer = _checked(model, task, "local")
    inputs, n, modulus = model.inputs, task.n, task.residues
    if not isinstance(inputs, WindowInputs):
        raise NotProved("This proof is about rows of numbers with their windows.")
    blocks = _window_inputs(inputs, task)
    window, code = inputs.window, inputs.code
    head = one_head(layer)
    for matrix, used in ((head.query, blocks["wanted"]), (head.key, blocks["address"])):
        rest = matrix.clone()
        rest[:, list(used)] = 0
        if bool((rest != 0).any()) or matrix.shape[0] != code.dim:
            raise NotProved("Queries read the window's vector and keys the address only.")
    windows = torch.arange(n).unsqueeze(1) + torch.arange(window)
    products = by_listing(code, windows)
    attention = SetAttention.enclosed(
        rounding,
        query=head.query[:, list(blocks["wanted"])],
        key=head.key[:, list(blocks["address"])],
        products=products,
        members=window,
        others=n + 2 * inputs.reach - window,
    )
    ones = [*blocks["address"], *blocks["phase"]]
    stream = _stream(rounding, inputs.width, whole_size=modulus - 1, ones=ones)
    entry = Near(size=as_ends(np.array([products.entry], dtype=object)), off=zeros(1)).encoded(rounding)
    for coordinate in blocks["held"]:
        stream.size[coordinate] = fmpq(2 * modulus)
    for coordinate in blocks["wanted"]:
        stream.size[coordinate], stream.off[coordinate] = entry.size[0], entry.off[0]
    if _whole_off(rounding, 2 * modulus):
        raise NotProved("The arithmetic does not hold numbers up to 2M exactly.")
    values = near_affine(rounding, stream, head.value, ideal=_placed(inputs.width, blocks["held"]).T)
    size = fmpq(2 * modulus) + max(values.off)
    moved = attention.moved(share=fmpq(1, window), size=size, contributing=1)
    rounded = attention.rounded(rounding, size=size, contributing=1, nonzero=attention.keys)
    # Members whose value should be 0 in a coordinate contribute what their own values are off by.
    beside = attention.member.scalar[1] * window * max(values.off)
    joined = Near(
        size=as_ends(np.full(window, fmpq(2 * modulus, window), dtype=object)),
        off=as_ends(np.full(window, moved + rounded + beside, dtype=object)),
    )
    behind = _joined(rounding, layer, stream, joined, blocks["seen"])
    assert layer.feed_forward is not None
    decision = decided(
        rounding,
        layer.feed_forward,
        behind,
        number=_NUMBER,
        slots=[(coordinate, float(window)) for coordinate in blocks["seen"]],
        modulus=modulus,
        barred=list(blocks["phase"]) if task.distinct else None,
    )
    outside = claim(
        "product outside the window",
        "no address outside a window has a larger product with its vector",
        "<",
        Fraction(1),
        "of the product inside",
        Box.between([products.outside_low], [products.outside_high]),
        source="R-M3′",
    )
    return (outside, *_claims(rounding, model, decision, "R-M3′"))


def _checked(model: ExplicitModel, task: Task, variant: str) -> tuple[UnmaskedTransformer, Match3, Layer]:
    if not isinstance(model, UnmaskedTransformer) or not isinstance(task, Match3) or task.variant != variant:
        raise NotProved(f"This proof is about unmasked Transformers that match triples, variant {variant}.")
    if len(model.layers) != 1 or model.readout.classes != 2:
        raise NotProved("This proof is about one layer and the answers no and yes.")
    layer = model.layers[0]
    if not layer.attention_residual or layer.feed_forward is None or layer.feed_forward_residual:
        raise NotProved("Attention has a residual, and a feed-forward map without one stands behind it.")
    return model, task, layer


def _claims(
    rounding: Rounding, model: UnmaskedTransformer, decision: Decision, source: str
) -> tuple[Claim, ...]:
    return (
        claim(
            "error of a sum of three",
            "every pair's sum with the asking number is computed with less than this error",
            "<",
            Fraction(1, 2),
            "of the distance between whole numbers",
            Box.between([0], [decision.off]),
            source=source,
        ),
        *share_claims(
            rounding,
            model.readout,
            absent=decision.absent,
            present=decision.present,
            what="match",
            source=source,
        ),
    )


def _stream(rounding: Rounding, width: int, *, whole_size: int, ones: Sequence[int]) -> Near:
    """Before the layer: a whole number, signs and flags, and zeros where the layer will write."""
    size, off = zeros(width), zeros(width)
    number = whole(rounding, whole_size)
    size[_NUMBER], off[_NUMBER] = number.size[0], number.off[0]
    unit = whole(rounding, 1)
    for coordinate in ones:
        size[coordinate], off[coordinate] = unit.size[0], unit.off[0]
    return Near(size=size, off=off)


def _whole_off(rounding: Rounding, most: int) -> bool:
    return bool(whole(rounding, most).off[0] != 0)


def _joined(rounding: Rounding, layer: Layer, stream: Near, joined: Near, block: range) -> Near:
    """The stream behind attention: what was there, and what the heads returned in coordinates of its own."""
    if tuple(layer.output.shape) != (len(stream.size), len(joined.size)):
        raise NotProved("The layer writes what its heads return.")
    written = near_affine(rounding, joined, layer.output, ideal=_placed(len(stream.size), block))
    return near_sum(rounding, stream, written)


def _fetched(
    rounding: Rounding,
    head: Head,
    stream: Near,
    code: SignCode,
    asked: int,
    *,
    one: int,
    address: range,
    most: int,
) -> fmpq:
    """How far what a head returns may lie from the number at the place whose address is its query."""
    if head.query.shape[0] != code.dim or head.value.shape[0] != 1:
        raise NotProved("A head is as wide as an address and returns one number.")
    word = code.rows(torch.tensor([asked]))[0]
    factor = head.query[0, one] * word[0]
    query, key, value = (torch.zeros_like(each) for each in (head.query, head.key, head.value))
    query[:, one] = factor * word
    key[:, list(address)] = torch.eye(code.dim, dtype=torch.float64)
    value[0, _NUMBER] = 1
    offered = near_affine(rounding, stream, head.key, ideal=key)
    slack = near_dot(rounding, near_affine(rounding, stream, head.query, ideal=query), offered).off.reshape(
        -1
    )[0]
    scale = exact(factor).reshape(-1)[0]

    def logit(distance: int) -> Box:
        middle = scale * (code.dim - 2 * distance)
        return Box.between([middle - slack], [middle + slack])

    nothing = Box.exact([0])
    groups = [KeyGroup(logit=logit(0), value=nothing)]
    groups += [
        KeyGroup(logit=logit(far), value=nothing, least=0, most=count)
        for far, count in sorted(code.distances().items())
    ]
    attended = rounding.attend(groups)
    rest = sum(attended.weights.high[1:], start=fmpq(0))
    attention = SetAttention(member=attended.weights[:1], outside=Box.between([0], [rest]), keys=code.count)
    held = near_affine(rounding, stream, head.value, ideal=value)
    size = fmpq(most) + held.off[0]
    moved = attention.moved(share=fmpq(1), size=size, contributing=1)
    rounded = attention.rounded(rounding, size=size, contributing=1, nonzero=code.count)
    return fmpq(moved + rounded + held.off[0])


def _placed(width: int, block: range) -> Float[Tensor, "width dim"]:
    matrix = torch.zeros(width, len(block), dtype=torch.float64)
    matrix[list(block)] = torch.eye(len(block), dtype=torch.float64)
    return matrix


def _wide_inputs(inputs: TokenInputs, task: Match3) -> SignCode:
    """Number, 1, address and perhaps place, each copied into coordinates of its own."""
    n, modulus = task.n, task.residues
    if len(inputs.classes) != 1 or len(inputs.appended) or inputs.pad is not None:
        raise NotProved("The tokens are residues, and nothing stands beside them.")
    kind = inputs.classes[0]
    if kind.placed is not None:
        raise NotProved("Residues write at their places, which this proof does not follow.")
    if (kind.first, kind.count) != (0, modulus) or not isinstance(kind.code, Ladder):
        raise NotProved("A residue is held as the number it is.")
    if (kind.code.count, kind.code.first) != (modulus, 0):
        raise NotProved("A residue is held as the number it is.")
    tracks = {track.name: track for track in inputs.tracks}
    names = ["address", "place"] if task.distinct else ["address"]
    if list(tracks) != names or list(kind.tracks) != names or any(t.rule != Own() for t in inputs.tracks):
        raise NotProved("Positions know their own place, by address, and as a flag if they must differ.")
    code: Code = tracks["address"].code
    if not isinstance(code, SignCode) or code.count < n:
        raise NotProved("Every place has an address of signs.")
    if task.distinct and (not isinstance(tracks["place"].code, OneHot) or tracks["place"].code.count != n):
        raise NotProved("A flag tells each place from the others.")
    width = 2 + code.dim + (2 * n if task.distinct else n)
    if inputs.width != width:
        raise NotProved("The stream holds the number, 1, the address and the row.")
    require_exactly(kind.matrix, _placed(width, range(1)), "numbers in the first coordinate")
    require_exactly(kind.bias, _placed(width, range(1, 2))[:, 0], "a 1 in the second coordinate")
    start = 2
    for name in names:
        block = range(start, start + tracks[name].code.dim)
        require_exactly(kind.tracks[name], _placed(width, block), "places in coordinates of their own")
        start = block.stop
    return code


def _window_inputs(inputs: WindowInputs, task: Match3) -> dict[str, range]:
    """The blocks of the stream, into which the input map copies what it knows and nothing else."""
    n, modulus, window = task.n, task.residues, inputs.window
    if inputs.places != n or inputs.reach != min(task.window, n - 1):
        raise NotProved("The input map is for rows of another length or another window.")
    dim = inputs.code.dim
    sizes = {"number": 1, "held": window, "address": dim, "wanted": dim}
    sizes |= {"phase": window if task.distinct else 0, "seen": window}
    blocks, start = {}, 0
    for name, size in sizes.items():
        blocks[name] = range(start, start + size)
        start += size
    if inputs.width != start:
        raise NotProved("The stream holds number, held number, address, window and what is seen.")
    width = inputs.width
    nothing = torch.zeros(width, window, dtype=torch.float64)
    what = "what a position knows in coordinates of its own"
    require_exactly(inputs.number, _placed(width, blocks["number"]), what)
    require_exactly(inputs.slots, _placed(width, blocks["held"]), what)
    require_exactly(inputs.phase, _placed(width, blocks["phase"]) if task.distinct else nothing, what)
    require_exactly(inputs.address, _placed(width, blocks["address"]), what)
    require_exactly(inputs.wanted, _placed(width, blocks["wanted"]), what)
    require_exactly(inputs.bias, torch.zeros(width, dtype=torch.float64), what)
    outside = torch.cat([torch.arange(inputs.reach), torch.arange(n + inputs.reach, n + 2 * inputs.reach)])
    own = torch.zeros(2 * inputs.reach, width, dtype=torch.float64)
    own[:, list(blocks["address"])] = inputs.code.rows(outside)
    own[torch.arange(len(own)), blocks["held"].start + outside % window] = -2.0 * modulus
    require_exactly(inputs.own, own, "elements beyond both ends that hold −2M")
    return blocks
