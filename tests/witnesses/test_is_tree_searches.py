"""IsTree by searches: rules in plain Python, weights under teacher forcing, whole runs with real searches."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from fractions import Fraction

import pytest
import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.generation.decoding import generate
from separatrix.generation.runs import Run
from separatrix.generation.scripts.is_tree_searches import SearchTraceScript
from separatrix.models.interface import CausalModel
from separatrix.precision import FixedNearest, Float64, NumberSystem
from separatrix.tasks.is_tree import IsTree
from separatrix.tasks.tree_search import tour
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.is_tree_searches import (
    KINDS_BACK,
    NUMBERS_BACK,
    Past,
    is_tree_searches,
    next_token_rules,
)
from separatrix.witnesses.language.forms import Field, as_linear
from separatrix.witnesses.language.rules import interpret
from separatrix.witnesses.language.words import Words
from separatrix.witnesses.witness import Witness
from tests.witnesses.checking import evaluators_agree

STATE = 23
Edges = Sequence[tuple[int, int]]


def full(n: int, graphs: str = "hub") -> IsTree:
    return IsTree(n=n, form="retrieval", trace="full", graphs=graphs)  # type: ignore[arg-type]


@functools.cache
def built(n: int, system: NumberSystem | None = None) -> Witness:
    return is_tree_searches(full(n), Choices(system=system or Float64()))


def least_p(n: int) -> int:
    """The largest score is n² + 1, and kinds go up to 17; W's numbers have as many bits behind the point."""
    return 2 * max(n * n + 1, 17).bit_length() + 1


def graph(task: IsTree, edges: Edges) -> list[int]:
    """A prompt of the task; the graph may have fewer vertices than it."""
    text = ["<s>", *(word for u, v in edges for word in (str(u), "~", str(v)))]
    return [task.vocabulary.token(word) for word in text]


def is_a_tree(n: int, edges: Edges) -> bool:
    """n − 1 edges that join all vertices, by merging sets."""
    groups = [{vertex} for vertex in range(1, n + 1)]
    for u, v in edges:
        joined = [group for group in groups if group & {u, v}]
        groups = [group for group in groups if group not in joined] + [set().union(*joined)]
    return len(groups) == 1


class Plain:
    """The rules on lists of words, with Python's own regular expressions for searches."""

    def __init__(self, task: IsTree) -> None:
        self.known = Words(task.vocabulary)
        self.kinds = [self.field(f"kind {back}") for back in range(KINDS_BACK + 1)]
        self.numbers = [self.field(f"number {back}") for back in range(NUMBERS_BACK + 1)]
        self.balance = self.field("balance")
        past = Past(
            self.known,
            [as_linear(each) for each in self.kinds],
            [as_linear(each) for each in self.numbers],
            as_linear(self.balance),
        )
        self.rules = next_token_rules(past)

    @staticmethod
    def field(name: str) -> Field:
        return Field(name=name, dim=1, low=Fraction(-99), high=Fraction(99), note="")

    def next(self, text: Sequence[str]) -> str:
        recent = text[::-1][: NUMBERS_BACK + 1]
        kinds = [self.known.id("vertex" if word.isdigit() else word) for word in recent]
        numbers = [int(word) if word.isdigit() else 0 for word in recent]
        held = {each: (value,) for each, value in zip(self.kinds, kinds, strict=False)}
        held |= {each: (value,) for each, value in zip(self.numbers, numbers, strict=False)}
        held |= {each: (0,) for each in (*self.kinds, *self.numbers) if each not in held}
        held[self.balance] = (text.count("-") - text.count("~"),)
        written = interpret(self.rules, held)
        assert written is not None, f"no rule applies behind {' '.join(text[-4:])}"
        return written if isinstance(written, str) else str(written[1])

    def run(self, prompt: Sequence[str], *, limit: int) -> list[str]:
        text = list(prompt)
        while len(text) < limit and text[-1] not in ("YES", "NO"):
            text.append(searched(text) if text[-1] == "<EndSearch>" else self.next(text))
        return text


def searched(text: Sequence[str]) -> str:
    start = len(text) - 1 - text[::-1].index("<StartSearch>")
    found = re.search("".join(text[start + 1 : -1]), "".join(f"{word} " for word in text[:start]))
    return found.group(1) if found else "FAILED"


def traced(task: IsTree, row: Int[Tensor, "pos"]) -> list[str]:
    """The task's own text for a graph, with its verdict."""
    labels = task.solve(row.unsqueeze(0))
    end = int(labels.mask[0].nonzero().max())
    return [*task.vocabulary.render(row).split(), task.vocabulary.word(int(labels.targets[0, end]))]


