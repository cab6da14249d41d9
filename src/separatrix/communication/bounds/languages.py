"""S-L4: a recurrent model that decides a language has as many states as the language's minimal automaton."""

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

    It decides the language, so it has at least as many states as the minimal automaton, and mp ≥ ⌈log
    states⌉. Dyck-(t,k) of all lengths takes a state for each stack, 1 + t + … + t^k of them, and a dead one.
    The words w [SEP] w with N/2 symbols of Σ in each half take 2(1 + |Σ| + … + |Σ|^(N/2)) + 1: the prefixes
    of w, what is left of the second, and a dead one. For other tasks the inputs are listed and the automaton
    is built; where they are too many there is no number.
    """
    found = _closed(ask.spec)
    task = _language(ask.spec)
    if found is None and task is None:
        return
    if found is None and task is not None and task.domain_size() <= _MOST_LISTED:
        found = language_states(task).states, "its inputs of full length with the answer 1"
    yield ask.says(
        STATE_BITS,
        None if found is None else ceil_log(found[0]),
        asymptotic="⌈log(states of the minimal DFA)⌉",
        formula=ask.owed.formula if found is None else f"{ask.owed.formula}, {_shortened(found[0])} states",
        via=Via(problem="minimal DFA", reductions=(ask.spec.name,)),
        assuming=(*ask.theorem.assumptions, *(() if found is None else (f"the language is {found[1]}",))),
    )


def _closed(spec: TaskSpec) -> tuple[int, str] | None:
    """States by a formula, and of which language they are."""
    if spec.name == "dyck" and text(spec, "form") == "recognise":
        types, depth = whole(spec, "types"), whole(spec, "depth")
        depth = min(depth, whole(spec, "n") // 2)  # deeper stacks than the input can fill say nothing of it
        return _powers(types, depth) + 1, f"Dyck-({types},{whole(spec, 'depth')}), of all lengths"
    if spec.name == "equality" and text(spec, "form") != "ncp" and spec.params["alice"] is None:
        symbols = whole(spec, "alphabet") or (2 if text(spec, "form") == "random" else 1024)
        return 2 * _powers(symbols, whole(spec, "n") // 2) + 1, "all w [SEP] w of full length"
    return None


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
