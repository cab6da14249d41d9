"""The trained linear RNN: against W's formula with a full matrix, both forms, its counts, what it learns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models import MODELS
from separatrix.models.explicit.linear import Affine, FeedForward
from separatrix.models.explicit.recurrence import RecurrentLayer
from separatrix.models.kernels.choice import use_backend
from separatrix.models.linear_rnn import LinearRecurrence, LinearRNN
from separatrix.testing import ModelConformance
from separatrix.testing.model_conformance import Trial
from tests.models.test_dss import (
    LOOKUP,
    SIGNATURE,
    WORDS,
    check_both_forms,
    check_under_autocast,
    learned,
    words,
)


def small(*, seeds: tuple[int, ...] = (1, 2), norm: bool = True, state: int = 6) -> LinearRNN:
    config = LinearRNN.Config(layers=2, width=8, state=state, ffn=12, norm=norm)
    return LinearRNN(config, SIGNATURE, members=len(seeds)).initialise(seeds)


class TestLinearRNN(ModelConformance):
    def populations(self) -> Sequence[Trial]:
        config = LinearRNN.Config
        return [
            (LinearRNN, config(layers=2, width=8, state=6, embedding="sinusoidal", tied=True), LOOKUP),
            (LinearRNN, config(layers=1, width=8, state=2, ffn=5, norm=False), LOOKUP),
        ]


def explicit_layer(model: LinearRNN, member: int, place: int) -> RecurrentLayer:
    """The block as W writes it, with a real matrix A that a random change of basis has filled."""
    block = model.blocks[place]
    mixer = block.mixer
    assert isinstance(mixer, LinearRecurrence)
    radius, angle = (-mixer.log_decay[member].exp()).exp(), mixer.angle[member]
    cosine, sine = torch.diag(radius * angle.cos()), torch.diag(radius * angle.sin())
    transition = torch.cat([torch.cat([cosine, -sine], 1), torch.cat([sine, cosine], 1)])
    feed = (1 - radius.square()).sqrt().repeat(2).unsqueeze(1) * mixer.inward[member].T
    basis = torch.randn(*transition.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    gated = block.feed_forward
    gate, value = gated.up.weight[member].T.chunk(2)
    gate_bias, value_bias = gated.up.bias[member].chunk(2)
    maps = (
        Affine(matrix=gate, bias=gate_bias),
        Affine(matrix=value, bias=value_bias),
        Affine(matrix=gated.down.weight[member].T, bias=gated.down.bias[member]),
    )
    return RecurrentLayer(
        transition=basis @ transition @ basis.inverse(),
        feed=basis @ feed,
        output=mixer.outward.weight[member].T @ basis.inverse(),
        feed_forward=FeedForward(maps=maps, kind="reglu"),
    )


def by_formula(layer: RecurrentLayer, stream: Tensor) -> Tensor:
    """X + A(X) + g(X + A(X)), position by position."""
    state, rows = stream.new_zeros(len(stream), layer.state), []
    assert layer.feed_forward is not None
    gate, value, last = layer.feed_forward.maps
    for x in stream.unbind(1):
        state = state @ layer.transition.T + x @ layer.feed.T
        y = x + state @ layer.output.T
        inner = (y @ gate.matrix.T + gate.bias).relu() * (y @ value.matrix.T + value.bias)
        rows.append(y + inner @ last.matrix.T + last.bias)
    return torch.stack(rows, 1)


@torch.no_grad()
def test_without_norms_it_is_the_layer_of_w_with_any_such_matrix() -> None:
    model, inputs = small(norm=False).double(), words(2, 3, 9)
    outputs = model(inputs)
    assert model.reading.table is not None
    assert model.readout is not None
    for member in range(2):
        stream = model.reading.table[member][inputs[member]]
        for place in range(2):
            stream = by_formula(explicit_layer(model, member, place), stream)
        torch.testing.assert_close(outputs[member], stream @ model.readout.weight[member], rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("length", [1, 11, 130])
def test_whole_and_step_by_step_agree(length: int, norm: bool) -> None:
    check_both_forms(small(norm=norm), length=length)


@pytest.mark.slow
def test_the_default_state_agrees_over_a_long_input() -> None:
    check_both_forms(small(state=64), length=220)


def test_the_reference_agrees() -> None:
    model, inputs = small().double(), words(2, 2, 70)
    expected = model(inputs)
    use_backend(model, "reference")
    torch.testing.assert_close(model(inputs), expected, rtol=0, atol=1e-12)


def test_counts() -> None:
    size = small().size(100, 1)
    assert size.state_bits(100) == 2 * 6
    assert (size.ffn_width, size.heads) == (12, 0)
    block = 6 + 2 * 8 * 6 + 8 * 24 + 24 + 12 * 8 + 8 + 2 * 8
    assert size.parameters_without_embeddings == 2 * block + 8 + 8 * WORDS
    assert LinearRNN(LinearRNN.Config(width=8), SIGNATURE, members=1).shape == (32, 0)


def test_under_autocast() -> None:
    check_under_autocast(small())


def test_initial_eigenvalues_lie_uniformly_on_the_ring() -> None:
    config = LinearRNN.Config(layers=1, width=4, state=2000)
    mixer = LinearRNN(config, SIGNATURE, members=1).initialise([3]).blocks[0].mixer
    assert isinstance(mixer, LinearRecurrence)
    decay, angle = mixer.exponent()
    squares = (2 * decay).exp()
    assert 0.9**2 < squares.min() < 0.9**2 + 0.001
    assert 0.999**2 - 0.001 < squares.max() < 0.999**2
    assert abs(squares.mean().item() - (0.9**2 + 0.999**2) / 2) < 0.01
    assert angle.min() > 0
    assert 6.2 < angle.max() < 2 * math.pi
    assert abs(angle.mean().item() - math.pi) < 0.2


@pytest.mark.slow
def test_it_learns_to_remember() -> None:
    assert learned(small(state=16), steps=120) > 0.95


def test_wrong_configurations_are_refused() -> None:
    assert MODELS.get("linear-rnn") is LinearRNN
    with pytest.raises(InvalidInput, match=r"pairs of numbers, so its state is even; got state=7\. Try 8"):
        LinearRNN.Config(state=7)
    with pytest.raises(InvalidInput, match=r"got state=-3\. Try 2"):
        LinearRNN.Config(state=-3)
    with pytest.raises(InvalidInput, match="LinearRNN needs ffn of at least 0; got ffn=-1"):
        LinearRNN.Config(ffn=-1)
