"""Populations: many members of one architecture, trained side by side.

A population's weights have a leading axis of members, its inputs are (member, batch, position) and its
outputs (member, batch, position, out). `population.member(i)` is one member as a plain model, without that
axis; a causal one reads token by token and can be decoded like any other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from separatrix.accounting import Size, StatePart
from separatrix.errors import InvalidInput
from separatrix.models.interface import CausalModel, SequenceModel
from separatrix.models.members import initialise
from separatrix.options import check_types, option, require
from separatrix.tasks.interface import Classes, Reals, Task, Tokens, Vectors

__all__ = [
    "CausalPopulation",
    "ModelConfig",
    "Population",
    "Signature",
    "SingleMember",
    "State",
    "population_of",
    "signature_of",
]

State: TypeAlias = Any
"""What a causal population carries: lists and tuples of tensors (member, batch, …) and of plain numbers."""

_WIDEST = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What a task asks of a model: what stands at a position, what an answer is, how long inputs are.

    `ahead` says that an answer may depend on what stands behind it, which no causal model sees.
    """

    inputs: Tokens | Reals
    targets: Classes | Vectors
    length: int
    ahead: bool = False

    @property
    def out(self) -> int:
        """Numbers of an output: a score for each class, or the vector itself."""
        return self.targets.size if isinstance(self.targets, Classes) else self.targets.width


def signature_of(task: Task) -> Signature:
    """The signature of a task."""
    return Signature(
        inputs=task.input_space,
        targets=task.target_space,
        length=task.length,
        ahead=task.asking.ahead,
    )


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The parameters of an architecture; each model's own `Config` adds to them and sets the defaults."""

    kind: ClassVar[type[Population]]
    """The model that it configures."""

    layers: int = option(1, help="blocks, one after another")
    width: int = option(64, help="numbers at a position between the blocks")

    def __post_init__(self) -> None:
        check_types(self, name=self.owner)
        require(
            1 <= self.layers <= 1024, f"{self.owner} needs 1 to 1024 layers; got layers={self.layers}. Try 2."
        )
        require(
            1 <= self.width <= _WIDEST,
            f"{self.owner} needs a width of 1 to 2^20; got width={self.width}. Try 64.",
        )
        self.validate()

    @property
    def owner(self) -> str:
        """The model's name, for messages: that of the class a config is written in."""
        return type(self).__qualname__.split(".")[-2] if "." in type(self).__qualname__ else "A model"

    def validate(self) -> None:
        """Raise `InvalidInput` unless the parameters, each of its declared type, fit together."""


class Population(nn.Module, ABC):
    """The interface of every model that is trained: a name, a `Config`, and how to compute."""

    name: ClassVar[str]
    """The registry's name."""
    title: ClassVar[str]
    """A few words for headings."""
    source: ClassVar[str]
    """The paper that the architecture and its initial weights come from."""
    Config: ClassVar[type[ModelConfig]]
    code: ClassVar[str | None] = None
    """The hash of the user's own code that makes it, which belongs to what a run is; None for the rest."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "Config" in vars(cls):
            cls.Config.kind = cls

    def __init__(self, config: ModelConfig, signature: Signature, *, members: int) -> None:
        """Without weights yet: `initialise` draws them."""
        super().__init__()
        require(members >= 1, f"A population has at least one member; got members={members}.")
        self.config, self.signature, self.members = config, signature, members

    @abstractmethod
    def forward(
        self,
        inputs: Shaped[Tensor, "member batch pos *width"],
        at: Int[Tensor, "member batch label"] | None = None,
    ) -> Float[Tensor, "member batch label out"]:
        """The outputs at the positions `at` of each example; without them, at every position."""

    @abstractmethod
    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """What one member carries from token to token; empty where it cannot read token by token."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Inner width of the feed-forward map, and heads of a layer; 0 where there are none."""

    @property
    def depth(self) -> int:
        """Blocks, one after another: those the config counts, and any that the architecture adds."""
        return self.config.layers

    @property
    def is_causal(self) -> bool:
        """Whether an output depends on nothing behind it, so that the model can read token by token."""
        return False

    @property
    def longest(self) -> int | None:
        """The longest input it was made for; None if any length will do."""
        return None

    @property
    def seam(self) -> int | None:
        """Positions between two inputs that share a row; None where each needs a row of its own.

        Who has a seam takes a third argument `begins`, the position in each row from which on there is a
        second input, and answers both as it does in rows of their own.
        """
        return None

    @property
    def fusible(self) -> Sequence[nn.Module]:
        """The modules that a compiler may take, each on its own."""
        return (self,)

    @property
    def recordable(self) -> bool:
        """Whether a step of it can be recorded in a CUDA graph and replayed."""
        return True

    def initialise(self, seeds: Sequence[int]) -> Self:
        """Draw every member's weights, each under its own seed."""
        require(
            len(seeds) == self.members,
            f"Each of the {self.members} members has a seed of its own; got {len(seeds)} seeds.",
        )
        initialise(self, seeds)
        return self

    def size(self, n: int, precision: int) -> Size:
        """Every count of one member, on inputs of n positions with numbers of so many bits."""
        require(n >= 1, f"An input has at least one position; got n={n}.")
        ffn_width, heads = self.shape
        embedded = sum(values[0].numel() for values in self.embeddings())
        return Size(
            width=self.config.width,
            ffn_width=ffn_width,
            layers=self.depth,
            heads=heads,
            precision_bits=precision,
            parameters_without_embeddings=sum(p[0].numel() for p in self.parameters())
            - sum(p[0].numel() for p in self.embeddings() if p.requires_grad),
            embedding_parameters=embedded,
            state=self.state_parts(precision),
            source=f"the {self.name} model's own tensors",
        )

    def embeddings(self) -> Iterator[Float[Tensor, "member *shape"]]:
        """The tables that W leaves out of its count: of tokens and of positions, trained or frozen."""
        yield from ()

    def member(self, number: int) -> SequenceModel:
        """One member as a plain model, with a copy of its weights."""
        return _Single(self.alone(number))

    def alone(self, number: int) -> Self:
        """A population of this member only, with a copy of its weights."""
        if not 0 <= number < self.members:
            raise InvalidInput(f"Members are numbered from 0 to {self.members - 1}; got {number}.")
        single = type(self)(self.config, self.signature, members=1)
        values = {name: value[number : number + 1] for name, value in self.state_dict().items()}
        single.load_state_dict(values)
        reference = next(self.parameters())
        return single.to(device=reference.device, dtype=reference.dtype)

    def check_length(self, inputs: Shaped[Tensor, "member batch pos *width"], longest: int | None) -> None:
        """Refuse inputs that are longer than a table of positions."""
        if longest is not None and inputs.shape[2] > longest:
            raise InvalidInput(
                f"This {self.name} has {longest} positions and got an input of {inputs.shape[2]}; "
                "build it for the longer input."
            )


