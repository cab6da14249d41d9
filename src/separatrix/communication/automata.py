"""Deterministic automata: the minimal one of a language, what it counts, and the table it fills.

A language of strings of one length gets its automaton from its residuals, level by level from the back: two
prefixes are one state if the same continuations lead into the language. Dyck languages of all lengths get
theirs from stacks, minimised by automata-lib. What states say about memory is in `language_states`.

>>> dyck = dyck_automaton(types=2, depth=2)
>>> dyck.states, dyck.live
(8, 7)
>>> [dyck.count(length) for length in (2, 4, 6, 8)]
[2, 8, 32, 128]
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import numpy as np
from jaxtyping import Bool, Int

from separatrix.communication.entries import Entries
from separatrix.communication.matrices import whole_rows
from separatrix.errors import InvalidInput, TooLarge
from separatrix.tasks.dyck import BRACKETS
from separatrix.tasks.interface import Partition

if TYPE_CHECKING:
    from automata.fa.dfa import DFA

__all__ = ["Automaton", "AutomatonEntries", "automaton_of_strings", "dyck_automaton"]

_DEAD: Final = 0
_MOST_CELLS: Final = 1 << 26
"""Entries of a table of transitions."""
_MOST_STACKS: Final = 1 << 16


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Automaton:
    """A complete automaton: from every state, every symbol leads to a state."""

    transitions: Int[np.ndarray, "state symbol"]
    start: int
    accepting: Bool[np.ndarray, "state"]
    symbols: tuple[str, ...]

    @property
    def states(self) -> int:
        """All states, the dead one counted."""
        return len(self.transitions)

    @property
    def live(self) -> int:
        """States from which some string is accepted."""
        alive = self.accepting
        while True:
            wider = alive | alive[self.transitions].any(1)
            if (wider == alive).all():
                return int(alive.sum())
            alive = wider

    def accepts(self, strings: Int[np.ndarray, "batch pos"]) -> Bool[np.ndarray, "batch"]:
        """Whether each string of symbol numbers is in the language."""
        state = np.full(len(strings), self.start)
        for symbol in np.asarray(strings).T:
            state = self.transitions[state, symbol]
        accepted: np.ndarray = self.accepting[state]
        return accepted

    def count(self, length: int) -> int:
        """How many strings of this length are accepted, exactly: a power of the transfer matrix."""
        if length < 0:
            raise InvalidInput(f"A string has 0 symbols or more; got length={length}.")
        ways = self.accepting.astype(np.int64).astype(object)
        for _ in range(length):
            ways = ways[self.transitions].sum(axis=1)
        return int(ways[self.start])

    def minimised(self) -> Automaton:
        """The same language with the fewest states, by splitting classes until nothing splits."""
        reached = _reachable(self)
        place = np.full(self.states, -1)
        place[reached] = np.arange(len(reached))
        moves, accepting = place[self.transitions[reached]], self.accepting[reached]
        classes = accepting.astype(np.int64)
        count = len(np.unique(classes))
        while True:
            first, classes = _distinct(np.column_stack([classes, classes[moves]]))
            if len(first) == count:
                break
            count = len(first)
        return Automaton(
            transitions=classes[moves[first]],
            start=int(classes[place[self.start]]),
            accepting=accepting[first],
            symbols=self.symbols,
        )

    def to_dfa(self) -> DFA:
        """The same automaton as automata-lib has it, symbols by number."""
        from automata.fa.dfa import DFA  # noqa: PLC0415  heavy, and needed here only

        names = [str(number) for number in range(len(self.symbols))]
        return DFA(
            states=set(range(self.states)),
            input_symbols=set(names),
            transitions={
                state: dict(zip(names, map(int, row), strict=True))
                for state, row in enumerate(self.transitions)
            },
            initial_state=self.start,
            final_states=set(map(int, np.flatnonzero(self.accepting))),
        )

    @classmethod
    def from_dfa(cls, dfa: DFA, symbols: Sequence[str]) -> Automaton:
        """An automaton of automata-lib whose symbols are the numbers of these; it must be complete."""
        states = sorted(dfa.states, key=str)
        place = {state: number for number, state in enumerate(states)}
        names = [str(number) for number in range(len(symbols))]
        rows = [[place[dfa.transitions[state][name]] for name in names] for state in states]
        return cls(
            transitions=np.array(rows, dtype=np.int64),
            start=place[dfa.initial_state],
            accepting=np.array([state in dfa.final_states for state in states]),
            symbols=tuple(symbols),
        )


def automaton_of_strings(strings: Int[np.ndarray, "member pos"], symbols: Sequence[str]) -> Automaton:
    """The minimal complete automaton of these strings, all of one length, and no others.

    State 0 is the dead one. The states of level t are the sets of continuations that prefixes of length t
    have, each set once; sets of different levels differ in the length of their strings.
    """
    members = _sorted(np.asarray(strings), len(symbols))
    tables = [np.full((1, len(symbols)), _DEAD, dtype=np.int64)]
    if not len(members):
        return Automaton(
            transitions=tables[0], start=_DEAD, accepting=np.array([False]), symbols=tuple(symbols)
        )
    # Prefixes are told by the first place where a member differs from the one before it.
    apart = np.concatenate([[-1], (members[1:] != members[:-1]).argmax(1)]) if members.shape[1] else [-1]
    tables.append(tables[0])  # after the last symbol there is nothing to accept any more
    nodes, state, count = np.arange(len(members)), np.ones(len(members), dtype=np.int64), 2
    for level in reversed(range(members.shape[1])):
        begins = np.asarray(apart)[nodes] < level
        group = begins.cumsum() - 1
        if (int(group[-1]) + 1 + count) * len(symbols) > _MOST_CELLS:
            raise TooLarge(
                f"The automaton needs more than {_MOST_CELLS:,} transitions on the way; choose a smaller n."
            )
        moves = np.full((int(group[-1]) + 1, len(symbols)), _DEAD, dtype=np.int64)
        moves[group, members[nodes, level]] = state
        first, which = _distinct(moves)
        nodes, state = nodes[begins], which + count
        tables.append(moves[first])
        count += len(first)
    accepting = np.zeros(count, dtype=np.bool_)
    accepting[1] = True
    return Automaton(
        transitions=np.concatenate(tables), start=int(state[0]), accepting=accepting, symbols=tuple(symbols)
    )


def dyck_automaton(*, types: int = 2, depth: int = 2) -> Automaton:
    """The minimal automaton of Dyck-(types, depth) over all lengths: a state a stack, and the dead one.

    The automaton of all stacks goes through automata-lib's minimisation, which finds nothing to merge: a
    stack of types^i kinds for each height i up to the depth, so 1 + 2 + 4 + 1 = 8 states for (2, 2).
    """
    if not 1 <= types <= len(BRACKETS) // 2 or depth < 1:
        raise InvalidInput(
            f"Dyck needs 1 to {len(BRACKETS) // 2} types and depth ≥ 1; got types={types}, depth={depth}."
        )
    if depth > 64 or sum(types**height for height in range(depth + 1)) > _MOST_STACKS:
        raise TooLarge(
            f"Dyck-({types},{depth}) has more than {_MOST_STACKS:,} stacks; choose a smaller depth."
        )
    stacks = [
        stack for height in range(depth + 1) for stack in itertools.product(range(types), repeat=height)
    ]
    place = {stack: number + 1 for number, stack in enumerate(stacks)}
    moves = np.full((len(stacks) + 1, 2 * types), _DEAD, dtype=np.int64)
    for stack, number in place.items():
        for kind in range(types):
            moves[number, 2 * kind] = place.get((*stack, kind), _DEAD)
            if stack and stack[-1] == kind:
                moves[number, 2 * kind + 1] = place[stack[:-1]]
    empty = place[()]
    accepting = np.arange(len(moves)) == empty
    whole = Automaton(
        transitions=moves, start=empty, accepting=accepting, symbols=tuple(BRACKETS[: 2 * types])
    )
    return Automaton.from_dfa(whole.to_dfa().minify(), whole.symbols)


@final
class AutomatonEntries(Entries):
    """Membership of strings of one length, split between two parties, as a table filled by an automaton.

    Row and column numbers are the strings' digits, the first position most significant.
    """

    def __init__(self, automaton: Automaton, partition: Partition, *, title: str = "a language") -> None:
        if partition.written:
            raise InvalidInput("An automaton reads every position; each belongs to Alice or to Bob.")
        self.automaton, self.partition, self._title = automaton, partition, title
        # Narrow states: looking up is what takes the time.
        narrow = np.uint8 if automaton.states <= 256 else np.int64
        self._flat = automaton.transitions.astype(narrow).ravel()

    @property
    def title(self) -> str:
        """What was given."""
        return self._title

    @property
    def rows(self) -> int:
        """Every string at Alice's positions."""
        return int(len(self.automaton.symbols) ** len(self.partition.alice))

    @property
    def columns(self) -> int:
        """Every string at Bob's positions."""
        return int(len(self.automaton.symbols) ** len(self.partition.bob))

    @property
    def values(self) -> int:
        """In the language or not."""
        return 2

    @property
    def total(self) -> bool:
        """Every string is read."""
        return True

    def at(
        self, rows: Int[np.ndarray, "row"], columns: Int[np.ndarray, "column"]
    ) -> Int[np.ndarray, "row column"]:
        """Read all strings at once, a position at a time."""
        alice = self._digits(rows, len(self.partition.alice))
        bob = self._digits(columns, len(self.partition.bob))
        place = {position: (True, number) for number, position in enumerate(self.partition.alice)}
        place |= {position: (False, number) for number, position in enumerate(self.partition.bob)}
        state = np.full((len(rows), len(columns)), self.automaton.start, dtype=self._flat.dtype)
        many = len(self.automaton.symbols)
        wide = np.dtype(np.uint8 if self.automaton.states * many <= 256 else np.int64)
        for position in range(len(place)):
            of_alice, number = place[position]
            symbol = alice[:, number, None] if of_alice else bob[None, :, number]
            places = state.astype(wide, copy=False)
            state = self._flat[places * wide.type(many) + symbol.astype(wide)]
        return self.automaton.accepting[state].astype(np.int8)

    def row_text(self, row: int) -> str:
        """Alice's symbols."""
        return self._text(row, len(self.partition.alice))

    def column_text(self, column: int) -> str:
        """Bob's symbols."""
        return self._text(column, len(self.partition.bob))

    def _digits(self, numbers: Int[np.ndarray, "row"], places: int) -> Int[np.ndarray, "row place"]:
        weights = len(self.automaton.symbols) ** np.arange(places)[::-1]
        return np.asarray(numbers)[:, None] // weights % len(self.automaton.symbols)

    def _text(self, number: int, places: int) -> str:
        symbols = self._digits(np.array([number]), places)[0]
        return " ".join(self.automaton.symbols[symbol] for symbol in symbols)


