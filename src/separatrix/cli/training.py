"""`separatrix train`: members of a model side by side on a task, with a store that remembers and resumes."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Group, Parameter
from rich.table import Table
from rich.text import Text

import separatrix
from separatrix.cli.flags import (
    TASK_NAME,
    AsJson,
    Flags,
    Whole,
    assembled,
    list_flag,
    model_flags,
    named_model,
    own_options,
    task_flags,
    value_of,
)
from separatrix.cli.output import json_line, note, note_if_long, printable_line, stdout_console, write_json
from separatrix.cli.runs import Place
from separatrix.errors import InvalidInput, TooLarge
from separatrix.files import written_whole

if TYPE_CHECKING:
    from separatrix.models.kernels.choice import Backend
    from separatrix.models.population import Population
    from separatrix.store import Store
    from separatrix.tasks import Task
    from separatrix.training import Against, Curriculum, Halving, Job, Member, Trained, Training

__all__ = ["train", "train_command"]

_LISTS: Final = {"seed": "seeds"}
"""Settings of members whose flag has another name, since it takes several."""
_STATUSES: Final = {"retired": "red", "dropped": "magenta"}

# Groups of flags come in this order: the model's name, parameters of task and model, these two, the rest.
_MEMBERS: Final = Group("Members: every combination of the values given", sort_key=1.3)
_TRAINING_PLACE: Final = 1.6

ModelName = Annotated[
    str,
    Parameter(
        help="Name of the model, as `separatrix models` lists them, or module:name for a mixer or an "
        "nn.Module of your own; --help after it shows its flags.",
        group=Group("Model", sort_key=0),
    ),
]


def train(
    job: Job,
    *,
    model: ModelName,
    curriculum: Annotated[
        str | None,
        Parameter(help="START:STEPS[:STAGES]; short inputs first, up to --n in so many steps."),
    ] = None,
    halving: Annotated[
        str | None, Parameter(help="FIRST[:FACTOR]; drop all but the best at these steps, others follow.")
    ] = None,
    against: Annotated[
        str | None,
        Parameter(help="EVERY[:SHARE]; a share of each batch are worst inputs, found anew at these steps."),
    ] = None,
    device: Annotated[str, Parameter(help="auto, cpu, cuda or cuda:1.")] = "auto",
    seats: Annotated[Whole | None, Parameter(help="Most members trained side by side.")] = None,
    compile: Annotated[
        bool | None, Parameter(help="Fuse operations by the compiler. [default: on a GPU]")
    ] = None,
    backend: Annotated[Backend, Parameter(help="How mixers compute.")] = "auto",
    deterministic: Annotated[
        bool,
        Parameter(help="The same bytes in every run, on a GPU too.", negative=(), show_default=False),
    ] = False,
    store: Place = None,
    plan: Annotated[
        bool, Parameter(help="Say what it would cost; train nothing.", negative=(), show_default=False)
    ] = False,
    save_plan: Annotated[
        Path | None,
        Parameter(help="Write the plan for `python3 -m separatrix.training` elsewhere; train nothing."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Train members of a model on a task: every learning rate with every seed, side by side.

    What the store has is not trained again, and what was cut off goes on from its last checkpoint.
    """
    from separatrix.store import default_place

    if seats is not None and seats < 1:
        raise InvalidInput(f"A population has at least one seat; got seats={seats}.")
    job = _staged(
        job, curriculum=_curriculum(curriculum), halving=_halving(halving), against=_against(against)
    )
    with _within_memory():
        job.population(1, own_code=True)  # what does not fit is refused before anything is written
    place = default_place() if store is None else store
    if save_plan is not None:
        _save(save_plan, job, json=json)
        return
    where = _Where(place, device, seats, compile, backend, deterministic)
    with _within_memory():
        _check_computable(job, where)
        if plan:
            _print_cost(job, where, json=json)
        else:
            _print_results(job, _trained(job, where, json=json), place, json=json)


@dataclasses.dataclass(frozen=True)
class _Where:
    """What does not change a result: where the store is, and how the device is used."""

    store: Path
    device: str
    seats: int | None
    compiled: bool | None
    backend: Backend
    deterministic: bool


