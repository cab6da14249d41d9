"""Transformers with biases and norms that have them: BERT, GPT-2, GPT-NeoX, OPT, Phi and Falcon.

Counted as state: a key and a value for each key head and position, in every layer. BERT is an encoder: it
reads all positions at once and carries nothing from token to token, unless its config makes it a decoder.
"""

from __future__ import annotations

from typing import Final

from separatrix.audits.anatomy import Anatomy, Layer, Mixer, NumberBits, attention_state
from separatrix.audits.attention import (
    Heads,
    attention,
    plain_map,
    read_heads,
    read_output,
)
from separatrix.audits.encoder_ends import read_end
from separatrix.audits.fields import Fields
from separatrix.audits.kinds import ModelKind

__all__ = ["KINDS"]

_EVERYTHING: Final = "keys and values of every position"
_ENCODER: Final = "An encoder: it reads all positions at once and carries no state."
_CROSS: Final = "Attention to an encoder (add_cross_attention) is not counted."


def _equal_layers(
    fields: Fields,
    bits: NumberBits,
    *,
    layer: Layer,
    inner: int,
    tables: int,
    outside: int,
    positions: int | None = None,
    notes: tuple[str, ...] = (),
) -> Anatomy:
    """A model whose layers are all alike."""
    crossing = fields.flag("add_cross_attention", default=False)
    return Anatomy(
        model_type=fields.what,
        width=fields.count("hidden_size", "n_embd"),
        ffn_width=inner,
        vocabulary=fields.count("vocab_size"),
        layers=(layer,) * fields.layers,
        embeddings=tables,
        outside=outside,
        bits=bits,
        positions=positions,
        notes=(*notes, *((_CROSS,) if crossing else ())),
    )


