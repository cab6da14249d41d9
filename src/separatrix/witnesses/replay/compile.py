"""W-4.8: a Transformer that replays a recurrent circuit, gate by gate, in its chain of thought.

The text is `<s> x₁ … x_n =` and then C + 1 words for every step of the network: the values of its C gates in
order of id, and the word that the network reads next; behind the last step, its answer. Two layers do it.

Call a word that is no gate value a head word, and its step the one whose gates follow it: `=` stands at the
head of step 1. At a position of the chain let h be the position of the last head word up to there, e that of
`=`, k its own, and g = k − h. Then gate g comes next, or, where g = C, a head word.

    layer 1   heads: h and the bits of the word there; e; the bits of x₁.
              feed-forward: a table over g of C + 1 rows gives the wiring of gate g. Gate j of the same step
              stands g − 1 − j words back, gate j of the step before C + 1 words farther. Also told: whether
              h = e (the first step), and whether the input is over. In step t, h − e = (t − 1)(C + 1) and
              n = e − 2, so that t ≥ n iff h − e ≥ (e − 3)(C + 1).
    layer 2   heads: the two gates that the wiring names; x_{t+1}, which stands at
              t + 2 = (h − e)/(C + 1) + 3; the C + 1 words back that hold the output's bits.
              feed-forward: the value of gate g, or the next head word: x_{t+1}, and when the input is over
              the word that the output's bits spell.

A bit of the state is an AND of the same gate twice. In step 1 its place lies before `=`, where no word counts
as the bit 1 (a place before the text is taken as position 1), so it is fetched as 0, and the start state is
added to it.

Every number is whole and every head hard, so all of it is exact as long as squares of positions are. The
width and the number of heads depend on the words and on the output's bits, but not on C; the hidden units
are the C of the table and a constant number of others. So there are O(C) parameters, and p = O(log(nC)) bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from separatrix.errors import InvalidInput
from separatrix.tasks.vocabulary import Vocabulary, words
from separatrix.witnesses.language import Program
from separatrix.witnesses.language.forms import Field, Linear, Term, as_linear, constant, joined
from separatrix.witnesses.language.operations import Gadget, Obligation, Rival, Undecided, Unit
from separatrix.witnesses.language.program import LayerScript
from separatrix.witnesses.language.search_heads import Places, copy
from separatrix.witnesses.language.words import Words
from separatrix.witnesses.replay.circuits import (
    BEGIN,
    BITS,
    EQUALS,
    And,
    Constant,
    InputBit,
    RecurrentCircuit,
    StateBit,
    Xor,
)

__all__ = ["Wiring", "longest_text", "replay_program", "replay_vocabulary"]

LONGEST: Final = 1 << 22

_ZERO, _ONE = Fraction(0), Fraction(1)


def replay_vocabulary(circuit: RecurrentCircuit) -> Vocabulary:
    """Answers, words that are read, gate values, and the marks of the prompt."""
    return Vocabulary(
        words("answer", *circuit.answers),
        words("input", *circuit.reads),
        words("gate", *BITS),
        words("mark", BEGIN, EQUALS),
    )


def longest_text(circuit: RecurrentCircuit, *, n: int, steps: int) -> int:
    """Positions for a prompt of n words and so many steps."""
    return n + 2 + steps * (len(circuit.gates) + 1)


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """Row g of the table: how far back the two inputs of gate g stand, and what is made of them."""

    first: int = 0
    second: int = 0
    both: int = 0
    differ: int = 0
    fixed: int = 0
    start: int = 0
    word: int = 0
    """1 where no gate but a head word comes next."""
    inputs: tuple[int, ...] = ()

    def row(self) -> list[Fraction]:
        """As numbers, in the order of the fields."""
        plain = (self.first, self.second, self.both, self.differ, self.fixed, self.start, self.word)
        return [Fraction(value) for value in (*plain, *self.inputs)]

    @classmethod
    def rows(cls, circuit: RecurrentCircuit) -> list[Wiring]:
        """One for each gate, and a last one for the head word."""
        count, silent = len(circuit.gates), (0,) * circuit.input_bits
        table = []
        for number, gate in enumerate(circuit.gates):
            match gate:
                case Constant(value):
                    table.append(cls(fixed=value, inputs=silent))
                case InputBit(place):
                    chosen = tuple(int(i == place) for i in range(circuit.input_bits))
                    table.append(cls(inputs=chosen))
                case StateBit(place):
                    back = number + count - circuit.state[place]
                    table.append(
                        cls(first=back, second=back, both=1, start=circuit.start[place], inputs=silent)
                    )
                case And(first, second):
                    ends = (number - 1 - first, number - 1 - second)
                    table.append(cls(first=ends[0], second=ends[1], both=1, inputs=silent))
                case Xor(first, second):
                    ends = (number - 1 - first, number - 1 - second)
                    table.append(cls(first=ends[0], second=ends[1], differ=1, inputs=silent))
        return [*table, cls(word=1, inputs=silent)]


def replay_program(program: Program, circuit: RecurrentCircuit) -> None:
    """Write the two layers into a gated program over the circuit's vocabulary."""
    count = len(circuit.gates)
    if program.longest > LONGEST:
        raise InvalidInput(
            f"A replay of {circuit.name[:40]} may have {LONGEST:,} words; these steps need "
            f"{program.longest:,}. Take a smaller n or fewer steps."
        )
    known, places = program.words(), Places(program)
    rivals = [Rival(gap=_ONE, count=places.longest)]
    bits = _input_bits(known, circuit)
    with program.layer() as layer:
        # `=` has 2, position 1 has 1 and is found where there is no `=` yet, everything else has 0.
        equals = layer.select(
            "place of =",
            match=[(program.one, 2 * known.is_(EQUALS) + places.first)],
            value=places.place,
            rivals=rivals,
            hard=True,
        )
        # A head word has its place, at least 1; a gate value at most 0.
        head = layer.select(
            "head word",
            match=[(program.one, places.place - places.longest * known.is_("gate"))],
            value=joined([places.place, *bits]),
            rivals=rivals,
            hard=True,
        )
        # −(2 − k′)² + 4: the word behind <s>.
        opening = layer.select(
            "first word",
            match=[(program.one, 4 * places.place - places.square)],
            value=joined(bits),
            rivals=rivals,
            hard=True,
        )
        since = head[0] - equals
        wiring = _wiring(layer, circuit, places.place - head[0])
        first_step = layer.indicator("first step", since, 0)
        over = layer.step("input is over", since - (count + 1) * (equals - 3), off=-1, on=0)
    with program.layer() as layer:
        fetched = [
            _at(layer, name, places, target=places.place - wiring[back], value=known.is_(BITS[1]))
            for back, name in enumerate(("first of gate", "second of gate"))
        ]
        upcoming = _at(
            layer,
            "next input",
            places,
            target=since + 3 * (count + 1),
            value=joined([known.is_(word) for word in circuit.reads]),
            factor=count + 1,
        )
        output = [
            copy(layer, f"output {i}", places, back=count - 1 - gate, value=known.is_(BITS[1]))
            for i, gate in enumerate(circuit.output)
        ]
        bit = _gate_value(layer, fetched, wiring, first_step, [head[1:], opening])
        flags = _head_words(layer, circuit, wiring[6], over, upcoming, output)
    silent = 1 - wiring[6] - bit
    program.answer_words(numbers={}, words={BITS[0]: silent, BITS[1]: bit, **flags})


