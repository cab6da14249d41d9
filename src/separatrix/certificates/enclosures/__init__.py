"""Enclosures of computed results: what any run of an arithmetic can give, for all inputs in a box.

    rounding = rounding_of(Float32())                    # or FixedDown(...), FixedNearest(...); or real()
    weights = rounding.encode(Box.exact(matrix))         # a float64 tensor, ints, Fractions: read exactly
    x = Box.between(low, high)                           # computed numbers, each in its interval
    y = rounding.relu(rounding.affine(x, weights, bias)) # encloses every result the arithmetic can compute
    head = attend(rounding, [
        KeyGroup(logit=Box.exact(12), value=winner),                           # one key
        KeyGroup(logit=Box.between(0, 2), value=losers, least=0, most=2**60),  # never expanded
    ])
    head.output, head.weights                            # boxes (width,) and (group,)
    rounding.error_model()                               # sentences that say what is assumed

`Box` is an array of intervals with exact rational ends (`flint.fmpq`): `exact`, `between`, `union` (of boxes,
element by element), `hull` (along an axis), `concatenate`, `stack`, indexing, `reshape`, `contains`, `width`,
`magnitude`, `+`, `-`, `scaled`, `sum` without rounding, `interval` and `intervals` as evidence.

A `Rounding` has `encode`, `add`, `subtract`, `multiply`, `divide`, `exp`, `relu`, `maximum`, `affine`, `dot`
and `attend`. A result that may overflow a float raises `Unbounded`. Operands are computed numbers: encode
weights first. Operations forget how their operands are correlated, but `attend` knows that softmax weights
are parts of a whole, and that tied or lone keys of a group share a logit.
"""

from fractions import Fraction

from separatrix.certificates.enclosures.attention import attend, loser_mass
from separatrix.certificates.enclosures.boxes import Box
from separatrix.certificates.enclosures.fixed_rounding import FixedRounding
from separatrix.certificates.enclosures.float_rounding import FloatRounding
from separatrix.certificates.enclosures.floats import FloatFormat
from separatrix.certificates.enclosures.key_groups import Attended, KeyGroup
from separatrix.certificates.enclosures.real_rounding import RealRounding
from separatrix.certificates.enclosures.rounding import Rounding, Unbounded
from separatrix.errors import InvalidInput
from separatrix.precision import FixedDown, FixedNearest, FixedPoint, Float32, Float64, NumberSystem

__all__ = [
    "Attended",
    "Box",
    "FixedRounding",
    "FloatRounding",
    "KeyGroup",
    "RealRounding",
    "Rounding",
    "Unbounded",
    "attend",
    "loser_mass",
    "real",
    "rounding_of",
]


def rounding_of(system: NumberSystem) -> Rounding:
    """How the system's results relate to the exact ones."""
    match system:
        case Float32():
            return FloatRounding(form=FloatFormat("binary32", digits=24, least=-149, top=128))
        case Float64():
            return FloatRounding(form=FloatFormat("binary64", digits=53, least=-1074, top=1024))
        case FixedDown():
            return FixedRounding(system=system, most_down=Fraction(1), most_up=Fraction(0))
        case FixedNearest():
            return FixedRounding(system=system, most_down=Fraction(1, 2), most_up=Fraction(1, 2))
        case FixedPoint():
            return FixedRounding(system=system, most_down=Fraction(1), most_up=Fraction(1))
    raise InvalidInput(f"No enclosures are known for {system}; use fixed point, Float32 or Float64.")


def real() -> Rounding:
    """Exact real arithmetic."""
    return RealRounding()
