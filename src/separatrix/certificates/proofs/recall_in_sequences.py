"""Proof of associative recall in one sequence: the query reads the token behind its first occurrence.

Layer 1 is proven as for pairs. In layer 2 a place's logit is a diagonal form of the query's token and the one
in front of the place, plus a multiple of its number that falls from place to place; relative to the first
place whose token in front is the query, later ones are counted by how far behind they are, all places with
other tokens in front share one interval, and place 0, which has nothing in front, has its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
import torch
from flint import fmpq

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.enclosures.boxes import Ends, as_ends
from separatrix.certificates.enclosures.fixed_rounding import FixedRounding
from separatrix.certificates.enclosures.float_rounding import FloatRounding
from separatrix.certificates.lemmas.coded import VALUE, Coded, logits_by_distance, plain_logits, weights
from separatrix.certificates.lemmas.float_errors import summing_error
from separatrix.certificates.lemmas.proving import claim, one_head
from separatrix.certificates.lemmas.signwise import Signwise, embedded, fetched, lead_of_words, require_short
from separatrix.certificates.proofs.spelling import spelled
from separatrix.certificates.proofs.token_in_front import FETCHED, Fetching, Places, token_in_front
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit.codes import Ladder, SignCode
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.inputs import TokenClass, TokenInputs
from separatrix.models.explicit.positions import Own
from separatrix.models.explicit.transformer import Transformer
from separatrix.tasks.associative_recall import AssociativeRecall

__all__ = ["prove"]

_SOURCE = "S-T7"
_ZERO = fmpq(0)


def prove(model: Transformer, task: AssociativeRecall, rounding: Rounding) -> tuple[Claim, ...]:
    """For every input of every length: the answer at the query is the token behind its first occurrence."""
    inputs = model.inputs
    if not isinstance(inputs, TokenInputs) or len(model.layers) != 2 or len(inputs.appended):
        raise NotProved("This proof is about two layers on tokens.")
    symbol, code = _symbols(inputs, task)
    order = _Order.of(inputs, symbol, task.length)
    places = Places.of(inputs.tracks, task.length, others=[Own(), Own()])
    first, second = model.layers
    if second.attention_residual:
        raise NotProved("Nothing is carried past the second layer's attention.")
    rows = _rows(rounding, symbol, places)
    front = token_in_front(
        rounding,
        first,
        places,
        in_front=rows,
        behind=rows,
        dim=code.dim,
        most=1 if model.causal else task.length,
    )
    order.require_unread([one_head(first), one_head(second)], [rows, front.behind, front.start])
    found, weight = _second_layer(rounding, one_head(second), front, order, task.n, code)
    word = spelled(rounding, second, model.readout, found, front.behind.range(), code)
    return (
        claim(
            "weight on the token in front",
            "on every input each place but the first puts at least this weight on the one in front of it",
            ">",
            Fraction(1, 2),
            "of the attention",
            front.weight,
            source=_SOURCE,
        ),
        claim(
            "weight on the place behind the first occurrence",
            "on every input the query puts at least this weight on the place that is asked for",
            ">",
            Fraction(1, 2),
            "of the attention",
            weight,
            source=_SOURCE,
        ),
        claim(
            "lead of the right token",
            "on every input the right token's score exceeds every other's",
            ">",
            Fraction(0),
            "score",
            lead_of_words(rounding, word, code),
            source=_SOURCE,
        ),
    )


def _second_layer(
    rounding: Rounding, head: Head, front: Fetching, order: _Order, n: int, code: SignCode
) -> tuple[Signwise, Box]:
    """What the query gets, sign by sign. Logits are relative to what the target's own number adds."""
    query, key = front.behind.image(rounding, head.query), front.behind.image(rounding, head.key)
    first_key = front.start.image(rounding, head.key)
    fall, start, error = order.in_logits(rounding, head, query, (key, first_key))
    if fall >= 0:
        raise NotProved("Later places do not fall behind earlier ones.")
    by_distance = [
        box.reshape(1).widened(error)
        for box in logits_by_distance(rounding, query, VALUE, key, FETCHED, code.dim)
    ]
    same = by_distance[0]
    values = front.behind.image(rounding, head.value)
    anything = Box.union(values.range(), front.start.image(rounding, head.value).range()).hull(0)
    rivals = []
    ahead = 1
    while ahead < n:
        span = Box.between([fall * (2 * ahead - 1)], [fall * ahead])
        rivals.append(KeyGroup(logit=same + span, value=anything, least=0, most=ahead))
        ahead *= 2
    anywhere = Box.between([fall * n], [-fall * n])
    if len(by_distance) > 1:
        other = Box.union(*by_distance[1:]) + anywhere
        rivals.append(KeyGroup(logit=other, value=anything, least=0, most=n))
    lonely = plain_logits(rounding, query, first_key).widened(error) + anywhere + Box.exact([start])
    rivals.append(KeyGroup(logit=lonely, value=anything))
    return fetched(rounding, same, rivals, values, VALUE, code.dim)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Order:
    """The columns that hold a place's number, and a 1 at place 0; nothing but layer 2's keys reads them."""

    late: Ends
    start: Ends
    length: int

    @classmethod
    def of(cls, inputs: TokenInputs, symbol: TokenClass, length: int) -> _Order:
        """From the two tracks of numbers, which give whole multiples of them."""
        codes = {track.name: track.code for track in inputs.tracks if isinstance(track.code, Ladder)}
        columns = {}
        for name, code in codes.items():
            matrix = symbol.tracks.get(name)
            if matrix is None or bool((matrix != matrix.round()).any()) or bool((matrix.abs() > 16).any()):
                raise NotProved("A place's number enters as a whole multiple of it.")
            columns[code.spec()["count"], code.spec()["first"]] = Box.exact(matrix).low.reshape(-1)
        late = [
            column for (count, first), column in columns.items() if first == 0 and int(str(count)) >= length
        ]
        start = columns.get((1, 1))
        if len(columns) != 2 or len(late) != 1 or start is None:
            raise NotProved("Places know their number and whether it is 0.")
        return cls(late=late[0], start=start, length=length)

    def require_unread(self, heads: list[Head], streams: list[Coded]) -> None:
        """Only one matrix reads these columns, and nothing else is written where they are."""
        used = [place for place in range(len(self.late)) if self.late[place] or self.start[place]]
        for stream in streams:
            if bool(np.any(stream.range().magnitude[:, used] != 0)):
                raise NotProved("Something else is written where a place keeps its number.")
        readers = [heads[0].query, heads[0].key, heads[0].value, heads[1].query, heads[1].value]
        if any(bool((matrix[:, used] != 0).any()) for matrix in readers):
            raise NotProved("A place's number is read where it should not be.")

    def in_logits(
        self, rounding: Rounding, head: Head, query: Coded, keys: tuple[Coded, Coded]
    ) -> tuple[fmpq, fmpq, fmpq]:
        """What a place's number is multiplied by, what place 0 gets beside, and the error of large terms."""
        matrix = weights(rounding, head.key).low
        late, start = (as_ends(matrix @ column) for column in (self.late, self.start))
        used = [place for place in range(len(late)) if late[place] or start[place]]
        held = as_ends(np.abs(self.late) * self.length + np.abs(self.start))
        sizes = as_ends(np.abs(matrix) @ held)  # before terms cancel, so that no partial sum is too long
        mixed = any(bool(np.any(each.range().magnitude[:, used] != 0)) for each in keys)
        terms = [(matrix * column).reshape(-1) for column in (self.late, self.start)]
        whole = all(number.q == 1 for each in terms for number in each)
        exact = query.base[0, used]
        if mixed or not whole or any(part[used].any() for part in query.parts.values()) or not exact.is_point:
            raise NotProved("A key's part of the place's number is no whole number that stands alone.")
        fall = sum((a * b for a, b in zip(exact.low, late[used], strict=True)), start=_ZERO)
        add = sum((a * b for a, b in zip(exact.low, start[used], strict=True)), start=_ZERO)
        reach = [each.range().magnitude.max(axis=0) for each in (query, *keys)]
        largest = np.maximum(np.maximum(reach[1], reach[2]), sizes)
        whole_reach = sum(reach[0] * largest, start=_ZERO)
        if isinstance(rounding, FixedRounding):
            if whole_reach > rounding.largest or any(
                bool(np.any(s > rounding.largest)) for s in (sizes, held)
            ):
                raise NotProved("A logit leaves the range of the arithmetic, where it would be clamped.")
            return fall, add, 2 * rounding.step
        if not isinstance(rounding, FloatRounding):
            return fall, add, _ZERO
        if any(bool(np.any(each > 1 << rounding.form.digits)) for each in (sizes, held)):
            raise NotProved("A place's number is too large for the arithmetic.")
        rough = np.full(len(largest), -(1 << 40), dtype=np.int64)
        return fall, add, summing_error(rounding, reach[0], largest, rough, rough)


