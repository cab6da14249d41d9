"""W-5.3: IsTree by a linear RNN that searches its own text with regular expressions, O(n) times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from separatrix.errors import InvalidInput
from separatrix.generation.scripts.is_tree_searches import SearchTraceScript
from separatrix.tasks.is_tree import IsTree
from separatrix.tasks.retrieval_trace import PIECES
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import Linear, Program, build
from separatrix.witnesses.language.forms import as_linear
from separatrix.witnesses.language.rules import (
    Condition,
    Differs,
    Equals,
    Number,
    Rule,
    Word,
    bits_of_rules,
    decide_by_rules,
)
from separatrix.witnesses.language.words import Words
from separatrix.witnesses.witness import Witness

__all__ = ["KINDS_BACK", "NUMBERS_BACK", "Past", "is_tree_searches", "next_token_rules"]

_SOURCE: Final = "W-5.3"
_VERTEX: Final = "vertex"
KINDS_BACK: Final = 3
NUMBERS_BACK: Final = 17
"""How far back the furthest kind of token and the furthest vertex stand that a rule reads."""

_START, _FINISH, _NONE, _DASH, _EDGE_SIGN = "<StartSearch>", "<EndSearch>", "FAILED", "-", "~"
_PARENT, _PARENT_END, _LIST, _EDGE, _OR, _THEN, _OTHER, _END = PIECES


def is_tree_searches(task: IsTree, choices: Choices) -> Witness:
    """Two recurrent layers decide IsTree by algorithm 2: at most 6n − 4 searches, 23 numbers of state.

    A round of the trace is made of a few pieces of fixed length. Which piece the text is in, and what came
    before it, shows in the last four tokens and in where vertices stand further back and where other words
    do. And wherever the next token is a vertex, it stands at a known distance: the walk's own vertex ends
    each search for an edge, its parent is the result in front of that search, the vertex it came back from
    ends the search that failed last. The longest way is from the choice of the third search to the parent
    that the first one found: 17 tokens, across a pattern that names an edge both ways round.

    Layer 1 carries the kinds of the last 4 tokens and the vertices of the last 18 in two shift registers, and
    how many pairs were written less how many edges there are in a running sum. Its feed-forward map makes a
    bit of each condition of `next_token_rules`. Layer 2 has no state: a hidden unit for each rule, gated by
    the vertex that it writes.

    A tree has n first visits and n − 1 returns with two searches each, and for every edge one search finds
    the way back to the parent and one that its lower end is new: 6n − 4, and any other graph stops sooner.
    When the walk leaves the root, whose parent is 0, no edge has led to a vertex seen before, so what was
    visited is a tree. It is all of the graph iff it has n vertices. Each has its pair, and the n − 1 edges
    were counted, so that is iff the running sum is 1.

    All numbers of the state are whole and at most max(n, 17): O(log n) bits. The weights do not depend on
    where the list of edges ends, so they serve every graph of fewer vertices too.
    """
    _require(task)
    program = Program(task, causal=True, gated=True, longest=task.length + 1)
    words = program.words()
    with program.recurrent_layer() as layer:
        kinds = layer.window("kinds", words.kind, length=KINDS_BACK)
        numbers = layer.window("vertices", words.number(_VERTEX), length=NUMBERS_BACK)
        balance = layer.running_sum(
            "pairs less edges", words.is_(_DASH) - words.is_(_EDGE_SIGN), low=1 - task.n, high=1
        )
        past = Past(words, [words.kind, *kinds], [words.number(_VERTEX), *numbers], as_linear(balance))
        rules = next_token_rules(past)
        bits = bits_of_rules(layer, rules)
    with program.recurrent_layer() as layer:
        decide_by_rules(program, layer, rules, bits)
    built = build(program, choices.system)
    return witness_of(
        built,
        theorem=_SOURCE,
        family="linear-rnn+retrieval",
        script=SearchTraceScript(task),
    )


@final
@dataclass(frozen=True, eq=False)
class Past:
    """What is known of the last tokens: entry i of a list tells of the token i back, 0 of the last one.

    `kinds` are the ids of words, `numbers` the vertices (0 where none stands), `balance` is how many pairs
    were written less how many edges there are.
    """

    words: Words
    kinds: Sequence[Linear]
    numbers: Sequence[Linear]
    balance: Linear

    def tokens(self, *spelled: str | None) -> tuple[Equals, ...]:
        """The last token is the first of these words, the one before it the second …; None: anything."""
        return tuple(
            Equals(self.kinds[back], self.words.id(word), f"{word} {back} back")
            for back, word in enumerate(spelled)
            if word is not None
        )

    def stands(self, back: int) -> Differs:
        """A vertex stands there, and not 0."""
        return Differs(self.numbers[back], 0, f"no vertex {back} back")

    def lacks(self, back: int) -> Equals:
        """Another word stands there, or 0."""
        return Equals(self.numbers[back], 0, f"no vertex {back} back")

    def same(self, first: int, second: int) -> Equals:
        """The vertices at two places are the same."""
        return Equals(*self._apart(first, second))

    def other(self, first: int, second: int) -> Differs:
        """The vertices at two places are not the same."""
        return Differs(*self._apart(first, second))

    def vertex(self, back: int) -> Number:
        """Write the vertex that stands there once more."""
        return Number(_VERTEX, self.numbers[back])

    def complete(self) -> Equals:
        """There are as many pairs as vertices, one more than edges."""
        return Equals(self.balance, 1, "one pair more than edges")

    def incomplete(self) -> Differs:
        """There are fewer."""
        return Differs(self.balance, 1, "one pair more than edges")

    def _apart(self, first: int, second: int) -> tuple[Linear, int, str]:
        return self.numbers[first] - self.numbers[second], 0, f"the same {first} and {second} back"


def next_token_rules(past: Past) -> list[Rule]:
    """Every token of the full form of algorithm 2 that is not a search's result, from those before it."""
    parts = (_pairs, _kinds_of_search, _parent_patterns, _edge_patterns, _after_parent, _after_edge)
    return [rule for part in parts for rule in part(past)]


