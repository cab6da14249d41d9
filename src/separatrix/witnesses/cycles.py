"""R-G: is a vertex on a directed 3-cycle, or an undirected 5-cycle? One graph unit of that order."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import torch

from separatrix.errors import InvalidInput
from separatrix.evidence import Claim
from separatrix.models.explicit.graph_unit import GraphUnit
from separatrix.models.explicit.layers import Readout
from separatrix.models.explicit.linear import Affine
from separatrix.precision import NumberSystem, name_of
from separatrix.tasks.cycle3 import Cycle3
from separatrix.tasks.cycle5 import Cycle5
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.language.operations import Rival
from separatrix.witnesses.language.scales import least_scale
from separatrix.witnesses.witness import Witness

__all__ = ["cycle3", "cycle5"]

_THRESHOLD: Final = Fraction(1, 4)
_GAP: Final = Fraction(1, 2)


def cycle3(task: Cycle3, choices: Choices) -> Witness:
    """One graph unit of order three: a vertex attends to all pairs by the edges of the triangle through them.

    The logit of (j, k) at i is β(A_ij + A_jk + A_ki − 2½): β/2 on a cycle, at most −β/2 elsewhere, and the
    dummy has 0. Pairs have the value 1 and the dummy 0, so the unit returns the weight of all pairs. Without
    a cycle that is at most n²·e^(−β/2); with one at least 1 − e^(−β/2), whatever the other pairs weigh. β is
    the least scale at which the first is below ⅛, and the readout asks whether the weight exceeds ¼. (In
    fixed point c cycles share weights 1/c rounded down, which still add up to more than ½.)

    The gap is β/2 on either side of the dummy. There are eleven weights, the same for every n but β.
    """
    return _witness(task, order=3, variant="graph unit of order 3", choices=choices)


def cycle5(task: Cycle5, choices: Choices) -> Witness:
    """The same in order five: over quadruples, κ = β(Σ of the five edges − 4½), and n⁴ in place of n².

    It finds closed walks of five steps, which is what the formula in R says. Walks that meet a vertex twice
    look no different to κ, so the reading in which the five vertices differ is refused.
    """
    if task.distinct:
        raise InvalidInput(
            "A graph unit of order 5 finds closed walks of five steps and cannot see whether two of the "
            "vertices are the same one; got distinct=True. Try distinct=False."
        )
    return _witness(task, order=5, variant="graph unit of order 5", choices=choices)


def _witness(task: Cycle3 | Cycle5, *, order: int, variant: str, choices: Choices) -> Witness:
    tuples = task.n ** (order - 1)
    scale = _scale(tuples, order, choices.system)
    model = GraphUnit(
        kernel=Affine(
            matrix=torch.full((1, order), float(scale), dtype=torch.float64),
            bias=torch.tensor([-float(scale * (order - _GAP))], dtype=torch.float64),
        ),
        value=torch.ones(1, dtype=torch.float64),
        dummy_logit=torch.zeros(1, dtype=torch.float64),
        dummy_value=torch.zeros(1, dtype=torch.float64),
        readout=Readout(
            map=Affine(
                matrix=torch.tensor([[-1.0], [1.0]], dtype=torch.float64),
                bias=torch.tensor([float(_THRESHOLD), -float(_THRESHOLD)], dtype=torch.float64),
            ),
            code=None,
            scores=True,
        ),
        numbers=choices.system,
    )
    return Witness(
        task=task,
        theorem="R-G",
        family="third-order",
        variant=variant,
        model=model,
        claims=(
            Claim(
                name="weight of tuples off every cycle",
                statement="where a vertex is on no cycle, all tuples together have less than this weight",
                relation="<",
                threshold=_THRESHOLD,
                unit="of the attention",
                source="R-G",
            ),
            Claim(
                name="weight of tuples on a cycle",
                statement="where a vertex is on a cycle, the tuples have more than this weight",
                relation=">",
                threshold=_THRESHOLD,
                unit="of the attention",
                source="R-G",
            ),
        ),
    )


def _scale(tuples: int, order: int, system: NumberSystem) -> Fraction:
    """β: tuples that miss an edge stay β/2 below the dummy and weigh at most half of the threshold."""
    scale = least_scale([Rival(gap=_GAP, count=tuples)], _THRESHOLD / 2, system)
    if scale * order > system.largest:
        raise InvalidInput(
            f"A graph unit for {tuples:,} tuples needs logits of about {float(scale * order):.4g}, and "
            f"{name_of(system)} ends at {float(system.largest):.4g}; take more bits."
        )
    return scale
