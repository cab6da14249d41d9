"""Putting inputs to a witness: the answer at once, or what it writes before it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast, final

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.generation.decoding import generate
from separatrix.generation.runs import Progress, Run
from separatrix.generation.scripts import Script, answers_of
from separatrix.models.explicit import ExplicitModel
from separatrix.models.interface import CausalModel
from separatrix.tasks import Classes, Task, Tokens, Vectors
from separatrix.tasks.graph_text import edges_in, graph_words
from separatrix.tasks.is_tree import IsTree
from separatrix.witnesses.catalogue import fitted, witness_for
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.witness import Witness

__all__ = ["CUT_OFF", "NO_ANSWER", "Solution", "ask", "solve", "written_answers"]

NO_ANSWER: Final = -1
"""In the place of a class, where a run ended without an answer."""
CUT_OFF: Final = -2
"""In the place of a class, where a search was cut off, so that nothing is known about the model."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """What a witness made of one input: its answer, and the run that led to it where it wrote one.

    Without an answer, `answer` is None and the run says why. A task that asks at several positions has as
    many numbers in its answer.
    """

    witness: Witness
    row: Shaped[Tensor, "pos *width"]
    answer: Shaped[Tensor, "*answer"] | None
    run: Run | None

    @property
    def text(self) -> str | None:
        """The answer in the task's words."""
        if self.answer is None:
            return None
        if isinstance(self.witness.task.target_space, Classes):
            return " ".join(self.witness.task.render_target(each) for each in self.answer.reshape(-1))
        return " ".join(self.witness.task.render_target(each) for each in self.answer)

    @property
    def right(self) -> bool | None:
        """Whether it is the task's own answer, or near enough to it where answers are vectors.

        None where the task has no answer itself, such as to a machine's run that takes more steps than it
        allows.
        """
        task = self.witness.task
        labels, space = task.solve(self.row.unsqueeze(0)), task.target_space
        if not bool(labels.mask.any()):
            return None
        if self.answer is None:
            return False
        if self.run is not None:
            return torch.equal(self.answer, labels.answer)
        wanted = labels.targets[labels.mask]
        if isinstance(space, Vectors):
            return bool(((self.answer - wanted.double()).norm(dim=1) < space.tolerance).all())
        return torch.equal(self.answer, wanted)

    def __repr__(self) -> str:
        written = "" if self.run is None else f", {self.steps} tokens written"
        return f"<solution of {self.witness.task.name}: {self.text or 'no answer'}{written}>"

    @property
    def tokens(self) -> int:
        """Words or rows that it read or wrote, without padding."""
        if self.run is not None:
            return self.run.prompt + len(self.run.written)
        space = self.witness.task.input_space
        padding = space.pad if isinstance(space, Tokens) else None
        return sum(token != padding for token in self.row.tolist())

    @property
    def steps(self) -> int:
        """Tokens behind the prompt: what it wrote, and what searches returned."""
        return 0 if self.run is None else len(self.run.written)

    @property
    def words(self) -> tuple[str, ...]:
        """Those tokens as words."""
        if self.run is None:
            return ()
        assert self.witness.script is not None
        return tuple(map(self.witness.script.vocabulary.word, self.run.written))


def solve(
    task: Task,
    given: str | Shaped[Tensor, "pos *width"],
    *,
    family: str | None = None,
    variant: str | None = None,
    choices: Choices | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Solution:
    """Build the weights for a task and put one input to them: as text, or as a row of the task.

    A graph may be written as people do, `3 ~ 7` or `3 7`, and the form of a chain of thought is that of the
    construction.
    """
    task = fitted(task, family=family, variant=variant)
    if isinstance(given, str) and isinstance(task, IsTree):
        given = graph_words(edges_in(given))
    row = task.parse(given) if isinstance(given, str) else given
    task.check(row)
    witness = witness_for(task, family=family, variant=variant, choices=choices)
    return ask(witness, row.unsqueeze(0), progress=progress)[0]


def ask(
    witness: Witness,
    rows: Shaped[Tensor, "batch pos *width"],
    *,
    progress: Callable[[Progress], None] | None = None,
) -> list[Solution]:
    """Put several inputs to a witness at once."""
    _refuse_other_rows(witness.task, rows)
    if witness.script is None:
        mask = witness.task.solve(rows).mask  # where there is a question, not what the answer is
        found = witness.model.answers(rows)
        return [
            Solution(witness=witness, row=row, answer=each[where], run=None)
            for row, each, where in zip(rows, found, mask, strict=True)
        ]
    runs = _runs(witness.model, witness.script, rows, progress)
    answers = answers_of(runs, witness.script)
    return [
        Solution(witness=witness, row=row, answer=None if each is None else torch.tensor([each]), run=run)
        for row, run, each in zip(rows, runs, answers, strict=True)
    ]


def _refuse_other_rows(task: Task, rows: Shaped[Tensor, "batch pos *width"]) -> None:
    wide = () if isinstance(task.input_space, Tokens) else (task.input_space.width,)
    if rows.ndim != 2 + len(wide) or tuple(rows.shape[1:]) != (task.length, *wide):
        raise InvalidInput(
            f"This witness is for {task.name} with n={task.n}, whose inputs have the shape "
            f"{(task.length, *wide)}; got rows of the shape {tuple(rows.shape[1:])}. Build one for these."
        )


def written_answers(
    model: ExplicitModel, script: Script, rows: Shaped[Tensor, "batch pos *width"]
) -> Int[Tensor, "batch"]:
    """The classes that a model answers with in writing; `NO_ANSWER` or `CUT_OFF` where it does not."""
    runs = _runs(model, script, rows)
    nothing = [CUT_OFF if run.outcome == "timeout" else NO_ANSWER for run in runs]
    found = zip(answers_of(runs, script), nothing, strict=True)
    return torch.tensor([none if each is None else each for each, none in found], device=rows.device)


def _runs(
    model: ExplicitModel,
    script: Script,
    rows: Shaped[Tensor, "batch pos *width"],
    progress: Callable[[Progress], None] | None = None,
) -> list[Run]:
    if not isinstance(model, CausalModel):
        raise InvalidInput("Only a model that reads token by token can write; this one sees all at once.")
    prompts = [script.prompt(row) for row in rows]
    return generate(cast(CausalModel[Any], model), prompts, script, progress=progress)
