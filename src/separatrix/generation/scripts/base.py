"""What a script is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from separatrix.generation.spelling import AsWritten, Spelling
from separatrix.tasks import Task
from separatrix.tasks.interface import ChainTask
from separatrix.tasks.vocabulary import Vocabulary

__all__ = ["Script", "TreeScript"]


class Script(ABC):
    """How an input of a task is put to a model that writes, and how the answer is read from what it wrote.

    A leaf that is to be found by its kind is made from a task alone. Its constructor calls that parameter
    `task` and annotates it with the tasks it takes.
    """

    kind: ClassVar[str]
    """The name it is found under."""
    searches: ClassVar[bool] = False
    """Whether words between <StartSearch> and <EndSearch> are searches."""
    spelling: ClassVar[type[Spelling]] = AsWritten
    """How the words of a row stand in the text that its searches read."""

    @property
    @abstractmethod
    def task(self) -> Task:
        """The task whose inputs it puts."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """The words the model reads and writes."""

    @property
    @abstractmethod
    def answers(self) -> frozenset[int]:
        """Tokens that end a run when the model itself writes one outside a search."""

    @property
    @abstractmethod
    def limit(self) -> int:
        """The most tokens added to a prompt, results of searches included."""

    @property
    def longest(self) -> int:
        """The most tokens of a whole text: an input, two marks around it, and what may be written."""
        task = self.task
        given = task.prompt if isinstance(task, ChainTask) else task.length
        return given + 2 + self.limit

    @abstractmethod
    def prompt(self, row: Int[Tensor, "pos"]) -> list[int]:
        """What the model is given of an input of the task, without padding."""

    @abstractmethod
    def answer(self, written: Sequence[int]) -> int | None:
        """The class of the task's answer that these tokens end in; None if they end in no answer."""


class TreeScript(Script):
    """A script whose runs walk through a graph."""

    @abstractmethod
    def tour(self, written: Sequence[int]) -> list[int]:
        """The vertices in the order in which the walk stood at them, whatever else was written."""
