"""The modules that witnesses are exported through give what the witnesses give, without any exporter."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import separatrix
from separatrix.errors import InvalidInput
from separatrix.interop.onnx_witnesses import SUPPORTED, _activated, witness_module
from separatrix.models.explicit.recurrent_tokens import ACTIVATIONS, Activation, activate
from separatrix.precision import Float64, system_named
from separatrix.tasks.is_tree import IsTree
from separatrix.witnesses import Choices, Witness, witness_for
from separatrix.witnesses.solving import ask

WITNESSES = (
    ("index-lookup", {"n": 3, "alphabet": 2}, "transformer-1", ""),
    ("dyck", {"n": 6}, "transformer-3", ""),
    ("dyck", {"n": 4}, "transformer-1", "linear size"),
    ("match2", {"n": 3, "modulus": 4}, "transformer-1", ""),
    ("match3", {"n": 3, "modulus": 4}, "third-order", ""),
    ("match3", {"n": 4, "variant": "local"}, "transformer-1", "local"),
    ("equality", {"n": 6}, "transformer-2", ""),
    ("dyck", {"n": 4}, "rnn", ""),
    ("dyck", {"n": 4}, "rnn", "sigmoid-type activations"),
    ("associative-recall", {"n": 3}, "rnn", ""),
    ("index-lookup", {"n": 4, "alphabet": 4}, "hybrid", ""),
    ("nearest-neighbour", {"n": 4}, "transformer-2", ""),
)


def built(name: str, parameters: dict[str, Any], family: str, variant: str) -> Witness:
    return witness_for(separatrix.task(name, **parameters), family=family, variant=variant or None)


@pytest.mark.parametrize("given", WITNESSES, ids=lambda given: "-".join((given[0], given[2], given[3])))
def test_same_answers_on_every_input(given: tuple[str, dict[str, Any], str, str]) -> None:
    witness = built(*given)
    task, model = witness.task, witness.model
    small = task.domain_size() <= 1 << 14
    rows = torch.cat(list(task.enumerate())) if small else task.sample(64, seed=1).inputs
    found, right = witness_module(model, task.length)(rows), model.forward(rows)
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)
    assert torch.equal(found.argmax(-1), right.argmax(-1))


def test_what_is_written_is_scored_alike() -> None:
    task = separatrix.task("is-tree", n=6, form="cot", graphs="uniform")
    assert isinstance(task, IsTree)
    witness = witness_for(task, family="transformer-cot")
    rows = task.sample(8, seed=1).inputs
    written = [solution.run.written for solution in ask(witness, rows) if solution.run is not None]
    texts = [
        torch.tensor([*row[: task.prompt].tolist(), *more]) for row, more in zip(rows, written, strict=True)
    ]
    padded = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
    chosen = witness_module(witness.model, padded.shape[1])(padded).argmax(-1)
    for text, row in zip(texts, chosen, strict=True):
        assert torch.equal(row[task.prompt - 1 : len(text) - 1], text[task.prompt :])


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(activation: Activation) -> None:
    numbers = torch.linspace(-9, 9, 101, dtype=torch.float64).unsqueeze(0)
    system = Float64()
    right = system.decode_float64(activate(system, activation, system.encode(numbers)))
    torch.testing.assert_close(_activated(activation, numbers), right, rtol=1e-15, atol=1e-15)


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = separatrix.task("index-lookup", n=4, alphabet=4)
    narrow = witness_for(lookup, family="transformer-1", choices=Choices(system=system_named("float32")))
    with pytest.raises(InvalidInput, match="exported in float64; this one computes in float32"):
        witness_module(narrow.model, 5)
    averaging = witness_for(separatrix.task("q-sparse-averaging", n=4))
    with pytest.raises(InvalidInput, match="of the kind sparse-sets"):
        witness_module(averaging.model, 4)
    cycles = witness_for(separatrix.task("cycle3", n=4))
    with pytest.raises(InvalidInput, match=rf"forms {', '.join(SUPPORTED)}.*graph-unit"):
        witness_module(cycles.model, 4)
    monkeypatch.setattr("separatrix.interop.onnx_inputs._MOST_LISTED", 10)
    with pytest.raises(InvalidInput, match=r"codes of tokens become tables.* at most 10 are written"):
        witness_module(witness_for(lookup, family="transformer-1").model, 5)
