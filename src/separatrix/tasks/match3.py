"""Triple matching: at every i, do two numbers z_j, z_k make z_i + z_j + z_k ≡ 0 modulo M (R, section 4)?

>>> from separatrix.tasks import task
>>> match = task("match3", n=5, modulus=10, distinct=True)
>>> row = match.parse("1 2 7 4 5")
>>> match.solve(row.unsqueeze(0)).targets[0].tolist()  # 1 + 2 + 7 and 1 + 4 + 5
[1, 1, 1, 1, 1]
>>> bigram = task("match3", n=5, modulus=10, variant="bigram")
>>> bigram.solve(row.unsqueeze(0)).targets[0].tolist()  # 1 + (4 + 5) and 7 + (1 + 2)
[1, 0, 1, 0, 0]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks import TASKS
from separatrix.tasks._residues import (
    even_odds,
    matches_in_neighbours,
    matches_in_pairs,
    matches_in_window,
    matches_one,
    require_modulus,
)
from separatrix.tasks.domains import digits
from separatrix.tasks.interface import Asking, Batch, Classes, Labels, Partition, TokenTask, option, require
from separatrix.tasks.shaping import positions
from separatrix.tasks.vocabulary import Vocabulary, numbered


@TASKS.register("match3")
@dataclass(frozen=True, kw_only=True)
class Match3(TokenTask):
    """Find two partners: which numbers of a row are completed to 0 modulo M by two others?

    An input is n numbers z_i from 0 … M − 1 (R writes 1 … M, with M for 0). Label 1 means that there are
    positions j and k with z_i + z_j + z_k ≡ 0, which, by the variant,

    - `full`: may be any, as R defines the problem;
    - `local`: lie within `window` places of i;
    - `bigram`: stand next to each other, k = j + 1;
    - `last`: are any before the last, where z_n = 0 and only position n is labelled.

    As R words it, j and k may equal i and each other; with `distinct` all three differ. R's dummy element ⊥
    belongs to the model, not to the input. In `last` j and k never are position n: read to the letter, with
    repeats, 0 + 0 + 0 would match in every input. There `distinct` says only whether j may be k.

    R names no distribution. Samples are n independent uniform numbers, except in `last`. The automatic
    modulus is ⌈c / ln 2⌉ with c the number of sets {j, k} that may complete a number: then uniform numbers
    match with probability about one half (less near the ends of a `local` row).

    In `last` half of the examples match. A row without a match: n − 1 times, a class {r, −r} is drawn,
    uniform among those of two residues, and the number is r or −r by a fair coin that each class tosses
    once for the whole row; so no number meets its negative. A row with a match: the same, and then the
    number at one position, of a uniform pair of positions, is replaced by the negative of the other.

    `instances="disjointness"`, in `last`, draws R's hard inputs instead: two sets a, b within 1 … m,
    m = ⌊(n − 1) / 2⌋; z_i is i + 1 if i ∈ a, else 1; z_{m+i} is M − (i + 1) if i ∈ b, else 1; a place left
    over (n even) holds 1. A match is a common element. a and b are uniform among disjoint pairs; in
    half of the examples one uniform element is then put into both. M must be at least n + 2 for this.
    """

    name = "match3"
    title = "Triple matching"
    source = "R"
    showcase = MappingProxyType({"n": 8, "modulus": 24, "distinct": True})

    n: int = option(help="how many numbers")
    modulus: int = option(0, help="M; 0 takes one at which about half of uniform numbers match")
    variant: Literal["full", "last", "local", "bigram"] = option(
        "full",
        help="any j and k; z_n = 0 and only the last output; j and k within the window; k = j + 1",
    )
    window: int = option(2, help="T: j and k lie in i − T … i + T (variant local)")
    distinct: bool = option(False, help="whether i, j and k must be three different positions")
    instances: Literal["random", "disjointness"] = option(
        "random", help="random inputs, or the hard ones of the lower bound (variant last)"
    )

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        require(3 <= self.n <= 1 << 12, f"match3 needs 3 ≤ n ≤ 4096; got n={self.n}. Try 32.")
        require(
            1 <= self.window <= 64,
            f"match3 needs a window of 1 to 64 places; got window={self.window}. Try 2.",
        )
        require(
            self.instances == "random" or self.variant == "last",
            f"match3 has disjointness instances for the variant last; got variant={self.variant!r}. "
            "Try variant='last'.",
        )
        require_modulus(self.name, self.modulus, least=self._least_modulus())

    @property
    def residues(self) -> int:
        """M itself, chosen if it was left to be."""
        return self.modulus or even_odds(self._completions(), least=self._least_modulus())

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
        """Everywhere, or at the last position only."""
        return Asking() if self.variant == "last" else Asking(most=self.n, ahead=True)

    def draw(self, draws: Draws) -> Batch:
        """Uniform numbers, or rows of which half match."""
        lengths = torch.full((draws.batch,), self.n, device=draws.device)
        if self.variant == "last":
            matched = draws.coins("matched", ())
            make = self._sets if self.instances == "disjointness" else self._row
            inputs = torch.nn.functional.pad(make(draws, matched), (0, 1))
            labels = self._only_last(matched)
        else:
            inputs = draws.integers("numbers", (self.n,), self.residues)
            labels = self.solve(inputs)
        return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=lengths)

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """Count pair sums by residue and look every number's negative up among them."""
        modulus, distinct = self.residues, self.distinct
        if self.variant == "last":
            return self._only_last(matches_one(inputs[:, :-1], modulus, distinct=distinct).any(1))
        if self.variant == "local":
            matched = matches_in_window(inputs, modulus, reach=self.window, distinct=distinct)
        elif self.variant == "bigram":
            matched = matches_in_neighbours(inputs, modulus, distinct=distinct)
        else:
            matched = matches_in_pairs(inputs, modulus, distinct=distinct)
        return Labels(targets=matched.long(), mask=torch.ones_like(matched))

    def check_content(self, row: Int[Tensor, "pos"]) -> None:
        """Any residues, but the last one 0 in the variant that says so."""
        require(
            self.variant != "last" or int(row[-1]) == 0,
            f"The last number must be 0 in the variant last; got {int(row[-1])}.",
        )

    def domain_size(self) -> int:
        """M^n, or M^(n−1) where the last number is fixed."""
        return int(self.residues ** (self.n - (self.variant == "last")))

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """The digits in base M."""
        if self.variant == "last":
            return torch.nn.functional.pad(digits(numbers, [self.residues] * (self.n - 1)), (0, 1))
        return digits(numbers, [self.residues] * self.n)

    def partitions(self) -> Mapping[str, Partition]:
        """Alice holds the first ⌊(n − 1) / 2⌋ numbers, where R's reduction from disjointness puts her set."""
        return {"halves": Partition.prefix(self.length, (self.n - 1) // 2)}

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """1 for a match, 0 for none."""
        return str(int(target))

    def _least_modulus(self) -> int:
        if self.instances == "disjointness":
            return self.n + 2
        return 3 if self.variant == "last" else 2

    def _completions(self) -> int:
        """How many sets {j, k} may complete a number, away from the ends of the row."""
        if self.variant == "bigram":
            return self.n - 1
        around = min(2 * self.window + 1, self.n) if self.variant == "local" else self.n
        others = around - 1 if self.distinct or self.variant == "last" else around
        return others * (others - 1) // 2 + (0 if self.distinct else others)

    def _only_last(self, matched: Bool[Tensor, "batch"]) -> Labels:
        targets = torch.zeros(len(matched), self.n, dtype=torch.int64, device=matched.device)
        mask = torch.zeros_like(targets, dtype=torch.bool)
        mask[:, -1] = True
        targets[:, -1] = matched
        return Labels(targets=targets, mask=mask)

    def _row(self, draws: Draws, matched: Bool[Tensor, "batch"]) -> Int[Tensor, "batch before"]:
        """n − 1 numbers none of which meets its negative, except at a planted pair."""
        count = self.n - 1
        classes = draws.integers("classes", (count,), (self.residues - 1) // 2) + 1
        negative = _shared_by_equals(classes, draws.coins("signs", (count,)))
        numbers = torch.where(negative, self.residues - classes, classes)
        pair = draws.distinct("pair", 2, count)
        opposite = self.residues - numbers.gather(1, pair[:, :1])
        planted = torch.where(matched.unsqueeze(1), opposite, numbers.gather(1, pair[:, 1:]))
        return numbers.scatter_(1, pair[:, 1:], planted)

    def _sets(self, draws: Draws, matched: Bool[Tensor, "batch"]) -> Int[Tensor, "batch before"]:
        """R's encoding of two sets that have one element in common or none."""
        size = (self.n - 1) // 2
        held = draws.integers("sets", (size,), 3)
        common = draws.integers("common", (1,), size)
        both = (positions(held) == common) & matched.unsqueeze(1)
        values = positions(held) + 2
        alice = torch.where((held == 1) | both, values, 1)
        bob = torch.where((held == 2) | both, self.residues - values, 1)
        return torch.nn.functional.pad(torch.cat([alice, bob], dim=1), (0, self.n - 1 - 2 * size), value=1)


def _shared_by_equals(
    keys: Int[Tensor, "batch pos"], values: Bool[Tensor, "batch pos"]
) -> Bool[Tensor, "batch pos"]:
    """At every position the value at the first position of the same key."""
    ordered, origin = keys.sort(dim=1, stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    leader = torch.where(first, positions(keys), 0).cummax(1).values
    shared = values.gather(1, origin).gather(1, leader)
    return torch.empty_like(values).scatter_(1, origin, shared)
