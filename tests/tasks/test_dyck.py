"""Bounded Dyck against a stack, the law of its walk and of its corruptions, and the words of its errors."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.randomness import Draws
from separatrix.tasks import Task, task
from separatrix.tasks._packed_digits import packed_digits
from separatrix.tasks.brackets import clamped_walk, depths, in_bounded_dyck, levels, openers
from separatrix.tasks.dyck import BRACKETS, Dyck
from separatrix.testing import TaskConformance

PARTNER = dict(zip(BRACKETS[::2], BRACKETS[1::2], strict=True))


def balanced(text: str, depth: int) -> bool:
    stack: list[str] = []
    for bracket in text:
        if bracket in PARTNER:
            stack.append(PARTNER[bracket])
            if len(stack) > depth:
                return False
        elif not stack or stack.pop() != bracket:
            return False
    return not stack


class TestDyck(TaskConformance):
    typical = (
        Dyck(n=40),
        Dyck(n=2),
        Dyck(n=18, types=1, depth=9),
        Dyck(n=24, types=3, depth=4),
        Dyck(n=20, types=8, depth=1),
        Dyck(n=60, types=2, depth=12),
    )
    small = (
        Dyck(n=2, types=4),
        Dyck(n=6),
        Dyck(n=4, types=3, depth=1),
        Dyck(n=10, types=1, depth=3),
        Dyck(n=8, types=1, depth=1 << 20),
    )

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        assert isinstance(task, Dyck)
        text = "".join(BRACKETS[token] for token in row)
        return {task.n - 1: int(balanced(text, task.depth))}

    def balance(self, task: Task) -> dict[int, float]:
        return {0: 0.5, 1: 0.5}


class TestNextCharacters(TaskConformance):
    samples = 48
    typical = (
        Dyck(n=40, form="next"),
        Dyck(n=2, form="next"),
        Dyck(n=18, types=1, depth=9, form="next"),
        Dyck(n=24, types=3, depth=4, form="next"),
        Dyck(n=20, types=8, depth=1, form="next"),
        Dyck(n=60, types=2, depth=12, form="next"),
    )
    small = (
        Dyck(n=2, types=4, form="next"),
        Dyck(n=10, form="next"),
        Dyck(n=4, types=3, depth=1, form="next"),
        Dyck(n=12, types=1, depth=3, form="next"),
        Dyck(n=8, types=3, depth=1 << 20, form="next"),
    )

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        """By trying: a character may follow if the prefix with it can be completed to a member."""
        assert isinstance(task, Dyck)
        text = "".join(BRACKETS[token] for token in row)
        answers = {}
        for end in range(1, task.n + 1):
            stack = open_brackets(text[:end])
            legal = {
                bracket
                for bracket in task.vocabulary.describe().split(" ")
                if viable(text[:end] + bracket, task.depth)
            }
            if not stack:
                legal.add("end")
            fitting = [
                number for number in range(2 * task.types + 1) if set(task.continuations(number)) == legal
            ]
            assert len(fitting) == 1
            answers[end - 1] = fitting[0]
        return answers

    def balance(self, task: Task) -> dict[int, float]:
        """Behind a member nothing is open."""
        return {0: 1.0}


def viable(prefix: str, depth: int) -> bool:
    """Whether some member begins with it: closing what is open makes one, or nothing does."""
    stack: list[str] = []
    for bracket in prefix:
        if bracket in PARTNER:
            stack.append(bracket)
        elif not stack or PARTNER[stack.pop()] != bracket:
            return False
    return balanced(prefix + "".join(PARTNER[bracket] for bracket in reversed(stack)), depth)


def test_members_of_the_form_next_are_all_and_each_once() -> None:
    listed = [
        Dyck(n=8, types=2, depth=3, form="next").render(row)
        for rows in Dyck(n=8, types=2, depth=3, form="next").enumerate()
        for row in rows
    ]
    every = Dyck(n=8, types=2, depth=3)
    members = {every.render(row) for rows in every.enumerate() for row in rows[every.solve(rows).answer == 1]}
    assert len(listed) == len(set(listed))
    assert set(listed) == members


def test_the_form_next_refuses_what_is_no_member() -> None:
    writing = Dyck(n=4, form="next")
    with pytest.raises(InvalidInput, match=r"The form next takes only members, .* got '\(\(\(\('"):
        writing.parse("((((")
    with pytest.raises(InvalidInput, match="numbered from 0 to 4 in the form next; got 5"):
        writing.continuations(5)
    with pytest.raises(InvalidInput, match="in the form recognise"):
        Dyck(n=4).continuations(0)
    assert writing.partitions() == {}
    assert Dyck(n=4) == Dyck(n=4, form="recognise")


@pytest.mark.parametrize("n", [2, 4, 6, 8])
def test_members_of_dyck_2_2_number_two_to_the_n_minus_one(n: int) -> None:
    dyck = Dyck(n=n)
    members = torch.cat([rows[dyck.solve(rows).answer == 1] for rows in dyck.enumerate()])
    assert len(members) == 2 ** (n - 1)
    # Alice's half decides Bob's among the members, so they are a fooling set for the odd/even split.
    alice = {tuple(row) for row in members[:, list(dyck.partitions()["odd/even"].alice)].tolist()}
    assert len(alice) == len(members)


def walk_law(n: int, types: int, depth: int) -> dict[str, Fraction]:
    """The law of members as the paper words it: n − 2 steps, then close what is open or add a pair."""
    law: dict[str, Fraction] = {"": Fraction(1)}

    def spread(choices: Any) -> dict[str, Fraction]:
        after: dict[str, Fraction] = {}
        for text, share in law.items():
            options = choices(open_brackets(text))
            for option in options:
                after[text + option] = after.get(text + option, Fraction(0)) + share / len(options)
        return after

    opening = list(BRACKETS[: 2 * types : 2])
    for _ in range(n - 2):
        law = spread(
            lambda stack: (
                [PARTNER[stack[-1]]]
                if len(stack) == depth
                else opening + ([PARTNER[stack[-1]]] if stack else [])
            )
        )
    return spread(
        lambda stack: (
            ["".join(PARTNER[bracket] for bracket in reversed(stack))]
            if stack
            else [bracket + PARTNER[bracket] for bracket in opening]
        )
    )


def open_brackets(text: str) -> list[str]:
    stack: list[str] = []
    for bracket in text:
        if bracket in PARTNER:
            stack.append(bracket)
        else:
            stack.pop()
    return stack


def sampled_members(dyck: Dyck, count: int) -> Counter[str]:
    batch = dyck.sample(count, seed=7)
    return Counter(dyck.render(row) for row in batch.inputs[batch.labels.answer == 1])


@pytest.mark.slow
@pytest.mark.parametrize(("n", "types", "depth"), [(6, 2, 2), (8, 1, 2), (6, 3, 1), (4, 3, 2), (2, 2, 2)])
def test_members_follow_the_papers_walk(n: int, types: int, depth: int) -> None:
    law = walk_law(n, types, depth)
    seen = sampled_members(Dyck(n=n, types=types, depth=depth), 20000)
    assert set(seen) <= set(law)
    total = seen.total()
    for text, share in law.items():
        spread = 5 * (float(share * (1 - share)) / total) ** 0.5
        assert abs(seen[text] / total - float(share)) <= spread, text


def test_deeper_walks_end_in_time() -> None:
    dyck = Dyck(n=8, types=1, depth=4)
    seen = sampled_members(dyck, 20000)
    assert set(seen) == {
        text for text in map("".join, itertools.product("()", repeat=8)) if balanced(text, 4)
    }
    total = seen.total()
    # Four openings in a row: forced once, then three coins; all the rest is forced.
    assert abs(seen["(((())))"] / total - 1 / 8) < 0.02
    # Coins at the second to sixth place, but none where nothing is open or all that is left must close.
    assert abs(seen["()()()()"] / total - 1 / 8) < 0.02
    assert abs(seen["(()(()))"] / total - 1 / 16) < 0.015


@pytest.mark.parametrize("types", [1, 2, 4])
def test_corruptions_are_few_different_and_of_both_kinds(types: int) -> None:
    dyck = Dyck(n=100, types=types)
    draws = Draws(seed=3, stream="dyck", batch=4000)
    members = dyck._members(draws)
    everyone = torch.ones(4000, dtype=torch.bool)
    corrupted = dyck._corrupted(members, everyone, draws, 0)
    changed = members != corrupted
    counts = Counter(changed.sum(1).tolist())
    assert sorted(counts) == list(range(1, 11))
    assert all(abs(counts[count] / 4000 - 1 / 10) < 0.025 for count in counts)
    assert bool((changed.double().mean(0) - 5.5 / 100).abs().max() < 0.018)
    turned = ((members ^ corrupted) & 1).bool()[changed]
    swapped = (members >> 1 != corrupted >> 1)[changed]
    assert bool((turned ^ swapped).all())
    assert abs(turned.double().mean().item() - (1 if types == 1 else 0.5)) < 0.03
    if types > 1:
        moves = (((corrupted >> 1) - (members >> 1)) % types)[changed][swapped]
        shares = torch.bincount(moves, minlength=types)[1:] / len(moves)
        assert bool((shares - 1 / (types - 1)).abs().max() < 0.03)
    assert torch.equal(dyck._corrupted(members, ~everyone, draws, 0), members)


def test_a_corruption_that_always_leaves_a_member_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dyck, "_corrupted", lambda self, members, chosen, draws, attempt: members.clone())
    dyck = Dyck(n=40)
    batch = dyck.sample(200, seed=1)
    assert torch.equal(dyck.solve(batch.inputs).targets, batch.targets)
    assert 0 < batch.labels.answer.sum() < 200


def test_redraws_are_rarely_needed() -> None:
    """The last resort is reached so rarely that it does not show in the law, even in the worst case."""
    for dyck in (Dyck(n=20), Dyck(n=20, types=1, depth=10), Dyck(n=40, types=1, depth=20), Dyck(n=400)):
        draws = Draws(seed=5, stream="dyck", batch=4000)
        everyone = torch.ones(4000, dtype=torch.bool)
        rows = dyck._corrupted(dyck._members(draws), everyone, draws, 0)
        again = dyck.solve(rows.long()).answer.double().mean().item()
        assert again ** (1 + dyck.redraws) < 1e-10, (dyck, again)


def test_depths_levels_and_openers() -> None:
    rows = Dyck(n=8, depth=3).parse("([()])[]").unsqueeze(0)
    assert depths(rows).tolist() == [[1, 2, 3, 2, 1, 0, 1, 0]]
    assert levels(rows).tolist() == [[1, 2, 3, 3, 2, 1, 1, 1]]
    assert openers(rows).tolist() == [[0, 1, 2, 2, 1, 0, 6, 6]]


@pytest.mark.parametrize("depth", [1, 2, 8, 9, 30])
def test_openers_find_the_partner_that_a_stack_finds(depth: int) -> None:
    dyck = Dyck(n=60, types=1, depth=depth)
    for row, found in zip(
        members := dyck._members(Draws(seed=1, stream="dyck", batch=50)),
        openers(members).tolist(),
        strict=True,
    ):
        stack: list[int] = []
        for place, token in enumerate(row.tolist()):
            if token % 2 == 0:
                stack.append(place)
                assert found[place] == place
            else:
                assert found[place] == stack.pop()


@pytest.mark.parametrize("depth", [2, 8, 9, 30])
def test_types_are_compared_at_every_depth(depth: int) -> None:
    dyck = Dyck(n=60, types=3, depth=depth)
    rows = dyck._members(Draws(seed=1, stream="dyck", batch=60)).long()
    assert bool(in_bounded_dyck(rows, depth=depth).all())
    places = torch.arange(60).unsqueeze(1)
    swapped = rows.scatter(1, places, (rows.gather(1, places) + 2) % 6)
    assert not bool(in_bounded_dyck(swapped, depth=depth).any())
    texts = ["".join(BRACKETS[token] for token in row) for row in swapped.tolist()]
    assert not any(balanced(text, depth) for text in texts)


@settings(max_examples=50, deadline=None)
@given(data=st.data(), count=st.integers(1, 40))
def test_clamped_walk_is_the_step_by_step_walk(data: st.DataObject, count: int) -> None:
    steps = data.draw(st.lists(st.sampled_from([-1, 1]), min_size=count, max_size=count))
    bounds = [sorted(data.draw(st.tuples(st.integers(-3, 5), st.integers(-3, 5)))) for _ in range(count)]
    low, high = zip(*bounds, strict=True)
    walked = clamped_walk(torch.tensor([steps]), torch.tensor(low), torch.tensor(high))
    value, expected = 0, []
    for step, (floor, ceiling) in zip(steps, bounds, strict=True):
        value = min(max(value + step, floor), ceiling)
        expected.append(value)
    assert walked.tolist() == [expected]


@pytest.mark.parametrize("base", [2, 3, 6, 9])
def test_packed_digits_are_uniform_and_independent(base: int) -> None:
    digits = packed_digits(Draws(seed=2, stream="digits", batch=3000), "site", 45, base).long()
    assert digits.shape == (3000, 45)
    total = digits.numel()
    for law, values in ((base, digits), (base**2, digits[:, :-1] * base + digits[:, 1:])):
        shares = torch.bincount(values.flatten(), minlength=law) / values.numel()
        assert len(shares) == law
        assert float((shares - 1 / law).abs().max()) < 6 * (1 / law / total) ** 0.5


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 7}, "Dyck needs an even length n ≥ 2; got n=7. Try 8."),
        ({"n": 0}, "Dyck needs an even length n ≥ 2; got n=0. Try 2."),
        ({"n": 10**26 + 1}, f"Dyck needs an even length n ≥ 2; got n={10**26 + 1}. Try {1 << 20}."),
        ({"n": -5}, "Dyck needs an even length n ≥ 2; got n=-5. Try 2."),
        ({"n": 1 << 60}, f"Dyck takes lengths up to 2^20; got n={1 << 60}. Try 400."),
        ({"n": 4, "types": 0}, "Dyck needs 1 to 8 types of brackets; got types=0. Try 2."),
        ({"n": 4, "types": 9}, "Dyck needs 1 to 8 types of brackets; got types=9. Try 2."),
        ({"n": 4, "depth": 0}, "Dyck needs 1 ≤ depth ≤ 2^20; got depth=0. Try 2."),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("dyck", **parameters)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("()", "This task's inputs have exactly 4 words; got 2."),
        ("()[}", "'}' is no word of this task; known are ( ) [ ]."),
        ("() )", "' ' is no word of this task; known are ( ) [ ]."),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Dyck(n=4).parse(text)
    assert str(caught.value) == message


def test_check_names_a_row_that_is_no_input() -> None:
    with pytest.raises(InvalidInput, match=r"Tokens of dyck run from 0 to 3; got 4\."):
        Dyck(n=4).check(torch.tensor([0, 1, 2, 4]))
    with pytest.raises(InvalidInput, match=r"An input of dyck is int64 of shape \(4,\); got int64 of shape"):
        Dyck(n=4).check(torch.tensor([0, 1]))


@given(text=st.text(max_size=8) | st.text("()[]{} ", min_size=3, max_size=7))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    dyck = Dyck(n=4)
    try:
        row = dyck.parse(text)
    except InvalidInput:
        return
    assert dyck.render(row) == text.strip()


AWKWARD = st.sampled_from([0, -1, 1 << 20, (1 << 20) + 2, 1 << 60, -(1 << 70)])


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(-3, 120) | AWKWARD.filter(lambda n: n != 1 << 20),
    types=st.integers(-1, 10) | AWKWARD,
    depth=st.integers(-1, 70) | AWKWARD,
)
def test_any_parameters_make_a_task_or_are_refused(n: int, types: int, depth: int) -> None:
    try:
        dyck = Dyck(n=n, types=types, depth=depth)
    except InvalidInput:
        return
    batch = dyck.sample(3, seed=n)
    for row in batch.inputs:
        dyck.check(row)
    assert torch.equal(dyck.solve(batch.inputs).targets, batch.targets)
