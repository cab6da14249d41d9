"""Questions: a task's inputs, cut into regions with one right answer each."""

from __future__ import annotations

from separatrix.certificates.questions.catalogue import cells_of, questions_of
from separatrix.certificates.questions.interface import Automaton, Least, Question, Region, Requirements
from separatrix.certificates.questions.listing import Questions
from separatrix.certificates.questions.members import count_of, members_of
from separatrix.certificates.questions.spelling import spelled

__all__ = [
    "Automaton",
    "Least",
    "Question",
    "Questions",
    "Region",
    "Requirements",
    "cells_of",
    "count_of",
    "members_of",
    "questions_of",
    "spelled",
]
