"""`separatrix runs`: what the store remembers, one run or all of them, and what it may forget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar, get_args

from cyclopts import App, CoercionError, Group, Parameter, Token
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from separatrix.cli.flags import AsJson, Whole
from separatrix.cli.output import note, printable_line, stdout_console, wrapped, write_json
from separatrix.errors import InvalidFile, InvalidInput
from separatrix.records import thaw
from separatrix.registry import unknown_name

if TYPE_CHECKING:
    from separatrix.evidence import Breaking, Coverage, Decoded
    from separatrix.store import Point, Run, Store

__all__ = ["Place", "percent", "runs_app", "shaped"]

Standing: TypeAlias = Literal["running", "cut off", "done", "retired", "dropped", "stopped"]
"""A run's status, where `running` is only what a process is training now."""

_COLOURS: Final[dict[str, str]] = {
    "done": "green",
    "running": "cyan",
    "cut off": "yellow",
    "stopped": "yellow",
    "retired": "red",
    "dropped": "magenta",
}
_PARTS: Final = ("task", "model", "member", "training")
_BARS: Final = "▁▂▃▄▅▆▇█"
_MOST_BARS: Final = 48
_MOST_POINTS: Final = 8
_SHORT_NUMBER: Final = 7
_NONE: Final = "–"

Item = TypeVar("Item")


def _folder(_: type, tokens: Sequence[Token]) -> Path:
    """A path that says something: an empty one would be the folder one happens to be in."""
    if not tokens[0].value.strip():
        raise CoercionError(token=tokens[0])
    return Path(tokens[0].value)


def _standing(_: type, tokens: Sequence[Token]) -> str:
    """`cut off` may be written with a hyphen, which needs no quotes."""
    name = tokens[0].value.replace("-", " ")
    if name not in get_args(Standing):
        raise CoercionError(token=tokens[0])
    return name


Place = Annotated[
    Path | None,
    Parameter(
        name="--store",
        help="Folder of the store. [default: $SEPARATRIX_STORE, or runs]",
        converter=_folder,
    ),
]
OfTask = Annotated[str | None, Parameter(help="Only runs on this task.")]
OfModel = Annotated[str | None, Parameter(help="Only runs of this model.")]
OfStatus = Annotated[Standing | None, Parameter(help="Only runs of this status.", converter=_standing)]
OfLength = Annotated[Whole | None, Parameter(help="Only runs on tasks of this size.")]


def runs_app(*, sort_key: int) -> App:
    """The commands under `runs`; `sort_key` is their place among the others."""
    app = App(
        name="runs",
        usage="Usage: separatrix runs COMMAND [OPTIONS]",
        help="List, show, export and bundle the runs in a store, or clear it up.",
        help_epilogue="",
        group_commands=Group("Commands", sort_key=0),
        group_parameters=Group("Options", sort_key=1),
        sort_key=sort_key,
    )
    commands: tuple[tuple[str, Callable[..., None], str], ...] = (
        ("list", list_runs, "list [OPTIONS]"),
        ("show", show_run, "show KEY [OPTIONS]"),
        ("export", export_runs, "export [OPTIONS]"),
        ("bundle", bundle, "bundle --out FOLDER [OPTIONS]"),
        ("gc", collect, "gc [OPTIONS]"),
    )
    for place, (name, function, usage) in enumerate(commands):
        app.command(function, name=name, usage=f"Usage: separatrix runs {usage}", sort_key=place)
    return app


def list_runs(
    *,
    task: OfTask = None,
    model: OfModel = None,
    n: OfLength = None,
    status: OfStatus = None,
    store: Place = None,
    json: AsJson = False,
) -> None:
    """List runs: what was trained, how, and how well it does."""
    opened = _opened(store)
    found, cut = _found(opened, task=task, model=model, status=status, n=n)
    if json:
        write_json({"store": str(opened.path), "runs": [_fields(run, cut) for run in found]})
    elif not found:
        print(printable_line(f"There are no such runs in '{opened.path}'."))
    else:
        console = stdout_console()
        wide = _table(found, cut, gap=2)
        needs = Measurement.get(console, console.options.update(max_width=10 * console.width), wide).maximum
        # Long names leave less room between the columns before they are broken.
        console.print(wide if needs <= console.width else _table(found, cut, gap=1))


