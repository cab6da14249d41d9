"""S-T4: one-layer Transformers under every split, bit for bit the direct run, in as many bits as stated."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.communication.protocols import arrange, artefacts, run_protocol, run_protocols
from separatrix.communication.protocols.any_partition import AnyPartition, Query
from separatrix.communication.protocols.attention_parts import AttentionPart, largest_part, largest_sum
from separatrix.communication.protocols.packing import RowsWriter, numbers_of, steps_of
from separatrix.communication.wire import BitString
from separatrix.errors import InvalidInput, SeparatrixError, UnknownName
from separatrix.precision import FixedDown, FixedNearest, FixedPoint, Float32, Integers, NumberSystem, stack
from separatrix.tasks import task
from separatrix.tasks.interface import Partition, Task
from separatrix.theorems import THEOREMS
from separatrix.witnesses import Choices, witness_for
from tests.communication.protocol_cases import (
    ONE_LAYER,
    Case,
    answers,
    inputs_of,
    ran_on_garbage,
    random_transformer,
    split_texts,
)

TINY: tuple[FixedPoint, ...] = (
    FixedDown(n=2, k=1),
    FixedDown(n=3, k=2),
    FixedDown(n=10, k=2),
    FixedNearest(p=3),
    FixedNearest(p=7),
    FixedNearest(p=15),
    FixedNearest(p=71),
)


@pytest.mark.slow
@pytest.mark.parametrize("case", ONE_LAYER, ids=str)
def test_witnesses_under_every_split(case: Case) -> None:
    witness, made = case.built()
    inputs = inputs_of(made, 12)
    splits = (None, f"1-{made.length - 1}", f"2,{made.length}")
    for split, query in zip(splits, get_args(Query), strict=True):
        arrangement = arrange(witness, made, partition=split, query=query)
        said = run_protocols(arrangement, inputs)
        assert all(each.agrees for each in said), split
        assert {each.bits for each in said} == {arrangement.protocol.bits}
        assert said[0].protocol == "S-T4"
        assert said[0].family == "transformer-1"
        if witness.model.classes is not None:
            found = [answers(each)[0] for each in said]
            assert found == made.solve(inputs).answer.tolist()


@pytest.mark.slow
@given(st.data())
@settings(max_examples=15, deadline=None)
def test_random_transformers_in_coarse_numbers(data: st.DataObject) -> None:
    """Where results are clamped and rounded all the time, nothing is as it would be in real numbers."""
    made = task("dyck", n=6)
    model = random_transformer(
        made,
        data.draw(st.integers(0, 10_000)),
        heads=data.draw(st.integers(1, 3)),
        causal=data.draw(st.booleans()),
        own=data.draw(st.integers(0, 2)),
        psi=data.draw(st.booleans()),
        system=data.draw(st.sampled_from(TINY)),
        reach=data.draw(st.sampled_from([1, 8, 40])),
    )
    alice = data.draw(st.sets(st.integers(0, 5)))
    split = Partition(alice=tuple(sorted(alice)), bob=tuple(sorted(set(range(6)) - alice)))
    at = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True))
    inputs = inputs_of(made, 8, seed=data.draw(st.integers(0, 100)))
    arrangement = arrange(model, made, partition=split, at=at)
    said = run_protocols(arrangement, inputs)
    assert all(each.agrees for each in said)
    assert {each.bits for each in said} == {arrangement.protocol.bits}


def closed_form(public: AnyPartition, system: FixedPoint) -> int:
    """Counted by hand: vector, two maxima, two sums, one part of each weighted sum, the answer."""
    keys, p = public.keys, system.bits
    sums = math.ceil(math.log2(min(keys * system.one, system.limit) + 1))
    parts = math.ceil(math.log2(2 * largest_part(system, keys) + 1))
    heads = public.model.layers[0].heads
    classes = public.model.classes
    answer = math.ceil(math.log2(classes)) if classes else public.model.readout.map.out * p
    return public.model.inputs.width * p + sum(2 * p + 2 * sums + head.out * parts for head in heads) + answer


@pytest.mark.parametrize("case", ONE_LAYER[:9], ids=str)
def test_bits_are_those_that_the_theorem_allows(case: Case) -> None:
    witness, made = case.built()
    arrangement = arrange(witness, made)
    public = arrangement.protocol
    assert isinstance(public, AnyPartition)
    assert isinstance(case.system, FixedPoint)
    assert public.bits == closed_form(public, case.system)
    printed, counted = public.counts()
    heads, p, log_n = public.heads, case.system.bits, math.log2(public.keys)
    assert printed.bits == math.ceil(sum(3 * max(h.inner, h.out) * (p + log_n) for h in heads))
    assert public.bits <= counted.bits
    # The proof's own steps, with its answer sent back: d, m and H as they are.
    steps = sum(4 * p + 2 * log_n + 2 * p * max(h.inner, h.out) for h in heads)
    assert counted.bits == math.ceil(public.model.inputs.width * p + steps) + public.answer_bits


def test_a_token_is_shorter_than_its_vector_and_says_as_much() -> None:
    witness, made = ONE_LAYER[0].built()
    row = inputs_of(made, 1)[0]
    vector = run_protocol(witness, made, row)
    token = run_protocol(witness, made, row, query="token")
    queries = run_protocol(witness, made, row, query="queries")
    assert token.output == vector.output == queries.output
    inner = witness.model.layers[0].heads[0].inner  # type: ignore[attr-defined]
    assert vector.bits - queries.bits == (witness.size.width - inner) * 18
    width, p, words = witness.size.width, 18, 5 + 12 + 1  # symbols, indices, padding
    assert vector.bits - token.bits == width * p - (words - 1).bit_length()


@pytest.mark.parametrize("system", TINY, ids=str)
def test_no_part_of_a_weighted_sum_is_wider_than_was_proven(system: FixedPoint) -> None:
    """The worst that weights and values can do: all keys alike, all values at an end of the range."""
    generator = torch.Generator().manual_seed(3)
    for keys in (1, 2, 3, 7, 20):
        logits = torch.randint(-3, 1, (300, keys), generator=generator)
        logits[0] = 0
        weights = system.softmax(system.encode(logits))
        ends = (-system.limit, system.limit - 1, system.limit, -1, 1)
        chosen = torch.randint(0, 5, (300, keys), generator=generator)
        chosen[:3] = torch.arange(3)[:, None]
        values = [ends[place] for place in chosen.reshape(-1).tolist()]
        steps = Integers.from_ints(values, (300, keys), bits=system.limit.bit_length())
        products = system.multiply(weights, numbers_of(system, steps))
        worst = max(abs(steps) for steps in steps_of(products).sum(1).to_ints())
        assert worst <= largest_part(system, keys)
        assert max(steps_of(system.sum(system.exp(system.encode(logits)), 1)).to_ints()) <= largest_sum(
            system, keys
        )


@pytest.mark.slow
@pytest.mark.parametrize("case", [ONE_LAYER[0], ONE_LAYER[3], ONE_LAYER[7], ONE_LAYER[10]], ids=str)
def test_a_party_sees_nothing_of_the_other(case: Case) -> None:
    witness, made = case.built()
    inputs, garbage = inputs_of(made, 6), inputs_of(made, 6, seed=9)
    for split in split_texts(made.length):
        arrangement = arrange(witness, made, partition=split)
        assert all(each.agrees for each in ran_on_garbage(arrangement, inputs, garbage))


def test_messages_alternate_as_the_proof_has_them() -> None:
    witness, made = ONE_LAYER[3].built()
    said = run_protocol(witness, made, inputs_of(made, 1)[0], partition="odd/even", keep=True)
    assert [(each.sender, each.name) for each in said.messages] == [
        ("Bob", "the query's vector"),
        ("Bob", "largest logits"),
        ("Alice", "largest logits"),
        ("Alice", "sums of exps"),
        ("Bob", "sums of exps"),
        ("Alice", "parts of the weighted sums"),
        ("Bob", "the answer"),
    ]
    assert said.rounds == 5
    assert all(each.payload is not None for each in said.messages)


def wrong_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    right = AttentionPart.raise_top

    def only_mine(self: AttentionPart, other: Any) -> None:
        right(self, self.top())

    monkeypatch.setattr(AttentionPart, "raise_top", only_mine)


def products_rounded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact sum of unrounded products, rounded at its end, as if that were the same."""

    def part(self: Any) -> Integers:
        if self._exps is None:
            return Integers.of(torch.zeros(self._batch, self.out, dtype=torch.int64), 0)
        weights = self._system.divide(self._exps, self._total[:, None])
        return steps_of(self._system.matmul(weights[:, None], self._values)[:, 0])

    monkeypatch.setattr(AttentionPart, "part", part)


