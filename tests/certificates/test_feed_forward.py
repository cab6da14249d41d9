"""The feed-forward map on boxes: it holds what is computed, and it knows that steps are flat."""

from __future__ import annotations

import pytest
import torch
from flint import fmpq
from torch import Tensor

from separatrix.certificates.enclosures import Box, rounding_of
from separatrix.certificates.lemmas.coded import Coded, matched_logits
from separatrix.certificates.lemmas.feed_forward import feed_forward
from separatrix.models.explicit.codes import Binary, ExtendedBCH, OneHot, SignCode
from separatrix.models.explicit.linear import Affine, FeedForward
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from tests.certificates.draws import seeds

SYSTEMS: tuple[NumberSystem, ...] = (Float64(), Float32(), FixedDown(n=16, k=2), FixedNearest(p=19))


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def exact(system: NumberSystem, values: Tensor) -> Box:
    return Box.exact(system.decode(system.encode(values)))


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("kind", ["relu", "reglu"])
@pytest.mark.parametrize("seed", seeds(quick=1, slow=4))
def test_what_is_computed_lies_inside(system: NumberSystem, residual: bool, kind: str, seed: int) -> None:
    def map_(out: int, inner: int, at: int) -> Affine:
        return Affine(
            matrix=random(out, inner, seed=10 * seed + at), bias=random(out, seed=10 * seed + at + 1)
        )

    if kind == "relu":
        psi = FeedForward(maps=(map_(6, 4, 1), map_(5, 6, 3), map_(4, 5, 5)))
    else:
        psi = FeedForward(maps=(map_(6, 4, 1), map_(6, 4, 3), map_(4, 6, 5)), kind="reglu")
    centre, radius = random(3, 4, seed=seed), random(3, 4, seed=seed + 50).abs() / 4
    ends = exact(system, centre - radius), exact(system, centre + radius)
    box = Box(ends[0].low, ends[1].high)
    image = feed_forward(rounding_of(system), psi, box, residual=residual)
    for draw in range(20):
        share = torch.rand(3, 4, generator=torch.Generator().manual_seed(draw), dtype=torch.float64)
        y = system.encode(centre - radius + 2 * radius * (share * 0.98 + 0.01))
        assert box.contains(Box.exact(system.decode(y)))
        found = psi(system, y)
        found = system.add(y, found) if residual else found
        assert image.contains(Box.exact(system.decode(found)))


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_a_step_is_flat_where_both_its_units_are_active(system: NumberSystem) -> None:
    psi = FeedForward(
        maps=(
            Affine(matrix=torch.ones(2, 1).double(), bias=torch.tensor([-0.25, -0.75]).double()),
            Affine(matrix=torch.tensor([[2.0, -2.0]]).double(), bias=torch.zeros(1).double()),
        )
    )
    image = feed_forward(rounding_of(system), psi, Box.between([[0.8125]], [[1.0]]), residual=False)
    assert image.contains(Box.exact([[1]]))
    assert image.width[0, 0] < fmpq(1, 100)


@pytest.mark.parametrize(
    "code", [Binary(count=16), Binary(count=11), ExtendedBCH.whole(length=16, designed=5)], ids=str
)
@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("seed", seeds(quick=1, slow=3))
def test_logits_of_matches_hold_every_pair(code: SignCode, system: NumberSystem, seed: int) -> None:
    """Diagonal forms with disturbances everywhere, against every pair of numbers."""
    inner, rounding = code.dim, rounding_of(system)
    noise = [random(inner, code.dim, seed=seed + i) / 64 for i in (0, 1)]
    q = torch.eye(inner, dtype=torch.float64) * 1.5 + noise[0]
    k = torch.eye(inner, dtype=torch.float64) + noise[1]
    bases = [random(1, inner, seed=seed + 2) / 64, random(3, inner, seed=seed + 3) / 64]
    rows = code.rows(torch.arange(code.count))
    parts = [Box.exact(system.decode(system.encode(each))).low for each in (q, k)]
    slack = fmpq(1, 50) if not isinstance(system, Float64) else fmpq(1, 10**6)
    query = Coded(base=exact(system, bases[0]).widened(slack), parts={"a": parts[0]})
    key = Coded(base=exact(system, bases[1]).widened(slack), parts={"b": parts[1]})
    matched = matched_logits(rounding, query, "a", key, "b", code)
    by_distance = dict(zip(sorted(code.distances()), matched.rivals, strict=True))
    queries = system.encode(bases[0] + rows @ q.T)
    for case in range(3):
        keys = system.encode(bases[1][case] + rows @ k.T)
        logits = system.decode(system.matmul(queries, keys.transpose(0, 1)))
        assert logits.shape == (code.count, code.count)
        for i in range(0, code.count, max(1, code.count // 5)):
            for j in range(i % 3, code.count, max(1, code.count // 16)):
                distance = int((rows[i] != rows[j]).sum())
                box = matched.target if i == j else by_distance[distance].logit
                assert box.contains(Box.exact([logits[i, j]]))


def test_one_hot_matches() -> None:
    code, system = OneHot(count=5), Float64()
    eye = Box.exact(torch.eye(5).double()).low
    query = Coded(base=Box.exact(torch.zeros(1, 5).double()), parts={"a": eye * fmpq(3)})
    key = Coded(base=Box.exact(torch.zeros(1, 5).double()), parts={"b": eye})
    matched = matched_logits(rounding_of(system), query, "a", key, "b", code)
    assert matched.target.contains(Box.exact([3]))
    assert matched.rivals[0].most == 4
    assert matched.rivals[0].logit.contains(Box.exact([0]))
    assert not matched.rivals[0].logit.contains(Box.exact([1]))
