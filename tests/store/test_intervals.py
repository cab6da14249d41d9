from __future__ import annotations

from typing import Any

import pytest

from separatrix.errors import InvalidInput
from separatrix.store.intervals import wilson


@pytest.mark.parametrize(
    ("correct", "examples", "low", "high"),
    [
        # By hand: (p + z²/2n ± z·√(p(1 − p)/n + z²/4n²)) / (1 + z²/n) with z = 1.959964, z² = 3.841459.
        (8, 10, 0.490162, 0.943318),
        (50, 100, 0.403832, 0.596168),
        (1, 1, 0.206549, 1.0),
        (0, 1, 0.0, 0.793451),
        (990, 1000, 0.981691, 0.994559),
    ],
)
def test_hand_values(correct: int, examples: int, low: float, high: float) -> None:
    assert wilson(correct, examples) == pytest.approx((low, high), abs=1e-6)


@pytest.mark.parametrize("examples", [1, 2, 3, 7, 1000, 10**6, 10**12])
def test_the_edges_are_exact(examples: int) -> None:
    for confidence in (0.95, *(step / 100 for step in range(1, 100))):
        assert wilson(0, examples, confidence).low == 0.0
        assert wilson(examples, examples, confidence).high == 1.0
    assert wilson(0, examples).high == pytest.approx(3.841459 / (examples + 3.841459), rel=1e-6)
    assert wilson(0, examples).high + wilson(examples, examples).low == pytest.approx(1)


def test_it_holds_the_rate_and_grows_with_confidence() -> None:
    for correct in range(31):
        narrow, wide = wilson(correct, 30, 0.5), wilson(correct, 30, confidence=0.999)
        assert 0 <= wide.low <= narrow.low <= correct / 30 <= narrow.high <= wide.high <= 1


@pytest.mark.parametrize("wrong", [(0, 0), (2, 1), (-1, 4), (1.0, 2), (True, 2), (1, 2, 0.0), (1, 2, 1.0)])
def test_what_is_no_count_is_refused(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidInput, match=r"An interval needs|A confidence lies"):
        wilson(*wrong)
