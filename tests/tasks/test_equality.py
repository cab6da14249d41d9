"""Equality in its three forms against plain string comparison, its laws, and the words of its errors."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.tasks import Task, task
from separatrix.tasks.equality import Equality
from separatrix.testing import TaskConformance


def halves(equality: Equality, row: list[int]) -> tuple[list[str], list[str]]:
    written = [equality.vocabulary.word(token) for token in row]
    written = [word for word in written if word != "<pad>"]
    middle = written.index("[SEP]")
    if equality.alice is None:
        return written[:middle], written[middle + 1 :]
    symbols = written[:middle] + written[middle + 1 :]
    others = [place for place in range(equality.n) if place not in equality.alice]
    return [symbols[place] for place in equality.alice], [symbols[place] for place in others]


def half_lengths(n: int) -> list[int]:
    return [k // 2 for k in range(2, n + 1, 2) if k >= n / 10]


class TestEquality(TaskConformance):
    typical = (
        Equality(n=24),
        Equality(n=6, alphabet=3),
        Equality(n=2),
        Equality(n=50, form="one"),
        Equality(n=8, form="one", alphabet=2, lengths="full"),
        Equality(n=30, form="ncp"),
        Equality(n=4, form="ncp", alphabet=3),
        Equality(n=12, alice=(11, 0, 5, 6, 3, 8)),
        Equality(n=4, form="one", alice=(1, 2)),
    )
    small = (
        Equality(n=6, alice=(0, 2, 4)),
        Equality(n=4, alice=(3, 0), alphabet=3),
        Equality(n=4, form="one", alphabet=2, alice=(2, 3)),
        Equality(n=6),
        Equality(n=4, alphabet=3),
        Equality(n=4, form="one", alphabet=2),
        Equality(n=6, form="ncp", alphabet=3),
        Equality(n=6, alphabet=1),
    )

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        assert isinstance(task, Equality)
        first, second = halves(task, row)
        if task.form != "ncp":
            return {len(first) + len(second): int(first == second)}
        # By the wording of the language: what may follow a prefix of w [SEP] w?
        written = [*first, "[SEP]", *second]
        answers = {}
        for place in range(len(written)):
            prefix = written[: place + 1]
            if "[SEP]" not in prefix:
                answers[place] = task.symbols
            else:
                done = len(prefix) - prefix.index("[SEP]") - 1
                answers[place] = int(first[done]) if done < len(first) else task.symbols + 1
        return answers

    def balance(self, task: Task) -> dict[int, float]:
        assert isinstance(task, Equality)
        if task.form == "ncp":
            return {task.symbols + 1: 1.0}
        if task.form == "one":
            return {0: 0.5, 1: 0.5}
        sizes = half_lengths(task.n) if task.alice is None else [task.n // 2]
        equal = 0.5 + 0.5 * sum(float(task.symbols) ** -half for half in sizes) / len(sizes)
        return {0: 1 - equal, 1: equal}


@pytest.mark.parametrize("n", [2, 18, 20, 22, 50, 60])
def test_lengths_are_even_from_a_tenth_of_n_to_n(n: int) -> None:
    expected = half_lengths(n)
    seen = Counter((Equality(n=n).sample(6000, seed=2).lengths // 2).tolist())
    assert sorted(seen) == expected
    for share in seen.values():
        assert abs(share / 6000 - 1 / len(expected)) < 5 * (1 / len(expected) / 6000) ** 0.5
    assert set(Equality(n=n).full_length().sample(20, seed=1).lengths.tolist()) == {n + 1}


def test_the_shortest_length_for_fifty_is_six() -> None:
    assert half_lengths(50)[0] == 3
    assert int(Equality(n=50).sample(2000, seed=2).lengths.min()) == 7


def test_random_negatives_are_uniform_strings() -> None:
    equality = Equality(n=4, alphabet=2, lengths="full")
    inputs = equality.sample(16000, seed=3).inputs
    pairs = Counter(((inputs[:, 0] * 2 + inputs[:, 1]) * 4 + inputs[:, 3] * 2 + inputs[:, 4]).tolist())
    for pair in range(16):
        share = 1 / 8 + 1 / 32 if pair // 4 == pair % 4 else 1 / 32
        assert abs(pairs[pair] / 16000 - share) < 5 * (share / 16000) ** 0.5


def test_one_changes_one_symbol_anywhere_to_any_other() -> None:
    equality = Equality(n=6, form="one", alphabet=4, lengths="full")
    batch = equality.sample(12000, seed=3)
    negative = batch.inputs[batch.labels.answer == 0]
    moved = (negative[:, 4:] - negative[:, :3]) % 4
    assert bool(((moved != 0).sum(1) == 1).all())
    kinds = Counter((moved != 0).int().argmax(1).mul(3).add(moved.amax(1) - 1).tolist())
    assert all(abs(kinds[kind] / len(negative) - 1 / 9) < 0.025 for kind in range(9))
    positive = batch.inputs[batch.labels.answer == 1]
    assert torch.equal(positive[:, 4:], positive[:, :3])


def test_the_change_falls_within_short_strings() -> None:
    equality = Equality(n=60, form="one", alphabet=2)
    batch = equality.sample(500, seed=3)
    for row, label in zip(batch.inputs.tolist(), batch.labels.answer.tolist(), strict=True):
        first, second = halves(equality, row)
        assert sum(a != b for a, b in zip(first, second, strict=True)) == 1 - label


def test_classes_of_continuations_stand_for_words() -> None:
    equality = Equality(n=4, form="ncp", alphabet=3)
    assert equality.continuations(1) == ("1",)
    assert equality.continuations(3) == ("0", "1", "2", "[SEP]")
    assert equality.continuations(4) == ()
    assert len(Equality(n=4, form="ncp").continuations(torch.tensor(1024))) == 1025
    for wrong in (equality, 5), (equality, -1), (Equality(n=4), 0):
        with pytest.raises(InvalidInput, match="Sets of continuations are numbered from 0 to"):
            wrong[0].continuations(wrong[1])


def test_continuations_are_what_the_language_allows() -> None:
    """Straight from the language: the words that lead from a prefix towards some member."""
    equality = Equality(n=6, form="ncp", alphabet=2)
    longest = 5  # longer strings than n allows, so that the language is not cut off at n
    members = [
        [*word, "[SEP]", *word]
        for half in range(1, longest + 1)
        for number in range(2**half)
        for word in [list(f"{number:0{half}b}")]
    ]
    for inputs in equality.enumerate():
        labels = equality.solve(inputs)
        for row, targets, mask in zip(inputs, labels.targets, labels.mask, strict=True):
            written = equality.render(row).split()
            assert int(mask.sum()) == len(written)
            for place in range(len(written)):
                prefix = written[: place + 1]
                follow = {
                    member[place + 1]
                    for member in members
                    if member[: place + 1] == prefix and len(member) > place + 1
                }
                assert set(equality.continuations(targets[place])) == follow


def test_partitions_separate_each_symbol_from_its_copy() -> None:
    for n in (2, 4, 6, 8):
        splits = Equality(n=n).partitions()
        assert ("odd/even" in splits) == (n % 4 == 0)
        for split in splits.values():
            for place in range(n // 2):
                assert (place in split.alice) != (place + n // 2 + 1 in split.alice)
        assert n // 2 in splits["halves"].alice


def test_numbers_beyond_int64_are_not_needed_to_decode() -> None:
    equality = Equality(n=1 << 12, alphabet=1000)
    assert equality.render(equality.decode(torch.tensor([0, 1_000_000]))[1]).endswith("[SEP] 0 0")
    assert equality.domain_size() > 10**9


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 7}, "equality needs an even n ≥ 2; got n=7. Try 8."),
        ({"n": 0}, "equality needs an even n ≥ 2; got n=0. Try 2."),
        ({"n": 10**26 + 1}, f"equality needs an even n ≥ 2; got n={10**26 + 1}. Try {1 << 18}."),
        ({"n": 1 << 60}, f"equality takes n up to 2^18; got n={1 << 60}. Try 400."),
        (
            {"n": 4, "alphabet": -1},
            "equality needs an alphabet of 1 to 2^20 symbols, or 0 for the paper's; got alphabet=-1. Try 2.",
        ),
        (
            {"n": 4, "form": "one", "alphabet": 1},
            "equality with one symbol changed needs an alphabet of 2 symbols or more; got alphabet=1. Try 2.",
        ),
        ({"n": 4, "form": "two"}, "equality knows form as random or one or ncp; got 'two'."),
        (
            {"n": 4, "alice": (0, 4)},
            "alice names n/2=2 different places from 0 to 3; got (0, 4).",
        ),
        ({"n": 4, "alice": (1, 1)}, "alice names n/2=2 different places from 0 to 3; got (1, 1)."),
        ({"n": 4, "alice": (1,)}, "alice names n/2=2 different places from 0 to 3; got (1,)."),
        ({"n": 2, "alice": [1]}, "alice names n/2=1 different places from 0 to 1; got [1]."),
        (
            {"n": 4, "form": "ncp", "alice": (0, 1)},
            (
                "The form ncp copies w behind the separator, so nobody holds w′; leave alice out or take "
                "form=random."
            ),
        ),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("equality", **parameters)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        ("random", "0 1 0 1", "equality needs one [SEP] between the two strings; got 0 of them."),
        ("random", "[SEP] 0 [SEP]", "equality needs one [SEP] between the two strings; got 2 of them."),
        (
            "random",
            "0 1 [SEP] 0",
            "equality needs two strings of equal length, one symbol or more; got 2 and 1 symbols.",
        ),
        (
            "random",
            "[SEP]",
            "equality needs two strings of equal length, one symbol or more; got 0 and 0 symbols.",
        ),
        ("random", "2 [SEP] 2", "'2' is no word of this task; known are 0 1, [SEP]."),
        ("random", "0 0 0 [SEP] 0 0 0", "This task's inputs have at most 5 words; got 7."),
        ("ncp", "0 [SEP] 1", "The form ncp takes only strings of the language, w [SEP] w; got '0 [SEP] 1'."),
    ],
)
def test_bad_text(form: Any, text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Equality(n=4, form=form, alphabet=2).parse(text)
    assert str(caught.value) == message


def test_named_places_take_full_length_only() -> None:
    with pytest.raises(InvalidInput) as caught:
        Equality(n=4, alice=(0, 2)).parse("0 [SEP] 0")
    assert str(caught.value) == "equality with places for the first string takes all n=4 symbols; got 2."


def test_named_places_are_split_between_the_parties() -> None:
    equality = Equality(n=6, alice=(5, 0, 2))
    (split,) = equality.partitions().values()
    assert split.alice == (0, 2, 3, 6)
    assert split.bob == (1, 4, 5)


WORD = st.sampled_from(["0", "1", "2", "3", "[SEP]", "<pad>", "01", "-1", ""])


@given(
    form=st.sampled_from(["random", "one", "ncp"]),
    text=st.text(max_size=8) | st.lists(WORD, max_size=7).map(" ".join),
)
def test_any_text_is_parsed_or_refused(form: Any, text: str) -> None:
    equality = Equality(n=4, form=form, alphabet=3)
    try:
        row = equality.parse(text)
    except InvalidInput:
        return
    assert equality.render(row) == " ".join(text.split())


AWKWARD = st.sampled_from([0, -1, (1 << 18) + 2, 1 << 20, 1 << 60, -(1 << 70)])


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(-3, 120) | AWKWARD,
    form=st.sampled_from(["random", "one", "ncp"]),
    alphabet=st.integers(-1, 10) | AWKWARD,
    lengths=st.sampled_from(["varied", "full"]),
)
def test_any_parameters_make_a_task_or_are_refused(n: int, form: Any, alphabet: int, lengths: Any) -> None:
    try:
        equality = Equality(n=n, form=form, alphabet=alphabet, lengths=lengths)
    except InvalidInput:
        return
    batch = equality.sample(3, seed=n)
    for row in batch.inputs:
        equality.check(row)
    assert torch.equal(equality.solve(batch.inputs).targets, batch.targets)
