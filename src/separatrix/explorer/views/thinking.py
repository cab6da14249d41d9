"""Draw a graph and watch a model think: the walk through it, written word by word before the answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from separatrix.explorer.folder import Folder
from separatrix.explorer.view import Deadline, View, chosen, only
from separatrix.explorer.views._graphs import MOST_VERTICES, Graph, graph_in
from separatrix.explorer.views._weights import weights_of
from separatrix.tasks.is_tree import IsTree
from separatrix.witnesses.catalogue import fitted, witness_for
from separatrix.witnesses.solving import Solution, ask
from separatrix.witnesses.witness import Witness

__all__ = ["VIEW"]

FAMILIES: Final = ("transformer-cot", "hybrid-cot")
_DEFAULT: Final = MappingProxyType(
    {
        "family": "transformer-cot",
        "vertices": 7,
        "edges": [[1, 2], [1, 3], [2, 4], [2, 5], [3, 6], [6, 7]],
    }
)
_VERDICTS: Final = ("YES", "NO")

Step = dict[str, object]
"""A written word, the vertex at which the walk then stands, the edge it looks at, and what that means."""


def _answer(asked: dict[str, object], folder: Folder, deadline: Deadline) -> dict[str, object]:
    only(asked, "family", "vertices", "edges")
    family = chosen(asked, "family", FAMILIES, default=FAMILIES[0])
    graph = graph_in(asked, _DEFAULT)
    told = {**graph.to_fields(), "family": family, "most_vertices": MOST_VERTICES}
    if not graph.as_many_as_a_tree:
        return {**told, "asked": False, "answer": "NO", "oracle": "NO", "says": graph.miscount, "steps": []}
    witness = _weights(graph.vertices, family)
    deadline.check()
    task = witness.task
    row = task.parse(graph.text)
    solution = ask(witness, row.unsqueeze(0), progress=lambda _: deadline.check())[0]
    return {
        **told,
        "asked": True,
        "prompt": graph.text.split(),
        "steps": _steps(solution, graph, family),
        "answer": solution.text,
        "oracle": task.render_target(task.solve(row.unsqueeze(0)).answer[0]),
        "weights": weights_of(witness),
    }


@lru_cache(maxsize=MOST_VERTICES * len(FAMILIES))
def _weights(n: int, family: str) -> Witness:
    return witness_for(fitted(IsTree(n=n), family=family), family=family)


def _steps(solution: Solution, graph: Graph, family: str) -> list[Step]:
    walk = _TourWalk(graph) if family == "transformer-cot" else _DoublingWalk(graph)
    return [walk.step(word) for word in solution.words]


class _Walk:
    """Where a walk stands and what it has met, read from the words that were written."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._at: int | None = None
        self._met: dict[int, int | None] = {}
        """Each vertex that was met, and the one it was reached from."""

    def _go(self, vertex: int) -> str:
        before, self._at = self._at, vertex
        if vertex in self._met:
            return f"Nothing new is left at {before}: back to {vertex}."
        self._met[vertex] = before
        return f"The walk begins at {vertex}." if before is None else f"Down to {vertex}, which is new."

    def _told(self, word: str, says: str, looks: Sequence[int] | None = None) -> Step:
        return {"word": word, "at": self._at, "looks": None if looks is None else list(looks), "says": says}

    def _verdict(self, word: str, closing: Sequence[int] | None) -> Step:
        n, met = self._graph.vertices, len(self._met)
        if closing is not None:
            first, second = closing
            return self._told(
                word, f"The edge {first} ~ {second} leads to a vertex met before: a cycle.", closing
            )
        over = f"The walk is over and has met {'all' if met == n else f'{met} of'} {n}"
        if word == "YES":
            return self._told(word, f"{over}: with n − 1 edges that is a tree.")
        return self._told(word, f"{over}: no tree.")

    def _closing(self) -> tuple[int, int] | None:
        """An edge from here to a vertex that was met, other than those that the walk has come along."""
        assert self._at is not None, "a walk has begun before it ends"
        here = self._at
        for first, second in self._graph.edges:
            other = second if first == here else first
            known = other in self._met and here in (first, second)
            if known and self._met[other] != here and self._met[here] != other:
                return here, other
        return None


class _TourWalk(_Walk):
    """The words are the vertices of a depth-first tour."""

    def step(self, word: str) -> Step:
        """One word more."""
        if word in _VERDICTS:
            return self._verdict(word, self._closing() if word == "NO" else None)
        return self._told(word, self._go(int(word)))


class _DoublingWalk(_Walk):
    """Every word has a sign; see generation/scripts/is_tree_doubling.py."""

    def step(self, word: str) -> Step:
        """One word more."""
        if word in _VERDICTS:
            return self._verdict(word, None)
        sign, number, here = word[0], int(word[1:]), self._at
        if sign == "<" and number == 0:
            return self._told(word, f"Nothing is left at {here}, where the walk began: it is over.")
        if sign in "><":
            return self._told(word, self._go(number))
        return self._told(word, *self._looked(sign, number))

    def _looked(self, sign: str, number: int) -> tuple[str, tuple[int, int] | None]:
        """What a word means that stays where it is, and the edge it speaks of."""
        here = self._at
        assert here is not None, "a walk has begun before it looks round"
        if sign == "?":
            return f"The next edge of {here} leads to {number}, {self._known(number)}.", (here, number)
        if sign == "@":
            return f"A later edge of {here} is nearer now than the used one.", None
        edge = self._graph.edges[number - 1]
        if sign == "#":
            return f"Edge {number} is the last one of {here} in use; look behind it.", edge
        return f"Nothing of {here} is nearer to place {number} yet; look twice as far.", edge

    def _known(self, vertex: int) -> str:
        if vertex not in self._met:
            return "which is new"
        assert self._at is not None
        return "the way it came" if self._met[self._at] == vertex else "which was met before"


VIEW: Final = View(
    name="thinking",
    title="Chain of thought",
    says=(
        "Draw a graph. A Transformer, or a linear RNN with one attention layer, writes its walk through it "
        "word by word and then says whether it is a tree."
    ),
    default=_DEFAULT,
    answer=_answer,
)
