"""What was certified: for every witness one task, its size and its certificate in short, recorded as data.

The record is made by `python -m benchmarks.certified`; a test certifies some of it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import ClassVar, Final, final

from separatrix.evidence import TaskSpec
from separatrix.evidence.certificates import Verdict
from separatrix.evidence.specs import require_sha256
from separatrix.records import JsonObject, Reader, Record, parse_json
from separatrix.theorems import Artefact
from separatrix.witnesses.witness import shown_by

__all__ = ["RECORD", "Certified", "certified"]

RECORD: Final = "certified.json"


@final
@dataclass(frozen=True, kw_only=True)
class Certified(Record):
    """One witness at one size: what it measures, and what its certificate says."""

    SCHEMA: ClassVar[str] = "separatrix.certified"

    theorem: str
    family: str
    variant: str
    task: TaskSpec
    arithmetic: str
    width: int
    ffn_width: int
    layers: int
    heads: int
    parameter_bits: int
    state_bits: int
    verdict: Verdict
    inputs_log10: float
    weights_sha256: str

    def __post_init__(self) -> None:
        require_sha256("A certified witness", self.weights_sha256)

    @property
    def artefact(self) -> Artefact:
        """The key of what it shows."""
        return shown_by(self.theorem, self.task.name, self.family, self.variant)

    @property
    def line(self) -> str:
        """In a line, for the page."""
        memory = f"{self.parameter_bits:,} bits of weights"
        if self.heads == 0:
            memory = f"{self.state_bits:,} bits of state"
        return (
            f"{self.task.name}, n = {self.task.params['n']}: width {self.width:,}, {memory}; "
            f"{self.verdict} for all 10^({self.inputs_log10:.4g}) inputs in {self.arithmetic}"
        )

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "theorem": self.theorem,
            "family": self.family,
            "variant": self.variant,
            "task": self.task.to_fields(),
            "arithmetic": self.arithmetic,
            "width": self.width,
            "ffn_width": self.ffn_width,
            "layers": self.layers,
            "heads": self.heads,
            "parameter_bits": self.parameter_bits,
            "state_bits": self.state_bits,
            "verdict": self.verdict,
            "inputs_log10": self.inputs_log10,
            "weights_sha256": self.weights_sha256,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Certified:
        """The record whose fields `read` holds."""
        return cls(
            theorem=read.text("theorem"),
            family=read.text("family"),
            variant=read.text("variant"),
            task=read.record("task", TaskSpec),
            arithmetic=read.text("arithmetic"),
            width=read.count("width"),
            ffn_width=read.count("ffn_width"),
            layers=read.count("layers"),
            heads=read.count("heads"),
            parameter_bits=read.count("parameter_bits"),
            state_bits=read.count("state_bits"),
            verdict=read.choice("verdict", ("proved", "refuted", "unknown")),
            inputs_log10=read.measured("inputs_log10"),
            weights_sha256=read.text("weights_sha256"),
        )


def certified() -> Mapping[Artefact, Certified]:
    """The record, by what each witness shows."""
    text = files("separatrix.atlas").joinpath("data", RECORD).read_text(encoding="utf-8")
    data = parse_json(text, what=f"'{RECORD}'")
    assert isinstance(data, list)
    found = [Certified.from_json(each) for each in data]
    return {each.artefact: each for each in found}