def _reachable(automaton: Automaton) -> Int[np.ndarray, "reached"]:
    reached = np.zeros(automaton.states, dtype=np.bool_)
    fresh = np.array([automaton.start])
    while len(fresh):
        reached[fresh] = True
        after = np.unique(automaton.transitions[fresh])
        fresh = after[~reached[after]]
    return np.flatnonzero(reached)


def _distinct(rows: Int[np.ndarray, "row column"]) -> tuple[Int[np.ndarray, "kind"], Int[np.ndarray, "row"]]:
    """The number of one row of each kind, and the kind of each row."""
    _, first, which = np.unique(whole_rows(rows), return_index=True, return_inverse=True)
    return first, which.reshape(-1)


def _sorted(strings: Int[np.ndarray, "member pos"], symbols: int) -> Int[np.ndarray, "member pos"]:
    """In lexicographic order, each once."""
    if strings.ndim != 2 or (strings.size and not 0 <= int(strings.min()) <= int(strings.max()) < symbols):
        raise InvalidInput(f"Strings of one length have symbols 0 … {symbols - 1} and two axes.")
    # Bytes are compared from the left, so the highest byte of a symbol must come first.
    narrow = strings.astype(np.uint8 if symbols <= 256 else ">u4")
    if not narrow.size:
        return narrow[:1]
    each: np.ndarray = narrow[_distinct(narrow)[0]]
    return each
