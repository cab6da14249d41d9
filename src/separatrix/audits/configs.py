"""Reading a `config.json`: a file or a folder that has one, parsed with limits and never executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from separatrix.audits.anatomy import NumberBits
from separatrix.audits.fields import Fields, plain_number
from separatrix.errors import InvalidFile, InvalidInput
from separatrix.records import parse_json

__all__ = ["CONFIG", "Config", "config_from", "json_at", "number_bits"]

CONFIG: Final = "config.json"
_MOST_BYTES: Final = 16 * 2**20
_INSIDE: Final = ("text_config", "llm_config", "language_config")
"""Where configs of models that also see or hear keep their language model."""
_HANDED_DOWN: Final = ("torch_dtype", "dtype", "tie_word_embeddings", "architectures")
"""What a language model takes from the config around it, unless it says so itself."""
_DTYPES: Final[Mapping[str, int]] = {
    "float64": 64,
    "float32": 32,
    "float": 32,
    "float16": 16,
    "half": 16,
    "bfloat16": 16,
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
    "int8": 8,
}
_FLOAT32: Final = 32
_WIDEST_NUMBER: Final = 4096


@dataclass(frozen=True, kw_only=True)
class Config:
    """The fields of a language model, its type, and what the reader of a report should know of them."""

    model_type: str | None
    data: Mapping[str, object]
    notes: tuple[str, ...] = field(default=())


def json_at(path: Path) -> object:
    """The JSON in a file, or in the `config.json` of a folder."""
    try:
        file = path / CONFIG if path.is_dir() else path
        if not file.exists():
            where = f"the folder '{path}' has no {CONFIG}" if path.is_dir() else f"there is no file '{path}'"
            raise InvalidFile(f"An audit reads a config; {where}.")
        if not file.is_file():
            raise InvalidFile(f"An audit reads a config; '{file}' is no ordinary file.")
        with file.open("rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as failure:
        if isinstance(failure, InvalidFile):
            raise
        reason = failure.strerror if isinstance(failure, OSError) else str(failure)
        raise InvalidFile(f"The config '{path}' cannot be read: {reason}.") from failure
    if len(content) > _MOST_BYTES:
        raise InvalidFile(f"The config '{file}' has more than {_MOST_BYTES:,} bytes; that is no config.")
    return parse_json(content, what=f"The config '{file}'", infinities=True)


def config_from(data: object, *, what: str) -> Config:
    """The language model that a config describes: the config itself, or the one inside it."""
    if not isinstance(data, Mapping):
        raise InvalidFile(f"{what} is a JSON object with fields such as hidden_size; it holds none.")
    outer = cast(Mapping[str, object], data)
    named = Fields(outer, what="Hugging Face").text("model_type")
    notes: tuple[str, ...] = ()
    for place in _INSIDE:
        inside = outer.get(place)
        if isinstance(inside, Mapping):
            kept = {name: outer[name] for name in _HANDED_DOWN if name in outer}
            merged = {**kept, **{name: value for name, value in inside.items() if value is not None}}
            own = Fields(merged, what="Hugging Face").text("model_type")
            notes = (f"Only the language model ({place}) is counted.",)
            return Config(model_type=own or named, data=merged, notes=notes)
    return Config(model_type=named, data=outer, notes=notes)


def number_bits(
    data: Mapping[str, object], *, precision: int | None, state_precision: int | None
) -> tuple[NumberBits, tuple[str, ...]]:
    """Bits of the numbers in caches and in recurrent states, and a note where the config does not say."""
    for name, value in (("precision", precision), ("state_precision", state_precision)):
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and 1 <= value <= _WIDEST_NUMBER):
            came = plain_number(value)
            raise InvalidInput(f"A number has 1 to {_WIDEST_NUMBER:,} bits; got {name}={came}.")
    notes: tuple[str, ...] = ()
    stored = precision
    if stored is None:
        fields = Fields(data, what="Hugging Face")
        named = fields.text("dtype") or fields.text("torch_dtype")
        if named is None:
            notes = ("The config names no dtype: numbers of 32 bits are taken.",)
            stored = _FLOAT32
        else:
            stored = _DTYPES.get(named.removeprefix("torch."), 0)
        if not stored:
            raise InvalidFile(
                f"The config's dtype is one of {', '.join(_DTYPES)}; got {(named or '')[:40]!r}. Give the "
                "bits of a number as precision."
            )
    return NumberBits(stored=stored, recurrent=state_precision or _FLOAT32), notes
