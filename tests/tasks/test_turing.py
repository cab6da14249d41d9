"""Turing machine runs against a run on two stacks, their laws, their bounds, and the words of the errors."""

from __future__ import annotations

import itertools
import typing
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.tasks import Task, task
from separatrix.tasks._turing_inputs import PROBLEMS
from separatrix.tasks.machines import MACHINE_NAMES, execute, library_machine
from separatrix.tasks.turing import Turing
from separatrix.testing import TaskConformance

ACCEPTED = {"yes": 0.5, "no": 0.5}
LAWS = {
    "parity": {"even": 0.5, "odd": 0.5},
    "palindrome": ACCEPTED,
    "balanced-brackets": ACCEPTED,
    "binary-increment": {"done": 1.0},
    "unary-increment": {"done": 1.0},
    "binary-multiplication": {"done": 1.0},
}


class TestTuring(TaskConformance):
    samples = 64
    typical = (
        Turing(n=5, machine="unary-increment"),
        Turing(n=6, machine="binary-increment"),
        Turing(n=6, machine="binary-increment", form="direct", space=12),
        Turing(n=9, machine="parity", max_steps=12),
        Turing(n=7, machine="palindrome"),
        Turing(n=8, machine="palindrome", form="direct"),
        Turing(n=8, machine="balanced-brackets"),
        Turing(n=5, machine="binary-multiplication", form="direct"),
        Turing(n=4, machine="binary-multiplication"),
    )
    small = (
        Turing(n=3, machine="unary-increment", form="direct"),
        Turing(n=3, machine="binary-increment"),
        Turing(n=1, machine="parity"),
        Turing(n=5, machine="palindrome"),
        Turing(n=6, machine="balanced-brackets", form="direct"),
        Turing(n=4, machine="binary-multiplication", space=20),
        Turing(n=0, machine="busy-beaver-2"),
        Turing(n=0, machine="busy-beaver-3", form="direct"),
        Turing(n=0, machine="busy-beaver-4"),
    )

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        """The machine runs on two stacks: the cells left of its head, and the others."""
        assert isinstance(task, Turing)
        token, word = task.vocabulary.token, task.vocabulary.word
        rules, blank = task.program.transitions, task.program.blank
        prompt = [word(number) for number in row[: task.n + 2]]
        left: list[str] = []
        right = prompt[-2:0:-1]
        state, written = task.program.start, []
        while state not in task.program.halting:
            symbol = right.pop() if right else blank
            state, write, move = rules[state, symbol]
            written += [write, move, state]
            if move == "R":
                left.append(write)
            else:
                right.append(write)
                if move == "L":
                    right.append(left.pop() if left else blank)
        # How far the head has moved in all says where the left stack ends.
        moved = written[1::3].count("R") - written[1::3].count("L")
        cells = [*left, *reversed(right)]
        first = moved - len(left)
        final = [
            cells[place - first] if 0 <= place - first < len(cells) else blank
            for place in range(-task.origin, task.reach.space - task.origin)
        ]
        answers = [*(written if task.form == "cot" else []), *final, state]
        return {task.n + 1 + place: token(answer) for place, answer in enumerate(answers)}

    def balance(self, task: Task) -> dict[int, float]:
        assert isinstance(task, Turing)
        return {task.vocabulary.token(state): share for state, share in LAWS[task.machine].items()}


def tapes(machine: str, n: int, count: int) -> Counter[str]:
    drawn: Any = Turing(n=n, machine=machine, form="direct")  # type: ignore[arg-type]
    rows = drawn.sample(count, seed=3).inputs[:, 1 : n + 1].tolist()
    word = drawn.vocabulary.word
    return Counter("".join(map(word, row)) for row in rows)


def assert_uniform(seen: Counter[str], values: set[str], share: float) -> None:
    count = sum(seen.values())
    for value in values:
        expected = share / len(values)
        assert abs(seen[value] / count - expected) < 5 * (expected / count) ** 0.5, value


def test_every_machine_is_offered() -> None:
    offered = typing.get_args(typing.get_type_hints(Turing)["machine"])
    assert offered == MACHINE_NAMES == tuple(PROBLEMS)


