"""How runs are written down and read back, and what is refused."""

from __future__ import annotations

import pytest

from separatrix.errors import InvalidInput, TooLarge, UnknownName
from separatrix.generation.scripts import script_named
from separatrix.generation.scripts.turing import HybridScript, Room, SearchScript, TapeScript, TuringScript
from separatrix.tasks.counting import Counting
from separatrix.tasks.machine_runs import MachineRuns
from separatrix.tasks.machines import execute, parse_machine
from separatrix.tasks.turing import Turing
from separatrix.witnesses.turing import compile_turing
from separatrix.witnesses.turing.compile import runs_within
from tests.witnesses.turing.running import SCRIPTS

INCREMENT = Turing(n=2, machine="binary-increment")
SEARCHED = r"""
right <StartSearch> .*\s@0 \s(\S+)\s <EndSearch> FAILED
<StartSearch> ^<s>(?:\s\S+){0 }\s(\S+)\s(?:\S+\s)*?=\s <EndSearch> 0
@0 0 R right <StartSearch> .*\s@1 \s(\S+)\s <EndSearch> FAILED
<StartSearch> ^<s>(?:\s\S+){1 }\s(\S+)\s(?:\S+\s)*?=\s <EndSearch> 1
@1 1 R right <StartSearch> .*\s@2 \s(\S+)\s <EndSearch> FAILED
<StartSearch> ^<s>(?:\s\S+){2 }\s(\S+)\s(?:\S+\s)*?=\s <EndSearch> FAILED
@2 _ L carry <StartSearch> .*\s@1 \s(\S+)\s <EndSearch> 1
@1 0 L carry <StartSearch> .*\s@0 \s(\S+)\s <EndSearch> 0
@0 1 S done
"""
ATTENDED = "right @0 0 0 R right @1 1 1 R right @2 _ _ L carry @1 1 0 L carry @0 0 1 S done"
ON_A_TAPE = """
               | _
0 right 1 _    | _
0 1 right _    | _
0 carry 1 _    | _
carry 0 0 _    | _
>done 1 0 _    | _
done
"""


def told(script: TuringScript, text: str) -> tuple[list[int], list[int]]:
    prompt = [script.vocabulary.token(word) for word in ("<s>", "0", "1", "=")]
    return prompt, [script.vocabulary.token(word) for word in text.split()]


@pytest.mark.parametrize(
    ("script", "text"),
    [(SearchScript, SEARCHED), (HybridScript, ATTENDED), (TapeScript, ON_A_TAPE)],
    ids=["searches", "attention", "tape"],
)
def test_a_run_is_read_back(script: type[TuringScript], text: str) -> None:
    prompt, written = told(script(INCREMENT), text)
    assert script(INCREMENT).told(prompt, written) == execute(INCREMENT.program, "01", max_steps=9)
    assert len(written) <= script(INCREMENT).limit
    assert script(INCREMENT).answer(written) == INCREMENT.vocabulary.token("done")
    assert script(INCREMENT).answer(written[:-1]) is None
    assert script(INCREMENT).answer([]) is None


@pytest.mark.parametrize("family", SCRIPTS)
def test_nonsense_is_read_without_harm(family: str) -> None:
    script = SCRIPTS[family](INCREMENT)
    prompt, _ = told(script, "")
    size = script.vocabulary.size
    for seed in range(200):
        # A linear congruence is random enough for a text that means nothing.
        written = [(seed * 7919 + 104729 * place * (seed + 3)) % size for place in range(25)]
        assert script.told(prompt, written).outcome in ("halted", "out of steps", "out of space")
        script.answer(written)


def test_room_has_a_cell_on_either_side() -> None:
    assert SearchScript(INCREMENT).room == Room(steps=6, left=1, right=2)
    machine = Turing(n=3, machine="parity").program
    assert TapeScript(MachineRuns(n=3, program=machine, steps=9, left=0, right=3)).room == Room(9, 1, 3)


@pytest.mark.parametrize("kind", ["turing-searches", "turing-hybrid", "turing-tape"])
def test_scripts_are_found_by_their_kind(kind: str) -> None:
    script = script_named(kind, INCREMENT)
    assert (script.kind, script.searches) == (kind, kind == "turing-searches")
    assert script.task is INCREMENT
    prompt = script.prompt(INCREMENT.parse("<s> 0 1 ="))
    assert [script.vocabulary.word(token) for token in prompt] == ["<s>", "0", "1", "="]
    with pytest.raises(InvalidInput, match="is not about counting"):
        script_named(kind, Counting(n=4))


@pytest.mark.parametrize(
    ("family", "word"),
    [
        ("linear-rnn+retrieval", "FAILED"),
        ("linear-rnn+retrieval", "<EndSearch>"),
        ("linear-rnn+retrieval", "@-1"),
        ("hybrid-cot", "@2"),
        ("hybrid-cot", "FULL"),
        ("linear-rnn-cot", "|"),
        ("linear-rnn-cot", ">end"),
    ],
)
def test_words_that_mean_something_else_are_refused(family: str, word: str) -> None:
    machine = parse_machine(f"start: go\nhalt: end\ngo _ -> go {word} R\ngo {word} -> end S")
    with pytest.raises(InvalidInput) as caught:
        compile_turing(machine, family=family, n=2, steps=4)  # type: ignore[arg-type]
    assert str(caught.value).startswith(
        f"Machine unnamed uses the word '{word}', which stands for something else in the text of a run;"
    )


def test_sizes_are_refused_with_a_way_out() -> None:
    machine = INCREMENT.program
    with pytest.raises(TooLarge, match=r"sought up to number 10,000.*got room up to 10,003\. Try a shorter"):
        compile_turing(machine, family="linear-rnn+retrieval", n=3, steps=4, cells=10_000)
    with pytest.raises(TooLarge, match=r"up to 1022 cells; got room for 2,003\. Try less room"):
        compile_turing(machine, family="linear-rnn-cot", n=2, steps=4, cells=1000)
    with pytest.raises(InvalidInput, match=r"from 0 to 1,048,576, .* got left=-1\."):
        compile_turing(machine, family="hybrid-cot", n=2, steps=4, cells=-1)
    with pytest.raises(InvalidInput, match=r"1 to 1,048,576 steps; got steps=0\. Try 1000\."):
        compile_turing(machine, family="hybrid-cot", n=2, steps=0)
    with pytest.raises(UnknownName, match="linear-rnn-cot"):
        compile_turing(machine, family="rnn", n=2, steps=4)  # type: ignore[arg-type]


def test_room_that_is_not_asked_for_is_what_the_steps_can_reach() -> None:
    machine = INCREMENT.program
    for family, steps, side in (
        ("linear-rnn+retrieval", 7, 7),
        ("linear-rnn+retrieval", 20_000, 10_000),
        ("linear-rnn-cot", 5000, 100),
    ):
        task = runs_within(machine, family=family, n=2, steps=steps)  # type: ignore[arg-type]
        assert SCRIPTS[family](task).room == Room(steps=steps, left=side, right=side)


def test_a_longer_prompt_is_refused() -> None:
    witness = compile_turing(INCREMENT.program, family="hybrid-cot", n=2, steps=9)
    with pytest.raises(InvalidInput, match=r"at most 4 words; got 5\."):
        witness.task.parse("<s> 0 1 1 =")
    with pytest.raises(InvalidInput, match=r"needs '<s> tape =' with a tape of 0 to 2 of the symbols _ 0 1"):
        witness.task.parse("<s> 0 right =")
