"""A model as a spec, its name and its parameters as JSON, and back.

A name is one of the registry's, or `module:name` for a module or a mixer of the user's own. A spec may come
from a stranger: reading one runs nothing, and to make a model from code that it names, that must be allowed.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Final

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.evidence.specs import as_text
from separatrix.models import MODELS
from separatrix.models.factories import PLAIN_NAME, maker_named
from separatrix.models.plain import plain_model
from separatrix.models.population import ModelConfig, Population, Signature
from separatrix.models.sparse_set_unit import SparseSetUnit
from separatrix.models.stack import Mixing
from separatrix.options import made, require
from separatrix.records import JsonObject, JsonValue, Reader, Record, freeze, thaw

__all__ = [
    "ModelSpec",
    "architecture_of",
    "build",
    "config_of",
    "is_own",
    "kind_of",
    "model_spec_of",
    "require_model_name",
]

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9+_.-]{0,99}")
_LONGEST_NAME: Final = 200
_CODE: Final = re.compile(r"[0-9a-f]{64}")
_UNLISTED: Final[Mapping[str, type[Population]]] = {SparseSetUnit.name: SparseSetUnit}
"""Models that no registry lists, since they are made for one task."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec(Record):
    """A model by name with its parameters as JSON values: enough to build it again for any task.

    A module of the user's own comes with the hash of its code, so that other code is another model.
    """

    SCHEMA: ClassVar[str] = "separatrix.model"

    name: str
    params: Mapping[str, JsonValue] = field(default_factory=dict)
    code: str | None = None

    def __post_init__(self) -> None:
        if not is_own(self.name):
            require_model_name(self.name)
        frozen = freeze(self.params)
        if not isinstance(frozen, Mapping):
            raise InvalidInput("A model's parameters are a mapping from names to JSON values.")
        object.__setattr__(self, "params", frozen)
        require(
            self.code is None or (isinstance(self.code, str) and _CODE.fullmatch(self.code) is not None),
            "A model's code is named by its SHA-256, 64 lower-case hexadecimal digits.",
        )

    def __str__(self) -> str:
        inside = ", ".join(f"{name}={as_text(value)}" for name, value in self.params.items())
        return f"{self.name}({inside})"

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        fields: JsonObject = {"name": self.name, "params": thaw(self.params)}
        return fields if self.code is None else {**fields, "code": self.code}

    @classmethod
    def from_fields(cls, read: Reader) -> ModelSpec:
        """The spec whose fields `read` holds."""
        name, params = read.text("name"), read.value("params")
        if not isinstance(params, Mapping):
            raise InvalidFile(f"Field 'params' of {read.what} must be an object.")
        return cls(name=name, params=params, code=read.text("code") if read.has("code") else None)


def require_model_name(name: object) -> None:
    """Refuse what is no name of a registered model: short, lower case, no spaces."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        shown = name[:40] if isinstance(name, str) else type(name).__name__
        raise InvalidInput(f"A model has a name such as 'linear-transformer'; got {shown!r}.")


def is_own(name: object) -> bool:
    """Whether a name is `module:factory`, a module of the user's own."""
    return isinstance(name, str) and len(name) <= _LONGEST_NAME and PLAIN_NAME.fullmatch(name) is not None


def kind_of(name: str, *, own_code: bool = False) -> type[Population]:
    """The model of this name; `own_code` allows to import the module that a name such as `mine:net` is in."""
    if name in _UNLISTED:
        return _UNLISTED[name]
    if not is_own(name):
        return MODELS.get(name)
    if not own_code:
        raise InvalidInput(
            f"The model {name} is made by code of its own, which is not run unless that is allowed; pass "
            "own_code=True if you trust it."
        )
    named = maker_named(name)
    if inspect.isclass(named) and issubclass(named, Mixing):
        from separatrix.models.own import model_around  # noqa: PLC0415  which itself needs names from here

        return model_around(named, name)
    return plain_model(name)


