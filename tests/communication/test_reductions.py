"""Reductions: the task's labels tell the problem's answer; each party writes from its own string alone."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from separatrix.communication.problems import PROBLEMS, Disjointness, Equality, Index
from separatrix.communication.reductions import (
    REDUCTIONS,
    DisjToMatch3,
    IndexToCGram,
    IndexToLookup,
    IndexToNearestNeighbour,
    IndexToRecall,
    IndexToTree,
    IndexToTreeByHubs,
    Reduction,
    reduction_for,
    reductions_for,
)
from separatrix.communication.reductions.nearest_neighbour import lexicode
from separatrix.errors import InvalidInput
from separatrix.randomness import Draws
from separatrix.tasks import TASKS, Reals, task

SMALL: tuple[tuple[str, dict[str, Any]], ...] = (
    ("index-lookup", {"n": 4, "alphabet": 3}),
    ("index-lookup", {"n": 1, "alphabet": 2}),
    ("associative-recall", {"n": 3, "values": 3, "keys": 5}),
    ("associative-recall", {"n": 7, "form": "sequence"}),
    ("associative-recall", {"n": 9, "form": "sequence", "alphabet": 3}),
    ("c-gram", {"n": 11, "c": 2, "alphabet": 5}),
    ("c-gram", {"n": 13, "c": 3, "alphabet": 4}),
    ("c-gram", {"n": 18, "c": 5, "alphabet": 3}),
    ("counting", {"n": 5}),
    ("counting", {"n": 8, "alphabet": 4}),
    ("counting", {"n": 3, "alphabet": 2}),
    ("q-sparse-averaging", {"n": 4, "q": 2}),
    ("q-sparse-averaging", {"n": 3, "q": 3, "d": 2, "grid": 3}),
    ("q-sparse-averaging", {"n": 3, "q": 1, "d": 5}),
    ("is-tree", {"n": 4}),
    ("is-tree", {"n": 5}),
    ("is-tree", {"n": 9}),
    ("is-tree", {"n": 6, "form": "cot"}),
    ("is-tree", {"n": 6, "form": "retrieval"}),
    ("mqar", {"n": 6, "vocabulary_size": 6}),
    ("mqar", {"n": 2, "vocabulary_size": 4}),
    ("nearest-neighbour", {"n": 5, "labels": 3}),
    ("nearest-neighbour", {"n": 6, "dimension": 4, "margin": 1.0}),
    ("nearest-neighbour", {"n": 7, "dimension": 3, "margin": 1.0, "noise": 0}),
    ("match3", {"n": 8, "distinct": True}),
    ("match3", {"n": 3}),
    ("match3", {"n": 8}),
    ("match3", {"n": 9, "modulus": 12}),
    ("match3", {"n": 9, "modulus": 11}),
    ("match3", {"n": 9, "variant": "last"}),
    ("match3", {"n": 9, "variant": "last", "distinct": True, "modulus": 8}),
    ("cycle3", {"n": 3}),
    ("cycle3", {"n": 8}),
    ("disjointness", {"n": 8}),
    ("equality", {"n": 8}),
    ("equality", {"n": 4, "form": "one", "alphabet": 5}),
    ("equality", {"n": 6, "alice": (4, 0, 3)}),
)
LARGE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("index-lookup", {"n": 300}),
    ("associative-recall", {"n": 200}),
    ("associative-recall", {"n": 301, "form": "sequence"}),
    ("c-gram", {"n": 400, "c": 4}),
    ("counting", {"n": 150, "alphabet": 40}),
    ("q-sparse-averaging", {"n": 60, "q": 20, "d": 3, "grid": 5}),
    ("is-tree", {"n": 40}),
    ("mqar", {"n": 128}),
    ("nearest-neighbour", {"n": 40, "dimension": 40, "labels": 5}),
    ("match3", {"n": 101, "distinct": True}),
    ("match3", {"n": 101}),
    ("match3", {"n": 64, "modulus": 66}),
    ("cycle3", {"n": 31}),
    ("disjointness", {"n": 200}),
    ("equality", {"n": 200, "alphabet": 9}),
)


def every(cases: tuple[tuple[str, dict[str, Any]], ...]) -> list[Any]:
    """Every reduction to these tasks, named."""
    return [
        pytest.param(
            reduction, id=f"{reduction.name}{reduction.variant and ' '}{reduction.variant} {options}"
        )
        for name, options in cases
        for reduction in reductions_for(task(name, **options))
    ]


def drawn(reduction: Reduction[Any], count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Random pairs, in every second of which the sets are thin, so that DISJ and EQ have both answers."""
    draws = Draws(seed=seed, stream="reductions", batch=count, start=0, device="cpu")
    x, y = (
        side.drawn(draws, name)
        for name, side in (("x", reduction.problem.alice), ("y", reduction.problem.bob))
    )
    if isinstance(reduction.problem, Disjointness):
        thin = Draws(seed=seed, stream="thin", batch=count, start=0, device="cpu").integers(
            "x", x.shape[1:], 30
        )
        x[::2] = torch.where(thin[::2] == 0, x[::2], 0)
    if isinstance(reduction.problem, Equality):
        y[::2] = x[::2]
        y[::4, -1] = 1 - y[::4, -1]
    return x, y


