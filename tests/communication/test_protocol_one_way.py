"""S-T2: every model that reads from left to right, its state sent in the bits that its size states."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from separatrix.communication.protocols import arrange, comparisons, run_protocol, run_protocols
from separatrix.communication.protocols.carriers import carrier_of
from separatrix.communication.protocols.one_way import is_prefix
from separatrix.communication.protocols.packing import RowsReader, RowsWriter
from separatrix.communication.wire import BitString
from separatrix.errors import InvalidInput
from separatrix.models import MODELS
from separatrix.models.explicit.transformer import CausalTransformer
from separatrix.models.interface import CausalModel
from separatrix.models.population import CausalPopulation, Population, signature_of
from separatrix.models.quantised import Quantised
from separatrix.precision import FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks import Task, task
from separatrix.tasks.interface import Partition
from separatrix.witnesses import witness_for
from tests.communication.protocol_cases import (
    ONE_LAYER,
    RECURRENT,
    Case,
    answers,
    inputs_of,
    ran_on_garbage,
)

ZOO = ("lstm", "mamba", "linear-rnn", "retnet", "linear-transformer", "dss", "hybrid", "transformer", "llama")
FAMILIES = {
    "linear-rnn": "linear-rnn",
    "hybrid": "hybrid",
    "transformer": "transformer",
    "llama": "transformer",
}


def trained(name: str, made: Task, *, seed: int = 3, **options: Any) -> Population:
    """A model as it begins, stirred a little by its seed: what it computes does not matter here."""
    kind = MODELS.get(name)
    return kind(kind.Config(width=8, layers=2, **options), signature_of(made), members=1).initialise([seed])


@pytest.mark.slow
@pytest.mark.parametrize("case", RECURRENT, ids=str)
def test_witnesses_at_every_cut(case: Case) -> None:
    witness, made = case.built()
    inputs = inputs_of(made, 8)
    last = made.length - 1
    for cut in {1, made.length // 2, last}:
        split = Partition.prefix(made.length, cut)
        arrangement = arrange(witness, made, partition=split, at=[last])
        said = run_protocols(arrangement, inputs)
        assert all(each.agrees for each in said)
        assert {each.bits for each in said} == {
            witness.model.size(made.length, case.system.bits).state_bits(cut)
        }
        assert {each.rounds for each in said} == {1}
        assert [answers(each)[0] for each in said] == made.solve(inputs).answer.tolist()


@pytest.mark.parametrize("system", [Float32(), Float64()], ids=str)
@pytest.mark.parametrize("case", RECURRENT[:6:3], ids=str)
def test_floats_cross_as_they_are_stored(case: Case, system: NumberSystem) -> None:
    witness, made = case.built()
    said = run_protocols(arrange(witness, made, arithmetic=system), inputs_of(made, 5))
    assert all(each.agrees for each in said)
    cut = len(made.partitions()["prefix/suffix"].alice)
    assert said[0].bits == witness.model.size(made.length, system.bits).state_bits(cut)


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_trained_models_of_the_zoo(name: str) -> None:
    made = task("index-lookup", n=7, alphabet=4)
    population = trained(name, made)
    assert isinstance(population, CausalPopulation)
    inputs = inputs_of(made, 3)
    for cut in (1, 4, 7):
        arrangement = arrange(population, made, partition=Partition.prefix(8, cut), at=[7])
        said = run_protocols(arrangement, inputs)
        assert all(each.agrees for each in said)
        assert said[0].bits == population.size(8, 32).state_bits(cut)
        scores = population.member(0).forward(inputs)[:, 7].argmax(-1).tolist()
        assert [answers(each)[0] for each in said] == scores
    assert said[0].family == FAMILIES.get(name, "rnn")
    assert run_protocols(arrange(population.member(0), made), inputs)[0].family == said[0].family


def test_a_transcript_has_the_family_of_the_model_and_its_messages_the_bounds_of_any() -> None:
    """A cache is a state to S-T2, but a model that has one is not filed as a recurrent one."""
    made = task("index-lookup", n=7, alphabet=4)
    inputs = inputs_of(made, 1)
    recurrent = run_protocols(arrange(trained("lstm", made), made), inputs)[0]
    needed = [each.bound for each in comparisons(recurrent)]
    assert max(bound.at_least or 0 for bound in needed) == 14
    for name in ("hybrid", "transformer"):
        said = run_protocols(arrange(trained(name, made), made), inputs)[0]
        assert said.family == name
        assert f"by {name}, " in str(said)
        assert [each.bound for each in comparisons(said)] == needed
    grid = Quantised(trained("hybrid", made).member(0), bits=8)  # type: ignore[arg-type]
    assert arrange(grid, made).family == "hybrid"


def test_an_explicit_transformer_keeps_its_family_in_a_one_way_run() -> None:
    for case in ONE_LAYER:
        witness, made = case.built()
        if isinstance(witness.model, CausalTransformer) and any(map(is_prefix, made.partitions().values())):
            break
    for model in (witness, witness.model):
        assert arrange(model, made, protocol="S-T2").family == "transformer-1"
    hybrid = witness_for(task("index-lookup", n=4), family="hybrid")
    assert arrange(hybrid.model, task("index-lookup", n=4)).family == "hybrid"


def test_a_member_and_a_model_in_double_precision() -> None:
    made = task("index-lookup", n=5, alphabet=4)
    population = trained("lstm", made)
    row = inputs_of(made, 1)[0]
    one = run_protocol(population.member(0), made, row)
    assert one.agrees
    assert one.bits == 2 * 2 * 8 * 32
    wide = run_protocol(population.double(), made, row)
    assert wide.agrees
    assert wide.bits == 2 * one.bits


@pytest.mark.parametrize("bits", [1, 3, 8])
def test_a_state_on_a_grid_takes_the_bits_of_the_grid(bits: int) -> None:
    made = task("index-lookup", n=6, alphabet=4)
    member = trained("lstm", made).member(0)
    said = run_protocols(arrange(Quantised(member, bits=bits), made), inputs_of(made, 6))  # type: ignore[arg-type]
    assert all(each.agrees for each in said)
    assert said[0].bits == 2 * 2 * 8 * bits


def test_answers_between_the_questions_are_written_by_the_model() -> None:
    witness, made = Case("mqar", "rnn", FixedNearest(p=31), {"n": 6, "vocabulary_size": 16}).built()
    inputs, garbage = inputs_of(made, 6), inputs_of(made, 6, seed=4)
    arrangement = arrange(witness, made)
    said = ran_on_garbage(arrangement, inputs, garbage)
    assert all(each.agrees for each in said)
    labels = made.solve(inputs)
    for each, row in zip(said, labels.targets[labels.mask].reshape(6, 3).tolist(), strict=True):
        assert answers(each) == row


def test_bob_reads_what_the_model_wrote() -> None:
    """A network that is wrong goes on from its own answers, not from the right ones."""
    made = task("mqar", n=6, vocabulary_size=16)
    population = trained("lstm", made)
    assert isinstance(population, CausalPopulation)
    rows = inputs_of(made, 4)
    said = run_protocols(arrange(population, made), rows)
    assert all(each.agrees for each in said)
    model = population.member(0)
    found: list[Tensor] = []
    assert isinstance(model, CausalModel)
    with torch.no_grad():
        state = model.start(4)
        for place in range(11):
            token = found[-1] if place in (7, 9) else rows[:, place]
            scores, state = model.step(token, state)
            if place in (6, 8, 10):
                found.append(scores.argmax(-1))
    assert [answers(each) for each in said] == torch.stack(found, 1).tolist()
    assert not torch.equal(torch.stack(found, 1), rows[:, 7::2])


@pytest.mark.parametrize("case", RECURRENT[::3], ids=str)
def test_a_party_sees_nothing_of_the_other(case: Case) -> None:
    witness, made = case.built()
    said = ran_on_garbage(arrange(witness, made), inputs_of(made, 5), inputs_of(made, 5, seed=8))
    assert all(each.agrees for each in said)


def test_bob_needs_every_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flipping bits of the state changes what Bob finds, and a bit less is no state at all."""
    witness, made = RECURRENT[0].built()
    inputs, whole = inputs_of(made, 60), RowsWriter.done

    def flipped(self: RowsWriter) -> list[BitString]:
        return [
            BitString(bits=each.bits, data=bytes([each.data[0] ^ 0xFF, *each.data[1:]]))
            for each in whole(self)
        ]

    def short(self: RowsWriter) -> list[BitString]:
        return [
            BitString(bits=each.bits - 1, data=each.data[: -(-(each.bits - 1) // 8)]) for each in whole(self)
        ]

    arrangement = arrange(witness, made)
    with monkeypatch.context() as patched:
        patched.setattr("separatrix.communication.protocols.one_way.RowsWriter.done", flipped)
        patched.setattr("separatrix.communication.protocols.interface._MOST_SPELLED", 0)
        assert not all(each.agrees for each in run_protocols(arrangement, inputs))
    with monkeypatch.context() as patched:
        patched.setattr("separatrix.communication.protocols.one_way.RowsWriter.done", short)
        with pytest.raises(InvalidInput, match=f"has {arrangement.protocol.bits} bits in every run"):
            run_protocols(arrangement, inputs)


def test_a_state_comes_back_as_it_was() -> None:
    """Keys and values of heads of different widths, taken apart and put together again."""
    witness, made = RECURRENT[7].built()
    carrier = carrier_of(witness.model)
    inputs = inputs_of(made, 3)
    state = carrier.read(inputs[:, :4])
    before = [part.clone() for part in state.numbers().parts]
    writer = RowsWriter(3)
    carrier.write(state, writer, 4)
    messages = writer.done()
    assert messages[0].bits == carrier.state_bits(4)
    back = carrier.taken(RowsReader(messages), inputs[:, 4:], 4)
    assert all(torch.equal(*pair) for pair in zip(before, back.numbers().parts, strict=True))
    assert back.seen == 4


def test_a_storing_network_sends_hardly_more_than_must_be_sent() -> None:
    witness, made = Case("index-lookup", "rnn", FixedNearest(p=21), {"n": 16}).built()
    said = run_protocol(witness, made, inputs_of(made, 1)[0])
    first = comparisons(said)[0]
    assert (first.bits, int(first.bound.at_least or 0), first.enough) == (104, 96, True)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"partition": "odd/even"}, "runs a model on a prefix and a suffix"),
        ({"partition": Partition(alice=(), bob=tuple(range(10)))}, "runs a model on a prefix and a suffix"),
        ({"partition": Partition(alice=tuple(range(10)), bob=())}, "runs a model on a prefix and a suffix"),
        ({"partition": Partition.prefix(10, 5), "at": [2]}, "got position 3 of a prefix of 5"),
        ({"protocol": "S-T4"}, "explicit Transformers of one layer; got RecurrentModel"),
        ({"partition": "5-3"}, "5-3"),
    ],
)
def test_what_cannot_be_run_is_refused(options: dict[str, Any], sentence: str) -> None:
    witness, made = RECURRENT[0].built()
    with pytest.raises(InvalidInput, match=sentence):
        arrange(witness, made, **options)


