"""Attention over grouped keys: computed outputs lie inside, and the enclosure is no wider than it must be."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import torch
from flint import fmpq
from numpy.typing import NDArray

from separatrix.certificates.enclosures import (
    Attended,
    Box,
    KeyGroup,
    Unbounded,
    attend,
    loser_mass,
    real,
    rounding_of,
)
from separatrix.errors import InvalidInput
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, Numbers, NumberSystem, concatenate
from tests.certificates.draws import FIXED, FLOATS, SYSTEMS, numbers, seeds, shuffled

every_system = pytest.mark.parametrize("system", SYSTEMS, ids=str)


@dataclass(frozen=True)
class Drawn:
    """A group as a certifier sees it, and the keys that it stands for."""

    group: KeyGroup
    logits: Numbers
    values: Numbers


def draw_group(dice: random.Random, system: NumberSystem, width: int) -> Drawn:
    """Keys first, then the least box around them, sometimes a wider one; counts around the number of keys."""
    count = dice.choice([1, 1, 2, 3, 9])
    centre = dice.gauss(0, dice.choice([0.5, 3.0, 30.0]))
    spread = dice.choice([0.0, 1e-3, 0.3, 2.0])
    tied = dice.random() < 0.3
    logits = [centre + spread * dice.uniform(-1, 1) for _ in range(1 if tied else count)]
    computed = system.encode(logits * count if tied else logits)
    values = numbers(dice, system, (count, width))
    if dice.random() < 0.5:
        values = values[torch.zeros(count, dtype=torch.int64)]
    slack = Fraction(dice.choice([0, 0, 1]), 16)
    exact_logits, exact_values = Box.exact(system.decode(computed)), Box.exact(system.decode(values))
    group = KeyGroup(
        logit=exact_logits.hull().widened(fmpq(slack.numerator, slack.denominator)),
        value=exact_values.hull(0),
        least=count if dice.random() < 0.6 else dice.randint(0, count),
        most=count if dice.random() < 0.6 else count + dice.randint(0, 3),
        tied=tied,
    )
    return Drawn(group=group, logits=computed, values=values)


def computed_attention(
    dice: random.Random, system: NumberSystem, drawn: list[Drawn]
) -> tuple[Numbers, list[list[Fraction]]]:
    """The output, and the weights group by group, with the keys in a random order."""
    logits = concatenate([each.logits for each in drawn])
    values = concatenate([each.values for each in drawn])
    order = shuffled(dice, logits.shape[0])
    weights = system.softmax(logits[order])
    output = system.weighted_sum(weights[None, :], values[order])[0]
    exact, back = system.decode(weights), order.argsort().tolist()
    in_place = iter([exact[place] for place in back])
    return output, [[next(in_place) for _ in range(each.logits.shape[0])] for each in drawn]


def check(system: NumberSystem, result: Attended, output: Numbers, weights: list[list[Fraction]]) -> None:
    assert result.output.contains(system.decode(output))
    assert result.weights.contains([sum(group, Fraction(0)) for group in weights])


@every_system
@pytest.mark.parametrize("seed", seeds(quick=5, slow=60))
def test_computed_attention_lies_inside(system: NumberSystem, seed: int) -> None:
    dice = random.Random(seed)
    drawn = [draw_group(dice, system, 4) for _ in range(dice.choice([1, 2, 3, 5, 12]))]
    result = attend(rounding_of(system), [each.group for each in drawn])
    assert result.output.shape == (4,)
    for _ in range(3):
        check(system, result, *computed_attention(dice, system, drawn))


@every_system
@pytest.mark.parametrize("seed", seeds(quick=6, slow=15))
def test_from_queries_and_keys(system: NumberSystem, seed: int) -> None:
    """Logits enclosed from queries and keys, one group a key, against the system's own attention."""
    dice, rounding = random.Random(seed), rounding_of(system)
    queries, keys = numbers(dice, system, (2, 3)), numbers(dice, system, (5, 3))
    values = numbers(dice, system, (5, 2))
    logits = rounding.affine(Box.exact(system.decode(queries)), Box.exact(system.decode(keys)))
    exact = Box.exact(system.decode(values))
    for query in range(2):
        groups = [KeyGroup(logit=logits[query, key], value=exact[key]) for key in range(5)]
        output = system.attention(queries, keys, values)[query]
        assert attend(rounding, groups).output.contains(system.decode(output))


