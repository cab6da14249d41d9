"""Every bound with its formula, as data, and what recurrent models need against n, as a plot.

All are asked at one length and precision. Each card is a rule's claim for one task; where the theorem hides a
constant, the lines below it have the one that is proven here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from separatrix.atlas.bits_plot import LONGEST, SHORTEST, BitsPlot
from separatrix.atlas.certified import Certified
from separatrix.atlas.labels import draw_labels
from separatrix.atlas.svg import Canvas, slug
from separatrix.communication.bounds import RULES, Given, Rule, bounds_for, bounds_held
from separatrix.evidence import EXCHANGED_BITS, ONE_WAY_BITS, Bound, TaskSpec
from separatrix.tasks import TASKS
from separatrix.tasks.specs import defaults_of
from separatrix.theorems import THEOREMS, Artefact, Owed, theorem

__all__ = ["BOUND_N", "BOUND_PRECISION", "BoundCard", "BoundLine", "Needs", "collect_bounds", "draw_needs"]

BOUND_N: Final = 1024
BOUND_PRECISION: Final = 32
_ANY: Final = {"S-L4": "dyck", "S-C13.1": "equality"}
"""Of which task an example is given where a theorem speaks of every one."""
_MEMBERS: Final = 64
_SHOWN: Final[Mapping[str, Mapping[str, Any]]] = {
    "mqar": {"vocabulary_size": 1 << 17},  # a key for each pair at every length drawn
    "q-sparse-averaging": {"q": _MEMBERS},
}
"""Parameters that say more than the defaults."""
_STREAMED: Final = (
    "index-lookup",
    "associative-recall",
    "mqar",
    "equality",
    "c-gram",
    "counting",
    "is-tree",
    "q-sparse-averaging",
    "dyck",
)
_PLOT: Final = BitsPlot(least=1.0, most=10.0**7, across="n")


@dataclass(frozen=True, kw_only=True)
class BoundLine:
    """One bound: its formula, what it comes to, and what it rests on."""

    formula: str
    needs: str
    via: str
    condition: str


@dataclass(frozen=True, kw_only=True)
class BoundCard:
    """What a theorem says about a task, and the derivation in words.

    `claims` are the theorem's own formulas where they hide a constant; the lines have it.
    """

    theorem: str
    task: str
    families: tuple[str, ...]
    variant: str
    status: str
    claims: tuple[str, ...]
    lines: tuple[BoundLine, ...]
    why: tuple[str, ...]

    @property
    def anchor(self) -> str:
        """Its name in the page."""
        return slug(f"bound-{self.theorem}-{self.task}-{self.families[0]}")


@dataclass(frozen=True, kw_only=True)
class Needs:
    """All cards, and the plot with what it says."""

    cards: tuple[BoundCard, ...]
    plot: str
    says: str
    n: int = BOUND_N
    precision: int = BOUND_PRECISION
    q: int = _MEMBERS

    @property
    def anchors(self) -> Mapping[tuple[str, str, str], str]:
        """Where a bound's derivation stands, by theorem, task and family."""
        return {
            (card.theorem, card.task, family): card.anchor for card in self.cards for family in card.families
        }


def collect_bounds(proven: Sequence[Certified] = ()) -> Needs:
    """Ask every rule; witnesses that are proven are set beside what is needed."""
    plot, says = draw_needs(proven)
    return Needs(cards=tuple(_cards()), plot=plot, says=says)


def _cards() -> Iterator[BoundCard]:
    """In the order of the table of results; the families and the variants of a claim stand together."""
    by_families: dict[tuple[str, str | None, str], list[Artefact]] = {}
    for key, rule in RULES.items():
        by_families.setdefault((key.theorem, key.task, rule.why), []).append(key)
    cards: dict[tuple[str, str | None, tuple[str, ...]], list[Artefact]] = {}
    for (name, task, _), keys in by_families.items():
        families = tuple(key.family for key in keys if key.family)
        cards.setdefault((name, task, families), []).append(keys[0])
    order = {name: place for place, name in enumerate(THEOREMS)}
    for (name, task, families), keys in sorted(cards.items(), key=lambda card: order[card[0][0]]):
        yield _card(name, task, families, keys)


