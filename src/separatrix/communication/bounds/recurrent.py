"""From one message to the state of a recurrent model.

Alice runs the model on her prefix and sends its state; Bob runs it on from there (S-T2). So a state has at
least as many bits as the message that the problem needs. What the model writes itself behind Bob's suffix,
however long, depends on that state alone, and a chain of thought changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from separatrix.communication.bounds.interface import STATE_BITS, Ask
from separatrix.evidence import ONE_WAY_BITS, Bound, Via

__all__ = ["state_bounds"]


def state_bounds(
    ask: Ask,
    bits: int | Fraction,
    needs: str,
    *,
    growth: str,
    via: Via,
    formula: str = "",
    split: str = "",
    assuming: tuple[str, ...] | None = None,
) -> Iterator[Bound]:
    """So many bits of state; and of a message, where the argument splits the input as the task itself does.

    `needs` is the number as one writes it, and `growth` without its constants; `formula` is given where it is
    the theorem's own.
    """
    for quantity, written, partition in (
        (STATE_BITS, formula or f"mp ≥ {needs}", ""),
        (ONE_WAY_BITS, f"one message ≥ {needs}", split),
    ):
        if quantity == STATE_BITS or split:
            yield ask.says(
                quantity,
                bits,
                asymptotic=f"Ω({growth})",
                formula=written,
                via=via,
                assuming=assuming,
                partition=partition,
            )
