"""Models that are wrong on some input, and that a proof once took for right: none may be proven.

Each changes a construction in a way that its proof did not look at. Every test shows the input first.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import torch
from torch import Tensor

from separatrix.certificates import certify, replay
from separatrix.certificates.enclosures import rounding_of
from separatrix.certificates.exhaustive import first_wrong, wrong_rows
from separatrix.certificates.proofs import proof_for
from separatrix.certificates.refusals import NotProved
from separatrix.errors import InvalidInput
from separatrix.models.explicit.codes.random_sign import RandomSign
from separatrix.models.explicit.reading import model_from
from separatrix.precision import FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks import TASKS, Task
from separatrix.tasks.interface import make
from separatrix.witnesses import Witness
from separatrix.witnesses.catalogue import witness_for

Parts = tuple[dict[str, Any], dict[str, Tensor]]


def built(name: str, family: str | None = None, variant: str | None = None, /, **parameters: Any) -> Witness:
    return witness_for(make(TASKS.get(name), parameters), family=family, variant=variant)


def parts_of(witness: Witness) -> Parts:
    """Spec and tensors, to be changed."""
    spec = json.loads(json.dumps(witness.model.spec()))
    return spec, {name: tensor.clone() for name, tensor in witness.model.tensors().items()}


def with_parts(witness: Witness, parts: Parts, system: NumberSystem | None = None) -> Witness:
    model = model_from(*parts).with_arithmetic(system or witness.arithmetic)
    return dataclasses.replace(witness, model=model, built=None)


def class_of(spec: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in spec["inputs"]["classes"] if each["name"] == name)


def wider(tensor: Tensor, axis: int, more: int) -> Tensor:
    shape = list(tensor.shape)
    shape[axis] = more
    return torch.cat([tensor, torch.zeros(shape, dtype=torch.float64)], dim=axis)


def is_wrong_somewhere(witness: Witness, task: Task | None = None) -> bool:
    about = task or witness.task
    return first_wrong(witness.model, about, about.enumerate()) is not None


def test_tokens_that_also_write_at_their_places() -> None:
    witness = built("index-lookup", "transformer-1", n=4, alphabet=4)
    spec, tensors = parts_of(witness)
    here = {"rule": {"kind": "own", "shift": 0}, "count": 1, "start": 0, "rows": 1}
    class_of(spec, "symbol")["placed"] = here
    tensors["inputs.symbol.placed"] = torch.full((1, 2), -1000.0, dtype=torch.float64)
    changed = with_parts(witness, (spec, tensors))
    assert is_wrong_somewhere(changed)
    assert certify(changed).verdict == "refuted"


@pytest.mark.parametrize(
    ("name", "kind", "family", "variant", "parameters"),
    [
        ("associative-recall", "key", "transformer-2", "", {"n": 2, "keys": 3, "values": 2}),
        ("associative-recall", "symbol", "transformer-2", "", {"n": 3, "form": "sequence", "alphabet": 2}),
        ("match2", "residue", "transformer-1", "", {"n": 3, "modulus": 4}),
        ("match3", "residue", "transformer-1", "", {"n": 3, "modulus": 4}),
        ("equality", "symbol", "transformer-2", "", {"n": 4, "alphabet": 2}),
        ("disjointness", "bit", "transformer-2", "", {"n": 4}),
    ],
)
def test_other_proofs_refuse_such_tokens(
    name: str, kind: str, family: str, variant: str, parameters: dict[str, Any]
) -> None:
    witness = built(name, family, variant, **parameters)
    spec, tensors = parts_of(witness)
    dim = tensors[f"inputs.{kind}.matrix"].shape[1]
    rows = spec["inputs"]["width"]
    class_of(spec, kind)["placed"] = {
        "rule": {"kind": "own", "shift": 0},
        "count": 1,
        "start": 0,
        "rows": rows,
    }
    tensors[f"inputs.{kind}.placed"] = torch.full((rows, dim), -37.0, dtype=torch.float64)
    changed = with_parts(witness, (spec, tensors))
    assert is_wrong_somewhere(changed)
    assert certify(changed).verdict == "refuted"


def test_different_numbers_with_one_word() -> None:
    code = RandomSign(count=3, dim=2, seed=0)
    words = code.rows(torch.arange(3))
    assert torch.equal(words[1], words[2])
    witness = built("index-lookup", "transformer-1", n=3, alphabet=4)
    spec, tensors = parts_of(witness)
    spec["inputs"]["tracks"][0]["code"] = code.spec()
    class_of(spec, "index")["code"] = code.spec()
    assert certify(with_parts(witness, (spec, tensors))).verdict == "refuted"


@pytest.mark.slow
def test_a_readout_that_gives_no_classes() -> None:
    witness = built("index-lookup", "transformer-1", n=64)
    spec, tensors = parts_of(witness)
    spec["readout"]["scores"] = False
    changed = with_parts(witness, (spec, tensors))
    assert changed.model.classes is None
    prove = proof_for(changed.theorem, changed.task.name, changed.variant)
    assert prove is not None
    with pytest.raises(NotProved, match="vectors"):
        prove(changed.model, changed.task, rounding_of(changed.arithmetic))


def test_subnormal_weights_that_meet_huge_ones() -> None:
    witness = built("index-lookup", "transformer-1", n=4, alphabet=4)
    spec, tensors = parts_of(witness)
    width = spec["inputs"]["width"]
    asked = int((tensors["inputs.index.matrix"] != 0).any(1).nonzero()[0])
    offered = int((tensors["inputs.symbol.tracks.address"] != 0).any(1).nonzero()[0])
    query, key = torch.zeros(2, 100, width, dtype=torch.float64)
    query[:, asked], key[:, offered] = 2.0**-127, -(2.0**127)
    for name, more in (("query", query), ("key", key)):
        tensors[f"layers.0.heads.0.{name}"] = torch.cat([tensors[f"layers.0.heads.0.{name}"], more])
    changed = with_parts(witness, (spec, tensors), Float32())
    assert is_wrong_somewhere(changed)
    assert certify(changed).verdict == "refuted"


def test_subnormal_weights_in_layers_of_dyck() -> None:
    witness = built("dyck", "transformer-3", "", n=4, types=1, depth=2)
    spec, tensors = parts_of(witness)
    matrix = tensors["layers.0.feed_forward.0.matrix"]
    matrix[0, int((matrix == 0).all(0).nonzero()[0])] = 2.0**-140
    changed = with_parts(witness, (spec, tensors), Float32())
    claims = certify(changed).claims
    assert [claim.source for claim in claims] == ["exhaustion"]


@pytest.mark.parametrize(
    ("name", "family", "variant", "parameters"),
    [
        ("equality", "transformer-1", "linear size", {"n": 4, "alphabet": 2}),
        ("disjointness", "transformer-1", "linear size", {"n": 4}),
        ("dyck", "transformer-1", "linear size", {"n": 4, "types": 1, "depth": 2}),
        ("dyck", "transformer-3", "", {"n": 4, "types": 2, "depth": 2}),
        ("dyck", "transformer-2", "next characters", {"n": 4, "types": 2, "depth": 2, "form": "next"}),
    ],
)
def test_uniform_heads_whose_keys_overflow(
    name: str, family: str, variant: str, parameters: dict[str, Any]
) -> None:
    """A query of 0 times a key of infinity is no logit of 0."""
    witness = built(name, family, variant, **parameters)
    spec, tensors = parts_of(witness)
    key, query = "layers.0.heads.0.key", "layers.0.heads.0.query"
    tensors[key] = torch.full_like(tensors[key], 1.7e308)
    tensors[query] = torch.zeros_like(tensors[query])
    changed = with_parts(witness, (spec, tensors), Float64())
    verdict = certify(changed)
    assert verdict.verdict == ("refuted" if is_wrong_somewhere(changed) else "proved")
    assert verdict.verdict == "refuted" or verdict.claims[0].source == "exhaustion"


def test_tracks_with_the_name_of_a_token_s_number() -> None:
    """A model that sees no token at all, only places."""
    witness = built("associative-recall", "transformer-2", "", n=2, keys=8, values=8)
    spec, tensors = parts_of(witness)
    spec = json.loads(json.dumps(spec).replace('"address"', '"value"'))
    for kind in ("key", "value"):
        word = tensors[f"inputs.{kind}.matrix"] * (0.5 if kind == "value" else 1)
        tensors[f"inputs.{kind}.tracks.value"] = tensors.pop(f"inputs.{kind}.tracks.address") + word
        if kind == "value":
            tensors["inputs.value.bias"] += word.sum(1)
        tensors[f"inputs.{kind}.matrix"] *= 0
    changed = with_parts(witness, (spec, tensors))
    assert certify(changed).verdict == "refuted"


def test_a_hard_sigmoid_far_beyond_its_end() -> None:
    witness = built("dyck", "rnn", "sigmoid-type activations", n=4, types=1, depth=2)
    spec, tensors = parts_of(witness)
    spec["activation"] = "hard-sigmoid"
    plain = with_parts(witness, (spec, tensors))
    assert certify(plain).claims[0].source == "S-E"
    far = {
        name: tensor * (2.0**70 if name.startswith(("update.from", "update.bias")) else 1)
        for name, tensor in tensors.items()
    }
    changed = with_parts(witness, (spec, far))
    assert is_wrong_somewhere(changed)
    assert certify(changed).verdict == "refuted"


def test_a_flag_that_is_read_twice_with_opposite_weights() -> None:
    """In float64 the terms cancel, or swallow what stands between them."""
    witness = built("match3", None, "last-output", n=3, modulus=5, variant="last")
    spec, tensors = parts_of(witness)
    width = spec["inputs"]["width"]
    spec["inputs"]["width"] = width + 3
    for name in ("inputs.residue.bias", "inputs.residue.matrix", "inputs.residue.tracks.last"):
        tensors[name] = wider(tensors[name], 0, 3)
    tensors["layers.0.output"] = wider(tensors["layers.0.output"], 0, 3)
    for name in ("inputs.appended", "layers.0.feed_forward.0.matrix"):
        tensors[name] = wider(tensors[name], 1, 3)
    for name in ("query", "key", "value"):
        tensors[f"layers.0.heads.0.{name}"] = wider(tensors[f"layers.0.heads.0.{name}"], 1, 3)
    tensors["inputs.residue.tracks.last"][width:] = 1
    assert certify(with_parts(witness, (spec, tensors))).claims[0].source != "exhaustion"
    tensors["layers.0.heads.0.value"][:, width:] = torch.tensor([2.0**60, -8.0, -(2.0**60)])
    changed = with_parts(witness, (spec, tensors))
    assert is_wrong_somewhere(changed)
    assert certify(changed).verdict == "refuted"


def test_values_that_cancel_before_they_are_gathered() -> None:
    """(2^19 + 1)(2^19 − 1) − 2^38 is −1, and 0 in float32."""
    witness = built("disjointness", "transformer-1", "linear size", n=4)
    spec, tensors = parts_of(witness)
    width = spec["inputs"]["width"]
    spec["inputs"]["width"] = width + 2
    for name in [each for each in tensors if each.startswith("inputs.") and not each.endswith("placed")]:
        tensors[name] = wider(tensors[name], 0, 2)
    for name in ("query", "key", "value"):
        tensors[f"layers.0.heads.0.{name}"] = wider(tensors[f"layers.0.heads.0.{name}"], 1, 2)
    track = next(each for each in tensors if ".tracks." in each)
    start = int(tensors[track].nonzero()[0, 0])
    value = tensors["layers.0.heads.0.value"]
    row = int(value[:, start].nonzero()[0, 0])
    held = float(tensors[track][start, 0] * value[row, start])
    tensors[track][start] = 0
    tensors[track][width:, 0] = torch.tensor([2.0**19 - 1, 2.0**19])
    value[row, width:] = torch.tensor([2.0**19 + 1, -(2.0**19)])
    tensors["layers.0.output"][:, row] *= -held
    assert certify(with_parts(witness, (spec, tensors), Float64())).claims[0].source == "UP-TF1"
    changed = with_parts(witness, (spec, tensors), Float32())
    assert is_wrong_somewhere(changed)
    assert certify(changed).verdict == "refuted"


@pytest.mark.slow
def test_numbers_of_places_that_are_clamped() -> None:
    """Later places look alike: the place's number times 8 leaves the range, and its eighth does not."""
    witness = built("associative-recall", "transformer-2", "", n=40, form="sequence", alphabet=2)
    spec, tensors = parts_of(witness)
    late, start = (int(tensors[f"inputs.symbol.tracks.{name}"].argmax()) for name in ("late", "start"))
    tensors["inputs.symbol.tracks.late"] *= 8
    key, query = tensors["layers.1.heads.0.key"], tensors["layers.1.heads.0.query"]
    row = int(key[:, late].nonzero()[0, 0])
    key[row, late], key[row, start] = 1 / 8, 50
    query[query > 0], query[query < 0] = 48, -2
    first = tensors["layers.0.heads.0.query"]
    first[first != 0] = 16
    changed = with_parts(witness, (spec, tensors), FixedNearest(p=17))
    row_of_tokens = torch.tensor([0] * 33 + [1, 0] + [1] * 5 + [1])
    changed.task.check(row_of_tokens)
    assert bool(wrong_rows(changed.model, changed.task, row_of_tokens.unsqueeze(0)))
    assert certify(changed).verdict != "proved"


