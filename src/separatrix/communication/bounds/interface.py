"""What a rule is: the function that states a theorem's bound for one task at one size.

A rule reads the task's parameters from its spec and not from the task itself, so it also speaks of lengths
that no task object takes: the wall of a large model may lie far beyond what anybody would sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Final, final

from separatrix.errors import InvalidInput
from separatrix.evidence import EXCHANGED_BITS, ONE_WAY_BITS, Bound, TaskSpec, Via
from separatrix.theorems import Artefact, Owed, Theorem, theorem

__all__ = [
    "FIRST_LAYER",
    "LAYERS_HEADS_WIDTH",
    "OVERHEAD",
    "PRECISION_AND_LENGTH",
    "STATE_BITS",
    "WIDTH",
    "WIDTH_BITS",
    "WIDTH_HEADS",
    "WIRE",
    "Ask",
    "Given",
    "Rule",
    "number",
    "states",
    "text",
    "whole",
]

STATE_BITS: Final = "state bits"
WIDTH: Final = "width"
WIDTH_HEADS: Final = "width × heads"
WIDTH_BITS: Final = "width × precision × heads"
PRECISION_AND_LENGTH: Final = "width × heads × (precision + log N)"
LAYERS_HEADS_WIDTH: Final = "layers × heads × width"
FIRST_LAYER: Final = "first-layer width"
OVERHEAD: Final = "protocol bits over width × precision × heads"
WIRE: Final = (EXCHANGED_BITS, ONE_WAY_BITS)
"""What two parties send, and no size of a model."""

_UNITS: Final = {
    STATE_BITS: "bits",
    WIDTH: "numbers",
    WIDTH_HEADS: "numbers",
    WIDTH_BITS: "bits",
    PRECISION_AND_LENGTH: "bits",
    LAYERS_HEADS_WIDTH: "numbers",
    FIRST_LAYER: "numbers",
    OVERHEAD: "times",
    EXCHANGED_BITS: "bits",
    ONE_WAY_BITS: "bits",
}


@final
@dataclass(frozen=True, kw_only=True)
class Given:
    """What is known of a model's size; what is not known is None.

    `width` counts numbers of `precision` bits: a recurrent model's state, or m of an attention layer, the
    larger of the stream's width and a head's.
    """

    precision: int | None = None
    heads: int | None = None
    width: int | None = None
    layers: int | None = None
    state_bits: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name == "state_bits" else 1
            what = field.name.replace("_", " ")
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidInput(
                    f"The {what} of a model is a whole number from {least} on; got {field.name}={value!r}."
                )

    def require_one_state(self) -> None:
        """Refuse bits of a state that are not those of its numbers.

        That is for what somebody says of one recurrent state; a model with attention has a width besides.
        """
        if self.state_bits is None or self.width is None or self.precision is None:
            return
        bits = self.width * self.precision
        if self.state_bits != bits:
            raise InvalidInput(
                f"A state of {self.width:,} numbers of {self.precision:,} bits has {bits:,} bits; got "
                f"state_bits={self.state_bits:,}. Leave one out."
            )

    def amount(self, quantity: str) -> int | None:
        """How much of a quantity such a model has; None where too little is known of it."""
        if quantity == STATE_BITS and self.state_bits is not None:
            return self.state_bits
        factors = {
            STATE_BITS: (self.width, self.precision),
            WIDTH: (self.width,),
            WIDTH_HEADS: (self.width, self.heads),
            WIDTH_BITS: (self.width, self.precision, self.heads),
            LAYERS_HEADS_WIDTH: (self.layers, self.heads, self.width),
            FIRST_LAYER: (self.width,),
        }.get(quantity, (None,))
        product = 1
        for factor in factors:
            if factor is None:
                return None
            product *= factor
        return product


@final
@dataclass(frozen=True, kw_only=True)
class Ask:
    """One question to a rule: which of the keys it holds, for which task, with what known of the size."""

    artefact: Artefact
    spec: TaskSpec
    given: Given

    @property
    def n(self) -> int:
        """The task's own size, whatever it counts."""
        return whole(self.spec, "n")

    @property
    def theorem(self) -> Theorem:
        """The theorem that is cited."""
        return theorem(self.artefact.theorem)

    @property
    def owed(self) -> Owed:
        """The theorem's claim."""
        key = self.artefact
        return next(
            owed
            for owed in self.theorem.owes
            if owed.kind == "bound"
            and owed.variant == key.variant
            and key.task in (owed.tasks or (None,))
            and key.family in (owed.families or (None,))
        )

    def says(
        self,
        quantity: str,
        at_least: int | Fraction | None,
        *,
        asymptotic: str,
        formula: str = "",
        via: Via | None = None,
        assuming: tuple[str, ...] | None = None,
        partition: str = "",
    ) -> Bound:
        """The bound; where no formula or no assumptions are given, they are the theorem's own."""
        owed = self.owed
        return Bound(
            task=self.spec,
            family=self.artefact.family,
            quantity=quantity,
            unit=_UNITS[quantity],
            at_least=at_least,
            asymptotic=asymptotic,
            formula=formula or owed.formula,
            theorem=self.artefact.theorem,
            partition=partition,
            via=via,
            assumptions=self.theorem.assumptions if assuming is None else assuming,
            status=owed.status,
            condition=owed.condition,
        )


@final
@dataclass(frozen=True, kw_only=True)
class Rule:
    """A theorem's bound as a function; its docstring is the derivation.

    It yields nothing where the theorem does not speak of the task with these parameters. `quick` says that
    it costs nothing to ask at any length, so that a search over lengths may.
    """

    theorem: str
    tasks: tuple[str | None, ...]
    families: tuple[str | None, ...]
    variant: str
    function: Callable[[Ask], Iterator[Bound]]
    quick: bool = True

    @property
    def why(self) -> str:
        """The derivation."""
        return self.function.__doc__ or ""

    @property
    def artefacts(self) -> tuple[Artefact, ...]:
        """The keys it holds."""
        return tuple(
            Artefact(theorem=self.theorem, kind="bound", task=task, family=family, variant=self.variant)
            for task in self.tasks
            for family in self.families
        )


def states(
    theorem_id: str,
    *,
    tasks: tuple[str, ...] = (),
    families: tuple[str, ...] = (),
    variant: str = "",
    quick: bool = True,
) -> Callable[[Callable[[Ask], Iterator[Bound]]], Rule]:
    """Make a function the rule of a theorem: for these tasks, or every task, and these families, or none."""

    def made(function: Callable[[Ask], Iterator[Bound]]) -> Rule:
        return Rule(
            theorem=theorem_id,
            tasks=tasks or (None,),
            families=families or (None,),
            variant=variant,
            function=function,
            quick=quick,
        )

    return made


def whole(spec: TaskSpec, name: str) -> int:
    """A parameter of the task that is a whole number."""
    value = spec.params[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{spec.name} needs a whole number for {name}; got {str(value)[:40]}.")
    return value


def text(spec: TaskSpec, name: str) -> str:
    """A parameter of the task that is a choice."""
    value = spec.params[name]
    if not isinstance(value, str):
        raise InvalidInput(f"{spec.name} needs a word for {name}; got {str(value)[:40]}.")
    return value


def number(spec: TaskSpec, name: str) -> Fraction:
    """A parameter of the task that is a number, exactly as it is written: 0.1 is a tenth."""
    value = spec.params[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{spec.name} needs a number for {name}; got {str(value)[:40]}.")
    return Fraction(repr(value))
