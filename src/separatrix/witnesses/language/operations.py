"""The operations a layer is made of, each with the obligation its correctness rests on.

A head that selects says by how much its target leads the rivals for a scale of 1, and gets its scale when
the program is built: the least at which the rivals' weight does no harm in the arithmetic at hand. A gadget
says which values it must tell apart, and so how much noise it bears. Nobody sets a temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from separatrix.witnesses.language.forms import Field, Linear, Matrix

__all__ = ["Gadget", "HeadOperation", "Memory", "Obligation", "Rival", "Undecided", "Unit"]


class Undecided(Exception):
    """A gadget was asked about a value that it does not tell apart; no user ever meets this."""


@dataclass(frozen=True, kw_only=True)
class Rival:
    """At most `count` keys whose logits stay at least `gap` below the target's, for a scale of 1."""

    gap: Fraction
    count: int


@dataclass(frozen=True, kw_only=True)
class Obligation:
    """What must hold for an operation to do what it says; the certificate proves it on the weights."""

    name: str
    statement: str
    relation: Literal[">", ">=", "<", "<=", "=="]
    threshold: Fraction
    unit: str


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadOperation:
    """Attention whose logit is scale · Σ ⟨query, key⟩ over the pairs of forms in `match`.

    Without pairs every logit is 0 and the head takes the mean. `within` bounds the error of what it returns
    where no gadget of the program says how much can be borne. A `hard` head gets the scale at which the
    exponentials of all rivals vanish, so that it returns the mean over the winners and nothing else.
    """

    result: Field
    match: tuple[tuple[Linear, Linear], ...]
    value: Linear
    rivals: tuple[Rival, ...]
    within: Fraction | None
    hard: bool = False

    @property
    def selects(self) -> bool:
        """Whether it looks for a target, or takes the mean of all."""
        return bool(self.match)

    def reads(self) -> tuple[Field, ...]:
        """The fields it needs of the stream."""
        forms = [form for pair in self.match for form in pair] + [self.value]
        return tuple(dict.fromkeys(key for form in forms for key in form.parts))

    def __str__(self) -> str:
        value = f"{self.result.name} ← {self.value}"
        if not self.selects:
            return f"{value}, the mean over all positions"
        pairs = " + ".join(f"⟨{query}, {key}⟩" for query, key in self.match)
        return f"{value}, where {pairs} is largest"


@dataclass(frozen=True, kw_only=True, eq=False)
class Memory:
    """A linear recurrence: state ← transition·state + feed, and what is read of it is output·state."""

    result: Field
    transition: Matrix
    feed: Linear
    output: Matrix
    text: str

    def reads(self) -> tuple[Field, ...]:
        """The fields it needs of the stream."""
        return tuple(self.feed.parts)

    def __str__(self) -> str:
        return f"{self.result.name} ← {self.text}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Unit:
    """A hidden unit: ReLU of one number, times another one where the feed-forward map is gated."""

    form: Linear
    gate: Linear | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Gadget:
    """Units of the feed-forward map and how their sum makes the result: mix·units + offset.

    `meaning` is what it does to ideal values, written without units: the forms' exact values in, the
    result's exact values out. It bears an error of `tolerance` in each of its `inputs` and its result is
    then exact; a tolerance of 0 asks for exact inputs.
    """

    result: Field
    inputs: tuple[Linear, ...]
    units: tuple[Unit, ...]
    mix: Matrix
    offset: tuple[Fraction, ...]
    tolerance: Fraction
    meaning: Callable[[Sequence[tuple[Fraction, ...]]], tuple[Fraction, ...]]
    obligation: Obligation
    text: str

    def reads(self) -> tuple[Field, ...]:
        """The fields it needs of the stream."""
        gates = (unit.gate for unit in self.units if unit.gate is not None)
        return tuple(dict.fromkeys(key for form in (*self.inputs, *gates) for key in form.parts))

    def __str__(self) -> str:
        return f"{self.result.name} ← {self.text}"
