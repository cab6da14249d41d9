"""Turing machines: the text format, the simulator, what the library's machines compute, and the errors."""

from __future__ import annotations

import dataclasses
import itertools
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput, UnknownName
from separatrix.tasks.machines import (
    MACHINE_NAMES,
    MOVES,
    Machine,
    Transition,
    execute,
    library_machine,
    parse_machine,
)

FLIP = """
# turns every bit round
machine: flip
start: go
halt: done
go 0 -> go 1 R
go 1 -> go 0 R
go _ -> done S
"""


def left_on_tape(name: str, tape: str) -> str:
    done = execute(library_machine(name), tape, max_steps=10_000)
    assert done.outcome == "halted"
    return "".join(done.tape).strip("_")


def halts_in(name: str, tape: str) -> str:
    return execute(library_machine(name), tape, max_steps=10_000).state


def words(alphabet: str, longest: int) -> list[str]:
    return ["".join(word) for n in range(longest + 1) for word in itertools.product(alphabet, repeat=n)]


@pytest.mark.parametrize(
    ("states", "steps", "ones"), [(2, 6, 4), (3, 14, 6), (4, 107, 13)], ids=["two", "three", "four"]
)
def test_busy_beavers(states: int, steps: int, ones: int) -> None:
    machine = library_machine(f"busy-beaver-{states}")
    done = execute(machine, "", max_steps=1000)
    assert (len(machine.live), len(done.steps), done.tape.count("1")) == (states, steps, ones)
    assert done.state == "H"


def test_unary_increment_adds_a_stroke() -> None:
    assert [left_on_tape("unary-increment", "1" * k) for k in range(6)] == ["1" * k for k in range(1, 7)]


def test_binary_increment_adds_one() -> None:
    for word in words("01", 7)[1:]:
        found = left_on_tape("binary-increment", word)
        assert int(found, 2) == int(word, 2) + 1
        assert len(found) == len(word) + (word == "1" * len(word))


def test_parity_counts_ones() -> None:
    assert all(halts_in("parity", word) == ("even", "odd")[word.count("1") % 2] for word in words("01", 7))


def test_palindrome_reads_both_ways() -> None:
    assert all((halts_in("palindrome", word) == "yes") == (word == word[::-1]) for word in words("01", 9))


def test_balanced_brackets_cancel() -> None:
    for word in words("()", 9):
        reduced = word
        while "()" in reduced:
            reduced = reduced.replace("()", "")
        assert halts_in("balanced-brackets", word) == ("no" if reduced else "yes")


def test_binary_multiplication_multiplies_whatever_the_lengths() -> None:
    factors = words("01", 4)[1:]
    for first, second in itertools.product(factors, repeat=2):
        found = left_on_tape("binary-multiplication", f"{first}*{second}")
        assert int(found or "0", 2) == int(first, 2) * int(second, 2)


@pytest.mark.parametrize("name", MACHINE_NAMES)
def test_the_library_reads_its_own_writing(name: str) -> None:
    machine = library_machine(name)
    assert machine.name == name
    assert parse_machine(machine.render()) == machine
    assert hash(parse_machine(machine.render())) == hash(machine)


def test_text_format() -> None:
    machine = parse_machine(FLIP)
    assert machine.states == ("go", "done")
    assert machine.alphabet == ("_", "0", "1")
    assert machine.transitions["go", "0"] == Transition("go", "1", "R")
    assert machine.transitions["go", "_"] == Transition("done", "_", "S")
    assert machine.render() == (
        "machine: flip\nstates: go done\nalphabet: _ 0 1\nblank: _\nstart: go\nhalt: done\n"
        "go 0 -> go 1 R\ngo 1 -> go 0 R\ngo _ -> done S\n"
    )


def test_comments_and_arrows() -> None:
    assert parse_machine(
        "machine: flip # turns bits\nstart: go # here\nhalt: done # there\nblank: _ # nothing\n"
        "go 0 → go 1 R # on -> and on\ngo 1 -> go 0 R #\ngo _ -> done S #end"
    ) == parse_machine(FLIP)


