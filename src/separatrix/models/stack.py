"""The frame most architectures share: embed, pass through blocks one after another, normalise, read out.

A block is a mixer, which moves information between positions, and mostly a feed-forward map behind it. An
architecture is a mixer and its way of putting blocks together.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from separatrix.accounting import StatePart
from separatrix.errors import InvalidInput
from separatrix.models.kernels.table_rows import table_rows
from separatrix.models.laws import constant, fixed, normal
from separatrix.models.members import Linear, MemberModule, linear, taken
from separatrix.models.population import CausalPopulation, ModelConfig, Population, Signature, State
from separatrix.models.seams import places_in
from separatrix.options import option, require
from separatrix.tasks.interface import Classes, Reals, Tokens

__all__ = [
    "Block",
    "Frame",
    "Mixer",
    "Mixing",
    "Reading",
    "SeamedStack",
    "Stack",
    "StackConfig",
    "sinusoidal_table",
]


@dataclass(frozen=True, kw_only=True)
class StackConfig(ModelConfig):
    """What every stack of blocks lets one choose."""

    embedding: Literal["learned", "frozen", "sinusoidal"] = option(
        "learned", help="token table: trained, random and frozen, or sines and frozen (W)"
    )
    tied: bool = option(False, help="read answers out with the token table itself (W)")


class Mixing(MemberModule, ABC):
    """What moves information between positions."""

    @property
    def seam(self) -> int | None:
        """Positions that it needs between two inputs of a row to keep them apart; None where it cannot."""
        return None

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "member batch pos width"], at: Int[Tensor, "member batch label"] | None = None
    ) -> Float[Tensor, "member batch label width"]:
        """What each of the positions `at` receives; without them, every position.

        Who has a `seam` also takes `begins`, the position in each row from which on there is a second input;
        without it a seam does not count.
        """


class Mixer(Mixing):
    """What moves information from left to right, with a state to go on from."""

    @abstractmethod
    def start(self, batch: int, like: Tensor) -> State:
        """The state before the first position, on the device and in the type of `like`."""

    @abstractmethod
    def step(
        self, x: Float[Tensor, "member batch width"], state: State
    ) -> tuple[Float[Tensor, "member batch width"], State]:
        """What the next position receives, and the state after it."""

    @abstractmethod
    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """What one member carries from position to position."""

    def reserve(self, state: State, positions: int) -> State:
        """The same state, with room for so many more positions where it grows by them."""
        return state


class Block(MemberModule):
    """x + mixer(norm x), then x + map(norm x) where there is a map."""

    def __init__(
        self, mixer: Mixing, norm: nn.Module, feed_forward: nn.Module | None, second: nn.Module | None
    ) -> None:
        """`norm` stands before the mixer, `second` before the feed-forward map."""
        super().__init__(mixer.members)
        self.mixer, self.norm, self.feed_forward, self.second = mixer, norm, feed_forward, second

    def forward(
        self,
        x: Float[Tensor, "member batch pos width"],
        at: Int[Tensor, "member batch label"] | None = None,
        begins: Int[Tensor, "member batch"] | None = None,
    ) -> Float[Tensor, "member batch label width"]:
        """The stream behind this block, at the positions `at`; from `begins` on a row has a second input."""
        x_normed = self.norm(x)
        mixed = self.mixer(x_normed, at) if begins is None else self.mixer(x_normed, at, begins=begins)
        return self._mapped(taken(x, at) + mixed)

    def step(
        self, x: Float[Tensor, "member batch width"], state: State
    ) -> tuple[Float[Tensor, "member batch width"], State]:
        """The stream behind this block at the next position."""
        assert isinstance(self.mixer, Mixer)
        mixed, state = self.mixer.step(self.norm(x), state)
        return self._mapped(x + mixed), state

    def _mapped(self, x: Float[Tensor, "member *lead width"]) -> Float[Tensor, "member *lead width"]:
        if self.feed_forward is None or self.second is None:
            return x
        return x + self.feed_forward(self.second(x))  # type: ignore[no-any-return]


class Reading(MemberModule):
    """Inputs to the stream: a row of the token table, or a linear map of reals; then the position's row."""

    def __init__(
        self,
        members: int,
        width: int,
        signature: Signature,
        *,
        embedding: Literal["learned", "frozen", "sinusoidal"] = "learned",
        positions: bool = False,
        deviation: float = 0.02,
    ) -> None:
        super().__init__(members)
        table: Tensor | None = None
        places: Tensor | None = None
        reals: Linear | None = None
        inputs = signature.inputs
        if isinstance(inputs, Reals):
            require(
                embedding == "learned",
                f"Inputs of real numbers have no token table; got embedding={embedding}. Leave it out.",
            )
            law = normal(1 / math.sqrt(inputs.width))
            reals = Linear(members, inputs.width, width, law=law, bias=constant(0))
        elif embedding == "sinusoidal":
            law = fixed(sinusoidal_table(inputs.size, width))
            table = self.parameter("table", (inputs.size, width), law, trained=False)
        else:
            law = normal(deviation)
            table = self.parameter("table", (inputs.size, width), law, trained=embedding == "learned")
        if positions:
            places = self.parameter("places", (signature.length, width), normal(deviation))
        self.table, self.places, self.reals = table, places, reals

    @property
    def longest(self) -> int | None:
        """Rows of the position table, if there is one."""
        return None if self.places is None else self.places.shape[1]

    def forward(
        self,
        inputs: Shaped[Tensor, "member batch pos *width"],
        begins: Int[Tensor, "member batch"] | None = None,
    ) -> Float[Tensor, "member batch pos width"]:
        """The stream at every position; a second input of a row is counted from its own beginning."""
        x = self.embedded(inputs)
        if self.places is None:
            return x
        if begins is None:
            return x + self.places[:, : x.shape[2]].unsqueeze(1)
        place = places_in(begins, x.shape[2]).clamp(max=self.places.shape[1] - 1)
        with torch.autocast(x.device.type, enabled=False):  # as exact as the sum over rows above
            return x + table_rows(self.places, place)

    def step(
        self, token: Shaped[Tensor, "member batch *width"], place: int
    ) -> Float[Tensor, "member batch width"]:
        """The stream at one position, counted from 0."""
        x = self.embedded(token)
        return x if self.places is None else x + self.places[:, place].unsqueeze(1)

    def embedded(self, inputs: Shaped[Tensor, "member *lead"]) -> Float[Tensor, "member *lead width"]:
        """The stream without positions."""
        if self.reals is not None:
            return self.reals(inputs.to(self.reals.weight.dtype))  # type: ignore[no-any-return]
        assert self.table is not None
        return table_rows(self.table, inputs)


