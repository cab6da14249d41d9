"""Counting: a sequence, a token v and a threshold k; does v occur more than k times? (W, section 4.2)

>>> from separatrix.tasks import task
>>> counting = task("counting", n=6, alphabet=4)
>>> rows = [counting.parse(f"s3 s1 s3 s0 s3 s2 s3 {threshold}") for threshold in (">2", ">3")]
>>> [counting.render_target(counting.solve(row.unsqueeze(0)).answer[0]) for row in rows]
['1', '0']
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks import TASKS
from separatrix.tasks.domains import digits
from separatrix.tasks.interface import Asking, Batch, Classes, Labels, Partition, TokenTask, option, require
from separatrix.tasks.shaping import labels_at, uniform_between
from separatrix.tasks.vocabulary import Vocabulary, numbered


@TASKS.register("counting")
@dataclass(frozen=True, kw_only=True)
class Counting(TokenTask):
    """Compare how often a token occurs with a number.

    W gives no law for samples. Here every sample stands at the edge: the label is a fair coin, the
    threshold k is uniform in 0 … n − 1 whatever the label, and the token v, uniform too, occurs k + 1 times
    for label 1 and k times for label 0. So neither the query alone nor a count that is off by one tells
    more than a guess. The places of v are a uniform subset, and the other tokens are uniform among the
    rest of the alphabet. (A threshold of n is an input, always with label 0, but is not sampled.)
    """

    name = "counting"
    title = "Counting"
    source = "W"
    showcase = MappingProxyType({"n": 26, "alphabet": 7})

    n: int = option(help="tokens in the sequence")
    alphabet: int = option(64, help="number of tokens")

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        require(1 <= self.n <= 1 << 20, f"counting needs 1 ≤ n ≤ 2^20; got n={self.n}. Try 64.")
        require(
            2 <= self.alphabet <= 1 << 20,
            f"counting needs an alphabet of 2 to 2^20 tokens; got alphabet={self.alphabet}. Try 64.",
        )

    @property
    def vocabulary(self) -> Vocabulary:
        """Tokens, then thresholds from 0 to n."""
        return Vocabulary(
            numbered("symbol", self.alphabet, prefix="s"), numbered("threshold", self.n + 1, prefix=">")
        )

    @property
    def length(self) -> int:
        """The sequence, the token to count, the threshold."""
        return self.n + 2

    @property
    def target_space(self) -> Classes:
        """1 if the token occurs more often than the threshold says, else 0."""
        return Classes(size=2)

    @property
    def asking(self) -> Asking:
        """One answer, behind everything it depends on."""
        return Asking()

    def draw(self, draws: Draws) -> Batch:
        """A threshold, a label, and as many occurrences as the two ask for."""
        threshold = uniform_between(draws, "threshold", 0, self.n - 1)
        answer = draws.integers("label", (), 2)
        query = draws.integers("query", (1,), self.alphabet)
        # A token of the rest of the alphabet: its numbers skip the query's.
        others = draws.integers("others", (self.n,), self.alphabet - 1)
        others += others >= query
        occurs = draws.permutations("places", self.n) < (threshold + answer).unsqueeze(1)
        sequence = torch.where(occurs, query, others)
        inputs = torch.cat([sequence, query, threshold.unsqueeze(1) + self.alphabet], dim=1)
        labels = self._labels(answer)
        lengths = torch.full((draws.batch,), self.length, dtype=torch.int64, device=draws.device)
        return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=lengths)

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """Count the last token but one among those before it; compare with the last."""
        sequence, query, threshold = inputs.tensor_split([self.n, self.n + 1], dim=1)
        count = (sequence == query).sum(1)
        return self._labels((count > threshold.squeeze(1) - self.alphabet).long())

    def check_content(self, row: Int[Tensor, "pos"]) -> None:
        """n tokens and the one to count, then a threshold."""
        *tokens, last = row.tolist()
        for place, token in enumerate(tokens):
            require(
                token < self.alphabet,
                f"Word {place + 1} must be a token s0 … s{self.alphabet - 1}; "
                f"got '{self.vocabulary.word(token)}'.",
            )
        require(
            last >= self.alphabet,
            f"The last word must be a threshold >0 … >{self.n}; got '{self.vocabulary.word(last)}'.",
        )

    def domain_size(self) -> int:
        """Every sequence, token and threshold."""
        queried: int = self.alphabet ** (self.n + 1)
        return queried * (self.n + 1)

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """In alphabetical order."""
        rows = digits(numbers, [self.alphabet] * (self.n + 1) + [self.n + 1])
        rows[:, -1] += self.alphabet
        return rows

    def partitions(self) -> Mapping[str, Partition]:
        """Alice holds the sequence, Bob the query (W-4.6)."""
        return {"prefix/suffix": Partition.prefix(self.length, self.n)}

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """1 or 0."""
        return str(int(target))

    def _labels(self, answer: Int[Tensor, "batch"]) -> Labels:
        return labels_at(torch.full_like(answer, self.n + 1), answer, length=self.length)
