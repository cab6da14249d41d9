"""c-gram retrieval: a sequence, then all but the last token of one of its c-grams; answer the last (W, 4.2).

>>> from separatrix.tasks import task
>>> retrieval = task("c-gram", n=6, c=3, alphabet=3)
>>> row = retrieval.parse("s2 s0 s1 s0 s2 s1  s0 s2")
>>> retrieval.render_target(retrieval.solve(row.unsqueeze(0)).answer[0])
's1'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.errors import TooLarge
from separatrix.randomness import Draws, host_constant
from separatrix.tasks import TASKS
from separatrix.tasks._overlaps import occurrences
from separatrix.tasks.domains import digits
from separatrix.tasks.interface import Asking, Batch, Classes, Labels, Partition, TokenTask, option, require
from separatrix.tasks.shaping import labels_at, uniform_between
from separatrix.tasks.vocabulary import Vocabulary, numbered

_MOST_LISTED = 1 << 24


@TASKS.register("c-gram")
@dataclass(frozen=True, kw_only=True)
class CGramRetrieval(TokenTask):
    """Retrieve by a key of several tokens: what followed when the c − 1 query tokens first occurred together.

    An input is a sequence of n tokens and c − 1 query tokens that stand side by side in the sequence with a
    token after them. W gives no law for samples. Here the tokens are uniform and independent, and the query
    is copied from a uniform place among the n − c + 1 that have a token after them; the answer is taken at
    the first occurrence, whichever place that was.

    Unless an alphabet is asked for, it is the least with as many words of length c − 1 as there are tokens:
    W's n for c = 2, and for c > 2 so few that a part of the query occurs in many places.
    """

    name = "c-gram"
    title = "c-gram retrieval"
    source = "W"
    showcase = MappingProxyType({"n": 13})

    n: int = option(help="tokens in the sequence")
    c: int = option(3, help="tokens in a c-gram: c − 1 to match and one to answer")
    alphabet: int = option(0, help="number of tokens; 0 chooses the least with alphabet^(c − 1) ≥ n, and ≥ 2")

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        require(2 <= self.c <= 8, f"c-gram needs 2 ≤ c ≤ 8; got c={self.c}. Try 3.")
        require(
            self.c <= self.n <= 1 << 16,
            f"c-gram with c={self.c} needs {self.c} ≤ n ≤ 2^16; got n={self.n}. Try 64.",
        )
        require(
            0 <= self.alphabet <= 1 << 20,
            f"c-gram needs an alphabet of 1 to 2^20 tokens, or 0 to choose; got alphabet={self.alphabet}. "
            "Try 0.",
        )

    @property
    def vocabulary(self) -> Vocabulary:
        """The alphabet."""
        return Vocabulary(numbered("symbol", self._alphabet, prefix="s"))

    @property
    def length(self) -> int:
        """The sequence and the query."""
        return self.n + self.c - 1

    @property
    def target_space(self) -> Classes:
        """A token."""
        return Classes(size=self._alphabet)

    @property
    def asking(self) -> Asking:
        """One answer, behind everything it depends on."""
        return Asking()

    @property
    def _alphabet(self) -> int:
        return self.alphabet or _least_base(self.n, self.c - 1)

    def draw(self, draws: Draws) -> Batch:
        """Uniform tokens and a uniform place to copy the query from."""
        sequence = draws.integers("tokens", (self.n,), self._alphabet)
        place = uniform_between(draws, "query", 0, self.n - self.c)
        inputs = self._write(sequence, place)
        labels = self._labels(sequence, inputs[:, self.n :])
        lengths = torch.full((draws.batch,), self.length, dtype=torch.int64, device=draws.device)
        return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=lengths)

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """The answer follows the first place where every token of the query matches."""
        return self._labels(inputs[:, : self.n], inputs[:, self.n :])

    def check_content(self, row: Int[Tensor, "pos"]) -> None:
        """The query must occur in the sequence before its last token."""
        tokens = row.tolist()
        query = tokens[self.n :]
        grams = (tokens[place : place + self.c - 1] for place in range(self.n - self.c + 1))
        spelled = " ".join(map(self.vocabulary.word, query))
        require(
            query in grams, f"The query must occur in the sequence with a token after it; {spelled} does not."
        )

    def domain_size(self) -> int:
        """Each query with each beginning of n − 1 tokens in which it occurs, and any last token."""
        return self._alphabet * occurrences(self.c - 1, self._alphabet, self.n - 1)

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """By the beginning of n − 1 tokens, then its different queries as they occur, then the last token."""
        size = self._alphabet
        ends = _query_counts(self.n, self.c, size).to(numbers.device)
        rest, last = numbers // size, numbers % size
        beginning = torch.searchsorted(ends, rest, right=True)
        earlier = torch.where(beginning > 0, ends[beginning - 1], 0)
        tokens = digits(beginning, [size] * (self.n - 1))
        seen = _first_occurrences(tokens, self.c - 1, size).cumsum(1)
        place = (seen <= (rest - earlier).unsqueeze(1)).sum(1)
        return self._write(torch.cat([tokens, last.unsqueeze(1)], dim=1), place)

    def partitions(self) -> Mapping[str, Partition]:
        """Alice holds the sequence, Bob the query (W-4.6)."""
        return {"prefix/suffix": Partition.prefix(self.length, self.n)}

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """The token."""
        return self.vocabulary.word(int(target))

    def _write(
        self, sequence: Int[Tensor, "batch n"], place: Int[Tensor, "batch"]
    ) -> Int[Tensor, "batch pos"]:
        shifts = torch.arange(self.c - 1, device=sequence.device)
        return torch.cat([sequence, sequence.gather(1, place.unsqueeze(1) + shifts)], dim=1)

    def _labels(self, sequence: Int[Tensor, "batch n"], query: Int[Tensor, "batch query"]) -> Labels:
        places = self.n - self.c + 1
        matches = sequence[:, :places] == query[:, :1]
        for shift in range(1, self.c - 1):
            matches &= sequence[:, shift : shift + places] == query[:, shift : shift + 1]
        first = matches.view(torch.uint8).argmax(1, keepdim=True)
        answer = sequence.gather(1, first + self.c - 1).squeeze(1)
        return labels_at(torch.full_like(answer, self.length - 1), answer, length=self.length)


@host_constant
@lru_cache(maxsize=256)
def _least_base(count: int, power: int) -> int:
    """The least whole number from 2 whose power is at least `count`."""
    base = max(2, int(count ** (1 / power)) - 1)
    while base**power < count:
        base += 1
    return base


def _first_occurrences(
    tokens: Int[Tensor, "batch pos"], width: int, alphabet: int
) -> Bool[Tensor, "batch place"]:
    """Where a word of this width stands that does not stand further left."""
    places = tokens.shape[1] - width + 1
    words = sum(tokens[:, shift : shift + places] * alphabet**shift for shift in range(width))
    assert isinstance(words, Tensor)
    fresh = torch.ones_like(words, dtype=torch.bool)
    for place in range(1, places):
        fresh[:, place] = (words[:, :place] != words[:, place : place + 1]).all(1)
    return fresh


@lru_cache(maxsize=4)
def _query_counts(n: int, c: int, alphabet: int) -> Int[Tensor, "beginning"]:
    """How many queries there are for all beginnings of n − 1 tokens up to each one."""
    beginnings = alphabet ** (n - 1)
    if beginnings > _MOST_LISTED:
        raise TooLarge(
            f"c-gram has {alphabet}^{n - 1} sequences with these parameters, and at most {_MOST_LISTED:,} "
            "are listed; choose a smaller n or alphabet."
        )
    counts = [
        _first_occurrences(
            digits(torch.arange(low, min(beginnings, low + (1 << 16))), [alphabet] * (n - 1)), c - 1, alphabet
        ).sum(1)
        for low in range(0, beginnings, 1 << 16)
    ]
    return torch.cat(counts).cumsum(0)
