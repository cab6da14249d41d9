"""Two layers that find out whether any pair of tokens is loud: what equality and disjointness have in common.

The positions come in pairs that share a number. In layer 1 every position reads its own token and its
partner's; a pair of tokens is loud or quiet by its digits, and the position's vector behind the layer tells.
In layer 2 the labelled position takes the mean over all positions. Nothing of that is assumed: logits, values
and vectors are enclosed from the tensors for every pair of tokens and every length, and the scores of inputs
without and with a loud pair are what comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from flint import fmpq

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.enclosures.boxes import Ends, as_ends
from separatrix.certificates.lemmas.coded import (
    Coded,
    Matched,
    after_attention,
    answers,
    head_keys,
    matched_logits,
    plain_logits,
    weights,
)
from separatrix.certificates.lemmas.digits import DigitRows
from separatrix.certificates.lemmas.proving import one_head
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.codes import Code
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.layers import Layer, Readout

__all__ = ["Pairing", "Verdicts", "judged"]

Bits = tuple[int, int]
ALL: Final[tuple[Bits, ...]] = ((0, 0), (0, 1), (1, 0), (1, 1))
"""A digit of a token and the same digit of its partner."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Pairing:
    """What is known of the input: tokens by digits, the number that partners share, and how many there are.

    `loud` are the digits that make a pair loud, wherever they stand in the code; a pair without any is quiet.
    `alone` is one more token that has no partner, if there is one. An input has 2 to `most` paired tokens.
    """

    tokens: DigitRows
    number: str
    code: Code
    alone: Coded | None
    loud: tuple[Bits, ...]
    most: int

    @property
    def quiet(self) -> tuple[Bits, ...]:
        """The other ones."""
        return tuple(bits for bits in ALL if bits not in self.loud)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Verdicts:
    """What was found: boxes that hold the true quantities for every input."""

    rivals: Box
    """The weight, in layer 1, of what is neither oneself nor the partner."""
    quiet: Box
    """(case, out): scores of inputs without a loud pair."""
    loud: Box | None
    """(case, out): scores of inputs with one at least; None if there is no such input."""


def judged(rounding: Rounding, layers: Sequence[Layer], readout: Readout, pairing: Pairing) -> Verdicts:
    """The scores at a paired position, through two layers of one head each."""
    if len(layers) != 2:
        raise NotProved("This proof is about two layers.")
    first = _First(rounding, layers[0], pairing)
    quiet, loud, alone = first.quiet(), first.loud(), first.alone()
    second = _Second(rounding, layers[1], pairing.most, alone)
    return Verdicts(
        rivals=first.rival_weight(),
        quiet=answers(rounding, readout, second.without(quiet)),
        loud=None if loud is None else answers(rounding, readout, second.with_loud(quiet, loud)),
    )


@final
class _First:
    """Layer 1 at the positions of one pair, digit by digit."""

    def __init__(self, rounding: Rounding, layer: Layer, pairing: Pairing) -> None:
        self.rounding, self.layer, self.pairing = rounding, layer, pairing
        self.head = one_head(layer)
        tokens = pairing.tokens
        self.keys, self.others = head_keys(rounding, self.head, tokens.open())
        self.values = [head_keys(rounding, self.head, tokens.all(digit))[1][0] for digit in (0, 1)]
        self.digit_of = _digit_of(rounding, self.head, tokens)
        query = tokens.open().image(rounding, self.head.query)
        matched = matched_logits(rounding, query, pairing.number, self.keys, pairing.number, pairing.code)
        self.attended = {bits: self._attend(query, matched, bits) for bits in ALL}

    def _attend(self, query: Coded, matched: Matched, bits: Bits) -> tuple[Box, Box]:
        """What the head returns, and the weights, where every digit of the two tokens is as in `bits`."""
        own, partner = (self.values[bit] for bit in bits)
        others = self.others.reshape(-1)
        groups = [KeyGroup(logit=matched.target, value=value) for value in (own, partner)]
        # Two positions have each number.
        groups += [
            KeyGroup(logit=rival.logit, value=others, least=0, most=2 * rival.most)
            for rival in matched.rivals
        ]
        if self.pairing.alone is not None:
            key, value = head_keys(self.rounding, self.head, self.pairing.alone)
            groups.append(KeyGroup(logit=plain_logits(self.rounding, query, key), value=value[0]))
        found = self.rounding.attend(groups)
        return found.output, found.weights

    def rival_weight(self) -> Box:
        """Of all but the two partners, whatever the digits."""
        found = [rest.sum(0).reshape(1) for _, all_ in self.attended.values() if (rest := all_[2:]).size]
        return Box.concatenate(found) if found else Box.exact([0])

    def _case(self, digits: Sequence[Bits | None]) -> tuple[Box, Box]:
        """What the head returns and the stream before, (width,) each, where some digits are known."""
        returned = [self.attended[bits][0] for bits in ALL]
        every = Box.union(*returned)
        low, high = every.low.copy(), every.high.copy()
        for place, digit in enumerate(self.digit_of):
            bits = None if digit is None else digits[digit]
            if bits is not None:
                known = self.attended[bits][0][place]
                low[place], high[place] = known.scalar
        own = [None if bits is None else bits[0] for bits in digits]
        return Box(low, high), self.pairing.tokens.rows(own).range()[0]

    def _cases(self, wanted: Sequence[Sequence[Bits | None]]) -> tuple[Box, Box]:
        cases = [self._case(digits) for digits in wanted]
        return Box.stack([joined for joined, _ in cases]), Box.stack([stream for _, stream in cases])

    def loud(self) -> Box | None:
        """The stream behind the layer where one digit is loud and nothing is known of the others."""
        count = self.pairing.tokens.digits
        wanted = [_one(count, digit, bits) for digit in range(count) for bits in self.pairing.loud]
        if not wanted:
            return None
        joined, stream = self._cases(wanted)
        return after_attention(self.rounding, self.layer, joined, stream).hull(0)

    def quiet(self) -> Box:
        """The stream behind the layer where all digits are quiet.

        Each hidden unit is enclosed once for each digit, with only that one known: all enclosures hold. So
        a unit that reads one digit is known as if that were the only one.
        """
        count, psi = self.pairing.tokens.digits, self.layer.feed_forward
        if count <= 1 or psi is None or psi.kind != "relu":
            wanted = [[bits] * count for bits in self.pairing.quiet]
            if count > 1:
                raise NotProved("This proof is about feed-forward maps of ReLU units.")
            return after_attention(self.rounding, self.layer, *self._cases(wanted)).hull(0)
        known: Box | None = None
        for digit in range(count):
            joined, stream = self._cases([_one(count, digit, bits) for bits in self.pairing.quiet])
            y = self._before(joined, stream)
            units = self.rounding.relu(self._map(y, 0)).hull(0)
            known = units if known is None else _common(known, units)
        assert known is not None
        image = known.reshape(1, -1)
        for number in range(1, len(psi.maps)):
            image = self._map(image, number)
            image = self.rounding.relu(image) if number < len(psi.maps) - 1 else image
        if self.layer.feed_forward_residual:
            open_case = self._cases([[None] * count])
            image = self.rounding.add(self._before(*open_case), image)
        return image[0]

    def _before(self, joined: Box, stream: Box) -> Box:
        y = self.rounding.affine(joined, weights(self.rounding, self.layer.output))
        return self.rounding.add(stream, y) if self.layer.attention_residual else y

    def _map(self, x: Box, number: int) -> Box:
        assert self.layer.feed_forward is not None
        each = self.layer.feed_forward.maps[number]
        bias = weights(self.rounding, each.bias) if bool((each.bias != 0).any()) else None
        return self.rounding.affine(x, weights(self.rounding, each.matrix), bias)

    def alone(self) -> Box | None:
        """The stream behind the layer at the token without a partner."""
        token = self.pairing.alone
        if token is None:
            return None
        query = token.image(self.rounding, self.head.query)
        key, value = head_keys(self.rounding, self.head, token)
        groups = [
            KeyGroup(logit=plain_logits(self.rounding, query, key), value=value[0]),
            KeyGroup(
                logit=plain_logits(self.rounding, query, self.keys),
                value=self.others.reshape(-1),
                least=2,
                most=self.pairing.most,
            ),
        ]
        joined = self.rounding.attend(groups).output.reshape(1, -1)
        return after_attention(self.rounding, self.layer, joined, token.range())[0]


