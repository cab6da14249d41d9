"""Exact deterministic communication complexity of a small matrix, with an optimal protocol as the answer.

The cost is the number of bits exchanged in the worst case until both parties know the answer: the leaves of a
protocol are rectangles in which all inputs have one answer. So a decision that depends on both inputs costs
two bits at least, and EQ of n bits costs n + 1: n for Alice's string and one for Bob's verdict. (Where it is
enough that one party knows the answer, one bit less may do.) Known values in this convention: EQ, DISJ and
GT of n bits cost n + 1, INDEX of n bits costs ⌈log n⌉ + 1.

>>> import numpy as np
>>> found = complexity(np.eye(4, dtype=np.int64))
>>> found.bits
3
>>> found.tree.run(2, 2)
Run(value=1, bits=(1, 0, 1))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from jaxtyping import Bool, Int

from separatrix.communication.protocol_trees import Leaf, ProtocolTree, Speech
from separatrix.communication.ranks import as_entries, log_rank, rank_of_numbers
from separatrix.errors import TooLarge

__all__ = ["MOST_SIDE", "Complexity", "complexity"]

MOST_SIDE: Final = 64
_MOST_STEPS: Final = 200_000

_Part = tuple[int, int]
"""A submatrix: a number whose bits are its rows, and one whose bits are its columns."""
_Stands = tuple[dict[int, int], dict[int, int]]
"""For rows and for columns: which line each is treated as."""


@final
@dataclass(frozen=True, kw_only=True)
class Complexity:
    """The bits that the best protocol exchanges in the worst case, and a protocol that exchanges no more."""

    bits: int
    tree: ProtocolTree


def complexity(matrix: Int[np.ndarray, "row column"], *, steps: int = _MOST_STEPS) -> Complexity:
    """The complexity of a matrix of answers from 0, with −1 where a pair is no input.

    Equal rows and columns count once. Beyond `steps`, which are about the splits tried, the search gives up
    and says between which bounds the answer lies.
    """
    entries = as_entries(matrix)
    rows, row_kinds = _different(entries)
    columns, column_kinds = _different(entries[rows].T)
    if max(len(rows), len(columns)) > MOST_SIDE:
        raise TooLarge(
            f"Exact complexity is found for at most {MOST_SIDE} different rows and columns; got "
            f"{len(rows):,} × {len(columns):,}. Choose a smaller n, or bound it by rank or fooling sets."
        )
    kept = entries[np.ix_(rows, columns)]
    # The search counts answers from 0 without gaps; −1 stays what it is.
    answers = np.unique(kept[kept >= 0])
    search = _Search(np.where(kept >= 0, np.searchsorted(answers, kept), -1), steps=steps)
    bits = search.solve()
    return Complexity(bits=bits, tree=_tree(search, (row_kinds, column_kinds), answers.tolist()))


class _Search:
    """Branch and bound over submatrices, each reduced first and remembered by its rows and columns.

    For every submatrix met, `least` and `most` enclose its complexity, and `choice` is the first bit of a
    protocol of cost `most`. Whether d bits do is asked of a submatrix only between the two.
    """

    def __init__(self, entries: Int[np.ndarray, "row column"], *, steps: int) -> None:
        self.whole: _Part = ((1 << entries.shape[0]) - 1, (1 << entries.shape[1]) - 1)
        self._entries = entries
        self._total = bool((entries >= 0).all())
        self._left = steps
        sides = (entries, entries.T)
        values = range(max(1, int(entries.max()) + 1))
        # By side, answer and line: a number whose bits are the places with that answer, or with another one.
        self._has = [[[_mask(line == value) for line in side] for value in values] for side in sides]
        self._against = [[_mask((line >= 0) & (line != value)) for line in entries] for value in values]
        # By side and line: all these numbers in one, a block of bits for each answer.
        self._lines = [_joined(has, width=side.shape[1]) for has, side in zip(self._has, sides, strict=True)]
        self._reduced: dict[_Part, _Part] = {}
        self._least: dict[_Part, int] = {}
        self._most: dict[_Part, int] = {}
        self._choice: dict[_Part, tuple[int, int]] = {}

    def solve(self) -> int:
        """The complexity of the whole matrix."""
        whole = self.reduced(self.whole)
        self._meet(whole)
        if self._total:
            self._least[whole] = max(self._least[whole], log_rank(self._entries).bits)
        while not self._suffices(whole, self._least[whole]):
            pass
        return self._most[whole]

    def reduced(self, part: _Part) -> _Part:
        """The submatrix without lines that say nothing another line does not say."""
        found = self._reduced.get(part)
        if found is None:
            found = self.representatives(part)[0]
            self._reduced[part] = found
        return found

    def representatives(self, part: _Part) -> tuple[_Part, _Stands]:
        """The reduced submatrix, and for each row and each column the one that stands for it.

        A row whose entries all stand in another row too can be treated as that row; without undefined
        entries the two are equal. Rows and columns take turns until nothing changes.
        """
        maps = ({row: row for row in _members(part[0])}, {column: column for column in _members(part[1])})
        side, unchanged = 0, 0
        while unchanged < 2:
            stands = self._stand_in(part, side)
            kept = sum(1 << line for line in set(stands.values()))
            unchanged = unchanged + 1 if kept == part[side] else 0
            maps[side].update({line: stands[stand] for line, stand in maps[side].items()})
            part = (kept, part[1]) if side == 0 else (part[0], kept)
            side = 1 - side
        return part, maps

    def _stand_in(self, part: _Part, side: int) -> dict[int, int]:
        seen = part[1 - side]
        width = self.whole[1 - side].bit_length()
        visible = sum(seen << value * width for value in range(len(self._against)))
        groups: dict[int, list[int]] = {}
        for line in _members(part[side]):
            groups.setdefault(self._lines[side][line] & visible, []).append(line)
        stands: dict[int, int] = {}
        kept: list[int] = []
        for shown in sorted(groups, key=int.bit_count, reverse=True) if not self._total else groups:
            fuller = () if self._total else (other for other in kept if shown | other == other)
            found = next(iter(fuller), shown)
            if found == shown:
                kept.append(shown)
            stands.update(dict.fromkeys(groups[shown], groups[found][0]))
        return stands

    def answers(self, part: _Part) -> list[int]:
        """The answers that occur."""
        rows = list(_members(part[0]))
        return [value for value, has in enumerate(self._has[0]) if any(has[row] & part[1] for row in rows)]

    def choice(self, part: _Part) -> tuple[int, int]:
        """The best known first bit: 0 if it is about rows, 1 if about columns, and those that send 0."""
        self._meet(part)
        return self._choice[part]

    def split(self, part: _Part, side: int, zeros: int) -> tuple[_Part, _Part]:
        """What is left after a 0 and after a 1, not yet reduced."""
        ones = part[side] ^ zeros
        return ((zeros, part[1]), (ones, part[1])) if side == 0 else ((part[0], zeros), (part[0], ones))

    def _meet(self, part: _Part) -> None:
        """First bounds: by leaves from below, and from above by sending a line and then the answer."""
        if part in self._least:
            return
        answers = self.answers(part)
        self._least[part] = (self._fewest_leaves(part, answers) - 1).bit_length()
        self._most[part] = 0
        if len(answers) <= 1:
            return
        self._most[part], side = min(
            ((lines.bit_count() - 1).bit_length() + self._answer_bits(part, side, answers), side)
            for side, lines in enumerate(part)
            if lines.bit_count() > 1
        )
        members = list(_members(part[side]))
        self._choice[part] = (side, sum(1 << line for line in members[: (len(members) + 1) // 2]))

    def _answer_bits(self, part: _Part, side: int, answers: list[int]) -> int:
        """What it takes to tell the answer once a line of this side is known."""
        seen = part[1 - side]
        most = max(
            sum(1 for value in answers if self._has[side][value][line] & seen)
            for line in _members(part[side])
        )
        return max(0, most - 1).bit_length()

    def _suffices(self, part: _Part, bits: int) -> bool:
        """Whether a protocol of so many bits exists; what is found out is remembered."""
        self._meet(part)
        if self._most[part] <= bits:
            return True
        if self._least[part] > bits:
            return False
        for side in (0, 1):
            for zeros in _subsets(part[side]):
                self._spend(part)
                if all(
                    self._suffices(self.reduced(half), bits - 1) for half in self.split(part, side, zeros)
                ):
                    self._most[part] = bits
                    self._choice[part] = (side, zeros)
                    return True
        self._least[part] = bits + 1
        return False

    def _spend(self, part: _Part) -> None:
        """A split of a larger part takes longer, and counts for more."""
        self._left -= 1 + part[0].bit_count() * part[1].bit_count() // 64
        if self._left < 0:
            whole = self.reduced(self.whole)
            raise TooLarge(
                f"The search for the exact complexity was cut off; it lies between {self._least[whole]} and "
                f"{self._most[whole]} bits. Choose a smaller n, or allow more steps."
            )

    def _fewest_leaves(self, part: _Part, answers: list[int]) -> int:
        """Leaves that every protocol has: for each answer a fooling set's size, or the indicator's rank."""
        total = 0
        for value in answers:
            fewest = self._fooling(part, value)
            if self._total:
                rows = [self._has[0][value][row] & part[1] for row in _members(part[0])]
                fewest = max(fewest, rank_of_numbers(rows))
            total += fewest
        return max(1, total)

    def _fooling(self, part: _Part, value: int) -> int:
        """The size of a fooling set, taken greedily along the rows.

        Of two of its entries one corner that they span has another answer, so no rectangle holds both.
        """
        has, against = self._has[0][value], self._against[value]
        chosen: list[_Part] = []
        for row in _members(part[0]):
            for column in _members(has[row] & part[1]):
                if all(against[row] >> c & 1 or against[r] >> column & 1 for r, c in chosen):
                    chosen.append((row, column))
        return len(chosen)


def _tree(search: _Search, kinds: _Stands, answers: list[int]) -> ProtocolTree:
    """The protocol of the search's choices, for all rows, columns and answers of the matrix it was about."""

    def node(part: _Part, stands: _Stands) -> Speech | Leaf:
        """`stands` says which line of the part each input that leads here is treated as."""
        part, found = search.representatives(part)
        rows, columns = (
            {held: stand[line] for held, line in side.items()}
            for side, stand in zip(stands, found, strict=True)
        )
        said = search.answers(part)
        if len(said) <= 1:
            return Leaf(value=answers[said[0]] if said else 0)
        side, zeros = search.choice(part)
        held = (rows, columns)[side]
        sent: list[dict[int, int]] = [{}, {}]
        for number, line in held.items():
            sent[1 - (zeros >> line & 1)][number] = line
        after = [
            node(half, (lines, columns) if side == 0 else (rows, lines))
            for half, lines in zip(search.split(part, side, zeros), sent, strict=True)
        ]
        return Speech(
            speaker="Bob" if side else "Alice",
            zeros=tuple(sent[0]),
            ones=tuple(sent[1]),
            after_zero=after[0],
            after_one=after[1],
        )

    return ProtocolTree(root=node(search.whole, kinds))


def _different(lines: Int[np.ndarray, "line place"]) -> tuple[Int[np.ndarray, "kept"], dict[int, int]]:
    """The first of each kind of line, in order, and for every line the number of its kind."""
    _, first, kind = np.unique(lines, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    return np.sort(first), dict(enumerate(order[kind.ravel()].tolist()))


def _mask(places: Bool[np.ndarray, "place"]) -> int:
    return sum(1 << place for place in np.flatnonzero(places).tolist())


def _joined(has: list[list[int]], *, width: int) -> list[int]:
    return [sum(mask << value * width for value, mask in enumerate(line)) for line in zip(*has, strict=True)]


def _members(mask: int) -> Iterator[int]:
    """The bits of a number, the lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _subsets(mask: int) -> Iterator[int]:
    """One of each two complementary subsets, neither of them empty: those without the highest member."""
    rest = mask ^ (1 << mask.bit_length() - 1) if mask else 0
    chosen = rest
    while chosen:
        yield chosen
        chosen = (chosen - 1) & rest