@pytest.mark.parametrize("system", FIXED, ids=str)
@pytest.mark.parametrize("seed", seeds(quick=10, slow=25))
def test_known_keys_in_fixed_point_have_one_output(system: NumberSystem, seed: int) -> None:
    """Points and exact counts: the enclosure is the computed output itself, clamping included."""
    dice = random.Random(seed)
    count = dice.choice([1, 2, 7])
    logits, values = numbers(dice, system, (count,)), numbers(dice, system, (count, 3))
    exact_logits, exact_values = Box.exact(system.decode(logits)), Box.exact(system.decode(values))
    groups = [KeyGroup(logit=exact_logits[i], value=exact_values[i]) for i in range(count)]
    result = attend(rounding_of(system), groups)
    weights = system.softmax(logits)
    assert result.output.is_point
    assert result.output.contains(system.decode(system.weighted_sum(weights[None, :], values)[0]))
    assert result.weights.is_point
    assert result.weights.contains(system.decode(weights))


class TestFixedPointIsSharp:
    @pytest.mark.parametrize("system", [FixedDown(n=1024, k=2), FixedNearest(p=31)], ids=str)
    def test_a_winner_takes_all(self, system: NumberSystem) -> None:
        """Losers' exps round to 0 before the sum, however many they are and whatever their values."""
        winner = Box.between([Fraction(-1, 2), 3], [Fraction(1, 4), 3])
        losers = KeyGroup(logit=Box.between(0, 2), value=Box.between([-9, -9], [9, 9]), least=0, most=2**60)
        result = attend(rounding_of(system), [KeyGroup(logit=Box.between(20, 25), value=winner), losers])
        assert result.weights.is_point
        assert result.weights.contains([1, 0])
        assert result.output.contains(winner)
        assert winner.contains(result.output)

    def test_a_loser_that_counts(self) -> None:
        """One step closer and the losers do not vanish: e^-13.8 is more than a step of 2^-20."""
        losers = KeyGroup(logit=Box.exact(Fraction(62, 10)), value=Box.exact([0]), most=2**10)
        winner = KeyGroup(logit=Box.exact(20), value=Box.exact([1]))
        result = attend(rounding_of(FixedDown(n=1024, k=2)), [winner, losers])
        assert not result.output.contains(1)

    @pytest.mark.parametrize("count", [1, 3, 8, 9, 1000, 2**60])
    @pytest.mark.parametrize(
        "system", [FixedDown(n=8, k=1), FixedDown(n=10, k=3), FixedNearest(p=9)], ids=str
    )
    def test_uniform_ties_and_the_clamped_sum(self, system: NumberSystem, count: int) -> None:
        """n equal logits: each weight is the rounded 1/min(n, largest), each product rounded, n of them."""
        tie = KeyGroup(logit=Box.between(1, 2), value=Box.exact([1, -1]), least=count, most=count, tied=True)
        result = attend(rounding_of(system), [tie])
        divisor = min(Fraction(count), system.largest)
        weight = system.divide(system.encode(1), system.encode(divisor))
        (down,) = system.decode(system.multiply(weight[None], system.encode([-1])))
        up = system.decode(weight).item()
        ends = [min(count * up, system.largest), max(count * down, -system.largest)]
        assert result.output.is_point
        assert result.output.contains(ends)
        if count <= 1000:
            weights = system.softmax(system.encode([1] * count))
            values = system.encode([[1, -1]] * count)
            assert result.output.contains(system.decode(system.weighted_sum(weights[None, :], values)[0]))

    @pytest.mark.parametrize("least", [1, 900])
    def test_an_unknown_number_of_ties_stays_near_the_mean(self, least: int) -> None:
        """Weights add up to nearly 1 whatever the number is; bounds of weight and count apart would not."""
        rounding = rounding_of(FixedDown(n=1024, k=2))
        tie = KeyGroup(logit=Box.exact(0), value=Box.exact([1]), least=least, most=1000)
        (low, high) = attend(rounding, [tie]).output.scalar
        assert 1 - fmpq(1000, 2**20) <= low <= high <= 1

    def test_an_uncertain_maximum_costs_little(self) -> None:
        """Two keys at 0 and one at -3 keep their ratio, wherever in [0, 1] the leader is."""
        rounding = rounding_of(FixedNearest(p=61))
        groups = [
            KeyGroup(logit=Box.between(0, 1), value=Box.exact([0])),
            KeyGroup(logit=Box.exact(0), value=Box.exact([1])),
            KeyGroup(logit=Box.exact(-3), value=Box.exact([1])),
        ]
        fixed, exact = attend(rounding, groups).output, attend(real(), groups).output
        assert fixed.contains(exact)
        assert fixed.width.item() < exact.width.item() * fmpq(1001, 1000)


