"""S-T13 for disjointness: two layers of one head, and nothing stored for a position."""

from __future__ import annotations

from fractions import Fraction

from separatrix.models.explicit.codes import Digits
from separatrix.models.explicit.positions import Across
from separatrix.tasks.disjointness import Disjointness
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import Program, address_rivals, build, constant, joined
from separatrix.witnesses.witness import Witness

__all__ = ["disjointness"]


def disjointness(task: Disjointness, choices: Choices) -> Witness:
    """Two layers of one head: a_i and b_i read the mean of both, and the next mean tells if one was full.

    a_i and b_i have one address T(i), so both attend to the two of them alike, up to the rivals' weight
    Σ_w A_w e^(−2ηw), where A_w addresses differ from T(i) in w places. The mean is 0, ½ or 1, and a step
    between ½ and 1 that bears an eighth as noise makes it the bit a_i ∧ b_i, exactly. In layer 2 all logits
    are 0: the mean of the bits over all n positions is 0 for disjoint sets and at least 2/n for others,
    since both places of a common element have the bit. The readout compares it with 5/(4n), which is more
    than half so that it stays above 0 where numbers are multiples of 1/n and rounded down.

    Width 2 + ⌈log n/2⌉ with binary addresses. The general construction for thresholds needs a head for each
    of two bits and a list of places; this one uses that the pairs follow a rule and that AND is symmetric.
    """
    code = choices.any_code(task.n // 2)
    program = Program(task)
    bit = program.token("bit", block="bit", code=Digits(count=2))
    pair = program.position("pair", Across(between=0), code)
    with program.layer() as layer:
        mean = layer.select("mean of both", match=[(pair, pair)], value=bit, rivals=address_rivals(code))
        both = layer.step("both", mean, off=Fraction(1, 2), on=1)
    with program.layer() as layer:
        share = layer.average("share", both)
    program.answer_scores(joined([constant([Fraction(5, 4 * task.n)]), share]))
    built = build(program, choices.system)
    return witness_of(built, theorem="S-T13", family="transformer-2")
