"""Proof of S-T1 on the weights: every index token reads the digits of the symbol it names.

Read off the tensors: the logit between an index token and a symbol is a diagonal form of their addresses,
so it depends on where these differ. With the code's distances that bounds the weight of all rivals for every
length and every choice of symbols; what remains is one vector for each symbol, and it goes through the rest
of the layer and the readout in intervals.
"""

from __future__ import annotations

from fractions import Fraction

import torch

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.lemmas.coded import (
    VALUE,
    after_attention,
    answers,
    head_keys,
    matched_logits,
    plain_logits,
    token_rows,
)
from separatrix.certificates.lemmas.proving import claim, least_lead, one_head
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.codes import Code
from separatrix.models.explicit.inputs import TokenInputs
from separatrix.models.explicit.positions import Own
from separatrix.models.explicit.transformer import Transformer
from separatrix.tasks import Task
from separatrix.tasks.index_lookup import IndexLookup

__all__ = ["prove"]

_SOURCE = "S-T1"


def prove(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """For every input of every length up to n: the answer at the index is the symbol it names."""
    if not isinstance(task, IndexLookup) or not isinstance(model, Transformer):
        raise NotProved("This proof is about Transformers that do index lookup.")
    inputs = model.inputs
    if not isinstance(inputs, TokenInputs) or len(model.layers) != 1 or len(inputs.appended):
        raise NotProved("This proof is about one layer on tokens.")
    layer, head = model.layers[0], one_head(model.layers[0])
    track = _address_track(inputs, task)
    index = token_rows(rounding, inputs, "index", coded=True)
    symbols = token_rows(rounding, inputs, "symbol")
    keys, values = head_keys(rounding, head, symbols)
    index_key, index_value = head_keys(rounding, head, index)
    query = index.image(rounding, head.query)
    matched = matched_logits(rounding, query, VALUE, keys, track, _code(inputs, track))
    itself = KeyGroup(logit=plain_logits(rounding, query, index_key), value=index_value.reshape(-1))
    others = values.hull(0).reshape(-1)
    found, weights = [], []
    for symbol in range(task.alphabet):
        attended = rounding.attend([*matched.groups(values[symbol], others), itself])
        found.append(attended.output)
        weights.append(attended.weights[:1])
    stream = after_attention(rounding, layer, Box.stack(found), index.range())
    scores = answers(rounding, model.readout, stream)
    return (
        claim(
            "weight on the named position",
            "on every input the index token puts at least this weight on the position it names",
            ">",
            Fraction(1, 2),
            "of the attention",
            Box.concatenate(weights),
            source=_SOURCE,
        ),
        claim(
            "lead of the right symbol",
            "on every input the right symbol's score exceeds every other's",
            ">",
            Fraction(0),
            "score",
            least_lead(scores, torch.arange(task.alphabet).tolist()),
            source=_SOURCE,
        ),
    )


def _address_track(inputs: TokenInputs, task: IndexLookup) -> str:
    """The one track that symbols use: their own place, in the code that indices are written in."""
    classes = {each.name: each for each in inputs.classes}
    if {*classes} != {"symbol", "index"}:
        raise NotProved("The tokens are symbols and indices.")
    symbol, index, vocabulary = classes["symbol"], classes["index"], task.vocabulary
    for each in (symbol, index):
        place = vocabulary.offset(each.name)
        size = task.alphabet if each is symbol else task.n
        if (each.first, each.count) != (place, size):
            raise NotProved(f"The tokens of the class {each.name} are not those of the task.")
    if inputs.pad != vocabulary.pad or index.tracks or len(symbol.tracks) != 1:
        raise NotProved("Symbols know their place, indices do not, and padding is the task's.")
    name = next(iter(symbol.tracks))
    track = next(track for track in inputs.tracks if track.name == name)
    code = index.code
    if track.rule != Own(shift=0) or code is None or track.code.spec() != code.spec() or code.count < task.n:
        raise NotProved("Places are addressed from 0 on, in the code of the indices.")
    return name


def _code(inputs: TokenInputs, track: str) -> Code:
    return next(each.code for each in inputs.tracks if each.name == track)
