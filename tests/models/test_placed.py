"""Tokens that write at coordinates of their place, and the rule that counts two halves."""

from __future__ import annotations

import copy

import pytest
import torch

from separatrix.errors import InvalidFile
from separatrix.models.explicit.codes import Digits, OneHot
from separatrix.models.explicit.inputs import TokenClass, TokenInputs, inputs_from
from separatrix.models.explicit.placed import Placed
from separatrix.models.explicit.positions import Halves, Own, PositionRule, rule_from


def built(rule: PositionRule, *, count: int = 4) -> TokenInputs:
    width = 3 + 2 * count
    block = Placed(rule=rule, count=count, start=3, matrix=torch.tensor([[1.0, 0.0], [5.0, 7.0]]).double())
    return TokenInputs(
        classes=(
            TokenClass(
                name="symbol",
                first=0,
                count=4,
                code=Digits(count=4),
                matrix=torch.zeros(width, 2).double(),
                bias=torch.arange(width).double(),
                tracks={},
                placed=block,
            ),
        ),
        position_tracks=(),
        pad=None,
        own=torch.zeros(0, width).double(),
    )


def test_a_token_writes_in_its_own_block_and_nowhere_else() -> None:
    inputs = built(Own())
    tokens = torch.tensor([[3, 0, 2, 1, 3]])
    vectors = inputs.embed(tokens, torch.arange(5)[None], torch.tensor([5]))[0] - torch.arange(11)
    for place, token in enumerate(tokens[0].tolist()):
        wanted = torch.zeros(11).double()
        if place < 4:
            low, high = token & 1, token >> 1
            wanted[3 + 2 * place : 5 + 2 * place] = torch.tensor([low, 5 * low + 7 * high]).double()
        assert torch.equal(vectors[place], wanted)


def test_the_second_half_is_counted_from_its_own_start() -> None:
    rule = Halves(second=4, between=1)
    for length, numbers in ((3, [0, -1, 4]), (7, [0, 1, 2, -1, 4, 5, 6]), (9, [0, 1, 2, 3, -1, 4, 5, 6, 7])):
        places = torch.arange(length)[None]
        assert rule.numbers(places, torch.tensor([[length]]))[0].tolist() == numbers
    plain = Halves(second=3)
    assert plain.numbers(torch.arange(4)[None], torch.tensor([[4]]))[0].tolist() == [0, 1, 3, 4]


def test_it_comes_back_from_spec_and_tensors() -> None:
    inputs = built(Halves(second=2), count=4)
    again = inputs_from(inputs.spec(), dict(inputs.tensors()))
    assert again.spec() == inputs.spec()
    tokens, places, lengths = torch.tensor([[1, 2, 3, 0]]), torch.arange(4)[None], torch.tensor([4])
    assert torch.equal(again.embed(tokens, places, lengths), inputs.embed(tokens, places, lengths))


@pytest.mark.parametrize(("field", "value"), [("count", 5), ("start", 4), ("rows", 3), ("count", 0)])
def test_blocks_that_do_not_fit_are_refused(field: str, value: int) -> None:
    inputs = built(Own())
    spec = copy.deepcopy(inputs.spec())
    spec["classes"][0]["placed"][field] = value  # type: ignore[index]
    with pytest.raises(InvalidFile, match=r"do not fit into a stream of width 11|must be float64 of shape"):
        inputs_from(spec, dict(inputs.tensors()))


def test_without_a_code_nothing_can_be_written() -> None:
    inputs = built(Own())
    spec = copy.deepcopy(inputs.spec())
    spec["classes"][0]["code"] = None  # type: ignore[index]
    with pytest.raises(InvalidFile, match="has no code and so nothing to write at its places"):
        inputs_from(spec, dict(inputs.tensors()))


def test_a_rule_by_itself_is_no_list() -> None:
    assert rule_from({"kind": "own", "shift": 2}, what="the rule") == Own(shift=2)
    with pytest.raises(InvalidFile, match="is one of own remainder across halves"):
        rule_from({"kind": "listed"}, what="the rule")
    assert OneHot(count=1).dim == 1
