"""Proof of S-T13 on the weights: the mean counts how many features hold, on every input.

The lists of places and tables are compared with the task's features, position by position. From the tensors:
head j of a position reads the bit at its j-th place, up to the rivals' weight; and whatever the bits and the
table are, the position's vector behind layer 1 is that of a feature that holds if the table's entry for these
bits is 1, else that of one that does not. Only this entry matters, so 2^(k+1) cases are all there are. In
layer 2 just above and just below the threshold decide, as the mean grows with the number that hold.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.enclosures.boxes import Ends
from separatrix.certificates.enclosures.fixed_rounding import FixedRounding
from separatrix.certificates.lemmas.coded import Coded, answers, head_keys, matched_logits, weights
from separatrix.certificates.lemmas.digits import DigitRows, digit_rows, same_code
from separatrix.certificates.lemmas.feed_forward import feed_forward
from separatrix.certificates.lemmas.proving import claim, heads_of, least_lead, one_head
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.codes import Code, Digits
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.inputs import TokenClass, TokenInputs
from separatrix.models.explicit.layers import Layer
from separatrix.models.explicit.linear import Affine, FeedForward
from separatrix.models.explicit.positions import Listed, Own, Track
from separatrix.models.explicit.transformer import UnmaskedTransformer
from separatrix.tasks import Task
from separatrix.tasks.sparse_threshold import Feature, SparseThreshold

__all__ = ["prove"]

_SOURCE = "S-T13"
_MOST_VARIABLES = 12


def prove(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """For every input: the answer at the last bit is whether more than b features hold."""
    if not isinstance(task, SparseThreshold) or not isinstance(model, UnmaskedTransformer):
        raise NotProved("This proof is about unmasked Transformers for thresholds of sparse features.")
    inputs = model.inputs
    if not isinstance(inputs, TokenInputs) or len(inputs.appended) or len(model.layers) != 2:
        raise NotProved("This proof is about two layers on bits, with nothing of the model's own among them.")
    positions = _Positions(rounding, inputs, task)
    heads = heads_of(model.layers[0], len(model.layers[0].heads))
    found = [positions.read(head) for head in heads]
    positions.require_features([each.places for each in found], task)
    true, false = positions.behind(model.layers[0], found)
    above, below = _means(rounding, model.layers[1], true, false, task)
    leads = [
        least_lead(answers(rounding, model.readout, stream), [label] * stream.shape[0])
        for stream, label in ((above, 1), (below, 0))
    ]
    return (
        claim(
            "weight on the wanted bit",
            "in layer 1 each head of each position puts at least this weight on the place it looks up",
            ">",
            Fraction(1, 2),
            "of the attention",
            Box.concatenate([each.weight for each in found]),
            source=_SOURCE,
        ),
        claim(
            "lead of the right answer",
            "on every input the right answer's score exceeds the other's",
            ">",
            Fraction(0),
            "score",
            Box.concatenate(leads),
            source=_SOURCE,
        ),
    )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Read:
    """What a head returns where the bit it looks up is 0 or 1, its weight there, and the list of places."""

    output: tuple[Box, Box]
    weight: Box
    places: Int[Tensor, "place"]


@final
class _Positions:
    """The vectors of positions: a bit, words of places, and the digits of a table."""

    def __init__(self, rounding: Rounding, inputs: TokenInputs, task: SparseThreshold) -> None:
        if len(inputs.classes) != 1 or (inputs.classes[0].first, inputs.classes[0].count) != (0, 2):
            raise NotProved("The tokens are the bits 0 and 1.")
        if inputs.pad is not None:
            raise NotProved("Nothing is padded.")
        self.rounding, self.n = rounding, task.n
        kind = inputs.classes[0]
        used = [track for track in inputs.tracks if track.name in kind.tracks]
        self.words = {track.name: track for track in used if not isinstance(track.code, Digits)}
        self.tables = [track for track in used if isinstance(track.code, Digits)]
        plain = dataclasses.replace(kind, tracks={name: kind.tracks[name] for name in self.words})
        self.bits = digit_rows(rounding, inputs, plain, count=2)
        self.entries = [
            column for track in self.tables for column in self._table_columns(inputs, plain, kind, track)
        ]

    def _table_columns(
        self, inputs: TokenInputs, plain: TokenClass, kind: TokenClass, track: Track
    ) -> Sequence[Ends]:
        """What each entry of a list of tables adds to the vector: read like the digits of a token."""
        as_token = dataclasses.replace(plain, code=track.code, matrix=kind.tracks[track.name])
        return digit_rows(self.rounding, inputs, as_token, count=track.code.count).columns

    def rows(self, bit: int | None, entries: Sequence[int | None]) -> Coded:
        """The vectors where the bit and these entries of the table are known."""
        whole = DigitRows(
            start=self.bits.start, columns=(*self.bits.columns, *self.entries), parts=self.bits.parts
        )
        return whole.rows([bit, *entries])

    def open(self, bit: int | None = None) -> Coded:
        """The vectors of positions with any table."""
        return self.rows(bit, [None] * len(self.entries))

    def read(self, head: Head) -> _Read:
        """One head, whose query names a place from a list and whose keys are the places themselves."""
        query = self.open().image(self.rounding, head.query)
        keys, others = head_keys(self.rounding, head, self.open())
        asked, offered = self._track(query), self._track(keys)
        code = _common_code(asked, offered, self.n)
        matched = matched_logits(self.rounding, query, asked.name, keys, offered.name, code)
        attended = []
        for bit in (0, 1):
            value = head_keys(self.rounding, head, self.open(bit))[1][0]
            attended.append(self.rounding.attend(matched.groups(value, others.reshape(-1))))
        assert isinstance(asked.rule, Listed)
        return _Read(
            output=(attended[0].output, attended[1].output),
            weight=Box.concatenate([each.weights[:1] for each in attended]),
            places=asked.rule.table,
        )

    def _track(self, rows: Coded) -> Track:
        if len(rows.parts) != 1:
            raise NotProved("A query or a key of layer 1 depends on one word of its position.")
        return self.words[next(iter(rows.parts))]

    def require_features(self, places: Sequence[Int[Tensor, "place"]], task: SparseThreshold) -> None:
        """Position i's table at the bits of its places is feature i, and 0 behind the last feature."""
        heads = len(places)
        lists = [*places, *(_listed(track) for track in self.tables)]
        if len(self.entries) != 1 << heads or any(len(each) < self.n for each in lists):
            raise NotProved("Every position has a list of places and a table with a row for their bits.")
        read = torch.stack([each[: self.n] for each in places], dim=1)
        if bool(((read < 0) | (read >= self.n)).any()):
            raise NotProved("A list names a place that is not there.")
        tables = torch.cat([track.code.rows(_listed(track)[: self.n]).long() for track in self.tables], dim=1)
        if tables.shape[1] != len(self.entries):
            raise NotProved("A table has digits that are no entries.")
        nothing = Feature((), (0,))
        padded = (*task.function, *[nothing] * (self.n - len(task.function)))
        for feature, indices, table in zip(padded, read.tolist(), tables.tolist(), strict=True):
            if not _same_function(feature, indices, table):
                raise NotProved(f"A position computes something else than the feature at {feature.indices}.")

    def behind(self, layer: Layer, found: Sequence[_Read]) -> tuple[Box, Box]:
        """The vectors behind layer 1 of features that hold and of those that do not, (width,) each."""
        results = []
        for value in (1, 0):
            joined, stream = [], []
            for row, bits in enumerate(itertools.product((0, 1), repeat=len(found))):
                joined.append(
                    Box.concatenate([each.output[bit] for each, bit in zip(found, bits, strict=True)])
                )
                known = [value if entry == row else None for entry in range(len(self.entries))]
                stream.append(self.rows(None, known).range()[0])
            results.append(_after(self.rounding, layer, Box.stack(joined), Box.stack(stream)).hull(0))
        return results[0], results[1]


