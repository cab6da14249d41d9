"""From a trained model with one layer of attention to a verdict for every question and every right answer.

Each region is tried in turn: bounds that its question shares; where they do not suffice, an attack; where it
finds nothing, every input if there are few, else bounds of its own, jointly over heads, interval by interval
of the weight on the target where that may help; then a longer attack. What an attack finds counts only if the
model itself, in its own arithmetic, gets it wrong.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import Final, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from separatrix.certificates.fitting import require_fit
from separatrix.certificates.one_layer.attack import Effort, Worst, worst_input
from separatrix.certificates.one_layer.bounds import Bounds, Bracket
from separatrix.certificates.one_layer.contexts import Contexts
from separatrix.certificates.one_layer.float_errors import ASSUMED, ROUNDING, FloatErrors
from separatrix.certificates.one_layer.form import OneLayer, form_of
from separatrix.certificates.one_layer.tables import Tables, tables_of
from separatrix.certificates.questions import Question, Region, count_of, members_of, questions_of, spelled
from separatrix.evidence import Case, Counterexample, Coverage, Verdict
from separatrix.models.population import ModelConfig, Population, Signature
from separatrix.options import require
from separatrix.tasks import Task
from separatrix.tasks.interface import Tokens, Vectors
from separatrix.tasks.specs import spec_of
from separatrix.version import __version__
from separatrix.witnesses.naming import json_of, weights_of

__all__ = ["Judge", "Observer", "certify_one_layer"]

_RUN: Final = "where a case was settled by running every input, sums are in the order of this machine"
_CHECKER: Final = f"separatrix {__version__}"
_NO_BOUND: Final = -1e30
"""Stands for a bound that says nothing."""
_LEAST_SUM: Final = 2.0**-900
"""Sums of weights above this are rounded by parts of themselves; far below, floats have fewer digits."""
_NEAR: Final = 1e-3
"""A lead that the model's own floats may turn."""
_FAR: Final = 2.0
"""A lead that a longer attack is unlikely to turn."""
_HOPELESS: Final = -1e3
"""A bound so far off that a sharper one will not do either."""
_BRANCHED: Final = -2.0
"""A bound so near that it is worth to be tried part by part."""
_HEADS_CUT: Final = 2
_PARTS: Final = 3
"""Intervals of the weight of a head, and of how many heads."""
_FEW: Final = 1 << 18
"""Inputs of a region that are run one by one where bounds do not suffice."""
_INPUTS_AT_ONCE: Final = 1 << 12
_SAMPLES: Final = 10_000
_POSITIONS_AT_ONCE: Final = 1 << 19

Observer = Callable[[Case], None]
"""Told of every case as it is settled."""


def certify_one_layer(
    population: Population,
    task: Task,
    *,
    device: torch.device | str = "cpu",
    effort: Effort | None = None,
    seed: int = 0,
    samples: int = _SAMPLES,
    processes: int = 1,
    observer: Observer | None = None,
) -> Coverage:
    """A verdict for every question of the task and every right answer to it; see `Coverage`.

    Questions are shared among `processes`, each with one thread; the verdicts do not depend on how many.
    """
    require(processes >= 1, f"At least one process certifies; got processes={processes}.")
    started = time.monotonic()
    judge = Judge(population, task, device=device, effort=effort or Effort(), seed=seed)
    cases = []
    for case in judge.cases() if processes == 1 else _shared(judge, processes):
        cases.append(case)
        if observer is not None:
            observer(case)
    broken = next((case for case in cases if case.verdict == "refuted"), None)
    sampled, right = judge.sampled(samples)
    return Coverage(
        weights_sha256=judge.sha256,
        task=spec_of(task),
        arithmetic=judge.form.precision,
        cases=tuple(cases),
        checker=_CHECKER,
        assumptions=(*ASSUMED, _RUN) if any(case.by == "every input" for case in cases) else ASSUMED,
        counterexample=None if broken is None else judge.counterexample(broken),
        sampled=sampled,
        sampled_right=right,
        seconds=round(time.monotonic() - started, 3),
    )


