"""Answers in what a model wrote, and when two answers are the same: by the rule of Hotpot-QA's own scorer."""

from __future__ import annotations

import re
import string
from typing import Final

__all__ = ["answer_in_reasoning", "answer_on_first_line", "normalised", "same_answer"]

_LINE: Final = re.compile(r"^[ \t]*answer:[ \t]*(.*)$", re.IGNORECASE | re.MULTILINE)
_PHRASE: Final = re.compile(r"\banswer is\b:?", re.IGNORECASE)
# A sentence ends after a number or a word of three letters or more: "St. Ives" and "U.S. Navy" go on.
_SENTENCE_END: Final = re.compile(r"(?:(?<=[\w)\]\"']{3})|(?<=\d))[.!?](?=\s|$)")
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")


def answer_in_reasoning(text: str) -> str | None:
    """What stands after the first line that begins with `Answer:`, else after the last "the answer is".

    None if neither is there, or nothing follows it.
    """
    line = _LINE.search(text)
    if line:
        return line.group(1).strip() or None
    ends = [phrase.end() for phrase in _PHRASE.finditer(text)]
    if not ends:
        return None
    rest = text[ends[-1] :].partition("\n")[0]
    return _SENTENCE_END.split(rest, maxsplit=1)[0].strip() or None


def answer_on_first_line(text: str) -> str | None:
    """All of the first line; None if nothing stands there."""
    return text.partition("\n")[0].strip() or None


def normalised(answer: str) -> str:
    """Lower case, without punctuation, articles and superfluous blanks, in this order."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def same_answer(given: str | None, right: str) -> bool:
    """Whether an answer was given and is equal to the right one after normalising both."""
    return given is not None and normalised(given) == normalised(right)