def _card(name: str, task: str | None, families: tuple[str, ...], keys: Sequence[Artefact]) -> BoundCard:
    spec, given = _spec(task or _ANY[name], BOUND_N), Given(precision=BOUND_PRECISION)
    said = [each for key in keys for each in bounds_held(key, spec, given=given)]
    wire = (EXCHANGED_BITS, ONE_WAY_BITS) if families else ()
    lines = tuple(dict.fromkeys(_line(each) for each in said if each.quantity not in wire))
    claims = dict.fromkeys(_owed(key).formula for key in keys)
    stated = {line.formula for line in lines}
    return BoundCard(
        theorem=name,
        task=task or "any task",
        families=families or ("two parties",),
        variant=keys[0].variant if len(keys) == 1 else "",
        status=_owed(keys[0]).status,
        claims=tuple(claim for claim in claims if claim not in stated),
        lines=lines,
        why=tuple(part for key in keys for part in _paragraphs(RULES[key])),
    )


def _line(each: Bound) -> BoundLine:
    number = each.requirement.removesuffix(f" {each.unit}")
    needs = "open" if each.status == "open" else f"{each.quantity} {number}"
    return BoundLine(formula=each.formula, needs=needs, via=str(each.via or ""), condition=each.condition)


def _owed(key: Artefact) -> Owed:
    return next(
        owed
        for owed in theorem(key.theorem).owes
        if owed.kind == "bound"
        and owed.variant == key.variant
        and key.task in (owed.tasks or (None,))
        and key.family in (owed.families or (None,))
    )


def _paragraphs(rule: Rule) -> tuple[str, ...]:
    parts = rule.why.split("\n\n")
    return tuple(" ".join(part.split()) for part in parts if part.strip())


def _spec(name: str, n: int) -> TaskSpec:
    """The task with its defaults at a length, also where no such task can be made."""
    return TaskSpec(name=name, params={**defaults_of(TASKS.get(name)), **_SHOWN.get(name, {}), "n": n})


def draw_needs(proven: Sequence[Certified] = ()) -> tuple[str, str]:
    """State bits that recurrent models need against n, both logarithmic, and in a sentence what it shows."""
    canvas = Canvas()
    _PLOT.draw_axes(canvas)
    curves: dict[tuple[int, ...], list[str]] = {}
    for name in _STREAMED:
        curves.setdefault(tuple(_needed(name, n) for n in _lengths()), []).append(name)
    labels = []
    for bits, names in sorted(curves.items(), key=lambda curve: curve[0][-1]):
        points = [_PLOT.at(n, number) for n, number in zip(_lengths(), bits, strict=True)]
        style = "edge ridge" if bits[-1] >= LONGEST // 2 else "edge ridge dashed"
        canvas.polyline(points, style)
        labels += [(points[-1], name, "small") for name in names]
    suffices = _witnesses(proven)
    for each in suffices:
        canvas.circle(_PLOT.at(_n(each), each.state_bits), 3, "dot on")
    lowest = draw_labels(canvas, labels)
    says = _sentence(len(suffices))
    title = "State bits that recurrent models need against the length"
    return canvas.svg("needs", title=title, desc=says, height=_PLOT.height(lowest)), says


def _witnesses(proven: Sequence[Certified]) -> list[Certified]:
    """For each curve the recurrent witness with the fewest state bits, if it is of that very task."""
    least: dict[str, Certified] = {}
    for each in sorted(proven, key=lambda each: -each.state_bits):
        if each.family == "rnn" and each.task == _spec(each.task.name, _n(each)):
            least[each.task.name] = each
    return [each for name, each in least.items() if name in _STREAMED]


def _n(each: Certified) -> int:
    n = each.task.params["n"]
    assert isinstance(n, int)
    return n


def _needed(name: str, n: int) -> int:
    """The strongest bound's number."""
    return math.ceil(bounds_for(_spec(name, n), "rnn")[0].at_least or 0)


def _lengths() -> list[int]:
    """Four to a decade, and even, as some tasks ask."""
    decades = math.log10(LONGEST / SHORTEST)
    return [2 * round(SHORTEST * 10 ** (step / 4) / 2) for step in range(round(4 * decades) + 1)]


def _sentence(dots: int) -> str:
    lookup, trees, counts, brackets = (
        _needed(name, LONGEST) for name in ("index-lookup", "is-tree", "counting", "dyck")
    )
    witnesses = f" The {dots} dots are witnesses, with what suffices." if dots else ""
    return (
        "The state that a recurrent model must have, whatever its weights. Retrieval takes bits in "
        f"proportion to n, {lookup:,} for index lookup at n = {LONGEST:,}, and trees take n·log n, "
        f"{trees:,}. Counts of 64 tokens, {counts:,}, and brackets of bounded depth, {brackets}, take few: "
        f"these are dashed.{witnesses}"
    )
