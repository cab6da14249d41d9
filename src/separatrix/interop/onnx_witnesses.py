"""Witnesses as modules in float64 that an exporter can read: the same weights, written a second time.

They compute what the explicit models do in float64. Nothing here refuses, rounds or looks at a number: an
exporter sees operations on tensors and loops over positions.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final, final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from separatrix.errors import InvalidInput
from separatrix.interop.onnx_inputs import input_module
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.heads import AttentionHead, Head
from separatrix.models.explicit.layers import Layer, Readout
from separatrix.models.explicit.linear import Affine, FeedForward
from separatrix.models.explicit.linear_rnn import LayeredRNN
from separatrix.models.explicit.recurrence import RecurrentLayer
from separatrix.models.explicit.recurrent import RecurrentModel
from separatrix.models.explicit.recurrent_maps import Block, LinearMap
from separatrix.models.explicit.recurrent_tokens import Activation
from separatrix.models.explicit.third_order import ThirdOrderHead
from separatrix.models.explicit.transformer import Transformer
from separatrix.models.kernels.exported import scanned
from separatrix.precision import Float64, name_of

__all__ = ["SUPPORTED", "witness_module"]

SUPPORTED: Final = ("transformer", "causal-transformer", "linear-rnn", "hybrid", "recurrent")
"""Forms of explicit models that are exported."""
_MOST_TOKENS: Final = 1 << 20


def witness_module(model: ExplicitModel, n: int) -> nn.Module:
    """The module for inputs of n positions; what cannot be exported is refused in a sentence."""
    if not isinstance(model.arithmetic, Float64):
        raise InvalidInput(
            f"A witness is exported in float64; this one computes in {name_of(model.arithmetic)}, and its "
            "proof speaks of that. Build it with the arithmetic float64."
        )
    if isinstance(model, Transformer):
        return _Layered(model, n, causal=model.causal)
    if isinstance(model, LayeredRNN):
        return _Layered(model, n, causal=True)
    if isinstance(model, RecurrentModel):
        return _Recurrent(model)
    raise InvalidInput(
        f"Witnesses of the forms {', '.join(SUPPORTED)} are exported to ONNX; this one is of the form "
        f"{model.form}."
    )


@final
class _Layered(nn.Module):
    """Inputs, layers of attention or recurrence, the readout."""

    def __init__(self, model: Transformer | LayeredRNN, n: int, *, causal: bool) -> None:
        super().__init__()
        self.inputs = input_module(model.inputs, n)
        layers = [_Attention(each) if isinstance(each, Layer) else _Recurrence(each) for each in model.layers]
        self.layers = nn.ModuleList(layers)
        self.readout = _Readout(model.readout)
        self.n = n
        # A Transformer does not see padding; what reads token by token does, and ends before it.
        self.hides_padding = isinstance(model, Transformer)
        whole = n + len(model.inputs.appended)
        places = torch.arange(whole)
        seen = places <= places.unsqueeze(1) if causal else torch.ones(whole, whole, dtype=torch.bool)
        self.seen = nn.Buffer(seen)
        self.itself = nn.Buffer(torch.eye(whole, dtype=torch.bool))

    def forward(self, inputs: Shaped[Tensor, "batch pos *width"]) -> Float[Tensor, "batch pos out"]:
        """The outputs at every position."""
        stream, shown = self.inputs(inputs)
        mask = self.seen.unsqueeze(0)
        if self.hides_padding:
            mask = mask & shown.unsqueeze(1)
            # A place behind the end of its input asks for nothing; it must see something all the same.
            mask = mask | (~mask.any(2, keepdim=True) & self.itself)
        for layer in self.layers:
            stream = layer(stream, mask)
        return self.readout(stream[:, : self.n])  # type: ignore[no-any-return]


@final
class _Attention(nn.Module):
    """Heads side by side, their joint map, residuals, the feed-forward map."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.heads = nn.ModuleList(_head(each) for each in layer.heads)
        self.output = nn.Buffer(layer.output.T.clone())
        self.residual, self.second_residual = layer.attention_residual, layer.feed_forward_residual
        self.feed_forward = None if layer.feed_forward is None else _FeedForward(layer.feed_forward)

    def forward(
        self, stream: Float[Tensor, "batch pos width"], mask: Bool[Tensor, "batch query key"]
    ) -> Float[Tensor, "batch pos out"]:
        """The stream behind the layer."""
        y = torch.cat([head(stream, mask) for head in self.heads], dim=2) @ self.output
        y = stream + y if self.residual else y
        if self.feed_forward is None:
            return y
        image: Tensor = self.feed_forward(y)
        return y + image if self.second_residual else image


