"""How fast populations take their steps on an H200: what was measured, and what follows for other sizes.

`data/rates.csv` has a line for each measurement. A population that was measured has that time. For another
every measurement of its architecture gives a time that it will hardly exceed, and the least of them counts:

- more members, or more layers, in proportion. Where both answer once, and but for the LSTM, the last layer
  counts as four tenths of one, since much of it is computed at one position: at 400 six layers on index
  lookup took 3.8 times as long as two on equality for RetNet, and 3.1 as two on index lookup for Mamba. Of
  `a` layers instead of `b`, fewer, (a + 1)/(b + 1), so that what is not in the layers has a layer's time;
- wider by a factor: its square, as the products grow;
- longer: as the architecture's time grows with the length, which was measured for one member, and at least in
  proportion;
- fewer members or narrower: in proportion, but that a quarter of what is left out stays; of Mambas of width
  64 up to 0.42 of members did, and 0.53 of a width of 256. Shorter: 0.45 of it, where up to 0.55 were
  measured at 20 instead of 50. That goes on while a GPU is busy, down to 1.5 million numbers in flight
  (members × examples × positions × width), and then it takes no less. For the LSTM, which waits for each
  position, 0.8 stay, where up to 83 % were measured of members, and for one layer that answers once 0.6,
  where 15 to 54 % were. Shorter ones take no longer than the growth with the length says, and the LSTM's as
  long as that;
- bands of lengths: three tenths of the time of the positions that are left out stay, where up to 17 % were
  measured, and 0.6 for one layer that answers once, where 41 % were; all of it where the card is idle.
  Without bands, by the positions that they would leave out. Two inputs a row are taken for bands that leave
  out as much: of three members and more up to 28 % of the time of what is left out were measured to stay,
  and of one member 13 % to 67 %. The LSTM's row of two is a longer chain;
- a label at many positions instead of one: twice, since that is what was seen on equality beside Dyck;
- larger batches in proportion; smaller ones: no faster.

No estimate is less than what a population took that is smaller or the same in every way. From one layer that
answers once nothing follows for others, since it computes most of itself at one position. Heads and the
symbols of a task are not told apart. Of 254 benchmarks, each left out in turn, nine take more than 1.17 times
as long as the others say, and none more than 1.31 times.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Final, Literal

from separatrix.training.jobs import Job
from separatrix.training.labelled import length_of_two, padded_lengths

__all__ = [
    "COLUMNS",
    "PREPARED_START",
    "SIZE_COLUMNS",
    "Basis",
    "Estimate",
    "Rate",
    "Rates",
    "Size",
    "rates_from",
    "rates_measured",
    "seconds_per_step",
    "size_from",
    "size_of",
]

Basis = Literal["measured", "scaled"]
SIZE_COLUMNS: Final = (
    "model",
    "layers",
    "width",
    "task",
    "form",
    "n",
    "length",
    "labels",
    "members",
    "bands",
    "positions",
    "precision",
)
COLUMNS: Final = (
    *SIZE_COLUMNS,
    "compiled",
    "steps_per_second",
    "start_seconds",
    "how",
    "device",
    "torch",
)
Growth = tuple[tuple[int, float], ...]
"""Lengths, ascending, with the seconds of a step of one member."""
_BATCH: Final = 64
"""All rates are of batches of so many examples."""
_MANY_LABELS: Final = 2.0
_FULL: Final = 1_500_000
"""Numbers in flight from which on a GPU is busy."""
_STAYS: Final = 0.25
"""The share of a busy population's time that fewer members do not save."""
_STAYS_SHORTER: Final = 0.45
"""The same for shorter ones."""
_STAYS_LSTM: Final = 0.8
_STAYS_BARE: Final = 0.6
_LAST_LAYER: Final = 0.4
"""Of a layer's time, where a model answers once."""
_ALIKE: Final = 1.1
_STAYS_IN_BANDS: Final = 0.3
"""The share of the time of positions left out that is not saved."""
_LEAST_START: Final = 20.0
"""Seconds that compiling takes at the least; most populations that were trained began sooner."""
PREPARED_START: Final = 10.0
"""Seconds in which a population begins whose code a second process has compiled: 3, 4, 5, 7 and 9 were
measured."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """What the time of a population's step depends on."""

    model: str
    layers: int
    width: int
    task: str
    form: str
    n: int
    length: int
    labels: int
    """The most that an example has."""
    members: int
    bands: int
    """Of lengths, into which a batch falls."""
    positions: int
    """Of an example on the average, with its padding: fewer than the length where there are bands. Where two
    inputs share a row half of its positions, but all of them for the LSTM, which waits for one after another.
    """
    precision: str

    @property
    def is_bare(self) -> bool:
        """One layer that answers once computes most of itself at one position, which no other model does."""
        return self.layers == 1 and self.labels == 1

    @property
    def is_paired(self) -> bool:
        """Whether two inputs share a row: there are other positions than the length, and no bands."""
        return self.bands == 1 and self.positions != self.length

    @property
    def in_flight(self) -> int:
        """Numbers that a layer has of a step at once."""
        return self.members * _BATCH * self.positions * self.width

    def with_less(self, share: float, *, stays: float = _STAYS) -> float:
        """What is left of its time if only this share of its numbers is in flight, and so much of the time
        of the others `stays` where no architecture says otherwise.
        """
        left = max(share, min(1.0, _FULL / self.in_flight))
        stays = _STAYS_LSTM if self.model == "lstm" else _STAYS_BARE if self.is_bare else stays
        return left + (1 - left) * stays

    @property
    def computed(self) -> float:
        """The share of positions that are not left out."""
        return self.positions / self.length

    @property
    def in_bands(self) -> float:
        """Its time as a share of what it would be if all examples were padded to the full length."""
        if self.in_flight < _FULL and self.model != "lstm":
            return 1.0
        return self.computed + (1 - self.computed) * (_STAYS_BARE if self.is_bare else _STAYS_IN_BANDS)

    def speaks_for(self, other: Size) -> bool:
        """Whether the other's time can be had from this one's."""
        return not self.is_bare or other.is_bare

    def holds(self, other: Size) -> bool:
        """Whether the other is smaller or the same in every way that costs time."""
        return (
            self.model == other.model
            and self.precision == other.precision
            and self.layers >= other.layers
            and self.width >= other.width
            and self.length >= other.length
            and self.positions >= other.positions
            and self.members >= other.members
            and (self.labels > 1) >= (other.labels > 1)
        )

    def nearly_holds(self, other: Size) -> bool:
        """The same, where a few positions more are none if both come in as many bands."""
        if self.bands == other.bands and other.positions <= _ALIKE * self.positions:
            other = replace(other, positions=min(other.positions, self.positions))
        return self.holds(other)


