"""What can a sequence model of this size compute, at this length?

>>> import separatrix
>>> lookup = separatrix.task("index-lookup", n=5, alphabet=4)
>>> lookup.render(lookup.parse("s2 s0 s3 s1 @3"))
's2 s0 s3 s1 @3'

Everything here is imported when it is first asked for, so `import separatrix` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from separatrix.version import __version__

if TYPE_CHECKING:
    from separatrix.atlas import make_atlas
    from separatrix.audits import audit
    from separatrix.audits.probing import probe
    from separatrix.certificates import break_model, certify
    from separatrix.certificates.frontier import frontier
    from separatrix.communication import bound, bounds_for, collide, run_protocol, wall
    from separatrix.errors import SeparatrixError
    from separatrix.experiments.reproducing import reproduce
    from separatrix.models import MODELS, model
    from separatrix.models.sizing import size_of
    from separatrix.store import Store
    from separatrix.tasks import TASKS, Batch, task
    from separatrix.training import Member, Training, train
    from separatrix.witnesses import witness_for
    from separatrix.witnesses.files import load, save
    from separatrix.witnesses.solving import solve

__all__ = [
    "MODELS",
    "TASKS",
    "Member",
    "SeparatrixError",
    "Store",
    "Training",
    "__version__",
    "audit",
    "bound",
    "bounds_for",
    "break_model",
    "certify",
    "collide",
    "frontier",
    "load",
    "make_atlas",
    "model",
    "probe",
    "reproduce",
    "run_protocol",
    "sample",
    "save",
    "size_of",
    "solve",
    "task",
    "train",
    "wall",
    "witness_for",
]

_HOMES = {
    "MODELS": "separatrix.models",
    "TASKS": "separatrix.tasks",
    "Member": "separatrix.training",
    "Store": "separatrix.store",
    "Training": "separatrix.training",
    "SeparatrixError": "separatrix.errors",
    "audit": "separatrix.audits",
    "bound": "separatrix.communication",
    "bounds_for": "separatrix.communication",
    "break_model": "separatrix.certificates",
    "certify": "separatrix.certificates",
    "collide": "separatrix.communication",
    "frontier": "separatrix.certificates.frontier",
    "load": "separatrix.witnesses.files",
    "make_atlas": "separatrix.atlas",
    "model": "separatrix.models",
    "probe": "separatrix.audits.probing",
    "reproduce": "separatrix.experiments.reproducing",
    "run_protocol": "separatrix.communication",
    "save": "separatrix.witnesses.files",
    "size_of": "separatrix.models.sizing",
    "solve": "separatrix.witnesses.solving",
    "task": "separatrix.tasks",
    "train": "separatrix.training",
    "wall": "separatrix.communication",
    "witness_for": "separatrix.witnesses",
}


def sample(name: str, count: int, *, seed: int = 0, start: int = 0, **parameters: Any) -> Batch:
    """Examples `start` … `start + count − 1` of the task of this name with these parameters.

    The same numbers under the same seed are the same examples, however many are drawn at once.
    """
    from separatrix.tasks import task

    return task(name, **parameters).sample(count, seed=seed, start=start)


def __getattr__(name: str) -> Any:
    """Import a public name on first use and keep it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'separatrix' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
