"""Examples of a task as plain values, and as JSON lines that are written whole and checked when read back.

`input` is what a model is shown and nothing more: where the task's own row goes on with a chain of thought
or with answers (teacher forcing), those stand in `target` only. `answer` is the end of the target without the
reasoning before it. `tokens` and `labels`, for tasks on tokens, are the whole row and what is to be said at
each of its places, −100 where nothing is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import torch
from jaxtyping import Shaped
from torch import Tensor

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.records import JsonObject, Reader, parse_json
from separatrix.tasks.byte_text import ByteTask, answer_text
from separatrix.tasks.interface import ChainTask, Classes, Labels, Reals, Task, Tokens, TokenTask
from separatrix.tasks.is_tree import IsTree

__all__ = ["UNLABELLED", "Example", "check_wanted", "examples", "json_lines", "read_lines"]

UNLABELLED: Final = -100
"""What losses of torch and transformers leave out."""
MOST_EXAMPLES: Final = 10**9
_CELLS: Final = 1 << 20
"""Numbers drawn at once: enough to be fast, few enough that memory stays flat."""
_MOST_AT_ONCE: Final = 256
_LONGEST_LINE: Final = 1 << 26
_LONGEST_TEXT: Final = 1 << 25
_LAST_NUMBER: Final = 1 << 62


@final
@dataclass(frozen=True, kw_only=True)
class Example:
    """One example, named by its seed and number under the task's parameters; the module says what is what."""

    input: str
    target: str
    answer: str
    tokens: tuple[int, ...] | None
    labels: tuple[int, ...] | None
    n: int
    seed: int
    number: int

    def to_fields(self) -> JsonObject:
        """The fields as JSON values; those that a task has not are left out."""
        listed: JsonObject = {}
        if self.tokens is not None:
            listed["tokens"] = list(self.tokens)
        if self.labels is not None:
            listed["labels"] = list(self.labels)
        texts = {"input": self.input, "target": self.target, "answer": self.answer}
        return {**texts, **listed, "n": self.n, "seed": self.seed, "number": self.number}


def check_wanted(count: int, seed: int, start: int) -> None:
    """Refuse counts and numbers that no task has examples for."""
    if not 1 <= count <= MOST_EXAMPLES:
        raise InvalidInput(f"A dataset has 1 to {MOST_EXAMPLES:,} examples; got count={count}. Try 1000.")
    if not 0 <= start <= _LAST_NUMBER - count:
        raise InvalidInput(f"Examples are numbered from 0 to 2^62; got start={start}. Try 0.")
    if not 0 <= seed < 1 << 63:  # readers of JSON lines make a float of anything larger
        raise InvalidInput(f"A dataset's seed is a whole number from 0 to 2^63 − 1; got seed={seed}. Try 0.")


