"""How many inputs a statement is about: a formula that says which they are, and the number itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from separatrix.evidence import InputsCovered
from separatrix.tasks import Task

__all__ = ["inputs_of"]


def inputs_of(task: Task) -> InputsCovered:
    """Every input of a task, all its lengths included."""
    formula = _FORMULAS.get(task.name, _any)(task)
    return InputsCovered.of(formula=formula, count=task.domain_size())


def _any(task: Any) -> str:
    return f"all inputs of {task.name} with n = {task.n}"


def _index_lookup(task: Any) -> str:
    return f"Σ_(k=1…{task.n}) k·{task.alphabet}^k"


def _equality(task: Any) -> str:
    if task.domain_size() == task.symbols**task.n:
        return f"{task.symbols}^{task.n}"
    return f"Σ_(h=1…{task.n // 2}) {task.symbols}^(2h)"


def _recall(task: Any) -> str:
    if task.form == "sequence":
        return f"every sequence of at most {task.n} tokens with every query that occurs in it"
    if task.order == "fixed":
        return f"Σ_(k=1…{task.n}) k·(labels)^k"
    return f"Σ_(k=1…{task.n}) k·(choices of k different keys in order)·(labels)^k"


def _mqar(task: Any) -> str:
    half, values = task.n // 2, task.vocabulary_size // 2
    return f"({values})!/({values - half})! · {values}^{half} · {half}!"


def _dyck(task: Any) -> str:
    if task.form == "next":
        return f"members of Dyck-({task.types}, {task.depth}) of length {task.n}"
    return f"{2 * task.types}^{task.n}"


def _match(task: Any) -> str:
    free = task.n - (getattr(task, "variant", "") == "last")
    return f"{task.residues}^{free}"


def _machine_runs(task: Any) -> str:
    symbols = len(task.program.alphabet)
    return f"Σ_(k=0…{task.n}) {symbols}^k (a tape without room for its run asks nothing)"


_FORMULAS: Final[Mapping[str, Callable[[Any], str]]] = MappingProxyType(
    {
        "index-lookup": _index_lookup,
        "equality": _equality,
        "associative-recall": _recall,
        "mqar": _mqar,
        "match2": _match,
        "match3": _match,
        "disjointness": lambda task: f"2^{task.n}",
        "sparse-threshold": lambda task: f"2^{task.n}",
        "dyck": _dyck,
        "machine-runs": _machine_runs,
        "cycle3": lambda task: f"2^({task.n}·{task.n - 1})",
        "cycle5": lambda task: f"2^({task.n}·{task.n - 1}/2)",
        "q-sparse-averaging": lambda task: (
            f"((2·{task.grid}+1)^{task.d} · Σ_(r=0…{task.q}) C({task.n}, r))^{task.n}"
        ),
    }
)
