"""Runs: one trained member each, with everything that made it and what came of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, TypeAlias, final, get_args

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.record_checks import require_count
from separatrix.records import JsonObject, JsonValue, Reader, Record, freeze, thaw
from separatrix.store.intervals import Interval, wilson
from separatrix.store.keys import key_of, short

__all__ = ["FINISHED", "STATUSES", "Config", "Result", "Run", "Status", "checked_config"]

Status: TypeAlias = Literal["running", "done", "retired", "dropped", "stopped"]
"""Not finished; trained to its end or until solved; gone to NaN; given up for others; never begun, since
another had solved the task for all."""
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
FINISHED: Final[tuple[Status, ...]] = ("done", "retired", "dropped")
"""What needs no checkpoint any more."""

Config: TypeAlias = Mapping[str, object]
_PARTS: Final = ("task", "model", "member", "training")


def checked_config(config: Config) -> Mapping[str, JsonValue]:
    """The full config of a run, frozen: a task and a model by name and params, a member, a training."""
    frozen = freeze(config)
    if not isinstance(frozen, Mapping):
        raise InvalidInput(f"A run's config is a JSON object; got {type(config).__name__}.")
    for part in _PARTS:
        if not isinstance(frozen.get(part), Mapping):
            raise InvalidInput(f"A run's config has the objects {', '.join(_PARTS)}; '{part}' is missing.")
    for part in ("task", "model"):
        described = frozen[part]
        assert isinstance(described, Mapping)
        name = described.get("name")
        if not isinstance(name, str) or not isinstance(described.get("params"), Mapping):
            raise InvalidInput(
                f"A run's {part} has a name and params; got {', '.join(described) or 'neither'}."
            )
    return frozen


@final
@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of a run; `correct` of so many `examples` of exactly the task's length were right."""

    status: Status
    steps: int
    solved_at: int | None = None
    correct: int | None = None
    examples: int | None = None
    label_accuracy: float | None = None
    loss: float | None = None
    """None if it was no number at the end."""
    seconds: float = 0.0
    provenance: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status not in STATUSES or self.status == "running":
            raise InvalidInput(f"A run ends {', '.join(STATUSES[1:])}; got {self.status!r}.")
        require_count("A result", steps=self.steps)
        if self.solved_at is not None:
            require_count("A result", solved_at=self.solved_at)
        if (self.correct is None) != (self.examples is None):
            raise InvalidInput("A result has both the right answers and the examples, or neither.")
        if self.correct is not None and self.examples is not None:
            require_count("A result", correct=self.correct, examples=self.examples)
            if self.correct > self.examples:
                raise InvalidInput(
                    f"A result has as many right answers as examples at most; got {self.correct} right of "
                    f"{self.examples}."
                )
        for name in ("loss", "label_accuracy"):
            value = getattr(self, name)
            object.__setattr__(self, name, value if value is not None and math.isfinite(value) else None)
        if not 0 <= self.seconds < math.inf:
            raise InvalidInput(f"A result needs its seconds as a number of at least 0; got {self.seconds}.")

    @property
    def accuracy(self) -> float | None:
        """The rate of right answers, None if nothing was asked."""
        return self.correct / self.examples if self.examples and self.correct is not None else None

    @property
    def interval(self) -> Interval | None:
        """Wilson's 95 % interval of the accuracy."""
        return wilson(self.correct, self.examples) if self.examples and self.correct is not None else None


@final
@dataclass(frozen=True, kw_only=True)
class Run(Record):
    """One row of the store."""

    SCHEMA: ClassVar[str] = "separatrix.run"

    key: str
    config: Mapping[str, JsonValue]
    status: Status
    steps: int
    solved_at: int | None
    accuracy: float | None
    correct: int | None
    examples: int | None
    low: float | None
    high: float | None
    label_accuracy: float | None
    loss: float | None
    seconds: float
    provenance: Mapping[str, JsonValue]
    created: str
    """In UTC, as ISO 8601 has it."""
    updated: str

    @property
    def short(self) -> str:
        """The beginning of its key."""
        return short(self.key)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to be trained."""
        return self.status in FINISHED

    @property
    def task(self) -> str:
        """The task's name."""
        return str(self._part("task")["name"])

    @property
    def model(self) -> str:
        """The model's name."""
        return str(self._part("model")["name"])

    @property
    def n(self) -> int | None:
        """The length it was trained for."""
        params = self._part("task")["params"]
        assert isinstance(params, Mapping)
        n = params.get("n")
        return n if isinstance(n, int) and not isinstance(n, bool) else None

    @property
    def initial(self) -> str | None:
        """How its weights began, where that was chosen."""
        return self._chosen("initial")

    @property
    def positions(self) -> str | None:
        """How it knows its positions, where that was chosen."""
        return self._chosen("positions")

    def _chosen(self, name: str) -> str | None:
        params = self._part("model")["params"]
        chosen = params.get(name) if isinstance(params, Mapping) else None
        return chosen if isinstance(chosen, str) else None

    @property
    def rate(self) -> float:
        """Its learning rate."""
        return float(str(self._part("member")["lr"]))

    @property
    def schedule(self) -> str:
        """How its learning rate went on."""
        return str(self._part("member")["schedule"])

    @property
    def clip(self) -> float:
        """The longest gradient that it was given; 0 for no limit."""
        return float(str(self._part("training")["clip"]))

    def _part(self, name: str) -> Mapping[str, JsonValue]:
        part = self.config[name]
        assert isinstance(part, Mapping)
        return part

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "key": self.key,
            "config": thaw(self.config),
            "status": self.status,
            "steps": self.steps,
            "solved_at": self.solved_at,
            "accuracy": self.accuracy,
            "correct": self.correct,
            "examples": self.examples,
            "low": self.low,
            "high": self.high,
            "label_accuracy": self.label_accuracy,
            "loss": self.loss,
            "seconds": self.seconds,
            "provenance": thaw(self.provenance),
            "created": self.created,
            "updated": self.updated,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Run:
        """The run whose fields `read` holds."""

        def measured(name: str) -> float | None:
            return None if read.skip_null(name) else read.measured(name)

        key, config = read.text("key", longest=64), checked_config(_object(read, "config"))
        if key_of(config) != key:
            raise InvalidFile(f"{read.what} has the key {key[:12]!r}, which is not that of its config.")
        return cls(
            key=key,
            config=config,
            status=read.choice("status", STATUSES),
            steps=read.count("steps"),
            solved_at=read.optional_count("solved_at"),
            accuracy=measured("accuracy"),
            correct=read.optional_count("correct"),
            examples=read.optional_count("examples"),
            low=measured("low"),
            high=measured("high"),
            label_accuracy=measured("label_accuracy"),
            loss=measured("loss"),
            seconds=read.measured("seconds"),
            provenance=_object(read, "provenance"),
            created=read.text("created", longest=40),
            updated=read.text("updated", longest=40),
        )


def _object(read: Reader, name: str) -> Mapping[str, JsonValue]:
    value = read.value(name)
    if not isinstance(value, Mapping):
        raise InvalidFile(f"Field '{name}' of {read.what} must be an object.")
    return value
