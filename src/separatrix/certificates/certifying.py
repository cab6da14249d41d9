"""From weights to a verdict: prove them right on every input, or show the input they fail on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final, TypeAlias, final, overload

import torch
from jaxtyping import Shaped
from torch import Tensor

from separatrix.certificates.covered import inputs_of
from separatrix.certificates.enclosures import Unbounded, rounding_of
from separatrix.certificates.exhaustive import few_inputs, first_wrong, work_of, wrong_rows
from separatrix.certificates.one_layer import Observer, certify_one_layer
from separatrix.certificates.proofs import PROOFS, proof_for
from separatrix.certificates.refusals import NotProved, NotRun
from separatrix.certificates.suspects import suspects
from separatrix.errors import InvalidInput
from separatrix.evidence import Certificate, Claim, Counterexample, Coverage, Interval
from separatrix.generation.scripts import Script
from separatrix.models.explicit import ExplicitModel
from separatrix.models.interface import SequenceModel
from separatrix.models.population import Population, population_of
from separatrix.precision import FixedPoint, name_of
from separatrix.tasks import Reals, Task, Vectors
from separatrix.tasks.specs import spec_of
from separatrix.version import __version__
from separatrix.witnesses import Witness
from separatrix.witnesses.files import load, weights_sha256
from separatrix.witnesses.language import Built
from separatrix.witnesses.naming import json_of
from separatrix.witnesses.solving import written_answers

__all__ = ["certify", "replay"]

_CHECKER: Final = f"separatrix {__version__}"
_RANDOM_TRIED: Final = 256
_WORK_IN_FLOATS: Final = 1 << 26
_WORK_IN_FIXED_POINT: Final = 1 << 22
_CUT_OFF: Final = "A search was cut off, so that not every input was run to its end."


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Outcome:
    """What a stage found out: claims that prove the statement, or an input that refutes it, or neither."""

    claims: tuple[Claim, ...] = ()
    assumptions: tuple[str, ...] = ()
    wrong: Shaped[Tensor, "pos *width"] | None = None
    note: str = ""
    theorem: str | None = None

    @property
    def settled(self) -> bool:
        return bool(self.claims) or self.wrong is not None


@final
@dataclass(frozen=True, eq=False)
class _About:
    """What is to be certified: a model, a task, the (theorem, variant) of proofs to try, what is claimed."""

    model: ExplicitModel
    task: Task
    keys: tuple[tuple[str, str], ...]
    claims: tuple[Claim, ...]
    theorem: str | None
    script: Script | None = None


Trained: TypeAlias = Population | SequenceModel
"""A trained model: a population of one, or a member of one."""


@overload
def certify(  # type: ignore[overload-overlap]  # an explicit model is a sequence model too; this one is meant
    subject: Witness | Built | ExplicitModel | Path | str, task: Task | None = None
) -> Certificate: ...


@overload
def certify(
    subject: Trained,
    task: Task,
    *,
    device: torch.device | str = "cpu",
    seed: int = 0,
    processes: int = 1,
    observer: Observer | None = None,
) -> Coverage: ...


def certify(
    subject: Witness | Built | ExplicitModel | Path | str | Trained,
    task: Task | None = None,
    *,
    device: torch.device | str = "cpu",
    seed: int = 0,
    processes: int = 1,
    observer: Observer | None = None,
) -> Certificate | Coverage:
    """Prove weights right on every input of a task, from the weights and their spec alone.

    A trained model with one layer of attention gets a verdict for every question and every right answer, a
    `Coverage`: `processes` share the questions, and `observer` is told of each case as it is settled.

    A witness, or the folder of one, brings its task and names the theorem whose proof is tried. A model by
    itself needs the task, and every proof that is known for it is tried.

    First the proof that belongs to its theorem, on the tensors, with the rounding of its arithmetic inside;
    where that does not go through, every input if there are few; else a search for one it fails on. What is
    neither proven nor refuted is unknown, and the certificate says how far the proof came. So is what could
    not be run because a search was cut off.
    """
    population = _trained(subject)
    if population is not None:
        if task is None:
            raise InvalidInput("A model is certified for a task; name it: certify(model, task).")
        return certify_one_layer(
            population, task, device=device, seed=seed, processes=processes, observer=observer
        )
    assert not isinstance(subject, Population)
    assert isinstance(subject, ExplicitModel) or not isinstance(subject, SequenceModel)
    started = time.monotonic()
    about = _about(subject, task)
    try:
        return _certificate(about, _outcome(about), started)
    except NotRun:
        return _certificate(about, _Outcome(note=_CUT_OFF), started)


def _trained(subject: object) -> Population | None:
    """The population of one behind a trained model; None for what is certified as a whole."""
    if isinstance(subject, Population):
        return subject
    if isinstance(subject, ExplicitModel) or not isinstance(subject, SequenceModel):
        return None
    population = population_of(subject)
    if population is None:
        raise InvalidInput(
            f"A witness, or a trained model with one layer of attention, is certified; got "
            f"{type(subject).__name__}. break_model (`separatrix break`) takes any model."
        )
    return population


def _about(subject: Witness | Built | ExplicitModel | Path | str, task: Task | None) -> _About:
    match subject:
        case Witness():
            if subject.script is not None and task is not None and spec_of(task) != spec_of(subject.task):
                raise InvalidInput(
                    f"A witness that writes is certified for its own task, {spec_of(subject.task)}; "
                    f"got {spec_of(task)}. Build one for that."
                )
            keys: tuple[tuple[str, str], ...] = ((subject.theorem, subject.variant),)
            return _About(
                subject.model, task or subject.task, keys, subject.claims, subject.theorem, subject.script
            )
        case str() | Path():
            return _about(load(subject), task)
        case Built():
            if task is None and subject.program.own_words:
                raise InvalidInput(
                    "This program reads words of its own, so there is no task to hold it to; name one whose "
                    "inputs are such words: certify(built, task)."
                )
            return _about(subject.model, task or subject.program.task)
        case ExplicitModel():
            if task is None:
                raise InvalidInput("A model is certified for a task; name it: certify(model, task).")
            keys = tuple((theorem, variant) for theorem, name, variant in PROOFS if name == task.name)
            return _About(subject, task, keys, (), None)
    raise InvalidInput(
        f"A witness, its folder, or a model with a task is certified; got {type(subject).__name__}."
    )


def _outcome(about: _About) -> _Outcome:
    outcome = _proof(about)
    reason = outcome.note
    if not outcome.settled:
        outcome = _all_inputs(about)
    if not outcome.settled:
        outcome = _search(about, reason)
    return outcome


def _proof(about: _About) -> _Outcome:
    """The first proof that goes through; else what stood in the way of the first.

    All of them are about what a model answers at once, so none speaks of one that writes.
    """
    if about.script is not None:
        return _Outcome(note="There is no general proof for a model that writes before it answers.")
    first: _Outcome | None = None
    for theorem, variant in about.keys:
        outcome = _attempt(about.model, about.task, theorem, variant)
        if outcome.settled:
            return outcome
        first = first or outcome
    return first or _Outcome(note="There is no general proof for this task.")


def _attempt(model: ExplicitModel, task: Task, theorem: str, variant: str) -> _Outcome:
    prove = proof_for(theorem, task.name, variant)
    if prove is None:
        return _Outcome(note="There is no general proof for this construction.")
    rounding = rounding_of(model.arithmetic)
    try:
        claims = prove(model, task, rounding)
    except NotProved as refusal:
        suspects = torch.stack(refusal.suspects) if refusal.suspects else None
        wrong = None if suspects is None else first_wrong(model, task, [suspects])
        return _Outcome(wrong=wrong, note=str(refusal))
    except Unbounded as refusal:
        return _Outcome(note=str(refusal))
    failed = [claim for claim in claims if claim.verdict != "proved"]
    if failed:
        worst = failed[0]
        return _Outcome(note=f"{worst.name} must be {worst.requirement}; it is within {worst.interval}.")
    return _Outcome(claims=claims, assumptions=rounding.error_model(), theorem=theorem)


def _all_inputs(about: _About) -> _Outcome:
    """Try every input. In fixed point that is a proof; in floats it speaks of this machine's own order."""
    model, task = about.model, about.task
    if not few_inputs(model, task, about.script):
        return _Outcome(note="There are too many inputs to try them all.")
    if not any(bool(task.solve(rows).mask.any()) for rows in task.enumerate()):
        return _Outcome(note="No input of this task has an answer.")
    wrong = first_wrong(model, task, task.enumerate(), about.script)
    if wrong is not None:
        return _Outcome(wrong=wrong)
    nothing = Claim(
        name="wrong answers",
        statement="every input was run, and this many were answered wrongly",
        relation="==",
        threshold=Fraction(0),
        unit="inputs",
        source="exhaustion",
        interval=Interval.point(0),
    )
    exact = isinstance(model.arithmetic, FixedPoint)
    assumed = () if exact else ("sums are taken in the order in which this machine took them",)
    return _Outcome(claims=(nothing,), assumptions=assumed)