def test_numbers_of_places_that_cancel_in_keys() -> None:
    """The difference of two large multiples of 3 is 3, and 0 in float32: place 3 looks like the first."""
    witness = built("associative-recall", "transformer-2", "", n=4, form="sequence", alphabet=2)
    spec, tensors = parts_of(witness)
    width = spec["inputs"]["width"]
    spec["inputs"]["width"] = width + 1
    for name in tensors:
        if name.startswith("inputs.") or name == "layers.0.output":
            tensors[name] = wider(tensors[name], 0, 1)
        elif ".heads." in name:
            tensors[name] = wider(tensors[name], 1, 1)
    late = int(tensors["inputs.symbol.tracks.late"].argmax())
    tensors["inputs.symbol.tracks.late"][width] = 1
    key = tensors["layers.1.heads.0.key"]
    row = int(key[:, late].nonzero()[0, 0])
    key[row, late], key[row, width] = 2**24 - 2, -(2**24 - 3)
    changed = with_parts(witness, (spec, tensors), Float32())
    assert is_wrong_somewhere(changed)
    assert certify(changed).verdict == "refuted"


def test_answers_that_are_no_numbers_are_wrong() -> None:
    witness = built("q-sparse-averaging", n=2, q=1, d=1)
    spec, tensors = parts_of(witness)
    for name, value in (("key", 1.7e308), ("query", 1.0), ("value", 1.0)):
        old = tensors[f"layers.0.heads.0.{name}"]
        tensors[f"layers.0.heads.0.{name}"] = torch.full_like(old, value)
    tensors["layers.0.output"] *= 1e308
    tensors["readout.matrix"] *= 1e308
    changed = with_parts(witness, (spec, tensors))
    rows = next(iter(changed.task.enumerate()))
    none = rows[changed.model.forward(rows).isnan().all(2).all(1)]
    assert len(none)
    assert first_wrong(changed.model, changed.task, [none]) is not None


