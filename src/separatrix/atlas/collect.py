"""Everything the page says, as plain data read from the registries.

Nothing here is typed in by hand. Tasks come from `TASKS`, models from `MODELS`, results from
`separatrix.theorems`, the papers' figures from `EXPERIMENTS` with the runs that were kept, and what is built
from the packages in `HOLDERS`: one that exists offers

    def artefacts() -> Iterable[separatrix.theorems.Artefact]

with the key of each witness, bound and protocol it holds. A key that a theorem owes turns that claim's state
from "not built yet" to "built".
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, cast, get_args

from separatrix.atlas.bounds import Needs, collect_bounds
from separatrix.atlas.certified import Certified, certified
from separatrix.atlas.coverage import coverage_record
from separatrix.atlas.coverage_section import CoverageSection, collect_coverage
from separatrix.atlas.examples import Example, example_of
from separatrix.atlas.experiments import kept_in
from separatrix.atlas.experiments_section import ExperimentsSection, collect_experiments
from separatrix.atlas.grand_table import GrandTable, View, collect_grand_table
from separatrix.atlas.grand_table_trained import trained_cells
from separatrix.atlas.models import Zoo, collect_models
from separatrix.atlas.plots import Plots, collect_plots
from separatrix.errors import InvalidInput
from separatrix.tasks import TASKS, Task
from separatrix.theorems import (
    FAMILIES,
    THEOREMS,
    WORKS,
    Artefact,
    Family,
    Kind,
    Owed,
    Slip,
    Theorem,
    Work,
    open_questions,
    rows,
)
from separatrix.version import __version__

__all__ = [
    "HOLDERS",
    "Claim",
    "Content",
    "Erratum",
    "Result",
    "ResultRow",
    "Tally",
    "TaskCard",
    "collect_content",
]

HOLDERS: Final = ("separatrix.witnesses", "separatrix.communication")
"""Packages that hold artefacts, once they exist."""


class Holder(Protocol):
    """What a package of `HOLDERS` must offer."""

    def artefacts(self) -> Iterable[Artefact]:
        """The key of everything it holds."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim of a theorem, with the artefacts that would show it and which of them there are."""

    owed: Owed
    artefacts: tuple[Artefact, ...]
    built: frozenset[Artefact]
    certified: tuple[Certified, ...] = ()

    @property
    def missing(self) -> tuple[Artefact, ...]:
        """What is owed and not there."""
        return tuple(artefact for artefact in self.artefacts if artefact not in self.built)

    @property
    def state(self) -> str:
        """In words; an open claim can have no artefact."""
        if self.owed.status == "open":
            return "open"
        if not self.missing:
            return "built"
        return f"{len(self.built)} of {len(self.artefacts)} built" if self.built else "not built yet"


@dataclass(frozen=True, kw_only=True)
class Result:
    """A theorem with the state of its claims."""

    theorem: Theorem
    claims: tuple[Claim, ...]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks it speaks of, or those of the theorem it restates; none means every task."""
        return self._stated.tasks

    @property
    def families(self) -> tuple[str, ...]:
        """The families it speaks of, or those of the theorem it restates."""
        return self._stated.families

    @property
    def reach(self) -> tuple[str, ...]:
        """The families it holds for: bounds reach inwards, witnesses outwards. None means two parties."""
        return self._stated.reach

    def remarks(self, claim: Claim) -> tuple[str, ...]:
        """What tells a claim from others of the same formula: its variant, its argument, whose it is."""
        owed, cited = claim.owed, WORKS[self.theorem.source.work].arxiv is not None
        said = (
            owed.variant if owed.variant != owed.via else "",
            f"via {owed.via}" if owed.via else "",
            "beyond the source’s statement" if owed.own and cited else "",
        )
        return tuple(remark for remark in said if remark)

    @property
    def _stated(self) -> Theorem:
        return THEOREMS[self.theorem.restates] if self.theorem.restates else self.theorem


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """Results that belong together, under one label."""

    label: str
    results: tuple[Result, ...]


@dataclass(frozen=True, kw_only=True)
class TaskCard:
    """A task with one drawn example, or the reason why there is none, and the results that speak of it."""

    name: str
    title: str
    letters: tuple[str, ...]
    summary: str
    results: tuple[str, ...]
    example: Example | None
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Erratum:
    """A slip of a paper and the results it touches."""

    slip: Slip
    results: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How many of one kind there are, of how many."""

    noun: str
    built: int
    owed: int


@dataclass(frozen=True, kw_only=True)
class Content:
    """The whole page, before it looks like anything."""

    version: str
    seed: int
    works: tuple[Work, ...]
    tallies: tuple[Tally, ...]
    tasks: tuple[TaskCard, ...]
    rows: tuple[ResultRow, ...]
    partners: tuple[Result, ...]
    questions: tuple[Theorem, ...]
    families: tuple[Family, ...]
    table: GrandTable
    needs: Needs
    models: Zoo
    plots: Plots
    experiments: ExperimentsSection
    coverage: CoverageSection
    errata: tuple[tuple[Work, tuple[Erratum, ...]], ...]


