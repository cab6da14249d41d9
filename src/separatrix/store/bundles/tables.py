"""The Parquet files of a bundle: one table each, with a few words of metadata, written in one way only.

A file may come from a stranger. It is read whole into memory under limits, must have exactly the columns it
should, and everything in it is taken as numbers and text; nothing in it is ever executed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.records import Reader, Upgrade, parse_json, upgraded
from separatrix.store.keys import canonical

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "CURVES",
    "EVIDENCE",
    "MOST_BYTES",
    "RUNS",
    "TABLES",
    "Table",
    "parquet_of",
    "read_parquet",
    "texts_of",
]

_UPGRADES: Final[tuple[Upgrade, ...]] = ()
"""What brings the metadata of older bundles to the version that is written now; see `records.upgraded`."""
_SCHEMA: Final = "separatrix.bundle"
_META: Final = b"separatrix.bundle"
MOST_BYTES: Final = 2**28
"""Of one file, of its columns by its own account, and of all texts of a column."""
_LONGEST_META: Final = 2**20


@final
@dataclass(frozen=True, kw_only=True)
class Table:
    """One of the tables: its columns and how much of it is read."""

    name: str
    texts: tuple[str, ...]
    """Columns of text that every row has."""
    counts: tuple[str, ...] = ()
    """Columns of whole numbers that every row has."""
    optional_counts: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    """Columns of floats that every row has."""
    optional_measured: tuple[str, ...] = ()
    most_rows: int
    repeated: tuple[str, ...] = ()
    """Columns in which few values come again and again."""

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.name}.parquet"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns in their order."""
        return (*self.texts, *self.counts, *self.optional_counts, *self.measured, *self.optional_measured)

    def schema(self) -> pa.Schema:
        """The columns as Arrow has them."""
        import pyarrow as pa  # noqa: PLC0415  heavy, and needed for files only

        text = pa.dictionary(pa.int32(), pa.string())  # a long text that is repeated is in memory once
        return pa.schema(
            [
                *(pa.field(name, text, nullable=False) for name in self.texts),
                *(pa.field(name, pa.int64(), nullable=False) for name in self.counts),
                *(pa.field(name, pa.int64()) for name in self.optional_counts),
                *(pa.field(name, pa.float64(), nullable=False) for name in self.measured),
                *(pa.field(name, pa.float64()) for name in self.optional_measured),
            ]
        )


RUNS: Final = Table(
    name="runs",
    texts=("key", "status", "config", "provenance", "created", "updated"),
    counts=("steps", "points"),
    optional_counts=("solved_at", "correct", "examples"),
    measured=("seconds",),
    optional_measured=("accuracy", "low", "high", "label_accuracy", "loss"),
    most_rows=200_000,
    repeated=("status", "provenance", "created", "updated"),
)
"""A row a run; `points` is how many points its whole curve has."""
CURVES: Final = Table(
    name="curves",
    texts=("key",),
    counts=("step",),
    optional_counts=("n", "correct", "examples"),
    optional_measured=("loss", "rate", "label_accuracy"),
    most_rows=20_000_000,
    repeated=("key", "n", "examples", "rate"),
)
"""A row a point of the curve of a run."""
EVIDENCE: Final = Table(
    name="evidence", texts=("key", "kind", "record"), most_rows=1_000_000, repeated=("key", "kind")
)
"""A row a record of what was found out about a run, as JSON."""
TABLES: Final = (RUNS, CURVES, EVIDENCE)


