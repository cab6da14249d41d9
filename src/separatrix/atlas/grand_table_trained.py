"""What training found, by the cells of the grand table: each kept number with the paper's beside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, final

from separatrix.atlas.experiments import Kept, paper_studies, reported
from separatrix.evidence import TaskSpec
from separatrix.experiments.cells import Panel, Study
from separatrix.experiments.outcomes import CellOutcome, StudyOutcome
from separatrix.models.specs import ModelSpec

__all__ = ["TrainedLine", "family_of", "trained_cells"]

_RECURRENT: Final = ("lstm", "mamba", "retnet", "dss", "linear-transformer", "linear-rnn")
_ATTENTION: Final = ("transformer", "llama")
_ONE_UNIT: Final = ("sparse-set-unit",)
_DEEPEST_NAMED: Final = 3


@final
@dataclass(frozen=True, kw_only=True)
class TrainedLine:
    """One cell of a figure that has a number here."""

    study: str
    where: str
    panel: str
    model: str
    column: str
    ours: str
    paper: str


def trained_cells(kept: Kept) -> Mapping[tuple[str, str], tuple[TrainedLine, ...]]:
    """Lines by task and family, of every study as its paper has it."""
    if not kept.known.runs:
        return {}
    return lines_of(reported(asked, kept) for asked in paper_studies())


def lines_of(outcomes: Iterable[StudyOutcome]) -> Mapping[tuple[str, str], tuple[TrainedLine, ...]]:
    """The lines of these outcomes; what was counted without training has none."""
    found: dict[tuple[str, str], list[TrainedLine]] = {}
    for outcome in outcomes:
        for panel in outcome.panels:
            for one in panel.cells:
                if one.accuracy is None or not one.cell.jobs:
                    continue
                job = one.cell.jobs[0]
                line = _line(outcome.study, panel.panel, one, one.accuracy)
                found.setdefault((job.task.name, family_of(job.model, job.task)), []).append(line)
    return {key: tuple(lines) for key, lines in found.items()}


def _line(study: Study, panel: Panel, one: CellOutcome, accuracy: float) -> TrainedLine:
    paper = one.paper_said if one.paper is None else f"{100 * one.paper:.1f} %"
    return TrainedLine(
        study=study.name,
        where=study.source,
        panel=panel.title,
        model=one.cell.row,
        column=f"{panel.column_name} = {one.cell.column:,}",
        ours=f"{100 * accuracy:.1f} %",
        paper=paper or "no number",
    )


def family_of(model: ModelSpec, task: TaskSpec) -> str:
    """The smallest family of the table that a trained model belongs to, with what it may write."""
    name, form = model.name, task.params.get("form")
    if name in _ONE_UNIT:
        return "transformer-1"
    if name in _ATTENTION:
        layers = model.params.get("layers")
        if form in ("cot", "retrieval"):
            return "transformer-cot"
        named = isinstance(layers, int) and layers <= _DEEPEST_NAMED
        return f"transformer-{layers}" if named else "transformer"
    if name == "hybrid":
        return "hybrid-cot" if form in ("cot", "retrieval") else "hybrid"
    if name in _RECURRENT:
        return {"cot": "linear-rnn-cot", "retrieval": "linear-rnn+retrieval"}.get(str(form), "rnn")
    return name