def test_a_table_of_no_digits_does_not_move_the_others() -> None:
    task = make(TASKS.get("sparse-threshold"), {"n": 3, "k": 1, "function_seed": 16})
    witness = witness_for(task)
    spec, tensors = parts_of(witness)
    tracks = spec["inputs"]["tracks"]
    place = [each["name"] for each in tracks].index("table 1")
    code = {"kind": "digits", "count": 1}
    tracks.insert(place, {"name": "phantom", "rule": {"kind": "listed"}, "code": code})
    class_of(spec, "bit")["tracks"].append("phantom")
    tensors["inputs.lists.phantom"] = torch.zeros(3, dtype=torch.int64)
    tensors["inputs.bit.tracks.phantom"] = torch.zeros(spec["inputs"]["width"], 1, dtype=torch.float64)
    tensors["inputs.lists.table 1"] = torch.tensor([1, 1, 1])
    changed = with_parts(witness, (spec, tensors))
    assert is_wrong_somewhere(changed)
    assert certify(changed).verdict == "refuted"


def test_a_counterexample_is_replayed_in_its_own_arithmetic() -> None:
    witness = built("index-lookup", "transformer-1", n=16, alphabet=4)
    spec, tensors = parts_of(witness)
    tensors["layers.0.heads.0.query"] *= 0.3
    found = certify(with_parts(witness, (spec, tensors))).counterexample
    assert found is not None
    with pytest.raises(InvalidInput, match="in float64; got a witness of"):
        replay(with_parts(witness, (spec, tensors), Float32()), found)
