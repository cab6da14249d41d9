"""W's recurrent models against the formulas written out naively; token by token against all at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.models.explicit import running
from separatrix.models.explicit.codes import BlockCode, OneHot, Parabola
from separatrix.models.explicit.inputs import TokenInputs
from separatrix.models.explicit.linear import Affine, FeedForward
from separatrix.models.explicit.linear_rnn import Hybrid, LayeredRNN, LinearRNN, layered_rnn_from
from separatrix.models.explicit.reading import model_from
from separatrix.models.explicit.recurrence import RecurrentLayer
from separatrix.models.explicit.transformer import CausalTransformer
from separatrix.precision import FixedNearest, Float32, Float64, NumberSystem
from tests.models.test_transformer import READOUT, WIDTH, inputs, layer, naive, random

STATE = 4


def recurrent(seed: int, *, state: int = STATE, gated: bool = True) -> RecurrentLayer:
    def map_(out: int, inner: int, at: int) -> Affine:
        return Affine(matrix=random(out, inner, seed=seed + at), bias=random(out, seed=seed + at + 1))

    maps = (map_(6, WIDTH, 1), map_(6, WIDTH, 3), map_(WIDTH, 6, 5))
    return RecurrentLayer(
        transition=random(state, state, seed=seed + 7) / 3,
        feed=random(state, WIDTH, seed=seed + 8),
        output=random(WIDTH, state, seed=seed + 9),
        feed_forward=FeedForward(maps=maps, kind="reglu") if gated else None,
    )


def linear() -> LinearRNN:
    return LinearRNN(
        inputs=inputs(),
        recurrent=(recurrent(100), recurrent(200, gated=False), recurrent(300, state=0)),
        readout=READOUT,
    )


def hybrid() -> Hybrid:
    top = layer(400, heads=2, residual=True, psi="reglu")
    return Hybrid(inputs=inputs(), recurrent=(recurrent(100), recurrent(200)), top=top, readout=READOUT)


def by_hand(model: LayeredRNN, tokens: list[int]) -> Tensor:
    """The recurrent layers one position after another; what stands on top by the Transformer's formulas."""
    places = torch.arange(len(tokens)).unsqueeze(0)
    row = torch.tensor([tokens])
    x = model.inputs.embed(row, places, torch.tensor([len(tokens)]))[0]
    for each in model.recurrent:
        state, rows = torch.zeros(each.state, dtype=torch.float64), []
        for here in x:
            state = each.transition @ state + each.feed @ here
            y = here + each.output @ state
            if each.feed_forward is not None:
                first, second, last = each.feed_forward.maps
                inner = (first.matrix @ y + first.bias).relu() * (second.matrix @ y + second.bias)
                y = y + last.matrix @ inner + last.bias
            rows.append(y)
        x = torch.stack(rows)
    for top in model.attention:
        stacked = []
        for i in range(len(x)):
            joined = []
            for head in top.heads:
                logits = torch.stack([(head.query @ x[i]) @ (head.key @ x[j]) for j in range(i + 1)])  # type: ignore[attr-defined]
                values = torch.stack([head.value @ x[j] for j in range(i + 1)])  # type: ignore[attr-defined]
                joined.append(logits.softmax(0) @ values)
            y = x[i] + top.output @ torch.cat(joined)
            assert top.feed_forward is not None
            first, second, last = top.feed_forward.maps
            inner = (first.matrix @ y + first.bias).relu() * (second.matrix @ y + second.bias)
            stacked.append(y + last.matrix @ inner + last.bias)
        x = torch.stack(stacked)
    return x @ READOUT.map.matrix.T + READOUT.map.bias