class CausalPopulation(Population):
    """A population that can read token by token: `step` from `start` gives what `forward` gives at once."""

    @property
    def is_causal(self) -> bool:
        """Yes, unless a config says that it looks ahead: then `start` and `step` refuse."""
        return True

    @abstractmethod
    def start(self, batch: int, *, device: torch.device | str = "cpu") -> State:
        """The state before the first token."""

    @abstractmethod
    def step(
        self, token: Shaped[Tensor, "member batch *width"], state: State
    ) -> tuple[Float[Tensor, "member batch out"], State]:
        """The output at the next position, and the state after it. A state is used once."""

    def reserve(self, state: State, positions: int) -> State:
        """The same state, with room for so many more positions where it grows by them."""
        return state

    def member(self, number: int) -> SequenceModel:
        """One member as a plain model, with a copy of its weights: a `CausalModel` where it is causal."""
        alone = self.alone(number)
        return SingleMember(alone) if self.is_causal else _Single(alone)


class _Single(SequenceModel):
    """A population of one, without the axis of members."""

    def __init__(self, population: Population) -> None:
        self.population = population

    def forward(self, inputs: Shaped[Tensor, "*lead pos *width"]) -> Float[Tensor, "*lead pos out"]:
        """The outputs at every position."""
        return self.population(inputs.unsqueeze(0)).squeeze(0)  # type: ignore[no-any-return]

    def size(self, n: int, precision: int) -> Size:
        """Every count of the model."""
        return self.population.size(n, precision)


class SingleMember(CausalModel[State]):
    """A causal population of one, without the axis of members: what `CausalPopulation.member` gives."""

    def __init__(self, population: CausalPopulation) -> None:
        self.population = population

    def forward(self, inputs: Shaped[Tensor, "*lead pos *width"]) -> Float[Tensor, "*lead pos out"]:
        """The outputs at every position."""
        return self.population(inputs.unsqueeze(0)).squeeze(0)  # type: ignore[no-any-return]

    def size(self, n: int, precision: int) -> Size:
        """Every count of the model."""
        return self.population.size(n, precision)

    @property
    def longest(self) -> int | None:
        """The longest text it was made for."""
        return self.population.longest

    def start(self, batch: int, *, device: torch.device | str = "cpu") -> State:
        """The state before the first token."""
        return self.population.start(batch, device=device)

    def step(
        self, token: Shaped[Tensor, "batch *width"], state: State
    ) -> tuple[Float[Tensor, "batch out"], State]:
        """The output at the next position, and the state after it."""
        outputs, state = self.population.step(token.unsqueeze(0), state)
        return outputs.squeeze(0), state

    def kept(self, state: State, rows: Int[Tensor, "row"]) -> State:
        """The state of these rows of the batch."""
        return _mapped(state, rows)

    def reserve(self, state: State, positions: int) -> State:
        """The state with room for so many more positions."""
        return self.population.reserve(state, positions)


def population_of(model: SequenceModel) -> Population | None:
    """The population of one behind what `Population.member` gives; None for every other model."""
    return model.population if isinstance(model, SingleMember | _Single) else None


def _mapped(state: State, rows: Int[Tensor, "row"]) -> State:
    if isinstance(state, Tensor):
        return state[:, rows]
    if isinstance(state, list | tuple):
        return type(state)(_mapped(part, rows) for part in state)
    return state
