"""The text of W's algorithm 2: searches by regular expression, written short or in full.

A trace follows the graph and begins with the pair `0 - 1`: vertex 1 is the root, and has been seen. Each
round is then

    v                                    the walk is at v
    <StartSearch> … <EndSearch> f        the parent of v, from the pairs written so far
    <StartSearch> … <EndSearch> u        the next edge at v after the last one, or the first; FAILED: none
    <StartSearch> … <EndSearch> u        only if that was the parent's edge: the one after it
    <StartSearch> … <EndSearch> FAILED   only if there is an edge: the parent of u; found means a cycle, NO
    v - u                                only if u is new: v is its parent, and the walk goes there

The *full* form holds the pieces of the regular expressions as tokens, and really runs. Put the tokens between
the last two markers side by side and you have a pattern; write out all tokens in front of them with a space
behind each and you have its text; what the first match captures is the result. The *compact* form keeps only
what varies:
`v` for a parent, `p v` for the edge at v after (p, v), `0 v` for the first edge at v, and pairs without their
dash. `expand` and `contract` translate one into the other, token by token.

A search for an edge reads the list from its start and must know where the list ends; the pair `0 - 1` that
follows it is what it looks for. Pieces write \\s for the space, so that no token contains one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.tasks.tree_search import Rounds

__all__ = [
    "PIECES",
    "SPECIALS",
    "Segment",
    "compact_segments",
    "contract",
    "expand",
    "full_segments",
    "longest_trace",
    "spell_out",
]

Word = str | Tensor

SPECIALS = ("<s>", "~", "<StartSearch>", "<EndSearch>", "FAILED", "-")

_PARENT = r"(\d+)\s-\s"
_PARENT_END = r"\s"
_LIST = r"^<s>\s(?:\d+\s~\s\d+\s)*?(?:"
_EDGE = r"\s~\s"
_OR = "|"
_THEN = r")\s(?:\d+\s~\s\d+\s)*?(?:"
_OTHER = r"\s~\s)?(\d+)(?:\s~\s"
_END = r")?\s(?:\d+\s~\s|0\s-\s)"
PIECES = (_PARENT, _PARENT_END, _LIST, _EDGE, _OR, _THEN, _OTHER, _END)


def parent_pattern(vertex: Word) -> tuple[Word, ...]:
    """The number that was written before `- vertex`."""
    return (_PARENT, vertex, _PARENT_END)


def first_edge_pattern(vertex: Word) -> tuple[Word, ...]:
    """Skip whole edges; then one whose first or second end is the vertex, captured at the other."""
    return (_LIST, vertex, _OTHER, vertex, _END)


def next_edge_pattern(previous: Word, vertex: Word) -> tuple[Word, ...]:
    """The same, behind the edge between `previous` and the vertex, either way round."""
    either_way = (previous, _EDGE, vertex, _OR, vertex, _EDGE, previous)
    return (_LIST, *either_way, _THEN, vertex, _OTHER, vertex, _END)


def longest_trace(n: int, *, full: bool) -> int:
    """Tokens of the longest trace on n vertices, its verdict left out.

    A tree has n first visits, n − 1 returns, n − 1 pushes, and meets each parent's edge once; anything else
    stops sooner. The numbers count the words of `compact_segments` and `full_segments`.
    """
    if full:
        return 3 + n * (7 + 8) + (n - 1) * (7 + 16 + 16 + 9)
    return 2 + n * (5 + 5) + (n - 1) * (5 + 5 + 5 + 6)


class Segment(NamedTuple):
    """Words that stand together in a round, where they do, and whether a search returns them."""

    words: tuple[Word, ...]
    present: Bool[Tensor, "batch round"]
    returned: bool = False


def full_segments(rounds: Rounds) -> Iterator[Segment]:
    """Everything that a round may hold in the full form, in order."""
    here, vertex, parent = rounds.vertex > 0, rounds.vertex, rounds.parent
    first = rounds.previous == parent
    yield Segment((vertex,), here)
    yield from _search(parent_pattern(vertex), parent, here)
    yield from _search(first_edge_pattern(vertex), rounds.edge, here & first, fails=rounds.edge == 0)
    after_previous = next_edge_pattern(rounds.previous, vertex)
    yield from _search(after_previous, rounds.edge, here & ~first, fails=rounds.edge == 0)
    after_parent = next_edge_pattern(parent, vertex)
    yield from _search(after_parent, rounds.edge_again, rounds.again, fails=rounds.edge_again == 0)
    yield from _search(parent_pattern(rounds.next), rounds.next_parent, rounds.next > 0, fails=rounds.new)
    yield Segment((vertex, "-", rounds.next), rounds.new)


def compact_segments(rounds: Rounds) -> Iterator[Segment]:
    """Everything that a round may hold in the compact form, in order."""
    here, vertex, parent = rounds.vertex > 0, rounds.vertex, rounds.parent
    after = torch.where(rounds.previous == parent, 0, rounds.previous)
    yield Segment((vertex,), here)
    yield from _search((vertex,), parent, here)
    yield from _search((after, vertex), rounds.edge, here, fails=rounds.edge == 0)
    yield from _search((parent, vertex), rounds.edge_again, rounds.again, fails=rounds.edge_again == 0)
    yield from _search((rounds.next,), rounds.next_parent, rounds.next > 0, fails=rounds.new)
    yield Segment((vertex, rounds.next), rounds.new)


def expand(trace: list[str]) -> list[str]:
    """A compact trace in full."""
    return _translate(trace, pair_width=2, pair=_with_dash, query=spell_out, asks_parent=_is_single)


def contract(trace: list[str]) -> list[str]:
    """A full trace in short."""
    return _translate(trace, pair_width=3, pair=_without_dash, query=_cut_short, asks_parent=_names_parent)


def spell_out(query: list[str]) -> list[str]:
    """The pieces of the pattern that a compact search of one or two numbers stands for."""
    if len(query) == 1:
        pattern = parent_pattern(*query)
    else:
        if len(query) != 2:
            raise InvalidInput(f"A compact search has one or two numbers; got {len(query)} words.")
        previous, vertex = query
        pattern = first_edge_pattern(vertex) if previous == "0" else next_edge_pattern(previous, vertex)
    return [str(word) for word in pattern]


def _search(
    query: tuple[Word, ...],
    result: Tensor,
    present: Bool[Tensor, "batch round"],
    *,
    fails: Bool[Tensor, "batch round"] | None = None,
) -> Iterator[Segment]:
    yield Segment(("<StartSearch>", *query, "<EndSearch>"), present)
    if fails is None:
        yield Segment((result,), present, returned=True)
    else:
        yield Segment((result,), present & ~fails, returned=True)
        yield Segment(("FAILED",), present & fails, returned=True)


def _translate(
    trace: list[str],
    *,
    pair_width: int,
    pair: Callable[[list[str]], list[str]],
    query: Callable[[list[str]], list[str]],
    asks_parent: Callable[[list[str]], bool],
) -> list[str]:
    """Rewrite the queries and the pairs; a pair stands at the start and after a parent that was not found."""
    if not trace:
        return []
    written = pair(trace[:pair_width])
    place = pair_width
    while place < len(trace):
        if trace[place] != "<StartSearch>":
            written.append(trace[place])
            place += 1
            continue
        if "<EndSearch>" not in trace[place:]:
            raise InvalidInput("A trace closes every <StartSearch> with an <EndSearch>; one is left open.")
        end = trace.index("<EndSearch>", place)
        asked = trace[place + 1 : end]
        result = trace[end + 1 : end + 2]
        written += ["<StartSearch>", *query(asked), "<EndSearch>", *result]
        place = end + 2
        if result == ["FAILED"] and asks_parent(asked):
            written += pair(trace[place : place + pair_width])
            place += pair_width
    return written


def _with_dash(pair: list[str]) -> list[str]:
    return [*pair[:1], "-", *pair[1:]]


def _without_dash(pair: list[str]) -> list[str]:
    return [*pair[:1], *pair[2:]]


def _is_single(query: list[str]) -> bool:
    return len(query) == 1


def _names_parent(query: list[str]) -> bool:
    return query[:1] == [_PARENT]


def _cut_short(query: list[str]) -> list[str]:
    numbers = [word for word in query if word not in PIECES]
    if len(numbers) == 1:
        return numbers
    # The first edge names its vertex twice; the edge after (p, v) begins with p, v.
    return ["0", numbers[0]] if len(numbers) == 2 else numbers[:2]