def _input_bits(known: Words, circuit: RecurrentCircuit) -> list[Linear]:
    """The bits of the word that stands here, 0 where none is that the circuit reads."""
    return [
        sum(
            (code[place] * known.is_(word) for word, code in circuit.reads.items() if code[place]),
            constant([0]),
        )
        for place in range(circuit.input_bits)
    ]


def _at(
    layer: LayerScript, name: str, places: Places, *, target: Linear, value: Term, factor: int = 1
) -> Field:
    """The value at position target/factor, and at position 1 if that lies before the text.

    Logit 2·target·k′ − factor·k′², which is factor·(t² − (t − k′)²) with t = target/factor: the position t
    leads by the factor, and if t < 1, position 1 leads by 3 times as much.
    """
    return layer.select(
        name,
        match=[(2 * target, places.place), (constant([-factor]), places.square)],
        value=value,
        rivals=[Rival(gap=Fraction(factor), count=places.longest)],
        hard=True,
    )


def _wiring(layer: LayerScript, circuit: RecurrentCircuit, number: Linear) -> Field:
    """The row of the table that a whole number from 0 to C names: broken lines that share their C bends."""
    table = [row.row() for row in Wiring.rows(circuit)]
    slopes = [[b - a for a, b in zip(*pair, strict=True)] for pair in itertools.pairwise(table)]
    bends = [
        [b - a for a, b in zip(*pair, strict=True)]
        for pair in itertools.pairwise([[_ZERO] * len(table[0]), *slopes])
    ]

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        place = values[0][0]
        if place.denominator != 1 or not 0 <= place < len(table):
            raise Undecided
        return tuple(table[int(place)])

    def make(result: Callable[[int], Field]) -> Gadget:
        return Gadget(
            result=result(len(table[0])),
            inputs=(number,),
            units=tuple(Unit(form=number - place) for place in range(len(bends))),
            mix=np.array(bends, dtype=object).T,
            offset=tuple(table[0]),
            tolerance=_ZERO,
            meaning=meaning,
            obligation=_exact(f"{number} is a whole number from 0 to {len(table) - 1}"),
            text=f"the wiring of gate {number}, or that a head word is next",
        )

    return layer.gadget(make, "wiring", 0, max(max(row) for row in table))


