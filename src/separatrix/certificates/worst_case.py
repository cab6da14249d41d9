"""The least linear readout of one softmax head over every input, and the input that gives it.

    head = Head(logits, allowed)          # logits of every option at every position, for some queries
    worst = worst_case(head, values)      # values: what the readout makes of every option, by direction
    worst.value, worst.options            # the least readout, and the options that give it

At each of N positions one of A options is chosen, and the readout is

    r(σ) = Σ_t e^{s(t, σ_t)} v(t, σ_t) / Σ_t e^{s(t, σ_t)},

a ratio of two sums that split by position. Its minimum over all A^N choices is the λ at which
F(λ) = Σ_t min_σ e^{s(t, σ)} (v(t, σ) − λ) vanishes, since F(λ) ≥ 0 says that no choice has a readout below λ.
F is concave and falls, so Newton's method (Dinkelbach's iteration) finds it: every position chooses its least
term alone, λ becomes the readout of that choice, and λ falls until F(λ) ≥ 0.

What floats can do here. A common factor at a position does not change its choice, so weights are taken
relative to the position's largest, and those of a readout relative to the largest that it chose: nothing
overflows, and a readout's weights add up to at least 1. Where logits at a position differ by more than `WIDE`
its weights could vanish, and s + log|v − λ| are compared instead. Each term w (v − λ) is computed with a
small relative error. A least term that is positive is at most the position's least weight times a difference
of values, so the errors of positive terms are small beside the sum of any input's weights, however far apart
the weights are; and a negative term stays negative. Hence F(λ) ≥ 0 is decided as for a λ that is off by that
relative error of the values' size: about 1e-15, or 1e-13 where logits at a position differ by hundreds. The
test is made `SLACK` below the readout reached. Proven bounds are in `worst_case_enclosed`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from separatrix.errors import InvalidInput

__all__ = ["Head", "WorstCase", "worst_case"]

WIDE = 600.0
"""Logits at a position that differ by more than this are compared in logarithms."""
SLACK = 2.0**-50
"""How far below the least readout it is checked that no other lies, relative to the values chosen."""
MOST_ROUNDS = 10_000
"""Newton's steps. Five or six are usual; F times its slope falls by a factor of 4 in each."""
LARGEST = 1e300
"""Logits and values beyond this are refused, so that no difference of two overflows."""
COMFORTABLE = 2.0**100
"""Values whose largest is within this factor of 1 are not scaled."""

TOGETHER = 2**18
"""Options of all the problems that go through their rounds together on a CPU; a long head goes alone."""
IN_CACHE = 2**15
"""Options whose terms are computed at once on a CPU. Below some 2^15 torch leaves an operation to one thread,
which is not much slower, and does not wait for another thread where the machine has other things to do."""
ELSEWHERE = 2**24
"""Both on another device."""


@dataclass(frozen=True, eq=False)
class Head:
    """One softmax head: the logit of every option at every position, for any number of queries.

    `allowed` says which options an input may have at a position; None allows all. A position is fixed by
    allowing one option there. Positions that a query does not see are left out of its head.
    """

    logits: Float[Tensor, "*query pos option"]
    allowed: Bool[Tensor, "*#query pos option"] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "logits", _numbers("A head's logits", self.logits))
        if self.allowed is None:
            return
        if not isinstance(self.allowed, Tensor) or self.allowed.dtype != torch.bool:
            raise InvalidInput("A head's allowed options are a tensor of booleans (pos, option).")
        shape, ours = tuple(self.allowed.shape), tuple(self.logits.shape)
        if shape not in (ours, ours[-2:]):
            raise InvalidInput(
                f"A head's allowed options have the shape of its logits, {ours}, or of one query's, "
                f"{ours[-2:]}; got {shape}."
            )
        object.__setattr__(self, "allowed", self.allowed.to(self.logits.device))
        empty = ~self.allowed.any(-1)
        if bool(empty.any()):
            place = int(empty.nonzero()[0, -1])
            raise InvalidInput(f"Every position needs an option; none is allowed at position {place}.")

    @property
    def queries(self) -> tuple[int, ...]:
        """The axes before position and option."""
        return tuple(self.logits.shape[:-2])


