"""Linear attention with a matrix for a state, as flash-linear-attention defines it.

Counted as state: for every head a matrix of key width × value width, in float32, which is what its kernels
carry along; and where short convolutions are used, the last `conv_size` inputs of each channel of queries,
keys and values, in the model's dtype. **A head's matrix is as wide as the head**: h heads that share widths k
and v hold h · (k/h) · (v/h) = kv/h numbers, not kv. A count that forgets the heads is 4 times too large for
GLA with its 4 heads and 16 times for DeltaNet with its 16.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from separatrix.audits.anatomy import (
    Anatomy,
    Layer,
    Mixer,
    NumberBits,
    attention_state,
    convolution_state,
    linear_map,
    recurrent_state,
    shift_state,
)
from separatrix.audits.attention import Heads, attention, gated_map, read_output
from separatrix.audits.fields import Fields
from separatrix.audits.kinds import ModelKind
from separatrix.audits.state_space import LONGEST_KERNEL
from separatrix.errors import InvalidFile

__all__ = ["KINDS", "matrix_memory"]


def matrix_memory(
    *, heads: int, key_width: int, value_width: int, convolved: int, kernel: int, bits: NumberBits
) -> tuple[Mixer, int]:
    """A mixer with the state of `heads` matrices and no parameters yet, and those of its convolutions.

    `convolved` channels have a convolution of `kernel` columns in front; 0 says that there are none.
    """
    state = recurrent_state(heads * key_width * value_width, bits.recurrent)
    state += convolution_state(channels=convolved, columns=kernel, bits=bits.stored)
    return Mixer(kind="", parameters=0, state=state, heads=heads), convolved * kernel


def _mixer(
    kind: str,
    fields: Fields,
    bits: NumberBits,
    *,
    heads: int,
    key_width: int,
    value_width: int,
    convolved: int,
    short: bool,
    parameters: int,
) -> Mixer:
    """The mixer of a kind, with its convolutions where `use_short_conv` says so."""
    kernel = fields.count("conv_size", default=4, most=LONGEST_KERNEL)
    used = fields.flag("use_short_conv", default=short)
    memory, convolutions = matrix_memory(
        heads=heads,
        key_width=key_width,
        value_width=value_width,
        convolved=convolved if used else 0,
        kernel=kernel,
        bits=bits,
    )
    return Mixer(kind=kind, parameters=parameters + convolutions, state=memory.state, heads=heads)


def _stacked(
    fields: Fields,
    bits: NumberBits,
    mixer: Callable[[int], Mixer],
    *,
    inner: int,
    feed_forward: int,
    norm: int,
    outside: int = 0,
) -> Anatomy:
    """Layers of a mixer and a feed-forward map, each behind a norm of `norm` numbers.

    The config may put plain attention into some of the layers, with or without a window.
    """
    width, vocabulary, layers = fields.count("hidden_size"), fields.count("vocab_size"), fields.layers
    attended, attends = _attention_inside(fields, bits, width)
    return Anatomy(
        model_type=fields.what,
        width=width,
        ffn_width=inner,
        vocabulary=vocabulary,
        layers=tuple(
            Layer(
                mixers=(attends if attends is not None and place in attended else mixer(place),),
                feed_forward=feed_forward,
                others=2 * norm,
            )
            for place in range(layers)
        ),
        embeddings=width * vocabulary,
        outside=outside + norm + read_output(fields, width, vocabulary, tied=False),
        bits=bits,
    )


def _attention_inside(fields: Fields, bits: NumberBits, width: int) -> tuple[frozenset[int], Mixer | None]:
    """The layers that are plain attention, and what they are; its cache keeps the whole window."""
    inside = fields.part("attn")
    if inside is None:
        return frozenset(), None
    queries = inside.count("num_heads")
    heads = Heads(
        queries=queries,
        keys=inside.count("num_kv_heads", default=queries),
        width=fields.shared_evenly(width, queries, what="its width among its heads"),
    )
    window = inside.optional_count("window_size")
    bias = inside.flag("qkv_bias", default=False)
    plain = attention(heads, width, bits.stored, window=window, bias=bias, output_bias=False)
    state = attention_state(
        heads=heads.keys, head_width=heads.width, bits=bits.stored, window=window, kept=window
    )
    attended = inside.places("layers")
    if attended is None:
        raise InvalidFile("Field 'attn' of the config lacks layers, which says where the model attends.")
    return attended, Mixer(kind=plain.kind, parameters=plain.parameters, state=state, heads=queries)


def _inner(fields: Fields, width: int, *, ratio: float) -> int:
    """The width of a gated map: two thirds of ratio × width, rounded up to a multiple of 256."""
    wanted = int(width * fields.ratio("hidden_ratio", default=ratio) * 2 / 3)
    return fields.count("intermediate_size", default=256 * math.ceil(wanted / 256))


def _with_gated_map(
    fields: Fields, bits: NumberBits, mixer: Mixer, *, ratio: float = 4, outside: int = 0
) -> Anatomy:
    width = fields.count("hidden_size")
    inner = _inner(fields, width, ratio=ratio)
    return _stacked(
        fields,
        bits,
        lambda _: mixer,
        inner=inner,
        feed_forward=gated_map(width, inner),
        norm=width,
        outside=outside,
    )


def _shares(fields: Fields, width: int, *, keys: float, values: float, heads: int) -> tuple[int, int, int]:
    """Heads, and the key and value widths of each, from the ratios to the stream's width."""
    count = fields.count("num_heads", default=heads)
    key_width = int(width * fields.ratio("expand_k", default=keys))
    value_width = int(width * fields.ratio("expand_v", default=values))
    return (
        count,
        fields.shared_evenly(key_width, count, what="its key width among its heads"),
        fields.shared_evenly(value_width, count, what="its value width among its heads"),
    )


