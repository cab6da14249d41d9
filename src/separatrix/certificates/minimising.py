"""The smallest witness that can be proven: address code, scale and precision chosen together."""

from __future__ import annotations

from typing import Literal, get_args

from separatrix.certificates.certifying import certify
from separatrix.certificates.searching import (
    FEWEST_BITS,
    LADDERS,
    MOST_BITS,
    Construction,
    construction_for,
    first_proved,
    ladder_below,
)
from separatrix.errors import InvalidInput
from separatrix.evidence import Certificate
from separatrix.tasks import Task
from separatrix.witnesses import Witness
from separatrix.witnesses.choices import Addresses

__all__ = ["Objective", "minimised"]

Objective = Literal["bits", "width", "precision"]

Cost = tuple[int, int, int]


def minimised(
    task: Task, *, family: str | None = None, variant: str | None = None, by: Objective
) -> tuple[Witness, Certificate]:
    """The witness with least parameter bits, width or precision among those that are proven, and its proof.

    Bits are those of all parameters, embeddings counted. Ties are broken by the two other measures. Tried
    are the address codes where the construction has addresses, and for each the systems of few bits first:
    fixed point rounded to nearest or down (there with a power of two as the step), then floats. The scales
    follow from both choices.
    """
    if by not in get_args(Objective):
        raise InvalidInput(
            f"A witness is minimised by {', '.join(get_args(Objective))}; got {str(by)[:40]!r}. Try bits."
        )
    construction = construction_for(task, family, variant)
    best: Witness | None = None
    for codes in construction.codes():
        for addresses in codes:
            limit = MOST_BITS if best is None else _bits_to_beat(construction, addresses, best, by)
            if limit <= FEWEST_BITS:
                break  # and longer words lose as well
            found = _least_precise(construction, addresses, limit)
            if found is not None and (best is None or _cost(found, by) < _cost(best, by)):
                best = found
    if best is None:
        raise InvalidInput(
            f"No choice of numbers and addresses gave weights for {task.name} with n={task.n} that could be "
            "proven right on every input; take a smaller n."
        )
    certificate = certify(best)
    assert certificate.verdict == "proved", "what was proven a moment ago is proven again"
    return best, certificate


def _cost(witness: Witness, by: Objective) -> Cost:
    size = witness.size
    bits, width, precision = size.parameter_bits, size.width, size.precision_bits
    return {"bits": (bits, width, precision), "width": (width, bits, precision)}.get(
        by, (precision, bits, width)
    )


def _bits_to_beat(construction: Construction, addresses: Addresses, best: Witness, by: Objective) -> int:
    """With such addresses, a number must have fewer bits than this for the weights to be better."""
    if by == "precision":
        return best.size.precision_bits
    sample = construction.built(construction.default.arithmetic, addresses)
    if sample is None:
        return MOST_BITS
    if by == "width" and sample.size.width != best.size.width:
        return MOST_BITS if sample.size.width < best.size.width else 0
    return -(-best.size.parameter_bits // sample.size.parameters)


def _least_precise(construction: Construction, addresses: Addresses, limit: int) -> Witness | None:
    """The proven witness with such addresses that has the fewest bits a number, if fewer than the limit."""
    found: Witness | None = None
    for kind in LADDERS:
        witness = first_proved(
            ladder_below(kind, limit),
            lambda system: construction.proved(system, addresses),
            limited=limit < MOST_BITS,
        )
        if witness is not None:
            found, limit = witness, witness.size.precision_bits
    return found
