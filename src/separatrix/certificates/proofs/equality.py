"""Proof of S-T6 and S-L5 on the weights: unequal strings, and only these, are told apart from equal ones.

Partners share a number: by the rule that counts places from the start of each half, or by a list that is
compared with the places the task names. The rest is read off the tensors by `pairs`, where a pair of symbols
is loud if one of its digits differs; two symbols differ if and only if a digit does.
"""

from __future__ import annotations

from fractions import Fraction

from separatrix.certificates.enclosures import Box, Rounding
from separatrix.certificates.lemmas.coded import token_rows
from separatrix.certificates.lemmas.digits import digit_rows
from separatrix.certificates.lemmas.pairs import Pairing, judged
from separatrix.certificates.lemmas.proving import claim, least_lead
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.inputs import TokenClass, TokenInputs
from separatrix.models.explicit.positions import Across, Listed, Track
from separatrix.models.explicit.transformer import UnmaskedTransformer
from separatrix.tasks import Task
from separatrix.tasks.equality import Equality

__all__ = ["prove"]


def prove(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """For every input of every length up to n: the answer at the last symbol is whether the strings agree."""
    if not isinstance(task, Equality) or task.form == "ncp" or not isinstance(model, UnmaskedTransformer):
        raise NotProved("This proof is about unmasked Transformers that decide equality.")
    inputs = model.inputs
    if not isinstance(inputs, TokenInputs) or len(inputs.appended):
        raise NotProved("This proof is about tokens, with nothing of the model's own among them.")
    symbol, track = _tokens(inputs, task)
    verdicts = judged(
        rounding,
        model.layers,
        model.readout,
        Pairing(
            tokens=digit_rows(rounding, inputs, symbol, count=task.symbols),
            number=track.name,
            code=track.code,
            alone=token_rows(rounding, inputs, "separator"),
            loud=((0, 1), (1, 0)),
            most=task.n,
        ),
    )
    source = "S-T6" if task.alice is None else "S-L5"
    leads = [least_lead(verdicts.quiet, [1] * verdicts.quiet.shape[0])]
    if verdicts.loud is not None:
        leads.append(least_lead(verdicts.loud, [0] * verdicts.loud.shape[0]))
    return (
        claim(
            "weight of the rivals",
            "in layer 1 a symbol puts at most this weight on what is neither itself nor its partner",
            "<",
            Fraction(1, 4),
            "of the attention",
            verdicts.rivals,
            source=source,
        ),
        claim(
            "lead of the right answer",
            "on every input the right answer's score exceeds the other's",
            ">",
            Fraction(0),
            "score",
            Box.concatenate(leads),
            source=source,
        ),
    )


def _tokens(inputs: TokenInputs, task: Equality) -> tuple[TokenClass, Track]:
    """The class of symbols, and the track from which partners have their number."""
    classes = {each.name: each for each in inputs.classes}
    vocabulary = task.vocabulary
    if {*classes} != {"symbol", "separator"} or inputs.pad != vocabulary.pad:
        raise NotProved("The tokens are symbols, a separator and the task's padding.")
    symbol, separator = classes["symbol"], classes["separator"]
    for each, size in ((symbol, task.symbols), (separator, 1)):
        if (each.first, each.count) != (vocabulary.offset(each.name), size):
            raise NotProved(f"The tokens of the class {each.name} are not those of the task.")
    if separator.tracks or separator.code is not None or len(symbol.tracks) != 1:
        raise NotProved("Symbols have one number by their place, and the separator has none.")
    track = next(each for each in inputs.tracks if each.name in symbol.tracks)
    if track.code.count < task.n // 2 or not _numbers_partners(track, task):
        raise NotProved("The numbers of places are not those of partners.")
    return symbol, track


def _numbers_partners(track: Track, task: Equality) -> bool:
    """Whether partners, and only these, have one number, in the range of the code."""
    if task.alice is None:
        return track.rule == Across(between=1)
    if not isinstance(track.rule, Listed) or len(track.rule.table) < task.length:
        return False
    table = track.rule.table.tolist()
    first, second = ([table[place] for place in string] for string in task.places)
    return first == second and len({*first}) == len(first) and all(0 <= i < track.code.count for i in first)