def test_losers_that_are_rounded_up_twice() -> None:
    """Exps of 0.62 steps become a step, and quotients of 0.64 steps too: more than twice their share."""
    system = FixedNearest(p=9)
    losers, uncertain = Fraction(-13, 4), Box.between(0, Fraction(1, 16))
    groups = [
        KeyGroup(logit=uncertain, value=Box.exact([0])),
        KeyGroup(logit=Box.exact(losers), value=Box.exact([1]), least=9, most=9),
    ]
    weights = system.softmax(system.encode([Fraction(0)] + [losers] * 9))
    output = system.weighted_sum(weights[None, :], system.encode([[0]] + [[1]] * 9))[0]
    assert system.decode(output).item() == Fraction(9, 16)
    assert attend(rounding_of(system), groups).output.contains([Fraction(9, 16)])


def corner_means(groups: list[KeyGroup]) -> list[float]:
    """Every output where logits, counts and values are at their ends, in float64."""
    choices = []
    for group in groups:
        logits = [float(Fraction(int(end.p), int(end.q))) for end in group.logit.scalar]
        values = [float(Fraction(int(end.p), int(end.q))) for end in group.value.scalar]
        choices.append(list(itertools.product(logits, values, (group.least, group.most))))
    means = []
    for corner in itertools.product(*choices):
        masses = [count * math.exp(logit) for logit, _, count in corner]
        if sum(masses) > 0:
            weighted = sum(mass * value for mass, (_, value, _) in zip(masses, corner, strict=True))
            means.append(weighted / sum(masses))
    return means


def random_scalar_groups(dice: random.Random) -> list[KeyGroup]:
    groups = []
    for _ in range(dice.choice([1, 2, 3])):
        low, value = Fraction(dice.randint(-32, 32), 16), Fraction(dice.randint(-32, 32), 16)
        least = dice.choice([1, 1, 2])
        groups.append(
            KeyGroup(
                logit=Box.between(low, low + Fraction(dice.randint(0, 32), 16)),
                value=Box.between([value], [value + Fraction(dice.randint(0, 8), 16)]),
                least=least,
                most=least + dice.choice([0, 0, 3]),
            )
        )
    return groups


@pytest.mark.parametrize("seed", range(80))
def test_real_attention_is_exact(seed: int) -> None:
    groups = random_scalar_groups(random.Random(seed))
    low, high = attend(real(), groups).output.scalar
    means = corner_means(groups)
    assert abs(float(Fraction(int(low.p), int(low.q))) - min(means)) < 1e-12
    assert abs(float(Fraction(int(high.p), int(high.q))) - max(means)) < 1e-12


