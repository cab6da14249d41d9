"""Turing machines: the type, a text format, a plain simulator, and a library (W, theorems 4.1, 5.4 and 5.8).

A machine works on a tape that is infinite both ways; its head starts on the first cell of the input, which
is cell 0. In text it is a few headers and one rule a line, `state symbols -> state [written] move`, where `→`
will do for the arrow and `# …` may follow. A rule that names no symbol to write leaves the cell as it is, and
`any` stands for the symbols that have no rule of their own.

>>> flip = parse_machine('''
...     machine: flip
...     blank: _
...     start: flip
...     halt: done
...     flip 0 -> flip 1 R
...     flip 1 -> flip 0 R
...     flip _ -> done S    # behind the input
... ''')
>>> execute(flip, "011", max_steps=10).text()
'1 0 0 _'
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Literal, NamedTuple

from separatrix.errors import InvalidInput
from separatrix.randomness import host_constant
from separatrix.registry import unknown_name
from separatrix.tasks._machine_texts import TEXTS

__all__ = [
    "MACHINE_NAMES",
    "MOVES",
    "Execution",
    "Machine",
    "Step",
    "Transition",
    "execute",
    "library_machine",
    "parse_machine",
]

MACHINE_NAMES: Final = tuple(TEXTS)
MOVES: Final = {"L": -1, "R": 1, "S": 0}
"""The moves and what they add to the head's cell: left, right, stay."""

_ARROW: Final = "->"
_RESERVED: Final = (*MOVES, "=", "<s>", "<pad>", _ARROW, "→", "any")
_MOST_WORDS: Final = 1 << 10
_LONGEST_TEXT: Final = 1 << 20
_HEADERS: Final = ("machine", "states", "alphabet", "blank", "start", "halt")
_ALIKE: Final = 0.6
"""How much of a word must be the same for a slip of the hand, as `difflib` counts."""


