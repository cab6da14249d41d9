"""W-5.7: IsTree by linear recurrences under one attention layer, which finds the next edge by doubling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

from separatrix.generation.scripts.is_tree_doubling import (
    AGAIN,
    BACK,
    CANDIDATE,
    DOWN,
    EDGE,
    PROBE,
    VERTEX,
    DoublingTourScript,
)
from separatrix.tasks.is_tree import IsTree
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import (
    Field,
    LayerScript,
    Linear,
    Obligation,
    Program,
    Rival,
    build,
    joined,
)
from separatrix.witnesses.language.forms import Term, as_linear, constant, zeros
from separatrix.witnesses.language.gated import product
from separatrix.witnesses.language.operations import Gadget, Undecided, Unit
from separatrix.witnesses.language.search_heads import Mark, nearest_coefficients
from separatrix.witnesses.language.words import Words
from separatrix.witnesses.witness import Witness

__all__ = ["is_tree_doubling"]

_SOURCE: Final = "W-5.7"
_NUMBERS: Final = (VERTEX, DOWN, BACK, CANDIDATE, EDGE, PROBE, AGAIN)
_START, _JOINED = "<s>", "~"
_QUARTER: Final = Fraction(1, 4)


def is_tree_doubling(task: IsTree, choices: Choices) -> Witness:
    """Two recurrent layers and an attention layer of four heads write the tour in O(n log n) tokens.

    What the words mean is said at `DoublingTourScript`. The attention layer is the last one, so what a head
    returns goes through one gated hidden layer and then is the next word; with that word in their windows
    the recurrent layers make the next query.

    Edges at their ends. A token knows those before it only, so the larger end v of the edge u ~ v is kept by
    its own token, with u beside it, and the smaller end u by the token behind, with v beside it. Both have
    the edge's number, a running sum over `~`. A vertex is an end of an edge once, so the order of its edges
    is that of their numbers.

    Doubling. Let e be the last used edge of v, let all others behind it lie more than 2T ahead, and let the
    edge of v nearest to e + T′ be looked for, T′ = 2T + 1, the later of two. If it is e, all others are more
    than 2T′ ahead. If not, it lies behind e, which is nearer than all before it; no edge of v lies between e
    and e + T′, because it would be at most 2T ahead, and none between e + T′ and the one found, because it
    would be nearer: it is the next one. The last two words of a search, a = e + T and b = e + T′, give
    e = 2a − b + 1 and the next place 3b − 2a. A search is made only if v has an edge behind e, so it ends,
    and its places do not pass that edge. The vertex that is searched for is added to a running sum at `#e`
    and taken off at `@v`: the sum is 0 elsewhere.

    The tour is that of algorithm 1: an edge that leads to a visited vertex, the parent among them, is passed
    over. At most 2n words go down or back, 2(n − 1) name candidates, and each of as many searches has at
    most 1 + log n words, so there are O(n log n). The state is 24 whole numbers up to n², O(log n) bits.
    The graph has n − 1 edges, as many as `~` were counted; it is a tree iff one vertex more was gone down to.
    So nothing depends on n but the range of numbers, and the weights serve every graph of fewer vertices.
    """
    script = DoublingTourScript(task)
    program = Program(
        task,
        causal=True,
        gated=True,
        vocabulary=script.vocabulary,
        longest=task.prompt + script.limit,
    )
    text = _Text(program.words())
    with program.recurrent_layer() as layer:
        past = _remember(layer, text, task.n)
        ends = _ends(layer, text, past, task.n)
        asked = _asked(layer, text, past, task.n)
    with program.recurrent_layer() as layer:
        searching = layer.running_sum("searching at", asked.begun - text.number(AGAIN), low=0, high=task.n)
        square = product(layer, "searching at, squared", searching, searching, 0, task.n**2)
    with program.layer() as layer:
        found = _look(layer, text, ends, asked, Mark(searching, square), longest=program.longest, n=task.n)
        _write(program, layer, text, asked, found, searching, task.n)
    return witness_of(build(program, choices.system), theorem=_SOURCE, family="hybrid-cot", script=script)


@final
@dataclass(frozen=True, eq=False)
class _Text:
    """Forms of the token at hand."""

    words: Words

    def number(self, *blocks: str) -> Linear:
        """The number of a token of these blocks, 0 at others."""
        return _sum(self.words.number(block) for block in blocks)

    def square(self, *blocks: str) -> Linear:
        """Its square."""
        return _sum(self.words.square(block) for block in blocks)

    def is_(self, *names: str) -> Linear:
        """1 at a token of these blocks or words."""
        return _sum(self.words.is_(name) for name in names)


@final
@dataclass(frozen=True, eq=False)
class _Past:
    """Of the tokens one, two and three back: number, square, and which of some kinds they are.

    `place` is 1 and the number of edges so far, `visited` how often the walk went down.
    """

    numbers: Sequence[Linear]
    squares: Sequence[Linear]
    kinds: Sequence[Linear]
    joints: Sequence[Linear]
    place: Field
    visited: Field

    _KINDS = (VERTEX, BACK, CANDIDATE, EDGE, PROBE)

    def was(self, kind: str) -> Linear:
        """1 if the token one back is of this block."""
        return self.kinds[0][self._KINDS.index(kind)]


def _remember(layer: LayerScript, text: _Text, n: int) -> _Past:
    return _Past(
        numbers=layer.window("numbers", text.number(*_NUMBERS), length=3),
        squares=layer.window("squares", text.square(*_NUMBERS), length=3),
        kinds=layer.window("kinds", joined(text.is_(kind) for kind in _Past._KINDS), length=1),
        joints=layer.window("joints", text.is_(_JOINED), length=2),
        place=layer.running_sum("place", text.is_(_START, _JOINED), low=0, high=n),
        visited=layer.running_sum("ways down", text.is_(DOWN), low=0, high=n),
    )


@final
@dataclass(frozen=True, eq=False)
class _Ends:
    """What a token keeps for others: an end of an edge with the other end, and the parent of a new vertex."""

    pair: Field
    squares: Field
    place: Field
    place_square: Field
    parent: Field


def _ends(layer: LayerScript, text: _Text, past: _Past, n: int) -> _Ends:
    larger, smaller = _larger(text, past), past.was(VERTEX) + past.joints[1] - 1
    (one, two, three), (one_square, two_square, three_square) = past.numbers, past.squares
    return _Ends(
        pair=_chosen(
            layer,
            "end and other end",
            [(larger, joined([text.number(VERTEX), two])), (smaller, joined([three, one]))],
            high=n,
        ),
        squares=_chosen(
            layer,
            "ends squared",
            [
                (larger, joined([text.square(VERTEX), two_square])),
                (smaller, joined([three_square, one_square])),
            ],
            high=n**2,
        ),
        place=past.place,
        place_square=product(layer, "place squared", past.place, past.place, 0, n**2),
        parent=_chosen(layer, "parent", [(text.is_(DOWN) + past.was(CANDIDATE) - 1, two)], high=n),
    )


def _larger(text: _Text, past: _Past) -> Linear:
    """1 at the larger end of an edge, which is the second one, less elsewhere."""
    return text.is_(VERTEX) + past.joints[0] - 1


@final
@dataclass(frozen=True, eq=False)
class _Asked:
    """What a token wants to know, as far as the last three tokens tell.

    `begun` is where a search begins, at its `#e`. `used` is the edge it starts from, `near` the place of the
    edge to look at. `at` is where the walk stands when a candidate is named or it has gone back, and `other`
    the candidate or the vertex it has come back from. `still` is 1 where there is no such vertex. `done` and
    `yes` are 1 at the end of the tour, `start` where a tour may begin.
    """

    begun: Field
    used: Linear
    near: Linear
    at: Mark
    other: Mark
    still: Linear
    done: Field
    yes: Field
    start: Linear


def _asked(layer: LayerScript, text: _Text, past: _Past, n: int) -> _Asked:
    (one, two, _), (one_square, two_square, _) = past.numbers, past.squares
    number, is_ = text.number, text.is_
    from_back, from_candidate = past.was(BACK) - 1, past.was(CANDIDATE) - 1
    begun = _chosen(layer, "begun", [(is_(EDGE) + from_back, one), (is_(EDGE) + from_candidate, two)], high=n)
    walker = _chosen(layer, "walker", [(is_(CANDIDATE), joined([one, one_square]))], high=n**2)
    left = _chosen(
        layer,
        "left",
        [
            (is_(BACK) + from_back, joined([one, one_square])),
            (is_(BACK) + from_candidate, joined([two, two_square])),
        ],
        high=n**2,
    )
    before = _chosen(layer, "place before", [(is_(PROBE), one)], high=n)
    settled = _chosen(
        layer,
        "place settled",
        [
            (is_(AGAIN) + past.was(EDGE) - 1, one + 1),
            (is_(AGAIN) + past.was(PROBE) - 1, 3 * one - 2 * two),
        ],
        high=n,
    )
    # At <0 the walk has left the root; it is right to say YES if it went down to every vertex.
    at_end = is_(BACK) - number(BACK)
    done = _chosen(layer, "done", [(at_end, constant([1]))], high=1)
    yes = _chosen(layer, "all visited", [(at_end - past.place + past.visited, constant([1]))], high=1)
    larger = _chosen(layer, "an edge's end", [(_larger(text, past), constant([1]))], high=1)
    tried = number(EDGE) + is_(EDGE) + 3 * number(PROBE) - 2 * before + settled
    return _Asked(
        begun=begun,
        used=number(EDGE) + 2 * before - number(PROBE) + is_(PROBE),
        near=1 + tried + (n - 1) * is_(CANDIDATE, BACK),
        at=Mark(walker[0] + number(BACK), walker[1] + text.square(BACK)),
        other=Mark(number(CANDIDATE) + left[0], text.square(CANDIDATE) + left[1]),
        still=1 - is_(CANDIDATE, BACK) + done,
        done=done,
        yes=yes,
        start=larger + is_(_START),
    )


@final
@dataclass(frozen=True, eq=False)
class _Found:
    """What the heads return: the nearest edge and its other end, the edge asked for, and about vertices."""

    nearest: Linear
    neighbour: Linear
    edge: Linear
    visited: Field
    parent: Field


def _look(
    layer: LayerScript, text: _Text, ends: _Ends, asked: _Asked, searching: Mark, *, longest: int, n: int
) -> _Found:
    """Four heads; where nothing matches each returns what `<s>` has: edge 0, vertex 0, not visited.

    NEAREST has the logit −B·(K − v)² − (3u² − u)/2, but for what the query alone adds, with u the distance
    of the edge's place from `near`: so the later of two equally near edges comes first. `<s>` has place 1 and
    the edges follow, as at `nearest_coefficients`. At `?` and `<` it returns the last edge of v. The others
    look for what only one token has: logit −2D, and −1 at `<s>`. A token that asks nothing asks for −1.

    What all keys have in common is chosen so that the logits of targets lie on both sides of 0, and factors
    are divided between query and key, so that all numbers are at most about n² times the scale.
    """
    first, rivals = text.is_(_START), [Rival(gap=Fraction(1), count=longest)]

    def select(name: str, pairs: list[tuple[Term, Term]], value: Term) -> Field:
        return layer.select(name, match=pairs, value=value, rivals=rivals, hard=True)

    def only(name: str, key: Mark, query: Mark, value: Term) -> Field:
        pairs: list[tuple[Term, Term]] = [
            (4 * as_linear(query.form)[row], as_linear(key.form)[row])
            for row in range(as_linear(key.form).out)
        ]
        pairs += [(constant([-2]), key.square), (_QUARTER * as_linear(query.square), 8 * (first - 1))]
        return select(name, [*pairs, (constant([-1]), first)], value)

    idle = asked.still - text.is_(DOWN, EDGE, PROBE, AGAIN)
    vertex = _parts(
        asked.at, searching, Mark(text.number(DOWN, AGAIN) - idle, text.square(DOWN, AGAIN) + idle)
    )
    factor, alpha, beta = nearest_coefficients(max(2, n), 1, max(2, n))
    # B is taken as a square, so that the two factors of B·v·K are of one size.
    root = math.isqrt(factor - 1) + 1
    near = select(
        "nearest edge",
        [
            (Fraction(root, 2) * as_linear(vertex.form), 4 * root * ends.pair[0]),
            (constant([-_QUARTER * root**2]), 4 * ends.squares[0]),
            (_QUARTER * as_linear(vertex.square), 4 * root**2 * (first - 1)),
            (3 * asked.near + Fraction(1, 2), ends.place),
            (constant([Fraction(-3, 2)]), ends.place_square + n**2 // 2),
            (_QUARTER * (alpha + beta * asked.near), 4 * (1 - first)),
        ],
        joined([ends.place, ends.pair[1]]),
    )
    at = _parts(asked.at, Mark(-asked.still, asked.still))
    ends_mark = Mark(ends.pair, ends.squares[0] + ends.squares[1])
    edge = only("edge", ends_mark, at.and_(asked.other), ends.place)
    new = Mark(text.number(DOWN), text.square(DOWN))
    no_candidate = 1 - text.is_(CANDIDATE)
    candidate = Mark(text.number(CANDIDATE) - no_candidate, text.square(CANDIDATE) + no_candidate)
    return _Found(
        nearest=near[0] - 1,
        neighbour=near[1],
        edge=edge - 1,
        visited=only("visited already", new, candidate, text.is_(DOWN)),
        parent=only("way back", new, at, ends.parent),
    )


def _write(
    program: Program, layer: LayerScript, text: _Text, asked: _Asked, found: _Found, searching: Field, n: int
) -> None:
    """The next word, by one gated hidden layer: each unit is a flag, at most 1, times what is written then.

    The last edge of a vertex is no earlier than any other, and the nearest to a place behind an edge no
    earlier than that: so 1 − (difference) is positive only where two edges are the same.
    """
    is_ = text.is_
    one, going_on = constant([1]), is_(EDGE, PROBE)
    # A candidate that was visited, or the way back: is there an edge behind this one?
    passed = is_(BACK) - asked.done + found.visited
    last = passed - found.nearest + found.edge
    alone = is_(DOWN) - found.neighbour
    same = going_on - found.nearest + asked.used
    fresh = is_(CANDIDATE) - found.visited
    back = _chosen(layer, "back", [(last, joined([one, found.parent])), (alone, constant([1, 0]))], high=n)
    mark = joined([one, found.edge])
    used = _chosen(layer, "used", [(passed, mark), (last, -mark)], high=n)
    tried = _chosen(layer, "tried", [(same, joined([one, asked.near - 1]))], high=n)
    again = _chosen(
        layer, "again", [(going_on, joined([one, searching])), (same, -joined([one, searching]))], high=n
    )
    down = _chosen(layer, "down", [(fresh, text.number(CANDIDATE))], high=n)
    stuck = _chosen(layer, "stuck", [(alone, one)], high=1)
    candidate = _chosen(layer, "candidate", [(is_(DOWN, AGAIN), found.neighbour)], high=n)
    program.answer_words(
        numbers={
            DOWN: (asked.start + fresh, asked.start + down),
            BACK: (back[0], back[1]),
            CANDIDATE: (is_(DOWN, AGAIN) - stuck, candidate),
            EDGE: (used[0], used[1]),
            PROBE: (tried[0], tried[1]),
            AGAIN: (again[0], again[1]),
        },
        words={"YES": asked.yes, "NO": asked.done - asked.yes},
    )


def _chosen(layer: LayerScript, name: str, cases: Sequence[tuple[Linear, Linear]], *, high: int) -> Field:
    """The sum of the values whose flags are 1. Flags are whole numbers, at most 1; less counts as 0."""
    width = cases[0][1].out
    units = [Unit(form=flag, gate=value[row]) for flag, value in cases for row in range(width)]
    mix = zeros(width, len(units))
    for unit in range(len(units)):
        mix[unit % width, unit] = Fraction(1)

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        whole = [Fraction(0)] * width
        for (flag,), value in zip(values[::2], values[1::2], strict=True):
            if flag.denominator != 1 or flag > 1:
                raise Undecided
            if flag == 1:
                whole = [a + b for a, b in zip(whole, value, strict=True)]
        return tuple(whole)

    def gadget(result: Callable[[int], Field]) -> Gadget:
        return Gadget(
            result=result(width),
            inputs=tuple(form for case in cases for form in case),
            units=tuple(units),
            mix=mix,
            offset=(Fraction(0),) * width,
            tolerance=Fraction(0),
            meaning=meaning,
            obligation=Obligation(
                name="exact",
                statement="its flags are whole numbers and at most 1",
                relation="==",
                threshold=Fraction(0),
                unit="error",
            ),
            text=" + ".join(f"[{flag} = 1]·({value})" for flag, value in cases),
        )

    return layer.gadget(gadget, name, 0, high)


def _parts(*marks: Mark) -> Mark:
    """The mark of one number that is given in parts, all but one of which are 0 wherever it is read."""
    return Mark(_sum(as_linear(mark.form) for mark in marks), _sum(as_linear(mark.square) for mark in marks))


def _sum(forms: Iterable[Linear]) -> Linear:
    first, *others = forms
    return sum(others, start=first)
