"""Hybrids of attention with a state space or a gated recurrence.

Each part is counted as in its pure form: keys and values of every position where a layer attends to all of
them, of the last w − 1 where it has a window, a float32 state where it scans, and the inputs that its
convolution still needs. transformers allocates as many columns for a convolution as its kernel has, one more
than it needs, except in RecurrentGemma.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from separatrix.audits.anatomy import (
    Anatomy,
    Layer,
    Mixer,
    NumberBits,
    convolution_state,
    linear_map,
    recurrent_state,
)
from separatrix.audits.attention import (
    FULL,
    Heads,
    attention,
    experts,
    gated_map,
    plain_map,
    read_heads,
    read_output,
)
from separatrix.audits.fields import MOST_LAYERS, Fields
from separatrix.audits.kinds import ModelKind
from separatrix.audits.state_space import LONGEST_KERNEL, Mamba2Shape, mamba, mamba2
from separatrix.errors import InvalidFile

__all__ = ["KINDS"]

_SCANNED: Final = "linear_attention"
_PATTERN: Final[Mapping[str, str]] = {"M": _SCANNED, "*": FULL, "-": "mlp", "E": "moe"}


def _whole(
    fields: Fields,
    bits: NumberBits,
    *,
    layers: tuple[Layer, ...],
    inner: int,
    shared: int = 0,
    tied: bool = False,
) -> Anatomy:
    """The model of these layers, with tables, one last norm and an output head."""
    width, vocabulary = fields.count("hidden_size"), fields.count("vocab_size")
    return Anatomy(
        model_type=fields.what,
        width=width,
        ffn_width=inner,
        vocabulary=vocabulary,
        layers=layers,
        embeddings=width * vocabulary,
        outside=width + shared + read_output(fields, width, vocabulary, tied=tied),
        bits=bits,
    )


def _recurrent_gemma(fields: Fields, bits: NumberBits) -> Anatomy:
    """Griffin: gated linear recurrences, and attention with a window."""
    width, inner, layers = fields.count("hidden_size"), fields.count("intermediate_size"), fields.layers
    heads = read_heads(fields, width)
    # The config's inner width is that of both halves of the gated map.
    half = inner // 2
    window = fields.window("attention_window_size", default=2048)
    local = attention(
        heads,
        width,
        bits.stored,
        window=window,
        bias=fields.flag("attention_bias", default=False),
        output_bias=True,
    )
    channels = fields.count("lru_width", default=width)
    kernel = fields.count("conv1d_width", default=4, most=LONGEST_KERNEL)
    block = fields.shared_evenly(channels, heads.queries, what="its recurrent channels among its heads")
    gates = 2 * (heads.queries * block * block + channels)
    recurrence = Mixer(
        kind="gated recurrence",
        parameters=2 * linear_map(width, channels, bias=True)
        + linear_map(channels, width, bias=True)
        + channels * kernel
        + channels
        + channels
        + gates,
        state=recurrent_state(channels, bits.recurrent)
        + convolution_state(channels=channels, columns=kernel - 1, bits=bits.stored),
    )
    pattern = fields.texts("block_types") or fields.texts("_block_types")
    pattern = pattern or ("recurrent", "recurrent", "attention")
    mixers = {"recurrent": recurrence, "attention": local}
    if not set(pattern) <= set(mixers):
        raise InvalidFile("Field 'block_types' of the config must be made of recurrent and attention.")
    feed_forward = gated_map(width, half, bias=True)
    return _whole(
        fields,
        bits,
        layers=tuple(
            Layer(
                mixers=(mixers[pattern[place % len(pattern)]],),
                feed_forward=feed_forward,
                others=2 * width,
            )
            for place in range(layers)
        ),
        inner=half,
        tied=True,
    )


def _jamba(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner, layers = fields.count("hidden_size"), fields.count("intermediate_size"), fields.layers
    state = fields.count("mamba_d_state", default=16)
    rank = fields.count_or_auto("mamba_dt_rank", auto=math.ceil(width / 16))
    scan = mamba(
        width,
        bits,
        inner=int(fields.ratio("mamba_expand", default=2) * width),
        state=state,
        rank=rank,
        kernel=fields.count("mamba_d_conv", default=4, most=LONGEST_KERNEL),
        bias=fields.flag("mamba_proj_bias", default=False),
        convolution_bias=fields.flag("mamba_conv_bias", default=True),
        extra=rank + 2 * state,
    )
    attends = attention(read_heads(fields, width, keys=8), width, bits.stored)
    count = experts(fields, "num_experts", "num_local_experts", default=16)
    dense, sparse = gated_map(width, inner), count * (gated_map(width, inner) + width)
    at = _every(fields, "attn_layer", period=8, offset=4)
    at_experts = _every(fields, "expert_layer", period=2, offset=1)
    return _whole(
        fields,
        bits,
        layers=tuple(
            Layer(
                mixers=(attends if place % at[0] == at[1] else scan,),
                feed_forward=sparse if count > 1 and place % at_experts[0] == at_experts[1] else dense,
                others=2 * width,
            )
            for place in range(layers)
        ),
        inner=inner,
    )


def _every(fields: Fields, name: str, *, period: int, offset: int) -> tuple[int, int]:
    """A period and where in it something happens."""
    found = fields.count(f"{name}_period", default=period, most=MOST_LAYERS)
    return found, fields.count(f"{name}_offset", default=min(offset, found - 1), least=0, most=found - 1)


def _shape(fields: Fields, *, inner: int, prefix: str = "mamba_") -> Mamba2Shape:
    """Mamba-2 sizes as Bamba and its kin name them; heads of width "auto" share the inner channels."""
    heads = fields.count(f"{prefix}n_heads", default=128)
    shared = fields.shared_evenly(inner, heads, what="its inner channels among its heads")
    return Mamba2Shape(
        heads=heads,
        head_width=fields.count_or_auto(f"{prefix}d_head", auto=shared),
        groups=fields.count(f"{prefix}n_groups", default=1),
        state=fields.count(f"{prefix}d_state", default=256),
        kernel=fields.count(f"{prefix}d_conv", default=4, most=LONGEST_KERNEL),
    )


def _bamba(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner, layers = fields.count("hidden_size"), fields.count("intermediate_size"), fields.layers
    scan = _bamba_scan(fields, bits, width)
    attends = attention(
        read_heads(fields, width, keys=8),
        width,
        bits.stored,
        bias=fields.flag("attention_bias", default=False),
    )
    attended = fields.places("attn_layer_indices") or frozenset()
    feed_forward = gated_map(width, inner, bias=fields.flag("mlp_bias", default=False))
    return _whole(
        fields,
        bits,
        layers=tuple(
            Layer(
                mixers=(attends if place in attended else scan,), feed_forward=feed_forward, others=2 * width
            )
            for place in range(layers)
        ),
        inner=inner,
    )


def _bamba_scan(fields: Fields, bits: NumberBits, width: int) -> Mixer:
    return mamba2(
        width,
        bits,
        _shape(fields, inner=int(fields.ratio("mamba_expand", default=2) * width)),
        bias=fields.flag("mamba_proj_bias", default=False),
        convolution_bias=fields.flag("mamba_conv_bias", default=True),
    )


def _granite_hybrid(fields: Fields, bits: NumberBits) -> Anatomy:
    """Granite 4: Mamba-2 and attention by turns, experts beside a feed-forward map that all tokens share."""
    width, inner, layers = fields.count("hidden_size"), fields.count("intermediate_size"), fields.layers
    mixers = {
        _SCANNED: _bamba_scan(fields, bits, width),
        FULL: attention(
            read_heads(fields, width),
            width,
            bits.stored,
            bias=fields.flag("attention_bias", default=False),
        ),
    }
    kinds = fields.layer_kinds("layer_types", "layers_block_type", known=tuple(mixers), layers=layers)
    shared = fields.count("shared_intermediate_size", default=1024)
    count = experts(fields, "num_local_experts", default=8, least=0)
    feed_forward = gated_map(width, shared) + count * (gated_map(width, inner) + width)
    return _whole(
        fields,
        bits,
        layers=tuple(
            Layer(mixers=(mixers[kind],), feed_forward=feed_forward, others=2 * width)
            for kind in kinds or (_SCANNED,) * layers
        ),
        inner=inner if count else shared,
    )


def _falcon_h1(fields: Fields, bits: NumberBits) -> Anatomy:
    """Attention and Mamba-2 side by side in every layer."""
    width, inner = fields.count("hidden_size"), fields.count("intermediate_size")
    expanded = int(fields.ratio("mamba_expand", default=2) * width)
    if not fields.mentions("mamba_d_ssm"):
        expanded = 1024
    scan = mamba2(
        width,
        bits,
        _shape(fields, inner=fields.count("mamba_d_ssm", default=expanded)),
        bias=fields.flag("mamba_proj_bias", default=False),
        output_bias=fields.flag("projectors_bias", default=False),
        convolution_bias=fields.flag("mamba_conv_bias", default=True),
        norm=fields.flag("mamba_rms_norm", default=False),
    )
    attends = attention(
        read_heads(fields, width, keys=8),
        width,
        bits.stored,
        bias=fields.flag("attention_bias", default=False),
    )
    layer = Layer(
        mixers=(attends, scan),
        feed_forward=gated_map(width, inner, bias=fields.flag("mlp_bias", default=False)),
        others=2 * width,
    )
    return _whole(fields, bits, layers=(layer,) * fields.layers, inner=inner)


def _zamba2(fields: Fields, bits: NumberBits) -> Anatomy:
    """Mamba-2 throughout; some layers have a Transformer block in front, whose weights they share in turn."""
    width, layers = fields.count("hidden_size"), fields.layers
    inner = fields.count("intermediate_size", default=4 * width)
    expanded = int(fields.ratio("mamba_expand", default=2) * width)
    count = fields.count("n_mamba_heads", default=8)
    shape = Mamba2Shape(
        heads=count,
        head_width=fields.shared_evenly(expanded, count, what="its inner channels among its heads"),
        groups=fields.count("mamba_ngroups", default=1),
        state=fields.count("mamba_d_state", default=64),
        kernel=fields.count("mamba_d_conv", default=4, most=LONGEST_KERNEL),
    )
    bias = fields.flag("add_bias_linear", default=False)
    scan = mamba2(width, bits, shape, bias=bias, convolution_bias=True)
    queries = fields.count("num_attention_heads")
    heads = Heads(
        queries=queries,
        keys=fields.count("num_key_value_heads", default=queries),
        width=fields.shared_evenly(2 * width, queries, what="twice its width among its heads"),
    )
    # The block reads the stream beside the embeddings, twice as wide, and writes to the stream.
    across = heads.queries * heads.width
    block = (
        linear_map(2 * width, across + 2 * heads.keys * heads.width)
        + linear_map(across, width)
        + gated_map(width, inner, bias=bias)
        + 3 * width
    )
    attends = Mixer(
        kind="shared attention",
        parameters=0,
        state=attention(heads, width, bits.stored).state,
        heads=queries,
    )
    kinds = _zamba2_kinds(fields, layers)
    rank = fields.count("adapter_rank", default=128)
    adapters = rank * (width + 2 * inner)
    if fields.flag("use_shared_attention_adapter", default=False):
        adapters += 3 * 2 * rank * 2 * width
    hybrids = kinds.count("hybrid")
    blocks = min(hybrids, fields.count("num_mem_blocks", default=1))
    return _whole(
        fields,
        bits,
        layers=tuple(
            Layer(mixers=(attends, scan), others=width + width * width + adapters)
            if kind == "hybrid"
            else Layer(mixers=(scan,), others=width)
            for kind in kinds
        ),
        inner=inner,
        shared=blocks * block,
        tied=True,
    )


def _zamba2_kinds(fields: Fields, layers: int) -> tuple[str, ...]:
    known = (_SCANNED, "hybrid")
    listed = fields.layer_kinds("layers_block_type", "layer_types", known=known, layers=layers)
    if listed is not None:
        return listed
    hybrids = fields.places("hybrid_layer_ids")
    if hybrids is None:
        raise InvalidFile(
            "The config of a zamba2 model lacks layers_block_type, which says where it attends."
        )
    return tuple("hybrid" if place in hybrids else _SCANNED for place in range(layers))


def _nemotron_h(fields: Fields, bits: NumberBits) -> Anatomy:
    """One thing a layer: a scan, attention, a feed-forward map, or experts."""
    width, inner = fields.count("hidden_size"), fields.count("intermediate_size", default=21504)
    kinds = _nemotron_kinds(fields)
    scan = mamba2(
        width,
        bits,
        Mamba2Shape(
            heads=fields.count("mamba_num_heads", default=128),
            head_width=fields.count("mamba_head_dim", default=64),
            groups=fields.count("n_groups", "mamba_n_groups", default=8),
            state=fields.count("ssm_state_size", default=128),
            kernel=fields.count("conv_kernel", "mamba_d_conv", default=4, most=LONGEST_KERNEL),
        ),
        bias=fields.flag("use_bias", default=False),
        convolution_bias=fields.flag("use_conv_bias", default=True),
    )
    attends = attention(read_heads(fields, width, keys=8, head_width=128), width, bits.stored)
    bias = fields.flag("mlp_bias", default=False)
    made = {
        _SCANNED: Layer(mixers=(scan,), others=width),
        FULL: Layer(mixers=(attends,), others=width),
        "mlp": Layer(mixers=(), feed_forward=plain_map(width, inner, bias=bias), others=width),
    }
    if "moe" in kinds:
        latent = fields.count("moe_latent_size", default=width)
        count = experts(fields, "n_routed_experts", "num_local_experts", default=8)
        shared = fields.count("moe_shared_expert_intermediate_size", default=7688)
        routed = plain_map(latent, fields.count("moe_intermediate_size", default=7688))
        through = plain_map(width, latent, bias=bias) if fields.has("moe_latent_size") else 0
        parameters = count * (routed + width) + plain_map(width, shared, bias=bias) + through
        made["moe"] = Layer(mixers=(), feed_forward=parameters, others=width)
    return _whole(fields, bits, layers=tuple(made[kind] for kind in kinds), inner=inner)


def _nemotron_kinds(fields: Fields) -> tuple[str, ...]:
    listed = fields.texts("layers_block_type") or fields.texts("layer_types")
    if listed is not None:
        known = tuple(_PATTERN.values())
        named = fields.layer_kinds("layers_block_type", "layer_types", known=known, layers=len(listed))
        assert named is not None
        return named
    pattern = fields.text("hybrid_override_pattern")
    if not pattern:
        raise InvalidFile(
            "The config of a nemotron_h model lacks hybrid_override_pattern, which says what its layers are."
        )
    if len(pattern) > MOST_LAYERS or not set(pattern) <= set(_PATTERN):
        raise InvalidFile(
            f"Field 'hybrid_override_pattern' of the config must be made of {' '.join(_PATTERN)}; got "
            f"{pattern[:40]!r}."
        )
    return tuple(_PATTERN[letter] for letter in pattern)


_BOTH: Final = "keys and values of every position where it attends; the scan and its convolution elsewhere"

KINDS: Final = (
    ModelKind(
        "recurrent_gemma",
        _recurrent_gemma,
        "keys and values of the last w − 1 positions; the recurrence in float32 and conv1d_width − 1 inputs",
    ),
    ModelKind("jamba", _jamba, _BOTH),
    ModelKind(
        "zamba2",
        _zamba2,
        "the scan and its convolution in every layer; keys and values, twice as wide, in hybrid ones",
    ),
    ModelKind("falcon_h1", _falcon_h1, "keys and values, the scan and its convolution in every layer"),
    ModelKind("bamba", _bamba, _BOTH),
    ModelKind("nemotron_h", _nemotron_h, _BOTH),
    ModelKind("granitemoehybrid", _granite_hybrid, _BOTH),
)
