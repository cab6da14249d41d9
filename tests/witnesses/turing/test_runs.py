"""Compiled machines: weights that write whole runs, with real searches, step for step as the simulator."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.generation.decoding import generate
from separatrix.generation.scripts.turing import TuringScript
from separatrix.models.explicit.linear_rnn import LayeredRNN
from separatrix.models.explicit.running import Running
from separatrix.precision import FixedNearest
from separatrix.tasks.machine_runs import MachineRuns
from separatrix.tasks.machines import Machine, execute, library_machine, parse_machine
from separatrix.tasks.turing import Turing
from separatrix.witnesses import Choices, witness_for
from separatrix.witnesses.language import Symbolic
from separatrix.witnesses.turing import compile_turing
from separatrix.witnesses.turing.hybrid import turing_hybrid
from separatrix.witnesses.turing.searches import turing_searches
from separatrix.witnesses.turing.tape import turing_tape
from separatrix.witnesses.witness import Witness
from tests.witnesses.turing.running import SCRIPTS, generated, is_right, small_tasks

BUILDERS = {
    "linear-rnn+retrieval": turing_searches,
    "hybrid-cot": turing_hybrid,
    "linear-rnn-cot": turing_tape,
}
FLIP = """
start: go
halt: done
go 0 -> go 1 R
go 1 -> go 0 R
go _ -> done S
"""


def words(alphabet: str, longest: int) -> list[list[str]]:
    return [list(word) for k in range(longest + 1) for word in itertools.product(alphabet, repeat=k)]


def all_right(witness: Witness, tapes: list[list[str]]) -> bool:
    assert isinstance(witness.script, TuringScript)
    told = generated(witness, tapes)
    return all(is_right(witness.script, tape, each) for tape, each in zip(tapes, told, strict=True))


def every_tape(task: Turing) -> list[list[str]]:
    return [task.render(row).split()[1 : task.n + 1] for rows in task.enumerate() for row in rows]


@pytest.mark.parametrize("family", SCRIPTS)
@pytest.mark.parametrize(("machine", "n"), [("binary-increment", 2), ("parity", 3)])
def test_library_machines(family: str, machine: str, n: int) -> None:
    task = Turing(n=n, machine=machine)  # type: ignore[arg-type]
    witness = witness_for(task, family=family)
    assert witness.family == family
    assert all_right(witness, every_tape(task))


@pytest.mark.slow
@pytest.mark.parametrize("family", SCRIPTS)
@pytest.mark.parametrize(
    ("machine", "n"),
    [
        ("unary-increment", 9),
        ("binary-increment", 8),
        ("parity", 8),
        ("palindrome", 7),
        ("balanced-brackets", 8),
        ("binary-multiplication", 5),
        ("busy-beaver-3", 0),
    ],
)
def test_larger_runs(family: str, machine: str, n: int) -> None:
    task = Turing(n=n, machine=machine)  # type: ignore[arg-type]
    assert all_right(BUILDERS[family](task, Choices()), every_tape(task))


@pytest.mark.slow
@pytest.mark.parametrize("family", ["linear-rnn+retrieval", "hybrid-cot"])
def test_busy_beaver_four_runs_to_its_end(family: str) -> None:
    task = Turing(n=0, machine="busy-beaver-4")
    (told,) = generated(BUILDERS[family](task, Choices()), [[]])
    assert (told.outcome, told.state, len(told.steps), told.tape.count("1")) == ("halted", "H", 107, 13)
    assert told == execute(task.program, [], max_steps=200)


@pytest.mark.slow
def test_busy_beaver_four_on_a_tape() -> None:
    task = Turing(n=0, machine="busy-beaver-4")
    assert generated(turing_tape(task, Choices()), [[]]) == [execute(task.program, [], max_steps=200)]


@pytest.mark.parametrize("family", SCRIPTS)
@settings(deadline=None, max_examples=3)
@given(small_tasks(), st.data())
def test_random_machines(family: str, task: MachineRuns, data: st.DataObject) -> None:
    tapes = data.draw(
        st.lists(st.lists(st.sampled_from(task.program.alphabet), max_size=task.n), min_size=1, max_size=3)
    )
    assert all_right(BUILDERS[family](task, Choices()), tapes)


@pytest.mark.slow
@pytest.mark.parametrize("family", SCRIPTS)
@settings(deadline=None, max_examples=40)
@given(small_tasks(), st.data())
def test_many_random_machines(family: str, task: MachineRuns, data: st.DataObject) -> None:
    tapes = data.draw(
        st.lists(st.lists(st.sampled_from(task.program.alphabet), max_size=task.n), min_size=1, max_size=3)
    )
    assert all_right(BUILDERS[family](task, Choices()), tapes)


@pytest.mark.parametrize("family", SCRIPTS)
def test_a_machine_of_ones_own_on_tapes_of_every_length(family: str) -> None:
    witness = compile_turing(parse_machine(FLIP), family=family, n=4, steps=6)  # type: ignore[arg-type]
    tapes = words("01_", 2) + words("01", 4)
    assert all_right(witness, tapes)
    assert witness.task.name == "machine-runs"


@pytest.mark.parametrize("family", SCRIPTS)
def test_the_head_may_leave_the_room(family: str) -> None:
    for move, cells in (("R", [0, 1, 2, 3]), ("L", [0, -1, -2])):
        runaway = parse_machine(f"start: go\nhalt: end\ngo any -> go {move}\nalphabet: _ a")
        witness = compile_turing(runaway, family=family, n=1, steps=50, cells=2)  # type: ignore[arg-type]
        (told,) = generated(witness, [["a"]])
        assert told.outcome == "out of space"
        assert [step.cell for step in told.steps] == cells


@pytest.mark.slow
@pytest.mark.parametrize("family", SCRIPTS)
def test_a_run_that_never_ends_is_cut(family: str) -> None:
    endless = parse_machine("start: go\nhalt: end\ngo _ -> back R\nback _ -> go L")
    witness = compile_turing(endless, family=family, n=0, steps=7)  # type: ignore[arg-type]
    (told,) = generated(witness, [[]])
    assert told.outcome == "out of steps"
    assert len(told.steps) >= 7


@pytest.mark.slow
@pytest.mark.parametrize("family", SCRIPTS)
def test_the_program_means_what_is_written(family: str) -> None:
    """Under teacher forcing, in exact fractions and without softmax: every word but results of searches."""
    witness = BUILDERS[family](Turing(n=2, machine="binary-increment"), Choices())
    script, model, built = witness.script, witness.model, witness.built
    assert script is not None
    assert built is not None
    assert isinstance(model, LayeredRNN)
    prompt = [script.vocabulary.token(word) for word in ("<s>", "0", "1", "=")]
    (run,) = generate(model, [prompt], script)
    text = [*prompt, *run.written]
    found = Symbolic().outputs(built.program, torch.tensor(text[:-1]))
    for place in range(len(prompt), len(text)):
        if place - len(prompt) not in run.returned:
            scores = found[place - 1]
            assert all(score is not None for score in scores)
            best = max(range(len(scores)), key=lambda token: scores[token])  # type: ignore[arg-type,return-value]
            assert best == text[place]


def carried(witness: Witness, text: list[int]) -> list[float]:
    """Every number that the recurrent state held behind any word."""
    model = witness.model
    assert isinstance(model, LayeredRNN)
    state: Running = model.start(1)
    seen: list[float] = []
    for token in text:
        _, state = model.step(torch.tensor([token]), state)
        for cell, layer in zip(state.cells, model.recurrent, strict=False):
            if layer.state:
                seen += model.arithmetic.decode_float64(cell.state)[0].tolist()  # type: ignore[attr-defined]
    return seen


@pytest.mark.slow
@pytest.mark.parametrize(("family", "numbers"), [("linear-rnn+retrieval", 19), ("hybrid-cot", 17)])
def test_state_grows_with_the_logarithm(family: str, numbers: int) -> None:
    """As many numbers for every n, all of them whole and no larger than the cells, or their squares."""
    for n in (3, 8):
        task = Turing(n=n, machine="parity")
        witness = BUILDERS[family](task, Choices())
        assert witness.size.state_bits(0) == 64 * numbers
        script = witness.script
        assert isinstance(script, TuringScript)
        assert isinstance(witness.model, LayeredRNN)
        prompt = script.prompt(task.parse(" ".join(["<s>", *("1" * n), "="])))
        (run,) = generate(witness.model, [prompt], script)
        seen = carried(witness, [*prompt, *run.written])
        largest = max(
            script.vocabulary.size - sum(b.size - 1 for b in script.vocabulary.blocks if not b.spelled), n
        )
        assert all(number == int(number) for number in seen)
        assert max(map(abs, seen)) <= max(largest, (n + 1) ** 2 if family == "hybrid-cot" else 0)


def test_a_tape_in_the_state_is_as_long_as_the_space() -> None:
    for n in (4, 16):
        witness = turing_tape(Turing(n=n, machine="parity"), Choices())
        # The cells 0 … n and one on the left, a wall, a state, and the word before them.
        assert witness.size.state_bits(0) == 64 * (n + 2 + 3)
        assert isinstance(witness.script, TuringScript)
        prompt = [witness.script.vocabulary.token(word) for word in ("<s>", *("1" * n), "=")]
        assert max(carried(witness, prompt)) < 20


def runs_right(family: str, task: Turing, p: int) -> bool:
    try:
        witness = BUILDERS[family](task, Choices(system=FixedNearest(p=p)))
    except InvalidInput:
        return False
    script, model = witness.script, witness.model
    assert isinstance(script, TuringScript)
    assert isinstance(model, LayeredRNN)
    prompts = [script.prompt(row) for rows in task.enumerate() for row in rows]
    told = [script.told(*each) for each in zip(prompts, written(model, prompts, script), strict=True)]
    return all(is_right(script, tape, each) for tape, each in zip(every_tape(task), told, strict=True))


def written(model: LayeredRNN, prompts: list[list[int]], script: TuringScript) -> list[tuple[int, ...]]:
    return [run.written for run in generate(model, prompts, script)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "p"), [("linear-rnn+retrieval", 11), ("hybrid-cot", 17), ("linear-rnn-cot", 9)]
)
def test_fewest_bits(family: str, p: int) -> None:
    task = Turing(n=0, machine="busy-beaver-2")
    assert runs_right(family, task, p)
    assert not runs_right(family, task, p - 2)


@pytest.mark.parametrize("family", SCRIPTS)
def test_a_machine_that_starts_in_the_end(family: str) -> None:
    idle = Machine(
        name="idle",
        states=("end",),
        alphabet=("_", "a"),
        blank="_",
        transitions={},
        start="end",
        halting=("end",),
    )
    witness = compile_turing(idle, family=family, n=2, steps=1)  # type: ignore[arg-type]
    assert all_right(witness, words("a_", 2))


@pytest.mark.slow
def test_names_of_machines_do_not_matter() -> None:
    """States and symbols that look like parts of a pattern, or like blocks and marks of other texts."""
    odd = parse_machine(
        "blank: .*\nstart: (\nhalt: [a]\nalphabet: .* \\S+ cell\n"
        "( .* -> ( \\S+ R\n( \\S+ -> ( cell L\n( cell -> [a] R"
    )
    for family in SCRIPTS:
        witness = compile_turing(odd, family=family, n=2, steps=12)  # type: ignore[arg-type]
        assert all_right(witness, [[], [".*"], ["\\S+", ".*"], ["cell"]])


def test_library_machine_by_name_and_by_table_are_the_same() -> None:
    again = parse_machine(library_machine("parity").render())
    for family in SCRIPTS:
        witness = compile_turing(again, family=family, n=2, steps=4)  # type: ignore[arg-type]
        assert [told.state for told in generated(witness, words("01", 2))] == [
            ("even", "odd")[word.count("1") % 2] for word in words("01", 2)
        ]
