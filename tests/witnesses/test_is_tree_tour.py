"""W-4.7: IsTree by a Transformer of nine layers that writes the tour, for one n and for every n."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.generation.decoding import generate
from separatrix.generation.scripts.is_tree import TourScript
from separatrix.models.explicit.transformer import CausalTransformer
from separatrix.precision import FixedNearest, Float64, NumberSystem
from separatrix.tasks.is_tree import IsTree
from separatrix.witnesses import Choices, Witness
from separatrix.witnesses.is_tree_tour import is_tree_tour, is_tree_tour_every_n
from separatrix.witnesses.language import Symbolic

Edges = Sequence[tuple[int, int]]
Make = Callable[[IsTree, Choices], Witness]

FORMS = pytest.mark.parametrize("make", [is_tree_tour, is_tree_tour_every_n])
LEAST_BITS = [
    (2, 13),
    (3, 17),
    (4, 21),
    *(pytest.param(n, p, marks=pytest.mark.slow) for n, p in ((8, 23), (16, 27), (32, 31))),
]


def built(make: Make, n: int, system: NumberSystem | None = None) -> Witness:
    return make(IsTree(n=n, form="cot"), Choices(system=system or Float64()))


def causal(witness: Witness) -> CausalTransformer:
    assert isinstance(witness.model, CausalTransformer)
    return witness.model


def script_of(witness: Witness) -> TourScript:
    assert isinstance(witness.script, TourScript)
    return witness.script


def tokens(script: TourScript, words: Sequence[str]) -> list[int]:
    return [script.vocabulary.token(word) for word in words]


def graph_words(edges: Edges) -> list[str]:
    return ["<s>", *(word for u, v in edges for word in (str(u), "~", str(v)))]


def chain(n: int, edges: Edges) -> list[str]:
    """What is to be written: every edge is taken in its turn, until one closes a cycle."""
    at: dict[int, list[int]] = {v: [] for v in range(1, n + 1)}
    for first, second in edges:
        at[first].append(second)
        at[second].append(first)
    seen, written, walk = {1}, ["1"], [(1, 0, iter(at[1]))]
    while walk:
        v, parent, ways = walk[-1]
        u = next((way for way in ways if way != parent), None)
        if u is None:
            walk.pop()
            written += [str(parent)] if parent else []
        elif u in seen:
            return [*written, "NO"]
        else:
            seen.add(u)
            written.append(str(u))
            walk.append((u, v, iter(at[u])))
    return [*written, "YES" if len(seen) == n else "NO"]


def wrong(witness: Witness, graphs: Sequence[Edges]) -> int:
    """Graphs behind which other words are written than should be."""
    script, mistakes = script_of(witness), 0
    prompts = [tokens(script, graph_words(edges)) for edges in graphs]
    for edges, run in zip(graphs, generate(causal(witness), prompts, script, batch=256), strict=True):
        words = [script.vocabulary.word(token) for token in run.written]
        mistakes += run.outcome != "answered" or words != chain(len(edges) + 1, edges)
    return mistakes


def all_graphs(n: int) -> list[Edges]:
    pairs = list(itertools.combinations(range(1, n + 1), 2))
    return list(itertools.permutations(pairs, n - 1))


def sampled(n: int, law: str, count: int) -> list[Edges]:
    task = IsTree(n=n, form="cot", graphs="uniform" if law == "uniform" else "hub")
    rows = task.sample(count, seed=7).inputs
    return [[(int(u), int(v)) for u, v in edges] for edges in task.edges(rows)]


def hard_graphs(n: int) -> list[Edges]:
    """Stars and paths in orders that ask for the most, vertex 1 alone, cycles that are met early and late."""
    rng = random.Random(n)
    names = list(range(1, n + 1))
    rng.shuffle(names)
    path = [(min(edge), max(edge)) for edge in itertools.pairwise(names)]
    rng.shuffle(path)
    middle = n // 2
    hubs = [(v, middle + v % 2) for v in range(1, middle)] + [(middle, middle + 1)]
    return [
        path,
        [(v, v + 1) for v in range(1, n)],
        [(v, v + 1) for v in range(n - 1, 0, -1)],
        [(1, v) for v in range(2, n + 1)],
        [(1, v) for v in range(n, 1, -1)],
        [(v, n) for v in range(1, n)],
        [(v, n) for v in range(n - 1, 0, -1)],
        [*hubs, *((middle + v % 2, v) for v in range(middle + 2, n + 1))],
        [*((v, n) for v in range(2, n)), (2, 3)],
        [*((v, n) for v in range(1, n - 1)), (n - 3, n - 2)],
        [*((v, v + 1) for v in range(1, n - 1)), (1, n - 1)],
        [(1, n), (1, 2), (2, n), *((v, v + 1) for v in range(3, n - 1))],
    ]


@FORMS
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_every_graph_in_every_order(make: Make, n: int) -> None:
    assert wrong(built(make, n), all_graphs(n)) == 0


@FORMS
def test_graphs_of_five_vertices(make: Make) -> None:
    assert wrong(built(make, 5), all_graphs(5)[::37]) == 0


@pytest.mark.slow
@FORMS
def test_every_graph_of_five_vertices_in_every_order(make: Make) -> None:
    graphs = all_graphs(5)
    assert len(graphs) == 5040
    assert wrong(built(make, 5), graphs) == 0


@pytest.mark.slow
def test_one_set_of_weights_serves_every_smaller_graph() -> None:
    witness = built(is_tree_tour_every_n, 20)
    smaller = [edges for n in (1, 2, 3, 4) for edges in all_graphs(n)]
    assert wrong(witness, [*smaller, *all_graphs(5)[::61], *hard_graphs(5), *hard_graphs(12)]) == 0
    # The form for one n looks at places, and is lost where they mean something else.
    assert wrong(built(is_tree_tour, 6), all_graphs(4)) == len(all_graphs(4))


@pytest.mark.slow
def test_one_set_of_weights_serves_every_graph_of_five_vertices() -> None:
    assert wrong(built(is_tree_tour_every_n, 16), all_graphs(5)) == 0


@pytest.mark.slow
@FORMS
def test_random_graphs(make: Make) -> None:
    for n, count in ((16, 16), (24, 8)):
        for law in ("hub", "uniform"):
            assert wrong(built(make, n), sampled(n, law, count)) == 0


@pytest.mark.slow
@FORMS
@pytest.mark.parametrize("law", ["hub", "uniform"])
@pytest.mark.parametrize(("n", "count"), [(16, 500), (64, 64), (128, 24)])
def test_many_random_graphs(make: Make, n: int, count: int, law: str) -> None:
    """`benchmarks.thinking` decides a thousand of each."""
    graphs = sampled(n, law, count)
    assert count / 5 < sum(chain(n, edges)[-1] == "YES" for edges in graphs) < 4 * count / 5
    assert wrong(built(make, n), graphs) == 0


@pytest.mark.slow
@FORMS
@pytest.mark.parametrize("n", [5, 20])
def test_hard_graphs(make: Make, n: int) -> None:
    assert wrong(built(make, n), hard_graphs(n)) == 0


@pytest.mark.slow
@FORMS
def test_a_thousand_vertices(make: Make) -> None:
    graphs = [*hard_graphs(1000)[::4], *sampled(1000, "uniform", 1)]
    assert wrong(built(make, 1000), graphs) == 0


def test_the_tree_on_which_a_nearest_count_goes_wrong() -> None:
    tree = [(3, 4), (3, 5), (1, 3), (2, 3), (3, 6)]
    assert chain(6, tree) == [*"13435323631", "YES"]
    for make in (is_tree_tour, is_tree_tour_every_n):
        assert wrong(built(make, 6), [tree]) == 0


@FORMS
def test_the_tour_and_the_answer_are_those_of_the_task(make: Make) -> None:
    witness = built(make, 9)
    task, script = witness.task, script_of(witness)
    assert isinstance(task, IsTree)
    batch = task.sample(40, seed=2)
    runs = generate(causal(witness), [script.prompt(row) for row in batch.inputs], script)
    answers = task.solve(batch.inputs).answer
    for row, answer, run in zip(batch.inputs, answers, runs, strict=True):
        *tour, verdict = run.written
        assert tour == row[task.prompt : task.prompt + len(tour)].tolist()
        assert script.answer(run.written) == verdict == int(answer)
        assert len(tour) == 2 * task.n - 1 or verdict == script.vocabulary.token("NO")


@pytest.mark.slow
@FORMS
def test_the_meaning_of_the_program_and_its_tensors_agree(make: Make) -> None:
    witness = built(make, 5)
    built_program = witness.built
    assert built_program is not None
    for edges in (
        [(3, 4), (1, 5), (3, 5), (1, 2)],
        [(1, 4), (2, 4), (1, 2), (1, 3)],
        [(2, 3), (4, 5), (2, 4), (3, 5)],
    ):
        prompt = graph_words(edges)
        text = torch.tensor(tokens(script_of(witness), prompt + chain(5, edges)))
        outputs = Symbolic().outputs(built_program.program, text[:-1])
        assert all(score is not None for row in outputs for score in row)
        meant = torch.tensor([[float(score or 0) for score in row] for row in outputs], dtype=torch.float64)
        assert torch.equal(meant[len(prompt) - 1 :].argmax(1), text[len(prompt) :])
        # Nothing that is written depends on a fraction: not one output differs, whatever way it is computed.
        assert torch.equal(causal(witness).forward(text[None, :-1])[0], meant)
        state = causal(witness).start(1)
        for place, token in enumerate(text[:-1]):
            scores, state = causal(witness).step(token[None], state)
            assert torch.equal(scores[0], meant[place])


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p"), LEAST_BITS)
@FORMS
def test_the_least_bits_and_no_fewer(make: Make, n: int, p: int) -> None:
    graphs = all_graphs(n) if n < 5 else [*hard_graphs(n), *sampled(n, "uniform", 8)]
    assert wrong(built(make, n, FixedNearest(p=p)), graphs) == 0
    assert wrong(built(make, n, FixedNearest(p=p - 2)), graphs) > 0


@FORMS
def test_nine_layers_of_the_same_width_at_every_n(make: Make) -> None:
    sizes = [built(make, n).size for n in (4, 300)]
    assert {size.layers for size in sizes} == {9}
    assert len({(size.width, size.ffn_width, size.heads) for size in sizes}) == 1
    assert sizes[0].width <= 64
    witness = built(make, 4)
    every = make is is_tree_tour_every_n
    assert (witness.theorem, witness.family) == ("W-4.7", "transformer-cot")
    assert witness.variant == ("every n" if every else "")
    # A layer without a head of its own counts as one, so both forms have as many.
    assert [len(layer.heads) for layer in causal(witness).layers] == [2, 1, 1, 1, 1, 1, 1, 2, 1]


def test_a_script_takes_the_graph_and_nothing_behind_it() -> None:
    task = IsTree(n=4, form="cot")
    script = TourScript(task)
    row = task.parse("<s> 1 ~ 3 2 ~ 3 3 ~ 4")
    assert script.prompt(row) == row[:10].tolist()
    smaller = tokens(script, ["<s>", "1", "~", "2", "1", "2", "1"])
    assert script.prompt(torch.tensor(smaller)) == smaller[:4]
    assert script.prompt(torch.tensor(smaller[:1])) == smaller[:1]
    assert (script.limit, script.answers) == (8, frozenset({0, 1}))
    assert [script.answer(tokens(script, words)) for words in (["1", "YES"], ["NO"], ["1"], [])] == [
        1,
        0,
        None,
        None,
    ]


@FORMS
def test_other_forms_of_the_task_are_refused(make: Make) -> None:
    with pytest.raises(InvalidInput, match=r"in the form cot; got form='direct'. Try form='cot'."):
        make(IsTree(n=4), Choices())
    with pytest.raises(InvalidInput, match=r"needs form='cot'.*got form='direct'"):
        TourScript(IsTree(n=4))