class Frame(Population):
    """Reading, blocks, a last norm and the readout. Architectures say which."""

    config: StackConfig

    def __init__(self, config: StackConfig, signature: Signature, *, members: int) -> None:
        super().__init__(config, signature, members=members)
        self.check_fits()
        self.reading = self.make_reading()
        self.blocks = nn.ModuleList(self.make_block(place) for place in range(self.depth))
        self.norm = self.make_norm()
        self.readout = None if config.tied else self.make_readout()

    @abstractmethod
    def make_reading(self) -> Reading:
        """How inputs come into the stream."""

    @abstractmethod
    def make_block(self, place: int) -> nn.Module:
        """The block at this place, counted from 0: `forward(x, at)`, and in a `Stack` `step` and `mixer`."""

    @abstractmethod
    def make_norm(self) -> nn.Module:
        """What stands before the readout."""

    def make_readout(self) -> Linear:
        """From the stream to scores of classes, or to a vector."""
        law = normal(0.02) if isinstance(self.signature.targets, Classes) else normal(self.config.width**-0.5)
        return Linear(self.members, self.config.width, self.signature.out, law=law)

    def check_fits(self) -> None:
        """Refuse a task that this model cannot be put to."""
        if self.signature.ahead and self.is_causal:
            raise InvalidInput(
                f"This task asks for answers that depend on what stands behind them, and {self.name} reads "
                "from left to right; take a transformer with causal=False (--no-causal) or third-order."
            )
        if self.config.tied:
            inputs, targets = self.signature.inputs, self.signature.targets
            require(
                isinstance(inputs, Tokens) and isinstance(targets, Classes) and targets.size <= inputs.size,
                f"{self.name} with tied=True answers with words of its input; this task's answers are none.",
            )

    @property
    def longest(self) -> int | None:
        """Rows of the position table, if there is one."""
        return self.reading.longest

    @property
    def fusible(self) -> Sequence[nn.Module]:
        """Where there are several blocks, each of them, since what is compiled for one serves the others;
        and what is before and behind them.
        """
        if len(self.blocks) == 1:
            return (self,)
        ends = (self.norm,) if self.readout is None else (self.norm, self.readout)
        return (self.reading, *self.blocks, *ends)

    def embeddings(self) -> Iterator[Float[Tensor, "member *shape"]]:
        """The token table and that of positions."""
        for table in (self.reading.table, self.reading.places):
            if table is not None:
                yield table

    def forward(
        self,
        inputs: Shaped[Tensor, "member batch pos *width"],
        at: Int[Tensor, "member batch label"] | None = None,
    ) -> Float[Tensor, "member batch label out"]:
        """The outputs at the positions `at`: the last block and the readout are computed there only."""
        self.check_length(inputs, self.longest)
        return self._passed(inputs, at)

    def _passed(
        self,
        inputs: Shaped[Tensor, "member batch pos *width"],
        at: Int[Tensor, "member batch label"] | None,
        *begins: Int[Tensor, "member batch"],
    ) -> Float[Tensor, "member batch label out"]:
        """Through all of it, with where second inputs begin if rows have any."""
        x = self.reading(inputs, *begins)
        last = len(self.blocks) - 1
        for place, block in enumerate(self.blocks):
            x = block(x, at if place == last else None, *begins)
        return self.answers(x)

    def answers(self, x: Float[Tensor, "member *lead width"]) -> Float[Tensor, "member *lead out"]:
        """The readout of the stream."""
        x = self.norm(x)
        if self.readout is not None:
            return self.readout(x)  # type: ignore[no-any-return]
        assert self.reading.table is not None
        return linear(x, self.reading.table[:, : self.signature.out].transpose(1, 2))


