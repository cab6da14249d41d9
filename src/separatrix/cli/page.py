"""`separatrix atlas`: write the page and say where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import separatrix
from separatrix.cli.flags import AsJson, Whole
from separatrix.cli.output import printable_line, write_json

__all__ = ["atlas"]


def atlas(
    *,
    out: Annotated[
        Path | None, Parameter(help="Folder for the page, or a file that ends in .html. [default: out/atlas]")
    ] = None,
    results: Annotated[
        Path | None,
        Parameter(help="Folder with bundles of runs to show. [default: those that come with the package]"),
    ] = None,
    n: Annotated[Whole, Parameter(help="Length at which the grand table opens, from 2^4 to 2^30.")] = 1 << 16,
    precision: Annotated[Whole, Parameter(help="Bits of a number at which it opens: 8, 16, 32 or 64.")] = 32,
    budget: Annotated[Whole, Parameter(help="Budget in bits at which it opens, from 2^4 to 2^50.")] = 1 << 17,
    json: AsJson = False,
) -> None:
    """Write the atlas, one page that needs no network, and print its path."""
    path = separatrix.make_atlas(out, results=results, n=n, precision=precision, budget=budget)
    if json:
        write_json({"path": str(path)})
    else:
        print(printable_line(str(path)))
