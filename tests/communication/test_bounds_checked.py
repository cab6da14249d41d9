"""Bounds held against what a machine can check: reductions, small tables, and weights that do the task."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from benchmarks.witness_tasks import example_for, label

from separatrix.communication.bounds import Given, bounds_for, message_bounds
from separatrix.communication.bounds.counts import points_apart
from separatrix.communication.complexity import complexity
from separatrix.communication.fooling import check_fooling_set
from separatrix.communication.matrices import matrix_of, one_way
from separatrix.communication.protocols import arrange
from separatrix.communication.protocols.any_partition import AnyPartition
from separatrix.communication.protocols.cycle_model import cycle3_model
from separatrix.communication.reductions import reductions_for
from separatrix.communication.task_problems import task_problem
from separatrix.evidence import EXCHANGED_BITS, ONE_WAY_BITS
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.transformer import Transformer
from separatrix.precision import FixedNearest
from separatrix.tasks import Task, task
from separatrix.witnesses import CATALOGUE, Choices, Entry
from tests.communication.counted import counted_bits
from tests.communication.protocol_cases import ONE_LAYER, Case

STREAMED = (
    task("index-lookup", n=9, alphabet=2),
    task("index-lookup", n=9, alphabet=5),
    task("associative-recall", n=7, values=3),
    task("associative-recall", n=11, form="sequence"),
    task("associative-recall", n=20, form="sequence", alphabet=5),
    task("mqar", n=12, vocabulary_size=20),
    task("mqar", n=12, vocabulary_size=12),
    task("nearest-neighbour", n=9, labels=3),
    task("nearest-neighbour", n=20, dimension=8, margin=1.0, noise=0),
    task("equality", n=12),
    task("counting", n=9, alphabet=4),
    task("counting", n=9, alphabet=64),
    task("c-gram", n=14),
    task("c-gram", n=30, c=4, alphabet=3),
    task("is-tree", n=9),
    task("is-tree", n=30),
    task("q-sparse-averaging", n=9),
    task("q-sparse-averaging", n=9, d=3, grid=4),
)


@pytest.mark.parametrize("asked", STREAMED, ids=str)
def test_every_state_bound_is_what_its_reduction_carries_over(asked: Task) -> None:
    """The numbers are computed from formulas; the reductions count them on the inputs they write."""
    carried = {(each.problem.title, each.variant): each.one_way_bits for each in reductions_for(asked)}
    found = [
        each
        for each in bounds_for(asked, "rnn", quick=True)
        if each.via is not None and each.via.problem in ("INDEX", "DISJ", "EQ") and each.theorem != "W-5.1"
    ]
    assert found
    for each in found:
        assert each.via is not None
        variant = "hubs" if "hubs" in str(each.via) else ""
        most = carried[each.via.problem, variant]
        # What a paper states may be less than its reduction gives.
        plain = each.formula in ("m ≥ N/p", "m ≥ N/(2p)", "mp ≥ N/2", "mp ≥ N − 1")
        assert each.met_by(most), (each, most)
        assert plain or each.at_least == most, (each, most)


def test_nearest_neighbours_run_out_of_points() -> None:
    crowded = task("nearest-neighbour", n=40, dimension=4, margin=1.0, noise=0)
    assert points_apart(4, 2) == 8
    numbers = [each.at_least for each in bounds_for(crowded, "rnn")]
    assert numbers == [7, 7]
    assert reductions_for(crowded)[0].problem.n == 7


SMALL = (
    task("index-lookup", n=4, alphabet=3),
    task("associative-recall", n=2, keys=2, values=3),
    task("associative-recall", n=4, form="sequence", alphabet=4),
    task("equality", n=8),
    task("equality", n=4, alphabet=3),
    task("equality", n=6, alice=(0, 4, 1)),
    task("counting", n=4, alphabet=3),
    task("counting", n=3, alphabet=5),
    task("c-gram", n=5, c=3, alphabet=3),
    task("is-tree", n=5),
)


@pytest.mark.parametrize("asked", SMALL, ids=str)
def test_a_message_needs_at_least_the_bound(asked: Task) -> None:
    """The table of all inputs, and how many messages tell its rows apart."""
    for each in message_bounds(asked, "rnn"):
        assert each.quantity == ONE_WAY_BITS
        enough = one_way(task_problem(asked, each.partition)).bits_enough
        assert each.met_by(enough), (str(each), enough)


@pytest.mark.parametrize(
    ("asked", "split"),
    [
        (task("index-lookup", n=4, alphabet=3), "prefix/suffix"),
        (task("counting", n=4, alphabet=3), "prefix/suffix"),
    ],
    ids=str,
)
def test_where_every_input_counts_the_bound_is_met_exactly(asked: Task, split: str) -> None:
    found = one_way(task_problem(asked, split))
    assert found.exact
    assert max(each.at_least or 0 for each in message_bounds(asked, "rnn")) == found.bits


def test_a_spread_equality_is_bound_at_its_best_cut() -> None:
    asked = task("equality", n=6, alice=(0, 4, 1))  # pairs (0, 2), (4, 3), (1, 5)
    states = bounds_for(asked, "rnn")[0].at_least
    prefixes = [one_way(task_problem(asked, f"1-{cut}")).bits for cut in range(1, asked.length)]
    assert states == 2
    assert max(prefixes) >= 2


CONVERSED = (
    (task("dyck", n=2), 3),
    (task("dyck", n=4), 5),
    (task("dyck", n=4, types=1), 3),
    (task("dyck", n=4, types=1, depth=3), 3),
    (task("equality", n=4), 3),
    (task("equality", n=2, alphabet=6), 4),
    (task("equality", n=4, alice=(0, 2)), 3),
    (task("disjointness", n=4), 3),
    (task("disjointness", n=6), 4),
    (task("match3", n=3, modulus=5, distinct=True), 4),
    (task("match3", n=3, modulus=6), 4),
    (task("match3", n=4, modulus=5, variant="last"), 4),
    (task("cycle3", n=3), 3),
)


@pytest.mark.parametrize(("asked", "exact"), CONVERSED, ids=str)
def test_a_conversation_needs_at_least_the_bound(asked: Task, exact: int) -> None:
    """Exact deterministic complexity by search, for both parties to know the answer."""
    found = [each for each in message_bounds(asked) if each.quantity == EXCHANGED_BITS]
    assert found
    reading = asked.n - 1 if asked.name == "match3" else None
    for each in found:
        table = matrix_of(task_problem(asked, each.partition, reading=reading)).dense()
        assert complexity(table).bits == exact
        assert each.met_by(exact), str(each)
    if asked.name in ("equality", "disjointness"):  # and it is nearly all that is needed
        assert max(each.at_least or 0 for each in found) >= exact - 1


@pytest.mark.parametrize(
    ("n", "types", "depth"),
    [(4, 2, 2), (6, 2, 2), (8, 2, 2), (6, 3, 2), (8, 1, 2), (6, 2, 1), (6, 2, 3), (6, 3, 5)],
)
def test_members_of_bounded_dyck_fool_two_parties(n: int, types: int, depth: int) -> None:
    """The set that the bound counts, pair by pair: all members at depth 2, those of one shape elsewhere."""
    asked = task("dyck", n=n, types=types, depth=depth)
    rows = torch.cat(list(asked.enumerate()))
    members = rows[asked.solve(rows).answer == 1]
    if depth != 2:
        members = members[((members % 2) == torch.arange(n) % 2).all(1)]
    size = 2 ** (n // 2 - 1) * types ** (n // 2) if depth == 2 else types ** (n // 2)
    assert len(members) == size
    weights = (2 * types) ** np.arange(n // 2)[::-1]
    pairs = np.stack([members[:, ::2].numpy() @ weights, members[:, 1::2].numpy() @ weights], axis=1)
    check = check_fooling_set(task_problem(asked, "odd/even"), pairs)
    assert check.holds, check
    most = max(each.at_least or 0 for each in message_bounds(asked, partition="odd/even"))
    assert most == (size + 1 - 1).bit_length()


@pytest.mark.parametrize(("n", "modulus"), [(5, 8), (7, 10), (8, 10), (7, 12), (9, 8)])
def test_triples_with_repeats_decide_disjointness(n: int, modulus: int) -> None:
    """The last number is 1; an element is i + 1 for Alice and M − (i + 2) for Bob; 1 for what is lacking."""
    asked = task("match3", n=n, modulus=modulus)
    elements = min((n - 1) // 2, (modulus - 4) // 2)
    rows, common = [], []
    for mine, yours in itertools.product(itertools.product((0, 1), repeat=elements), repeat=2):
        alice = [i + 2 if held else 1 for i, held in enumerate(mine)]
        bob = [modulus - (i + 3) if held else 1 for i, held in enumerate(yours)]
        half = (n - 1) // 2
        rows.append(alice + [1] * (half - elements) + bob + [1] * (n - half - 1 - elements) + [1])
        common.append(any(a and b for a, b in zip(mine, yours, strict=True)))
    labels = asked.solve(torch.tensor(rows)).targets[:, -1]
    assert labels.tolist() == [int(each) for each in common]
    wire = message_bounds(asked, "transformer-1")[0]
    assert wire.at_least == elements + 1


@pytest.mark.parametrize("entry", CATALOGUE, ids=label)
def test_no_bound_forbids_weights_that_do_the_task(entry: Entry) -> None:
    """Every construction is at least as large as every bound on its family says."""
    built = entry.builder()(example_for(entry), Choices())
    size, width = built.size, built.size.width
    if isinstance(built.model, Transformer):
        heads = [head for layer in built.model.layers for head in layer.heads if isinstance(head, Head)]
        width = max([width, *(max(head.inner, head.out) for head in heads)])
    known = Given(
        state_bits=size.state_bits(built.positions),
        width=width,
        heads=max(1, size.heads),
        layers=size.layers,
        precision=size.precision_bits,
    )
    found = bounds_for(
        built.task,
        entry.family,
        precision=known.precision,
        heads=known.heads,
        width=known.width,
        layers=known.layers,
    )
    compared = 0
    for each in found:
        amount = known.amount(each.quantity)
        if each.status == "proven" and each.at_least is not None and amount is not None:
            assert each.met_by(amount), (str(each), amount)
            compared += 1
    if entry.theorem in ("UP-RNN", "UP-TF1", "UP-M3", "S-E", "R-qSA"):
        assert compared, "nothing was compared"


def test_a_witness_that_stores_its_input_is_near_the_bound() -> None:
    entry = next(each for each in CATALOGUE if (each.theorem, each.task) == ("UP-RNN", "index-lookup"))
    stored = entry.builder()(task("index-lookup", n=64, alphabet=64), Choices())
    needed = bounds_for(stored.task, "rnn")[0].at_least
    assert needed == 384
    assert stored.size.state_bits(64) == 384 + 12  # and a counter, and what is wanted


@pytest.mark.parametrize("case", ONE_LAYER, ids=str)
def test_the_protocol_sends_no_more_than_is_counted(case: Case) -> None:
    """The inequality that every bound on one layer rests on, on the wire itself."""
    witness, made = case.built()
    arrangement = arrange(witness, made)
    protocol = arrangement.protocol
    assert isinstance(protocol, AnyPartition)
    sent = protocol.bits // len(protocol.asked) - protocol.answer_bits
    widths = [max(head.inner, head.out) for head in protocol.heads]
    counted = counted_bits(
        width=max(protocol.model.inputs.width, *widths),
        heads=len(widths),
        precision=protocol.numbers.bits,
        positions=protocol.keys,
    )
    assert sent <= counted
    for each in message_bounds(made, "transformer-1", partition=arrangement.partition_name):
        assert each.met_by(sent + 1), str(each)


@pytest.mark.parametrize("n", [3, 6, 12])
def test_a_graph_transformer_that_finds_cycles_meets_its_bound(n: int) -> None:
    system = FixedNearest(p=31)
    model = cycle3_model(n, system)
    widths = [max(head.inner, head.out) for layer in model.layers for head in layer.heads]
    for each in bounds_for(task("cycle3", n=n), "graph-transformer", precision=system.bits):
        assert each.met_by(len(model.layers) * max(widths))
