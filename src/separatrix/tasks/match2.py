"""Pair matching: at every i, is there a j with z_i + z_j ≡ 0 modulo M (R, section 4)?

>>> from separatrix.tasks import task
>>> match = task("match2", n=5, modulus=10)
>>> row = match.parse("3 8 7 5 2")
>>> match.solve(row.unsqueeze(0)).targets[0].tolist()  # 3 + 7, 8 + 2, and 5 with itself
[1, 1, 1, 1, 1]
>>> task("match2", n=5, modulus=10, distinct=True).solve(row.unsqueeze(0)).targets[0].tolist()
[1, 1, 1, 0, 1]
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
from separatrix.tasks._residues import even_odds, matches_one, require_modulus
from separatrix.tasks.domains import digits
from separatrix.tasks.interface import Asking, Batch, Classes, Labels, Partition, TokenTask, option, require
from separatrix.tasks.vocabulary import Vocabulary, numbered


@TASKS.register("match2")
@dataclass(frozen=True, kw_only=True)
class Match2(TokenTask):
    """Find a partner: which numbers of a row are another's negative modulo M?

    An input is n numbers z_i from 0 … M − 1 (R writes 1 … M, with M for 0). Every position has a label, 1 if
    some j has z_i + z_j ≡ 0 and 0 if not. As R words it, j may be i itself, so that 0 always matches, and
    M/2 does; with `distinct` it may not. R's dummy element ⊥ belongs to the model, not to the input.

    R names no distribution. Samples here are uniform: n independent numbers. A position then has label 1
    with probability 1 − (1 − 1/M)^(n−1) if `distinct`, and with repeats 1 − (1 − g/M)(1 − 1/M)^(n−1), where
    g, 1 or 2, is how many residues are their own negative. The automatic modulus ⌈(n − 1) / ln 2⌉ makes that
    about one half. R's theorems are for moduli far greater than n, where matches are rare.
    """

    name = "match2"
    title = "Pair matching"
    source = "R"
    showcase = MappingProxyType({"n": 10})

    n: int = option(help="how many numbers")
    modulus: int = option(0, help="M; 0 takes ⌈(n − 1) / ln 2⌉, at which about half of the positions match")
    distinct: bool = option(False, help="whether j must be another position than i")

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        require(2 <= self.n <= 1 << 16, f"match2 needs 2 ≤ n ≤ 2^16; got n={self.n}. Try 32.")
        require_modulus(self.name, self.modulus, least=2)

    @property
    def residues(self) -> int:
        """M itself, chosen if it was left to be."""
        return self.modulus or even_odds(self.n - 1, least=2)

    @property
    def vocabulary(self) -> Vocabulary:
        """The residues 0 … M − 1."""
        return Vocabulary(numbered("residue", self.residues))

    @property
    def length(self) -> int:
        """n numbers."""
        return self.n

    @property
    def target_space(self) -> Classes:
        """1 where there is a match."""
        return Classes(size=2)

    @property
    def asking(self) -> Asking:
        """Everywhere, about all of the input."""
        return Asking(most=self.n, ahead=True)

    def draw(self, draws: Draws) -> Batch:
        """Uniform numbers."""
        numbers = draws.integers("numbers", (self.n,), self.residues)
        labels = self.solve(numbers)
        lengths = torch.full((draws.batch,), self.n, device=draws.device)
        return Batch(inputs=numbers, targets=labels.targets, mask=labels.mask, lengths=lengths)

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """Sort each row and look every number's negative up in it."""
        matched = matches_one(inputs, self.residues, distinct=self.distinct)
        return Labels(targets=matched.long(), mask=torch.ones_like(matched))

    def check_content(self, row: Int[Tensor, "pos"]) -> None:
        """Residues stand in any order."""

    def domain_size(self) -> int:
        """M^n."""
        return int(self.residues**self.n)

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """The digits in base M."""
        return digits(numbers, [self.residues] * self.n)

    def partitions(self) -> Mapping[str, Partition]:
        """Alice holds the first half."""
        return {"halves": Partition.prefix(self.length, self.n // 2)}

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """1 for a match, 0 for none."""
        return str(int(target))