def test_a_symbol_may_be_the_sign_of_a_comment() -> None:
    machine = parse_machine(
        "alphabet: # _ #1\nblank: #\nstart: go\nhalt: end\n"
        "go # -> go #1 R # writes\ngo #1 -> end # S\ngo _ -> end S"
    )
    assert machine.alphabet == ("#", "_", "#1")
    assert machine.blank == "#"
    assert machine.transitions["go", "#"] == Transition("go", "#1", "R")
    assert machine.transitions["go", "#1"] == Transition("end", "#", "S")
    assert parse_machine(machine.render()) == machine


def test_any_stands_for_the_symbols_without_a_rule() -> None:
    machine = parse_machine("alphabet: _ a b\nstart: go\nhalt: end\ngo any -> end b L\ngo a -> go R")
    assert machine.name == "unnamed"
    assert machine.transitions["go", "a"] == Transition("go", "a", "R")
    assert machine.transitions["go", "b"] == machine.transitions["go", "_"] == Transition("end", "b", "L")


def test_a_run_says_how_it_ended_and_which_cells_it_saw() -> None:
    machine = parse_machine(FLIP)
    done = execute(machine, "01", max_steps=9)
    assert (done.outcome, done.state, done.head, done.first, done.text()) == (
        "halted",
        "done",
        2,
        0,
        "1 0 _",
    )
    assert [tuple(step) for step in done.steps] == [
        (0, "go", "0", ("go", "1", "R")),
        (1, "go", "1", ("go", "0", "R")),
        (2, "go", "_", ("done", "_", "S")),
    ]
    assert execute(machine, "0110", max_steps=2).outcome == "out of steps"
    cut = execute(machine, "0", max_steps=9, space=1)
    assert (cut.outcome, len(cut.steps)) == ("out of space", 1)
    assert execute(machine, "01", max_steps=9, space=3).outcome == "halted"
    leftward = parse_machine("start: go\nhalt: end\ngo 0 -> go L\ngo _ -> end 0 S")
    assert (execute(leftward, "0", max_steps=9).first, execute(leftward, "", max_steps=9).text()) == (-1, "0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "A machine needs one word after 'start:'; got 0."),
        ("start: a b\nhalt: c", "A machine needs one word after 'start:'; got 2."),
        (
            "start: go\ngo _ -> go R",
            "Machine unnamed has no halting state, so it could never stop; name one with 'halt:'.",
        ),
        (
            "start: go\nhalt: end\nalphabet: _ 0\ngo _ -> end S",
            "Machine unnamed has no rule for state go reading 0; add one.",
        ),
        (
            "start: go\nhalt: end\nalphabet: _\ngo _ -> end 7 S",
            "Machine unnamed has a rule for state go reading _ with the unknown symbol '7'.",
        ),
        (
            "start: go\nhalt: end\nstates: go end\ngo _ -> stop S",
            "Machine unnamed has a rule for state go reading _ with the unknown state 'stop'.",
        ),
        (
            "start: go\nhalt: end\ngo _ -> end X",
            "Machine unnamed has a rule for state go reading _ that moves 'X'; a move is L, R or S.",
        ),
        (
            "start: go\nhalt: end\ngo _ -> end S\nend _ -> end S",
            (
                "Machine unnamed has a rule for state end reading _, but end is a halting state and takes "
                "no rule."
            ),
        ),
        (
            "start: go\nhalt: end\ngo _ -> end S\ngo _ -> go R",
            "Line 4 is a second rule for state go reading _; leave one of them out.",
        ),
        (
            "start: go\nhalt: end\nhello",
            (
                "Line 3 is neither a rule (state symbols -> state [written] move) nor a header "
                "(machine:, states:, alphabet:, blank:, start:, halt:); got 'hello'."
            ),
        ),
        ("start: go\nstart: go", "Line 2 gives 'start:' a second time; leave one of them out."),
        (
            "start: go\nhalt: end\ngo -> end S",
            "Line 3 should read 'state symbols -> state [written] move'; got 'go -> end S'.",
        ),
        (
            "start: go\nhalt: end\ngo _ -> end L S R",
            "Line 3 should read 'state symbols -> state [written] move'; got 'go _ -> end L S R'.",
        ),
        (
            "start: go\nhalt: end\ngo _ -> end end S",
            "Machine unnamed uses 'end' both as a state and as a symbol; rename one.",
        ),
        (
            "start: L\nhalt: end\nL _ -> end S",
            (
                "Machine unnamed has the state 'L'; a state is one word of at most 40 characters, none of "
                "L R S = <s> <pad> -> → any, without a # in front."
            ),
        ),
        (
            "start: go\nhalt: end\ngo _ = -> end S",
            (
                "Machine unnamed has the symbol '='; a symbol is one word of at most 40 characters, none of "
                "L R S = <s> <pad> -> → any."
            ),
        ),
        (
            "start: go\nhalt: end\nalphabet: 0\ngo 0 -> end S",
            "Machine unnamed has the blank '_', which its alphabet does not list.",
        ),
        (
            "start: go\nhalt: end\nstates: end\nalphabet: _",
            "Machine unnamed has the start state 'go', which its states do not list.",
        ),
        (
            "start: go\nhalt: end\nalphabet: _ _\ngo _ -> end S",
            "Machine unnamed lists a symbol twice: _ _.",
        ),
    ],
)
def test_bad_machines(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_machine(text)
    assert str(caught.value) == message


SUBTRACT = """machine: less
start: right
halt: done under
right 0 1 -> right R
right _ -> borrow L
borrow 1 -> done 0 S
borrow 0 -> borrow 1 L
borrow _ -> under S
"""


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "halt: done under",
            "halt: finished",
            (
                "at all for state done, which line 6 enters. 'halt:' names finished, which no rule enters. "
                "A state without rules belongs in 'halt:'."
            ),
        ),
        (
            "halt: done under",
            "halt: done, under",
            (
                "at all for state done, which line 6 enters. 'halt:' names 'done,' instead: put spaces "
                "between words, and nothing else."
            ),
        ),
        (
            "start: right",
            "start: rihgt",
            (
                "at all for state rihgt, in which it starts. Did you mean right? A state without rules "
                "belongs in 'halt:'."
            ),
        ),
        (
            "_ -> borrow L",
            "_ -> borow L",
            (
                "at all for state borow, which line 5 enters. Did you mean borrow? A state without rules "
                "belongs in 'halt:'."
            ),
        ),
        (
            "start: right",
            "start: right\nstates: right borrow spare done under",
            "at all for state spare, which no rule enters. A state without rules belongs in 'halt:'.",
        ),
        (
            "borrow 0 ->",
            "borow 0 ->",
            (
                "for state borrow reading 0; line 7 has one for borow, a state that nothing enters. Did you "
                "mean borrow there?"
            ),
        ),
        (
            "done 0 S",
            "done x S",
            "for state right reading x, which line 6 writes and no line reads; add one.",
        ),
        ("borrow 0 -> borrow 1 L\n", "", "for state borrow reading 0; add one."),
    ],
)
def test_slips_of_the_hand(before: str, after: str, message: str) -> None:
    assert before in SUBTRACT
    with pytest.raises(InvalidInput) as caught:
        parse_machine(SUBTRACT.replace(before, after))
    assert str(caught.value) == f"Machine less has no rule {message}"


