"""W-4.7: IsTree by a Transformer of nine layers that writes the depth-first tour, then its answer.

At each word of the tour, a vertex v, the model looks up which edge brought it there, where v was first met
and from which vertex (its parent f), which edge at v comes next, and whether the vertex behind that one has
been met. All of this is comparing whole numbers, and every number but one fraction is whole and exact.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from separatrix.errors import InvalidInput
from separatrix.generation.scripts.is_tree import TourScript
from separatrix.tasks.is_tree import IsTree
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import Field, LayerScript, Linear, Program, build
from separatrix.witnesses.language.forms import Term, as_linear, constant, joined
from separatrix.witnesses.language.gated import product, threshold, when
from separatrix.witnesses.language.search_heads import Mark, Places, copy, count, match, only, tally
from separatrix.witnesses.witness import Witness

__all__ = ["is_tree_tour", "is_tree_tour_every_n"]

_SOURCE: Final = "W-4.7"
_FAMILY: Final = "transformer-cot"
_VERTEX: Final = "vertex"
_EVERY_N: Final = "every n"


def is_tree_tour(task: IsTree, choices: Choices) -> Witness:
    """Nine layers of constant width decide every graph of n vertices and n − 1 edges, with 2n − 1 words.

    Places are known: the graph ends at 3n − 2, where the model writes 1; the word at 3n − 1 has no vertex
    before it; and only the tour of a tree ends at 5n − 3. How a step is found is said at `tour_program`.
    """
    return _witness(task, choices, variant="")


def is_tree_tour_every_n(task: IsTree, choices: Choices) -> Witness:
    """One set of weights for all graphs of at most n vertices, in nine layers, with one head more.

    Where the graph ends cannot be seen in time, so 1 is written behind every edge, and behind <s>. A word of
    the tour is a number with two numbers before it. That leaves out its first word, which stands at 3s − 1 if
    there are s vertices and looks like the first end of an edge; so vertex 1 is treated apart: it has no
    parent, and has been met. The first word that is recognised stands at P₂ = 3s, the tour of a tree ends at
    P = 5s − 3, and no other one does: YES iff 3P = 5P₂ − 9. Where no word is recognised, 3 is read for P₂;
    then s = 1 and P = 2, which is right, or P = 3s − 1 ≥ 5, and the answer is NO.
    """
    return _witness(task, choices, variant=_EVERY_N)


def _witness(task: IsTree, choices: Choices, *, variant: str) -> Witness:
    if task.form != "cot":
        raise InvalidInput(
            f"This construction writes the tour and is for IsTree in the form cot; got form={task.form!r}. "
            "Try form='cot'."
        )
    built = build(tour_program(task, every_n=variant == _EVERY_N), choices.system)
    return witness_of(built, theorem=_SOURCE, family=_FAMILY, variant=variant, script=TourScript(task))


def tour_program(task: IsTree, *, every_n: bool) -> Program:
    """Layer by layer; v is the vertex at a word of the tour and p the one before it, 0 for none.

    1. The words one and two back. Then both ends of an edge, at its second end; and the roles of positions.
    2. COUNT gives 1/(1 + c), where c occurrences of v have been seen. Then v and p, on the tour only.
    3. From 1/(1 + c) to 1 + c. Then whether p < v.
    4. The second end of an edge gets the count of the first. An edge a ~ b now knows that it is the c_a-th
       one at a and the c_b-th at b. Then the lesser and the greater of p and v.
    5. The edge between p and v, by both its ends. Then t: it is the t-th edge at v; 0 if there is none.
    6. The first word of the tour that is v. Its p is the parent f, and its t is the number that the edge to f
       has at v, say t_f; both are 0 at the root. If v is met for the first time, t = t_f, and later the walk
       comes back from a child, by another edge. To be looked at is the first edge at v, or the one after the
       t-th; if that is the edge to f, the next. So it is the q-th one,
       q = [t ≠ t_f]·t + 1 + [t + 1 = t_f] + [t = t_f = 1].
    7. Nothing is asked (every n: P₂). Then q², and whether the tour has the length of a tree's.
    8. Two heads look for the edge that is the q-th one at its first end v, and at its second. At most one
       finds it, the other one returns 0, so their sum is the vertex u behind it, or 0. Then f, if u = 0.
    9. The word at which u was first met: g = u, or 0 if there is none. Then w = u − g, or w = f if u = 0. Is
       w > 0, it is written. Else an edge has closed a cycle, or the walk is over; the answer is YES if the
       tour has the length of a tree's, else NO.

    This is algorithm 1. It takes the edges at v in order, and those before the q-th one lead to f or to
    vertices that were met: so u, if new, is what algorithm 1 visits next. If there is no u it returns to f.
    If u has been met and is not f, there is a cycle, and NO can be said at once. A walk that is over and has
    2n − 1 words has met n vertices; with n − 1 edges that is a tree. No other walk has so many.

    Every head is hard: its target leads by 1 for a scale of 1 (layer 3: by ¾), as the heads' own proofs say,
    which want at most one position with the mark that is asked for, and marks that are not 0. In layer 5 the
    words that are no vertex ask with a mark that nobody has. In layer 9 what is asked for may be 0, and then
    all positions that match return 0. In layer 3 the coefficient n is enough: counts are read at ends of
    edges only, and there c < n. All numbers but the share of layer 2 are whole, so they are exact while they
    fit. The largest logits are N·(v − v′)² in layer 6 and n·N²/2 in layer 3, N = 5n − 3 the longest text:
    times the scale, 746 and 995 in float64, they are at most 10^13.1 for n = 1000, where floats are 2^-9
    apart. A sum of a few such is off by less than 1, and leads are 745 or more: what a rival weighs is lost
    when it is added to 1. In fixed point the square of a place, N², has to fit; where there is room for that,
    a logit that is cut off is still far below its target's.
    """
    program = Program(task, causal=True, gated=True)
    places = Places(program)
    text = _read(program, places, task.n, every_n=every_n)
    step = _find_next(program, places, text, task.n, every_n=every_n)
    _write(program, places, text, step, task.n, every_n=every_n)
    return program


class _Roles(NamedTuple):
    """What a position is for."""

    on_tour: Field
    """It is a word of the tour; in the form for every n, not the first."""
    follows: Field
    """It is a word of the tour with another one before it."""
    begins: Linear
    """The tour begins behind it."""
    root: Linear
    """In the form for every n: it is the vertex 1."""


class _Text(NamedTuple):
    """What positions know after four layers."""

    roles: _Roles
    vertex: Mark
    """The vertex that stands here, 0 at other words."""
    toured: Mark
    """v, at words of the tour."""
    previous: Mark
    """p, at words of the tour."""
    rises: Field
    """Whether p < v."""
    lesser: Linear
    """The lesser one of p and v."""
    ends: tuple[Mark, Mark]
    """At the second end of an edge: both ends."""
    counts: tuple[Mark, Mark]
    """At the second end of an edge: the number that it has at its first end, and at its second."""


class _Step(NamedTuple):
    """What a word of the tour knows after seven layers."""

    parent: Linear
    number: Mark
    """q: the next edge is the q-th one at v."""
    new: Mark
    """v, if it is met for the first time, else 0."""
    enough: Field
    """Whether a tour that is over here has the length of a tree's."""


