"""Circuits: what they compute, the chains that replay them, and what is no circuit."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.tasks import task
from separatrix.tasks.dyck import Dyck
from separatrix.witnesses.replay import And, Constant, InputBit, RecurrentCircuit, StateBit, Xor
from separatrix.witnesses.replay.examples import counter, dyck_circuit, parity

from .following import circuits, following_word, random_texts, slow_parity

PARITY: dict[str, Any] = {
    "name": "parity",
    "reads": {"a": (0,), "b": (1,)},
    "writes": ("EVEN", "ODD"),
    "start": (0,),
    "gates": (InputBit(0), StateBit(0), Xor(0, 1)),
    "state": (2,),
    "output": (2,),
}


def every_text(words: str, longest: int) -> list[list[str]]:
    return [list(t) for n in range(1, longest + 1) for t in itertools.product(words, repeat=n)]


def test_parity_and_counters_count_every_text() -> None:
    for text in every_text("ab", 7):
        count = text.count("b")
        assert parity().run(text).answer == ("EVEN", "ODD")[count % 2]
        assert counter(bits=2).run(text).answer == f"#{count % 4}"
        assert counter(bits=5).run(text).answer == f"#{count}"


def test_a_network_may_think_first() -> None:
    for text in every_text("ab", 6):
        run = slow_parity().run(text, most_steps=len(text) + 1)
        assert run.answer == ("EVEN", "ODD")[text.count("b") % 2]
        assert [step.read for step in run.steps] == [*text, "hm"]
        assert slow_parity().run(text).answer is None
        assert slow_parity().run(text, most_steps=len(text) - 1).answer is None


@pytest.mark.parametrize(
    "n", [2, 4, pytest.param(6, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow)]
)
def test_the_dyck_networks_gates_answer_as_the_oracle_does_on_every_string(n: int) -> None:
    strings = task("dyck", n=n)
    assert isinstance(strings, Dyck)
    circuit = dyck_circuit(strings)
    for rows in strings.enumerate():
        right = strings.solve(rows).answer.tolist()
        for row, member in zip(rows.tolist(), right, strict=True):
            assert circuit.run(["()[]"[token] for token in row]).answer == ("NO", "YES")[member]


def test_other_dyck_languages_have_gates_too() -> None:
    strings = task("dyck", n=12, types=1, depth=3)
    assert isinstance(strings, Dyck)
    circuit = dyck_circuit(strings)
    batch = strings.sample(50, seed=3)
    answers = [circuit.run(["()"[token] for token in row]).answer for row in batch.inputs.tolist()]
    assert answers == [("NO", "YES")[member] for member in strings.solve(batch.inputs).answer.tolist()]
    with pytest.raises(InvalidInput, match="form='recognise'; got form='next'"):
        dyck_circuit(Dyck(n=4, form="next"))


@given(circuits(), st.integers(1, 5), st.integers(0, 99))
def test_a_chain_is_what_its_places_say(circuit: RecurrentCircuit, n: int, seed: int) -> None:
    (words,) = random_texts(circuit, n=n, count=1, seed=seed)
    text = ["<s>", *words, "="]
    while text[-1] not in circuit.answers:
        text.append(following_word(circuit, text))
    assert text[n + 2 :] == circuit.chain(words)
    assert len(circuit.chain(words)) == n * (len(circuit.gates) + 1)


def test_the_chain_of_a_network_that_thinks_holds_its_words() -> None:
    circuit = slow_parity()
    chain = circuit.chain(["b", "a"], most_steps=3)
    width = len(circuit.gates) + 1
    assert chain[width - 1 :: width] == ["a", "hm", "ODD"]
    text = ["<s>", "b", "a", "="]
    for word in chain:
        assert following_word(circuit, text) == word
        text.append(word)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gates": ()}, "has 0 gates; give it 1 to"),
        ({"gates": (InputBit(0), StateBit(0), Xor(0, 2))}, "gate 2 = gate 0 XOR gate 2"),
        ({"gates": (InputBit(0), StateBit(0), And(-1, 0))}, "gate 2 = gate -1 AND gate 0"),
        ({"gates": (InputBit(1), StateBit(0), Xor(0, 1))}, "gate 0 = input 1; .* one of 1 bits"),
        ({"gates": (InputBit(0), StateBit(1), Xor(0, 1))}, "gate 1 = state 1"),
        ({"gates": (Constant(2), StateBit(0), Xor(0, 1))}, "gate 0 = 2; a gate is a constant 0 or 1"),
        ({"start": (2,)}, r"starts in \(2,\); a state is made of zeros and ones"),
        ({"start": (0, 0)}, "names 1 gates as the next state, which has 2 bits"),
        ({"state": (3,)}, "takes gate 3 for its state; its gates are 0 to 2"),
        ({"output": (-1,)}, "takes gate -1 for its output"),
        ({"output": ()}, "2 words to write for 0 bits of output"),
        ({"writes": ("EVEN", "ODD", "OTHER")}, "has 3 words to write for 1 bits of output"),
        ({"writes": ("a", "b")}, "never answers"),
        ({"reads": {"a": (0,), "b": (1, 1)}}, r"words of \[1, 2\] bits"),
        ({"reads": {"a": (0,), "b": (7,)}}, "the same number of bits"),
        ({"reads": {"0": (0,), "b": (1,)}}, "has the word '0'; .* none of <s> = 0 1 <pad>"),
        ({"reads": {"two words": (0,)}}, "no space"),
        ({"reads": {}}, r"words of \[\] bits"),
    ],
)
def test_what_is_no_circuit_is_told_in_a_sentence(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        RecurrentCircuit(**{**PARITY, **change})


def test_words_that_are_not_read_are_named() -> None:
    with pytest.raises(InvalidInput, match="parity reads a b; got 'c'"):
        parity().run(["a", "c"])
    with pytest.raises(InvalidInput, match="needs one word or more; got none"):
        parity().run([])
    with pytest.raises(InvalidInput, match="1 to 8 bits; got bits=9"):
        counter(bits=9)


def test_a_circuit_can_be_shown() -> None:
    shown = str(parity())
    assert "2 = gate 0 XOR gate 1" in shown
    assert "next state: gate 2" in shown