def _head(head: AttentionHead) -> nn.Module:
    if isinstance(head, Head):
        return _Head(head)
    assert isinstance(head, ThirdOrderHead)
    return _ThirdOrder(head)


@final
class _Head(nn.Module):
    """softmax(X Wqᵀ Wk Xᵀ) X Wvᵀ."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.query, self.key, self.value = (
            nn.Buffer(each.T.clone()) for each in (head.query, head.key, head.value)
        )

    def forward(
        self, stream: Float[Tensor, "batch pos width"], mask: Bool[Tensor, "batch query key"]
    ) -> Float[Tensor, "batch pos out"]:
        """What every position gets."""
        logits = (stream @ self.query) @ (stream @ self.key).transpose(1, 2)
        return _weights(logits, mask) @ (stream @ self.value)


@final
class _ThirdOrder(nn.Module):
    """The same over all pairs of positions."""

    def __init__(self, head: ThirdOrderHead) -> None:
        super().__init__()
        names = ("query", "first_key", "second_key", "first_value", "second_value")
        for name in names:
            self.register_buffer(name, getattr(head, name).T.clone())

    def forward(
        self, stream: Float[Tensor, "batch pos width"], mask: Bool[Tensor, "batch query key"]
    ) -> Float[Tensor, "batch pos out"]:
        """What every position gets."""
        query, *rest = (
            stream @ getattr(self, name)
            for name in ("query", "first_key", "second_key", "first_value", "second_value")
        )
        keys, values = _pairs(rest[0], rest[1]), _pairs(rest[2], rest[3])
        both = (mask.unsqueeze(3) & mask.unsqueeze(2)).flatten(2)
        return _weights(query @ keys.transpose(1, 2), both) @ values


def _pairs(
    first: Float[Tensor, "batch pos c"], second: Float[Tensor, "batch pos c"]
) -> Float[Tensor, "batch pair c"]:
    return (first.unsqueeze(2) * second.unsqueeze(1)).flatten(1, 2)


def _weights(
    logits: Float[Tensor, "batch query key"], mask: Bool[Tensor, "batch query key"]
) -> Float[Tensor, "batch query key"]:
    kept = torch.where(mask, logits, -torch.inf)
    weights = torch.exp(kept - kept.amax(2, keepdim=True))
    return weights / weights.sum(2, keepdim=True)


@final
class _Recurrence(nn.Module):
    """h ← A h + B x, position by position; then x + C h and the feed-forward map."""

    def __init__(self, layer: RecurrentLayer) -> None:
        super().__init__()
        self.transition, self.feed, self.output = (
            nn.Buffer(each.T.clone()) for each in (layer.transition, layer.feed, layer.output)
        )
        self.feed_forward = None if layer.feed_forward is None else _FeedForward(layer.feed_forward)

    def forward(
        self, stream: Float[Tensor, "batch pos width"], mask: Bool[Tensor, "batch query key"]
    ) -> Float[Tensor, "batch pos width"]:
        """The stream behind the layer; it looks at nothing behind a position, whatever the mask shows."""
        y = stream
        if len(self.transition):

            def step(state: Tensor, fed: Tensor, transition: Tensor) -> list[Tensor]:
                after = state @ transition + fed
                return [after, after.clone()]

            first = stream.new_zeros(stream.shape[0], len(self.transition))
            fed = (stream @ self.feed).transpose(0, 1).contiguous()
            (states,) = scanned(step, [first], [fed], [self.transition])
            y = stream + states.transpose(0, 1) @ self.output
        return y if self.feed_forward is None else y + self.feed_forward(y)


@final
class _FeedForward(nn.Module):
    """Affine maps with ReLU between them, or the gated form."""

    def __init__(self, feed_forward: FeedForward) -> None:
        super().__init__()
        self.maps = nn.ModuleList(_Affine(each) for each in feed_forward.maps)
        self.gated = feed_forward.kind == "reglu"

    def forward(self, x: Float[Tensor, "batch pos width"]) -> Float[Tensor, "batch pos out"]:
        """The image."""
        if self.gated:
            first, second, last = self.maps
            return last(torch.relu(first(x)) * second(x))  # type: ignore[no-any-return]
        for each in self.maps[:-1]:
            x = torch.relu(each(x))
        return self.maps[-1](x)  # type: ignore[no-any-return]


@final
class _Affine(nn.Module):
    """W x + b."""

    def __init__(self, affine: Affine) -> None:
        super().__init__()
        self.matrix, self.bias = nn.Buffer(affine.matrix.T.clone()), nn.Buffer(affine.bias.clone())

    def forward(self, x: Float[Tensor, "*lead width"]) -> Float[Tensor, "*lead out"]:
        """The image."""
        return x @ self.matrix + self.bias


@final
class _Readout(nn.Module):
    """W x + b, compared with the code of each class where classes have one."""

    def __init__(self, readout: Readout) -> None:
        super().__init__()
        self.map = _Affine(readout.map)
        code = readout.code
        self.classes = None if code is None else nn.Buffer(code.rows(torch.arange(code.count)).T.clone())

    def forward(self, stream: Float[Tensor, "batch pos width"]) -> Float[Tensor, "batch pos out"]:
        """The outputs."""
        y: Tensor = self.map(stream)
        return y if self.classes is None else y @ self.classes


@final
class _Recurrent(nn.Module):
    """A recurrent network: the state token by token, then the readout of all states at once."""

    def __init__(self, model: RecurrentModel) -> None:
        super().__init__()
        if model.tokens.size > _MOST_TOKENS:
            raise InvalidInput(
                f"In ONNX the codes of tokens become a table of at most {_MOST_TOKENS:,} rows; this "
                f"vocabulary has {model.tokens.size:,}. Choose a smaller alphabet."
            )
        update, scores = model.update, model.readout.scores
        self.vectors = nn.Buffer(model.tokens.rows(torch.arange(model.tokens.size)).double())
        self.width, self.activation = model.state.width, update.activation
        self.from_state, self.from_input = _Map(update.from_state), _Map(update.from_input)
        self.carry, self.write = _Map(update.carry), _Map(update.write)
        self.bias, self.offset = nn.Buffer(update.bias.clone()), nn.Buffer(update.offset.clone())
        self.layers = nn.ModuleList(_Map(each.map) for each in model.readout.layers)
        self.biases = [f"bias_{place}" for place in range(len(self.layers))]
        for name, layer in zip(self.biases, model.readout.layers, strict=True):
            self.register_buffer(name, layer.bias.clone())
        signs = None
        if scores is not None:
            places = torch.arange(scores.digits).unsqueeze(1)
            signs = nn.Buffer((((torch.arange(scores.classes) >> places) & 1) * 2 - 1).double())
        self.signs = signs

    def forward(self, inputs: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos classes"]:
        """The scores after every token."""
        maps = (self.from_state, self.carry, self.write)
        counts = [len(each.blocks) for each in maps]
        batch, length = inputs.shape
        given = self.from_input(self.vectors[inputs].flatten(0, 1)) + self.bias
        rows = given.view(batch, length, -1).transpose(0, 1).contiguous()

        def step(state: Tensor, now: Tensor, offset: Tensor, *matrices: Tensor) -> list[Tensor]:
            from_state, carry, write = _split(matrices, counts)
            units = _activated(self.activation, now + self.from_state.image(state, from_state))
            after = offset + self.carry.image(state, carry) + self.write.image(units, write)
            return [after, after.clone()]

        constants = [self.offset, *(matrix for each in maps for matrix in each.matrices())]
        first = rows.new_zeros(batch, self.width)
        (states,) = scanned(step, [first], [rows], constants)
        numbers = states.transpose(0, 1).reshape(batch * length, self.width)
        for place, (layer, bias) in enumerate(zip(self.layers, self.biases, strict=True)):
            numbers = layer(numbers) + self.get_buffer(bias)
            numbers = numbers if place == len(self.layers) - 1 else torch.relu(numbers)
        numbers = numbers if self.signs is None else numbers @ self.signs
        return numbers.view(batch, length, -1)


@final
class _Map(nn.Module):
    """A linear map block by block; its matrices may come from outside, as a loop hands them in."""

    def __init__(self, linear: LinearMap) -> None:
        super().__init__()
        self.blocks, self.width = linear.blocks, linear.rows.width
        for place, block in enumerate(linear.blocks):
            self.register_buffer(f"matrix_{place}", block.matrix.T.clone())

    def matrices(self) -> list[Tensor]:
        """Transposed, block by block."""
        return [self.get_buffer(f"matrix_{place}") for place in range(len(self.blocks))]

    def forward(self, x: Float[Tensor, "row columns"]) -> Float[Tensor, "row rows"]:
        """The image."""
        return self.image(x, self.matrices())

    def image(self, x: Float[Tensor, "row columns"], matrices: Sequence[Tensor]) -> Float[Tensor, "row rows"]:
        """The sum of all blocks' shares."""
        total = x.new_zeros(x.shape[0], self.width)
        for block, matrix in zip(self.blocks, matrices, strict=True):
            share = _share(block, matrix, x)
            total = total + F.pad(share, (block.row, self.width - block.row - block.outputs))
        return total


