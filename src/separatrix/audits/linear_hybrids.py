"""Hybrids of attention with linear attention: Qwen3-Next, OLMo hybrid, Kimi Linear and MiniMax.

Counted as state: keys and values where a layer attends; elsewhere a matrix of key width × value width for
each value head, in float32, with the last inputs of its convolution in the model's dtype. MiniMax keeps its
matrices in the model's own dtype and has no convolution. Kimi Linear's attention stores one compressed vector
for all heads (multi-head latent attention) and no keys of theirs.
"""

from __future__ import annotations

from typing import Final

from separatrix.accounting import StatePart
from separatrix.audits.anatomy import CACHE, Anatomy, Layer, Mixer, NumberBits, linear_map, recurrent_state
from separatrix.audits.attention import FULL, attention, experts, gated_map, read_heads, read_output
from separatrix.audits.fields import MOST_LAYERS, Fields
from separatrix.audits.kinds import ModelKind
from separatrix.audits.linear_attention import matrix_memory
from separatrix.audits.state_space import LONGEST_KERNEL

__all__ = ["KINDS"]

_LINEAR: Final = "linear_attention"


def _by_kind(fields: Fields, bits: NumberBits, layers: tuple[Layer, ...], *, inner: int) -> Anatomy:
    """The model of these layers, with tables, one last norm and an output head."""
    width, vocabulary = fields.count("hidden_size"), fields.count("vocab_size")
    return Anatomy(
        model_type=fields.what,
        width=width,
        ffn_width=inner,
        vocabulary=vocabulary,
        layers=layers,
        embeddings=width * vocabulary,
        outside=width + read_output(fields, width, vocabulary, tied=False),
        bits=bits,
    )


def _kinds(fields: Fields, usual: tuple[str, ...]) -> tuple[str, ...]:
    listed = fields.layer_kinds("layer_types", known=(_LINEAR, FULL), layers=len(usual))
    return usual if listed is None else listed


def _every(layers: int, interval: int) -> tuple[str, ...]:
    """Attention in every so-many-th layer."""
    return tuple(_LINEAR if (place + 1) % interval else FULL for place in range(layers))


def _gated_delta(
    fields: Fields, bits: NumberBits, *, key_heads: int, value_heads: int, key_width: int, value_width: int
) -> Mixer:
    """The gated delta rule, with one convolution over queries, keys and values."""
    width = fields.count("hidden_size")
    keys, values = key_heads * key_width, value_heads * value_width
    memory, convolutions = matrix_memory(
        heads=value_heads,
        key_width=key_width,
        value_width=value_width,
        convolved=2 * keys + values,
        kernel=fields.count("linear_conv_kernel_dim", default=4, most=LONGEST_KERNEL),
        bits=bits,
    )
    parameters = 2 * width * (keys + values + value_heads) + values * width + 2 * value_heads + value_width
    return Mixer(
        kind="gated delta rule",
        parameters=parameters + convolutions,
        state=memory.state,
        heads=value_heads,
    )