def test_digits_are_uniform() -> None:
    every = {"".join(word) for word in itertools.product("01", repeat=4)}
    for machine in ("binary-increment", "parity"):
        assert_uniform(tapes(machine, 4, 4000), every, 1)
    assert_uniform(
        tapes("binary-multiplication", 4, 4000),
        {f"{a}{b}*{c}" for a, b, c in itertools.product("01", repeat=3)},
        1,
    )


def test_strokes_are_uniform() -> None:
    assert_uniform(tapes("unary-increment", 4, 4000), {"1" * k + "_" * (4 - k) for k in range(5)}, 1)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_half_are_palindromes_and_each_kind_is_uniform(n: int) -> None:
    every = {"".join(word) for word in itertools.product("01", repeat=n)}
    palindromes = {word for word in every if word == word[::-1]}
    seen = tapes("palindrome", n, 6000)
    assert_uniform(seen, palindromes, 0.5)
    assert_uniform(seen, every - palindromes, 0.5)


@pytest.mark.parametrize("n", [2, 6])
def test_half_are_balanced_and_each_kind_is_uniform(n: int) -> None:
    every = {"".join(word) for word in itertools.product("()", repeat=n)}
    balanced = set()
    for word in every:
        depths = list(itertools.accumulate(1 if bracket == "(" else -1 for bracket in word))
        if min(depths) >= 0 and depths[-1] == 0:
            balanced.add(word)
    seen = tapes("balanced-brackets", n, 8000)
    assert_uniform(seen, balanced, 0.5)
    assert_uniform(seen, every - balanced, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINE_NAMES)
def test_the_bounds_are_kept_and_reached(machine: str) -> None:
    """Over every tape of a few lengths the longest run and the widest tape are exactly the bound."""
    problem = PROBLEMS[machine]
    sizes = [0] if problem.least == 0 else range(problem.least, 10, 2 if problem.even else 1)
    for n in sizes:
        runs = []
        listed = Turing(n=n, machine=machine, form="direct")  # type: ignore[arg-type]
        for rows in listed.enumerate():
            for row in rows.tolist():
                tape = [listed.vocabulary.word(token) for token in row[1 : n + 1]]
                runs.append(execute(library_machine(machine), tape, max_steps=10**5))
        longest = max(len(done.steps) for done in runs)
        low = min(done.first for done in runs)
        high = max(done.first + len(done.tape) for done in runs)
        assert tuple(problem.reach(n)) == (longest, -low, high - low), n


def test_rows_read_well() -> None:
    turing = Turing(n=3, machine="palindrome")
    row = turing.parse("<s> 1 0 0 =")
    assert turing.render(row) == ("<s> 1 0 0 = _ R carry1 0 R carry1 0 R carry1 _ L last1 0 S no _ 0 0 _")
    batch = turing.solve(row.unsqueeze(0))
    written = [turing.render_target(target) for target in batch.targets[0][batch.mask[0]]]
    assert " ".join(written) == "_ R carry1 0 R carry1 0 R carry1 _ L last1 0 S no _ 0 0 _ no"
    busy = Turing(n=0, machine="busy-beaver-4", form="direct")
    assert busy.render(busy.parse("<s> =")) == "<s> = 1 0 1 1 1 1 1 1 1 1 1 1 1 1"
    multiply = Turing(n=5, machine="binary-multiplication", form="direct")
    assert multiply.render(multiply.parse("<s> 1 1 * 1 1 =")) == "<s> 1 1 * 1 1 = 1 0 0 1 _ _ _ _ _ _ _"


