"""The registry of bounds: every one that is owed answers, with the numbers one gets by hand."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from separatrix.communication.bounds import (
    RULES,
    Given,
    artefacts,
    bound,
    bounds_for,
    bounds_held,
    message_bounds,
    no_bound,
    rule_of,
)
from separatrix.communication.bounds.counts import (
    best_blocks,
    best_hubs,
    bits_for,
    bits_for_counts,
    ceil_log,
    floor_log,
    least_base,
    levels,
)
from separatrix.communication.bounds.one_layer import WIDE_ENOUGH
from separatrix.communication.language_states import language_states
from separatrix.errors import InvalidInput, UnknownName
from separatrix.evidence import EXCHANGED_BITS, ONE_WAY_BITS, Bound, TaskSpec
from separatrix.tasks import TASKS, Task, task
from separatrix.tasks.c_gram import CGramRetrieval
from separatrix.tasks.interface import example_task
from separatrix.tasks.match3 import Match3
from separatrix.theorems import THEOREMS, Artefact
from tests.communication.counted import counted_bits

OWED = tuple(key for entry in THEOREMS.values() for key in entry.artefacts if key.kind == "bound")
MATCHED: tuple[Literal["full", "last"], ...] = ("full", "last")
SIZE = Given(precision=16, heads=2, layers=2)


def small_task(key: Artefact) -> Task:
    """A task that the bound speaks of; where it speaks of all, the one its example is."""
    if key.task is None:
        return task("equality", n=8)
    parameters = {"n": 8} if key.task == "is-tree" else None
    return example_task(TASKS.get(key.task), parameters)


def test_every_bound_that_is_owed_is_held_and_no_other() -> None:
    assert set(artefacts()) == set(OWED)
    assert len(OWED) == 34


@pytest.mark.parametrize("key", OWED, ids=lambda key: f"{key.theorem}-{key.task}-{key.family}-{key.variant}")
def test_every_bound_answers_as_its_theorem_claims(key: Artefact) -> None:
    asked = small_task(key)
    owed = next(
        each
        for each in THEOREMS[key.theorem].owes
        if each.kind == "bound"
        and each.variant == key.variant
        and key.family in (each.families or (None,))
        and key.task in (each.tasks or (None,))
    )
    said = bounds_held(key, asked, given=SIZE)
    assert said, "silent"
    for each in said:
        assert (each.theorem, each.family) == (key.theorem, key.family)
        assert (each.status, each.condition) == (owed.status, owed.condition)
        assert each.formula
        assert (each.at_least is None) == (owed.status != "proven" or key.theorem == "S-C13.1")
        assert Bound.from_json(each.to_json()) == each
    listed = bounds_for(asked, key.family, precision=16, heads=2, layers=2)
    assert {each for each in said if each.quantity not in (EXCHANGED_BITS, ONE_WAY_BITS)} <= {*listed}
    if key.family is None:
        assert {*said} <= {*listed}
    assert rule_of(key).why


def needs(
    asked: Task,
    family: str,
    theorem: str,
    *,
    precision: int | None = None,
    heads: int | None = None,
    layers: int | None = None,
) -> list[int | Fraction | None]:
    """The numbers of one theorem, largest first."""
    found = bounds_for(asked, family, precision=precision, heads=heads, layers=layers)
    return [each.at_least for each in found if each.theorem == theorem]


def test_numbers_by_hand_for_recurrent_models() -> None:
    lookup = task("index-lookup", n=1024, alphabet=64)
    assert needs(lookup, "rnn", "S-T3") == [6144, 1024]
    assert needs(lookup, "linear-rnn-cot", "W-4.6") == [6144]
    assert needs(task("index-lookup", n=100, alphabet=3), "rnn", "S-T3") == [159, 100]  # 158.5
    assert needs(task("associative-recall", n=50, values=4), "rnn", "S-P9") == [100, 50]
    assert needs(task("mqar", n=64, vocabulary_size=512), "rnn", "S-T8") == [256, 32]
    assert needs(task("nearest-neighbour", n=64, labels=4), "rnn", "S-T8") == [126, 32]
    assert needs(task("nearest-neighbour", n=65), "rnn", "S-T8") == [64, Fraction(65, 2)]
    assert needs(task("equality", n=64), "rnn", "S-T11") == [32, 32]
    assert needs(task("equality", n=64, alphabet=8), "rnn", "S-T11") == [96, 96, 32, 32]
    assert needs(task("q-sparse-averaging", n=101), "rnn", "R-qSA") == [159, 100]
    # (64 − 15 − 1)·log 15 = 187.5 and (64 − 16 − 1)·log 16 = 188 and (64 − 17 − 1)·log 17 = 188.03
    assert needs(task("is-tree", n=64), "rnn", "W-4.7") == [189, 62]
    assert needs(task("counting", n=5, alphabet=3), "rnn", "W-4.6") == [5, 4]  # 21 counts; 2 places of 0 … 2
    # Five tokens, one a marker and four symbols: 4 keys of two tokens, and room for two blocks.
    assert needs(task("c-gram", n=6, c=3, alphabet=5), "rnn", "W-4.6") == [4]
    # Keys 4 and 5 of six tokens, symbols 0 … 3: two places of four; or three places of three symbols.
    assert needs(task("associative-recall", n=6, form="sequence"), "rnn", "W-4.6") == [5]
    # Behind 2v known places every second is free: v = 2 gives 8·log 2 bits, v = 3 gives 7·log 3 = 11.1.
    assert needs(task("index-lookup", n=20, alphabet=4), "rnn", "W-5.1") == [12]
    assert needs(task("index-lookup", n=20, alphabet=3), "rnn", "W-5.1") == [8]
    assert needs(task("index-lookup", n=20, alphabet=2), "rnn", "W-5.1") == []


def test_numbers_by_hand_for_one_layer() -> None:
    dyck = task("dyck", n=1024)
    assert needs(dyck, "transformer-1", "S-T5", precision=32) == [Fraction(1023, 244), Fraction(1023, 3 * 42)]
    assert needs(dyck, "transformer-1", "S-T5") == [Fraction(1023, 9), Fraction(1023, 3)]
    # Two heads: 5m·32 + 2(4·32 + 20) ≥ 1023 from m = 5 on; as printed m ≥ 1023/252, but from m = 5 only.
    assert needs(dyck, "transformer-1", "S-T5", precision=32, heads=2) == [5]
    disjoint = task("disjointness", n=1000)
    assert needs(disjoint, "transformer-1", "S-T12", precision=16) == [Fraction(500, 132), Fraction(500, 78)]
    equality = task("equality", n=64, alphabet=8)  # 96 bits, 65 positions
    assert needs(equality, "transformer-1", "S-T12", precision=8) == [Fraction(96, 70), Fraction(96, 45)]
    match = task("match3", n=101, distinct=True)  # 50 elements, 102 positions
    assert needs(match, "transformer-1", "R-M3", precision=8) == [Fraction(50, 70), Fraction(50, 45)]
    average = task("q-sparse-averaging", n=63, q=48)
    assert needs(average, "transformer-1", "R-qSA", precision=2) == [Fraction(24, 13), Fraction(2)]
    assert needs(average, "fnn", "R-qSA") == [63]
    assert needs(task("q-sparse-averaging", n=63, d=4), "fnn", "R-qSA") == [252]
    cycles = task("cycle3", n=100)
    assert needs(cycles, "graph-transformer", "R-G", precision=4) == [Fraction(33, 16)]
    assert needs(cycles, "graph-transformer", "R-G", precision=4, layers=3, heads=2) == [Fraction(33, 96)]
    assert needs(cycles, "graph-transformer", "R-G") == [None]


def test_numbers_by_hand_on_the_wire() -> None:
    def sent(asked: Task, split: str, quantity: str = EXCHANGED_BITS) -> list[int | Fraction | None]:
        found = message_bounds(asked, partition=split)
        return [each.at_least for each in found if each.quantity == quantity]

    assert sent(task("dyck", n=14), "odd/even") == [14, 13]
    assert sent(task("dyck", n=14, types=3), "odd/even") == [18]  # 2^6·3^7 = 139,968
    assert sent(task("dyck", n=14, types=3, depth=5), "odd/even") == [12]  # 3^7 = 2,187
    assert sent(task("equality", n=12), "odd/even") == [7, 6]
    assert sent(task("equality", n=12, alice=(0, 2, 4, 6, 8, 10)), "w/w′") == [7, 6]
    assert sent(task("equality", n=10), "odd/even") == []
    assert sent(task("disjointness", n=10), "halves") == [6]
    assert sent(task("match3", n=9, modulus=11, distinct=True), "halves") == [5]
    assert sent(task("cycle3", n=10), "groups") == [10]
    lookup = task("index-lookup", n=10, alphabet=3)
    assert sent(lookup, "prefix/suffix", ONE_WAY_BITS) == [16, 16, 16, 10]


def test_automata_count_states() -> None:
    assert needs(task("dyck", n=64), "rnn", "S-L4") == [3]  # 1 + 4 stacks of even depth, and dead
    assert needs(task("dyck", n=64, types=3, depth=3), "rnn", "S-L4") == [5]  # 3 + 27, and dead: 31
    assert needs(task("equality", n=8), "rnn", "S-L4") == [4]  # 2^4 words
    for small in (task("dyck", n=6), task("dyck", n=8, types=1, depth=3), task("equality", n=6)):
        assert needs(small, "rnn", "S-L4") == [(language_states(small).widest()[1].at_least - 1).bit_length()]
    assert needs(task("disjointness", n=8), "rnn", "S-L4") != [None]
    assert needs(task("disjointness", n=64), "rnn", "S-L4") == [None]
    assert needs(task("index-lookup", n=8), "rnn", "S-L4") == []


def test_conditions_and_open_questions_are_told() -> None:
    turing = bound(task("turing", n=4), "rnn")
    assert (turing.status, turing.condition, turing.at_least) == ("conditional", "PSPACE ⊄ P/poly", None)
    recall = bound(task("associative-recall", n=8), "transformer-1")
    assert (recall.theorem, recall.status, recall.at_least) == ("S-AR1", "open", None)
    deep = bounds_for(task("match3", n=9), "transformer-3")
    assert [each.theorem for each in deep] == ["S-C13.1", "R-CONJ"]
    assert [each.theorem for each in bounds_for(task("match3", n=9), "transformer-1")] == ["R-M3", "R-M3"]


def test_a_bound_on_a_family_binds_those_within() -> None:
    lookup = task("index-lookup", n=16)
    inner = bounds_for(lookup, "linear-rnn")
    assert {each.family for each in inner} == {"rnn", "linear-rnn-cot"}
    assert {each.theorem for each in bounds_for(lookup, "linear-rnn-cot")} == {"W-4.6"}
    assert bounds_for(lookup, "hybrid") == ()
    assert {each.family for each in bounds_for(task("dyck", n=8))} == {"rnn", "transformer-1", None}


def test_numbers_come_first_and_fall() -> None:
    found = bounds_for(task("equality", n=8, alphabet=5), precision=16)
    kinds = [each.quantity for each in found]
    assert kinds[0] == "state bits"
    assert [each.theorem for each in found[:2]] == ["S-T11", "S-T11"]
    assert [each.theorem for each in found].index("S-L4") > [each.theorem for each in found].index("S-T12")
    states = [each.at_least for each in found if each.quantity == "state bits" and each.theorem == "S-T11"]
    assert states == sorted(states, reverse=True, key=lambda number: number or 0)
    assert kinds[-1] == EXCHANGED_BITS


def test_variants_choose_a_proof() -> None:
    equality = task("equality", n=8)
    by = {
        variant: str(bound(equality, "rnn", variant=variant).via)
        for variant in ("communication", "minimal DFA")
    }
    assert by == {"communication": "EQ → equality", "minimal DFA": "minimal DFA → equality"}


def test_parameters_that_leave_a_theorem_nothing_to_say() -> None:
    assert needs(task("dyck", n=8, form="next"), "transformer-1", "S-T5") == []
    assert message_bounds(task("dyck", n=8, form="next")) == ()
    assert needs(task("equality", n=8, form="ncp"), "transformer-1", "S-T12") == []
    assert needs(task("equality", n=8, form="ncp", alphabet=2), "rnn", "S-T11") == [4]
    assert needs(task("match3", n=9, variant="local"), "transformer-1", "R-M3") == []
    assert needs(task("associative-recall", n=9, form="sequence"), "rnn", "S-P9") == []
    assert needs(task("match3", n=9, modulus=8), "transformer-1", "R-M3", precision=1)[0] == Fraction(2, 15)
    assert needs(task("index-lookup", n=9, alphabet=1), "rnn", "S-T3") == [0]


def test_a_spread_first_string_counts_what_a_cut_separates() -> None:
    apart = task("equality", n=6, alice=(0, 2, 4))
    assert needs(apart, "rnn", "S-T11") == [1]
    crossed = task("equality", n=6, alice=(5, 0, 1))  # pairs (5, 2), (0, 3), (1, 4): all cross at 3
    assert needs(crossed, "rnn", "S-T11") == [3]


@given(base=st.integers(1, 1 << 20), power=st.integers(0, 400))
@example(base=3, power=10_000)
@settings(max_examples=150, deadline=None)
def test_powers_are_measured_exactly(base: int, power: int) -> None:
    assert bits_for(base, power) == (base**power - 1).bit_length()
    assert floor_log(base, power) == (base**power).bit_length() - 1


def test_powers_of_any_size_are_measured() -> None:
    exact = bits_for(3, 10**15)
    assert exact == 1584962500721157  # ⌈10^15·log 3⌉
    assert bits_for(1 << 20, 10**15) == 20 * 10**15
    for digits in range(80, 140):  # squares just above a power of two, which leading digits alone would miss
        near = math.isqrt(1 << (2 * digits + 1)) + 1
        assert bits_for(near, 2) == (near**2 - 1).bit_length()


@given(total=st.integers(0, 60), kinds=st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_counts_are_counted(total: int, kinds: int) -> None:
    assert bits_for_counts(total, kinds) == (math.comb(total + kinds - 1, total) - 1).bit_length()


def test_the_best_divisions_are_the_best() -> None:
    for n in range(4, 120):
        scores = {hubs: (n - hubs - 1) * math.log2(hubs) for hubs in range(2, n - 1)}
        assert math.isclose(scores[best_hubs(n)], max(scores.values()))
    for length, width, tokens in ((40, 1, 30), (40, 1, 8), (9, 1, 50), (60, 2, 9), (60, 3, 4), (200, 2, 4)):
        scores = {
            markers: min(length // (width + 1), markers * (tokens - markers) ** (width - 1))
            * math.log2(tokens - markers)
            for markers in range(1, tokens - 1)
        }
        best = best_blocks(length, width, tokens)
        assert math.isclose(best.keys * math.log2(best.symbols), max(scores.values()))
    assert best_blocks(40, 1, 2).bits == 0


def test_small_numbers_that_tasks_choose_themselves() -> None:
    for n in (3, 4, 5, 9, 10, 64, 65, 1000):
        for c in (2, 3, 4):
            if n >= c:
                assert least_base(n, c - 1) == CGramRetrieval(n=n, c=c).target_space.size
    for n in (3, 4, 7, 30):
        for distinct in (False, True):
            for variant in MATCHED:
                chosen = Match3(n=n, distinct=distinct, variant=variant)
                stated = Match3(n=n, distinct=distinct, variant=variant, modulus=chosen.residues)
                assert needs(chosen, "transformer-1", "R-M3") == needs(stated, "transformer-1", "R-M3")
    assert [ceil_log(number) for number in (1, 2, 3, 4, 5)] == [0, 1, 2, 2, 3]
    assert [levels(1, grid) for grid in (1, 2, 3, 4)] == [3, 5, 4, 5]
    assert levels(4, 1) == 81
    assert levels(2, 3) == 4  # steps of ⅛ up to ⅜: two levels ½ apart in each coordinate


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("precision", [1, 8, 32])
@pytest.mark.parametrize("n", [8, 100, 5000])
def test_the_counted_width_is_the_least_that_the_count_allows(n: int, precision: int, heads: int) -> None:
    found = bounds_for(task("dyck", n=n), "transformer-1", precision=precision, heads=heads)
    counted = next(each for each in found if each.formula.startswith("mp + H"))
    assert isinstance(counted.at_least, int)
    enough = [
        counted_bits(width=width, heads=heads, precision=precision, positions=n) >= n - 1
        for width in range(1, counted.at_least + 2)
    ]
    assert enough.index(True) == counted.at_least - 1
    product = bounds_for(task("dyck", n=n), "transformer-1", precision=precision)
    firm = next(each for each in product if "7p" in each.formula)
    assert firm.met_by(counted.at_least * heads)


def test_the_printed_form_is_left_out_where_its_count_is_wrong() -> None:
    dyck = task("dyck", n=1024)
    for width in range(1, 12):
        printed = 3 * width * (32 + 10)
        found = bounds_for(dyck, "transformer-1", precision=32, heads=1, width=width)
        stated = [each for each in found if "3(p" in each.formula]
        holds = counted_bits(width=width, heads=1, precision=32, positions=1024) <= printed
        assert bool(stated) == holds
        assert not any(WIDE_ENOUGH in each.assumptions for each in found)


@pytest.mark.parametrize("name", ["dyck", "equality", "disjointness", "match3", "q-sparse-averaging"])
def test_a_number_for_wide_models_only_comes_behind_one_for_all(name: str) -> None:
    """The printed count says more, but only of widths that were not given."""
    made = task(name, n=1024)
    for precision in (None, 32):
        found = [
            each
            for each in bounds_for(made, "transformer-1", precision=precision)
            if each.family == "transformer-1"
        ]
        held = [WIDE_ENOUGH in each.assumptions for each in found]
        assert held == sorted(held)
        assert set(held) == {False, True}
        assert bound(made, "transformer-1", precision=precision) == found[0]
    settled = bounds_for(made, "transformer-1", precision=32, width=64)
    assert not any(WIDE_ENOUGH in each.assumptions for each in settled)
    assert "3(p + log N)" in settled[0].formula


def test_what_is_asked_wrongly_is_refused_in_a_sentence() -> None:
    lookup = task("index-lookup", n=4)
    with pytest.raises(InvalidInput, match=r"precision .* whole number from 1 on; got precision=0"):
        bound(lookup, "rnn", precision=0)
    with pytest.raises(UnknownName, match=r"no family 'rn'\. Did you mean rnn"):
        bound(lookup, "rn")
    with pytest.raises(
        InvalidInput, match=r"No bound is known for index-lookup by hybrid; that is not a proof"
    ):
        bound(lookup, "hybrid")
    with pytest.raises(InvalidInput, match=r"such as task\('index-lookup', n=64\); got 'index-lookup'"):
        bounds_for("index-lookup", "rnn")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="This bound is on dyck; got the task index-lookup"):
        bounds_held(next(key for key in RULES if key.task == "dyck"), lookup)
    with pytest.raises(InvalidInput, match="alphabet"):
        bounds_for(TaskSpec(name="index-lookup", params={"n": 4, "alphabet": "two"}), "rnn")
    assert "There are bounds on rnn, linear-rnn-cot" in str(no_bound("counting", "hybrid"))


FIXED: tuple[tuple[str, dict[str, Any], bool], ...] = (
    ("index-lookup", {"alphabet": 3}, True),
    ("associative-recall", {"form": "sequence", "alphabet": 3}, False),
    ("associative-recall", {"form": "pairs", "values": 2}, True),
    ("c-gram", {"c": 3, "alphabet": 2}, False),
    ("c-gram", {"c": 2, "alphabet": 6}, False),
    ("counting", {"alphabet": 4}, False),
    ("nearest-neighbour", {"dimension": 5}, False),
    ("match3", {"modulus": 7}, False),
    ("match3", {"modulus": 7, "variant": "last"}, False),
    ("q-sparse-averaging", {"q": 2, "d": 5}, True),
    ("equality", {"alphabet": 2}, True),
    ("dyck", {"types": 2}, True),
    ("disjointness", {}, True),
)
"""Tasks with all parameters but n fixed, and whether a bound grows with n alone."""


@pytest.mark.parametrize(("name", "params", "growing"), FIXED)
def test_what_is_said_to_grow_with_n_alone_grows(name: str, params: dict[str, Any], growing: bool) -> None:
    """With all else fixed a number that does not grow has a growth that says what holds it down."""
    asked = [task(name, n=n, **params) for n in (256, 4096)]
    small, large = (
        {_which(bound): bound for bound in bounds_for(one, precision=8, quick=True)} for one in asked
    )
    compared = [
        (before, after)
        for which, bound in large.items()
        if which in small
        and (after := bound.at_least) is not None
        and (before := small[which].at_least) is not None
        and _grows_with_n_alone(bound.asymptotic)
    ]
    assert all(after >= max(1, 4 * before) for before, after in compared), compared
    assert bool(compared) is growing
    assert any(bound.at_least is not None for bound in large.values())


def _grows_with_n_alone(growth: str) -> bool:
    return "min(" not in growth and "N" in growth.upper().replace("LOG N", "")


def _which(bound: Bound) -> tuple[object, ...]:
    return bound.theorem, bound.family, bound.quantity, bound.asymptotic, bound.formula