def agree(reduction: Reduction[Any], x: Tensor, y: Tensor) -> Tensor:
    """The answers, after both ways gave the same."""
    wanted = reduction.problem.value(x, y)
    assert reduction.value(x, y).tolist() == wanted.tolist()
    return wanted


@pytest.mark.parametrize("reduction", every(SMALL))
def test_the_labels_tell_the_answer_on_every_small_pair(reduction: Reduction[Any]) -> None:
    strings = reduction.problem.alice.all(), reduction.problem.bob.all()
    assert len(strings[0]) * len(strings[1]) <= 1 << 13
    x = strings[0].repeat_interleave(len(strings[1]), dim=0)
    y = strings[1].repeat(len(strings[0]), 1)
    wanted = agree(reduction, x, y)
    assert set(wanted.tolist()) == set(range(reduction.problem.values))


@pytest.mark.parametrize("reduction", every(LARGE))
def test_the_labels_tell_the_answer_on_random_pairs(reduction: Reduction[Any]) -> None:
    x, y = drawn(reduction, 64 if reduction.asks == 1 else 8, 1)
    wanted = agree(reduction, x, y)
    assert len(set(wanted.tolist())) > 1
    for row in reduction.inputs(x[:2], y[:2]).flatten(0, 1)[:4]:
        reduction.task.check(row)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", every(LARGE))
def test_the_labels_tell_the_answer_on_many_random_pairs(reduction: Reduction[Any]) -> None:
    for seed in range(8):
        agree(reduction, *drawn(reduction, 128 if reduction.asks == 1 else 16, seed))


@pytest.mark.slow
@pytest.mark.parametrize("reduction", every(SMALL))
def test_every_row_is_an_input_of_the_task(reduction: Reduction[Any]) -> None:
    x, y = drawn(reduction, 24, 2)
    x, y = (
        torch.cat([side, strings.decode(torch.tensor([0, strings.count - 1]))])
        for side, strings in ((x, reduction.problem.alice), (y, reduction.problem.bob))
    )
    for row in reduction.inputs(x, y).flatten(0, 1):
        reduction.task.check(row)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", every(SMALL))