class Transition(NamedTuple):
    """What one rule does: the next state, the symbol it writes, the move it makes (L, R or S)."""

    state: str
    write: str
    move: str


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A deterministic machine with a rule for every live state and symbol; none is left to chance.

    One word means one thing: no word is both a state and a symbol, and `L R S = <s> <pad> -> → any`
    are neither, so that a run can be written down as words without doubt.
    """

    name: str
    states: tuple[str, ...]
    alphabet: tuple[str, ...]
    blank: str
    transitions: Mapping[tuple[str, str], Transition] = field(hash=False)
    start: str
    halting: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_words(self)
        for key, rule in self.transitions.items():
            _check_rule(self, key, rule)
        for state in self.live:
            for symbol in self.alphabet:
                if (state, symbol) not in self.transitions:
                    raise _NoRule(self, state, symbol)

    @property
    def live(self) -> tuple[str, ...]:
        """The states in which it goes on."""
        return tuple(state for state in self.states if state not in self.halting)

    def render(self) -> str:
        """The machine as text that `parse_machine` reads back."""
        lines = [
            f"machine: {self.name}",
            f"states: {' '.join(self.states)}",
            f"alphabet: {' '.join(self.alphabet)}",
            f"blank: {self.blank}",
            f"start: {self.start}",
            f"halt: {' '.join(self.halting)}",
        ]
        for state in self.live:
            kept: dict[tuple[str, str], list[str]] = {}
            for symbol in self.alphabet:
                rule = self.transitions[state, symbol]
                if rule.write == symbol:
                    kept.setdefault((rule.state, rule.move), []).append(symbol)
                else:
                    lines.append(f"{state} {symbol} -> {rule.state} {rule.write} {rule.move}")
            lines += [f"{state} {' '.join(read)} -> {after} {move}" for (after, move), read in kept.items()]
        return "\n".join(lines) + "\n"

    def _error(self, what: str) -> InvalidInput:
        return InvalidInput(f"Machine {_short(self.name)} {what}.")


class Step(NamedTuple):
    """One step: where the head stood, in which state, what it read, and the rule that fired."""

    cell: int
    state: str
    read: str
    rule: Transition


@dataclass(frozen=True, kw_only=True)
class Execution:
    """A run and how it ended. `tape` holds the cells from `first` on: the input and all that were visited."""

    outcome: Literal["halted", "out of steps", "out of space"]
    state: str
    head: int
    first: int
    tape: tuple[str, ...]
    steps: tuple[Step, ...]

    def text(self) -> str:
        """The cells of the tape with spaces between."""
        return " ".join(self.tape)


def execute(machine: Machine, tape: Sequence[str], *, max_steps: int, space: int | None = None) -> Execution:
    """Run a machine on an input, step by step, until it halts, takes too long, or needs too many cells."""
    for symbol in tape:
        if symbol not in machine.alphabet:
            known = " ".join(machine.alphabet)
            raise InvalidInput(f"The tape of {machine.name} has the symbols {known}; got '{_short(symbol)}'.")
    cells = dict(enumerate(tape))
    cells.setdefault(0, machine.blank)
    low, high = 0, len(cells) - 1
    head, state = 0, machine.start
    steps: list[Step] = []
    outcome: Literal["halted", "out of steps", "out of space"] = "halted"
    while state not in machine.halting:
        if len(steps) >= max_steps:
            outcome = "out of steps"
            break
        read = cells.get(head, machine.blank)
        rule = machine.transitions[state, read]
        steps.append(Step(head, state, read, rule))
        cells[head] = rule.write
        head, state = head + MOVES[rule.move], rule.state
        low, high = min(low, head), max(high, head)
        if space is not None and high - low + 1 > space:
            outcome = "out of space"
            break
    return Execution(
        outcome=outcome,
        state=state,
        head=head,
        first=low,
        tape=tuple(cells.get(cell, machine.blank) for cell in range(low, high + 1)),
        steps=tuple(steps),
    )


def parse_machine(text: str) -> Machine:
    """The machine a text describes; what does not belong is named with its line.

    `start` and `halt` are needed, `machine` (a name) is "unnamed" and `blank` is `_` unless given; states
    and symbols are listed by `states` and `alphabet` or else taken from the rules in order of appearance.
    """
    if len(text) > _LONGEST_TEXT:
        raise InvalidInput(
            f"The text of a machine has at most {_LONGEST_TEXT:,} characters; got {len(text):,}."
        )
    headers: dict[str, tuple[str, ...]] = {}
    rules: list[_RuleLine] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = [_ARROW if word == "→" else word for word in line.split()]
        if not words or words[0].startswith("#"):
            continue
        if _ARROW in words:
            rules.append(_rule_line(number, words))
            continue
        key = words[0].removesuffix(":")
        if not words[0].endswith(":") or key not in _HEADERS:
            known = ", ".join(f"{header}:" for header in _HEADERS)
            raise InvalidInput(
                f"Line {number} is neither a rule (state symbols -> state [written] move) nor a header "
                f"({known}); got '{_short(line.strip())}'."
            )
        if key in headers:
            raise InvalidInput(f"Line {number} gives '{key}:' a second time; leave one of them out.")
        # The symbols of an alphabet and a blank may begin with a #, as may the name.
        symbols = {"alphabet": len(words), "blank": 1, "machine": 1}.get(key, 0)
        headers[key] = tuple(_uncommented(words[1:], symbols))
    return _assemble(headers, rules)


@host_constant
@cache
def library_machine(name: str) -> Machine:
    """A machine of the library by its name."""
    if name not in TEXTS:
        raise unknown_name("machine", name, MACHINE_NAMES)
    return parse_machine(TEXTS[name])


class _RuleLine(NamedTuple):
    number: int
    state: str
    reads: tuple[str, ...]
    after: str
    write: str | None
    move: str


def _rule_line(number: int, words: list[str]) -> _RuleLine:
    arrow = words.index(_ARROW)
    # The second word may be a symbol that begins with a #.
    left, right = words[:arrow], _uncommented(words[arrow + 1 :], 2)
    if len(left) < 2 or len(right) not in (2, 3):
        raise InvalidInput(
            f"Line {number} should read 'state symbols -> state [written] move'; "
            f"got '{_short(' '.join(words))}'."
        )
    write = right[1] if len(right) == 3 else None
    return _RuleLine(number, left[0], tuple(left[1:]), right[0], write, right[-1])


def _uncommented(words: list[str], kept: int) -> list[str]:
    """The words before a comment, which does not begin among the first `kept`."""
    ends = (place for place, word in enumerate(words) if place >= kept and word.startswith("#"))
    return words[: next(ends, len(words))]


def _assemble(headers: Mapping[str, tuple[str, ...]], rules: Sequence[_RuleLine]) -> Machine:
    start = _single(headers, "start", None)
    blank = _single(headers, "blank", "_")
    halting = headers.get("halt", ())
    named = [state for rule in rules for state in (rule.state, rule.after) if state not in halting]
    seen = [symbol for rule in rules for symbol in (*rule.reads, rule.write) if symbol not in (None, "any")]
    states = headers.get("states", tuple(dict.fromkeys((start, *named, *halting))))
    alphabet = headers.get("alphabet", tuple(dict.fromkeys((blank, *map(str, seen)))))
    if len(states) * len(alphabet) > _LONGEST_TEXT:
        raise InvalidInput(
            f"A machine has at most {_LONGEST_TEXT:,} pairs of a state and a symbol; "
            f"got {len(states)} states and {len(alphabet)} symbols."
        )
    transitions: dict[tuple[str, str], Transition] = {}
    for rule, read in _read_by(rules, states, alphabet):
        if (rule.state, read) in transitions:
            raise InvalidInput(
                f"Line {rule.number} is a second rule for state {_short(rule.state)} reading "
                f"{_short(read)}; leave one of them out."
            )
        transitions[rule.state, read] = Transition(rule.after, rule.write or read, rule.move)
    try:
        return Machine(
            name=_single(headers, "machine", "unnamed"),
            states=states,
            alphabet=alphabet,
            blank=blank,
            transitions=transitions,
            start=start,
            halting=halting,
        )
    except _NoRule as lack:
        machine, state, symbol = lack.args
        raise InvalidInput(_no_rule(machine, state, symbol, rules)) from None


def _read_by(
    rules: Sequence[_RuleLine], states: Iterable[str], alphabet: Sequence[str]
) -> Iterator[tuple[_RuleLine, str]]:
    """Each rule with each symbol it is for."""
    known = frozenset(states)
    explicit = {(rule.state, read) for rule in rules for read in rule.reads if read != "any"}
    others: dict[str, list[str]] = {}
    for rule in rules:
        if rule.state not in known:
            raise InvalidInput(
                f"Line {rule.number} has a rule for the state '{_short(rule.state)}', which 'states:' does "
                "not list; add it there."
            )
        for word in rule.reads:
            if word == "any" and rule.state not in others:
                others[rule.state] = [each for each in alphabet if (rule.state, each) not in explicit]
            for read in others[rule.state] if word == "any" else (word,):
                yield rule, read


class _NoRule(InvalidInput):
    """A live state has no rule for a symbol; its arguments are the machine and the two."""

    def __str__(self) -> str:
        return _no_rule(*self.args)


def _no_rule(machine: Machine, state: str, symbol: str, rules: Sequence[_RuleLine] = ()) -> str:
    """What is missing and, as far as there are lines, where it comes from."""
    ruled = any(state == key for key, _ in machine.transitions)
    what = _rule_lacking(machine, state, symbol, rules) if ruled else _rules_lacking(machine, state, rules)
    return f"Machine {machine.name} has no rule {what}"


def _rule_lacking(machine: Machine, state: str, symbol: str, rules: Sequence[_RuleLine]) -> str:
    """Some symbol was forgotten, or it or the state is spelled in another way elsewhere."""
    written = [rule.number for rule in rules if rule.write == symbol]
    read = {word for rule in rules for word in rule.reads}
    if written and symbol not in read:
        near = _near(symbol, sorted(read - {"any"}))
        where = f"line {written[0]} writes and no line reads"
        return f"for state {state} reading {symbol}, which {where}; add one.{near}"
    entered = {machine.start, *(rule.state for rule in machine.transitions.values())}
    lost = {rule.state: rule.number for rule in rules if rule.state not in entered}
    for other in difflib.get_close_matches(state, lost, n=1, cutoff=_ALIKE):
        return (
            f"for state {state} reading {symbol}; line {lost[other]} has one for {other}, a state that "
            f"nothing enters. Did you mean {state} there?"
        )
    return f"for state {state} reading {symbol}; add one."


def _rules_lacking(machine: Machine, state: str, rules: Sequence[_RuleLine]) -> str:
    """A state was misspelled where it is entered, or is meant for the end."""
    entering = [rule.number for rule in rules if rule.after == state]
    entered = {machine.start, *(rule.state for rule in machine.transitions.values())}
    if state == machine.start:
        origin = "in which it starts"
    elif entering:
        origin = f"which line {entering[0]} enters"
    else:
        origin = "which a rule enters" if state in entered else "which no rule enters"
    said = [f"at all for state {state}, {origin}."]
    for end in machine.halting:
        if end != state and end.rstrip(",;") == state:
            return f"{said[0]} 'halt:' names '{end}' instead: put spaces between words, and nothing else."
    ruled = {key for key, _ in machine.transitions}
    near = _near(state, [each for each in machine.states if each in ruled or each in machine.halting])
    idle = [end for end in machine.halting if end not in entered]
    if idle:
        said.append(f"'halt:' names {_short(' '.join(idle))}, which no rule enters.")
    return " ".join(said) + f"{near} A state without rules belongs in 'halt:'."


def _near(word: str, known: Sequence[str]) -> str:
    found = difflib.get_close_matches(word, known, n=2, cutoff=_ALIKE)
    return f" Did you mean {' or '.join(found)}?" if found else ""


def _single(headers: Mapping[str, tuple[str, ...]], key: str, default: str | None) -> str:
    words = headers.get(key, () if default is None else (default,))
    if len(words) != 1:
        raise InvalidInput(f"A machine needs one word after '{key}:'; got {len(words)}.")
    return words[0]


def _check_words(machine: Machine) -> None:
    for kind, group in (("state", machine.states), ("symbol", machine.alphabet)):
        if len(group) > _MOST_WORDS:
            raise machine._error(f"has {len(group)} {kind}s where at most {_MOST_WORDS} are taken")
        if len(set(group)) < len(group):
            raise machine._error(f"lists a {kind} twice: {_short(' '.join(group))}")
        for word in group:
            comment = kind == "state" and word.startswith("#")
            if comment or word in _RESERVED or not re.fullmatch(r"\S{1,40}", word):
                raise machine._error(
                    f"has the {kind} '{_short(word)}'; a {kind} is one word of at most 40 characters, none "
                    f"of {' '.join(_RESERVED)}" + ("" if kind == "symbol" else ", without a # in front")
                )
    both = set(machine.states) & set(machine.alphabet)
    if both:
        raise machine._error(f"uses '{min(both)}' both as a state and as a symbol; rename one")
    if machine.blank not in machine.alphabet:
        raise machine._error(f"has the blank '{_short(machine.blank)}', which its alphabet does not list")
    if not machine.halting:
        raise machine._error("has no halting state, so it could never stop; name one with 'halt:'")
    for role, state in (("start", machine.start), *(("halting", state) for state in machine.halting)):
        if state not in machine.states:
            raise machine._error(f"has the {role} state '{_short(state)}', which its states do not list")
    if len(set(machine.halting)) < len(machine.halting):
        raise machine._error("lists a halting state twice")
    if not re.fullmatch(r"\S{1,40}", machine.name):
        raise machine._error("needs a name of at most 40 characters without spaces")


def _check_rule(machine: Machine, key: tuple[str, str], rule: Transition) -> None:
    state, read = key
    where = f"has a rule for state {_short(state)} reading {_short(read)}"
    for word in (state, rule.state):
        if word not in machine.states:
            raise machine._error(f"{where} with the unknown state '{_short(word)}'")
    for word in (read, rule.write):
        if word not in machine.alphabet:
            raise machine._error(f"{where} with the unknown symbol '{_short(word)}'")
    if rule.move not in MOVES:
        raise machine._error(f"{where} that moves '{_short(rule.move)}'; a move is L, R or S")
    if state in machine.halting:
        raise machine._error(f"{where}, but {state} is a halting state and takes no rule")


def _short(word: str) -> str:
    return word if len(word) <= 40 else f"{word[:37]}…"