@pytest.mark.parametrize("make", [linear, hybrid])
def test_layers_are_those_of_the_paper(make: Callable[[], LayeredRNN]) -> None:
    model = make()
    for tokens in ([0, 3, 1, 4, 2, 2, 0], [4]):
        found = model.forward(torch.tensor([tokens]))[0]
        torch.testing.assert_close(found, by_hand(model, tokens), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("system", [Float64(), Float32(), FixedNearest(p=61)], ids=str)
@pytest.mark.parametrize("make", [linear, hybrid])
def test_token_by_token_is_all_at_once(make: Callable[[], LayeredRNN], system: NumberSystem) -> None:
    model = make().with_arithmetic(system)
    tokens = torch.randint(0, 5, (3, 11), generator=torch.Generator().manual_seed(3))
    whole = model.forward(tokens)
    tolerance = 1e-3 if isinstance(system, Float32) else 1e-9
    state = model.start(3)
    for place in range(4):
        found, state = model.step(tokens[:, place], state)
        torch.testing.assert_close(found, whole[:, place], rtol=tolerance, atol=tolerance)
    found, state = model.read(tokens[:, 4:9], state)
    torch.testing.assert_close(found, whole[:, 8], rtol=tolerance, atol=tolerance)
    state = model.kept(state, torch.tensor([2, 0]))
    found, state = model.step(tokens[[2, 0], 9], state)
    torch.testing.assert_close(found, whole[[2, 0], 9], rtol=tolerance, atol=tolerance)


def test_asking_at_some_positions_gives_what_is_there() -> None:
    tokens, at = torch.tensor([[0, 3, 1, 4, 2], [2, 2, 0, 1, 1]]), torch.tensor([[4, 0], [2, 1]])
    found = hybrid().outputs(tokens, at=at).parts[0]
    index = at.unsqueeze(2).expand(-1, -1, 3)
    torch.testing.assert_close(found, hybrid().forward(tokens).gather(1, index), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [linear, hybrid])
def test_a_model_comes_back_from_its_parts(make: Callable[[], LayeredRNN]) -> None:
    model, tokens = make(), torch.tensor([[0, 3, 1, 4, 2]])
    again = model_from(model.spec(), model.tensors())
    assert torch.equal(again.forward(tokens), model.forward(tokens))
    assert again.spec() == model.spec()
    with pytest.raises(InvalidFile, match="belongs to nothing"):
        layered_rnn_from(model.spec(), {**model.tensors(), "stray": torch.zeros(1).double()})
    missing = {name: tensor for name, tensor in model.tensors().items() if name != "layers.0.feed"}
    with pytest.raises(InvalidFile, match=r"lack the tensor 'layers\.0\.feed'"):
        layered_rnn_from(model.spec(), missing)


def test_a_file_cannot_put_attention_into_a_linear_rnn() -> None:
    for form, other in (("linear-rnn", hybrid()), ("hybrid", linear())):
        with pytest.raises(InvalidFile, match="recurrent layers and"):
            layered_rnn_from({**other.spec(), "form": form}, other.tensors())


def test_nothing_stands_behind_the_input() -> None:
    with pytest.raises(InvalidInput, match="token by token"):
        LinearRNN(inputs=inputs(own=1), recurrent=(recurrent(1),), readout=READOUT)


def test_the_size_counts_the_state_that_is_carried() -> None:
    model = hybrid()
    state = model.start(1)
    model.step(torch.tensor([1]), state)
    carried = [cell.carried for cell in state.cells]
    size = model.size(1, 16)
    assert carried == [STATE, STATE, 2 * (3 + 2)]
    assert [part.bits(1) for part in size.state] == [sum(carried[:2]) * 16, carried[2] * 16]
    assert size.state_bits(1) == state.carried * 16
    model.read(torch.ones(1, 9, dtype=torch.int64), state)
    assert size.state_bits(10) == state.carried * 16
    assert size.parameters == sum(tensor.numel() for tensor in model.tensors().values())
    assert linear().size(10, 16).state_bits(10) == linear().size(1000, 16).state_bits(1000)


def test_a_naive_transformer_is_stepped_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache of the cells against the Transformer's own formulas, while its room doubles and doubles."""
    monkeypatch.setattr("separatrix.models.explicit.cells._FIRST_ROOM", 1)
    layers = (layer(1, heads=2, residual=True, psi="reglu"), layer(2, heads=1, residual=False, psi="relu"))
    model = CausalTransformer(inputs=inputs(), layers=layers, readout=READOUT)
    tokens = [place % 5 for place in range(16)]
    state, found = model.start(1), []
    for token in tokens:
        output, state = model.step(torch.tensor([token]), state)
        found.append(output[0])
    torch.testing.assert_close(torch.stack(found), naive(model, tokens), rtol=1e-9, atol=1e-9)


def test_a_large_state_is_more_work() -> None:
    def work(state: int) -> int:
        return LinearRNN(inputs=inputs(), recurrent=(recurrent(1, state=state),), readout=READOUT).work(10)

    assert work(4) == 10
    assert work(1024) >= 10 * 1024**2 // 2**14


def test_large_tables_of_tokens_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = torch.tensor([[1, 2, 3, 0]])
    tabled = linear().forward(tokens)
    looked_up: list[Tensor] = []
    of_tokens = TokenInputs.of_tokens

    def seen(self: TokenInputs, *given: Tensor) -> Tensor:
        looked_up.append(given[0])
        return of_tokens(self, *given)

    monkeypatch.setattr(TokenInputs, "of_tokens", seen)
    torch.testing.assert_close(linear().forward(tokens), tabled)
    assert not looked_up
    monkeypatch.setattr(running, "_MOST_TABLED", WIDTH)
    torch.testing.assert_close(linear().forward(tokens), tabled)
    assert looked_up


def test_a_parabola_ends_where_its_squares_are_exact() -> None:
    assert Parabola(count=1 << 25, first=1 << 25).last == (1 << 26) - 1
    with pytest.raises(InvalidInput, match="needs last between 0 and 67108864; got 134217727"):
        Parabola(count=1 << 26, first=1 << 26)


def test_a_parabola_is_largest_where_it_is_asked_to_be() -> None:
    code = BlockCode(parts=(OneHot(count=3), Parabola(count=50, first=7)))
    rows = code.rows(torch.arange(code.count))
    for wanted in range(7, 57):
        asked = torch.tensor([-1.0, -1, -1, 2 * wanted, -1, 1], dtype=torch.float64)
        scores = rows @ asked
        assert int(scores.argmax()) == 3 + wanted - 7
        assert float(scores.max()) == wanted**2 + 1
    assert code.rows(torch.tensor([-1, code.count])).abs().sum() == 0
