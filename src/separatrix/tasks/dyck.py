"""Bounded Dyck: is a string of brackets balanced, with never more than k of them open (S, section 4)?

>>> from separatrix.tasks import task
>>> dyck = task("dyck", n=6, types=2, depth=2)
>>> rows = torch.stack([dyck.parse("([])[]"), dyck.parse("([[]])"), dyck.parse("([)][]")])
>>> dyck.solve(rows).answer.tolist()
[1, 0, 0]

In the form next the answer after each bracket is the set of characters that may follow:

>>> writing = task("dyck", n=6, form="next")
>>> labels = writing.solve(writing.parse("([])[]").unsqueeze(0))
>>> [writing.render_target(target) for target in labels.targets[labels.mask]]
['open or )', ']', 'open or )', 'open or end', 'open or ]', 'open or end']
>>> writing.continuations(labels.targets[0, 0])
('(', '[', ')')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks import TASKS
from separatrix.tasks._packed_digits import packed_digits
from separatrix.tasks.brackets import (
    balanced_paths,
    clamped_walk,
    depths,
    in_bounded_dyck,
    narrow,
    openers,
    paired_types,
    path_counts,
    tops,
)
from separatrix.tasks.domains import digits
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
from separatrix.tasks.shaping import labels_at, positions, redraw, uniform_between
from separatrix.tasks.vocabulary import Vocabulary, words

BRACKETS: Final = "()[]{}<>⟨⟩⟦⟧⌈⌉⌊⌋"


@TASKS.register("dyck")
@dataclass(frozen=True, kw_only=True)
class Dyck(TokenTask):
    """Recognise Dyck-(types, depth) among the strings of exactly n brackets.

    The label, at the last bracket, is 1 if the string is well nested, type by type, with never more than
    `depth` brackets open, and 0 if not. Samples follow S, appendix H.1, which has two types and depth 2.

    With probability ½ the example is a member, made by a walk: where nothing is open, an opening bracket,
    its type uniform; where `depth` brackets are open, or as many as there are places left, the closing
    bracket that fits; else one of the `types` opening brackets and the fitting closing one, all equally
    likely. At depth 2 (and 1) this is the paper's walk of n − 2 steps, after which what is open is closed,
    or a pair is added if nothing is; at a greater depth more than two brackets can be open after n − 2
    steps, and the walk as told here ends in time.

    Else a member is drawn in the same way and m of its places, m uniform in 1 … max(1, ⌊n/10⌋), are
    corrupted: each with probability ½ to another type, uniform among the others, and with probability ½
    from opening to closing or back. With one type there is only the latter. A corruption that leaves a
    member is redone, m included, up to 6 times (12 with one type); should all fail, as they do fewer than
    once in 10^7 negatives at the worst parameters, one bracket is turned round, which leaves no member.

    In the form `next` every input is a member, from the same walk, and every position is labelled with the
    set of characters that may follow it in the language of members of all lengths, as one class: class 0,
    where nothing is open, is every opening bracket and the end; class 1 + t, where the innermost open
    bracket has type t and `depth` is not reached, is every opening bracket and the closing one of type t;
    class 1 + types + t, where it is reached, is that closing bracket alone. A string counts as right only if
    all its positions are.
    """

    name = "dyck"
    title = "Bounded Dyck language"
    source = "S"
    showcase = MappingProxyType({"n": 20})

    n: int = option(help="length of the string, even")
    types: int = option(2, help="number of bracket types")
    depth: int = option(2, help="most brackets open at once")
    form: Literal["recognise", "next"] = option(
        "recognise", help="is the string a member, or which characters may follow each prefix of a member"
    )

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        most = len(BRACKETS) // 2
        require(
            self.n >= 2 and self.n % 2 == 0,
            f"Dyck needs an even length n ≥ 2; got n={self.n}. "
            f"Try {min(max(self.n + self.n % 2, 2), 1 << 20)}.",
        )
        require(self.n <= 1 << 20, f"Dyck takes lengths up to 2^20; got n={self.n}. Try 400.")
        require(
            1 <= self.types <= most,
            f"Dyck needs 1 to {most} types of brackets; got types={self.types}. Try 2.",
        )
        require(1 <= self.depth <= 1 << 20, f"Dyck needs 1 ≤ depth ≤ 2^20; got depth={self.depth}. Try 2.")

    @property
    def vocabulary(self) -> Vocabulary:
        """The brackets ( ) [ ] …: opening ones have even numbers, each followed by its partner."""
        return Vocabulary(words("bracket", *BRACKETS[: 2 * self.types]), separator="")

    @property
    def length(self) -> int:
        """The brackets and nothing else."""
        return self.n

    @property
    def target_space(self) -> Classes:
        """1 for a member of the language, 0 for any other string; in the form next a set of continuations."""
        return Classes(size=2 if self.form == "recognise" else 2 * self.types + 1)

    @property
    def asking(self) -> Asking:
        """One verdict, or the next characters everywhere."""
        return Asking() if self.form == "recognise" else Asking(most=self.length)

    def continuations(self, target: int | Int[Tensor, ""]) -> tuple[str, ...]:
        """The characters that a class of the form next stands for: opening ones first, then what closes."""
        number = int(target)
        require(
            self.form == "next" and 0 <= number <= 2 * self.types,
            f"Sets of continuations are numbered from 0 to {2 * self.types} in the form next; "
            f"got {number} in the form {self.form}.",
        )
        opening = tuple(BRACKETS[: 2 * self.types : 2]) if number <= self.types else ()
        return (*opening, self._closing(number) if number else "end")

    @property
    def redraws(self) -> int:
        """How often a corruption that leaves a member is redone at most."""
        # At the worst sizes one corruption in 6 leaves a member if there is one type of brackets, and one in
        # 60 if there are two.
        return 12 if self.types == 1 else 6

    def draw(self, draws: Draws) -> Batch:
        """Half members from the walk, half corrupted members; in the form next members only."""
        if self.form == "next":
            inputs = self._members(draws).long()
            labels = self._continuation_labels(inputs)
            lengths = torch.full_like(inputs[:, 0], self.n)
            return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=lengths)
        positive = draws.coins("member", ())
        members = self._members(draws)
        rows, settled = redraw(
            lambda attempt: self._corrupted(members, ~positive, draws, attempt),
            lambda drawn: positive | ~in_bounded_dyck(drawn, depth=self.depth),
            # One changed bracket always leaves the language.
            attempts=1 if self._most_corruptions == 1 else 1 + self.redraws,
        )
        # What is still a member has n/2 opening brackets; after one turn it has not.
        place = draws.integers("last resort", (1,), self.n)
        inputs = rows.long()
        inputs.scatter_(1, place, inputs.gather(1, place) ^ (~settled).long().unsqueeze(1))
        labels = self._labels(positive)
        lengths = torch.full_like(positive, self.n, dtype=torch.int64)
        return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=lengths)

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """Depth within its bounds, and the types of partners equal; or what may follow each prefix."""
        if self.form == "next":
            return self._continuation_labels(inputs)
        return self._labels(in_bounded_dyck(inputs, depth=self.depth))

    def check_content(self, row: Int[Tensor, "pos"]) -> None:
        """Brackets stand in any order; in the form next they are a member's."""
        require(
            self.form == "recognise" or bool(in_bounded_dyck(row.unsqueeze(0), depth=self.depth)),
            f"The form next takes only members, balanced and at most {self.depth} deep; "
            f"got {self.render(row)[:80]!r}.",
        )

    def domain_size(self) -> int:
        """(2·types)^n strings, members or not; in the form next the members alone."""
        if self.form == "next":
            return path_counts(self.n, self.depth)[0][0] * int(self.types ** (self.n // 2))
        return int((2 * self.types) ** self.n)

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """In the order of the vocabulary, first bracket most significant.

        In the form next by the walk, an opening step before a closing one, then by the types of the pairs.
        """
        if self.form == "next":
            require_numbered(self)
            kinds = int(self.types ** (self.n // 2))
            closings = balanced_paths(numbers // kinds, length=self.n, depth=self.depth)
            fresh = torch.zeros_like(closings)
            opening = (closings == 0).nonzero(as_tuple=True)
            fresh[opening] = digits(numbers % kinds, [self.types] * (self.n // 2)).reshape(-1)
            return 2 * fresh.gather(1, openers(closings)) + closings
        return digits(numbers, [2 * self.types] * self.n)

    def partitions(self) -> Mapping[str, Partition]:
        """Odd against even places is hard (S, lemma 1); across a cut only the open brackets matter.

        In the form next there is an answer at every position, and nothing to split.
        """
        if self.form == "next":
            return {}
        middle = Partition.prefix(self.n, self.n // 2)
        return {"odd/even": Partition.odd_even(self.n), "prefix/suffix": middle, "halves": middle}

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """1 or 0; in the form next "open" for all that opens, and what else may follow."""
        number = int(target)
        if self.form == "recognise":
            return str(number)
        if number > self.types:
            return self._closing(number)
        return f"open or {self._closing(number) if number else 'end'}"

    def _closing(self, number: int) -> str:
        """The closing bracket in a set of continuations."""
        return BRACKETS[2 * ((number - 1) % self.types) + 1]

    @property
    def _most_corruptions(self) -> int:
        return max(1, self.n // 10)

    def _continuation_labels(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """By depth and by the type of the innermost open bracket."""
        depth = depths(inputs)
        targets = torch.where(depth > 0, 1 + tops(inputs) + self.types * (depth == self.depth), 0)
        return Labels(targets=targets, mask=torch.ones_like(targets, dtype=torch.bool))

    def _labels(self, member: Bool[Tensor, "batch"]) -> Labels:
        last = torch.full_like(member, self.n - 1, dtype=torch.int64)
        return labels_at(last, member.long(), length=self.n)

    def _members(self, draws: Draws) -> Int[Tensor, "batch pos"]:
        """Strings of the language, from the walk of the class docstring.

        Depth and place have the same parity, so what is forced at depths 0 and `depth` and near the end
        amounts to clamping the depth between its least and its greatest possible value at each place.
        """
        integers = narrow(self.n)
        opening = packed_digits(draws, "closing", self.n, self.types + 1).clamp_(max=1).to(integers)
        place = torch.arange(1, self.n + 1, device=opening.device)
        lowest = (place % 2).to(integers)
        highest = torch.minimum(self.depth - (self.depth - place) % 2, self.n - place).to(integers)
        if self.depth <= 2:
            # The depth at every odd place is 1, so every step to an even one starts from there.
            depth = torch.minimum(torch.maximum(2 * opening, lowest), highest)
        else:
            depth = clamped_walk(2 * opening - 1, lowest, highest)
        before = torch.nn.functional.pad(depth[:, :-1], (1, 0))
        closings = (before - depth).clamp_(min=0)
        fresh = packed_digits(draws, "types", self.n, self.types).to(integers)
        kinds = paired_types(fresh, closings, types=self.types, depth=self.depth)
        return kinds.mul_(2).add_(closings)

    def _corrupted(
        self, members: Int[Tensor, "batch pos"], chosen: Bool[Tensor, "batch"], draws: Draws, attempt: int
    ) -> Int[Tensor, "batch pos"]:
        """The chosen rows with some brackets changed, the others as they are."""
        most = self._most_corruptions
        count = uniform_between(draws, f"corruptions {attempt}", 1, most) * chosen
        # The first `count` different places among so many uniform ones; a place repeats an earlier one with
        # probability below 1/10, so the chance that there are too few is below 2^-36.
        places = draws.integers(f"places {attempt}", (most + most // 4 + 20,), self.n)
        # In 32 bits: Triton has no atomic operations on narrower numbers.
        order = positions(places).int().expand_as(places)
        first = torch.full_like(members, places.shape[1], dtype=torch.int32)
        first.scatter_reduce_(1, places, order, "amin")
        fresh = first.gather(1, places) == order
        used = fresh & (fresh.cumsum(1) <= count.unsqueeze(1))
        old = members.gather(1, places)
        change = (old ^ 1) - old
        if self.types > 1:
            turn = packed_digits(draws, f"turns {attempt}", places.shape[1], self.types - 1) + 1
            beyond = (old >> 1) + turn >= self.types
            swap = (turn - beyond * self.types) * 2
            change = torch.where(draws.coins(f"kinds {attempt}", places.shape[1:]), swap, change)
        return members.int().scatter_add_(1, places, (change * used).int()).to(members.dtype)
