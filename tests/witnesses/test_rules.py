"""Rules: the plain interpreter, the meaning of the gadgets, their units and their weights say the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.precision import FixedNearest, Float64
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.vocabulary import Vocabulary, numbered, words
from separatrix.witnesses.language import Program, Symbolic, build
from separatrix.witnesses.language.exact import ExactReals
from separatrix.witnesses.language.forms import Field, Linear, as_linear
from separatrix.witnesses.language.operations import Gadget, Undecided
from separatrix.witnesses.language.rules import (
    Bits,
    Differs,
    Equals,
    Number,
    Rule,
    Word,
    bits_of_rules,
    decide_by_rules,
    interpret,
    write_by_rules,
)

NUMBERS = 4
LONGEST = 5
SAID = Vocabulary(words("letter", "a", "b", "c"), numbered("digit", NUMBERS), padded=True)
Make = Callable[[list[Linear], list[Linear]], list[Rule]]


def field(name: str, low: int = -8, high: int = 8) -> Field:
    return Field(name=name, dim=1, low=Fraction(low), high=Fraction(high), note="")


def ids() -> dict[str, int]:
    return {"a": 1, "b": 2, "c": 3, "digit": 4}


def past(text: Sequence[str]) -> tuple[list[int], list[int]]:
    """Kinds and numbers of the last three tokens, nearest first; 0 before the start."""
    kinds = [ids()["digit" if word.isdigit() else word] for word in text]
    numbers = [int(word) if word.isdigit() else 0 for word in text]
    return ([*kinds[::-1], 0, 0][:3], [*numbers[::-1], 0, 0][:3])


def forms() -> tuple[list[Field], list[Field]]:
    return [field(f"kind {i}", 0) for i in range(3)], [field(f"number {i}", 0) for i in range(3)]


def in_plain(make: Make, text: Sequence[str]) -> str | None:
    kinds, numbers = forms()
    rules = make([as_linear(each) for each in kinds], [as_linear(each) for each in numbers])
    held = {
        each: (value,) for each, value in zip([*kinds, *numbers], itertools.chain(*past(text)), strict=True)
    }
    written = interpret(rules, held)
    return written if written is None or isinstance(written, str) else str(written[1])


def compiled(make: Make, *, layers: int) -> Program:
    """As three recurrent layers (window, bits, rules), or with the bits beside the window, in two."""
    program = Program(IndexLookup(n=4, alphabet=2), causal=True, gated=True, vocabulary=SAID, longest=LONGEST)
    known = program.words()
    with program.recurrent_layer() as layer:
        kinds = [known.kind, *layer.window("kinds", known.kind, length=2)]
        numbers = [known.number("digit"), *layer.window("numbers", known.number("digit"), length=2)]
        rules = make(kinds, numbers)
        bits = bits_of_rules(layer, rules) if layers == 2 else Bits({})
    if layers == 3:
        write_by_rules(program, rules, layer_kind="recurrent")
    else:
        with program.recurrent_layer() as layer:
            decide_by_rules(program, layer, rules, bits)
    return program


def texts() -> list[list[str]]:
    spelled = ["a", "b", "c", *map(str, range(NUMBERS))]
    return [list(text) for length in (1, 2, 3) for text in itertools.product(spelled, repeat=length)]


def said(scores: Sequence[object]) -> str:
    return SAID.word(max(range(SAID.size - 1), key=lambda token: scores[token]))  # type: ignore[arg-type, return-value]


def example(kinds: list[Linear], numbers: list[Linear]) -> list[Rule]:
    """b after a; the number before c; after two digits their difference if it is not negative …"""
    is_ = ids()
    two = (Equals(kinds[0], is_["digit"]), Equals(kinds[1], is_["digit"]))
    return [
        Rule((Equals(kinds[0], is_["a"]),), Word("b")),
        Rule((Equals(kinds[0], is_["c"]), Equals(kinds[1], is_["digit"])), Number("digit", numbers[1])),
        Rule((Equals(kinds[0], is_["c"]), Differs(kinds[1], is_["digit"])), Word("a")),
        Rule((*two, Equals(numbers[0] - numbers[1], 0)), Number("digit", as_linear(NUMBERS - 1))),
        Rule((*two, Equals(numbers[0] - numbers[1], 2)), Number("digit", numbers[0] - numbers[1])),
        Rule(
            (*two, Differs(numbers[0] - numbers[1], 0), Differs(numbers[0] - numbers[1], 2)),
            Word("c"),
        ),
        Rule((Equals(kinds[0], is_["digit"]), Differs(kinds[1], is_["digit"])), Number("digit", numbers[0])),
    ]


def expected(text: Sequence[str]) -> str | None:
    """The example once more, without rules."""
    last, before = text[-1], text[-2] if len(text) > 1 else ""
    if last == "a":
        return "b"
    if last == "b":
        return None
    if last == "c":
        return before if before.isdigit() else "a"
    if not before.isdigit():
        return last
    apart = int(last) - int(before)
    return {0: str(NUMBERS - 1), 2: "2"}.get(apart, "c")


def test_the_plain_interpreter_says_what_the_rules_say() -> None:
    for text in texts():
        assert in_plain(example, text) == expected(text), text


def test_rules_that_overlap_are_a_mistake() -> None:
    number = field("number")
    rules = [Rule((Equals(number, 1),), Word("a")), Rule((Differs(number, 2),), Word("b"))]
    assert interpret(rules, {number: (0,)}) == "b"
    with pytest.raises(InvalidInput) as caught:
        interpret(rules, {number: (1,)})
    assert str(caught.value) == (
        "At most one rule may apply, and here 2 do: numbers 1 (writes a) and 2 (writes b); add a condition "
        "that tells them apart."
    )
    with pytest.raises(InvalidInput, match=r"here 4 do: numbers 1 .* and 3 \(writes a digit\) and more;"):
        interpret([*rules, Rule((), Number("digit", number)), Rule((), Word("c"))], {number: (1,)})


NUMBER = field("number")
WIDE = Field(name="wide", dim=2, low=Fraction(0), high=Fraction(1), note="")
ONE = Equals(NUMBER, 1)


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (Rule, (ONE, Word("a")), "with a comma behind a single one; got a Equals."),
        (Rule, ([ONE], Word("a")), "A rule has a tuple of conditions, as in Rule((Equals(form, 1),), …)"),
        (Rule, ((ONE, True), Word("a")), "conditions of a rule are Equals or Differs; got True."),
        (Rule, ((ONE,), "a"), 'A rule writes Word("…") or Number("block", form); got \'a\'.'),
        (Rule, ((ONE,), ("digit", NUMBER)), "form); got a tuple."),
        (Word, (3,), 'A word to write is a text, as in Word("done"); got 3.'),
        (Number, (NUMBER, "digit"), "A Number names its block of words first; got a Field."),
        (Number, ("digit", "number"), "A Number is about a field, a form or an exact number; got 'number'."),
        (Number, ("digit", WIDE), "A Number is about one number; got a form of 2."),
        (Equals, ("kind", 1), "Equals is about a field, a form or an exact number; got 'kind'."),
        (Differs, (WIDE, 1), "Differs is about one number; got a form of 2."),
        (Equals, (NUMBER, "a"), "Equals compares with a whole number; got 'a'."),
        (Differs, (NUMBER, 0.5), "Differs compares with a whole number; got 0.5."),
    ],
)
def test_what_is_no_rule_is_refused_where_it_is_made(
    kind: Callable[..., object], given: tuple[object, ...], words: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        kind(*given)
    assert words in str(caught.value)


@pytest.mark.parametrize("layers", [2, 3])
def test_weights_write_what_the_rules_say(layers: int) -> None:
    program = compiled(example, layers=layers)
    everything = texts()
    exact = build(program, Float64()).model
    rounded = build(program, FixedNearest(p=9)).model
    for length in (1, 2, 3):
        now = [text for text in everything if len(text) == length]
        rows = torch.tensor([[SAID.token(word) for word in text] for text in now])
        for model in (exact, rounded):
            best = model.forward(rows)[:, -1, : SAID.size - 1].argmax(-1).tolist()
            for text, token in zip(now, best, strict=True):
                wanted = in_plain(example, text)
                assert wanted is None or SAID.word(token) == wanted, text


@pytest.mark.slow
def test_meaning_and_units_agree_on_texts() -> None:
    program = compiled(example, layers=2)
    for text in texts()[::5]:
        row = torch.tensor([SAID.token(word) for word in text])
        wanted = in_plain(example, text)
        meant = Symbolic().outputs(program, row)[-1]
        units = ExactReals({}).outputs(program, row)[-1]
        assert wanted is None or said(meant) == wanted
        assert [float(number) for number in units] == [float(number) for number in meant]  # type: ignore[arg-type]


def test_equal_conditions_share_a_bit() -> None:
    def thrice(kinds: list[Linear], numbers: list[Linear]) -> list[Rule]:
        return [
            Rule((Equals(kinds[0], 1), Equals(numbers[1] - numbers[2], 0)), Word("a")),
            Rule((Equals(kinds[0], 1), Differs(numbers[1] - numbers[2] + 1, 1)), Word("b")),
            Rule((Equals(2 + kinds[0], 4), Equals(kinds[1] * 1, 1)), Word("c")),
        ]

    assert len(compiled(thrice, layers=2).layers[0].gadgets) == 4


class Held:
    """A layer that only collects gadgets, and a program that only collects the answer."""

    def __init__(self) -> None:
        self.gadgets: list[Gadget] = []
        self.numbers: Mapping[str, tuple[Linear, Linear]] = {}
        self.words: Mapping[str, Linear] = {}

    def gadget(
        self, make: Callable[[Callable[[int], Field]], Gadget], name: str, low: int, high: int
    ) -> Field:
        made = make(lambda dim: Field(name=name, dim=dim, low=Fraction(low), high=Fraction(high), note=""))
        self.gadgets.append(made)
        return made.result

    def answer_words(
        self, *, numbers: Mapping[str, tuple[Linear, Linear]], words: Mapping[str, Linear]
    ) -> None:
        self.numbers, self.words = numbers, words


def by_units(gadget: Gadget, held: Mapping[Field, tuple[Fraction, ...]]) -> Fraction:
    """mix·units + offset, in fractions."""
    found = gadget.offset[0]
    for unit, slope in zip(gadget.units, gadget.mix[0], strict=True):
        (number,) = Symbolic().form(unit.form, dict(held))
        (gate,) = Symbolic().form(as_linear(1) if unit.gate is None else unit.gate, dict(held))
        assert number is not None
        assert gate is not None
        found += slope * max(Fraction(0), number) * gate
    return Fraction(found)


@settings(max_examples=30, deadline=None)
@given(
    bits=st.integers(0, 3),
    late=st.sampled_from([Equals, Differs, None]),
    wanted=st.integers(-3, 3),
    data=st.data(),
)
def test_a_condition_told_late_is_told_by_the_same_unit(
    bits: int, late: type[Equals | Differs] | None, wanted: int, data: st.DataObject
) -> None:
    """One rule on bits, and on a number without a bit: units and meaning, at values drawn at random."""
    flags = [field(f"flag {i}", 0, 1) for i in range(bits)]
    number, value = field("number"), field("value")
    conditions: list[Equals | Differs] = [Equals(flag, 1) for flag in flags]
    known = Bits({(frozenset({(flag, (Fraction(1),))}), Fraction(-1)): as_linear(flag) for flag in flags})
    assert all(condition in known for condition in conditions)
    if late is not None:
        conditions.append(late(number, wanted))
    layer = Held()
    decide_by_rules(layer, layer, [Rule(tuple(conditions), Number("digit", value))], known)  # type: ignore[arg-type]
    for _ in range(12):
        held = {flag: (Fraction(data.draw(st.integers(0, 1))),) for flag in flags}
        held[number] = (Fraction(data.draw(st.integers(-8, 8))),)
        held[value] = (Fraction(data.draw(st.integers(-8, 8))),)
        applies = all(held[flag][0] == 1 for flag in flags)
        if late is not None:
            applies &= (held[number][0] == wanted) == (late is Equals)
        flag_gadget, value_gadget = layer.gadgets
        assert by_units(flag_gadget, held) == applies
        assert by_units(value_gadget, held) == (held[value][0] if applies else 0)
        for gadget in layer.gadgets:
            seen = [tuple(map(Fraction, Symbolic().form(form, dict(held)))) for form in gadget.inputs]  # type: ignore[arg-type]
            assert gadget.meaning(seen) == (by_units(gadget, held),)


def test_meaning_is_undecided_for_what_is_no_bit() -> None:
    layer, flag, number = Held(), field("flag", 0, 1), field("number")
    known = Bits({(frozenset({(flag, (Fraction(1),))}), Fraction(-1)): as_linear(flag)})
    decide_by_rules(layer, layer, [Rule((Equals(flag, 1), Equals(number, 2)), Word("a"))], known)  # type: ignore[arg-type]
    one, half = (Fraction(1),), (Fraction(1, 2),)
    with pytest.raises(Undecided):
        layer.gadgets[0].meaning([half, one, one])
    with pytest.raises(Undecided):
        layer.gadgets[0].meaning([one, half, one])
