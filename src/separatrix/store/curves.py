"""Learning curves: points in Parquet files, the same points always the same bytes.

The metadata of a file say its schema and version; one that says nothing is of the first.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, final

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.files import replace_file
from separatrix.record_checks import require_count
from separatrix.records import JsonObject, Reader, Upgrade, parse_json, upgraded
from separatrix.store.keys import canonical

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Point", "read_curve", "write_curve"]

_MOST_POINTS: Final = 10_000_000
_MOST_BYTES: Final = 2**30
_LONGEST_META: Final = 2**20
_SCHEMA: Final = "separatrix.curve"
_UPGRADES: Final[tuple[Upgrade, ...]] = ()
"""What brings the points of older files to those of this version; see `records.upgraded`."""


@final
@dataclass(frozen=True, kw_only=True)
class Point:
    """What was seen of a member at a step; what was not looked at then is None."""

    step: int
    loss: float | None = None
    """Mean training loss since the point before; None also if it was no number."""
    rate: float | None = None
    """The learning rate."""
    n: int | None = None
    """The length trained on, where a curriculum changes it."""
    correct: int | None = None
    examples: int | None = None
    label_accuracy: float | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if field.name in _MEASURED:
                object.__setattr__(self, field.name, float(value) if math.isfinite(value) else None)
            else:
                require_count("A point", **{field.name: value})

    @property
    def accuracy(self) -> float | None:
        """The rate of right answers, None if nothing was asked."""
        return self.correct / self.examples if self.examples and self.correct is not None else None

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {**dataclasses.asdict(self), "accuracy": self.accuracy}


_MEASURED: Final = ("loss", "rate", "label_accuracy")


def write_curve(path: Path, points: Sequence[Point]) -> None:
    """Put a whole curve in the place of what was there."""
    import pyarrow as pa  # noqa: PLC0415  heavy, and needed for curves only
    import pyarrow.parquet as pq  # noqa: PLC0415

    if any(later.step <= sooner.step for sooner, later in itertools.pairwise(points)):
        raise InvalidInput("The points of a curve come in the order of their steps, one for a step.")
    columns = {name: [getattr(point, name) for point in points] for name in _schema().names}
    sink = pa.BufferOutputStream()
    table = pa.table(columns, schema=_schema())
    said = canonical({"schema": _SCHEMA, "version": len(_UPGRADES) + 1})
    with pq.ParquetWriter(
        sink, table.schema, compression="zstd", use_dictionary=False, store_schema=False
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({_SCHEMA.encode(): said.encode()})
    replace_file(path, sink.getvalue().to_pybytes())


def read_curve(path: Path) -> tuple[Point, ...]:
    """The points of a file; none if there is no file."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        if not path.exists():
            return ()
        if path.stat().st_size > _MOST_BYTES:
            raise InvalidFile(f"'{path}' is too large for a curve; at most {_MOST_BYTES:,} bytes are read.")
        with pq.ParquetFile(path) as file:
            version = _version_of(file.metadata.metadata or {}, what=f"'{path}'")
            foreign = version == len(_UPGRADES) + 1 and not file.schema_arrow.equals(_schema())
            if file.metadata.num_rows > _MOST_POINTS or foreign:
                raise InvalidFile(f"'{path}' is no curve of this package.")
            found: JsonObject = {"points": file.read().to_pylist()}
    except (OSError, pa.ArrowException) as failure:
        raise InvalidFile(
            f"'{path}' is damaged or no curve: {str(failure).splitlines()[0][:120]}."
        ) from failure
    rows = upgraded(found, version=version, upgrades=_UPGRADES, what=f"'{path}'")["points"]
    try:
        return tuple(Point(**row) for row in cast(list[dict[str, Any]], rows))
    except (InvalidInput, TypeError) as failure:
        raise InvalidFile(f"'{path}' is no curve of this package: {failure}") from failure


def _version_of(metadata: Mapping[bytes, bytes], *, what: str) -> int:
    said = metadata.get(_SCHEMA.encode())
    if said is None:
        return 1
    read = Reader(parse_json(said[:_LONGEST_META], what=f"the metadata of {what}"), what=what)
    read.agrees("schema", _SCHEMA)
    return read.count("version")


def _schema() -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415

    return pa.schema(
        [
            pa.field(field.name, pa.float64() if field.name in _MEASURED else pa.int64())
            for field in dataclasses.fields(Point)
        ]
    )
