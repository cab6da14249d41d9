"""A transcript beside what must be sent: every bound on messages that speaks of its task and its split."""

from __future__ import annotations

from separatrix.communication.bounds import message_bounds
from separatrix.evidence import ONE_WAY_BITS, Bound, Comparison, Transcript

__all__ = ["comparisons"]


def comparisons(transcript: Transcript) -> tuple[Comparison, ...]:
    """Its bits beside each such bound, the largest first.

    A bound on one message from Alice says nothing of a run in which Bob speaks. Of one in which he does not
    it speaks whatever the model is, though it is listed with the recurrent ones.
    """
    found = [bound for bound in _listed(transcript, transcript.family) if bound.quantity != ONE_WAY_BITS]
    if not transcript.bits_from("Bob"):
        both = (*_listed(transcript, transcript.family), *_listed(transcript, "rnn"))
        found += dict.fromkeys(bound for bound in both if bound.quantity == ONE_WAY_BITS)
    ordered = sorted(found, key=lambda bound: -(bound.at_least or 0))
    return tuple(transcript.compare(bound) for bound in ordered)


def _listed(transcript: Transcript, family: str) -> tuple[Bound, ...]:
    return message_bounds(transcript.task, family, partition=transcript.partition)
