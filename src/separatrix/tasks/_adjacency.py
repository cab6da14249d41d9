"""Graphs as 0/1 matrices, for the tasks on cycles: random edges, the text, the check, the numbering."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.randomness import Draws
from separatrix.tasks.domains import digits
from separatrix.tasks.interface import require

__all__ = [
    "check_graph",
    "decode_graph",
    "few_bits",
    "halving_density",
    "parse_graph",
    "random_edges",
    "render_graph",
    "require_density",
    "symmetric",
]

_LONGEST_TEXT = 1 << 24


def require_density(name: str, density: float) -> None:
    """Refuse what is neither 0, for automatic, nor a probability that 32 bits can tell from 0 and 1."""
    require(
        density == 0 or 2**-32 <= density <= 1 - 2**-32,
        f"{name} needs a density between 0 and 1, or 0 for an automatic one; got density={density}. Try 0.2.",
    )


def random_edges(draws: Draws, site: str, count: int, density: float) -> Bool[Tensor, "batch count"]:
    """Independent coins that are true with probability `density`, to the nearest multiple of 2^-32.

    A density with few binary places takes few random bits.
    """
    numerator = round(density * 2**32)
    spare = (numerator & -numerator).bit_length() - 1
    if spare == 0:
        return draws.words(site, count) < numerator
    return draws.integers(site, (count,), 1 << (32 - spare)) < numerator >> spare


def few_bits(density: float) -> float:
    """The density rounded to six significant bits, which is within 1 part in 64."""
    mantissa, exponent = math.frexp(density)
    return math.ldexp(round(mantissa * 64) / 64, exponent)


def halving_density(share: Callable[[float], float]) -> float:
    """Where a share that grows with the density passes one half, to six significant bits."""
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle) < 0.5 else (low, middle)
    return few_bits(high)


def symmetric(edges: Bool[Tensor, "batch pair"], n: int) -> Float[Tensor, "batch n n"]:
    """The matrix whose entries above the diagonal are given row by row."""
    vertex = torch.arange(n, device=edges.device)
    low = torch.minimum(vertex.unsqueeze(1), vertex)
    high = torch.maximum(vertex.unsqueeze(1), vertex)
    # Row `low` of the upper triangle begins behind n − 1, n − 2, … entries of the rows before it.
    pair = low * n - low * (low + 1) // 2 + high - low - 1
    matrix = edges.float().index_select(1, pair.clamp_(min=0).flatten()).view(-1, n, n)
    matrix.diagonal(dim1=1, dim2=2).zero_()
    return matrix


def decode_graph(numbers: Int[Tensor, "batch"], n: int, *, directed: bool) -> Float[Tensor, "batch n n"]:
    """The graph with this number: one binary digit for each possible edge."""
    edges = digits(numbers, [2] * (n * (n - 1) // (1 if directed else 2)))
    if not directed:
        return symmetric(edges.bool(), n)
    matrix = torch.zeros(len(numbers), n, n, dtype=torch.float32, device=numbers.device)
    row, column = (~torch.eye(n, dtype=torch.bool, device=numbers.device)).nonzero(as_tuple=True)
    matrix[:, row, column] = edges.float()
    return matrix


def check_graph(name: str, matrix: Float[Tensor, "n n"], *, directed: bool) -> None:
    """Refuse a matrix that is no adjacency matrix of a graph without loops."""
    require(
        bool(((matrix == 0) | (matrix == 1)).all()),
        f"{name} needs entries 0 or 1; got {_first(matrix, (matrix != 0) & (matrix != 1))}.",
    )
    loops = matrix.diagonal().nonzero()
    require(len(loops) == 0, f"{name} has no loops; got one at vertex {_plus_one(loops)}.")
    if not directed:
        lonely = (matrix != matrix.mT).nonzero()
        require(
            len(lonely) == 0,
            f"{name} needs a symmetric matrix; entry {_plus_one(lonely)} differs from its mirror image.",
        )


def render_graph(matrix: Float[Tensor, "n n"], *, directed: bool) -> str:
    """How many vertices, then the edges, from vertex 1 on: `3: 1>2 2>3`, or `3: 1-2 2-3` if undirected."""
    link = ">" if directed else "-"
    edges = [(tail, head) for tail, head in matrix.nonzero().tolist() if directed or tail < head]
    return " ".join([f"{len(matrix)}:", *(f"{tail + 1}{link}{head + 1}" for tail, head in edges)])


def parse_graph(text: str, n: int, *, directed: bool) -> Float[Tensor, "n n"]:
    """The matrix a text describes; edges may stand in any order, and undirected ones either way round."""
    require(
        len(text) <= _LONGEST_TEXT, f"A text has at most {_LONGEST_TEXT:,} characters; got {len(text):,}."
    )
    link = ">" if directed else "-"
    count, colon, edges = text.partition(":")
    require(
        bool(colon) and count.strip() == str(n),
        f"A graph of this task begins with '{n}:', for its vertices; got '{_shorten(text.strip())}'.",
    )
    found: set[tuple[int, int]] = set()
    for edge in edges.split():
        ends = re.fullmatch(rf"([1-9][0-9]{{0,5}}){link}([1-9][0-9]{{0,5}})", edge, re.ASCII)
        if ends is None:
            raise InvalidInput(f"An edge is written like 1{link}2; got '{_shorten(edge)}'.")
        tail, head = int(ends[1]) - 1, int(ends[2]) - 1
        require(max(tail, head) < n, f"The vertices are 1 to {n}; got the edge {edge}.")
        require(tail != head, f"An edge joins two different vertices; got {edge}.")
        require((tail, head) not in found, f"Each edge is written once; got {edge} a second time.")
        found |= {(tail, head)} if directed else {(tail, head), (head, tail)}
    tails, heads = torch.tensor(sorted(found), dtype=torch.int64).view(-1, 2).unbind(1)
    matrix = torch.zeros(n, n, dtype=torch.float32)
    matrix[tails, heads] = 1
    return matrix


def _first(matrix: Tensor, wrong: Tensor) -> float:
    return float(matrix[wrong][0]) if bool(wrong.any()) else 0.0


def _plus_one(places: Tensor) -> str:
    return ", ".join(str(index + 1) for index in places[0].tolist()) if len(places) else ""


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}…"
