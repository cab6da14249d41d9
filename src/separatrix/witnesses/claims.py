"""From a built program to a witness: its claims are the obligations of its heads and gadgets."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from separatrix.evidence import Claim
from separatrix.generation.scripts import Script
from separatrix.witnesses.language import Built, Program
from separatrix.witnesses.language.scales import leak_borne
from separatrix.witnesses.witness import Witness

__all__ = ["claims_of", "witness_of"]


def witness_of(
    built: Built, *, theorem: str, family: str, variant: str = "", script: Script | None = None
) -> Witness:
    """The witness that a built program is, of this theorem for its own task."""
    return Witness(
        task=built.program.task,
        theorem=theorem,
        family=family,
        variant=variant,
        model=built.model,
        claims=claims_of(built, source=theorem),
        built=built,
        script=script,
    )


def claims_of(built: Built, *, source: str) -> tuple[Claim, ...]:
    """What a certificate has to prove about the weights, in words and thresholds; nothing is proven here."""
    return tuple(_claims(built.program, source))


def _claims(program: Program, source: str) -> Iterator[Claim]:
    for number, layer in enumerate(program.layers, start=1):
        for head in layer.heads:
            if head.hard:
                yield Claim(
                    name=f"layer {number}: {head.result.name}, lead",
                    statement=f"where {head.result.name} is read, its target leads all rivals at scale 1",
                    relation=">=",
                    threshold=min(rival.gap for rival in head.rivals),
                    unit="of the logit",
                    source=source,
                )
            elif head.selects:
                yield Claim(
                    name=f"layer {number}: {head.result.name}, weight of the rivals",
                    statement=f"where {head.result.name} is read, its rivals together have little weight",
                    relation="<=",
                    threshold=Fraction(leak_borne(program, head)),
                    unit="of the attention",
                    source=source,
                )
        for gadget in layer.gadgets:
            duty = gadget.obligation
            yield Claim(
                name=f"layer {number}: {gadget.result.name}, {duty.name}",
                statement=f"where {gadget.result.name} is read, {duty.statement}",
                relation=duty.relation,
                threshold=duty.threshold,
                unit=duty.unit,
                source=source,
            )
