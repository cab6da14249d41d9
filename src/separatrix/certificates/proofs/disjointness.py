"""Proof of S-T13 for disjointness on the weights: sets that meet, and only these, are told from the others.

a_i and b_i share a number by the rule that counts places from the start of each half. The rest is read off
the tensors by `pairs`, where a pair of bits is loud if both are 1.
"""

from __future__ import annotations

from fractions import Fraction

from separatrix.certificates.enclosures import Box, Rounding
from separatrix.certificates.lemmas.digits import digit_rows
from separatrix.certificates.lemmas.pairs import Pairing, judged
from separatrix.certificates.lemmas.proving import claim, least_lead
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.inputs import TokenInputs
from separatrix.models.explicit.positions import Across
from separatrix.models.explicit.transformer import UnmaskedTransformer
from separatrix.tasks import Task
from separatrix.tasks.disjointness import Disjointness

__all__ = ["prove"]

_SOURCE = "S-T13"


def prove(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """For every input: the answer at the last bit is whether the sets meet."""
    if not isinstance(task, Disjointness) or not isinstance(model, UnmaskedTransformer):
        raise NotProved("This proof is about unmasked Transformers that decide disjointness.")
    inputs = model.inputs
    if not isinstance(inputs, TokenInputs) or len(inputs.appended) or len(inputs.classes) != 1:
        raise NotProved("This proof is about bits, with nothing of the model's own among them.")
    bit = inputs.classes[0]
    tracks = [each for each in inputs.tracks if each.name in bit.tracks]
    if (bit.first, bit.count, inputs.pad) != (0, 2, None) or len(tracks) != 1:
        raise NotProved("The tokens are two bits with one number by their place, and nothing is padded.")
    if tracks[0].rule != Across(between=0) or tracks[0].code.count < task.n // 2:
        raise NotProved("The numbers of places are not those of partners.")
    verdicts = judged(
        rounding,
        model.layers,
        model.readout,
        Pairing(
            tokens=digit_rows(rounding, inputs, bit, count=2),
            number=tracks[0].name,
            code=tracks[0].code,
            alone=None,
            loud=((1, 1),),
            most=task.n,
        ),
    )
    assert verdicts.loud is not None, "two bits can both be 1"
    return (
        claim(
            "weight of the rivals",
            "in layer 1 a bit puts at most this weight on what is neither itself nor its partner",
            "<",
            Fraction(1, 4),
            "of the attention",
            verdicts.rivals,
            source=_SOURCE,
        ),
        claim(
            "lead of the right answer",
            "on every input the right answer's score exceeds the other's",
            ">",
            Fraction(0),
            "score",
            Box.concatenate(
                [
                    least_lead(verdicts.quiet, [0] * verdicts.quiet.shape[0]),
                    least_lead(verdicts.loud, [1] * verdicts.loud.shape[0]),
                ]
            ),
            source=_SOURCE,
        ),
    )
