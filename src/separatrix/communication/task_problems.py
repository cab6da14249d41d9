"""A task whose input is split between two parties, as a two-party problem.

Alice's strings are all that may stand at her positions in an input of full length, Bob's likewise. Not every
pair of them need be an input: a path and an edge may have a vertex too many. Such a pair is undefined, and
the problem is one under a promise.

Where every string of tokens is an input (brackets, bits, residues) nothing is listed and any size will do;
any other task is listed once, to find which strings and which pairs there are.

>>> from separatrix.tasks import task
>>> split = task_problem(task("dyck", n=4), "odd/even")
>>> split.rows, split.columns, split.total
(16, 16, True)
>>> split.row_text(8), split.column_text(7)
('[ (', ') ]')
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Final, Literal, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from separatrix.communication.entries import UNDEFINED, Entries, entry_type
from separatrix.errors import InvalidInput, TooLarge
from separatrix.tasks.domains import digits
from separatrix.tasks.interface import ChainTask, Classes, Labels, Partition, Task, Tokens, WordTask

__all__ = ["Reading", "TaskProblem", "input_positions", "partition_of", "read_labels", "task_problem"]

_SOLVED: Final = 1 << 13
"""Inputs assembled and solved at a time: so few that they stay in cache."""
_MOST_LISTED: Final = 1 << 24
_MOST_STRINGS: Final = 1 << 26
_COUNTED_BITS: Final = 1 << 20
_POSITIONS: Final = re.compile(r"\d{1,9}(-\d{1,9})?(,\d{1,9}(-\d{1,9})?)*", re.ASCII)
Reading = Literal["answer", "any"] | int
"""Which number of the labels the parties want."""


def task_problem(
    task: Task, partition: str | Partition | None = None, *, reading: Reading | None = None
) -> TaskProblem:
    """The task under a split of its positions, by name or given; without one, the first that it lists.

    `reading` says what the parties want where a task asks at several positions: "answer" is the last label,
    the verdict of a chain of thought; "any" is whether some label is 1; a number is the position of the
    label, counted from 0. Without it a task that asks once, or thinks first, is read by its answer, and one
    that asks yes or no at every position by "any".
    """
    name, split = partition_of(task, partition)
    return TaskProblem(task, split, partition_name=name, reading=_reading(task, reading))


def partition_of(task: Task, given: str | Partition | None = None) -> tuple[str, Partition]:
    """A split of the task's positions and its name; one that does not cover the input is refused.

    A text is the name of one of the task's own splits; or "odd/even" or "halves"; or Alice's positions,
    counted from 1, such as "1,4-6", Bob holding the others; or both parties' positions, "1,2/3,4".
    """
    known = task.partitions()
    if given is None:
        if not known:
            raise InvalidInput(f"{task.name} names no split of its own; say which positions Alice holds.")
        return next(iter(known.items()))
    if isinstance(given, Partition):
        _check_cover(task, {"Alice": given.alice, "Bob": given.bob}, written=given.written)
        return "given", given
    if given in known:
        return given, known[given]
    free = input_positions(task)
    if given == "odd/even":
        return given, _split(task, free[::2], free[1::2])
    if given == "halves":
        return given, _split(task, free[: len(free) // 2], free[len(free) // 2 :])
    parts = given.replace(" ", "").split("/")
    if len(parts) > 2 or not all(_POSITIONS.fullmatch(part) for part in parts):
        names = ", ".join(dict.fromkeys((*known, "odd/even", "halves")))
        raise InvalidInput(
            f"{task.name} is split by a name ({names}) or by Alice's positions counted from 1, such as "
            f"1,4-6; got '{given[:60]}'."
        )
    alice = _positions(task, parts[0])
    held = {*alice}
    bob = _positions(task, parts[1]) if len(parts) == 2 else [p for p in free if p not in held]
    _check_cover(task, {"Alice": alice, "Bob": bob}, written=_written(task))
    return given, _split(task, sorted(alice), sorted(bob))


@final
class TaskProblem(Entries):
    """The table of a task under a partition; made by `task_problem`."""

    def __init__(
        self, task: Task, partition: Partition, *, partition_name: str = "given", reading: Reading = "answer"
    ) -> None:
        space = _classes(task)
        if not partition.alice or not partition.bob:
            raise InvalidInput(f"Both parties hold a position of {task.name}; here one holds none.")
        self.task, self.partition, self.partition_name = task, partition, partition_name
        self.reading = reading
        self._classes = space.size

    @property
    def title(self) -> str:
        """The task, its size and the split."""
        return f"{self.task.name}, n = {self.task.n}, split {self.partition_name}"

    @property
    def rows(self) -> int:
        """Strings that may stand at Alice's positions."""
        return self._symbols ** len(self.partition.alice) if self._free else len(self._listing.alice)

    @property
    def columns(self) -> int:
        """Strings that may stand at Bob's positions."""
        return self._symbols ** len(self.partition.bob) if self._free else len(self._listing.bob)

    @property
    def values(self) -> int:
        """The answers that the task may give; for a chain of thought the verdicts that occur."""
        return self._classes if self._verdicts is None else max(2, len(self._verdicts))

    @property
    def total(self) -> bool:
        """Whether every pair of strings is an input."""
        return self._free or len(self._listing.codes) == self.rows * self.columns

    @property
    def answers(self) -> tuple[str, ...]:
        """What each value of an entry means, as the task writes it."""
        classes = range(self._classes) if self._verdicts is None else self._verdicts
        return tuple(self.task.render_target(torch.tensor(number)) for number in classes)

    def at(
        self, rows: Int[np.ndarray, "row"], columns: Int[np.ndarray, "column"]
    ) -> Int[np.ndarray, "row column"]:
        """The task's answers, where the pair is an input."""
        return self._solved(rows, columns) if self._free else self._looked_up(rows, columns)

    def alice_strings(self, rows: Int[np.ndarray, "row"]) -> Shaped[Tensor, "row place *width"]:
        """What stands at Alice's positions in these rows, in the order of the positions."""
        return self._strings(rows, len(self.partition.alice), "alice")

    def bob_strings(self, columns: Int[np.ndarray, "column"]) -> Shaped[Tensor, "column place *width"]:
        """What stands at Bob's positions in these columns."""
        return self._strings(columns, len(self.partition.bob), "bob")

    def numbers(self, inputs: Shaped[Tensor, "batch pos *width"]) -> Int[np.ndarray, "batch 2"]:
        """Row and column of each input."""
        split = self.partition
        known = (None, None) if self._free else (self._listing.alice, self._listing.bob)
        rows, columns = (
            self._numbered(inputs[:, list(held)], strings)
            for held, strings in zip((split.alice, split.bob), known, strict=True)
        )
        return np.stack([rows, columns], axis=1)

    def row_text(self, row: int) -> str:
        """Alice's words."""
        return self._text(self.alice_strings(np.array([row]))[0])

    def column_text(self, column: int) -> str:
        """Bob's words."""
        return self._text(self.bob_strings(np.array([column]))[0])

    @cached_property
    def _free(self) -> bool:
        """Whether every string of tokens is an input, so that nothing needs to be listed."""
        space = self.task.input_space
        if not isinstance(space, Tokens) or space.pad is not None or self.partition.written:
            return False
        symbol_bits = math.log2(space.size)
        longest = max(len(self.partition.alice), len(self.partition.bob))
        # A number of inputs that takes so many bits to write is not even compared with another.
        hopeless = self.task.length * symbol_bits > _COUNTED_BITS
        free = hopeless or self.task.domain_size() == space.size**self.task.length
        if free and longest * symbol_bits > math.log2(_MOST_STRINGS):
            raise TooLarge(
                f"A party holds {longest} of {self.task.length} positions of {self.task.name}, one of up to "
                f"{space.size}^{longest} strings, and at most {_MOST_STRINGS:,} are listed; choose a "
                "smaller n."
            )
        return free

    @property
    def _symbols(self) -> int:
        space = self.task.input_space
        assert isinstance(space, Tokens)
        return space.size

    @cached_property
    def _listing(self) -> _Listing:
        return _listed(self)

    @cached_property
    def _verdicts(self) -> tuple[int, ...] | None:
        if not isinstance(self.task, ChainTask):
            return None
        return tuple(np.unique(self._listing.answers).tolist())

    def _strings(
        self, numbers: Int[np.ndarray, "row"], places: int, party: Literal["alice", "bob"]
    ) -> Shaped[Tensor, "row place *width"]:
        if self._free:
            return digits(torch.from_numpy(np.asarray(numbers, dtype=np.int64)), [self._symbols] * places)
        strings = self._listing.alice if party == "alice" else self._listing.bob
        return strings[torch.from_numpy(np.asarray(numbers, dtype=np.int64))]

    def _numbered(
        self, strings: Shaped[Tensor, "batch place *width"], known: Tensor | None
    ) -> Int[np.ndarray, "batch"]:
        if known is None:
            weights = self._symbols ** torch.arange(strings.shape[1]).flip(0)
            return (strings * weights).sum(1).numpy()
        order = {row.tobytes(): number for number, row in enumerate(known.numpy())}
        found = [order.get(row.tobytes()) for row in strings.contiguous().numpy()]
        if None in found:
            raise InvalidInput(
                f"Row {found.index(None)} is no input of {self.task.name} of full length, as a split needs."
            )
        return np.array(found, dtype=np.int64)

    def _solved(
        self, rows: Int[np.ndarray, "row"], columns: Int[np.ndarray, "column"]
    ) -> Int[np.ndarray, "row column"]:
        alice, bob = self.alice_strings(rows), self.bob_strings(columns)
        entries = np.empty((len(rows), len(columns)), dtype=entry_type(self.values))
        for left in range(0, len(columns), _SOLVED):
            his = bob[left : left + _SOLVED]
            size = max(1, _SOLVED // len(his))
            # His strings are the same for every row, and are written once.
            space = torch.empty(min(size, len(rows)), len(his), self.task.length, dtype=torch.int64)
            space[:, :, list(self.partition.bob)] = his.unsqueeze(0)
            for low in range(0, len(rows), size):
                hers = alice[low : low + size]
                inputs = space[: len(hers)]
                inputs[:, :, list(self.partition.alice)] = hers.unsqueeze(1)
                answers = self.read(self.task.solve(inputs.flatten(0, 1)))
                entries[low : low + size, left : left + _SOLVED] = answers.view(inputs.shape[:2]).numpy()
        return entries

    def _looked_up(
        self, rows: Int[np.ndarray, "row"], columns: Int[np.ndarray, "column"]
    ) -> Int[np.ndarray, "row column"]:
        listing = self._listing
        values = (
            listing.answers if self._verdicts is None else np.searchsorted(self._verdicts, listing.answers)
        )
        wide = self.columns
        entries = np.full((len(rows), len(columns)), UNDEFINED, dtype=entry_type(self.values))
        line = np.empty(wide, dtype=entries.dtype)
        begins = np.searchsorted(listing.codes, rows * wide)
        ends = np.searchsorted(listing.codes, (rows + 1) * wide)
        for place, (row, begin, end) in enumerate(zip(rows, begins, ends, strict=True)):
            line.fill(UNDEFINED)
            line[listing.codes[begin:end] - row * wide] = values[begin:end]
            entries[place] = line[columns]
        return entries

    def read(self, labels: Labels) -> Int[Tensor, "batch"]:
        """The number that the parties want of each input's labels."""
        return read_labels(self.task, labels, self.reading)

    def _text(self, string: Shaped[Tensor, "place *width"]) -> str:
        if isinstance(self.task, WordTask):
            vocabulary = self.task.vocabulary
            return " ".join(vocabulary.word(token) for token in string.tolist())
        return "; ".join(" ".join(f"{number:g}" for number in row) for row in string.tolist())


def input_positions(task: Task) -> tuple[int, ...]:
    """The positions that are given; the others a model writes itself."""
    written = {*_written(task)}
    return tuple(position for position in range(task.length) if position not in written)


def read_labels(task: Task, labels: Labels, reading: Reading | None = None) -> Int[Tensor, "batch"]:
    """One number of each input's labels, as `task_problem` explains."""
    wanted = _reading(task, reading)
    if wanted == "answer":
        return labels.answer
    if wanted == "any":
        return (labels.targets * labels.mask).amax(1)
    if not bool(labels.mask[:, wanted].all()):
        raise InvalidInput(
            f"{task.name} has no label at position {wanted + 1} of every input; choose another."
        )
    return labels.targets[:, wanted]


class _Listing(NamedTuple):
    """The inputs of full length: both parties' strings, and the answer of each pair row·columns + column."""

    alice: Shaped[Tensor, "row place *width"]
    bob: Shaped[Tensor, "column place *width"]
    codes: Int[np.ndarray, "entry"]
    answers: Int[np.ndarray, "entry"]


def _listed(problem: TaskProblem) -> _Listing:
    task, partition = problem.task, problem.partition
    size = task.domain_size()
    if size > _MOST_LISTED:
        count = f"{size:,}" if size < 10**9 else f"more than 2^{size.bit_length() - 1}"
        raise TooLarge(
            f"{task.name} has {count} inputs with these parameters, and at most {_MOST_LISTED:,} are "
            "listed to find the pairs that are inputs; choose a smaller n or alphabet."
        )
    held: dict[str, list[Tensor]] = {"alice": [], "bob": []}
    answers = []
    for inputs in task.enumerate():
        full = inputs[_full(task, inputs, partition)]
        if not len(full):
            continue
        held["alice"].append(full[:, list(partition.alice)])
        held["bob"].append(full[:, list(partition.bob)])
        answers.append(problem.read(task.solve(full)))
    if not answers:
        raise InvalidInput(f"{task.name} has no input of full length with these parameters; try another n.")
    (alice, row), (bob, column) = (
        torch.unique(torch.cat(parts), dim=0, return_inverse=True) for parts in held.values()
    )
    codes = (row * len(bob) + column).numpy()
    order = np.argsort(codes, kind="stable")
    codes, values = codes[order], torch.cat(answers).numpy()[order]
    again = codes[1:] == codes[:-1]
    if bool((again & (values[1:] != values[:-1])).any()):
        raise InvalidInput(
            f"What Alice and Bob hold does not settle the answer of {task.name}: positions that neither "
            "holds matter. Choose another partition."
        )
    kept = np.concatenate([[True], ~again])
    return _Listing(alice, bob, codes[kept], values[kept])


def _full(
    task: Task, inputs: Shaped[Tensor, "batch pos *width"], partition: Partition
) -> Bool[Tensor, "batch"]:
    """Inputs without padding at the positions that somebody holds."""
    space = task.input_space
    if not isinstance(space, Tokens) or space.pad is None:
        return torch.ones(len(inputs), dtype=torch.bool)
    return (inputs[:, [*partition.alice, *partition.bob]] != space.pad).all(1)


def _reading(task: Task, wanted: Reading | None) -> Reading:
    two = _classes(task).size == 2
    once = task.asking.most == 1 or isinstance(task, ChainTask)
    if wanted is None and not once and not two:
        raise InvalidInput(
            f"Two parties want one answer, and {task.name} asks for {task.asking.most} at once; say which "
            "position's label they want."
        )
    if wanted == "any" and not two:
        raise InvalidInput(f"'any' needs answers of yes or no; {task.name} has other answers.")
    if isinstance(wanted, int) and not 0 <= wanted < task.length:
        raise InvalidInput(
            f"{task.name} has {task.length} positions; there is no label at position {wanted + 1}, counted "
            "from 1."
        )
    return wanted if wanted is not None else ("answer" if once else "any")


def _classes(task: Task) -> Classes:
    space = task.target_space
    if not isinstance(space, Classes):
        raise InvalidInput(
            f"Two parties want one of finitely many answers; {task.name} answers with vectors."
        )
    return space


def _written(task: Task) -> tuple[int, ...]:
    """Positions that the task's own splits give to nobody: what a model writes itself."""
    return next((split.written for split in task.partitions().values()), ())


def _split(task: Task, alice: Sequence[int], bob: Sequence[int]) -> Partition:
    return Partition(alice=tuple(alice), bob=tuple(bob), written=_written(task))


def _positions(task: Task, text: str) -> list[int]:
    """Positions counted from 0; ranges are written with both ends."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if not 1 <= low <= high <= task.length:
            raise InvalidInput(f"Positions of {task.name} run from 1 to {task.length}; got '{part}'.")
        found.extend(range(low - 1, high))
    return found


def _check_cover(task: Task, held: dict[str, Sequence[int]], *, written: Sequence[int]) -> None:
    """Every position belongs to one party, or to none if the model writes it."""
    owners: dict[int, list[str]] = {}
    for party, positions in (*held.items(), ("the model", written)):
        for position in positions:
            owners.setdefault(position, []).append(party)
    for position in range(max(task.length, *(position + 1 for position in owners))):
        parties = owners.get(position, [])
        if position >= task.length:
            problem = f"there is no position {position + 1}"
        elif not parties:
            problem = f"position {position + 1} is given to nobody"
        elif len(parties) > 1:
            problem = f"position {position + 1} is given to {' and '.join(parties)}"
        elif parties == ["the model"] and position not in _written(task):
            problem = f"position {position + 1} is part of the input and is given to nobody"
        else:
            continue
        raise InvalidInput(
            f"A partition of {task.name} gives each of its {task.length} positions to Alice or to Bob; "
            f"here {problem}."
        )