class Stack(Frame, CausalPopulation):
    """A frame whose blocks can go on from a state."""

    blocks: Any
    """A `ModuleList`, each with `forward(x, at)`, `step(x, state)` and a `mixer`."""

    def start(self, batch: int, *, device: torch.device | str = "cpu") -> State:
        """No positions read, and every mixer's own beginning."""
        self._require_causal()
        like = next(self.parameters()).new_empty((), device=device)
        return 0, [block.mixer.start(batch, like) for block in self.blocks]

    def step(
        self, token: Shaped[Tensor, "member batch *width"], state: State
    ) -> tuple[Float[Tensor, "member batch out"], State]:
        """One position through every block."""
        self._require_causal()
        place, states = state
        if self.longest is not None and place >= self.longest:
            raise InvalidInput(f"This {self.name} has {self.longest} positions, and all of them are read.")
        x = self.reading.step(token, place)
        after = []
        for block, before in zip(self.blocks, states, strict=True):
            x, new = block.step(x, before)
            after.append(new)
        return self.answers(x), (place + 1, after)

    def reserve(self, state: State, positions: int) -> State:
        """Room in every mixer's state."""
        place, states = state
        blocks = zip(self.blocks, states, strict=True)
        return place, [block.mixer.reserve(each, positions) for block, each in blocks]

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """The parts of one block's mixer, as many times as there are blocks; none unless it is causal."""
        if not self.is_causal:
            return ()
        merged: dict[str, StatePart] = {}
        for block in self.blocks:
            for part in block.mixer.state_parts(precision):
                known = merged.get(part.name)
                merged[part.name] = part if known is None else _added(known, part)
        return tuple(merged.values())

    def _require_causal(self) -> None:
        require(
            self.is_causal,
            f"This {self.name} looks at what stands ahead and cannot read token by token; call forward on "
            "whole inputs, or build it with causal=True.",
        )


def _seam_of(mixer: Mixing) -> int | None:
    """What a mixer says, if it can be told where the second input begins; its parent may be who says it."""
    is_told = "begins" in inspect.signature(mixer.forward).parameters
    return mixer.seam if is_told else None


class SeamedStack(Stack):
    """A stack whose mixers keep two inputs of a row apart: blocks tell them where the second begins."""

    def __init__(self, config: StackConfig, signature: Signature, *, members: int) -> None:
        super().__init__(config, signature, members=members)
        seams = [_seam_of(block.mixer) for block in self.blocks]
        needed = [seam for seam in seams if seam is not None]
        self._seam = max(needed) if len(needed) == len(seams) else None

    @property
    def seam(self) -> int | None:
        """As many positions as the mixer needs that needs most."""
        return self._seam

    def forward(
        self,
        inputs: Shaped[Tensor, "member batch pos *width"],
        at: Int[Tensor, "member batch label"] | None = None,
        begins: Int[Tensor, "member batch"] | None = None,
    ) -> Float[Tensor, "member batch label out"]:
        """The outputs at the positions `at`; from `begins` on a row has a second input.

        It begins `seam` positions behind the end of the first, so at `seam` at the least.
        """
        if begins is None:
            return super().forward(inputs, at)
        if self.longest is not None:
            row, most = inputs.shape[2], 2 * self.longest + (self.seam or 0)
            require(
                row <= most,
                f"This {self.name} has {self.longest} positions, so a row of two inputs has up to {most}; "
                f"got one of {row}. Build it for longer inputs.",
            )
        return self._passed(inputs, at, begins)


def sinusoidal_table(rows: int, width: int) -> Float[Tensor, "rows width"]:
    """Sines and cosines of each row's number at frequencies from 1 down to 1/10000."""
    place = torch.arange(rows, dtype=torch.float64).unsqueeze(1)
    pairs = -(-width // 2)
    frequency = torch.exp(-math.log(10000.0) * torch.arange(pairs, dtype=torch.float64) / max(1, pairs))
    angle = place * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width]


def _added(first: StatePart, second: StatePart) -> StatePart:
    return StatePart(
        name=first.name,
        fixed_bits=first.fixed_bits + second.fixed_bits,
        bits_per_position=first.bits_per_position + second.bits_per_position,
        window=first.window,
    )
