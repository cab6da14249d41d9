"""Numbers of a counterexample go to JSON and back, also those that JSON has none for."""

from __future__ import annotations

import json

import torch

from separatrix.witnesses.naming import json_of


def test_numbers_are_json() -> None:
    values = torch.tensor([[1.5, float("nan")], [float("inf"), -2.0]])
    found = json_of(values)
    assert json.loads(json.dumps(found, allow_nan=False)) == [[1.5, "nan"], ["inf", -2.0]]
    assert json.dumps(json_of(torch.tensor([3, 4]))) == "[3, 4]"
    assert json_of(torch.tensor(7)) == 7
    assert json_of(torch.tensor(float("-inf"))) == "-inf"
