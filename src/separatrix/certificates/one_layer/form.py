"""What the certificates know of a model with one layer of attention: its maps, in float64.

The weights of a trained model are floats of some width, and each of them is a float64 too, so nothing is
rounded on the way here. Rotary angles are the exception; they are computed anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, final

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.attention import Attention, rotated
from separatrix.models.feed_forward import Gated, Perceptron
from separatrix.models.members import LayerNorm, RMSNorm
from separatrix.models.population import Population
from separatrix.models.stack import Block, Frame

__all__ = ["Activation", "FeedForward", "Map", "Norm", "OneLayer", "activated", "form_of"]

Activation = Literal["gelu", "silu", "relu"]


@final
@dataclass(frozen=True, eq=False)
class Map:
    """x W + b."""

    weight: Float[Tensor, "wide out"]
    bias: Float[Tensor, "out"]

    def __call__(self, x: Float[Tensor, "*lead wide"]) -> Float[Tensor, "*lead out"]:
        """The map of the last axis."""
        return x @ self.weight + self.bias


@final
@dataclass(frozen=True, eq=False)
class Norm:
    """Divided by its length, after its mean is taken off where `centred`; then a scale and a shift."""

    centred: bool
    weight: Float[Tensor, "width"]
    bias: Float[Tensor, "width"]
    epsilon: float

    @property
    def width(self) -> int:
        """Numbers that are normalised together."""
        return len(self.weight)

    def centre(self, x: Float[Tensor, "*lead width"]) -> Float[Tensor, "*lead width"]:
        """Without its mean, where the norm takes it off."""
        return x - x.mean(-1, keepdim=True) if self.centred else x

    def length(self, x: Float[Tensor, "*lead width"]) -> Float[Tensor, "*lead"]:
        """√(|x|² + width · ε) of what is centred: what it is divided by, times √width."""
        return (self.centre(x).square().sum(-1) + self.width * self.epsilon).sqrt()

    def __call__(self, x: Float[Tensor, "*lead width"]) -> Float[Tensor, "*lead width"]:
        """The norm of the last axis."""
        scale = math.sqrt(self.width) / self.length(x).unsqueeze(-1)
        return self.centre(x) * scale * self.weight + self.bias


@final
@dataclass(frozen=True, eq=False)
class FeedForward:
    """An activation between two maps; where it is gated, `value` is what the activation multiplies."""

    up: Map
    value: Map | None
    down: Map
    activation: Activation

    def __call__(self, x: Float[Tensor, "*lead width"]) -> Float[Tensor, "*lead width"]:
        """The map of the last axis."""
        inner = activated(self.activation, self.up(x))
        return self.down(inner if self.value is None else inner * self.value(x))


@final
@dataclass(frozen=True, eq=False)
class OneLayer:
    """Read, attend once, map, read out, with a norm before each."""

    table: Float[Tensor, "token width"] | None
    reals: Map | None
    places: Float[Tensor, "pos width"] | None
    before: Norm
    query: Float[Tensor, "head width part"]
    key: Float[Tensor, "head width part"]
    value: Float[Tensor, "head width part"]
    query_bias: Float[Tensor, "head part"]
    key_bias: Float[Tensor, "head part"]
    value_bias: Float[Tensor, "head part"]
    outward: Float[Tensor, "head part width"]
    outward_bias: Float[Tensor, "width"]
    causal: bool
    rotary: bool
    second: Norm
    feed_forward: FeedForward
    last: Norm
    readout: Map
    precision: Literal["float32", "float64"]
    """The floats in which the model itself computes."""

    @property
    def heads(self) -> int:
        """How many heads there are."""
        return self.query.shape[0]

    @property
    def part(self) -> int:
        """Numbers of a head."""
        return self.query.shape[2]

    def read(self, options: Shaped[Tensor, "pos option *width"]) -> Float[Tensor, "pos option width"]:
        """The stream that every option makes at every position."""
        if self.table is not None:
            x = self.table[options]
        else:
            assert self.reals is not None
            x = self.reals(options.to(torch.float64))
        return x if self.places is None else x + self.places[: len(x)].unsqueeze(1)

    def read_sizes(self, options: Shaped[Tensor, "pos option *width"]) -> Float[Tensor, "pos option width"]:
        """The same with absolute values in place of every number: what roundings are a part of."""
        if self.table is not None:
            x = self.table[options].abs()
        else:
            assert self.reals is not None
            x = options.to(torch.float64).abs() @ self.reals.weight.abs() + self.reals.bias.abs()
        return x if self.places is None else x + self.places[: len(x)].abs().unsqueeze(1)

    def turned(
        self, x: Float[Tensor, "head pos option part"], place: Int[Tensor, "pos"]
    ) -> Float[Tensor, "head pos option part"]:
        """Queries or keys as the positions turn them."""
        if not self.rotary:
            return x
        rows = rotated(x.permute(2, 0, 1, 3), place)
        return rows.permute(1, 2, 0, 3)

    def tail(self, y: Float[Tensor, "*lead width"]) -> Float[Tensor, "*lead out"]:
        """From the stream behind attention to the outputs."""
        return self.readout(self.last(y + self.feed_forward(self.second(y))))


def activated(kind: Activation, x: Float[Tensor, "*lead"]) -> Float[Tensor, "*lead"]:
    """The activation, element by element; GELU by its formula with the hyperbolic tangent."""
    if kind == "gelu":
        return F.gelu(x, approximate="tanh")
    return F.silu(x) if kind == "silu" else torch.relu(x)


def form_of(population: Population, *, device: torch.device | str = "cpu") -> OneLayer:
    """The maps of a population of one with one layer of softmax attention; others are refused."""
    if not isinstance(population, Frame) or population.members != 1:
        raise InvalidInput(
            f"Models with one layer of softmax attention are certified, one by one; got {population.name}. "
            "break_model (`separatrix break`) takes any model."
        )
    block = population.blocks[0]
    # Exactly these: what is derived from them may compute something else.
    attends = type(block) is Block and type(block.mixer) is Attention
    attends = attends and type(population).forward is Frame.forward
    attends = attends and type(population).answers is Frame.answers
    if len(population.blocks) != 1 or not attends:
        layers = len(population.blocks)
        got = f"{layers} layers of them" if attends else f"{population.name}"
        raise InvalidInput(
            f"Models with one layer of softmax attention are certified; got {got}. "
            "break_model (`separatrix break`) takes any model."
        )
    _require_finite(population)
    first = next(population.parameters())
    if first.dtype not in (torch.float32, torch.float64):
        raise InvalidInput(f"Certificates are about models in float32 or float64; got {first.dtype}.")
    assert isinstance(block, Block)
    assert isinstance(block.mixer, Attention)
    return _form(population, block, block.mixer, device=torch.device(device))


def _require_finite(population: Population) -> None:
    for name, values in population.state_dict().items():
        if not bool(values.isfinite().all()):
            raise InvalidInput(
                f"Weights are finite numbers; '{name}' holds NaN or infinity. Train the model again."
            )


def _form(population: Frame, block: Block, mixer: Attention, *, device: torch.device) -> OneLayer:
    def wide(values: Tensor) -> Tensor:
        return values.detach()[0].to(device=device, dtype=torch.float64)

    def map_of(weight: Tensor, bias: Tensor | None) -> Map:
        known = wide(weight)
        return Map(known, known.new_zeros(known.shape[1]) if bias is None else wide(bias))

    def norm_of(norm: object) -> Norm:
        assert isinstance(norm, LayerNorm | RMSNorm)
        weight = wide(norm.weight)
        bias = wide(norm.bias) if isinstance(norm, LayerNorm) else torch.zeros_like(weight)
        return Norm(isinstance(norm, LayerNorm), weight, bias, norm.epsilon)

    heads, part, width = mixer.heads, mixer.head_width, mixer.width
    inward = map_of(mixer.inward.weight, mixer.inward.bias)
    query, key, value = (
        each.reshape(width, heads, part).transpose(0, 1) for each in inward.weight.chunk(3, dim=1)
    )
    biases = [each.reshape(heads, part) for each in inward.bias.chunk(3)]
    outward = map_of(mixer.outward.weight, mixer.outward.bias)
    reading = population.reading
    if population.readout is not None:
        readout = map_of(population.readout.weight, population.readout.bias)
    else:
        assert reading.table is not None
        readout = map_of(reading.table[:, : population.signature.out].transpose(1, 2), None)
    return OneLayer(
        table=None if reading.table is None else wide(reading.table),
        reals=None if reading.reals is None else map_of(reading.reals.weight, reading.reals.bias),
        places=None if reading.places is None else wide(reading.places),
        before=norm_of(block.norm),
        query=query,
        key=key,
        value=value,
        query_bias=biases[0],
        key_bias=biases[1],
        value_bias=biases[2],
        outward=outward.weight.reshape(heads, part, width),
        outward_bias=outward.bias,
        causal=mixer.causal,
        rotary=mixer.rotary,
        second=norm_of(block.second),
        feed_forward=_feed_forward(block.feed_forward, map_of),
        last=norm_of(population.norm),
        readout=readout,
        precision="float64" if next(population.parameters()).dtype == torch.float64 else "float32",
    )


def _feed_forward(module: object, map_of: object) -> FeedForward:
    assert callable(map_of)
    if isinstance(module, Perceptron):
        up, down = module.up, module.down
        return FeedForward(map_of(up.weight, up.bias), None, map_of(down.weight, down.bias), "gelu")
    assert isinstance(module, Gated)
    both, down = map_of(module.up.weight, module.up.bias), module.down
    gate, value = (
        Map(weight, bias)
        for weight, bias in zip(both.weight.chunk(2, dim=1), both.bias.chunk(2), strict=True)
    )
    kind: Activation = "relu" if module.relu else "silu"
    return FeedForward(gate, value, map_of(down.weight, down.bias), kind)
