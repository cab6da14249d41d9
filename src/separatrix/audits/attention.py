"""Attention, feed-forward maps and the two ends of a model: what most kinds of model are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from separatrix.audits.anatomy import Mixer, attention_state, linear_map
from separatrix.audits.fields import Fields

__all__ = [
    "FULL",
    "SLIDING",
    "Heads",
    "attention",
    "experts",
    "gated_map",
    "has_output_head",
    "plain_map",
    "read_heads",
    "read_output",
    "read_windows",
    "words_output",
]

FULL: Final = "full_attention"
SLIDING: Final = "sliding_attention"
_WITH_HEAD: Final = (
    "ForCausalLM",
    "LMHeadModel",
    "ForMaskedLM",
    "ForPreTraining",
    "ForConditionalGeneration",
)
_MOST_EXPERTS: Final = 10**5


@dataclass(frozen=True, kw_only=True)
class Heads:
    """Query heads, the heads that have keys and values of their own, and the width of each."""

    queries: int
    keys: int
    width: int


def read_heads(
    fields: Fields, width: int, *, keys: int | None = None, head_width: int | None = None
) -> Heads:
    """The heads of a layer; `keys` and `head_width` stand for fields that the config leaves out."""
    queries = fields.count("num_attention_heads", "n_head", "num_heads")
    shared = fields.optional_count("num_key_value_heads", "num_kv_heads")
    if shared is None:
        left_out = not fields.mentions("num_key_value_heads")
        shared = keys if keys is not None and left_out else queries
    own = fields.optional_count("head_dim")
    if own is None:
        own = head_width or fields.shared_evenly(width, queries, what="its width among its heads")
    fields.shared_evenly(queries, shared, what="its query heads among its key heads")
    return Heads(queries=queries, keys=shared, width=own)


def attention(
    heads: Heads,
    width: int,
    bits: int,
    *,
    window: int | None = None,
    bias: bool = False,
    output_bias: bool | None = None,
    extra: int = 0,
) -> Mixer:
    """Softmax attention with its four maps; `extra` counts norms on queries and keys, sinks and the like."""
    queries, keys = heads.queries * heads.width, heads.keys * heads.width
    parameters = (
        linear_map(width, queries, bias=bias)
        + 2 * linear_map(width, keys, bias=bias)
        + linear_map(queries, width, bias=bias if output_bias is None else output_bias)
        + extra
    )
    return Mixer(
        kind="attention" if window is None else "sliding attention",
        parameters=parameters,
        state=attention_state(heads=heads.keys, head_width=heads.width, bits=bits, window=window),
        heads=heads.queries,
    )


def read_windows(
    fields: Fields, layers: int, *, default: int | None, sliding: tuple[bool, ...]
) -> tuple[int | None, ...]:
    """How far each layer looks: by `layer_types` where the config has them, else as `sliding` says."""
    window = fields.window("sliding_window", default=default)
    kinds = fields.layer_kinds("layer_types", known=(FULL, SLIDING), layers=layers)
    looks_near = sliding if kinds is None else tuple(kind == SLIDING for kind in kinds)
    return tuple(window if near else None for near in looks_near)


def plain_map(width: int, inner: int, *, bias: bool = False) -> int:
    """Up, an activation, down."""
    return linear_map(width, inner, bias=bias) + linear_map(inner, width, bias=bias)


def gated_map(width: int, inner: int, *, bias: bool = False) -> int:
    """Up twice, one of them the other's gate, down."""
    return 2 * linear_map(width, inner, bias=bias) + linear_map(inner, width, bias=bias)


def experts(fields: Fields, *names: str, default: int | None = None, least: int = 1) -> int:
    """How many experts a layer has."""
    return fields.count(*names, default=default, least=least, most=_MOST_EXPERTS)


def has_output_head(fields: Fields) -> bool:
    """Whether the architecture that the config names ends in scores for words; one without a name does."""
    named = fields.texts("architectures")
    return not named or any(name.endswith(_WITH_HEAD) for name in named)


def read_output(fields: Fields, width: int, vocabulary: int, *, tied: bool, bias: bool = False) -> int:
    """Parameters of the output head; none where it is missing, or is the embedding table once more."""
    return words_output(fields, width, vocabulary, tied=tied, bias=bias) if has_output_head(fields) else 0


def words_output(fields: Fields, width: int, vocabulary: int, *, tied: bool, bias: bool = False) -> int:
    """Parameters of scores for words; only a bias where their map is the embedding table once more."""
    copied = fields.flag("tie_word_embeddings", default=tied)
    return (0 if copied else width * vocabulary) + (vocabulary if bias else 0)
