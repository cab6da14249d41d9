"""Claims about weights, the certificate that proves or refutes them, and the input that breaks a model."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, get_args

from separatrix.errors import InvalidInput
from separatrix.evidence.exact import Interval, as_decimal, as_short_text, require_exact
from separatrix.evidence.html import grid, pairs
from separatrix.evidence.specs import InputsCovered, TaskSpec, as_text, require_sha256
from separatrix.record_checks import require_kind, require_measured, require_text, require_texts
from separatrix.records import JsonObject, JsonValue, Reader, Record, exact_to_text, freeze, same_json, thaw
from separatrix.theorems import theorem

__all__ = ["Certificate", "Claim", "Counterexample", "Relation", "Verdict"]

Verdict = Literal["proved", "refuted", "unknown"]
Relation = Literal[">", ">=", "<", "<=", "=="]
_LONGEST_INPUT_TEXT = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Claim(Record):
    """Something a proof rests on: a quantity that on every input stands in a relation to a threshold.

    `interval` is a proven enclosure of the quantity's worst case over the inputs covered (its least value
    for > and ≥, its greatest for < and ≤); None while nobody has proven one. Verdict and margin follow from
    it, so they cannot contradict it.
    """

    SCHEMA: ClassVar[str] = "separatrix.claim"

    name: str
    statement: str
    relation: Relation
    threshold: Fraction
    unit: str
    source: str
    interval: Interval | None = None

    def __post_init__(self) -> None:
        require_text("A claim", name=self.name, statement=self.statement, unit=self.unit, source=self.source)
        if self.relation not in get_args(Relation):
            raise InvalidInput(f"A claim's relation is one of {' '.join(get_args(Relation))}.")
        object.__setattr__(self, "threshold", require_exact("A claim's threshold", self.threshold))
        require_kind("A claim", "interval", self.interval, Interval, or_none=True)

    @property
    def margin(self) -> Fraction | None:
        """How far the worst case provably stays on the right side; negative when that is not proven.

        For == it is minus the farthest the quantity may lie from the threshold, so 0 means exactly equal.
        """
        if self.interval is None:
            return None
        above, below = self.interval.low - self.threshold, self.threshold - self.interval.high
        if self.relation in (">", ">="):
            return above
        if self.relation in ("<", "<="):
            return below
        return min(above, below)

    @property
    def verdict(self) -> Verdict:
        """Proved or refuted when the whole interval lies on one side, else unknown."""
        if self.interval is None:
            return "unknown"
        low, high, limit = self.interval.low, self.interval.high, self.threshold
        proved, refuted = {
            ">": (low > limit, high <= limit),
            ">=": (low >= limit, high < limit),
            "<": (high < limit, low >= limit),
            "<=": (high <= limit, low > limit),
            "==": (low == high == limit, not low <= limit <= high),
        }[self.relation]
        return "proved" if proved else "refuted" if refuted else "unknown"

    @property
    def requirement(self) -> str:
        """The relation to the threshold, as one reads it."""
        return f"{self.relation} {as_short_text(self.threshold)} {self.unit}"

    def __str__(self) -> str:
        proven = f"worst case in {self.interval}" if self.interval is not None else "no interval proven"
        return f"{self.verdict}: {self.name} {self.requirement} ({proven})"

    def to_fields(self) -> JsonObject:
        """The fields as JSON values, and what follows from them for readers."""
        return {
            "name": self.name,
            "statement": self.statement,
            "relation": self.relation,
            "threshold": exact_to_text(self.threshold),
            "unit": self.unit,
            "source": self.source,
            "interval": None if self.interval is None else self.interval.to_fields(),
            "margin": None if self.margin is None else exact_to_text(self.margin),
            "verdict": self.verdict,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Claim:
        """The claim whose fields `read` holds."""
        claim = cls(
            name=read.text("name"),
            statement=read.text("statement"),
            relation=read.choice("relation", get_args(Relation)),
            threshold=read.exact("threshold"),
            unit=read.text("unit"),
            source=read.text("source"),
            interval=read.optional_record("interval", Interval),
        )
        read.agrees("margin", None if claim.margin is None else exact_to_text(claim.margin))
        read.agrees("verdict", claim.verdict)
        return claim


@dataclass(frozen=True, kw_only=True)
class Counterexample(Record):
    """An input on which a model is wrong: the right answer, the model's answer, and what to replay it with.

    `weights_sha256` and `arithmetic` say which model answered; `text` is the input as a person reads it.
    """

    SCHEMA: ClassVar[str] = "separatrix.counterexample"

    task: TaskSpec
    input: JsonValue
    expected: JsonValue
    answered: JsonValue
    weights_sha256: str
    arithmetic: str
    text: str = ""

    def __post_init__(self) -> None:
        require_kind("A counterexample", "task", self.task, TaskSpec)
        for name in ("input", "expected", "answered"):
            object.__setattr__(self, name, freeze(getattr(self, name)))
        require_sha256("A counterexample", self.weights_sha256)
        require_text("A counterexample", arithmetic=self.arithmetic)
        if not isinstance(self.text, str):
            raise InvalidInput("A counterexample's text is text.")
        if len(self.text) > _LONGEST_INPUT_TEXT:
            raise InvalidInput(
                f"A counterexample's text may have {_LONGEST_INPUT_TEXT} characters; it has {len(self.text)}."
            )
        if same_json(self.expected, self.answered):
            raise InvalidInput("In a counterexample the model's answer differs from the right one.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counterexample):
            return NotImplemented
        return same_json(self.to_fields(), other.to_fields())

    def __hash__(self) -> int:
        return hash((self.task, self.weights_sha256, self.input))

    def __str__(self) -> str:
        shown = self.text or as_text(self.input)
        answers = f"the answer is {as_text(self.expected)}, not {as_text(self.answered)}"
        return f"{self.task.name}: on {shown} {answers}"

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "task": self.task.to_fields(),
            "input": thaw(self.input),
            "expected": thaw(self.expected),
            "answered": thaw(self.answered),
            "weights_sha256": self.weights_sha256,
            "arithmetic": self.arithmetic,
            "text": self.text,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Counterexample:
        """The counterexample whose fields `read` holds."""
        return cls(
            task=read.record("task", TaskSpec),
            input=read.value("input"),
            expected=read.value("expected"),
            answered=read.value("answered"),
            weights_sha256=read.text("weights_sha256"),
            arithmetic=read.text("arithmetic"),
            text=read.text("text", longest=_LONGEST_INPUT_TEXT),
        )


@dataclass(frozen=True, kw_only=True)
class Certificate(Record):
    """What is proven about some weights on a set of inputs, in a named arithmetic.

    Proved: every claim holds and together they give the right answer on every input covered. Refuted: there
    is a counterexample, replayed. Unknown: neither; a claim that fails does not yet make a wrong answer.
    `reason` then says what stood in the way of a proof. `assumptions` is the error model the proof rests on;
    `checker` names the program that made it.
    """

    SCHEMA: ClassVar[str] = "separatrix.certificate"

    weights_sha256: str
    task: TaskSpec
    inputs: InputsCovered
    arithmetic: str
    verdict: Verdict
    claims: tuple[Claim, ...]
    checker: str
    theorem: str | None = None
    assumptions: tuple[str, ...] = ()
    counterexample: Counterexample | None = None
    reason: str = ""
    seconds: float | None = None

    def __post_init__(self) -> None:
        require_sha256("A certificate", self.weights_sha256)
        require_text("A certificate", arithmetic=self.arithmetic, checker=self.checker)
        require_texts("A certificate", "assumptions", self.assumptions)
        require_kind("A certificate", "task", self.task, TaskSpec)
        require_kind("A certificate", "inputs", self.inputs, InputsCovered)
        require_kind("A certificate", "counterexample", self.counterexample, Counterexample, or_none=True)
        if not isinstance(self.claims, tuple) or not all(isinstance(claim, Claim) for claim in self.claims):
            raise InvalidInput("A certificate's claims are a tuple of Claim.")
        if self.theorem is not None:
            require_text("A certificate", theorem=self.theorem)
            object.__setattr__(self, "theorem", theorem(self.theorem).id)
        if self.verdict not in get_args(Verdict):
            raise InvalidInput(f"A verdict is one of {', '.join(get_args(Verdict))}; got {self.verdict!r}.")
        if self.verdict == "proved" and not (
            self.claims and all(claim.verdict == "proved" for claim in self.claims)
        ):
            raise InvalidInput("A certificate that says proved has claims, and all of them are proved.")
        if not isinstance(self.reason, str) or (self.reason and self.verdict == "proved"):
            raise InvalidInput("A certificate's reason is text, and a proof needs none.")
        if (self.verdict == "refuted") != (self.counterexample is not None):
            raise InvalidInput("A certificate says refuted exactly when it has a counterexample.")
        found = self.counterexample
        if found is not None and (found.task, found.weights_sha256, found.arithmetic) != (
            self.task,
            self.weights_sha256,
            self.arithmetic,
        ):
            raise InvalidInput(
                "A certificate's counterexample is about the same task with the same parameters, "
                "the same weights and the same arithmetic."
            )
        if self.seconds is not None:
            object.__setattr__(
                self, "seconds", require_measured("A certificate", "its time in seconds", self.seconds)
            )

    def __str__(self) -> str:
        lines = [
            f"{self.verdict}: {self.task} on {self.inputs} inputs, in {self.arithmetic}",
            f"weights {self.weights_sha256}",
            *(f"  {claim}" for claim in self.claims),
        ]
        if self.reason:
            lines.append(f"not proven: {self.reason}")
        if self.counterexample is not None:
            lines.append(f"counterexample: {self.counterexample}")
        return "\n".join(lines + [f"assumes: {assumption}" for assumption in self.assumptions])

    def _repr_html_(self) -> str:
        about = pairs(
            f"Certificate: {self.verdict}",
            (
                ("task", str(self.task)),
                ("inputs covered", str(self.inputs)),
                ("arithmetic", self.arithmetic),
                ("theorem", self.theorem or ""),
                ("weights, SHA-256", self.weights_sha256),
                ("counterexample", "" if self.counterexample is None else str(self.counterexample)),
                ("not proven", self.reason),
                *(("assumes", assumption) for assumption in self.assumptions),
                ("time", "" if self.seconds is None else f"{self.seconds:.3g} s"),
                ("checker", self.checker),
            ),
        )
        claims = grid(
            "Claims",
            ("claim", "must be", "worst case lies in", "margin", "verdict", "source"),
            (
                (
                    claim.name,
                    claim.requirement,
                    "" if claim.interval is None else str(claim.interval),
                    "" if claim.margin is None else as_decimal(claim.margin, "down"),
                    claim.verdict,
                    claim.source,
                )
                for claim in self.claims
            ),
        )
        return about + claims

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "verdict": self.verdict,
            "weights_sha256": self.weights_sha256,
            "task": self.task.to_fields(),
            "theorem": self.theorem,
            "inputs": self.inputs.to_fields(),
            "arithmetic": self.arithmetic,
            "assumptions": list(self.assumptions),
            "claims": [claim.to_fields() for claim in self.claims],
            "counterexample": None if self.counterexample is None else self.counterexample.to_fields(),
            "reason": self.reason,
            "seconds": self.seconds,
            "checker": self.checker,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Certificate:
        """The certificate whose fields `read` holds."""
        return cls(
            verdict=read.choice("verdict", get_args(Verdict)),
            weights_sha256=read.text("weights_sha256"),
            task=read.record("task", TaskSpec),
            theorem=read.optional_text("theorem"),
            inputs=read.record("inputs", InputsCovered),
            arithmetic=read.text("arithmetic"),
            assumptions=read.texts("assumptions"),
            claims=read.records("claims", Claim),
            counterexample=read.optional_record("counterexample", Counterexample),
            reason=read.text("reason"),
            seconds=None if read.skip_null("seconds") else read.measured("seconds"),
            checker=read.text("checker"),
        )