def _after(rounding: Rounding, layer: Layer, joined: Box, stream: Box) -> Box:
    """The stream behind a layer, where coordinates that no unit reads are left out of the account."""
    y = rounding.affine(joined, weights(rounding, layer.output))
    y = rounding.add(stream, y) if layer.attention_residual else y
    psi = layer.feed_forward
    if psi is None or psi.kind != "relu" or layer.feed_forward_residual:
        raise NotProved("This proof is about feed-forward maps of ReLU units without a residual.")
    read = [place for place, column in enumerate(psi.maps[0].matrix.T) if bool((column != 0).any())]
    first = Affine(matrix=psi.maps[0].matrix[:, read], bias=psi.maps[0].bias)
    return feed_forward(rounding, FeedForward(maps=(first, *psi.maps[1:])), y[:, read], residual=False)


def _common_code(asked: Track, offered: Track, n: int) -> Code:
    fits = isinstance(asked.rule, Listed) and offered.rule == Own(shift=0)
    if not fits or not same_code(asked.code, offered.code) or asked.code.count < n:
        raise NotProved("A head looks places up from a list, in the code in which places are addressed.")
    return asked.code


def _listed(track: Track) -> Int[Tensor, "place"]:
    if not isinstance(track.rule, Listed):
        raise NotProved("The tables are lists.")
    return track.rule.table