def show_run(
    key: Annotated[str, Parameter(help="the beginning of its key, as `runs list` shows it")],
    /,
    *,
    store: Place = None,
    json: AsJson = False,
) -> None:
    """Show a run: its config, its result and its learning curve."""
    opened = _opened(store)
    run = opened.run(key)
    curve, cut = opened.curve(run.key), opened.cut_off()
    if json:
        points = [point.to_fields() for point in curve]
        write_json({**_fields(run, cut), "curve": points, "evidence": _figures(opened, run)})
        return
    console, standing = stdout_console(), _shown(run, cut)
    console.print(Text.assemble((standing, f"bold {_COLOURS[standing]}"), f"  {run.key}"))
    result = [*_result(run, standing), *_evidence(opened, run)]
    for title, lines in (("config", _config(run)), ("result", result)):
        console.print(Text(title, "bold"))
        width = max(len(name) for name, _ in lines)
        for name, text in lines:
            first, *rest = wrapped(printable_line(text), console.width - width - 4) or [""]
            print(f"  {name:<{width}}  {first}")
            for line in rest:
                print(f"  {'':<{width}}  {line}")
    if curve:
        console.print(Text(f"curve of {len(curve):,} points", "bold"))
        print("\n".join(_curve(curve)))


def export_runs(
    *,
    out: Annotated[
        Path | None,
        Parameter(help="File to write: .csv, .json, .jsonl or .parquet. [default: CSV to standard output]"),
    ] = None,
    task: OfTask = None,
    model: OfModel = None,
    n: OfLength = None,
    status: OfStatus = None,
    store: Place = None,
    json: AsJson = False,
) -> None:
    """Write runs as a table for other programs: a row for a run, a column for a setting or a figure."""
    from separatrix.store.exporting import as_csv, export

    opened = _opened(store)
    found, _ = _found(opened, task=task, model=model, status=status, n=n)
    evidence = {run.key: figures for run in found if (figures := _figures(opened, run))}
    if out is not None:
        export(found, out, evidence=evidence)
    if json:
        written = {} if out is None else {"path": str(out)}
        write_json({**written, "runs": [run.to_fields() for run in found]})
    elif out is None:
        print(as_csv(found, evidence=evidence), end="")
    else:
        note(f"Wrote {_count(len(found), 'run')}.")
        print(printable_line(str(out)))


def bundle(
    *,
    out: Annotated[Path, Parameter(help="Folder to write to; what it has is kept.", converter=_folder)],
    name: Annotated[str | None, Parameter(help="What it is called. [default: as the folder]")] = None,
    notes: Annotated[str, Parameter(help="How the runs came about, in words.", show_default=False)] = "",
    task: OfTask = None,
    model: OfModel = None,
    n: OfLength = None,
    status: OfStatus = None,
    store: Place = None,
    json: AsJson = False,
) -> None:
    """Put runs that have finished, their curves and evidence into a folder of small Parquet files.

    It can go into a repository, without the weights. The same runs are the same bytes.
    """
    from separatrix.store.bundles import bundle_runs

    opened = _opened(store)
    found, _ = _found(opened, task=task, model=model, status=status, n=n)
    finished = [run for run in found if run.finished]
    if not finished:
        raise InvalidInput(
            f"There are no such runs that have finished in '{opened.path}' to make a bundle of."
        )
    whole = bundle_runs(opened, finished, out, name=name, notes=notes)
    unfinished = len(found) - len(finished)
    if json:
        counts = {"bundled": len(finished), "unfinished": unfinished, "runs": len(whole.runs)}
        write_json({"path": str(out), "name": whole.name, **counts})
        return
    left = f"; {_count(unfinished, 'run')} not finished" if unfinished else ""
    note(f"Bundled {_count(len(finished), 'run')}{left}. '{whole.name}' has {len(whole.runs):,} now.")
    print(printable_line(str(out)))


def collect(
    *,
    dry_run: Annotated[
        bool, Parameter(help="Only say what would be removed.", negative=(), show_default=False)
    ] = False,
    store: Place = None,
    json: AsJson = False,
) -> None:
    """Remove checkpoints of what has finished, and files that belong to no run.

    What is being trained is left alone.
    """
    from separatrix.store.cleaning import clean
    from separatrix.store.keys import short

    cleaned = clean(_opened(store), dry_run=dry_run)
    if json:
        removed = [{"path": str(each.path), "bytes": each.bytes, "why": each.why} for each in cleaned.removed]
        claimed = list(cleaned.claimed)
        write_json({"dry_run": dry_run, "bytes": cleaned.bytes, "removed": removed, "claimed": claimed})
        return
    for each in cleaned.removed:
        print(f"{printable_line(str(each.path))}  {each.bytes:,} bytes: {each.why}")
    for population in cleaned.claimed:
        print(f"Population {short(population)} is being trained and is left alone.")
    verb = "Would remove" if dry_run else "Removed"
    print(f"{verb} {_count(len(cleaned.removed), 'file')} of {_count(cleaned.bytes, 'byte')}.")


def _opened(place: Path | None) -> Store:
    from separatrix.store import Store, default_place

    return Store(default_place() if place is None else place, must_exist=True)


