"""UP-TF1: one layer of linear width that gathers every symbol and lets the feed-forward map decide.

What the lower bounds ask of one layer is enough. A token writes a few numbers at coordinates of its own
place, one head attends uniformly, and its mean over L positions holds every symbol of the input, divided by
L; what lies behind the end is 0. One more coordinate is 1 at the first place only: its mean is 1/L itself.

All three decisions are of one kind. There are linear counts, whole numbers for every input, such that an
input is wrong iff some count is at least 1. A unit of the feed-forward map is ReLU(2·count − 1), divided by L
like everything else: exactly 0 for every unit if nothing is wrong, since 2·count − 1 ≤ −1 leaves room for
rounding, and at least 1/L for some unit if something is. The readout compares 4n times the sum of the units
with 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.errors import InvalidInput, TooLarge
from separatrix.evidence import Claim
from separatrix.models.explicit.codes import Digits, OneHot
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.inputs import TokenClass, TokenInputs
from separatrix.models.explicit.layers import Layer, Readout
from separatrix.models.explicit.layout import Layout, Slot
from separatrix.models.explicit.linear import Affine, FeedForward
from separatrix.models.explicit.placed import Placed
from separatrix.models.explicit.positions import Halves, Own, Track
from separatrix.models.explicit.transformer import CausalTransformer, UnmaskedTransformer
from separatrix.precision import FixedDown, FixedPoint, NumberSystem, name_of
from separatrix.tasks.disjointness import Disjointness
from separatrix.tasks.dyck import Dyck
from separatrix.tasks.equality import Equality
from separatrix.tasks.interface import TokenTask
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.witness import Witness

__all__ = ["disjointness_linear", "dyck_linear", "equality_linear"]

_SOURCE: Final = "UP-TF1"
_MOST_PARAMETERS: Final = 1 << 26
_ONE_OVER_LENGTH: Final = 0  # the coordinate whose mean is 1/L; the symbols' blocks follow it


def dyck_linear(task: Dyck, choices: Choices) -> Witness:
    """Dyck-(types, 2) and Dyck-(types, 1) at every even length up to n.

    Place p holds a_p = 1 + type if its bracket opens, else 0, and z_p the same if it closes. With depth at
    most 2 every prefix of odd length has depth exactly 1, so behind the first bracket come pairs of places
    (p, p+1), p odd, that open and close one bracket on level 2, or close one on level 1 and open the next;
    the last place closes level 1. In a member therefore

        z_0 = 0,   a_p = z_{p+1},   and z_p = τ_p where a_p = 0,

    with τ_p = a_0 + Σ_{q odd, q < p} (a_{q+1} − z_q), the type that is open on level 1. Read from left to
    right: as long as the conditions hold, τ_p is that type, so the first bracket that does not fit breaks
    one of them: as the first, as the second of a pair, or as a closing one on level 1. A string that ends
    too deep has a_p > 0 at its last place and nothing behind it. Behind the end everything is 0, τ included.
    The counts are z_0, ±(a_p − z_{p+1}), and ±(z_p − τ_p) − types·a_p, which is at most 0 where p opens. At
    depth 1 the pair's count is a_p + z_{p+1}: neither may happen.

    Width 2n + 1, and 2n units or, at depth 1, 3n/2 + 1.
    """
    deepest = min(task.depth, task.n // 2)
    if task.form != "recognise" or deepest > 2:
        raise InvalidInput(
            "The one-layer construction of linear size recognises Dyck of depth 1 or 2; "
            f"got depth={task.depth} in the form {task.form}. Try depth=2."
        )
    n, types = task.n, task.types
    width = 1 + 2 * n
    _require_room(task, parameters=2 * width**2 + 2 * n * width)
    opens, closes = torch.arange(1, width, 2), torch.arange(2, width, 2)
    first, pair, level = torch.zeros(1, width), torch.zeros(n // 2, width), torch.zeros(n // 2, width)
    first[0, closes[0]] = 1
    level[:, opens[0]] = -1
    for row, place in enumerate(range(1, n, 2)):
        pair[row, opens[place]] = 1
        level[row, closes[place]] = 1
        if place + 1 < n:
            pair[row, closes[place + 1]] = 1 if deepest == 1 else -1
            level[row + 1 :, opens[place + 1]] = -1
            level[row + 1 :, closes[place]] += 1
    held = torch.zeros(n // 2, width)
    held[torch.arange(n // 2), opens[1::2]] = types
    pairs = [pair] if deepest == 1 else [pair, -pair[:-1]]
    counts = torch.cat([first, *pairs, level - held, -level - held])
    numbers = torch.arange(2 * types) // 2 + 1
    shown = torch.stack([numbers * (torch.arange(2 * types) % 2 == side) for side in (0, 1)])
    block = Placed(rule=Own(), count=n, start=1, matrix=shown.double())
    inputs = TokenInputs(
        classes=(_symbols("bracket", OneHot(count=2 * types), 2 * types, width, block),),
        position_tracks=(_first_place(),),
        pad=None,
        own=torch.zeros(0, width).double(),
    )
    gathered = _Gathered(inputs=inputs, value=torch.eye(width).double(), counts=counts.double())
    return _witness(task, gathered, choices, least=torch.zeros(len(counts)), wrong_class=0, causal=True)


def equality_linear(task: Equality, choices: Choices) -> Witness:
    """Equality of two strings over any alphabet, at every length up to n.

    Digit d of the i-th symbol of w stands at a coordinate of its own, and that of w′ at another; places know
    in which half they are and how far from its start. The head's value takes the second from the first, so
    it gathers the differences, and the counts are these and their negatives.

    Width b·n + 1 for symbols of b digits, inner width b·n/2 + 1, and b·n units.
    """
    if task.form == "ncp" or task.alice is not None:
        raise InvalidInput(
            "The one-layer construction of linear size compares two halves, in the forms random and one; "
            f"got form={task.form!r}{'' if task.alice is None else ' with places of its own'}. "
            "Try form='random'."
        )
    code = Digits(count=task.symbols)
    atoms = task.n // 2 * code.dim
    _require_room(task, parameters=(1 + atoms) * (2 + 2 * atoms + atoms + 1 + 2 * atoms))
    block = Placed(
        rule=Halves(second=task.n // 2, between=1), count=task.n, start=1, matrix=torch.eye(code.dim).double()
    )
    width = 1 + 2 * atoms
    separator = TokenClass(
        name="separator",
        first=task.symbols,
        count=1,
        code=None,
        matrix=torch.zeros(width, 0).double(),
        bias=torch.zeros(width).double(),
        tracks={},
    )
    inputs = TokenInputs(
        classes=(_symbols("symbol", code, task.symbols, width, block), separator),
        position_tracks=(_first_place(),),
        pad=task.vocabulary.pad,
        own=torch.zeros(0, width).double(),
    )
    differences = torch.nn.functional.pad(torch.eye(atoms), (1, 0))
    counts = torch.cat([differences, -differences]).double()
    gathered = _Gathered(inputs=inputs, value=_folded(atoms, -1.0), counts=counts)
    return _witness(task, gathered, choices, least=torch.zeros(2 * atoms), wrong_class=0, causal=False)


def disjointness_linear(task: Disjointness, choices: Choices) -> Witness:
    """Disjointness at every even length up to n: as equality, but the value adds what stands in both halves.

    "Wrong" here means that the sets meet: the counts are a_i + b_i − 1. Width n + 1, inner width n/2 + 1,
    and n/2 units.
    """
    atoms = task.n // 2
    _require_room(task, parameters=(1 + atoms) * (2 + 2 * atoms + atoms + 1 + atoms))
    width = 1 + task.n
    block = Placed(rule=Halves(second=atoms), count=task.n, start=1, matrix=torch.ones(1, 1).double())
    inputs = TokenInputs(
        classes=(_symbols("bit", Digits(count=2), 2, width, block),),
        position_tracks=(_first_place(),),
        pad=None,
        own=torch.zeros(0, width).double(),
    )
    sums = torch.nn.functional.pad(torch.eye(atoms), (1, 0)).double()
    gathered = _Gathered(inputs=inputs, value=_folded(atoms, 1.0), counts=sums)
    return _witness(task, gathered, choices, least=torch.ones(atoms), wrong_class=1, causal=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Gathered:
    """The input map, what the head makes of its values, and the counts of what it gathers."""

    inputs: TokenInputs
    value: Float[Tensor, "inner width"]
    counts: Float[Tensor, "unit inner"]


def _symbols(name: str, code: Digits | OneHot, count: int, width: int, block: Placed) -> TokenClass:
    """Tokens that write at their place, and nothing else but the 1 of the first place."""
    here = torch.zeros(width, 1).double()
    here[_ONE_OVER_LENGTH, 0] = 1
    return TokenClass(
        name=name,
        first=0,
        count=count,
        code=code,
        matrix=torch.zeros(width, code.dim).double(),
        bias=torch.zeros(width).double(),
        tracks={"first place": here},
        placed=block,
    )


def _first_place() -> Track:
    return Track(name="first place", rule=Own(), code=OneHot(count=1))


def _folded(atoms: int, sign: float) -> Float[Tensor, "inner width"]:
    """1/L as it is, and what stands in the first half plus `sign` times what stands in the second."""
    value = torch.zeros(1 + atoms, 1 + 2 * atoms).double()
    value[_ONE_OVER_LENGTH, _ONE_OVER_LENGTH] = 1
    value[1:, 1 : 1 + atoms] = torch.eye(atoms)
    value[1:, 1 + atoms :] = sign * torch.eye(atoms)
    return value


def _require_room(task: TokenTask, *, parameters: int) -> None:
    if parameters > _MOST_PARAMETERS:
        smaller = int(task.n * (_MOST_PARAMETERS / parameters) ** 0.5) // 2 * 2
        raise TooLarge(
            f"{task.name} with n={task.n} in one layer of linear width has about {parameters:,} parameters; "
            f"at most {_MOST_PARAMETERS:,} are built. Try n={max(smaller, 2)}."
        )


def _witness(
    task: Dyck | Equality | Disjointness,
    gathered: _Gathered,
    choices: Choices,
    *,
    least: Float[Tensor, "unit"],
    wrong_class: int,
    causal: bool,
) -> Witness:
    """A unit for each count, ReLU(2·(count − least) − 1), and the comparison of their sum with 1/4n."""
    _require_precision(task, choices.system)
    inner, width = gathered.value.shape
    units = 2 * gathered.counts
    units[:, _ONE_OVER_LENGTH] -= 2 * least + 1
    score = torch.full((1, len(units)), 4.0 * task.length, dtype=torch.float64)
    sign = 1.0 if wrong_class == 0 else -1.0
    nothing = torch.zeros(1, width).double()
    layer = Layer(
        heads=(Head(query=nothing, key=nothing.clone(), value=gathered.value),),
        output=torch.eye(inner).double(),
        attention_residual=False,
        feed_forward=FeedForward(
            maps=(
                Affine(matrix=units, bias=torch.zeros(len(units)).double()),
                Affine(matrix=score, bias=torch.zeros(1).double()),
            )
        ),
        feed_forward_residual=False,
    )
    readout = Readout(
        map=Affine(
            matrix=torch.tensor([[sign], [-sign]]).double(), bias=torch.tensor([-sign, sign]).double()
        ),
        code=None,
        scores=True,
    )
    slots = (
        Slot(name="1/length", start=0, stop=1, since=0, note="1 at the first place, 0 elsewhere"),
        Slot(name="symbols", start=1, stop=width, since=0, note="each place writes in its own block"),
        Slot(name="wrong", start=0, stop=1, since=1, note="0, or at least 4 where a count is positive"),
    )
    kind = CausalTransformer if causal else UnmaskedTransformer
    model = kind(
        inputs=gathered.inputs,
        layers=(layer,),
        readout=readout,
        layout=Layout(slots=slots, heads=(("every symbol at its own place, the mean over all positions",),)),
        numbers=choices.system,
    )
    return Witness(
        task=task,
        theorem=_SOURCE,
        family="transformer-1",
        variant="linear size",
        model=model,
        claims=_claims(),
    )


def _require_precision(task: TokenTask, system: NumberSystem) -> None:
    """In fixed point the weight of one position must not be rounded away, nor 4n be out of reach."""
    if not isinstance(system, FixedPoint):
        return
    step, share = Fraction(system.smallest), Fraction(1, task.length)
    weight = step * (share // step if isinstance(system, FixedDown) else round(share / step))
    factor = 4 * task.length
    if weight * factor <= 1 or factor > system.largest:
        raise InvalidInput(
            f"{task.name} with n={task.n} needs numbers up to {factor} and the weight 1/{task.length}; "
            f"{name_of(system)} ends at {float(system.largest):.3g} in steps of {float(step):.3g}. "
            "Take a smaller n or more bits."
        )


def _claims() -> tuple[Claim, ...]:
    """What the proof shows, in the units' own measure, the weight of one position."""
    unit = "weights of a position"
    return (
        Claim(
            name="units where nothing is wrong",
            statement="on every input without a fault every unit is at most this before its ReLU",
            relation="<=",
            threshold=Fraction(0),
            unit=unit,
            source=_SOURCE,
        ),
        Claim(
            name="units where something is wrong",
            statement="on every input with a fault some unit is at least this",
            relation=">",
            threshold=Fraction(0),
            unit=unit,
            source=_SOURCE,
        ),
        Claim(
            name="lead of the right answer",
            statement="on every input the right answer's score exceeds the other one",
            relation=">",
            threshold=Fraction(0),
            unit="score",
            source=_SOURCE,
        ),
    )