@pytest.mark.parametrize("system", [FixedDown(n=1024, k=2), FixedNearest(p=41), *FLOATS], ids=str)
@pytest.mark.parametrize("seed", range(20))
def test_rounded_attention_is_nearly_as_sharp(system: NumberSystem, seed: int) -> None:
    groups = random_scalar_groups(random.Random(seed))
    (width,) = attend(rounding_of(system), groups).output.width
    means = corner_means(groups)
    assert float(Fraction(int(width.p), int(width.q))) <= 1.05 * (max(means) - min(means)) + 1e-3


def sequential(values: NDArray[np.float32]) -> float:
    return float(np.add.accumulate(values, dtype=np.float32)[-1])


class TestFloatsInTheWorstOrder:
    def test_light_keys_that_each_round_up(self) -> None:
        """Each loser is worth 3/4 of a unit in the last place of the winner, and counts for a whole one."""
        count = 2**16
        gap = np.float32(-math.log(2**24 / 1.5))
        exps = np.full(1 + count, np.exp(gap), np.float32)
        exps[0] = 1
        total = sequential(exps)
        true = 1 + count * float(exps[1])
        assert total > true * 1.001
        weights = exps / np.float32(total)
        values = np.full(1 + count, -1, np.float32)
        values[0] = 1
        output = sequential(weights * values)
        losers = KeyGroup(logit=Box.exact(float(gap)), value=Box.exact([-1]), least=count, most=count)
        result = attend(rounding_of(Float32()), [KeyGroup(logit=Box.exact(0), value=Box.exact([1])), losers])
        assert result.output.contains([output])
        assert result.weights[0].contains(float(weights[0]))
        assert result.output.width.item() < fmpq(1, 25)

    def test_products_that_cancel(self) -> None:
        """As many keys of value 1 as of -1, the first added one by one, the others in pairs."""
        count = 3 * 2**10
        weight = np.float32(1) / np.float32(2 * count)
        pairs = np.full(count, weight, np.float32)
        while pairs.size % 2 == 0:
            pairs = pairs[::2] + pairs[1::2]
        output = sequential(np.full(count, weight, np.float32)) - sequential(pairs)
        assert abs(output) > 2**-18
        tie = [
            KeyGroup(logit=Box.exact(0), value=Box.exact([value]), least=count, most=count)
            for value in (1, -1)
        ]
        assert attend(rounding_of(Float32()), tie).output.contains([output])

    def test_differences_that_are_rounded(self) -> None:
        """33 and -33 - 2^-18 differ by 66 in float32: 64 units of error in the loser's weight.

        A further key that may be there leaves the largest logit open.
        """
        system, low = Float32(), -33 - 2.0**-18
        weights = system.softmax(system.encode([33.0, low]))
        output = system.weighted_sum(weights[None, :], system.encode([[0.0], [1.0]]))[0]
        groups = [
            KeyGroup(logit=Box.exact(33), value=Box.exact([0])),
            KeyGroup(logit=Box.exact(low), value=Box.exact([1])),
            KeyGroup(logit=Box.between(0, 34), value=Box.exact([0]), least=0, most=1),
        ]
        assert attend(rounding_of(system), groups).output.contains(system.decode(output))
        exact = attend(real(), groups).output.high.item()
        assert system.decode(output).item() > Fraction(int(exact.p), int(exact.q)) * (1 + Fraction(1, 2**19))

    @pytest.mark.parametrize("count", [2**10, 2**20, 2**40, 2**60])
    def test_many_light_keys_cost_only_their_mass(self, count: int) -> None:
        losers = KeyGroup(logit=Box.between(-90, -80), value=Box.between([-1], [1]), least=0, most=count)
        winner = KeyGroup(logit=Box.between(0, 1), value=Box.exact([1]))
        (low, high) = attend(rounding_of(Float32()), [winner, losers]).output.scalar
        light = fmpq(count) * max(fmpq(1), fmpq(count, 2**22)) / 10**33
        assert max(1 - low, high - 1) < fmpq(20, 2**24) + light

    def test_stagnation_is_admitted(self) -> None:
        """2^30 equal keys one after the other in float32: the sum stops at 2^24, and so must the claim."""
        tie = KeyGroup(logit=Box.exact(0), value=Box.exact([1]), least=2**30, most=2**30)
        result = attend(rounding_of(Float32()), [tie])
        assert result.weights.contains([2**30 / 2**24])

    def test_uniform_average_in_float64(self) -> None:
        tie = KeyGroup(logit=Box.exact(0), value=Box.exact([1]), least=2**20, most=2**20)
        (low, high) = attend(rounding_of(Float64()), [tie]).output.scalar
        assert max(1 - low, high - 1) < fmpq(1, 2**31)

    def test_overflow_is_refused(self) -> None:
        huge = KeyGroup(logit=Box.exact(0), value=Box.exact([Fraction(2) ** 127]))
        with pytest.raises(Unbounded, match="may overflow binary32"):
            attend(rounding_of(Float32()), [huge])


