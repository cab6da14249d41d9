"""Exact numbers stay exact, at every size, and print without passing through a float."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.evidence import Bound, Claim, InputsCovered, Interval, Relation, Verdict
from separatrix.evidence.exact import as_decimal
from separatrix.records import parse_json
from tests.evidence.examples import fractions, make_bound, make_claim, through_text

LONGEST = 10**2000 - 1


@pytest.mark.parametrize(
    ("relation", "low", "high", "verdict", "margin"),
    [
        (">", 2, 3, "proved", 1),
        (">", 1, 3, "unknown", 0),
        (">", 0, 1, "refuted", -1),
        (">=", 1, 3, "proved", 0),
        (">=", 0, 1, "unknown", -1),
        (">=", -1, 0, "refuted", -2),
        ("<", -1, 0, "proved", 1),
        ("<", 0, 1, "unknown", 0),
        ("<", 1, 2, "refuted", -1),
        ("<=", 0, 1, "proved", 0),
        ("<=", 1, 2, "unknown", -1),
        ("<=", 2, 3, "refuted", -2),
        ("==", 1, 1, "proved", 0),
        ("==", 0, 3, "unknown", -2),
        ("==", 2, 3, "refuted", -2),
    ],
)
def test_verdict_and_margin_follow_from_the_interval(
    relation: Relation, low: int, high: int, verdict: Verdict, margin: int
) -> None:
    interval = Interval(low=Fraction(low), high=Fraction(high))
    claim = make_claim(relation=relation, threshold=1, interval=interval)
    assert claim.verdict == verdict
    assert claim.margin == margin


def test_a_claim_without_an_interval_is_unknown() -> None:
    assert make_claim(interval=None).verdict == "unknown"
    assert make_claim(interval=None).margin is None


def test_margins_survive_where_floats_would_not() -> None:
    tiny = Fraction(1, 3**200)
    claim = make_claim(interval=Interval(low=Fraction(3, 4) + tiny, high=Fraction(1)))
    again = through_text(claim)
    assert isinstance(again, Claim)
    assert again.margin == tiny
    assert again.verdict == "proved"
    assert float(Fraction(3, 4) + tiny) == 0.75


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.integers(0, 60))
def test_outward_rounding_encloses(value: float, bits: int) -> None:
    interval = Interval.outward(low=value, high=value, bits=bits)
    assert value in interval
    assert interval.high - interval.low <= Fraction(1, 2**bits)


def test_outward_rounding_takes_fractions_beyond_floats() -> None:
    huge = Fraction(10**400, 3)
    interval = Interval.outward(low=huge, high=huge, bits=2)
    assert interval.low < huge < interval.high
    with pytest.raises(InvalidInput, match="finite ends; got inf"):
        Interval.outward(low=0.0, high=math.inf)
    with pytest.raises(InvalidInput, match="bits as a whole number from 0"):
        Interval.outward(low=0.0, high=1.0, bits=-1)
    with pytest.raises(InvalidInput, match=r"Use Fraction\(x\)"):
        Interval.point(0.5)  # type: ignore[arg-type]


@given(fractions, st.integers(1, 12))
def test_decimals_round_the_way_they_say(value: Fraction, digits: int) -> None:
    down, up, near = (
        Fraction(as_decimal(value, direction, digits=digits)) for direction in ("down", "up", "nearest")
    )
    assert down <= value <= up
    assert abs(near - value) == min(value - down, up - value)


def test_intervals_print_outward() -> None:
    assert str(Interval(low=Fraction(2, 3), high=Fraction(2, 3))) == "[0.666666, 0.666667]"
    assert str(Interval.point(0)) == "[0, 0]"
    assert str(Interval.point(2400)) == "[2400, 2400]"
    assert str(Interval.point(-(10**400))) == "[-1e+400, -1e+400]"


@pytest.mark.parametrize(
    ("threshold", "shown"),
    [
        (Fraction(3, 4), "> 3/4 weight"),
        (Fraction(10**400), "> about 1e+400 weight"),
        (Fraction(-(10**400), 3), "> about -3.33333e+399 weight"),
        (Fraction(1, 10**400), "> about 1e-400 weight"),
        (Fraction(1, 3**30), "> about 4.85694e-15 weight"),
        (Fraction(2_000_000_000, 3), "> 2000000000/3 weight"),
    ],
)
def test_thresholds_print_at_every_size(threshold: Fraction, shown: str) -> None:
    claim = make_claim(threshold=threshold)
    assert claim.requirement == shown
    assert shown in str(claim)
    assert through_text(claim) == claim


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (Fraction(10**401, 3), None),
        (10**400, None),
        (10**300, 10**300),
        (Fraction(1, 10**400), 0.0),
        (Fraction(7, 2), 3.5),
        (LONGEST, None),
        (Fraction(LONGEST, LONGEST - 1), 1.0),
    ],
    ids="abcdefg",
)
def test_bounds_beyond_floats_are_written_by_their_exact_text(
    number: int | Fraction, written: float | None
) -> None:
    bound = make_bound(at_least=number)
    assert bound.to_json()["at_least"] == written
    again = Bound.from_json(parse_json(json.dumps(bound.to_json())))
    assert again == bound
    assert again.at_least == number
    assert len(str(bound)) < 300
    assert len(bound._repr_html_()) < 3000


def test_a_giant_bound_prints_shortly_and_never_too_high() -> None:
    assert "≥ 1e+400 bits" in str(make_bound(at_least=10**400))
    assert "≥ 1.99999e+20 bits" in str(make_bound(at_least=2 * 10**20 - 1))
    assert "≥ 2,400 bits" in str(make_bound())


@pytest.mark.parametrize(
    "number",
    [
        LONGEST,
        -LONGEST,
        Fraction(1, LONGEST),
        Fraction(-LONGEST, LONGEST - 1),
        Fraction(LONGEST, LONGEST - 1),
    ],
    ids="abcde",
)
def test_the_longest_numbers_accepted_are_readable_again(number: int | Fraction) -> None:
    interval = Interval.point(number)
    assert through_text(interval) == interval
    claim = make_claim(threshold=number, interval=Interval(low=Fraction(-LONGEST, 7), high=Fraction(LONGEST)))
    assert through_text(claim) == claim


@pytest.mark.parametrize("number", [10**2000, -(10**2000), Fraction(1, 10**2000), 10**5000], ids="abcd")
def test_longer_numbers_are_refused(number: int | Fraction) -> None:
    with pytest.raises(InvalidInput, match="may have 2000 digits; round it outward first"):
        Interval.point(number)


def test_messages_about_giants_are_short() -> None:
    with pytest.raises(InvalidInput, match=r"got \[1e\+400, 0\]") as refused:
        Interval(low=Fraction(10**400), high=Fraction(0))
    assert len(str(refused.value)) < 120
    with pytest.raises(InvalidInput, match="not negative; got about -1e\\+400"):
        make_bound(at_least=-(10**400))


def test_number_of_inputs() -> None:
    inputs = InputsCovered.of(formula="400·64^400", count=400 * 64**400)
    assert inputs.count == 400 * 64**400
    assert str(inputs) == "400·64^400 ≈ 10^725.074"
    for power, text in (
        (12.0, "12"),
        (99_999.4, "99999.4"),
        (99_999.5, "100,000"),
        (123_456.7, "123,457"),
        (1_893_922.6, "1,893,923"),
    ):
        huge = InputsCovered(formula="many", count=None, log10=power)
        assert str(huge) == f"many ≈ 10^{text}"
    assert str(InputsCovered.of(formula="2^20", count=2**20)) == "2^20 = 1,048,576"
    giant = InputsCovered.of(formula="64^(2^20)", count=64 ** (2**20))
    assert giant.count is None
    assert giant.log10 == pytest.approx(2**20 * math.log10(64))


def test_the_longest_number_of_inputs_is_readable_again() -> None:
    longest = InputsCovered.of(formula="f", count=10**4000 - 1)
    assert longest.count == 10**4000 - 1
    assert through_text(longest) == longest
    assert InputsCovered.of(formula="f", count=10**4000).count is None
