"""What a theorem is here: a statement with its source, and the artefacts that would make it real.

The table only declares what is owed. What exists is read elsewhere, from the registries of witnesses,
bounds and protocols, by comparing their `Artefact` keys with those a theorem owes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from separatrix.errors import InvalidInput
from separatrix.theorems.families import families_around, families_within, family

__all__ = [
    "WORKS",
    "Artefact",
    "Kind",
    "Owed",
    "Row",
    "Slip",
    "Source",
    "Status",
    "Theorem",
    "Work",
    "bound",
    "protocol",
    "witness",
]

Kind = Literal["witness", "bound", "protocol"]
Status = Literal["proven", "conditional", "open"]

_ID = re.compile(r"[A-Z]+-[0-9A-Za-z.′-]+")


@dataclass(frozen=True, kw_only=True)
class Work:
    """A piece of writing that theorems come from, under the letter that stands for it."""

    letter: str
    authors: str
    title: str
    arxiv: str | None

    def __str__(self) -> str:
        return f"{self.title} (arXiv {self.arxiv})" if self.arxiv else self.title


WORKS: Mapping[str, Work] = MappingProxyType(
    {
        work.letter: work
        for work in (
            Work(
                letter="S",
                authors="Bhattamishra, Hahn, Blunsom, Kanade",
                title=(
                    "Separations in the Representational Capabilities of Transformers "
                    "and Recurrent Architectures"
                ),
                arxiv="2406.09347",
            ),
            Work(
                letter="R",
                authors="Sanford, Hsu, Telgarsky",
                title="Representational Strengths and Limitations of Transformers",
                arxiv="2306.02896",
            ),
            Work(
                letter="W",
                authors="Wen, Dang, Lyu",
                title="RNNs are not Transformers (Yet): The Key Bottleneck on In-context Retrieval",
                arxiv="2402.18510",
            ),
            Work(letter="UP", authors="Separatrix", title="An elementary argument given here", arxiv=None),
        )
    }
)


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a statement stands: the letter of the work, and the place in it."""

    work: str
    place: str

    def __post_init__(self) -> None:
        if self.work not in WORKS:
            raise InvalidInput(f"A source names one of the works {', '.join(WORKS)}; got {self.work!r}.")

    def __str__(self) -> str:
        return f"{WORKS[self.work]}, {self.place}"


@dataclass(frozen=True, kw_only=True)
class Slip:
    """Something in the printed text that a program stumbles over, and what is right instead."""

    printed: str
    right: str
    place: str = ""

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.printed} {self.right}"


@dataclass(frozen=True, kw_only=True)
class Artefact:
    """The key of one thing the software holds for a theorem.

    `task` is None where the theorem speaks of every task, `family` where it speaks of communication alone;
    `variant` tells apart what otherwise has the same key (an easier form of the task, a second proof).
    """

    theorem: str
    kind: Kind
    task: str | None
    family: str | None
    variant: str = ""


@dataclass(frozen=True, kw_only=True)
class Owed:
    """One claim of a theorem about size, and with it the kind of artefact that shows it.

    A witness says "this much suffices", a bound "at least this much is needed", a protocol "this many bits
    are exchanged". `formula` is that claim in plain Unicode; it is `exact` when it has no hidden constant.
    No `tasks` means every task; no `families` means the claim is about two parties and no model.
    `via` names the communication problem or the argument a bound rests on. `own` marks a form that goes
    beyond the source's statement by the same argument. `of_protocols` marks a bound on the protocols that
    run every model of the families, and not on the models.
    """

    kind: Kind
    formula: str
    tasks: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    exact: bool = False
    via: str = ""
    variant: str = ""
    status: Status = "proven"
    condition: str = ""
    own: bool = False
    of_protocols: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InvalidInput(f"An artefact is one of {', '.join(get_args(Kind))}; got {self.kind!r}.")
        if self.status not in get_args(Status):
            raise InvalidInput(f"A status is one of {', '.join(get_args(Status))}; got {self.status!r}.")
        if (self.status == "conditional") != bool(self.condition):
            raise InvalidInput("A conditional claim names its condition, and only a conditional one does.")
        if not self.formula:
            raise InvalidInput("A claim about size needs its formula.")
        for name in self.families:
            family(name)

    @property
    def reach(self) -> tuple[str, ...]:
        """Every family the claim holds for: what binds or runs a family does so for all within it, and what
        serves a family serves all around it. A protocol for more models is harder to have, so a bound on
        protocols passes outwards too."""
        outwards = self.kind == "witness" or self.of_protocols
        spread = families_around if outwards else families_within
        return _in_order(reached for name in self.families for reached in spread(name))


