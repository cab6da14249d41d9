"""Every kind of model that is known here, by the `model_type` of its config."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from separatrix.audits import (
    decoders,
    early_transformers,
    hybrids,
    linear_attention,
    linear_hybrids,
    state_space,
)
from separatrix.audits.anatomy import Anatomy, NumberBits
from separatrix.audits.fields import Fields
from separatrix.audits.generic import generic, missing_fields
from separatrix.audits.kinds import ModelKind
from separatrix.errors import UnknownName

__all__ = ["GROUPS", "KINDS", "OTHER_NAMES", "anatomy_of"]

GROUPS: Final[Mapping[str, tuple[ModelKind, ...]]] = MappingProxyType(
    {
        "Transformers": (*early_transformers.KINDS, *decoders.KINDS),
        "State spaces and RWKV-4": state_space.KINDS,
        "Hybrids": (*hybrids.KINDS, *linear_hybrids.KINDS),
        "flash-linear-attention": linear_attention.KINDS,
    }
)
KINDS: Final[Mapping[str, ModelKind]] = MappingProxyType(
    {kind.name: kind for group in GROUPS.values() for kind in group}
)
OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType({"gemma3": "gemma3_text", "rwkv7_fla": "rwkv7"})
"""Other names under which a kind goes."""
_LONGEST_SHOWN: Final = 60


def anatomy_of(model_type: str | None, data: Mapping[str, object], bits: NumberBits) -> tuple[Anatomy, bool]:
    """What a config describes, and whether that is a generic answer because its type is not known."""
    name = OTHER_NAMES.get(model_type or "", model_type)
    if name is not None and name in KINDS:
        return KINDS[name].read(Fields(data, what=name), bits), False
    shown = _shown(model_type)
    fields = Fields(data, what=shown)
    missing = missing_fields(fields)
    if missing:
        raise _unknown(model_type, shown, missing)
    return generic(fields, bits), True


def _shown(model_type: str | None) -> str:
    if model_type is None:
        return "nameless"
    short = model_type if len(model_type) <= _LONGEST_SHOWN else f"{model_type[:_LONGEST_SHOWN]}…"
    return short if short.isprintable() else repr(short)[1:-1]


def _unknown(model_type: str | None, shown: str, missing: tuple[str, ...]) -> UnknownName:
    near = difflib.get_close_matches(model_type or "", KINDS, n=3, cutoff=0.6)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    what = "The config has no model_type" if model_type is None else f"There is no model_type '{shown}' here"
    return UnknownName(
        f"{what}, and without {', '.join(missing)} it cannot be counted as a Transformer either.{meant} "
        f"Known: {', '.join(KINDS)}."
    )
