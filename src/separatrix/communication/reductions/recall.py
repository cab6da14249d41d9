"""INDEX in retrieval by content: each place of Alice's string is a key, and what follows it is the symbol.

S-P9 does it with pairs, W-4.6 with one sequence of tokens. In a sequence the symbols must not be taken for
keys. So the tokens are divided: `markers` of them stand where a key begins and nowhere else, and a key is a
marker and then other tokens. A query begins with a marker, so it can match only where a key begins; the
keys differ, so it matches at its own; and what follows is the symbol.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import log2
from typing import ClassVar, NamedTuple, final

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.communication.problems import Index
from separatrix.communication.reductions.interface import Reduction, label_at, one_question, places
from separatrix.options import require
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.c_gram import CGramRetrieval
from separatrix.tasks.domains import digits

__all__ = ["IndexToCGram", "IndexToRecall"]


class _Blocks(NamedTuple):
    """How a sequence of tokens holds symbols: `held` blocks of a key of `width` tokens and a symbol each.

    Symbols, and the tokens of a key behind its first, are the tokens below `symbols`; markers are the rest.
    """

    held: int
    width: int
    symbols: int

    def keys(self, numbers: Int[Tensor, "block"]) -> Int[Tensor, "block width"]:
        """The keys with these numbers: the digits of the number, the marker the highest."""
        rests = self.symbols ** (self.width - 1)
        rest = digits(numbers % rests, [self.symbols] * (self.width - 1))
        marker = numbers // rests + self.symbols
        return torch.cat([marker.unsqueeze(1), rest], dim=1)

    def sequence(self, x: Int[Tensor, "batch block"], *, length: int) -> Int[Tensor, "batch pos"]:
        """Key and symbol for each block, and token 0 behind the last."""
        keys = self.keys(places(self.held, x)).expand(len(x), -1, -1)
        blocks = torch.cat([keys, x.unsqueeze(2)], dim=2).flatten(1)
        return torch.nn.functional.pad(blocks, (0, length - blocks.shape[1]))


@lru_cache(maxsize=256)
def _blocks(length: int, width: int, tokens: int) -> _Blocks:
    """The division of the tokens that holds the most bits.

    With M markers there are M·(tokens − M)^(width − 1) keys and tokens − M symbols. Once there is a key for
    each block, one more marker would only take a symbol away, so the search ends there.
    """
    most = length // (width + 1)
    best = _Blocks(held=0, width=width, symbols=1)
    for markers in range(1, tokens - 1):
        symbols = tokens - markers
        keys = markers * symbols ** (width - 1)
        found = _Blocks(held=min(most, keys), width=width, symbols=symbols)
        if found.held * log2(found.symbols) > best.held * log2(best.symbols):
            best = found
        if keys >= most:
            break
    return best


@final
@dataclass(frozen=True, kw_only=True)
class IndexToRecall(Reduction[AssociativeRecall]):
    """Place i is key i and its label the symbol there; Bob asks for the key of his place.

    As pairs: n symbols over the labels. As a sequence: ⌊n/2⌋ symbols, or fewer if the alphabet is small.
    """

    problem_name: ClassVar[str] = Index.name
    task_name: ClassVar[str] = AssociativeRecall.name
    size: ClassVar[str] = (
        "n symbols of an alphabet of `values`; in the form of a sequence min(⌊n/2⌋, M) symbols of an "
        "alphabet of |Σ| − M, for the best M"
    )
    reads: ClassVar[str] = "the label at the query"

    def validate(self) -> None:
        """Two labels, or tokens for a key and two symbols."""
        if self.task.form == "pairs":
            labels = self.task.target_space.size
            require(
                labels >= 2,
                f"INDEX in associative-recall needs at least 2 labels; got values={labels}.",
            )
            return
        require(
            self._blocks.held > 0,
            "INDEX in a sequence of associative-recall needs 2 tokens and an alphabet of at least 3; got "
            f"n={self.task.n} and {self.task.target_space.size}.",
        )

    @property
    def problem(self) -> Index:
        """A symbol for each pair, or for each block of a sequence."""
        if self.task.form == "pairs":
            return Index(n=self.task.n, alphabet=self.task.target_space.size)
        return Index(n=self._blocks.held, alphabet=self._blocks.symbols)

    @property
    def split(self) -> str:
        """All but the query is Alice's."""
        return "prefix/suffix"

    @property
    def _blocks(self) -> _Blocks:
        return _blocks(self.task.n, 1, self.task.target_space.size)

    def alice(self, x: Int[Tensor, "batch alice_place"]) -> Int[Tensor, "batch alice_pos"]:
        """Every place's key and its symbol."""
        if self.task.form == "pairs":
            return torch.stack([self._key(places(self.task.n, x)).expand_as(x), x], dim=2).flatten(1)
        return self._blocks.sequence(x, length=self.task.n)

    def bob(self, y: Int[Tensor, "batch 1"]) -> Int[Tensor, "batch 1 1"]:
        """The key of place y."""
        return one_question(self._key(y))

    def read(self, targets: Int[Tensor, "batch ask pos"], y: Int[Tensor, "batch 1"]) -> Int[Tensor, "batch"]:
        """The label is the symbol."""
        return label_at(targets, self.task.length - 1)

    def _key(self, numbers: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
        """In pairs the keys stand behind the labels, in a sequence behind the symbols."""
        first = self.task.target_space.size if self.task.form == "pairs" else self._blocks.symbols
        return numbers + first


@final
@dataclass(frozen=True, kw_only=True)
class IndexToCGram(Reduction[CGramRetrieval]):
    """Place i is a key of c − 1 tokens, followed by its symbol; Bob asks for the key of his place.

    Known tokens must stand c − 1 in a row for each symbol, so at most ⌊n/c⌋ symbols fit.
    """

    problem_name: ClassVar[str] = Index.name
    task_name: ClassVar[str] = CGramRetrieval.name
    size: ClassVar[str] = "min(⌊n/c⌋, M·(|Σ| − M)^(c − 2)) symbols of an alphabet of |Σ| − M, for the best M"
    reads: ClassVar[str] = "the label at the last token of the query"

    def validate(self) -> None:
        """A token to mark keys, and two symbols."""
        alphabet = self.task.target_space.size
        require(
            self._blocks.held > 0,
            f"INDEX in c-gram needs an alphabet of at least 3, one token to mark keys and two symbols; got "
            f"{alphabet}. Try alphabet=3.",
        )

    @property
    def problem(self) -> Index:
        """A symbol for each block."""
        return Index(n=self._blocks.held, alphabet=self._blocks.symbols)

    @property
    def split(self) -> str:
        """The sequence is Alice's, the query is Bob's."""
        return "prefix/suffix"

    @property
    def _blocks(self) -> _Blocks:
        return _blocks(self.task.n, self.task.c - 1, self.task.target_space.size)

    def alice(self, x: Int[Tensor, "batch alice_place"]) -> Int[Tensor, "batch alice_pos"]:
        """Every place's key and its symbol."""
        return self._blocks.sequence(x, length=self.task.n)

    def bob(self, y: Int[Tensor, "batch 1"]) -> Int[Tensor, "batch 1 query"]:
        """The key of place y."""
        return one_question(self._blocks.keys(y.squeeze(1)))

    def read(self, targets: Int[Tensor, "batch ask pos"], y: Int[Tensor, "batch 1"]) -> Int[Tensor, "batch"]:
        """The token is the symbol."""
        return label_at(targets, self.task.length - 1)
