"""The architectures that can be trained, with what each carries from token to token: as data and as a plot.

All are counted at one width and with their own number of layers, so that their memories can be compared.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from separatrix.accounting import Size
from separatrix.atlas.bits_plot import LONGEST, SHORTEST, BitsPlot
from separatrix.atlas.labels import draw_labels
from separatrix.atlas.svg import Canvas
from separatrix.errors import InvalidInput
from separatrix.models import MODELS
from separatrix.models.population import Population, signature_of
from separatrix.options import made
from separatrix.tasks.cycle3 import Cycle3
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.interface import Task

__all__ = ["MODEL_N", "MODEL_PRECISION", "MODEL_WIDTH", "ModelCard", "Zoo", "collect_models", "draw_states"]

MODEL_WIDTH: Final = 64
MODEL_PRECISION: Final = 32
MODEL_N: Final = 200

_PLOT: Final = BitsPlot(least=10**1.5, most=10**9, across="n, tokens read")


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """An architecture, its sizes on inputs of a task that it reads, or the reason why there are none."""

    name: str
    title: str
    source: str
    summary: str
    task: str = ""
    causal: bool = False
    size: Size | None = None
    problem: str = ""

    @property
    def state(self) -> str:
        """What it carries after n tokens, in bits, as a formula."""
        assert self.size is not None
        fixed = sum(part.fixed_bits for part in self.size.state)
        growing = [
            f"{part.bits_per_position:,} · {'n' if part.window is None else f'min(n, {part.window:,})'}"
            for part in self.size.state
            if part.bits_per_position
        ]
        return " + ".join([*([f"{fixed:,}"] if fixed or not growing else []), *growing])

    @property
    def parts(self) -> str:
        """What the state is made of, and in how many layers."""
        assert self.size is not None
        layers = self.size.layers
        kinds = ", ".join(part.name for part in self.size.state)
        return f"{kinds}; {layers} layer{'' if layers == 1 else 's'}"

    @property
    def grows(self) -> bool:
        """Whether its state has no largest size."""
        return self.size is not None and self.size.most_state_bits is None


@dataclass(frozen=True, kw_only=True)
class Zoo:
    """All architectures, and the plot of their states with what it says."""

    cards: tuple[ModelCard, ...]
    plot: str
    says: str
    width: int = MODEL_WIDTH
    precision: int = MODEL_PRECISION
    n: int = MODEL_N
    symbol_bits: int = 0
    """Bits of a symbol of index lookup, which the plot measures states against."""


def collect_models() -> Zoo:
    """Count every model of the registry."""
    cards = tuple(_card(kind) for _, kind in MODELS.items())
    plot, says = draw_states(cards)
    return Zoo(cards=cards, plot=plot, says=says, symbol_bits=_symbol_bits())


def _card(kind: type[Population]) -> ModelCard:
    said = (inspect.getdoc(kind) or kind.title).partition("\n")[0]
    refusals = []
    for task in (_lookup(), Cycle3(n=MODEL_N)):
        try:
            model = _built(kind, task)
        except InvalidInput as refusal:
            refusals.append(str(refusal))
            continue
        return ModelCard(
            name=kind.name,
            title=kind.title,
            source=kind.source,
            summary=said,
            task=task.name,
            causal=model.is_causal,
            size=model.size(MODEL_N, MODEL_PRECISION),
        )
    return ModelCard(name=kind.name, title=kind.title, source=kind.source, summary=said, problem=refusals[0])


def _built(kind: type[Population], task: Task) -> Population:
    config = made(kind.Config, {"width": MODEL_WIDTH}, name=kind.name)
    return kind(config, signature_of(task), members=1)


def _lookup() -> IndexLookup:
    return IndexLookup(n=MODEL_N)


def _symbol_bits() -> int:
    return int(math.log2(_lookup().alphabet))


@dataclass(frozen=True, kw_only=True)
class _Curve:
    """State bits against n of models that carry the same."""

    names: tuple[str, ...]
    size: Size

    @property
    def growing(self) -> bool:
        return self.size.most_state_bits is None

    @property
    def style(self) -> str:
        if not self.growing:
            return "edge ridge"
        return "edge on" if self.size.state_bits(0) == 0 else "edge on dashed"


def draw_states(cards: Sequence[ModelCard]) -> tuple[str, str]:
    """The plot of state bits against n, both logarithmic, and in a sentence what it shows."""
    canvas = Canvas()
    _PLOT.draw_axes(canvas)
    symbol = _symbol_bits()
    ends = [_PLOT.at(SHORTEST, symbol * SHORTEST), _PLOT.at(LONGEST, symbol * LONGEST)]
    canvas.polyline(ends, "edge dashed")
    curves = sorted(_curves(cards), key=lambda curve: (curve.size.state_bits(LONGEST), curve.names))
    labels = [(ends[1], f"input, {symbol} n", "small")]
    for curve in curves:
        points = [_PLOT.at(n, curve.size.state_bits(n)) for n in _lengths()]
        canvas.polyline(points, curve.style)
        labels += [(points[-1], name, "small said" if curve.growing else "small") for name in curve.names]
    lowest = draw_labels(canvas, labels)
    says = _sentence(curves, symbol)
    title = "State bits against the length of the input"
    return canvas.svg("model-states", title=title, desc=says, height=_PLOT.height(lowest)), says


def _curves(cards: Sequence[ModelCard]) -> list[_Curve]:
    """Causal models by what they carry: those that carry the same share a curve."""
    found: dict[tuple[int, ...], list[ModelCard]] = {}
    for card in cards:
        if card.causal and card.size is not None:
            found.setdefault(tuple(map(card.size.state_bits, _lengths())), []).append(card)
    curves = []
    for alike in found.values():
        size = alike[0].size
        assert size is not None
        curves.append(_Curve(names=tuple(card.name for card in alike), size=size))
    return curves


def _lengths() -> list[int]:
    """Eight to a decade: enough for a sum of a constant and a line to look smooth."""
    decades = math.log10(LONGEST / SHORTEST)
    return [round(SHORTEST * 10 ** (step / 8)) for step in range(round(8 * decades) + 1)]


def _sentence(curves: Sequence[_Curve], symbol: int) -> str:
    growing = [name for curve in curves if curve.growing for name in curve.names]
    flat = [curve for curve in curves if not curve.growing]
    said = f"The state of {_listed(growing)} grows with every token" if growing else "No state grows"
    if not flat:
        return f"{said}."
    least, most = flat[0].size.state_bits(0), flat[-1].size.state_bits(0)
    between = f"{least:,} bits" if least == most else f"between {least:,} and {most:,} bits"
    return (
        f"{said}; that of the others stays as it is, at {between}. The thin dashed line is the input itself: "
        f"n symbols of index lookup, {symbol} bits each."
    )


def _listed(names: Sequence[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])
