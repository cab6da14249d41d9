"""Proof of UP-TF1 on the weights: some unit is positive iff something is wrong with the input.

`gathering` reads each unit off the tensors as a whole-number function of the symbols. What remains is to
bound these functions from above over all inputs without a fault, and from below over all inputs with one,
without listing any. For equality and disjointness the places come in pairs that are independent of each
other, so the extremes are sums of extremes. For Dyck a fault-free string is a walk of the stack, so the
greatest value over all of them, and the least over all prefixes that lead to a stack, follow place by place;
and a faulty string has a first place at which it leaves every walk, behind which anything may stand.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from separatrix.certificates.enclosures import Box, Rounding
from separatrix.certificates.enclosures.boxes import as_rational
from separatrix.certificates.enclosures.fixed_rounding import FixedRounding
from separatrix.certificates.enclosures.float_rounding import FloatRounding
from separatrix.certificates.lemmas.gathering import Sizes, Units, Whole, gathered_units, weight_of_one
from separatrix.certificates.lemmas.proving import claim, least_lead
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.codes import Digits, OneHot
from separatrix.models.explicit.inputs import TokenClass, TokenInputs
from separatrix.models.explicit.layers import Readout
from separatrix.models.explicit.positions import Halves, Own, PositionRule
from separatrix.models.explicit.transformer import Transformer
from separatrix.tasks import Task
from separatrix.tasks.disjointness import Disjointness
from separatrix.tasks.dyck import Dyck
from separatrix.tasks.equality import Equality
from separatrix.tasks.interface import WordTask

__all__ = ["prove_disjointness", "prove_dyck", "prove_equality"]

_SOURCE: Final = "UP-TF1"
_UNIT: Final = "weights of a position"
_FAR: Final = 1 << 60  # beyond every value, and sums of two such still fit

Combination = tuple[int, int]


def prove_equality(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """For every pair of strings of every length up to n/2."""
    if not isinstance(task, Equality) or task.form == "ncp" or task.alice is not None:
        raise NotProved("This proof is about equality of two halves.")
    rule = Halves(second=task.n // 2, between=1)
    weights = [weight_of_one(rounding, length) for length in range(3, task.n + 2, 2)]
    units = _units(rounding, model, task, "symbol", Digits(count=task.symbols), rule, weights)
    extremes = _pairs(units, fine=((0, 0), (1, 1)))
    return _claims(rounding, model, units, extremes, weights, fine_class=1)


def prove_disjointness(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """For every pair of sets of every size up to n/2."""
    if not isinstance(task, Disjointness):
        raise NotProved("This proof is about disjointness.")
    weights = [weight_of_one(rounding, length) for length in range(2, task.n + 1, 2)]
    rule = Halves(second=task.n // 2)
    units = _units(rounding, model, task, "bit", Digits(count=2), rule, weights)
    extremes = _pairs(units, fine=((0, 0), (0, 1), (1, 0)))
    return _claims(rounding, model, units, extremes, weights, fine_class=0)


def prove_dyck(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """For every string of every even length up to n."""
    if not isinstance(task, Dyck) or task.form != "recognise":
        raise NotProved("This proof is about recognising Dyck.")
    weights = [weight_of_one(rounding, length) for length in range(2, task.n + 1, 2)]
    code = OneHot(count=2 * task.types)
    units = _units(rounding, model, task, "bracket", code, Own(), weights)
    extremes = _walks(units, types=task.types, depth=min(task.depth, task.n // 2))
    return _claims(rounding, model, units, extremes, weights, fine_class=1)


def _units(
    rounding: Rounding,
    model: ExplicitModel,
    task: WordTask,
    name: str,
    code: Digits | OneHot,
    rule: PositionRule,
    weights: Sequence[Box],
) -> Units:
    """The units, of tokens that are the task's and places that are counted as they should be."""
    if not isinstance(model, Transformer) or len(model.layers) != 1:
        raise NotProved("This proof is about Transformers of one layer.")
    inputs = model.inputs
    if not isinstance(inputs, TokenInputs):
        raise NotProved("This proof is about inputs of tokens.")
    symbol = _symbols(inputs, task, name)
    placed = symbol.placed
    if placed is None or placed.rule != rule or placed.count != task.n:
        raise NotProved("The symbols do not write at their places, or these are counted in another order.")
    if symbol.code is None or symbol.code.spec() != code.spec():
        raise NotProved("The symbols' code is another than this proof is about.")
    units = gathered_units(rounding, inputs, model.layers[0], symbol, weights)
    if bool((units.score < 0).any()):
        raise NotProved("A unit counts against what the others find.")
    return units