def _pairs(past: Past) -> list[Rule]:
    """`0 - 1` behind the graph, `v - u` behind a search that failed, and then where the walk has come to."""
    tokens = past.tokens
    # What begins the trace would be written behind every edge, and is asked for behind the last one only.
    return [
        Rule(tokens("<s>"), _constant(0)),
        Rule(tokens(_VERTEX, _EDGE_SIGN), _constant(0)),
        Rule(tokens(_VERTEX, "<s>"), Word(_DASH)),
        Rule(tokens(_VERTEX, _VERTEX, _EDGE_SIGN), Word(_DASH)),
        Rule((*tokens(_DASH), past.lacks(1)), _constant(1)),
        Rule(tokens(_VERTEX, _NONE, None, _PARENT_END), Word(_DASH)),
        # <StartSearch> PARENT u PARENT_END <EndSearch> FAILED v -
        Rule((*tokens(_DASH), past.stands(1)), past.vertex(5)),
        Rule(tokens(_VERTEX, _DASH), past.vertex(0)),
    ]


def _kinds_of_search(past: Past) -> list[Rule]:
    """The parent of the vertex that a round begins with; then an edge; then, of what was found, either."""
    tokens = past.tokens
    # … LIST v OTHER v END <EndSearch> u <StartSearch> with the parent and <StartSearch> in front of LIST, or
    # the same with THEN for LIST and in front of it `LIST p EDGE v OR v EDGE p`.
    found = tokens(_START, _VERTEX, _FINISH, _END)
    short: tuple[Condition, ...] = (*found, past.lacks(8))
    long: tuple[Condition, ...] = (*found, past.stands(8))
    return [
        Rule(tokens(_VERTEX, _VERTEX, _DASH), Word(_START)),
        Rule(tokens(_VERTEX, _NONE, None, _END), Word(_START)),
        Rule(tokens(_START, _VERTEX, _VERTEX), Word(_PARENT)),
        Rule(tokens(_START, _VERTEX, _NONE), Word(_PARENT)),
        Rule(tokens(_START, _VERTEX, _FINISH, _PARENT_END), Word(_LIST)),
        Rule((*short, past.same(1, 9)), Word(_LIST)),
        Rule((*short, past.other(1, 9)), Word(_PARENT)),
        Rule((*long, past.same(1, 17)), Word(_LIST)),
        Rule((*long, past.other(1, 17)), Word(_PARENT)),
    ]


