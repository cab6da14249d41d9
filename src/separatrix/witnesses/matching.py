"""R-M2 and R-M3: pair matching by one unit, triple matching by one unit of order three."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.evidence import Claim
from separatrix.models.explicit.codes import Circle
from separatrix.models.explicit.inputs import TokenClass, TokenInputs
from separatrix.models.explicit.layers import Layer, Readout
from separatrix.models.explicit.layout import Layout, Slot
from separatrix.models.explicit.linear import Affine
from separatrix.models.explicit.third_order import ThirdOrderHead
from separatrix.models.explicit.transformer import UnmaskedTransformer
from separatrix.precision import FixedPoint, NumberSystem, name_of
from separatrix.precision.floats import Float32
from separatrix.tasks.match2 import Match2
from separatrix.tasks.match3 import Match3
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.claims import witness_of
from separatrix.witnesses.language import Field, Linear, Program, Rival, build, constant
from separatrix.witnesses.language.program import FlagSource
from separatrix.witnesses.language.scales import least_scale
from separatrix.witnesses.witness import Witness

__all__ = ["THRESHOLD", "dummy_field", "dummy_level", "gap", "match2", "match3", "mirrored"]

THRESHOLD: Final = Fraction(1, 4)
"""From this weight of the real tuples on, the answer is yes. Without a match they have half of it at most."""


def match2(task: Match2, choices: Choices) -> Witness:
    """One head of inner width three: attend to the numbers whose angle is the opposite of one's own.

    A number z is the point (cos, sin) of 2πz/M. The query (c_i, s_i, 1) and the key (c_j, −s_j, 0) have the
    product cos(2π(z_i + z_j)/M): 1 if the sum is 0 modulo M, at most cos(2π/M) if not. A dummy has the key
    (0, 0, θ) with θ half-way between the two, sin²(π/M) from either; values are 1, and 0 for the dummy. So
    with the scale α the head returns at most n·e^(−α·sin²(π/M)) without a match, and at least
    1 − e^(−α·sin²(π/M)) with one, however many other numbers there are. α is the least scale at which the
    first is below ⅛, in the gap that rounding leaves of sin²(π/M); the readout asks for more than ¼.

    Inner width 3, stream width 4, no feed-forward map. j may be i itself: a position cannot tell its own
    number from an equal one elsewhere, so the form with distinct positions is refused.
    """
    _refuse_distinct(task.distinct, "z_i + z_i ≡ 0")
    modulus = task.residues
    program = Program(task)
    point = program.token("point", block="residue", code=Circle(modulus=modulus))
    dummy = dummy_field(program)
    level = dummy_level(modulus)
    with program.layer() as layer:
        found = layer.select(
            "found",
            match=[(point, mirrored(point)), (program.one, level * dummy)],
            value=program.one - dummy,
            rivals=[Rival(gap=gap(modulus, choices.system, order=2), count=task.n)],
            within=THRESHOLD / 2,
        )
    signs = np.array([[Fraction(-1)], [Fraction(1)]], dtype=object)
    program.answer_scores((1 * found).through(signs) + constant([THRESHOLD, -THRESHOLD]))
    built = build(program, choices.system)
    return witness_of(built, theorem="R-M2", family="transformer-1")


_COSINE, _SINE, _ONE, _DUMMY = range(4)
_Row = Mapping[int, float]


def match3(task: Match3, choices: Choices) -> Witness:
    """One unit of order three and inner width five: the same over pairs (j, k).

    cos(a + b + c) is the sum of four products, cos·cos·cos − cos·sin·sin − sin·cos·sin − sin·sin·cos, each
    with one factor of the query, one of the first and one of the second key. The fifth coordinate is 1 in
    the query, θ in the dummy's first key and 1 in its second, 0 in all others. So the pair of two dummies has
    the logit αθ, a pair of two numbers α·cos(2π(z_i + z_j + z_k)/M), a mixed pair 0, no more than αθ; values
    multiply to 1 for two numbers and to 0 otherwise. The rest is as for pairs, with n² rivals
    α·sin²(π/M) below the dummy, and 2n more keys of value 0, which are α below a match.
    """
    if task.variant != "full":
        raise InvalidInput(
            f"The unit of order three does the variant full of match3; got variant={task.variant!r}."
        )
    _refuse_distinct(task.distinct, "z_i + z_i + z_i ≡ 0")
    modulus, system = task.residues, choices.system
    lead = gap(modulus, system, order=3)
    scale = least_scale([Rival(gap=lead, count=task.n**2)], THRESHOLD / 2, system)
    if 5 * scale > system.largest:
        raise InvalidInput(
            f"match3 with n={task.n} and M={modulus} needs logits of about {float(scale):.3g}, "
            f"and {name_of(system)} "
            f"ends at {float(system.largest):.3g}; take a smaller M or more bits."
        )
    alpha, level = float(scale), float(dummy_level(modulus))
    head = ThirdOrderHead(
        query=_rows({_COSINE: alpha}, {_COSINE: -alpha}, {_SINE: alpha}, {_SINE: alpha}, {_ONE: alpha}),
        first_key=_rows({_COSINE: 1}, {_SINE: 1}, {_COSINE: -1}, {_SINE: 1}, {_DUMMY: level}),
        second_key=_rows({_COSINE: 1}, {_SINE: 1}, {_SINE: 1}, {_COSINE: -1}, {_DUMMY: 1}),
        first_value=_rows({_ONE: 1, _DUMMY: -1}),
        second_value=_rows({_ONE: 1, _DUMMY: -1}),
    )
    model = UnmaskedTransformer(
        inputs=_circle_inputs(modulus),
        layers=(
            Layer(
                heads=(head,),
                output=torch.ones(1, 1, dtype=torch.float64),
                attention_residual=False,
                feed_forward=None,
                feed_forward_residual=False,
            ),
        ),
        readout=Readout(
            map=Affine(
                matrix=torch.tensor([[-1.0], [1.0]], dtype=torch.float64),
                bias=torch.tensor([float(THRESHOLD), -float(THRESHOLD)], dtype=torch.float64),
            ),
            code=None,
            scores=True,
        ),
        layout=_LAYOUT,
        numbers=system,
    )
    return Witness(
        task=task, theorem="R-M3", family="third-order", variant="", model=model, claims=_claims("R-M3")
    )


def gap(modulus: int, system: NumberSystem, *, order: int) -> Fraction:
    """What rounding leaves of sin²(π/M), the distance of the dummy's logit from either side, at scale 1.

    The points, the queries, the keys and the logits of both sides are rounded; relative to the scale that is
    a few units of the last place. Where nothing is left, the arithmetic cannot tell 0 from its neighbours.
    """
    exact = Fraction(math.sin(math.pi / modulus) ** 2)
    if isinstance(system, FixedPoint):
        lost = 6 * order * system.smallest
    elif isinstance(system, Float32):
        lost = Fraction(28 if order == 2 else 74, 2**24)
    else:
        # The stored points are float64 themselves, so here their own error counts too.
        lost = Fraction(48 if order == 2 else 120, 2**53)
    if exact <= lost * Fraction(6, 5):
        most = math.isqrt(int(Fraction(986, 120) / lost))
        raise InvalidInput(
            f"Residues modulo {modulus} lie so close on the circle that "
            f"{name_of(system)} cannot tell a match from a "
            f"near miss; take a modulus up to about {most}, or more bits."
        )
    return exact - lost


def dummy_level(modulus: int) -> Fraction:
    """θ = (1 + cos(2π/M))/2, written so that nothing cancels."""
    return Fraction(math.cos(math.pi / modulus) ** 2)


def dummy_field(program: Program) -> Field:
    """A flag that only an element of the model's own has; the element is added."""
    field = Field(name="dummy", dim=1, low=Fraction(0), high=Fraction(1), note="1 at the dummy alone")
    program.sources.append(FlagSource(field=field, values={}))
    program.element({field: (1,)})
    return field


