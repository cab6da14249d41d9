"""`python3 -m separatrix.training PLAN.json`: run a plan where there is little more than torch.

A plan is what `separatrix train --save-plan` writes. Its jobs are done in order, one by one or several
abreast; what came of each member is a line of JSON on standard output, everything else goes to standard
error. Run again, it goes on where it was cut off. SIGTERM ends it as it ends any program, but what was
trained is saved first.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from separatrix.errors import InvalidFile, InvalidInput, SeparatrixError
from separatrix.models.kernels.choice import BACKENDS
from separatrix.models.specs import is_own
from separatrix.records import MOST_BYTES, parse_json
from separatrix.store import Store, default_place, has_store
from separatrix.training.abreast import Lane, Lanes, run_abreast
from separatrix.training.ahead import compiling_ahead
from separatrix.training.jobs import Job, Plan
from separatrix.training.memory import ran_out
from separatrix.training.remembered import is_finished
from separatrix.training.running import chosen_device, placing_for, prepare_job, run_job
from separatrix.training.trials import require_computable
from separatrix.training.views import LinesView, in_one_line, summary_of

__all__ = ["main", "read_plan"]

_INTERRUPTED: Final = 130
_WRITING: Final = threading.Lock()
"""Held by who writes results: jobs abreast are threads."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the plan that the words name; the exit code is 0, 2 for bad input, or 130 after Ctrl-C."""
    options = _parser().parse_args(argv)
    try:
        plan = read_plan(options.plan)
        place = default_place() if options.store is None else options.store
        for job in plan.jobs:  # what cannot be trained is refused before hours have gone into the rest
            _check(job, options, place)
        if options.prepare:
            for job in plan.jobs:
                prepare_job(
                    job,
                    device=options.device,
                    seats=options.seats,
                    backend=options.backend,
                    own_code=options.own_code,
                )
            return 0
        _train(plan, Store(place), options)
    except KeyboardInterrupt:
        _say("Interrupted; run the same again to go on from the last checkpoint.")
        return _INTERRUPTED
    except BrokenPipeError:  # nobody reads the results any more; the store has them
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except SeparatrixError as error:
        _say(str(error))
        return 2
    except (MemoryError, RuntimeError) as error:
        if not ran_out(error):
            raise
        _say("This does not fit in memory; give fewer --seats, or a plan with a smaller model, batch or n.")
        return 2
    return 0


def read_plan(path: Path) -> Plan:
    """The plan in a file, read strictly: it may be a stranger's."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as failure:  # a null in the name is a ValueError
        reason = (failure.strerror if isinstance(failure, OSError) else None) or failure
        raise InvalidFile(f"The plan '{path}' cannot be read: {reason}.") from failure
    return Plan.from_json(parse_json(content, what=f"the plan '{path}'"))


def _check(job: Job, options: argparse.Namespace, place: Path) -> None:
    if is_own(job.model.name) and not options.own_code:
        raise InvalidInput(
            f"The model {job.model.name} is made by code of its own; add --own-code if you trust it."
        )
    job.population(1, own_code=options.own_code)
    placing = placing_for(
        job,
        device=options.device,
        seats=options.seats,
        backend=options.backend,
        own_code=options.own_code,
    )
    if not has_store(place):  # what another machine has trained need not fit here
        require_computable(job, placing)


def _train(plan: Plan, store: Store, options: argparse.Namespace) -> None:
    """Job after job, or several abreast; deterministic code is another, and is compiled when it is needed."""
    alone = options.no_compile or options.no_ahead or options.deterministic
    # That operations are to be deterministic is said to the whole process, so such jobs go one by one.
    lanes = 1 if options.deterministic else max(1, min(len(plan.jobs), options.abreast))
    with compiling_ahead(
        [job for job in plan.jobs if not is_finished(job, store)],
        device=options.device,
        seats=options.seats,
        compiled=False if alone else None,
        backend=options.backend,
        own_code=options.own_code,
        lanes=lanes,
        tell=_say,
    ) as ahead:
        came = _abreast(plan, store, options, lanes) if lanes > 1 else Lanes()
        ended = {job.key for job in came.done} | {job.key for job, _ in came.failed}
        for number, job in enumerate(plan.jobs):
            if job.key not in ended or plan.jobs.index(job) < number:
                ahead.making_room(partial(_run, number, job, store, options))
    if came.failed:
        raise InvalidInput(f"Of {len(plan.jobs):,} jobs {len(came.failed):,} failed, for the reasons above.")


def _abreast(plan: Plan, store: Store, options: argparse.Namespace, lanes: int) -> Lanes:
    """Do the jobs so many at once, each of them once."""
    return run_abreast(
        list({job.key: job for job in plan.jobs}.values()),
        lambda job, lane: _run(plan.jobs.index(job), job, store, options, lane),
        lanes=lanes,
        device=chosen_device(options.device),
        tell=_say,
    )


def _run(number: int, job: Job, store: Store, options: argparse.Namespace, lane: Lane | None = None) -> None:
    view = LinesView(sys.stderr)
    trained = run_job(
        job,
        store=store,
        device=options.device,
        seats=options.seats,
        compiled=False if options.no_compile else None,
        backend=options.backend,
        deterministic=options.deterministic,
        observer=view if lane is None else view.beside(job),
        turn=None if lane is None else lane.turn,
        is_over=(lambda: False) if lane is None else lane.is_over,
        shared=options.shared,
        own_code=options.own_code,
    )
    lines = [json.dumps({"job": number, **summary_of(job, one)}, allow_nan=False) for one in trained]
    with _WRITING:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m separatrix.training",
        description="Train what a plan says, job after job. Run again, it goes on where it was cut off.",
    )
    parser.add_argument("plan", type=Path, help="a file that `separatrix train --save-plan` wrote")
    parser.add_argument("--store", type=_folder, help="folder of the store [$SEPARATRIX_STORE, or runs]")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:1")
    parser.add_argument("--seats", type=_seats, help="most members trained side by side")
    parser.add_argument("--abreast", type=_seats, default=1, help="jobs at once on one GPU [1]")
    parser.add_argument(
        "--shared",
        action="store_true",
        help="say with what comes of it that other processes use the same device, so that it is slower",
    )
    parser.add_argument("--backend", choices=BACKENDS, default="auto", help="how mixers compute")
    parser.add_argument(
        "--prepare", action="store_true", help="only compile, into the compiler's cache; train nothing"
    )
    parser.add_argument("--no-compile", action="store_true", help="do without the compiler")
    parser.add_argument(
        "--no-ahead", action="store_true", help="compile each job in its turn, not beside the one before"
    )
    parser.add_argument(
        "--deterministic", action="store_true", help="the same bytes in every run, also on a GPU; slower"
    )
    parser.add_argument(
        "--own-code", action="store_true", help="import the modules that models such as mine:net name"
    )
    return parser


def _seats(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII) or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"a whole number from 1 to 10^18 − 1 is needed; got '{in_one_line(text[:40])}'"
        )
    return int(text)


def _folder(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("the name of a folder is needed; got an empty one")
    return Path(text)


def _say(text: str) -> None:
    sys.stderr.write(f"{in_one_line(text)}\n")


if __name__ == "__main__":
    sys.exit(main())
