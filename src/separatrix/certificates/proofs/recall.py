"""Proof of S-T7 on the weights, for keys with labels: every query reads its key's label digit by digit.

Layer 1, read off the tensors: the logit between a label and a place is a diagonal form of the address before
the label and the place's own, so the code's distances bound the weight of all places but the one before. So a
label holds that token's key sign by sign, each in an interval. Layer 2: the logit between a query and a label
is a diagonal form of the query's key and that of the label; labels of other keys are counted by distance,
once for each time that a key can be in sight, and key tokens are bounded all alike. What the query gets is
the label's digits, each in an interval that goes through the rest of the layer and the readout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import torch

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.enclosures.boxes import Ends
from separatrix.certificates.lemmas.coded import VALUE, Coded, matched_logits, plain_logits
from separatrix.certificates.lemmas.proving import claim, one_head
from separatrix.certificates.lemmas.signwise import (
    embedded,
    fetched,
    lead_of_words,
    require_short,
)
from separatrix.certificates.proofs import recall_in_sequences
from separatrix.certificates.proofs.spelling import spelled
from separatrix.certificates.proofs.token_in_front import FETCHED, Places, token_in_front
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.codes import Binary, Digits, SignCode
from separatrix.models.explicit.inputs import TokenClass, TokenInputs
from separatrix.models.explicit.transformer import Transformer
from separatrix.tasks import Task
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.mqar import MultiQueryRecall

__all__ = ["prove"]

_SOURCE = "S-T7"


def prove(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """For every input of every length: the answer at each query is the label of its key."""
    if not isinstance(model, Transformer) or not isinstance(task, AssociativeRecall | MultiQueryRecall):
        raise NotProved("This proof is about Transformers that recall labels of keys.")
    if isinstance(task, AssociativeRecall) and task.form == "sequence":
        return recall_in_sequences.prove(model, task, rounding)
    if isinstance(task, MultiQueryRecall) and not model.causal:
        raise NotProved("In mqar the answer stands behind each query, so only a causal model is covered.")
    read = _Read.of(model, task)
    first, second = model.layers
    keys, labels = (read.rows(rounding, name) for name in ("key", "value"))
    front = token_in_front(
        rounding,
        first,
        read.places,
        in_front=keys,
        behind=labels,
        dim=read.keys.dim,
        most=1 if model.causal else task.length,
    )
    at_keys, at_labels = front.again, front.behind
    head = one_head(second)
    query = at_keys.image(rounding, head.query)
    times = 2 if isinstance(task, MultiQueryRecall) else 1
    matched = matched_logits(rounding, query, VALUE, at_labels.image(rounding, head.key), FETCHED, read.keys)
    values = at_labels.image(rounding, head.value)
    others = values.range().hull(0)
    rivals = [
        KeyGroup(logit=rival.logit, value=others, least=0, most=times * rival.most)
        for rival in matched.rivals
    ]
    key_tokens = [
        KeyGroup(
            logit=plain_logits(rounding, query, stream.image(rounding, head.key)),
            value=stream.image(rounding, head.value).range().hull(0),
            most=most,
        )
        for stream, most in ((at_keys, task.length - task.length // 2 - 1), (front.start, 1))
    ]
    found, weight = fetched(rounding, matched.target, [*rivals, *key_tokens], values, VALUE, read.labels.dim)
    word = spelled(rounding, second, model.readout, found, at_keys.range(), read.labels)
    return (
        claim(
            "weight on the token in front",
            "on every input each label puts at least this weight on the token in front of it, in layer 1",
            ">",
            Fraction(1, 2),
            "of the attention",
            front.weight,
            source=_SOURCE,
        ),
        claim(
            "weight on the label of the query's key",
            "on every input each query puts at least this weight on that label, in layer 2",
            ">",
            Fraction(1, 2),
            "of the attention",
            weight,
            source=_SOURCE,
        ),
        claim(
            "lead of the right label",
            "on every input and at each query the right label's score exceeds every other's",
            ">",
            Fraction(0),
            "score",
            lead_of_words(rounding, word, read.labels),
            source=_SOURCE,
        ),
    )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Read:
    """What the spec says about inputs: classes of tokens, what places know, and the codes."""

    classes: Mapping[str, TokenClass]
    places: Places
    keys: SignCode
    labels: SignCode

    @classmethod
    def of(cls, model: Transformer, task: AssociativeRecall | MultiQueryRecall) -> _Read:
        """Checked against the task."""
        inputs = model.inputs
        if not isinstance(inputs, TokenInputs) or len(model.layers) != 2 or len(inputs.appended):
            raise NotProved("This proof is about two layers on tokens.")
        classes = {each.name: each for each in inputs.classes}
        vocabulary = task.vocabulary
        told = [(block.name, vocabulary.offset(block.name), block.size) for block in vocabulary.blocks]
        if [
            (each.name, each.first, each.count) for each in inputs.classes
        ] != told or inputs.pad != vocabulary.pad:
            raise NotProved("The tokens of the model are not those of the task.")
        keys, labels = classes["key"].code, classes["value"].code
        if not isinstance(keys, SignCode) or keys.count < classes["key"].count:
            raise NotProved("Keys have codes of signs.")
        if not isinstance(labels, Digits) or labels.count != classes["value"].count:
            raise NotProved("Labels have their binary digits as codes.")
        return cls(
            classes=classes,
            places=Places.of(inputs.tracks, task.length),
            keys=keys,
            labels=Binary(count=labels.count),
        )

    def rows(self, rounding: Rounding, name: str) -> Coded:
        """Tokens of a class with their numbers left open. A digit is (1 + its sign) / 2."""
        kind = self.classes[name]
        if kind.placed is not None:
            raise NotProved("Tokens write at their places, which this proof does not follow.")
        require_short([kind.bias, kind.matrix, *kind.tracks.values()])
        base, word = _exact(kind.bias[None, :]), _exact(kind.matrix)
        if isinstance(kind.code, Digits):
            word = word / 2
            base = base + word.sum(axis=1)
        parts = {VALUE: word, **{track: _exact(matrix) for track, matrix in kind.tracks.items()}}
        return embedded(rounding, base, parts)


def _exact(tensor: torch.Tensor) -> Ends:
    return Box.exact(tensor).low
