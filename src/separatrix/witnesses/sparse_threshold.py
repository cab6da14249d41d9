"""S-T13: any threshold of sparse features by two layers, compiled from the features."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.explicit.codes import Digits
from separatrix.models.explicit.positions import Listed, Own
from separatrix.tasks.sparse_threshold import Feature, SparseThreshold
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import Program, address_rivals, build, constant, joined
from separatrix.witnesses.witness import Witness

__all__ = ["MOST_BITS_READ", "sparse_threshold"]

MOST_BITS_READ: Final = 6
"""Bits of a feature: a position holds a table of 2^k entries, the feed-forward map has a unit for each."""
_ENTRIES_A_LIST: Final = 32


def sparse_threshold(task: SparseThreshold, choices: Choices) -> Witness:
    """Two layers, k heads: position i computes feature i, and the mean of all is compared with the threshold.

    Position i holds its own address T(i), the addresses T(i_1), …, T(i_k) of the bits that feature i reads,
    and the 2^k entries of its table. Head j queries T(i_j) against the own addresses, with logits
    η⟨T(i_j), T(l)⟩; as all addresses differ, the rivals weigh Σ_w A_w e^(−2ηw) of the target, and η is the
    least scale at which a step between ¼ and ¾ makes the bit exact. The feed-forward map has a unit for each
    row of the table: ReLU(number of bits that agree with the row + entry − k), which is 1 for the row that
    the bits spell if its entry is 1 and else 0. A feature of fewer bits reads bit 0 as well and ignores it:
    its table repeats itself. A position without a feature has a table of zeros.

    In layer 2 all logits are 0. With c features true the mean over n positions is c/n exactly, and the
    readout compares it with (b + ½)/n, since the threshold is strict; each side is ½/n away.

    Width 1 + (k + 1)⌈log n⌉ + 2^k + k with binary addresses. Which bits a feature reads follows no rule, so
    lists of k·n places and n tables are stored, and counted as parameters: they are the formula itself.
    """
    features = task.function
    k = max(1, *(len(feature.indices) for feature in features))
    if k > MOST_BITS_READ:
        raise InvalidInput(
            f"This construction takes features of up to {MOST_BITS_READ} bits, as every position holds a "
            f"table of 2^k entries; got a feature of {k} bits. Take features of fewer bits."
        )
    code = choices.any_code(task.n)
    program = Program(task)
    bit = program.token("bit", block="bit", code=Digits(count=2))
    address = program.position("address", Own(), code)
    wanted = [
        program.position(f"place {j + 1}", Listed(table=places), code)
        for j, places in enumerate(_places(features, n=task.n, k=k))
    ]
    table = [
        program.position(
            f"table {part + 1}", Listed(table=numbers), Digits(count=1 << min(1 << k, _ENTRIES_A_LIST))
        )
        for part, numbers in enumerate(_tables(features, n=task.n, k=k))
    ]
    rivals = address_rivals(code)
    with program.layer() as layer:
        found = [
            layer.select(f"found {j + 1}", match=[(place, address)], value=bit, rivals=rivals)
            for j, place in enumerate(wanted)
        ]
        read = [layer.step(f"bit {j + 1}", each, off=0, on=1) for j, each in enumerate(found)]
        holds = layer.truth_table("holds", read, joined(table))
    with program.layer() as layer:
        share = layer.average("share", holds)
    middle = Fraction(2 * task.bound + 1, 2 * task.n)
    program.answer_scores(joined([constant([middle]), share]))
    built = build(program, choices.system)
    return witness_of(built, theorem="S-T13", family="transformer-2")


def _places(features: Sequence[Feature], *, n: int, k: int) -> Int[Tensor, "bit place"]:
    """The place that each head looks up, for each position; place 0 where there is nothing to look up."""
    rows = [[*feature.indices, *[0] * (k - len(feature.indices))] for feature in features]
    rows += [[0] * k] * (n - len(features))
    return torch.tensor(rows, dtype=torch.int64).T.contiguous()


def _tables(features: Sequence[Feature], *, n: int, k: int) -> Int[Tensor, "part place"]:
    """The tables as numbers, entry j as binary digit j, in parts that a list of int64 can hold."""
    rows = []
    for feature in features:
        times = 1 << (k - len(feature.indices))
        entries = [value for value in feature.table for _ in range(times)]
        parts = range(0, len(entries), _ENTRIES_A_LIST)
        rows.append([_number(entries[low : low + _ENTRIES_A_LIST]) for low in parts])
    width = max(1, (1 << k) // _ENTRIES_A_LIST)
    rows += [[0] * width] * (n - len(features))
    return torch.tensor(rows, dtype=torch.int64).T.contiguous()


def _number(entries: Sequence[int]) -> int:
    return sum(entry << place for place, entry in enumerate(entries))
