"""Models of your own: one decorated mixer, or a plain `nn.Module` from anywhere.

    @mixer("running-mean", title="Running mean", source="mine")
    class RunningMean(Mixer):
        def __init__(self, members, config):
            super().__init__(members)
            self.value = Linear(members, config.width, config.width, law=normal(0.02))
        ...

registers a whole model around the mixer, to be trained by its name like any other, and by the name
`my_module:RunningMean` also where nobody has imported it yet. A plain module needs nothing of this:
`plain_model("my_module:make_net")` calls `make_net(signature)` once for each member and trains the copies
side by side, one after another within a step. It is the simplest way in and the slowest.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias, TypeVar

from torch import nn

from separatrix.accounting import StatePart
from separatrix.errors import InvalidInput
from separatrix.models import MODELS
from separatrix.models.factories import code_of
from separatrix.models.feed_forward import Perceptron
from separatrix.models.laws import normal
from separatrix.models.members import LayerNorm
from separatrix.models.plain import plain_model
from separatrix.models.population import Population
from separatrix.models.specs import require_model_name
from separatrix.models.stack import Block, Frame, Mixer, Mixing, Reading, SeamedStack, StackConfig
from separatrix.options import require
from separatrix.record_checks import require_text

__all__ = ["mixer", "mixer_model", "model_around", "plain_model"]

Kind = TypeVar("Kind", bound=type[Mixing])
_Made: TypeAlias = Callable[[int, StackConfig], Mixing]
_DEVIATION = 0.02
_AROUND: dict[type[Mixing], type[Population]] = {}
"""The model around each mixer that was decorated."""


def mixer(name: str, *, title: str, source: str, positions: bool = False) -> Callable[[Kind], Kind]:
    """Register a model around the decorated mixer, to be trained by this name.

    The class is built as `Kind(members, config)` for each block. Its options are a nested
    `Config(StackConfig)`, if it has any. With `positions` the stream begins with a learned vector for each
    position. A `Mixer` reads from left to right; a `Mixing` that is none sees the whole input at once.
    """

    def add(kind: Kind) -> Kind:
        model = mixer_model(kind, name, title=title, source=source, positions=positions)
        _AROUND[kind] = MODELS.register(name)(model)
        return kind

    return add


@cache
def model_around(kind: type[Mixing], name: str) -> type[Population]:
    """The model around a decorated mixer under the name `module:Class`, by which any process finds it."""
    if kind not in _AROUND:
        raise InvalidInput(
            f"{name} is a mixer, and the decorator @mixer makes a model around one; put it before the class."
        )
    model = _AROUND[kind]
    places = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (model,), {**places, "name": name, "code": code_of(name, kind)})


def mixer_model(
    kind: type[Mixing], name: str, *, title: str, source: str, positions: bool = False
) -> type[Population]:
    """The model around a mixer, without registering it: pre-norm blocks of it and a GELU map."""
    require_model_name(name)
    require_text(name, title=title, source=source)
    _require_mixer(kind, name)
    options = vars(kind).get("Config") or _no_options(kind)
    require(
        inspect.isclass(options) and issubclass(options, StackConfig),
        f"The options of {name} are a class Config(StackConfig) inside {kind.__name__}; got {options!r}.",
    )
    frame: type[Frame] = _MixerStack if issubclass(kind, Mixer) else _MixerFrame
    # The model stands for the decorated class, also where a module is read in again.
    places = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    said = {"name": name, "title": title, "source": source, "Config": options}
    return type(kind.__name__, (frame,), {**places, **said, "kind": kind, "positions": positions})


def _no_options(kind: type[Mixing]) -> type[StackConfig]:
    """A config of its own for a mixer that adds nothing to those of every stack."""
    places = {"__module__": kind.__module__, "__qualname__": f"{kind.__qualname__}.Config"}
    plain = type("Config", (StackConfig,), places)
    return dataclass(frozen=True, kw_only=True)(plain)


def _require_mixer(kind: object, name: str) -> None:
    if not inspect.isclass(kind) or not issubclass(kind, Mixing):
        shown = kind.__name__ if inspect.isclass(kind) else type(kind).__name__
        raise InvalidInput(f"The model {name} is made around a class of Mixer; got {shown}.")
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        raise InvalidInput(f"{kind.__name__} is no whole mixer yet: it has to define {missing}.")
    try:
        inspect.signature(kind).bind(1, StackConfig())
    except TypeError as error:
        raise InvalidInput(
            f"{kind.__name__} is built as {kind.__name__}(members, config), and its __init__ takes "
            f"{inspect.signature(kind)}."
        ) from error


class _MixerParts(Frame):
    """What both kinds of models around a mixer share: reading, norms, and the map behind the mixer."""

    kind: _Made
    positions: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Four times the width; what heads a mixer has is its own matter."""
        return 4 * self.config.width, 0

    def make_reading(self) -> Reading:
        """Tokens or reals, and positions if the decorator says so."""
        return Reading(
            self.members,
            self.config.width,
            self.signature,
            embedding=self.config.embedding,
            positions=self.positions,
            deviation=_DEVIATION,
        )

    def make_block(self, place: int) -> Block:
        """The mixer, then the feed-forward map, each behind a norm."""
        members, width = self.members, self.config.width
        last = normal(_DEVIATION / math.sqrt(2 * self.config.layers))
        feed_forward = Perceptron(members, width, 4 * width, law=normal(_DEVIATION), last=last)
        made = type(self).kind(members, self.config)
        return Block(made, LayerNorm(members, width), feed_forward, LayerNorm(members, width))

    def make_norm(self) -> nn.Module:
        """LayerNorm."""
        return LayerNorm(self.members, self.config.width)


class _MixerStack(_MixerParts, SeamedStack):
    """Around a mixer that reads from left to right."""


class _MixerFrame(_MixerParts):
    """Around one that sees the whole input."""

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """It does not read token by token."""
        return ()
