"""Tasks as datasets: a folder of JSON lines or of Parquet with a card, or a `datasets.Dataset` in memory.

The same task, seed, start and count are the same examples, to the last byte. A folder says in `task.json`
which they are, so that it can be read back and checked with nothing else. Only `datasets` objects and Parquet
need the extra `data`.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.interop.task_examples import Example, check_wanted, examples, json_lines, read_lines
from separatrix.interop.task_folders import (
    CARD,
    DESCRIBED,
    TEST_LINES,
    TEST_TABLE,
    TaskFolder,
    read_task_folder,
    write_folder,
)
from separatrix.interop.yaml_text import yaml_text
from separatrix.tasks.interface import Classes, Task, Tokens
from separatrix.tasks.specs import spec_of, task_of

__all__ = [
    "TaskFolder",
    "as_dataset",
    "read_examples",
    "read_task_folder",
    "require_datasets",
    "write_task_folder",
]

_FILES: Final = {"jsonl": TEST_LINES, "datasets": TEST_TABLE}
_ROWS_AT_ONCE: Final = 4096


def require_datasets() -> Any:
    """The module `datasets`, or a sentence that says how to get it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("datasets")
    except ImportError as error:
        raise InvalidInput(
            "Datasets of Hugging Face need the extra data; install it with: pip install 'separatrix[data]'."
        ) from error


def as_dataset(task: Task, *, count: int, seed: int = 0, start: int = 0) -> Any:
    """Examples `start` … `start + count − 1` of a task under a seed as a `datasets.Dataset`.

    Its columns are typed; it is held in memory and touches no cache.
    """
    check_wanted(count, seed, start)
    datasets = require_datasets()
    arrow = importlib.import_module("pyarrow")
    features = _features(datasets, task)
    found = examples(task, count=count, seed=seed, start=start)
    parts = [
        arrow.Table.from_pylist([example.to_fields() for example in some], schema=features.arrow_schema)
        for some in _some(found)
    ]
    info = datasets.DatasetInfo(description=_summary(task, count, seed, start), features=features)
    return datasets.Dataset(arrow.concat_tables(parts).combine_chunks(), info=info, split="test")


def write_task_folder(
    task: Task,
    folder: Path | str,
    *,
    to: Literal["jsonl", "datasets"],
    count: int,
    seed: int = 0,
    start: int = 0,
) -> TaskFolder:
    """Write examples into a folder as JSON lines or Parquet, with `task.json` and a card beside.

    `datasets.load_dataset(folder)` reads either. All files appear when the last is whole; a dataset of ours
    that is there is replaced, and a folder that holds anything else is refused.
    """
    check_wanted(count, seed, start)
    if to not in _FILES:
        raise InvalidInput(f"Examples are written as {' or '.join(_FILES)}; got to={to!r}.")
    file = _FILES[to]

    def content() -> Iterator[bytes]:
        if to == "jsonl":
            yield from json_lines(examples(task, count=count, seed=seed, start=start))
        else:
            yield _parquet(as_dataset(task, count=count, seed=seed, start=start))

    def card() -> Iterator[bytes]:
        yield _card(task, file, count, seed, start).encode()

    return write_folder(
        folder, task, {file: content, CARD: card}, file=file, seed=seed, start=start, count=count
    )


def read_examples(path: Path | str, *, task: Task | None = None) -> Iterator[Example]:
    """The examples of a folder or of a file of JSON lines, each checked against the task's oracle.

    Nothing is executed. Without a task, the `task.json` of the folder says which one it is; then the file
    must also hold exactly the examples that it promises.
    """
    place = Path(path)
    if task is not None:
        yield from read_lines(place / TEST_LINES if place.is_dir() else place, task)
        return
    folder = place if place.is_dir() else place.parent
    described = read_task_folder(folder)
    found = 0
    for example in read_lines(folder / TEST_LINES if place.is_dir() else place, task_of(described.task)):
        if (example.seed, example.number) != (described.seed, described.start + found):
            raise InvalidFile(
                f"Line {found + 1:,} of '{folder / described.file}' must be example "
                f"{described.start + found:,} under seed {described.seed}; it says it is example "
                f"{example.number:,} under seed {example.seed}."
            )
        found += 1
        yield example
    if found != described.count:
        raise InvalidFile(
            f"'{folder}' promises {described.count:,} examples and has {found:,}; write it again."
        )


def _features(datasets: Any, task: Task) -> Any:
    columns = {name: datasets.Value("string") for name in ("input", "target", "answer")}
    if isinstance(task.input_space, Tokens):
        columns["tokens"] = datasets.List(datasets.Value("int32"))
        if isinstance(task.target_space, Classes):
            columns["labels"] = datasets.List(datasets.Value("int32"))
    numbers = {name: datasets.Value("int64") for name in ("n", "seed", "number")}
    return datasets.Features({**columns, **numbers})


def _parquet(dataset: Any) -> bytes:
    arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    sink = arrow.BufferOutputStream()
    # The schema of the table carries the features, which `load_dataset` reads from it.
    parquet.write_table(dataset.data.table, sink, compression="zstd", row_group_size=_ROWS_AT_ONCE)
    return bytes(sink.getvalue().to_pybytes())


def _some(found: Iterator[Example]) -> Iterator[list[Example]]:
    while some := list(islice(found, _ROWS_AT_ONCE)):
        yield some


def _summary(task: Task, count: int, seed: int, start: int) -> str:
    return (
        f"Examples {start:,} to {start + count - 1:,} of {spec_of(task)} under seed {seed}, "
        "drawn by separatrix."
    )


def _card(task: Task, file: str, count: int, seed: int, start: int) -> str:
    """A dataset card: what the columns are, and how to draw the same examples again."""
    header = {
        "pretty_name": f"{task.title}, n = {task.n}",
        "tags": ["separatrix", task.name, "synthetic"],
        "size_categories": [_size_category(count)],
        "configs": [{"config_name": "default", "data_files": [{"split": "test", "path": file}]}],
    }
    tokens = (
        "- `tokens`: the whole input as token numbers, with the chain of thought or the answers that\n"
        "  teacher forcing puts into it.\n"
        "- `labels`: for each of the tokens, the class that is right there, or -100. They stand where a\n"
        "  model must answer and are not shifted.\n"
    )
    return (
        f"---\n{yaml_text(header)}---\n\n# {task.title}\n\n{_first_paragraph(task)}\n\n"
        f"{_summary(task, count, seed, start)} The answers are the oracle's.\n\n"
        "- `input`: what a model is shown.\n"
        "- `target`: what it is to write, with the chain of thought where the task has one.\n"
        "- `answer`: the end of the target, which alone is right or wrong.\n"
        f"{tokens if isinstance(task.input_space, Tokens) else ''}"
        "- `n`, `seed`, `number`: the size, and what the example is drawn from.\n\n"
        f"`{DESCRIBED}` holds every parameter. The examples are synthetic, and drawing them again gives the "
        "same bytes.\n"
    )


def _first_paragraph(task: Task) -> str:
    text = (type(task).__doc__ or task.title).strip().partition("\n\n")[0]
    return " ".join(text.split())


def _size_category(count: int) -> str:
    ends = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"))
    return next((name for end, name in ends if count < end), "n>1M")
