"""Recurrent models: blocks against dense matrices, steps against whole inputs, files from strangers."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.models.explicit.recurrent import Readout, ReadoutLayer, RecurrentModel, Update
from separatrix.models.explicit.recurrent_maps import (
    Block,
    Coordinates,
    LinearMap,
    Pattern,
    same,
    spread,
    summed,
)
from separatrix.models.explicit.recurrent_tokens import (
    ACTIVATIONS,
    Activation,
    DigitScores,
    TokenBlock,
    TokenCode,
    activate,
    digits_for,
)
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem

SYSTEMS: tuple[NumberSystem, ...] = (Float64(), Float32(), FixedNearest(p=41), FixedDown(n=16, k=5))


def whole(seed: int, *shape: int) -> Tensor:
    """Small whole numbers, the same for each seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=generator).to(torch.float64)


def written_out(pattern: Pattern) -> Tensor:
    kinds = {
        "same": torch.eye(pattern.count),
        "spread": torch.ones(pattern.count, 1),
        "sum": torch.ones(1, pattern.count),
    }
    return kinds[pattern.kind].to(torch.float64)


def dense(each: LinearMap) -> Tensor:
    """The map as a matrix, by Kronecker products."""
    total = torch.zeros(each.rows.width, each.columns.width, dtype=torch.float64)
    for block in each.blocks:
        part = torch.kron(
            torch.kron(written_out(block.outer), block.matrix.contiguous()), written_out(block.inner)
        )
        rows, columns = part.shape
        total[block.row : block.row + rows, block.column : block.column + columns] += part
    return total


def tiny(activation: Activation = "relu", seed: int = 0) -> RecurrentModel:
    """A model of whole numbers without meaning that uses every kind of block."""
    tokens = TokenCode(
        size=8,
        blocks=(
            TokenBlock(name="a", first=0, count=5, digits=3),
            TokenBlock(name="b", first=5, count=2),
        ),
    )
    state, units = Coordinates.of(cells=6, rest=2), Coordinates.of(first=12, second=3)
    update = Update(
        activation=activation,
        carry=LinearMap(state, state, (Block(row=6, column=0, matrix=-whole(seed, 1, 1), inner=same(2)),)),
        write=LinearMap(
            state,
            units,
            (
                Block(row=0, column=0, matrix=whole(seed + 1, 3, 6), outer=same(2)),
                Block(row=6, column=12, matrix=whole(seed + 2, 2, 3) / 2),
            ),
        ),
        from_state=LinearMap(
            units,
            state,
            (
                Block(row=0, column=0, matrix=whole(seed + 3, 6, 3), inner=spread(2)),
                Block(row=12, column=2, matrix=whole(seed + 4, 3, 2), inner=summed(3)),
            ),
        ),
        from_input=LinearMap(
            units,
            tokens.coordinates,
            (Block(row=0, column=0, matrix=whole(seed + 5, 4, 5), outer=spread(3)),),
        ),
        bias=whole(seed + 6, 15),
        offset=whole(seed + 7, 8),
    )
    hidden, out = Coordinates.of(hidden=5), Coordinates.of(digits=2)
    first = ReadoutLayer(
        map=LinearMap(hidden, state, (Block(row=0, column=0, matrix=whole(seed + 8, 5, 8)),)),
        bias=whole(seed + 9, 5),
    )
    last = ReadoutLayer(
        map=LinearMap(out, hidden, (Block(row=0, column=0, matrix=whole(seed + 10, 2, 5)),)),
        bias=whole(seed + 11, 2),
    )
    return RecurrentModel(
        tokens=tokens,
        update=update,
        readout=Readout(layers=(first, last), scores=DigitScores(classes=3, digits=2)),
    )


def plainly(model: RecurrentModel, tokens: list[int]) -> list[list[float]]:
    """Scores after each token, from dense matrices and the definition of the model."""
    update = model.update
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "relu": torch.relu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "hard-sigmoid": torch.nn.functional.hardsigmoid,
    }
    act = functions[update.activation]
    state = torch.zeros(model.state.width, dtype=torch.float64)
    scores = []
    for token in tokens:
        x = torch.tensor([float(digit) for digit in told(model.tokens, token)], dtype=torch.float64)
        units = act(dense(update.from_state) @ state + dense(update.from_input) @ x + update.bias)
        state = dense(update.carry) @ state + dense(update.write) @ units + update.offset
        numbers = state
        for place, layer in enumerate(model.readout.layers):
            numbers = dense(layer.map) @ (torch.relu(numbers) if place else numbers) + layer.bias
        coder = model.readout.scores
        assert coder is not None
        scores.append(
            [
                float(sum(z if s >> i & 1 else -z for i, z in enumerate(numbers.tolist())))
                for s in range(coder.classes)
            ]
        )
    return scores


