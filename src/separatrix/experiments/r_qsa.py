"""R's talk, "Empirical solution": what one attention unit attends to while it learns sparse averaging.

R shows the matrices softmax((φ(X)Wq)(φ(X)Wk)ᵀ) at N = 20 and q = 3 on one fixed X after 0, 1000 and 40000
epochs, with no numbers and no protocol. Here an epoch is a step of Adam on 64 fresh examples at a constant
rate, so that the run of 1000 steps is how that of 40000 begins. Beside the matrices stand the pattern that
the task asks for, 1/q at the members of S_i, and the attention of the unit that the theorem builds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.attention_pictures import (
    AttentionPicture,
    AttentionPictures,
    attention_picture,
    figure,
)
from separatrix.experiments.cells import Budget, Cell, Measured, Panel, Study
from separatrix.experiments.illustrations import Illustration
from separatrix.experiments.protocols import Settings
from separatrix.experiments.scheduling import unfinished
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.transformer import UnmaskedTransformer
from separatrix.models.population import Population
from separatrix.models.sparse_set_unit import SparseSetUnit
from separatrix.store import Store
from separatrix.tasks.q_sparse_averaging import QSparseAveraging
from separatrix.training.evaluation import TEST_EXAMPLES_FROM, TEST_SEED, Counted, evaluate
from separatrix.training.jobs import Job, job_for
from separatrix.training.labelled import judged, questions
from separatrix.training.recipes import Member, Training
from separatrix.training.running import run_job
from separatrix.witnesses import Witness, witness_for

__all__ = [
    "attention_of",
    "qsa_jobs",
    "qsa_pictures",
    "qsa_task",
    "r_qsa",
    "shown_input",
    "target_pattern",
    "witness_attention",
]

_WITNESS: Final = "the theorem's unit"
_AT_ONCE: Final = 500


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """How large all is at a budget."""

    n: int
    q: int
    width: int
    rate: float
    steps: tuple[int, ...]
    batch: int
    examples: int


_AS_R: Final = _Scale(n=20, q=3, width=64, rate=3e-4, steps=(1_000, 40_000), batch=64, examples=5_000)
_SCALES: Final[dict[Budget, _Scale]] = {
    "smoke": _Scale(n=6, q=2, width=16, rate=1e-2, steps=(30, 60), batch=16, examples=200),
    "quick": _AS_R,
    "paper": _AS_R,
}
_LOOKS: Final = 20


@EXPERIMENTS.register("r-qsa")
def r_qsa(settings: Settings) -> Study:
    """One unit in training, and the witness."""
    asked, scale = qsa_task(settings.budget), _SCALES[settings.budget]
    jobs = tuple(job for seed in settings.seeds for job in qsa_jobs(settings.budget, seed=seed))
    return Study(
        name="r-qsa",
        title="Sparse averaging: what a unit learns to attend to",
        work="R",
        where="talk, empirical solution",
        claim="One attention unit learns to average q of N values, and comes to attend to them alone, "
        "evenly, as the theorem's does.",
        budget=settings.budget,
        panels=(
            Panel(
                name="qsa",
                title=f"Sparse averaging, q = {asked.q}",
                cells=(
                    Cell(row=f"unit-(1,{scale.width})", column=asked.n, jobs=jobs),
                    Cell(row=_WITNESS, column=asked.n, measure=partial(_measured, asked, scale.examples)),
                ),
                said="R shows attention matrices and no numbers.",
                curves_at=asked.n,
            ),
        ),
        illustrate=partial(_illustrated, settings.budget, settings.seeds[0]),
    )


def qsa_task(budget: Budget) -> QSparseAveraging:
    """The task at this budget: R's size, or a small one."""
    return QSparseAveraging(n=_SCALES[budget].n, q=_SCALES[budget].q)


