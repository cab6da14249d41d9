"""How a model did when it really wrote: every input put to it, every word its own, every search executed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from separatrix.errors import InvalidInput
from separatrix.evidence.html import pairs
from separatrix.evidence.specs import TaskSpec, require_sha256
from separatrix.record_checks import require_count, require_kind, require_measured, require_text
from separatrix.records import JsonObject, Reader, Record

__all__ = ["Decoded"]


@dataclass(frozen=True, kw_only=True)
class Decoded(Record):
    """The answers of a model that writes until it answers, counted over random inputs of full length.

    An input is unanswered where the model came to the limit of what it may write, or wrote something that has
    no meaning, or where a search was cut off (`cut_off` of them, about which nothing is known). Answers are
    yes or no, so an unanswered one scores a half, as in W.
    """

    SCHEMA: ClassVar[str] = "separatrix.decoding"

    task: TaskSpec
    weights_sha256: str | None
    """None for a model that has no weights."""
    arithmetic: str
    seed: int
    first: int
    """The number of the first input under the seed."""
    examples: int
    right: int
    unanswered: int
    cut_off: int
    tours_right: int | None
    """Inputs behind which all that was written is right, word for word; None where the answer is all."""
    searches: int
    """Searches that were really run."""
    seconds: float
    checker: str

    def __post_init__(self) -> None:
        require_kind("A decoding", "task", self.task, TaskSpec)
        if self.weights_sha256 is not None:
            require_sha256("A decoding", self.weights_sha256)
        require_text("A decoding", arithmetic=self.arithmetic, checker=self.checker)
        require_count("A decoding", least=1, examples=self.examples)
        require_count(
            "A decoding",
            seed=self.seed,
            first=self.first,
            right=self.right,
            unanswered=self.unanswered,
            cut_off=self.cut_off,
            searches=self.searches,
        )
        if self.right + self.unanswered > self.examples:
            raise InvalidInput(
                f"Of {self.examples} inputs, {self.right} cannot be right and {self.unanswered} unanswered."
            )
        if self.cut_off > self.unanswered:
            raise InvalidInput(
                f"An input whose search was cut off is unanswered; got {self.cut_off} of {self.unanswered}."
            )
        if self.tours_right is not None:
            require_count("A decoding", tours_right=self.tours_right)
            if self.tours_right > self.right:
                raise InvalidInput(
                    f"Where every word is right, so is the answer; got {self.tours_right} tours and "
                    f"{self.right} answers that are."
                )
        object.__setattr__(
            self, "seconds", require_measured("A decoding", "its time in seconds", self.seconds)
        )

    @property
    def wrong(self) -> int:
        """Inputs whose answer is not the right one."""
        return self.examples - self.right - self.unanswered

    @property
    def points(self) -> float:
        """One for each right answer, a half for each that was not given."""
        return self.right + self.unanswered / 2

    @property
    def score(self) -> float:
        """Points for each input."""
        return self.points / self.examples

    def __str__(self) -> str:
        counts = f"{self.right:,} right, {self.wrong:,} wrong, {self.unanswered:,} unanswered"
        cut = f" ({self.cut_off:,} cut off)" if self.cut_off else ""
        lines = [f"score {self.score:.4f}: {self.task} in {self.arithmetic}, {counts}{cut}"]
        if self.tours_right is not None:
            lines.append(f"every word right: {self.tours_right:,} of {self.examples:,}")
        if self.searches:
            lines.append(f"searches run: {self.searches:,}")
        if self.weights_sha256 is not None:
            lines.append(f"weights {self.weights_sha256}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        tours = "" if self.tours_right is None else f"{self.tours_right:,} of {self.examples:,}"
        return pairs(
            f"Decoded: score {self.score:.4f}",
            (
                ("task", str(self.task)),
                ("arithmetic", self.arithmetic),
                ("inputs", f"{self.examples:,}"),
                ("right", f"{self.right:,}"),
                ("wrong", f"{self.wrong:,}"),
                ("unanswered", f"{self.unanswered:,}"),
                ("search cut off", f"{self.cut_off:,}" if self.cut_off else ""),
                ("every word right", tours),
                ("searches run", f"{self.searches:,}" if self.searches else ""),
                ("weights, SHA-256", self.weights_sha256 or ""),
                ("time", f"{self.seconds:.3g} s"),
                ("checker", self.checker),
            ),
        )

    def to_fields(self) -> JsonObject:
        """The fields as JSON values, and what follows from them for readers."""
        return {
            "score": self.score,
            "examples": self.examples,
            "right": self.right,
            "wrong": self.wrong,
            "unanswered": self.unanswered,
            "cut_off": self.cut_off,
            "tours_right": self.tours_right,
            "searches": self.searches,
            "task": self.task.to_fields(),
            "weights_sha256": self.weights_sha256,
            "arithmetic": self.arithmetic,
            "seed": self.seed,
            "first": self.first,
            "seconds": self.seconds,
            "checker": self.checker,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Decoded:
        """The record whose fields `read` holds."""
        found = cls(
            task=read.record("task", TaskSpec),
            weights_sha256=read.optional_text("weights_sha256"),
            arithmetic=read.text("arithmetic"),
            seed=read.count("seed"),
            first=read.count("first"),
            examples=read.count("examples"),
            right=read.count("right"),
            unanswered=read.count("unanswered"),
            cut_off=read.count("cut_off"),
            tours_right=read.optional_count("tours_right"),
            searches=read.count("searches"),
            seconds=read.measured("seconds"),
            checker=read.text("checker"),
        )
        for name in ("score", "wrong"):
            read.agrees(name, getattr(found, name))
        return found
