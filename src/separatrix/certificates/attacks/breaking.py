"""From a model to inputs that break it: every attack in turn, within a budget of time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import torch

from separatrix.certificates.attacks.budgets import checked_budget
from separatrix.certificates.attacks.collisions import StateCollisions
from separatrix.certificates.attacks.domains import Domain
from separatrix.certificates.attacks.evolution import Evolution
from separatrix.certificates.attacks.families import Brackets, HardInstances, NearlyEqual, Suspects
from separatrix.certificates.attacks.gradients import GradientSearch
from separatrix.certificates.attacks.hunts import Attack, Hunt, TimeIsUp
from separatrix.certificates.attacks.samples import RandomSamples
from separatrix.certificates.attacks.subjects import Subject, subject_of
from separatrix.certificates.attacks.worst_contexts import WorstContexts
from separatrix.evidence import Attempt, Breaking, Counterexample
from separatrix.models.interface import SequenceModel
from separatrix.models.population import Population
from separatrix.options import require
from separatrix.tasks import Task
from separatrix.tasks.specs import spec_of
from separatrix.version import __version__
from separatrix.witnesses import Witness

__all__ = ["ATTACKS", "break_model"]

ATTACKS: Final[tuple[Attack, ...]] = (
    WorstContexts(),
    Suspects(),
    NearlyEqual(),
    HardInstances(),
    Brackets(),
    StateCollisions(),
    GradientSearch(),
    Evolution(),
)
"""Every attack, in the order in which they are tried."""

_FEWEST_SAMPLES: Final = 10**4
_MOST_SAMPLES: Final = 10**6


def break_model(
    model: Witness | SequenceModel | Population,
    task: Task | None = None,
    *,
    budget: float = 60.0,
    seed: int = 0,
    device: torch.device | str | None = None,
    rounds: int | None = None,
    samples: int | None = None,
    enough: int = 16,
    first: Sequence[Attack] = (),
    attacks: Sequence[Attack] | None = None,
) -> Breaking:
    """Look for inputs that a model is wrong on: attacks first, then random samples to compare them with.

    `budget` is in seconds. Every attack gets an even share of what the ones before it left. With `rounds`
    each attack ends after so many, and if the budget does not end it sooner, the same seed finds the same.
    `first` are attacks to begin with, and `attacks` those that follow, `ATTACKS` unless said. An attack that
    searches ends at `enough` failures; as many of each are run again alone, by the model itself, and handed
    back.
    `samples` is how many random ones are tried; unless said as many as the attacks tried, and from 10^4 to
    10^6. The search runs on `device`, or where the model is.

    A witness brings its own task. Nothing found does not mean that there is nothing.
    """
    begun = time.monotonic()
    end = begun + checked_budget(budget)
    require(rounds is None or rounds >= 1, f"An attack has at least one round; got rounds={rounds}.")
    require(samples is None or samples >= 1, f"At least one sample is drawn; got samples={samples}.")
    require(enough >= 1, f"At least one failure is looked for; got enough={enough}.")
    subject = subject_of(model, task, device)
    domain = Domain(subject.task, seed=seed)
    attempts: list[Attempt] = []
    found: dict[object, Counterexample] = {}

    def attacked(attack: Attack, shares: int) -> Attempt | None:
        now = time.monotonic()
        hunt = Hunt(
            subject,
            domain,
            attack=attack.name,
            seed=seed,
            until=now + max(0.0, end - now) / shares,
            rounds=rounds,
            enough=enough,
        )
        return _outcome(attack, hunt, found)

    plan = (*first, *(ATTACKS if attacks is None else attacks))
    for number, attack in enumerate(plan):
        attempt = attacked(attack, len(plan) - number + 1)
        if attempt is not None:
            attempts.append(attempt)
    tried = sum(attempt.tried for attempt in attempts)
    count = samples or min(max(tried, _FEWEST_SAMPLES), _MOST_SAMPLES)
    sampled = attacked(RandomSamples(count), 1)
    assert sampled is not None
    return _breaking(subject, attempts, sampled, found, seed, begun)


def _outcome(attack: Attack, hunt: Hunt, found: dict[object, Counterexample]) -> Attempt | None:
    """Run one attack, replay what failed, and add it to what was found."""
    try:
        note = attack.run(hunt)
        if note is None:
            return None
    except TimeIsUp:
        note = "ended by the budget"
    confirmed, unlike = hunt.confirmed()
    for each in confirmed:
        found.setdefault(each.input, each)
    if unlike:
        note = "; ".join(filter(None, [note, f"{unlike} failed in a batch and not alone"]))
    return hunt.attempt(note)


def _breaking(
    subject: Subject,
    attempts: Sequence[Attempt],
    sampled: Attempt,
    found: dict[object, Counterexample],
    seed: int,
    begun: float,
) -> Breaking:
    return Breaking(
        task=spec_of(subject.task),
        weights_sha256=subject.weights_sha256,
        arithmetic=subject.arithmetic,
        attempts=tuple(attempts),
        samples=sampled,
        counterexamples=tuple(found.values()),
        seed=seed,
        seconds=round(time.monotonic() - begun, 3),
        checker=f"separatrix {__version__}",
    )
