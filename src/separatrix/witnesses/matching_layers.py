"""Triple matching by one layer of standard units: in a window with one head, in a whole row with many."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.evidence import Claim
from separatrix.models.explicit.codes import Ladder, OneHot, RandomSign, SignCode
from separatrix.models.explicit.duals import DUAL_ERROR
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.inputs import TokenClass, TokenInputs
from separatrix.models.explicit.layers import Layer
from separatrix.models.explicit.layout import Layout, Slot
from separatrix.models.explicit.positions import Own, Track
from separatrix.models.explicit.transformer import UnmaskedTransformer
from separatrix.models.explicit.windows import WindowInputs, window_duals
from separatrix.precision import NumberSystem, name_of
from separatrix.tasks.match3 import Match3
from separatrix.witnesses._triples import decider, yes_or_no
from separatrix.witnesses.choices import Choices
from separatrix.witnesses.language import Rival, address_rivals
from separatrix.witnesses.language.scales import least_scale
from separatrix.witnesses.witness import Witness

__all__ = ["match3_local", "match3_wide"]

_NOISE: Final = Fraction(1, 32)
"""What attention may add to a gathered number; a quarter is borne by all three of a sum."""
_LARGEST_PRODUCT: Final = Fraction(3, 4)
_SEEDS: Final = 8


class _Stream:
    """Names for the coordinates of a stream, handed out one block after another."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.width = 0

    def take(self, name: str, dim: int, since: int, note: str) -> range:
        block = range(self.width, self.width + dim)
        self.slots.append(Slot(name=name, start=block.start, stop=block.stop, since=since, note=note))
        self.width += dim
        return block

    def placed(self, block: range) -> Float[Tensor, "width dim"]:
        """The matrix that copies numbers into a block."""
        matrix = torch.zeros(self.width, len(block), dtype=torch.float64)
        matrix[block.start : block.stop] = torch.eye(len(block), dtype=torch.float64)
        return matrix


def match3_wide(task: Match3, choices: Choices) -> Witness:
    """n heads, one for each position: every position gathers the whole row and decides by itself.

    Head h has the constant query αT(h), where T(h) is the address of place h, so it returns the number z_h,
    off by at most M times the weight of all other places; α is the least scale at which that is below 1/32.
    With its own number, which the residual keeps, a position has all it needs, and the feed-forward map
    looks at every pair: n(n + 1)/2 groups of six units, and a unit for each pair in the layer behind.

    H·m = n·⌈log n⌉ with binary addresses. The price is in the feed-forward map, 3n² units in its first hidden
    layer and of order n⁴ stored weights, nearly all of them 0; R allows any map there. With `distinct` a
    position also knows its place, in n coordinates, and bars the pairs that hold it.
    """
    if task.variant != "full":
        raise InvalidInput(
            f"Gathering the whole row does the variant full of match3; got variant={task.variant!r}."
        )
    n, modulus, system = task.n, task.residues, choices.system
    code = choices.code(n)
    stream = _Stream()
    number = stream.take("number", 1, 0, "the number itself")
    one = stream.take("one", 1, 0, "the constant 1")
    address = stream.take("address", code.dim, 0, f"{type(code).__name__} of the place")
    place = stream.take("place", n, 0, "a 1 at the own place") if task.distinct else range(0)
    row = stream.take("row", n, 1, "the numbers of all places")
    psi = decider(
        width=stream.width,
        number=number[0],
        slots=[(coordinate, 1.0) for coordinate in row],
        modulus=modulus,
        barred=dict(enumerate(place)) if task.distinct else None,
    )
    scale = least_scale(address_rivals(code), _NOISE / (modulus + 1), system)
    _refuse_overflow(task, system, max(scale * code.dim, Fraction(16 * modulus)))
    heads = []
    for asked in range(n):
        query = torch.zeros(code.dim, stream.width, dtype=torch.float64)
        query[:, one[0]] = float(scale) * code.rows(torch.tensor([asked]))[0]
        heads.append(
            Head(query=query, key=stream.placed(address).T.clone(), value=stream.placed(number).T.clone())
        )
    tracks = [Track(name="address", rule=Own(), code=code)]
    matrices = {"address": stream.placed(address)}
    if task.distinct:
        tracks.append(Track(name="place", rule=Own(), code=OneHot(count=n)))
        matrices["place"] = stream.placed(place)
    model = UnmaskedTransformer(
        inputs=TokenInputs(
            classes=(
                TokenClass(
                    name="residue",
                    first=0,
                    count=modulus,
                    code=Ladder(count=modulus),
                    matrix=stream.placed(number),
                    bias=stream.placed(one)[:, 0],
                    tracks=matrices,
                ),
            ),
            position_tracks=tuple(tracks),
            pad=None,
            own=torch.zeros(0, stream.width, dtype=torch.float64),
        ),
        layers=(
            Layer(
                heads=tuple(heads),
                output=stream.placed(row),
                attention_residual=True,
                feed_forward=psi,
                feed_forward_residual=False,
            ),
        ),
        readout=yes_or_no(),
        layout=Layout(
            slots=tuple(stream.slots),
            heads=(tuple(f"row {asked} ← number, at place {asked}" for asked in range(n)),),
        ),
        numbers=system,
    )
    return Witness(
        task=task,
        theorem="UP-M3",
        family="transformer-1",
        variant="",
        model=model,
        claims=_claims("UP-M3"),
    )


