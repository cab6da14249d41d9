"""`separatrix atlas`: write the page and say where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import separatrix
from separatrix.cli.flags import AsJson, Whole
from separatrix.cli.output import note, printable_line, write_json

__all__ = ["atlas"]


def atlas(
    *,
    out: Annotated[
        Path | None, Parameter(help="Folder for the page, or a file that ends in .html. [default: out/atlas]")
    ] = None,
    results: Annotated[
        Path | None,
        Parameter(help="Bundle of runs to show, or a folder of bundles. [default: those of the package]"),
    ] = None,
    n: Annotated[Whole, Parameter(help="Length at which the grand table opens, from 2^4 to 2^30.")] = 1 << 16,
    precision: Annotated[Whole, Parameter(help="Bits of a number at which it opens: 8, 16, 32 or 64.")] = 32,
    budget: Annotated[Whole, Parameter(help="Budget in bits at which it opens, from 2^4 to 2^50.")] = 1 << 17,
    json: AsJson = False,
) -> None:
    """Write the atlas, one page that needs no network, and print its path."""
    path = separatrix.make_atlas(out, results=results, n=n, precision=precision, budget=budget)
    if results is not None:
        _say_what_is_left_out(results)
    if json:
        write_json({"path": str(path)})
    else:
        print(printable_line(str(path)))


def _say_what_is_left_out(results: Path) -> None:
    """The page shows runs where an experiment asks for them; whoever names others should know."""
    from separatrix.atlas.experiments import kept_in, runs_of
    from separatrix.experiments import EXPERIMENTS, study_of
    from separatrix.experiments.protocols import Settings

    known = kept_in(results).known
    if not known.runs:
        if not known.series:
            note(f"No runs in '{results}'; `separatrix runs bundle --out FOLDER` writes a bundle to show.")
        return
    studies = [study_of(name, Settings(budget="paper")) for name in EXPERIMENTS.names()]
    shown = {run.key for study in studies for run in runs_of(study, known.runs)}
    count = len(known.runs)
    if len(shown) < count:
        note(
            f"{len(shown):,} of the {count:,} run{'s' if count > 1 else ''} in '{results}' "
            f"{'is' if len(shown) == 1 else 'are'} shown: the atlas has those that answer an experiment of "
            "`separatrix reproduce`."
        )
