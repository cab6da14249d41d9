"""The bounds of S: recurrent models by one message, one attention layer by a conversation under any split."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from separatrix.communication.bounds.counts import bits_for, floor_log, points_apart
from separatrix.communication.bounds.interface import (
    OVERHEAD,
    STATE_BITS,
    WIDTH,
    Ask,
    Rule,
    number,
    states,
    text,
    whole,
)
from separatrix.communication.bounds.one_layer import Needed, layer_bounds
from separatrix.communication.bounds.recurrent import state_bounds
from separatrix.evidence import EXCHANGED_BITS, Bound, TaskSpec, Via
from separatrix.theorems import theorem

__all__ = ["RULES"]

_BOTH: Final = theorem("S-L1").assumptions
"""Deterministic protocols by which both parties know the answer at the end."""


@states("S-T3", tasks=("index-lookup",), families=("rnn",))
def index_lookup(ask: Ask) -> Iterator[Bound]:
    """INDEX on N bits is index lookup with two symbols.

    Alice's message must tell all 2^N strings apart, since Bob can ask for any place of it. So mp ≥ N.
    """
    if whole(ask.spec, "alphabet") >= 2:
        yield from state_bounds(
            ask,
            ask.n,
            "N",
            growth="N",
            via=Via(problem="INDEX", reductions=("index-lookup",)),
            formula=ask.owed.formula,
            split="prefix/suffix",
        )


@states("S-T3", tasks=("index-lookup",), families=("rnn",), variant="alphabet")
def index_lookup_over_an_alphabet(ask: Ask) -> Iterator[Bound]:
    """The same with all |Σ|^N strings: mp ≥ ⌈N·log|Σ|⌉, beyond the paper's statement by its own argument."""
    yield from state_bounds(
        ask,
        bits_for(whole(ask.spec, "alphabet"), ask.n),
        "N·log|Σ|",
        growth="N·log|Σ|",
        via=Via(problem="INDEX", reductions=("index-lookup",)),
        split="prefix/suffix",
    )


@states("S-P9", tasks=("associative-recall",), families=("rnn",))
def recall(ask: Ask) -> Iterator[Bound]:
    """INDEX on N bits: the keys stand for places and both parties know them, the labels are the bits.

    It speaks of pairs; recall in one sequence of tokens is W's (W-4.6).
    """
    if text(ask.spec, "form") == "pairs" and _has_keys(ask):
        yield from state_bounds(
            ask,
            ask.n if _labels(ask.spec) >= 2 else 0,
            "N",
            growth="N",
            via=Via(problem="INDEX", reductions=("associative-recall",)),
            formula=ask.owed.formula,
            split="prefix/suffix",
        )


@states("S-P9", tasks=("associative-recall",), families=("rnn",), variant="alphabet")
def recall_over_an_alphabet(ask: Ask) -> Iterator[Bound]:
    """The same with any labels: |Σ|^N strings, so mp ≥ ⌈N·log|Σ|⌉."""
    if text(ask.spec, "form") == "pairs" and _has_keys(ask):
        yield from state_bounds(
            ask,
            bits_for(_labels(ask.spec), ask.n),
            "N·log|Σ|",
            growth="N·log|Σ|",
            via=Via(problem="INDEX", reductions=("associative-recall",)),
            split="prefix/suffix",
        )


def _has_keys(ask: Ask) -> bool:
    """Whether there is a key for each pair; else there are no inputs of this length."""
    return whole(ask.spec, "keys") == 0 or whole(ask.spec, "keys") >= ask.n


def _labels(spec: TaskSpec) -> int:
    return whole(spec, "values") or 64


