"""A drawing for every task: its own where there is one, else tiles with the labelled ones marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from separatrix.atlas.collect import TaskCard
from separatrix.atlas.drawings.averaging import draw_q_sparse_averaging
from separatrix.atlas.drawings.fallback import draw_positions
from separatrix.atlas.drawings.graphs import draw_cycle3, draw_cycle5, draw_is_tree
from separatrix.atlas.drawings.layout import Sketch
from separatrix.atlas.drawings.matching import draw_match2, draw_match3
from separatrix.atlas.drawings.neighbours import draw_nearest_neighbour
from separatrix.atlas.drawings.retrieval import (
    draw_associative_recall,
    draw_c_gram,
    draw_counting,
    draw_index_lookup,
    draw_mqar,
)
from separatrix.atlas.drawings.runs import draw_turing
from separatrix.atlas.drawings.strings import (
    draw_disjointness,
    draw_dyck,
    draw_equality,
    draw_sparse_threshold,
)
from separatrix.atlas.drawings.texts import draw_distractor_qa, draw_phone_book
from separatrix.atlas.examples import Example
from separatrix.atlas.svg import Canvas

__all__ = ["DRAWINGS", "Drawing", "draw", "draw_examples"]

DRAWINGS: Final[Mapping[str, Callable[[Canvas, Example], Sketch]]] = MappingProxyType(
    {
        "index-lookup": draw_index_lookup,
        "associative-recall": draw_associative_recall,
        "mqar": draw_mqar,
        "nearest-neighbour": draw_nearest_neighbour,
        "dyck": draw_dyck,
        "equality": draw_equality,
        "disjointness": draw_disjointness,
        "sparse-threshold": draw_sparse_threshold,
        "q-sparse-averaging": draw_q_sparse_averaging,
        "match2": draw_match2,
        "match3": draw_match3,
        "cycle3": draw_cycle3,
        "cycle5": draw_cycle5,
        "c-gram": draw_c_gram,
        "counting": draw_counting,
        "is-tree": draw_is_tree,
        "turing": draw_turing,
        "distractor-qa": draw_distractor_qa,
        "phone-book": draw_phone_book,
    }
)
"""Each paints one example on a canvas and says in words what is to be seen."""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Inline SVG, already escaped, and its caption, not yet."""

    svg: str
    caption: str


def draw(name: str, title: str, example: Example) -> Drawing:
    """The example of one task."""
    canvas = Canvas()
    sketch = DRAWINGS.get(name, draw_positions)(canvas, example)
    svg = canvas.svg(f"drawing-{name}", title=f"{title}: an example", desc=sketch.says, height=sketch.height)
    return Drawing(svg=svg, caption=sketch.says)


def draw_examples(cards: Sequence[TaskCard]) -> dict[str, Drawing]:
    """A drawing for each card that has an example, by the task's name."""
    return {
        card.name: draw(card.name, card.title, card.example) for card in cards if card.example is not None
    }
