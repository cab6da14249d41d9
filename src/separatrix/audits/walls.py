"""The wall of a memory: the largest size at which a task may still be possible with so many bits of state.

A model that carries B bits from token to token has 2^B states. Split an input of a retrieval task before its
question: two beginnings that some question tells apart must lead to different states, so there are at most
2^B of them. Counting them gives, for every task, a number of bits that grows with its size n; beyond the n at
which it passes B, every model with B bits is wrong on some input, whatever its weights.

The formulas of W-4.6 and W-4.7 have a constant that the paper leaves open; the ones here are those of the
reductions from INDEX that are written beside them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Final

from separatrix.record_checks import require_count
from separatrix.records import JsonObject

__all__ = ["RETRIEVAL_TASKS", "Wall", "keys_held", "symbols_held", "walls_of"]

_CGRAM: Final = 3
"""Tokens of a c-gram: the task's own choice where none is made."""
_DIGITS: Final = 80
_AROUND: Final = 64


@dataclass(frozen=True, kw_only=True)
class Wall:
    """The largest n of a task that so many bits of state do not rule out, and what says so.

    Without a `vocabulary` it holds whatever the words are, as in the papers; with one it is the stronger form
    for inputs of so many different words. `needs` are the bits at n, `counts` says what n counts.
    """

    task: str
    theorem: str
    vocabulary: int | None
    largest_n: int
    counts: str
    needs: str

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "task": self.task,
            "theorem": self.theorem,
            "vocabulary": self.vocabulary,
            "largest_n": self.largest_n,
            "counts": self.counts,
            "needs": self.needs,
        }


def walls_of(state_bits: int, vocabulary: int) -> tuple[Wall, ...]:
    """The walls of a state of so many bits: one for each task, and a stronger one for most.

    A vocabulary of 2 words or fewer has no stronger form.
    """
    require_count("A wall", state_bits=state_bits)
    require_count("A wall", least=1, vocabulary=vocabulary)
    general = (*_retrieved(state_bits, None), _cgram(state_bits), _counting(state_bits), _is_tree(state_bits))
    if vocabulary <= 2:
        return general
    with_words = _cgram_in_words(state_bits, vocabulary)
    return (*general, *_retrieved(state_bits, vocabulary), *(() if with_words is None else (with_words,)))


def _retrieved(bits: int, vocabulary: int | None) -> tuple[Wall, ...]:
    """Every string of symbols and every list of labels is a beginning that some question tells apart."""
    held = symbols_held(bits, 2 if vocabulary is None else vocabulary)
    times = "" if vocabulary is None else "·log₂|Σ|"
    keyed = held if vocabulary is None else keys_held(bits, vocabulary)
    labels = times if vocabulary is None else "·log₂(|Σ| − keys)"
    tasks = (
        ("index-lookup", "S-T3", 1, "symbols", held, times),
        ("associative-recall", "S-P9", 1, "pairs", keyed, labels),
        ("mqar", "S-T8", 2, "tokens of pairs", keyed, labels),
        ("nearest-neighbour", "S-T8", 2, "points", held, times),
        ("equality", "S-T11", 2, "symbols in all", held, times),
    )
    return tuple(
        Wall(
            task=task,
            theorem=theorem,
            vocabulary=vocabulary,
            largest_n=halves * most,
            counts=counts,
            needs=f"{'n' if halves == 1 else '(n/2)'}{factor}",
        )
        for task, theorem, halves, counts, most, factor in tasks
        if most is not None
    )


def _cgram(bits: int) -> Wall:
    """Blocks of c − 1 words of a key and one of two values, with as many words for keys as it takes."""
    return Wall(
        task="c-gram",
        theorem="W-4.6",
        vocabulary=None,
        largest_n=_CGRAM * bits + _CGRAM - 1,
        counts=f"tokens, c = {_CGRAM}",
        needs="⌊n/c⌋",
    )


