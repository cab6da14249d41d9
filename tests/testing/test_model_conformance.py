"""The conformance tests themselves: a model with one thing wrong is caught by the test meant for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Self

import pytest
import torch
from torch import Tensor, nn

from separatrix.accounting import StatePart
from separatrix.models.interface import SequenceModel
from separatrix.models.laws import normal
from separatrix.models.mamba import Mamba
from separatrix.models.members import Linear
from separatrix.models.population import Population, Signature, State
from separatrix.models.transformer import Transformer
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.testing import ModelConformance
from separatrix.testing.model_conformance import Trial

CONFIG = Transformer.Config(layers=1, width=8, heads=2)


class Nameless(Transformer):
    title = " "


class WithoutTheMemberAxis(Transformer):
    def __init__(self, config: Any, signature: Signature, *, members: int) -> None:
        super().__init__(config, signature, members=members)
        self.register_buffer("shared", torch.ones(8))


class AnswersEverywhere(Transformer):
    def forward(self, inputs: Tensor, at: Tensor | None = None) -> Tensor:
        return super().forward(inputs)


class AlwaysSinglePrecision(Transformer):
    def forward(self, inputs: Tensor, at: Tensor | None = None) -> Tensor:
        return super().forward(inputs, at).float()


class Infinite(Transformer):
    def forward(self, inputs: Tensor, at: Tensor | None = None) -> Tensor:
        return super().forward(inputs, at) + math.inf


class WritesIntoItsInput(Transformer):
    def forward(self, inputs: Tensor, at: Tensor | None = None) -> Tensor:
        found = super().forward(inputs, at)
        inputs.zero_()
        return found


class AnswersElsewhere(Transformer):
    def forward(self, inputs: Tensor, at: Tensor | None = None) -> Tensor:
        return super().forward(inputs, at if at is None else (at - 1).clamp_min(0))


class DetachesThroughAt(Transformer):
    def answers(self, x: Tensor) -> Tensor:
        return super().answers(x.detach() if x.shape[-2] == 1 else x)


class DropsOut(Transformer):
    def forward(self, inputs: Tensor, at: Tensor | None = None) -> Tensor:
        return nn.functional.dropout(super().forward(inputs, at), 0.5)


class Counts(Transformer):
    def __init__(self, config: Any, signature: Signature, *, members: int) -> None:
        super().__init__(config, signature, members=members)
        self.register_buffer("calls", torch.zeros(members))

    def forward(self, inputs: Tensor, at: Tensor | None = None) -> Tensor:
        calls = self.calls
        assert isinstance(calls, Tensor)
        calls += 1
        return super().forward(inputs, at)


class NormalisesTheBatch(Transformer):
    def answers(self, x: Tensor) -> Tensor:
        return super().answers(x - x.mean(1, keepdim=True))


class NormalisesTheMembers(Transformer):
    def answers(self, x: Tensor) -> Tensor:
        return super().answers(x - x.mean(0, keepdim=True))


class LeaksGradients(Transformer):
    def answers(self, x: Tensor) -> Tensor:
        mean = x.mean(0, keepdim=True)
        return super().answers(x + (mean - mean.detach()))


class CountsItsNeighbours(Transformer):
    def answers(self, x: Tensor) -> Tensor:
        return super().answers(x) / self.members


class HandsOutTheFirst(Transformer):
    def alone(self, number: int) -> Self:
        return super().alone(0)


class LooksAhead(Transformer):
    def forward(self, inputs: Tensor, at: Tensor | None = None) -> Tensor:
        found = super().forward(inputs, None)
        found = found + found.mean(2, keepdim=True)
        return found if at is None else found.gather(2, at.unsqueeze(-1).expand(*at.shape, found.shape[-1]))


class DependsOnTheLength(Transformer):
    def forward(self, inputs: Tensor, at: Tensor | None = None) -> Tensor:
        return super().forward(inputs, at) / inputs.shape[2]


class StepsWithoutPositions(Transformer):
    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        _, states = state
        return super().step(token, (0, states))


class StepsInTheWrongShape(Transformer):
    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        found, state = super().step(token, state)
        return found.unsqueeze(2), state


class KeepsTheBatchLast(Transformer):
    """Its state is (member, pos, batch, width), which nobody can take rows of."""

    def start(self, batch: int, *, device: torch.device | str = "cpu") -> State:
        return _turned(super().start(batch, device=device))

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        found, state = super().step(token, _turned(state))
        return found, _turned(state)


def _turned(state: State) -> State:
    place, pairs = state
    return place, [tuple(part.transpose(1, 2).contiguous() for part in pair) for pair in pairs]


class KeepsOtherRows(Transformer):
    """The state holds a hash of the rows' order, so that taking rows spoils it."""

    def start(self, batch: int, *, device: torch.device | str = "cpu") -> State:
        return super().start(batch, device=device), torch.arange(batch).expand(self.members, batch)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        inner, order = state
        found, inner = super().step(token, inner)
        return found + (order != torch.arange(token.shape[1])).unsqueeze(-1), (inner, order)


