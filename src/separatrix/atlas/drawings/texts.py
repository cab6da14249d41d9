"""Drawings of the tasks in plain text."""

from __future__ import annotations

from textwrap import wrap
from typing import Final

from separatrix.atlas.drawings.layout import Sketch, verdict
from separatrix.atlas.examples import Example
from separatrix.atlas.svg import WIDTH, Canvas, text_width

__all__ = ["draw_distractor_qa", "draw_phone_book"]

_COLUMN: Final = 60
"""Characters in a line of running text."""


def draw_distractor_qa(canvas: Canvas, example: Example) -> Sketch:
    """The paragraphs as blocks, those that the reasoning draws on tinted, the answer filled."""
    before, _, asked = example.text.rpartition("Question: ")
    question = asked.partition("\n")[0]
    reasoning, _, answer = example.answer_text.rpartition("\nAnswer: ")
    y, gold = 3.0, 0
    for paragraph in before.strip().split("\n"):
        title, _, text = paragraph.removeprefix("[").partition("] ")
        needed = title in reasoning
        gold += needed
        y = _block(canvas, text, y, "on" if needed else "faint") + 5
    y = _lines(canvas, question, y + 16, "note strong")
    y = _lines(canvas, reasoning, y + 6, "note")
    verdict(canvas, y + 16, answer)
    return Sketch(
        height=y + 32,
        says=f"The answer, {answer}, takes {gold} paragraphs together; the others are distractors.",
    )


def _block(canvas: Canvas, text: str, top: float, role: str) -> float:
    """A paragraph in a box; where the box ends."""
    bottom = top + 18 * len(wrap(text, _COLUMN)) + 8
    canvas.rect(0, top, WIDTH, bottom - top, f"tile {role}")
    _lines(canvas, text, top + 13, f"prose in-{role}", left=10)
    return bottom


def _lines(canvas: Canvas, text: str, y: float, style: str, *, left: float | None = None) -> float:
    """Running text from a first line's middle down; where the next line would be."""
    for line in wrap(text, _COLUMN):
        if left is None:
            canvas.text((WIDTH / 2, y), line, style)
        else:
            canvas.text((left, y), line, style, anchor="start")
        y += 18
    return y


def draw_phone_book(canvas: Canvas, example: Example) -> Sketch:
    """The book as a list, the entry that is asked for tinted, its number filled."""
    lines = example.text.splitlines()
    question = next(line for line in lines if line.startswith("Question: "))
    entries = [line.rpartition(": ") for line in lines[1 : lines.index(question)]]
    asked = next(name for name, _, _ in entries if question.endswith(f" {name}?"))
    left, right, leading = 60, WIDTH - 60, 25
    for place, (name, _, number) in enumerate(entries):
        y = 17 + leading * place
        if name == asked:
            canvas.rect(left - 10, y - 13, right - left + 20, 26, "tile on")
            width = text_width(number) + 16
            canvas.tile((right + 6 - width / 2, y), (width, 20), example.answer_text, "tile answer")
        else:
            canvas.text((right, y), number, "word in-faint", anchor="end")
        canvas.text((left, y), name, "word", anchor="start")
        dots = (left + text_width(name) + 8, right - text_width(number) - 18)
        canvas.line((dots[0], y + 4), (dots[1], y + 4), "edge faint dashed")
    below = 17 + leading * len(entries) + 20
    canvas.text((WIDTH / 2, below), question.removeprefix("Question: "), "note")
    return Sketch(
        height=below + 12, says=f"The book says {example.answer_text} for {asked}, and that is the answer."
    )
