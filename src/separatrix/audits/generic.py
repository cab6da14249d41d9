"""A config of a type that is not known, counted from the fields that Transformers have in common.

The answer is that of a decoder of the Llama kind: it is right for the many that are, and says that it is
generic. Fields that speak of something else, a recurrence or a compressed cache, are named in a note.
"""

from __future__ import annotations

from typing import Final

from separatrix.audits.anatomy import Anatomy, NumberBits
from separatrix.audits.attention import gated_map, read_heads, read_windows
from separatrix.audits.decoders import assembled, same_everywhere
from separatrix.audits.fields import Fields
from separatrix.errors import InvalidFile

__all__ = ["generic", "missing_fields"]

_NEEDED: Final = (
    ("hidden_size",),
    ("num_hidden_layers", "n_layer", "num_layers"),
    ("num_attention_heads", "n_head", "num_heads"),
    ("vocab_size",),
)
_OTHERWISE: Final = (
    "mamba",
    "ssm",
    "state_size",
    "linear_",
    "lru_",
    "rwkv",
    "conv_",
    "conv1d",
    "lora_rank",
    "block_types",
)
"""Beginnings and parts of names that speak of memory other than keys and values."""
_SHOWN: Final = 3


def missing_fields(fields: Fields) -> tuple[str, ...]:
    """What a generic answer would need and the config does not say."""
    return tuple(names[0] for names in _NEEDED if not any(fields.has(name) for name in names))


def generic(fields: Fields, bits: NumberBits) -> Anatomy:
    """The count of a decoder with these fields."""
    width, layers = fields.count("hidden_size"), fields.layers
    inner = fields.count("intermediate_size", "ffn_dim", "n_inner", default=4 * width)
    try:
        windows = read_windows(fields, layers, default=None, sliding=(True,) * layers)
    except InvalidFile:  # layers of other kinds, which the note below speaks of
        windows = (None,) * layers
    anatomy = assembled(
        fields,
        bits,
        windows=windows,
        heads=read_heads(fields, width),
        feed_forward=same_everywhere(gated_map(width, inner)),
        ffn_width=inner,
    )
    strange = [name for name in fields.names if any(part in name for part in _OTHERWISE)]
    shown = f"{', '.join(strange[:_SHOWN])}{' and more' if len(strange) > _SHOWN else ''}"
    return Anatomy(
        model_type=anatomy.model_type,
        width=anatomy.width,
        ffn_width=anatomy.ffn_width,
        vocabulary=anatomy.vocabulary,
        layers=anatomy.layers,
        embeddings=anatomy.embeddings,
        outside=anatomy.outside,
        bits=bits,
        notes=(
            "This type is not known here: counted as a decoder of the Llama kind from its fields.",
            *((f"Not counted, though the config speaks of it: {shown}.",) if strange else ()),
        ),
    )
