"""DSS: its kernel against the published formula in complex numbers, both forms, counts, what it learns."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models import MODELS
from separatrix.models.dss import DSS, StateSpace, hippo_frequencies
from separatrix.models.kernels.choice import use_backend
from separatrix.models.population import Signature
from separatrix.models.stack import Stack
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.interface import Classes, Tokens
from separatrix.testing import ModelConformance
from separatrix.testing.model_conformance import Trial

WORDS = 5
LOOKUP = IndexLookup(n=7, alphabet=5)
SIGNATURE = Signature(inputs=Tokens(size=WORDS), targets=Classes(size=WORDS), length=16)


def small(*, seeds: tuple[int, ...] = (1, 2), state: int = 6, ffn: int = 0) -> DSS:
    config = DSS.Config(layers=2, width=8, state=state, ffn=ffn)
    return DSS(config, SIGNATURE, members=len(seeds)).initialise(seeds)


def words(members: int, batch: int, length: int, *, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(WORDS, (members, batch, length), generator=generator)


def stepped(model: Stack, inputs: Tensor) -> Tensor:
    """The outputs one position at a time."""
    state, outputs = model.start(inputs.shape[1]), []
    for token in inputs.unbind(2):
        output, state = model.step(token, state)
        outputs.append(output)
    return torch.stack(outputs, 2)


def check_both_forms(model: Stack, *, length: int) -> None:
    """Whole and step by step, in both precisions; asked at some positions only."""
    inputs = words(model.members, 3, length)
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-4)):
        model = model.to(dtype)
        whole = model(inputs)
        assert whole.dtype == dtype
        assert whole.std() > 0.01
        torch.testing.assert_close(stepped(model, inputs), whole, rtol=0, atol=tolerance)
        for labels in (1, 3):
            at = words(model.members, 3, labels, seed=1) * (length - 1) // (WORDS - 1)
            asked = whole.gather(2, at.unsqueeze(-1).expand(*at.shape, WORDS))
            torch.testing.assert_close(model(inputs, at), asked, rtol=0, atol=tolerance)


def check_under_autocast(model: Stack) -> None:
    """bfloat16 gives nearly the same outputs, and finite gradients for every parameter."""
    inputs = words(model.members, 4, 12)
    plain = model(inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = model(inputs)
    assert rough.dtype == torch.bfloat16
    assert F.cosine_similarity(rough.float().flatten(), plain.flatten(), dim=0) > 0.999
    rough.float().square().sum().backward()
    for values in model.parameters():
        assert values.grad is not None
        assert values.grad.isfinite().all()
        assert values.grad.abs().sum() > 0


def learned(model: Stack, *, steps: int) -> float:
    """The share of right answers to "which word came first?" after a short training."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    right = 0.0
    for step in range(steps):
        inputs = words(model.members, 32, 10, seed=step)
        output = model(inputs, torch.full((model.members, 32, 1), 9)).flatten(0, 2)
        targets = inputs[..., 0].flatten()
        right = (output.argmax(-1) == targets).double().mean().item()
        optimiser.zero_grad()
        F.cross_entropy(output, targets).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return right


class TestDSS(ModelConformance):
    def populations(self) -> Sequence[Trial]:
        return [
            (DSS, DSS.Config(layers=2, width=8, state=6, tied=True), LOOKUP),
            (DSS, DSS.Config(layers=1, width=8, state=3, ffn=12, embedding="frozen"), LOOKUP),
        ]


@pytest.mark.parametrize("length", [1, 2, 3, 10, 150])
def test_the_kernel_is_the_published_sum(length: int) -> None:
    mixer = small().double().blocks[0].mixer
    assert isinstance(mixer, StateSpace)
    real, imag = mixer.mixing.unbind(1)
    poles = torch.complex(-mixer.log_decay.exp(), mixer.frequency).unsqueeze(1)
    step = mixer.log_step.exp().unsqueeze(-1)
    weights = torch.complex(real, imag) * ((poles * step).exp() - 1) / poles
    places = torch.arange(length, dtype=torch.float64)
    kernel = (weights.unsqueeze(-1) * ((poles * step).unsqueeze(-1) * places).exp()).sum(2).real
    kernel[..., 0] += mixer.skip
    torch.testing.assert_close(mixer.kernel(length), kernel, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("ffn", [0, 12])
@pytest.mark.parametrize("length", [1, 11, 130])
def test_whole_and_step_by_step_agree(length: int, ffn: int) -> None:
    check_both_forms(small(ffn=ffn), length=length)


@pytest.mark.slow
def test_the_published_state_agrees_over_a_long_input() -> None:
    check_both_forms(small(state=64), length=220)


def test_the_reference_agrees() -> None:
    model, inputs = small().double(), words(2, 2, 20)
    for at in (None, inputs[..., :1]):
        expected = model(inputs, at)
        use_backend(model, "reference")
        torch.testing.assert_close(model(inputs, at), expected, rtol=0, atol=1e-12)
        use_backend(model, "auto")


def test_counts() -> None:
    size = small().size(100, 1)
    assert size.state_bits(100) == 2 * 2 * 8 * 6  # layers, parts of a complex number, channels, state
    block = 2 * 6 + 8 + 2 * 8 * 6 + 8 + 8 * 8 + 8 + 2 * 8
    assert size.parameters_without_embeddings == 2 * block + 2 * 8 + 8 * WORDS
    assert size.embedding_parameters == WORDS * 8


def test_under_autocast() -> None:
    check_under_autocast(small(ffn=12))


def test_frequencies_are_those_of_the_published_matrix() -> None:
    state = 8
    place = torch.arange(2 * state, dtype=torch.float64)
    hippo = -(((2 * place + 1).unsqueeze(1) * (2 * place + 1)).sqrt().tril(-1) + torch.diag(place + 1))
    root = (place + 0.5).sqrt()
    eigenvalues = torch.linalg.eigvals(hippo + root.unsqueeze(1) * root)
    torch.testing.assert_close(eigenvalues.real, torch.full((2 * state,), -0.5, dtype=torch.float64))
    positive = eigenvalues.imag[eigenvalues.imag > 0].sort(descending=True).values
    torch.testing.assert_close(hippo_frequencies(state), positive)


def test_initial_values() -> None:
    mixer = DSS(DSS.Config(layers=1, width=500), SIGNATURE, members=1).initialise([3]).blocks[0].mixer
    assert isinstance(mixer, StateSpace)
    step = mixer.log_step.exp()
    assert 1e-3 < step.min() < 1.1e-3
    assert 0.09 < step.max() < 1e-1
    assert abs(step.log().mean().item() + 4.6) < 0.2  # halfway between the two logarithms
    assert torch.allclose(mixer.log_decay.exp(), torch.tensor(0.5))
    assert torch.equal(mixer.frequency[0], hippo_frequencies(64).float())
    assert abs(mixer.mixing.std().item() - 1) < 0.05


@pytest.mark.slow
def test_it_learns_to_remember() -> None:
    assert learned(small(state=16), steps=120) > 0.95


def test_wrong_configurations_are_refused() -> None:
    assert MODELS.get("dss") is DSS
    with pytest.raises(InvalidInput, match="DSS needs a state of 1 to 4096 numbers a channel; got state=0"):
        DSS.Config(state=0)
    with pytest.raises(InvalidInput, match="DSS needs ffn of at least 0; got ffn=-1"):
        DSS.Config(ffn=-1)
