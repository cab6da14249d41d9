"""The audit of a model: what it weighs, what it carries at each length, and what that cannot hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from separatrix.accounting import Size
from separatrix.audits.anatomy import Anatomy
from separatrix.audits.catalogue import anatomy_of
from separatrix.audits.configs import CONFIG, Config, config_from, json_at, number_bits
from separatrix.audits.fields import plain_number
from separatrix.audits.walls import Wall, walls_of
from separatrix.errors import InvalidInput
from separatrix.records import JsonObject

if TYPE_CHECKING:
    from separatrix.models.population import ModelConfig
    from separatrix.models.specs import ModelSpec
    from separatrix.tasks.interface import Task

__all__ = ["LENGTHS", "OWN_SCHEMA", "Audit", "audit", "is_own", "require_lengths", "walls_within"]

LENGTHS: Final = (1 << 10, 1 << 13, 1 << 16, 1 << 20)
"""The lengths of a report that is asked for none."""
OWN_SCHEMA: Final = "separatrix.model"
"""What a file says that holds the spec of a model of our own."""
_LONGEST: Final = 10**12
_MOST_LENGTHS: Final = 64


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A model's counts, its state at some lengths, and the walls of that part of the state that is bounded.

    `generic` says that the type was not known and the count is that of a usual Transformer. `composition`
    names the layers. The walls are those of everything that stops growing; there are none where nothing
    does.
    """

    source: str
    model_type: str
    generic: bool
    composition: str
    vocabulary: int
    recurrent_bits: int
    size: Size
    lengths: tuple[int, ...]
    walls: tuple[Wall, ...]
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """A short name: the folder of a config.json, the file, or the model's own name."""
        path = Path(self.source)
        return path.parent.name if path.name == CONFIG and path.parent.name else path.name or self.source

    @property
    def grows(self) -> bool:
        """Whether it keeps something for every position, without end."""
        return self.size.most_state_bits is None

    @property
    def bounded_bits(self) -> int:
        """The most that the parts which stop growing ever hold."""
        return self.size.bounded_state_bits

    def state_at(self, n: int) -> dict[str, int]:
        """Bits of each part after n tokens."""
        return {part.name: part.bits(n) for part in self.size.state}

    def to_fields(self) -> JsonObject:
        """Everything as JSON values."""
        return {
            "source": self.source,
            "model_type": self.model_type,
            "generic": self.generic,
            "layers": self.size.layers,
            "composition": self.composition,
            "vocabulary": self.vocabulary,
            "parameters": self.size.parameters,
            "parameters_without_embeddings": self.size.parameters_without_embeddings,
            "precision_bits": self.size.precision_bits,
            "recurrent_precision_bits": self.recurrent_bits,
            "state": [part.to_fields() for part in self.size.state],
            "state_bits": [
                {"n": n, "bits": self.size.state_bits(n), "parts": self.state_at(n)} for n in self.lengths
            ],
            "grows": self.grows,
            "bounded_state_bits": self.bounded_bits,
            "walls": [wall.to_fields() for wall in self.walls],
            "notes": list(self.notes),
        }


def audit(
    model: str | Path | Mapping[str, object] | ModelConfig | ModelSpec,
    *,
    n: Iterable[int] = LENGTHS,
    precision: int | None = None,
    state_precision: int | None = None,
    task: Task | None = None,
) -> Audit:
    """Count a model from its config alone, and find the lengths at which its memory cannot hold the answer.

    `model` is a path to a `config.json` or to a folder with one, the fields of such a config, or a model of
    our own: a config such as `separatrix.model("mamba")` or a spec, for which `task` says what it reads, by
    default the inputs of index lookup at the largest of the lengths.
    `precision` are the bits of a number in weights and caches, by default those of the config's dtype (32 for
    our own models); `state_precision` those of recurrent states that are kept in float32.
    """
    lengths = require_lengths(n)
    data: object = model
    source, what = "a config", "A config"
    if isinstance(model, str | Path):
        data, source, what = json_at(Path(model)), str(model), f"The config '{model}'"
    if isinstance(model, str | Path | Mapping) and not is_own(data):
        if task is not None:
            raise InvalidInput("A task says what a model of ours reads; a config says that itself.")
        config = config_from(data, what=what)
        return _foreign(config, source, lengths, precision, state_precision)
    # torch is needed for models of our own only.
    from separatrix.audits.own import audit_own, own_config  # noqa: PLC0415

    return audit_own(own_config(data), lengths=lengths, precision=precision, task=task)


def require_lengths(n: Iterable[int]) -> tuple[int, ...]:
    """Lengths in their order, each once; refuses none, too many and absurd ones."""
    lengths = tuple(n)
    if not 1 <= len(lengths) <= _MOST_LENGTHS:
        raise InvalidInput(f"An audit is made for 1 to {_MOST_LENGTHS} lengths; got {len(lengths)}.")
    for length in lengths:
        if isinstance(length, bool) or not isinstance(length, int) or not 1 <= length <= _LONGEST:
            raise InvalidInput(f"A length is a whole number from 1 to 10^12; got {plain_number(length)}.")
    return tuple(sorted(set(lengths)))


def _foreign(
    config: Config, source: str, lengths: tuple[int, ...], precision: int | None, state_precision: int | None
) -> Audit:
    bits, guessed = number_bits(config.data, precision=precision, state_precision=state_precision)
    anatomy, is_generic = anatomy_of(config.model_type, config.data, bits)
    size = anatomy.size(source=f"the config of a {anatomy.model_type} model")
    return Audit(
        source=source,
        model_type=anatomy.model_type,
        generic=is_generic,
        composition=anatomy.composition,
        vocabulary=anatomy.vocabulary,
        recurrent_bits=bits.recurrent,
        size=size,
        lengths=lengths,
        walls=walls_within(size, anatomy.vocabulary),
        notes=(
            *config.notes,
            *guessed,
            *anatomy.notes,
            *_quantised(config, anatomy),
            *_beyond_positions(anatomy, lengths),
        ),
    )


def walls_within(size: Size, vocabulary: int) -> tuple[Wall, ...]:
    """Those of the bounded part; a model that only ever looks back at everything has no such part."""
    return walls_of(size.bounded_state_bits, vocabulary) if size.bounded_state_bits else ()


def is_own(data: object) -> bool:
    """Whether the JSON of a file is the spec of a model of ours."""
    return isinstance(data, Mapping) and data.get("schema") == OWN_SCHEMA


def _quantised(config: Config, anatomy: Anatomy) -> tuple[str, ...]:
    if not isinstance(config.data.get("quantization_config"), Mapping):
        return ()
    return (f"Weights are quantised; caches are counted with {anatomy.bits.stored} bits a number.",)


def _beyond_positions(anatomy: Anatomy, lengths: tuple[int, ...]) -> tuple[str, ...]:
    """A model with a table of positions has none for a longer input, which the formulas do not know."""
    last = anatomy.positions
    if last is None or lengths[-1] <= last:
        return ()
    state = " Its state at larger n is by formula only." if anatomy.state else ""
    return (f"Its table of positions ends at {last:,}: it cannot read more tokens than that.{state}",)
