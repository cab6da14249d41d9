"""Candidates for a search: one construction in many number systems and address codes, each tried by proof.

Which systems are tried goes by bisection, as if more bits never hurt. That guides the search only: what it
returns was proven as it stands, and nothing counts that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

from separatrix.certificates.enclosures import Unbounded, rounding_of
from separatrix.certificates.exhaustive import few_inputs, first_wrong
from separatrix.certificates.proofs import proof_for
from separatrix.certificates.refusals import NotProved, NotRun
from separatrix.errors import InvalidInput
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks import Task
from separatrix.witnesses import Choices, Entry, Witness, entries_for, witness_for
from separatrix.witnesses.choices import Addresses
from separatrix.witnesses.files import weights_sha256

__all__ = [
    "ADDRESS_CODES",
    "FEWEST_BITS",
    "LADDERS",
    "MOST_BITS",
    "Construction",
    "construction_for",
    "first_proved",
    "is_proved",
    "ladder_below",
]

_WIDEST: Final = 199  # bits; far more than any construction here needs
_LONGEST_RANDOM: Final = 1 << 8  # the words of random codes are long: weights are slow to build and to prove

ADDRESS_CODES: Final[tuple[tuple[Addresses, ...], ...]] = (
    ("binary",),
    ("bch-1/2", "bch-1/4", "bch-1/8"),
    ("random-1/2",),
)
"""Kinds of address codes; within a kind the words only get longer.

Random words are several times as long as those of a BCH code with the same bound, so one such code will do.
"""

LADDERS: Final[dict[str, tuple[NumberSystem, ...]]] = {
    "nearest": tuple(FixedNearest(p=p) for p in range(3, _WIDEST + 1, 2)),
    "down": tuple(FixedDown(n=2, k=k) for k in range(1, _WIDEST // 2)),
    "float": (Float32(), Float64()),
}
"""Number systems of a kind, from few bits to many. Rounded down are multiples of powers of two only."""


FEWEST_BITS: Final = 3
MOST_BITS: Final = _WIDEST + 1


def ladder_below(kind: str, bits: int) -> tuple[NumberSystem, ...]:
    """The systems of a kind that have fewer bits than these; with `MOST_BITS`, all."""
    return tuple(system for system in LADDERS[kind] if system.bits < bits)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Construction:
    """One entry of the catalogue for one task, to be built with different choices."""

    task: Task
    entry: Entry
    default: Witness

    def built(self, system: NumberSystem, addresses: Addresses) -> Witness | None:
        """The witness with these choices; None where the construction refuses them."""
        try:
            return self.entry.builder()(self.task, Choices(system=system, addresses=addresses))
        except InvalidInput:
            return None

    def proved(self, system: NumberSystem, addresses: Addresses) -> Witness | None:
        """The witness with these choices if it is proven right on every input, else None."""
        witness = self.built(system, addresses)
        return witness if witness is not None and is_proved(witness) else None

    def codes(self) -> Iterator[tuple[Addresses, ...]]:
        """The kinds of address codes to try: one code alone where the weights do not depend on it."""
        yield ADDRESS_CODES[0]
        other = self.built(self.default.arithmetic, "bch-1/2")
        if other is not None and weights_sha256(other.model) == weights_sha256(self.default.model):
            return
        yield ADDRESS_CODES[1]
        if self.task.length <= _LONGEST_RANDOM:
            yield ADDRESS_CODES[2]


def construction_for(task: Task, family: str | None = None, variant: str | None = None) -> Construction:
    """The construction that is built for a task when nothing else is asked for."""
    default = witness_for(task, family=family, variant=variant)
    entry = next(
        entry
        for entry in entries_for(task.name, default.family, default.variant)
        if entry.theorem == default.theorem
    )
    return Construction(task=task, entry=entry, default=default)


def is_proved(witness: Witness) -> bool:
    """Whether the proof of its theorem goes through, or, where there is none, all of few inputs are right."""
    task = witness.task
    prove = None if witness.script else proof_for(witness.theorem, task.name, witness.variant)
    if prove is None:
        return _all_right(witness)
    try:
        claims = prove(witness.model, task, rounding_of(witness.arithmetic))
    except (NotProved, Unbounded):
        return False
    return all(claim.verdict == "proved" for claim in claims)


def _all_right(witness: Witness) -> bool:
    model, task, script = witness.model, witness.task, witness.script
    try:
        return few_inputs(model, task, script) and first_wrong(model, task, task.enumerate(), script) is None
    except NotRun:
        return False


def first_proved(
    systems: Sequence[NumberSystem], attempt: Callable[[NumberSystem], Witness | None], *, limited: bool
) -> Witness | None:
    """The witness of the first system at which the attempt succeeds, by bisection.

    With `limited` the last system is tried first: where even that fails, the others are not tried.
    """
    if not systems:
        return None
    found, below, above = None, -1, len(systems)
    if limited:
        above = len(systems) - 1
        found = attempt(systems[above])
        if found is None:
            return None
    step = 1
    while above - below > 1:
        middle = min(below + step, above - 1) if step else (below + above) // 2
        success = attempt(systems[middle])
        if success is None:
            below, step = middle, 2 * step
        else:
            found, above, step = success, middle, 0
    return found
