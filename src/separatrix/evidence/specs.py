"""What a piece of evidence is about: a task with its parameters, and the set of inputs it covers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.record_checks import require_measured, require_text
from separatrix.records import JsonObject, JsonValue, Reader, Record, freeze, thaw

__all__ = ["InputsCovered", "TaskSpec", "as_text", "require_name", "require_sha256"]

_NAME = re.compile(r"[a-z0-9][a-z0-9+_.-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MOST_DIGITS = 4_000
_TOO_LONG: int = 10**_MOST_DIGITS
_WHOLE_POWER = 99_999.5
"""From here on six digits of a power of ten are a whole number."""
_WHOLE = re.compile(r"[1-9][0-9]*")


@dataclass(frozen=True, kw_only=True)
class TaskSpec(Record):
    """A task by name with its parameters as JSON values: enough to build the task again anywhere."""

    SCHEMA: ClassVar[str] = "separatrix.task"

    name: str
    params: Mapping[str, JsonValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_name("A task", self.name)
        frozen = freeze(self.params)
        if not isinstance(frozen, Mapping):
            raise InvalidInput("A task's parameters are a mapping from names to JSON values.")
        object.__setattr__(self, "params", frozen)

    def __str__(self) -> str:
        inside = ", ".join(f"{name}={as_text(value)}" for name, value in self.params.items())
        return f"{self.name}({inside})"

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {"name": self.name, "params": thaw(self.params)}

    @classmethod
    def from_fields(cls, read: Reader) -> TaskSpec:
        """The spec whose fields `read` holds."""
        name, params = read.text("name"), read.value("params")
        if not isinstance(params, Mapping):
            raise InvalidFile(f"Field 'params' of {read.what} must be an object.")
        return cls(name=name, params=params)


@dataclass(frozen=True, kw_only=True)
class InputsCovered(Record):
    """A set of inputs: a formula for its size, the exact size while it can be written out, its power of ten.

    The formula says which set it is; `count` is exact; `log10` is approximate and for reading.
    """

    SCHEMA: ClassVar[str] = "separatrix.inputs-covered"

    formula: str
    count: int | None
    log10: float

    def __post_init__(self) -> None:
        require_text("A set of inputs", formula=self.formula)
        power = require_measured("A set of inputs", "its power of ten", self.log10)
        object.__setattr__(self, "log10", power)
        if self.count is None:
            return
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise InvalidInput("The number of inputs is a whole number of at least 1.")
        if self.count >= _TOO_LONG:
            raise InvalidInput(f"The number of inputs has over {_MOST_DIGITS} digits; give its log10 only.")
        if not math.isclose(math.log10(self.count), self.log10, rel_tol=1e-9, abs_tol=1e-9):
            raise InvalidInput(f"The number of inputs and its power of ten disagree: log10 is {self.log10}.")

    @classmethod
    def of(cls, *, formula: str, count: int) -> InputsCovered:
        """The set with this exact size; a size too long to write keeps only its power of ten."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InvalidInput("The number of inputs is a whole number of at least 1.")
        return cls(formula=formula, count=count if count < _TOO_LONG else None, log10=math.log10(count))

    def __str__(self) -> str:
        if self.count is not None and self.log10 < 12:
            return f"{self.formula} = {self.count:,}"
        power = f"{self.log10:.6g}" if self.log10 < _WHOLE_POWER else f"{self.log10:,.0f}"
        return f"{self.formula} ≈ 10^{power}"

    def to_fields(self) -> JsonObject:
        """The fields as JSON values; the count as text, since it may be longer than a JSON number."""
        return {
            "formula": self.formula,
            "count": None if self.count is None else str(self.count),
            "log10": self.log10,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> InputsCovered:
        """The set whose fields `read` holds."""
        formula, digits = read.text("formula"), read.optional_text("count")
        if digits is not None and (len(digits) > _MOST_DIGITS or not _WHOLE.fullmatch(digits)):
            raise InvalidFile(f"Field 'count' of {read.what} must be a whole number as text.")
        return cls(
            formula=formula, count=None if digits is None else int(digits), log10=read.measured("log10")
        )


def require_name(owner: str, name: object) -> None:
    """Refuse what is no name of a task: short, lower case, no spaces."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        shown = name[:40] if isinstance(name, str) else type(name).__name__
        raise InvalidInput(f"{owner} has a name such as 'index-lookup'; got {shown!r}.")


def require_sha256(owner: str, digest: object) -> None:
    """Refuse what is no SHA-256 in lower-case hexadecimal."""
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise InvalidInput(f"{owner} names weights by their SHA-256, 64 lower-case hexadecimal digits.")


def as_text(value: JsonValue, *, longest: int = 200) -> str:
    """A JSON value on one line, cut when it is long."""
    line = json.dumps(thaw(value), ensure_ascii=False)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
