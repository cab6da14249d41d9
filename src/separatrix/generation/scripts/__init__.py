"""Scripts by kind: how inputs of tasks are put to models that write.

Each kind lives in a file of its own beside this one, and nothing is imported until somebody asks for it.
"""

from __future__ import annotations

import importlib
import typing
from collections.abc import Sequence
from typing import Final

from separatrix.errors import InvalidInput
from separatrix.generation.runs import Run
from separatrix.generation.scripts.base import Script, TreeScript
from separatrix.registry import unknown_name
from separatrix.tasks import Task

__all__ = ["SCRIPTS", "Script", "TreeScript", "answers_of", "script_named"]

SCRIPTS: Final[dict[str, str]] = {
    "is-tree-verdict": "is_tree:VerdictScript",
    "is-tree-tour": "is_tree:TourScript",
    "is-tree-searches": "is_tree_searches:SearchTraceScript",
    "is-tree-compact-searches": "is_tree_searches:CompactTraceScript",
    "is-tree-doubling": "is_tree_doubling:DoublingTourScript",
    "index-search": "small_searches:IndexSearch",
    "recall-search": "small_searches:RecallSearch",
    "count-search": "small_searches:CountSearch",
    "turing-searches": "turing:SearchScript",
    "turing-hybrid": "turing:HybridScript",
    "turing-tape": "turing:TapeScript",
    "replay": "separatrix.witnesses.replay.script:ReplayScript",
}
"""Where each kind lives: `module:Class` in this package, or with the module's full name elsewhere."""


def script_named(kind: str, task: Task) -> Script:
    """The script of this kind for a task; a task that it is not about is refused."""
    if kind not in SCRIPTS:
        raise unknown_name("script", kind, tuple(SCRIPTS))
    module, _, name = SCRIPTS[kind].partition(":")
    home = module if "." in module else f"{__name__}.{module}"
    leaf = getattr(importlib.import_module(home), name)
    if not isinstance(task, typing.get_type_hints(leaf.__init__)["task"]):
        raise InvalidInput(f"The script {kind} is not about {task.name}; choose a task that it is about.")
    made = leaf(task)
    assert isinstance(made, Script)
    return made


def answers_of(runs: Sequence[Run], script: Script) -> list[int | None]:
    """The task's answer of each run; None for a run that was not answered."""
    return [script.answer(run.written) if run.outcome == "answered" else None for run in runs]