def collect_content(
    *,
    seed: int,
    holders: Sequence[str] = HOLDERS,
    results: Path | None = None,
    view: View | None = None,
) -> Content:
    """Read every registry once, and the bundles in `results`; `view` is where the grand table opens."""
    if not 0 <= seed < 1 << 63:
        raise InvalidInput(f"The atlas needs a seed from 0 to 2^63 − 1; got seed={seed}.")
    kept = kept_in(results)
    held = _held(holders)
    proven = certified()
    table = tuple(
        ResultRow(label=row.label, results=tuple(_result(entry, held, proven) for entry in row.theorems))
        for row in rows()
    )
    listed = {result.theorem.id for row in table for result in row.results}
    partners = tuple(
        _result(entry, held, proven)
        for entry in THEOREMS.values()
        if entry.id not in listed and entry.status != "open"
    )
    cards = tuple(_card(name, kind, seed) for name, kind in TASKS.items())
    return Content(
        version=__version__,
        seed=seed,
        works=tuple(work for work in WORKS.values() if work.arxiv),
        tallies=(_task_tally(cards), *_tallies([*(r for row in table for r in row.results), *partners])),
        tasks=cards,
        rows=table,
        partners=partners,
        questions=open_questions(),
        families=tuple(FAMILIES.values()),
        table=collect_grand_table(proven, trained=trained_cells(kept), view=view),
        needs=collect_bounds(tuple(proven.values())),
        models=collect_models(),
        plots=collect_plots(),
        experiments=collect_experiments(kept),
        coverage=collect_coverage(coverage_record()),
        errata=_errata(),
    )


def _held(holders: Sequence[str]) -> frozenset[Artefact]:
    """The keys of all that is built. A package that is not there holds nothing; a broken one is an error."""
    found: set[Artefact] = set()
    for name in holders:
        if importlib.util.find_spec(name) is not None:
            found.update(cast(Holder, importlib.import_module(name)).artefacts())
    strangers = sorted({artefact.theorem for artefact in found} - set(THEOREMS))
    assert not strangers, f"artefacts are registered for theorems that do not exist: {', '.join(strangers)}"
    return frozenset(found)


def _result(theorem: Theorem, held: frozenset[Artefact], proven: Mapping[Artefact, Certified]) -> Result:
    keys = iter(theorem.artefacts)
    claims = []
    for owed in theorem.owes:
        count = max(1, len(owed.tasks)) * max(1, len(owed.families))
        artefacts = tuple(next(keys) for _ in range(count))
        built = held.intersection(artefacts)
        shown = tuple(proven[artefact] for artefact in artefacts if artefact in built & proven.keys())
        claims.append(Claim(owed=owed, artefacts=artefacts, built=built, certified=shown))
    return Result(theorem=theorem, claims=tuple(claims))


def _card(name: str, kind: type[Task], seed: int) -> TaskCard:
    try:
        example, problem = example_of(name, kind, seed=seed), ""
    except InvalidInput as refusal:
        example, problem = None, str(refusal)
    return TaskCard(
        name=name,
        title=kind.title,
        letters=tuple(re.findall(r"[A-Z]+", kind.source)),
        summary=(inspect.getdoc(kind) or "").partition("\n")[0],
        results=tuple(entry.id for entry in THEOREMS.values() if name in entry.tasks),
        example=example,
        problem=problem,
    )


def _task_tally(cards: Sequence[TaskCard]) -> Tally:
    return Tally(noun="tasks", built=len(cards), owed=len(TASKS.names()))


def _tallies(results: Sequence[Result]) -> list[Tally]:
    plural: dict[Kind, str] = {"witness": "witnesses", "bound": "bounds", "protocol": "protocols"}
    tallies = []
    for kind in get_args(Kind):
        claims = [claim for result in results for claim in result.claims if claim.owed.kind == kind]
        tallies.append(
            Tally(
                noun=plural[kind],
                built=sum(len(claim.built) for claim in claims),
                owed=sum(len(claim.artefacts) for claim in claims),
            )
        )
    return tallies


def _errata() -> tuple[tuple[Work, tuple[Erratum, ...]], ...]:
    touched: dict[str, dict[Slip, list[str]]] = {letter: {} for letter in WORKS}
    for entry in THEOREMS.values():
        for slip in entry.slips:
            touched[entry.source.work].setdefault(slip, []).append(entry.id)
    return tuple(
        (WORKS[letter], tuple(Erratum(slip=slip, results=tuple(ids)) for slip, ids in slips.items()))
        for letter, slips in touched.items()
        if slips
    )