def half_of_z(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AttentionPart, "set_total", _larger_total)


def _larger_total(self: Any, other: Any) -> None:
    self._total = self._system.max(stack([self.total(), other], -1), -1)


@pytest.mark.parametrize("spoil", [wrong_maximum, products_rounded_once, half_of_z])
def test_a_step_done_otherwise_is_seen(
    spoil: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = task("dyck", n=6)
    model = random_transformer(
        made, 5, heads=2, causal=False, own=1, psi=True, system=FixedDown(n=10, k=2), reach=4
    )
    inputs = inputs_of(made, 40)
    arrangement = arrange(model, made)
    assert all(each.agrees for each in run_protocols(arrangement, inputs))
    spoil(monkeypatch)
    assert not all(each.agrees for each in run_protocols(arrangement, inputs))


def test_a_message_one_bit_short_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    witness, made = ONE_LAYER[0].built()
    whole = RowsWriter.done

    def short(self: RowsWriter) -> list[BitString]:
        return [
            BitString(bits=each.bits - 1, data=each.data[: -(-(each.bits - 1) // 8)]) for each in whole(self)
        ]

    inputs = inputs_of(made, 2)
    monkeypatch.setattr(RowsWriter, "done", short)
    with pytest.raises(InvalidInput, match="has 198 bits in every run; got 197"):
        run_protocols(arrange(witness, made, arithmetic=FixedDown(n=16, k=2)), inputs)


@pytest.mark.parametrize(
    ("case", "options", "refusal", "sentence"),
    [
        (ONE_LAYER[3], {"partition": "1-4/6-8"}, InvalidInput, "position 5 is given to nobody"),
        (
            ONE_LAYER[3],
            {"partition": Partition(alice=(0, 1), bob=(2, 3))},
            InvalidInput,
            "position 5 is given to nobody",
        ),
        (ONE_LAYER[3], {"at": [8]}, InvalidInput, "some of the 8 positions of an input; got position 9"),
        (ONE_LAYER[3], {"at": []}, InvalidInput, "got none"),
        (ONE_LAYER[3], {"protocol": "S-T3"}, UnknownName, "There is no protocol 'S-T3'"),
        (ONE_LAYER[3], {"protocol": "R-G"}, InvalidInput, "Row by row runs explicit graph Transformers"),
        (
            Case("match3", "third-order", FixedNearest(p=41), {"n": 4, "modulus": 8}),
            {},
            InvalidInput,
            "attends to pairs",
        ),
    ],
)
def test_what_cannot_be_run_is_refused(
    case: Case, options: dict[str, Any], refusal: type[SeparatrixError], sentence: str
) -> None:
    witness, made = case.built()
    with pytest.raises(refusal, match=sentence):
        arrange(witness, made, **options)


def test_every_protocol_that_is_owed_is_here() -> None:
    owed = {each for entry in THEOREMS.values() for each in entry.artefacts if each.kind == "protocol"}
    assert set(artefacts()) == owed


def test_floats_are_refused_because_their_sums_depend_on_the_order() -> None:
    witness, made = ONE_LAYER[3].built()
    with pytest.raises(InvalidInput, match=r"exact in p-bit arithmetic.*got float32\. Try down:16,2"):
        arrange(witness, made, arithmetic=Float32())


def test_an_input_that_is_too_short_is_refused() -> None:
    witness, made = ONE_LAYER[0].built()
    with pytest.raises(InvalidInput, match="13 words with n=12; got 3"):
        run_protocol(witness, made, made.parse("s1 s2 @1"))
    with pytest.raises(InvalidInput, match=r"inputs of 13 positions; got \(2, 5\)"):
        run_protocols(arrange(witness, made), torch.zeros(2, 5, dtype=torch.int64))


SYSTEMS: dict[str, tuple[NumberSystem, ...]] = {
    "index-lookup": (FixedDown(n=16, k=2), FixedNearest(p=31)),
    "dyck": (FixedDown(n=8, k=2), FixedNearest(p=25)),
    "match2": (FixedDown(n=16, k=4), FixedNearest(p=25)),
    "disjointness": (FixedNearest(p=21), FixedNearest(p=71)),
}


@pytest.mark.slow
def test_ten_thousand_runs_agree_bit_for_bit() -> None:
    made: dict[str, Task] = {
        "index-lookup": task("index-lookup", n=12, alphabet=8),
        "dyck": task("dyck", n=10),
        "match2": task("match2", n=8, modulus=11),
        "disjointness": task("disjointness", n=10),
    }
    runs = 0
    for name, each in made.items():
        for system in SYSTEMS[name]:
            witness = witness_for(each, family="transformer-1", choices=Choices(system=system))
            for number, split in enumerate(split_texts(each.length)):
                arrangement = arrange(witness, each, partition=split)
                said = run_protocols(arrangement, inputs_of(each, 250, seed=number))
                assert all(transcript.agrees for transcript in said)
                assert {transcript.bits for transcript in said} == {arrangement.protocol.bits}
                runs += len(said)
    assert runs == 10_000
