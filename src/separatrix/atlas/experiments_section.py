"""What training found: the papers' figures with our numbers, drawn and as tables, and what made them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from separatrix.atlas.experiments import Asked, Kept, paper_studies, reported, runs_of
from separatrix.atlas.experiments_drawings import draw_curves, draw_heat_map, draw_matrix
from separatrix.experiments.attention_pictures import AttentionPicture, AttentionPictures
from separatrix.experiments.cells import Study
from separatrix.experiments.outcomes import PanelOutcome
from separatrix.experiments.tables import headings_of, lines_below, notes_of, rows_of
from separatrix.records import JsonValue
from separatrix.store import Run

__all__ = [
    "ExperimentsSection",
    "MatrixCard",
    "PanelCard",
    "StudyCard",
    "collect_experiments",
]

_COMMIT: Final = 7
"""Characters of a commit that tell it from others."""
_LONGEST: Final = 60
"""Characters of what a run says of its device and versions."""


@dataclass(frozen=True, kw_only=True)
class PanelCard:
    """A panel: its heat map, its curves where there are any, its table, and what to know of it."""

    name: str
    title: str
    cells: int
    ran: int
    begun: bool
    """Whether there is a run of any cell, with a number or without."""
    plot: str
    says: str
    curves: str
    curves_say: str
    lines: tuple[str, ...]
    notes: tuple[str, ...]
    """On single cells."""
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class MatrixCard:
    """A matrix of attention with what stands beneath it."""

    name: str
    plot: str
    says: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class StudyCard:
    """A study with its panels; `made` says on what its runs were computed, `notes` what else is to know."""

    study: Study
    panels: tuple[PanelCard, ...]
    matrices: tuple[MatrixCard, ...] = ()
    pictured: str = ""
    input: str = ""
    made: tuple[str, ...] = ()
    notes: str = ""

    @property
    def cells(self) -> int:
        """How many there are."""
        return sum(panel.cells for panel in self.panels)

    @property
    def ran(self) -> int:
        """How many have a number."""
        return sum(panel.ran for panel in self.panels)


@dataclass(frozen=True, kw_only=True)
class ExperimentsSection:
    """All studies, and how the pairs of models that the papers hold apart come out."""

    studies: tuple[StudyCard, ...] = ()
    pairs: int = 0
    kept: int = 0
    lost: int = 0
    later: int = 0
    """Pairs that are not kept, of which the better one has steps left."""

    @property
    def cells(self) -> int:
        """Of all studies of the papers."""
        return sum(card.cells for card in self.studies if card.study.work is not None)

    @property
    def ran(self) -> int:
        """Cells of all studies of the papers that have a number."""
        return sum(card.ran for card in self.studies if card.study.work is not None)

    @property
    def beyond(self) -> tuple[StudyCard, ...]:
        """Studies that no paper has."""
        return tuple(card for card in self.studies if card.study.work is None)

    @property
    def waiting(self) -> int:
        """Pairs of which one was not run."""
        return self.pairs - self.kept - self.lost - self.later


def collect_experiments(kept: Kept, *, studies: Sequence[Asked] | None = None) -> ExperimentsSection:
    """The section that kept runs make, for the papers' studies or for those given."""
    cards, pairs = [], []
    for asked in paper_studies() if studies is None else studies:
        outcome = reported(asked, kept)
        pairs += [pair for panel in outcome.panels for pair in panel.separations()]
        cards.append(_card(asked.study, outcome.panels, kept))
    return ExperimentsSection(
        studies=tuple(cards),
        pairs=len(pairs),
        kept=sum(pair.kept is True for pair in pairs),
        lost=sum(pair.kept is False and not pair.open for pair in pairs),
        later=sum(pair.kept is False and pair.open for pair in pairs),
    )


def _card(study: Study, panels: Iterable[PanelOutcome], kept: Kept) -> StudyCard:
    pictures = kept.pictures.get(study.name)
    return StudyCard(
        study=study,
        panels=tuple(_panel(study, panel) for panel in panels),
        matrices=() if pictures is None else _matrices(pictures, study.name),
        pictured="" if pictures is None else _pictured(pictures),
        input="" if pictures is None else pictures.text,
        made=(*_made(runs_of(study, kept.known.runs)), *_measured(study, kept)),
        notes=kept.notes.get(study.name, ""),
    )


