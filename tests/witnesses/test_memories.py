"""Linear-RNN gadgets: windows, running sums, recited sequences and remembered positions against lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.models.interface import CausalModel
from separatrix.precision import system_named
from separatrix.tasks import task
from separatrix.tasks.vocabulary import Vocabulary, numbered, words
from separatrix.witnesses.language import LayerScript, Program, Symbolic, build, joined
from separatrix.witnesses.language.forms import Linear, Term, as_linear
from separatrix.witnesses.language.memories import recite, remember_positions
from separatrix.witnesses.language.search_heads import Places
from separatrix.witnesses.language.words import Words

LONGEST = 12
VOCABULARY = Vocabulary(words("marks", "<s>", "go"), numbered("number", 6, first=1))
GO = 1

tokens = st.lists(st.integers(0, VOCABULARY.size - 1), min_size=1, max_size=LONGEST)


def value(token: int) -> int:
    return max(0, token - 1)


def program_of(write: Callable[[Program, Words], Term]) -> Program:
    program = Program(
        task("index-lookup", n=4), causal=True, gated=True, vocabulary=VOCABULARY, longest=LONGEST
    )
    program.answer_vector(as_linear(write(program, program.words())))
    return program


def check(program: Program, row: list[int], wanted: list[list[int]]) -> None:
    """Symbolically, in both arithmetics, and step by step."""
    inputs = torch.tensor(row)
    exact = [[Fraction(number) for number in numbers] for numbers in wanted]
    assert [list(here) for here in Symbolic().outputs(program, inputs)] == exact
    for arithmetic in ("float64", "nearest:25"):
        system = system_named(arithmetic)
        model = build(program, system).model
        assert system.decode(model.outputs(inputs[None]))[0].tolist() == exact
        assert isinstance(model, CausalModel)
        state = model.start(1)
        for token, numbers in zip(row, exact, strict=True):
            outputs, state = model.step(torch.tensor([token]), state)
            assert outputs[0].tolist() == numbers


def in_a_layer(write: Callable[[LayerScript, Words], Term]) -> Program:
    def whole(program: Program, known: Words) -> Term:
        with program.recurrent_layer() as layer:
            return write(layer, known)

    return program_of(whole)


@given(row=tokens, length=st.integers(1, 4))
@settings(max_examples=15, deadline=None)
def test_a_window_holds_the_last_tokens(row: list[int], length: int) -> None:
    program = in_a_layer(
        lambda layer, known: joined(layer.window("window", known.number("number"), length=length))
    )
    numbers = [value(token) for token in row]
    wanted = [
        [numbers[i - back] if i >= back else 0 for back in range(1, length + 1)] for i in range(len(row))
    ]
    check(program, row, wanted)


@given(row=tokens)
@settings(max_examples=15, deadline=None)
def test_a_running_sum_adds_up(row: list[int]) -> None:
    program = in_a_layer(
        lambda layer, known: layer.running_sum("sum", known.number("number"), low=0, high=6 * LONGEST)
    )
    check(program, row, [[sum(map(value, row[: i + 1]))] for i in range(len(row))])


@given(
    before=st.lists(st.integers(2, VOCABULARY.size - 1), max_size=4),
    after=st.lists(st.integers(2, VOCABULARY.size - 1), max_size=7),
    sequence=st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=5),
    again=st.booleans(),
)
@settings(max_examples=20, deadline=None)
def test_a_sequence_is_recited_from_the_word_on(
    before: list[int], after: list[int], sequence: list[tuple[int, int]], again: bool
) -> None:
    program = in_a_layer(lambda layer, known: recite(layer, "said", known.is_("go"), sequence, again=again))
    row = [*before, GO, *after]
    wanted = [[0, 0] for _ in before]
    for i in range(len(after) + 1):
        spoken = again or i < len(sequence)
        wanted.append(list(sequence[i % len(sequence)]) if spoken else [0, 0])
    check(program, row, wanted)


def test_a_sequence_is_recited_again_after_its_end() -> None:
    program = in_a_layer(lambda layer, known: recite(layer, "said", known.is_("go"), (5, 7)))
    check(program, [GO, 3, 3, GO, GO], [[5], [7], [0], [5], [5 + 7]])


@pytest.mark.parametrize("sequence", [(), ((1, 2), (3,))])
def test_a_sequence_needs_entries_of_one_size(sequence: Sequence[Sequence[int]]) -> None:
    with pytest.raises(InvalidInput, match="sequence to recite"):
        in_a_layer(lambda layer, known: recite(layer, "said", known.is_("go"), sequence))


@pytest.mark.slow
@given(row=tokens, positions=st.lists(st.integers(1, LONGEST), min_size=1, max_size=3, unique=True))
@settings(max_examples=20, deadline=None)
def test_given_positions_are_remembered(row: list[int], positions: list[int]) -> None:
    def write(program: Program, known: Words) -> Linear:
        places = Places(program)
        return joined(remember_positions(program, "kept", places.place, known.number("number"), positions))

    wanted = [
        [value(row[where - 1]) if where <= i + 1 else 0 for where in positions] for i in range(len(row))
    ]
    check(program_of(write), row, wanted)