def _found(
    store: Store, *, task: str | None, model: str | None, status: Standing | None, n: int | None
) -> tuple[tuple[Run, ...], frozenset[str]]:
    """The runs of which all this is true, and the keys of those that were cut off."""
    found = store.runs(task=task, model=model, status="running" if status == "cut off" else status, n=n)
    if not found and (task is not None or model is not None):
        _require_known(store, task=task, model=model)
    cut = store.cut_off() if any(run.status == "running" for run in found) else frozenset()
    return tuple(run for run in found if status is None or _shown(run, cut) == status), cut


def _require_known(store: Store, *, task: str | None, model: str | None) -> None:
    """Refuse a name of a task or a model that is none of ours and that no run of the store has."""
    from separatrix.models import MODELS
    from separatrix.tasks import TASKS

    for kind, name, ours, stored in (
        ("task", task, TASKS.names(), {run.task for run in store.runs()}),
        ("model", model, MODELS.names(), {run.model for run in store.runs()}),
    ):
        if name is not None and name not in {*ours, *stored}:
            raise unknown_name(kind, name, (*ours, *sorted(stored.difference(ours))))


def _shown(run: Run, cut: Collection[str]) -> Standing:
    return "cut off" if run.key in cut else run.status


def _fields(run: Run, cut: Collection[str]) -> dict[str, Any]:
    return {**run.to_fields(), "status": _shown(run, cut)}


