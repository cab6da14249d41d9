"""What a trained model scores on IsTree when it really writes, and every search it asks for is executed.

Training judges each word on its own, behind right ones. Here a model is given the graph alone and goes on
from its own words until it answers. Graphs are those on which a trained member is tested in the end.

A model that writes searches writes them in short. They are spelled out and run, and what they find is put
into its text, whatever it would have written there. A search that is none ends the run without an answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import torch

from separatrix.errors import InvalidInput
from separatrix.evidence import Decoded
from separatrix.experiments.cells import Measured
from separatrix.generation.decoding import generate
from separatrix.generation.runs import Progress, Run
from separatrix.generation.scripts import Script, answers_of, script_named
from separatrix.generation.searching import require_engine
from separatrix.models.explicit.base import ExplicitModel
from separatrix.models.interface import CausalModel, SequenceModel
from separatrix.models.population import Population, population_of
from separatrix.options import require
from separatrix.tasks.interface import Task
from separatrix.tasks.is_tree import IsTree
from separatrix.tasks.specs import spec_of
from separatrix.training.engine import arithmetic
from separatrix.training.evaluation import TEST_EXAMPLES_FROM, TEST_SEED
from separatrix.training.recipes import Precision
from separatrix.version import __version__
from separatrix.witnesses.naming import arithmetic_of, weights_of

__all__ = ["decoded_score", "measured", "script_of"]

_SCRIPT_OF_FORM: Final = {"direct": "is-tree-verdict", "cot": "is-tree-tour"}
_SCRIPT_OF_TRACE: Final = {"compact": "is-tree-compact-searches", "full": "is-tree-searches"}
_ROWS: Final = 128
"""Rows at once on a CPU, whose caches hold no more."""
_ROWS_ON_A_GPU: Final = 4096
_DRAWN: Final = 1024
"""Examples drawn at once."""


def decoded_score(
    model: Population | SequenceModel,
    task: Task,
    *,
    examples: int = 5000,
    seed: int = TEST_SEED,
    device: torch.device | str | None = None,
    batch: int | None = None,
    precision: Precision = "float32",
    progress: Callable[[Progress], None] | None = None,
) -> Decoded:
    """Put so many graphs to a model, let it write, and count its answers.

    `device` is where it computes, by default where its weights are; `batch` is how many rows it writes at
    once, which changes nothing but the time and the memory.
    """
    script = script_of(task)
    require(examples >= 1, f"A score needs at least one example; got examples={examples}.")
    if script.searches:
        require_engine()
    writer, place = _writer(model, device)
    asked = _asked(script, examples=examples, seed=seed)
    begun = time.perf_counter()
    with arithmetic(precision, place):
        runs = generate(
            writer,
            asked.prompts,
            script,
            batch=batch or (_ROWS_ON_A_GPU if place.type == "cuda" else _ROWS),
            device=place,
            progress=progress,
        )
    seconds = time.perf_counter() - begun
    answers = answers_of(runs, script)
    return Decoded(
        task=spec_of(task),
        weights_sha256=weights_of(writer) if _has_weights(writer) else None,
        arithmetic=_named(writer, precision),
        seed=seed,
        first=TEST_EXAMPLES_FROM,
        examples=examples,
        right=sum(got == want for got, want in zip(answers, asked.answers, strict=True)),
        unanswered=answers.count(None),
        cut_off=sum(run.outcome == "timeout" for run in runs),
        tours_right=_whole_texts(runs, asked.texts) if script.limit > 1 else None,
        searches=sum(search.outcome != "invalid" for run in runs for search in run.searches),
        seconds=seconds,
        checker=f"separatrix {__version__}",
    )


def measured(found: Decoded) -> Measured:
    """The score as a cell's number. Its interval is Wilson's at the score's points, halves among them.

    Wilson's interval is made of every mean μ from which the score is no further than z·√(μ(1 − μ)/n). An
    example scores 0, ½ or 1; its square is never more than itself, so its variance is at most μ(1 − μ),
    which it is where all are answered. Halves therefore make the interval wider than it needs to be, and
    never too narrow. To count them as two examples of half the weight each would make it too narrow.
    """
    note = f"{found.unanswered:,} of {found.examples:,} unanswered" if found.unanswered else ""
    return Measured(right=found.points, examples=found.examples, seconds=found.seconds, note=note)


def script_of(task: Task) -> Script:
    """How graphs are put to a model that was trained on this form of the task."""
    if not isinstance(task, IsTree):
        raise InvalidInput(f"Models are scored by what they write on is-tree only; got {task.name}.")
    searches = task.form == "retrieval"
    return script_named(_SCRIPT_OF_TRACE[task.trace] if searches else _SCRIPT_OF_FORM[task.form], task)


@final
@dataclass(frozen=True, kw_only=True)
class _Asked:
    """Prompts, with the answers and the whole texts that belong behind them."""

    prompts: Sequence[Sequence[int]]
    answers: Sequence[int]
    texts: Sequence[tuple[int, ...]]


def _asked(script: Script, *, examples: int, seed: int) -> _Asked:
    prompts, answers, texts = [], [], []
    task = script.task.full_length()
    for low in range(0, examples, _DRAWN):
        drawn = task.sample(min(_DRAWN, examples - low), seed=seed, start=TEST_EXAMPLES_FROM + low)
        verdicts: list[int] = drawn.labels.answer.tolist()
        for row, end, verdict in zip(drawn.inputs, drawn.lengths.tolist(), verdicts, strict=True):
            prompt = script.prompt(row)
            prompts.append(prompt)
            answers.append(verdict)
            texts.append((*row[len(prompt) : end].tolist(), verdict))
    return _Asked(prompts=prompts, answers=answers, texts=texts)


def _whole_texts(runs: Sequence[Run], texts: Sequence[tuple[int, ...]]) -> int:
    return sum(run.written == text for run, text in zip(runs, texts, strict=True))


def _writer(
    model: Population | SequenceModel, device: torch.device | str | None
) -> tuple[CausalModel[Any], torch.device]:
    """One model that reads token by token, and where it computes."""
    population = model if isinstance(model, Population) else population_of(model)
    if population is None:
        writer, place = model, torch.device(device or "cpu")
    else:
        require(
            population.members == 1,
            f"One model is decoded at a time, and this population has {population.members}; "
            "take population.member(i).",
        )
        place = torch.device(device) if device is not None else next(population.parameters()).device
        writer = population.alone(0).to(place).member(0)
    if not isinstance(writer, CausalModel):
        raise InvalidInput("Only a model that reads token by token can write; this one sees all at once.")
    return writer, place


def _has_weights(writer: CausalModel[Any]) -> bool:
    return isinstance(writer, ExplicitModel) or population_of(writer) is not None


def _named(writer: CausalModel[Any], precision: Precision) -> str:
    """The arithmetic, as `training.arithmetic` sets it."""
    if not _has_weights(writer):
        return "none"
    weights = arithmetic_of(writer)
    return f"bfloat16 products over {weights}" if precision == "bfloat16" else weights