def _symbols(inputs: TokenInputs, task: AssociativeRecall) -> tuple[TokenClass, SignCode]:
    vocabulary = task.vocabulary
    told = [(block.name, vocabulary.offset(block.name), block.size) for block in vocabulary.blocks]
    if [
        (each.name, each.first, each.count) for each in inputs.classes
    ] != told or inputs.pad != vocabulary.pad:
        raise NotProved("The tokens of the model are not those of the task.")
    symbol = inputs.classes[0]
    if symbol.placed is not None:
        raise NotProved("Tokens write at their places, which this proof does not follow.")
    if not isinstance(symbol.code, SignCode) or symbol.code.count != symbol.count:
        raise NotProved("Tokens have codes of signs.")
    return symbol, symbol.code


def _rows(rounding: Rounding, symbol: TokenClass, places: Places) -> Coded:
    """All that a place holds but its number, with token and addresses left open."""
    require_short([symbol.bias, symbol.matrix, *symbol.tracks.values()])
    parts = {VALUE: _exact(symbol.matrix)}
    parts |= {
        name: _exact(symbol.tracks[name]) for name in (places.own, places.before) if name in symbol.tracks
    }
    return embedded(rounding, _exact(symbol.bias[None, :]), parts)


def _exact(tensor: torch.Tensor) -> Ends:
    return Box.exact(tensor).low
