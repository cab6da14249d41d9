"""A bundle as a value: finished runs with their curves and evidence, made and merged in memory."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, final, get_args

from separatrix.errors import UnknownName
from separatrix.options import require
from separatrix.records import LONGEST_TEXT
from separatrix.store.curves import Point
from separatrix.store.evidence import SUFFIXES, Evidence, outweighs, suffix_of
from separatrix.store.keys import short
from separatrix.store.runs import FINISHED, Run

__all__ = ["KINDS", "MOST_POINTS", "Bundle", "kind_of", "make_bundle", "merge_bundles", "require_name"]

MOST_POINTS: Final = 400
"""A longer curve is thinned to so many points: the first, the last and evenly spaced ones between."""
KINDS: Final[dict[str, type[Evidence]]] = dict(
    zip((suffix.removesuffix(".json") for suffix in SUFFIXES), get_args(Evidence), strict=True)
)
"""Records of what can be found out about a run, by the names of their kinds; both come in the same order."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@final
@dataclass(frozen=True, kw_only=True)
class Bundle:
    """Finished runs in the order of their keys, with what is known about them."""

    name: str
    notes: str
    """How they came about, in words."""
    runs: tuple[Run, ...]
    points: Mapping[str, int] = field(repr=False)
    """How many points the whole curve of each run has; more than are here if it was thinned."""
    curves: Mapping[str, tuple[Point, ...]] = field(repr=False)
    evidence: Mapping[str, tuple[Evidence, ...]] = field(repr=False)
    """Of those runs of which there is any, at most one of a kind."""

    def curve(self, key: str) -> tuple[Point, ...]:
        """The learning curve of a run; no points if there were none."""
        if key not in self.points:
            raise UnknownName(f"There is no run '{key[:64]}' in the bundle '{self.name}'.")
        return self.curves.get(key, ())


def make_bundle(
    runs: Iterable[Run],
    curves: Mapping[str, Sequence[Point]],
    *,
    name: str,
    notes: str = "",
    evidence: Mapping[str, Sequence[Evidence]] | None = None,
) -> Bundle:
    """A bundle of finished runs, whatever order they come in; curves and evidence are found by their keys."""
    require_name(name)
    require(len(notes) <= LONGEST_TEXT, f"A bundle's notes may have {LONGEST_TEXT:,} characters.")
    chosen = sorted(runs, key=lambda run: run.key)
    for run in chosen:
        require(
            run.finished, f"A bundle has runs that are {', '.join(FINISHED)}; {run.short} is {run.status}."
        )
    for first, second in itertools.pairwise(chosen):
        require(first.key != second.key, f"A bundle has a run once; {first.short} was given twice.")
    keys, known = {run.key for run in chosen}, evidence or {}
    for key in [*curves, *known]:
        require(key in keys, f"There is a curve or evidence of the run {short(key)}, but no such run.")
    for key, points in curves.items():
        ordered = all(later.step > sooner.step for sooner, later in itertools.pairwise(points))
        require(ordered, f"The points of a curve come in the order of their steps; of {short(key)} not.")
    return Bundle(
        name=name,
        notes=notes,
        runs=tuple(chosen),
        points=MappingProxyType({run.key: len(curves.get(run.key, ())) for run in chosen}),
        curves=MappingProxyType({key: _thinned(points) for key, points in curves.items() if points}),
        evidence=MappingProxyType({key: _one_of_a_kind(key, known[key]) for key in known if known[key]}),
    )


def require_name(name: str) -> str:
    """The name itself, if it can name a folder everywhere."""
    require(
        _NAME.fullmatch(name) is not None,
        "A bundle's name has up to 100 letters, digits, dots, hyphens and underscores and begins with a "
        f"letter or digit; got {name[:60]!r}. Give it another.",
    )
    return name


def merge_bundles(older: Bundle, newer: Bundle) -> Bundle:
    """All runs of both, under the newer one's name; its notes take the older one's place if it has any.

    Of a run that is in both the one with more steps stays, then the one that finished later, then the newer
    bundle's. Evidence stays with its run; of two records of a kind the newer bundle's stays, unless it is of
    weaker attacks.
    """
    first, second = ({run.key: run for run in bundle.runs} for bundle in (older, newer))
    runs, points, curves, evidence = {}, {}, {}, {}
    for key in sorted({*first, *second}):
        mine, yours = _rank(older, first.get(key)), _rank(newer, second.get(key))
        kept = newer if yours >= mine else older
        runs[key] = (second if kept is newer else first)[key]
        points[key] = kept.points[key]
        if key in kept.curves:
            curves[key] = kept.curves[key]
        # Records are about weights: those of the same training add up, those of another are another's.
        sources = (older, newer) if mine[:2] == yours[:2] else (kept,)
        records: dict[type[Evidence], Evidence] = {}
        for each in (each for source in sources for each in source.evidence.get(key, ())):
            if not outweighs(records.get(type(each)), each):
                records[type(each)] = each
        if records:
            evidence[key] = _one_of_a_kind(key, [*records.values()])
    return Bundle(
        name=newer.name,
        notes=newer.notes or older.notes,
        runs=tuple(runs.values()),
        points=MappingProxyType(points),
        curves=MappingProxyType(curves),
        evidence=MappingProxyType(evidence),
    )


def _thinned(points: Sequence[Point]) -> tuple[Point, ...]:
    last, most = len(points) - 1, MOST_POINTS - 1
    if last <= most:
        return tuple(points)
    return tuple(points[place * last // most] for place in range(MOST_POINTS))


def _rank(bundle: Bundle, run: Run | None) -> tuple[int, str, int]:
    """What a run is worth against another of its key."""
    return (-1, "", 0) if run is None else (run.steps, run.updated, bundle.points[run.key])


def kind_of(record: Evidence) -> str:
    """The name of the kind of a record."""
    return suffix_of(record).removesuffix(".json")


def _one_of_a_kind(key: str, records: Sequence[Evidence]) -> tuple[Evidence, ...]:
    ordered = sorted(records, key=kind_of)
    for first, second in itertools.pairwise(ordered):
        same = kind_of(first) == kind_of(second)
        require(not same, f"There are two records of {kind_of(first)} of the run {short(key)}.")
    return tuple(ordered)
