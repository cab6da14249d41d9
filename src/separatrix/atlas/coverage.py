"""What is proven of trained models: for every run its accuracy and a verdict for each case, recorded as data.

The record is made by `python -m benchmarks.coverage`. A case is a question with its right answer, and stands
for all inputs that have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import ClassVar, Final, final

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.evidence import TaskSpec
from separatrix.evidence.specs import require_sha256
from separatrix.record_checks import require_text
from separatrix.records import JsonObject, JsonValue, Reader, Record, freeze, parse_json, thaw, upgraded
from separatrix.training.recipes import Against

__all__ = [
    "LETTERS",
    "RECORD",
    "BrokenInput",
    "CoverageRecord",
    "CoverageRow",
    "coverage_record",
    "read_coverage",
]

RECORD: Final = "coverage.json"
LETTERS: Final[Mapping[str, str]] = {"p": "proved", "b": "broken", "u": "unknown"}
"""What a letter of the verdicts says of its case."""

_ROUNDED: Final = 1e-4
"""Weights of attention are written to four digits."""


@final
@dataclass(frozen=True, kw_only=True)
class BrokenInput(Record):
    """An input that a model gets wrong, with the weight of every head on each of its tokens."""

    SCHEMA: ClassVar[str] = "separatrix.broken-input"

    query: str
    target: str
    text: str
    answered: JsonValue
    lead: float | None
    attention: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        require_text("A broken input", query=self.query, target=self.target, text=self.text)
        object.__setattr__(self, "answered", freeze(self.answered))
        if not self.attention or not _split(self.text, len(self.attention[0])):
            raise InvalidInput("A broken input has a weight of every head for each token of its text.")
        for head in self.attention:
            if len(head) != len(self.attention[0]) or not all(0 <= weight <= 1 for weight in head):
                raise InvalidInput("Every head has as many weights as there are tokens, each from 0 to 1.")
            if abs(sum(head) - 1) > _ROUNDED * (len(head) + 1):
                raise InvalidInput(f"The weights of a head add up to 1; got {sum(head):.4g}.")

    @property
    def tokens(self) -> tuple[str, ...]:
        """The text, position by position."""
        return _split(self.text, len(self.attention[0]))

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "query": self.query,
            "target": self.target,
            "text": self.text,
            "answered": thaw(self.answered),
            "lead": self.lead,
            "attention": [list(head) for head in self.attention],
        }

    @classmethod
    def from_fields(cls, read: Reader) -> BrokenInput:
        """The input whose fields `read` holds."""
        return cls(
            query=read.text("query"),
            target=read.text("target"),
            text=read.text("text"),
            answered=read.value("answered"),
            lead=_measured_or_none(read, "lead"),
            attention=tuple(_numbers(head, read) for head in read.items("attention")),
        )


@final
@dataclass(frozen=True, kw_only=True)
class CoverageRow(Record):
    """One trained model: how often it was right on samples, and what holds on every input.

    `right` of `examples` is its test after training, `sampled_right` of `sampled` that of whoever certified
    it. `verdicts` has a letter for each right answer of each query.
    """

    SCHEMA: ClassVar[str] = "separatrix.coverage-row"

    run: str
    task: TaskSpec
    model: str
    layers: int
    width: int
    lr: float
    seed: int
    weight_decay: float
    against: Against | None
    steps: int
    right: int
    examples: int
    every: int
    """Every so many of the task's queries was asked; 1 if all were."""
    cases: int
    proved: int
    refuted: int
    unknown: int
    least_margin: float | None
    least_lead: float | None
    verdicts: tuple[tuple[str, str], ...]
    sampled: int
    sampled_right: int
    counterexample: BrokenInput | None
    weights_sha256: str
    arithmetic: str
    seconds: float

    def __post_init__(self) -> None:
        owner = "A row of coverage"
        require_sha256(owner, self.weights_sha256)
        require_text(owner, run=self.run, model=self.model, arithmetic=self.arithmetic)
        if not isinstance(self.task.params.get("n"), int):
            raise InvalidInput(f"{owner} needs the length n of its task as a whole number.")
        if self.every < 1:
            raise InvalidInput(f"{owner} asks every query, or every second or further one; got {self.every}.")
        if self.right > self.examples or self.sampled_right > self.sampled:
            raise InvalidInput(f"{owner} has more right answers than samples.")
        self._require_counts(owner)
        if (self.least_margin is not None) != bool(self.proved) or (self.least_margin or 1) <= 0:
            raise InvalidInput(f"{owner} has a least margin, above 0, exactly when a case is proved.")
        broken = [query for query, letters in self.verdicts if "b" in letters]
        if (self.counterexample is not None) != bool(broken):
            raise InvalidInput(f"{owner} has a counterexample exactly when a case is broken.")
        if self.counterexample is not None and self.counterexample.query not in broken:
            raise InvalidInput(
                f"The counterexample's query {self.counterexample.query!r} is not a broken one."
            )

    def _require_counts(self, owner: str) -> None:
        letters = "".join(letters for _, letters in self.verdicts)
        if not letters or not all(letters for _, letters in self.verdicts) or set(letters) - set(LETTERS):
            raise InvalidInput(f"{owner} has for every query the letters {', '.join(LETTERS)} of its cases.")
        counted = (len(letters), *(letters.count(letter) for letter in LETTERS))
        if counted != (self.cases, self.proved, self.refuted, self.unknown):
            raise InvalidInput(f"{owner} counts its cases differently than its letters do.")

    @property
    def n(self) -> int:
        """The task's length."""
        n = self.task.params["n"]
        assert isinstance(n, int)
        return n

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "run": self.run,
            "task": self.task.to_fields(),
            "model": self.model,
            "layers": self.layers,
            "width": self.width,
            "lr": self.lr,
            "seed": self.seed,
            "weight_decay": self.weight_decay,
            "against": None if self.against is None else self.against.to_fields(),
            "steps": self.steps,
            "right": self.right,
            "examples": self.examples,
            "every": self.every,
            "cases": self.cases,
            "proved": self.proved,
            "refuted": self.refuted,
            "unknown": self.unknown,
            "least_margin": self.least_margin,
            "least_lead": self.least_lead,
            "verdicts": dict(self.verdicts),
            "sampled": self.sampled,
            "sampled_right": self.sampled_right,
            "counterexample": None if self.counterexample is None else self.counterexample.to_fields(),
            "weights_sha256": self.weights_sha256,
            "arithmetic": self.arithmetic,
            "seconds": self.seconds,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> CoverageRow:
        """The row whose fields `read` holds."""
        return cls(
            run=read.text("run"),
            task=read.record("task", TaskSpec),
            model=read.text("model"),
            layers=read.count("layers"),
            width=read.count("width"),
            lr=read.measured("lr"),
            seed=read.count("seed"),
            weight_decay=read.measured("weight_decay"),
            against=read.optional_record("against", Against),
            steps=read.count("steps"),
            right=read.count("right"),
            examples=read.count("examples"),
            every=read.count("every"),
            cases=read.count("cases"),
            proved=read.count("proved"),
            refuted=read.count("refuted"),
            unknown=read.count("unknown"),
            least_margin=_measured_or_none(read, "least_margin"),
            least_lead=_measured_or_none(read, "least_lead"),
            verdicts=_named_texts(read, "verdicts"),
            sampled=read.count("sampled"),
            sampled_right=read.count("sampled_right"),
            counterexample=read.optional_record("counterexample", BrokenInput),
            weights_sha256=read.text("weights_sha256"),
            arithmetic=read.text("arithmetic"),
            seconds=read.measured("seconds"),
        )


