"""S-L1: all members of Dyck-(2,2), split between odd and even places, against strings tried one by one."""

from __future__ import annotations

import itertools

import pytest
import torch

from separatrix.communication import dyck_fooling
from separatrix.communication.dyck_fooling import (
    check_members,
    counted_by_automaton,
    member_count,
    members,
    partner,
)
from separatrix.communication.fooling_search import find_fooling_sets
from separatrix.communication.matrices import matrix_of
from separatrix.communication.task_problems import task_problem
from separatrix.errors import InvalidInput, TooLarge
from separatrix.tasks import task
from separatrix.tasks.brackets import path_counts


def is_member(string: tuple[int, ...]) -> bool:
    """A stack, bracket by bracket: even numbers open, the next odd one closes."""
    stack: list[int] = []
    for bracket in string:
        if bracket % 2 == 0:
            stack.append(bracket)
            if len(stack) > 2:
                return False
        elif not stack or stack.pop() != bracket - 1:
            return False
    return not stack


@pytest.mark.parametrize(("n", "types"), [(2, 2), (4, 2), (6, 2), (8, 2), (4, 3), (6, 3), (8, 1)])
def test_members_are_all_there_are(n: int, types: int) -> None:
    strings = {string for string in itertools.product(range(2 * types), repeat=n) if is_member(string)}
    listed = members(n, types=types)
    assert {tuple(row) for row in listed.tolist()} == strings
    assert len(listed) == len(strings) == member_count(n, types=types)
    if types == 2:
        assert len(strings) == 2 ** (n - 1)


@pytest.mark.parametrize(("n", "types"), [(2, 2), (6, 2), (4, 3), (8, 1)])
def test_each_pair_crosses_to_no_member(n: int, types: int) -> None:
    """The double loop that the check is to be as good as."""
    strings = [tuple(row) for row in members(n, types=types).tolist()]
    for first, second in itertools.permutations(strings, 2):
        crossed = tuple(part[place % 2][place] for place in range(n) for part in ((first, second),))
        assert not is_member(crossed)
    found = check_members(n, types=types)
    assert found.holds
    assert (found.size, found.value) == (len(strings), 1)


@pytest.mark.parametrize("n", [2, 4, 8, 12])
def test_the_proofs_partner_is_bobs_string(n: int) -> None:
    strings = members(n)
    assert torch.equal(partner(strings[:, ::2]), strings[:, 1::2])


def test_the_partner_is_the_only_one() -> None:
    """Of Alice's 64 strings of three brackets, those that open first have one partner, the others none."""
    for alice in itertools.product(range(4), repeat=3):
        found = [
            bob
            for bob in itertools.product(range(4), repeat=3)
            if is_member(tuple(itertools.chain(*zip(alice, bob, strict=True))))
        ]
        if alice[0] % 2:
            assert not found
        else:
            assert found == [tuple(partner(torch.tensor([alice]))[0].tolist())]
    with pytest.raises(InvalidInput, match="No member begins with a closing bracket"):
        partner(torch.tensor([[1, 0]]))


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 10, 12])
def test_task_and_automaton_agree_on_every_pair(n: int) -> None:
    by_automaton, by_task = (check_members(n, by=by) for by in ("automaton", "task"))
    assert by_automaton == by_task
    assert by_task.holds
    assert by_task.bits == n - 1


@pytest.mark.slow
def test_two_to_the_thirteen_members_are_checked_pair_by_pair() -> None:
    found = check_members(14)
    assert found.holds
    assert (found.size, found.pairs, found.bits) == (2**13, 33_550_336, 13)


@pytest.mark.slow
def test_two_to_the_thirteen_members_by_the_tasks_own_oracle() -> None:
    assert check_members(14, by="task") == check_members(14)


def test_closed_form_and_automaton_count_the_same_far_beyond() -> None:
    for n in range(2, 402, 2):
        assert member_count(n) == counted_by_automaton(n) == 2 ** (n - 1)
        # A third way: balanced walks times the types of their pairs.
        assert member_count(n) == path_counts(n, 2)[0][0] * 2 ** (n // 2)
    for types in (1, 3, 5):
        for n in (2, 10, 60):
            assert member_count(n, types=types) == counted_by_automaton(n, types=types)


def test_no_fooling_set_is_larger() -> None:
    """At length 6, where the search can prove it."""
    best = find_fooling_sets(matrix_of(task_problem(task("dyck", n=6), "odd/even")))[0]
    assert (best.value, best.size, best.optimal) == (1, 2**5, True)


def test_at_depth_three_the_members_are_no_fooling_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The argument needs depth 2: with a third level Bob has a choice, and the check must notice."""
    monkeypatch.setattr(dyck_fooling, "_DEPTH", 3)
    monkeypatch.setattr(dyck_fooling, "member_count", lambda n, types: 0)
    for by in ("automaton", "task"):
        found = check_members(6, by=by)
        assert not found.holds
        assert found.violation is not None
        assert found.violation.second is not None


def test_odd_lengths_and_long_lists_are_refused() -> None:
    with pytest.raises(InvalidInput, match="Dyck needs an even length"):
        member_count(7)
    with pytest.raises(TooLarge, match=r"has 2·4\^199 members of length 400; at most 1,048,576 are listed"):
        members(400)