@final
@dataclass(eq=False)
class Judge:
    """One model on one task."""

    population: Population
    task: Task
    device: torch.device | str
    effort: Effort
    seed: int
    form: OneLayer = field(init=False)
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        self.form = form_of(self.population, device=self.device)
        require_fit(self.population, self.task)
        self.sha256 = weights_of(self.population.member(0))
        self.population = self.population.alone(0).to(self.device)  # a copy: the caller's stays where it is

    @torch.no_grad()
    def cases(self) -> Iterator[Case]:
        """Every case, question by question."""
        for question in questions_of(self.task):
            yield from self.answered(question)

    @torch.no_grad()
    def answered(self, question: Question) -> Iterator[Case]:
        """The cases of one question."""
        yield from _Asked(self, question).cases()

    def outputs(
        self, question: Question, rows: Shaped[Tensor, "batch pos *width"]
    ) -> Float[Tensor, "batch out"]:
        """What the model itself puts out where the question is asked."""
        at = torch.full((1, len(rows), 1), question.asked, device=self.device)
        found: Float[Tensor, "batch out"] = self.population(rows.unsqueeze(0).to(self.device), at)[
            0, :, 0
        ].cpu()
        return found

    def replayed(self, question: Question, row: Shaped[Tensor, "pos *width"]) -> Tensor | None:
        """The model's answer to an input, alone in its batch, if it is wrong by the task's own oracle."""
        labels = self.task.solve(row.unsqueeze(0))
        assert bool(labels.mask[0, question.asked]), "the task asks for an answer there"
        output = self.outputs(question, row.unsqueeze(0))[0]
        right = labels.targets[0, question.asked]
        space = self.task.target_space
        if isinstance(space, Vectors):
            near = float((output - right).double().norm()) < space.tolerance
            return None if near else output
        answer = output.argmax()
        return None if int(answer) == int(right) else answer

    def counterexample(self, case: Case) -> Counterexample:
        """A refuted case as evidence, with what the task itself says of its input."""
        space = self.task.input_space
        row = torch.tensor(case.input, dtype=torch.int64 if isinstance(space, Tokens) else torch.float32)
        labels = self.task.solve(row.unsqueeze(0))
        return Counterexample(
            task=spec_of(self.task),
            input=json_of(row),
            expected=json_of(labels.targets[0, case.asked]),
            answered=case.answered,
            weights_sha256=self.sha256,
            arithmetic=self.form.precision,
            text=self.task.render(row)[:100_000],
        )

    @torch.no_grad()
    def sampled(self, count: int) -> tuple[int, int]:
        """How many random inputs of full length were tried, and how many of them were all right."""
        full, right = self.task.full_length(), 0
        space = self.task.target_space
        step = max(1, _POSITIONS_AT_ONCE // self.task.length)
        for start in range(0, count, step):
            drawn = full.sample(min(step, count - start), seed=self.seed, start=start)
            outputs = self.population(drawn.inputs.unsqueeze(0).to(self.device))[0].cpu()
            if isinstance(space, Vectors):
                good = (outputs - drawn.targets).norm(dim=2) < space.tolerance
            else:
                good = outputs.argmax(2) == drawn.targets
            right += int((good | ~drawn.mask).all(1).sum())
        return count, right


@final
class _Asked:
    """One question to the model."""

    def __init__(self, judge: Judge, question: Question) -> None:
        if not judge.form.causal:
            question = _with_padding(question, judge.task)
        self.judge, self.question = judge, question
        self.tables: Tables = tables_of(judge.form, question)
        # The tables are floats too, so their own errors count beside those of the model's arithmetic.
        unit = ROUNDING[judge.form.precision] + ROUNDING["float64"]
        self.errors = errors = FloatErrors(judge.form, question, self.tables, unit=unit)
        self.contexts = Contexts(self.tables, question, scores=errors.scores, stream=errors.stream)
        known = self.contexts.least_below, self.contexts.most_below, errors.stream
        enough = bool((known[0] > _LEAST_SUM).all())
        self.bounded = enough and all(bool(each.isfinite().all()) for each in known)
        if self.bounded:
            self.bounds = Bounds(judge.form, self.contexts, errors)

    def cases(self) -> Iterator[Case]:
        for number, region in enumerate(self.question.regions):
            yield self._case(number, region)

    def _case(self, number: int, region: Region) -> Case:
        margins = torch.full((len(region.requirements.offsets),), _NO_BOUND, dtype=torch.float64)
        if not len(margins):  # there is but one answer
            return self._proved(region, margins)
        if self.bounded:
            known = self.bounds.bracket(number)
            margins = self._margins(known, region)
            if bool((margins > 0).all()):
                return self._proved(region, margins)
        tried = self._attacked(number, region, margins, self.judge.effort)
        if tried.verdict == "refuted":
            return tried
        if count_of(region) <= _FEW:
            return self._every_input(region)
        if self.bounded and float(margins.min()) > _HOPELESS:
            sharp = self.bounds.sharpened(known)
            margins = torch.maximum(margins, self._margins(sharp, region, closer=True))
            if float(margins.min()) > _BRANCHED and not bool((margins > 0).all()):
                margins = torch.maximum(margins, self._branched(number, region))
            if bool((margins > 0).all()):
                return self._proved(region, margins, found=tried.found)
        if tried.found is None or tried.found <= _FAR:
            tried = self._attacked(number, region, margins, self.judge.effort.times(6))
        return replace(tried, margin=float(margins.min()))

    def _branched(self, number: int, region: Region) -> Float[Tensor, "rival"]:
        """The least margins over intervals of the weights on what stands fast, as the target does.

        A head's weight on it is its own weight over the denominator, so denominators are cut, those of the
        heads first that vary most; every input lies in one of the parts.
        """
        low, high = self.contexts.least_below[number], self.contexts.most_below[number]
        chosen = (high / low).argsort(descending=True)[:_HEADS_CUT].tolist()
        parts = []
        for head in chosen:
            first, last = float(low[head]), float(high[head])
            inner = [first * (last / first) ** (part / _PARTS) for part in range(1, _PARTS)]
            parts.append([(head, pair) for pair in pairwise([first, *inner, last])])
        only = replace(self.question, regions=(region,))
        least = torch.full((len(region.requirements.offsets),), math.inf, dtype=torch.float64)
        for cut in product(*parts):
            contexts = Contexts(
                self.tables,
                only,
                scores=self.errors.scores,
                stream=self.errors.stream,
                between=dict(cut),
            )
            bounds = Bounds(self.judge.form, contexts, self.errors)
            known = bounds.sharpened(bounds.bracket(0))
            here = bounds.margins(known, region.requirements, closer=True).cpu()
            least = torch.minimum(least, here.nan_to_num(_NO_BOUND))
            if not bool((least > 0).all()):
                break  # the others cannot mend it
        return least.clamp_min(_NO_BOUND).to(low.device)

    def _every_input(self, region: Region) -> Case:
        """The model itself on every input of a small region."""
        least, worst = math.inf, None
        required = region.requirements
        for options in torch.split(members_of(region), _INPUTS_AT_ONCE):
            rows = spelled(self.judge.task, self.question, region, options)
            outputs = self.judge.outputs(self.question, rows)
            leads = (outputs.double() @ required.directions.T + required.offsets).amin(1)
            place = int(leads.argmin())
            if not float(leads[place]) >= least:  # what is no number is not right either
                least, worst = float(leads[place]), rows[place]
            if math.isnan(least):
                break
        answer = None if worst is None or least > 0 else self.judge.replayed(self.question, worst)
        verdict: Verdict = "refuted" if answer is not None else "proved" if least > 0 else "unknown"
        return Case(
            query=self.question.query,
            target=region.target,
            verdict=verdict,
            margin=least if math.isfinite(least) else _NO_BOUND,
            asked=self.question.asked,
            by="every input",
            found=least if math.isfinite(least) else None,
            input=None if answer is None or worst is None else json_of(worst),
            answered=None if answer is None else json_of(answer),
        )

    def _margins(self, known: Bracket, region: Region, *, closer: bool = False) -> Float[Tensor, "rival"]:
        margins = self.bounds.margins(known, region.requirements, closer=closer)
        return margins.nan_to_num(_NO_BOUND, posinf=_NO_BOUND, neginf=_NO_BOUND).clamp_min(_NO_BOUND)

    def _proved(self, region: Region, margins: Float[Tensor, "rival"], found: float | None = None) -> Case:
        return Case(
            query=self.question.query,
            target=region.target,
            verdict="proved",
            margin=float(margins.min()) if len(margins) else 1.0,
            asked=self.question.asked,
            found=found,
        )

    def _attacked(self, number: int, region: Region, margins: Float[Tensor, "rival"], effort: Effort) -> Case:
        worst: Worst = worst_input(
            self.judge.form,
            self.contexts,
            number,
            region.requirements,
            rivals=margins.argsort(),
            effort=effort,
            seed=self.judge.seed,
        )
        known = math.isfinite(worst.lead)
        row, answer = None, None
        if worst.lead < _NEAR or not known:
            row = spelled(self.judge.task, self.question, region, worst.options.unsqueeze(0))[0]
            answer = self.judge.replayed(self.question, row)
        return Case(
            query=self.question.query,
            target=region.target,
            verdict="unknown" if answer is None else "refuted",
            margin=float(margins.min()),
            asked=self.question.asked,
            by="bounds" if answer is None else "attack",
            found=worst.lead if known else None,
            input=None if answer is None or row is None else json_of(row),
            answered=None if answer is None else json_of(answer),
        )


_given: list[Judge] = []
"""Of a process that was started to share the work, its one judge."""


def _begin(
    kind: type[Population],
    config: ModelConfig,
    signature: Signature,
    weights: dict[str, Tensor],
    task: Task,
    effort: Effort,
    seed: int,
) -> None:
    torch.set_num_threads(1)
    population = kind(config, signature, members=1).to(next(iter(weights.values())).dtype)
    population.load_state_dict(weights)
    _given.append(Judge(population, task, device="cpu", effort=effort, seed=seed))


def _answer(number: int) -> tuple[Case, ...]:
    judge = _given[0]
    return tuple(judge.answered(questions_of(judge.task)[number]))


def _shared(judge: Judge, processes: int) -> Iterator[Case]:
    # Started afresh: a copy of a process in which torch has threads may hang.
    start = multiprocessing.get_context("spawn")
    own = judge.population
    weights = {name: values.cpu() for name, values in own.state_dict().items()}
    known = (type(own), own.config, own.signature, weights, judge.task, judge.effort, judge.seed)
    with ProcessPoolExecutor(processes, mp_context=start, initializer=_begin, initargs=known) as pool:
        for cases in pool.map(_answer, range(len(questions_of(judge.task)))):
            yield from cases


def _with_padding(question: Question, task: Task) -> Question:
    """The question with the padding behind its inputs, which a model that looks ahead attends to as well."""
    missing = task.length - question.length
    if not missing:
        return question
    space = task.input_space
    assert isinstance(space, Tokens)
    assert space.pad is not None, "a task whose inputs end early has padding"
    assert all(region.order is None for region in question.regions), "an order is about whole inputs"
    padding = torch.full((missing, *question.options.shape[1:]), space.pad, dtype=question.options.dtype)
    only = torch.zeros(missing, question.options.shape[1], dtype=torch.bool)
    only[:, 0] = True
    return replace(
        question,
        options=torch.cat([question.options, padding]),
        regions=tuple(
            replace(region, allowed=torch.cat([region.allowed, only])) for region in question.regions
        ),
    )
