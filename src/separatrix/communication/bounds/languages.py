"""S-L4: what a recurrent model must tell apart at one cut, by the states of a minimal automaton."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from separatrix.communication.bounds.counts import ceil_log
from separatrix.communication.bounds.interface import STATE_BITS, Ask, Rule, states, text, whole
from separatrix.communication.language_states import language_states
from separatrix.errors import SeparatrixError
from separatrix.evidence import Bound, TaskSpec, Via
from separatrix.tasks import Task
from separatrix.tasks.interface import Classes, WordTask
from separatrix.tasks.specs import task_of

__all__ = ["RULES"]

_MOST_LISTED: Final = 1 << 16
"""Inputs of which an automaton is built when a bound is asked for: a moment's work."""


@states("S-L4", families=("rnn",), quick=False)
def minimal_automaton(ask: Ask) -> Iterator[Bound]:
    """A model with the same update at every step is an automaton whose states are those of its memory.

    If it decides the language on strings of every length, it has as many states as the minimal automaton. A
    model of inputs of one length may take one state for prefixes of different lengths, and may answer as it
    likes on what is no input; it needs as many states as there are classes of prefixes at one cut, two being
    apart if some continuation makes inputs of both with different answers. That number is stated, at the cut
    where it is largest. For w [SEP] w it is |Σ|^(N/2), behind w. For Dyck-(t,k) a prefix of c brackets is
    dead or has a stack, whose depth is even if c is, and at most k, c and N − c. For other tasks the inputs
    are listed; where they are too many there is no number.
    """
    found = _closed(ask.spec)
    task = _language(ask.spec)
    if found is None and task is None:
        return
    if found is None and task is not None and task.domain_size() <= _MOST_LISTED:
        found = language_states(task).widest()[1].at_least, "its inputs of full length with the answer 1"
    yield ask.says(
        STATE_BITS,
        None if found is None else ceil_log(found[0]),
        asymptotic="⌈log(states of the minimal DFA)⌉",
        formula=ask.owed.formula
        if found is None
        else f"{ask.owed.formula}, {_shortened(found[0])} at one cut",
        via=Via(problem="minimal DFA", reductions=(ask.spec.name,)),
        assuming=(*ask.theorem.assumptions, *(() if found is None else (f"the language is {found[1]}",))),
    )


def _closed(spec: TaskSpec) -> tuple[int, str] | None:
    """States by a formula, and of which language they are."""
    if spec.name == "dyck" and text(spec, "form") == "recognise":
        types, depth, n = whole(spec, "types"), whole(spec, "depth"), whole(spec, "n")
        deepest = min(depth, n // 2)
        # From the deepest cut that can be filled and emptied, every second depth down, and the dead ones.
        stacks = max(_every_second(types, deep) for deep in (deepest, max(0, deepest - 1)))
        dead = 1 if n > 1 else 0
        return (
            stacks + dead,
            f"Dyck-({types},{depth}); of all lengths it takes {_powers(types, depth) + 1:,} states",
        )
    if spec.name == "equality" and text(spec, "form") != "ncp" and spec.params["alice"] is None:
        symbols = whole(spec, "alphabet") or (2 if text(spec, "form") == "random" else 1024)
        return int(symbols ** (whole(spec, "n") // 2)), "all w [SEP] w of full length"
    return None


def _every_second(base: int, most: int) -> int:
    """base^most + base^(most − 2) + …, down to base or to 1."""
    return sum(int(base**depth) for depth in range(most, -1, -2))


def _powers(base: int, most: int) -> int:
    """1 + base + … + base^most."""
    return most + 1 if base == 1 else (int(base ** (most + 1)) - 1) // (base - 1)


def _language(spec: TaskSpec) -> Task | None:
    """The task, if it answers yes or no once about words."""
    try:
        task = task_of(spec)
    except SeparatrixError:
        return None
    space = task.target_space
    once = isinstance(space, Classes) and space.size == 2 and task.asking.most == 1
    return task if once and isinstance(task, WordTask) else None


def _shortened(number: int) -> str:
    """All digits while they are few."""
    return f"{number:,}" if number < 10**12 else f"about 2^{number.bit_length() - 1}"


RULES: Final[tuple[Rule, ...]] = (minimal_automaton,)
