"""Any explicit model from its spec and its weights."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, cast

from torch import Tensor

from separatrix.errors import InvalidFile
from separatrix.models.explicit.base import ExplicitModel

__all__ = ["FORMS", "model_from"]

FORMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "transformer": "transformer:transformer_from",
        "causal-transformer": "transformer:transformer_from",
        "linear-rnn": "linear_rnn:layered_rnn_from",
        "hybrid": "linear_rnn:layered_rnn_from",
        "recurrent": "recurrent:RecurrentModel.from_parts",
        "graph-unit": "graph_unit:graph_unit_from",
        "graph-transformer": "graph_transformer:graph_transformer_from",
    }
)
"""Forms of models, each with the function `module:name` that reads it."""


def model_from(spec: object, tensors: Mapping[str, Tensor]) -> ExplicitModel:
    """The model of this spec with exactly these weights."""
    form = spec.get("form") if isinstance(spec, Mapping) else None
    if not isinstance(form, str) or form not in FORMS:
        raise InvalidFile(f"A model's form is one of {', '.join(FORMS)}; got {str(form)[:40]!r}.")
    module, _, name = FORMS[form].partition(":")
    home: object = importlib.import_module(f"separatrix.models.explicit.{module}")
    read = functools.reduce(getattr, name.split("."), home)
    return cast(Callable[[object, Mapping[str, Tensor]], ExplicitModel], read)(spec, tensors)
