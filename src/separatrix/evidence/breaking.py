"""What came of trying to break a model: how many inputs each attack tried, and those that failed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from separatrix.errors import InvalidInput
from separatrix.evidence.certificates import Counterexample
from separatrix.evidence.html import grid, pairs
from separatrix.evidence.specs import TaskSpec, require_sha256
from separatrix.record_checks import require_count, require_kind, require_measured, require_text
from separatrix.records import JsonObject, Reader, Record

__all__ = ["Attempt", "Breaking"]

_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Attempt(Record):
    """One attack on a model: the inputs it tried, how many different ones failed, and the least margin.

    A margin is by how much the right score leads the best other, or by how much an answer is nearer than it
    must be; the least is over all labels of all inputs tried. None where it is no finite number.
    """

    SCHEMA: ClassVar[str] = "separatrix.attempt"

    attack: str
    tried: int
    failures: int
    least_margin: float | None
    seconds: float
    note: str = ""

    def __post_init__(self) -> None:
        require_text("An attempt", attack=self.attack)
        require_count("An attempt", tried=self.tried, failures=self.failures)
        if self.failures > self.tried:
            raise InvalidInput(f"Of {self.tried} inputs tried at most as many fail; got {self.failures}.")
        object.__setattr__(
            self, "seconds", require_measured("An attempt", "its time in seconds", self.seconds)
        )
        margin = self.least_margin
        if margin is not None:
            if isinstance(margin, bool) or not isinstance(margin, int | float) or not math.isfinite(margin):
                raise InvalidInput("An attempt's least margin is a finite number or None.")
            object.__setattr__(self, "least_margin", float(margin))
        if not isinstance(self.note, str):
            raise InvalidInput("An attempt's note is text.")

    @property
    def rate(self) -> float:
        """The share of inputs that failed; 0 where none was tried."""
        return self.failures / self.tried if self.tried else 0.0

    def __str__(self) -> str:
        margin = "" if self.least_margin is None else f", least margin {self.least_margin:.4g}"
        note = f" ({self.note})" if self.note else ""
        return f"{self.attack}: {self.failures:,} of {self.tried:,} failed{margin}{note}"

    def to_fields(self) -> JsonObject:
        """The fields as JSON values, and the rate for readers."""
        return {
            "attack": self.attack,
            "tried": self.tried,
            "failures": self.failures,
            "rate": self.rate,
            "least_margin": self.least_margin,
            "seconds": self.seconds,
            "note": self.note,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Attempt:
        """The attempt whose fields `read` holds."""
        attempt = cls(
            attack=read.text("attack"),
            tried=read.count("tried"),
            failures=read.count("failures"),
            least_margin=None if read.skip_null("least_margin") else read.measured("least_margin"),
            seconds=read.measured("seconds"),
            note=read.text("note"),
        )
        read.agrees("rate", attempt.rate)
        return attempt


@dataclass(frozen=True, kw_only=True)
class Breaking(Record):
    """Every attack on a model, random samples to compare them with, and inputs that it is wrong on.

    Each counterexample was run again alone before it was written down. None does not prove a model right.
    """

    SCHEMA: ClassVar[str] = "separatrix.breaking"

    task: TaskSpec
    weights_sha256: str
    arithmetic: str
    attempts: tuple[Attempt, ...]
    samples: Attempt
    counterexamples: tuple[Counterexample, ...]
    seed: int
    seconds: float
    checker: str

    def __post_init__(self) -> None:
        require_kind("A breaking", "task", self.task, TaskSpec)
        require_sha256("A breaking", self.weights_sha256)
        require_text("A breaking", arithmetic=self.arithmetic, checker=self.checker)
        require_kind("A breaking", "samples", self.samples, Attempt)
        require_count("A breaking", seed=self.seed)
        for name, values, kind in (
            ("attempts", self.attempts, Attempt),
            ("counterexamples", self.counterexamples, Counterexample),
        ):
            if not isinstance(values, tuple) or not all(isinstance(value, kind) for value in values):
                raise InvalidInput(f"A breaking's {name} are a tuple of {kind.__name__}.")
        for found in self.counterexamples:
            if (found.task, found.weights_sha256, found.arithmetic) != self._about:
                raise InvalidInput(
                    "A breaking's counterexamples are about the same task with the same parameters, "
                    "the same weights and the same arithmetic."
                )
        object.__setattr__(
            self, "seconds", require_measured("A breaking", "its time in seconds", self.seconds)
        )

    @property
    def broken(self) -> bool:
        """Whether there is an input that the model is wrong on."""
        return bool(self.counterexamples)

    @property
    def tried(self) -> int:
        """Inputs of all attacks and the random samples."""
        return sum(attempt.tried for attempt in self.attempts) + self.samples.tried

    @property
    def attack_failures(self) -> int:
        """Inputs that failed, over all attacks; the random samples are not among them."""
        return sum(attempt.failures for attempt in self.attempts)

    def outweighs(self, other: Breaking) -> bool:
        """Whether it says more than others about the same weights, on the same task in the same arithmetic.

        An input that fails says more than none; beyond that it counts how many inputs were tried.
        """
        if self._about != other._about:
            return False
        return (self.broken, self.tried) > (other.broken, other.tried)

    @property
    def _about(self) -> tuple[TaskSpec, str, str]:
        return self.task, self.weights_sha256, self.arithmetic

    def __str__(self) -> str:
        verdict = "broken" if self.broken else "not broken"
        lines = [
            f"{verdict}: {self.task} after {self.tried:,} inputs, in {self.arithmetic}",
            f"weights {self.weights_sha256}",
            *(f"  {attempt}" for attempt in (*self.attempts, self.samples)),
            *(f"counterexample: {found}" for found in self.counterexamples[:_SHOWN]),
        ]
        if len(self.counterexamples) > _SHOWN:
            lines.append(f"and {len(self.counterexamples) - _SHOWN} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        about = pairs(
            "Broken" if self.broken else "Not broken",
            (
                ("task", str(self.task)),
                ("inputs tried", f"{self.tried:,}"),
                ("arithmetic", self.arithmetic),
                ("weights, SHA-256", self.weights_sha256),
                *(("counterexample", str(found)) for found in self.counterexamples[:_SHOWN]),
                ("time", f"{self.seconds:.3g} s"),
                ("checker", self.checker),
            ),
        )
        attempts = grid(
            "Attacks",
            ("attack", "tried", "failed", "rate", "least margin", "note"),
            (
                (
                    attempt.attack,
                    f"{attempt.tried:,}",
                    f"{attempt.failures:,}",
                    f"{attempt.rate:.3g}",
                    "" if attempt.least_margin is None else f"{attempt.least_margin:.4g}",
                    attempt.note,
                )
                for attempt in (*self.attempts, self.samples)
            ),
        )
        return about + attempts

    def to_fields(self) -> JsonObject:
        """The fields as JSON values, and what follows from them for readers."""
        return {
            "broken": self.broken,
            "tried": self.tried,
            "counterexamples": [found.to_fields() for found in self.counterexamples],
            "attempts": [attempt.to_fields() for attempt in self.attempts],
            "samples": self.samples.to_fields(),
            "task": self.task.to_fields(),
            "weights_sha256": self.weights_sha256,
            "arithmetic": self.arithmetic,
            "seed": self.seed,
            "seconds": self.seconds,
            "checker": self.checker,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Breaking:
        """The record whose fields `read` holds."""
        breaking = cls(
            task=read.record("task", TaskSpec),
            weights_sha256=read.text("weights_sha256"),
            arithmetic=read.text("arithmetic"),
            attempts=read.records("attempts", Attempt),
            samples=read.record("samples", Attempt),
            counterexamples=read.records("counterexamples", Counterexample),
            seed=read.count("seed"),
            seconds=read.measured("seconds"),
            checker=read.text("checker"),
        )
        read.agrees("broken", breaking.broken)
        read.agrees("tried", breaking.tried)
        return breaking