class HasNoPlainForm(Transformer):
    def member(self, number: int) -> SequenceModel:
        return Population.member(self, number)


class CarriesAnObject(Transformer):
    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        found, (place, states) = super().step(token, state[0])
        return found, ((place, states), {"place": place})

    def start(self, batch: int, *, device: torch.device | str = "cpu") -> State:
        return super().start(batch, device=device), {}


class StatesHalfItsMemory(Transformer):
    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        return super().state_parts(precision // 2)


class StatesAMemoryItHasNot(Transformer):
    @property
    def is_causal(self) -> bool:
        return False

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        return (StatePart(name="cache", bits_per_position=precision),)


class CountsATableTwice(Transformer):
    def embeddings(self) -> Iterator[Tensor]:
        yield from super().embeddings()
        yield from super().embeddings()


class CountsAnothersTable(Transformer):
    def embeddings(self) -> Iterator[Tensor]:
        yield torch.ones(self.members, 5)


class HasAnIdleParameter(Transformer):
    def __init__(self, config: Any, signature: Signature, *, members: int) -> None:
        super().__init__(config, signature, members=members)
        self.idle = Linear(members, 2, 2, law=normal(1))


class DrawsFromTheGlobalGenerator(Transformer):
    def initialise(self, seeds: Sequence[int]) -> Self:
        super().initialise(seeds)
        with torch.no_grad():
            self.norm.weight.copy_(torch.randn(8).expand(self.members, 8))  # type: ignore[operator]
        return self


class ForgetsAParameter(Transformer):
    def __init__(self, config: Any, signature: Signature, *, members: int) -> None:
        super().__init__(config, signature, members=members)
        self.forgotten = nn.Parameter(torch.ones(members, 1, 1, signature.out))

    def answers(self, x: Tensor) -> Tensor:
        return super().answers(x) * self.forgotten


class SeedsByPlace(Transformer):
    def initialise(self, seeds: Sequence[int]) -> Self:
        return super().initialise([seed + place for place, seed in enumerate(seeds)])


class IgnoresItsSeeds(Transformer):
    def initialise(self, seeds: Sequence[int]) -> Self:
        return super().initialise([0 for _ in seeds])


class KeepsAnAttribute(Transformer):
    scale = 1

    def initialise(self, seeds: Sequence[int]) -> Self:
        self.scale = sum(seeds)
        return super().initialise(seeds)

    def answers(self, x: Tensor) -> Tensor:
        return super().answers(x) * self.scale


class TakesAnyLength(Transformer):
    def check_length(self, inputs: Tensor, longest: int | None) -> None:
        pass

    def forward(self, inputs: Tensor, at: Tensor | None = None) -> Tensor:
        return super().forward(inputs[:, :, : self.longest], at)


class StepsForEver(Transformer):
    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        assert self.longest is not None
        found, (place, states) = super().step(token, (min(state[0], self.longest - 1), state[1]))
        return found, (place, states)


class AsksTheHost(Transformer):
    def forward(self, inputs: Tensor, at: Tensor | None = None) -> Tensor:
        found = super().forward(inputs, at)
        return found if bool(found.sum() == 0) else found + 0


class FailsInHalfPrecision(Transformer):
    def forward(self, inputs: Tensor, at: Tensor | None = None) -> Tensor:
        found = super().forward(inputs, at)
        return found * math.nan if found.dtype == torch.bfloat16 else found


class FarOffInHalfPrecision(Transformer):
    def forward(self, inputs: Tensor, at: Tensor | None = None) -> Tensor:
        found = super().forward(inputs, at)
        return found * 3 if found.dtype == torch.bfloat16 else found


class SeesWhatStoodBefore(Mamba):
    def forward(self, inputs: Tensor, at: Tensor | None = None, begins: Tensor | None = None) -> Tensor:
        return super().forward(inputs, at)


class HasTooNarrowASeam(Mamba):
    @property
    def seam(self) -> int:
        return 2  # and its convolution needs three


class DetachesTheSecond(Mamba):
    def forward(self, inputs: Tensor, at: Tensor | None = None, begins: Tensor | None = None) -> Tensor:
        found = super().forward(inputs, at, begins)
        if at is not None or begins is None:
            return found
        second = torch.arange(found.shape[2]) >= begins.unsqueeze(-1)
        return torch.where(second.unsqueeze(-1), found.detach(), found)


CAUGHT = [
    (Nameless, "it_says_what_it_is", "has an empty title"),
    (
        WithoutTheMemberAxis,
        "it_says_what_it_is",
        r"shared has shape \(8,\); its first axis must be that of the 3",
    ),
    (AnswersEverywhere, "output_shape_and_type", "with positions given in `at`"),
    (
        AlwaysSinglePrecision,
        "output_shape_and_type",
        "weights of torch.float64 give an output of torch.float32",
    ),
    (Infinite, "output_shape_and_type", "the output is not finite"),
    (WritesIntoItsInput, "output_shape_and_type", "forward writes into its input"),
    (AnswersElsewhere, "at_is_the_same_as_gathering", "outputs at 1 positions `at` differ by"),
    (DetachesThroughAt, "at_is_the_same_as_gathering", "through `at` differs by"),
    (DropsOut, "same_input_same_bytes", "leave dropout out"),
    (Counts, "same_input_same_bytes", "forward changes its own calls"),
    (NormalisesTheBatch, "an_example_does_not_depend_on_the_others", "with the others of its batch"),
    (
        NormalisesTheMembers,
        "a_member_does_not_depend_on_its_neighbours",
        "outputs change by .* its neighbours",
    ),
    (
        LeaksGradients,
        "a_member_does_not_depend_on_its_neighbours",
        "gradient of .* changes by .* its neighbours",
    ),
    (LeaksGradients, "a_member_gives_no_gradient_to_its_neighbours", "has a gradient in another member's"),
    (CountsItsNeighbours, "one_member_alone_computes_the_same", "a member alone differs by"),
    (HandsOutTheFirst, "one_member_alone_computes_the_same", r"member\(1\) differs by"),
    (SeesWhatStoodBefore, "two_inputs_of_a_row_do_not_see_each_other", "outputs differ by"),
    (HasTooNarrowASeam, "two_inputs_of_a_row_do_not_see_each_other", "from 3 on, outputs differ by"),
    (
        DetachesTheSecond,
        "two_inputs_of_a_row_do_not_see_each_other",
        "the gradient of .* with two inputs in a row",
    ),
    (LooksAhead, "no_output_depends_on_a_later_input", "a causal model must not look ahead"),
    (DependsOnTheLength, "no_output_depends_on_a_later_input", "cut off after 1 positions"),
    (StepsWithoutPositions, "step_by_step_equals_forward", "at position 1, step and forward differ by"),
    (StepsInTheWrongShape, "step_by_step_equals_forward", r"where \(member, batch, out\) is"),
    (KeepsTheBatchLast, "rows_can_be_kept", r"first axes must be member and batch, \(1, 3\)"),
    (KeepsOtherRows, "rows_can_be_kept", "going on with some rows of the batch only changes outputs by"),
    (HasNoPlainForm, "rows_can_be_kept", r"member\(0\) of a causal population is no CausalModel"),
    (
        KeepsTheBatchLast,
        "states_have_the_size_that_is_stated",
        r"first axes must be member and batch, \(3, 3\)",
    ),
    (CarriesAnObject, "states_have_the_size_that_is_stated", "plain numbers; it has a dict"),
    (
        StatesHalfItsMemory,
        "states_have_the_size_that_is_stated",
        "its state holds 128 bits .* its size states 64",
    ),
    (StatesAMemoryItHasNot, "states_have_the_size_that_is_stated", "is not causal, so it carries nothing"),
    (CountsATableTwice, "states_have_the_size_that_is_stated", r"embeddings\(\) names a table twice"),
    (CountsAnothersTable, "states_have_the_size_that_is_stated", "a table that is not the model's own"),
    (HasAnIdleParameter, "every_parameter_is_trained", "idle.weight has no gradient in member 0"),
    (DrawsFromTheGlobalGenerator, "initial_weights_follow_the_seed", "torch's global random numbers"),
    (ForgetsAParameter, "initial_weights_follow_the_seed", "gives forgotten no finite value"),
    (SeedsByPlace, "initial_weights_follow_the_seed", "members of one seed begin with different"),
    (IgnoresItsSeeds, "initial_weights_follow_the_seed", "all seeds give the same initial weights"),
    (KeepsAnAttribute, "weights_come_back_from_a_state_dict", "missing from state_dict"),
    (TakesAnyLength, "too_long_an_input_is_refused", "has 6 positions and takes an input of 7"),
    (StepsForEver, "too_long_an_input_is_refused", "has 6 positions and steps beyond them"),
    (AsksTheHost, "it_compiles_to_one_graph", "does not compile to one graph"),
    (FailsInHalfPrecision, "mixed_precision_is_finite", "bf16 gives outputs that are not finite"),
    (FarOffInHalfPrecision, "mixed_precision_is_finite", "bf16 moves its outputs by"),
]


def conformance_of(kind: type[Population]) -> ModelConformance:
    class Tests(ModelConformance):
        def populations(self) -> Sequence[Trial]:
            config = CONFIG if issubclass(kind, Transformer) else kind.Config(layers=2, width=8)
            return [(kind, config, IndexLookup(n=5))]

    return Tests()


@pytest.mark.parametrize(
    ("kind", "test", "message"), CAUGHT, ids=lambda part: getattr(part, "__name__", None)
)
def test_a_broken_model_is_caught(kind: type[Population], test: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        getattr(conformance_of(kind), f"test_{test}")()


def test_every_test_catches_something() -> None:
    tests = {name for name in dir(ModelConformance) if name.startswith("test_") and "gpu" not in name}
    assert {f"test_{test}" for _, test, _ in CAUGHT} == tests


def test_a_good_model_passes() -> None:
    tests = conformance_of(Transformer)
    for name in dir(tests):
        if name.startswith("test_") and "gpu" not in name:
            getattr(tests, name)()


def test_the_wrong_config_is_named() -> None:
    class Other(Transformer):
        Config = type("Config", (Transformer.Config,), {})  # type: ignore[assignment]

    with pytest.raises(AssertionError, match="Other is configured by its own Config"):
        conformance_of(Other).test_it_says_what_it_is()
