"""What every witness measures, as a formula of n: how much suffices, to which length it has been built.

All are the sizes of witnesses in 64-bit numbers with the shortest addresses, in the quantity that bounds on
their families count. Where the construction goes on in the same way beyond the longest input that is built,
the law goes on too, and the page says so; where its codes are found by a search, it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from separatrix.atlas.formulas import Const, Formula, N, Name, Steps, ceil_log2, floor_divide, largest
from separatrix.witnesses.catalogue import Entry

__all__ = ["LAWS", "PARAMETERS", "SIZE", "STATE", "Law", "law_of"]

SIZE: Final = "L·H·m·p"
STATE: Final = "state bits"
PARAMETERS: Final = "weight bits"
_BITS: Final = 64
"""Of a number in the witnesses that are measured."""


@final
@dataclass(frozen=True, kw_only=True)
class Law:
    """The size of one construction, by quantity; `exact` or at most that.

    `built_to` is the longest input for which it is built here. Beyond it the law is the construction's own,
    if it `continues`: that 64 bits a number are still enough there has not been checked.
    """

    sizes: Mapping[str, Formula]
    built_to: int
    exact: bool = True
    continues: bool = True


def _layers(
    width: Formula | int,
    *,
    layers: int = 1,
    heads: Formula | int = 1,
    to: int,
    exact: bool = True,
    on: bool = True,
) -> Law:
    """L·H·m·p, with m the larger of the stream's width and a head's."""
    size = _BITS * layers * heads * width
    return Law(
        sizes={SIZE: Const(size) if isinstance(size, int) else size}, built_to=to, exact=exact, continues=on
    )


def _state(bits: Formula | int, *, to: int, weights: Formula | None = None) -> Law:
    sizes: dict[str, Formula] = {STATE: Const(bits) if isinstance(bits, int) else bits}
    return Law(sizes=sizes if weights is None else sizes | {PARAMETERS: weights}, built_to=to)


def _weights(bits: int, *, to: int) -> Law:
    return Law(sizes={PARAMETERS: Const(bits)}, built_to=to)


_LOG: Final = ceil_log2(N)
_KEY: Final = ceil_log2(largest(N, Name("values")))
"""Bits of a key where recall has as many keys as labels at least."""
_LABEL: Final = ceil_log2(Name("labels"))
_WORD: Final = ceil_log2(Name("alphabet"))
_PLACES: Final = Steps(of=ceil_log2(N + Name("q")), steps=((9, 64), (14, 128)), beyond=256)
"""Dimensions of an extended BCH code for sets of three."""

LAWS: Final[Mapping[tuple[str, str, str, str], Law]] = {
    ("S-T1", "index-lookup", "transformer-1", ""): _layers(_WORD + 2 * _LOG, to=1 << 24),
    ("S-E-cited", "dyck", "transformer-3", ""): _layers(15, layers=3, to=1 << 20),
    ("S-T7", "nearest-neighbour", "transformer-2", ""): _layers(37 + 2 * _LOG, layers=2, to=1 << 16),
    ("S-T7", "mqar", "transformer-2", ""): _layers(3 * _LABEL + 3 + 2 * _LOG, layers=2, to=1 << 17),
    ("S-T7", "associative-recall", "transformer-2", ""): _layers(
        7 + 2 * _KEY + 2 * ceil_log2(2 * N + 1), layers=2, to=1 << 16
    ),
    ("R-qSA", "q-sparse-averaging", "transformer-1", ""): _layers(
        Name("d") + 2 * _PLACES, to=1 << 16, exact=False, on=False
    ),
    ("R-M2", "match2", "transformer-1", ""): _layers(4, to=1 << 16),
    ("R-M3", "match3", "third-order", ""): _layers(5, to=1 << 12),
    ("UP-M3", "match3", "transformer-1", ""): _layers(N + _LOG + 2, heads=N, to=48),
    ("R-G", "cycle3", "third-order", "graph unit of order 3"): _layers(1, to=1 << 10),
    ("R-G", "cycle5", "third-order", "graph unit of order 5"): _layers(1, to=1 << 10),
    ("S-T6", "equality", "transformer-2", ""): _layers(2 + _LOG, layers=2, to=1 << 18),
    ("S-L5", "equality", "transformer-2", "any balanced partition"): _layers(2 + _LOG, layers=2, to=1 << 18),
    ("S-T13", "sparse-threshold", "transformer-2", ""): _layers(7 + 3 * _LOG, layers=2, heads=2, to=1 << 14),
    ("S-T13", "disjointness", "transformer-2", ""): _layers(_LOG, layers=2, to=1 << 20),
    ("UP-TF1", "dyck", "transformer-1", "linear size"): _layers(2 * N + 1, to=1 << 11),
    ("UP-TF1", "equality", "transformer-1", "linear size"): _layers(N + 1, to=1 << 12),
    ("UP-TF1", "disjointness", "transformer-1", "linear size"): _layers(N + 1, to=1 << 12),
    ("S-E", "dyck", "rnn", ""): _state(5, to=1 << 20),
    ("S-E", "dyck", "rnn", "sigmoid-type activations"): _state(320, to=1 << 20),
    ("UP-RNN", "index-lookup", "rnn", ""): _state(_WORD * N + 2 * _LOG, to=1 << 19),
    ("UP-RNN", "associative-recall", "rnn", ""): _state(
        N * (_KEY + ceil_log2(Name("values"))) + _KEY + _LOG, to=1 << 16
    ),
    ("UP-RNN", "mqar", "rnn", ""): _state(N * _LABEL + _LABEL + _LOG, to=1 << 17),
    ("UP-RNN", "equality", "rnn", ""): _state(floor_divide(N, 2) + ceil_log2(floor_divide(N, 2)), to=1 << 18),
    ("W-4.6", "index-lookup", "transformer", ""): _layers(11, to=1 << 24),
    ("W-4.6", "associative-recall", "transformer", ""): _layers(13, layers=2, to=1 << 16),
    ("W-4.6", "c-gram", "transformer", ""): _layers(13, layers=2, heads=2, to=1 << 16),
    ("W-4.6", "counting", "transformer", ""): _layers(14, layers=2, to=1 << 20),
    ("W-4.7", "is-tree", "transformer-cot", ""): _layers(59, layers=9, heads=2, to=1 << 12),
    ("W-4.7", "is-tree", "transformer-cot", "every n"): _layers(60, layers=9, heads=2, to=1 << 12),
    ("W-4.8", "dyck", "transformer-cot", ""): _layers(45, layers=2, heads=4, to=1 << 16),
    ("W-5.2", "index-lookup", "linear-rnn+retrieval", ""): _state(320, to=1 << 24),
    ("W-5.2", "associative-recall", "linear-rnn+retrieval", ""): _state(384, to=1 << 16),
    ("W-5.2", "c-gram", "linear-rnn+retrieval", ""): _state(640, to=1 << 16),
    ("W-5.2", "counting", "linear-rnn+retrieval", ""): _state(704, to=1 << 20),
    ("W-5.3", "is-tree", "linear-rnn+retrieval", ""): _state(1472, to=1 << 12),
    ("W-5.4", "turing", "linear-rnn+retrieval", ""): _state(1216, to=1 << 13),
    ("W-5.6", "index-lookup", "hybrid", ""): _weights(17_280, to=1 << 24),
    ("W-5.6", "associative-recall", "hybrid", ""): _weights(26_624, to=1 << 16),
    ("W-5.6", "c-gram", "hybrid", ""): _weights(36_544, to=1 << 16),
    ("W-5.6", "counting", "hybrid", ""): _weights(28_672, to=1 << 20),
    ("W-5.7", "is-tree", "hybrid-cot", ""): _weights(1_404_096, to=1 << 12),
    ("W-5.8", "turing", "hybrid-cot", ""): _weights(2_717_248, to=1 << 14),
    ("W-4.1", "turing", "linear-rnn-cot", ""): _state(
        _BITS * (N + 5), to=1 << 8, weights=_BITS * (3 * N * N + 770 * N + 36_730)
    ),
}
"""By theorem, task, family and variant. Easier forms of a task have no law: they are no entry of its row."""


def law_of(entry: Entry) -> Law | None:
    """The law of a construction; None for one of an easier form."""
    return LAWS.get((entry.theorem, entry.task, entry.family, entry.variant))
