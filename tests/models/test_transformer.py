"""Explicit Transformers against the formulas written out naively, in every layer form."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.models.explicit.codes import Binary, Digits
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.inputs import TokenClass, TokenInputs
from separatrix.models.explicit.layers import Layer, Readout
from separatrix.models.explicit.linear import Affine, FeedForward
from separatrix.models.explicit.positions import Across, Listed, Own, Remainder, Track
from separatrix.models.explicit.transformer import CausalTransformer, UnmaskedTransformer, transformer_from
from separatrix.precision import FixedNearest, Float32

WIDTH, VOCABULARY, PAD = 5, 6, 5


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inputs(*, own: int = 0) -> TokenInputs:
    code, places = Digits(count=5), Binary(count=16)
    kind = TokenClass(
        name="all",
        first=0,
        count=5,
        code=code,
        matrix=random(WIDTH, code.dim, seed=1),
        bias=random(WIDTH, seed=2),
        tracks={"place": random(WIDTH, places.dim, seed=3)},
    )
    tracks = (Track(name="place", rule=Own(), code=places),)
    return TokenInputs(classes=(kind,), position_tracks=tracks, pad=PAD, own=random(own, WIDTH, seed=4))


def layer(seed: int, *, heads: int, residual: bool, psi: str | None) -> Layer:
    def map_(out: int, inner: int, at: int) -> Affine:
        return Affine(matrix=random(out, inner, seed=seed + at), bias=random(out, seed=seed + at + 1))

    feed_forward = None
    if psi == "relu":
        feed_forward = FeedForward(maps=(map_(7, WIDTH, 10), map_(WIDTH, 7, 12)))
    if psi == "reglu":
        maps = (map_(7, WIDTH, 10), map_(7, WIDTH, 12), map_(WIDTH, 7, 14))
        feed_forward = FeedForward(maps=maps, kind="reglu")
    return Layer(
        heads=tuple(
            Head(
                query=random(3, WIDTH, seed=seed + 20 + h),
                key=random(3, WIDTH, seed=seed + 30 + h),
                value=random(2, WIDTH, seed=seed + 40 + h),
            )
            for h in range(heads)
        ),
        output=random(WIDTH, 2 * heads, seed=seed + 50),
        attention_residual=residual,
        feed_forward=feed_forward,
        feed_forward_residual=residual and psi is not None,
    )


READOUT = Readout(map=Affine(matrix=random(3, WIDTH, seed=7), bias=random(3, seed=8)), code=None, scores=True)


def naive(model: UnmaskedTransformer | CausalTransformer, tokens: list[int]) -> Tensor:
    """One input, position by position, straight from the formulas."""
    kind = model.inputs.classes[0]  # type: ignore[attr-defined]
    stream = []
    for place, token in enumerate(tokens):
        digits = torch.tensor([float(token >> b & 1) for b in range(3)], dtype=torch.float64)
        signs = torch.tensor([2.0 * (place >> b & 1) - 1 for b in range(4)], dtype=torch.float64)
        ordered = Digits(count=5).rows(torch.tensor(token)), Binary(count=16).rows(torch.tensor(place))
        assert sorted(ordered[0].tolist()) == sorted(digits.tolist())
        assert sorted(ordered[1].tolist()) == sorted(signs.tolist())
        stream.append(kind.bias + kind.matrix @ ordered[0] + kind.tracks["place"] @ ordered[1])
    x = torch.stack([*stream, *model.inputs.appended])
    for each in model.layers:
        joined = []
        for head in each.heads:
            assert isinstance(head, Head)
            rows = []
            for i in range(len(x)):
                seen = range(i + 1) if model.causal else range(len(x))
                weights = torch.stack([(head.query @ x[i]) @ (head.key @ x[j]) for j in seen]).softmax(0)
                rows.append(sum(w * (head.value @ x[j]) for w, j in zip(weights, seen, strict=True)))
            joined.append(torch.stack(rows))
        y = torch.cat(joined, 1) @ each.output.T
        y = x + y if each.attention_residual else y
        psi = each.feed_forward
        if psi is None:
            x = y
            continue
        maps = [(m.matrix, m.bias) for m in psi.maps]
        if psi.kind == "relu":
            image = (y @ maps[0][0].T + maps[0][1]).relu() @ maps[1][0].T + maps[1][1]
        else:
            gate = (y @ maps[0][0].T + maps[0][1]).relu() * (y @ maps[1][0].T + maps[1][1])
            image = gate @ maps[2][0].T + maps[2][1]
        x = y + image if each.feed_forward_residual else image
    return x[: len(tokens)] @ READOUT.map.matrix.T + READOUT.map.bias


FORMS = list(itertools.product([1, 2], [False, True], [None, "relu", "reglu"]))


@pytest.mark.parametrize(("heads", "residual", "psi"), FORMS)
@pytest.mark.parametrize("causal", [False, True])
def test_layers_are_those_of_the_papers(heads: int, residual: bool, psi: str | None, causal: bool) -> None:
    layers = tuple(layer(100 * i, heads=heads, residual=residual, psi=psi) for i in (1, 2))
    kind = CausalTransformer if causal else UnmaskedTransformer
    model = kind(inputs=inputs(own=0 if causal else 1), layers=layers, readout=READOUT)
    rows = [[0, 3, 1, 4, 2], [2, 2, 0], [4]]
    padded = torch.tensor([row + [PAD] * (5 - len(row)) for row in rows])
    found = model.forward(padded)
    for row, output in zip(rows, found, strict=True):
        torch.testing.assert_close(output[: len(row)], naive(model, row), rtol=1e-9, atol=1e-9)


def test_asking_at_some_positions_gives_what_is_there() -> None:
    layers = (layer(1, heads=2, residual=True, psi="relu"), layer(2, heads=1, residual=True, psi="relu"))
    model = UnmaskedTransformer(inputs=inputs(), layers=layers, readout=READOUT)
    tokens = torch.tensor([[0, 3, 1, 4, 2], [2, 2, 0, 5, 5]])
    at = torch.tensor([[4, 0], [2, 1]])
    some = model.outputs(tokens, at=at).parts[0]
    index = at.unsqueeze(2).expand(-1, -1, 3)
    torch.testing.assert_close(some, model.forward(tokens).gather(1, index), rtol=1e-12, atol=1e-12)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = UnmaskedTransformer(
        inputs=inputs(own=1), layers=(layer(1, heads=2, residual=True, psi="relu"),) * 2, readout=READOUT
    )
    tokens = torch.randint(0, 5, (3, 11), generator=torch.Generator().manual_seed(1))
    whole = model.forward(tokens)
    home = "separatrix.models.explicit.transformer"
    monkeypatch.setattr(f"{home}._LOGITS_AT_ONCE", 50)
    monkeypatch.setattr(f"{home}._NUMBERS_AT_ONCE", 40)
    torch.testing.assert_close(model.forward(tokens), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("system", [Float32(), FixedNearest(p=41)], ids=str)
def test_other_numbers_come_close(system: Float32 | FixedNearest) -> None:
    model = CausalTransformer(
        inputs=inputs(), layers=(layer(1, heads=1, residual=True, psi="relu"),), readout=READOUT
    )
    tokens = torch.tensor([[0, 3, 1, 4, 2]])
    found = model.with_arithmetic(system).forward(tokens)
    torch.testing.assert_close(found, model.forward(tokens), rtol=1e-3, atol=1e-3)


def test_step_is_forward() -> None:
    model = CausalTransformer(
        inputs=inputs(), layers=(layer(1, heads=2, residual=True, psi="reglu"),) * 2, readout=READOUT
    )
    tokens = torch.randint(0, 5, (4, 9), generator=torch.Generator().manual_seed(2))
    whole, state = model.forward(tokens), model.start(4)
    for place in range(9):
        output, state = model.step(tokens[:, place], state)
        torch.testing.assert_close(output, whole[:, place], rtol=1e-9, atol=1e-9)


def test_a_causal_model_cannot_know_the_length() -> None:
    given = inputs(own=1)
    with pytest.raises(InvalidInput, match="token by token"):
        CausalTransformer(inputs=given, layers=(layer(1, heads=1, residual=True, psi=None),), readout=READOUT)


def test_a_model_comes_back_from_its_parts() -> None:
    model = UnmaskedTransformer(
        inputs=inputs(own=2),
        layers=(layer(1, heads=2, residual=True, psi="relu"), layer(5, heads=1, residual=False, psi="reglu")),
        readout=READOUT,
    )
    again = transformer_from(model.spec(), model.tensors())
    tokens = torch.tensor([[0, 3, 1, 4, 2]])
    assert torch.equal(again.forward(tokens), model.forward(tokens))
    assert again.spec() == model.spec()
    with pytest.raises(InvalidFile, match="belongs to nothing"):
        transformer_from(model.spec(), {**model.tensors(), "stray": torch.zeros(1).double()})
    missing = {k: v for k, v in model.tensors().items() if k != "layers.1.output"}
    with pytest.raises(InvalidFile, match=r"lack the tensor 'layers\.1\.output'"):
        transformer_from(model.spec(), missing)


def test_the_size_counts_every_number() -> None:
    model = UnmaskedTransformer(
        inputs=inputs(own=2), layers=(layer(1, heads=2, residual=True, psi="relu"),), readout=READOUT
    )
    size = model.size(10, 16)
    assert size.parameters == sum(tensor.numel() for tensor in model.tensors().values())
    assert size.embedding_parameters == sum(t.numel() for k, t in model.tensors().items() if "inputs" in k)
    assert (size.width, size.ffn_width, size.layers, size.heads) == (5, 7, 1, 2)
    assert size.state_bits(10) == 10 * 2 * (3 + 2) * 16


def test_position_rules() -> None:
    places, length = torch.arange(7)[None], torch.tensor([[7]])
    assert Own(shift=-2).numbers(places, length).tolist() == [[-1, -1, 0, 1, 2, 3, 4]]
    assert Remainder(divisor=3).numbers(places, length).tolist() == [[0, 1, 2, 0, 1, 2, 0]]
    assert Across(between=1).numbers(places, length).tolist() == [[0, 1, 2, -1, 0, 1, 2]]
    assert Listed(table=torch.tensor([4, 1])).numbers(places, length).tolist() == [[4, 1] + [-1] * 5]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (torch.tensor([0, 1]), "of shape \\(batch, pos\\); got int64 of shape \\(2,\\)"),
        (torch.tensor([[0.0]]), "are whole numbers"),
        ([[0, 1]], "Inputs are a tensor; got list"),
        (torch.tensor([[0, 99]]), "Tokens run from 0 to 5; got 99"),
    ],
)
def test_what_is_no_input_is_refused(given: Tensor, words: str) -> None:
    model = UnmaskedTransformer(
        inputs=inputs(), layers=(layer(1, heads=1, residual=True, psi=None),), readout=READOUT
    )
    with pytest.raises(InvalidInput, match=words):
        model.answers(given)