def _qwen3_next(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner = fields.count("hidden_size"), fields.count("intermediate_size", default=5632)
    heads = read_heads(fields, width, keys=2, head_width=256)
    # Queries come with a gate of their own width on what the head returns.
    attends = attention(
        heads,
        width,
        bits.stored,
        bias=(biased := fields.flag("attention_bias", default=False)),
        extra=linear_map(width, heads.queries * heads.width, bias=biased) + 2 * heads.width,
    )
    remembers = _gated_delta(
        fields,
        bits,
        key_heads=fields.count("linear_num_key_heads", default=16),
        value_heads=fields.count("linear_num_value_heads", default=32),
        key_width=fields.count("linear_key_head_dim", default=128),
        value_width=fields.count("linear_value_head_dim", default=128),
    )
    count = experts(fields, "num_experts", default=512, least=0)
    shared = gated_map(width, fields.count("shared_expert_intermediate_size", default=512)) + width
    routed = gated_map(width, fields.count("moe_intermediate_size", default=512)) + width
    step = fields.count("decoder_sparse_step", default=1)
    plain = fields.places("mlp_only_layers") or frozenset()
    interval = fields.count("full_attention_interval", default=4, most=MOST_LAYERS)
    kinds = _kinds(fields, _every(fields.layers, interval))
    return _by_kind(
        fields,
        bits,
        tuple(
            Layer(
                mixers=(attends if kind == FULL else remembers,),
                feed_forward=count * routed + shared
                if count and place not in plain and (place + 1) % step == 0
                else gated_map(width, inner),
                others=2 * width,
            )
            for place, kind in enumerate(kinds)
        ),
        inner=inner,
    )


def _olmo_hybrid(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner, layers = fields.count("hidden_size"), fields.count("intermediate_size"), fields.layers
    heads = read_heads(fields, width)
    attends = attention(
        heads,
        width,
        bits.stored,
        bias=fields.flag("attention_bias", default=False),
        extra=(heads.queries + heads.keys) * heads.width,
    )
    key_width = fields.count("linear_key_head_dim", default=int(0.75 * width / heads.queries))
    remembers = _gated_delta(
        fields,
        bits,
        key_heads=fields.count("linear_num_key_heads", default=heads.queries),
        value_heads=fields.count("linear_num_value_heads", default=heads.queries),
        key_width=key_width,
        value_width=fields.count("linear_value_head_dim", default=2 * key_width),
    )
    usual = _every(layers, 4) if layers > 3 else (_LINEAR,) * (layers - 1) + (FULL,)
    return _by_kind(
        fields,
        bits,
        tuple(
            Layer(
                mixers=(attends if kind == FULL else remembers,),
                feed_forward=gated_map(width, inner),
                others=2 * width,
            )
            for kind in _kinds(fields, usual)
        ),
        inner=inner,
    )


def _kimi_linear(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner, layers = fields.count("hidden_size"), fields.count("intermediate_size"), fields.layers
    linear = fields.part("linear_attn_config")
    mixers = {FULL: _latent_attention(fields, bits, width), _LINEAR: _kimi_delta(fields, bits, width, linear)}
    count = experts(fields, "num_experts", "num_local_experts", default=256)
    small = fields.count("moe_intermediate_size", default=1024)
    shared = fields.count("num_shared_experts", "n_shared_experts", default=1, least=0)
    sparse = count * (gated_map(width, small) + width) + gated_map(width, small * shared)
    dense_first = fields.count("first_k_dense_replace", default=1, least=0)
    maps = fields.layer_kinds("mlp_layer_types", known=("dense", "sparse"), layers=layers)
    is_sparse = [place >= dense_first if maps is None else maps[place] == "sparse" for place in range(layers)]
    return _by_kind(
        fields,
        bits,
        tuple(
            Layer(
                mixers=(mixers[kind],),
                feed_forward=sparse if is_sparse[place] else gated_map(width, inner),
                others=2 * width,
            )
            for place, kind in enumerate(_kimi_kinds(fields, linear, layers))
        ),
        inner=inner,
    )


def _kimi_kinds(fields: Fields, linear: Fields | None, layers: int) -> tuple[str, ...]:
    """By `layer_types`, else by the checkpoint's own lists, whose layers are counted from 1."""
    attended = None if linear is None else linear.places("full_attn_layers")
    usual = tuple(
        FULL if (place and place % 4 == 0 if attended is None else place + 1 in attended) else _LINEAR
        for place in range(layers)
    )
    return _kinds(fields, usual)


def _kimi_delta(fields: Fields, bits: NumberBits, width: int, linear: Fields | None) -> Mixer:
    source = fields if linear is None else linear
    heads = source.count("linear_num_heads", "num_heads", default=32)
    head_width = source.count("linear_head_dim", "head_dim", default=128)
    kernel = source.count("linear_conv_kernel_dim", "short_conv_kernel_size", default=4, most=LONGEST_KERNEL)
    all_heads = heads * head_width
    memory, convolutions = matrix_memory(
        heads=heads,
        key_width=head_width,
        value_width=head_width,
        convolved=3 * all_heads,
        kernel=kernel,
        bits=bits,
    )
    low_rank = linear_map(width, head_width) + linear_map(head_width, all_heads)
    parameters = 4 * width * all_heads + 2 * low_rank + width * heads + all_heads + heads + head_width
    return Mixer(
        kind="kimi delta attention", parameters=parameters + convolutions, state=memory.state, heads=heads
    )


def _latent_attention(fields: Fields, bits: NumberBits, width: int) -> Mixer:
    """Keys and values of all heads come from one compressed vector and one rotated key, which are stored."""
    heads = fields.count("num_attention_heads")
    rank, rotated = fields.count("kv_lora_rank"), fields.count("qk_rope_head_dim")
    plain, values = fields.count("qk_nope_head_dim"), fields.count("v_head_dim")
    narrow = fields.optional_count("q_lora_rank")
    queries, bias = heads * (plain + rotated), fields.flag("attention_bias", default=False)
    if narrow is None:
        asking = linear_map(width, queries)
    else:
        asking = linear_map(width, narrow, bias=bias) + narrow + linear_map(narrow, queries)
    parameters = (
        asking
        + linear_map(width, rank + rotated, bias=bias)
        + rank
        + linear_map(rank, heads * (plain + values))
        + linear_map(heads * values, width, bias=bias)
    )
    stored = StatePart(name=CACHE, bits_per_position=(rank + rotated) * bits.stored)
    return Mixer(kind="latent attention", parameters=parameters, state=(stored,), heads=heads)


def _minimax(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner, layers = fields.count("hidden_size"), fields.count("intermediate_size"), fields.layers
    heads = read_heads(fields, width, keys=8)
    across = heads.queries * heads.width
    lightning = Mixer(
        kind="lightning attention",
        parameters=linear_map(width, 4 * across) + linear_map(across, width) + across,
        state=recurrent_state(heads.queries * heads.width * heads.width, bits.stored),
        heads=heads.queries,
    )
    attends = attention(heads, width, bits.stored)
    count = experts(fields, "num_local_experts", "num_experts", default=8)
    usual = tuple(FULL if (place + 1) % 2 else _LINEAR for place in range(layers))
    return _by_kind(
        fields,
        bits,
        tuple(
            Layer(
                mixers=(attends if kind == FULL else lightning,),
                feed_forward=count * (gated_map(width, inner) + width),
                others=2 * width,
            )
            for kind in _kinds(fields, usual)
        ),
        inner=inner,
    )


_DELTA: Final = (
    "keys and values where it attends; elsewhere a matrix for each value head in float32, and the last "
    "linear_conv_kernel_dim inputs of the convolution"
)

KINDS: Final = (
    ModelKind("qwen3_next", _qwen3_next, _DELTA),
    ModelKind("olmo_hybrid", _olmo_hybrid, _DELTA),
    ModelKind(
        "kimi_linear",
        _kimi_linear,
        "a compressed vector and a rotated key for each position where it attends; elsewhere as qwen3_next",
    ),
    ModelKind(
        "minimax",
        _minimax,
        "keys and values where it attends; elsewhere a matrix for each head, in its dtype",
    ),
)
