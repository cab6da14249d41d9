"""The results of R, arXiv 2306.02896: sparse averaging, matching of pairs and triples, cycles in graphs.

A unit is one head of attention of inner width m with arbitrary maps on each element before and after it;
a layer is a sum of H units. M is the modulus of matching, q the sparsity, T the window.
"""

from __future__ import annotations

from separatrix.theorems.kinds import Slip, Source, Theorem, bound, protocol, witness

__all__ = ["OPEN", "RESULTS"]

_ELEMENT_MAPS = "the maps applied to each element may be arbitrary"
_POLYLOG_BITS = "weights and maps use numbers of polylogarithmically many bits in N"
_MODULUS = "M is polynomial in N"


def _at(place: str) -> Source:
    return Source(work="R", place=place)


RESULTS = (
    Theorem(
        id="R-qSA",
        statement=(
            "One unit with m = O(d + q·log N) does q-sparse averaging of vectors of dimension d to any fixed "
            "accuracy. Every unit that does it has mp = Ω(q). Every fully connected network that does it has "
            "a first layer of width Ω(N), and every recurrent model a state of Ω(N) bits, already for q = 1."
        ),
        source=_at("sparse averaging"),
        length="N elements, each with its key, its set of at most q keys, and its value",
        assumptions=(
            _ELEMENT_MAPS,
            "an answer is right within ε < 1/(4q)",
            "values have norm at most 1",
            "the empty set is allowed and averages to 0; the reduction from INDEX uses it",
        ),
        owes=(
            witness(
                "m = O(d + q·log N), L = 1, H = 1",
                tasks=("q-sparse-averaging",),
                families=("transformer-1",),
            ),
            bound("mp = Ω(q)", tasks=("q-sparse-averaging",), families=("transformer-1",), via="DISJ"),
            bound(
                "first-layer width = Ω(N)",
                tasks=("q-sparse-averaging",),
                families=("fnn",),
                via="rank of the first layer",
            ),
            bound("mp = Ω(N)", tasks=("q-sparse-averaging",), families=("rnn",), via="INDEX"),
        ),
        slips=(
            Slip(
                place="task definition",
                printed="Every set has exactly q keys, yet the bound for recurrent models feeds empty ones.",
                right="Sets of at most q keys are allowed, and the empty one averages to 0.",
            ),
        ),
    ),
    Theorem(
        id="R-M2",
        statement="One unit with m = 3 does pair matching modulo M on all inputs of length N.",
        source=_at("element matching: pairs"),
        length="N numbers in [M], with a dummy element",
        assumptions=(_ELEMENT_MAPS, _MODULUS),
        owes=(witness("m = 3, L = 1, H = 1", tasks=("match2",), families=("transformer-1",), exact=True),),
    ),
    Theorem(
        id="R-M3",
        statement=(
            "One unit of order three with m = 5 does triple matching modulo M on all inputs of length N. "
            "One layer of standard units that does it has H·m·p = Ω̃(N)."
        ),
        source=_at("element matching: triples"),
        length="N numbers in [M], with a dummy element",
        assumptions=(_ELEMENT_MAPS, _MODULUS, "for the bound: " + _POLYLOG_BITS),
        owes=(
            witness("m = 5, L = 1, H = 1", tasks=("match3",), families=("third-order",), exact=True),
            bound("H·m·p = Ω̃(N)", tasks=("match3",), families=("transformer-1",), via="DISJ"),
        ),
        partners=("UP-M3",),
        slips=(
            Slip(
                place="reduction from DISJ",
                printed="The query at the end is 0 and a match may use an element twice.",
                right=(
                    "Then 0 + 0 + 0 always matches and the answer says nothing of DISJ; the reduction is to "
                    "the form in which the three elements are distinct."
                ),
            ),
        ),
    ),
    Theorem(
        id="R-M3′",
        statement=(
            "Two easier forms of triple matching are within reach of standard units. If the last number is 0 "
            "and only the last output counts, two layers of one head with m = O(d) do it. If the matching "
            "numbers lie within a window of T places, it reduces to q-sparse averaging with q = O(T)."
        ),
        source=_at("element matching: easier variants of triples"),
        length="N numbers in [M]",
        assumptions=(_ELEMENT_MAPS, _MODULUS),
        owes=(
            witness(
                "m = O(d), L = 2, H = 1",
                tasks=("match3",),
                families=("transformer-2",),
                variant="last-output",
            ),
            witness(
                "m = Õ(T), L = 1, H = 1, q = O(T)",
                tasks=("match3",),
                families=("transformer-1",),
                variant="local",
            ),
        ),
    ),
    Theorem(
        id="R-G",
        statement=(
            "Every graph Transformer that says for each vertex whether it is on a directed 3-cycle has "
            "L·H·m = Ω̃(N). One graph unit of order three does it, and one of order five does the undirected "
            "5-cycle."
        ),
        source=_at("graph Transformers and cycles"),
        length="N vertices, given as an adjacency matrix",
        assumptions=(_ELEMENT_MAPS, _POLYLOG_BITS),
        owes=(
            witness(
                "m = O(1), L = 1, H = 1",
                tasks=("cycle3",),
                families=("third-order",),
                variant="graph unit of order 3",
            ),
            witness(
                "m = O(1), L = 1, H = 1",
                tasks=("cycle5",),
                families=("third-order",),
                variant="graph unit of order 5",
            ),
            bound("L·H·m = Ω̃(N)", tasks=("cycle3",), families=("graph-transformer",), via="DISJ"),
            protocol(
                "2mp·H bits a layer for each of the N rows, and the answers, both ways",
                families=("graph-transformer",),
                exact=True,
                own=True,
            ),
        ),
        slips=(
            Slip(
                place="appendix, undirected 5-cycle",
                printed="The four other vertices are not asked to differ.",
                right=(
                    "Read so, a closed walk of five edges is enough, and every vertex of a triangle, or next "
                    "to one, counts. The task offers both readings (`distinct`)."
                ),
            ),
        ),
    ),
)

OPEN = (
    Theorem(
        id="R-CONJ",
        statement=(
            "Conjectured, and open: every Transformer of L layers, H heads and width m that does triple "
            "matching has L·H·m = N^Ω(1)."
        ),
        source=_at("element matching: conjecture on depth"),
        length="N numbers in [M]",
        assumptions=(_ELEMENT_MAPS, _MODULUS, _POLYLOG_BITS),
        owes=(bound("L·H·m = N^Ω(1)", tasks=("match3",), families=("transformer",), status="open"),),
    ),
)
