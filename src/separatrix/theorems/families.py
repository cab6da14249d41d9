"""The families of models that theorems speak of, and which lies within which.

A family is a set of functions together with the way its size is counted. If every model of one family
is also a model of another, a lower bound on the outer family binds the inner one, and a construction in
the inner one serves the outer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from separatrix.registry import unknown_name

__all__ = ["FAMILIES", "Family", "families_around", "families_within", "family"]


@dataclass(frozen=True, kw_only=True)
class Family:
    """A set of models of one make.

    `within` names the families that contain this one directly, at no greater size up to constants.
    """

    name: str
    description: str
    within: tuple[str, ...] = ()


_ALL = (
    Family(
        name="transformer-1",
        description="One-layer Transformers: attention of any number of heads, then a feed-forward map.",
        within=("transformer-2",),
    ),
    Family(
        name="transformer-2",
        description="Transformers of at most two layers.",
        within=("transformer-3",),
    ),
    Family(
        name="transformer-3",
        description="Transformers of at most three layers.",
        within=("transformer",),
    ),
    Family(
        name="transformer",
        description=(
            "Transformers of any fixed depth, masked or not, that answer at once, without a chain of thought."
        ),
    ),
    Family(
        name="transformer-cot",
        description=(
            "Causal Transformers that may write a chain of thought before they answer. Without the "
            "mask a Transformer is none of these, so `transformer` does not lie within."
        ),
    ),
    Family(
        name="third-order",
        description=(
            "Attention of higher order: over pairs of positions (order three), or over longer tuples "
            "where an entry says so, on sequences or on graphs."
        ),
    ),
    Family(
        name="graph-transformer",
        description=(
            "Transformers whose input is an adjacency matrix and whose attention between two vertices "
            "also sees the edge."
        ),
    ),
    Family(
        name="fnn",
        description="Fully connected feed-forward networks that read the whole input as one vector.",
    ),
    Family(
        name="rnn",
        description=(
            "Any recurrent model: a state of so many bits, updated by an arbitrary function token by token "
            "(LSTM, state-space models, linear attention)."
        ),
    ),
    Family(
        name="linear-rnn",
        description="Recurrent models with state h_t = A h_{t-1} + B x_t and a gated feed-forward map.",
        within=("rnn", "linear-rnn-cot", "hybrid"),
    ),
    Family(
        name="linear-rnn-cot",
        description="Linear recurrent models that may write a chain of thought before they answer.",
        within=("linear-rnn+retrieval", "hybrid-cot"),
    ),
    Family(
        name="linear-rnn+retrieval",
        description=(
            "Linear recurrent models that may write a chain of thought and in it search their own context by "
            "regular expressions."
        ),
    ),
    Family(
        name="hybrid",
        description=(
            "A linear recurrent model followed by exactly one causal Transformer block, which may pass on "
            "what it gets unchanged; the answer comes at once."
        ),
        within=("hybrid-cot",),
    ),
    Family(
        name="hybrid-cot",
        description=(
            "A linear recurrent model with one causal Transformer block that may write a chain of thought."
        ),
    ),
)

FAMILIES: Mapping[str, Family] = MappingProxyType({entry.name: entry for entry in _ALL})


def family(name: str) -> Family:
    """The family of this name."""
    if name not in FAMILIES:
        raise unknown_name("family", name, tuple(FAMILIES))
    return FAMILIES[name]


def families_within(outer: str) -> tuple[str, ...]:
    """Every family that lies within `outer`, itself first: those that a lower bound on `outer` binds."""
    family(outer)
    found = [outer]
    for name in found:
        found += [entry.name for entry in _ALL if name in entry.within and entry.name not in found]
    return tuple(found)


def families_around(inner: str) -> tuple[str, ...]:
    """Every family that `inner` lies within, itself first: those that a witness in `inner` serves."""
    found = [inner]
    for name in found:
        found += [outer for outer in family(name).within if outer not in found]
    return tuple(found)
