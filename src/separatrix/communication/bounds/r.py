"""The bounds of R: sparse averaging, triple matching, directed cycles."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from separatrix.communication.bounds.counts import bits_for, levels
from separatrix.communication.bounds.interface import (
    FIRST_LAYER,
    LAYERS_HEADS_WIDTH,
    WIDTH,
    WIDTH_HEADS,
    Ask,
    Rule,
    states,
    text,
    whole,
)
from separatrix.communication.bounds.one_layer import Needed, layer_bounds
from separatrix.communication.bounds.recurrent import state_bounds
from separatrix.evidence import EXCHANGED_BITS, Bound, TaskSpec, Via
from separatrix.tasks._residues import even_odds
from separatrix.theorems import theorem

__all__ = ["RULES"]

_BOTH: Final = theorem("S-L1").assumptions
"""Deterministic protocols by which both parties know the answer at the end."""
_GRAPH: Final = (
    "keys and values have p bits and every unit has width m for both",
    "the maps applied to each row, and the one on edges and logits, may be arbitrary",
)


@states("R-qSA", tasks=("q-sparse-averaging",), families=("transformer-1",))
def averaging_in_one_layer(ask: Ask) -> Iterator[Bound]:
    """DISJ on k = min(q, N − 1) bits with S-T4: one party has the last position's set, the other the values.

    Values are v for a member and −v for the rest, so that a common element moves the mean by 2‖v‖/q > 1/q,
    and an answer within 1/(4q) tells. The 2^k pairs of complements are a fooling set, so running the unit
    takes k bits. R's unit is one head; with more, H counts them.
    """
    bits = min(whole(ask.spec, "q"), ask.n - 1)
    needed = Needed(bits=bits, formula="q" if bits == whole(ask.spec, "q") else "N − 1", growth="q")
    via = Via(problem="DISJ", reductions=("q-sparse-averaging", "S-T4"))
    yield from layer_bounds(ask, needed, positions=ask.n + 1, via=via, assuming=ask.theorem.assumptions)
    yield ask.says(
        EXCHANGED_BITS,
        bits + 1,
        asymptotic="Ω(q)",
        formula="bits exchanged ≥ min(q, N − 1) + 1",
        via=Via(problem="DISJ", reductions=("q-sparse-averaging",)),
        assuming=(*_BOTH, *ask.theorem.assumptions[1:]),
        partition="prefix/suffix",
    )


@states("R-qSA", tasks=("q-sparse-averaging",), families=("fnn",))
def averaging_by_a_network(ask: Ask) -> Iterator[Bound]:
    """The first layer is linear in the N·d coordinates of the values: below that width it has a kernel.

    A kernel vector, scaled so that its longest value has norm 1, and the zero vector give the same first
    layer and so the same answers. But where position i asks for that value alone the right answers differ by
    1/q, and no answer is within 1/(4q) of both.
    """
    yield ask.says(
        FIRST_LAYER,
        ask.n * whole(ask.spec, "d"),
        asymptotic="Ω(N)",
        formula="first-layer width ≥ N·d",
        via=Via(problem="rank of the first layer"),
        assuming=(
            *ask.theorem.assumptions[1:],
            "values may be any vectors of norm at most 1, beyond the task's grid, and numbers are exact",
        ),
    )


@states("R-qSA", tasks=("q-sparse-averaging",), families=("rnn",))
def averaging_in_a_stream(ask: Ask) -> Iterator[Bound]:
    """INDEX on N − 1 bits: Alice's values are the bits with empty sets, and Bob's set is the place he wants.

    An answer within 1/(4q) tells two values apart that differ by ½ or more, so any K such values of the grid
    serve as symbols: mp ≥ ⌈(N − 1)·log K⌉, where K = 3 for the values −1, 0 and 1.
    """
    symbols = levels(whole(ask.spec, "d"), whole(ask.spec, "grid"))
    via = Via(problem="INDEX", reductions=("q-sparse-averaging",))
    split = "prefix/suffix"
    yield from state_bounds(ask, ask.n - 1, "N − 1", growth="N", via=via, split=split)
    yield from state_bounds(
        ask,
        bits_for(symbols, ask.n - 1),
        f"(N − 1)·log {symbols}",
        growth="N",
        via=via,
        split=split,
    )


@states("R-M3", tasks=("match3",), families=("transformer-1",))
def triples_in_one_layer(ask: Ask) -> Iterator[Bound]:
    """DISJ on k = ⌊(N − 1)/2⌋ bits with S-T4: element i is a number of Alice's and its complement of Bob's.

    The reduction is in `reductions.match3`: with three different positions, or in the variant last, it needs
    M ≥ 2k + 3, and where a position may be used twice, by another encoding, M ≥ 2k + 4. A smaller modulus
    leaves room for fewer elements, so that nothing grows beyond a fixed one. Of the local and the bigram form
    the theorem does not speak. A dummy element makes N + 1 positions.
    """
    variant = text(ask.spec, "variant")
    if variant not in ("full", "last"):
        return
    repeats = variant == "full" and ask.spec.params["distinct"] is not True
    room = (_residues(ask.spec) - (4 if repeats else 3)) // 2
    bits = max(0, min((ask.n - 1) // 2, room))
    formula = "⌊(N − 1)/2⌋" if bits == (ask.n - 1) // 2 else f"{bits:,}"
    via = Via(problem="DISJ", reductions=("match3", "S-T4"))
    growth = "min(N, M)" if whole(ask.spec, "modulus") else "N"
    needed = Needed(bits=bits, formula=formula, growth=growth)
    maps = ask.theorem.assumptions[:1]
    yield from layer_bounds(ask, needed, positions=ask.n + 1, via=via, assuming=maps)
    yield ask.says(
        EXCHANGED_BITS,
        bits + 1 if bits else 0,
        asymptotic=f"Ω({growth})",
        formula=f"bits exchanged ≥ {formula} + 1",
        via=Via(problem="DISJ", reductions=("match3",)),
        assuming=_BOTH,
        partition="halves",
    )


def _residues(spec: TaskSpec) -> int:
    """M; the task's own choice is at least as many as it has pairs of numbers."""
    n, modulus = whole(spec, "n"), whole(spec, "modulus")
    if modulus:
        return modulus
    others = n - 1 if spec.params["distinct"] is True or text(spec, "variant") == "last" else n
    pairs = others * (others - 1) // 2 + (0 if spec.params["distinct"] is True else others)
    least = 3 if text(spec, "variant") == "last" else 2
    if text(spec, "instances") == "disjointness":
        least = n + 2
    return even_odds(pairs, least=least)


