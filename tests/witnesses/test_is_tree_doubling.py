"""W-5.7: IsTree by a hybrid that finds the next edge by doubling."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.generation.decoding import generate
from separatrix.generation.runs import Run
from separatrix.generation.scripts.is_tree_doubling import DoublingTourScript
from separatrix.models.explicit.linear_rnn import Hybrid
from separatrix.precision import FixedNearest, Float64, NumberSystem
from separatrix.tasks.is_tree import IsTree
from separatrix.witnesses import Choices, Witness, witness_for
from separatrix.witnesses.is_tree_doubling import is_tree_doubling
from separatrix.witnesses.language import Symbolic

Edges = Sequence[tuple[int, int]]

LEAST_BITS = [
    (2, 13),
    (3, 13),
    (4, 15),
    (8, 19),
    *(pytest.param(n, p, marks=pytest.mark.slow) for n, p in ((16, 23), (32, 27), (64, 33))),
]


def built(n: int, system: NumberSystem | None = None, graphs: str = "hub") -> Witness:
    task = IsTree(n=n, form="cot", graphs="uniform" if graphs == "uniform" else "hub")
    return is_tree_doubling(task, Choices(system=system or Float64()))


def script_of(witness: Witness) -> DoublingTourScript:
    assert isinstance(witness.script, DoublingTourScript)
    return witness.script


def edges_of(task: IsTree, row: torch.Tensor) -> list[tuple[int, int]]:
    return [(int(u), int(v)) for u, v in task.edges(row.unsqueeze(0))[0]]


def graph_words(edges: Edges) -> list[str]:
    return ["<s>", *(word for u, v in edges for word in (str(u), "~", str(v)))]


def walked(edges: Edges) -> list[int]:
    """Algorithm 1 with a stack."""
    seen, stack, found = {1}, [1], []
    while stack:
        top = stack[-1]
        found.append(top)
        ways = [v if u == top else u for u, v in edges if top in (u, v)]
        new = next((way for way in ways if way not in seen), None)
        if new is None:
            stack.pop()
        else:
            seen.add(new)
            stack.append(new)
    return found


def chain(edges: Edges) -> list[str]:
    """What is to be written, by recursion over the graph and plain searches of lists."""
    places: dict[int, list[int]] = {}
    for number, edge in enumerate(edges, start=1):
        for end in edge:
            places.setdefault(end, []).append(number)
    seen: set[int] = set()

    def visit(v: int, parent: int) -> list[str]:
        seen.add(v)
        written = [f">{v}"]
        mine = places.get(v, [])
        for number, following in itertools.zip_longest(mine, mine[1:]):
            u = sum(edges[number - 1]) - v
            written.append(f"?{u}")
            if u not in seen:
                written += visit(u, v)
            if following is not None:
                written.append(f"#{number}")
                ahead = 1
                while following - number > 2 * ahead:
                    written.append(f"+{number + ahead}")
                    ahead = 2 * ahead + 1
                written.append(f"@{v}")
        return [*written, f"<{parent}"]

    written = visit(1, 0)
    return [*written, "YES" if len(seen) == len(edges) + 1 else "NO"]


def runs_on(witness: Witness, graphs: Sequence[Edges]) -> list[Run]:
    script = script_of(witness)
    prompts = [[script.vocabulary.token(word) for word in graph_words(edges)] for edges in graphs]
    return generate(witness.model, prompts, script, batch=256)  # type: ignore[arg-type]


def wrong(witness: Witness, graphs: Sequence[Edges]) -> int:
    """Graphs on which the words written, the tour among them, are not those they should be."""
    script, mistakes = script_of(witness), 0
    for edges, run in zip(graphs, runs_on(witness, graphs), strict=True):
        words = [script.vocabulary.word(token) for token in run.written]
        right = run.outcome == "answered" and words == chain(edges)
        mistakes += not (right and script.tour(run.written) == walked(edges))
    return mistakes


def all_graphs(n: int) -> list[Edges]:
    task = IsTree(n=n, form="cot")
    return [edges_of(task, row) for rows in task.enumerate() for row in rows]


def sampled(n: int, graphs: str, count: int) -> list[Edges]:
    task = built(n, graphs=graphs).task
    assert isinstance(task, IsTree)
    return [edges_of(task, row) for row in task.sample(count, seed=7).inputs]


def shuffled(edges: Edges, rng: random.Random) -> Edges:
    mixed = [(min(edge), max(edge)) for edge in edges]
    rng.shuffle(mixed)
    return mixed


def hard_graphs(n: int, seed: int) -> list[Edges]:
    """Paths, stars, a root in as dense a part as there is, a root alone, a search from end to end."""
    rng = random.Random(seed)
    names = list(range(1, n + 1))
    rng.shuffle(names)
    most = next(k for k in range(2, n + 1) if k * (k - 1) // 2 >= n - 1)
    dense = [(u, v) for u in range(1, most + 1) for v in range(u + 1, most + 1)]
    without_root = [(u, v) for u in range(2, n + 1) for v in range(u + 1, n + 1)]
    path = list(itertools.pairwise(names))
    # Vertex 1 has the first edge and the last: its search has to go all the way.
    far = [(1, 2), *((2, v) for v in range(3, n)), (1, n)]
    return [
        shuffled(path, rng),
        [(v, v + 1) for v in range(1, n)],
        [(v, v + 1) for v in range(n - 1, 0, -1)],
        [(1, v) for v in range(2, n + 1)],
        shuffled([(v, n) for v in range(1, n)], rng),
        shuffled(rng.sample(dense, n - 1), rng),
        shuffled(rng.sample(without_root, n - 1), rng),
        far,
    ]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_every_graph_in_every_order(n: int) -> None:
    assert wrong(built(n), all_graphs(n)) == 0


@pytest.mark.slow
def test_every_graph_of_five_vertices_in_every_order() -> None:
    graphs = all_graphs(5)
    assert len(graphs) == 5040
    assert wrong(built(5), graphs) == 0


def test_the_tour_and_the_answer_are_those_of_the_task() -> None:
    for graphs in ("hub", "uniform"):
        witness = built(9, graphs=graphs)
        task, script = witness.task, script_of(witness)
        assert isinstance(task, IsTree)
        batch = task.sample(40, seed=2)
        prompts = [script.prompt(row) for row in batch.inputs]
        for row, length, target, run in zip(
            batch.inputs,
            batch.lengths,
            batch.targets,
            generate(witness.model, prompts, script),  # type: ignore[arg-type]
            strict=True,
        ):
            words = [task.vocabulary.word(int(token)) for token in row[task.prompt : length]]
            assert [str(vertex) for vertex in script.tour(run.written)] == words
            assert script.answer(run.written) == int(target[length - 1])


@pytest.mark.slow
def test_random_graphs() -> None:
    for n, count in ((16, 24), (40, 8)):
        for graphs in ("hub", "uniform"):
            assert wrong(built(n), sampled(n, graphs, count)) == 0


@pytest.mark.parametrize("n", [8, 33])
def test_hard_graphs(n: int) -> None:
    assert wrong(built(n), hard_graphs(n, seed=n)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("graphs", ["hub", "uniform"])
@pytest.mark.parametrize(("n", "count"), [(16, 500), (64, 64), (128, 16)])
def test_many_random_graphs(n: int, count: int, graphs: str) -> None:
    """`benchmarks.thinking` decides a thousand of each."""
    assert wrong(built(n), sampled(n, graphs, count)) == 0


@pytest.mark.slow
def test_a_tree_of_a_thousand_vertices() -> None:
    graphs = [edges for edges in sampled(1000, "uniform", 8) if len(walked(edges)) == 1999]
    assert wrong(built(1000), graphs[:1]) == 0


def test_one_set_of_weights_serves_every_smaller_graph() -> None:
    smaller = [
        *all_graphs(1),
        *all_graphs(2),
        *all_graphs(3),
        *hard_graphs(7, seed=7),
        *hard_graphs(11, seed=1),
    ]
    assert wrong(built(12), smaller) == 0


def test_the_words_are_few() -> None:
    for n in (2, 3, 4, 8, 33, 200):
        script = DoublingTourScript(IsTree(n=n, form="cot"))
        for edges in hard_graphs(n, seed=1) if n >= 8 else all_graphs(n):
            words = chain(edges)
            assert len(words) <= min(script.limit, 3.5 * n * math.log2(n))
            assert [script.vocabulary.word(script.vocabulary.token(word)) for word in words] == words


def test_a_chain_as_it_is_written() -> None:
    witness = built(4)
    script = script_of(witness)
    (run,) = runs_on(witness, [[(1, 2), (1, 3), (3, 4)]])
    words = " ".join(script.vocabulary.word(token) for token in run.written)
    assert words == ">1 ?2 >2 ?1 <1 #1 @1 ?3 >3 ?1 #2 @3 ?4 >4 ?3 <3 <1 <0 YES"
    assert script.tour(run.written) == [1, 2, 1, 3, 4, 3, 1]


@pytest.mark.slow
def test_the_meaning_of_the_program_and_its_tensors_agree() -> None:
    witness = built(5)
    script, program = script_of(witness), witness.built.program  # type: ignore[union-attr]
    for edges in ([(1, 2), (3, 4), (3, 5), (1, 5)], [(1, 4), (2, 4), (1, 2), (1, 3)]):
        prompt = graph_words(edges)
        tokens = torch.tensor([script.vocabulary.token(word) for word in prompt + chain(edges)])
        outputs = Symbolic().outputs(program, tokens[:-1])
        assert all(score is not None for row in outputs for score in row)
        meant = torch.tensor([[float(score or 0) for score in row] for row in outputs])
        best = meant[len(prompt) - 1 :].topk(2)
        assert torch.equal(best.indices[:, 0], tokens[len(prompt) :])
        assert bool((best.values[:, 0] - best.values[:, 1] >= 1).all())
        # All numbers are whole, so nothing is rounded: not one output differs.
        assert torch.equal(witness.built.model.forward(tokens[None, :-1])[0], meant.double())  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p"), LEAST_BITS)
def test_the_least_bits_and_no_fewer(n: int, p: int) -> None:
    graphs = all_graphs(n) if n <= 4 else [*hard_graphs(n, seed=3), *sampled(n, "uniform", 8)]
    assert wrong(built(n, FixedNearest(p=p)), graphs) == 0
    assert wrong(built(n, FixedNearest(p=p - 2)), graphs) > 0


def test_two_recurrent_layers_and_one_of_attention_carry_the_same_few_numbers_at_every_n() -> None:
    for n in (4, 300):
        witness = witness_for(IsTree(n=n, form="cot"), family="hybrid-cot")
        assert (witness.theorem, witness.family, witness.variant) == ("W-5.7", "hybrid-cot", "")
        assert isinstance(witness.script, DoublingTourScript)
        model = witness.model
        assert isinstance(model, Hybrid)
        assert (len(model.recurrent), len(model.top.heads)) == (2, 4)
        assert sum(layer.state for layer in model.recurrent) == 24


def test_other_forms_of_the_task_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"chain of thought; got form='direct'. Try form='cot'."):
        is_tree_doubling(IsTree(n=4, form="direct"), Choices())
