"""What every bound comes to, as a formula of n, p and the task's parameters.

One law for each key of `RULES` that has a number about models, and of the numbers that a rule states the
greatest. Width and heads are whole, so a bound on them is rounded up before it is counted in bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from separatrix.atlas.formulas import (
    Const,
    Formula,
    N,
    Name,
    P,
    Peak,
    bits_to_tell,
    ceil_divide,
    ceil_log2,
    choose,
    floor_bits,
    floor_divide,
    largest,
    log2,
    power,
    root,
    smallest,
)
from separatrix.communication.bounds import RULES
from separatrix.theorems import Artefact

__all__ = ["NO_NUMBER", "needs_laws"]

NO_NUMBER: Final[Mapping[str, str]] = {
    "S-L1": "it counts what two parties send each other",
    "S-L5": "it counts what two parties send each other",
    "S-C13.1": "it binds the protocols that run every model, and no model",
    "S-AR1": "it is open",
    "R-CONJ": "it is open",
    "W-4.1": "it rests on an unproven condition and has no constant",
}
"""Theorems whose bounds give no number of a model's bits, and why."""

_HALF: Final = floor_divide(N, 2)
_INDEX: Final = bits_to_tell(Name("alphabet"), N)
_RECALL: Final = bits_to_tell(Name("values"), N)
_EQUAL: Final = bits_to_tell(Name("alphabet"), _HALF)

_MARKERS, _TOKENS = Name("M"), root(N, Name("c") - 1)
_GRAM_KEYS: Final = smallest(floor_divide(N, Name("c")), _MARKERS * power(_TOKENS - _MARKERS, Name("c") - 2))
_GRAMS: Final = Peak(
    over="M",
    low=Const(1),
    high=_TOKENS - 2,
    height=_GRAM_KEYS * log2(_TOKENS - _MARKERS),
    there=bits_to_tell(_TOKENS - _MARKERS, _GRAM_KEYS),
)
_COUNTS: Final = ceil_log2(choose(N + Name("alphabet") - 1, Name("alphabet") - 1))

_HUBS: Final = Name("k")
_TREES: Final = Peak(
    over="k",
    low=Const(2),
    high=N - 2,
    height=(N - _HUBS - 1) * log2(_HUBS),
    there=bits_to_tell(_HUBS, N - _HUBS - 1),
)
_ODD, _SYMBOLS = ceil_divide(N, 2), Name("v")
_WITH_AN_ORACLE: Final = Peak(
    over="v",
    low=Const(2),
    high=largest(2, smallest(Name("alphabet") - 1, _ODD)),
    height=(_ODD - _SYMBOLS) * log2(_SYMBOLS),
    there=smallest(1, Name("alphabet") - 2) * bits_to_tell(_SYMBOLS, _ODD - _SYMBOLS),
)
"""Two symbols leave no room for a mark, and the number is 0."""


def _in_one_layer(bits: Formula, positions: Formula) -> Formula:
    """m·H is whole and at least X/(7p + 2⌈log N⌉); so many numbers have p bits each."""
    return P * ceil_divide(bits, 7 * P + 2 * ceil_log2(positions))


_STREAMS: Final = {
    "index-lookup": _INDEX,
    "associative-recall": _RECALL,
    "c-gram": _GRAMS,
    "counting": _COUNTS,
}
_LAWS: Final[Mapping[tuple[str, str | None, str | None, str], Formula]] = {
    ("S-T3", "index-lookup", "rnn", ""): N,
    ("S-T3", "index-lookup", "rnn", "alphabet"): _INDEX,
    ("S-P9", "associative-recall", "rnn", ""): N,
    ("S-P9", "associative-recall", "rnn", "alphabet"): _RECALL,
    ("S-L4", None, "rnn", ""): ceil_log2(Name("states")),
    ("S-T5", "dyck", "transformer-1", ""): _in_one_layer(
        _HALF - 1 + floor_bits(Name("types"), _HALF), positions=N
    ),
    ("S-T11", "equality", "rnn", "communication"): _EQUAL,
    ("S-T11", "equality", "rnn", "minimal DFA"): _EQUAL,
    ("S-T12", "equality", "transformer-1", ""): _in_one_layer(
        floor_bits(Name("alphabet"), _HALF), positions=N + 1
    ),
    ("S-T12", "disjointness", "transformer-1", ""): _in_one_layer(_HALF, positions=N),
    ("S-T8", "mqar", "rnn", ""): bits_to_tell(Name("labels"), _HALF),
    ("S-T8", "nearest-neighbour", "rnn", ""): bits_to_tell(Name("labels"), smallest(N - 1, Name("places"))),
    ("R-qSA", "q-sparse-averaging", "transformer-1", ""): _in_one_layer(
        smallest(Name("q"), N - 1), positions=N + 1
    ),
    ("R-qSA", "q-sparse-averaging", "fnn", ""): N * Name("d") * P,
    ("R-qSA", "q-sparse-averaging", "rnn", ""): bits_to_tell(Name("levels"), N - 1),
    ("R-M3", "match3", "transformer-1", ""): _in_one_layer(floor_divide(N - 1, 2), positions=N + 1),
    ("R-G", "cycle3", "graph-transformer", ""): P * ceil_divide(floor_divide(N, 3), 4 * P),
    **{
        ("W-4.6", task, family, ""): law
        for task, law in _STREAMS.items()
        for family in ("rnn", "linear-rnn-cot")
    },
    **{("W-4.7", "is-tree", family, ""): _TREES for family in ("rnn", "linear-rnn-cot")},
    ("W-5.1", "index-lookup", "rnn", "with an associative-recall oracle"): _WITH_AN_ORACLE,
}


def needs_laws() -> Mapping[Artefact, Formula]:
    """The law of every key that has one, in the order of the rules."""
    return {
        key: _LAWS[key.theorem, key.task, key.family, key.variant]
        for key in RULES
        if key.theorem not in NO_NUMBER
    }