def mirrored(point: Field) -> Linear:
    """(c, −s): the point of the negative."""
    return (1 * point).through(
        np.array([[Fraction(1), Fraction(0)], [Fraction(0), Fraction(-1)]], dtype=object)
    )


def _refuse_distinct(distinct: bool, itself: str) -> None:
    if distinct:
        raise InvalidInput(
            "This unit sees what the numbers are and not where they stand, so a position also matches itself "
            f"where {itself}; got distinct=True. Try distinct=False."
        )


def _rows(*rows: _Row) -> Float[Tensor, "row width"]:
    matrix = torch.zeros(len(rows), 4, dtype=torch.float64)
    for place, row in enumerate(rows):
        for coordinate, value in row.items():
            matrix[place, coordinate] = value
    return matrix


def _circle_inputs(modulus: int) -> TokenInputs:
    """Points of the circle, a 1, and the flag of the dummy, which stands behind the row."""
    return TokenInputs(
        classes=(
            TokenClass(
                name="residue",
                first=0,
                count=modulus,
                code=Circle(modulus=modulus),
                matrix=_rows({_COSINE: 1}, {_SINE: 1}).T.contiguous(),
                bias=_rows({_ONE: 1})[0],
                tracks={},
            ),
        ),
        position_tracks=(),
        pad=None,
        own=_rows({_ONE: 1, _DUMMY: 1}),
    )


_LAYOUT: Final = Layout(
    slots=(
        Slot(name="point", start=_COSINE, stop=_SINE + 1, since=0, note="cosine and sine of 2πz/M"),
        Slot(name="one", start=_ONE, stop=_ONE + 1, since=0, note="the constant 1"),
        Slot(name="dummy", start=_DUMMY, stop=_DUMMY + 1, since=0, note="1 at the dummy alone"),
    ),
    heads=(("the weight of all pairs of numbers, where cos 2π(z_i + z_j + z_k)/M is largest",),),
)


def _claims(source: str) -> tuple[Claim, ...]:
    return (
        Claim(
            name="weight of tuples without a match",
            statement="where nothing matches, all tuples of numbers have less than this weight",
            relation="<",
            threshold=THRESHOLD,
            unit="of the attention",
            source=source,
        ),
        Claim(
            name="weight of tuples with a match",
            statement="where something matches, the tuples of numbers have more than this weight",
            relation=">",
            threshold=THRESHOLD,
            unit="of the attention",
            source=source,
        ),
    )
