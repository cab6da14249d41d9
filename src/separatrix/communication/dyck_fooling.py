"""S-L1: the members of Dyck-(2,2) of length N are a fooling set. Alice holds the odd places, Bob the even.

Counted from 1, the depth after every odd place is 1: it is odd, and at most 2. So Alice's bracket at an odd
place either opens from depth 0, and then Bob's before it closed the outer bracket, or closes from depth 2,
and then Bob's before it opened one of the same type. Bob's last bracket closes. Hence each of Alice's strings
has exactly one partner, `partner`, or none, and if two members are crossed neither crossing is a member.

Her first bracket opens and every other one is free, so there are types·(2·types)^(N/2 − 1) members, which is
2^(N−1) for two types; the same number comes out of the automaton's transfer matrix at every N. N counts
brackets, not pairs. The argument needs the depth to be 2, and holds for any number of types.

>>> member_count(14), counted_by_automaton(14), len(members(14))
(8192, 8192, 8192)
>>> print(check_members(10))
a fooling set of 512 pairs with the answer 1: at least 9 bits
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.communication.automata import AutomatonEntries, dyck_automaton
from separatrix.communication.entries import Entries
from separatrix.communication.fooling import FoolingCheck, check_fooling_set
from separatrix.communication.task_problems import task_problem
from separatrix.errors import InvalidInput, TooLarge
from separatrix.tasks.dyck import Dyck
from separatrix.tasks.interface import Partition

__all__ = ["check_members", "counted_by_automaton", "member_count", "members", "partner"]

_MOST_MEMBERS: Final = 1 << 20
_DEPTH: Final = 2
_SPLIT: Final = "odd/even"


def member_count(n: int, *, types: int = 2) -> int:
    """Members of Dyck-(types, 2) of length n in closed form: types·(2·types)^(n/2 − 1)."""
    _task(n, types)
    return int(types * (2 * types) ** (n // 2 - 1))


def counted_by_automaton(n: int, *, types: int = 2) -> int:
    """The same by the transfer matrix of the minimal automaton, in whole numbers."""
    _task(n, types)
    return dyck_automaton(types=types, depth=_DEPTH).count(n)


def members(n: int, *, types: int = 2) -> Int[Tensor, "member pos"]:
    """All of them, as tokens of the task dyck."""
    if member_count(n, types=types) > _MOST_MEMBERS:
        raise TooLarge(
            f"Dyck-({types},2) has {types}·{2 * types}^{n // 2 - 1} members of length {n}; at most "
            f"{_MOST_MEMBERS:,} are listed. `member_count` counts them at any length."
        )
    listing = Dyck(n=n, types=types, depth=_DEPTH, form="next")
    return listing.decode(torch.arange(listing.domain_size()))


def partner(alice: Int[Tensor, "batch half"]) -> Int[Tensor, "batch half"]:
    """The only string at the even places that makes a member of these at the odd ones, as the proof finds it.

    For strings of Alice's that have one, that is, whose first bracket opens.
    """
    if bool((alice[:, 0] % 2 == 1).any()):
        raise InvalidInput("No member begins with a closing bracket, so such a string has no partner.")
    answers = torch.empty_like(alice)
    outer = alice[:, 0]
    for place in range(alice.shape[1]):
        last = place == alice.shape[1] - 1
        following = outer if last else alice[:, place + 1]
        # Before an opening bracket, and at the end, the outer one is closed; else the inner one is opened.
        closes = torch.ones_like(outer, dtype=torch.bool) if last else following % 2 == 0
        answers[:, place] = torch.where(closes, outer + 1, following - 1)
        outer = torch.where(closes, following, outer)
    return answers


def check_members(
    n: int, *, types: int = 2, by: Literal["automaton", "task"] = "automaton", workers: int = 1
) -> FoolingCheck:
    """Check all members of length n two by two: 2^13 of them, 33.5 million pairs, at n = 14.

    Crossings are decided by the minimal automaton, or by the task's own oracle, which takes longer.
    """
    strings = members(n, types=types)
    split = task_problem(_task(n, types), _SPLIT)
    # Both tables number a string by its digits.
    entries: Entries = split
    if by == "automaton":
        automaton = dyck_automaton(types=types, depth=_DEPTH)
        entries = AutomatonEntries(automaton, Partition.odd_even(n), title=split.title)
    return check_fooling_set(entries, np.asarray(split.numbers(strings)), workers=workers)


def _task(n: int, types: int) -> Dyck:
    return Dyck(n=n, types=types, depth=_DEPTH)