@states("R-CONJ", tasks=("match3",), families=("transformer",))
def triples_in_any_depth(ask: Ask) -> Iterator[Bound]:
    """R's conjecture, neither proven nor refuted."""
    yield ask.says(LAYERS_HEADS_WIDTH, None, asymptotic="N^Ω(1)")


@states("R-G", tasks=("cycle3",), families=("graph-transformer",))
def cycles_in_graph_layers(ask: Ask) -> Iterator[Bound]:
    """DISJ on k² bits, k = ⌊N/3⌋: element (i, j) is the edge u_i → v_j for Alice and v_j → w_i for Bob.

    Alice holds the rows of the u, Bob those of the v, and the rows of the w are known to both. A layer is run
    so: for each head both send the keys and the values of their rows, 2k·2mp bits, and each computes the next
    rows of its own and those of the w; the edges that a row's attention sees are in that row. After L layers
    4kmpHL bits are sent and Bob knows whether some v is on a cycle, which takes k² bits at least. So
    L·H·m ≥ k/(4p). Every unit has width m, for keys and for values.
    """
    group, precision = ask.n // 3, ask.given.precision
    layers, heads = ask.given.layers, ask.given.heads
    if layers is None:
        quantity, divisor = LAYERS_HEADS_WIDTH, 1
    elif heads is None:
        quantity, divisor = WIDTH_HEADS, layers
    else:
        quantity, divisor = WIDTH, layers * heads
    yield ask.says(
        quantity,
        None if precision is None else Fraction(group, 4 * precision * divisor),
        asymptotic="Ω(N/p)",
        formula="L·H·m ≥ ⌊N/3⌋/(4p)",
        via=Via(problem="DISJ", reductions=("cycle3", "keys and values of every row")),
        assuming=_GRAPH,
    )
    yield ask.says(
        EXCHANGED_BITS,
        group**2 + 1,
        asymptotic="Ω(N²)",
        formula="bits exchanged ≥ ⌊N/3⌋² + 1",
        via=Via(problem="DISJ", reductions=("cycle3",)),
        assuming=_BOTH,
        partition="groups",
    )


RULES: Final[tuple[Rule, ...]] = (
    averaging_in_one_layer,
    averaging_by_a_network,
    averaging_in_a_stream,
    triples_in_one_layer,
    cycles_in_graph_layers,
    triples_in_any_depth,
)