def _cgram_in_words(bits: int, vocabulary: int) -> Wall | None:
    """Blocks that begin with one of M words which stand nowhere else; all other words are values.

    A key is such a word and c − 2 others, and there must be one for each block and one more. The fewer words
    begin blocks the more are values, so the least M that gives enough keys is taken; there may be none.
    """

    def has_keys(markers: int) -> bool:
        values = vocabulary - markers
        return bool(markers * values ** (_CGRAM - 2) > symbols_held(bits, values))

    low, high = 0, vocabulary // 2
    if vocabulary - high < 2 or not has_keys(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if has_keys(middle) else (middle, high)
    blocks = symbols_held(bits, vocabulary - high)
    return Wall(
        task="c-gram",
        theorem="W-4.6",
        vocabulary=vocabulary,
        largest_n=_CGRAM * blocks + _CGRAM - 1,
        counts=f"tokens, c = {_CGRAM}",
        needs=f"⌊n/c⌋·log₂{vocabulary - high}",
    )


def _counting(bits: int) -> Wall:
    """Place i holds word i or a word that means nothing; the question is whether word i occurs."""
    return Wall(
        task="counting",
        theorem="W-4.6",
        vocabulary=None,
        largest_n=bits,
        counts="tokens, n + 1 kinds",
        needs="n",
    )


def _is_tree(bits: int) -> Wall:
    """n − k − 1 leaves hang on k hubs; the last k edges ask whether a leaf hangs on a certain one of them.

    They join the last vertex to that leaf and to all the other hubs: a tree if the leaf hangs on the hub that
    was left out, and else a circle beside a star that nothing joins.
    """
    best = _best_hubs(bits)
    hubs = min(
        range(max(2, best - _AROUND), best + _AROUND), key=lambda count: count + symbols_held(bits, count)
    )
    return Wall(
        task="is-tree",
        theorem="W-4.7",
        vocabulary=None,
        largest_n=hubs + 1 + symbols_held(bits, hubs),
        counts="vertices",
        needs=f"(n − {hubs + 1})·log₂{hubs}",
    )


def _best_hubs(bits: int) -> int:
    """The k at which k + bits/log₂k is least: k·ln²k = bits·ln 2, to within what rounding changes."""
    low, high = 2, max(3, bits)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle * math.log(middle) ** 2 < bits * math.log(2) else (low, middle)
    return high


def keys_held(bits: int, vocabulary: int) -> int | None:
    """The largest k such that every table of k different keys with labels fits in so many bits.

    k words are keys and the others labels, (vocabulary − k)^k tables. If all tables that a vocabulary has
    words for fit, there is no such k.
    """

    def fits(keys: int) -> bool:
        return symbols_held(bits, vocabulary - keys) >= keys

    def tables(keys: int) -> float:
        return keys * math.log2(vocabulary - keys)

    low, high = 1, vocabulary - 2
    while low < high:  # k·log(V − k) is concave: climb to where it is largest
        middle = (low + high) // 2
        low, high = (middle + 1, high) if tables(middle) < tables(middle + 1) else (low, middle)
    if fits(low):
        return None
    held, over = 0, low
    while over - held > 1:
        middle = (held + over) // 2
        held, over = (middle, over) if fits(middle) else (held, middle)
    return held


def symbols_held(bits: int, alphabet: int) -> int:
    """The largest k with alphabet^k ≤ 2^bits: how many symbols so many bits can tell apart."""
    exponent = alphabet.bit_length() - 1
    if alphabet == 1 << exponent:
        return bits // exponent
    # log₂ of anything but a power of two is no fraction, so eighty digits decide for every count in use.
    with localcontext() as context:
        context.prec = _DIGITS
        return int(Decimal(bits) * Decimal(2).ln() / Decimal(alphabet).ln())


RETRIEVAL_TASKS: Final = tuple(wall.task for wall in walls_of(1, 2))
"""The tasks that have a wall here, in the order of reports."""
