"""Cells on equality: S's six models with two layers, and the two solvers that it calls shortcuts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from separatrix.experiments.cells import Cell, Measured, Panel
from separatrix.experiments.protocols import S_MODELS, Settings, named, s_jobs, s_protocol, s_shape
from separatrix.store import Store
from separatrix.tasks import task
from separatrix.tasks.equality import Equality
from separatrix.tasks.interface import Task

__all__ = ["Form", "equality_cells", "equality_task", "hard_panel", "quick_rates_of", "shortcut_cells"]

Form = Literal["random", "one", "ncp"]
_LAYERS = 2
_QUICK_RATES: Mapping[tuple[Form, str], tuple[float, float]] = {
    ("ncp", "TF"): (1e-3, 5e-4),
    ("ncp", "Mamba"): (1e-2, 5e-3),
}
"""Where others than a model's usual ones were seen to do better. By next characters attention copies at N =
100, 200 and 400 with the first; 0.002 does so at 200 alone. Mamba copies ten symbols after 9,000 steps with
0.01 and not after 20,000 with 0.001; fifty, nine times in ten, after 20,000 and never after 40,000.
"""
_SHORT = 200
"""Up to here the paper has every model copying."""
_LEAST_HARD = 24
"""Room for a swap behind a prefix of 10."""
_SHORTCUTS = {"prefix": "shortcut: a prefix of 10", "counts": "shortcut: symbol counts"}


def equality_task(settings: Settings, *, form: Form, n: int) -> Task:
    """The paper's alphabet, or a small one."""
    small = 2 if form == "random" else 8
    return task("equality", n=n, form=form, alphabet=small if settings.small else 0)


def equality_cells(settings: Settings, *, form: Form, width: int, columns: Sequence[int]) -> tuple[Cell, ...]:
    """A row for each of the six models."""
    layers, wide = s_shape(settings, _LAYERS, width)
    cells = []
    for label in S_MODELS:
        for n in columns:
            asked = equality_task(settings, form=form, n=n)
            protocol = s_protocol(
                settings,
                label,
                width=wide,
                quick_steps=_quick_steps(label, form, n),
                quick_rates=quick_rates_of(form, label),
            )
            jobs = s_jobs(settings, protocol, asked, label, layers=layers, width=wide)
            cells.append(Cell(row=named(label, layers, wide), column=n, jobs=jobs))
    return tuple(cells)


def quick_rates_of(form: Form, label: str) -> tuple[float, float] | None:
    """The two that this model gets at the quick budget, if not its usual ones."""
    return _QUICK_RATES.get((form, label))


def _quick_steps(label: str, form: Form, n: int) -> int:
    """Copying takes long to begin, and the longer the string the longer. At 600, the other length of a quick
    look, the paper has attention alone copying, so the others get less time for it there.
    """
    if form != "ncp":
        return 10_000
    if label == "TF":
        return 40_000 if n <= _SHORT else 80_000
    return 30_000 if n <= _SHORT else 4_000


def shortcut_cells(settings: Settings, *, form: Form, columns: Sequence[int]) -> tuple[Cell, ...]:
    """A row for each shortcut, on the examples that the models are tested on."""
    examples = 200 if settings.small else 5000
    return tuple(
        Cell(
            row=row,
            column=n,
            measure=partial(_shortcut, name, equality_task(settings, form=form, n=n), examples),
        )
        for name, row in _SHORTCUTS.items()
        for n in columns
    )


def _shortcut(name: str, asked: Task, examples: int, _: Store) -> Measured:
    from separatrix.experiments.shortcuts import shortcut_score  # noqa: PLC0415  few studies need it

    found = shortcut_score(name, asked, examples=examples)
    bits = f"{found.state_bits:,} bits of state, where the task needs {found.exact_bits:,}"
    return Measured(right=found.right, examples=found.examples, note=bits)


def hard_panel(settings: Settings, *, columns: Sequence[int]) -> Panel:
    """The shortcuts on pairs that differ by a swap behind the prefix, which the tasks hardly ever have."""
    examples = 200 if settings.small else 5000
    return Panel(
        name="hard-negatives",
        title="Unequal strings alike in prefix and counts",
        cells=tuple(
            Cell(row=row, column=n, measure=partial(_on_hard_negatives, name, n, examples))
            for name, row in _SHORTCUTS.items()
            for n in columns
            if n >= _LEAST_HARD
        ),
    )


def _on_hard_negatives(name: str, n: int, examples: int, _: Store) -> Measured:
    from separatrix.experiments.shortcuts import hard_negatives, shortcut_answers  # noqa: PLC0415

    asked = Equality(n=n, form="one")
    batch = hard_negatives(asked, examples=examples)
    wrong = int(shortcut_answers(name, asked, batch.inputs).sum())
    return Measured(right=examples - wrong, examples=examples)
