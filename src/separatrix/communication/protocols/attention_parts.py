"""One head of attention over a part of the keys, in steps between which two parties tell each other a number.

In fixed point every intermediate result is a whole number of steps, and both sums of a softmax attention, of
exps and of weighted values, are exact before they are clamped. So where the keys are cut in two cannot be
seen in the result, as long as a part of a sum is passed on as it is. How wide it must be sent follows from
the numbers and how many keys there are, n:

- Z is at most n ones, and a sum of non-negative numbers may be clamped at any time, so each part of it lies
  between 0 and min(n·one, limit) steps;
- while n·one ≤ limit nothing clamps Z, so the weights add up to at most one, or to n/2 steps more where they
  are rounded to nearest. A rounded product of weight w and value v lies within a step of w·v, or within half
  of one to nearest. So a part of a weighted sum lies within limit + n steps, or to nearest within
  limit + n·(limit/one + 1)/2. Where Z may be clamped, every product is still within limit.

Neither ever needs more than p + log n bits.
"""

from __future__ import annotations

from typing import final

import torch

from separatrix.communication.protocols.packing import numbers_of, steps_of
from separatrix.precision import FixedDown, FixedPoint, Integers, Numbers, stack

__all__ = ["AttentionPart", "largest_part", "largest_sum"]


def largest_sum(system: FixedPoint, keys: int) -> int:
    """The most steps that a part of Z has."""
    return min(keys * system.one, system.limit)


def largest_part(system: FixedPoint, keys: int) -> int:
    """The most steps by which a part of a weighted sum lies from 0."""
    limit, one = system.limit, system.one
    if keys * one > limit:
        return keys * limit
    spare = keys if isinstance(system, FixedDown) else keys * (limit + one) // (2 * one)
    return min(keys * limit, limit + spare)


@final
class AttentionPart:
    """A query's logits over some keys; then, as more is known, exps, weights, and their part of the sum."""

    def __init__(
        self, system: FixedPoint, query: Numbers, kept: tuple[Numbers, ...] | None, *, out: int
    ) -> None:
        """The query (batch, 1, inner); keys and values of these positions, None if there are none."""
        self.out = out
        self._system, self._batch = system, query.shape[0]
        self._logits: Numbers | None = None
        self._exps: Numbers | None = None
        self._total: Numbers | None = None
        if kept is not None:
            keys, self._values = kept
            self._logits = system.matmul(query, keys.transpose(-1, -2))[:, 0]

    def top(self) -> Numbers:
        """The largest logit, (batch,); without keys the least number there is, which raises nothing."""
        if self._logits is None:
            return numbers_of(self._system, Integers.constant(-self._system.limit)).expand(self._batch)
        return self._system.max(self._logits, -1)

    def raise_top(self, other: Numbers) -> None:
        """The largest logit of the other keys: the larger of both is subtracted from each."""
        if self._logits is not None:
            top = self._system.max(stack([self.top(), other], -1), -1)
            self._exps = self._system.exp(self._system.subtract(self._logits, top[:, None]))

    def total(self) -> Numbers:
        """The sum of these keys' exps, (batch,)."""
        if self._exps is None:
            return self._system.encode(torch.zeros(self._batch, dtype=torch.int64))
        return self._system.sum(self._exps, -1)

    def set_total(self, other: Numbers) -> None:
        """The sum of the other keys' exps: with one's own it is Z."""
        self._total = self._system.add(self.total(), other)

    def part(self) -> Integers:
        """Σ weight · value over these keys, each product rounded, the sum exact: (batch, out)."""
        if self._exps is None:
            return Integers.of(torch.zeros(self._batch, self.out, dtype=torch.int64), 0)
        assert self._total is not None, "weights are known once Z is"
        weights = self._system.divide(self._exps, self._total[:, None])
        return steps_of(self._system.multiply(weights[:, :, None], self._values)).sum(1)
