"""A graph Transformer for the directed 3-cycle, as wide as the graph is large: L·H·m = 2N is enough.

Two layers of one head. In the first a vertex i attends to those it has an edge to, and their values are their
own rows: what it gets is above 0 at k iff there is a path i → j → k. The feed-forward map makes that a bit,
R(i)_k. In the second, vertex k attends to those it has an edge to again, and gets the mean of R(i) over them:
it is above 0 at coordinate k iff some k → i → j → k exists. So R-G's bound, L·H·m = Ω̃(N), is nearly tight,
and there is a model whose protocol must send as much as the bound on disjointness asks for.

An edge has the logit 2·gap, the dummy gap, no edge 0, with e^−gap below half a step: exps that lose become 0.
A mean of at least one in N entries is at least 1/N − step, and 2N of that is at least 1.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.explicit.codes import OneHot
from separatrix.models.explicit.graph_transformer import GraphHead, GraphLayer, GraphTransformer
from separatrix.models.explicit.inputs import RealInputs
from separatrix.models.explicit.layers import Readout
from separatrix.models.explicit.linear import Affine, FeedForward
from separatrix.models.explicit.positions import Own, Track
from separatrix.options import require
from separatrix.precision import FixedPoint, NumberSystem, name_of

__all__ = ["cycle3_model"]


def cycle3_model(n: int, system: NumberSystem) -> GraphTransformer:
    """The model for graphs of n vertices, in numbers fine and large enough for it."""
    require(3 <= n <= 1024, f"A graph with a 3-cycle has 3 to 1024 vertices here; got n={n}.")
    gap = _gap(n, system)
    reached, own, path = (slice(n * block, n * (block + 1)) for block in range(3))
    return GraphTransformer(
        inputs=_inputs(n),
        layers=(
            GraphLayer(
                heads=(_to_neighbours(_block(n, n, reached), gap),),
                output=_block(n, n, path).T.contiguous(),
                feed_forward=_paths_as_bits(n, own, path),
            ),
            GraphLayer(
                heads=(_to_neighbours(_block(n, n, path), gap),),
                output=_block(n, n, reached).T.contiguous(),
                feed_forward=_own_coordinate(n, reached, own),
            ),
        ),
        readout=Readout(
            map=Affine(matrix=_tensor([[0.0], [1.0]]), bias=_tensor([0.5, 0.0])), code=None, scores=True
        ),
        numbers=system,
    )


def _gap(n: int, system: NumberSystem) -> float:
    """ln of twice the steps in 1, and a little: e to its negative is less than half a step."""
    fine = system.one if isinstance(system, FixedPoint) else 1 << 40
    gap = math.ceil(math.log(2 * fine)) + 1.0
    if fine < 2 * n or system.largest < max(2 * gap, 2 * n):
        raise InvalidInput(
            f"The 3-cycle in graphs of {n} vertices needs steps of 1/{2 * n} and numbers up to "
            f"{max(2 * gap, 2 * n):g}; got {name_of(system)}. Try down:{n},2."
        )
    return gap


def _inputs(n: int) -> RealInputs:
    """Blocks of n coordinates: the vertex's row, its own unit vector, nothing yet."""
    track = Track(name="vertex", rule=Own(), code=OneHot(count=n))
    return RealInputs(
        matrix=_block(n, n, slice(0, n)).T.contiguous(),
        bias=torch.zeros(3 * n).double(),
        track_matrices={"vertex": _block(n, n, slice(n, 2 * n)).T.contiguous()},
        position_tracks=(track,),
        padded=False,
        own=torch.zeros(0, 3 * n).double(),
    )


def _to_neighbours(value: Float[Tensor, "n width"], gap: float) -> GraphHead:
    """The mean of a value over the vertices that one has an edge to; 0 if there are none."""
    nothing = torch.zeros(1, value.shape[1]).double()
    return GraphHead(query=nothing, key=nothing, value=value, edge=_tensor([0.0, 2 * gap, gap]))


def _paths_as_bits(n: int, own: slice, path: slice) -> FeedForward:
    """clip(2N·mean) in the last block, the unit vector kept, the row dropped."""
    scaled = 2.0 * n * _block(n, n, path)
    hidden = torch.cat([_block(n, n, own), scaled, scaled])
    low = torch.cat([torch.zeros(2 * n), -torch.ones(n)]).double()
    unit = torch.eye(n).double()
    zero = torch.zeros(n, n).double()
    out = torch.cat(
        [
            torch.zeros(n, 3 * n).double(),
            torch.cat([unit, zero, zero], dim=1),
            torch.cat([zero, unit, -unit], dim=1),
        ]
    )
    return FeedForward(
        maps=(Affine(matrix=hidden, bias=low), Affine(matrix=out, bias=torch.zeros(3 * n).double()))
    )


def _own_coordinate(n: int, reached: slice, own: slice) -> FeedForward:
    """Whether the mean is above 0 at the vertex's own coordinate."""
    scaled = 2.0 * n * _block(n, n, reached)
    first = Affine(
        matrix=torch.cat([scaled, scaled, _block(n, n, own)]),
        bias=torch.cat([torch.zeros(n), -torch.ones(n), torch.zeros(n)]).double(),
    )
    unit = torch.eye(n).double()
    both = Affine(matrix=torch.cat([unit, -unit, unit], dim=1), bias=-torch.ones(n).double())
    return FeedForward(
        maps=(first, both, Affine(matrix=torch.ones(1, n).double(), bias=torch.zeros(1).double()))
    )


def _block(rows: int, n: int, where: slice) -> Float[Tensor, "rows width"]:
    """The matrix that reads one of three blocks of n coordinates."""
    found = torch.zeros(rows, 3 * n).double()
    found[:, where] = torch.eye(rows).double()
    return found


def _tensor(values: object) -> Float[Tensor, "..."]:
    return torch.tensor(values, dtype=torch.float64)