def test_splits() -> None:
    splits = Turing(n=4, machine="parity", form="direct").partitions()
    assert splits["prefix/suffix"].alice == (0, 1, 2, 3, 4)
    assert splits["halves"].alice == (0, 1, 2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 0}, "binary-increment needs n ≥ 1; got n=0. Try 8."),
        ({"n": -3, "machine": "palindrome"}, "palindrome needs n ≥ 2; got n=-3. Try 8."),
        ({"n": 7, "machine": "balanced-brackets"}, "balanced-brackets needs an even n ≥ 2; got n=7. Try 8."),
        ({"n": 5, "machine": "busy-beaver-4"}, "busy-beaver-4 starts on an empty tape; got n=5. Try 0."),
        (
            {"n": 1 << 60, "machine": "palindrome"},
            (
                "turing takes runs of at most 65,536 steps, and palindrome with n=1152921504606846976 may "
                "need more. Try 360."
            ),
        ),
        (
            {"n": 400, "machine": "balanced-brackets"},
            (
                "turing takes runs of at most 65,536 steps, and balanced-brackets with n=400 may need more. "
                "Try 360."
            ),
        ),
        (
            {"n": 4, "max_steps": 9},
            "binary-increment with n=4 needs max_steps from 10 to 65536, or 0 for 10; got max_steps=9.",
        ),
        (
            {"n": 4, "space": -1},
            "binary-increment with n=4 needs space from 6 to 65536, or 0 for 6; got space=-1.",
        ),
        ({"n": 4, "form": "long"}, "turing knows form as direct or cot; got 'long'."),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("turing", **parameters)
    assert str(caught.value) == message


def test_an_unknown_machine() -> None:
    with pytest.raises(InvalidInput, match=r"turing knows machine as unary-increment or .*; got 'paritty'\."):
        task("turing", n=4, machine="paritty")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "1 0 1 =",
            "parity needs the prompt '<s> tape =' with a tape of 3 digits 0 or 1; got '1 0 1 ='.",
        ),
        (
            "<s> 1 0 =",
            "parity needs the prompt '<s> tape =' with a tape of 3 digits 0 or 1; got '<s> 1 0 ='.",
        ),
        (
            "<s> 1 _ 0 =",
            "parity needs the prompt '<s> tape =' with a tape of 3 digits 0 or 1; got '<s> 1 _ 0 ='.",
        ),
        (
            "<s> 1 0 1 = 1 R p0",
            "Behind this prompt, word 8 must be p1; got p0. Leave the chain out and it is written for you.",
        ),
        (
            "<s> 1 0 1 = 1 R p1",
            "Behind this prompt, word 9 must be 0; got <pad>. Leave the chain out and it is written for you.",
        ),
        (
            "<s> 1 0 2 =",
            "'2' is no word of this task; known are p0 p1 even odd, _ 0 1, L R S, <s> =.",
        ),
        ("", "parity needs the prompt '<s> tape =' with a tape of 3 digits 0 or 1; got ''."),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Turing(n=3, machine="parity").parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("machine", "text", "tape"),
    [
        ("unary-increment", "<s> 1 _ 1 =", "zero to 3 strokes 1 and then blanks _"),
        ("binary-multiplication", "<s> * 1 1 =", "1 digits, a star * and 1 digits"),
        ("binary-multiplication", "<s> 1 * * =", "1 digits, a star * and 1 digits"),
    ],
)
def test_bad_tapes(machine: Any, text: str, tape: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Turing(n=3, machine=machine).parse(text)
    assert (
        str(caught.value) == f"{machine} needs the prompt '<s> tape =' with a tape of {tape}; got '{text}'."
    )


WORDS = st.sampled_from(["<s>", "=", "0", "1", "_", "R", "p0", "p1", "even", "odd", "<pad>", "x", "\n"])


@settings(deadline=None)
@given(st.one_of(st.text(max_size=30), st.lists(WORDS, max_size=30).map(" ".join)))
def test_any_text_is_a_row_or_an_error(text: str) -> None:
    turing = Turing(n=2, machine="parity")
    try:
        row = turing.parse(text)
    except InvalidInput:
        return
    assert turing.parse(turing.render(row)).equal(row)


@settings(deadline=None, max_examples=40)
@given(
    n=st.one_of(st.integers(-2, 12), st.integers()),
    machine=st.sampled_from(MACHINE_NAMES),
    form=st.sampled_from(["direct", "cot"]),
    max_steps=st.sampled_from([0, 0, 1, -5, 5000, 1 << 60]),
    space=st.sampled_from([0, 0, 1, -5, 50, 1 << 60]),
)
def test_any_numbers_make_a_task_or_an_error(**parameters: Any) -> None:
    try:
        turing = task("turing", **parameters)
    except InvalidInput:
        return
    if turing.length > 20_000:
        return
    batch = turing.sample(2, seed=1)
    assert batch.inputs.shape == (2, turing.length)
    turing.check(batch.inputs[0])
    assert turing.domain_size() >= 1
