"""Reading the public Hotpot-QA file: a JSON list of questions, each with its paragraphs.

The file is a stranger's: it is parsed and never executed, its size and depth are looked at before it is
parsed, and every record is checked. A record that breaks the format refuses the whole file, with the
record's number. Three things are harmless and common in such files, and are put right:

- a question that is asked again is left out the second time, and so is one whose supporting facts name
  one paragraph, or more than two, since it is no question of two hops;
- a paragraph that stands there twice, word for word, counts once;
- a supporting fact that names a sentence behind a paragraph's end still says that the paragraph is needed.

Line breaks and runs of spaces become single spaces, so that a paragraph is one line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from separatrix.errors import InvalidFile
from separatrix.records import parse_json

__all__ = ["Hotpot", "Question", "read_hotpot"]

MOST_BYTES: Final = 1 << 30
_DEEPEST: Final = 16
_MOST_PARAGRAPHS: Final = 256
_LONGEST_LINE: Final = 1 << 16
# A string, closed or cut off by the end of the file. Nothing in it is tried twice, so time is linear.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Question:
    """One record: the paragraphs as lines `[title] text`, and which two of them are needed."""

    question: str
    answer: str
    reasoning: str
    paragraphs: tuple[str, ...]
    gold: tuple[int, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Hotpot:
    """The usable questions of a file and how many were left out."""

    path: Path
    questions: tuple[Question, ...]
    left_out: int

    @property
    def most_paragraphs(self) -> int:
        """Paragraphs of the question that has the most."""
        return max(len(question.paragraphs) for question in self.questions)


def read_hotpot(path: Path) -> Hotpot:
    """The questions of a Hotpot-QA file in the distractor form; `InvalidFile` if it is anything else."""
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidFile(f"Cannot read the Hotpot-QA file {path}: {reason}.") from None
    if not path.is_file():
        raise InvalidFile(f"Cannot read the Hotpot-QA file {path}: it is no regular file.")
    if status.st_size > MOST_BYTES:
        raise InvalidFile(
            f"Cannot read the Hotpot-QA file {path}: it has {status.st_size:,} bytes, and at most "
            f"{MOST_BYTES:,} are taken."
        )
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, _changed: int, _size: int) -> Hotpot:
    """Read, look, parse, check: kept until the file changes."""
    data = _bytes(path)
    _refuse_depth(path, data)
    records = _parse(path, data)
    return _questions(path, records)


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidFile(f"Cannot read the Hotpot-QA file {path}: {error.strerror}.") from None
    if len(data) > MOST_BYTES:
        _refuse(path, f"it grew beyond {MOST_BYTES:,} bytes while it was read")
    return data


def _refuse_depth(path: Path, data: bytes) -> None:
    """Count brackets outside strings, since a parser that recurses must not meet a deep one."""
    bare = np.frombuffer(_STRING.sub(b"", data), dtype=np.uint8)
    opening = (bare == ord("[")) | (bare == ord("{"))
    closing = (bare == ord("]")) | (bare == ord("}"))
    depth = int(np.cumsum(opening.astype(np.int32) - closing).max(initial=0))
    if depth > _DEEPEST:
        _refuse(path, f"it is nested {depth} deep, and at most {_DEEPEST} are taken")


def _parse(path: Path, data: bytes) -> list[Any]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _refuse(path, f"byte {error.start + 1} is not valid UTF-8")
    records = parse_json(text, what=f"The Hotpot-QA file {path}", most_bytes=MOST_BYTES)
    if not isinstance(records, list):
        _refuse(path, f"it must be a list of questions, not {_kind(records)}")
    if not records:
        _refuse(path, "it holds no question")
    return records


def _questions(path: Path, records: list[Any]) -> Hotpot:
    kept: dict[str, Question] = {}
    for number, record in enumerate(records, start=1):
        question = _Reader(path, f"question {number}").question(record)
        if question is not None:
            kept.setdefault(question.question, question)
    if not kept:
        _refuse(path, "none of its questions names two paragraphs as supporting")
    return Hotpot(path=path, questions=tuple(kept.values()), left_out=len(records) - len(kept))


@dataclass(frozen=True)
class _Reader:
    """Checks one record and says which one it is when it refuses."""

    path: Path
    where: str

    def question(self, record: Any) -> Question | None:
        if not isinstance(record, dict):
            self.refuse(f"must be an object, not {_kind(record)}")
        asked = self.line(self.get(record, "question"), "its 'question'")
        answer = self.line(self.get(record, "answer"), "its 'answer'")
        paragraphs = self.context(self.get(record, "context"))
        facts = self.facts(self.get(record, "supporting_facts"))
        for title, _ in facts:
            if title not in paragraphs:
                self.refuse(
                    f"names '{_shorten(title)}' as supporting, but has no paragraph of that title (the "
                    "distractor files of Hotpot-QA have them all, the fullwiki files do not)"
                )
        titles = list(paragraphs)
        gold = sorted({titles.index(title) for title, _ in facts})
        if len(gold) != 2:
            return None
        reached = [paragraphs[title][place] for title, place in facts if place < len(paragraphs[title])]
        reasoning = " ".join(dict.fromkeys(filter(None, reached)))
        if not reasoning:
            reasoning = " ".join(filter(None, (" ".join(paragraphs[titles[place]]) for place in gold)))
        lines = tuple(" ".join(filter(None, (f"[{title}]", *text))) for title, text in paragraphs.items())
        for line in lines:
            if len(line.encode()) > _LONGEST_LINE:
                self.refuse(
                    f"has a paragraph of {len(line.encode()):,} bytes; at most {_LONGEST_LINE:,} are taken"
                )
        if len(set(lines)) < len(lines):
            self.refuse("has two paragraphs that read alike")
        return Question(
            question=asked,
            answer=answer,
            reasoning=reasoning or "Nothing more is said.",
            paragraphs=lines,
            gold=(gold[0], gold[1]),
        )

    def get(self, record: dict[str, Any], key: str) -> Any:
        if key not in record:
            self.refuse(f"has no '{key}'")
        return record[key]

    def context(self, context: Any) -> dict[str, tuple[str, ...]]:
        """Sentences by title."""
        if not isinstance(context, list) or not 1 <= len(context) <= _MOST_PARAGRAPHS:
            self.refuse(f"needs a 'context' that is a list of 1 to {_MOST_PARAGRAPHS} paragraphs")
        paragraphs: dict[str, tuple[str, ...]] = {}
        for pair in context:
            if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], list)):
                self.refuse("needs paragraphs that are pairs of a title and a list of sentences")
            title = self.line(pair[0], "a title")
            sentences = tuple(self.text(sentence, "a sentence") for sentence in pair[1])
            if paragraphs.setdefault(title, sentences) != sentences:
                self.refuse(f"has two different paragraphs with the title '{_shorten(title)}'")
        return paragraphs

    def facts(self, facts: Any) -> list[tuple[str, int]]:
        """Pairs of a title and a sentence's number."""
        if not isinstance(facts, list) or not facts:
            self.refuse("needs 'supporting_facts' that are a list of at least one pair")
        found = []
        for pair in facts:
            if not (isinstance(pair, list) and len(pair) == 2 and type(pair[1]) is int and pair[1] >= 0):
                self.refuse("needs supporting facts that are pairs of a title and a sentence's number")
            found.append((self.line(pair[0], "a title"), pair[1]))
        return found

    def line(self, value: Any, what: str) -> str:
        """A text that is not empty."""
        text = self.text(value, what)
        if not text:
            self.refuse(f"has nothing as {what}")
        return text

    def text(self, value: Any, what: str) -> str:
        """A text as one line of valid Unicode."""
        if not isinstance(value, str):
            self.refuse(f"has {_kind(value)} as {what} where text is needed")
        text = " ".join(value.split())
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            self.refuse(f"has half a character (a lone surrogate) in {what}")
        if size > _LONGEST_LINE:
            self.refuse(f"has {size:,} bytes as {what}; at most {_LONGEST_LINE:,} are taken")
        return text

    def refuse(self, what: str) -> NoReturn:
        _refuse(self.path, f"{self.where} {what}")


def _refuse(path: Path, what: str) -> NoReturn:
    raise InvalidFile(f"{path} is no Hotpot-QA file that can be used: {what}.")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"
