"""Bounds over the inputs on which a head's weights lie in an interval: they hold, and say more."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from separatrix.certificates.one_layer import certifying as judging
from separatrix.certificates.one_layer.attack import Effort
from separatrix.certificates.one_layer.bounds import Bounds
from separatrix.certificates.one_layer.certifying import Judge
from separatrix.certificates.one_layer.contexts import Contexts
from separatrix.certificates.questions import questions_of
from separatrix.tasks import task
from tests.certificates.draws import seeds
from tests.certificates.one_layer.drawn import drawn, every, seen_by, streams
from tests.certificates.one_layer.test_bounds import TASKS, check_bracket, least_leads


def _ends(contexts: Contexts, head: int, parts: int = 3) -> list[float]:
    low, high = float(contexts.least_below[0, head]), float(contexts.most_below[0, head])
    return [low * (high / low) ** (part / parts) for part in range(parts)] + [high]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, 40))
@pytest.mark.parametrize("kind", ["transformer", "llama"])
def test_every_part_is_bounded(kind: str, seed: int) -> None:
    gained = filled = 0
    for number, (name, sizes, causal) in enumerate(TASKS):
        asked = task(name, **sizes)
        scale = (4.0, 12.0, 30.0)[(seed + number) % 3]
        population = drawn(asked, kind, seed=seed, scale=scale, causal=causal)
        questions = questions_of(asked)
        question = questions[(5 * seed + 2) % len(questions)]
        question = replace(question, regions=question.regions[:1])
        form, tables = seen_by(population, question)
        whole = Contexts(tables, question)
        options = every(question.regions[0], tables.positions)
        found, below = streams(whole, options), tables.sums(options)[1]
        dice = torch.Generator().manual_seed(seed)
        directions = torch.randn(12, found.shape[1], generator=dice, dtype=torch.float64)
        head = int((whole.most_below[0] / whole.least_below[0]).argmax())
        every_input = torch.zeros(len(options), dtype=torch.bool)
        for low, high in pairwise(_ends(whole, head)):
            inside = (below[:, head] >= low) & (below[:, head] <= high)
            every_input |= inside
            if not bool(inside.any()):
                continue
            filled += 1
            part = Contexts(tables, question, between={head: (low, high)})
            gained += _check_part(part, directions, found[inside])
            bounds = Bounds(form, part)
            known = bounds.bracket(0)
            check_bracket(form, known, found[inside])
            check_bracket(form, bounds.sharpened(known), found[inside])
            _check_margins(bounds, question.regions[0].requirements.directions, found[inside])
        assert bool(every_input.all())
    assert filled > len(TASKS)
    assert gained > 0


def _check_part(part: Contexts, directions: Tensor, stream: Tensor) -> int:
    """Bounds of a part hold for its inputs; how often they say more by looking beside the root."""
    said = stream @ directions.T
    room = 1e-11 * (1 + said.abs().amax(0))
    at_root, gained = copy(part), 0
    at_root._cut = frozenset()
    for jointly in (False, True):
        low = part.least(0, directions, jointly=jointly)
        assert bool((low <= said.amin(0) + room).all())
        if not jointly:  # beside its root, H says more than narrower denominators do at it
            gained += int((low > at_root.least(0, directions) + room).sum())
    ranges = part.ranges(directions)
    assert bool((ranges.low[0] <= said.amin(0) + room).all())
    assert bool((ranges.high[0] >= said.amax(0) - room).all())
    return gained


def _check_margins(bounds: Bounds, rivals: Tensor, stream: Tensor) -> None:
    required = bounds.contexts.regions[0].requirements
    true = (bounds.form.tail(stream) @ rivals.T + required.offsets).amin(0)
    for closer in (False, True):
        found = bounds.margins(bounds.bracket(0), required, closer=closer)
        proven = found > 0
        assert bool((found <= true + 1e-11)[proven].all())
        assert not bool((proven & (true <= 0)).any())


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, 20))
def test_the_parts_of_a_case_together_bound_every_input(seed: int) -> None:
    proven = 0
    for number, (name, sizes, causal) in enumerate(TASKS[:4]):
        asked = task(name, **sizes)
        scale = (1.0, 4.0, 8.0)[(seed + number) % 3]
        dtype = (torch.float32, torch.float64)[number % 2]
        population = drawn(asked, seed=seed, scale=scale, causal=causal, dtype=dtype)
        judge = Judge(population, asked, device="cpu", effort=Effort(), seed=0)
        question = questions_of(asked)[seed % len(questions_of(asked))]
        with torch.no_grad():
            here = judging._Asked(judge, question)
            for place, region in enumerate(question.regions[:2]):
                options = every(region, here.tables.positions)
                true = least_leads(population, asked, question, place, options)
                found = here._branched(place, region)
                assert bool((found <= true)[found > 0].all())
                proven += int((found > 0).sum())
    assert proven > 0