def _table(runs: Sequence[Run], cut: Collection[str], *, gap: int) -> Table:
    """Two lines a run: its status below its key, the model below the task, the interval below the rate."""
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("key\nstatus", no_wrap=True)
    table.add_column("task\nmodel", overflow="fold")
    for name in ("n", "lr", "seed", "steps\nsolved at", "accuracy\ninterval"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in runs:
        accuracy = _NONE if run.accuracy is None else f"{percent(run.accuracy)} %"
        standing = _shown(run, cut)
        table.add_row(
            Text.assemble((run.short, "cyan"), "\n", (standing, _COLOURS[standing])),
            Text(f"{printable_line(run.task)}\n{printable_line(shaped(run))}"),
            _NONE if run.n is None else str(run.n),
            _setting(run, "lr"),
            _setting(run, "seed"),
            f"{run.steps:,}" if run.solved_at is None else f"{run.steps:,}\n{run.solved_at:,}",
            accuracy if run.low is None or run.high is None else f"{accuracy}\n{_interval(run)}",
        )
    return table


def shaped(run: Run) -> str:
    """The model with its layers and width, where it has both, and how it began, where that was chosen."""
    model = run.config["model"]
    params = model["params"] if isinstance(model, Mapping) else None
    shape = [params.get(name) for name in ("layers", "width")] if isinstance(params, Mapping) else []
    whole = shape and all(isinstance(part, int) and not isinstance(part, bool) for part in shape)
    named = f"{run.model}-({shape[0]},{shape[1]})" if whole else run.model
    return named if run.initial is None else f"{named}, {run.initial}"


def _setting(run: Run, name: str) -> str:
    member = run.config["member"]
    value = member.get(name) if isinstance(member, Mapping) else None
    if value is None:
        return _NONE
    return _short_number(value) if isinstance(value, float) else printable_line(str(value))


def _short_number(value: float) -> str:
    """Three digits: 0.001, but 3.16e-4 where so many noughts would not fit."""
    plain = f"{value:.3g}"
    digits, exponent = f"{value:.2e}".split("e")
    return plain if len(plain) <= _SHORT_NUMBER else f"{digits.rstrip('0').rstrip('.')}e{int(exponent)}"


def percent(rate: float) -> str:
    """Two digits after the point; what is short of all is never shown as all, nor a little as nothing."""
    shown = 100 * rate
    return f"{min(max(shown, 0.01), 99.99) if 0 < rate < 1 else shown:.2f}"


def _interval(run: Run) -> str:
    assert run.low is not None
    assert run.high is not None
    return f"{percent(run.low)}–{percent(run.high)}"


def _config(run: Run) -> list[tuple[str, str]]:
    lines = []
    parts = sorted(run.config, key=lambda part: _PARTS.index(part) if part in _PARTS else len(_PARTS))
    for part in parts:
        value = run.config[part]
        if isinstance(value, Mapping) and part in {"task", "model"}:
            lines.append((part, f"{value['name']}: {_settings(value['params'])}"))
        else:
            lines.append((part, _settings(value)))
    return [(printable_line(part), text) for part, text in lines]


def _settings(value: object) -> str:
    if not isinstance(value, Mapping):
        return _plain(value)
    return ", ".join(f"{name}={_plain(inner)}" for name, inner in value.items()) or _NONE


def _plain(value: object) -> str:
    from separatrix.store.keys import canonical

    return value if isinstance(value, str) else canonical(value)


def _result(run: Run, standing: Standing) -> list[tuple[str, str]]:
    solved = "" if run.solved_at is None else f", solved at {run.solved_at:,}"
    if standing == "cut off":
        solved = " at the last checkpoint; train the same again to go on" if run.steps else ", nothing saved"
    lines = [("steps", f"{run.steps:,}{solved}")]
    if run.accuracy is not None:
        asked = f"{run.correct:,} of {run.examples:,} right; 95 % interval {_interval(run)}"
        lines.append(("accuracy", f"{percent(run.accuracy)} % ({asked})"))
    if run.label_accuracy is not None:
        lines.append(("labels", f"{percent(run.label_accuracy)} % right"))
    if run.loss is not None:
        lines.append(("loss", f"{run.loss:.4g}"))
    lines.append(("seconds", f"{run.seconds:.1f}"))
    lines.append(("from", _settings(run.provenance)))
    lines.append(("created", run.created))
    lines.append(("updated", run.updated))
    return lines


def _figures(store: Store, run: Run) -> dict[str, bool | int]:
    from separatrix.evidence import Breaking, Coverage, Decoded
    from separatrix.store.evidence import BREAKING, COVERAGE, DECODING, FOLDER, figures_of, read_evidence

    return figures_of(
        read_evidence(store.place(FOLDER, run.key, COVERAGE), Coverage),
        read_evidence(store.place(FOLDER, run.key, BREAKING), Breaking),
        read_evidence(store.place(FOLDER, run.key, DECODING), Decoded),
    )


def _evidence(store: Store, run: Run) -> list[tuple[str, str]]:
    """A line each for what is proven, for attacks and for decoding, where there were any; or why not."""
    lines = []
    for name, read in (("certified", _certified), ("attacked", _attacked), ("decoded", _decoded)):
        try:
            text = read(store, run)
        except InvalidFile as problem:
            text = str(problem)
        if text is not None:
            lines.append((name, text))
    return lines


def _certified(store: Store, run: Run) -> str | None:
    found = store.coverage(run.key)
    if found is None:
        return None
    counts = f"{found.proved:,} proved, {found.refuted:,} broken, {found.unknown:,} unknown"
    return f"{_count(len(found.cases), 'case')}: {counts}{_elsewhere(run, found)}"


def _attacked(store: Store, run: Run) -> str | None:
    found = store.breaking(run.key)
    if found is None:
        return None
    failed = f"{found.attack_failures:,} of {found.tried - found.samples.tried:,} inputs failed"
    drawn = f"{found.samples.failures:,} of {found.samples.tried:,} drawn at random"
    verdict = "broken" if found.broken else "not broken"
    return f"{verdict}: {failed}, {drawn}{_elsewhere(run, found)}"


def _decoded(store: Store, run: Run) -> str | None:
    found = store.decoding(run.key)
    if found is None:
        return None
    counts = f"{found.right:,} right, {found.wrong:,} wrong, {found.unanswered:,} unanswered"
    return f"score {percent(found.score)} %: {counts}{_elsewhere(run, found)}"


def _elsewhere(run: Run, found: Coverage | Breaking | Decoded) -> str:
    """On which task, where it is another than the run was trained on."""
    return "" if found.task.to_fields() == thaw(run.config["task"]) else f"; on {found.task}"


def _curve(curve: Sequence[Point]) -> list[str]:
    """Accuracy and loss as bars, and a few of the points as numbers."""
    lines = []
    for name, top in (("accuracy", 1.0), ("loss", None)):
        values = [value for point in curve if (value := getattr(point, name)) is not None]
        if values:
            ends = f"{_figure(name, values[0])} → {_figure(name, values[-1])}"
            lines.append(f"  {name:<8}  {_bars(values, top)}  {ends}")
    lines.append(f"  {'step':>10}  {'accuracy':>9}  {'loss':>10}")
    for point in _some(curve, _MOST_POINTS):
        accuracy, loss = _figure("accuracy", point.accuracy), _figure("loss", point.loss)
        lines.append(f"  {point.step:>10,}  {accuracy:>9}  {loss:>10}")
    return lines


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return _NONE
    return f"{percent(value)} %" if name == "accuracy" else f"{value:.4g}"


def _bars(values: Sequence[float], top: float | None) -> str:
    """Values as bars of eight heights; accuracies from 0 to 1, others from their least to their most."""
    least, most = (0.0, top) if top is not None else (min(values), max(values))
    span = (most - least) or 1.0
    last = len(_BARS) - 1
    return "".join(
        _BARS[min(last, max(0, round(last * (value - least) / span)))] for value in _some(values, _MOST_BARS)
    )


def _some(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many of them, evenly, with the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[place * (len(items) - 1) // (most - 1)] for place in range(most)]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