def _same_function(feature: Feature, indices: Sequence[int], table: Sequence[int]) -> bool:
    """Whether looking the bits at `indices` up in `table` is the feature, tried on all bits that matter."""
    own = len(feature.indices)
    if tuple(indices[:own]) == feature.indices:
        times = 1 << (len(indices) - own)
        if list(table) == [value for value in feature.table for _ in range(times)]:
            return True
    variables = sorted({*feature.indices, *indices})
    if len(variables) > _MOST_VARIABLES:
        return False
    for bits in itertools.product((0, 1), repeat=len(variables)):
        value = dict(zip(variables, bits, strict=True))
        if table[_row(value[i] for i in indices)] != feature.table[_row(value[i] for i in feature.indices)]:
            return False
    return True


def _row(bits: Iterable[int]) -> int:
    number = 0
    for bit in bits:
        number = 2 * number + bit
    return number


def _means(rounding: Rounding, layer: Layer, true: Box, false: Box, task: SparseThreshold) -> tuple[Box, Box]:
    """The stream behind layer 2 where more than b features hold, and where b or fewer do: (case, width).

    In fixed point all weights are one number if all logits are, so that every feature that holds raises the
    sum: it lies between those for the least and for the greatest number of them. In floats the number of
    them is left open.
    """
    n, bound, most = task.n, task.bound, len(task.function)
    streams = []
    for low, high in ((bound + 1, most), (0, bound)):
        found = []
        for here in (true, false):
            groups = [_key(rounding, one_head(layer), here, key) for key in (true, false)]
            if isinstance(rounding, FixedRounding):
                _require_growing(groups)
                counts = [(low, low), (high, high)]
            else:
                counts = [(low, high)]
            outputs = [
                rounding.attend(
                    [
                        dataclasses.replace(groups[0], least=fewest, most=largest),
                        dataclasses.replace(groups[1], least=n - largest, most=n - fewest),
                    ]
                ).output
                for fewest, largest in counts
            ]
            found.append((Box.union(*outputs), here))
        joined, stream = (Box.stack([pair[side] for pair in found]) for side in (0, 1))
        y = rounding.affine(joined, weights(rounding, layer.output))
        streams.append(_finished(rounding, layer, y, stream))
    return streams[0], streams[1]


def _finished(rounding: Rounding, layer: Layer, y: Box, stream: Box) -> Box:
    y = rounding.add(stream, y) if layer.attention_residual else y
    psi = layer.feed_forward
    return y if psi is None else feed_forward(rounding, psi, y, residual=layer.feed_forward_residual)


def _key(rounding: Rounding, head: Head, here: Box, key: Box) -> KeyGroup:
    asked, offered, value = (
        rounding.affine(rows.reshape(1, -1), weights(rounding, matrix))[0]
        for rows, matrix in ((here, head.query), (key, head.key), (key, head.value))
    )
    return KeyGroup(logit=rounding.dot(asked, offered).reshape(1), value=value)


def _require_growing(groups: Sequence[KeyGroup]) -> None:
    true, false = groups
    logits = {each.logit.scalar for each in groups}
    alike = len(logits) == 1 and all(low == high for low, high in logits)
    if not alike or bool(np.any(true.value.low < false.value.high)):
        raise NotProved("Layer 2 weighs all positions alike, and features that hold count more.")