@dataclass(frozen=True, eq=False)
class WorstCase:
    """The least readout of each query in each direction, an input that has it, and the rounds it took."""

    value: Float64[Tensor, "*query *direction"]
    options: Int64[Tensor, "*query *direction pos"]
    rounds: Int64[Tensor, "*query *direction"]


def worst_case(head: Head, values: Float[Tensor, "*direction pos option"]) -> WorstCase:
    """The least readout over all inputs that `head` allows, for every query and every direction.

    `values` holds what each option adds to the readout: the direction applied to its value vector. Everything
    is computed in float64 on the head's device. The greatest readout is minus the least of `-values`.
    """
    flat, directions = values_for(head, values)
    scales = _scales(flat)
    if scales is not None:
        flat = flat * scales[:, None, None]
    positions, options = head.logits.shape[-2:]
    logits, forbidden = head.logits.reshape(-1, positions, options), _forbidden(head)
    shape = (len(logits), len(flat))
    value = flat.new_empty(shape)
    chosen = torch.empty((*shape, positions), dtype=torch.int64, device=flat.device)
    rounds = torch.empty(shape, dtype=torch.int64, device=flat.device)

    together = TOGETHER if flat.device.type == "cpu" else ELSEWHERE
    abreast = max(1, min(len(flat), together // (positions * options)))
    for queries in parts(len(logits), max(1, together // (positions * options * abreast))):
        block = _Block.of(logits[queries], forbidden if forbidden is None else forbidden[queries])
        for part in parts(len(flat), abreast):
            found = block.solve(flat[part])
            value[queries, part] = found.value
            chosen[queries, part] = found.options
            rounds[queries, part] = found.rounds
    if scales is not None:
        value /= scales
    outer = (*head.queries, *directions)
    return WorstCase(
        value=value.reshape(outer), options=chosen.reshape(*outer, positions), rounds=rounds.reshape(outer)
    )


def values_for(
    head: Head, values: Float[Tensor, "*direction pos option"]
) -> tuple[Float64[Tensor, "direction pos option"], tuple[int, ...]]:
    """The values in float64 on the head's device with one axis of directions, and the axes they had.

    Values of options that no query allows become 0, so that they do not count as large ones.
    """
    numbers = _numbers("A readout's values", values)
    ours, theirs = tuple(head.logits.shape[-2:]), tuple(numbers.shape[-2:])
    if ours != theirs:
        raise InvalidInput(
            f"A readout has a value for every position and option of its head, {ours}; got {theirs}."
        )
    flat = numbers.reshape(-1, *ours).to(head.logits.device)
    if head.allowed is not None:
        flat = flat.masked_fill(~head.allowed.reshape(-1, *ours).any(0), 0.0)
    return flat, tuple(numbers.shape[:-2])


@dataclass(frozen=True, eq=False)
class _Block:
    """Some queries of a head, with what every direction and every round needs of them.

    `weights` are relative to the largest of their position, whose logit is `top`; `wide` marks the positions
    where some query's weights could vanish. Options that are not allowed have weight 0 and an infinite
    `barrier`, which is added to their terms.
    """

    logits: Float64[Tensor, "query pos option"]
    forbidden: Bool[Tensor, "query pos option"] | None
    barrier: Float64[Tensor, "query pos option"] | None
    top: Float64[Tensor, "query pos 1"]
    lowest: Float64[Tensor, "query pos 1"]
    weights: Float64[Tensor, "query pos option"]
    wide: Bool[Tensor, "pos"] | None

    @classmethod
    def of(
        cls, logits: Float64[Tensor, "query pos option"], forbidden: Bool[Tensor, "query pos option"] | None
    ) -> _Block:
        """From the logits of some queries."""
        if forbidden is None:
            barrier = None
            top, lowest = logits.amax(-1, keepdim=True), logits.amin(-1, keepdim=True)
            weights = logits - top
        else:
            barrier = torch.zeros_like(logits).masked_fill_(forbidden, math.inf)
            weights = logits + barrier
            lowest = weights.amin(-1, keepdim=True)
            torch.sub(logits, barrier, out=weights)
            top = weights.amax(-1, keepdim=True)
            weights -= top
        wide = (top - lowest > WIDE).any(0)[:, 0]
        return cls(
            logits=logits,
            forbidden=forbidden,
            barrier=barrier,
            top=top,
            lowest=lowest,
            weights=weights.exp_(),
            wide=wide if bool(wide.any()) else None,
        )

    def solve(self, values: Float64[Tensor, "direction pos option"]) -> WorstCase:
        """Newton's method for every query and direction, until no choice has a readout below `level`.

        `level` may start anywhere; the mean of the least values saves rounds. From the second round on it
        lies just below the least readout found, and falls from round to round.
        """
        level = values.amin(-1).mean(-1).expand(len(self.logits), -1)
        least = torch.full_like(level, math.inf)
        best = torch.zeros((*level.shape, values.shape[1]), dtype=torch.int64, device=level.device)
        rounds = torch.zeros_like(level, dtype=torch.int64)
        active = torch.ones_like(level, dtype=torch.bool)
        for turn in range(MOST_ROUNDS):
            choice = self.choose(values, level)
            excess, readout, size = self.read(values, choice, level)
            better = active & (readout < least)
            least = torch.where(better, readout, least)
            best = torch.where(better[..., None], choice, best)
            rounds += active
            if turn > 0:
                active = active & (excess < 0)
            if not bool(active.any()):
                return WorstCase(value=least, options=best, rounds=rounds)
            level = torch.where(active, least - SLACK * size, level)
        raise AssertionError(f"Newton's method takes few rounds; {MOST_ROUNDS} were not enough.")

    def choose(
        self,
        values: Float64[Tensor, "direction pos option"],
        level: Float64[Tensor, "query direction"],
    ) -> Int64[Tensor, "query direction pos"]:
        """Every position's option with the least e^s (v − level), so many positions at a time."""
        positions, options = values.shape[-2:]
        together = min(positions, max(1, _at_once(values) // (level.numel() * options)))
        room = values.new_empty((*level.shape, together, options))
        choice = torch.empty((*level.shape, positions), dtype=torch.int64, device=values.device)
        for here in parts(positions, together):
            terms = room[..., : here.stop - here.start, :]
            choice[..., here] = self._choose_at(values, level, here, terms)
        return choice

    def _choose_at(
        self,
        values: Float64[Tensor, "direction pos option"],
        level: Float64[Tensor, "query direction"],
        here: slice,
        terms: Float64[Tensor, "query direction part option"],
    ) -> Int64[Tensor, "query direction part"]:
        """The choice at some positions; `terms` is room to work in, which stays in the cache."""
        torch.sub(values[None, :, here], level[..., None, None], out=terms)
        wide, compared = None, None
        if self.wide is not None:
            wide = self.wide[here].nonzero()[:, 0]
            compared = self._compared_in_logs(terms[..., wide, :], here.start + wide)
        weights = self.weights[:, None, here]
        if self.barrier is None:
            terms *= weights
        else:
            torch.addcmul(self.barrier[:, None, here], weights, terms, out=terms)
        choice = _least_places(terms)
        if wide is not None and compared is not None:
            choice[..., wide] = compared
        return choice

    def _compared_in_logs(
        self, distances: Float64[Tensor, "query direction part option"], places: Int64[Tensor, "part"]
    ) -> Int64[Tensor, "query direction part"]:
        """The option of the least e^s · distance, from s + log|distance|.

        The winner among negative distances is near the top in logits and the winner among others near the
        bottom, so each is compared relative to that end, where the sums are accurate.
        """
        if not len(places):
            return torch.zeros(distances.shape[:-1], dtype=torch.int64, device=distances.device)
        logits = self.logits[:, None, places]
        falls, rises = distances < 0, distances >= 0
        if self.forbidden is not None:
            allowed = ~self.forbidden[:, None, places]
            falls, rises = falls & allowed, rises & allowed
        size = distances.abs().log_()
        gains = (logits - self.top[:, None, places] + size).masked_fill_(~falls, -math.inf)
        costs = (logits - self.lowest[:, None, places] + size).masked_fill_(~rises, math.inf)
        return torch.where(falls.any(-1), gains.argmax(-1), costs.argmin(-1))

    def read(
        self,
        values: Float64[Tensor, "direction pos option"],
        choice: Int64[Tensor, "query direction pos"],
        level: Float64[Tensor, "query direction"],
    ) -> tuple[
        Float64[Tensor, "query direction"],
        Float64[Tensor, "query direction"],
        Float64[Tensor, "query direction"],
    ]:
        """Of a choice: how far Σ w (v − level) is from 0, the readout, and the size of its largest value."""
        pieces = []
        for here in parts(values.shape[-2], max(1, _at_once(values) // level.numel())):
            index = choice[..., here, None]
            every = (*index.shape[:-1], values.shape[-1])
            logits = self.logits[:, None, here].expand(every).gather(-1, index)[..., 0]
            pieces.append((logits, values[None, :, here].expand(every).gather(-1, index)[..., 0]))
        top = torch.stack([logits.amax(-1) for logits, _ in pieces]).amax(0)[..., None]
        excess, weighted, total = torch.zeros_like(level), torch.zeros_like(level), torch.zeros_like(level)
        for logits, chosen in pieces:
            weights = (logits - top).exp_()
            total += weights.sum(-1)
            weighted += (weights * chosen).sum(-1)
            excess += (weights * (chosen - level[..., None])).sum(-1)
        size = torch.stack([chosen.abs().amax(-1) for _, chosen in pieces]).amax(0)
        return excess, weighted / total, size


def _at_once(values: Tensor) -> int:
    return IN_CACHE if values.device.type == "cpu" else ELSEWHERE


def _least_places(
    terms: Float64[Tensor, "query direction pos option"],
) -> Int64[Tensor, "query direction pos"]:
    """The place of the least along the last axis. On a CPU numpy's search is several times torch's."""
    if terms.device.type == "cpu":
        return torch.from_numpy(terms.numpy().argmin(-1))
    return terms.argmin(-1)


def _forbidden(head: Head) -> Bool[Tensor, "query pos option"] | None:
    if head.allowed is None or bool(head.allowed.all()):
        return None
    positions, options = head.logits.shape[-2:]
    if head.allowed.ndim == head.logits.ndim:
        return ~head.allowed.reshape(-1, positions, options)
    return (~head.allowed).expand(math.prod(head.queries), -1, -1)


def _scales(values: Float64[Tensor, "direction pos option"]) -> Float64[Tensor, "direction"] | None:
    """Powers of two that bring each direction's values to about 1; None where none is far from it.

    Products of very small values and small weights would vanish, and multiplying by such a power is exact.
    """
    size = torch.maximum(values.amax((-1, -2)), -values.amin((-1, -2)))
    if bool(((size < COMFORTABLE) & (size > 1 / COMFORTABLE) | (size == 0)).all()):
        return None
    exponents = torch.frexp(size).exponent.clamp(-1000, 1000)
    return torch.ldexp(torch.ones_like(size), -exponents)


def parts(count: int, most: int) -> Iterator[slice]:
    """The numbers below `count` in runs of `most`."""
    return (slice(start, min(start + most, count)) for start in range(0, count, most))


def _numbers(owner: str, numbers: object) -> Float64[Tensor, "*axis pos option"]:
    """The tensor in float64; refuses what is not finite or has no positions or options."""
    if not isinstance(numbers, Tensor) or not numbers.is_floating_point():
        kind = numbers.dtype if isinstance(numbers, Tensor) else type(numbers).__name__
        raise InvalidInput(f"{owner} are a tensor of floats (…, pos, option); got {kind}.")
    if numbers.ndim < 2 or not numbers.numel():
        raise InvalidInput(
            f"{owner} have at least one position and one option, (…, pos, option); "
            f"got the shape {tuple(numbers.shape)}."
        )
    detached = numbers.detach().to(torch.float64)
    low, high = (float(end) for end in torch.aminmax(detached))
    if not (low >= -LARGEST and high <= LARGEST):
        raise InvalidInput(
            f"{owner} are finite numbers of size at most {LARGEST:g}; at least one is {_offender(detached)}. "
            "Say which options may occur with `allowed`."
        )
    return detached


def _offender(numbers: Float64[Tensor, "*axis"]) -> str:
    wrong = numbers[~(numbers.abs() <= LARGEST)]
    return str(wrong[0].item())
