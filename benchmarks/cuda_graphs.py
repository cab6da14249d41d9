"""Work recorded in a CUDA graph, so that launches from Python do not count."""

from __future__ import annotations

from collections.abc import Callable

import torch

__all__ = ["captured"]


def captured(work: Callable[[], object]) -> Callable[[], None]:
    """The same work as one replay of a graph; what it reads stays alive as long as this does."""
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()

    def replay(_: Callable[[], object] = work) -> None:
        graph.replay()

    return replay