def _share(
    block: Block, matrix: Float[Tensor, "breadth height"], x: Float[Tensor, "row columns"]
) -> Float[Tensor, "row outputs"]:
    """(outer ⊗ matrix ⊗ inner) x."""
    rows, (breadth, height) = x.shape[0], matrix.shape
    parts = x[:, block.column : block.column + block.inputs]
    parts = parts.reshape(rows, block.outer.inputs, breadth, block.inner.inputs)
    if block.outer.kind == "sum":
        parts = parts.sum(1, keepdim=True)
    if block.inner.kind == "sum":
        parts = parts.sum(3, keepdim=True)
    parts = (parts.transpose(2, 3) @ matrix).transpose(2, 3)
    parts = parts.expand(rows, block.outer.outputs, height, block.inner.outputs)
    return parts.reshape(rows, block.outputs)


def _activated(activation: Activation, x: Float[Tensor, "row units"]) -> Float[Tensor, "row units"]:
    """The activation function as the explicit model computes it."""
    if activation == "relu":
        return torch.relu(x)
    if activation == "hard-sigmoid":
        ramp = torch.relu(x + 3)
        return (ramp - torch.relu(ramp - 6)) / 6
    if activation == "sigmoid":
        decay = torch.exp(-x.abs())
        return torch.where(x < 0, decay, torch.ones_like(decay)) / (1 + decay)
    decay = torch.exp(-2 * x.abs())
    size = (1 - decay) / (1 + decay)
    return torch.where(x < 0, -size, size)


def _split(matrices: Sequence[Tensor], counts: Sequence[int]) -> list[list[Tensor]]:
    """So many in a row for each count."""
    rest = iter(matrices)
    return [list(itertools.islice(rest, count)) for count in counts]