def told(code: TokenCode, token: int) -> list[int]:
    vector: list[int] = []
    for block in code.blocks:
        inside = block.first <= token < block.first + block.count
        vector.append(int(inside))
        vector += [(token - block.first) >> i & 1 if inside else 0 for i in range(block.digits)]
    return vector


INPUTS = torch.tensor([[0, 4, 5, 7, 1], [6, 7, 7, 2, 3], [3, 3, 0, 5, 6]])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_blocks_are_kronecker_products(data: st.DataObject) -> None:
    patterns = st.builds(
        lambda kind, count: Pattern(kind=kind, count=count),
        st.sampled_from(["same", "spread", "sum"]),
        st.integers(1, 3),
    )
    blocks, high, wide = [], 1, 1
    for seed in range(data.draw(st.integers(1, 3))):
        shape = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
        block = Block(
            row=data.draw(st.integers(0, 3)),
            column=data.draw(st.integers(0, 3)),
            matrix=whole(seed, *shape),
            outer=data.draw(patterns),
            inner=data.draw(patterns),
        )
        blocks.append(block)
        high, wide = max(high, block.row + block.outputs), max(wide, block.column + block.inputs)
    each = LinearMap(Coordinates.of(rows=high), Coordinates.of(columns=wide), tuple(blocks))
    vectors = whole(7, 4, wide)
    expected = vectors @ dense(each).T
    assert each.connections == sum(
        math.prod(written_out(b.outer).shape + b.matrix.shape + written_out(b.inner).shape)
        // (b.outer.count if b.outer.kind == "same" else 1)
        // (b.inner.count if b.inner.kind == "same" else 1)
        for b in blocks
    )
    assert torch.equal(torch.stack([each.image(vector) for vector in vectors]), expected)
    for system in SYSTEMS:
        total = system.encode(torch.zeros(4, high, dtype=torch.float64))
        each.add_to(total, system, each.encoded(system, torch.device("cpu")), system.encode(vectors))
        assert torch.equal(system.decode_float64(total), expected)


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(system: NumberSystem, activation: Activation) -> None:
    values = torch.tensor([-300.0, -40, -3, -1.5, -0.25, 0, 0.25, 1, 3, 17, 300], dtype=torch.float64)
    oracles: dict[str, Callable[[float], float]] = {
        "relu": lambda y: max(y, 0.0),
        "sigmoid": lambda y: 1 / (1 + math.exp(-y)),
        "tanh": math.tanh,
        "hard-sigmoid": lambda y: min(max(y / 6 + 0.5, 0.0), 1.0),
    }
    result = system.decode_float64(activate(system, activation, system.encode(values)))
    expected = torch.tensor([oracles[activation](value) for value in values.tolist()], dtype=torch.float64)
    assert float((result - expected).abs().max()) < 1e-5
    if activation == "hard-sigmoid":
        assert [result[0].item(), result[2].item(), result[-3].item()] == [0, 0, 1]


def test_tokens_are_told_by_block_and_digits() -> None:
    code = TokenCode(
        size=1 << 30,
        blocks=(
            TokenBlock(name="few", first=3, count=2, digits=1),
            TokenBlock(name="many", first=10, count=1 << 20, digits=20),
        ),
    )
    tokens = [0, 2, 3, 4, 5, 9, 10, 11, 10 + 0b1011, 9 + (1 << 20), 10 + (1 << 20), (1 << 30) - 1]
    assert code.rows(torch.tensor(tokens)).tolist() == [told(code, token) for token in tokens]
    assert code.coordinates.width == 23
    assert [digits_for(count) for count in (1, 2, 3, 4, 5, 1 << 20)] == [1, 1, 2, 2, 3, 20]


