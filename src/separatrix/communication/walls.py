"""The inverse of a bound: the largest n that a model of a given size can still do.

At the next n a theorem forbids it; up to there nothing here does, which is no proof that it can be done. The
search doubles n until some bound is broken and then halves the gap. Bounds are read from the task's spec, so
n may go far beyond what anybody samples.

>>> found = wall("index-lookup", family="rnn", state_bits=6144, alphabet=64)
>>> found.largest_n, found.theorem
(1024, 'S-T3')
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from separatrix.accounting import Size
from separatrix.communication.bounds import Given, bounds_for, no_bound
from separatrix.communication.bounds.interface import STATE_BITS, whole
from separatrix.errors import InvalidInput, SeparatrixError
from separatrix.evidence import Bound, TaskSpec
from separatrix.records import JsonObject
from separatrix.registry import unknown_name
from separatrix.tasks import TASKS, Task
from separatrix.tasks.interface import make
from separatrix.tasks.specs import defaults_of, spec_of

__all__ = ["POSITIONS", "Wall", "wall"]

_FARTHEST: Final = 48
"""Binary digits of the lengths up to which a wall is looked for."""
_LARGEST_LEAST: Final = 128
_EVEN: Final = frozenset({"dyck", "equality", "disjointness", "mqar"})
"""Tasks whose n is even."""
_BEHIND: Final = {"equality": 1, "match3": 1, "q-sparse-averaging": 1}
"""Positions that one layer has beside the n: a separator, or a dummy element."""
POSITIONS: Final[Mapping[str, Callable[[TaskSpec], int]]] = {
    "index-lookup": lambda spec: whole(spec, "n") + 1,
    "associative-recall": lambda spec: whole(spec, "n") * (2 if spec.params["form"] == "pairs" else 1) + 1,
    "mqar": lambda spec: 2 * whole(spec, "n"),
    "nearest-neighbour": lambda spec: 2 * whole(spec, "n") - 1,
    "equality": lambda spec: whole(spec, "n") + 1,
    "c-gram": lambda spec: whole(spec, "n") + whole(spec, "c") - 1,
    "counting": lambda spec: whole(spec, "n") + 2,
    "is-tree": lambda spec: 3 * whole(spec, "n") - 2,
    "q-sparse-averaging": lambda spec: whole(spec, "n"),
}
"""Tokens of the longest input at n: by then a state that grows is as large as it gets before the answer."""


@final
@dataclass(frozen=True, kw_only=True)
class Wall:
    """How far a size reaches: up to `largest_n` no bound forbids the task, at the next n `bound` does.

    `largest_n` is None where no length is forbidden, and 0 where even the shortest input is. `bound` is then
    the one that stands at the wall, with what the model has in `amount`.
    """

    task: str
    family: str
    largest_n: int | None
    bound: Bound | None
    amount: int | None
    why: str

    @property
    def theorem(self) -> str | None:
        """What forbids the next length."""
        return None if self.bound is None else self.bound.theorem

    def __str__(self) -> str:
        reach = {None: "no wall", 0: "no n at all"}.get(self.largest_n, f"n ≤ {self.largest_n or 0:,}")
        return f"{self.task} by {self.family}: {reach}. {self.why}"

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "task": self.task,
            "family": self.family,
            "largest_n": self.largest_n,
            "theorem": self.theorem,
            "amount": self.amount,
            "bound": None if self.bound is None else self.bound.to_fields(),
            "why": self.why,
        }


def wall(
    task: str | Task,
    size: Size | None = None,
    *,
    family: str,
    state_bits: int | None = None,
    width: int | None = None,
    heads: int | None = None,
    precision: int | None = None,
    layers: int | None = None,
    **parameters: Any,
) -> Wall:
    """The largest n at which no proven bound forbids models of this family and size to do the task.

    The task is named, with its parameters but n; of a task object n is left aside. The size is a `Size`, or
    the numbers that the bounds speak of: a recurrent model's state bits, or width and precision; heads too
    for one attention layer; layers too for graph Transformers.
    """
    spec_at = _specs(task, parameters)
    numbers = Given(state_bits=state_bits, width=width, heads=heads, precision=precision, layers=layers)
    numbers.require_one_state()
    if size is not None and numbers != Given():
        raise InvalidInput("A wall is for a Size or for numbers of your own; got both.")
    if size is None and numbers == Given():
        raise InvalidInput(
            "A wall needs a model's size: state_bits, or width and precision, and heads where it attends."
        )
    given_at = (lambda _: numbers) if size is None else _growing(size)
    step = 2 if spec_at(2).name in _EVEN else 1
    _require_comparable(spec_at(_shortest(spec_at, step)), family, given_at)
    return _searched(spec_at, family, given_at, step)


def _searched(
    spec_at: Callable[[int], TaskSpec], family: str, given_at: Callable[[TaskSpec], Given], step: int
) -> Wall:
    """Double, then halve; a bound on one layer grows with n but for where ⌈log N⌉ does, so N doubles."""

    def broken(n: int) -> Bound | None:
        spec = spec_at(n)
        return _broken(spec, family, given_at(spec))

    least = _shortest(spec_at, step)
    low = high = least - step
    end = _last(spec_at(least))
    for high in _ends(spec_at(least).name, least, step, end):
        if broken(high) is not None:
            break
        low = high
    else:
        why = f"No bound forbids any length up to 2^{_FARTHEST}, and farther was not looked."
        if end is not None:
            why = f"No bound forbids any length up to n = {end:,}, where its parameters end the task."
        return Wall(task=spec_at(least).name, family=family, largest_n=None, bound=None, amount=None, why=why)
    while high - low > step:
        middle = low + (high - low) // (2 * step) * step
        low, high = (low, middle) if broken(middle) is not None else (middle, high)
    found, spec = broken(high), spec_at(high)
    assert found is not None, "the search ends at a length that is forbidden"
    amount = given_at(spec).amount(found.quantity)
    assert amount is not None, "a bound is broken by an amount"
    why = (
        f"At n = {high:,} {found.theorem} asks for {found.quantity} {found.requirement}, and the model has "
        f"{amount:,}: {found.formula}."
    )
    largest = low if low >= least else 0
    return Wall(task=spec.name, family=family, largest_n=largest, bound=found, amount=amount, why=why)


def _last(spec: TaskSpec) -> int | None:
    """The largest n that the task's parameters allow, where they set one: a pair needs a key of its own."""
    name = {"mqar": "vocabulary_size", "associative-recall": "keys"}.get(spec.name)
    given = None if name is None else spec.params.get(name)
    return given if isinstance(given, int) and given > 0 else None