@states("S-L1", tasks=("dyck",))
def dyck_on_a_wire(ask: Ask) -> Iterator[Bound]:
    """The members of Dyck-(t,2) of length N are a fooling set for odd against even positions.

    Within depth 2 the depth is 1 after every odd position, so an odd place that opens follows an even one
    that closes, and the reverse: either party's string fixes the shape of the other's. If both crossings of
    two members are members, they all have one shape; each pair of brackets has one end at an odd and one at
    an even place, so the types agree too, and the two members are the same.

    There are F = 2^(N/2 − 1)·t^(N/2) of them: 2^(N−1) for two types. In a protocol by which both parties know
    the answer they end in F different leaves, and non-members in one more at least, so it takes ⌈log(F + 1)⌉
    bits: N for Dyck-(2,2), one more than the paper says. At other depths the members of the shape ()()… alone
    are a fooling set, F = t^(N/2).
    """
    if text(ask.spec, "form") != "recognise":
        return
    via = Via(problem="fooling set, odd/even split", reductions=("dyck",))
    if _is_the_papers(ask.spec):
        yield ask.says(EXCHANGED_BITS, ask.n - 1, asymptotic="Ω(N)", via=via, partition="odd/even")
    yield ask.says(
        EXCHANGED_BITS,
        _dyck_bits(ask.spec) + 1,
        asymptotic="Ω(N)",
        formula=f"bits exchanged ≥ ⌈log(F + 1)⌉, F = {_fooling_set(ask.spec)}",
        via=via,
        partition="odd/even",
    )


@states("S-T5", tasks=("dyck",), families=("transformer-1",))
def dyck_in_one_layer(ask: Ask) -> Iterator[Bound]:
    """S-L1 with S-T4: both parties need ⌊log F⌋ + 1 bits, so a run takes ⌊log F⌋: N − 1 for (2,2)."""
    if text(ask.spec, "form") != "recognise":
        return
    papers = _is_the_papers(ask.spec)
    formula = "N − 1" if papers else f"⌊log({_fooling_set(ask.spec)})⌋"
    yield from layer_bounds(
        ask,
        Needed(bits=_dyck_bits(ask.spec), formula=formula, growth="N"),
        positions=ask.n,
        via=Via(problem="fooling set, odd/even split", reductions=("dyck", "S-T4")),
        printed=ask.owed.formula if papers else "",
    )


def _is_the_papers(spec: TaskSpec) -> bool:
    return (whole(spec, "types"), whole(spec, "depth")) == (2, 2)


def _fooling_set(spec: TaskSpec) -> str:
    return "2^(N/2 − 1)·t^(N/2)" if whole(spec, "depth") == 2 else "t^(N/2)"


def _dyck_bits(spec: TaskSpec) -> int:
    """⌊log F⌋."""
    half = whole(spec, "n") // 2
    shapes = half - 1 if whole(spec, "depth") == 2 else 0
    return shapes + floor_log(whole(spec, "types"), half)


@states("S-T11", tasks=("equality",), families=("rnn",), variant="communication")
def equality(ask: Ask) -> Iterator[Bound]:
    """EQ on the halves: any two first halves are told apart by a second one, so mp ≥ N/2.

    Over an alphabet there are |Σ|^(N/2) of them. Where w is spread over the input, as many pairs (w_i, w′_i)
    count as some cut separates. In the form ncp the model writes w behind the separator, from its state.
    """
    pairs, symbols = _pairs(ask.spec), _symbols(ask.spec)
    usual, written = ask.spec.params["alice"] is None, text(ask.spec, "form") == "ncp"
    count = "N/2" if usual else f"{pairs:,}"
    via = Via(problem="INDEX" if written else "EQ", reductions=("equality",))
    split = "halves" if usual and not written else ""
    if symbols >= 2:
        yield from state_bounds(ask, pairs, count, growth="N", via=via, split=split)
    if symbols != 2:
        bits = bits_for(symbols, pairs)
        yield from state_bounds(ask, bits, f"({count})·log|Σ|", growth="N·log|Σ|", via=via, split=split)


@states("S-T11", tasks=("equality",), families=("rnn",), variant="minimal DFA")
def equality_by_automaton(ask: Ask) -> Iterator[Bound]:
    """The strings of N/2 symbols are pairwise inequivalent in the language of all w w with w as long as they.

    So its minimal automaton has at least |Σ|^(N/2) states, and S-L4 gives mp ≥ (N/2)·log|Σ|, for models whose
    update is the same at every step.
    """
    if text(ask.spec, "form") == "ncp" or ask.spec.params["alice"] is not None:
        return
    symbols, half = _symbols(ask.spec), ask.n // 2
    via = Via(problem="minimal DFA", reductions=("equality",))
    same = theorem("S-L4").assumptions
    if symbols >= 2:
        yield ask.says(STATE_BITS, half, asymptotic="Ω(N)", via=via, assuming=same)
    if symbols != 2:
        yield ask.says(
            STATE_BITS,
            bits_for(symbols, half),
            asymptotic="Ω(N·log|Σ|)",
            formula="mp ≥ (N/2)·log|Σ|",
            via=via,
            assuming=same,
        )