def test_each_party_writes_from_its_own_string_alone(reduction: Reduction[Any]) -> None:
    x, y = drawn(reduction, 16, 3)
    other_x, other_y = drawn(reduction, 16, 4)
    assert not torch.equal(x, other_x) or not torch.equal(y, other_y)
    rows = reduction.inputs(x, y)
    alice, bob = list(reduction.partition.alice), list(reduction.partition.bob)
    assert torch.equal(rows[:, :, alice], reduction.inputs(x, other_y)[:, :, alice])
    assert torch.equal(rows[:, :, bob], reduction.inputs(other_x, y)[:, :, bob])
    # Rows are made one by one: a batch in another order is the same rows in that order.
    assert torch.equal(rows.flip(0), reduction.inputs(x.flip(0), y.flip(0)))
    # All of Bob's questions share Alice's part, so one message of hers serves them.
    assert torch.equal(
        rows[:, :1, alice].expand(-1, reduction.asks, *[-1] * (rows.dim() - 2)), rows[:, :, alice]
    )


@pytest.mark.parametrize("reduction", every(SMALL))
def test_alice_says_all_of_her_string(reduction: Reduction[Any]) -> None:
    """Different strings are written differently, and `one_way_bits` counts them."""
    strings = reduction.problem.alice.all()
    written = reduction.alice(strings).flatten(1)
    assert len(torch.unique(written, dim=0)) == len(strings)
    assert 2 ** (reduction.one_way_bits - 1) < len(strings) <= 2**reduction.one_way_bits
    table = reduction.problem.value(strings.unsqueeze(1), reduction.problem.bob.all())
    assert len(torch.unique(table, dim=0)) == len(strings)


@pytest.mark.parametrize("reduction", every(SMALL))
def test_a_reduction_describes_itself(reduction: Reduction[Any]) -> None:
    kind = type(reduction)
    key = (kind.problem_name, kind.task_name, kind.variant)
    assert REDUCTIONS[key] is kind
    assert isinstance(reduction.problem, PROBLEMS[kind.problem_name])
    assert isinstance(reduction.task, TASKS.get(kind.task_name))
    assert kind.size
    assert kind.reads
    own = reduction.task.partitions()
    if reduction.split in own:
        assert reduction.partition == own[reduction.split]
    else:
        assert reduction.variant == "hubs"
    assert reduction.inputs(*drawn(reduction, 3, 0)).shape[:3] == (3, reduction.asks, reduction.task.length)


def sizes(name: str, **options: Any) -> dict[str, Any]:
    return {
        f"{found.problem.title}{found.variant}": (found.problem.n, getattr(found.problem, "alphabet", 2))
        for found in reductions_for(task(name, **options))
    }


def test_how_much_fits() -> None:
    assert sizes("index-lookup", n=50, alphabet=64) == {"INDEX": (50, 64)}
    assert sizes("associative-recall", n=50, values=7) == {"INDEX": (50, 7)}
    assert sizes("associative-recall", n=50, form="sequence", alphabet=27) == {"INDEX": (18, 9)}
    assert sizes("associative-recall", n=50, form="sequence", alphabet=89) == {"INDEX": (25, 64)}
    # Three markers and six other tokens make 18 keys, for 20 blocks; a fourth would cost more than it brings.
    assert sizes("c-gram", n=60, c=3, alphabet=9) == {"INDEX": (18, 6)}
    assert sizes("counting", n=50, alphabet=64) == {"INDEX": (50, 2)}
    assert sizes("counting", n=50, alphabet=11) == {"INDEX": (10, 6)}
    assert sizes("q-sparse-averaging", n=50, q=9) == {"INDEX": (49, 3), "DISJ": (9, 2)}
    assert sizes("q-sparse-averaging", n=50, q=1, grid=2) == {"INDEX": (49, 5), "DISJ": (1, 2)}
    assert sizes("q-sparse-averaging", n=50, q=1, d=16) == {"INDEX": (49, 2**16), "DISJ": (1, 2)}
    assert sizes("is-tree", n=50) == {"INDEX": (48, 2), "INDEXhubs": (35, 14)}
    assert sizes("mqar", n=50) == {"DISJ": (25, 2), "INDEX": (25, 4096)}
    assert sizes("nearest-neighbour", n=50) == {"DISJ": (49, 2), "INDEX": (49, 2)}
    # Eight vertices of the cube in three dimensions, of which four differ in two coordinates.
    assert sizes("nearest-neighbour", n=7, dimension=3, margin=1.0, noise=0)["DISJ"] == (3, 2)
    assert sizes("match3", n=50, distinct=True) == {"DISJ": (24, 2)}
    assert sizes("match3", n=50, distinct=True, modulus=20) == {"DISJ": (8, 2)}
    assert sizes("match3", n=50) == {"DISJ": (24, 2)}
    assert sizes("match3", n=50, modulus=20, variant="last") == {"DISJ": (8, 2)}
    assert sizes("match3", n=50, modulus=21) == {"DISJ": (8, 2)}
    assert sizes("match3", n=50, modulus=5) == {}
    assert sizes("cycle3", n=50) == {"DISJ": (256, 2)}
    assert sizes("disjointness", n=50) == {"DISJ": (25, 2)}
    assert sizes("equality", n=50) == {"EQ": (25, 2)}
    assert sizes("equality", n=50, alphabet=64) == {"EQ": (150, 2)}


