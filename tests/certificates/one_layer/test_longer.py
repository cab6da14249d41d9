"""What is proved stands up to an attack ten times as long; verdicts do not depend on who shares the work."""

from __future__ import annotations

from functools import cache

import pytest
import torch

import separatrix
from separatrix import Member, Training
from separatrix.certificates import certify
from separatrix.certificates.one_layer.attack import Effort, worst_input
from separatrix.certificates.one_layer.contexts import Contexts
from separatrix.certificates.one_layer.form import form_of
from separatrix.certificates.one_layer.tables import tables_of
from separatrix.certificates.questions import questions_of
from separatrix.models.population import Population
from separatrix.tasks.interface import Task


@cache
def learned() -> tuple[Population, Task]:
    """A lookup that is nearly always right, trained so briefly that its margins are small."""
    task = separatrix.task("index-lookup", n=6, alphabet=8, lengths="full")
    model = separatrix.model("transformer", layers=1, width=32, heads=2)
    training = Training(steps=400, batch=64, eval_every=100, stop="never")
    (trained,) = separatrix.train(task, model, members=[Member(lr=0.003)], training=training, device="cpu")
    return trained.population, task


@pytest.mark.slow
def test_a_longer_attack_breaks_nothing_that_is_proved() -> None:
    population, task = learned()
    found = certify(population, task)
    assert found.proved >= len(found.cases) // 2
    margins = {(case.query, case.target): case.margin for case in found.cases if case.verdict == "proved"}
    form = form_of(population)
    for question in questions_of(task):
        contexts = Contexts(tables_of(form, question), question)
        for number, region in enumerate(question.regions):
            if (question.query, region.target) not in margins:
                continue
            worst = worst_input(
                form,
                contexts,
                number,
                region.requirements,
                rivals=torch.arange(7),
                effort=Effort().times(10),
                seed=1,
            )
            assert worst.lead >= margins[question.query, region.target]


@pytest.mark.slow
def test_verdicts_are_the_same_from_several_processes() -> None:
    population, task = learned()
    alone, shared = certify(population, task), certify(population, task, processes=2)
    assert [(case.query, case.target, case.verdict) for case in alone.cases] == [
        (case.query, case.target, case.verdict) for case in shared.cases
    ]
    for one, other in zip(alone.cases, shared.cases, strict=True):
        assert one.margin == pytest.approx(other.margin, rel=1e-9)