def follows_the_task(task: IsTree, rows: Int[Tensor, "row pos"]) -> bool:
    plain = Plain(task)
    prompts = [task.vocabulary.render(row[: task.prompt]).split() for row in rows]
    return all(
        plain.run(prompt, limit=task.length + 1) == traced(task, row)
        for prompt, row in zip(prompts, rows, strict=True)
    )


def wrong_labels(witness: Witness, rows: Int[Tensor, "row pos"]) -> int:
    """Places of the task's own texts where the weights would write another token."""
    labels = witness.task.solve(rows)
    chosen = witness.model.forward(rows).argmax(-1)
    return int(((chosen != labels.targets) & labels.mask).sum())


def runs_of(witness: Witness, rows: Int[Tensor, "row pos"], *, batch: int = 128) -> list[Run]:
    assert witness.script is not None
    assert isinstance(witness.model, CausalModel)
    prompts = [witness.script.prompt(row) for row in rows]
    return generate(witness.model, prompts, witness.script, batch=batch)


def right_to_the_end(witness: Witness, task: IsTree, rows: Int[Tensor, "row pos"]) -> bool:
    """Every run is the task's text, token for token, ends with the right verdict, and searches little."""
    for row, run in zip(rows, runs_of(witness, rows), strict=True):
        words = [task.vocabulary.word(token) for token in run.written]
        edges = [tuple(edge) for edge in task.edges(row.unsqueeze(0))[0].tolist()]
        assert words == traced(task, row)[task.prompt :]
        assert words[-1] == ("YES" if is_a_tree(task.n, edges) else "NO")
        assert run.outcome == "answered"
        assert len(run.searches) <= 6 * task.n - 4
    return True


def every_graph(task: IsTree, step: int = 1) -> Int[Tensor, "row pos"]:
    return task.decode(torch.arange(0, task.domain_size(), step))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "step"), [(1, 1), (2, 1), (3, 1), (4, 13)])
def test_rules_write_the_whole_trace(n: int, step: int) -> None:
    assert follows_the_task(full(n), every_graph(full(n), step))


@pytest.mark.slow
@pytest.mark.parametrize("graphs", ["hub", "uniform"])
def test_rules_write_the_whole_trace_of_random_graphs(graphs: str) -> None:
    task = full(16, graphs)
    assert follows_the_task(task, task.sample(2, seed=1).inputs)


@pytest.mark.slow
def test_rules_write_the_whole_trace_in_every_order() -> None:
    assert follows_the_task(full(4), every_graph(full(4)))
    assert follows_the_task(full(5), every_graph(full(5), 211))


@pytest.mark.slow
@pytest.mark.parametrize("graphs", ["hub", "uniform"])
@pytest.mark.parametrize(("n", "count"), [(16, 30), (64, 4), (128, 1)])
def test_rules_write_the_whole_trace_of_many_random_graphs(graphs: str, n: int, count: int) -> None:
    task = full(n, graphs)
    assert follows_the_task(task, task.sample(count, seed=2).inputs)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("exact", [True, False])
def test_weights_write_every_token_of_small_graphs(n: int, exact: bool) -> None:
    system: NumberSystem = Float64() if exact else FixedNearest(p=least_p(n))
    assert wrong_labels(built(n, system), every_graph(full(n), 1 if exact else 7)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("graphs", ["hub", "uniform"])
def test_weights_write_every_token_of_random_graphs(graphs: str) -> None:
    for n, count in ((16, 20), (64, 1)):
        assert wrong_labels(built(n), full(n, graphs).sample(count, seed=4).inputs) == 0


@pytest.mark.slow
@pytest.mark.parametrize("graphs", ["hub", "uniform"])
def test_weights_write_every_token_of_many_random_graphs(graphs: str) -> None:
    for n, count in ((16, 200), (64, 20), (128, 4)):
        assert wrong_labels(built(n), full(n, graphs).sample(count, seed=9).inputs) == 0


def a_tree(n: int) -> Int[Tensor, "1 pos"]:
    batch = full(n, "uniform").sample(8, seed=5)
    longest = int(batch.lengths.argmax())
    return batch.inputs[longest : longest + 1]


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 7, 16])
def test_fewer_bits_than_the_scores_need_are_too_few(n: int) -> None:
    assert wrong_labels(built(n, FixedNearest(p=least_p(n))), a_tree(n)) == 0
    assert wrong_labels(built(n, FixedNearest(p=least_p(n) - 2)), a_tree(n)) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p"), [(16, 19), (64, 27)])
def test_state_bits_grow_like_the_logarithm(n: int, p: int) -> None:
    assert p == least_p(n)
    witness = built(n, FixedNearest(p=p))
    assert witness.size.state_bits(witness.task.length) == STATE * p
    assert wrong_labels(witness, a_tree(n)) == 0
    assert wrong_labels(built(n, FixedNearest(p=p - 2)), a_tree(n)) > 0


