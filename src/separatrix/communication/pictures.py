"""A matrix as a picture: characters for a terminal, and a file in PNG or SVG.

Small matrices are drawn entry by entry, with Alice's strings beside the rows where there is room. Larger ones
are drawn as shades, each character or pixel the share of ones (or the mean answer) in its part.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from separatrix.communication.entries import UNDEFINED
from separatrix.communication.matrices import CommunicationMatrix
from separatrix.errors import InvalidInput
from separatrix.figures import check_figure, drawn

__all__ = ["check_picture", "save_picture", "terminal_picture"]

_LABELLED_ROWS: Final = 16
_LONGEST_LABEL: Final = 24
_SHADES: Final = " ░▒▓█"
_HALVES: Final = " ▄▀█"
_SYMBOLS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NOTHING: Final = "·"
_MOST_PIXELS: Final = 1024
_UNDEFINED_COLOUR: Final = "#d9b36c"


def terminal_picture(matrix: CommunicationMatrix, *, width: int = 80, most_lines: int = 40) -> list[str]:
    """Lines of at most `width` characters. A one is a full block, a zero a space, no input a dot.

    Answers beyond two are digits and letters. What does not fit entry by entry becomes shades.
    """
    if width < 2 or most_lines < 1:
        raise InvalidInput(f"A picture takes 2 columns and 1 line or more; got {width} and {most_lines}.")
    plain = matrix.total and matrix.values == 2
    if matrix.rows <= min(_LABELLED_ROWS, most_lines) and matrix.columns + 2 <= width:
        return _labelled(matrix, width)
    if matrix.columns <= width and plain and -(-matrix.rows // 2) <= most_lines:
        return _half_blocks(matrix.dense())
    if matrix.columns <= width and matrix.rows <= most_lines and matrix.values <= len(_SYMBOLS):
        return [_line(row, matrix.values) for row in matrix.dense()]
    shares = _shares(matrix, most_rows=most_lines, most_columns=width)
    return ["".join(_shade(share) for share in row) for row in shares]


def check_picture(path: Path) -> str:
    """The format that the end of a name stands for; any other end is refused."""
    return check_figure(path, what="A picture", example="matrix.png")


def save_picture(matrix: CommunicationMatrix, path: Path) -> None:
    """A file, the same to the last byte on every run: ones dark, zeros white, what is no input ochre."""
    kind = check_picture(path)
    shares = _shares(matrix, most_rows=_MOST_PIXELS, most_columns=_MOST_PIXELS)
    with drawn(path, kind, inches=(6.4, 6.4)) as figure:
        from matplotlib import colormaps  # noqa: PLC0415  a heavy import, needed for pictures only

        colours = colormaps["Greys"].with_extremes(bad=_UNDEFINED_COLOUR)
        axes = figure.add_subplot()
        axes.imshow(shares, cmap=colours, vmin=0.0, vmax=1.0, interpolation="nearest", aspect="auto")
        axes.set(
            title=matrix.title,
            xlabel=f"Bob: {matrix.columns:,} strings",
            ylabel=f"Alice: {matrix.rows:,} strings",
            xticks=[],
            yticks=[],
        )


def _labelled(matrix: CommunicationMatrix, width: int) -> list[str]:
    """One line a row, entries as wide as fits, Alice's strings in front."""
    labels = [matrix.row_text(row) for row in range(matrix.rows)]
    longest = max(map(len, labels))
    shown = longest <= _LONGEST_LABEL and longest + 2 + matrix.columns <= width
    room = width - (longest + 2 if shown else 0)
    scale = 2 if 2 * matrix.columns <= room else 1
    lines = []
    for label, row in zip(labels, matrix.dense(), strict=True):
        drawn = "".join(character * scale for character in _line(row, matrix.values))
        lines.append(f"{label:>{longest}}  {drawn}" if shown else drawn)
    return lines


def _line(row: Int[np.ndarray, "column"], values: int) -> str:
    if values == 2:
        return "".join({0: " ", 1: "█"}.get(int(value), _NOTHING) for value in row)
    return "".join(_NOTHING if value == UNDEFINED else _SYMBOLS[int(value) % len(_SYMBOLS)] for value in row)


def _half_blocks(entries: Int[np.ndarray, "row column"]) -> list[str]:
    """Two rows a line."""
    padded = np.pad(entries, ((0, len(entries) % 2), (0, 0)))
    codes = 2 * padded[::2] + padded[1::2]
    return ["".join(_HALVES[code] for code in row) for row in codes]


def _shade(share: float) -> str:
    # Any trace of a one shows, and only what is all ones is full.
    if np.isnan(share):
        return _NOTHING
    if share in {0.0, 1.0}:
        return _SHADES[-1 if share else 0]
    return _SHADES[1 + min(2, int(3 * share))]


def _shares(
    matrix: CommunicationMatrix, *, most_rows: int, most_columns: int
) -> Float[np.ndarray, "line character"]:
    """The mean answer, from 0 to 1, in each part of the matrix; NaN where a part has no input.

    The parts are as equal as whole rows and columns allow.
    """
    height, width = min(matrix.rows, most_rows), min(matrix.columns, most_columns)
    of_column = np.arange(matrix.columns) * width // matrix.columns
    edges = np.searchsorted(of_column, np.arange(width))
    sums, counts = np.zeros((height, width)), np.zeros((height, width))
    for low, block in matrix.blocks():
        known = block != UNDEFINED
        line = (low + np.arange(len(block))) * height // matrix.rows
        answers = np.where(known, block, 0).astype(np.float64)
        np.add.at(sums, line, np.add.reduceat(answers, edges, axis=1))
        np.add.at(counts, line, np.add.reduceat(known.astype(np.float64), edges, axis=1))
    means = np.full_like(sums, np.nan)
    np.divide(sums, counts * (matrix.values - 1), out=means, where=counts > 0)
    return means
