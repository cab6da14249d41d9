"""Case by case: for which questions a model is proven right on every input, and for which it is broken."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from separatrix.errors import InvalidInput
from separatrix.evidence.certificates import Counterexample, Verdict
from separatrix.evidence.html import grid, pairs
from separatrix.evidence.specs import TaskSpec, require_sha256
from separatrix.record_checks import (
    require_count,
    require_kind,
    require_measured,
    require_text,
    require_texts,
)
from separatrix.records import JsonObject, JsonValue, Reader, Record, freeze, thaw

__all__ = ["Case", "Coverage", "Means"]

Means = Literal["bounds", "attack", "every input"]

_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class Case(Record):
    """All inputs of one question that have one right answer.

    Proved: on every one of them the right answer leads by at least `margin`. Refuted: `input` is one that
    the model itself gets wrong. Unknown: neither; the least lead lies between `margin`, which then is
    negative, and `found`. `found` is the least lead that an attack came upon, None where none was tried.
    """

    SCHEMA: ClassVar[str] = "separatrix.case"

    query: str
    target: str
    verdict: Verdict
    margin: float
    asked: int
    """The position of the answer."""
    by: Means = "bounds"
    """What settled it, or came nearest."""
    found: float | None = None
    input: JsonValue = None
    answered: JsonValue = None

    def __post_init__(self) -> None:
        require_text("A case", query=self.query, target=self.target)
        require_count("A case", asked=self.asked)
        if self.by not in get_args(Means):
            raise InvalidInput(f"A case is settled by one of {', '.join(get_args(Means))}; got {self.by!r}.")
        if self.verdict not in get_args(Verdict):
            raise InvalidInput(f"A verdict is one of {', '.join(get_args(Verdict))}; got {self.verdict!r}.")
        for name in ("margin", "found"):
            value = getattr(self, name)
            if value is None and name == "found":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise InvalidInput(f"A case's {name} is a finite number.")
            object.__setattr__(self, name, float(value))
        for name in ("input", "answered"):
            object.__setattr__(self, name, freeze(getattr(self, name)))
        if self.verdict == "proved" and not self.margin > 0:
            raise InvalidInput("A case that is proved has a margin above 0.")
        if (self.verdict == "refuted") != (self.input is not None):
            raise InvalidInput("A case says refuted exactly when it has an input that the model gets wrong.")

    @property
    def gap(self) -> float | None:
        """How far apart proof and attack are; None without an attack."""
        return None if self.found is None else self.found - self.margin

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "query": self.query,
            "target": self.target,
            "verdict": self.verdict,
            "margin": self.margin,
            "asked": self.asked,
            "by": self.by,
            "found": self.found,
            "input": thaw(self.input),
            "answered": thaw(self.answered),
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Case:
        """The case whose fields `read` holds."""
        return cls(
            query=read.text("query"),
            target=read.text("target"),
            verdict=read.choice("verdict", get_args(Verdict)),
            margin=read.measured("margin"),
            asked=read.count("asked"),
            by=read.choice("by", get_args(Means)),
            found=None if read.skip_null("found") else read.measured("found"),
            input=read.value("input"),
            answered=read.value("answered"),
        )


@dataclass(frozen=True, kw_only=True)
class Coverage(Record):
    """What is proven about a model, case by case, and how often it was right on random inputs.

    The cases together are all inputs that samples of the task can have. `counterexample` is one that fails,
    replayed, where there is any.
    """

    SCHEMA: ClassVar[str] = "separatrix.coverage"

    weights_sha256: str
    task: TaskSpec
    arithmetic: str
    cases: tuple[Case, ...]
    checker: str
    assumptions: tuple[str, ...] = ()
    counterexample: Counterexample | None = None
    sampled: int = 0
    sampled_right: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        require_sha256("A coverage", self.weights_sha256)
        require_text("A coverage", arithmetic=self.arithmetic, checker=self.checker)
        require_texts("A coverage", "assumptions", self.assumptions)
        require_kind("A coverage", "task", self.task, TaskSpec)
        require_kind("A coverage", "counterexample", self.counterexample, Counterexample, or_none=True)
        require_count("A coverage", sampled=self.sampled, sampled_right=self.sampled_right)
        if self.sampled_right > self.sampled:
            raise InvalidInput(f"Of {self.sampled} samples at most as many are right.")
        if not isinstance(self.cases, tuple) or not all(isinstance(case, Case) for case in self.cases):
            raise InvalidInput("A coverage's cases are a tuple of Case.")
        if not self.cases:
            raise InvalidInput("A coverage has at least one case.")
        if (self.counterexample is not None) != bool(self.refuted):
            raise InvalidInput("A coverage has a counterexample exactly when a case is refuted.")
        seconds = require_measured("A coverage", "its time in seconds", self.seconds)
        object.__setattr__(self, "seconds", seconds)

    def _count(self, verdict: Verdict) -> int:
        return sum(case.verdict == verdict for case in self.cases)

    @property
    def proved(self) -> int:
        """Cases that are proved."""
        return self._count("proved")

    @property
    def refuted(self) -> int:
        """Cases with an input that the model gets wrong."""
        return self._count("refuted")

    @property
    def unknown(self) -> int:
        """Cases that are neither."""
        return self._count("unknown")

    @property
    def verdict(self) -> Verdict:
        """Proved if all cases are, refuted if one is."""
        return "refuted" if self.refuted else "unknown" if self.unknown else "proved"

    @property
    def shares(self) -> Mapping[str, float]:
        """The part of the cases that has each verdict."""
        total = len(self.cases)
        return {
            "proved": self.proved / total,
            "refuted": self.refuted / total,
            "unknown": self.unknown / total,
        }

    def __str__(self) -> str:
        counts = f"{self.proved:,} proved, {self.refuted:,} broken, {self.unknown:,} unknown"
        lines = [f"{self.verdict}: {self.task} in {self.arithmetic}, {len(self.cases):,} cases: {counts}"]
        if self.sampled:
            lines.append(f"random inputs: {self.sampled_right:,} of {self.sampled:,} right")
        lines.append(f"weights {self.weights_sha256}")
        if self.counterexample is not None:
            lines.append(f"counterexample: {self.counterexample}")
        return "\n".join(lines + [f"assumes: {assumption}" for assumption in self.assumptions])

    def _repr_html_(self) -> str:
        total = len(self.cases)
        about = pairs(
            f"Coverage: {self.verdict}",
            (
                ("task", str(self.task)),
                ("arithmetic", self.arithmetic),
                *(
                    (name, f"{round(share * total):,} of {total:,} cases ({share:.1%})")
                    for name, share in self.shares.items()
                ),
                (
                    "random inputs right",
                    f"{self.sampled_right:,} of {self.sampled:,}" if self.sampled else "",
                ),
                ("counterexample", "" if self.counterexample is None else str(self.counterexample)),
                ("weights, SHA-256", self.weights_sha256),
                *(("assumes", assumption) for assumption in self.assumptions),
                ("time", f"{self.seconds:.3g} s"),
                ("checker", self.checker),
            ),
        )
        worst = sorted(self.cases, key=lambda case: case.margin)[:_SHOWN]
        cases = grid(
            "Cases with the least margins",
            ("query", "target", "verdict", "proven margin", "least found"),
            (
                (
                    case.query,
                    case.target,
                    case.verdict,
                    f"{case.margin:.4g}",
                    "" if case.found is None else f"{case.found:.4g}",
                )
                for case in worst
            ),
        )
        return about + cases

    def to_fields(self) -> JsonObject:
        """The fields as JSON values, with the totals for readers."""
        return {
            "verdict": self.verdict,
            "proved": self.proved,
            "refuted": self.refuted,
            "unknown": self.unknown,
            "weights_sha256": self.weights_sha256,
            "task": self.task.to_fields(),
            "arithmetic": self.arithmetic,
            "assumptions": list(self.assumptions),
            "cases": [case.to_fields() for case in self.cases],
            "counterexample": None if self.counterexample is None else self.counterexample.to_fields(),
            "sampled": self.sampled,
            "sampled_right": self.sampled_right,
            "seconds": self.seconds,
            "checker": self.checker,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Coverage:
        """The coverage whose fields `read` holds."""
        found = cls(
            weights_sha256=read.text("weights_sha256"),
            task=read.record("task", TaskSpec),
            arithmetic=read.text("arithmetic"),
            assumptions=read.texts("assumptions"),
            cases=read.records("cases", Case),
            counterexample=read.optional_record("counterexample", Counterexample),
            sampled=read.count("sampled"),
            sampled_right=read.count("sampled_right"),
            seconds=read.measured("seconds"),
            checker=read.text("checker"),
        )
        for name in ("verdict", "proved", "refuted", "unknown"):
            read.agrees(name, getattr(found, name))
        return found
