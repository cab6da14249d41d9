"""Decoders of the Llama kind: rotary attention with shared keys, gated feed-forward maps, norms without bias.

Counted as state: for every layer that looks at everything, a key and a value for each key head and position;
for a layer with a window of w, those of the last w − 1 positions, which is what transformers carries along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from separatrix.audits.anatomy import Anatomy, Layer, NumberBits
from separatrix.audits.attention import (
    Heads,
    attention,
    experts,
    gated_map,
    read_heads,
    read_output,
    read_windows,
)
from separatrix.audits.fields import Fields
from separatrix.audits.kinds import ModelKind

__all__ = ["KINDS", "assembled", "same_everywhere"]

_EVERYTHING: Final = "keys and values of every position"
_WINDOWED: Final = (
    "keys and values of the last w − 1 positions in layers with a window of w, of every position else"
)


def assembled(
    fields: Fields,
    bits: NumberBits,
    *,
    windows: Sequence[int | None],
    heads: Heads,
    feed_forward: Callable[[int], int],
    bias: bool = False,
    output_bias: bool | None = None,
    extra: int = 0,
    norms: int = 2,
    tied: bool = False,
    ffn_width: int | None = None,
) -> Anatomy:
    """A decoder whose layers differ in their windows and feed-forward maps only.

    `feed_forward` counts the map of a layer by its number; `norms` are those of a layer, each as wide as the
    stream.
    """
    width, vocabulary = fields.count("hidden_size"), fields.count("vocab_size")
    mixers = {
        window: attention(
            heads, width, bits.stored, window=window, bias=bias, output_bias=output_bias, extra=extra
        )
        for window in set(windows)
    }
    return Anatomy(
        model_type=fields.what,
        width=width,
        ffn_width=fields.count("intermediate_size") if ffn_width is None else ffn_width,
        vocabulary=vocabulary,
        layers=tuple(
            Layer(mixers=(mixers[window],), feed_forward=feed_forward(place), others=norms * width)
            for place, window in enumerate(windows)
        ),
        embeddings=width * vocabulary,
        outside=width + read_output(fields, width, vocabulary, tied=tied),
        bits=bits,
    )


def same_everywhere(parameters: int) -> Callable[[int], int]:
    """The same feed-forward map in every layer."""
    return lambda _: parameters


def _llama(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner = fields.count("hidden_size"), fields.count("intermediate_size")
    return assembled(
        fields,
        bits,
        windows=(None,) * fields.layers,
        heads=read_heads(fields, width),
        bias=fields.flag("attention_bias", default=False),
        feed_forward=same_everywhere(gated_map(width, inner, bias=fields.flag("mlp_bias", default=False))),
    )


def _mistral(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner, layers = fields.count("hidden_size"), fields.count("intermediate_size"), fields.layers
    return assembled(
        fields,
        bits,
        windows=read_windows(fields, layers, default=4096, sliding=(True,) * layers),
        heads=read_heads(fields, width, keys=8),
        feed_forward=same_everywhere(gated_map(width, inner)),
    )


def _mixtral(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner, layers = fields.count("hidden_size"), fields.count("intermediate_size"), fields.layers
    count = experts(fields, "num_local_experts", "num_experts", default=8)
    return assembled(
        fields,
        bits,
        windows=read_windows(fields, layers, default=None, sliding=(True,) * layers),
        heads=read_heads(fields, width, keys=8),
        feed_forward=same_everywhere(count * (gated_map(width, inner) + width)),
    )


def _phi3(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner, layers = fields.count("hidden_size"), fields.count("intermediate_size"), fields.layers
    return assembled(
        fields,
        bits,
        windows=read_windows(fields, layers, default=None, sliding=(True,) * layers),
        heads=read_heads(fields, width),
        feed_forward=same_everywhere(gated_map(width, inner)),
    )


def _qwen_windows(fields: Fields, *, first: int) -> tuple[int | None, ...]:
    """Qwen's windows are off unless switched on, and then begin at a certain layer."""
    layers = fields.layers
    if not fields.flag("use_sliding_window", default=False):
        return (None,) * layers
    first = fields.count("max_window_layers", default=first, least=0)
    sliding = tuple(place >= first for place in range(layers))
    return read_windows(fields, layers, default=4096, sliding=sliding)


