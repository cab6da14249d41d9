"""Folders of examples: what they say of themselves, and how a new one takes the place of an old one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.evidence import TaskSpec
from separatrix.files import has_own, made_folder, naming, written_whole
from separatrix.record_checks import require_count, require_text
from separatrix.records import JsonObject, Reader, Record, parse_json
from separatrix.tasks.interface import Task
from separatrix.tasks.specs import spec_of

__all__ = [
    "CARD",
    "DESCRIBED",
    "SHOWN_LINES",
    "TEST_LINES",
    "TEST_TABLE",
    "TaskFolder",
    "harness_name",
    "read_task_folder",
    "task_folder_in",
    "write_folder",
]

DESCRIBED: Final = "task.json"
CARD: Final = "README.md"
TEST_LINES: Final = "test.jsonl"
TEST_TABLE: Final = "test.parquet"
SHOWN_LINES: Final = "shown.jsonl"
_MOST_BYTES: Final = 16 * 2**20


@final
@dataclass(frozen=True, kw_only=True)
class TaskFolder(Record):
    """What a folder of examples holds: the task, which examples, and the SHA-256 of the file they are in."""

    SCHEMA = "separatrix.task-folder"

    task: TaskSpec
    seed: int
    start: int
    count: int
    file: str
    sha256: str

    def __post_init__(self) -> None:
        require_count("A folder of examples", seed=self.seed, start=self.start)
        require_count("A folder of examples", least=1, count=self.count)
        require_text("A folder of examples", file=self.file, sha256=self.sha256)
        if Path(self.file).name != self.file or "\0" in self.file:
            raise InvalidInput(f"A folder of examples names a file in it; got {self.file[:80]!r}.")

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "task": self.task.to_fields(),
            "seed": self.seed,
            "start": self.start,
            "count": self.count,
            "file": self.file,
            "sha256": self.sha256,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> TaskFolder:
        """The folder whose fields `read` holds."""
        return cls(
            task=read.record("task", TaskSpec),
            seed=read.count("seed"),
            start=read.count("start"),
            count=read.count("count"),
            file=read.text("file"),
            sha256=read.text("sha256"),
        )


def read_task_folder(folder: Path | str) -> TaskFolder:
    """What a folder says of itself, read strictly; `InvalidFile` if it says nothing or nonsense."""
    path = Path(folder) / DESCRIBED
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else str(failure)
        raise InvalidFile(f"'{path}' cannot be read: {reason}.") from failure
    data = parse_json(content, what=f"'{path}'", most_bytes=_MOST_BYTES)
    with naming(path):
        return TaskFolder.from_json(data)


def task_folder_in(folder: Path | str) -> TaskFolder | None:
    """The dataset in a folder that is to be written to, None if it is empty; other things are refused."""
    place = Path(folder)
    return read_task_folder(place) if has_own(place, DESCRIBED, what="dataset") else None


def write_folder(
    folder: Path | str,
    task: Task,
    contents: Mapping[str, Callable[[], Iterable[bytes]]],
    *,
    file: str,
    seed: int,
    start: int,
    count: int,
) -> TaskFolder:
    """Write the examples in `file`, what goes with them, and `task.json`, which says which they are.

    All are written out under other names, in the order given, before the first takes its place, so whatever
    goes wrong leaves a dataset that was there as it was. Files of that one that have no successor go.
    """
    spec, before = spec_of(task), task_folder_in(folder)
    digest = hashlib.sha256()
    with made_folder(folder) as place:
        with ExitStack() as stack:
            # Files take their places in reverse: what says of the others which they are comes last.
            description = stack.enter_context(written_whole(place / DESCRIBED)).buffer
            for name, content in contents.items():
                part = stack.enter_context(written_whole(place / name)).buffer
                for piece in content():
                    part.write(piece)
                    if name == file:
                        digest.update(piece)
                part.flush()
            written = TaskFolder(
                task=spec, seed=seed, start=start, count=count, file=file, sha256=digest.hexdigest()
            )
            text = json.dumps(written.to_json(), indent=2, ensure_ascii=False)
            description.write(f"{text}\n".encode())
            description.flush()
        if before is not None:
            for name in _files_of(before) - contents.keys():
                (place / name).unlink(missing_ok=True)
    return written


def harness_name(name: str, n: int) -> str:
    """What lm-evaluation-harness calls a task of this name and size; its task file is named so too."""
    return f"separatrix_{name.replace('-', '_')}_n{n}"


def _files_of(folder: TaskFolder) -> set[str]:
    """Files that a dataset of this task may have; what else a stranger's `task.json` names is left alone."""
    n = folder.task.params.get("n")
    task_files = {f"{harness_name(folder.task.name, n)}.yaml"} if isinstance(n, int) else set()
    return {TEST_LINES, TEST_TABLE, SHOWN_LINES, *task_files}