@dataclass(frozen=True, kw_only=True)
class Rate:
    """One measurement. Rates of runs have the looks of their last stretch in them, and the last test."""

    size: Size
    compiled: bool
    steps_per_second: float
    start_seconds: float | None
    """From nothing to the first step taken, mostly compiling."""
    how: str
    """By a benchmark, or in a run."""
    device: str
    torch: str

    @property
    def seconds(self) -> float:
        """Of a step."""
        return 1 / self.steps_per_second


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Seconds of a step, and where the number comes from, in words."""

    seconds: float
    basis: Basis
    how: str


class Rates:
    """All measurements there are, and what they say of populations that were not measured."""

    def __init__(self, measured: Iterable[Rate]) -> None:
        self.measured = tuple(measured)
        self._alike: dict[tuple[str, str], list[Rate]] = {}
        for rate in self.measured:
            self._alike.setdefault((rate.size.model, rate.size.precision), []).append(rate)
        self._growth = {kind: _growth(alike) for kind, alike in self._alike.items()}

    def estimate(self, size: Size) -> Estimate | None:
        """The time of a step; None where nothing of this architecture was measured."""
        kind = size.model, size.precision
        alike = self._alike.get(kind, [])
        same = [rate for rate in alike if rate.compiled and rate.size == size]
        if same:
            slowest = max(same, key=_seconds)
            return Estimate(seconds=slowest.seconds, basis="measured", how=f"in a {slowest.how}")
        if not alike:
            return None
        scaled = [
            _Scaled(rate, _factors(rate.size, size, self._growth[kind]))
            for rate in alike
            if rate.size.speaks_for(size)
        ]
        if not scaled:
            return None
        best = min(scaled, key=lambda one: one.seconds)
        smaller = [rate for rate in alike if rate.compiled and size.holds(rate.size)]
        slowest = max(smaller, key=_seconds, default=best.rate)
        if smaller and slowest.seconds > best.seconds:
            how = f"no faster than {_named(slowest)}, which is smaller"
            return Estimate(seconds=slowest.seconds, basis="scaled", how=how)
        return Estimate(seconds=best.seconds, basis="scaled", how=best.in_words)

    def seconds_to_start(self, model: str, *, bands: int = 1) -> float:
        """Compiling a population of this architecture, for one length or for several: the median of what was
        measured, if not too little. For several lengths others speak for what was not measured.
        """
        alike = [
            (rate.size.model, rate.start_seconds)
            for rate in self.measured
            if rate.start_seconds is not None and (rate.size.bands > 1) == (bands > 1)
        ]
        own = [seconds for name, seconds in alike if name == model]
        known = own or [seconds for _, seconds in alike if bands > 1]
        return max(_LEAST_START, statistics.median(known) if known else 0.0)


@dataclass(frozen=True)
class _Scaled:
    """A measured rate, and by what its time is multiplied for another population."""

    rate: Rate
    factors: dict[str, float]

    @property
    def seconds(self) -> float:
        return self.rate.seconds * math.prod(self.factors.values())

    @property
    def in_words(self) -> str:
        changed = [f"× {factor:.3g} for {name}" for name, factor in self.factors.items() if factor != 1]
        return "; ".join([f"from {_named(self.rate)}", *changed])


@cache
def rates_measured() -> Rates:
    """The measurements that come with the package."""
    text = (files("separatrix.experiments") / "data" / "rates.csv").read_text(encoding="utf-8")
    return Rates(rates_from(text.splitlines()))


def rates_from(lines: Iterable[str]) -> tuple[Rate, ...]:
    """The measurements in lines of CSV."""
    return tuple(
        Rate(
            size=size_from(row),
            compiled=row["compiled"] == "yes",
            steps_per_second=float(row["steps_per_second"]),
            start_seconds=float(row["start_seconds"]) if row["start_seconds"] else None,
            how=row["how"],
            device=row["device"],
            torch=row["torch"],
        )
        for row in csv.DictReader(lines)
    )


def size_from(row: Mapping[str, str]) -> Size:
    """The size that a line of CSV is about."""
    return Size(
        model=row["model"],
        layers=int(row["layers"]),
        width=int(row["width"]),
        task=row["task"],
        form=row["form"],
        n=int(row["n"]),
        length=int(row["length"]),
        labels=int(row["labels"]),
        members=int(row["members"]),
        bands=int(row["bands"]),
        positions=int(row["positions"]),
        precision=row["precision"],
    )


def size_of(job: Job, *, members: int | None = None) -> Size | None:
    """The size of a job's population; None for models that have no layers and width."""
    layers, width = (job.model.params.get(name) for name in ("layers", "width"))
    if not isinstance(layers, int) or not isinstance(width, int):
        return None
    task, bands = job.built_task, job.training.bands
    return Size(
        model=job.model.name,
        layers=layers,
        width=width,
        task=task.name,
        form=str(job.task.params.get("form", "")),
        n=task.n,
        length=task.length,
        labels=task.asking.most,
        members=len(job.members) if members is None else members,
        bands=bands,
        positions=_positions_in_pairs(job)
        if job.training.paired
        else sum(padded_lengths(task, bands)) // bands,
        precision=job.training.precision,
    )


