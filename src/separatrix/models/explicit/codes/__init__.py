"""Codes: how whole numbers (symbols, positions) become vectors without a table."""

from __future__ import annotations

from separatrix.models.explicit.codes.bch import ExtendedBCH
from separatrix.models.explicit.codes.binary import Binary
from separatrix.models.explicit.codes.interface import Code, SignCode
from separatrix.models.explicit.codes.plain import Circle, Digits, Ladder, OneHot, Reciprocal
from separatrix.models.explicit.codes.random_sign import RandomSign, dimension_needed
from separatrix.models.explicit.codes.reading import code_from
from separatrix.models.explicit.codes.squares import Squares
from separatrix.models.explicit.codes.written import BlockCode, Parabola

__all__ = [
    "Binary",
    "BlockCode",
    "Circle",
    "Code",
    "Digits",
    "ExtendedBCH",
    "Ladder",
    "OneHot",
    "Parabola",
    "RandomSign",
    "Reciprocal",
    "SignCode",
    "Squares",
    "code_from",
    "dimension_needed",
]
