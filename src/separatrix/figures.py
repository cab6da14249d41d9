"""Figures as files: drawn the same to the last byte on every run, in the font that comes with matplotlib."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from separatrix.errors import InvalidInput
from separatrix.files import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CURVES", "check_figure", "drawn", "encoded", "styled"]

_FORMATS: Final = {".svg": "svg", ".png": "png"}
_SAME_EVERYWHERE: Final = {
    "svg.hashsalt": "separatrix",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,  # TrueType, which journals take where they refuse matplotlib's own type 3
    "font.family": "DejaVu Sans",
}
_UNDATED: Final[Mapping[str, Mapping[str, str | None]]] = {
    "svg": {"Date": None, "Creator": "separatrix"},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": "separatrix", "Producer": None},
}
_DOTS_PER_INCH: Final = 144
CURVES: Final[Mapping[str, object]] = MappingProxyType(
    {
        "font.size": 10.0,
        "axes.spines.top": False,
        "axes.grid": True,
        "legend.frameon": False,
    }
)
"""The look of a figure with curves."""


def check_figure(path: Path, *, what: str = "A figure", example: str) -> str:
    """The format that the end of a name stands for; `InvalidInput` for any other end.

    `what` and `example`, a name that would do, are for the sentence that refuses.
    """
    kind = _FORMATS.get(Path(path).suffix.lower())
    if kind is None:
        raise InvalidInput(
            f"{what} is a file that ends in {' or '.join(_FORMATS)}; got {Path(path).name[:80]!r}. "
            f"Try {example}."
        )
    return kind


@contextmanager
def drawn(
    path: Path, kind: str, *, inches: tuple[float, float], look: Mapping[str, object] | None = None
) -> Iterator[Figure]:
    """An empty figure of so many inches, written to `path` when the block ends well.

    `kind` is what `check_figure` said; `look` are settings of matplotlib, in place of any that a user or
    another program has made.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415  a heavy import, needed for figures only

    with styled(look):
        figure = Figure(figsize=inches, layout="constrained")
        yield figure
        content = encoded(figure, kind)
    replace_file(Path(path), content)


@contextmanager
def styled(look: Mapping[str, object] | None = None) -> Iterator[None]:
    """Settings of matplotlib that are the same everywhere, and `look` over them, while the block lasts."""
    import matplotlib as mpl  # noqa: PLC0415  a heavy import, needed for figures only

    settings: dict[Any, object] = {**_SAME_EVERYWHERE, **(look or {})}  # its keys are typed as literals
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(settings)
        yield


def encoded(figure: Figure, kind: str) -> bytes:
    """A figure as the bytes of an SVG, PNG or PDF file, without date and maker; call it within `styled`."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=_DOTS_PER_INCH, metadata=dict(_UNDATED[kind]))
    return buffer.getvalue()