def _gla(fields: Fields, bits: NumberBits) -> Anatomy:
    return _decayed(fields, bits, kind="gated linear attention", keys=0.5, values=1, heads=4, gate_rank=16)


def _retnet(fields: Fields, bits: NumberBits) -> Anatomy:
    return _decayed(fields, bits, kind="retention", keys=1, values=2, heads=8, gate_rank=0, ratio=2)


def _decayed(
    fields: Fields,
    bits: NumberBits,
    *,
    kind: str,
    keys: float,
    values: float,
    heads: int,
    gate_rank: int,
    ratio: float = 4,
) -> Anatomy:
    """Keys and values that decay: by a gate of low rank in GLA, by a constant in RetNet (rank 0)."""
    width = fields.count("hidden_size")
    count, key_head, value_head = _shares(fields, width, keys=keys, values=values, heads=heads)
    groups = fields.shared_evenly(
        count, fields.count("num_kv_heads", default=count), what="its heads among its key heads"
    )
    key_width, value_width = count * key_head, count * value_head
    own_keys, own_values = key_width // groups, value_width // groups
    gate = linear_map(width, gate_rank) + linear_map(gate_rank, own_keys, bias=True) if gate_rank else 0
    gated = fields.flag("use_output_gate", default=True)
    mixer = _mixer(
        kind,
        fields,
        bits,
        heads=count,
        key_width=key_head,
        value_width=value_head,
        convolved=key_width + own_keys + own_values,
        short=False,
        parameters=width * (key_width + own_keys + own_values + (value_width if gated else 0))
        + gate
        + value_width * width
        + (value_head if fields.flag("elementwise_affine", default=True) else 0),
    )
    return _with_gated_map(fields, bits, mixer, ratio=ratio)


def _hgrn2(fields: Fields, bits: NumberBits) -> Anatomy:
    width = fields.count("hidden_size")
    key_head = fields.optional_count("expand_ratio")
    if key_head is None:
        named = fields.optional_count("num_heads")
        key_head = 128 if named is None else fields.shared_evenly(width, named, what="its width among heads")
    count = fields.shared_evenly(width, key_head, what="its width among heads")
    mixer = _mixer(
        "hgrn2",
        fields,
        bits,
        heads=count,
        key_width=key_head,
        value_width=width // count,
        convolved=3 * width,
        short=False,
        parameters=4 * width * width + (width if fields.flag("elementwise_affine", default=True) else 0),
    )
    bounded = fields.flag("use_lower_bound", default=True)
    return _with_gated_map(fields, bits, mixer, outside=fields.layers * width if bounded else 0)


def _delta_net(fields: Fields, bits: NumberBits) -> Anatomy:
    width = fields.count("hidden_size")
    count, key_head, value_head = _shares(fields, width, keys=1, values=1, heads=16)
    key_width, value_width = count * key_head, count * value_head
    gate = width * value_width if fields.flag("use_gate", default=False) else 0
    strength = width * count if fields.flag("use_beta", default=True) else 0
    mixer = _mixer(
        "delta rule",
        fields,
        bits,
        heads=count,
        key_width=key_head,
        value_width=value_head,
        convolved=2 * key_width + value_width,
        short=True,
        parameters=2 * width * key_width + 2 * width * value_width + gate + strength + value_head,
    )
    return _with_gated_map(fields, bits, mixer)


def _gated_deltanet(fields: Fields, bits: NumberBits) -> Anatomy:
    width = fields.count("hidden_size")
    count, values, key_head, value_head = _delta_heads(fields, heads=6, head_width=256, expand=2)
    key_width, value_width = count * key_head, values * value_head
    gate = width * value_width if fields.flag("use_gate", default=True) else 0
    mixer = _mixer(
        "gated delta rule",
        fields,
        bits,
        heads=values,
        key_width=key_head,
        value_width=value_head,
        convolved=2 * key_width + value_width,
        short=True,
        # Two maps to one number a head, and two numbers a head, set how much is kept and how much is written.
        parameters=2 * width * (key_width + value_width + values) + 2 * values + gate + value_head,
    )
    return _with_gated_map(fields, bits, mixer)


