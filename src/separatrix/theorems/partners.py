"""The upper partners of the lower bounds: what is needed up to a factor is also enough.

"Cannot" always means "not within this many bits". These constructions show how far a bound could still rise.
"""

from __future__ import annotations

from separatrix.theorems.kinds import Source, Theorem, witness

__all__ = ["PARTNERS"]

PARTNERS = (
    Theorem(
        id="UP-M3",
        statement=(
            "One layer of standard units with H·m = Õ(N) does triple matching, so that the bound of R-M3 "
            "is nearly tight."
        ),
        source=Source(work="R", place="element matching: upper bound for one layer"),
        length="N numbers in [M], with a dummy element",
        assumptions=("the maps applied to each element may be arbitrary", "M is polynomial in N"),
        owes=(witness("H·m = Õ(N), L = 1", tasks=("match3",), families=("transformer-1",)),),
    ),
    Theorem(
        id="UP-RNN",
        statement=(
            "A recurrent model that stores its input does every task on inputs of length N with "
            "N·log|Σ| + O(log N) bits of state."
        ),
        source=Source(work="UP", place="keep every symbol and a counter; the readout is arbitrary"),
        length="N tokens from an alphabet Σ",
        assumptions=("the update and the readout may be arbitrary functions",),
        owes=(
            witness(
                "mp = N·⌈log|Σ|⌉ + O(log N)",
                tasks=("index-lookup", "associative-recall", "mqar", "equality"),
                families=("rnn",),
                own=True,
            ),
        ),
    ),
    Theorem(
        id="UP-TF1",
        statement=(
            "One-layer Transformers of size linear in N recognise Dyck-(2,2) and decide equality and "
            "disjointness at length N: attention gathers every symbol and the feed-forward map decides."
        ),
        source=Source(work="UP", place="uniform attention over values that keep positions apart"),
        length="N tokens",
        assumptions=("N is fixed and known to the model",),
        owes=(
            witness(
                "m = O(N), L = 1, H = 1",
                tasks=("dyck", "equality", "disjointness"),
                families=("transformer-1",),
                variant="linear size",
                own=True,
            ),
        ),
    ),
)
