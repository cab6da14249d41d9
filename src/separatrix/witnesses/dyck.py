"""S-E-cited: bounded Dyck by attention, with two layers for what may follow and three to recognise."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from separatrix.errors import InvalidInput, TooLarge
from separatrix.models.explicit.codes import Digits, Ladder, Reciprocal
from separatrix.models.explicit.positions import Own
from separatrix.tasks.dyck import Dyck
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import (
    Built,
    Field,
    LayerScript,
    Linear,
    Program,
    Rival,
    build,
    joined,
    total,
)
from separatrix.witnesses.witness import Witness

__all__ = ["dyck_next", "dyck_recognise"]

_SOURCE: Final = "S-E-cited"
_DEEPEST: Final = 512
_RIVALS_APART: Final = 64


def dyck_recognise(task: Dyck, choices: Choices) -> Witness:
    """Three causal layers, one head each, recognise Dyck-(types, depth) at every length up to n.

    Layer 1. The mean of +1 for opening and −1 for closing brackets over the first i places is depth/i, and
    1/i is a feature of the place. For c = 1 … k+1 the bit "depth ≥ c" is the step of
    4n·depth/i − 2n·(2c − 1)/i, which is at least 2 or at most −2 because i ≤ n, and the bit "depth < 0" is
    that of −4n·depth/i − 2n/i.

    Layer 2. A closing bracket that leaves the depth ℓ − 1 asks for the last opening bracket with depth ℓ.
    The logit of place j is, times η, (n+1)·([depth ℓ at j] − [j closes]) + j. Until the first fault the
    partner exists. Places that open with depth ℓ have one parity, so the earlier ones are 2, 4, 6, … below
    the partner. All others lack n + 1 and make up for at most n − 1 of it by standing later: they are 2, 3,
    4, … below, each another number. The rivals' mass is thus at most Σ e^(−2ηt) + Σ_(g≥2) e^(−ηg) times the
    partner's, and η is the least scale that leaves them less than ¼ of the weight; so the partner's type is
    read digit by digit and a digit that differs from the bracket's own is a fault.

    Layer 3. The mean of the faults (depth below 0, depth above k, a type that differs) is 0, or at least
    1/i, and is compared with 1/(2n). The string is a member iff there is no fault and the depth at its end
    is 0. Behind the first fault a head may return anything; faults are never negative, so it stays seen.

    Width 2⌈log types⌉ + k + O(1) whatever n is: only the precision grows, as O(log n).
    """
    _require(task, "recognise")
    program, depth = Program(task, causal=True), min(task.depth, task.n // 2)
    bracket = program.token("bracket", block="bracket", code=Digits(count=max(4, 2 * task.types)))
    closes, kind = bracket[0], bracket[1:]
    bits = _depth_bits(program, closes, range(depth + 2), task.n)
    below, reached = bits[0], bits[1:]
    exactly = [1 - below - reached[0]] + [reached[c - 1] - reached[c] for c in range(1, depth + 1)]
    with program.layer() as layer:
        partner = _last_open(
            layer,
            program,
            task.n,
            asked=exactly[:-1],
            offered=exactly[1:],
            closes=closes,
            value=kind,
        )
        clash = layer.saturate(
            "clash",
            joined(
                sign * 4 * (partner[digit] - kind[digit]) - 1 - 4 * (1 - closes)
                for digit in range(kind.out)
                for sign in (1, -1)
            ),
            noise=1,
        )
    with program.layer() as layer:
        faults = layer.average("faults", total(clash) + below + reached[depth])
        wrong = layer.saturate("wrong", 4 * task.n * faults - 2, noise=1)
    bad = wrong + reached[0]
    program.answer_scores(joined([2 * bad - 1, 1 - 2 * bad]))
    return _witness(task, build(program, choices.system), family="transformer-3", variant="")


def dyck_next(task: Dyck, choices: Choices) -> Witness:
    """Two causal layers, one head each, tell after every prefix of a member which characters may follow.

    That depends on the depth and, if it is above 0, on the type of the innermost open bracket, which is the
    last opening bracket whose depth is that of the asking place. Layer 1 makes the bits "depth ≥ c", and
    layer 2 finds the bracket, both as in `dyck_recognise`; here the asking place may itself be the one it
    looks for. The gaps are the same, and so is η. The readout adds ⟨signs of the type, digits found⟩ to a
    part that tells the three kinds of sets apart: with b digits it is 2b + 1 for the kind at hand, else 0,
    so the right class leads by 2 at least.
    """
    _require(task, "next")
    program, depth = Program(task, causal=True), min(task.depth, task.n // 2)
    bracket = program.token("bracket", block="bracket", code=Digits(count=max(4, 2 * task.types)))
    closes, kind = bracket[0], bracket[1:]
    reached = _depth_bits(program, closes, range(1, depth + 1), task.n)
    exactly = [reached[c] - reached[c + 1] for c in range(depth - 1)] + [reached[depth - 1]]
    with program.layer() as layer:
        innermost = _last_open(
            layer, program, task.n, asked=exactly, offered=exactly, closes=closes, value=kind
        )
        top = layer.saturate("top", 4 * innermost - 1, noise=1)
    full = reached[depth - 1] if depth == task.depth else 0 * reached[0]
    weight = 2 * kind.out + 1
    spelled = np.array(
        [[Fraction(2 * (t >> digit & 1) - 1) for digit in range(kind.out)] for t in range(task.types)],
        dtype=object,
    )
    types = (2 * top - 1).through(spelled)
    scores = [weight * (1 - reached[0])]
    for at_hand in (reached[0] - full, full):
        scores += [types[t] + weight * at_hand for t in range(task.types)]
    program.answer_scores(joined(scores))
    return _witness(task, build(program, choices.system), family="transformer-2", variant="next characters")


def _depth_bits(program: Program, closes: Linear, thresholds: Sequence[int], n: int) -> Field:
    """Layer 1: a bit for each threshold c, 1 where the depth is at least c; for c = 0, where it is below."""
    share = program.position("share", Own(), Reciprocal(count=n))
    with program.layer() as layer:
        mean = layer.average("mean", 1 - 2 * closes)
        crossed = [(1 if c else -1) * (4 * n * mean - 2 * n * (2 * c - 1) * share) for c in thresholds]
        return layer.saturate("depth", joined(crossed), noise=1)


def _last_open(
    layer: LayerScript,
    program: Program,
    n: int,
    *,
    asked: Sequence[Linear],
    offered: Sequence[Linear],
    closes: Linear,
    value: Linear,
) -> Field:
    """The head of layer 2: the last place that opens with the depth that is asked for."""
    place = program.position("place", Own(), Ladder(count=n))
    lead = n + 1
    return layer.select(
        "partner",
        match=[(lead * joined(asked), joined(offered)), (program.one * lead, -closes), (program.one, place)],
        value=value,
        rivals=_rivals(n),
    )


def _rivals(n: int) -> list[Rival]:
    """Earlier places of the same depth, two apart, and all others, one apart; far ones in one bound."""
    near = min(n, _RIVALS_APART)
    found = [Rival(gap=Fraction(2 * t), count=1) for t in range(1, near // 2 + 1)]
    found += [Rival(gap=Fraction(gap), count=1) for gap in range(2, near + 2)]
    return [*found, Rival(gap=Fraction(near + 2), count=2 * n)]


def _require(task: Dyck, form: str) -> None:
    if task.form != form:
        raise InvalidInput(
            f"This construction is for Dyck in the form {form}; got form={task.form!r}. Try form={form!r}."
        )
    if min(task.depth, task.n // 2) > _DEEPEST:
        raise TooLarge(
            f"Bounded Dyck by attention is built up to depth {_DEEPEST}, a hidden unit for each; "
            f"got depth={task.depth} at n={task.n}. Try depth={_DEEPEST}."
        )


def _witness(task: Dyck, built: Built, *, family: str, variant: str) -> Witness:
    return witness_of(built, theorem=_SOURCE, family=family, variant=variant)
