"""Which bounds there are for a task and a family, strongest first."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from separatrix.communication.bounds import languages, r, s, w
from separatrix.communication.bounds.interface import OVERHEAD, WIRE, Ask, Given, Rule
from separatrix.communication.bounds.one_layer import WIDE_ENOUGH
from separatrix.errors import InvalidInput
from separatrix.evidence import Bound, TaskSpec
from separatrix.tasks import Task
from separatrix.tasks.specs import spec_of
from separatrix.theorems import Artefact, families_within, family, theorem

__all__ = [
    "RULES",
    "artefacts",
    "bound",
    "bounds_for",
    "bounds_held",
    "message_bounds",
    "no_bound",
    "rule_of",
]

RULES: Final = MappingProxyType(
    {key: rule for rule in (*s.RULES, *languages.RULES, *r.RULES, *w.RULES) for key in rule.artefacts}
)
"""The rule of every key."""

_UNDER_ANY_SPLIT: Final = families_within("transformer")
"""Families that a bound on two parties alone says something about."""


def artefacts() -> Iterator[Artefact]:
    """The key of every bound."""
    return iter(RULES)


def rule_of(artefact: Artefact) -> Rule:
    """The rule that holds a key."""
    if artefact not in RULES:
        raise InvalidInput(f"No bound is held under {artefact}.")
    return RULES[artefact]


def bounds_held(
    artefact: Artefact, task: Task | TaskSpec, *, given: Given | None = None
) -> tuple[Bound, ...]:
    """All that one rule says of a task, about models and about messages; nothing where it is silent."""
    spec = _spec(task)
    if artefact.task not in (None, spec.name):
        raise InvalidInput(f"This bound is on {artefact.task}; got the task {spec.name}.")
    ask = Ask(artefact=artefact, spec=spec, given=given or Given())
    return tuple(rule_of(artefact).function(ask))


def bounds_for(
    task: Task | TaskSpec,
    family: str | None = None,
    *,
    precision: int | None = None,
    heads: int | None = None,
    width: int | None = None,
    layers: int | None = None,
    variant: str | None = None,
    quick: bool = False,
) -> tuple[Bound, ...]:
    """Every bound that binds models of this family, or of any, strongest first.

    A bound on a family binds those within it, so its own `family` may be a larger one than was asked for.
    Those with a number come first; then those that also ask for the same update at every step, those whose
    number holds for wide models only, those without a number, those under a condition, what binds protocols
    only, what two parties send, and what is open.

    What is known of the size (bits a number, heads, width, layers) makes a bound on one layer more definite.
    `variant` chooses among the claims of a theorem, as the table of results names them; `quick` leaves out
    what has to be computed from all inputs.
    """
    given = Given(precision=precision, heads=heads, width=width, layers=layers)
    said = _said(_spec(task), family, given, variant=variant, quick=quick)
    found = [each for each in said if each.quantity not in WIRE or each.family is None]
    settled = any(_rank(each) <= _ASYMPTOTIC for each in found)
    return tuple(
        each
        for each in sorted(found, key=_strength)
        if each.status != "open" or family in (None, each.family) or not settled
    )


def message_bounds(
    task: Task | TaskSpec, family: str | None = None, *, partition: str | None = None
) -> tuple[Bound, ...]:
    """Every bound on what two parties send each other about the task, most bits first.

    With these the transcript of a model of this family, or of any, can be compared.
    """
    said = _said(_spec(task), family, Given(), variant=None, quick=True)
    found = [each for each in said if each.quantity in WIRE and partition in (None, each.partition)]
    return tuple(sorted(found, key=_strength))


def bound(
    task: Task | TaskSpec,
    family: str | None = None,
    *,
    precision: int | None = None,
    heads: int | None = None,
    width: int | None = None,
    layers: int | None = None,
    variant: str | None = None,
) -> Bound:
    """The strongest bound on models of this family that do the task.

    One with a number if there is one, else one without, else the open question. That no bound is known is
    an error that says so: it proves nothing about what such models can do.
    """
    found = bounds_for(
        task, family, precision=precision, heads=heads, width=width, layers=layers, variant=variant
    )
    if not found:
        raise no_bound(task.name, family, variant)
    return found[0]


def no_bound(task: str, family_name: str | None, variant: str | None = None) -> InvalidInput:
    """The error for a task of which no bound speaks."""
    by = f" by {family_name}" if family_name else ""
    kind = f" of the variant '{variant[:40]}'" if variant is not None else ""
    others = dict.fromkeys(key.family for key in RULES if key.task == task and key.family)
    known = f" There are bounds on {', '.join(map(str, others))}." if others else ""
    return InvalidInput(
        f"No bound{kind} is known for {task}{by}; that is not a proof that it can be done.{known}"
    )


def _spec(task: Task | TaskSpec) -> TaskSpec:
    if isinstance(task, TaskSpec):
        return task
    if not isinstance(task, Task):
        raise InvalidInput(f"A bound is on a task, such as task('index-lookup', n=64); got {task!r:.60}.")
    return spec_of(task)


def _said(
    spec: TaskSpec, family_name: str | None, given: Given, *, variant: str | None, quick: bool
) -> Iterator[Bound]:
    """All that the rules say of a task and a family."""
    if family_name is not None:
        family(family_name)
    for key, rule in RULES.items():
        spoken = key.task in (None, spec.name) and variant in (None, key.variant)
        if spoken and (rule.quick or not quick) and _reaches(key, spec, family_name):
            yield from rule.function(Ask(artefact=key, spec=spec, given=given))


def _reaches(key: Artefact, spec: TaskSpec, family_name: str | None) -> bool:
    """Whether a bound says something about a family."""
    claims = [each for each in theorem(key.theorem).owes if key.family in (each.families or (None,))]
    protocols = any(each.of_protocols for each in claims)
    if family_name is None:  # what binds protocols only is about equality, if about any task
        return not protocols or spec.name == "equality"
    if key.family is None:
        return family_name in _UNDER_ANY_SPLIT
    if protocols:
        return any(family_name in each.reach for each in claims)
    return family_name in families_within(key.family)


_NUMBER, _SAME_UPDATE, _WIDE, _ASYMPTOTIC, _CONDITIONAL, _PROTOCOLS, _WIRE, _OPEN = range(8)


def _rank(each: Bound) -> int:
    """What kind of statement it is, firm and definite ones first."""
    if each.status == "open":
        return _OPEN
    if each.quantity in WIRE:
        return _WIRE
    if each.quantity == OVERHEAD:
        return _PROTOCOLS
    if each.status == "conditional":
        return _CONDITIONAL
    return _ASYMPTOTIC if each.at_least is None else _firmness(each)


def _firmness(each: Bound) -> int:
    """Whether a proven number holds for every model of the family."""
    if WIDE_ENOUGH in each.assumptions:
        return _WIDE
    return _SAME_UPDATE if each.theorem == "S-L4" else _NUMBER


def _strength(each: Bound) -> tuple[int, str, Fraction]:
    """Sort key: numbers can only be compared if they count the same."""
    return _rank(each), each.quantity, -Fraction(each.at_least or 0)
