"""The largest n of a size: as a walk along all lengths finds it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from separatrix.accounting import Size, StatePart, kv_cache, recurrent_state
from separatrix.communication.bounds import Given, bounds_for
from separatrix.communication.walls import POSITIONS, Wall, wall
from separatrix.errors import InvalidInput, SeparatrixError, UnknownName
from separatrix.tasks import task
from separatrix.tasks.is_tree import IsTree
from separatrix.tasks.specs import spec_of


def walked(name: str, family: str, known: Given, most: int, **parameters: Any) -> int:
    """The last length before the first at which a bound is broken, one length after another."""
    least = 0
    for n in range(1, most):
        try:
            asked = task(name, n=n, **parameters)
        except SeparatrixError:
            continue
        found = bounds_for(
            asked,
            family,
            precision=known.precision,
            heads=known.heads,
            width=known.width,
            layers=known.layers,
            quick=True,
        )
        for each in found:
            amount = known.amount(each.quantity)
            if each.status == "proven" and amount is not None and each.met_by(amount) is False:
                return least
        least = n
    raise AssertionError("no wall so far")


STATES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("index-lookup", {}),
    ("index-lookup", {"alphabet": 3}),
    ("associative-recall", {}),
    ("associative-recall", {"form": "sequence"}),
    ("associative-recall", {"form": "sequence", "alphabet": 40}),
    ("mqar", {"vocabulary_size": 1024}),
    ("nearest-neighbour", {"labels": 3}),
    ("equality", {"alphabet": 3}),
    ("c-gram", {}),
    ("c-gram", {"c": 2}),
    ("c-gram", {"c": 4, "alphabet": 12}),
    ("counting", {"alphabet": 40}),
    ("is-tree", {}),
    ("q-sparse-averaging", {"grid": 2}),
)


@pytest.mark.parametrize("bits", [0, 1, 17, 60])
@pytest.mark.parametrize(("name", "parameters"), STATES, ids=str)
def test_a_walk_finds_the_same_wall(name: str, parameters: dict[str, Any], bits: int) -> None:
    found = wall(name, family="rnn", state_bits=bits, **parameters)
    assert found.largest_n == walked(name, "rnn", Given(state_bits=bits), 1000, **parameters)
    assert found.bound is not None
    assert found.bound.met_by(bits) is False
    assert (found.amount, found.theorem) == (bits, found.bound.theorem)


@pytest.mark.parametrize("size", [(1, 1, 1), (2, 1, 8), (3, 2, 4)], ids=str)
@pytest.mark.parametrize("name", ["dyck", "equality", "disjointness", "match3"])
def test_a_walk_finds_the_wall_of_one_layer(name: str, size: tuple[int, int, int]) -> None:
    width, heads, precision = size
    known = Given(width=width, heads=heads, precision=precision)
    found = wall(name, family="transformer-1", width=width, heads=heads, precision=precision)
    assert found.largest_n == walked(name, "transformer-1", known, 500)


def test_walls_by_hand() -> None:
    assert wall("index-lookup", family="rnn", state_bits=6144, alphabet=64).largest_n == 1024
    assert wall("index-lookup", family="rnn", state_bits=6143, alphabet=64).largest_n == 1023
    assert wall("mqar", family="linear-rnn", width=8, precision=32, vocabulary_size=1024).largest_n == 56
    assert wall("equality", family="rnn", state_bits=100).largest_n == 200
    assert wall("associative-recall", family="rnn", state_bits=38, keys=40, values=2).largest_n == 38
    small: dict[str, dict[str, Any]] = {"mqar": {"vocabulary_size": 4}, "associative-recall": {"keys": 4}}
    for name, parameters in small.items():
        ended = wall(name, family="rnn", state_bits=100_000, **parameters)
        assert ended.largest_n is None
        assert "up to n = 4, where its parameters end the task" in ended.why
    assert wall("q-sparse-averaging", family="fnn", width=20).largest_n == 20
    # 4pLHm = 4·4·2·1·3 = 96, so ⌊n/3⌋ may be 96.
    cycles = wall("cycle3", family="graph-transformer", width=3, heads=1, layers=2, precision=4)
    assert cycles.largest_n == 3 * 96 + 2
    # mp + H(2mp + 4p + 2⌈log N⌉) = 32 + 64 + 32 + 2·8 = 144 ≥ N − 1, and 144 is even: N ≤ 144.
    assert wall("dyck", family="transformer-1", width=4, heads=1, precision=8).largest_n == 144


def test_a_wall_may_lie_beyond_every_task() -> None:
    found = wall("index-lookup", family="rnn", state_bits=10**12, alphabet=2)
    assert found.largest_n == 10**12
    with pytest.raises(SeparatrixError):
        task("index-lookup", n=10**12)


def test_the_parameters_may_come_from_a_task() -> None:
    assert wall(task("index-lookup", n=5, alphabet=4), family="rnn", state_bits=64).largest_n == 32
    with pytest.raises(InvalidInput, match="parameters of a task object are its own"):
        wall(task("index-lookup", n=5), family="rnn", state_bits=64, alphabet=3)


def sized(*state: StatePart) -> Size:
    return Size(
        width=64,
        ffn_width=0,
        layers=2,
        heads=2,
        precision_bits=16,
        parameters_without_embeddings=1,
        embedding_parameters=0,
        state=state,
        source="a test",
    )


def test_a_state_that_stays_has_a_wall_and_a_cache_that_grows_has_none() -> None:
    recurrent = sized(recurrent_state(numbers=96, precision_bits=64))
    assert wall("index-lookup", recurrent, family="rnn").largest_n == 1024
    cached = sized(kv_cache(layers=2, heads=2, head_width=32, precision_bits=16))
    unlimited = wall("index-lookup", cached, family="rnn")
    assert (unlimited.largest_n, unlimited.theorem, unlimited.bound) == (None, None, None)
    assert "up to 2^48, and farther was not looked" in unlimited.why


def test_a_window_is_a_state_that_stops_growing() -> None:
    window = StatePart(name="window", bits_per_position=60, window=100)
    assert wall("index-lookup", sized(window), family="rnn").largest_n == 1000
    assert wall("associative-recall", sized(window), family="rnn", values=2).largest_n == 6000


def test_lengths_are_those_of_the_tasks() -> None:
    """A state that grows one bit a token against one bit a place: the lengths decide where the wall is."""
    for kind in ("index-lookup", "associative-recall", "mqar", "nearest-neighbour", "equality", "counting"):
        asked = task(kind, n=12)
        size = sized(StatePart(name="one bit a token", bits_per_position=1))
        assert size.state_bits(asked.length) == _positions(kind, 12)
    assert task("is-tree", n=12).length == IsTree(n=12).prompt == _positions("is-tree", 12)


def _positions(kind: str, n: int) -> int:
    return POSITIONS[kind](spec_of(task(kind, n=n)))


def test_a_wall_prints_and_is_json() -> None:
    found = wall("index-lookup", family="rnn", state_bits=6144)
    assert str(found).startswith(
        "index-lookup by rnn: n ≤ 1,024. At n = 1,025 S-T3 asks for state bits ≥ 6,150"
    )
    fields = found.to_fields()
    assert (fields["largest_n"], fields["theorem"]) == (1024, "S-T3")
    assert "no n at all" in str(wall("index-lookup", family="rnn", state_bits=0))
    assert isinstance(found, Wall)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "index-lookup", "family": "rnn"}, "needs a model's size"),
        ({"task": "index-lookup", "family": "rnn", "precision": 0}, "precision=0"),
        ({"task": "index-lookup", "family": "rnn", "state_bits": 8, "n": 4}, "n is not given; got n=4"),
        (
            {"task": "index-lookup", "family": "rnn", "precision": 8},
            "give state_bits, or width and precision",
        ),
        ({"task": "dyck", "family": "transformer-1", "width": 8}, "give width, heads and precision"),
        ({"task": "index-lookup", "family": "hybrid", "state_bits": 8}, "No bound is known"),
        ({"task": "dyck", "family": "rnn", "state_bits": 8}, r"\(S-L4\) sets no wall"),
        ({"task": "turing", "family": "rnn", "state_bits": 8}, r"\(W-4.1\) sets no wall"),
        (
            {"task": "equality", "family": "rnn", "state_bits": 8, "alphabet": -1},
            "equality needs an alphabet",
        ),
    ],
    ids=str,
)
def test_wrong_questions_are_refused_in_a_sentence(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        wall(**arguments)


def test_unknown_names_are_named() -> None:
    with pytest.raises(UnknownName, match="alphabt"):
        wall("index-lookup", family="rnn", state_bits=8, alphabt=3)
    with pytest.raises(UnknownName, match="no family 'rn'"):
        wall("index-lookup", family="rn", state_bits=8)
    with pytest.raises(UnknownName, match="no task 'lookup'"):
        wall("lookup", family="rnn", state_bits=8)
    with pytest.raises(InvalidInput, match="got both"):
        wall("index-lookup", sized(), family="rnn", state_bits=8)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), STATES, ids=str)
def test_bounds_never_fall_when_the_task_grows(name: str, parameters: dict[str, Any]) -> None:
    """What the search by halves rests on."""
    last = Fraction(0)
    for n in range(16, 300, 2):
        found = bounds_for(task(name, n=n, **parameters), "rnn", quick=True)
        most = max(Fraction(each.at_least or 0) for each in found)
        assert most >= last, n
        last = most


def test_a_state_has_the_bits_of_its_numbers() -> None:
    with pytest.raises(InvalidInput, match="A state of 3 numbers of 8 bits has 24 bits; got state_bits=64"):
        wall("index-lookup", family="rnn", state_bits=64, width=3, precision=8)
    assert wall("index-lookup", family="rnn", state_bits=24, width=3, precision=8, alphabet=2).largest_n == 24