def _ends(name: str, least: int, step: int, last: int | None) -> Iterator[int]:
    """For each power of two the last n whose positions it counts, from the shortest input on to the last."""
    for power in range(_FARTHEST + 1):
        n = ((1 << power) - _BEHIND.get(name, 0)) // step * step
        if last is not None and n >= last:
            yield last // step * step
            return
        if n >= least:
            yield n


def _broken(spec: TaskSpec, family: str, given: Given) -> Bound | None:
    """The strongest proven bound that the size does not meet."""
    for each in _comparable(spec, family, given):
        amount = given.amount(each.quantity)
        if amount is not None and each.met_by(amount) is False:
            return each
    return None


def _comparable(spec: TaskSpec, family: str, given: Given) -> tuple[Bound, ...]:
    """Proven bounds with a number, of quantities that are known of the model."""
    found = bounds_for(
        spec,
        family,
        precision=given.precision,
        heads=given.heads,
        width=given.width,
        layers=given.layers,
        quick=True,
    )
    return tuple(
        each
        for each in found
        if each.status == "proven" and each.at_least is not None and given.amount(each.quantity) is not None
    )


def _require_comparable(spec: TaskSpec, family: str, given_at: Callable[[TaskSpec], Given]) -> None:
    """Refuse a size that no bound can be held against, and say what is missing."""
    if _comparable(spec, family, given_at(spec)):
        return
    known = bounds_for(spec, family, precision=1, quick=True)
    quantities = dict.fromkeys(
        each.quantity for each in known if each.at_least is not None and each.family is not None
    )
    if not quantities:
        raise _no_wall(spec, family)
    raise InvalidInput(
        f"The bounds on {spec.name} by {family} are on {' and '.join(quantities)}; give "
        f"{' and '.join(_WANTED.get(quantity, quantity) for quantity in quantities)}."
    )


def _no_wall(spec: TaskSpec, family: str) -> InvalidInput:
    """The error where no bound has a number that a size could fall short of at some length."""
    known = ", ".join(dict.fromkeys(each.theorem for each in bounds_for(spec, family) if each.family))
    if not known:
        return no_bound(spec.name, family)
    return InvalidInput(
        f"What is known of {spec.name} by {family} ({known}) sets no wall: it is open, or holds under a "
        "condition or for models of one kind only, or has no number."
    )


_WANTED: Final = {
    STATE_BITS: "state_bits, or width and precision",
    "width × heads": "width, heads and precision",
    "layers × heads × width": "layers, heads, width and precision",
    "first-layer width": "width",
}


def _growing(size: Size) -> Callable[[TaskSpec], Given]:
    """A model's size at the length of the longest input; its state may grow with it."""

    def at(spec: TaskSpec) -> Given:
        positions = POSITIONS.get(spec.name)
        return Given(
            state_bits=size.state_bits(positions(spec)) if positions and size.state else None,
            width=size.width,
            heads=size.heads or None,
            precision=size.precision_bits,
            layers=size.layers,
        )

    return at


def _specs(task: str | Task, parameters: Mapping[str, Any]) -> Callable[[int], TaskSpec]:
    """The task's spec at every n, whether or not a task of that n can be made."""
    if isinstance(task, Task):
        if parameters:
            raise InvalidInput("The parameters of a task object are its own; name the task to give others.")
        base = spec_of(task).params
        name = task.name
    else:
        kind, name = TASKS.get(task), task
        known = tuple(field.name for field in dataclasses.fields(kind) if field.init)
        for key in parameters:
            if key not in known:
                raise unknown_name(f"option of {name} called", key, known)
        if "n" in parameters:
            raise InvalidInput(f"A wall is the largest n, so n is not given; got n={parameters['n']!r}.")
        base = {**defaults_of(kind), **parameters}
    if base.get("alice") is not None:
        raise InvalidInput("Places for the first string belong to one n; leave alice out.")
    return lambda n: TaskSpec(name=name, params={**base, "n": n})


def _shortest(spec_at: Callable[[int], TaskSpec], step: int) -> int:
    """The least n of such a task; parameters that fit no n are refused as the task refuses them."""
    refusals: list[SeparatrixError] = []
    for n in range(step, _LARGEST_LEAST + 1, step):
        spec = spec_at(n)
        try:
            make(TASKS.get(spec.name), dict(spec.params))
        except SeparatrixError as refusal:
            refusals.append(refusal)
        else:
            return n
    raise refusals[-1]
