"""Sizes of witnesses at growing lengths, and fronts of width against precision, recorded as data.

Both records are made by `python -m benchmarks.atlas_plots`, which proves every point again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import ClassVar, Final, Literal, final, get_args

from separatrix.evidence import TaskSpec
from separatrix.evidence.specs import require_sha256
from separatrix.records import JsonObject, Reader, Record, parse_json

__all__ = [
    "CONFIGS",
    "FRONTS",
    "SIZES",
    "Corner",
    "Front",
    "Measured",
    "Standing",
    "configs",
    "fronts",
    "sizes",
]

Standing = Literal["proved", "built"]
"""Proven right on every input of its length, or built by a proven construction and not certified there."""
SIZES: Final = "separations.json"
FRONTS: Final = "frontiers.json"
CONFIGS: Final = "published_configs.json"


@final
@dataclass(frozen=True, kw_only=True)
class Measured(Record):
    """A witness at one length: its size, and what is known of it there."""

    SCHEMA: ClassVar[str] = "separatrix.measured-witness"

    theorem: str
    family: str
    variant: str
    task: TaskSpec
    arithmetic: str
    precision_bits: int
    width: int
    layers: int
    heads: int
    parameter_bits: int
    state_bits: int
    verdict: Standing
    weights_sha256: str

    def __post_init__(self) -> None:
        require_sha256("A measured witness", self.weights_sha256)

    @property
    def n(self) -> int:
        """Its length."""
        n = self.task.params["n"]
        assert isinstance(n, int)
        return n

    @property
    def working_bits(self) -> int:
        """What it works with at a time: the bits of its state, or L·H·m·p where there is attention."""
        if self.heads == 0:
            return self.state_bits
        return self.layers * self.heads * self.width * self.precision_bits

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "theorem": self.theorem,
            "family": self.family,
            "variant": self.variant,
            "task": self.task.to_fields(),
            "arithmetic": self.arithmetic,
            "precision_bits": self.precision_bits,
            "width": self.width,
            "layers": self.layers,
            "heads": self.heads,
            "parameter_bits": self.parameter_bits,
            "state_bits": self.state_bits,
            "verdict": self.verdict,
            "weights_sha256": self.weights_sha256,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Measured:
        """The record whose fields `read` holds."""
        return cls(
            theorem=read.text("theorem"),
            family=read.text("family"),
            variant=read.text("variant"),
            task=read.record("task", TaskSpec),
            arithmetic=read.text("arithmetic"),
            precision_bits=read.count("precision_bits"),
            width=read.count("width"),
            layers=read.count("layers"),
            heads=read.count("heads"),
            parameter_bits=read.count("parameter_bits"),
            state_bits=read.count("state_bits"),
            verdict=read.choice("verdict", get_args(Standing)),
            weights_sha256=read.text("weights_sha256"),
        )


@final
@dataclass(frozen=True, kw_only=True)
class Corner(Record):
    """A proven witness that no other beats in both width and bits a number."""

    SCHEMA: ClassVar[str] = "separatrix.front-corner"

    addresses: str
    arithmetic: str
    width: int
    precision_bits: int
    parameter_bits: int
    weights_sha256: str

    def __post_init__(self) -> None:
        require_sha256("A corner of a front", self.weights_sha256)

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "addresses": self.addresses,
            "arithmetic": self.arithmetic,
            "width": self.width,
            "precision_bits": self.precision_bits,
            "parameter_bits": self.parameter_bits,
            "weights_sha256": self.weights_sha256,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Corner:
        """The record whose fields `read` holds."""
        return cls(
            addresses=read.text("addresses"),
            arithmetic=read.text("arithmetic"),
            width=read.count("width"),
            precision_bits=read.count("precision_bits"),
            parameter_bits=read.count("parameter_bits"),
            weights_sha256=read.text("weights_sha256"),
        )


@final
@dataclass(frozen=True, kw_only=True)
class Front(Record):
    """The corners for one task, from the narrowest to the most coarse."""

    SCHEMA: ClassVar[str] = "separatrix.front"

    task: TaskSpec
    family: str
    theorem: str
    corners: tuple[Corner, ...]

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "task": self.task.to_fields(),
            "family": self.family,
            "theorem": self.theorem,
            "corners": [corner.to_fields() for corner in self.corners],
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Front:
        """The record whose fields `read` holds."""
        return cls(
            task=read.record("task", TaskSpec),
            family=read.text("family"),
            theorem=read.text("theorem"),
            corners=read.records("corners", Corner),
        )


@cache
def sizes() -> tuple[Measured, ...]:
    """Every measured witness, in the order of the pictures and of the lengths."""
    return tuple(Measured.from_json(each) for each in _listed(SIZES))


@cache
def fronts() -> tuple[Front, ...]:
    """Every front."""
    return tuple(Front.from_json(each) for each in _listed(FRONTS))


@cache
def configs() -> Mapping[str, Mapping[str, object]]:
    """Configs of published models by name, cut down to the fields that sizes depend on."""
    data = _read(CONFIGS)
    assert isinstance(data, dict)
    return data


def _listed(name: str) -> list[JsonObject]:
    data = _read(name)
    assert isinstance(data, list)
    return data


def _read(name: str) -> object:
    text = files("separatrix.atlas").joinpath("data", name).read_text(encoding="utf-8")
    return parse_json(text, what=f"'{name}'")