def parquet_of(table: Table, rows: Sequence[Mapping[str, object]], meta: Mapping[str, object]) -> bytes:
    """A table with its metadata as the bytes of a file; the same rows are the same bytes."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    said = canonical({"schema": _SCHEMA, "version": len(_UPGRADES) + 1, "part": table.name, **meta})
    try:
        columns = {name: [row[name] for row in rows] for name in table.columns}
        filled = pa.table(columns, schema=table.schema())
    except (OverflowError, UnicodeError, pa.ArrowInvalid) as failure:
        raise InvalidInput(
            f"A bundle holds Unicode text and counts below 2^63; these {table.name} have others: "
            f"{_first_line(failure)}."
        ) from failure
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        filled.schema,
        compression="zstd",
        compression_level=12,
        use_dictionary=list(table.repeated),
        write_statistics=False,
        store_schema=False,
    ) as writer:
        writer.write_table(filled, row_group_size=max(1, len(rows)))
        writer.add_key_value_metadata({_META: said.encode()})
    return bytes(sink.getvalue().to_pybytes())


def read_parquet(table: Table, content: bytes, *, what: str) -> tuple[Reader, pa.Table]:
    """What the bytes of a file say about themselves, with the schema taken off, and their table."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    if len(content) > MOST_BYTES:
        raise InvalidFile(f"{what} may have {MOST_BYTES:,} bytes; it has {len(content):,}.")
    others = InvalidFile(f"{what} has other columns than the {table.name} of a bundle.")
    try:
        about = pq.read_metadata(pa.BufferReader(content))
        meta = _meta_of(table, about, what=what)
        _refuse_large(table, about, what=what)
        if tuple(about.schema.names) != table.columns:
            raise others
        with pq.ParquetFile(pa.BufferReader(content), read_dictionary=list(table.texts)) as file:
            if not file.schema_arrow.equals(table.schema()):
                raise others
            found = file.read(use_threads=False)
            found.validate(full=True)
    except (OSError, UnicodeError, pa.ArrowException) as failure:  # a column may be called anything
        raise InvalidFile(f"{what} is damaged or no Parquet file: {_first_line(failure)}.") from failure
    return meta, found


def texts_of(found: pa.Table, name: str, *, longest: int, what: str) -> list[str]:
    """A column of text, each text once in memory however often it comes."""
    import pyarrow.compute as pc  # noqa: PLC0415

    column = found.column(name).unify_dictionaries()
    if not column.num_chunks:
        return []
    values, lengths = column.chunk(0).dictionary, pc.binary_length(column.chunk(0).dictionary)
    most = pc.max(lengths).as_py() or 0
    if most > longest:
        raise InvalidFile(f"{what} has a {name} of {most:,} bytes; {longest:,} are read.")
    places = [place for chunk in column.chunks for place in chunk.indices.to_pylist()]
    sizes = lengths.to_pylist()
    if sum(sizes[place] for place in places) > MOST_BYTES:
        raise InvalidFile(f"{what} has more text in its column {name} than the {MOST_BYTES:,} bytes read.")
    texts = values.to_pylist()
    return [texts[place] for place in places]


def _meta_of(table: Table, found: Any, *, what: str) -> Reader:
    written: dict[bytes, bytes] = found.metadata or {}
    if set(written) != {_META} or len(written[_META]) > _LONGEST_META:
        raise InvalidFile(f"{what} is no part of a bundle of runs; `separatrix runs bundle` writes them.")
    said = parse_json(written[_META], what=f"the metadata of {what}")
    read = Reader(said, what=f"the metadata of {what}")
    schema, version = read.text("schema"), read.count("version")
    if schema != _SCHEMA:
        raise InvalidFile(f"{what} is of schema {schema[:60]!r}, not '{_SCHEMA}'.")
    meta = Reader(
        upgraded(read.rest(), version=version, upgrades=_UPGRADES, what=what),
        what=f"the metadata of {what}",
    )
    meta.agrees("part", table.name)
    return meta


def _refuse_large(table: Table, found: Any, *, what: str) -> None:
    if found.num_rows > table.most_rows:
        raise InvalidFile(f"{what} may have {table.most_rows:,} rows; it has {found.num_rows:,}.")
    unpacked = sum(found.row_group(place).total_byte_size for place in range(found.num_row_groups))
    if unpacked > 4 * MOST_BYTES:
        raise InvalidFile(f"{what} may unpack to {4 * MOST_BYTES:,} bytes; it has {unpacked:,}.")


def _first_line(failure: Exception) -> str:
    return (str(failure).splitlines() or [type(failure).__name__])[0][:120].rstrip(".")