def match3_local(task: Match3, choices: Choices) -> Witness:
    """One head over the window: 2T + 1 numbers arrive in as many coordinates, and the position decides.

    It is sparse averaging with q = 2T + 1. The number at place i is held in coordinate i mod (2T + 1), but
    for a shift, so the mean over the window of i is z_j/(2T + 1) in a coordinate for each j in it. A window
    has a vector whose product with the addresses of its places is k, and at most ρk with all others. Only n
    sets occur, and the addresses are random signs, the fewest for which a search finds ρ ≤ ¾ on all of them.
    Beyond either end of the row stand T elements of the model's own that hold −2M, so that a sum with them is
    negative and no match. α makes the numbers come out right to 1/32; then the feed-forward map looks at all
    pairs of the 2T + 1 as in the construction for whole rows.

    Inner width k, found to be a small multiple of T, and stream width 2k + 4T + 3 or so. With `distinct` the
    pairs that hold the position itself are barred.
    """
    if task.variant != "local":
        raise InvalidInput(
            f"Gathering a window does the variant local of match3; got variant={task.variant!r}."
        )
    n, modulus, system = task.n, task.residues, choices.system
    reach = min(task.window, n - 1)
    window = 2 * reach + 1
    code, product = _addresses(n, reach)
    stream = _Stream()
    number = stream.take("number", 1, 0, "the number itself")
    held = stream.take("held", window, 0, "the number, in the coordinate of its place modulo 2T + 1")
    address = stream.take("address", code.dim, 0, "random signs of the place")
    wanted = stream.take("wanted", code.dim, 0, "the vector of the window")
    phase = stream.take("phase", window, 0, "a 1 at the place modulo 2T + 1") if task.distinct else range(0)
    seen = stream.take("seen", window, 1, "the numbers of the window, divided by 2T + 1")
    psi = decider(
        width=stream.width,
        number=number[0],
        slots=[(coordinate, float(window)) for coordinate in seen],
        modulus=modulus,
        barred=dict(enumerate(phase)) if task.distinct else None,
    )
    leak = _NOISE / (3 * modulus * window)
    rivals = [Rival(gap=1 - product - 2 * DUAL_ERROR, count=max(1, -(-n // window)))]
    scale = least_scale(rivals, leak, system)
    _refuse_overflow(task, system, max(2 * scale * window, Fraction(16 * modulus * window)))
    own = torch.zeros(2 * reach, stream.width, dtype=torch.float64)
    outside = torch.cat([torch.arange(reach), torch.arange(n + reach, n + 2 * reach)])
    own[:, address.start : address.stop] = code.rows(outside)
    own[torch.arange(2 * reach), held.start + outside % window] = -2.0 * modulus
    model = UnmaskedTransformer(
        inputs=WindowInputs(
            code=code,
            places=n,
            reach=reach,
            number=stream.placed(number),
            slots=stream.placed(held),
            phase=stream.placed(phase) if task.distinct else torch.zeros(stream.width, window).double(),
            address=stream.placed(address),
            wanted=stream.placed(wanted),
            bias=torch.zeros(stream.width, dtype=torch.float64),
            own=own,
        ),
        layers=(
            Layer(
                heads=(
                    Head(
                        query=stream.placed(wanted).T * float(scale / code.dim),
                        key=stream.placed(address).T.clone(),
                        value=stream.placed(held).T.clone(),
                    ),
                ),
                output=stream.placed(seen),
                attention_residual=True,
                feed_forward=psi,
                feed_forward_residual=False,
            ),
        ),
        readout=yes_or_no(),
        layout=Layout(
            slots=tuple(stream.slots),
            heads=(("seen ← held, the mean where ⟨wanted, address⟩ is largest",),),
        ),
        numbers=system,
    )
    return Witness(
        task=task,
        theorem="R-M3′",
        family="transformer-1",
        variant="local",
        model=model,
        claims=_claims("R-M3′"),
    )


def _addresses(n: int, reach: int) -> tuple[SignCode, Fraction]:
    """The first and narrowest random signs whose windows have no larger products outside than allowed."""
    count = n + 2 * reach
    members = torch.arange(n).unsqueeze(1) + torch.arange(2 * reach + 1)
    for dim in _widths(2 * reach + 1):
        for seed in range(_SEEDS):
            code = RandomSign(count=count, dim=dim, seed=seed)
            try:
                vectors = window_duals(code, n, reach)
            except InvalidInput:
                continue
            products = (vectors @ code.rows(torch.arange(count)).T).scatter(1, members, -float(dim))
            worst = Fraction(float(products.max())) / dim
            if worst <= _LARGEST_PRODUCT:
                return code, max(worst, Fraction(0))
    raise InvalidInput(
        f"No random signs were found that tell windows of {2 * reach + 1} among {n} places apart; take a "
        "smaller window or a shorter row."
    )


def _widths(members: int) -> Iterator[int]:
    width = -(-(members + 4) // 8) * 8
    while width <= 1 << 12:
        yield width
        width += max(8, width // 32 * 8)


def _refuse_overflow(task: Match3, system: NumberSystem, largest: Fraction) -> None:
    if largest > system.largest:
        raise InvalidInput(
            f"match3 with n={task.n} and M={task.residues} needs numbers up to about {float(largest):.3g}, "
            f"and {name_of(system)} ends at {float(system.largest):.3g}; take a smaller M or more bits."
        )


def _claims(source: str) -> tuple[Claim, ...]:
    return (
        Claim(
            name="error of a sum of three",
            statement="every pair's sum with the asking number is computed with less than this error",
            relation="<",
            threshold=Fraction(1, 2),
            unit="of the distance between whole numbers",
            source=source,
        ),
    )
