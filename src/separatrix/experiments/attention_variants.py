"""Other attention under the same weights: a witness whose heads turn logits into shares in another way.

    softmax         e to the power of the logit, in proportion
    sparsemax       the nearest shares to the logits themselves (Martins and Astudillo, 2016)
    average-hard    the largest logits, evenly
    leftmost        the first of the largest alone
    last            the last of the largest alone
    linear          φ(q)·φ(k) with φ = 1 + elu, in proportion (Katharopoulos et al., 2020)

Everything is computed in float64. Logits that a proof makes equal can differ in their last bits, so those
within 1e-9 of the largest, relative to its size, count as largest too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.heads import Head, HeadAround
from separatrix.models.explicit.layers import Layer
from separatrix.models.explicit.linear import affine
from separatrix.models.explicit.third_order import ThirdOrderHead
from separatrix.models.explicit.transformer import Transformer
from separatrix.models.other_attention import sparsemax
from separatrix.precision import Numbers, NumberSystem

__all__ = ["VARIANTS", "with_attention"]

_TIE: Final = 1e-9
_TINY: Final = 1e-300
"""Where every φ(q)·φ(k) vanishes there is nothing to share, and nothing is read."""

Shares = Callable[
    [Float[Tensor, "*batch query key"], Bool[Tensor, "*batch query key"]], Float[Tensor, "*batch query key"]
]


def _softmax(
    logits: Float[Tensor, "*batch query key"], mask: Bool[Tensor, "*batch query key"]
) -> Float[Tensor, "*batch query key"]:
    return logits.masked_fill(~mask, -torch.inf).softmax(-1)


def _sparsemax(
    logits: Float[Tensor, "*batch query key"], mask: Bool[Tensor, "*batch query key"]
) -> Float[Tensor, "*batch query key"]:
    return sparsemax(logits.masked_fill(~mask, -torch.inf))


def _largest(
    logits: Float[Tensor, "*batch query key"], mask: Bool[Tensor, "*batch query key"]
) -> Bool[Tensor, "*batch query key"]:
    hidden = logits.masked_fill(~mask, -torch.inf)
    top = hidden.amax(-1, keepdim=True)
    return hidden >= top - _TIE * top.abs().clamp_min(1.0)


def _average_hard(
    logits: Float[Tensor, "*batch query key"], mask: Bool[Tensor, "*batch query key"]
) -> Float[Tensor, "*batch query key"]:
    chosen = _largest(logits, mask).to(logits.dtype)
    return chosen / chosen.sum(-1, keepdim=True)


def _leftmost(
    logits: Float[Tensor, "*batch query key"], mask: Bool[Tensor, "*batch query key"]
) -> Float[Tensor, "*batch query key"]:
    chosen = _largest(logits, mask)
    return (chosen & (chosen.cumsum(-1) == 1)).to(logits.dtype)


def _last(
    logits: Float[Tensor, "*batch query key"], mask: Bool[Tensor, "*batch query key"]
) -> Float[Tensor, "*batch query key"]:
    return _leftmost(logits.flip(-1), mask.flip(-1)).flip(-1)


_FROM_LOGITS: Final[Mapping[str, Shares]] = MappingProxyType(
    {
        "softmax": _softmax,
        "sparsemax": _sparsemax,
        "average-hard": _average_hard,
        "leftmost": _leftmost,
        "last": _last,
    }
)
VARIANTS: Final = (*_FROM_LOGITS, "linear")
"""Every way, softmax first."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Otherwise(HeadAround):
    """A head with the same matrices and other shares."""

    head: Head | ThirdOrderHead
    variant: str

    def attend(
        self,
        system: NumberSystem,
        stream: Numbers,
        kept: tuple[Numbers, ...],
        mask: Bool[Tensor, "batch query key"],
    ) -> Numbers:
        """The mean of the values under the other shares."""
        query = system.decode_float64(affine(system, stream, self.head.query))
        parts = [system.decode_float64(part) for part in kept]
        if isinstance(self.head, ThirdOrderHead):
            keys, values = _pairs(parts[0], parts[1]), _pairs(parts[2], parts[3])
            mask = (mask[..., :, None] & mask[..., None, :]).flatten(-2)
        else:
            keys, values = parts
        if self.variant == "linear":
            raw = ((1 + F.elu(query)) @ (1 + F.elu(keys)).mT).masked_fill(~mask, 0.0)
            shares = raw / raw.sum(-1, keepdim=True).clamp_min(_TINY)
        else:
            shares = _FROM_LOGITS[self.variant](query @ keys.mT, mask)
        return system.encode(shares @ values)


def _pairs(
    first: Float[Tensor, "batch pos part"], second: Float[Tensor, "batch pos part"]
) -> Float[Tensor, "batch pair part"]:
    return (first[:, :, None, :] * second[:, None, :, :]).flatten(1, 2)


def with_attention(model: ExplicitModel, variant: str) -> ExplicitModel:
    """The same Transformer in float64, with other attention in every layer."""
    assert isinstance(model, Transformer), "a model that is no Transformer has other layers as well"
    return replace(model, layers=tuple(_changed(layer, variant) for layer in model.layers))


def _changed(layer: Layer, variant: str) -> Layer:
    heads = []
    for head in layer.heads:
        assert isinstance(head, Head | ThirdOrderHead)
        heads.append(_Otherwise(head=head, variant=variant))
    return replace(layer, heads=tuple(heads))