def _qwen2(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner = fields.count("hidden_size"), fields.count("intermediate_size")
    return assembled(
        fields,
        bits,
        windows=_qwen_windows(fields, first=28),
        heads=read_heads(fields, width, keys=32),
        bias=True,
        output_bias=False,
        feed_forward=same_everywhere(gated_map(width, inner)),
    )


def _qwen3(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner = fields.count("hidden_size"), fields.count("intermediate_size")
    heads = read_heads(fields, width, keys=32, head_width=128)
    return assembled(
        fields,
        bits,
        windows=_qwen_windows(fields, first=28),
        heads=heads,
        bias=fields.flag("attention_bias", default=False),
        extra=2 * heads.width,
        feed_forward=same_everywhere(gated_map(width, inner)),
    )


def _sparse_layers(fields: Fields, *, dense: int, sparse: int) -> Callable[[int], int]:
    """Every `decoder_sparse_step`-th layer has experts, unless it is listed as one that has none."""
    step = fields.count("decoder_sparse_step", default=1)
    plain = fields.places("mlp_only_layers") or frozenset()
    return lambda place: sparse if place not in plain and (place + 1) % step == 0 else dense


def _qwen2_moe(fields: Fields, bits: NumberBits) -> Anatomy:
    width = fields.count("hidden_size")
    inner, shared = fields.count("moe_intermediate_size"), fields.count("shared_expert_intermediate_size")
    count = experts(fields, "num_experts")
    sparse = count * (gated_map(width, inner) + width) + gated_map(width, shared) + width
    return assembled(
        fields,
        bits,
        windows=_qwen_windows(fields, first=28),
        heads=read_heads(fields, width, keys=16),
        bias=fields.flag("qkv_bias", default=True),
        output_bias=False,
        feed_forward=_sparse_layers(
            fields, dense=gated_map(width, fields.count("intermediate_size")), sparse=sparse
        ),
    )


def _qwen3_moe(fields: Fields, bits: NumberBits) -> Anatomy:
    width, layers = fields.count("hidden_size"), fields.layers
    heads = read_heads(fields, width, keys=4)
    count = experts(fields, "num_experts", "num_local_experts")
    sparse = count * (gated_map(width, fields.count("moe_intermediate_size")) + width)
    slides = fields.flag("use_sliding_window", default=False)
    return assembled(
        fields,
        bits,
        windows=read_windows(fields, layers, default=4096, sliding=(slides,) * layers),
        heads=heads,
        bias=fields.flag("attention_bias", default=False),
        extra=2 * heads.width,
        feed_forward=_sparse_layers(
            fields, dense=gated_map(width, fields.count("intermediate_size")), sparse=sparse
        ),
    )


def _gemma(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner = fields.count("hidden_size"), fields.count("intermediate_size")
    return assembled(
        fields,
        bits,
        windows=(None,) * fields.layers,
        heads=read_heads(fields, width, keys=16, head_width=256),
        bias=fields.flag("attention_bias", default=False),
        tied=True,
        feed_forward=same_everywhere(gated_map(width, inner)),
    )


def _gemma2(fields: Fields, bits: NumberBits) -> Anatomy:
    return _local_and_global(fields, bits, every=2, head_norms=False)


def _gemma3(fields: Fields, bits: NumberBits) -> Anatomy:
    fields = fields.filled(
        {"num_attention_heads": 8, "vocab_size": 262_208}
    )  # published configs leave them out
    every = fields.count("sliding_window_pattern", "_sliding_window_pattern", default=6)
    return _local_and_global(fields, bits, every=every, head_norms=True)


def _local_and_global(fields: Fields, bits: NumberBits, *, every: int, head_norms: bool) -> Anatomy:
    """Gemma's layers look near, but for every so-many-th; four norms a layer."""
    width, inner, layers = fields.count("hidden_size"), fields.count("intermediate_size"), fields.layers
    heads = read_heads(fields, width, keys=4, head_width=256)
    sliding = tuple((place + 1) % every != 0 for place in range(layers))
    return assembled(
        fields,
        bits,
        windows=read_windows(fields, layers, default=4096, sliding=sliding),
        heads=heads,
        bias=fields.flag("attention_bias", default=False),
        extra=2 * heads.width if head_norms else 0,
        norms=4,
        tied=True,
        feed_forward=same_everywhere(gated_map(width, inner)),
    )


def _gpt_oss(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner, layers = fields.count("hidden_size"), fields.count("intermediate_size"), fields.layers
    heads = read_heads(fields, width, keys=8, head_width=64)
    count = experts(fields, "num_local_experts", "num_experts", default=128)
    sliding = tuple((place + 1) % 2 != 0 for place in range(layers))
    return assembled(
        fields,
        bits,
        windows=read_windows(fields, layers, default=128, sliding=sliding),
        heads=heads,
        bias=fields.flag("attention_bias", default=True),
        extra=heads.queries,
        feed_forward=same_everywhere(count * (gated_map(width, inner, bias=True) + width + 1)),
    )


KINDS: Final = (
    ModelKind("llama", _llama, _EVERYTHING),
    ModelKind("mistral", _mistral, _WINDOWED),
    ModelKind("mixtral", _mixtral, _WINDOWED),
    ModelKind("qwen2", _qwen2, _WINDOWED),
    ModelKind("qwen2_moe", _qwen2_moe, _WINDOWED),
    ModelKind("qwen3", _qwen3, _WINDOWED),
    ModelKind("qwen3_moe", _qwen3_moe, _WINDOWED),
    ModelKind("gemma", _gemma, _EVERYTHING),
    ModelKind("gemma2", _gemma2, _WINDOWED),
    ModelKind("gemma3_text", _gemma3, _WINDOWED),
    ModelKind("phi3", _phi3, _WINDOWED),
    ModelKind("gpt_oss", _gpt_oss, _WINDOWED),
)
