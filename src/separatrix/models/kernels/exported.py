"""Recurrences as one loop that exporters know, for the time that somebody exports a model.

Our own operations mean nothing outside this package, and a loop unrolled over a long input takes an exporter
minutes. `scan` is torch's operation for such a loop, and ONNX has one of the same name.

Who exports says so by `exporting()`. torch has a question of its own for it, but to some versions of its
compiler that is also true of a model that is compiled to be trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

__all__ = ["exporting", "is_exporting", "scanned"]

_under_way = False


@contextmanager
def exporting() -> Iterator[None]:
    """While this lasts, models compute with torch's operations alone."""
    global _under_way  # noqa: PLW0603  read by functions that a compiler traces
    before, _under_way = _under_way, True
    try:
        yield
    finally:
        _under_way = before


def is_exporting() -> bool:
    """Whether somebody is exporting the model that is being called."""
    return _under_way


def scanned(
    step: Callable[..., list[Tensor]],
    state: Sequence[Tensor],
    rows: Sequence[Tensor],
    constants: Sequence[Tensor] = (),
) -> list[Tensor]:
    """Outputs of every step, with time as the first axis, as it is that of `rows`.

    `step(*state, *row, *constants)` gives the state after it and then its outputs, none of them twice.
    """
    from torch._higher_order_ops.scan import scan_op  # noqa: PLC0415  seldom needed, and slow to import

    found: Sequence[Tensor] = scan_op(step, list(state), list(rows), tuple(constants))
    return list(found[len(state) :])