def _symbols(inputs: TokenInputs, task: WordTask, name: str) -> TokenClass:
    vocabulary = task.vocabulary
    classes = {each.name: (each.first, each.count) for each in inputs.classes}
    if classes != {block.name: (vocabulary.offset(block.name), block.size) for block in vocabulary.blocks}:
        raise NotProved("The classes of tokens are not the blocks of the task's vocabulary.")
    if inputs.pad != vocabulary.pad:
        raise NotProved("The padding is not the task's.")
    return next(each for each in inputs.classes if each.name == name)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Extremes:
    """For every unit its greatest value without a fault; for every kind of fault the least of every unit."""

    fine: Whole
    faults: NDArray[np.float64]
    """The least over all faults of what the unit that sees it best adds to the score, in multiples of w."""


def _seen(units: Units, least: Whole) -> Sizes:
    """From the least values (unit, fault) to what is surely added to the score, by fault."""
    sure = (least - units.error.reshape(-1, *[1] * (least.ndim - 1))) * (1 - 2.0**-40)
    found = np.maximum(sure, 0) * units.score.reshape(-1, *[1] * (least.ndim - 1))
    return np.asarray(found.max(axis=0), dtype=np.float64)


def _pairs(units: Units, *, fine: tuple[Combination, ...]) -> _Extremes:
    """Digits in pairs, one of each half; a fault is a pair of digits that is not among the fine ones."""
    count, places, dim = units.symbols.shape
    halves = units.symbols.reshape(count, 2, places // 2 * dim)
    first, second = halves[:, 0], halves[:, 1]

    def value(pair: Combination) -> Whole:
        return np.asarray(pair[0] * first + pair[1] * second, dtype=np.int64)

    every: tuple[Combination, ...] = ((0, 0), (0, 1), (1, 0), (1, 1))
    # Short strings leave the later pairs out, which is the combination (0, 0).
    assert (0, 0) in fine
    most = np.maximum.reduce([value(pair) for pair in fine]).sum(1)
    least = np.minimum.reduce([value(pair) for pair in every])
    rest = least.sum(1)[:, None] - least
    faults = [_seen(units, units.once[:, None] + value(pair) + rest) for pair in every if pair not in fine]
    return _Extremes(fine=units.once + most, faults=np.concatenate(faults))


def _walks(units: Units, *, types: int, depth: int) -> _Extremes:
    """Stacks of bracket types; a fault is a bracket that does not fit, or an end with something open."""
    stacks = [stack for size in range(depth + 1) for stack in itertools.product(range(types), repeat=size)]
    number = {stack: place for place, stack in enumerate(stacks)}
    steps: dict[tuple[int, int], int] = {}
    for stack in stacks:
        for kind in range(types):
            if len(stack) < depth:
                steps[number[stack], 2 * kind] = number[(*stack, kind)]
            if stack and stack[-1] == kind:
                steps[number[stack], 2 * kind + 1] = number[stack[:-1]]
    count, places, tokens = units.symbols.shape
    behind = np.zeros((count, places + 1), dtype=np.int64)
    behind[:, :-1] = np.cumsum(np.minimum(units.symbols.min(axis=2), 0)[:, ::-1], axis=1)[:, ::-1]
    most, least = (np.full((count, len(stacks)), sign * _FAR, dtype=np.int64) for sign in (-1, 1))
    most[:, 0] = least[:, 0] = units.once
    reachable = {0}
    fine = np.full(count, -_FAR, dtype=np.int64)
    faults: list[float] = []
    for place in range(places):
        here = units.symbols[:, place, :]
        wrong = [(s, t) for s in sorted(reachable) for t in range(tokens) if (s, t) not in steps]
        if wrong:
            before, token = (list(each) for each in zip(*wrong, strict=True))
            values = least[:, before] + here[:, token] + behind[:, place + 1, None]
            faults.append(float(_seen(units, values).min()))
        after_most, after_least = np.full_like(most, -_FAR), np.full_like(least, _FAR)
        for (s, t), after in steps.items():
            if s in reachable:
                after_most[:, after] = np.maximum(after_most[:, after], most[:, s] + here[:, t])
                after_least[:, after] = np.minimum(after_least[:, after], least[:, s] + here[:, t])
        most, least = after_most, after_least
        reachable = {after for (s, _), after in steps.items() if s in reachable}
        if place % 2:
            fine = np.maximum(fine, most[:, 0])
            open_ = sorted(reachable - {0})
            if open_:
                faults.append(float(_seen(units, least[:, open_]).min()))
    return _Extremes(fine=fine, faults=np.array(faults))


def _claims(
    rounding: Rounding,
    model: ExplicitModel,
    units: Units,
    extremes: _Extremes,
    weights: Sequence[Box],
    *,
    fine_class: int,
) -> tuple[Claim, ...]:
    assert isinstance(model, Transformer)
    worst = float((extremes.fine + units.error).max())
    worst += abs(worst) * 2.0**-40  # more than float64 can have rounded away
    seen = float(extremes.faults.min())
    if worst > 0:
        raise NotProved("A unit may be positive although nothing is wrong.")
    if seen <= 0:
        raise NotProved("There are inputs with a fault that no unit surely sees.")
    # Sums of what is not negative are computed no smaller than the product of the unit that sees the fault,
    # or end at the largest number of the arithmetic.
    reserve = 1 - Fraction(1, 1 << 20) if isinstance(rounding, FloatRounding) else Fraction(1)
    least = min(as_rational(weight.scalar[0]) for weight in weights) * Fraction(seen) * reserve
    if isinstance(rounding, FixedRounding):
        least = min(least, as_rational(rounding.largest))
    answers = _scores(rounding, model.readout, [Fraction(0), _below(rounding, least)], fine_class)
    leads = least_lead(answers, [fine_class, 1 - fine_class])
    largest = float(np.abs(units.symbols).sum(axis=(1, 2)).max() + np.abs(units.once).max()) * 2
    return (
        claim(
            "units where nothing is wrong",
            "on every input without a fault every unit is at most this before its ReLU",
            "<=",
            Fraction(0),
            _UNIT,
            Box.between([Fraction(float((extremes.fine - units.error).max())) - 1], [Fraction(worst)]),
            source=_SOURCE,
        ),
        claim(
            "units where something is wrong",
            "on every input with a fault some unit is at least this",
            ">",
            Fraction(0),
            _UNIT,
            Box.between([Fraction(seen) / int(units.score.max())], [Fraction(largest)]),
            source=_SOURCE,
        ),
        claim(
            "lead of the right answer",
            "on every input the right answer's score exceeds the other one",
            ">",
            Fraction(0),
            "score",
            # The second lead is a bound for all inputs with a fault, the first that of all others itself.
            Box.between([min(leads.low)], [leads.high[0]]),
            source=_SOURCE,
        ),
    )


def _below(rounding: Rounding, value: Fraction) -> Fraction:
    """A number of the arithmetic, near this one and not above it."""
    step = as_rational(rounding.step) if isinstance(rounding, FixedRounding) else Fraction(1, 1 << 10)
    return math.floor(value / step) * step


def _scores(rounding: Rounding, readout: Readout, sums: Sequence[Fraction], fine_class: int) -> Box:
    """The scores where the units add up to exactly the first of these, and to at least the second.

    A score is computed from one number by a rounded product and a rounded sum, so it never falls if the
    number's coefficient is positive: larger sums have larger leads.
    """
    if readout.code is not None or not readout.scores or readout.map.matrix.shape != (2, 1):
        raise NotProved("The readout scores two classes by one number.")
    if readout.map.matrix[1 - fine_class, 0] < 0 or readout.map.matrix[fine_class, 0] > 0:
        raise NotProved("The readout takes faults for a good sign.")
    matrix, bias = (rounding.encode(Box.exact(each)) for each in (readout.map.matrix, readout.map.bias))
    return rounding.affine(Box.exact([[each] for each in sums]), matrix, bias)
