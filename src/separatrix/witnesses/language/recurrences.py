"""Memories: what a linear recurrence keeps of the tokens so far.

The transition is a constant matrix and the feed a linear form of the token's own numbers. So a memory can
shift, add up and turn round, and nothing that it does depends on what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from separatrix.witnesses.language.forms import Exact, Field, Linear, Matrix, identity, joined, zeros
from separatrix.witnesses.language.operations import Memory

__all__ = ["linear", "running_sum", "window"]


def window(result: Callable[[int], Field], form: Linear, *, length: int) -> Memory:
    """A shift register: the token's own numbers come in first, all others move one place on."""
    assert length >= 1, "a window looks back"
    width = form.out
    size = (length + 1) * width
    transition = zeros(size, size)
    for place in range(width, size):
        transition[place, place - width] = Fraction(1)
    output = zeros(length * width, size)
    for place in range(length * width):
        output[place, place + width] = Fraction(1)
    nothing = Linear({}, (Fraction(0),) * (length * width))
    return Memory(
        result=result(length * width),
        transition=transition,
        feed=joined([form, nothing]),
        output=output,
        text=f"{form} of the {length} tokens before this one",
    )


def running_sum(result: Callable[[int], Field], form: Linear) -> Memory:
    """The sum of all there was, the token's own numbers among it."""
    return Memory(
        result=result(form.out),
        transition=identity(form.out),
        feed=form,
        output=identity(form.out),
        text=f"the sum of {form} so far",
    )


def linear(
    result: Callable[[int], Field],
    feed: Linear,
    *,
    transition: Sequence[Sequence[Exact]],
    output: Sequence[Sequence[Exact]],
) -> Memory:
    """A recurrence given by its matrices."""
    inner, outer = _exact(transition), _exact(output)
    assert inner.shape == (feed.out, feed.out), "a transition is as large as the state"
    assert outer.shape[1] == feed.out, "all of the state can be read"
    return Memory(
        result=result(len(outer)),
        transition=inner,
        feed=feed,
        output=outer,
        text=f"a recurrence of {feed.out} numbers that reads {feed}",
    )


def _exact(rows: Sequence[Sequence[Exact]]) -> Matrix:
    matrix = zeros(len(rows), len(rows[0]) if len(rows) else 0)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            matrix[i, j] = Fraction(value)
    return matrix