def _read(program: Program, places: Places, n: int, *, every_n: bool) -> _Text:
    """Layers 1 to 4."""
    words = program.words()
    vertex, is_vertex = words.number(_VERTEX), words.is_(_VERTEX)
    here = Mark(vertex, words.square(_VERTEX))
    with program.layer() as layer:
        word = joined([vertex, words.is_("~"), is_vertex])
        back = copy(layer, "one back", places, back=1, value=word)
        back_two = copy(layer, "two back", places, back=2, value=word)
        ends = product(layer, "ends", back[1], joined([back_two[0], vertex]), 0, n)
        if every_n:
            roles = _roles_by_words(layer, places, vertex, back, numbers=is_vertex + back[2] + back_two[2])
        else:
            roles = _roles_by_places(layer, places, n)
    with program.layer() as layer:
        share = count(layer, "share", places, key=here, query=here)
        toured = product(layer, "toured", roles.on_tour, vertex, 0, n)
        previous = product(layer, "previous", roles.follows, back[0], 0, n)
        marked_ends = (_squared(layer, "first end", ends[0], n), _squared(layer, "second end", ends[1], n))
    with program.layer() as layer:
        met = tally(layer, "met", places, share=share, most=n)
        rises = threshold(layer, "rises", vertex - previous, 1)
        marked_toured, marked_previous = (
            _squared(layer, "toured", toured, n),
            _squared(layer, "previous", previous, n),
        )
    second = Mark(met[0] - 1, met[1] - 2 * met[0] + 1)
    with program.layer() as layer:
        first = copy(layer, "first count", places, back=2, value=joined([second.form, second.square]))
        lesser = vertex + product(layer, "to the lesser", rises, previous - vertex, -n, 0)
    return _Text(
        roles=roles,
        vertex=here,
        toured=marked_toured,
        previous=marked_previous,
        rises=rises,
        lesser=lesser,
        ends=marked_ends,
        counts=(Mark(first[0], first[1]), second),
    )


