"""Two inputs in one row: which models keep them apart, and that Triton's kernels forget as others do.

That each is answered as in a row of its own is a conformance test, which every architecture takes.
"""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models import MODELS
from separatrix.models.kernels.choice import use_backend
from separatrix.models.population import Population, signature_of
from separatrix.models.seams import between, places_in
from separatrix.tasks import task
from tests.models.kernel_checks import interpreted

SEAMS = {"lstm": 1, "mamba": 3, "retnet": 0, "linear-transformer": 0}
CUTS = torch.tensor([[1, 9, 17], [16, 5, 12]])
"""Where the first inputs end, of two members' three rows."""
LENGTH = 18


def test_what_is_between_belongs_to_neither() -> None:
    begins = torch.tensor([[3, 5]])
    assert between(begins, 2, 6).long().squeeze(-1).tolist() == [[[0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0]]]
    assert not between(begins, 0, 6).any()
    assert places_in(begins, 6).tolist() == [[[0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 4, 0]]]


def population_of(name: str, *, n: int = LENGTH, width: int = 8) -> Population:
    kind = MODELS.get(name)
    return kind(kind.Config(layers=2, width=width), signature_of(task("index-lookup", n=n)), members=2)


@pytest.mark.parametrize("name", MODELS.names())
def test_who_needs_a_row_for_each_says_so(name: str) -> None:
    kind = MODELS.get(name)
    if kind.__module__.startswith("separatrix") and name not in SEAMS:
        assert kind.seam is Population.seam
    elif name in SEAMS:
        assert population_of(name).seam == SEAMS[name]


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", SEAMS)
def test_few_digits_keep_them_apart_too(name: str, kind: torch.dtype) -> None:
    """Numbers that end soon: what forgets in 32 bits must not overflow here."""
    model = population_of(name).initialise([0, 1])
    exact, rough = results(model, torch.float64), results(model, kind)
    assert (exact[0] - rough[0]).abs().max() <= 0.02 * float(exact[0].abs().max())
    if kind == torch.bfloat16:  # in float16 a Mamba's gradients overflow with one input a row as well
        for one, other in zip(exact[1:], rough[1:], strict=True):
            assert (one - other).abs().max() <= 0.1 * max(1.0, float(one.abs().max()))


def test_a_row_of_two_is_no_longer_than_two_inputs() -> None:
    model = population_of("linear-transformer")
    places = model.signature.length
    begins = torch.full((2, 3), places)
    row = torch.zeros(2, 3, 2 * places + 1, dtype=torch.int64)
    assert model(row[:, :, 1:], None, begins).shape[2] == 2 * places
    with pytest.raises(
        InvalidInput, match=f"a row of two inputs has up to {2 * places}; got one of {2 * places + 1}"
    ):
        model(row, None, begins)


def results(
    model: Population, kind: torch.dtype, *, cuts: Tensor = CUTS, n: int = LENGTH, device: str = "cpu"
) -> list[Tensor]:
    """Outputs at positions of both inputs, and the gradients of all weights."""
    assert model.seam is not None
    begins = (cuts + model.seam).to(device)
    length = n + model.seam + 1
    inputs = (torch.arange(2 * 3 * length, device=device).view(2, 3, length) * 7) % 11
    own = ~between(begins, model.seam, length)
    outputs = model.to(kind)(inputs, None, begins) * own
    weights = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(3)).to(device, kind)
    loss = (outputs * weights).sum()
    return [outputs.detach(), *torch.autograd.grad(loss, list(model.parameters()))]


def gaps_of_kernels() -> None:
    """Print how far Triton's kernels, run by its interpreter, are from float64, for each model."""
    found = {}
    for name in SEAMS:
        model = population_of(name).initialise([0, 1])
        use_backend(model, "triton")
        single = results(model, torch.float32)
        use_backend(model, "reference")
        double = results(model, torch.float64)
        assert all(each.isfinite().all() for each in single)
        pairs = zip(single, double, strict=True)
        found[name] = max(float((a - b).abs().max() / (b.abs().max() + 1e-9)) for a, b in pairs)
    print(json.dumps(found))


@pytest.mark.slow
def test_triton_kernels_forget_what_stood_before() -> None:
    found = json.loads(interpreted(gaps_of_kernels))
    assert found.keys() == SEAMS.keys()
    assert max(found.values()) < 1e-5, found
