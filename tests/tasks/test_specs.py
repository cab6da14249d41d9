"""Tasks as specs: there and back for every task, and strangers' specs refused in a sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput, SeparatrixError
from separatrix.evidence import TaskSpec
from separatrix.tasks import TASKS, Task, task
from separatrix.tasks.interface import example_task
from separatrix.tasks.machine_runs import MachineRuns
from separatrix.tasks.machines import parse_machine
from separatrix.tasks.sparse_threshold import SparseThreshold
from separatrix.tasks.specs import spec_of, task_of


def written_and_read(example: Task) -> Task:
    """Through the text of a file."""
    text = json.dumps(spec_of(example).to_json())
    return task_of(TaskSpec.from_json(json.loads(text)))


@pytest.mark.parametrize("name", TASKS.names())
def test_every_task_comes_back(name: str) -> None:
    example = example_task(TASKS.get(name), {})
    back = written_and_read(example)
    assert back == example
    assert back.sample(3, seed=4).inputs.equal(example.sample(3, seed=4).inputs)


def test_what_is_no_flag_comes_back_too() -> None:
    formula = SparseThreshold.from_dnf("x1 & ~x3 | x2 & x4", n=4)
    assert written_and_read(formula) == formula
    apart = task("equality", n=4, alice=(0, 3))
    assert written_and_read(apart) == apart


FLIP = "start: go\nhalt: end\ngo 0 -> go 1 R\ngo 1 -> go 0 R\ngo _ -> end S"


@pytest.mark.parametrize("sizes", [{}, {"left": 2, "right": 5}])
def test_a_machine_is_written_as_its_text(sizes: dict[str, int]) -> None:
    runs = MachineRuns(n=3, program=parse_machine(FLIP), steps=9, **sizes)
    text = spec_of(runs).params["program"]
    assert isinstance(text, str)
    assert parse_machine(text) == runs.program
    assert written_and_read(runs) == runs


def test_a_task_that_reads_a_file_has_no_spec() -> None:
    questions = Path(__file__).parents[1] / "data" / "hotpot_small.json"
    with pytest.raises(InvalidInput, match="for file cannot be written to a file; leave file out"):
        spec_of(task("distractor-qa", n=2, shots=0, file=questions))


FEATURE = {"indices": (0, 1), "table": (0, 0, 0, 1)}


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        ("hotpot", {}, "There is no task 'hotpot'"),
        ("dyck", {}, "dyck needs a value for n"),
        ("dyck", {"n": 4, "m": 2}, "dyck has no parameter 'm'"),
        ("dyck", {"n": "4"}, "dyck needs a whole number for n; got '4'"),
        ("dyck", {"n": True}, "dyck needs a whole number for n; got True"),
        ("dyck", {"n": (4,)}, "dyck takes no list for n"),
        ("dyck", {"n": {"a": 1}}, "dyck takes no object for n"),
        ("dyck", {"n": None}, "dyck needs a whole number for n; got None"),
        ("index-lookup", {"n": 2**60}, "index-lookup needs 1 ≤ n ≤ 2^24"),
        (
            "index-lookup",
            {"n": 4, "lengths": "all"},
            "index-lookup knows lengths as varied or full; got 'all'",
        ),
        ("q-sparse-averaging", {"n": 4, "q": 5}, "needs sets of 1 ≤ q ≤ 4 of the n=4 positions; got q=5"),
        ("equality", {"n": 4, "alice": (0, True)}, "equality takes whole numbers for alice"),
        ("equality", {"n": 4, "alice": (0, 0)}, "alice names n/2=2 different places"),
        ("equality", {"n": 4, "alice": 3}, "alice names n/2=2 different places"),
        ("sparse-threshold", {"n": 4, "features": (1,)}, "A feature is an object with the lists"),
        ("sparse-threshold", {"n": 4, "features": ({**FEATURE, "x": 1},)}, "A feature is an object with the"),
        (
            "sparse-threshold",
            {"n": 4, "features": ({**FEATURE, "table": (0, 1)},)},
            "needs a table of 4 values",
        ),
        ("sparse-threshold", {"n": 4, "features": ({**FEATURE, "table": (2,) * 4},)}, "table holds 0 and 1"),
        (
            "sparse-threshold",
            {"n": 4, "features": ({**FEATURE, "indices": (0, -1)},)},
            "different whole numbers",
        ),
        (
            "sparse-threshold",
            {"n": 4, "features": ({**FEATURE, "indices": (0, 2**60)},)},
            "indices run from 0 to 3",
        ),
        ("sparse-threshold", {"n": 4, "features": ({**FEATURE, "indices": (0, (1,))},)}, "different whole"),
        ("sparse-threshold", {"n": 4, "k": 1, "features": (FEATURE,)}, "k=1"),
        ("sparse-threshold", {"n": 4, "features": 7}, "features is a tuple of Feature"),
        ("machine-runs", {"n": 2, "steps": 4}, "machine-runs needs a value for program"),
        (
            "machine-runs",
            {"n": 2, "steps": 4, "program": "parity"},
            "The machine of machine-runs breaks a rule: Line 1 is neither a rule",
        ),
        (
            "machine-runs",
            {"n": 2, "steps": 4, "program": FLIP.replace("end S", "edn S")},
            "Did you mean end?",
        ),
        ("machine-runs", {"n": 2, "steps": 4, "program": 7}, "takes a machine as text for program"),
        ("machine-runs", {"n": 2, "steps": 4, "program": (FLIP,)}, "takes a machine as text for program"),
        ("machine-runs", {"n": 2, "steps": 4, "program": {"a": FLIP}}, "takes no object for program"),
        ("machine-runs", {"n": 2, "steps": 4, "program": "x" * 2_000_000}, "may have 1000000 characters"),
        ("machine-runs", {"n": FLIP, "steps": 4, "program": FLIP}, "needs a whole number for n"),
        ("machine-runs", {"n": 2, "steps": 4, "program": FLIP, "left": "x"}, "there must be left from 0"),
        ("machine-runs", {"n": 2, "steps": 4, "program": FLIP, "left": 2.0}, "there must be left from 0"),
        ("distractor-qa", {"n": 2, "file": "/etc/passwd"}, "A file cannot name another to read"),
    ],
)
def test_strangers_specs(name: str, params: dict[str, Any], words: str) -> None:
    with pytest.raises(SeparatrixError, match=re.escape(words)) as error:
        task_of(TaskSpec(name=name, params=params))
    assert "\n" not in str(error.value)


SIMPLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=3),
)
VALUES = st.one_of(
    SIMPLE, st.lists(SIMPLE, max_size=3).map(tuple), st.dictionaries(st.text(max_size=3), SIMPLE)
)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(draw=st.data())
def test_any_parameters_are_a_task_or_a_sentence(draw: st.DataObject) -> None:
    name = draw.draw(st.sampled_from((*TASKS.names(), MachineRuns.name)))
    own = MachineRuns(n=3, program=parse_machine(FLIP), steps=9)
    spec = spec_of(own if name == MachineRuns.name else example_task(TASKS.get(name), {}))
    params = dict(spec.params)
    for field in draw.draw(st.lists(st.sampled_from([*params]), min_size=1, max_size=2)):
        params[field] = draw.draw(VALUES)
    try:
        made = task_of(TaskSpec(name=name, params=params))
    except SeparatrixError:
        return
    assert made == written_and_read(made)