def test_digit_scores_lead_by_two_a_digit() -> None:
    scores = DigitScores(classes=6, digits=3)
    system = Float64()
    for s in range(6):
        spelled = torch.tensor([[2.0 * (s >> i & 1) - 1 for i in range(3)]], dtype=torch.float64)
        result = system.decode_float64(scores.scores(system, system.encode(spelled)))[0].tolist()
        assert result == [3 - 2 * (s ^ other).bit_count() for other in range(6)]
    with pytest.raises(InvalidInput, match=r"At most 2\^20 classes"):
        DigitScores(classes=1 << 21, digits=21)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_model_is_its_definition(activation: Activation) -> None:
    for seed in range(0, 60, 12):
        model = tiny(activation, seed)
        expected = torch.tensor([plainly(model, row) for row in INPUTS.tolist()], dtype=torch.float64)
        assert torch.allclose(model.forward(INPUTS), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_steps_give_what_forward_gives(system: NumberSystem, activation: Activation) -> None:
    model = tiny(activation).with_arithmetic(system)
    assert model.arithmetic == system
    whole_input = model.forward(INPUTS)
    state = model.start(len(INPUTS))
    for position in range(INPUTS.shape[1]):
        scores, state = model.step(INPUTS[:, position], state)
        assert torch.equal(scores, whole_input[:, position])
    at = torch.tensor([[4, 0], [2, 2], [1, 3]])
    asked = system.decode_float64(model.outputs(INPUTS, at=at))
    assert torch.equal(asked, whole_input.gather(1, at.unsqueeze(2).expand(-1, -1, 3)))
    assert torch.equal(model.answers(INPUTS, at=at), asked.argmax(2))


def test_rows_in_parts_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny()
    at_once = model.forward(INPUTS)
    monkeypatch.setattr("separatrix.models.explicit.recurrent.NUMBERS_AT_ONCE", 40)
    assert torch.equal(model.forward(INPUTS), at_once)


def test_nothing_in_nothing_out() -> None:
    model = tiny()
    assert model.forward(INPUTS[:0]).shape == (0, 5, 3)
    assert model.answers(INPUTS, at=torch.zeros(3, 0, dtype=torch.int64)).shape == (3, 0)


def test_a_file_gives_the_same_model() -> None:
    model = tiny("tanh")
    spec = json.loads(json.dumps(model.spec()))
    again = RecurrentModel.from_parts(spec, {name: each.clone() for name, each in model.tensors().items()})
    assert again.spec() == model.spec()
    assert torch.equal(again.forward(INPUTS), model.forward(INPUTS))
    assert again.describe() == model.describe()
    assert again.size(5, 16) == model.size(5, 16)


def change(*path: Any, to: Any) -> Callable[[Any], None]:
    def apply(spec: Any) -> None:
        for step in path[:-1]:
            spec = spec[step]
        spec[path[-1]] = to

    return apply


def drop(*path: Any) -> Callable[[Any], None]:
    def apply(spec: Any) -> None:
        for step in path[:-1]:
            spec = spec[step]
        del spec[path[-1]]

    return apply


HOSTILE = {
    "another form": change("form", to="transformer"),
    "no form": drop("form"),
    "an unknown field": change("more", to=1),
    "an unknown activation": change("activation", to="exec"),
    "a huge state": change("state", 0, "numbers", to=10**18),
    "an empty field": change("state", 0, "numbers", to=0),
    "fields of one name": change("state", 1, "name", to="cells"),
    "no state": change("state", to=[]),
    "a bit field that is none": change("binary", to=["memory"]),
    "binary as text": change("binary", to="cells"),
    "a block past the end": change("update", "write", 0, "row", to=7),
    "a block before the start": change("update", "write", 0, "row", to=-1),
    "a huge pattern": change("update", "write", 0, "outer", "count", to=10**20),
    "no pattern": change("update", "write", 0, "outer", "count", to=0),
    "an unknown pattern": change("update", "write", 0, "outer", "kind", to="twice"),
    "a pattern that is none": change("update", "write", 0, "inner", to=[1]),
    "a map less": drop("update", "carry"),
    "a map more": change("update", "other", to=[]),
    "many blocks": change("update", "write", to=[{}] * 1000),
    "a block less": change("update", "write", to=[]),
    "a layer less": drop("readout", 1),
    "no layer": change("readout", to=[]),
    "many layers": change("readout", to=[{}] * 100),
    "rows of another width": change("readout", 1, "rows", 0, "numbers", to=3),
    "many classes for few digits": change("scores", "classes", to=1 << 60),
    "digits too few": change("scores", "classes", to=5),
    "classes beyond memory": change("scores", to={"classes": 1 << 40, "digits": 41}),
    "scores as a number": change("scores", to=3),
    "tokens that overlap": change("tokens", "blocks", 1, "first", to=4),
    "tokens beyond the end": change("tokens", "blocks", 1, "count", to=4),
    "a digit too few": change("tokens", "blocks", 0, "digits", to=1),
    "digits beyond an int64": change("tokens", "blocks", 0, "digits", to=64),
    "a vocabulary that is none": change("tokens", to=None),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_strange_specs_are_refused(name: str) -> None:
    model = tiny()
    spec = copy.deepcopy(json.loads(json.dumps(model.spec())))
    HOSTILE[name](spec)
    with pytest.raises(InvalidFile):
        RecurrentModel.from_parts(spec, model.tensors())


@pytest.mark.parametrize("spec", [None, [], "recurrent", 3, {}])
def test_what_is_no_spec_is_refused(spec: object) -> None:
    with pytest.raises(InvalidFile):
        RecurrentModel.from_parts(spec, tiny().tensors())


STRANGE_TENSORS: dict[str, Callable[[dict[str, Tensor]], object]] = {
    "missing": lambda tensors: tensors.pop("update.bias"),
    "more": lambda tensors: tensors.update(other=torch.zeros(1, dtype=torch.float64)),
    "float32": lambda tensors: tensors.update({"update.bias": tensors["update.bias"].float()}),
    "not finite": lambda tensors: tensors.update({"update.bias": tensors["update.bias"] / 0}),
    "another width": lambda tensors: tensors.update({"update.offset": tensors["update.offset"][1:]}),
    "no matrix": lambda tensors: tensors.update({"update.write.0": tensors["update.write.0"][0]}),
    "an empty matrix": lambda tensors: tensors.update({"update.write.0": tensors["update.write.0"][:0]}),
    "a wide matrix": lambda tensors: tensors.update({"update.write.0": tensors["update.write.0"].T}),
}


@pytest.mark.parametrize("name", STRANGE_TENSORS)
def test_strange_tensors_are_refused(name: str) -> None:
    model = tiny()
    tensors = dict(model.tensors())
    STRANGE_TENSORS[name](tensors)
    with pytest.raises(InvalidFile):
        RecurrentModel.from_parts(model.spec(), tensors)


def test_the_size_counts_what_is_there() -> None:
    model = tiny()
    size = model.size(100, 16)
    # carry 2, write 2·18 + 6, from_state 18·2 + 6·3, from_input 20·3, readout 40 + 10, biases 15 + 8 + 5 + 2.
    assert size.parameters_without_embeddings == 2 + 42 + 54 + 60 + 50 + 30
    assert size.embedding_parameters == 8 * 5 + 3 * 2
    assert model.start(4).shape == (4, size.width)
    assert size.state_bits(1) == size.state_bits(100) == 8 * 16
    cells = RecurrentModel(tokens=model.tokens, update=model.update, readout=model.readout, binary=("cells",))
    assert cells.size(100, 16).state_bits(100) == 6 + 2 * 16
    assert size.ffn_width == 15


def test_wrong_inputs_are_named() -> None:
    model = tiny()
    with pytest.raises(InvalidInput, match=r"Tokens run from 0 to 7; got 0 to 8\."):
        model.forward(torch.tensor([[0, 8]]))
    with pytest.raises(InvalidInput, match="int64 tokens of shape"):
        model.forward(torch.zeros(2, 3))
    with pytest.raises(InvalidInput, match=r"Positions run from 0 to 4; got 0 to 5\."):
        model.outputs(INPUTS, at=torch.tensor([[0], [5], [1]]))
    with pytest.raises(InvalidInput, match="with batch 3"):
        model.outputs(INPUTS, at=torch.tensor([[0]]))


def test_it_says_what_it_is() -> None:
    text = tiny().describe()
    assert "tokens: a 0–4 in 3 digits, b 5–6 in 0 digits" in text
    assert "state, 8 numbers: cells 6, rest 2" in text
    assert "from_state: second ← 3 × 2 ⊗ sum 3 of cells" in text