class TestGroups:
    def test_empty_groups_weigh_nothing(self) -> None:
        one = KeyGroup(logit=Box.exact(0), value=Box.exact([1]))
        none = KeyGroup(logit=Box.exact(99), value=Box.exact([5]), least=0, most=0)
        for system in SYSTEMS:
            result = attend(rounding_of(system), [none, one])
            assert result.weights[0].scalar == (fmpq(0), fmpq(0))
            assert result.output.contains([1])
            assert not result.output.contains([Fraction(3, 2)])

    def test_wrong_groups_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="0 <= least <= most"):
            KeyGroup(logit=Box.exact(0), value=Box.exact([1]), least=3, most=2)
        with pytest.raises(InvalidInput, match=r"value of shape \(width,\)"):
            KeyGroup(logit=Box.exact(0), value=Box.exact(1))
        with pytest.raises(InvalidInput, match="every group is empty"):
            attend(real(), [KeyGroup(logit=Box.exact(0), value=Box.exact([1]), least=0, most=0)])
        groups = [KeyGroup(logit=Box.exact(0), value=Box.exact([1] * width)) for width in (1, 2)]
        with pytest.raises(InvalidInput, match="one width"):
            attend(real(), groups)

    def test_possibly_absent_keys(self) -> None:
        """Two groups, either of which may be empty, but not both: nothing beyond the two values."""
        groups = [
            KeyGroup(logit=Box.exact(index), value=Box.exact([index]), least=0, most=2) for index in (0, 1)
        ]
        for rounding in (real(), rounding_of(FixedNearest(p=41))):
            low, high = attend(rounding, groups).output.scalar
            assert abs(low) < fmpq(1, 10**5)
            assert abs(high - 1) < fmpq(1, 10**5)


class TestLoserMass:
    def test_real(self) -> None:
        mass = loser_mass(real(), [(Box.between(2, 3), 5), (Box.exact(1), 2**60)])
        low, high = (float(Fraction(int(end.p), int(end.q))) for end in mass.scalar)
        assert low == pytest.approx(5 * math.exp(-3) + 2**60 * math.exp(-1))
        assert high == pytest.approx(5 * math.exp(-2) + 2**60 * math.exp(-1))

    def test_fixed_point_loses_them(self) -> None:
        rounding = rounding_of(FixedDown(n=1024, k=2))
        assert loser_mass(rounding, [(Box.between(14, 900), 2**60)]).scalar == (fmpq(0), fmpq(0))
        assert loser_mass(rounding, [(Box.between(13, 900), 1)]).scalar[1] > 0
        assert loser_mass(rounding, []).scalar == (fmpq(0), fmpq(0))