def _bert(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner = fields.count("hidden_size"), fields.count("intermediate_size")
    vocabulary = fields.count("vocab_size")
    heads = read_heads(fields, width)
    mixer = attention(heads, width, bits.stored, bias=True)
    is_decoder = fields.flag("is_decoder", default=False)
    if not is_decoder:
        mixer = Mixer(kind=mixer.kind, parameters=mixer.parameters, heads=heads.queries)
    layer = Layer(mixers=(mixer,), feed_forward=plain_map(width, inner, bias=True), others=2 * 2 * width)
    positions = fields.count("max_position_embeddings", default=512)
    table = vocabulary + positions + fields.count("type_vocab_size", default=2)
    end = read_end(fields, width, vocabulary)
    return _equal_layers(
        fields,
        bits,
        layer=layer,
        inner=inner,
        tables=width * table,
        positions=positions,
        outside=2 * width + end.parameters,
        notes=(*(() if is_decoder else (_ENCODER,)), end.said),
    )


def _gpt2(fields: Fields, bits: NumberBits) -> Anatomy:
    width, vocabulary = fields.count("n_embd", "hidden_size"), fields.count("vocab_size")
    inner = fields.count("n_inner", default=4 * width)
    layer = Layer(
        mixers=(attention(read_heads(fields, width), width, bits.stored, bias=True),),
        feed_forward=plain_map(width, inner, bias=True),
        others=2 * 2 * width,
    )
    positions = fields.count("n_positions", "max_position_embeddings", default=1024)
    return _equal_layers(
        fields,
        bits,
        layer=layer,
        inner=inner,
        tables=width * (vocabulary + positions),
        positions=positions,
        outside=2 * width + read_output(fields, width, vocabulary, tied=True),
    )


def _gpt_neox(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner = fields.count("hidden_size"), fields.count("intermediate_size")
    vocabulary = fields.count("vocab_size")
    bias = fields.flag("attention_bias", default=True)
    layer = Layer(
        mixers=(attention(read_heads(fields, width), width, bits.stored, bias=bias),),
        feed_forward=plain_map(width, inner, bias=True),
        others=2 * 2 * width,
    )
    return _equal_layers(
        fields,
        bits,
        layer=layer,
        inner=inner,
        tables=width * vocabulary,
        outside=2 * width + read_output(fields, width, vocabulary, tied=False),
    )


def _opt(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner, vocabulary = (
        fields.count("hidden_size"),
        fields.count("ffn_dim"),
        fields.count("vocab_size"),
    )
    bias = fields.flag("enable_bias", default=True)
    norm = 2 * width if fields.flag("layer_norm_elementwise_affine", default=True) else 0
    layer = Layer(
        mixers=(attention(read_heads(fields, width), width, bits.stored, bias=bias),),
        feed_forward=plain_map(width, inner, bias=bias),
        others=2 * norm,
    )
    narrow = fields.count("word_embed_proj_dim", default=width)
    positions = fields.count("max_position_embeddings", default=2048)
    last = fields.flag("do_layer_norm_before", default=True)
    last = last and not fields.flag("_remove_final_layer_norm", default=False)
    return _equal_layers(
        fields,
        bits,
        layer=layer,
        inner=inner,
        # Its table begins with two rows that no token has.
        tables=narrow * vocabulary + width * (positions + 2),
        positions=positions,
        outside=(norm if last else 0)
        + (2 * narrow * width if narrow != width else 0)
        + read_output(fields, narrow, vocabulary, tied=True),
    )


def _phi(fields: Fields, bits: NumberBits) -> Anatomy:
    width, inner = fields.count("hidden_size"), fields.count("intermediate_size")
    vocabulary = fields.count("vocab_size")
    heads = read_heads(fields, width)
    norms = 2 * 2 * heads.width if fields.flag("qk_layernorm", default=False) else 0
    layer = Layer(
        mixers=(attention(heads, width, bits.stored, bias=True, extra=norms),),
        feed_forward=plain_map(width, inner, bias=True),
        others=2 * width,
    )
    return _equal_layers(
        fields,
        bits,
        layer=layer,
        inner=inner,
        tables=width * vocabulary,
        outside=2 * width + read_output(fields, width, vocabulary, tied=False, bias=True),
    )


def _falcon(fields: Fields, bits: NumberBits) -> Anatomy:
    width, vocabulary = fields.count("hidden_size"), fields.count("vocab_size")
    queries = fields.count("num_attention_heads", "n_head")
    head_width = fields.shared_evenly(width, queries, what="its width among its heads")
    newer = fields.flag("new_decoder_architecture", default=False)
    one_key = fields.flag("multi_query", default=True) and not newer
    keys = fields.count("num_kv_heads", "n_head_kv", default=queries) if newer else 1 if one_key else queries
    heads = Heads(queries=queries, keys=keys, width=head_width)
    bias = fields.flag("bias", default=False)
    # transformers repeats shared keys before it stores them, so all query heads have their copy.
    stored = queries if newer else keys
    mixer = Mixer(
        kind="attention",
        parameters=attention(heads, width, bits.stored, bias=bias).parameters,
        state=attention_state(heads=stored, head_width=head_width, bits=bits.stored),
        heads=queries,
    )
    inner = fields.count("ffn_hidden_size", default=4 * width)
    parallel = fields.flag("parallel_attn", default=True)
    two_norms = not parallel or fields.count("num_ln_in_parallel_attn", default=2 if newer else 1) == 2
    copied = f"Keys are shared by {queries // keys} query heads, and transformers stores them once for each."
    return _equal_layers(
        fields,
        bits,
        layer=Layer(
            mixers=(mixer,),
            feed_forward=plain_map(width, inner, bias=bias),
            others=2 * width * (2 if two_norms else 1),
        ),
        inner=inner,
        tables=width * vocabulary,
        outside=2 * width + read_output(fields, width, vocabulary, tied=True),
        notes=(copied,) if stored > keys else (),
    )


KINDS: Final = (
    ModelKind("bert", _bert, "nothing, or keys and values of every position if is_decoder"),
    ModelKind("gpt2", _gpt2, _EVERYTHING),
    ModelKind("gpt_neox", _gpt_neox, _EVERYTHING),
    ModelKind("opt", _opt, _EVERYTHING),
    ModelKind("phi", _phi, _EVERYTHING),
    ModelKind(
        "falcon",
        _falcon,
        "keys and values of every position; in the newer architecture a copy for each query head",
    ),
)