def qsa_jobs(budget: Budget, *, seed: int = 0) -> tuple[Job, ...]:
    """A job for each picture in training: the same but for the steps, so that each begins the next."""
    scale = _SCALES[budget]
    return tuple(
        job_for(
            qsa_task(budget),
            SparseSetUnit.Config(width=scale.width),
            members=[Member(lr=scale.rate, seed=seed)],
            training=Training(
                steps=steps,
                batch=scale.batch,
                eval_every=max(1, steps // _LOOKS),
                eval_examples=min(500, scale.examples),
                test_examples=scale.examples,
                stop="never",
            ),
        )
        for steps in scale.steps
    )


def qsa_pictures(
    store: Store | None, budget: Budget, *, seed: int = 0, device: str = "auto"
) -> AttentionPictures:
    """Train what the store lacks, and show what the unit attends to before and after each run."""
    task, jobs, examples = qsa_task(budget), qsa_jobs(budget, seed=seed), _SCALES[budget].examples
    example = shown_input(task)
    target = target_pattern(task, example)
    begun = _unit(jobs[0].population(1).initialise([seed]))
    (counted,) = evaluate(begun, task, examples=examples, precision="float32", first=TEST_EXAMPLES_FROM)
    pictures = [_counted_picture("0 steps", attention_of(begun, example), target, counted)]
    for job in jobs:
        (trained,) = run_job(job, store=store, device=device)
        pictures.append(
            attention_picture(
                f"{trained.steps:,} steps",
                attention_of(_unit(trained.population), example),
                target,
                right=trained.correct,
                examples=trained.examples,
                label_accuracy=trained.label_accuracy,
            )
        )
    witness = witness_for(task, family="transformer-1")
    return AttentionPictures(
        task=jobs[0].task,
        model=jobs[0].model,
        member=jobs[0].members[0],
        q=task.q,
        text=task.render(example),
        sets=tuple(tuple(int(member) for member in row if member) for row in example[:, task.d :].tolist()),
        steps=(0, *(job.training.steps for job in jobs)),
        trained=tuple(pictures),
        witness=_counted_picture(
            _WITNESS, witness_attention(witness, example), target, _witness_counted(witness, task, examples)
        ),
    )


def shown_input(task: QSparseAveraging) -> Float[Tensor, "pos row"]:
    """The input of all pictures: the first that models are tested on, which nobody was trained on."""
    return task.sample(1, seed=TEST_SEED, start=TEST_EXAMPLES_FROM).inputs[0]


def target_pattern(task: QSparseAveraging, example: Float[Tensor, "pos row"]) -> Float[Tensor, "query key"]:
    """1/q at the members of S_i, in row i."""
    members = example[:, task.d :].long()
    # Column 0 takes what absent members would have, and is cut off.
    pattern = torch.zeros(task.n, task.n + 1, dtype=torch.float64).scatter_(1, members, 1 / task.q)
    return pattern[:, 1:]


def attention_of(unit: SparseSetUnit, example: Float[Tensor, "pos row"]) -> Float[Tensor, "query key"]:
    """What the first member of a population attends to."""
    with torch.no_grad():
        return unit.attention(example.expand(unit.members, 1, *example.shape))[0, 0]


def witness_attention(witness: Witness, example: Float[Tensor, "pos row"]) -> Float[Tensor, "query key"]:
    """What the theorem's unit attends to, without the elements of its own that fill up small sets."""
    built = witness.model
    assert isinstance(built, UnmaskedTransformer)
    (layer,) = built.layers
    (head,) = layer.heads
    assert isinstance(head, Head)
    inputs = example.unsqueeze(0)
    places = torch.arange(len(example) + len(built.inputs.appended)).unsqueeze(0)
    stream = built.inputs.embed(inputs, places, built.inputs.lengths(inputs))[0]
    logits = (stream[: len(example)] @ head.query.T) @ (stream @ head.key.T).T
    return logits.softmax(1)[:, : len(example)]


def _unit(population: Population) -> SparseSetUnit:
    assert isinstance(population, SparseSetUnit)
    return population


def _counted_picture(
    name: str, weights: Float[Tensor, "query key"], target: Float[Tensor, "query key"], counted: Counted
) -> AttentionPicture:
    return attention_picture(
        name,
        weights,
        target,
        right=counted.right,
        examples=counted.examples,
        label_accuracy=counted.labels_right / counted.labels,
    )


def _witness_counted(witness: Witness, task: QSparseAveraging, examples: int) -> Counted:
    """The witness on the inputs that trained models are tested on."""
    right = labels = labels_right = 0
    for low in range(0, examples, _AT_ONCE):
        count = min(_AT_ONCE, examples - low)
        drawn = task.sample(count, seed=TEST_SEED, start=TEST_EXAMPLES_FROM + low)
        asked = questions(drawn, 1, most=task.asking.most)
        found = judged(witness.model.forward(drawn.inputs).unsqueeze(0), asked, task.target_space)
        right += int(found.examples_right)
        labels += int(found.labels)
        labels_right += int(found.labels_right)
    return Counted(examples=examples, right=right, labels=labels, labels_right=labels_right)


def _measured(task: QSparseAveraging, examples: int, _: Store) -> Measured:
    counted = _witness_counted(witness_for(task, family="transformer-1"), task, examples)
    return Measured(right=counted.right, examples=counted.examples, note="weights as the theorem has them")


def _illustrated(budget: Budget, seed: int, store: Store) -> Sequence[Illustration]:
    """The matrices, once all runs that they come from are there."""
    if unfinished(qsa_jobs(budget, seed=seed), store):
        return ()
    pictures = qsa_pictures(store, budget, seed=seed, device="cpu")
    caption = (
        f"Attention of one unit on one input of sparse averaging, N = {len(pictures.sets)} and "
        f"q = {pictures.q}: in row i the weight that place i gives to every place, with an edge around the "
        "members of S_i. Astray is the weight that would have to move to make the matrix the target. An "
        "answer is right if it is nearer than 1/(4q) to the mean."
    )
    return (
        Illustration(
            name="r-qsa-attention", caption=caption, record=pictures, draw=partial(figure, pictures)
        ),
    )