@dataclass(frozen=True, kw_only=True)
class Theorem:
    """A statement, what it assumes, where it stands, and what the software owes for it.

    `restates` is set when the source prints the same statement twice; the artefacts are then owed once,
    by the first. `partners` are the entries that show a bound cannot be raised much: what it says is
    needed is also enough. `length` says what N (or n) counts, since the sources differ.
    """

    id: str
    statement: str
    source: Source
    length: str
    assumptions: tuple[str, ...] = ()
    owes: tuple[Owed, ...] = ()
    partners: tuple[str, ...] = ()
    slips: tuple[Slip, ...] = ()
    restates: str | None = None

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise InvalidInput(f"A theorem's id looks like S-T1 or W-4.7; got {self.id!r}.")
        if bool(self.owes) == (self.restates is not None):
            raise InvalidInput(f"{self.id} either owes artefacts or restates another theorem.")
        keys = self.artefacts
        if len(set(keys)) != len(keys):
            raise InvalidInput(f"{self.id} owes the same artefact twice; tell them apart by variant.")

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks it speaks of; none means every task."""
        return _in_order(name for owed in self.owes for name in owed.tasks)

    @property
    def families(self) -> tuple[str, ...]:
        """The families it speaks of."""
        return _in_order(name for owed in self.owes for name in owed.families)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of artefact it owes, each once."""
        owed_kinds = {owed.kind for owed in self.owes}
        return tuple(kind for kind in get_args(Kind) if kind in owed_kinds)

    @property
    def reach(self) -> tuple[str, ...]:
        """The families that one of its claims holds for, spoken of or not."""
        return _in_order(name for owed in self.owes for name in owed.reach)

    @property
    def status(self) -> Status:
        """Open when all it claims is open; conditional when some of it is; else proven."""
        statuses = {owed.status for owed in self.owes}
        if statuses == {"open"}:
            return "open"
        return "conditional" if statuses - {"proven"} else "proven"

    @property
    def conditions(self) -> tuple[str, ...]:
        """What its conditional part rests on."""
        return _in_order(owed.condition for owed in self.owes if owed.condition)

    @property
    def artefacts(self) -> tuple[Artefact, ...]:
        """Every artefact it owes, one for each task and family."""
        return tuple(
            Artefact(theorem=self.id, kind=owed.kind, task=task, family=family_name, variant=owed.variant)
            for owed in self.owes
            for task in (owed.tasks or (None,))
            for family_name in (owed.families or (None,))
        )

    def __str__(self) -> str:
        return f"{self.id}: {self.statement}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the table of results: theorems that belong together, under one label."""

    label: str
    theorems: tuple[Theorem, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its theorems, in order."""
        return tuple(entry.id for entry in self.theorems)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of artefact the row owes, each once."""
        owed_kinds = {kind for entry in self.theorems for kind in entry.kinds}
        return tuple(kind for kind in get_args(Kind) if kind in owed_kinds)

    @property
    def artefacts(self) -> tuple[Artefact, ...]:
        """Every artefact the row owes."""
        return tuple(artefact for entry in self.theorems for artefact in entry.artefacts)


def witness(
    formula: str,
    *,
    tasks: tuple[str, ...] = (),
    families: tuple[str, ...],
    exact: bool = False,
    variant: str = "",
    own: bool = False,
) -> Owed:
    """Weights of this size do the task."""
    return Owed(
        kind="witness", formula=formula, tasks=tasks, families=families, exact=exact, variant=variant, own=own
    )


def bound(
    formula: str,
    *,
    tasks: tuple[str, ...] = (),
    families: tuple[str, ...] = (),
    exact: bool = False,
    via: str = "",
    variant: str = "",
    status: Status = "proven",
    condition: str = "",
    own: bool = False,
    of_protocols: bool = False,
) -> Owed:
    """No weights below this size do the task."""
    return Owed(
        kind="bound",
        formula=formula,
        tasks=tasks,
        families=families,
        exact=exact,
        via=via,
        variant=variant,
        status=status,
        condition=condition,
        own=own,
        of_protocols=of_protocols,
    )


def protocol(formula: str, *, families: tuple[str, ...], exact: bool = False, own: bool = False) -> Owed:
    """Two parties who hold the model run it on their shared input with this many bits."""
    return Owed(kind="protocol", formula=formula, families=families, exact=exact, own=own)


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
