"""The sentences of the invented questions: paragraphs about people and towns, what is asked, how it follows.

Each sentence is a few pieces, so that a table of pieces for every name and fact makes every text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from separatrix.tasks._stock import DAYS, JOBS, RIVERS, person, town
from separatrix.tasks.byte_text import largest_sum

__all__ = ["ASKS", "LINKS", "Stories", "person_pieces", "question_pieces", "reasoning_pieces", "town_pieces"]

ASKS: Final = ("On which day is the market of the town where ", "Which river flows past the town where ")
LINKS: Final = ("'s market day is ", " lies on the river ")


def person_pieces(name: str, job: str, home: str) -> tuple[str, str, str]:
    """A person's paragraph."""
    return f"[{name}] {name} works as a ", f"{job} and lives in the town of ", f"{home}.\n"


def town_pieces(name: str, river: str, day: str) -> tuple[str, str, str]:
    """A town's paragraph."""
    return f"[{name}] {name} lies on the river ", f"{river}, and its market day is ", f"{day}.\n"


def question_pieces(ask: str, name: str, cue: str) -> tuple[str, str]:
    """The question and the cue to answer it."""
    return f"Question: {ask}", f"{name} lives?\n{cue}"


def reasoning_pieces(name: str, home: str, link: str, value: str) -> tuple[str, str, str, str, str, str]:
    """After the cue to reason: the two facts that are needed, and the answer."""
    return f" {name} lives in ", f"{home}. {home}", link, value, ".\nAnswer: ", value


@dataclass
class Stories:
    """Every piece of text that a stock of people, towns and facts can need, in groups."""

    people: int
    towns: int
    facts: int
    cue: str
    chain: bool
    texts: list[str] = field(init=False, default_factory=list)
    first: dict[str, int] = field(init=False, default_factory=dict)
    """The number of each group's first piece."""
    sizes: dict[str, list[int]] = field(init=False, default_factory=dict)
    """The bytes of each group's pieces."""

    def __post_init__(self) -> None:
        self.people_numbers = {person(number): number for number in range(self.people)}
        self.town_numbers = {town(number): number for number in range(self.towns)}
        self.jobs, self.rivers, self.days = (stock[: self.facts] for stock in (JOBS, RIVERS, DAYS))
        for group, pieces in self._groups().items():
            self.first[group] = len(self.texts)
            self.sizes[group] = [len(piece.encode()) for piece in pieces]
            self.texts += pieces

    def _groups(self) -> dict[str, Sequence[str]]:
        values = (*self.days, *self.rivers)
        return {
            "person": [person_pieces(name, "", "")[0] for name in self.people_numbers],
            "job": [person_pieces("", job, "")[1] for job in self.jobs],
            "home": [person_pieces("", "", home)[2] for home in self.town_numbers],
            "town": [town_pieces(name, "", "")[0] for name in self.town_numbers],
            "river": [town_pieces("", river, "")[1] for river in self.rivers],
            "day": [town_pieces("", "", day)[2] for day in self.days],
            "ask": [question_pieces(ask, "", "")[0] for ask in ASKS],
            "who": [question_pieces("", name, self.cue)[1] for name in self.people_numbers],
            "lives": [reasoning_pieces(name, "", "", "")[0] for name in self.people_numbers],
            "there": [reasoning_pieces("", home, "", "")[1] for home in self.town_numbers],
            "link": LINKS,
            "value": values,
            "so": [reasoning_pieces("", "", "", "")[4]],
            "answer": [f" {value}" for value in values],
        }

    def longest_paragraphs(self, persons: int, places: int) -> int:
        """The most bytes of so many paragraphs about people and towns."""
        about_people = largest_sum(self.sizes["person"], persons) + persons * self._most("job", "home")
        return about_people + largest_sum(self.sizes["town"], places) + places * self._most("river", "day")

    def first_paragraphs(self, persons: int, places: int) -> int:
        """The bytes of the paragraphs about the first people and towns, all else being the first too."""
        firsts = {group: found[0] for group, found in self.sizes.items()}
        about_people = sum(self.sizes["person"][:persons]) + persons * (firsts["job"] + firsts["home"])
        return about_people + sum(self.sizes["town"][:places]) + places * (firsts["river"] + firsts["day"])

    @property
    def first_question(self) -> int:
        """The bytes of the first question about the first person, with its cue."""
        return self.sizes["ask"][0] + self.sizes["who"][0]

    @property
    def longest_question(self) -> int:
        """The most bytes of a question and its cue."""
        return self._most("ask", "who")

    @property
    def longest_continuation(self) -> int:
        """The most bytes of what follows the cue."""
        chain = ("lives", "there", "link", "value", "so", "value")
        return self._most(*chain) if self.chain else self._most("answer")

    def continuation(self, name: str, home: str, link: str, value: str) -> str:
        """What follows the cue."""
        return "".join(reasoning_pieces(name, home, link, value)) if self.chain else f" {value}"

    def read_person(self, line: str) -> tuple[str, str] | None:
        """The name and the home that a person's paragraph gives, if the line is one."""
        name = line[1:].partition("]")[0]
        told = line.partition(" works as a ")[2].removesuffix(".")
        job, _, home = told.partition(" and lives in the town of ")
        known = name in self.people_numbers and job in self.jobs and home in self.town_numbers
        return (name, home) if known and f"{line}\n" == "".join(person_pieces(name, job, home)) else None

    def read_town(self, line: str) -> tuple[str, tuple[str, str]] | None:
        """The name of the town and its day and river, if the line is a town's paragraph."""
        name = line[1:].partition("]")[0]
        told = line.partition(" lies on the river ")[2].removesuffix(".")
        river, _, day = told.partition(", and its market day is ")
        known = name in self.town_numbers and river in self.rivers and day in self.days
        return (
            (name, (day, river)) if known and f"{line}\n" == "".join(town_pieces(name, river, day)) else None
        )

    def _most(self, *groups: str) -> int:
        return sum(max(self.sizes[group]) for group in groups)