def train_command(kind: type[Task] | None, words: Sequence[str]) -> Callable[..., int | None]:
    """`train` with the flags of this task and of the model that the words name."""
    from separatrix.models.kernels.choice import Backend
    from separatrix.training import Member, Training

    model = named_model(value_of("--model", words))
    of_task = task_flags(kind)
    own = own_options(train, taken={"job", *of_task.names}, types={"Backend": Backend, "Job": object})
    taken = {*of_task.names, *(option.name for option in own)}
    lists = {name: flag for name, flag in _member_flags(Member).items() if name not in taken}
    shared = Flags.of(Training, heading="Training", sort_key=_TRAINING_PLACE, taken=taken, prefix="training")
    taken |= {*lists, *shared.names}
    of_model = model_flags(model, taken=taken)

    def run(task: str, /, **options: Any) -> int | None:
        if kind is None or task != kind.name:
            raise InvalidInput(f"Name the task right after train; got '{task}' later on.")
        if model is None:
            raise InvalidInput("--model needs the name of a model; `separatrix models` lists them.")
        job = _job(
            separatrix.task(task, **of_task.popped(options)),
            model,
            of_model.popped(options),
            members=_members(Member, {name: options.pop(name, None) for name in lists}),
            training=Training(**shared.popped(options)),
        )
        train(job, **options)
        return None

    flags = [*of_task.flags, *of_model.flags, *lists.values(), *shared.flags]
    return assembled(run, [TASK_NAME, *flags, *own], like=train)


def _member_flags(kind: type[Member]) -> dict[str, inspect.Parameter]:
    types = typing.get_type_hints(kind)
    flags = {}
    for field in dataclasses.fields(kind):
        name = _LISTS.get(field.name, field.name)
        flags[name] = list_flag(
            name, types[field.name], help=field.metadata["help"], default=field.default, group=_MEMBERS
        )
    return flags


def _members(kind: type[Member], given: Mapping[str, tuple[Any, ...] | None]) -> list[Member]:
    """The product of the values given; a field that is left out has its default."""
    names = {_LISTS.get(field.name, field.name): field.name for field in dataclasses.fields(kind)}
    lists = {names[name]: values for name, values in given.items() if values is not None}
    for name, values in given.items():
        if values is not None and not values:
            raise InvalidInput(f"--{name.replace('_', '-')} needs a value; none was given.")
    return [kind(**dict(zip(lists, values, strict=True))) for values in itertools.product(*lists.values())]


def _job(
    task: Task,
    model: type[Population],
    parameters: Mapping[str, Any],
    *,
    members: Sequence[Member],
    training: Training,
) -> Job:
    from separatrix.models.specs import model_spec_of
    from separatrix.options import made
    from separatrix.tasks.specs import spec_of
    from separatrix.training import Job

    config = made(model.Config, parameters, name=model.name)
    return Job(
        task=spec_of(task), model=model_spec_of(model, config), training=training, members=tuple(members)
    )


def _staged(
    job: Job, *, curriculum: Curriculum | None, halving: Halving | None, against: Against | None
) -> Job:
    training = dataclasses.replace(job.training, curriculum=curriculum, halving=halving, against=against)
    return dataclasses.replace(job, training=training)


def _curriculum(text: str | None) -> Curriculum | None:
    from separatrix.training import Curriculum

    if text is None:
        return None
    numbers = _numbers(
        "--curriculum", text, shape="START:STEPS or START:STEPS:STAGES", such="10:5000", least=2
    )
    return Curriculum(**dict(zip(("start", "steps", "stages"), numbers, strict=False)))


def _halving(text: str | None) -> Halving | None:
    from separatrix.training import Halving

    if text is None:
        return None
    numbers = _numbers("--halving", text, shape="FIRST or FIRST:FACTOR", such="1000:2", least=1)
    return Halving(**dict(zip(("first", "factor"), numbers, strict=False)))


def _against(text: str | None) -> Against | None:
    from separatrix.training import Against

    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,18})(?::([0-9]{0,18}\.?[0-9]{1,18}))?", text, re.ASCII)
    if found is None:
        raise InvalidInput(
            "--against is EVERY or EVERY:SHARE, a number of steps and a share between 0 and 1, such as "
            f"500:0.25; got '{text[:40]}'."
        )
    every, share = found.groups()
    return Against(every=int(every)) if share is None else Against(every=int(every), share=float(share))


