"""The bounds of W: what a chain of thought cannot add to a small state."""

from __future__ import annotations

from collections.abc import Iterator
from math import log2
from typing import Final

from separatrix.communication.bounds.counts import (
    best_blocks,
    best_hubs,
    bits_for,
    bits_for_counts,
    least_base,
    peak,
)
from separatrix.communication.bounds.interface import STATE_BITS, Ask, Rule, states, text, whole
from separatrix.communication.bounds.recurrent import state_bounds
from separatrix.evidence import Bound, Via
from separatrix.theorems import theorem

__all__ = ["RULES"]

_STREAMS: Final = ("rnn", "linear-rnn-cot")
_CUT: Final = "prefix/suffix"
_STATE: Final = (
    *theorem("S-T2").assumptions,
    "any chain of thought is allowed, since what is written depends on the state after the input alone",
)
"""What the papers' o(n) bits come to when bits are counted."""


@states("W-4.1", tasks=("turing",), families=("rnn",))
def turing_without_thinking(ask: Ask) -> Iterator[Bound]:
    """A regular model of O(log n) bits that answers at once is a circuit of poly(n) gates in all.

    If every Turing machine of linear space on log n cells had such circuits, PSPACE ⊆ P/poly would follow by
    padding. No number comes of it, and the condition is unproven.
    """
    yield ask.says(
        STATE_BITS,
        None,
        asymptotic="more than O(log n), with poly(log n) gates a step",
        via=Via(problem="circuit size"),
    )


@states("W-4.6", tasks=("index-lookup",), families=_STREAMS)
def lookup_in_a_stream(ask: Ask) -> Iterator[Bound]:
    """INDEX over the alphabet, as in S-T3: the state after n symbols tells |Σ|^n strings apart."""
    yield from state_bounds(
        ask,
        bits_for(whole(ask.spec, "alphabet"), ask.n),
        "n·log|Σ|",
        growth="n·log|Σ|",
        via=Via(problem="INDEX", reductions=("index-lookup",)),
        formula="state bits ≥ n·log|Σ|",
        split=_CUT,
        assuming=_STATE,
    )


@states("W-4.6", tasks=("associative-recall",), families=_STREAMS)
def recall_in_a_stream(ask: Ask) -> Iterator[Bound]:
    """INDEX with keys for places: n of them in pairs, and in one sequence as many as find room.

    In a sequence the tokens are divided into M keys and the rest, the symbols, so that a key occurs where it
    was put and nowhere before: min(⌊n/2⌋, M) symbols of an alphabet of |Σ| − M, for the best M. W's Ω(n) is
    for an alphabet that grows with n.
    """
    via = Via(problem="INDEX", reductions=("associative-recall",))
    if text(ask.spec, "form") == "pairs":
        bits, needs, growth = bits_for(whole(ask.spec, "values") or 64, ask.n), "n·log|Σ|", "n·log|Σ|"
    else:
        tokens = whole(ask.spec, "alphabet")
        bits, needs = best_blocks(ask.n, 1, tokens or ask.n).bits, "min(⌊n/2⌋, M)·log(|Σ| − M) for every M"
        growth = "min(n, |Σ|)" if tokens else "n"
    yield from state_bounds(
        ask, bits, needs, growth=growth, via=via, formula=f"state bits ≥ {needs}", split=_CUT, assuming=_STATE
    )


@states("W-4.6", tasks=("c-gram",), families=_STREAMS)
def grams_in_a_stream(ask: Ask) -> Iterator[Bound]:
    """INDEX with keys of c − 1 tokens: a marker and then symbols, so that no key stands where it was not put.

    With M markers there are M·(|Σ| − M)^(c − 2) keys, and ⌊n/c⌋ of them fit in with a symbol each. An
    alphabet of one or two tokens has no room for that, and the number is 0. W's Ω(n) is for an alphabet that
    grows with n.
    """
    width, tokens = whole(ask.spec, "c") - 1, whole(ask.spec, "alphabet")
    blocks = best_blocks(ask.n, width, tokens or least_base(ask.n, width))
    needs = "min(⌊n/c⌋, M·(|Σ| − M)^(c − 2))·log(|Σ| − M) for every M"
    yield from state_bounds(
        ask,
        blocks.bits,
        needs,
        growth="min(n, |Σ|^(c − 1))" if tokens else "n",
        via=Via(problem="INDEX", reductions=("c-gram",)),
        formula=f"state bits ≥ {needs}",
        split=_CUT,
        assuming=_STATE,
    )


