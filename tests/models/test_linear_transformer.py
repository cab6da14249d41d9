"""The linear Transformer: its layer against the paper's formula, both forms, counts, initial weights."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models import MODELS
from separatrix.models.kernels.choice import BACKENDS, use_backend
from separatrix.models.laws import normal
from separatrix.models.linear_transformer import LinearAttention, LinearTransformer
from separatrix.models.members import initialise
from separatrix.models.population import Signature
from separatrix.options import made
from separatrix.tasks.dyck import Dyck
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.interface import Classes, Tokens
from separatrix.testing import ModelConformance
from separatrix.testing.model_conformance import Trial

SIGNATURE = Signature(inputs=Tokens(size=5), targets=Classes(size=5), length=200)


class TestConformance(ModelConformance):
    def populations(self) -> Sequence[Trial]:
        return [
            (LinearTransformer, LinearTransformer.Config(layers=1, width=6, heads=3), IndexLookup(n=7)),
            (LinearTransformer, LinearTransformer.Config(layers=2, width=8, heads=2, ffn=5), Dyck(n=70)),
        ]


def layer(members: int = 2, width: int = 8, heads: int = 2) -> LinearAttention:
    mixer = LinearAttention(members, width, heads, law=normal(1), last=normal(1))
    initialise(mixer, range(members))
    return mixer.double()


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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
    mixer, x = layer(), random(2, 3, 70, 8)
    at = torch.randint(70, (2, 3, labels), generator=torch.Generator().manual_seed(labels))
    asked = mixer(x).gather(2, at.unsqueeze(-1).expand(2, 3, labels, 8))
    torch.testing.assert_close(mixer(x, at), asked, rtol=0, atol=1e-12)


def test_every_way_on_offer_gives_the_same() -> None:
    model = LinearTransformer(LinearTransformer.Config(layers=2, width=8, heads=2), SIGNATURE, members=2)
    model = model.initialise([1, 2]).double()
    tokens = torch.randint(5, (2, 3, 130), generator=torch.Generator().manual_seed(0))
    meant = model(tokens)
    for backend in BACKENDS:
        if backend in {"reference", "parallel"}:
            use_backend(model, backend)
            torch.testing.assert_close(model(tokens), meant, rtol=0, atol=1e-12)
    use_backend(model, "triton")
    with pytest.raises(InvalidInput, match="CUDA device"):
        model(tokens)


def test_it_works_under_autocast() -> None:
    model = LinearTransformer(LinearTransformer.Config(layers=2, width=16, heads=2), SIGNATURE, members=2)
    model = model.initialise([1, 2])
    tokens = torch.randint(5, (2, 3, 100), generator=torch.Generator().manual_seed(0))
    meant = model(tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = model(tokens)
        found.float().square().sum().backward()
        state = model.start(3)
        outputs = []
        for token in tokens.unbind(2):
            output, state = model.step(token, state)
            outputs.append(output)
    assert (found.float() - meant).abs().max() < 0.05 * meant.abs().max()
    assert (torch.stack(outputs, 2).float() - meant).abs().max() < 0.05 * meant.abs().max()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


def test_counts() -> None:
    config = LinearTransformer.Config(layers=3, width=24, heads=4)
    size = LinearTransformer(config, SIGNATURE, members=2).size(200, 32)
    assert [(part.name, part.fixed_bits) for part in size.state] == [
        ("attention state", 3 * 4 * 6 * 6 * 32),
        ("normaliser", 3 * 24 * 32),
    ]
    assert (size.ffn_width, size.heads, size.embedding_parameters) == (96, 4, (5 + 200) * 24)


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
    ],
)
def test_bad_configs_are_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        made(LinearTransformer.Config, wrong, name="linear-transformer")
