"""How much memory a language takes: the states of its minimal automaton, and those at one cut.

S-L4 says: a recurrent model that decides a language on all strings, with the same update at every step, has
at least as many states as the minimal automaton, because its states with their updates are an automaton for
that language. So mp ≥ ⌈log2 states⌉. Three numbers are told apart here.

- `states`: those of the complete minimal automaton, the dead one counted. This is S-L4's number. It binds
  models that answer on strings of every length and reject whatever is no input.
- `width(cut)`: how many classes the prefixes of that length fall into, two being apart if some continuation
  to full length has different answers. A model that is right on the inputs of full length needs so many
  states at that step, whatever it does with other strings and even if its update depends on the step: this
  is the one-way message at the cut (S-T2). S uses it for equality, whose middle has 2^(N/2) classes, and
  calls these states of an automaton that may answer as it likes elsewhere.
- `live`: `states` without the dead one. Of the 8 states of Dyck-(2,2) S counts these 7.

For the strings ww with |w| = h over two symbols they are 3·2^h − 1, 2^h in the middle, and 3·2^h − 2; with a
separator in the middle the first is 2^(h + 2) − 1.

>>> from separatrix.tasks import task
>>> equality = language_states(task("equality", n=8))
>>> equality.states, equality.bits, equality.width(5).at_least, equality.widest()
(63, 6, 16, (4, OneWay(at_least=16, at_most=16)))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from separatrix.communication.automata import Automaton, automaton_of_strings
from separatrix.communication.matrices import OneWay, one_way
from separatrix.communication.task_problems import input_positions, read_labels, task_problem
from separatrix.errors import InvalidInput, TooLarge
from separatrix.tasks.interface import Classes, Partition, Task, WordTask

__all__ = ["LanguageStates", "language_states"]

_MOST_MEMBERS: Final = 1 << 22


@final
@dataclass(frozen=True, kw_only=True)
class LanguageStates:
    """The language of a task's inputs of full length with the answer 1, and the states it takes."""

    task: Task
    automaton: Automaton

    @property
    def states(self) -> int:
        """States of the complete minimal automaton."""
        return self.automaton.states

    @property
    def live(self) -> int:
        """Those from which some string is accepted."""
        return self.automaton.live

    @property
    def bits(self) -> int:
        """⌈log2 states⌉: the bits of state that S-L4 asks for."""
        return (self.states - 1).bit_length()

    def width(self, cut: int) -> OneWay:
        """Classes of prefixes of length `cut`; under a promise, bounds on how few a model can have."""
        given = len(input_positions(self.task))
        if not 1 <= cut < given:
            raise InvalidInput(f"A cut leaves symbols on both sides, 1 … {given - 1}; got {cut}.")
        return one_way(task_problem(self.task, Partition.prefix(self.task.length, cut, given=given)))

    def widest(self) -> tuple[int, OneWay]:
        """The first cut at which the most classes are needed."""
        cuts = range(1, len(input_positions(self.task)))
        return max(((cut, self.width(cut)) for cut in cuts), key=lambda pair: (pair[1].at_least, -pair[0]))


def language_states(task: Task) -> LanguageStates:
    """The minimal automaton of a task that answers yes or no once; its inputs are listed for it."""
    space = task.target_space
    if not isinstance(space, Classes) or space.size != 2 or not isinstance(task, WordTask):
        raise InvalidInput(
            f"A language is what a task of words answers yes or no to; {task.name} with these parameters "
            "is no such task. Try dyck, equality or disjointness."
        )
    held = list(input_positions(task))
    members, count = [], 0
    for inputs in task.enumerate():
        full = (
            inputs if task.vocabulary.pad is None else inputs[(inputs[:, held] != task.vocabulary.pad).all(1)]
        )
        accepted = full[read_labels(task, task.solve(full)) == 1][:, held]
        count += len(accepted)
        if count > _MOST_MEMBERS:
            raise TooLarge(
                f"The language of {task.name} has more than {_MOST_MEMBERS:,} strings with these parameters; "
                "choose a smaller n."
            )
        members.append(accepted.numpy().astype(np.uint8 if task.vocabulary.size <= 256 else np.int32))
    known = task.vocabulary.size - (task.vocabulary.pad is not None)
    words = tuple(task.vocabulary.word(number) for number in range(known))
    return LanguageStates(task=task, automaton=automaton_of_strings(np.concatenate(members), words))
