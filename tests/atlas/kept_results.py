"""Folders of results that nobody trained: bundles of runs with whatever numbers a test wants."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from separatrix.atlas.experiments import Asked, asked
from separatrix.evidence import Decoded
from separatrix.experiments import study_of
from separatrix.experiments.attention_pictures import AttentionPicture, AttentionPictures
from separatrix.experiments.cells import Cell, Study
from separatrix.experiments.protocols import Settings
from separatrix.experiments.r_qsa import qsa_jobs
from separatrix.store import Point, Run
from separatrix.store.bundles import write_bundle
from tests.experiments.fakes import cell_of, climb, fake_run

PROVENANCE = {"device": "NVIDIA H200", "torch": "2.99.0+cu140", "commit": "0123456789abcdef" * 2}


def paper(name: str) -> Study:
    return study_of(name, Settings(budget="paper"))


def only_panel(name: str, panel: str) -> Asked:
    """One panel of a study, as its paper has it."""
    study = paper(name)
    return asked(replace(study, panels=tuple(one for one in study.panels if one.name == panel)))


def kept_run(cell: Cell, correct: int, *, steps: int | None = None, solved_at: int | None = None) -> Run:
    """The first run of a cell, with so many of 1,000 right."""
    run = fake_run(cell.jobs[0], correct=correct, steps=steps, solved_at=solved_at)
    return replace(run, provenance=PROVENANCE)


def put_runs(
    folder: Path,
    study: Study,
    panel: str,
    numbers: Mapping[tuple[str, int], int],
    *,
    curves: Mapping[str, Sequence[Point]] | None = None,
    notes: str = "",
    steps: int | None = None,
) -> dict[tuple[str, int], Run]:
    """A bundle of a study's runs in its folder under `folder`: the first run of these cells."""
    runs = {
        place: kept_run(cell_of(study, panel, *place), correct, steps=steps)
        for place, correct in numbers.items()
    }
    drawn = {run.key: climb(run) for run in runs.values()} if curves is None else curves
    write_bundle(folder / study.name, runs.values(), drawn, name=study.name, notes=notes)
    return runs


def put_decoded(folder: Path, study: Study, panel: str, place: tuple[str, int], record: Decoded) -> Run:
    """A run that wrote its answers."""
    run = kept_run(cell_of(study, panel, *place), 400)
    write_bundle(folder / study.name, [run], {}, name=study.name, evidence={run.key: [record]})
    return run


def pictures(*, name: str = "0 steps") -> AttentionPictures:
    """Four places with sets of two: all alike before training, and the target after it."""
    sets = ((1, 2), (2, 3), (3, 4), (1, 4))
    target = tuple(tuple(0.5 if place in members else 0.0 for place in range(1, 5)) for members in sets)
    even = tuple((0.25,) * 4 for _ in sets)
    job = qsa_jobs("smoke")[0]

    def picture(called: str, weights: tuple[tuple[float, ...], ...], distance: float) -> AttentionPicture:
        return AttentionPicture(
            name=called, weights=weights, distance=distance, right=7, examples=10, label_accuracy=1 - distance
        )

    return AttentionPictures(
        task=job.task,
        model=job.model,
        member=job.members[0],
        q=2,
        text="v=(1) S={1,2}",
        sets=sets,
        steps=(0, 60),
        trained=(picture(name, even, 0.5), picture("60 steps", target, 0.0)),
        witness=picture("the theorem's unit", target, 0.0),
    )


def put_pictures(folder: Path, record: AttentionPictures, *, study: str = "r-qsa") -> Path:
    path = folder / study / "attention.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record.to_json()))
    return path