def _positions_in_pairs(job: Job) -> int:
    both = length_of_two(job.built_task, 0)
    return both if job.model.name == "lstm" else both // 2


def seconds_per_step(job: Job, *, members: int | None = None, rates: Rates | None = None) -> Estimate | None:
    """What a step of the job's population takes with so many members in it, by default all of them.

    None where nothing of the kind was measured.
    """
    size = size_of(job, members=members)
    found = None if size is None else (rates or rates_measured()).estimate(size)
    if found is None or job.training.batch <= _BATCH:
        return found
    more = job.training.batch / _BATCH
    how = f"{found.how}; × {more:.3g} for the batch"
    return Estimate(seconds=found.seconds * more, basis="scaled", how=how)


def _seconds(rate: Rate) -> float:
    return rate.seconds


def _factors(known: Size, wanted: Size, growth: Growth) -> dict[str, float]:
    """By what a measured time is multiplied, and for what: one thing after another becomes what is wanted."""
    narrower = replace(known, width=min(known.width, wanted.width))
    fewer = replace(narrower, members=min(known.members, wanted.members))
    return {
        "width": _by_width(known, wanted),
        "members": _by_members(narrower, wanted),
        "length": _by_length(fewer, wanted, growth),
        "layers": _by_layers(known, wanted),
        "bands": _by_bands(known, wanted),
        "labels": _MANY_LABELS if wanted.labels > 1 >= known.labels else 1.0,
    }