def _symbols(spec: TaskSpec) -> int:
    """|Σ|, chosen where the task leaves it open."""
    return whole(spec, "alphabet") or (2 if text(spec, "form") == "random" else 1024)


def _pairs(spec: TaskSpec) -> int:
    """The most pairs (w_i, w′_i) that some cut of the input separates."""
    n, alice = whole(spec, "n"), spec.params["alice"]
    if alice is None:
        return n // 2
    assert isinstance(alice, tuple)
    first: list[int] = [place for place in alice if isinstance(place, int)]
    second = sorted({*range(n)}.difference(first))
    ends = [(min(pair), max(pair)) for pair in zip(first, second, strict=True)]
    return max(sum(1 for low, high in ends if low < cut <= high) for cut in range(1, n))


@states("S-T12", tasks=("equality",), families=("transformer-1",))
def equality_in_one_layer(ask: Ask) -> Iterator[Bound]:
    """EQ with S-T4: the |Σ|^(N/2) pairs (w, w) are a fooling set, so a run takes ⌊(N/2)·log|Σ|⌋ bits.

    Equal pairs end in that many leaves and unequal ones in one more, and for both parties to know costs one
    bit more than for one. The separator is a position: N + 1 in all.
    """
    if text(ask.spec, "form") == "ncp":
        return
    symbols = _symbols(ask.spec)
    needed = Needed(
        bits=floor_log(symbols, ask.n // 2),
        formula="N/2" if symbols == 2 else "⌊(N/2)·log|Σ|⌋",
        growth="N" if symbols == 2 else "N·log|Σ|",
    )
    via = Via(problem="EQ", reductions=("equality", "S-T4"))
    yield from layer_bounds(ask, needed, positions=ask.n + 1, via=via)


@states("S-L5", tasks=("equality",), variant="any balanced partition")
def equality_on_a_wire(ask: Ask) -> Iterator[Bound]:
    """EQ under every split that gives w and w′ to different parties, wherever their symbols stand.

    At least N/2 bits, as the paper says; the fooling set of |Σ|^(N/2) equal pairs and one leaf for unequal
    ones give ⌈log(|Σ|^(N/2) + 1)⌉, which is N/2 + 1 for bits.
    """
    if text(ask.spec, "form") == "ncp":
        return
    symbols = _symbols(ask.spec)
    via = Via(problem="EQ", reductions=("equality",))
    for split in _equality_splits(ask.spec):
        if symbols >= 2:
            yield ask.says(
                EXCHANGED_BITS, ask.n // 2, asymptotic="Ω(N)", via=via, assuming=_BOTH, partition=split
            )
        yield ask.says(
            EXCHANGED_BITS,
            floor_log(symbols, ask.n // 2) + 1 if symbols >= 2 else 0,
            asymptotic="Ω(N·log|Σ|)",
            formula="bits exchanged ≥ ⌈log(|Σ|^(N/2) + 1)⌉",
            via=via,
            assuming=_BOTH,
            partition=split,
        )


def _equality_splits(spec: TaskSpec) -> tuple[str, ...]:
    """The task's own names for them."""
    if spec.params["alice"] is not None:
        return ("w/w′",)
    return ("halves", "odd/even") if whole(spec, "n") % 4 == 0 else ("halves",)


@states("S-T12", tasks=("disjointness",), families=("transformer-1",))
def disjointness_in_one_layer(ask: Ask) -> Iterator[Bound]:
    """DISJ with S-T4: a set and its complement are disjoint, and these 2^(N/2) pairs are a fooling set.

    So one party must be sent N/2 bits, and for both to know takes N/2 + 1.
    """
    needed = Needed(bits=ask.n // 2, formula="N/2", growth="N")
    via = Via(problem="DISJ", reductions=("disjointness", "S-T4"))
    yield from layer_bounds(ask, needed, positions=ask.n, via=via)
    for split in ("halves", "odd/even") if ask.n % 4 == 2 else ("halves",):
        yield ask.says(
            EXCHANGED_BITS,
            ask.n // 2 + 1,
            asymptotic="Ω(N)",
            formula="bits exchanged ≥ N/2 + 1",
            via=Via(problem="DISJ", reductions=("disjointness",)),
            assuming=_BOTH,
            partition=split,
        )


@states("S-C13.1", families=("transformer-2",))
def protocols_for_two_layers(ask: Ask) -> Iterator[Bound]:
    """By S-L5 some two-layer Transformer with m, p = O(log N) needs N/2 bits under any balanced partition.

    A protocol that runs them all with mpH·g(N) bits therefore has g(N) ≥ N/(2mpH) = Ω(N/(log N)²). It binds
    protocols and no model: two layers may still be small.
    """
    yield ask.says(
        OVERHEAD,
        None,
        asymptotic="Ω(N/(log N)²)",
        via=Via(problem="EQ", reductions=("equality", "S-L5")),
        assuming=(*ask.theorem.assumptions, "it binds what runs every two-layer Transformer, and no model"),
    )


@states("S-T8", tasks=("mqar",), families=("rnn",))
def many_queries(ask: Ask) -> Iterator[Bound]:
    """DISJ on N/2 bits: Bob reads the label of every key and with them Alice's whole set, so mp ≥ N/2.

    With v labels he reads one of v^(N/2) strings, so that it is INDEX over them: mp ≥ ⌈(N/2)·log v⌉.
    """
    labels, half = whole(ask.spec, "vocabulary_size") // 2, ask.n // 2
    if whole(ask.spec, "vocabulary_size") < ask.n:  # too few keys: there are no inputs of this length
        return
    yield from state_bounds(
        ask,
        half if labels >= 2 else 0,
        "N/2",
        growth="N",
        via=Via(problem="DISJ", reductions=("mqar",)),
        formula=ask.owed.formula,
        split="prefix/suffix",
    )
    if labels > 2:
        yield from state_bounds(
            ask,
            bits_for(labels, half),
            "(N/2)·log v, v labels",
            growth="N·log v",
            via=Via(problem="INDEX", reductions=("mqar",)),
            split="prefix/suffix",
        )


@states("S-T8", tasks=("nearest-neighbour",), families=("rnn",))
def nearest(ask: Ask) -> Iterator[Bound]:
    """A point for each place, its label Alice's symbol; Bob asks with the very points.

    His query is at distance 0 from its own point, so the margin γ holds if any two points differ in at least
    ⌈γd/2⌉ of the d coordinates. N − 1 points stand before the query, so with v labels mp ≥ (N − 1)·log v, if
    so many points and one more exist; else K of them carry the string and one fills the rest of the row. The
    paper, whose queries are half of the N points, has N/2; its Ω(N) is for a dimension that grows with N,
    since K depends on dimension and margin alone.
    """
    dimension, labels = whole(ask.spec, "dimension"), whole(ask.spec, "labels")
    gap = math.ceil(number(ask.spec, "margin") * dimension / 2)
    places = min(ask.n - 1, points_apart(dimension, gap) - 1)
    printed = min(Fraction(ask.n, 2), Fraction(places)) if labels >= 2 else 0
    yield from state_bounds(
        ask,
        printed,
        "N/2",
        growth="min(N, K)",
        via=Via(problem="DISJ", reductions=("nearest-neighbour",)),
        formula=ask.owed.formula
        if 2 * places >= ask.n
        else "mp ≥ min(N/2, K), K + 1 points with such a margin",
    )
    yield from state_bounds(
        ask,
        bits_for(labels, places),
        "min(N − 1, K)·log v, v labels, K + 1 points with such a margin",
        growth="min(N, K)·log v",
        via=Via(problem="INDEX", reductions=("nearest-neighbour",)),
        split="prefix/suffix",
    )


@states("S-AR1", tasks=("associative-recall",), families=("transformer-1",))
def recall_in_one_layer(ask: Ask) -> Iterator[Bound]:
    """Nobody knows: INDEX takes few bits when Bob may speak first, so the protocol of S-T4 proves nothing."""
    yield ask.says(WIDTH, None, asymptotic="ω(log N)")


RULES: Final[tuple[Rule, ...]] = (
    index_lookup,
    index_lookup_over_an_alphabet,
    recall,
    recall_over_an_alphabet,
    dyck_on_a_wire,
    dyck_in_one_layer,
    equality,
    equality_by_automaton,
    equality_in_one_layer,
    equality_on_a_wire,
    disjointness_in_one_layer,
    protocols_for_two_layers,
    many_queries,
    nearest,
    recall_in_one_layer,
)
