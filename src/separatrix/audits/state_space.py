"""State-space models and RWKV-4: a state of one size at every length.

Counted as state, for Mamba: an inner channel's `state_size` numbers, which transformers keeps in float32, and
the last `conv_kernel` inputs of the convolution, in the model's dtype. For Mamba-2 the same with heads of
`head_dim` channels, and the convolution runs over the keys and queries (B and C) of each group as well. For
RWKV-4: numerator, denominator and maximum of each channel in float32, and the token before, once for the
recurrence and once for the feed-forward map.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from separatrix.audits.anatomy import (
    Anatomy,
    Layer,
    Mixer,
    NumberBits,
    convolution_state,
    linear_map,
    recurrent_state,
    shift_state,
)
from separatrix.audits.attention import read_output
from separatrix.audits.fields import Fields
from separatrix.audits.kinds import ModelKind

__all__ = ["KINDS", "LONGEST_KERNEL", "Mamba2Shape", "mamba", "mamba2"]

LONGEST_KERNEL: Final = 10_000


def mamba(
    width: int,
    bits: NumberBits,
    *,
    inner: int,
    state: int,
    rank: int,
    kernel: int,
    bias: bool,
    convolution_bias: bool,
    extra: int = 0,
) -> Mixer:
    """A selective scan with one matrix A for each channel."""
    parameters = (
        linear_map(width, 2 * inner, bias=bias)
        + inner * kernel
        + (inner if convolution_bias else 0)
        + linear_map(inner, rank + 2 * state)
        + linear_map(rank, inner, bias=True)
        + inner * state
        + inner
        + linear_map(inner, width, bias=bias)
        + extra
    )
    return Mixer(
        kind="mamba",
        parameters=parameters,
        state=recurrent_state(inner * state, bits.recurrent)
        + convolution_state(channels=inner, columns=kernel, bits=bits.stored),
    )


@dataclass(frozen=True, kw_only=True)
class Mamba2Shape:
    """The sizes of a Mamba-2 mixer: heads of `head_width` channels, a state of `state` numbers for each."""

    heads: int
    head_width: int
    groups: int
    state: int
    kernel: int

    @property
    def inner(self) -> int:
        """Channels of all heads."""
        return self.heads * self.head_width


def mamba2(
    width: int,
    bits: NumberBits,
    shape: Mamba2Shape,
    *,
    bias: bool,
    convolution_bias: bool,
    output_bias: bool | None = None,
    norm: bool = True,
) -> Mixer:
    """A selective scan with one number A for each head."""
    channels = shape.inner + 2 * shape.groups * shape.state
    parameters = (
        linear_map(width, shape.inner + channels + shape.heads, bias=bias)
        + channels * shape.kernel
        + (channels if convolution_bias else 0)
        + 3 * shape.heads
        + (shape.inner if norm else 0)
        + linear_map(shape.inner, width, bias=bias if output_bias is None else output_bias)
    )
    return Mixer(
        kind="mamba2",
        parameters=parameters,
        state=recurrent_state(shape.inner * shape.state, bits.recurrent)
        + convolution_state(channels=channels, columns=shape.kernel, bits=bits.stored),
        heads=shape.heads,
    )


def _scans(fields: Fields, bits: NumberBits, mixer: Mixer, *, tied: bool) -> Anatomy:
    """Nothing but scans, each behind a norm."""
    width, vocabulary = fields.count("hidden_size"), fields.count("vocab_size")
    return Anatomy(
        model_type=fields.what,
        width=width,
        ffn_width=0,
        vocabulary=vocabulary,
        layers=(Layer(mixers=(mixer,), others=width),) * fields.layers,
        embeddings=width * vocabulary,
        outside=width + read_output(fields, width, vocabulary, tied=tied),
        bits=bits,
    )


def _mamba(fields: Fields, bits: NumberBits) -> Anatomy:
    width = fields.count("hidden_size")
    expanded = int(fields.ratio("expand", default=2) * width)
    mixer = mamba(
        width,
        bits,
        inner=fields.count("intermediate_size", default=expanded),
        state=fields.count("state_size", default=16),
        rank=fields.count_or_auto("time_step_rank", auto=math.ceil(width / 16)),
        kernel=fields.count("conv_kernel", default=4, most=LONGEST_KERNEL),
        bias=fields.flag("use_bias", default=False),
        convolution_bias=fields.flag("use_conv_bias", default=True),
    )
    return _scans(fields, bits, mixer, tied=True)


def _mamba2(fields: Fields, bits: NumberBits) -> Anatomy:
    width = fields.count("hidden_size")
    shape = Mamba2Shape(
        heads=fields.count("num_heads", default=128),
        head_width=fields.count("head_dim", default=64),
        groups=fields.count("n_groups", default=8),
        state=fields.count("state_size", default=128),
        kernel=fields.count("conv_kernel", default=4, most=LONGEST_KERNEL),
    )
    mixer = mamba2(
        width,
        bits,
        shape,
        bias=fields.flag("use_bias", default=False),
        convolution_bias=fields.flag("use_conv_bias", default=True),
    )
    return _scans(fields, bits, mixer, tied=False)


def _rwkv(fields: Fields, bits: NumberBits) -> Anatomy:
    width, vocabulary = fields.count("hidden_size"), fields.count("vocab_size")
    channels = fields.count("attention_hidden_size", default=width)
    inner = fields.count("intermediate_size", default=4 * width)
    mixer = Mixer(
        kind="rwkv",
        parameters=2 * channels + 3 * width + 3 * linear_map(width, channels) + linear_map(channels, width),
        state=recurrent_state(3 * channels, bits.recurrent) + shift_state(2 * width, bits.stored),
    )
    feed_forward = 2 * width + 2 * linear_map(width, inner) + linear_map(width, width)
    layer = Layer(mixers=(mixer,), feed_forward=feed_forward, others=2 * 2 * width)
    return Anatomy(
        model_type=fields.what,
        width=width,
        ffn_width=inner,
        vocabulary=vocabulary,
        layers=(layer,) * fields.layers,
        embeddings=width * vocabulary,
        # A norm before the first layer and one behind the last.
        outside=2 * 2 * width + read_output(fields, width, vocabulary, tied=False),
        bits=bits,
    )


_SCAN: Final = "the scan's state in float32, and the last conv_kernel inputs of the convolution"

KINDS: Final = (
    ModelKind("mamba", _mamba, _SCAN),
    ModelKind("falcon_mamba", _mamba, _SCAN),
    ModelKind("mamba2", _mamba2, f"{_SCAN}, which reads B and C too"),
    ModelKind(
        "rwkv",
        _rwkv,
        "numerator, denominator and maximum of each channel in float32; the token before, twice",
    ),
)