@final
class _Second:
    """Layer 2 at a paired position: the keys are quiet, loud, or the token without a partner."""

    def __init__(self, rounding: Rounding, layer: Layer, most: int, alone: Box | None) -> None:
        self.rounding, self.layer, self.most, self.single = rounding, layer, most, alone
        self.head = one_head(layer)

    def without(self, quiet: Box) -> Box:
        """The stream where every pair is quiet: (case, width)."""
        return self._stream(quiet, [(quiet, 2, self.most)])

    def with_loud(self, quiet: Box, loud: Box) -> Box:
        """The stream where two positions or more are loud, and the others quiet.

        The number of loud ones is known up to a factor of 2 at a time: the error of a sum of floats is in
        proportion to the sum, and would swamp the sum of a few if it might as well be the sum of many.
        """
        found, fewest = [], 2
        while fewest <= self.most:
            keys = [(loud, fewest, min(2 * fewest, self.most)), (quiet, 0, self.most - fewest)]
            found += [self._stream(here, keys) for here in (quiet, loud)]
            fewest *= 2
        return Box.concatenate(found)

    def _stream(self, here: Box, keys: Sequence[tuple[Box, int, int]]) -> Box:
        found = [self._group(here, *key) for key in keys]
        if self.single is not None:
            found.append(self._group(here, self.single, 1, 1))
        joined = self.rounding.attend(found).output.reshape(1, -1)
        return after_attention(self.rounding, self.layer, joined, here.reshape(1, -1))

    def _group(self, here: Box, key: Box, least: int, most: int) -> KeyGroup:
        asked, offered, value = (
            self.rounding.affine(rows.reshape(1, -1), weights(self.rounding, matrix))[0]
            for rows, matrix in ((here, self.head.query), (key, self.head.key), (key, self.head.value))
        )
        return KeyGroup(
            logit=self.rounding.dot(asked, offered).reshape(1), value=value, least=least, most=most
        )


def _digit_of(rounding: Rounding, head: Head, tokens: DigitRows) -> list[int | None]:
    """The one digit that each coordinate of a head's values depends on."""
    matrix = weights(rounding, head.value).low
    found: list[int | None] = []
    for row in matrix:
        read = [digit for digit, column in enumerate(tokens.columns) if _product(row, column)]
        if len(read) > 1:
            raise NotProved("A head's value mixes digits, which this proof keeps apart.")
        found.append(read[0] if read else None)
    return found


def _product(row: Ends, column: Ends) -> bool:
    """Whether the row reads the column at all, even where its terms cancel."""
    return bool(np.any((row * column) != fmpq(0)))


def _one(count: int, digit: int, bits: Bits) -> list[Bits | None]:
    return [bits if place == digit else None for place in range(count)]


def _common(first: Box, second: Box) -> Box:
    return Box(as_ends(np.maximum(first.low, second.low)), as_ends(np.minimum(first.high, second.high)))
