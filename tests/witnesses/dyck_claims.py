"""What the recurrent construction for bounded Dyck promises, in the numbers of its proof."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from separatrix.models.explicit.recurrent_tokens import Activation
from separatrix.tasks.dyck import Dyck
from separatrix.witnesses.dyck_rnn import EXACT, GAIN

__all__ = ["DyckClaims", "dyck_rnn_claims"]


@dataclass(frozen=True, kw_only=True)
class DyckClaims:
    """What the construction promises about every string of every length."""

    state_numbers: int
    automaton_states: int
    gain: int | None
    unit_error: Fraction
    """ε: units stay so close to 0 or 1."""
    state_error: Fraction
    """δ: entries of the state stay so close to the automaton's."""
    margin: Fraction
    """What is left of the distance ½ from the threshold, before the gain."""

    def contracts(self) -> bool:
        """Whether errors below ε come back below ε/4 after a step, for ever.

        For the logistic function that is 1 + e^(gain·margin) ≥ 4/ε; where ε is 0, ReLU needs no gain and the
        hard sigmoid must be beyond 3.
        """
        if self.unit_error == 0:
            return self.gain is None or self.gain * self.margin >= 3
        assert self.gain is not None
        return 1 + _exp_below(self.gain * self.margin) >= 4 / self.unit_error


def dyck_rnn_claims(task: Dyck, *, activation: Activation = "relu") -> DyckClaims:
    """The counts and the error bounds for this many types and this depth."""
    types, depth = task.types, task.depth
    exact = activation in EXACT
    unit_error = Fraction(0) if exact else Fraction(1, 4 * (types + 1) * (types + 2))
    state_error = (types + 2) * unit_error
    return DyckClaims(
        state_numbers=types * depth + 1,
        automaton_states=depth + 2 if types == 1 else (types ** (depth + 1) - 1) // (types - 1) + 1,
        gain=None if activation == "relu" else GAIN,
        unit_error=unit_error,
        state_error=state_error,
        margin=Fraction(1, 2) - (types + 1) * state_error,
    )


def _exp_below(exponent: Fraction) -> Fraction:
    """The first terms of the series, which are less than e to the exponent."""
    total = term = Fraction(1)
    for place in range(1, 40):
        term *= exponent / place
        total += term
    return total