def _numbers(flag: str, text: str, *, shape: str, such: str, least: int) -> list[int]:
    if not re.fullmatch(rf"[0-9]{{1,18}}(:[0-9]{{1,18}}){{{least - 1},{least}}}", text, re.ASCII):
        raise InvalidInput(f"{flag} is {shape} in whole numbers, such as {such}; got '{text[:40]}'.")
    return [int(part) for part in text.split(":")]


def _save(path: Path, job: Job, *, json: bool) -> None:
    from separatrix.training import Plan

    plan = Plan(jobs=(job,))
    with written_whole(path) as file:
        file.write(json_line(plan.to_json()) + "\n")
    if json:
        write_json({"path": str(path), "plan": plan.to_json()})
    else:
        note(f"Wrote a plan of {len(job.members):,} member{'' if len(job.members) == 1 else 's'}.")
        print(printable_line(str(path)))


@contextmanager
def _within_memory() -> Iterator[None]:
    """Where memory runs out in the block, that is a sentence."""
    from separatrix.training.memory import ran_out

    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not ran_out(error):
            raise
        raise TooLarge(
            "This does not fit in memory; give a smaller model, fewer --seats, or a smaller --batch or --n."
        ) from None


def _check_computable(job: Job, where: _Where) -> None:
    """Refuse what cannot be computed here, before a store is made; what a store has need not be."""
    from separatrix.store import has_store
    from separatrix.training.running import placing_for
    from separatrix.training.trials import require_computable

    placing = placing_for(
        job,
        device=where.device,
        seats=where.seats,
        compiled=where.compiled,
        backend=where.backend,
        own_code=True,
    )
    if not has_store(where.store):
        require_computable(job, placing)


def _trained(job: Job, where: _Where, *, json: bool) -> tuple[Trained, ...]:
    from separatrix.store import Store
    from separatrix.training import run_job
    from separatrix.training.views import watching

    store = Store(where.store)
    try:
        with watching(quiet=json) as observer:
            return run_job(
                job,
                store=store,
                device=where.device,
                seats=where.seats,
                compiled=where.compiled,
                backend=where.backend,
                deterministic=where.deterministic,
                observer=observer,
                own_code=True,
            )
    except KeyboardInterrupt:
        note(_interrupted(job, store))
        raise


def _interrupted(job: Job, store: Store) -> str:
    """How to go on, in one line."""
    from separatrix.store.checkpoints import Checkpoints

    step = Checkpoints(store.folder_of(job.key), job.key).last_step()
    if step is None:
        return "Interrupted before the first checkpoint; the same command begins again with all unfinished."
    return f"Interrupted; run the same command again to go on from step {step:,} in '{store.path}'."


def _print_results(job: Job, trained: Sequence[Trained], place: Path, *, json: bool) -> None:
    from separatrix.training.views import best_first, differing, setting, summary_of

    ranked = best_first(trained)
    if json:
        write_json({"runs": [summary_of(job, one) for one in ranked], "store": str(place)})
        return
    columns = differing(job.members)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for name in ("steps", "solved at", "accuracy", "95 % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in ranked:
        solved = one.solved_at is not None
        table.add_row(
            *(setting(one.member, name) for name in columns),
            Text(one.status, "green" if solved else _STATUSES.get(one.status, "")),
            f"{one.steps:,}",
            "–" if one.solved_at is None else f"{one.solved_at:,}",
            f"{one.accuracy:.4f}",
            f"{one.interval.low:.4f}–{one.interval.high:.4f}",
        )
    stdout_console().print(table)


def _print_cost(job: Job, where: _Where, *, json: bool) -> None:
    from separatrix.store import Store, has_store
    from separatrix.training.costs import cost_of, rows_of

    # Asking for a price makes no store.
    store = Store(where.store) if has_store(where.store) else None
    with note_if_long("Timing a few steps."):
        cost = cost_of(
            job,
            store=store,
            device=where.device,
            seats=where.seats,
            compiled=where.compiled,
            backend=where.backend,
            own_code=True,
        )
    if json:
        write_json({"task": job.task.to_fields(), "model": job.model.to_fields(), "cost": cost.to_fields()})
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(ratio=1)
    for name, text in rows_of(cost):
        table.add_row(name, text)
    stdout_console().print(table)
