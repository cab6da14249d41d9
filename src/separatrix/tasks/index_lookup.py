"""Index lookup: s₁ … s_k, then a position p; answer s_p (S, section 3; W's Index).

>>> from separatrix.tasks import task
>>> lookup = task("index-lookup", n=5, alphabet=4)
>>> row = lookup.parse("s2 s0 s3 s1 @3")
>>> lookup.render_target(lookup.solve(row.unsqueeze(0)).answer[0])
's3'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from jaxtyping import Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks import TASKS
from separatrix.tasks.domains import digits, split_union
from separatrix.tasks.interface import (
    Asking,
    Batch,
    Classes,
    Labels,
    Partition,
    TokenTask,
    option,
    require,
    require_numbered,
)
from separatrix.tasks.shaping import labels_at, positions, uniform_between
from separatrix.tasks.vocabulary import Vocabulary, numbered


@TASKS.register("index-lookup")
@dataclass(frozen=True, kw_only=True)
class IndexLookup(TokenTask):
    """Retrieve by position: the symbol that stands where the last token points.

    Samples follow S, appendix H.1: the length k is uniform from min(10, n) to n, the symbols and the
    position in 1 … k are uniform. The paper says that N symbols are drawn where k must be meant.
    """

    name = "index-lookup"
    title = "Index lookup"
    source = "S, W"
    showcase = MappingProxyType({"n": 11, "lengths": "full"})

    n: int = option(help="most symbols before the index")
    alphabet: int = option(64, help="number of symbols |Σ|")
    lengths: Literal["varied", "full"] = option("varied", help="sample k from min(10, n) to n, or k = n only")

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        require(1 <= self.n <= 1 << 24, f"index-lookup needs 1 ≤ n ≤ 2^24; got n={self.n}. Try 64.")
        require(
            1 <= self.alphabet <= 1 << 20,
            f"index-lookup needs an alphabet of 1 to 2^20 symbols; got alphabet={self.alphabet}. Try 64.",
        )

    @property
    def vocabulary(self) -> Vocabulary:
        """Symbols, then positions counted from one."""
        return Vocabulary(
            numbered("symbol", self.alphabet, prefix="s"),
            numbered("index", self.n, prefix="@", first=1),
            padded=True,
        )

    @property
    def length(self) -> int:
        """n symbols and the index."""
        return self.n + 1

    @property
    def target_space(self) -> Classes:
        """A symbol."""
        return Classes(size=self.alphabet)

    @property
    def asking(self) -> Asking:
        """One answer, behind everything it depends on."""
        return Asking()

    @property
    def sampled_sizes(self) -> tuple[int, int]:
        """Symbols."""
        return (min(10, self.n) if self.lengths == "varied" else self.n), self.n

    def positions_of(self, size: int) -> int:
        """The symbols and the index."""
        return size + 1

    def draw(self, draws: Draws) -> Batch:
        """Uniform length, symbols and position."""
        count = self.drawn_sizes(draws)
        wanted = uniform_between(draws, "index", 0, count - 1)
        inputs = self._ended(draws.integers("symbols", (self.length,), self.alphabet), count, wanted)
        answer = inputs.gather(1, wanted.unsqueeze(1)).squeeze(1)
        labels = labels_at(count, answer, length=self.length)
        return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=count + 1)

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """The index is the last token that is no padding; its label is the symbol it points to."""
        first_index, padding = self.alphabet, self.alphabet + self.n
        last = (inputs != padding).sum(1) - 1
        wanted = inputs.gather(1, last.unsqueeze(1)) - first_index
        return labels_at(last, inputs.gather(1, wanted).squeeze(1), length=self.length)

    def check_content(self, row: Int[Tensor, "pos"]) -> None:
        """One or more symbols, then one index that points at one of them."""
        vocabulary = self.vocabulary
        tokens = [token for token in row.tolist() if token != vocabulary.pad]
        require(
            len(tokens) >= 2 and all(token < self.alphabet for token in tokens[:-1]),
            f"index-lookup needs one to {self.n} symbols and then one index; got {self.render(row)!r}.",
        )
        wanted = tokens[-1] - self.alphabet + 1
        last = vocabulary.word(tokens[-1])
        require(wanted >= 1, f"The last word must be an index from @1 to @{len(tokens) - 1}; got '{last}'.")
        require(
            wanted < len(tokens),
            f"The index must point at one of the {len(tokens) - 1} symbols; got {last}.",
        )

    def domain_size(self) -> int:
        """k·|Σ|^k inputs for each k."""
        size, n = self.alphabet, self.n
        if size == 1:
            return n * (n + 1) // 2
        # Σ k·a^k in closed form: n may be large.
        return int(size * (1 - (n + 1) * size**n + n * size ** (n + 1)) // (size - 1) ** 2)

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """Shortest first."""
        require_numbered(self)
        sizes = [k * self.alphabet**k for k in range(1, self.n + 1)]
        part, rest = split_union(numbers, sizes)
        count = part + 1
        symbols = digits(rest // count, [self.alphabet] * self.length).flip(1)
        return self._ended(symbols, count, rest % count)

    def partitions(self) -> Mapping[str, Partition]:
        """Alice holds the symbols, Bob the index (S-T3)."""
        return {"prefix/suffix": Partition.prefix(self.length, self.n)}

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """The symbol."""
        return self.vocabulary.word(int(target))

    def _ended(
        self, symbols: Int[Tensor, "batch pos"], count: Int[Tensor, "batch"], wanted: Int[Tensor, "batch"]
    ) -> Int[Tensor, "batch pos"]:
        """The same rows, with `count` symbols kept, the index behind them, and padding behind that."""
        end = count.unsqueeze(1)
        symbols.masked_fill_(positions(symbols) > end, self.alphabet + self.n)
        return symbols.scatter_(1, end, wanted.unsqueeze(1) + self.alphabet)