@pytest.mark.parametrize(("n", "step"), [(1, 1), (2, 1), (3, 1), (4, 7), (5, 499)])
def test_runs_with_real_searches(n: int, step: int) -> None:
    assert right_to_the_end(built(n), full(n), every_graph(full(n), step))


@pytest.mark.slow
def test_runs_in_few_bits() -> None:
    assert right_to_the_end(built(4, FixedNearest(p=least_p(4))), full(4), every_graph(full(4), 31))


@pytest.mark.slow
@pytest.mark.parametrize("graphs", ["hub", "uniform"])
def test_runs_on_random_graphs(graphs: str) -> None:
    task = full(16, graphs)
    assert right_to_the_end(built(16), task, task.sample(3, seed=6).inputs)


@pytest.mark.slow
def test_runs_on_every_graph_of_five_vertices() -> None:
    assert right_to_the_end(built(5), full(5), every_graph(full(5)))


@pytest.mark.slow
@pytest.mark.parametrize("graphs", ["hub", "uniform"])
@pytest.mark.parametrize(("n", "count"), [(16, 64), (64, 6)])
def test_runs_on_many_random_graphs(graphs: str, n: int, count: int) -> None:
    task = full(n, graphs)
    assert right_to_the_end(built(n), task, task.sample(count, seed=7).inputs)


@pytest.mark.parametrize(
    ("edges", "tree"),
    [
        ([(2, 3), (2, 4), (3, 4)], False),  # the root alone
        ([(1, 2), (1, 3), (2, 3)], False),  # a cycle at the root, and a vertex alone
        ([(1, 3), (2, 4), (5, 6), (2, 5), (2, 6)], False),  # a tree at the root that is not all
        ([(7, 8), (6, 7), (5, 6), (4, 5), (3, 4), (2, 3), (1, 2)], True),  # a path, last edge first
        ([(1, 8), (2, 8), (3, 8), (4, 8), (5, 8), (6, 8), (7, 8)], True),  # a star
    ],
)
def test_one_set_of_weights_serves_smaller_graphs(edges: Edges, tree: bool) -> None:
    n = len(edges) + 1
    witness, task = built(9), full(9)
    small = full(n)
    assert isinstance(witness.model, CausalModel)
    run = generate(witness.model, [graph(task, edges)], SearchTraceScript(task))[0]
    words = [task.vocabulary.word(token) for token in run.written]
    row = small.parse(small.vocabulary.render(torch.tensor(graph(small, edges))))
    assert words == traced(small, row)[small.prompt :]
    assert is_a_tree(n, edges) == tree == (words[-1] == "YES")


@pytest.mark.slow
def test_a_trace_read_as_a_tour() -> None:
    task = full(8, "uniform")
    rows = task.sample(12, seed=8).inputs
    walks = tour(task.edges(rows), task.n)
    script = SearchTraceScript(task)
    lengths = set()
    for walk, run in zip(walks.tolist(), runs_of(built(8), rows), strict=True):
        found = script.tour(run.written)
        assert found == walk[: len(found)]
        assert run.answer != task.vocabulary.token("YES") or len(found) == 2 * task.n - 1
        lengths.add(len(found))
    assert len(lengths) > 1


@pytest.mark.slow
def test_evaluators_agree() -> None:
    task = full(2)
    row = task.completed(torch.tensor(graph(task, [(1, 2)])))
    assert evaluators_agree(built(task.n), row)


def test_what_it_is_made_of() -> None:
    witness = built(16)
    assert witness.artefact.family == "linear-rnn+retrieval"
    assert witness.theorem == "W-5.3"
    assert witness.size.state_bits(10) == STATE * 64
    assert witness.size.state_bits(1000) == STATE * 64


def test_the_script() -> None:
    script = SearchTraceScript(full(3))
    token = script.vocabulary.token
    row = script.task.parse("<s> 1 ~ 3 2 ~ 3")
    assert script.searches
    assert [script.vocabulary.word(each) for each in script.prompt(row)] == ["<s>", *"1~32~3"]
    assert script.limit == script.task.length - script.task.prompt + 1
    assert script.answer([token("-"), token("YES")]) == token("YES") == 1
    assert script.answer([token("NO")]) == 0
    assert script.answer([token("YES"), token("-")]) is None
    assert script.answer([]) is None


@pytest.mark.parametrize("task", [IsTree(n=4), IsTree(n=4, form="cot"), IsTree(n=4, form="retrieval")])
def test_other_forms_are_refused(task: IsTree) -> None:
    with pytest.raises(InvalidInput, match=r"trace='full'.*Set both"):
        is_tree_searches(task, Choices())
    with pytest.raises(InvalidInput, match=r"trace='full'.*Set both"):
        SearchTraceScript(task)
