"""Vectors of sets, and the input maps that use them: exact products, whatever the set."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
import torch

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.models.explicit.codes import Binary, ExtendedBCH, RandomSign, SignCode
from separatrix.models.explicit.duals import DUAL_ERROR, DUAL_GRID, cumulative_coherence, duals
from separatrix.models.explicit.sparse_sets import SparseSetInputs
from separatrix.models.explicit.windows import WindowInputs, window_duals

CODES = (
    ExtendedBCH(length=32, designed=11, count=40, one_sided=False),
    RandomSign(count=40, dim=60, seed=3),
    RandomSign(count=40, dim=129, seed=0),
)


@pytest.mark.parametrize("code", CODES, ids=str)
@pytest.mark.parametrize("members", [1, 2, 5])
def test_products_are_the_dimension_on_the_set(code: SignCode, members: int) -> None:
    sets = torch.tensor([[(7 * i + 11 * j) % 40 for j in range(members)] for i in range(12)])
    vectors = duals(code, sets)
    for numbers, vector in zip(sets.tolist(), vectors.tolist(), strict=True):
        exact = [Fraction(entry) for entry in vector]
        assert all((entry / DUAL_GRID).denominator == 1 for entry in exact)
        for number in numbers:
            word = code.rows(torch.tensor([number]))[0].tolist()
            terms = (a * Fraction(b) for a, b in zip(exact, word, strict=True))
            product = sum(terms, Fraction(0)) / code.dim
            assert abs(product - 1) <= DUAL_ERROR


def test_shapes_and_order_of_a_set_do_not_matter() -> None:
    code = CODES[1]
    one, other = torch.tensor([[[3, 5, 8]], [[1, 2, 30]]]), torch.tensor([[[8, 3, 5]], [[30, 1, 2]]])
    assert duals(code, one).shape == (2, 1, 60)
    assert torch.allclose(duals(code, one), duals(code, other), atol=1e-9)
    assert duals(code, torch.zeros(0, 3, dtype=torch.int64)).shape == (0, 60)


def test_dependent_addresses_are_refused() -> None:
    with pytest.raises(InvalidInput, match="wider code"):
        duals(Binary(count=4), torch.tensor([[0, 3]]))
    with pytest.raises(InvalidInput, match="wider code"):
        duals(RandomSign(count=9, dim=4, seed=0), torch.tensor([[0, 1, 2, 3, 4, 5]]))


@pytest.mark.parametrize(
    "code", [RandomSign(count=9, dim=40, seed=1), RandomSign(count=9, dim=8, seed=0)], ids=str
)
@pytest.mark.parametrize("members", [1, 2, 3])
def test_cumulative_coherence_bounds_every_sum_of_products(code: SignCode, members: int) -> None:
    words = code.rows(torch.arange(9))
    gram = (words @ words.T).abs()
    worst = max(
        sum(float(gram[i, j]) for j in others)
        for i in range(9)
        for others in itertools.combinations([j for j in range(9) if j != i], members)
    )
    assert Fraction(worst) / code.dim <= cumulative_coherence(code, members)


def sparse_inputs(q: int = 2, n: int = 4) -> SparseSetInputs:
    code = RandomSign(count=n + q, dim=24, seed=0)
    torch.manual_seed(1)
    return SparseSetInputs(
        code=code,
        places=n,
        value=torch.randn(5, 1).double(),
        address=torch.randn(5, 24).double(),
        wanted=torch.randn(5, 24).double(),
        bias=torch.randn(5).double(),
        own=torch.randn(q, 5).double(),
        members=q,
    )


def test_rows_of_values_and_sets_become_vectors() -> None:
    inputs = sparse_inputs()
    rows = torch.tensor([[[0.5, 2, 3], [-1, 4, 0], [0, 0, 0], [1, 1, 2]]])
    places = torch.arange(6).expand(1, -1)
    found = inputs.embed(rows, places, inputs.lengths(rows))
    assert inputs.lengths(rows).tolist() == [4]
    for place, (value, members) in enumerate([(0.5, (1, 2)), (-1, (3, 5)), (0, (4, 5)), (1, (0, 1))]):
        wanted = inputs.bias + value * inputs.value[:, 0]
        wanted = wanted + inputs.address @ inputs.code.rows(torch.tensor(place))
        wanted = wanted + inputs.wanted @ duals(inputs.code, torch.tensor([members]))[0]
        assert torch.allclose(found[0, place], wanted)
    assert torch.equal(found[0, 4:], inputs.own)


def test_a_map_of_sets_comes_back_and_bad_ones_do_not() -> None:
    inputs = sparse_inputs()
    again = SparseSetInputs.taken(inputs.spec(), dict(inputs.tensors()))
    rows = torch.tensor([[[0.5, 2, 3], [-1, 4, 0], [0, 0, 0], [1, 1, 2]]])
    places = torch.arange(4).expand(1, -1)
    assert torch.equal(
        again.embed(rows, places, torch.tensor([4])), inputs.embed(rows, places, torch.tensor([4]))
    )
    with pytest.raises(InvalidFile, match="1 to 64 more"):
        SparseSetInputs.taken({**inputs.spec(), "places": 40}, dict(inputs.tensors()))
    with pytest.raises(InvalidFile, match="addresses of signs"):
        SparseSetInputs.taken({**inputs.spec(), "code": {"kind": "ladder", "count": 9, "first": 0}}, {})


def window_inputs(n: int = 6, reach: int = 2) -> WindowInputs:
    code = RandomSign(count=n + 2 * reach, dim=40, seed=0)
    torch.manual_seed(2)
    return WindowInputs(
        code=code,
        places=n,
        reach=reach,
        number=torch.randn(4, 1).double(),
        slots=torch.randn(4, 5).double(),
        phase=torch.randn(4, 5).double(),
        address=torch.randn(4, 40).double(),
        wanted=torch.randn(4, 40).double(),
        bias=torch.randn(4).double(),
        own=torch.randn(2 * reach, 4).double(),
    )


def test_numbers_with_their_windows_become_vectors() -> None:
    inputs = window_inputs()
    row = torch.tensor([[3, 0, 5, 1, 4, 2]])
    found = inputs.embed(row, torch.arange(10).expand(1, -1), inputs.lengths(row))
    for place, number in enumerate(row[0].tolist()):
        slot = (place + 2) % 5
        wanted = inputs.bias + number * (inputs.number[:, 0] + inputs.slots[:, slot]) + inputs.phase[:, slot]
        wanted = wanted + inputs.address @ inputs.code.rows(torch.tensor(place + 2))
        window = duals(inputs.code, torch.arange(place, place + 5).unsqueeze(0))[0]
        assert torch.allclose(found[0, place], wanted + inputs.wanted @ window)
    assert torch.equal(found[0, 6:], inputs.own)
    assert window_duals(inputs.code, 6, 2).shape == (6, 40)


def test_a_map_of_windows_comes_back_and_bad_ones_do_not() -> None:
    inputs = window_inputs()
    again = WindowInputs.taken(inputs.spec(), dict(inputs.tensors()))
    row, places = torch.tensor([[3, 0, 5, 1, 4, 2]]), torch.arange(6).expand(1, -1)
    assert torch.equal(
        again.embed(row, places, torch.tensor([6])), inputs.embed(row, places, torch.tensor([6]))
    )
    with pytest.raises(InvalidFile, match="either side"):
        WindowInputs.taken({**inputs.spec(), "reach": 3}, dict(inputs.tensors()))
