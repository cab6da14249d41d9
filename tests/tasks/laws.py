"""Whether samples follow a stated law, by Pearson's statistic."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

__all__ = ["follow"]


def follow(samples: Iterable[Hashable], law: Mapping[Any, float]) -> bool:
    """Whether the statistic stays within five standard deviations of its mean; weights need not sum to 1."""
    seen = Counter(samples)
    share = sum(seen.values()) / sum(law.values())
    least = min(law.values()) * share
    assert least >= 20, f"{least:.1f} samples in the rarest case are too few to judge by"
    freedom = len(law) - 1
    statistic = sum((seen[case] - weight * share) ** 2 / (weight * share) for case, weight in law.items())
    return set(seen) <= set(law) and statistic <= freedom + 5 * math.sqrt(2 * freedom)
