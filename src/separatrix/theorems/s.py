"""The results of S, arXiv 2406.09347: retrieval, bounded Dyck, equality, nearest neighbour.

Throughout, m is the width, p the bits of a number, H the heads, log is to base 2.
"""

from __future__ import annotations

from separatrix.theorems.kinds import Slip, Source, Theorem, bound, protocol, witness

__all__ = ["OPEN", "RESULTS"]

_ANY_STATE = (
    "the state after each token is one of 2^(mp) values",
    "the update and the readout may be arbitrary functions and may depend on the time step",
    "position embeddings, layer norm and residual connections may be arbitrary",
)
_ONE_LAYER = (
    "logits, exponentials and their sums are rounded to p bits, the largest logit being subtracted first",
    "the feed-forward map, layer norm, residual connections and position embeddings may be arbitrary",
)
_P_BITS = "numbers lie on the grid of step N^-K from −N^K to N^K, and rounding goes down, so p = 2K·log N"


def _at(place: str) -> Source:
    return Source(work="S", place=place)


RESULTS = (
    Theorem(
        id="S-T1",
        statement=(
            "For every N there is a Transformer of one layer, with width and precision O(log N), that does "
            "index lookup on all sequences of length up to N."
        ),
        source=_at("Theorem 1, App. C.2"),
        length="N symbols; the index token comes after them",
        assumptions=(_P_BITS, "position vectors are generated from the position, not stored"),
        owes=(
            witness(
                "m = O(log N), p = O(log N), L = 1", tasks=("index-lookup",), families=("transformer-1",)
            ),
        ),
        slips=(
            Slip(
                place="App. H.1",
                printed="The sampler draws a length k and then N symbols.",
                right="It must draw k symbols, or the position drawn from [1, k] says nothing of the length.",
            ),
        ),
    ),
    Theorem(
        id="S-T2",
        statement=(
            "If a recurrent model with a state of mp bits computes a function, then for every split of the "
            "input into a prefix (Alice) and a suffix (Bob) there is a one-way protocol in which Alice sends "
            "mp bits and Bob gives the output."
        ),
        source=_at("Theorem 2, §3"),
        length="N tokens, of which Alice holds the first K < N",
        assumptions=_ANY_STATE,
        owes=(protocol("mp bits, one message from Alice to Bob", families=("rnn",), exact=True),),
    ),
    Theorem(
        id="S-T3",
        statement=(
            "A recurrent model that does index lookup on all sequences of length N has m ≥ N/p; with symbols "
            "from an alphabet Σ the same argument gives mp ≥ N·log|Σ|."
        ),
        source=_at("Theorem 3, §3 and App. C.1"),
        length="N symbols; the index token comes after them",
        assumptions=(*_ANY_STATE, "at least two symbols"),
        owes=(
            bound("m ≥ N/p", tasks=("index-lookup",), families=("rnn",), exact=True, via="INDEX"),
            bound(
                "mp ≥ N·log|Σ|",
                tasks=("index-lookup",),
                families=("rnn",),
                exact=True,
                via="INDEX",
                variant="alphabet",
                own=True,
            ),
        ),
        partners=("UP-RNN",),
    ),
    Theorem(
        id="S-P9",
        statement=(
            "A recurrent model that does associative recall over N pairs of distinct keys and labels has "
            "m ≥ N/p; with labels from an alphabet Σ the same argument gives mp ≥ N·log|Σ|."
        ),
        source=_at("Proposition 9, App. C.1"),
        length="N pairs, that is 2N tokens; the query comes after them",
        assumptions=(*_ANY_STATE, "at least two labels", "the keys are distinct and known to both parties"),
        owes=(
            bound("m ≥ N/p", tasks=("associative-recall",), families=("rnn",), exact=True, via="INDEX"),
            bound(
                "mp ≥ N·log|Σ|",
                tasks=("associative-recall",),
                families=("rnn",),
                exact=True,
                via="INDEX",
                variant="alphabet",
                own=True,
            ),
        ),
        partners=("UP-RNN",),
        slips=(
            Slip(
                place="App. C.1",
                printed="The statement speaks of length N, and its proof ends with “at most N/p”.",
                right="N counts pairs, so the sequence has 2N tokens and a query; and at least N/p is meant.",
            ),
        ),
    ),
    Theorem(
        id="S-T4",
        statement=(
            "Two parties who hold the tokens of an input of length N under any partition compute the output "
            "of a one-layer Transformer of width m with H heads in p bits by exchanging 3m(p + log N)H bits."
        ),
        source=_at("Theorem 4, §4 and App. D"),
        length="N tokens under any partition",
        assumptions=_ONE_LAYER,
        owes=(protocol("3m(p + log N)H bits, both ways", families=("transformer-1",), exact=True),),
        slips=(
            Slip(
                place="App. D",
                printed=(
                    "The proof's own steps come to dp + 2p + 2(p + log N) + 4mp bits a head. At d = m this "
                    "exceeds the stated 3m(p + log N) as soon as p passes 1.5·log N."
                ),
                right=(
                    "Let the party with the query end the run: it alone needs the other's weighted sums, "
                    "2mp bits a head, and the query crosses once for all heads. The stated count is then met "
                    "when 3m·log N ≥ 4p + 2·log N, and the verdict costs the other party one bit more."
                ),
            ),
        ),
    ),
    Theorem(
        id="S-L1",
        statement=(
            "Alice holds the odd and Bob the even positions of a string of length N. For both to know "
            "whether it is in Dyck-(2,2) they exchange at least N − 1 bits, because the 2^(N−1) members of "
            "that length are a fooling set."
        ),
        source=_at("Lemma 1, §4.1 and App. E"),
        length="N brackets, N even",
        assumptions=("protocols are deterministic", "both parties know the answer at the end"),
        owes=(
            bound("bits exchanged ≥ N − 1", tasks=("dyck",), exact=True, via="fooling set, odd/even split"),
        ),
    ),
    Theorem(
        id="S-T5",
        statement=(
            "A one-layer Transformer that recognises Dyck-(2,2) at length N has mH ≥ (N − 1)/(3(p + log N))."
        ),
        source=_at("Theorem 5, §4.1"),
        length="N brackets, N even",
        assumptions=_ONE_LAYER,
        owes=(
            bound(
                "mH ≥ (N − 1)/(3(p + log N))",
                tasks=("dyck",),
                families=("transformer-1",),
                exact=True,
                via="fooling set, odd/even split",
            ),
        ),
        partners=("UP-TF1",),
        slips=(
            Slip(
                place="§4.1",
                printed="The constant 3 is that of S-T4, whose own steps cost more.",
                right="It holds under the condition given with S-T4; counted bits hold always.",
            ),
        ),
    ),
    Theorem(
        id="S-T10",
        statement="S-T5 again, with the width written d: dH ≥ (N − 1)/(3(p + log N)).",
        source=_at("Theorem 10, App. E"),
        length="N brackets, N even",
        assumptions=_ONE_LAYER,
        partners=("UP-TF1",),
        restates="S-T5",
    ),
    Theorem(
        id="S-E",
        statement=(
            "For all n and k a recurrent model of constant size recognises Dyck-(n,k) at every length, with "
            "ReLU and with sigmoid-type activations; for (2,2) an automaton of 7 live states and a dead one "
            "is enough."
        ),
        source=_at("App. E, after Theorem 10"),
        length="any number of brackets",
        assumptions=("n and k are constants",),
        owes=(
            witness("mp = O(1) in N; 8 automaton states for (2,2)", tasks=("dyck",), families=("rnn",)),
            witness("mp = O(1) in N", tasks=("dyck",), families=("rnn",), variant="sigmoid-type activations"),
        ),
        slips=(
            Slip(
                place="App. E",
                printed="Dyck-(2,2) is said to need 7 states.",
                right="That leaves the dead state out: the complete minimal automaton has 8.",
            ),
        ),
    ),
    Theorem(
        id="S-E-cited",
        statement=(
            "Small Transformers handle Dyck-(n,k): with two layers every position can tell which characters "
            "may come next, and with three the language is recognised."
        ),
        source=_at("§4.1, citing earlier work on bounded hierarchical languages"),
        length="N brackets",
        assumptions=("n and k are constants", "1/i is available as a feature of position i"),
        owes=(
            witness(
                "L = 2, m = O(log N)",
                tasks=("dyck",),
                families=("transformer-2",),
                variant="next characters",
            ),
            witness("L = 3, m = O(log N)", tasks=("dyck",), families=("transformer-3",)),
        ),
    ),
    Theorem(
        id="S-L4",
        statement=(
            "A recurrent model that decides a language on all strings has mp ≥ log of the number of states "
            "of the language's minimal automaton."
        ),
        source=_at("Lemma 4, App. F.1"),
        length="strings of every length",
        assumptions=(
            "the state after each token is one of 2^(mp) values",
            "the update is the same function at every time step",
        ),
        owes=(
            bound("mp ≥ log(states of the minimal DFA)", families=("rnn",), exact=True, via="minimal DFA"),
        ),
        slips=(
            Slip(
                place="App. F.1",
                printed="The lemma speaks of any automaton with n states, and the proof supposes m < log n.",
                right="The automaton must be the minimal one, and the supposition is mp < log n.",
            ),
        ),
    ),
    Theorem(
        id="S-T11",
        statement=(
            "A recurrent model that decides equality of the two halves of every string in {0,1}^N has "
            "mp ≥ N/2."
        ),
        source=_at("Theorem 11, App. F.1"),
        length="N bits, two halves of N/2",
        assumptions=_ANY_STATE,
        owes=(
            bound(
                "mp ≥ N/2",
                tasks=("equality",),
                families=("rnn",),
                exact=True,
                via="EQ",
                variant="communication",
            ),
            bound(
                "mp ≥ N/2",
                tasks=("equality",),
                families=("rnn",),
                exact=True,
                via="minimal DFA",
                variant="minimal DFA",
            ),
        ),
        partners=("UP-RNN",),
        slips=(
            Slip(
                place="App. F.1",
                printed="The second proof is offered as equal to the first.",
                right="By S-L4 it needs an update that does not depend on the time step; the first does not.",
            ),
        ),
    ),
    Theorem(
        id="S-T12",
        statement=(
            "A one-layer Transformer that decides equality, or disjointness, of the two halves of every "
            "string in {0,1}^N has mpH = Ω(N)."
        ),
        source=_at("Theorem 12, App. F.1; §4.2 for disjointness"),
        length="N bits, two halves of N/2",
        assumptions=(*_ONE_LAYER, "p = Ω(log N)"),
        owes=(
            bound("mpH = Ω(N)", tasks=("equality",), families=("transformer-1",), via="EQ"),
            bound("mpH = Ω(N)", tasks=("disjointness",), families=("transformer-1",), via="DISJ"),
        ),
        partners=("UP-TF1",),
        slips=(
            Slip(
                place="App. F.1",
                printed="mpH = Ω(N) is said to follow at once from S-T4.",
                right="What follows is mH(p + log N) = Ω(N), which is the same only when p = Ω(log N).",
            ),
        ),
    ),
    Theorem(
        id="S-T6",
        statement=(
            "For every N there is a Transformer of two layers and two heads, with width and precision "
            "O(log N), that decides equality of the two halves of every string of length N over any finite "
            "alphabet."
        ),
        source=_at("Theorem 6, §5.1 and App. F.2"),
        length="N symbols, two halves of N/2",
        assumptions=(_P_BITS, "position vectors are generated from the position, not stored"),
        owes=(
            witness(
                "m = O(log N), p = O(log N), L = 2, H = 2", tasks=("equality",), families=("transformer-2",)
            ),
        ),
        slips=(
            Slip(
                place="App. H.2",
                printed="Test lengths are {N/10, N/10 + 2, …}, which are odd at N = 50.",
                right="They start at the least even number that is at least max(2, N/10).",
            ),
        ),
    ),
    Theorem(
        id="S-T13",
        statement=(
            "For every N and every threshold of at most N features, each a Boolean function of at most k "
            "bits, there is a Transformer of two layers and k heads, with width and precision O(log N), that "
            "computes it on {0,1}^N: all k-DNF and k-CNF with at most N terms, equality and disjointness."
        ),
        source=_at("Theorem 13, App. F.3"),
        length="N bits, after a beginning-of-sequence token",
        assumptions=(_P_BITS, "k is a constant", "the threshold is strict: more than b features hold"),
        owes=(
            witness(
                "m = O(log N), p = O(log N), L = 2, H = k",
                tasks=("sparse-threshold", "disjointness"),
                families=("transformer-2",),
            ),
        ),
    ),
    Theorem(
        id="S-L5",
        statement=(
            "For every partition of N positions into halves there is a Transformer of two layers with width "
            "and precision O(log N) whose output two parties, holding one half each, cannot compute with "
            "fewer than N/2 bits."
        ),
        source=_at("Lemma 5, App. F.4"),
        length="N bits, N even",
        assumptions=(_P_BITS, "protocols are deterministic"),
        owes=(
            witness(
                "m = O(log N), p = O(log N), L = 2, H = 2",
                tasks=("equality",),
                families=("transformer-2",),
                variant="any balanced partition",
            ),
            bound(
                "bits exchanged ≥ N/2",
                tasks=("equality",),
                exact=True,
                via="EQ",
                variant="any balanced partition",
            ),
        ),
    ),
    Theorem(
        id="S-C13.1",
        statement=(
            "If some protocol computes the output of every two-layer Transformer under every partition with "
            "O(mpH·g(N)) bits, then g(N) = Ω(N/(log N)²)."
        ),
        source=_at("Corollary 13.1, App. F.4"),
        length="N bits, N even",
        assumptions=("protocols are deterministic",),
        owes=(bound("g(N) = Ω(N/(log N)²)", families=("transformer-2",), via="EQ", of_protocols=True),),
    ),
    Theorem(
        id="S-T7",
        statement=(
            "For every N there is a Transformer of two layers, with width and precision O(log N), that gives "
            "the label of the nearest neighbour on all inputs of unit vectors with margin γ ≥ N^-c; so also "
            "MQAR and associative recall."
        ),
        source=_at("Theorem 7, §5.2 and App. G.2"),
        length="at most N points, each but the last with its label",
        assumptions=(
            _P_BITS,
            "unit vectors of dimension O(log N)",
            "the nearest point leads every other by a product of at least γ, with γ ≥ N^-c for a constant c",
        ),
        owes=(
            witness(
                "m = O(log N), p = O(log N), L = 2",
                tasks=("nearest-neighbour", "mqar", "associative-recall"),
                families=("transformer-2",),
            ),
        ),
        slips=(
            Slip(
                place="App. G.2",
                printed="A logit is printed with +2 − 10⟨·,·⟩, and a vector with the factor 1/k.",
                right="The paper's own vectors give +3, and the factor is 1/√k.",
            ),
            Slip(
                place="App. G.2",
                printed="Position vectors are to have products of at most γ/100.",
                right=(
                    "That takes about 4·10⁴·ln(2N)/γ² dimensions, so it is logarithmic in N for constant γ "
                    "only; binary addresses and a larger scale do it in O(log N) for every γ ≥ N^-c."
                ),
            ),
        ),
    ),
    Theorem(
        id="S-T8",
        statement="A recurrent model that does nearest neighbour, or MQAR, on all inputs has m ≥ N/(2p).",
        source=_at("Theorem 8, §5.2 and App. G.1"),
        length="N points: N/2 labelled keys, then N/2 queries",
        assumptions=(*_ANY_STATE, "labels are bits"),
        owes=(
            bound(
                "m ≥ N/(2p)",
                tasks=("nearest-neighbour", "mqar"),
                families=("rnn",),
                exact=True,
                via="DISJ",
            ),
        ),
        partners=("UP-RNN",),
    ),
)

OPEN = (
    Theorem(
        id="S-AR1",
        statement=(
            "Whether a one-layer Transformer of width and precision O(log N) can do associative recall is "
            "open: the construction for index lookup does not carry over, and neither do the lower bounds."
        ),
        source=_at("App. C.2, discussion"),
        length="N pairs, then the query",
        owes=(
            bound("m = ω(log N)", tasks=("associative-recall",), families=("transformer-1",), status="open"),
        ),
    ),
)