def test_a_machine_made_in_python_has_no_lines() -> None:
    machine = parse_machine(SUBTRACT)
    for halting, words in (
        (("done",), "at all for state under, which a rule enters."),
        (("under",), "at all for state done,"),
    ):
        with pytest.raises(InvalidInput, match=words) as caught:
            dataclasses.replace(machine, halting=halting)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301


@pytest.mark.slow
def test_hostile_texts_are_refused_at_once() -> None:
    symbols = " ".join(f"s{number}" for number in range(1000))
    head = f"start: q\nhalt: end\nstates: q end\nalphabet: _ {symbols}\n"
    with pytest.raises(InvalidInput, match="Line 5 has a rule for the state 'q0', which 'states:' does not"):
        parse_machine(head + "".join(f"q{number} any -> end S\n" for number in range(40_000)))
    with pytest.raises(InvalidInput, match="Line 5 is a second rule for state q reading _"):
        parse_machine(head + f"q {'any ' * 200_000} -> end S")
    parse_machine(head + f"q _ {symbols} -> end S\n" + "q any -> end S\n" * 40_000)


def test_huge_machines_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"at most 1,048,576 characters; got 2,000,000\."):
        parse_machine("x" * 2_000_000)
    many = " ".join(f"s{number}" for number in range(2000))
    with pytest.raises(InvalidInput, match="has 2001 symbols where at most 1024 are taken"):
        parse_machine(f"start: go\nhalt: end\nalphabet: _ {many}\ngo any -> end S")
    with pytest.raises(InvalidInput, match="pairs of a state and a symbol"):
        parse_machine(f"start: go\nhalt: end\nalphabet: _ {many}\nstates: {many.replace('s', 'q')}")