def test_trees_by_hubs_carry_more_than_linearly_many_bits() -> None:
    for n, times in ((16, 1.1), (128, 3), (1024, 5.5)):
        whole = task("is-tree", n=n)
        plain, hubs = IndexToTree(task=whole), IndexToTreeByHubs(task=whole)  # type: ignore[arg-type]
        assert plain.one_way_bits == n - 2
        assert hubs.one_way_bits > times * (n - 2)


def shattered(n: int, count: int) -> bool:
    """Whether Bob can ask so many questions of one edge each that Alice's graphs answer in every way."""
    pairs = list(itertools.combinations(range(n), 2))
    answers: dict[int, list[int]] = {}
    for edges in itertools.combinations(range(len(pairs)), n - 2):
        part = list(range(n))
        forest = True
        for u, v in (pairs[edge] for edge in edges):
            forest = forest and part[u] != part[v]
            part = [part[u] if other == part[v] else other for other in part]
        crossing = sum(1 << k for k, (u, v) in enumerate(pairs) if forest and part[u] != part[v])
        answers.setdefault(sum(1 << edge for edge in edges), []).append(crossing)
    graphs = [(taken, crossing) for taken, kinds in answers.items() for crossing in kinds]
    for questions in itertools.combinations(range(len(pairs)), count):
        asked = sum(1 << edge for edge in questions)
        if len({crossing & asked for taken, crossing in graphs if not taken & asked}) == 1 << count:
            return True
    return False


@pytest.mark.parametrize("n", [5, 6])
def test_one_edge_asks_for_n_minus_2_bits_and_no_more(n: int) -> None:
    assert shattered(n, n - 2)
    assert not shattered(n, n - 1)


@pytest.mark.parametrize(
    ("length", "distance", "words"), [(7, 3, 16), (8, 4, 16), (16, 4, 2048), (4, 5, 1), (5, 1, 32)]
)
def test_greedy_codes_keep_their_distance(length: int, distance: int, words: int) -> None:
    code = lexicode(length, distance)
    assert len(code) == words
    assert len(set(code.tolist())) == words
    others = code[1:] if words > 1 else code.new_tensor([(1 << distance) - 1])
    # Linear: the sum of two words is a word, so the lightest word is the least distance.
    assert min(bin(word).count("1") for word in others.tolist()) >= distance
    some = set(code.tolist())
    assert all(a ^ b in some for a, b in itertools.product(code[:16].tolist(), code[-16:].tolist()))