def _by_width(known: Size, wanted: Size) -> float:
    ratio = wanted.width / known.width
    return ratio**2 if ratio >= 1 else known.with_less(ratio)


def _by_members(known: Size, wanted: Size) -> float:
    ratio = wanted.members / known.members
    return ratio if ratio >= 1 else known.with_less(ratio)


def _by_length(known: Size, wanted: Size, growth: Growth) -> float:
    share = wanted.length / known.length
    ratio = _time_at(wanted.length, growth) / _time_at(known.length, growth)
    if share > 1:
        return max(share, ratio)
    return ratio if known.model == "lstm" else min(ratio, known.with_less(share, stays=_STAYS_SHORTER))


def _by_bands(known: Size, wanted: Size) -> float:
    """Of as many bands of which as much is computed nothing else follows; of others by way of none."""
    same = (known.bands, known.is_paired) == (wanted.bands, wanted.is_paired)
    if same and wanted.computed <= _ALIKE * known.computed:
        return max(1.0, wanted.computed / known.computed)
    return wanted.in_bands / known.computed


def _by_layers(known: Size, wanted: Size) -> float:
    if wanted.layers < known.layers:
        return (wanted.layers + 1) / (known.layers + 1)
    if max(known.labels, wanted.labels) > 1 or wanted.model == "lstm":
        return wanted.layers / known.layers
    return (wanted.layers - 1 + _LAST_LAYER) / (known.layers - 1 + _LAST_LAYER)


def _growth(rates: Iterable[Rate]) -> Growth:
    """The times that were measured against the length: one shape without the compiler."""
    found = {rate.size.length: rate.seconds for rate in rates if not rate.compiled}
    return tuple(sorted(found.items()))


def _time_at(length: int, growth: Growth) -> float:
    """Straight between two lengths, level before the first, and behind the last as it grew there."""
    if not growth:
        return 1.0
    if length <= growth[0][0]:
        return growth[0][1]
    for (low, before), (high, after) in pairwise(growth):
        if length <= high:
            return before + (after - before) * (length - low) / (high - low)
    last, seconds = growth[-1]
    return seconds * math.pow(length / last, _last_exponent(growth))


def _last_exponent(growth: Growth) -> float:
    if len(growth) == 1:
        return 1.0
    (low, before), (high, after) = growth[-2:]
    return max(1.0, math.log(after / before) / math.log(high / low))


def _named(rate: Rate) -> str:
    size = rate.size
    task = f"{size.task} {size.form}" if size.form else size.task
    members = "1 member" if size.members == 1 else f"{size.members:,} members"
    compiled = "" if rate.compiled else " without the compiler"
    return f"{members} of ({size.layers}, {size.width}) on {task} at {size.n:,}{compiled}"