@states("W-4.6", tasks=("counting",), families=_STREAMS)
def counts_in_a_stream(ask: Ask) -> Iterator[Bound]:
    """INDEX: the symbol at place i is how often token i occurs, for k = min(n, |Σ| − 1) places.

    Each has room for ⌊n/k⌋ tokens, so symbols run from 0 to ⌊n/k⌋; the last token fills what is left. More
    than that: any two sequences that differ in some count are told apart, and counts add up to n in C(n + |Σ|
    − 1, n) ways, which is exactly what one message takes. W's Ω(n) is for an alphabet that grows with n; for
    a fixed one the bits grow like (|Σ| − 1)·log n.
    """
    tokens = whole(ask.spec, "alphabet")
    places = min(ask.n, tokens - 1)
    yield from state_bounds(
        ask,
        bits_for(ask.n // places + 1, places),
        "k·log(⌊n/k⌋ + 1), k = min(n, |Σ| − 1)",
        growth="min(n, |Σ|)",
        via=Via(problem="INDEX", reductions=("counting",)),
        formula="state bits ≥ k·log(⌊n/k⌋ + 1), k = min(n, |Σ| − 1)",
        split=_CUT,
        assuming=_STATE,
    )
    yield from state_bounds(
        ask,
        bits_for_counts(ask.n, tokens),
        "log C(n + |Σ| − 1, n)",
        growth="min(n, |Σ|)",
        via=Via(problem="different counts"),
        formula="state bits ≥ log C(n + |Σ| − 1, n)",
        split=_CUT,
        assuming=_STATE,
    )


@states("W-4.7", tasks=("is-tree",), families=_STREAMS)
def trees_in_a_stream(ask: Ask) -> Iterator[Bound]:
    """INDEX on n − 2 bits: Alice writes a forest of two trees, and Bob's edge asks which one holds a vertex.

    W's own string is half as long. With more edges Bob asks more: Alice joins n − k − 1 vertices to k hubs,
    and Bob, who joins all hubs but one in a chain and goes from it through a vertex of his own to the one he
    asks about, learns whether that one is at the hub left out. So (n − k − 1)·log k bits for every k, which
    grows like n·log n.
    """
    via = Via(problem="INDEX", reductions=("is-tree",))
    if ask.n >= 5:
        yield from state_bounds(
            ask,
            ask.n - 2,
            "n − 2",
            growth="n",
            via=via,
            formula="state bits ≥ n − 2",
            split=_CUT,
            assuming=_STATE,
        )
    hubs = best_hubs(ask.n) if ask.n >= 4 else 1
    yield from state_bounds(
        ask,
        bits_for(hubs, max(0, ask.n - hubs - 1)),
        "(n − k − 1)·log k for every k",
        growth="n·log n",
        via=Via(problem="INDEX", reductions=("is-tree, by hubs",)),
        formula="state bits ≥ (n − k − 1)·log k for every k",
        assuming=_STATE,
    )


@states("W-5.1", tasks=("index-lookup",), families=("rnn",), variant="with an associative-recall oracle")
def lookup_with_an_oracle(ask: Ask) -> Iterator[Bound]:
    """INDEX in a sequence of which an associative-recall oracle tells nothing.

    Take v + 1 symbols, one of them a mark. The sequence begins with each of the others followed by the mark,
    2v tokens that both parties know, and goes on with a symbol of Alice's at every odd place and the mark at
    every even one. What follows the first occurrence of any token is then known beforehand, so Bob answers
    for the oracle himself; and he learns ⌈(n − 2v)/2⌉ symbols of v. With fewer than three symbols there is no
    room for that.
    """
    tokens = whole(ask.spec, "alphabet")
    if tokens < 3:
        return
    odd = -(-ask.n // 2)
    values = peak(lambda each: (odd - each) * log2(each), 2, max(2, min(tokens - 1, odd)))
    yield ask.says(
        STATE_BITS,
        bits_for(values, odd - values),
        asymptotic="Ω(n)",
        formula="state bits ≥ ⌈(n − 2v)/2⌉·log v for every v < |Σ|",
        via=Via(problem="INDEX", reductions=("index-lookup",)),
        assuming=(*_STATE, "the model may ask an associative-recall oracle about its context at any time"),
    )


RULES: Final[tuple[Rule, ...]] = (
    turing_without_thinking,
    lookup_in_a_stream,
    recall_in_a_stream,
    grams_in_a_stream,
    counts_in_a_stream,
    trees_in_a_stream,
    lookup_with_an_oracle,
)
