"""Putting inputs to a witness: the answer at once, or what it writes before it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast, final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.generation.decoding import generate
from separatrix.generation.runs import Progress, Run
from separatrix.generation.scripts import Script
from separatrix.models.explicit import ExplicitModel
from separatrix.models.interface import CausalModel
from separatrix.tasks import Classes, Task
from separatrix.witnesses.catalogue import witness_for
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.witness import Witness

__all__ = ["Solution", "ask", "solve", "written_answers"]

UNANSWERED: Final = -1


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
    def tokens(self) -> int:
        """Words or rows that it read or wrote."""
        if self.run is not None:
            return self.run.prompt + len(self.run.written)
        return len(self.row)

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
    """Build the weights for a task and put one input to them: as text, or as a row of the task."""
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
    if witness.script is None:
        mask = witness.task.solve(rows).mask  # where there is a question, not what the answer is
        found = witness.model.answers(rows)
        return [
            Solution(witness=witness, row=row, answer=each[where], run=None)
            for row, each, where in zip(rows, found, mask, strict=True)
        ]
    runs = _runs(witness.model, witness.script, rows, progress)
    return [
        Solution(witness=witness, row=row, answer=_answer(witness.script, run), run=run)
        for row, run in zip(rows, runs, strict=True)
    ]


def written_answers(
    model: ExplicitModel, script: Script, rows: Shaped[Tensor, "batch pos *width"]
) -> Int[Tensor, "batch"]:
    """The classes that a model answers with in writing; −1 where it does not answer."""
    found = [
        script.answer(run.written) if run.outcome == "answered" else None
        for run in _runs(model, script, rows)
    ]
    return torch.tensor([UNANSWERED if each is None else each for each in found], device=rows.device)


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


def _answer(script: Script, run: Run) -> Float[Tensor, "one"] | Int[Tensor, "one"] | None:
    found = script.answer(run.written) if run.outcome == "answered" else None
    return None if found is None else torch.tensor([found])
