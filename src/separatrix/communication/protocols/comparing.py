"""A transcript beside what must be sent: every bound on messages that speaks of its task and its split."""

from __future__ import annotations

from separatrix.communication.bounds import message_bounds
from separatrix.evidence import ONE_WAY_BITS, Comparison, Transcript

__all__ = ["comparisons"]


def comparisons(transcript: Transcript) -> tuple[Comparison, ...]:
    """Its bits beside each such bound, the largest first.

    A bound on one message from Alice says nothing of a run in which Bob speaks.
    """
    two_way = bool(transcript.bits_from("Bob"))
    found = [
        bound
        for bound in message_bounds(transcript.task, transcript.family, partition=transcript.partition)
        if not (two_way and bound.quantity == ONE_WAY_BITS)
    ]
    ordered = sorted(found, key=lambda bound: -(bound.at_least or 0))
    return tuple(transcript.compare(bound) for bound in ordered)
