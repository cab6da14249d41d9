"""IsTree: labels, tours and traces against plain searches, and the traces' patterns really run in RE2."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import Any

import networkx
import pytest
import re2
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.randomness import Draws
from separatrix.tasks import Task, task
from separatrix.tasks.is_tree import IsTree
from separatrix.tasks.random_graphs import hub_graph
from separatrix.tasks.retrieval_trace import contract, expand
from separatrix.testing import TaskConformance
from tests.tasks.laws import follow

Edge = tuple[int, int]


def plain_tour(edges: list[Edge]) -> list[int]:
    """Algorithm 1 with a real stack."""
    stack, visited, walk = [1], {1}, []
    while stack:
        walk.append(stack[-1])
        ends = [b if a == stack[-1] else a for a, b in edges if stack[-1] in (a, b)]
        fresh = [vertex for vertex in ends if vertex not in visited]
        if fresh:
            visited.add(fresh[0])
            stack.append(fresh[0])
        else:
            stack.pop()
    return walk


class SearchRun:
    """Algorithm 2 with a real stack, whose every look-up is a search through the text written so far."""

    def __init__(self, prompt: list[str], n: int) -> None:
        self.tokens = [*prompt, "0", "-", "1"]
        self.returned: set[int] = set()
        self.verdict = self._walk(n)

    def search(self, *pieces: str) -> str:
        self.tokens += ["<StartSearch>", *pieces, "<EndSearch>"]
        begin = max(place for place, token in enumerate(self.tokens) if token == "<StartSearch>")
        text = "".join(f"{token} " for token in self.tokens[:begin])
        found = re2.search("".join(pieces), text)
        self.returned.add(len(self.tokens))
        self.tokens.append(found.group(1) if found else "FAILED")
        return self.tokens[-1]

    def parent(self, v: str) -> str:
        return self.search(r"(\d+)\s-\s", v, r"\s")

    def edge(self, v: str, after: str | None) -> str:
        skip = r"^<s>\s(?:\d+\s~\s\d+\s)*?(?:"
        match = (v, r"\s~\s)?(\d+)(?:\s~\s", v, r")?\s(?:\d+\s~\s|0\s-\s)")
        if after is None:
            return self.search(skip, *match)
        used = (after, r"\s~\s", v, "|", v, r"\s~\s", after, r")\s(?:\d+\s~\s\d+\s)*?(?:")
        return self.search(skip, *used, *match)

    def _walk(self, n: int) -> str:
        stack, previous, popped = ["1"], "0", 0
        while stack:
            v = stack[-1]
            self.tokens.append(v)
            f = self.parent(v)
            u = self.edge(v, None if previous == f else previous)
            if u == f:
                u = self.edge(v, f)
            if u == "FAILED":
                previous = stack.pop()
                popped += 1
            elif self.parent(u) == "FAILED":
                self.tokens += [v, "-", u]
                stack.append(u)
                previous = v
            else:
                return "NO"
        return "YES" if popped == n else "NO"


class ShortRun:
    """Algorithm 2 with a real stack and a table of parents, its searches written in short."""

    def __init__(self, prompt: list[str], edges: list[Edge], n: int) -> None:
        self.tokens = [*prompt, "0", "1"]
        self.returned: set[int] = set()
        self.verdict = self._walk(edges, n)

    def search(self, *query: int, found: int | None) -> None:
        self.tokens += ["<StartSearch>", *map(str, query), "<EndSearch>"]
        self.returned.add(len(self.tokens))
        self.tokens.append("FAILED" if found is None else str(found))

    def _walk(self, edges: list[Edge], n: int) -> str:
        def beside(v: int, after: int) -> int | None:
            """Where the edge at v that follows the one to `after` leads; 0 asks for the first."""
            ends = [b if a == v else a for a, b in edges if v in (a, b)]
            later = ends if after == 0 else ends[ends.index(after) + 1 :]
            return later[0] if later else None

        stack, parents, previous, popped = [1], {1: 0}, 0, 0
        while stack:
            v = stack[-1]
            self.tokens.append(str(v))
            self.search(v, found=parents[v])
            after = 0 if previous == parents[v] else previous
            u = beside(v, after)
            self.search(after, v, found=u)
            if u == parents[v]:
                u = beside(v, parents[v])
                self.search(parents[v], v, found=u)
            if u is None:
                previous = stack.pop()
                popped += 1
                continue
            self.search(u, found=parents.get(u))
            if u in parents:
                return "NO"
            self.tokens += [str(v), str(u)]
            parents[u] = v
            stack.append(u)
            previous = v
        return "YES" if popped == n else "NO"


def graph_of(task: IsTree, row: list[int]) -> tuple[list[str], list[Edge]]:
    prompt = [task.vocabulary.word(token) for token in row[: 3 * task.n - 2]]
    return prompt, [(int(a), int(b)) for a, b in zip(prompt[1::3], prompt[3::3], strict=True)]


def whole_text(task: IsTree, row: list[int]) -> tuple[list[str], set[int]]:
    """Everything the example says, verdict included, and the places that a search fills."""
    prompt, edges = graph_of(task, row)
    graph = networkx.Graph(edges)
    graph.add_nodes_from(range(1, task.n + 1))
    verdict = "YES" if networkx.is_tree(graph) else "NO"
    if task.form == "direct":
        return [*prompt, verdict], set()
    if task.form == "cot":
        return [*prompt, *map(str, plain_tour(edges)), verdict], set()
    run = SearchRun(prompt, task.n) if task.trace == "full" else ShortRun(prompt, edges, task.n)
    assert run.verdict == verdict
    return [*run.tokens, verdict], run.returned


class TestIsTree(TaskConformance):
    typical = (
        IsTree(n=7),
        IsTree(n=16, form="cot"),
        IsTree(n=9, form="cot", graphs="uniform"),
        IsTree(n=8, form="retrieval"),
        IsTree(n=8, form="retrieval", trace="full", graphs="uniform"),
        IsTree(n=4, graphs="uniform"),
        IsTree(n=12, form="retrieval", trace="full"),
    )
    small = (
        IsTree(n=4),
        IsTree(n=4, form="cot"),
        IsTree(n=4, form="retrieval"),
        IsTree(n=4, form="retrieval", trace="full"),
    )
    samples = 48

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        assert isinstance(task, IsTree)
        text, returned = whole_text(task, row)
        start = 3 * task.n - 2
        return {
            place - 1: task.vocabulary.token(text[place])
            for place in range(start, len(text))
            if place not in returned
        }

    def balance(self, task: Task) -> dict[int, float]:
        return {0: 0.5, 1: 0.5}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["direct", "cot", "retrieval"])
@pytest.mark.parametrize("trace", ["compact", "full"])
def test_every_graph_of_five_vertices_in_every_order(form: Any, trace: Any) -> None:
    checks = TestIsTree()
    for n in (1, 2, 3, 5):
        is_tree = IsTree(n=n, form=form, trace=trace)
        for inputs in is_tree.enumerate():
            checks._compare(is_tree, inputs, is_tree.solve(inputs))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tiny_graphs_are_solved_though_not_sampled(n: int) -> None:
    is_tree = IsTree(n=n, form="cot")
    rows = torch.cat(list(is_tree.enumerate()))
    assert len(rows) == is_tree.domain_size() == {1: 1, 2: 1, 3: 6}[n]
    with pytest.raises(InvalidInput, match="at least 4 vertices"):
        is_tree.sample(1, seed=0)


def test_hub_graphs_are_the_papers() -> None:
    """Two hubs that are not joined, every other vertex on one of them, one edge between two of the others."""
    is_tree = IsTree(n=10)
    for row in is_tree.sample(200, seed=5).inputs.tolist():
        _, edges = graph_of(is_tree, row)
        graph = networkx.Graph(edges)
        fits = [
            (a, b)
            for a, b in itertools.combinations(range(1, 11), 2)
            if (a, b) not in edges
            and sum((a in edge) + (b in edge) == 1 for edge in edges) == 8
            and all(graph.has_edge(v, a) != graph.has_edge(v, b) for v in set(range(1, 11)) - {a, b})
        ]
        assert fits, edges


@pytest.mark.slow
def test_uniform_trees_are_uniform_and_so_are_the_others() -> None:
    """All 16 trees and all 4 triangles of four vertices have their share."""
    is_tree = IsTree(n=4, graphs="uniform")
    seen = Counter(
        frozenset(graph_of(is_tree, row)[1]) for row in is_tree.sample(16000, seed=3).inputs.tolist()
    )
    trees = {edges: count for edges, count in seen.items() if len(set(itertools.chain(*edges))) == 4}
    others = {edges: count for edges, count in seen.items() if edges not in trees}
    assert len(trees) == 16
    assert len(others) == 4
    assert all(abs(count - 500) < 120 for count in trees.values())
    assert all(abs(count - 2000) < 220 for count in others.values())


@pytest.mark.slow
@pytest.mark.parametrize(("graphs", "trees"), [("hub", 12), ("uniform", 16)])
def test_graphs_of_four_vertices_come_in_every_order(graphs: Any, trees: int) -> None:
    """Half are trees (paths, or any), half triangles; each graph has its share and so has each order."""
    is_tree = IsTree(n=4, graphs=graphs)
    law = {}
    for listed in itertools.permutations(itertools.combinations(range(1, 5), 2), 3):
        degrees = Counter(itertools.chain(*listed))
        if len(degrees) == 3:
            law[listed] = 1 / 2 / 4 / 6
        elif graphs == "uniform" or max(degrees.values()) == 2:
            law[listed] = 1 / 2 / trees / 6
    assert len(law) == 6 * (trees + 4)
    rows = is_tree.sample(12_000, seed=3).inputs.tolist()
    assert follow((tuple(graph_of(is_tree, row)[1]) for row in rows), law)


def test_the_coins_of_a_hub_graph_are_fair_and_so_is_the_place_of_the_bridge() -> None:
    """Who joins the hub of the first, and which two are joined: all 8 · 3 cases are equally likely."""
    cases = []
    for *spokes, (left, right) in hub_graph(Draws(seed=6, stream="law", batch=6000), 6).tolist():
        joined, hubs = zip(*spokes, strict=True)
        assert joined.index(right) == joined.index(left) + 1
        assert len(set(joined)) == 4
        assert not set(joined) & set(hubs)
        cases.append((*(hub == hubs[0] for hub in hubs[1:]), joined.index(left)))
    assert follow(
        cases, dict.fromkeys(itertools.product((False, True), (False, True), (False, True), range(3)), 1)
    )


@pytest.mark.slow
def test_degrees_of_hub_graphs_are_binomial() -> None:
    """Four vertices join one of two hubs by fair coins, and two of them each other."""
    law: Counter[tuple[int, ...]] = Counter()
    for coins in itertools.product((0, 1), repeat=4):
        law[tuple(sorted((coins.count(0), coins.count(1), 1, 1, 2, 2)))] += 1
    is_tree = IsTree(n=6)
    degrees = []
    for row in is_tree.sample(4000, seed=7).inputs.tolist():
        ends = list(itertools.chain(*graph_of(is_tree, row)[1]))
        degrees.append(tuple(sorted(map(ends.count, range(1, 7)))))
    assert follow(degrees, law)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(4, 40), st.integers(0, 2**32), st.sampled_from(["hub", "uniform"]))
def test_expansion_is_exact_both_ways(n: int, seed: int, graphs: Any) -> None:
    short = IsTree(n=n, form="retrieval", graphs=graphs)
    full = IsTree(n=n, form="retrieval", trace="full", graphs=graphs)
    compact_row, full_row = (t.sample(1, seed=seed).inputs[0] for t in (short, full))
    assert short.expand(short.render(compact_row)) == full.render(full_row)
    assert full.contract(full.render(full_row)) == short.render(compact_row)
    words = short.render(compact_row).split()[short.prompt :]
    assert contract(expand(words)) == words


@pytest.mark.slow
def test_searches_of_a_large_full_trace_return_what_it_says() -> None:
    """Every span of sampled traces, at a size where numbers have two and three digits."""
    full = IsTree(n=110, form="retrieval", trace="full", graphs="uniform")
    batch = full.sample(4, seed=8)
    for row in batch.inputs:
        tokens = full.render(row).split()
        starts = [place for place, token in enumerate(tokens) if token == "<StartSearch>"]
        text = {place: "".join(f"{token} " for token in tokens[:place]) for place in starts}
        for place in starts:
            end = tokens.index("<EndSearch>", place)
            found = re2.search("".join(tokens[place + 1 : end]), text[place])
            assert tokens[end + 1] == (found.group(1) if found else "FAILED")


def test_a_list_ended_by_anything_else_hides_its_last_edge() -> None:
    """Why a pattern looks for the pair `0 - 1`: with the tail `1 <StartSearch>` the last edge is lost."""
    text = "<s> 1 ~ 2 2 ~ 3 0 - 1 2 "
    head = r"^<s>\s(?:\d+\s~\s\d+\s)*?(?:1\s~\s2|2\s~\s1)\s(?:\d+\s~\s\d+\s)*?(?:2\s~\s)?(\d+)(?:\s~\s2)?\s"
    assert re.search(head + r"(?:\d+\s~\s|1\s<StartSearch>\s)", text) is None
    found = re.search(head + r"(?:\d+\s~\s|0\s-\s)", text)
    assert found
    assert found.group(1) == "3"


def test_parts_of_a_large_batch_do_not_show() -> None:
    """Searches run over a few rows at a time; a row must not notice."""
    is_tree = IsTree(n=32, form="retrieval")
    whole = is_tree.sample(1100, seed=4)
    for number in (0, 1023, 1024, 1099):
        alone = is_tree.sample(1, seed=4, start=number)
        assert torch.equal(whole.inputs[number], alone.inputs[0])
        assert torch.equal(whole.targets[number], alone.targets[0])


def test_a_wrong_chain_does_not_change_the_labels() -> None:
    is_tree = IsTree(n=6, form="cot")
    batch = is_tree.sample(16, seed=2)
    spoiled = batch.inputs.clone()
    spoiled[:, is_tree.prompt :] = 9
    assert torch.equal(is_tree.solve(spoiled).targets, batch.targets)
    assert torch.equal(is_tree.solve(spoiled[:, : is_tree.prompt]).mask, batch.mask)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<s> 1 ~ 2 2 ~ 3", "is-tree with n=4 needs <s> and then 3 edges as `u ~ v`; got '<s> 1 ~ 2 2 ~ 3'."),
        ("<s> 1 ~ 2 3 ~ 2 3 ~ 4", "An edge joins two vertices from 1 to 4, the smaller first; got 3 ~ 2."),
        ("<s> 1 ~ 2 1 ~ 2 3 ~ 4", "Every edge stands once; got 1 ~ 2 twice."),
        ("<s> 0 ~ 2 1 ~ 2 3 ~ 4", "An edge joins two vertices from 1 to 4, the smaller first; got 0 ~ 2."),
        ("<s> 1 ~ 5 1 ~ 2 3 ~ 4", "'5' is no word of this task; known are NO YES, <s> ~"),
        (
            "<s> 1 ~ 2 2 ~ 3 3 ~ 4 1 3",
            "Behind this prompt, word 12 must be 2; got 3. Leave the chain out",
        ),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        IsTree(n=4, form="cot").parse(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("n", [0, -3, 5000, 2**60])
def test_bad_size(n: int) -> None:
    with pytest.raises(InvalidInput, match="is-tree needs 1 ≤ n ≤ 4096 vertices"):
        task("is-tree", n=n)


SOME_WORDS = (
    "<s>",
    "~",
    "1",
    "2",
    "3",
    "4",
    "5",
    "0",
    "YES",
    "-",
    "<StartSearch>",
    "<EndSearch>",
    "x",
    "01",
    "²",
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(SOME_WORDS), max_size=24))
def test_any_text_is_parsed_or_refused(words: list[str]) -> None:
    is_tree = IsTree(n=4, form="retrieval")
    try:
        row = is_tree.parse(" ".join(words))
    except InvalidInput:
        return
    assert torch.equal(is_tree.parse(is_tree.render(row)), row)
