"""W's models for IsTree: a Transformer in LLaMA's form, Mamba, and Mamba under one Transformer block.

A size is a number of parameters, the table of words left out. All read words by frozen sines and answer with
the same table. Attention has rotary positions; Mamba needs none. Maps begin by fan-in: on chains of thought
about 8 vertices the Transformer of 0.5M had 57 % right after 1,000 steps, and 13 % as GPT-2's begin.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple

from separatrix.models import model
from separatrix.models.population import ModelConfig
from separatrix.registry import unknown_name

__all__ = ["W_MODELS", "W_SIZES", "w_model", "w_small_model"]

W_MODELS: Final = MappingProxyType({"Transformer": "llama", "Mamba": "mamba", "Hybrid": "hybrid"})
"""The names in W's figures, and the architectures they stand for."""
W_SIZES: Final = MappingProxyType({"0.5M": 500_000, "1M": 1_000_000, "2M": 2_000_000})
"""The sizes in W's figures, and the parameters they stand for."""


class _Shape(NamedTuple):
    """The width, and the blocks that W counts: of a hybrid, those of Mamba without the one on top."""

    width: int
    layers: int


_SHAPES: Final = {
    "Transformer": {"0.5M": _Shape(64, 8), "1M": _Shape(64, 16), "2M": _Shape(128, 12)},
    "Mamba": {"0.5M": _Shape(64, 16), "1M": _Shape(128, 10), "2M": _Shape(128, 18)},
    "Hybrid": {"0.5M": _Shape(64, 12), "1M": _Shape(128, 7), "2M": _Shape(128, 14)},
}
_INNER: Final = 256
_SMALL: Final = _Shape(16, 2)
_HEADS: Final = 4


def w_model(label: str, size: str) -> ModelConfig:
    """The architecture behind a row of W's figure, such as Mamba at 1M."""
    _require_label(label)
    if size not in W_SIZES:
        raise unknown_name("size", size, tuple(W_SIZES))
    return _config(label, _SHAPES[label][size], inner=_INNER)


def w_small_model(label: str) -> ModelConfig:
    """The same architecture, so small that all its parts are there and no more."""
    _require_label(label)
    return _config(label, _SMALL, inner=2 * _SMALL.width)


def _require_label(label: str) -> None:
    if label not in W_MODELS:
        raise unknown_name("model of W", label, tuple(W_MODELS))


def _config(label: str, shape: _Shape, *, inner: int) -> ModelConfig:
    attention = {} if label == "Mamba" else {"heads": _HEADS, "ffn": inner, "initial": "fan-in"}
    return model(
        W_MODELS[label],
        width=shape.width,
        layers=shape.layers,
        embedding="sinusoidal",
        tied=True,
        **attention,
    )
