"""Random numbers by counter: example i of a stream under a seed is the same everywhere.

A draw is a pure function of (seed, stream, site, example, place). Neither the device, nor how examples are
batched, nor what was drawn before can change it. The function is Philox4x32 with ten rounds
(Salmon, Moraes, Dror and Shaw, 2011) written in int64 tensor operations, which compile and can be captured
in a CUDA graph. Its counter is laid out as

    word 0: number of the 128-bit block within the site     word 2: example, low 32 bits
    word 1: CRC-32 of "stream/site"                          word 3: example, high 32 bits

and its key is the 64-bit seed. A *site* is a name for one purpose inside an example ("length", "symbols"),
so adding a draw to a task never shifts the others. `tests/data/randomness.json` publishes vectors for
both the bare function and this layout.

How exact is uniform? `integers` is exact for bounds that are powers of two. For other bounds the result is
the high part of a 32-bit word times the bound, so no value's probability is off by more than 2^-32; where
that is not enough, `wide=True` uses 62 bits.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.errors import InvalidInput

__all__ = ["Draws", "host_constant", "philox4x32", "site_number"]

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORDS = 4
# Blocks worked on at once: the round's few int64 temporaries then stay in a core's cache.
_CHUNK = 1 << 16


Words = Int[Tensor, "*shape"]
Function = TypeVar("Function", bound=Callable[..., Any])


def host_constant(function: Function) -> Function:
    """Mark a pure function of plain values: the compiler calls it once and keeps what it says."""
    # All that torch.compiler.assume_constant_result does, but for its import of the compiler, which takes as
    # long as that of torch itself and which nobody needs who compiles nothing.
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def philox4x32(
    counter: tuple[Words, Words, Words, Words], key: tuple[int | Words, int | Words]
) -> tuple[Words, Words, Words, Words]:
    """Philox4x32-10: four 32-bit counter words (held in int64) to four random 32-bit words.

    The 64-bit product of two 32-bit words wraps in a signed int64 without losing a bit, so its low and high
    halves are a mask and a shift; the mask after the shift removes the copies of the sign. What is compiled
    for a CPU calls this function: the compiler would write C++, in which a product that wraps means nothing.
    """
    if torch.compiler.is_compiling() and counter[0].device.type == "cpu":
        words: tuple[Words, Words, Words, Words] = _philox_called(
            *counter, *(_as_words(part, counter[0]) for part in key)
        )
        return words
    first, second, third, fourth = counter
    low_key, high_key = key
    for _ in range(_ROUNDS):
        left = first * _MULTIPLIERS[0]
        right = third * _MULTIPLIERS[1]
        first = (right >> 32).bitwise_xor_(second).bitwise_xor_(low_key).bitwise_and_(_MASK)
        third = (left >> 32).bitwise_xor_(fourth).bitwise_xor_(high_key).bitwise_and_(_MASK)
        second = right.bitwise_and_(_MASK)
        fourth = left.bitwise_and_(_MASK)
        low_key = (low_key + _KEY_STEPS[0]) & _MASK
        high_key = (high_key + _KEY_STEPS[1]) & _MASK
    return first, second, third, fourth


def _as_words(part: int | Words, like: Words) -> Words:
    return part if isinstance(part, Tensor) else like.new_full((), part)


# An operator of its own, so that the compiler calls it instead of writing it.
@torch.library.custom_op(
    "separatrix::philox4x32",
    mutates_args=(),
    schema="(Tensor a, Tensor b, Tensor c, Tensor d, Tensor low, Tensor high) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
)
def _philox_called(
    a: Words, b: Words, c: Words, d: Words, low: Words, high: Words
) -> tuple[Words, Words, Words, Words]:
    return philox4x32((a, b, c, d), (low, high))


@_philox_called.register_fake
def _(a: Words, b: Words, c: Words, d: Words, low: Words, high: Words) -> tuple[Words, Words, Words, Words]:
    return torch.empty_like(a), torch.empty_like(b), torch.empty_like(c), torch.empty_like(d)


@host_constant
def site_number(stream: str, site: str) -> int:
    """The counter word that tells one purpose from another."""
    return zlib.crc32(f"{stream}/{site}".encode())


@dataclass(frozen=True, kw_only=True)
class Band:
    """One of `of` equal parts of any range, counted from its low end.

    `number` may be a zero-dimensional int64 tensor on the device, so that one compiled sampler serves all.
    """

    number: int | Int[Tensor, ""]
    of: int

    def __post_init__(self) -> None:
        if not _is_whole(self.of) or self.of < 1:
            raise InvalidInput(f"A range has at least one band; got of={self.of!r}.")
        if isinstance(self.number, Tensor):
            if self.number.shape != () or self.number.dtype != torch.int64:
                raise InvalidInput("The number of a band on the device is one int64 number without an axis.")
        elif not _is_whole(self.number) or not 0 <= self.number < self.of:
            raise InvalidInput(f"{self.of} bands are numbered from 0 on; got number={self.number!r}.")

    def last(self, count: int) -> int:
        """The greatest of the numbers 0 … count − 1 that lies in this band."""
        if isinstance(self.number, Tensor):
            raise InvalidInput("What lies in a band is known where its number is, which is on the device.")
        return ((self.number + 1) * count - 1) // self.of


@dataclass(frozen=True, kw_only=True)
class Draws:
    """The random numbers of a batch of examples: rows `start` … `start + batch − 1` of a stream.

    `start` may be a zero-dimensional int64 tensor on the device, so that a captured graph draws new
    examples on every replay. Where it has an axis it numbers each row's example itself, and a seed with
    an axis is one for each row: the examples of many streams in one batch. `band` is where numbers lie that
    are drawn with `banded`; with `mirrored` every second example has instead the number that lies opposite to
    its neighbour's.
    """

    seed: int | Int[Tensor, "batch"]
    stream: str
    batch: int
    start: int | Int[Tensor, ""] | Int[Tensor, "batch"] = 0
    device: torch.device | str = "cpu"
    band: Band | None = None
    mirrored: bool = False

    def __post_init__(self) -> None:
        if self.mirrored and self.band is not None:
            raise InvalidInput("Numbers are drawn from a band or mirrored; choose one of them.")
        if not _is_whole(self.batch) or self.batch < 1:
            raise InvalidInput(f"A batch holds at least one example; got batch={self.batch!r}.")
        if isinstance(self.seed, Tensor):
            if self.seed.shape != (self.batch,) or self.seed.dtype != torch.int64:
                raise InvalidInput("Seeds on the device are int64, one for each example of the batch.")
        elif not _is_whole(self.seed) or not 0 <= self.seed < 1 << 64:
            raise InvalidInput(f"A seed is a whole number from 0 to 2^64 − 1; got {self.seed!r}.")
        if isinstance(self.start, Tensor):
            if self.start.shape not in {(), (self.batch,)} or self.start.dtype != torch.int64:
                raise InvalidInput(
                    "A start on the device is one int64 number without an axis, or one for each example."
                )
        elif not _is_whole(self.start) or not 0 <= self.start < 1 << 62:
            raise InvalidInput(f"Examples are numbered from 0 to 2^62 − 1; got start={self.start!r}.")
        object.__setattr__(self, "device", _named_device(self.device))

    def words(self, site: str, count: int) -> Int[Tensor, "batch count"]:
        """`count` random 32-bit words for each example."""
        blocks = -(-count // _WORDS)
        words = torch.empty(self.batch, blocks, _WORDS, dtype=torch.int64, device=self.device)
        rows = max(1, _CHUNK // max(1, blocks))
        for low in range(0, self.batch, rows):
            high = min(self.batch, low + rows)
            for place, word in enumerate(self._blocks(site, low, high, blocks)):
                words[low:high, :, place] = word
        return words.flatten(1)[:, :count]

    def integers(
        self, site: str, shape: tuple[int, ...], bound: int | Int[Tensor, "batch"], *, wide: bool = False
    ) -> Int[Tensor, "batch *shape"]:
        """Whole numbers uniform in [0, bound), `shape` of them for each example.

        A power of two takes its bits from shared words, so small alphabets are cheap. A tensor bound is one
        for each example and must be positive.
        """
        count = math.prod(shape)
        if isinstance(bound, Tensor):
            return self._scaled(site, count, bound.view(-1, 1), wide=wide).view(self.batch, *shape)
        if not 1 <= bound <= 1 << 31:
            raise InvalidInput(f"A bound for random integers lies between 1 and 2^31; got {bound}.")
        if bound & (bound - 1) == 0:
            return self._packed(site, count, bound.bit_length() - 1).view(self.batch, *shape)
        return self._scaled(site, count, bound, wide=wide).view(self.batch, *shape)

    def banded(self, site: str, bound: int) -> Int[Tensor, "batch"]:
        """A whole number in [0, bound) for each example, from the band if there is one.

        Over all bands, each as often as the others, every number is as likely as every other, also where
        their count is no multiple of the bands: then the ends of neighbours overlap. Mirrored, the numbers
        of the examples 2k and 2k + 1 add up to bound − 1, each still as likely as every other.
        """
        if self.mirrored:
            return self._mirrored(site, bound)
        drawn = self.integers(site, (), bound)
        return drawn if self.band is None else (self.band.number * bound + drawn) // self.band.of

    def _mirrored(self, site: str, bound: int) -> Int[Tensor, "batch"]:
        number = self._examples(0, self.batch)
        second = number & 1
        first = Draws(
            seed=self.seed, stream=self.stream, batch=self.batch, start=number - second, device=self.device
        )
        drawn = first.integers(site, (), bound)
        return torch.where(second == 1, bound - 1 - drawn, drawn)

    def coins(self, site: str, shape: tuple[int, ...]) -> Bool[Tensor, "batch *shape"]:
        """Fair coins."""
        return self.integers(site, shape, 2).bool()

    def keys(self, site: str, count: int) -> Int[Tensor, "batch count"]:
        """62-bit words, for sorting by: two of a million collide with probability 10^-7."""
        words = self.words(site, 2 * count).view(self.batch, count, 2)
        return (words[..., 0] << 30) | (words[..., 1] >> 2)

    def permutations(self, site: str, size: int) -> Int[Tensor, "batch size"]:
        """A uniform permutation of 0 … size − 1 for each example."""
        return self.keys(site, size).argsort(dim=1, stable=True)

    def distinct(self, site: str, count: int, bound: int) -> Int[Tensor, "batch count"]:
        """`count` different whole numbers from [0, bound) for each example, in uniform order.

        The first `count` different values of a long enough list of independent draws have exactly that
        law. The list ends in 0 … count − 1, so that `count` different values exist whatever was drawn; it
        is drawn so long that this end is reached with probability below 2^-60. Where that would take more
        draws than there are values, a permutation of all of them is cut off.
        """
        if not 1 <= count <= bound:
            raise InvalidInput(f"Only {bound} different values exist; got a request for {count} of them.")
        drawn = _draws_until_distinct(count, bound)
        if drawn + count >= bound:
            return self.permutations(site, bound)[:, :count]
        safety = torch.arange(count, device=self.device).expand(self.batch, count)
        values = torch.cat([self.integers(site, (drawn,), bound), safety], dim=1)
        return _first_distinct(values, count)

    def _packed(self, site: str, count: int, width: int) -> Int[Tensor, "batch count"]:
        if width == 0:
            return torch.zeros(self.batch, count, dtype=torch.int64, device=self.device)
        parts = 32 // width
        words = self.words(site, -(-count // parts))
        shifts = torch.arange(0, parts * width, width, device=self.device)
        return ((words.unsqueeze(-1) >> shifts).bitwise_and_((1 << width) - 1)).flatten(1)[:, :count]

    def _scaled(
        self, site: str, count: int, bound: int | Int[Tensor, "batch 1"], *, wide: bool
    ) -> Int[Tensor, "batch count"]:
        if not wide:
            return (self.words(site, count) * bound) >> 32
        # floor(key · bound / 2^62) by halves, since the product has 93 bits.
        key = self.keys(site, count)
        return ((key >> 31) * bound + (((key & 0x7FFFFFFF) * bound) >> 31)) >> 31

    def _blocks(self, site: str, low: int, high: int, blocks: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        example = self._examples(low, high).view(-1, 1)
        block = torch.arange(blocks, device=self.device).view(1, -1)
        zero = torch.zeros(high - low, blocks, dtype=torch.int64, device=self.device)
        purpose = site_number(self.stream, site)
        # Joined by "or", not "+": Inductor takes a sum of ranges for an index and multiplies it in 32 bits.
        counter = (zero | block, zero | purpose, zero | (example & _MASK), zero | (example >> 32))
        seed = self.seed[low:high].view(-1, 1) if isinstance(self.seed, Tensor) else self.seed
        return philox4x32(counter, (seed & _MASK, (seed >> 32) & _MASK))

    def _examples(self, low: int, high: int) -> Int[Tensor, "rows"]:
        if isinstance(self.start, Tensor) and self.start.dim():
            return self.start[low:high]
        return torch.arange(low, high, device=self.device) + self.start


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _named_device(device: torch.device | str) -> torch.device:
    """The device with its number: tables are kept for each, and "cuda" alone may come to mean another."""
    try:
        named = torch.device(device)
    except RuntimeError:
        raise InvalidInput(f"A device is named like cpu, cuda or cuda:1; got {device!r}.") from None
    if str(named) == "cuda":
        named = torch.device("cuda", torch.cuda.current_device())
    return named


@host_constant
@lru_cache(maxsize=1024)
def _draws_until_distinct(count: int, bound: int) -> int:
    """How many uniform draws from `bound` values show `count` different ones but for a chance of 2^-60.

    A draw repeats an earlier one with probability at most count/bound, so the repeats among m draws are at
    most binomial(m, count/bound); Chernoff's bound on its tail above m − count is what is summed here.
    """
    repeat = count / bound
    drawn = count
    while drawn < bound:
        spare = (drawn - count + 1) / drawn
        if spare > repeat:
            divergence = spare * math.log2(spare / repeat)
            if spare < 1:
                divergence += (1 - spare) * math.log2((1 - spare) / (1 - repeat))
            if drawn * divergence >= 60:
                break
        drawn += 1
    return drawn


def _first_distinct(values: Int[Tensor, "batch drawn"], count: int) -> Int[Tensor, "batch count"]:
    """The first `count` different values of each row, in the order in which they first appear."""
    ordered, origin = values.sort(dim=1, stable=True)
    fresh_sorted = torch.ones_like(ordered, dtype=torch.bool)
    fresh_sorted[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    fresh = torch.empty_like(fresh_sorted).scatter_(1, origin, fresh_sorted)
    place = fresh.cumsum(1) - 1
    # What is not wanted goes into one spare column that is cut off.
    place = torch.where(fresh & (place < count), place, count)
    chosen = torch.zeros(len(values), count + 1, dtype=values.dtype, device=values.device)
    return chosen.scatter_(1, place, values)[:, :count]