def test_models_without_a_state_are_refused() -> None:
    witness, made = ONE_LAYER[7].built()
    with pytest.raises(InvalidInput, match="UnmaskedTransformer sees its input at once"):
        arrange(witness, made, protocol="S-T2", partition=Partition.prefix(8, 4))
    looking = trained("transformer", made, causal=False)
    with pytest.raises(InvalidInput, match="sees its input at once"):
        arrange(looking, made)
    kind, small = MODELS.get("lstm"), task("index-lookup", n=4)
    two = kind(kind.Config(width=8), signature_of(small), members=2).initialise([1, 2])
    with pytest.raises(InvalidInput, match="one model; this population has 2"):
        arrange(two, small)
    with pytest.raises(InvalidInput, match="only an explicit one takes an arithmetic"):
        arrange(trained("lstm", small), small, arithmetic=Float64())
    writing, chain = Case("turing", "linear-rnn-cot", Float64(), {"n": 2, "form": "cot"}).built()
    with pytest.raises(InvalidInput, match="writes before that"):
        arrange(writing, chain)
    with pytest.raises(InvalidInput, match="This witness was built for"):
        arrange(RECURRENT[0].built()[0], small)


@pytest.mark.slow
def test_thousands_of_runs_agree_bit_for_bit() -> None:
    runs = 0
    for case in RECURRENT:
        witness, made = case.built()
        for seed in range(2):
            said = run_protocols(arrange(witness, made), inputs_of(made, 250, seed=seed))
            assert all(each.agrees for each in said)
            runs += len(said)
    assert runs == 4_000
