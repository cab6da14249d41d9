"""How far the truth may lie from a count of right answers."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

from separatrix.errors import InvalidInput

__all__ = ["Interval", "wilson"]


class Interval(NamedTuple):
    """The two ends, both included."""

    low: float
    high: float


def wilson(correct: int, examples: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval for the rate behind `correct` right answers among `examples`.

    Unlike the textbook's p ± z·√(p(1 − p)/n) it never leaves [0, 1], and it has a width where all answers
    are right, which is where trained models end up.
    """
    whole = all(isinstance(count, int) and not isinstance(count, bool) for count in (correct, examples))
    if not whole or examples < 1 or not 0 <= correct <= examples:
        raise InvalidInput(
            f"An interval needs at least one example and as many right answers at most; got {correct} "
            f"right of {examples}."
        )
    if not 0 < confidence < 1:
        raise InvalidInput(f"A confidence lies between 0 and 1; got {confidence}. Try 0.95.")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    middle = correct + z * z / 2
    reach = z * math.sqrt(correct * (examples - correct) / examples + z * z / 4)
    # With no right answer both are z²/2 to the last bit, as √(z²) is z; with all right, rounding would tell.
    low = (middle - reach) / (examples + z * z)
    high = 1.0 if correct == examples else (middle + reach) / (examples + z * z)
    return Interval(low, high)
