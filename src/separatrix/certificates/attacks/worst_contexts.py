"""Worst contexts: for a model with one layer of attention, what the certifier's own tables call worst."""

from __future__ import annotations

from typing import ClassVar, Final, final

from separatrix.certificates.attacks.hunts import Attack, Hunt
from separatrix.certificates.one_layer.attack import Effort, worst_input
from separatrix.certificates.one_layer.contexts import Contexts
from separatrix.certificates.one_layer.form import OneLayer, form_of
from separatrix.certificates.one_layer.tables import tables_of
from separatrix.certificates.questions import Question, Questions, questions_of, spelled
from separatrix.errors import InvalidInput

__all__ = ["WorstContexts"]

_QUICK: Final = Effort(rivals=8, starts=2, steps=8, polish=1)


@final
class WorstContexts(Attack):
    """Cases of a task in random order; each is searched by the gradient of what its heads read."""

    name: ClassVar[str] = "worst contexts"

    def run(self, hunt: Hunt) -> str | None:
        """One question a round, all its right answers in turn; then all questions again, for longer."""
        population = hunt.subject.guide
        if population is None:
            return None
        try:
            form, questions = form_of(population), questions_of(hunt.task)
        except InvalidInput:
            return None
        order = hunt.draws(len(questions)).keys("questions", 1).squeeze(1).argsort().tolist()
        number, effort = 0, _QUICK
        while hunt.goes_on(number):
            self._attack(hunt, form, questions[order[number % len(order)]], effort)
            number += 1
            if number % len(order) == 0:
                effort = effort.times(2)
        return self._note(number, questions)

    @staticmethod
    def _note(number: int, questions: Questions) -> str:
        every = (
            "every question" if number >= len(questions) else f"{number:,} of {len(questions):,} questions"
        )
        return f"{every} asked"

    def _attack(self, hunt: Hunt, form: OneLayer, question: Question, effort: Effort) -> None:
        tables = tables_of(form, question)
        contexts = Contexts(tables, question)
        middles = form.tail(contexts.centres())
        for number, region in enumerate(question.regions):
            if hunt.enough:
                return
            required = region.requirements
            leads = middles[number] @ required.directions.T + required.offsets
            found = worst_input(
                form, contexts, number, required, rivals=leads.argsort(), effort=effort, seed=hunt.seed
            )
            hunt.judge(spelled(hunt.task, question, region, found.options.unsqueeze(0)))
