"""`python3 -m separatrix.experiments NAME …`: reproduce figures where there is little more than torch.

One JSON object a figure goes to standard output, everything else to standard error. Run again, it goes on
where it was cut off.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from separatrix.errors import SeparatrixError
from separatrix.experiments import EXPERIMENTS, study_of
from separatrix.experiments.asked import usual_lanes
from separatrix.experiments.cells import chosen
from separatrix.experiments.local import LocalEngine
from separatrix.experiments.protocols import Lengths, Settings
from separatrix.experiments.reproducing import reproduce
from separatrix.store import Store, default_place
from separatrix.training.views import LinesView, in_one_line

__all__ = ["main"]

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Reproduce the figures named: 0 if all is there, 1 if a job failed or time ran out, 2 for bad input."""
    options = _parser().parse_args(argv)
    try:
        settings = Settings(
            budget=options.budget,
            grid=options.grid,
            halving=not options.no_halving,
            lengths=options.lengths,
            seeds=tuple(options.seeds),
        )
        studies = [
            chosen(
                study_of(name, settings), panels=options.panels, rows=options.rows, columns=options.columns
            )
            for name in options.names
        ]
        store = Store(default_place() if options.store is None else options.store)
        engine = LocalEngine(
            device=options.device,
            processes=options.processes,
            abreast=options.abreast
            if options.abreast is not None
            else usual_lanes(options.budget, processes=options.processes),
            with_room=options.abreast is None,
            minutes=options.minutes,
            observer=LinesView(sys.stderr),
        )
        whole = True
        for study in studies:
            found = reproduce(study, store, engine=engine, device=options.device, tell=_say)
            print(json.dumps(found.outcome.to_fields(), allow_nan=False), flush=True)
            for failure in found.failed:
                _say(f"Failed: {failure.job.short_name}: {failure.reason}")
            whole = whole and not found.failed and not found.interrupted
    except KeyboardInterrupt:
        _say("Interrupted; run the same again to go on from the last checkpoint.")
        return _INTERRUPTED
    except SeparatrixError as error:
        _say(str(error))
        return 2
    return 0 if whole else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m separatrix.experiments",
        description="Reproduce figures of the papers. Run again, it goes on where it was cut off.",
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help=", ".join(EXPERIMENTS.names()))
    parser.add_argument("--budget", choices=("smoke", "quick", "paper"), default="smoke")
    parser.add_argument("--grid", choices=("final", "full"), default="final", help="architectures to try")
    parser.add_argument("--no-halving", action="store_true", help="let every member take all its steps")
    parser.add_argument(
        "--lengths",
        choices=get_args(Lengths),
        default="pairs",
        help="all in every step, in bands that take turns, or two inputs a row; bands with --budget paper",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--panels", nargs="+", default=[], help="only these")
    parser.add_argument("--rows", nargs="+", default=[], help="only these, whole or by their beginning")
    parser.add_argument("--columns", type=int, nargs="+", default=[], help="only these")
    parser.add_argument("--store", type=Path, help="folder of the store [$SEPARATRIX_STORE, or runs]")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:1")
    parser.add_argument(
        "--processes", type=int, default=1, help="jobs at once, side by side on one GPU too (MPS)"
    )
    parser.add_argument(
        "--abreast",
        type=int,
        help="jobs at once on one GPU, in one process [4 for paper on a GPU of 120 GB, else 1]",
    )
    parser.add_argument("--minutes", type=float, help="end after so long; the rest is for the next call")
    return parser


def _say(text: str) -> None:
    print(in_one_line(text), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