def _search(about: _About, reason: str) -> _Outcome:
    """Worst cases made by hand, then random inputs; the reason why no proof was found is kept.

    As many as take seconds, in fixed point fewer, and none where one alone would take longer.
    """
    fixed = isinstance(about.model.arithmetic, FixedPoint)
    room = _WORK_IN_FIXED_POINT if fixed else _WORK_IN_FLOATS
    count = min(_RANDOM_TRIED, room // max(1, work_of(about.model, about.task, about.script)))
    likely = _likely(about.task, count)
    wrong = first_wrong(about.model, about.task, likely, about.script) if count else None
    return _Outcome(wrong=wrong, note=reason)


def _likely(task: Task, count: int) -> Iterator[Shaped[Tensor, "batch pos *width"]]:
    by_hand = suspects(task, count)
    if by_hand is not None:
        yield by_hand
    yield task.full_length().sample(count, seed=0).inputs
    yield task.sample(count, seed=1).inputs


def _certificate(about: _About, outcome: _Outcome, started: float) -> Certificate:
    digest = weights_sha256(about.model)
    found = None
    if outcome.wrong is not None:
        found = _counterexample(about, outcome.wrong, digest)
    return Certificate(
        weights_sha256=digest,
        task=spec_of(about.task),
        inputs=inputs_of(about.task),
        arithmetic=name_of(about.model.arithmetic),
        verdict="refuted" if found is not None else "proved" if outcome.claims else "unknown",
        claims=outcome.claims or about.claims,
        theorem=about.theorem or outcome.theorem,
        assumptions=outcome.assumptions,
        counterexample=found,
        reason="" if outcome.claims else outcome.note,
        seconds=round(time.monotonic() - started, 3),
        checker=_CHECKER,
    )


def _counterexample(about: _About, row: Shaped[Tensor, "pos *width"], digest: str) -> Counterexample:
    """The input with both answers, run once more to be sure."""
    model, task, batch = about.model, about.task, row.unsqueeze(0)
    assert bool(wrong_rows(model, task, batch, about.script)), "a counterexample must fail again"
    labels = task.solve(batch)
    if about.script is None:
        mask = labels.mask[0]
        expected, answered = labels.targets[0][mask], model.answers(batch)[0][mask]
    else:
        expected, answered = labels.answer, written_answers(model, about.script, batch)
    return Counterexample(
        task=spec_of(task),
        input=json_of(row),
        expected=json_of(expected),
        answered=json_of(answered if isinstance(task.target_space, Vectors) else answered.long()),
        weights_sha256=digest,
        arithmetic=name_of(model.arithmetic),
        text=task.render(row)[:100_000],
    )


def replay(witness: Witness, found: Counterexample) -> bool:
    """Whether a counterexample still fails, run from its own input, in its own arithmetic."""
    if weights_sha256(witness.model) != found.weights_sha256:
        raise InvalidInput("The counterexample is about other weights than these.")
    if spec_of(witness.task) != found.task or name_of(witness.arithmetic) != found.arithmetic:
        raise InvalidInput(
            f"The counterexample is about {found.task} in {found.arithmetic}; got a witness of "
            f"{spec_of(witness.task)} in {name_of(witness.arithmetic)}."
        )
    row = torch.tensor(found.input)
    space = witness.task.input_space
    row = row.float() if isinstance(space, Reals) else row.long()
    witness.task.check(row)
    try:
        return bool(wrong_rows(witness.model, witness.task, row.unsqueeze(0), witness.script))
    except NotRun as refusal:
        raise InvalidInput(f"{_CUT_OFF} Try again on a machine that is less busy.") from refusal
