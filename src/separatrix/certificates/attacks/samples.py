"""Random samples of the task: what every attack is compared with."""

from __future__ import annotations

from typing import ClassVar, Final, final

from separatrix.certificates.attacks.hunts import Attack, Hunt

__all__ = ["RandomSamples"]

_FIRST_SAMPLE: Final = 3 << 40


@final
class RandomSamples(Attack):
    """As many inputs as asked for, as the task samples them."""

    name: ClassVar[str] = "random samples"

    def __init__(self, count: int) -> None:
        self._count = count

    def run(self, hunt: Hunt) -> str | None:
        """All of them, however many fail."""
        step = hunt.subject.at_once
        for low in range(0, self._count, step):
            batch = hunt.task.sample(min(step, self._count - low), seed=hunt.seed, start=_FIRST_SAMPLE + low)
            hunt.judge(batch.inputs, batch.labels)
        return ""
