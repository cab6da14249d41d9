"""State collisions: two beginnings that a recurrent model cannot tell apart, so that it errs behind one."""

from __future__ import annotations

import time
from typing import ClassVar, Final, final

import torch

from separatrix.certificates.attacks.hunts import Attack, Hunt
from separatrix.communication.pigeonhole import collide
from separatrix.communication.reductions import reductions_for
from separatrix.errors import InvalidInput

__all__ = ["StateCollisions"]

_SIZES: Final = tuple(1 << power for power in (8, 11, 14, 17, 20))
_GROWTH: Final = 8


@final
class StateCollisions(Attack):
    """The pigeonhole on the model itself, with more and more beginnings while there is time."""

    name: ClassVar[str] = "state collisions"

    def run(self, hunt: Hunt) -> str | None:
        """Both inputs of a collision are judged as any others are."""
        reader, task = hunt.subject.reader, hunt.task
        if not reductions_for(task):
            return None
        if reader is None:
            return "this model carries no state from token to token"
        if any(part.bits_per_position for part in reader.size(task.length, 32).state):
            return "its state grows with the input and keeps everything"
        for most in _SIZES[: hunt.rounds]:
            begun = time.monotonic()
            try:
                found = collide(reader, task, most=most, seed=hunt.seed)
            except InvalidInput as refusal:
                return str(refusal)
            hunt.count(most if found is None else found.tried)
            if found is not None:
                hunt.judge(torch.stack([found.first, found.second]))
                return f"two of {found.tried:,} beginnings lead to the same state"
            if (time.monotonic() - begun) * _GROWTH > hunt.seconds_left:
                break
        return "all beginnings lead to different states"