def _kda(fields: Fields, bits: NumberBits) -> Anatomy:
    width = fields.count("hidden_size")
    count, values, key_head, value_head = _delta_heads(fields, heads=16, head_width=128, expand=1)
    key_width, value_width = count * key_head, values * value_head
    mixer = _mixer(
        "kimi delta attention",
        fields,
        bits,
        heads=values,
        key_width=key_head,
        value_width=value_head,
        convolved=2 * key_width + value_width,
        short=True,
        parameters=2 * width * (key_width + value_width)
        + linear_map(width, value_head)
        + linear_map(value_head, key_width)
        + linear_map(width, value_head)
        + linear_map(value_head, value_width, bias=True)
        + width * count
        + count
        + key_width
        + value_head,
    )
    return _with_gated_map(fields, bits, mixer)


def _delta_heads(fields: Fields, *, heads: int, head_width: int, expand: float) -> tuple[int, int, int, int]:
    """Key heads, value heads, and the widths of a key and a value."""
    count = fields.count("num_heads", default=heads)
    values = fields.count("num_v_heads", default=count)
    fields.shared_evenly(values, count, what="its value heads among its key heads")
    key_head = fields.count("head_dim", default=head_width)
    return count, values, key_head, int(key_head * fields.ratio("expand_v", default=expand))


def _rwkv7(fields: Fields, bits: NumberBits) -> Anatomy:
    width, layers = fields.count("hidden_size"), fields.layers
    key_head = fields.optional_count("head_dim")
    if key_head is None:
        named = fields.optional_count("num_heads")
        key_head = 64 if named is None else fields.shared_evenly(width, named, what="its width among heads")
    count = fields.shared_evenly(width, key_head, what="its width among heads")
    ranks = [_low_rank(fields, name, width, key_head) for name in ("decay", "a", "v", "gate")]
    norm = 2 * width if fields.flag("norm_bias", default=True) else width
    own_values = _value_widths(fields, width, layers)

    def mixer(place: int) -> Mixer:
        values = own_values[place]
        value_head = fields.shared_evenly(values, count, what="its values among its heads")
        decay, rate, value, gate = ranks
        parameters = (
            9 * width
            + 2 * width * (width + values)
            + decay * 2 * width
            + width
            + rate * 2 * width
            + width
            + gate * (width + values)
            + 2 * values
        )
        # The first layer's values are what later layers mix theirs with.
        parameters += value * (width + values) + values if place else 0
        state = recurrent_state(count * key_head * value_head, bits.recurrent)
        return Mixer(
            kind="rwkv7",
            parameters=parameters,
            state=state + shift_state(2 * width, bits.stored),
            heads=count,
        )

    ratio = fields.ratio("hidden_ratio", default=4)
    inner = fields.count("intermediate_size", default=32 * math.ceil(int(width * ratio) / 32))
    first = norm if fields.flag("norm_first", default=True) else 0
    return _stacked(
        fields,
        bits,
        mixer,
        inner=inner,
        feed_forward=2 * linear_map(width, inner) + width,
        norm=norm,
        outside=first,
    )


def _low_rank(fields: Fields, name: str, width: int, key_head: int) -> int:
    """The rank of one of RWKV-7's four low-rank maps; where none is given it grows with √width."""
    steepness = {"decay": 2.5, "a": 2.5, "v": 1.7, "gate": 5.0}[name]
    factor = 1.0 if name == "gate" else key_head / 64
    usual = max(32, round(steepness * math.sqrt(width) * factor / 32) * 32)
    return fields.count(f"{name}_low_rank_dim", default=usual)


def _value_widths(fields: Fields, width: int, layers: int) -> tuple[int, ...]:
    """The width of all values in each layer: one number for all, one for each, or that of the stream."""
    if not fields.has("value_dim"):
        return (width,) * layers
    listed = fields.counts("value_dim")
    if len(listed) not in {1, layers}:
        raise InvalidFile(f"Field 'value_dim' of the config has {len(listed)} widths for {layers} layers.")
    return listed * layers if len(listed) == 1 else listed


_MATRIX: Final = "a matrix of key × value width for each head, in float32"
_WITH_CONVOLUTIONS: Final = f"{_MATRIX}, and the last conv_size inputs of the convolutions"

KINDS: Final = (
    ModelKind("gla", _gla, f"{_MATRIX}, and the convolutions' inputs if use_short_conv"),
    ModelKind("retnet", _retnet, f"{_MATRIX}, and the convolutions' inputs if use_short_conv"),
    ModelKind("hgrn2", _hgrn2, f"{_MATRIX}, and the convolutions' inputs if use_short_conv"),
    ModelKind("delta_net", _delta_net, _WITH_CONVOLUTIONS),
    ModelKind("gated_deltanet", _gated_deltanet, _WITH_CONVOLUTIONS),
    ModelKind("kda", _kda, _WITH_CONVOLUTIONS),
    ModelKind("rwkv7", _rwkv7, f"{_MATRIX}, and the token before, twice"),
)
