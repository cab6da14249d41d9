"""A linear RNN that searches its own text: each pattern that it writes, what it matches, and its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from separatrix.errors import InvalidInput
from separatrix.explorer.folder import Folder
from separatrix.explorer.view import Deadline, View, chosen, only, text_in
from separatrix.explorer.views._graphs import graph_in
from separatrix.explorer.views._registers import kinds_of, registers_of, states_along
from separatrix.explorer.views._weights import weights_of
from separatrix.generation.matching import ready
from separatrix.generation.patterns import SearchLimits, expanded
from separatrix.generation.runs import Run, Search
from separatrix.generation.scripts import TreeScript
from separatrix.models.explicit.linear_rnn import LinearRNN
from separatrix.tasks import task as make_task
from separatrix.tasks.is_tree import IsTree
from separatrix.witnesses.catalogue import fitted, witness_for
from separatrix.witnesses.solving import Solution, ask
from separatrix.witnesses.witness import Witness

__all__ = ["VIEW"]

FAMILY: Final = "linear-rnn+retrieval"
GRAPHS: Final = "is-tree"
MOST_WORDS: Final = 24
MOST_VERTICES: Final = 8
_LONGEST: Final = 200
_START, _END = "<StartSearch>", "<EndSearch>"


class _Kind(NamedTuple):
    """A task of one search: its other parameters, n from the words of an input, an input to begin with."""

    parameters: Mapping[str, int]
    size: Callable[[int], int]
    example: str
    asks: str


_KINDS: Final[Mapping[str, _Kind]] = MappingProxyType(
    {
        "associative-recall": _Kind(
            {}, lambda words: (words - 1) // 2, "k5 v1 k0 v3 k7 v1 k0", "What stands behind the key?"
        ),
        "index-lookup": _Kind({}, lambda words: words - 1, "s2 s0 s3 s1 s7 @3", "Which word is the p-th?"),
        "c-gram": _Kind(
            {"c": 3, "alphabet": 16},
            lambda words: words - 2,
            "s2 s0 s1 s0 s2 s1 s0 s2",
            "What stands behind these two, side by side?",
        ),
        "counting": _Kind(
            {"alphabet": 16},
            lambda words: words - 2,
            "s3 s1 s3 s0 s3 s2 s3 >2",
            "Does the word occur more than k times, and once in the query?",
        ),
    }
)
TASKS: Final = (*_KINDS, GRAPHS)
_DEFAULT: Final = MappingProxyType(
    {
        "task": "associative-recall",
        "text": _KINDS["associative-recall"].example,
    }
)
_GRAPH: Final = MappingProxyType({"vertices": 4, "edges": [[1, 3], [2, 3], [1, 4]]})


def _answer(asked: dict[str, object], folder: Folder, deadline: Deadline) -> dict[str, object]:
    only(asked, "task", "text", "vertices", "edges")
    name = chosen(asked, "task", TASKS, default="associative-recall")
    told: dict[str, object] = {
        "task": name,
        "examples": {task: kind.example for task, kind in _KINDS.items()},
        "most_vertices": MOST_VERTICES,
        "most_words": MOST_WORDS,
    }
    if name == GRAPHS:
        graph = graph_in(asked, _GRAPH, most=MOST_VERTICES)
        told |= graph.to_fields()
        if not graph.as_many_as_a_tree:
            return {**told, "asked": False, "answer": "NO", "oracle": "NO", "says": graph.miscount}
        witness, text = _tree_weights(graph.vertices), graph.text
    else:
        witness, text = _small(name, text_in(asked, "text", longest=_LONGEST, default=_KINDS[name].example))
        told["text"] = text
    deadline.check()
    row = witness.task.parse(text)
    solution = ask(witness, row.unsqueeze(0), progress=lambda _: deadline.check())[0]
    return {**told, "asked": True, **_told(solution, deadline), "weights": weights_of(witness)}


def _small(name: str, text: str) -> tuple[Witness, str]:
    """The weights for inputs of as many words as this one has, and it, with one space between words."""
    words = text.split()
    kind = _KINDS[name]
    if not 3 <= len(words) <= MOST_WORDS:
        raise InvalidInput(
            f"An input has 3 to {MOST_WORDS} words here, such as `{kind.example}`; got {len(words)}."
        )
    return _small_weights(name, kind.size(len(words))), " ".join(words)


@lru_cache(maxsize=len(_KINDS) * MOST_WORDS)
def _small_weights(name: str, n: int) -> Witness:
    return witness_for(make_task(name, n=n, **_KINDS[name].parameters), family=FAMILY)


@lru_cache(maxsize=MOST_VERTICES)
def _tree_weights(n: int) -> Witness:
    return witness_for(fitted(IsTree(n=n), family=FAMILY), family=FAMILY)


def _told(solution: Solution, deadline: Deadline) -> dict[str, object]:
    """The text word by word, the searches in it, and what the model carried from word to word."""
    witness, run = solution.witness, solution.run
    script, model = witness.script, witness.model
    assert run is not None
    assert script is not None
    assert isinstance(model, LinearRNN)
    prompt = script.prompt(solution.row)
    words = [script.vocabulary.word(token) for token in (*prompt, *run.written)]
    labels = witness.task.solve(solution.row.unsqueeze(0))
    return {
        "words": words,
        "prompt": len(prompt),
        "returned": sorted(run.returned),
        "searches": [_search(each, run, words, witness.task.name) for each in run.searches],
        "walk": _walk(script, run) if isinstance(script, TreeScript) else [],
        "registers": registers_of(witness),
        "kinds": kinds_of(script.vocabulary),
        "states": states_along(model, prompt, run.written, deadline),
        "answer": solution.text,
        "oracle": witness.task.render_target(labels.answer[0]),
    }


def _search(each: Search, run: Run, words: list[str], task: str) -> dict[str, object]:
    """Where a search stands in the text, and where in the text before it the match and its group lie."""
    end = run.prompt + each.place
    start = end - 1 - words[end - 1 :: -1].index(_START)
    text = "".join(f"{word} " for word in words[:start])
    assert len(text) == each.text, "a search reads what stands before it"
    pattern = expanded(each.pattern, SearchLimits())
    assert pattern is not None
    found = ready(pattern.encode(), latin=True, memory=SearchLimits().memory)
    assert found is not None
    group = found.match(text.encode())
    return {
        "start": start,
        "end": end,
        "pattern": each.pattern,
        "asks": _asks(words[start + 1 : end], task),
        "match": None if group is None else list(found.compiled.search(text.encode()).span()),
        "group": None if group is None else list(group),
        "result": words[end + 1],
    }


def _asks(query: list[str], task: str) -> str:
    """The question that the words of a search put."""
    if task != GRAPHS:
        return _KINDS[task].asks
    vertices = [word for word in query if word.isdigit()]
    if len(vertices) == 1:
        return f"From which vertex was {vertices[0]} reached? The pair `… - {vertices[0]}` says it."
    if len(set(vertices)) == 1:
        return f"Where does the first edge of {vertices[0]} lead?"
    return f"Where does the edge of {vertices[1]} lead that comes after {vertices[0]} ~ {vertices[1]}?"


def _walk(script: TreeScript, run: Run) -> list[list[int]]:
    """The places of written words that move the walk, and the vertex at which it then stands."""
    start = script.vocabulary.token(_START)
    found: list[list[int]] = []
    for place, token in enumerate(run.written[1:]):
        if token == start:
            tour = script.tour(run.written[: place + 2])
            if len(tour) > len(found):
                found.append([place, tour[-1]])
    return found


VIEW: Final = View(
    name="searching",
    title="Searches",
    says=(
        "A linear RNN carries a few numbers and nothing else, so it writes regular expressions that search "
        "its own text, and what they find is pasted back."
    ),
    default=_DEFAULT,
    answer=_answer,
)