def _find_next(program: Program, places: Places, text: _Text, n: int, *, every_n: bool) -> _Step:
    """Layers 5 to 7."""
    vertex, previous, blank = text.vertex.form, text.previous.form, 1 - program.words().is_(_VERTEX)
    both = Mark(
        joined([text.lesser, previous + as_linear(vertex) - text.lesser]),
        # A word that is no vertex has two zeros here; as if their squares were 1, only position 1 is left.
        text.previous.square + as_linear(text.vertex.square) + blank,
    )
    with program.layer() as layer:
        numbers = joined(each.form for each in text.counts)
        found = only(
            layer, "used edge", places, key=text.ends[0].and_(text.ends[1]), query=both, value=numbers
        )
        last = found[0] + product(layer, "used edge, by second end", text.rises, found[1] - found[0], -n, n)
    with program.layer() as layer:
        arrival = match(
            layer,
            "arrival",
            places,
            key=text.toured,
            query=Mark(vertex - 2 * text.roles.root, text.vertex.square),
            value=joined([previous, last]),
        )
        apart = last - arrival[1]
        new = when(layer, "new", apart, 0, joined([last, text.toured.form]), 0, n)
        skipped = when(layer, "skipped", apart, -1, 1, 0, 1)
        skipped_first = when(layer, "skipped first", (n + 1) * apart + last, 1, 1, 0, 1)
    number = last - new[0] + 1 + skipped + skipped_first
    with program.layer() as layer:
        enough = _enough(layer, places, text.roles, n, every_n=every_n)
        return _Step(
            parent=arrival[0],
            number=_squared(layer, "number of next edge", number, n + 1),
            new=_squared(layer, "new vertex", new[1], n),
            enough=enough,
        )


def _write(program: Program, places: Places, text: _Text, step: _Step, n: int, *, every_n: bool) -> None:
    """Layers 8 and 9."""
    with program.layer() as layer:
        behind = [
            only(
                layer,
                f"behind next edge, from {('first', 'second')[end]} end",
                places,
                key=text.ends[end].and_(text.counts[end]),
                query=text.vertex.and_(step.number),
                value=text.ends[1 - end].form,
            )
            for end in (0, 1)
        ]
        following = _squared(layer, "following", behind[0] + behind[1], n)
        back = when(layer, "back to", following.form, 0, step.parent, 0, n)
        root = as_linear(when(layer, "back at root", following.form, 1, 1, 0, 1) if every_n else 0)
    begins = text.roles.begins
    with program.layer() as layer:
        known = only(layer, "known", places, key=step.new, query=following, value=step.new.form)
        goes_on = following.form + back - known - root
        value = product(layer, "vertex to write", 1 - begins, goes_on, 0, n)
        writes = threshold(layer, "writes a vertex", goes_on + begins, 1)
        yes = threshold(layer, "is a tree", step.enough - goes_on, 1)
    program.answer_words(
        numbers={_VERTEX: (writes, value + begins)}, words={"YES": yes, "NO": 1 - writes - yes}
    )


def _squared(layer: LayerScript, name: str, number: Term, most: int) -> Mark:
    """A whole number from 0 to `most` as a mark."""
    return Mark(number, product(layer, f"{name} squared", number, number, 0, most**2))


def _roles_by_places(layer: LayerScript, places: Places, n: int) -> _Roles:
    """For one n, the place says it."""
    return _Roles(
        on_tour=threshold(layer, "on tour", places.place, 3 * n - 1),
        follows=threshold(layer, "follows", places.place, 3 * n),
        begins=as_linear(when(layer, "begins", places.place, 3 * n - 2, 1, 0, 1)),
        root=constant([0]),
    )


def _roles_by_words(
    layer: LayerScript, places: Places, vertex: Linear, back: Field, *, numbers: Linear
) -> _Roles:
    """For every n: by whether the word and the two before it are numbers, and where an edge ends."""
    on_tour = when(layer, "on tour", numbers, 3, 1, 0, 1)
    return _Roles(
        on_tour=on_tour,
        follows=on_tour,
        begins=back[1] + places.first,
        root=as_linear(when(layer, "root", vertex, 1, 1, 0, 1)),
    )


def _enough(layer: LayerScript, places: Places, roles: _Roles, n: int, *, every_n: bool) -> Field:
    """Whether a tour that is over here is as long as a tree's."""
    if not every_n:
        return when(layer, "long enough", places.place, 5 * n - 3, 1, 0, 1)
    start = match(
        layer,
        "second word of tour",
        places,
        key=Mark(roles.on_tour, roles.on_tour),
        query=Mark(1, 1),
        value=places.place + 2 * places.first,
    )
    return when(layer, "long enough", 3 * places.place - 5 * start + 9, 0, 1, 0, 1)