def _parent_patterns(past: Past) -> list[Rule]:
    """Of the vertex in front of the search."""
    tokens = past.tokens
    return [
        Rule(tokens(_PARENT), past.vertex(2)),
        Rule(tokens(_VERTEX, _PARENT), Word(_PARENT_END)),
        Rule(tokens(_PARENT_END), Word(_FINISH)),
    ]


def _edge_patterns(past: Past) -> list[Rule]:
    """The first edge at v, or the one behind (p, v), p the vertex it came back from or its parent."""
    tokens, vertex = past.tokens, past.vertex
    return [
        # v OTHER v END <EndSearch> p <StartSearch> LIST: p is the parent, whose edge was found.
        Rule((*tokens(_LIST), past.stands(7)), vertex(2)),
        # v v <StartSearch> PARENT v PARENT_END <EndSearch> f <StartSearch> LIST: v is new, and has no p.
        Rule((*tokens(_LIST), past.lacks(7), past.stands(9)), vertex(5)),
        # p END <EndSearch> FAILED v <StartSearch> PARENT v PARENT_END <EndSearch> f <StartSearch> LIST
        Rule((*tokens(_LIST), past.lacks(7), past.lacks(9)), vertex(12)),
        Rule((*tokens(_VERTEX, _LIST), past.same(0, 6)), Word(_OTHER)),
        Rule((*tokens(_VERTEX, _LIST), past.other(0, 6)), Word(_EDGE)),
        Rule(tokens(_EDGE, None, _LIST), vertex(7)),
        Rule(tokens(_VERTEX, _EDGE, None, _LIST), Word(_OR)),
        Rule(tokens(_OR), vertex(1)),
        Rule(tokens(_VERTEX, _OR), Word(_EDGE)),
        Rule(tokens(_EDGE, None, _OR), vertex(5)),
        Rule(tokens(_VERTEX, _EDGE, None, _OR), Word(_THEN)),
        Rule(tokens(_THEN), vertex(3)),
        Rule(tokens(_VERTEX, _THEN), Word(_OTHER)),
        Rule(tokens(_OTHER), vertex(1)),
        Rule(tokens(_VERTEX, _OTHER), Word(_END)),
        Rule(tokens(_END), Word(_FINISH)),
    ]


def _after_parent(past: Past) -> list[Rule]:
    """The walk's own parent is followed by the search for an edge; another vertex must not have one."""
    found = past.tokens(_VERTEX, _FINISH, _PARENT_END)
    return [
        # In front of <StartSearch> PARENT v PARENT_END <EndSearch> f there is w - v v, or END <EndSearch>
        # FAILED v, or, with u for v, v END <EndSearch> u, which is an edge to a vertex seen before.
        Rule((*found, past.stands(7)), Word(_START)),
        Rule((*found, past.lacks(7), past.lacks(9)), Word(_START)),
        Rule((*found, past.lacks(7), past.stands(9)), Word("NO")),
        Rule(past.tokens(_NONE, _FINISH, _PARENT_END), past.vertex(9)),
    ]


def _after_edge(past: Past) -> list[Rule]:
    """One more search if an edge was found; else back to the parent, or the end where there is none."""
    # Only a root that stands alone has no edge at all. Elsewhere what failed is a pattern with THEN, and the
    # parent is 16 back; for such a root, `- 1 1 <StartSearch> …` begins there and a dash is no vertex.
    failed = past.tokens(_NONE, _FINISH, _END)
    return [
        Rule(past.tokens(_VERTEX, _FINISH, _END), Word(_START)),
        Rule((*failed, past.stands(16)), past.vertex(16)),
        Rule((*failed, past.lacks(16), past.complete()), Word("YES")),
        Rule((*failed, past.lacks(16), past.incomplete()), Word("NO")),
    ]


def _constant(value: int) -> Number:
    return Number(_VERTEX, as_linear(value))


def _require(task: IsTree) -> None:
    if (task.form, task.trace) != ("retrieval", "full"):
        raise InvalidInput(
            "IsTree by searches is built for form='retrieval' with trace='full'; got "
            f"form={task.form!r}, trace={task.trace!r}. Set both."
        )
