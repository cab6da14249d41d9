"""What was asked of an experiment last, kept beside its runs, so that going on needs no words repeated."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal, final, get_args

from separatrix.errors import InvalidFile
from separatrix.files import replace_file
from separatrix.options import require
from separatrix.records import JsonObject, Reader, Record, parse_json

if TYPE_CHECKING:
    from separatrix.experiments.cells import Study
    from separatrix.experiments.protocols import Settings

__all__ = [
    "LANES",
    "READS",
    "Asked",
    "BudgetName",
    "EngineName",
    "GridName",
    "LengthsName",
    "SearchName",
    "last_asked",
    "remember",
    "usual_lanes",
]

BudgetName = Literal["smoke", "quick", "paper"]
GridName = Literal["final", "full"]
LengthsName = Literal["all", "bands", "pairs"]
SearchName = Literal["grid", "optuna"]
EngineName = Literal["local", "ray"]

LANES: Final = 4
"""So many jobs at once are usual, or proposed, on one large GPU."""
READS: Final = "w-hotpot"
"""The experiment that asks models of the user's own, and trains none."""
_FOLDER: Final = "experiments"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST_BYTES: Final = 2**20
_MOST: Final = 10_000
"""Of rows, columns, seeds and the like."""


@final
@dataclass(frozen=True, kw_only=True)
class Asked(Record):
    """An experiment with all that can be said about it: what to run, which part of it, where, and where to.

    Paths are absolute, so that they mean the same wherever one stands.
    """

    SCHEMA: ClassVar[str] = "separatrix.asked-experiment"

    name: str
    budget: BudgetName = "smoke"
    grid: GridName = "final"
    halving: bool = True
    lengths: LengthsName = "pairs"
    seeds: tuple[int, ...] = (0,)
    models: tuple[tuple[str, Path], ...] = ()
    file: Path | None = None
    panels: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    columns: tuple[int, ...] = ()
    search: SearchName = "grid"
    trials: int = 20
    """The most runs for a cell, where runs are searched for."""
    engine: EngineName = "local"
    device: str = "auto"
    processes: int = 1
    abreast: int | None = None
    """Jobs at once on one GPU; as many as are usual if nobody said it."""
    seats: int | None = None
    minutes: float | None = None
    address: str | None = None
    gpus_per_job: float = 1.0
    out: Path | None = None
    keep: Path | None = None

    def __post_init__(self) -> None:
        require(
            _NAME.fullmatch(self.name) is not None,
            "The name of an experiment has up to 100 letters, digits, dots, hyphens and underscores; got "
            f"{self.name[:60]!r}.",
        )
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            require(value in known, f"An experiment's {name} is one of {', '.join(known)}; got {value!r}.")
        require(self.trials >= 1, f"A search has at least one trial; got trials={self.trials}.")
        for name in ("minutes", "gpus_per_job"):
            value = getattr(self, name)
            require(
                value is None or math.isfinite(value),
                f"An experiment's {name} is a finite number; got {name}={value}.",
            )
        require(
            self.seats is None or self.seats >= 1,
            f"A population has at least one seat; got seats={self.seats}.",
        )

    @property
    def lanes(self) -> int:
        """Jobs at once: those that were asked for, or those that are usual where there is a large GPU."""
        if self.abreast is not None:
            return self.abreast
        own = self.engine == "local" and not self.device.startswith("cpu")
        return usual_lanes(self.budget, processes=self.processes) if own else 1

    @property
    def settings(self) -> Settings:
        """What its study is made from."""
        from separatrix.experiments.protocols import Settings  # noqa: PLC0415  imports torch

        return Settings(
            device=self.device,
            budget=self.budget,
            grid=self.grid,
            halving=self.halving,
            lengths=self.lengths,
            seeds=self.seeds,
            models=self.models,
            file=self.file,
        )

    def study(self) -> Study:
        """The study, or the part of it that was chosen."""
        from separatrix.experiments import study_of  # noqa: PLC0415
        from separatrix.experiments.cells import chosen  # noqa: PLC0415  imports torch

        study = study_of(self.name, self.settings)
        return chosen(study, panels=self.panels, rows=self.rows, columns=self.columns)

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "name": self.name,
            "budget": self.budget,
            "grid": self.grid,
            "halving": self.halving,
            **({} if self.lengths == "bands" else {"lengths": self.lengths}),
            "seeds": list(self.seeds),
            "models": [{"name": name, "folder": str(folder)} for name, folder in self.models],
            "file": _written(self.file),
            "panels": list(self.panels),
            "rows": list(self.rows),
            "columns": list(self.columns),
            "search": self.search,
            "trials": self.trials,
            "engine": self.engine,
            "device": self.device,
            "processes": self.processes,
            **({} if self.abreast is None else {"abreast": self.abreast}),
            "seats": self.seats,
            "minutes": self.minutes,
            "address": self.address,
            "gpus_per_job": self.gpus_per_job,
            "out": _written(self.out),
            "keep": _written(self.keep),
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Asked:
        """The record whose fields `read` holds."""
        return cls(
            name=read.text("name"),
            budget=read.choice("budget", get_args(BudgetName)),
            grid=read.choice("grid", get_args(GridName)),
            halving=read.yes("halving"),
            lengths=_lengths(read),
            seeds=_counts(read, "seeds"),
            models=_models(read),
            file=_path(read, "file"),
            panels=read.texts("panels"),
            rows=read.texts("rows"),
            columns=_counts(read, "columns"),
            search=read.choice("search", get_args(SearchName)),
            trials=read.count("trials"),
            engine=read.choice("engine", get_args(EngineName)),
            device=read.text("device"),
            processes=read.count("processes"),
            abreast=read.count("abreast") if read.has("abreast") else None,
            seats=read.optional_count("seats"),
            minutes=None if read.skip_null("minutes") else read.measured("minutes"),
            address=read.optional_text("address"),
            gpus_per_job=read.measured("gpus_per_job"),
            out=_path(read, "out"),
            keep=_path(read, "keep"),
        )