def test_answers_that_are_off_within_the_tolerance_are_read_right() -> None:
    for options in (
        {"n": 4, "q": 3},
        {"n": 4, "q": 2, "grid": 5},
        {"n": 4, "q": 2, "d": 4, "grid": 2},
        {"n": 3, "q": 1, "d": 9},
    ):
        averaging = task("q-sparse-averaging", **options)
        width = averaging.input_space.width - averaging.q  # type: ignore[union-attr, attr-defined]
        assert isinstance(averaging.input_space, Reals)
        for reduction in reductions_for(averaging):
            x, y = drawn(reduction, 200, 5)
            labels = averaging.solve(reduction.inputs(x, y).flatten(0, 1))
            noise = torch.randn(200, averaging.length, width, generator=torch.Generator().manual_seed(1))
            noise = noise / noise.norm(dim=2, keepdim=True) * (0.2499 / averaging.q)  # type: ignore[attr-defined]
            noisy = dataclasses.replace(labels, targets=labels.targets + noise)
            assert reduction.answer(noisy, y).tolist() == reduction.problem.value(x, y).tolist()


def test_the_reduction_of_a_papers_proof_comes_first() -> None:
    assert isinstance(reduction_for(task("mqar", n=8)).problem, Disjointness)
    assert isinstance(reduction_for(task("mqar", n=8), problem="index").problem, Index)
    assert isinstance(reduction_for(task("is-tree", n=8)), IndexToTree)
    assert isinstance(reduction_for(task("is-tree", n=8), variant="hubs"), IndexToTreeByHubs)
    assert reduction_for(task("equality", n=8)).name == "EQ → equality"
    assert reductions_for(task("dyck", n=8)) == ()
    assert [found.variant for found in reductions_for(task("is-tree", n=4))] == ["hubs"]
    assert reductions_for(task("mqar", n=8), problem="eq") == ()


REFUSED: tuple[tuple[type[Reduction[Any]], str, dict[str, Any], str], ...] = (
    (IndexToLookup, "index-lookup", {"n": 4, "alphabet": 1}, "alphabet of at least 2"),
    (IndexToLookup, "counting", {"n": 4}, "to index-lookup needs such a task; got Counting"),
    (IndexToRecall, "associative-recall", {"n": 4, "values": 1}, "at least 2 labels; got values=1"),
    (
        IndexToRecall,
        "associative-recall",
        {"n": 2, "form": "sequence"},
        "alphabet of at least 3; got n=2 and 2",
    ),
    (IndexToCGram, "c-gram", {"n": 4}, r"two symbols; got 2\. Try alphabet=3"),
    (IndexToTree, "is-tree", {"n": 4}, "at least 5 vertices; got n=4"),
    (IndexToTreeByHubs, "is-tree", {"n": 3}, "at least 4 vertices; got n=3"),
    (IndexToNearestNeighbour, "nearest-neighbour", {"n": 4, "labels": 1}, "at least 2 labels; got labels=1"),
    (DisjToMatch3, "match3", {"n": 9, "modulus": 5}, "modulus of at least 6 here; got modulus=5"),
    (DisjToMatch3, "match3", {"n": 9, "variant": "local"}, "needs the variant full or last"),
    (
        DisjToMatch3,
        "match3",
        {"n": 9, "distinct": True, "modulus": 4},
        "modulus of at least 5 here; got modulus=4",
    ),
)


@pytest.mark.parametrize(("kind", "name", "options", "sentence"), REFUSED)
def test_what_does_not_fit_is_refused(
    kind: type[Reduction[Any]], name: str, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        kind(task=task(name, **options))


def test_forms_without_a_verdict_are_refused() -> None:
    with pytest.raises(InvalidInput, match="a form with a verdict; got form='ncp'"):
        reduction_for(task("equality", n=8, form="ncp"))
    with pytest.raises(InvalidInput, match="alphabet of at least 2; got alphabet=1"):
        reduction_for(task("equality", n=8, alphabet=1))
    with pytest.raises(InvalidInput, match="2 labels, a vocabulary_size of 4; got vocabulary_size=2"):
        reduction_for(task("mqar", n=2, vocabulary_size=2))
    with pytest.raises(InvalidInput, match=r"no reduction any problem → dyck\. Known: index → index-lookup"):
        reduction_for(task("dyck", n=8))
    with pytest.raises(InvalidInput, match=r"no reduction eq → is-tree \(hubs\)"):
        reduction_for(task("is-tree", n=8), problem="eq", variant="hubs")