def _panel(study: Study, panel: PanelOutcome) -> PanelCard:
    name = f"study-{study.name}-{panel.panel.name}"
    plot, says = draw_heat_map(panel, f"{name}-map")
    curves, curves_say = draw_curves(panel, f"{name}-curves")
    lines, notes = tuple(lines_below(panel)), notes_of(panel)
    general = len(lines) - len(notes)  # what is said of single cells comes last
    return PanelCard(
        name=panel.panel.name,
        title=panel.panel.title,
        cells=len(panel.cells),
        ran=sum(one.accuracy is not None for one in panel.cells),
        begun=any(one.state != "not run" for one in panel.cells),
        plot=plot,
        says=says,
        curves=curves,
        curves_say=curves_say,
        lines=lines[:general],
        notes=lines[general:],
        headings=headings_of(panel),
        rows=tuple(rows_of(panel)),
    )


def _matrices(pictures: AttentionPictures, study: str) -> tuple[MatrixCard, ...]:
    """The unit while it learns, the pattern that the task asks for, the theorem's unit: under one scale."""
    scale, rings = 1.5 / pictures.q, pictures.sets
    shown = [(picture.name, picture.weights, rings, _astray(picture)) for picture in pictures.trained]
    shown.append(("target", pictures.target, (), (f"1/{pictures.q} at the members of S_i",)))
    shown.append((pictures.witness.name, pictures.witness.weights, (), _astray(pictures.witness)))
    return tuple(
        MatrixCard(
            name=name,
            plot=draw_matrix(
                weights,
                f"study-{study}-matrix-{number}",
                most=scale,
                sets=sets,
                title=f"Attention: {name}",
                desc="; ".join(says),
            ),
            says=says,
        )
        for number, (name, weights, sets, says) in enumerate(shown)
    )


def _astray(picture: AttentionPicture) -> tuple[str, ...]:
    return (
        f"{100 * picture.distance:.1f} % of the weight astray",
        f"{100 * picture.label_accuracy:.1f} % of answers right",
    )


def _pictured(pictures: AttentionPictures) -> str:
    return (
        f"Attention on one input of N = {len(pictures.sets)} places with sets of at most q = {pictures.q}: "
        f"in row i the weight that place i gives to every place, from 0 to {1.5 / pictures.q:.2g}, with "
        "frames at the members of S_i. Astray is the weight that would have to move to make a matrix the "
        "target."
    )


def _measured(study: Study, kept: Kept) -> tuple[str, ...]:
    """On what the study's series were computed."""
    places = [kept.made[series.key] for series in study.series if series.key in kept.made]
    if not places:
        return ()
    commits = sorted({str(place.get("commit"))[:_COMMIT] for place in places})
    devices = sorted({str(place.get("device"))[:_LONGEST] for place in places})
    rows = "1 row" if len(places) == 1 else f"{len(places):,} rows"
    return (f"{rows} measured without training on {', '.join(devices)}, commit {', '.join(commits)}",)


def _made(runs: Sequence[Run]) -> tuple[str, ...]:
    """On what runs were computed: devices with their runs and seconds, versions, commits.

    Seconds of runs that shared a device are the same ones many times over, so they are not added up.
    """
    by_device: dict[tuple[str, bool], list[float]] = {}
    for run in runs:
        place = _told(run, "device"), bool(run.provenance.get("abreast"))
        by_device.setdefault(place, []).append(run.seconds)
    said = [
        f"{len(times):,} run{'' if len(times) == 1 else 's'}"
        f"{' side by side' if shared else f', {sum(times):,.0f} s'} on {device}"
        for (device, shared), times in sorted(by_device.items())
    ]
    torch = sorted({_told(run, "torch") for run in runs})
    commits = sorted({_told(run, "commit")[:_COMMIT] for run in runs})
    if runs:
        said.append(f"torch {', '.join(torch)}")
        said.append(f"commit {', '.join(commits)}")
    return tuple(said)


def _told(run: Run, name: str) -> str:
    told: JsonValue = run.provenance.get(name)
    return "unknown" if told is None else str(told)[:_LONGEST]
