"""Rules: the next token by a list of cases over exact whole numbers, as weights and in plain Python.

rules = [
    Rule((Equals(kind[0], start), Differs(number[3], 0)), Word("<EndSearch>")),
    Rule((Equals(kind[0], dash),), Number("vertex", number[5])),
]
write_by_rules(program, rules, layer_kind="recurrent")

A rule applies where all its conditions hold, and writes a word, or the number that a form gives. At every
place that matters exactly one rule applies. As weights this takes two gated feed-forward maps. The first
makes a bit of each condition. The second has a hidden unit for each rule: the sum of its k bits less k − 1 is
1 if all hold and at most 0 otherwise, so ReLU of it, times the form to be written, is that number or 0. A
rule may also ask for one number that is only there in the second map: the tent that tells whether it is the
wanted one is pushed below zero unless all bits are 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

from separatrix.errors import InvalidInput
from separatrix.witnesses.language.forms import Exact, Field, Linear, Term, as_linear, constant
from separatrix.witnesses.language.operations import Gadget, Obligation, Undecided, Unit
from separatrix.witnesses.language.program import LayerScript, Program

__all__ = [
    "Bits",
    "Condition",
    "Differs",
    "Equals",
    "Number",
    "Rule",
    "Word",
    "Written",
    "bits_of_rules",
    "decide_by_rules",
    "interpret",
    "write_by_rules",
]

_ZERO, _ONE = Fraction(0), Fraction(1)
_TENT = ((1, 1), (0, -2), (-1, 1))
"""Shift and slope of the units whose sum is 1 at 0 and 0 at every other whole number."""


@dataclass(frozen=True, eq=False)
class Equals:
    """Holds where a form, always a whole number, has this value; `text` says what that means."""

    form: Term
    value: int
    text: str = ""

    def __post_init__(self) -> None:
        _check_condition(self)


@dataclass(frozen=True, eq=False)
class Differs:
    """Holds where a form, always a whole number, has another value; `text` says what this one means."""

    form: Term
    value: int
    text: str = ""

    def __post_init__(self) -> None:
        _check_condition(self)


@dataclass(frozen=True)
class Word:
    """Writes a word."""

    word: str

    def __post_init__(self) -> None:
        if not isinstance(self.word, str):
            raise InvalidInput(f'A word to write is a text, as in Word("done"); got {_kind(self.word)}.')


@dataclass(frozen=True, eq=False)
class Number:
    """Writes the word of a numbered block whose number a form gives."""

    block: str
    value: Term

    def __post_init__(self) -> None:
        if not isinstance(self.block, str):
            raise InvalidInput(f"A Number names its block of words first; got {_kind(self.block)}.")
        _check_form("A Number", self.value)


Condition: TypeAlias = Equals | Differs
Written: TypeAlias = str | tuple[str, int]
"""A word, or a block and a number in it."""


@dataclass(frozen=True, eq=False)
class Rule:
    """What to write where all conditions hold."""

    when: tuple[Condition, ...]
    write: Word | Number

    def __post_init__(self) -> None:
        if not isinstance(self.when, tuple):
            raise InvalidInput(
                "A rule has a tuple of conditions, as in Rule((Equals(form, 1),), …) with a comma behind a "
                f"single one; got {_kind(self.when)}."
            )
        strange = [each for each in self.when if not isinstance(each, (Equals, Differs))]
        if strange:
            raise InvalidInput(f"The conditions of a rule are Equals or Differs; got {_kind(strange[0])}.")
        if not isinstance(self.write, (Word, Number)):
            raise InvalidInput(f'A rule writes Word("…") or Number("block", form); got {_kind(self.write)}.')


Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class Bits:
    """The bit of each condition that has one; `Differs` is told by the bit of `Equals`."""

    of: Mapping[Key, Linear]

    def __contains__(self, condition: Condition) -> bool:
        return _key(condition) in self.of

    def __getitem__(self, condition: Condition) -> Linear:
        bit = self.of[_key(condition)]
        return bit if isinstance(condition, Equals) else 1 - bit


def interpret(rules: Sequence[Rule], held: Mapping[Field, Sequence[Exact]]) -> Written | None:
    """What the rules write where fields hold these numbers; nothing if no rule applies."""
    found = [
        (place, rule.write)
        for place, rule in enumerate(rules, start=1)
        if all(_holds(condition, held) for condition in rule.when)
    ]
    if len(found) > 1:
        named = " and ".join(f"{place} (writes {_written(write)})" for place, write in found[:3])
        raise InvalidInput(
            f"At most one rule may apply, and here {len(found)} do: numbers {named}"
            f"{' and more' if len(found) > 3 else ''}; add a condition that tells them apart."
        )
    if not found:
        return None
    _, write = found[0]
    return write.word if isinstance(write, Word) else (write.block, int(_number(write.value, held)))


def write_by_rules(
    program: Program, rules: Sequence[Rule], *, layer_kind: Literal["recurrent", "attention"]
) -> None:
    """Two layers without heads behind the others, and the answer: what the rules write."""
    opened = program.recurrent_layer if layer_kind == "recurrent" else program.layer
    with opened() as layer:
        bits = bits_of_rules(layer, rules)
    with opened() as layer:
        decide_by_rules(program, layer, rules, bits)


def bits_of_rules(
    layer: LayerScript, rules: Sequence[Rule], *, leaving: Iterable[Condition] = (), name: str = "bit"
) -> Bits:
    """The bits of all conditions but those that must wait, as indicators in this layer."""
    waiting = {_key(condition) for condition in leaving}
    found: dict[Key, Linear] = {}
    for rule in rules:
        for condition in rule.when:
            key = _key(condition)
            if key not in found and key not in waiting:
                said = condition.text or f"{as_linear(condition.form)} = {condition.value}"
                label = f"{name} {len(found) + 1}: {said}"
                found[key] = as_linear(layer.indicator(label, condition.form, condition.value))
    return Bits(found)


def decide_by_rules(program: Program, layer: LayerScript, rules: Sequence[Rule], bits: Bits) -> None:
    """The hidden units of all rules in this layer, and the answer.

    A condition without a bit is told here; each rule may have one of them.
    """
    cases = [(rule.write, _Case.of(rule, bits)) for rule in rules]
    flags: dict[str, Linear] = {}
    for word in dict.fromkeys(write.word for write, _ in cases if isinstance(write, Word)):
        chosen = [case for write, case in cases if isinstance(write, Word) and write.word == word]
        flags[word] = as_linear(
            layer.gadget(_sum_of(chosen, f"whether {word} is next"), f"writes {word}", 0, 1)
        )
    numbers: dict[str, tuple[Linear, Linear]] = {}
    for block in dict.fromkeys(write.block for write, _ in cases if isinstance(write, Number)):
        own = [(write, case) for write, case in cases if isinstance(write, Number) and write.block == block]
        flag = layer.gadget(
            _sum_of([case for _, case in own], f"whether a {block} is next"), f"writes a {block}", 0, 1
        )
        gated = [case.times(write.value) for write, case in own]
        ends = [end for case in gated for end in case.gate.bounds()[0]]
        value = layer.gadget(
            _sum_of(gated, f"the {block} that is next"), f"next {block}", min(_ZERO, *ends), max(_ZERO, *ends)
        )
        numbers[block] = as_linear(flag), as_linear(value)
    program.answer_words(numbers=numbers, words=flags)


@dataclass(frozen=True, eq=False)
class _Case:
    """`gate` where all bits are 1 and the late condition, if any, holds; else 0."""

    bits: tuple[Linear, ...]
    late: Condition | None
    gate: Linear

    @classmethod
    def of(cls, rule: Rule, bits: Bits) -> _Case:
        late = [condition for condition in rule.when if condition not in bits]
        assert len(late) <= 1, "a rule has at most one condition that is told in the last feed-forward map"
        early = tuple(bits[condition] for condition in rule.when if condition in bits)
        return cls(early, late[0] if late else None, constant([1]))

    def times(self, value: Term) -> _Case:
        """The same case with another gate."""
        return _Case(self.bits, self.late, as_linear(value))

    @property
    def inputs(self) -> tuple[Linear, ...]:
        """Bits, what is told late, gate."""
        late = () if self.late is None else (as_linear(self.late.form),)
        return (*self.bits, *late, self.gate)

    def units(self) -> list[tuple[Unit, Fraction]]:
        """Hidden units and their slopes."""
        lacking = sum(self.bits, start=constant([0])) - len(self.bits)
        all_hold = (Unit(form=lacking + 1, gate=self.gate), _ONE)
        if self.late is None:
            return [all_hold]
        apart = as_linear(self.late.form) - self.late.value
        # Lacking one bit outweighs the most that the tent's widest unit can reach.
        far = max(_ONE, apart.bounds()[0][1] + 1)
        tent = [
            (Unit(form=apart + shift + far * lacking, gate=self.gate), Fraction(slope))
            for shift, slope in _TENT
        ]
        if isinstance(self.late, Equals):
            return tent
        return [all_hold, *((unit, -slope) for unit, slope in tent)]

    def meaning(self, values: Sequence[tuple[Fraction, ...]]) -> Fraction:
        """The gate or 0, from the values of the inputs."""
        bits = [value[0] for value in values[: len(self.bits)]]
        if any(bit not in (0, 1) for bit in bits):
            raise Undecided
        applies = all(bit == 1 for bit in bits)
        if self.late is not None:
            told = values[len(self.bits)][0]
            if told.denominator != 1:
                raise Undecided
            applies &= (told == self.late.value) == isinstance(self.late, Equals)
        return values[-1][0] if applies else _ZERO


def _sum_of(cases: Sequence[_Case], text: str) -> Callable[[Callable[[int], Field]], Gadget]:
    """A gadget that adds cases up, of which at most one is not 0."""

    def make(result: Callable[[int], Field]) -> Gadget:
        units = [unit for case in cases for unit in case.units()]

        def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
            start, added = 0, _ZERO
            for case in cases:
                stop = start + len(case.inputs)
                added += case.meaning(values[start:stop])
                start = stop
            return (added,)

        return Gadget(
            result=result(1),
            inputs=tuple(form for case in cases for form in case.inputs),
            units=tuple(unit for unit, _ in units),
            mix=np.array([[slope for _, slope in units]], dtype=object),
            offset=(_ZERO,),
            tolerance=_ZERO,
            meaning=meaning,
            obligation=Obligation(
                name="exact",
                statement="bits are exactly 0 or 1, and what is told late is a whole number",
                relation="==",
                threshold=_ZERO,
                unit="error",
            ),
            text=f"{text}, by {len(cases)} {'rule' if len(cases) == 1 else 'rules'}",
        )

    return make


def _written(write: Word | Number) -> str:
    return write.word if isinstance(write, Word) else f"a {write.block}"


def _kind(value: object) -> str:
    """A value as a sentence names it: texts and numbers as they are, else its type."""
    return f"{value!r:.60}" if isinstance(value, (str, int, float)) else f"a {type(value).__name__}"


def _check_condition(condition: Condition) -> None:
    name = type(condition).__name__
    _check_form(name, condition.form)
    if type(condition.value) is not int:
        raise InvalidInput(f"{name} compares with a whole number; got {_kind(condition.value)}.")


def _check_form(what: str, form: object) -> None:
    if not isinstance(form, (Field, Linear, int, Fraction)):
        raise InvalidInput(f"{what} is about a field, a form or an exact number; got {_kind(form)}.")
    if isinstance(form, (Field, Linear)) and as_linear(form).out != 1:
        raise InvalidInput(f"{what} is about one number; got a form of {as_linear(form).out}.")


def _holds(condition: Condition, held: Mapping[Field, Sequence[Exact]]) -> bool:
    equal = _number(condition.form, held) == condition.value
    return equal == isinstance(condition, Equals)


def _number(term: Term, held: Mapping[Field, Sequence[Exact]]) -> Fraction:
    form = as_linear(term)
    assert form.out == 1, "rules are about single numbers"
    found = form.offset[0]
    for field, matrix in form.parts.items():
        for coefficient, value in zip(matrix[0], held[field], strict=True):
            found += coefficient * value
    return found


def _key(condition: Condition) -> Key:
    """The same for forms with the same coefficients, however they were made."""
    form = as_linear(condition.form)
    parts = frozenset(
        (field, tuple(matrix[0])) for field, matrix in form.parts.items() if any(value for value in matrix[0])
    )
    return (parts, form.offset[0] - condition.value)
