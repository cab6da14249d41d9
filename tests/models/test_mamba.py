"""Mamba conforms, is its formula written out a second time, and begins as its paper says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models import MODELS
from separatrix.models.kernels.choice import use_backend
from separatrix.models.mamba import Mamba, SelectiveMixer
from separatrix.models.population import signature_of
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.q_sparse_averaging import QSparseAveraging
from separatrix.testing import ModelConformance
from separatrix.testing.model_conformance import Trial

LOOKUP = IndexLookup(n=11, alphabet=5)


class TestMamba(ModelConformance):
    def populations(self) -> Sequence[Trial]:
        return [
            (Mamba, Mamba.Config(layers=2, width=8, state=4), LOOKUP),
            (Mamba, Mamba.Config(layers=1, width=5, state=3, expand=1, conv=2), LOOKUP),
            (Mamba, Mamba.Config(layers=1, width=4, state=1, expand=3, conv=1, tied=True), LOOKUP),
        ]


def made(*, members: int = 1, dtype: torch.dtype = torch.float64) -> Mamba:
    config = Mamba.Config(layers=2, width=20, state=5)
    model = Mamba(config, signature_of(LOOKUP), members=members).initialise(list(range(members)))
    return model.to(dtype)


def mixed_plainly(mixer: SelectiveMixer, x: Tensor) -> Tensor:
    """One member, one example (pos, width), token by token and channel by channel."""
    inward, select, outward = (map_.weight[0] for map_ in (mixer.inward, mixer.select, mixer.outward))
    assert mixer.pace.bias is not None
    u_raw, gate = (x @ inward).chunk(2, dim=1)
    states = [[0.0] * mixer.state for _ in range(mixer.inner)]
    rows = []
    for t in range(len(x)):
        u = []
        for d in range(mixer.inner):
            total = mixer.shift[0, d].item()
            for back in range(min(mixer.conv, t + 1)):
                total += mixer.window[0, mixer.conv - 1 - back, d].item() * u_raw[t - back, d].item()
            u.append(total / (1 + math.exp(-total)))
        chosen = torch.tensor(u, dtype=x.dtype) @ select
        low, both = chosen[: mixer.rank], chosen[mixer.rank :]
        write, read = both.chunk(2)
        raw = (low @ mixer.pace.weight[0] + mixer.pace.bias[0]).tolist()
        row = []
        for d in range(mixer.inner):
            delta = math.log1p(math.exp(raw[d]))
            y = mixer.skip[0, d].item() * u[d]
            for n in range(mixer.state):
                decay = math.exp(-delta * math.exp(mixer.log_rate[0, d, n].item()))
                states[d][n] = decay * states[d][n] + delta * write[n].item() * u[d]
                y += read[n].item() * states[d][n]
            z = gate[t, d].item()
            row.append(y * z / (1 + math.exp(-z)))
        rows.append(torch.tensor(row, dtype=x.dtype) @ outward)
    return torch.stack(rows)


def test_the_mixer_is_the_papers_formula() -> None:
    mixer = made().blocks[0].mixer
    assert isinstance(mixer, SelectiveMixer)
    x = torch.randn(1, 1, 9, 20, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(mixer(x)[0, 0], mixed_plainly(mixer, x[0, 0]), atol=1e-12)


def test_a_task_whose_answers_look_ahead_is_refused() -> None:
    with pytest.raises(InvalidInput, match="depend on what stands behind them"):
        Mamba(Mamba.Config(), signature_of(QSparseAveraging(n=5, q=2, d=3)), members=1)


@pytest.mark.parametrize("backend", ["reference", "parallel"])
def test_backends_agree(backend: str) -> None:
    model, tokens = made(members=2), LOOKUP.sample(6, seed=3).inputs.view(2, 3, -1)
    expected = model(tokens)
    use_backend(model, backend)  # type: ignore[arg-type]
    assert all(block.mixer.backend == backend for block in model.blocks)
    assert torch.allclose(model(tokens), expected, atol=1e-12)


def test_initial_weights_are_those_of_the_paper() -> None:
    config = Mamba.Config(layers=3, width=64)
    model = Mamba(config, signature_of(LOOKUP), members=1).initialise([5])
    mixer = model.blocks[1].mixer
    assert isinstance(mixer, SelectiveMixer)
    assert (mixer.inner, mixer.rank, mixer.pace.weight.shape) == (128, 4, (1, 4, 128))
    expected = torch.arange(1, 17).expand(1, 128, 16)
    assert torch.allclose(-mixer._rate(), expected.float(), rtol=1e-6)
    assert bool((mixer.skip == 1).all())
    assert mixer.pace.bias is not None
    steps = F.softplus(mixer.pace.bias).log10()
    assert -3 <= steps.min() < -2.9 < -1.1 < steps.max() <= -1
    assert steps.mean().item() == pytest.approx(-2, abs=0.2)
    for values, bound in (
        (mixer.inward.weight, 64**-0.5),
        (mixer.window, 4**-0.5),
        (mixer.shift, 4**-0.5),
        (mixer.select.weight, 128**-0.5),
        (mixer.pace.weight, 4**-0.5),
        (mixer.outward.weight, (128 * 3) ** -0.5),
    ):
        assert 0.95 * bound < values.abs().max() <= bound
    assert model.reading.table is not None
    assert model.reading.table.std().item() == pytest.approx(0.02, rel=0.1)


def test_size_counts_window_and_state() -> None:
    config = Mamba.Config(layers=2, width=64)
    size = Mamba(config, signature_of(LOOKUP), members=1).size(100, 16)
    parts = {part.name: part.bits(100) for part in size.state}
    assert parts == {"convolution window": 2 * 3 * 128 * 16, "scan state": 2 * 128 * 16 * 16}
    assert (size.ffn_width, size.heads, size.layers) == (0, 0, 2)


def test_it_is_registered_with_its_defaults() -> None:
    config = MODELS.get("mamba").Config()
    assert isinstance(config, Mamba.Config)
    assert (config.layers, config.width, config.state, config.expand, config.conv) == (2, 64, 16, 2, 4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"state": 0}, "Mamba needs a state of 1 to 512 numbers; got state=0. Try 16."),
        ({"state": 513}, "Mamba needs a state of 1 to 512 numbers; got state=513. Try 16."),
        ({"expand": 0}, "Mamba needs expand of 1 to 64; got expand=0. Try 2."),
        ({"conv": 0}, "Mamba needs conv of 1 to 64; got conv=0. Try 4."),
        ({"conv": 1.5}, "Mamba needs a whole number for conv; got 1.5."),
    ],
)
def test_bad_configs_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Mamba.Config(**settings)
    assert str(caught.value) == message


@pytest.mark.slow
def test_it_learns_to_look_back() -> None:
    """Index lookup at a small length, trained a little: far above chance."""
    task = IndexLookup(n=4, alphabet=2)
    model = Mamba(Mamba.Config(layers=1, width=16, state=8), signature_of(task), members=1).initialise([0])
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(150):
        batch = task.sample(64, seed=1, start=64 * step)
        scores = model(batch.inputs.unsqueeze(0))[0][batch.mask]
        loss = F.cross_entropy(scores, batch.targets[batch.mask])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    batch = task.sample(512, seed=2)
    answers = model(batch.inputs.unsqueeze(0))[0].argmax(-1)
    right = (answers == batch.targets)[batch.mask].double().mean()
    assert right > 0.9
