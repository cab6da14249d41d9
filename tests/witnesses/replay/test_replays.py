"""W-4.8: weights that replay circuits, against the circuits and against oracles that know nothing of them."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.generation.scripts import script_named
from separatrix.precision import FixedDown, FixedNearest, Float32
from separatrix.tasks import task
from separatrix.tasks.dyck import Dyck
from separatrix.witnesses import Choices
from separatrix.witnesses.language import Symbolic
from separatrix.witnesses.replay import (
    CircuitRuns,
    Constant,
    RecurrentCircuit,
    ReplayScript,
    Xor,
    circuit_replay,
    dyck_replay,
    replay,
)
from separatrix.witnesses.replay.compile import longest_text
from separatrix.witnesses.replay.examples import counter, dyck_circuit, parity

from .following import circuits, random_texts, slow_parity, unlike, written


def every_text(words: str, longest: int) -> list[list[str]]:
    return [list(t) for n in range(1, longest + 1) for t in itertools.product(words, repeat=n)]


def test_parity_is_written_gate_by_gate_on_every_text() -> None:
    witness = replay(parity(), n=6, choices=Choices())
    texts = every_text("ab", 6)
    chains = written(witness, texts)
    assert chains == [parity().chain(text) for text in texts]
    assert [chain[-1] for chain in chains] == [("EVEN", "ODD")[text.count("b") % 2] for text in texts]


def test_a_counter_counts_every_text() -> None:
    witness = replay(counter(bits=2), n=5, choices=Choices())
    texts = every_text("ab", 5)
    assert [chain[-1] for chain in written(witness, texts)] == [f"#{t.count('b') % 4}" for t in texts]


@pytest.mark.slow
def test_long_texts_are_followed() -> None:
    for circuit, n in ((parity(), 400), (counter(bits=4), 60)):
        witness = replay(circuit, n=n, choices=Choices())
        assert unlike(witness, circuit, random_texts(circuit, n=n, count=2, seed=n)) == []


@pytest.mark.slow
def test_longer_texts_are_followed_too() -> None:
    for circuit, n in ((parity(), 60), (counter(bits=4), 12)):
        witness = replay(circuit, n=n, choices=Choices())
        texts = random_texts(circuit, n=n, count=4, seed=n)
        assert unlike(witness, circuit, texts) == []
        assert written(witness, texts[:2]) == [circuit.chain(text) for text in texts[:2]]


def test_a_network_with_a_chain_of_its_own_is_followed_to_its_answer() -> None:
    circuit = slow_parity()
    witness = replay(circuit, n=4, choices=Choices(), steps=5)
    texts = every_text("ab", 4)
    assert written(witness, texts) == [circuit.chain(text, most_steps=len(text) + 1) for text in texts]


@pytest.mark.slow
@settings(max_examples=25)
@given(circuits(), st.integers(1, 5), st.integers(0, 99))
def test_any_circuit_is_followed(circuit: RecurrentCircuit, n: int, seed: int) -> None:
    witness = replay(circuit, n=n, choices=Choices())
    for length in {1, n}:
        assert unlike(witness, circuit, random_texts(circuit, n=length, count=4, seed=seed)) == []


def test_dyck_is_decided_as_the_oracle_does() -> None:
    strings = task("dyck", n=2)
    assert isinstance(strings, Dyck)
    witness = dyck_replay(strings, Choices())
    assert witness.task == strings
    (rows,) = strings.enumerate()
    assert _answers(witness.script, written(witness, _texts(rows))) == strings.solve(rows).answer.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(("n", "count"), [(4, 256), (8, 48), (32, 2)])
def test_dyck_at_greater_lengths(n: int, count: int) -> None:
    """All strings of 4 brackets, and longer ones, half of them members."""
    strings = task("dyck", n=n)
    assert isinstance(strings, Dyck)
    witness = dyck_replay(strings, Choices())
    rows = next(strings.enumerate()) if n == 4 else strings.sample(count, seed=n).inputs
    assert len(rows) == count
    chains = written(witness, _texts(rows))
    assert _answers(witness.script, chains) == strings.solve(rows).answer.tolist()
    circuit = dyck_circuit(strings)
    assert chains[:16] == [circuit.chain(text) for text in _texts(rows[:16])]


def test_parameters_grow_in_proportion_to_the_gates_and_not_with_n() -> None:
    gates = (8, 16, 32, 64, 128)
    sizes = {count: replay(_long_circuit(count), n=2, choices=Choices()).size for count in gates}
    counts = {count: size.parameters for count, size in sizes.items()}
    rates = {(counts[b] - counts[a]) / (b - a) for a, b in itertools.pairwise(gates)}
    # A hidden unit more: three rows of the width, and two biases.
    assert rates == {3 * sizes[8].width + 2}
    assert len({size.width for size in sizes.values()}) == 1
    assert replay(_long_circuit(16), n=64, choices=Choices()).size.parameters == counts[16]


def test_what_the_program_means_is_the_chain() -> None:
    circuit = counter(bits=2)
    witness = replay(circuit, n=3, choices=Choices())
    assert witness.built is not None
    assert witness.script is not None
    vocabulary = witness.script.vocabulary
    words = ["b", "a", "b"]
    text = ["<s>", *words, "=", *circuit.chain(words)]
    row = torch.tensor([vocabulary.token(word) for word in text])
    meant = Symbolic().outputs(witness.built.program, row[:-1])
    for place in range(len(words) + 1, len(text) - 1):
        scores = [score for score in meant[place] if score is not None]
        assert len(scores) == vocabulary.size
        assert vocabulary.word(scores.index(max(scores))) == text[place + 1]
        assert sorted(scores)[-2] <= max(scores) - 1


@pytest.mark.parametrize(("n", "bits"), [(4, 25), (16, 35)])
def test_so_many_bits_are_enough_and_two_fewer_are_not(n: int, bits: int) -> None:
    circuit = parity()
    texts = random_texts(circuit, n=n, count=8, seed=1)
    enough = replay(circuit, n=n, choices=Choices(system=FixedNearest(p=bits)))
    fewer = replay(circuit, n=n, choices=Choices(system=FixedNearest(p=bits - 2)))
    assert unlike(enough, circuit, texts) == []
    assert unlike(fewer, circuit, texts) != []


@pytest.mark.parametrize("system", [Float32(), FixedDown(n=64, k=4), FixedNearest(p=53)], ids=str)
def test_other_numbers_do_it_too(system: Float32 | FixedDown | FixedNearest) -> None:
    circuit = counter(bits=2)
    witness = replay(circuit, n=4, choices=Choices(system=system))
    assert unlike(witness, circuit, random_texts(circuit, n=4, count=8, seed=2)) == []


def test_the_task_of_a_circuit_says_what_it_answers() -> None:
    runs = CircuitRuns(n=3, circuit=parity())
    rows = torch.cat(list(runs.enumerate()))
    texts = every_text("ab", 3)
    assert [runs.render(row).split() for row in rows] == texts
    answers = [runs.render_target(answer) for answer in runs.solve(rows).answer]
    assert answers == [("EVEN", "ODD")[text.count("b") % 2] for text in texts]
    for row in rows:
        assert torch.equal(runs.parse(runs.render(row)), row)
        runs.check(row)
    witness = circuit_replay(runs, Choices())
    assert witness.script is not None
    assert witness.script.prompt(runs.parse("b a")) == [
        witness.script.vocabulary.token(word) for word in ("<s>", "b", "a", "=")
    ]
    assert witness.claims
    assert "circuit-runs" in str(witness)
    batch = runs.sample(20, seed=0)
    assert torch.equal(batch.targets, runs.solve(batch.inputs).targets)
    unanswered = CircuitRuns(n=3, circuit=slow_parity(), steps=3)
    assert not unanswered.solve(unanswered.parse("a b a").unsqueeze(0)).mask.any()
    assert unanswered.solve(unanswered.parse("a b").unsqueeze(0)).mask.any()


def test_what_cannot_be_replayed_is_told_in_a_sentence() -> None:
    with pytest.raises(InvalidInput, match="reads 1 to 3 of the words a b; got 'EVEN'"):
        CircuitRuns(n=3, circuit=parity()).parse("EVEN")
    with pytest.raises(InvalidInput, match="1 to 2\\^16 words; got n=0"):
        CircuitRuns(n=0, circuit=parity())
    with pytest.raises(InvalidInput, match="a step for each of n=4 words, and at most 2\\^20; got steps=3"):
        replay(parity(), n=4, choices=Choices(), steps=3)
    with pytest.raises(InvalidInput, match="may have 4,194,304 words; these steps need"):
        replay(counter(bits=8), n=8, choices=Choices(), steps=1 << 20)
    with pytest.raises(InvalidInput, match="12 at most; types=8 and depth=1000 need 8,005"):
        dyck_replay(Dyck(n=4, types=8, depth=1000), Choices())


def test_the_script_is_found_by_its_kind() -> None:
    script = script_named("replay", Dyck(n=4))
    assert isinstance(script, ReplayScript)
    assert script.limit == 4 * 55
    assert (
        script.vocabulary.render(torch.tensor(script.prompt(torch.tensor([0, 1, 2, 3])))) == "<s> ( ) [ ] ="
    )
    assert script.answer([7, 1]) == 1
    assert script.answer([1, 7]) is None
    assert script.answer([]) is None
    with pytest.raises(InvalidInput, match="not about index-lookup"):
        script_named("replay", task("index-lookup", n=4))


def test_the_longest_text_has_room_for_all_steps() -> None:
    assert longest_text(parity(), n=4, steps=6) == len(["<s>", *"abab", "="]) + 6 * 4


def _long_circuit(gates: int) -> RecurrentCircuit:
    """Words, state and output as parity has them, and as many gates as are asked for."""
    return RecurrentCircuit(
        name="long",
        reads=parity().reads,
        writes=parity().writes,
        start=(0,),
        gates=(*parity().gates, Constant(1), *(Xor(number - 1, 3) for number in range(4, gates))),
        state=(2,),
        output=(gates - 1,),
    )


def _texts(rows: torch.Tensor) -> list[list[str]]:
    return [["()[]"[token] for token in row] for row in rows.tolist()]


def _answers(script: object, chains: list[list[str]]) -> list[int | None]:
    assert isinstance(script, ReplayScript)
    return [script.answer([script.vocabulary.token(word) for word in chain]) for chain in chains]