def _gate_value(
    layer: LayerScript,
    fetched: Sequence[Field],
    wiring: Field,
    first_step: Field,
    read: Sequence[Term],
) -> Field:
    """The value of the gate that is next, 0 where none is.

    Units that are 1 or at most 0: a ∧ b of an AND; a ∧ ¬b and b ∧ ¬a of an XOR; the start state in the first
    step; each bit of the word read, where it is wanted: that of the head word, which `=` has none of, and in
    the first step that of x₁. Of these at most one is 1, and with a constant nothing else is.
    """
    a, b = (as_linear(field) for field in fetched)
    both, differ, fixed, start = (wiring[row] for row in range(2, 6))
    first = as_linear(first_step)
    head, opening = (as_linear(term) for term in read)
    units = [a + b + both - 2, a - b + differ - 1, b - a + differ - 1, start + first - 1]
    for place in range(head.out):
        wanted = wiring[7 + place]
        units += [head[place] + wanted - 1, opening[place] + wanted + first - 2]
    units.append(fixed)

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        one, other, wired, opened, here, earlier = values
        and_, xor, constant_bit, start_bit = wired[2:6]
        if any(value not in (0, 1) for value in (*one, *other, *opened)):
            raise Undecided
        seen = earlier if opened[0] else here
        bit = Fraction(0)
        if and_:
            bit = one[0] * other[0] + (start_bit if opened[0] else _ZERO)
        elif xor:
            bit = Fraction(int(one[0] != other[0]))
        elif any(wired[7:]):
            bit = seen[wired[7:].index(_ONE)]
        return (bit + constant_bit,)

    def make(result: Callable[[int], Field]) -> Gadget:
        return Gadget(
            result=result(1),
            inputs=(a, b, as_linear(wiring), first, head, opening),
            units=tuple(Unit(form=form) for form in units),
            mix=np.array([[_ONE] * len(units)], dtype=object),
            offset=(_ZERO,),
            tolerance=_ZERO,
            meaning=meaning,
            obligation=_exact("its bits are exactly 0 or 1"),
            text="the value of the next gate",
        )

    return layer.gadget(make, "gate value", 0, 1)


def _head_words(
    layer: LayerScript,
    circuit: RecurrentCircuit,
    wanted: Linear,
    over: Field,
    upcoming: Field,
    output: Sequence[Field],
) -> dict[str, Linear]:
    """For each word whether it is the next head word: the next input, or what the output's bits spell."""
    flags = {}
    spelled = list(itertools.product((0, 1), repeat=len(output)))
    for word in (*circuit.answers, *circuit.reads):
        cases: list[tuple[Linear, ...]] = []
        for place, other in enumerate(circuit.reads):
            if other == word:
                cases.append((wanted, 1 - over, upcoming[place]))
        for bits, written in zip(spelled, circuit.writes, strict=True):
            if written == word:
                literals = (field[0] if bit else 1 - field for field, bit in zip(output, bits, strict=True))
                cases.append((wanted, as_linear(over), *literals))
        flags[word] = as_linear(_any_of(layer, f"next is {word}", cases))
    return flags


def _any_of(layer: LayerScript, name: str, cases: Sequence[tuple[Linear, ...]]) -> Field:
    """Whether all bits of one of several cases, which exclude each other, are 1."""
    sizes = [len(case) for case in cases]

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        if any(value[0] not in (0, 1) for value in values):
            raise Undecided
        ends = list(itertools.accumulate(sizes))
        holds = [
            all(value[0] for value in values[end - size : end]) for end, size in zip(ends, sizes, strict=True)
        ]
        return (Fraction(sum(holds)),)

    def make(result: Callable[[int], Field]) -> Gadget:
        return Gadget(
            result=result(1),
            inputs=tuple(bit for case in cases for bit in case),
            units=tuple(Unit(form=sum(case, constant([0])) - (len(case) - 1)) for case in cases),
            mix=np.array([[_ONE] * len(cases)], dtype=object),
            offset=(_ZERO,),
            tolerance=_ZERO,
            meaning=meaning,
            obligation=_exact("its bits are exactly 0 or 1"),
            text=f"whether one of {len(cases)} cases holds",
        )

    return layer.gadget(make, name, 0, 1)


def _exact(statement: str) -> Obligation:
    return Obligation(name="exact", statement=statement, relation="==", threshold=_ZERO, unit="error")
