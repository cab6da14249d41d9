"""`separatrix sample`: examples as one JSON object, as a file, or as lines to read."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from separatrix.cli.flags import AsJson, Whole
from separatrix.cli.output import (
    json_line,
    note,
    printable,
    printable_line,
    stdout_console,
    wrapped,
    write_json_stream,
)
from separatrix.errors import InvalidInput
from separatrix.files import written_whole

if TYPE_CHECKING:
    from separatrix.tasks import Batch, Task

__all__ = ["drawn", "parameters_of", "readable", "sample"]

_MOST: Final = 10**9
_CELLS: Final = 1 << 20
"""Numbers drawn at once: enough to be fast, few enough that memory stays flat."""
_MOST_AT_ONCE: Final = 256


def sample(
    task: Task,
    *,
    count: Annotated[Whole, Parameter(help="How many examples.")] = 5,
    seed: Annotated[Whole, Parameter(help="Same seed, same examples.")] = 0,
    out: Annotated[
        Path | None, Parameter(help="File to write: readable if it ends in .txt, else JSON lines.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Draw examples of a task, each with its answer."""
    if not 1 <= count <= _MOST:
        raise InvalidInput(f"sample draws 1 to {_MOST:,} examples; got count={count}. Try 5.")
    if out is not None:
        _write_file(out, task, count=count, seed=seed)
    if json:
        head = {"task": task.name, "n": task.n, "seed": seed, "parameters": parameters_of(task)}
        examples = (example for chunk in drawn(task, count=count, seed=seed) for example in chunk)
        write_json_stream(sys.stdout, head, "examples", examples)
    elif out is not None:
        note(f"Wrote {count:,} example{'s' if count > 1 else ''} of {task.name}.")
        print(printable_line(str(out)))
    else:
        width = stdout_console().width
        for chunk in drawn(task, count=count, seed=seed):
            print("\n".join(readable(chunk, width)))


def drawn(task: Task, *, count: int, seed: int) -> Iterator[list[dict[str, Any]]]:
    """The examples in chunks, as plain values."""
    from separatrix.tasks import Reals

    cells = task.length * (task.input_space.width if isinstance(task.input_space, Reals) else 1)
    rows = max(1, min(_MOST_AT_ONCE, _CELLS // cells))
    for start in range(0, count, rows):
        batch = task.sample(min(rows, count - start), seed=seed, start=start)
        yield [_example(task, batch, i) for i in range(len(batch.inputs))]


def parameters_of(task: Task) -> dict[str, Any]:
    """The task's parameters as JSON can hold them; those that are no flags are left out."""
    values = {
        field.name: getattr(task, field.name)
        for field in dataclasses.fields(task)
        if field.metadata.get("flag", True)
    }
    plain = (bool, int, float, str, type(None))
    return {name: value if isinstance(value, plain) else str(value) for name, value in values.items()}


def readable(examples: Sequence[dict[str, Any]], width: int) -> list[str]:
    """Examples as lines, `text → answer`; where one would not fit, the answers stand below the texts."""
    texts = [printable(example["text"]) for example in examples]
    answers = [printable(f"→ {example['answer']}") for example in examples]
    column = max(map(len, texts))
    if column + 2 + max(map(len, answers)) <= width and not any("\n" in text for text in texts):
        return [f"{text:<{column}}  {answer}" for text, answer in zip(texts, answers, strict=True)]
    lines = []
    for text, answer in zip(texts, answers, strict=True):
        lines += [*wrapped(text, width), *wrapped(answer, width, indent="  "), ""]
    return lines


def _example(task: Task, batch: Batch, number: int) -> dict[str, Any]:
    from separatrix.tasks.byte_text import answer_text

    row = batch.inputs[number]
    labels = batch.targets[number][batch.mask[number]]
    return {
        "input": row[: int(batch.lengths[number])].tolist(),
        "target": labels.tolist() if len(labels) != 1 else labels[0].tolist(),
        "text": task.render(row),
        "answer": answer_text(task, labels),
    }


def _write_file(path: Path, task: Task, *, count: int, seed: int) -> None:
    readable_text = path.suffix.lower() == ".txt"
    with written_whole(path) as file:
        for chunk in drawn(task, count=count, seed=seed):
            lines = readable(chunk, sys.maxsize) if readable_text else map(json_line, chunk)
            file.writelines(f"{line}\n" for line in lines)
