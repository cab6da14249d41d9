"""Models: the interfaces every model meets, the trainable architectures, and the papers' layers as defined.

`MODELS` lists the architectures by name; each is a `Population` with a `Config` of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from separatrix.models.interface import CausalModel, SequenceModel
from separatrix.options import made
from separatrix.registry import Registry

if TYPE_CHECKING:
    from separatrix.models.population import ModelConfig, Population

__all__ = ["MODELS", "CausalModel", "SequenceModel", "model"]

MODELS: Registry[type[Population]] = Registry(
    "model",
    package=__name__,
    names=(
        "transformer",
        "llama",
        "lstm",
        "linear-transformer",
        "retnet",
        "dss",
        "mamba",
        "hybrid",
        "linear-rnn",
        "third-order",
        "graph-transformer",
        "fnn",
    ),
)


def model(name: str, **parameters: Any) -> ModelConfig:
    """The model of this name with these parameters; a wrong one is answered with what would work.

    A name such as `mine:net` imports that module and takes its factory.
    """
    from separatrix.models.specs import kind_of  # noqa: PLC0415  what it needs stands below this package

    return made(kind_of(name, own_code=True).Config, parameters, name=name)
