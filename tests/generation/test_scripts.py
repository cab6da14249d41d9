"""Scripts are found by their kind, and refuse what they are not about."""

from __future__ import annotations

import importlib
import typing
from collections.abc import Sequence
from typing import ClassVar, final

import pytest
from jaxtyping import Int
from torch import Tensor

from separatrix.errors import InvalidInput, UnknownName
from separatrix.generation import scripts
from separatrix.generation.decoding import generate
from separatrix.generation.runs import Run, score
from separatrix.generation.scripts import SCRIPTS, Script, answers_of, script_named
from separatrix.tasks import task
from separatrix.tasks.dyck import Dyck
from separatrix.tasks.vocabulary import Vocabulary
from tests.generation.writers import Writer


@final
class Verdicts(Script):
    """A bracket string, and then its verdict."""

    kind: ClassVar[str] = "verdicts"

    def __init__(self, task: Dyck) -> None:
        self._task = task

    @property
    def task(self) -> Dyck:
        return self._task

    @property
    def vocabulary(self) -> Vocabulary:
        return self._task.vocabulary

    @property
    def answers(self) -> frozenset[int]:
        return frozenset((0, 1))

    @property
    def limit(self) -> int:
        return 3

    def prompt(self, row: Int[Tensor, "pos"]) -> list[int]:
        return [token for token in row.tolist() if token != self.vocabulary.pad]

    def answer(self, written: Sequence[int]) -> int | None:
        return written[-1] if written and written[-1] in self.answers else None


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCRIPTS, "verdicts", f"{__name__}:Verdicts")


@pytest.mark.usefixtures("verdicts")
def test_a_script_is_made_by_its_kind_and_asks() -> None:
    dyck = task("dyck", n=4)
    script = script_named("verdicts", dyck)
    assert isinstance(script, Verdicts)
    assert script.task is dyck
    rows = next(iter(dyck.enumerate(chunk=6)))
    size = script.vocabulary.size
    model = Writer(lambda history: 1 if len(history) % 2 else 2, size)
    runs = generate(model, [script.prompt(row) for row in rows], script)
    answers = answers_of(runs, script)
    assert {run.outcome for run in runs} == {"answered"}
    assert answers == [1] * len(rows)
    assert score(answers, [1] * len(rows)) == 1.0


@pytest.mark.usefixtures("verdicts")
def test_a_script_refuses_another_task() -> None:
    with pytest.raises(InvalidInput, match="The script verdicts is not about index-lookup; choose a task"):
        script_named("verdicts", task("index-lookup", n=4))


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(UnknownName, match="There is no script 'verdict'"):
        script_named("verdict", task("dyck", n=4))


def test_runs_that_do_not_answer_have_no_answer() -> None:
    script = Verdicts(task("dyck", n=4))  # type: ignore[arg-type]
    runs = [Run(prompt=1, written=(3, 1), outcome="answered"), Run(prompt=1, written=(3, 1), outcome="limit")]
    assert answers_of(runs, script) == [1, None]


def test_every_listed_script_is_where_the_list_says() -> None:
    for kind, home in SCRIPTS.items():
        module, _, name = home.partition(":")
        path = module if "." in module else f"{scripts.__name__}.{module}"
        leaf = getattr(importlib.import_module(path), name)
        assert issubclass(leaf, Script)
        assert leaf.kind == kind
        assert "task" in typing.get_type_hints(leaf.__init__)
