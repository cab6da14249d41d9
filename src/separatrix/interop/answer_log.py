"""Answers on disk as they come, so that a run that is killed goes on where it was.

`answers.jsonl` has a line for each answer, and lines are only ever added. A process that dies while it writes
leaves at most one line that is torn; the next one drops it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from separatrix.errors import InvalidFile, InvalidInput, NewerFile
from separatrix.record_checks import require_count, require_measured
from separatrix.records import JsonObject, Reader, Record, parse_json
from separatrix.store.claims import claimant, claiming
from separatrix.store.keys import require_key

__all__ = ["Answer", "AnswerLog", "answer_log"]

_FILE: Final = "answers.jsonl"
_LONGEST_LINE: Final = 1 << 20


@final
@dataclass(frozen=True, kw_only=True)
class Answer(Record):
    """What a model wrote, under the key of all that decides it; the rest says what was asked."""

    SCHEMA = "separatrix.answer"

    key: str
    model: str
    task: str
    order: str
    n: int
    question: int
    text: str
    seconds: float

    def __post_init__(self) -> None:
        require_key(self.key)
        require_count("An answer", n=self.n, question=self.question)
        require_measured("An answer", "seconds", self.seconds)

    def to_fields(self) -> JsonObject:
        """All fields as they are."""
        return {
            "key": self.key,
            "model": self.model,
            "task": self.task,
            "order": self.order,
            "n": self.n,
            "question": self.question,
            "text": self.text,
            "seconds": self.seconds,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Answer:
        """Read strictly; a text may be long."""
        return cls(
            key=read.text("key"),
            model=read.text("model"),
            task=read.text("task"),
            order=read.text("order"),
            n=read.count("n"),
            question=read.count("question"),
            text=read.text("text", longest=_LONGEST_LINE),
            seconds=read.measured("seconds"),
        )


@final
class AnswerLog:
    """The answers in a folder by their keys, and what had to be dropped; `answer_log` opens one."""

    def __init__(self, path: Path) -> None:
        """Read what is there, and cut a torn end off."""
        self._path = path
        self._answers: dict[str, Answer] = {}
        content = path.read_bytes() if path.exists() else b""
        *lines, torn = content.split(b"\n")
        damaged = sum(not self._take(line) for line in lines)
        if torn:
            os.truncate(path, len(content) - len(torn))
        dropped = damaged + bool(torn)
        self.notes: tuple[str, ...] = ()
        if dropped:
            what = "One answer was" if dropped == 1 else f"{dropped:,} answers were"
            self.notes = (f"{what} damaged in '{path}' and dropped; such questions are asked again.",)

    def __contains__(self, key: str) -> bool:
        return key in self._answers

    def get(self, key: str) -> Answer | None:
        """The answer under a key; None if there is none."""
        return self._answers.get(key)

    def __len__(self) -> int:
        return len(self._answers)

    def append(self, answers: Iterable[Answer]) -> None:
        """Add answers, on disk when this returns."""
        added = list(answers)
        lines = "".join(f"{json.dumps(answer.to_json(), allow_nan=False)}\n" for answer in added)
        try:
            with self._path.open("ab") as file:
                file.write(lines.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as failure:
            raise InvalidFile(
                f"'{self._path}' cannot be written: {failure.strerror}; what was answered before is kept."
            ) from failure
        self._answers.update((answer.key, answer) for answer in added)

    def _take(self, line: bytes) -> bool:
        try:
            answer = Answer.from_json(parse_json(line, what="a line", most_bytes=_LONGEST_LINE))
        except NewerFile:
            raise  # it is whole; only what is damaged is dropped
        except InvalidFile:
            return False
        self._answers[answer.key] = answer
        return True


@contextmanager
def answer_log(folder: Path) -> Iterator[AnswerLog]:
    """The log in a folder, made if need be, for one process at a time."""
    if folder.is_file():
        raise InvalidFile(f"'{folder}' is a file; name a folder, which is made if need be.")
    with claiming(folder) as ours:
        if not ours:
            raise InvalidInput(
                f"{claimant(folder).capitalize()} is writing answers into '{folder}'; wait until it has "
                "ended, or name another folder."
            )
        try:
            log = AnswerLog(folder / _FILE)
        except OSError as failure:
            raise InvalidFile(f"'{folder / _FILE}' cannot be read: {failure.strerror}.") from failure
        yield log
