"""W-5.2: the four retrieval tasks by linear RNNs that search once."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch

from separatrix.generation.scripts.small_searches import SmallSearch
from separatrix.models.explicit.linear_rnn import LinearRNN
from separatrix.precision import FixedDown, FixedNearest, Float32, NumberSystem
from separatrix.tasks import Task
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.c_gram import CGramRetrieval
from separatrix.tasks.counting import Counting
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.witnesses import Witness
from separatrix.witnesses.small_searches import (
    associative_recall_search,
    c_gram_search,
    counting_search,
    index_lookup_search,
)
from separatrix.witnesses.solving import ask

from .small_cases import SMALL, right, right_on_all
from .small_checks import Builders, SmallWitnesses, at_every_length, built_by

BUILDERS: Builders = {
    "index-lookup": index_lookup_search,
    "associative-recall": associative_recall_search,
    "c-gram": c_gram_search,
    "counting": counting_search,
}


def built(task: Task, system: NumberSystem | None = None) -> Witness:
    return built_by(BUILDERS, task, system)


class TestSmallSearches(SmallWitnesses):
    builders = BUILDERS
    theorem = "W-5.2"
    family = "linear-rnn+retrieval"
    kind = LinearRNN
    writes = True
    least: ClassVar = {16: (19, 17, 17, 9, 19), 64: (27, 25, 25, 13, 27)}


@pytest.mark.parametrize("system", [Float32(), FixedNearest(p=21), FixedDown(n=64, k=2)], ids=str)
@pytest.mark.parametrize("task", [SMALL[2], SMALL[8], SMALL[11]], ids=str)
def test_every_input_in_other_arithmetics(task: Task, system: NumberSystem) -> None:
    assert right_on_all(built(task, system))


@pytest.mark.parametrize(
    ("task", "text", "written"),
    [
        (
            IndexLookup(n=2000, alphabet=12),
            "s2 s0 s11 s1 @3",
            r"<StartSearch> ^(?:\S+\s){ 3 }(\S+) <EndSearch> s11 s11",
        ),
        (
            AssociativeRecall(n=6, form="sequence", alphabet=12),
            "s11 s1 s10 s11 s1 s1",
            r"<StartSearch> \s s1 \s(\S+) <EndSearch> s10 s10",
        ),
        (
            AssociativeRecall(n=3, keys=20, values=3),
            "k11 v0 k1 v2 k10 v1 k1",
            r"<StartSearch> \s k1 \s(\S+) <EndSearch> v2 v2",
        ),
        (
            CGramRetrieval(n=6, c=4, alphabet=12),
            "s0 s1 s11 s1 s1 s10  s1 s11 s1",
            r"<StartSearch> \s s1 \s s11 \s s1 \s(\S+) <EndSearch> s1 s1",
        ),
        (
            Counting(n=5, alphabet=12),
            "s1 s11 s1 s10 s1 s1 >2",
            r"<StartSearch> (?s)^(?:.*? s1 \b){ 3 }.*?( s1 )\b <EndSearch> s1 1",
        ),
        (
            Counting(n=5, alphabet=12),
            "s1 s11 s1 s10 s1 s1 >3",
            r"<StartSearch> (?s)^(?:.*? s1 \b){ 4 }.*?( s1 )\b <EndSearch> FAILED 0",
        ),
    ],
    ids=str,
)
def test_what_is_written(task: Task, text: str, written: str) -> None:
    witness = built(task)
    solution = ask(witness, task.parse(text).unsqueeze(0))[0]
    assert " ".join(solution.words) == written
    assert solution.run is not None
    assert len(solution.run.searches) == 1
    assert witness.script is not None
    assert solution.steps == witness.script.limit


@pytest.mark.parametrize("task", [SMALL[1], SMALL[3], SMALL[6], SMALL[10], SMALL[12]], ids=str)
def test_one_rule_applies_at_a_time_so_the_next_word_leads_by_one(task: Task) -> None:
    witness = built(task)
    assert witness.script is not None
    for row in task.sample(6, seed=4).inputs:
        run = ask(witness, row.unsqueeze(0))[0].run
        assert run is not None
        prompt = witness.script.prompt(row)
        scores = witness.model.forward(torch.tensor([[*prompt, *run.written]]))[0]
        for place in set(range(len(run.written))) - run.returned:
            best, second = scores[len(prompt) + place - 1].topk(2).values.tolist()
            assert best - second >= 1


def test_counts_over_a_thousand_are_searched_for() -> None:
    task = IndexLookup(n=1200, alphabet=3)
    row = task.parse(" ".join(["s1"] * 1100 + ["s2"] + ["s0"] * 99) + " @1101")
    assert right(built(task), row.unsqueeze(0))


@at_every_length
def test_the_size_and_the_state_are_the_same_at_every_length(small: Task, large: Task) -> None:
    first, second = built(small).size, built(large).size
    assert first == second
    assert first.state_bits(10) == second.state_bits(10_000)


@pytest.mark.parametrize("task", [SMALL[1], SMALL[3], SMALL[6], SMALL[9], SMALL[12]], ids=str)
def test_scripts_spell_inputs_as_the_task_does(task: Task) -> None:
    script = built(task).script
    assert isinstance(script, SmallSearch)
    row = task.sample(1, seed=2).inputs[0]
    prompt = script.prompt(row)
    assert " ".join(map(script.vocabulary.word, prompt)) == f"<s> {task.render(row)}"
    assert script.answer([]) is None
    assert script.answer(prompt[:1]) is None
