"""RetNet: its layer against the paper's formulas, both forms, its counts and initial weights."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F

from separatrix.errors import InvalidInput
from separatrix.models import MODELS
from separatrix.models.members import initialise
from separatrix.models.retnet import Retention, RetNet
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
            (RetNet, RetNet.Config(layers=1, width=6, heads=3, expand=1), IndexLookup(n=7)),
            (RetNet, RetNet.Config(layers=2, width=8, heads=2, ffn=5), Dyck(n=70)),
        ]


def layer(members: int = 2, width: int = 8, heads: int = 2) -> Retention:
    mixer = Retention(members, width, heads)
    initialise(mixer, range(members))
    return mixer.double()


def test_the_layer_is_the_paper_s_formula() -> None:
    """Pairs of coordinates as complex numbers: the score is Re Σ q k̄ γ^(t−s) e^{iθ(t−s)}."""
    mixer, x = layer(), random(2, 1, 7, 8)
    found = mixer(x)
    for member in range(2):
        query, key, value, gate = torch.split(
            x[member, 0] @ mixer.inward.weight[member], [8, 8, 16, 16], dim=-1
        )
        heads = []
        for head, gamma in enumerate((1 - 2**-5, 1 - 2**-6)):
            q, k = (
                torch.complex(part[:, 4 * head : 4 * head + 2], part[:, 4 * head + 2 : 4 * head + 4])
                for part in (query, key)
            )
            v = value[:, 8 * head : 8 * head + 8]
            turns = torch.tensor([cmath.exp(1j), cmath.exp(0.01j)])
            reads = []
            for t in range(7):
                read = torch.zeros(8, dtype=torch.float64)
                for s in range(t + 1):
                    score = (q[t] * k[s].conj() * (gamma * turns) ** (t - s)).sum().real / math.sqrt(4)
                    read = read + score * v[s]
                reads.append((read - read.mean()) / (read.var(correction=0) + 1e-6).sqrt())
            heads.append(torch.stack(reads))
        meant = (F.silu(gate) * torch.cat(heads, dim=-1)) @ mixer.outward.weight[member]
        torch.testing.assert_close(found[member, 0], meant, rtol=0, atol=1e-6)


@pytest.mark.parametrize("labels", [1, 4, 5])
def test_few_labels_and_many(labels: int) -> None:
    """Four numbers a head: up to four labels are read without forming a state, five are not."""
    few_labels_and_many(layer(), labels, within=1e-10)


def test_every_way_on_offer_gives_the_same() -> None:
    config = RetNet.Config(layers=2, width=8, heads=2)
    same_by_every_way(RetNet(config, SIGNATURE, members=2), within=1e-10)


def test_it_works_under_autocast() -> None:
    near_under_autocast(RetNet(RetNet.Config(layers=2, width=16, heads=2), SIGNATURE, members=2))


def test_counts() -> None:
    config = RetNet.Config(layers=3, width=24, heads=4)
    size = RetNet(config, SIGNATURE, members=2).size(200, 32)
    assert [(part.name, part.fixed_bits) for part in size.state] == [("retention state", 3 * 4 * 6 * 12 * 32)]
    assert (size.ffn_width, size.heads, size.embedding_parameters) == (48, 4, 5 * 24)
    block = 12 * 24**2 + 48 + 24 + 4 * 24  # the paper's 12 · width², and biases and norms
    assert size.parameters_without_embeddings == 3 * block + 2 * 24 + 24 * 5


def test_initial_weights_are_those_of_the_paper_s_code() -> None:
    model = MODELS.get("retnet")(RetNet.Config(layers=1, width=64), SIGNATURE, members=1).initialise([3])
    values = {name: each.detach()[0] for name, each in model.named_parameters()}
    query, key, value, gate = torch.split(values["blocks.0.mixer.inward.weight"], [64, 64, 128, 128], dim=-1)
    gain = 2**-2.5
    bounds = [
        (query, gain * math.sqrt(6 / 128)),
        (key, gain * math.sqrt(6 / 128)),
        (value, gain * math.sqrt(6 / 192)),
        (gate, gain * math.sqrt(6 / 192)),
        (values["blocks.0.mixer.outward.weight"], math.sqrt(6 / 192)),
        (values["blocks.0.feed_forward.up.weight"], 1 / math.sqrt(64)),
        (values["blocks.0.feed_forward.down.weight"], 1 / math.sqrt(128)),
    ]
    for part, bound in bounds:
        assert 0.99 * bound < float(part.abs().max()) <= bound
        assert abs(float(part.std()) / (bound / math.sqrt(3)) - 1) < 0.05
    for name in ("reading.table", "readout.weight"):
        assert abs(float(values[name].std()) * 8 - 1) < 0.15


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"width": 10, "heads": 4}, "got width=10 and heads=4. Try width=8"),
        ({"width": 12, "heads": 4}, "a head needs an even width; got width=12 and heads=4. Try width=24"),
        ({"ffn": -1}, "ffn of at least 0; got ffn=-1"),
        ({"expand": 0}, "expand of 1 to 64; got expand=0"),
    ],
)
def test_bad_configs_are_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        made(RetNet.Config, wrong, name="retnet")