_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "budget": get_args(BudgetName),
    "grid": get_args(GridName),
    "lengths": get_args(LengthsName),
    "search": get_args(SearchName),
    "engine": get_args(EngineName),
}


def usual_lanes(budget: BudgetName, *, processes: int = 1) -> int:
    """Jobs at once on one large GPU if nobody says how many: several where each is at work for minutes, most
    of them with a single member, and one where compiling is most of it.
    """
    return LANES if budget == "paper" and processes == 1 else 1


def remember(asked: Asked, store: Path) -> None:
    """Keep what is asked of an experiment in the folder of a store, in place of what was asked before."""
    path = _place(store, asked.name)
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as failure:
        raise InvalidFile(f"The folder '{path.parent}' cannot be made: {failure.strerror}.") from failure
    replace_file(path, (json.dumps(asked.to_json(), indent=1, allow_nan=False) + "\n").encode())


def last_asked(name: str, store: Path) -> Asked | None:
    """What was asked of an experiment last in the folder of a store, read strictly; None if nothing was."""
    path = _place(store, name)
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as failure:  # a null in the name
        reason = (failure.strerror if isinstance(failure, OSError) else None) or failure
        raise InvalidFile(f"'{path}' cannot be read: {reason}.") from failure
    asked = Asked.from_json(parse_json(content, what=f"'{path}'", most_bytes=_MOST_BYTES))
    if asked.name != name:
        raise InvalidFile(f"'{path}' is about {asked.name}, not about {name}; remove it and ask again.")
    return asked


def _place(store: Path, name: str) -> Path:
    return store / _FOLDER / f"{name}.json"


def _written(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _path(read: Reader, name: str) -> Path | None:
    text = read.optional_text(name)
    return None if text is None else Path(text)


def _models(read: Reader) -> tuple[tuple[str, Path], ...]:
    found = []
    for place, item in enumerate(_few(read, "models")):
        inner = Reader(item, what=f"{read.what}.models[{place}]")
        found.append((inner.text("name"), Path(inner.text("folder"))))
        inner.finish()
    return tuple(found)


def _lengths(read: Reader) -> LengthsName:
    """Before there were pairs, a record said whether lengths came in bands."""
    if read.has("bands"):
        return "bands" if read.yes("bands") else "all"
    return read.choice("lengths", get_args(LengthsName)) if read.has("lengths") else "bands"


def _counts(read: Reader, name: str) -> tuple[int, ...]:
    return tuple(Reader({name: item}, what=read.what).count(name) for item in _few(read, name))


def _few(read: Reader, name: str) -> tuple[object, ...]:
    items = read.items(name)
    if len(items) > _MOST:
        raise InvalidFile(f"Field '{name}' of {read.what} may have {_MOST:,} items; it has {len(items):,}.")
    return items
