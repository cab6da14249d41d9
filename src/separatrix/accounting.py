"""How large a model is: every count by name, in bits where it is memory.

The papers count differently and both counts are kept: S counts embeddings as parameters, W leaves them out.
A Transformer's cache of keys and values is state that grows with the length, like any other memory that a
model carries from token to token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from separatrix.errors import InvalidInput
from separatrix.record_checks import require_count, require_text
from separatrix.records import JsonObject, Reader, Record

__all__ = ["Size", "StatePart", "kv_cache", "recurrent_state"]

WIDEST_NUMBER = 4096


@dataclass(frozen=True, kw_only=True)
class StatePart(Record):
    """A piece of memory carried from token to token.

    At length n it holds `fixed_bits + bits_per_position · min(n, window)` bits; without a window every
    position is kept. A recurrent state has only the fixed part, a cache of keys and values only the other.
    """

    SCHEMA: ClassVar[str] = "separatrix.state-part"

    name: str
    fixed_bits: int = 0
    bits_per_position: int = 0
    window: int | None = None

    def __post_init__(self) -> None:
        require_text("A part of the state", name=self.name)
        require_count(
            "A part of the state", fixed_bits=self.fixed_bits, bits_per_position=self.bits_per_position
        )
        if self.window is not None:
            require_count("A part of the state", least=1, window=self.window)
            if self.bits_per_position == 0:
                raise InvalidInput(
                    "A window limits what is kept for each position; this part keeps nothing so."
                )

    def bits(self, n: int) -> int:
        """Bits held after n tokens."""
        require_count("The state", n=n)
        kept = n if self.window is None else min(n, self.window)
        return self.fixed_bits + self.bits_per_position * kept

    @property
    def most_bits(self) -> int | None:
        """The most it ever holds, or None if it grows without end."""
        if self.bits_per_position == 0:
            return self.fixed_bits
        return None if self.window is None else self.bits(self.window)

    def __str__(self) -> str:
        fixed = f"{self.fixed_bits:,} bits" if self.fixed_bits or not self.bits_per_position else ""
        per = f"{self.bits_per_position:,} bits a position" if self.bits_per_position else ""
        window = f" for the last {self.window:,}" if self.window is not None else ""
        return f"{self.name}: {' + '.join(part for part in (fixed, per) if part)}{window}"

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "name": self.name,
            "fixed_bits": self.fixed_bits,
            "bits_per_position": self.bits_per_position,
            "window": self.window,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> StatePart:
        """The part whose fields `read` holds."""
        return cls(
            name=read.text("name"),
            fixed_bits=read.count("fixed_bits"),
            bits_per_position=read.count("bits_per_position"),
            window=read.optional_count("window"),
        )


def kv_cache(
    *,
    layers: int,
    heads: int,
    head_width: int,
    precision_bits: int,
    window: int | None = None,
    name: str = "key-value cache",
) -> StatePart:
    """The keys and values that attention keeps: two vectors of `head_width` numbers a layer, head, position.

    `heads` are the heads that have keys of their own: fewer than the query heads where these share them.
    """
    require_count(
        "A key-value cache",
        least=1,
        layers=layers,
        heads=heads,
        head_width=head_width,
        precision_bits=precision_bits,
    )
    return StatePart(
        name=name, bits_per_position=2 * layers * heads * head_width * precision_bits, window=window
    )


def recurrent_state(*, numbers: int, precision_bits: int, name: str = "recurrent state") -> StatePart:
    """A state of so many numbers, the same at every length."""
    require_count("A recurrent state", least=1, numbers=numbers, precision_bits=precision_bits)
    return StatePart(name=name, fixed_bits=numbers * precision_bits)


@dataclass(frozen=True, kw_only=True)
class Size(Record):
    """Every count of a model, with where the counts come from.

    `width` is that of the stream between layers, `ffn_width` the inner width of the feed-forward map (0 where
    there is none), `heads` those of a layer (0 without attention), `precision_bits` the bits of a parameter.
    `parameters_without_embeddings` is W's count; `parameters` adds the embeddings, which is S's.
    `gates_per_step` is the circuit size of one step, W's third measure, where it is known.
    """

    SCHEMA: ClassVar[str] = "separatrix.size"

    width: int
    ffn_width: int
    layers: int
    heads: int
    precision_bits: int
    parameters_without_embeddings: int
    embedding_parameters: int
    state: tuple[StatePart, ...] = ()
    gates_per_step: int | None = None
    source: str

    def __post_init__(self) -> None:
        require_count("A size", least=1, width=self.width, layers=self.layers)
        require_count(
            "A size",
            ffn_width=self.ffn_width,
            heads=self.heads,
            parameters_without_embeddings=self.parameters_without_embeddings,
            embedding_parameters=self.embedding_parameters,
        )
        require_count("A size", least=1, precision_bits=self.precision_bits)
        if self.precision_bits > WIDEST_NUMBER:
            raise InvalidInput(
                f"A number has at most {WIDEST_NUMBER} bits; got precision_bits={self.precision_bits}."
            )
        if self.gates_per_step is not None:
            require_count("A size", gates_per_step=self.gates_per_step)
        if not isinstance(self.state, tuple):
            raise InvalidInput(
                f"The state of a size is a tuple of StatePart; got {type(self.state).__name__}."
            )
        if not all(isinstance(part, StatePart) for part in self.state):
            raise InvalidInput("The state of a size is a tuple of StatePart.")
        if len({part.name for part in self.state}) != len(self.state):
            raise InvalidInput("The parts of a state have different names.")
        require_text("A size", source=self.source)

    @property
    def parameters(self) -> int:
        """Parameters with embeddings, as S counts."""
        return self.parameters_without_embeddings + self.embedding_parameters

    @property
    def parameter_bits(self) -> int:
        """Bits of all parameters with embeddings, as S counts."""
        return self.parameters * self.precision_bits

    @property
    def parameter_bits_without_embeddings(self) -> int:
        """Bits of the parameters without embeddings, as W counts."""
        return self.parameters_without_embeddings * self.precision_bits

    def state_bits(self, n: int) -> int:
        """Bits of memory carried after n tokens, caches included."""
        require_count("The state", n=n)
        return sum(part.bits(n) for part in self.state)

    @property
    def most_state_bits(self) -> int | None:
        """The most bits ever carried, or None if the state grows with the length without end."""
        parts = [part.most_bits for part in self.state]
        return None if None in parts else sum(bits for bits in parts if bits is not None)

    @property
    def bounded_state_bits(self) -> int:
        """Bits of those parts that stop growing: what remains of the memory without the full cache."""
        return sum(part.most_bits for part in self.state if part.most_bits is not None)

    def rows(self, *, n: int | None = None) -> tuple[tuple[str, int, str], ...]:
        """Name, count and unit of everything, for tables; with `n`, the state at that length."""
        counts = [
            ("width", self.width, "numbers"),
            ("feed-forward width", self.ffn_width, "numbers"),
            ("layers", self.layers, "layers"),
            ("heads", self.heads, "heads a layer"),
            ("precision", self.precision_bits, "bits a number"),
            ("parameters, embeddings counted", self.parameters, "numbers"),
            ("parameters, embeddings left out", self.parameters_without_embeddings, "numbers"),
            ("parameter bits, embeddings counted", self.parameter_bits, "bits"),
            ("parameter bits, embeddings left out", self.parameter_bits_without_embeddings, "bits"),
        ]
        if n is not None:
            counts += [(f"{part.name} at {n:,} positions", part.bits(n), "bits") for part in self.state]
            counts.append((f"state at {n:,} positions", self.state_bits(n), "bits"))
        if self.gates_per_step is not None:
            counts.append(("gates", self.gates_per_step, "gates a step"))
        return tuple(counts)

    def table(self, *, n: int | None = None) -> str:
        """The counts in aligned columns, with their source below."""
        lines = [(name, f"{count:,}", unit) for name, count, unit in self.rows(n=n)]
        names = max(len(name) for name, _, _ in lines)
        counts = max(len(count) for _, count, _ in lines)
        body = [f"{name:<{names}}  {count:>{counts}} {unit}" for name, count, unit in lines]
        if n is None:
            body += [f"state, {part}" for part in self.state]
        return "\n".join([*body, f"source: {self.source}"])

    def __str__(self) -> str:
        return self.table()

    def to_fields(self) -> JsonObject:
        """The fields as JSON values, and the counts that follow from them for readers."""
        return {
            "width": self.width,
            "ffn_width": self.ffn_width,
            "layers": self.layers,
            "heads": self.heads,
            "precision_bits": self.precision_bits,
            "parameters": self.parameters,
            "parameters_without_embeddings": self.parameters_without_embeddings,
            "embedding_parameters": self.embedding_parameters,
            "parameter_bits": self.parameter_bits,
            "parameter_bits_without_embeddings": self.parameter_bits_without_embeddings,
            "state": [part.to_fields() for part in self.state],
            "gates_per_step": self.gates_per_step,
            "source": self.source,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Size:
        """The size whose fields `read` holds."""
        size = cls(
            width=read.count("width"),
            ffn_width=read.count("ffn_width"),
            layers=read.count("layers"),
            heads=read.count("heads"),
            precision_bits=read.count("precision_bits"),
            parameters_without_embeddings=read.count("parameters_without_embeddings"),
            embedding_parameters=read.count("embedding_parameters"),
            state=read.records("state", StatePart),
            gates_per_step=read.optional_count("gates_per_step"),
            source=read.text("source"),
        )
        read.agrees("parameters", size.parameters)
        read.agrees("parameter_bits", size.parameter_bits)
        read.agrees("parameter_bits_without_embeddings", size.parameter_bits_without_embeddings)
        return size
