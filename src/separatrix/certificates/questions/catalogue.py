"""Which tasks can be cut into questions, and how many regions that makes."""

from __future__ import annotations

from typing import Final

from separatrix.certificates.questions.averaging import of_q_sparse_averaging
from separatrix.certificates.questions.dyck import of_dyck
from separatrix.certificates.questions.listing import Questions
from separatrix.certificates.questions.matching import of_match2
from separatrix.certificates.questions.retrieval import of_associative_recall, of_index_lookup
from separatrix.errors import InvalidInput
from separatrix.tasks import Reals, Task
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.dyck import Dyck
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.match2 import Match2
from separatrix.tasks.q_sparse_averaging import QSparseAveraging

__all__ = ["cells_of", "questions_of"]

_COVERED: Final = (
    "index-lookup, associative-recall with order=fixed or form=sequence, match2, q-sparse-averaging and dyck"
)


def questions_of(task: Task) -> Questions:
    """What samples of a task can be, cut up: for each position that is asked, an input is in one region.

    Nothing is made before it is looked at.
    """
    match task:
        case IndexLookup():
            return of_index_lookup(task)
        case AssociativeRecall():
            return of_associative_recall(task)
        case Match2():
            return of_match2(task)
        case QSparseAveraging():
            return of_q_sparse_averaging(task)
        case Dyck():
            return of_dyck(task)
    if isinstance(task.input_space, Reals):
        raise InvalidInput(
            f"Inputs of {task.name} are rows of real numbers, so there is no finite alphabet to try at each "
            f"position; whole models are certified on {_COVERED}. "
            "Use separatrix break, which works for any task."
        )
    raise InvalidInput(
        f"Whole models are certified on {_COVERED}; got {task.name}. "
        "Use separatrix break, which works for any task."
    )


def cells_of(task: Task) -> int:
    """How many regions there are in all, without making any."""
    return questions_of(task).cells
