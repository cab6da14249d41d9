"""The LSTM against torch's own with the same weights, and through the conformance tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models import MODELS
from separatrix.models.kernels.choice import Backend, use_backend
from separatrix.models.lstm import LSTM, Cells
from separatrix.models.members import Linear
from separatrix.models.population import signature_of
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.q_sparse_averaging import QSparseAveraging
from separatrix.testing import ModelConformance
from separatrix.testing.model_conformance import Trial

LOOKUP = IndexLookup(n=7, alphabet=5)
AVERAGING = QSparseAveraging(n=5, q=2, d=3)


class TestLSTM(ModelConformance):
    def populations(self) -> Sequence[Trial]:
        config = LSTM.Config
        return [
            (LSTM, config(layers=1, width=8), LOOKUP),
            (LSTM, config(layers=3, width=5, embedding="frozen", tied=True), LOOKUP),
        ]


def population(*, layers: int = 2, width: int = 6, members: int = 3) -> LSTM:
    config = LSTM.Config(layers=layers, width=width)
    model = LSTM(config, signature_of(LOOKUP), members=members)
    return model.initialise(range(5, 5 + members)).double()


def tokens(members: int = 3, batch: int = 4) -> Tensor:
    return torch.stack([LOOKUP.sample(batch, seed=seed).inputs for seed in range(members)])


def layers_of(model: LSTM) -> list[Cells]:
    found = [block.mixer for block in model.blocks]
    assert all(isinstance(mixer, Cells) for mixer in found)
    return cast(list[Cells], found)


def slope(values: Tensor | None, member: int) -> Tensor:
    """One member's part of a parameter's gradient."""
    assert values is not None
    assert values.grad is not None
    return values.grad[member]


def bias_of(layer: Linear | None) -> Tensor:
    assert layer is not None
    assert layer.bias is not None
    return layer.bias


def torch_lstm(model: LSTM, member: int) -> torch.nn.LSTM:
    """torch's own, with one member's weights; the bias stands in the first of its two."""
    width, layers = model.config.width, model.config.layers
    plain = torch.nn.LSTM(width, width, layers, batch_first=True).double()
    with torch.no_grad():
        for place, cells in enumerate(layers_of(model)):
            getattr(plain, f"weight_ih_l{place}").copy_(cells.inward.weight[member].T)
            getattr(plain, f"weight_hh_l{place}").copy_(cells.recurrent[member].T)
            getattr(plain, f"bias_ih_l{place}").copy_(bias_of(cells.inward)[member])
            getattr(plain, f"bias_hh_l{place}").zero_()
    return plain


@pytest.mark.parametrize("backend", ["auto", "reference", "parallel"])
def test_it_is_torch_s_lstm(backend: Backend) -> None:
    model, inputs = population(), tokens()
    use_backend(model, backend)
    outputs = model(inputs)
    outer = torch.linspace(-1, 1, outputs.numel(), dtype=torch.float64).view(outputs.shape)
    outputs.backward(outer)
    for member in range(3):
        plain = torch_lstm(model, member)
        table, readout = model.reading.table, model.readout
        assert table is not None
        assert readout is not None
        seen, _ = plain(table[member].detach()[inputs[member]])
        answers = seen @ readout.weight[member].detach() + bias_of(readout)[member].detach()
        assert (outputs[member] - answers).abs().max() < 1e-12
        answers.backward(outer[member])
        for place, cells in enumerate(layers_of(model)):
            for mine, theirs in (
                (slope(cells.inward.weight, member).T, f"weight_ih_l{place}"),
                (slope(cells.recurrent, member).T, f"weight_hh_l{place}"),
                (slope(cells.inward.bias, member), f"bias_ih_l{place}"),
            ):
                expected = getattr(plain, theirs).grad
                assert (mine - expected).abs().max() < 1e-12 * max(1, float(expected.abs().max()))


def test_initial_weights_are_spread_as_torch_spreads_them() -> None:
    width = 48
    model = population(layers=1, width=width, members=2)
    theirs = float(
        torch.cat([each.detach().flatten() for each in torch.nn.LSTM(width, width).parameters()]).std()
    )
    bound = 1 / math.sqrt(width)
    for values in model.parameters():
        values.requires_grad_(False)
    cells = layers_of(model)[0]
    for weight in (cells.inward.weight, cells.recurrent):
        assert bound * 0.98 < float(weight.abs().max()) <= bound
        assert abs(float(weight.std()) / theirs - 1) < 0.05
    bias = bias_of(cells.inward)
    assert 1.2 * bound < float(bias.abs().max()) <= 2 * bound  # the sum of two
    assert abs(float(bias.std()) / (bound * math.sqrt(2 / 3)) - 1) < 0.1
    assert model.readout is not None
    assert float(model.readout.weight.abs().max()) <= bound
    assert model.reading.table is not None
    assert abs(float(model.reading.table.std()) - 1) < 0.1


def test_it_is_listed_and_counted() -> None:
    assert MODELS.get("lstm") is LSTM
    size = population(layers=2, width=6).size(100, 8)
    assert (size.layers, size.width, size.ffn_width, size.heads) == (2, 6, 0, 0)
    assert size.state_bits(100) == size.state_bits(1) == 2 * 2 * 6 * 8
    cells = 2 * (6 * 24 + 6 * 24 + 24)
    assert size.parameters_without_embeddings == cells + 6 * 5 + 5


def test_real_inputs_come_in_by_a_linear_map() -> None:
    signature = replace(signature_of(AVERAGING), ahead=False)
    model = LSTM(LSTM.Config(layers=2, width=6), signature, members=2).initialise((1, 2)).double()
    inputs = torch.stack([AVERAGING.sample(3, seed=seed).inputs for seed in range(2)]).double()
    with torch.no_grad():
        outputs, state = model(inputs), model.start(3)
        for place in range(inputs.shape[2]):
            found, state = model.step(inputs[:, :, place], state)
            assert (found - outputs[:, :, place]).abs().max() < 1e-12


def test_a_task_that_looks_ahead_is_refused() -> None:
    with pytest.raises(InvalidInput, match="lstm reads from left to right"):
        LSTM(LSTM.Config(width=6), signature_of(AVERAGING), members=1)