def test_unknown_names_and_symbols() -> None:
    with pytest.raises(UnknownName, match="There is no machine 'palindrom'"):
        library_machine("palindrom")
    with pytest.raises(InvalidInput) as caught:
        execute(parse_machine(FLIP), "012", max_steps=5)
    assert str(caught.value) == "The tape of flip has the symbols _ 0 1; got '2'."


def a_machine_or_an_error(text: str) -> None:
    try:
        machine = parse_machine(text)
    except InvalidInput:
        return
    assert parse_machine(machine.render()) == machine


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_a_machine_or_an_error(text: str) -> None:
    a_machine_or_an_error(text)


WORDS = st.sampled_from(
    ["A", "H", "0", "_", "any", "R", "->", "->", "start:", "halt:", "#", "\n", "\n", "\n"]
)


@settings(deadline=None)
@given(st.lists(WORDS, max_size=40))
def test_near_machines_are_machines_or_errors(pieces: list[str]) -> None:
    a_machine_or_an_error(" ".join(pieces))


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    live = [f"q{number}" for number in range(draw(st.integers(1, 4)))]
    alphabet = ["_", "a", "b", "#"][: draw(st.integers(1, 4))]
    rule = st.builds(
        Transition, st.sampled_from([*live, "end"]), st.sampled_from(alphabet), st.sampled_from(sorted(MOVES))
    )
    return Machine(
        name="random",
        states=(*live, "end"),
        alphabet=tuple(alphabet),
        blank="_",
        transitions={(state, symbol): draw(rule) for state in live for symbol in alphabet},
        start="q0",
        halting=("end",),
    )


@pytest.mark.slow
@settings(deadline=None)
@given(machines(), st.data())
def test_random_machines_round_trip_and_run(machine: Machine, data: st.DataObject) -> None:
    assert parse_machine(machine.render()) == machine
    tape = data.draw(st.lists(st.sampled_from(machine.alphabet), max_size=5))
    done = execute(machine, tape, max_steps=50)
    # The same run on two stacks: what lies left of the head, and the rest.
    left: list[str] = []
    right = list(reversed(tape))
    state = machine.start
    for step in done.steps:
        read = right.pop() if right else "_"
        assert (step.state, step.read) == (state, read)
        state, written, move = machine.transitions[state, read]
        if move == "R":
            left.append(written)
        else:
            right.append(written)
            if move == "L":
                right.append(left.pop() if left else "_")
    assert state == done.state
    assert (done.outcome == "halted") == (state == "end")
    assert "".join([*left, *reversed(right)]).strip("_") == "".join(done.tape).strip("_")


def test_machines_are_values() -> None:
    machine = parse_machine(FLIP)
    assert dataclasses.replace(machine, name="turn").name == "turn"
    with pytest.raises(dataclasses.FrozenInstanceError):
        machine.name = "other"  # type: ignore[misc]