def examples(task: Task, *, count: int, seed: int = 0, start: int = 0) -> Iterator[Example]:
    """Examples `start` … `start + count − 1` under a seed, a few drawn at a time."""
    check_wanted(count, seed, start)
    cells = task.length * (task.input_space.width if isinstance(task.input_space, Reals) else 1)
    rows = max(1, min(_MOST_AT_ONCE, _CELLS // cells))
    for first in range(start, start + count, rows):
        batch = task.sample(min(rows, start + count - first), seed=seed, start=first)
        for place, row in enumerate(batch.inputs):
            yield _example(task, row, batch.labels, place, seed=seed, number=first + place)


def json_lines(found: Iterable[Example]) -> Iterator[bytes]:
    """Examples as JSON lines, one at a time."""
    for example in found:
        yield f"{json.dumps(example.to_fields(), ensure_ascii=False, allow_nan=False)}\n".encode()


def read_lines(path: Path, task: Task) -> Iterator[Example]:
    """The examples of a file of JSON lines, each parsed and put to the task's oracle before it is handed out.

    `InvalidFile` names the first line that is no example of the task or has not the right answer.
    """
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_LONGEST_LINE + 1):
                number += 1
                what = f"Line {number:,} of '{path}'"
                if len(line) > _LONGEST_LINE:
                    raise InvalidFile(f"{what} has more than {_LONGEST_LINE:,} bytes; that is no example.")
                yield _checked(task, parse_json(line, what=what, most_bytes=_LONGEST_LINE), what)
    except (OSError, ValueError) as failure:  # a null in the name is a ValueError, and so are ours
        if isinstance(failure, InvalidFile | InvalidInput):
            raise
        reason = failure.strerror if isinstance(failure, OSError) else str(failure)
        raise InvalidFile(f"'{path}' cannot be read: {reason}.") from failure


def _checked(task: Task, data: object, what: str) -> Example:
    """The example that a line claims to be, if the oracle agrees."""
    read = Reader(data, what=what)
    texts = {name: read.text(name, longest=_LONGEST_TEXT) for name in ("input", "target", "answer")}
    has_tokens = isinstance(task.input_space, Tokens)
    tokens = _wholes(read, "tokens") if has_tokens else None
    labels = _wholes(read, "labels") if has_tokens and isinstance(task.target_space, Classes) else None
    n, seed, number = (read.count(name) for name in ("n", "seed", "number"))
    read.finish()
    given = Example(**texts, tokens=tokens, labels=labels, n=n, seed=seed, number=number)
    try:
        row = task.parse(given.input) if tokens is None else _row(task, tokens)
        task.check(row)
    except InvalidInput as error:
        raise InvalidFile(f"{what} is no example of {task.name}: {error}") from error
    right = _example(task, row, task.solve(row.unsqueeze(0)), 0, seed=seed, number=number)
    for name, value in right.to_fields().items():
        found = given.to_fields()[name]
        if found != value:
            raise InvalidFile(
                f"{what} has another {name} than {task.name} gives for it: {_shown(found)} stands there, and "
                f"{_shown(value)} is right."
            )
    return given


def _example(
    task: Task, row: Shaped[Tensor, "pos *width"], labels: Labels, place: int, *, seed: int, number: int
) -> Example:
    """A row with its labels, those at `place` of the batch they came with, as plain values."""
    mask, targets = labels.mask[place], labels.targets[place]
    said = targets[mask]
    tokens = _without_padding(task, row)
    return Example(
        input=_shown_text(task, row),
        target=answer_text(task, said),
        answer=_answer(task, said),
        tokens=tokens,
        labels=_spread(targets, mask, len(tokens)) if tokens is not None and _has_classes(task) else None,
        n=task.n,
        seed=seed,
        number=number,
    )


def _shown_text(task: Task, row: Shaped[Tensor, "pos *width"]) -> str:
    """The row as text, without what a model has to write itself."""
    if isinstance(task, ByteTask):
        return task.prompt_of(task.render(row))
    if isinstance(task, ChainTask):
        return task.render(row[: task.prompt])
    written = next(iter(task.partitions().values())).written if isinstance(task, TokenTask) else ()
    if not written:
        return task.render(row)
    kept = torch.ones(len(row), dtype=torch.bool)
    kept[list(written)] = False
    return task.render(row[kept])


def _answer(task: Task, said: Shaped[Tensor, "label *width"]) -> str:
    """What counts in the end: the verdict after a tour, what a text says after reasoning, or all of it."""
    if isinstance(task, IsTree):
        return task.render_target(said[-1])
    whole = answer_text(task, said)
    return whole.rpartition("\nAnswer: ")[2] if isinstance(task, ByteTask) else whole


def _without_padding(task: Task, row: Shaped[Tensor, "pos *width"]) -> tuple[int, ...] | None:
    space = task.input_space
    if not isinstance(space, Tokens):
        return None
    return tuple(token for token in row.tolist() if token != space.pad)


def _row(task: Task, tokens: tuple[int, ...]) -> Tensor:
    """Tokens with their padding again."""
    space = task.input_space
    assert isinstance(space, Tokens)
    missing = task.length - len(tokens)
    if missing < 0 or (missing > 0 and space.pad is None):
        exactly = "at most " if space.pad is not None else ""
        raise InvalidInput(f"it has {exactly}{task.length:,} tokens; got {len(tokens):,}.")
    padding = [] if space.pad is None else [space.pad] * missing
    return torch.tensor([*tokens, *padding], dtype=torch.int64)


def _spread(targets: Tensor, mask: Tensor, length: int) -> tuple[int, ...]:
    return tuple(torch.where(mask, targets, UNLABELLED)[:length].tolist())


def _has_classes(task: Task) -> bool:
    return isinstance(task.target_space, Classes)


def _wholes(read: Reader, name: str) -> tuple[int, ...]:
    """A list of whole numbers that fit into 64 bits."""
    items = read.items(name)
    numbers = [item for item in items if isinstance(item, int) and not isinstance(item, bool)]
    if len(numbers) < len(items) or any(abs(number) >= 1 << 63 for number in numbers):
        raise InvalidFile(f"Field '{name}' of {read.what} must be a list of whole numbers of 64 bits.")
    return tuple(numbers)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"