@final
@dataclass(frozen=True, kw_only=True)
class CoverageRecord(Record):
    """All rows, and with what they were made."""

    SCHEMA: ClassVar[str] = "separatrix.coverage-record"

    provenance: tuple[tuple[str, str], ...] = ()
    rows: tuple[CoverageRow, ...] = ()

    def __post_init__(self) -> None:
        if len({row.run for row in self.rows}) != len(self.rows):
            raise InvalidInput("A record of coverage has every run once.")

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {"provenance": dict(self.provenance), "rows": [row.to_fields() for row in self.rows]}

    @classmethod
    def from_fields(cls, read: Reader) -> CoverageRecord:
        """The record whose fields `read` holds."""
        return cls(provenance=_named_texts(read, "provenance"), rows=read.records("rows", CoverageRow))


def coverage_record() -> CoverageRecord:
    """The record that comes with the package."""
    return read_coverage(files("separatrix.atlas").joinpath("data", RECORD).read_text(encoding="utf-8"))


def read_coverage(text: str) -> CoverageRecord:
    """The record that a text holds, read strictly; one that does not say its version is of the first."""
    what = f"'{RECORD}'"
    read = Reader(parse_json(text, what=what), what=what)
    if read.has("schema"):
        read.agrees("schema", CoverageRecord.SCHEMA)
    version = read.count("version") if read.has("version") else 1
    fields = upgraded(read.rest(), version=version, upgrades=CoverageRecord.UPGRADES, what=what)
    return CoverageRecord.read(Reader(fields, what=what))


def _split(text: str, count: int) -> tuple[str, ...]:
    """The text as so many tokens, however its task parts them; empty if it has another number."""
    ways = (text.split("; "), text.split(), list(text.strip()))
    return next((tuple(tokens) for tokens in ways if len(tokens) == count), ())


def _measured_or_none(read: Reader, name: str) -> float | None:
    return None if read.skip_null(name) else read.measured(name)


def _numbers(values: object, read: Reader) -> tuple[float, ...]:
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values):
        raise InvalidFile(f"Field 'attention' of {read.what} must be an array of arrays of numbers.")
    return tuple(map(float, values))


def _named_texts(read: Reader, name: str) -> tuple[tuple[str, str], ...]:
    """An object whose values are texts, in its order."""
    value = read.value(name)
    if not isinstance(value, Mapping):
        raise InvalidFile(f"Field '{name}' of {read.what} must be an object.")
    found = tuple((key, text) for key, text in value.items() if isinstance(text, str))
    if len(found) != len(value):
        raise InvalidFile(f"Field '{name}' of {read.what} must have texts only.")
    return found