def kind_and_config(model: str | ModelConfig) -> tuple[type[Population], ModelConfig]:
    """A model that is named, with what it has unless said otherwise, or the model that has this config.

    A name such as `mine:net` imports that module: whoever calls this has chosen it.
    """
    if isinstance(model, str):
        kind = kind_of(model, own_code=True)
        return kind, kind.Config()
    require(
        isinstance(model, ModelConfig),
        "A model is a name, such as mamba or my_nets:net, or a config, such as separatrix.model('mamba', "
        f"layers=2); got a {type(model).__name__}.",
    )
    return model.kind, model


def model_spec_of(kind: type[Population], config: ModelConfig) -> ModelSpec:
    """Every parameter; one that a file cannot hold is refused.

    Parameters that are newer than files of their model are left out while they have their defaults.
    """
    if not isinstance(config, kind.Config):
        raise InvalidInput(f"{kind.name} is configured by its own Config; got a {type(config).__qualname__}.")
    fields = [
        each.name
        for each in dataclasses.fields(config)
        if each.init and not (each.metadata.get("newer") and getattr(config, each.name) == each.default)
    ]
    params = {name: _plain(kind, name, getattr(config, name)) for name in fields}
    return ModelSpec(name=kind.name, params=params, code=kind.code)


def architecture_of(fields: Mapping[str, object]) -> dict[str, object]:
    """The fields of a spec without the parameters that only decide how weights begin."""
    begins, params = _beginnings(str(fields["name"])), fields["params"]
    if not begins or not isinstance(params, Mapping):
        return dict(fields)
    return {**fields, "params": {name: value for name, value in params.items() if name not in begins}}


@lru_cache(maxsize=256)
def _beginnings(name: str) -> frozenset[str]:
    if name not in MODELS.names():
        return frozenset()
    config = MODELS.get(name).Config
    return frozenset(each.name for each in dataclasses.fields(config) if each.metadata.get("begins"))


def config_of(spec: ModelSpec, *, own_code: bool = False) -> ModelConfig:
    """The config that a spec describes; a spec that fits no model is refused in a sentence."""
    kind = kind_of(spec.name, own_code=own_code)
    require(
        spec.code is None or spec.code == kind.code,
        f"The code of {spec.name} is not what it was when this was written; bring that back, or train anew.",
    )
    types = typing.get_type_hints(kind.Config)
    known = {each.name for each in dataclasses.fields(kind.Config) if each.init}
    for name, value in spec.params.items():
        if name not in known:
            raise InvalidFile(f"{spec.name} has no parameter '{name[:40]}'; it is not from this version.")
        if not _fits(value, types[name]):
            raise InvalidFile(f"{spec.name} takes no {_word(value)} for {name}.")
    try:
        return made(kind.Config, spec.params, name=spec.name)
    except InvalidInput as error:
        raise InvalidFile(f"The model breaks a rule: {error}") from error


def build(spec: ModelSpec, signature: Signature, members: int, *, own_code: bool = False) -> Population:
    """The population that a spec describes, for a task of this signature, without weights yet."""
    config = config_of(spec, own_code=own_code)
    return kind_of(spec.name, own_code=own_code)(config, signature, members=members)


def _plain(kind: type[Population], name: str, value: object) -> JsonValue:
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    if isinstance(value, tuple):
        return tuple(_plain(kind, name, each) for each in value)
    raise InvalidInput(
        f"{kind.name} with a {type(value).__name__} for {name} cannot be written to a file; leave {name} out."
    )


def _fits(value: JsonValue, declared: Any) -> bool:
    """Texts where texts are declared and lists where lists are; the config itself looks at the rest."""
    parts = {declared, *typing.get_args(declared)}
    origins = {typing.get_origin(part) or part for part in parts}
    if isinstance(value, Mapping):
        return False
    if isinstance(value, tuple):
        return tuple in origins
    if isinstance(value, str):
        return bool(origins & {str, typing.Literal}) or value in parts
    return not (value is None and type(None) not in origins)


def _word(value: JsonValue) -> str:
    if isinstance(value, tuple):
        return "list"
    if isinstance(value, str):
        return "text"
    return "null" if value is None else "object"
