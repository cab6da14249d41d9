"""The linear Transformer: its layer against the paper's formula, both forms, counts, initial weights."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F

from separatrix.errors import InvalidInput
from separatrix.models import MODELS
from separatrix.models.laws import normal
from separatrix.models.linear_transformer import LinearAttention, LinearTransformer
from separatrix.models.members import initialise
from separatrix.options import made
from separatrix.tasks.dyck import Dyck
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.testing import ModelConformance
from separatrix.testing.model_conformance import Trial
from tests.models.decaying_checks import (
    SIGNATURE,
    few_labels_and_many,
    near_under_autocast,
    random,
    same_by_every_way,
)


class TestConformance(ModelConformance):
    def populations(self) -> Sequence[Trial]:
        return [
            (LinearTransformer, LinearTransformer.Config(layers=1, width=6, heads=3), IndexLookup(n=7)),
            (LinearTransformer, LinearTransformer.Config(layers=2, width=8, heads=2, ffn=5), Dyck(n=70)),
            (LinearTransformer, LinearTransformer.Config(width=8, heads=2, positions="none"), Dyck(n=20)),
        ]


def layer(members: int = 2, width: int = 8, heads: int = 2) -> LinearAttention:
    mixer = LinearAttention(members, width, heads, law=normal(1), last=normal(1))
    initialise(mixer, range(members))
    return mixer.double()


def test_the_layer_is_the_paper_s_formula() -> None:
    mixer, x = layer(), random(2, 3, 9, 8)
    found = mixer(x)
    for member in range(2):
        query, key, value = (x[member] @ mixer.inward.weight[member]).chunk(3, dim=-1)
        read = []
        for part in (slice(0, 4), slice(4, 8)):
            weights = (F.elu(query[..., part]) + 1) @ (F.elu(key[..., part]) + 1).transpose(-1, -2)
            weights = weights.tril()
            read.append(weights @ value[..., part] / weights.sum(-1, keepdim=True))
        meant = torch.cat(read, dim=-1) @ mixer.outward.weight[member]
        torch.testing.assert_close(found[member], meant, rtol=0, atol=1e-4)  # the paper adds no 1e-6


@pytest.mark.parametrize("labels", [1, 4, 5])
def test_few_labels_and_many(labels: int) -> None:
    """Four numbers a head: up to four labels are read without forming a state, five are not."""
    few_labels_and_many(layer(), labels, within=1e-12)


def test_every_way_on_offer_gives_the_same() -> None:
    config = LinearTransformer.Config(layers=2, width=8, heads=2)
    same_by_every_way(LinearTransformer(config, SIGNATURE, members=2), within=1e-12)


def test_it_works_under_autocast() -> None:
    near_under_autocast(
        LinearTransformer(LinearTransformer.Config(layers=2, width=16, heads=2), SIGNATURE, members=2)
    )


def test_counts() -> None:
    config = LinearTransformer.Config(layers=3, width=24, heads=4)
    size = LinearTransformer(config, SIGNATURE, members=2).size(200, 32)
    assert [(part.name, part.fixed_bits) for part in size.state] == [
        ("attention state", 3 * 4 * 6 * 6 * 32),
        ("normaliser", 3 * 24 * 32),
    ]
    assert (size.ffn_width, size.heads, size.embedding_parameters) == (96, 4, (5 + 200) * 24)


@pytest.mark.parametrize("positions", ["learned", "none"])
def test_without_positions_one_layer_reads_what_came_before_as_a_sum(positions: str) -> None:
    config = made(LinearTransformer.Config, {"layers": 1, "width": 8, "positions": positions}, name="it")
    model = LinearTransformer(config, SIGNATURE, members=1).initialise([0]).double()
    tokens = torch.tensor([0, 1, 2, 3, 1, 4])
    other = tokens[[3, 1, 4, 0, 2, 5]]
    found = model(torch.stack([tokens, other]).unsqueeze(0))[0, :, -1]
    assert torch.allclose(found[0], found[1], rtol=0, atol=1e-12) is (positions == "none")
    tables = {"learned": 5 + SIGNATURE.length, "none": 5}
    assert model.size(6, 32).embedding_parameters == 8 * tables[positions]
    assert model.longest == (SIGNATURE.length if positions == "learned" else None)


def test_initial_weights_are_those_of_gpt2() -> None:
    config = LinearTransformer.Config(layers=2, width=64)
    model = MODELS.get("linear-transformer")(config, SIGNATURE, members=1).initialise([3])
    for name, values in model.named_parameters():
        if name.endswith("bias"):
            assert not values.any()
        elif "norm" not in name and "second" not in name:
            deviation = 0.02 / 2 if name.endswith(("outward.weight", "down.weight")) else 0.02
            assert abs(float(values.detach().std()) / deviation - 1) < 0.15, name


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"width": 10, "heads": 4}, "got width=10 and heads=4. Try width=8"),
        ({"ffn": -1}, "ffn of at least 0; got ffn=-1"),
        ({"positions": "rotary"}, "knows positions as learned or none; got 'rotary'"),
    ],
)
def test_bad_configs_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        made(LinearTransformer.Config, wrong, name="linear-transformer")
