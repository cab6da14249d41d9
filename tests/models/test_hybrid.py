"""The hybrid: recurrent blocks of its base, one Transformer block behind them, a state of both."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from separatrix.errors import InvalidInput, UnknownName
from separatrix.models import MODELS
from separatrix.models.attention import Attention
from separatrix.models.hybrid import Hybrid
from separatrix.models.lstm import Cells
from separatrix.models.population import signature_of
from separatrix.models.stack import Stack
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.testing import ModelConformance
from separatrix.testing.model_conformance import Trial

LOOKUP = IndexLookup(n=7, alphabet=5)
BASES = ("mamba", "lstm", "linear-transformer", "retnet", "dss", "linear-rnn")


class TestHybrid(ModelConformance):
    def populations(self) -> Sequence[Trial]:
        config = Hybrid.Config
        return [
            (Hybrid, config(base="lstm", layers=2, width=8, heads=2), LOOKUP),
            (
                Hybrid,
                config(base="lstm", layers=1, width=8, heads=1, ffn=6, embedding="frozen", tied=True),
                LOOKUP,
            ),
        ]


def hybrid(base: str, *, layers: int = 2, members: int = 2) -> Hybrid:
    config = Hybrid.Config(base=base, layers=layers, width=8, heads=2)
    return Hybrid(config, signature_of(LOOKUP), members=members).initialise(range(members)).double()


@pytest.mark.parametrize("base", BASES)
def test_every_base_reads_token_by_token(base: str) -> None:
    model = hybrid(base)
    inputs = torch.stack([LOOKUP.sample(3, seed=seed).inputs for seed in range(2)])
    with torch.no_grad():
        outputs, state = model(inputs), model.start(3)
        for place in range(inputs.shape[2]):
            found, state = model.step(inputs[:, :, place], state)
            assert (found - outputs[:, :, place]).abs().max() < 1e-9


@pytest.mark.parametrize("base", BASES)
def test_it_carries_what_its_base_carries_and_one_cache(base: str) -> None:
    model = hybrid(base)
    kind = MODELS.get(base)
    alone = kind(model.config.of_base(), signature_of(LOOKUP), members=2)
    assert isinstance(alone, Stack)
    parts, cache = model.state_parts(8)[:-1], model.state_parts(8)[-1]
    assert parts == alone.state_parts(8)
    assert (cache.fixed_bits, cache.bits_per_position) == (0, 2 * 8 * 8)


@pytest.mark.parametrize("base", BASES)
def test_recurrent_blocks_begin_as_in_the_base_alone(base: str) -> None:
    model = hybrid(base)
    alone = MODELS.get(base)(model.config.of_base(), signature_of(LOOKUP), members=2)
    mine = model.state_dict()
    weights = alone.initialise(range(2)).double().state_dict()
    shared = [name for name in weights if name.startswith(("blocks.", "reading."))]
    assert shared
    assert all(torch.equal(weights[name], mine[name]) for name in shared)


def test_one_transformer_block_stands_last() -> None:
    model = hybrid("lstm", layers=3)
    mixers = [block.mixer for block in model.blocks]
    assert [type(mixer) for mixer in mixers] == [Cells, Cells, Cells, Attention]
    last = mixers[-1]
    assert isinstance(last, Attention)
    assert last.rotary
    assert last.causal
    assert last.inward.bias is None


def test_it_is_listed_and_counted() -> None:
    assert MODELS.get("hybrid") is Hybrid
    size = hybrid("lstm", layers=3).size(50, 8)
    assert (size.layers, size.width, size.ffn_width, size.heads) == (4, 8, 24, 2)
    assert size.state_bits(50) == 8 * (3 * 2 * 8 + 50 * 2 * 8)
    cells, attention, gated, norms = 3 * (2 * 8 * 32 + 32), 4 * 8 * 8, 3 * 8 * 24, 3 * 8
    assert size.parameters_without_embeddings == cells + attention + gated + norms + 8 * 5
    assert size.embedding_parameters == LOOKUP.input_space.size * 8


@pytest.mark.parametrize("base", ["transformer", "llama", "hybrid"])
def test_a_base_whose_state_grows_is_refused(base: str) -> None:
    with pytest.raises(InvalidInput, match=f"does not grow with the input; got base={base}. Try base=mamba"):
        hybrid(base)


def test_what_is_no_base_is_refused() -> None:
    with pytest.raises(InvalidInput, match="stack of recurrent blocks, and third-order is none"):
        Hybrid.Config(base="third-order")
    with pytest.raises(UnknownName, match=r"There is no model 'lstn'\. Did you mean lstm"):
        Hybrid.Config(base="lstn")
    with pytest.raises(InvalidInput, match="names its base in text; got base=3"):
        Hybrid.Config(base=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"shares its width evenly .* Try width=8"):
        Hybrid.Config(base="lstm", width=9, heads=4)
    with pytest.raises(InvalidInput, match=r"turns the numbers of a head in pairs.* Try width=24"):
        Hybrid.Config(base="lstm", width=12, heads=4)
