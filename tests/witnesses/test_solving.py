"""Putting inputs to witnesses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import separatrix
from separatrix import save, task
from separatrix.errors import InvalidInput, UnknownName
from separatrix.generation.decoding import generate
from separatrix.generation.runs import Progress
from separatrix.models import CausalModel
from separatrix.precision import FixedNearest, system_named
from separatrix.witnesses import Choices, witness_for
from separatrix.witnesses.solving import ask, solve, written_answers
from tests.forked import forked


def test_an_answer_at_once() -> None:
    lookup = separatrix.task("index-lookup", n=5, alphabet=4)
    solution = solve(lookup, "s2 s0 s3 s1 @3", family="transformer")
    assert (solution.text, solution.run, solution.words) == ("s3", None, ())
    assert (solution.tokens, solution.steps) == (5, 0)
    assert solution.witness.family == "transformer"


def test_a_row_does_as_well_as_a_text() -> None:
    lookup = separatrix.task("index-lookup", n=5, alphabet=4)
    row = lookup.parse("s2 s0 s3 s1 @1")
    assert solve(lookup, row).text == "s2"


def test_several_questions_have_several_answers() -> None:
    recall = separatrix.task("mqar", n=4)
    assert solve(recall, "k7 v8 k8 v28 k7 v8 k8 v28").text == "v8 v28"


def test_an_answer_in_writing() -> None:
    graph = separatrix.task("is-tree", n=4, form="cot")
    solution = solve(graph, "<s> 1 ~ 3 2 ~ 3 3 ~ 4")
    assert solution.words == ("1", "3", "2", "3", "4", "3", "1", "YES")
    assert (solution.text, solution.tokens, solution.steps) == ("YES", 18, 8)


def test_inputs_are_asked_together_and_answered_one_by_one() -> None:
    graph = separatrix.task("is-tree", n=4, form="cot")
    witness = witness_for(graph)
    texts = ("<s> 1 ~ 3 2 ~ 3 3 ~ 4", "<s> 1 ~ 2 2 ~ 3 1 ~ 3", "<s> 1 ~ 2 2 ~ 3 3 ~ 4")
    rows = torch.stack([graph.parse(text) for text in texts])
    assert [each.text for each in ask(witness, rows)] == ["YES", "NO", "YES"]
    assert witness.script is not None
    assert written_answers(witness.model, witness.script, rows).tolist() == [1, 0, 1]


@pytest.mark.slow
def test_no_answer_says_why() -> None:
    graph = separatrix.task("is-tree", n=4, form="cot")
    choices = Choices(system=system_named("nearest:5"))
    solution = solve(graph, "<s> 1 ~ 3 2 ~ 3 3 ~ 4", choices=choices)
    assert (solution.answer, solution.text) == (None, None)
    assert solution.run is not None
    assert solution.run.outcome == "limit"
    assert solution.witness.script is not None
    found = written_answers(solution.witness.model, solution.witness.script, solution.row.unsqueeze(0))
    assert found.tolist() == [-1]


def test_progress_is_told() -> None:
    told: list[Progress] = []
    graph = separatrix.task("is-tree", n=4, form="cot")
    solve(graph, "<s> 1 ~ 3 2 ~ 3 3 ~ 4", progress=told.append)
    assert told[-1].done == told[-1].prompts == 1
    assert [each.tokens for each in told] == sorted(each.tokens for each in told)


def test_what_is_no_input_is_refused() -> None:
    lookup = separatrix.task("index-lookup", n=3, alphabet=4)
    with pytest.raises(InvalidInput, match="at most 4 words; got 5"):
        solve(lookup, "s2 s0 s3 s1 @3")
    with pytest.raises(InvalidInput, match="is int64 of shape"):
        solve(lookup, torch.zeros(9, dtype=torch.int64))
    with pytest.raises(UnknownName, match="no witness for index-lookup in the family 'fnn'"):
        solve(lookup, "s2 @1", family="fnn")


def test_a_model_that_sees_all_at_once_cannot_write() -> None:
    graph = witness_for(separatrix.task("is-tree", n=4, form="cot"))
    lookup = witness_for(separatrix.task("match2", n=4))
    assert graph.script is not None
    with pytest.raises(InvalidInput, match="Only a model that reads token by token can write"):
        written_answers(lookup.model, graph.script, torch.zeros(1, 17, dtype=torch.int64))


@pytest.mark.slow
def test_the_page_beside_kept_weights_that_write_runs_as_it_stands(tmp_path: Path) -> None:
    about = task("is-tree", n=4, form="cot")
    save(witness_for(about, family="transformer-cot"), tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", (tmp_path / "README.md").read_text(), re.DOTALL)
    done = forked(code, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("which is right") == 3
    assert done.stdout.endswith("proved\n")


def test_rows_of_another_size_are_refused() -> None:
    small, large = (task("is-tree", n=n, form="cot") for n in (5, 12))
    witness = witness_for(small, family="hybrid-cot")
    with pytest.raises(InvalidInput, match="This witness is for is-tree with n=5"):
        ask(witness, large.sample(1, seed=0).inputs)
    assert witness.script is not None
    assert isinstance(witness.model, CausalModel)
    prompt = witness.script.prompt(small.sample(1, seed=0).inputs[0])
    with pytest.raises(InvalidInput, match="Build the model for a larger n"):
        generate(witness.model, [prompt * 40], witness.script)


def test_a_wrong_answer_is_known_to_be_wrong() -> None:
    about = task("counting", n=4)
    found = solve(
        about, "s3 s3 s58 s1 s3 >2", family="transformer", choices=Choices(system=FixedNearest(p=9))
    )
    assert found.right is False
    assert solve(about, "s3 s3 s58 s1 s3 >2", family="transformer").right is True
    assert "counting" in repr(found)
    assert len(repr(found)) < 200


def test_a_graph_as_people_write_it_and_the_form_of_the_construction() -> None:
    found = solve(task("is-tree", n=3), "1 2\n2 3")
    assert (found.text, found.right) == ("YES", True)
