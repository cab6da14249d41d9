"""What every trainable model must satisfy, as tests that a user can inherit.

    class TestMyModel(ModelConformance):
        def populations(self):
            return [(MyModel, MyModel.Config(layers=2, width=16), IndexLookup(n=12))]

Choose small configs and short tasks, and several of them: a length that is no multiple of a block, one and
several layers, tokens and reals. Weights are drawn and then stirred a little before anything is compared, so
that a bias which begins at zero cannot hide a mistake.
"""

from __future__ import annotations

import unittest
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from separatrix.models.interface import CausalModel
from separatrix.models.members import taken
from separatrix.models.population import CausalPopulation, Population, signature_of
from separatrix.testing._trials import (
    BATCH,
    SEEDS,
    Trial,
    asked,
    carried,
    cotangent,
    cuts,
    far,
    gradients,
    in_one_row,
    inputs_of,
    made,
    named,
    need_gpu,
    refuses,
    replaced,
)

__all__ = ["ModelConformance", "Trial"]


class ModelConformance(ABC):
    """Inherit and name your populations; the methods that begin with `test_` do the rest."""

    exact: ClassVar[float] = 1e-9
    """How far two ways to compute the same may differ in float64, beside the largest number or 1."""
    close: ClassVar[float] = 1e-4
    """How far in float32."""
    compiles: ClassVar[bool] = True
    """Whether forward is one graph to `torch.compile`; a plain module with an `nn.LSTM` inside is none."""
    gpu_close: ClassVar[float] = 1e-3
    """How far a GPU's float32 numbers may be from those of the CPU."""

    @abstractmethod
    def populations(self) -> Sequence[Trial]:
        """The models to test, each with a config and a task that it fits."""

    def test_it_says_what_it_is(self) -> None:
        """A name, a title and a source; a `Config` of its own; every tensor begins with the member axis."""
        for trial in self.populations():
            kind, config, _ = trial
            for word in ("name", "title", "source"):
                said = getattr(kind, word, None)
                assert isinstance(said, str), f"{kind.__name__} needs its {word} as text; it has {said!r}"
                assert said.strip(), f"{kind.__name__} has an empty {word}; say a few words"
            assert isinstance(config, kind.Config), (
                f"{kind.__name__} is configured by its own Config; this trial has a {type(config).__name__}"
            )
            model = made(trial)
            for name, values in model.state_dict().items():
                assert values.shape[:1] == (model.members,), (
                    f"{named(trial)}: {name} has shape {tuple(values.shape)}; its first axis must be that of "
                    f"the {model.members} members"
                )

    def test_output_shape_and_type(self) -> None:
        """An output for every position, or for every position asked for, in the weights' type."""
        for trial in self.populations():
            for dtype in (torch.float32, torch.float64):
                model, inputs = made(trial, dtype=dtype), inputs_of(trial, dtype=dtype)
                before = inputs.clone()
                for at in (None, *asked(trial)):
                    found = model(inputs) if at is None else model(inputs, at)
                    labels = inputs.shape[2] if at is None else at.shape[2]
                    shape = (model.members, BATCH, labels, model.signature.out)
                    assert tuple(found.shape) == shape, (
                        f"{named(trial)}: the output has shape {tuple(found.shape)} where (member, batch, "
                        f"position, out) is {shape}{'' if at is None else ' with positions given in `at`'}"
                    )
                    assert found.dtype == dtype, (
                        f"{named(trial)}: weights of {dtype} give an output of {found.dtype}"
                    )
                    assert bool(found.isfinite().all()), f"{named(trial)}: the output is not finite"
                assert torch.equal(before, inputs), f"{named(trial)}: forward writes into its input"

    def test_at_is_the_same_as_gathering(self) -> None:
        """Outputs and gradients at given positions are those of the whole output at these positions."""
        for trial in self.populations():
            model, inputs = made(trial, dtype=torch.float64), inputs_of(trial, dtype=torch.float64)
            for at in asked(trial):
                whole, part = taken(model(inputs), at), model(inputs, at)
                gap = far(part, whole)
                assert gap <= self.exact, (
                    f"{named(trial)}: outputs at {at.shape[2]} positions `at` differ by {gap:.1e} from those "
                    "of the whole input at the same positions"
                )
                first, second = (gradients(model, each) for each in (part, whole))
                for name, values in first.items():
                    gap = far(values, second[name])
                    assert gap <= self.exact, (
                        f"{named(trial)}: the gradient of {name} through `at` differs by {gap:.1e} from that "
                        "through the whole output"
                    )

    def test_same_input_same_bytes(self) -> None:
        """No chance and no memory between calls: dropout and running averages have no place here."""
        for trial in self.populations():
            model, inputs = made(trial).train(), inputs_of(trial)
            before = {name: value.clone() for name, value in model.state_dict().items()}
            assert torch.equal(model(inputs), model(inputs)), (
                f"{named(trial)}: two calls on the same input differ; a model must not draw numbers when it "
                "computes, so leave dropout out"
            )
            for name, value in model.state_dict().items():
                assert torch.equal(before[name], value), f"{named(trial)}: forward changes its own {name}"

    def test_an_example_does_not_depend_on_the_others(self) -> None:
        """Each row of the batch is answered by itself."""
        for trial in self.populations():
            model, inputs = made(trial, dtype=torch.float64), inputs_of(trial, dtype=torch.float64)
            others = inputs_of(trial, seeds=(7, 8, 9), dtype=torch.float64)
            others[:, 1] = inputs[:, 1]
            gap = far(model(others)[:, 1], model(inputs)[:, 1])
            assert gap <= self.exact, (
                f"{named(trial)}: an example's output changes by {gap:.1e} with the others of its batch"
            )

    def test_a_member_does_not_depend_on_its_neighbours(self) -> None:
        """With other neighbours a member's outputs and gradients are the same bytes."""
        for trial in self.populations():
            seeds = SEEDS
            others = (seeds[2] + 1, seeds[1], seeds[2] + 2)
            found = []
            for group in (seeds, others):
                model, inputs = made(trial, seeds=group), inputs_of(trial, seeds=group)
                outputs = model(inputs)
                found.append((outputs[1], gradients(model, outputs, group)))
            (first, slopes), (second, other_slopes) = found
            assert torch.equal(first, second), (
                f"{named(trial)}: a member's outputs change by {far(first, second):.1e} with its neighbours"
            )
            for name, values in slopes.items():
                gap = far(values[1], other_slopes[name][1])
                assert torch.equal(values[1], other_slopes[name][1]), (
                    f"{named(trial)}: a member's gradient of {name} changes by {gap:.1e} with its neighbours"
                )

    def test_a_member_gives_no_gradient_to_its_neighbours(self) -> None:
        """The loss of one member moves no other member's weights."""
        for trial in self.populations():
            model, inputs = made(trial), inputs_of(trial)
            for name, values in gradients(model, model(inputs)[1:2], SEEDS[1:2]).items():
                assert not values[[0, 2]].any(), (
                    f"{named(trial)}: the loss of one member has a gradient in another member's {name}"
                )

    def test_one_member_alone_computes_the_same(self) -> None:
        """A population of one, and `member(i)`, give what the member gives among three."""
        for trial in self.populations():
            model, inputs = made(trial, dtype=torch.float64), inputs_of(trial, dtype=torch.float64)
            outputs = model(inputs)
            slopes = gradients(model, outputs)
            for number, seed in enumerate(SEEDS):
                single = made(trial, seeds=(seed,), dtype=torch.float64)
                alone = single(inputs[number : number + 1])
                gap = far(alone[0], outputs[number])
                assert gap <= self.exact, (
                    f"{named(trial)}: a member alone differs by {gap:.1e} from the same member among three"
                )
                for name, values in gradients(single, alone, (seed,)).items():
                    gap = far(values[0], slopes[name][number])
                    assert gap <= self.exact, (
                        f"{named(trial)}: a member's gradient of {name} differs by {gap:.1e} when it is alone"
                    )
                plain = model.member(number)
                gap = far(plain.forward(inputs[number]), outputs[number])
                assert gap <= self.exact, (
                    f"{named(trial)}: member({number}) differs by {gap:.1e} from the population's own output"
                )
                assert plain.size(5, 32) == model.size(5, 32), (
                    f"{named(trial)}: member({number}) has another size than the population states"
                )

    def test_two_inputs_of_a_row_do_not_see_each_other(self) -> None:
        """Models with a seam: outputs and gradients of both are those that each has in a row of its own."""
        for trial in self.populations():
            model, inputs = made(trial, dtype=torch.float64), inputs_of(trial, dtype=torch.float64)
            if model.seam is None:
                continue
            for cut in cuts(inputs.shape[2]):
                first, second = inputs[:, :, :cut], inputs.roll(1, dims=1)
                apart = torch.cat([model(first), model(second)], dim=2)
                joined, few, of_few = in_one_row(model, first, second, seam=model.seam)
                for name, found, expected in (
                    ("outputs", joined, apart),
                    ("outputs at a few positions", few, of_few),
                ):
                    gap = far(found, expected)
                    assert gap <= self.exact, (
                        f"{named(trial)}: with two inputs in a row, the second from {cut + model.seam} on, "
                        f"{name} differ by {gap:.1e}"
                    )
                expected_slopes = gradients(model, apart)
                for name, values in gradients(model, joined).items():
                    gap = far(values, expected_slopes[name])
                    assert gap <= self.exact, (
                        f"{named(trial)}: the gradient of {name} differs by {gap:.1e} with two inputs "
                        "in a row"
                    )

    def test_no_output_depends_on_a_later_input(self) -> None:
        """Causal models: what stands behind a position changes nothing there, nor does its absence."""
        for trial, model in self._causal():
            inputs = inputs_of(trial, dtype=torch.float64)
            outputs = model(inputs)
            for cut in cuts(inputs.shape[2]):
                changed = inputs.clone()
                changed[:, :, cut:] = replaced(trial[2], inputs[:, :, cut:])
                gap = far(model(changed)[:, :, :cut], outputs[:, :, :cut])
                assert gap <= self.exact, (
                    f"{named(trial)}: outputs before position {cut} change by {gap:.1e} with what stands "
                    "there and behind; a causal model must not look ahead (if it should, is_causal is False)"
                )
                gap = far(model(inputs[:, :, :cut]), outputs[:, :, :cut])
                assert gap <= self.exact, (
                    f"{named(trial)}: an input cut off after {cut} positions has outputs that differ by "
                    f"{gap:.1e} from those of the whole"
                )

    def test_step_by_step_equals_forward(self) -> None:
        """Causal models: token by token over the whole length, in float64 and float32."""
        for dtype, bound in ((torch.float64, self.exact), (torch.float32, self.close)):
            for trial, model in self._causal(dtype=dtype):
                inputs = inputs_of(trial, dtype=dtype)
                with torch.no_grad():
                    outputs, state = model(inputs), model.start(BATCH)
                    for place in range(inputs.shape[2]):
                        found, state = model.step(inputs[:, :, place], state)
                        assert found.shape == outputs[:, :, place].shape, (
                            f"{named(trial)}: step gives shape {tuple(found.shape)} where (member, batch, "
                            f"out) is {tuple(outputs[:, :, place].shape)}"
                        )
                        gap = far(found, outputs[:, :, place])
                        assert gap <= bound, (
                            f"{named(trial)}: at position {place}, step and forward differ by {gap:.1e} in "
                            f"{dtype}; at most {bound:.0e} is allowed"
                        )

    def test_rows_can_be_kept(self) -> None:
        """Causal models: `member(i)` goes on with some rows of the batch only."""
        for trial, model in self._causal():
            inputs = inputs_of(trial, dtype=torch.float64)
            half = inputs.shape[2] // 2
            rows = torch.tensor([BATCH - 1, 0])
            for number in range(model.members):
                plain = model.member(number)
                assert isinstance(plain, CausalModel), (
                    f"{named(trial)}: member({number}) of a causal population is no CausalModel"
                )
                tokens = inputs[number]
                expected = plain.forward(tokens)[rows]
                state = plain.start(BATCH)
                for place in range(half):
                    _, state = plain.step(tokens[:, place], state)
                    list(carried(trial, state, (1, BATCH)))  # its axes are those that rows are taken from
                state = plain.kept(state, rows)
                for place in range(half, inputs.shape[2]):
                    found, state = plain.step(tokens[rows, place], state)
                    gap = far(found, expected[:, place])
                    assert gap <= self.exact, (
                        f"{named(trial)}: going on with some rows of the batch only changes outputs by "
                        f"{gap:.1e}; every tensor of a state is (member, batch, …)"
                    )

    def test_states_have_the_size_that_is_stated(self) -> None:
        """Bits of `size` are those that `step` carries, at several lengths; parameters are counted once."""
        for trial in self.populations():
            model = made(trial)
            tables = [id(table) for table in model.embeddings()]
            own = {id(values) for values in (*model.parameters(), *model.buffers())}
            assert len(set(tables)) == len(tables), f"{named(trial)}: embeddings() names a table twice"
            assert own >= set(tables), (
                f"{named(trial)}: embeddings() names a table that is not the model's own"
            )
            counted = {id(values): values[0].numel() for values in (*model.parameters(), *model.embeddings())}
            stated = model.size(trial[2].length, 16)
            assert stated.parameters == sum(counted.values()), (
                f"{named(trial)}: {stated.parameters} parameters are stated and its tensors hold "
                f"{sum(counted.values())}"
            )
            if not model.is_causal:
                assert not stated.state, (
                    f"{named(trial)} is not causal, so it carries nothing, but its size states a memory"
                )
        for trial, model in self._causal(dtype=torch.float32):
            inputs, state = inputs_of(trial), model.start(BATCH)
            for place in range(inputs.shape[2]):
                _, state = model.step(inputs[:, :, place], state)
                for precision in (8, 32):
                    bits = precision * sum(carried(trial, state, (model.members, BATCH)))
                    stated_bits = model.size(place + 1, precision).state_bits(place + 1)
                    assert bits == stated_bits, (
                        f"{named(trial)}: after {place + 1} tokens its state holds {bits} bits for a member "
                        f"and example, at {precision} bits a number, and its size states {stated_bits}"
                    )

    def test_every_parameter_is_trained(self) -> None:
        """Each has a gradient in each member that is finite and not zero everywhere."""
        for trial in self.populations():
            model, inputs = made(trial), inputs_of(trial)
            for name, values in gradients(model, model(inputs)).items():
                assert bool(values.isfinite().all()), f"{named(trial)}: the gradient of {name} is not finite"
                idle = [member for member, part in enumerate(values) if not part.any()]
                assert not idle, (
                    f"{named(trial)}: {name} has no gradient in member {idle[0]}: it cannot be trained; keep "
                    "what is constant out of the parameters (trained=False)"
                )

    def test_initial_weights_follow_the_seed(self) -> None:
        """A function of the seed alone, finite, other for other seeds, whatever place the member has."""
        for trial in self.populations():
            kind, config, task = trial
            before = torch.get_rng_state()
            first, second = (kind(config, signature_of(task), members=3) for _ in range(2))
            with torch.no_grad():
                for values in first.parameters():
                    values.fill_(torch.nan)
            first.initialise((5, 6, 5))
            second.initialise((6, 5, 7))
            assert torch.equal(before, torch.get_rng_state()), (
                f"{named(trial)}: building it draws from torch's global random numbers; draw from the seed"
            )
            mine, others = first.state_dict(), second.state_dict()
            for name in dict(first.named_parameters()):
                assert bool(mine[name].isfinite().all()), (
                    f"{named(trial)}: initialise gives {name} no finite value; declare it with "
                    "`self.parameter(name, shape, law)`"
                )
            for name, values in mine.items():
                same = torch.equal(values[0], values[2])
                assert same, f"{named(trial)}: members of one seed begin with different {name}"
                same = torch.equal(values[0], others[name][1]) and torch.equal(values[1], others[name][0])
                assert same, f"{named(trial)}: the initial {name} depends on the member's place"
            assert any(not torch.equal(values[0], values[1]) for values in mine.values()), (
                f"{named(trial)}: all seeds give the same initial weights"
            )

    def test_weights_come_back_from_a_state_dict(self) -> None:
        """Everything that the outputs depend on is in `state_dict`."""
        for trial in self.populations():
            kind, config, task = trial
            model, inputs = made(trial), inputs_of(trial)
            other = kind(config, signature_of(task), members=3).initialise((1, 2, 3))
            other.load_state_dict(model.state_dict())
            assert torch.equal(model(inputs), other(inputs)), (
                f"{named(trial)}: with its weights loaded into another population, outputs differ by "
                f"{far(other(inputs), model(inputs)):.1e}; something is missing from state_dict"
            )

    def test_too_long_an_input_is_refused(self) -> None:
        """Where there is a table of positions, one position more is an error in words."""
        for trial in self.populations():
            model = made(trial)
            if model.longest is None:
                continue
            inputs = inputs_of(trial)
            spare = model.longest + 1 - inputs.shape[2]
            long = torch.cat([inputs, inputs[:, :, :1].repeat_interleave(max(spare, 0), dim=2)], dim=2)
            long = long[:, :, : model.longest + 1]
            assert refuses(lambda: model(long)), (  # noqa: B023
                f"{named(trial)} has {model.longest} positions and takes an input of {long.shape[2]}; refuse "
                "it with `self.check_length(inputs, self.longest)`"
            )
            if isinstance(model, CausalPopulation) and model.is_causal:
                with torch.no_grad():
                    state = model.start(BATCH)
                    for place in range(model.longest):
                        _, state = model.step(long[:, :, place], state)
                assert refuses(lambda: model.step(long[:, :, -1], state)), (  # noqa: B023
                    f"{named(trial)} has {model.longest} positions and steps beyond them"
                )

    def test_it_compiles_to_one_graph(self) -> None:
        """`torch.compile` takes forward whole, without a break, and it computes the same."""
        if not self.compiles:
            return
        for trial in self.populations():
            model, inputs = made(trial), inputs_of(trial)

            def both(inputs: Tensor, at: Tensor, model: Population = model) -> tuple[Tensor, Tensor]:
                return model(inputs), model(inputs, at)

            at = next(asked(trial))
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")  # the compiler's own remarks
                torch.compiler.reset()
                compiled = torch.compile(both, backend="eager", fullgraph=True)
                try:
                    found = compiled(inputs, at)
                except Exception as error:
                    reason = str(error).strip().splitlines() or [type(error).__name__]
                    raise AssertionError(
                        f"{named(trial)} does not compile to one graph: {reason[0]}"
                    ) from error
                for mine, plain in zip(found, both(inputs, at), strict=True):
                    gap = far(mine, plain)
                    assert gap <= self.close, f"{named(trial)}: compiled, its outputs differ by {gap:.1e}"

    def test_mixed_precision_is_finite(self) -> None:
        """Under bf16 autocast outputs and gradients are finite and near those of float32."""
        for trial in self.populations():
            model, inputs = made(trial), inputs_of(trial)
            for at in (None, next(asked(trial))):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    outputs = model(inputs, at)
                assert bool(outputs.isfinite().all()), (
                    f"{named(trial)}: bf16 gives outputs that are not finite"
                )
                gap = far(outputs.float(), model(inputs, at))
                assert gap <= 0.25, f"{named(trial)}: bf16 moves its outputs by {gap:.1e} of their size"
                for name, values in gradients(model, outputs.float()).items():
                    assert bool(values.isfinite().all()), (
                        f"{named(trial)}: under bf16 the gradient of {name} is not finite"
                    )
                    assert values.dtype == torch.float32, (
                        f"{named(trial)}: under bf16 the gradient of {name} is {values.dtype}, not float32"
                    )

    def test_gpu_gives_the_same_numbers(self) -> None:
        """On a CUDA device outputs and gradients are near those of the CPU."""
        need_gpu()
        for trial in self.populations():
            model, inputs = made(trial), inputs_of(trial)
            there = made(trial).to("cuda")
            for at in (None, *asked(trial)):
                here = model(inputs, at)
                found = there(inputs.to("cuda"), None if at is None else at.to("cuda"))
                gap = far(found.cpu(), here)
                assert gap <= self.gpu_close, f"{named(trial)}: a GPU's outputs differ by {gap:.1e}"
                slopes = gradients(model, here)
                for name, values in gradients(there, found).items():
                    gap = far(values.cpu(), slopes[name])
                    assert gap <= self.gpu_close, (
                        f"{named(trial)}: a GPU's gradient of {name} differs by {gap:.1e}"
                    )

    def test_gpu_captures_it_in_a_graph(self) -> None:
        """A CUDA graph records forward and backward once, and follows the input on every replay.

        A model that says it is not `recordable` is left out.
        """
        need_gpu()
        recordable = [trial for trial in self.populations() if made(trial).recordable]
        if not recordable:
            raise unittest.SkipTest("says that it cannot be recorded")
        for trial in recordable:
            model, inputs = made(trial).to("cuda"), inputs_of(trial).to("cuda")
            with torch.no_grad():  # nothing of this stream may come into the recording
                weights = cotangent(model(inputs), SEEDS)

            def slopes(
                model: Population = model, inputs: Tensor = inputs, weights: Tensor = weights
            ) -> tuple[Tensor, ...]:
                return torch.autograd.grad((model(inputs) * weights).sum(), list(model.parameters()))

            with warnings.catch_warnings():
                # Weights that were used on another stream before are no fault of the model.
                warnings.filterwarnings("ignore", message="The AccumulateGrad node's stream does not match")
                side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    for _ in range(2):
                        slopes()
                torch.cuda.current_stream().wait_stream(side)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    recorded = slopes()
            inputs.copy_(inputs_of(trial, seeds=(7, 8, 9)))
            graph.replay()
            for (name, _), mine, plain in zip(model.named_parameters(), recorded, slopes(), strict=True):
                gap = far(mine, plain)
                assert gap <= self.gpu_close, (
                    f"{named(trial)}: replayed from a CUDA graph, the gradient of {name} differs by {gap:.1e}"
                )

    def _causal(self, *, dtype: torch.dtype = torch.float64) -> Iterator[tuple[Trial, CausalPopulation]]:
        for trial in self.populations():
            model = made(trial, dtype=dtype)
            if model.is_causal:
                assert isinstance(model, CausalPopulation), (
                    f"{named(trial)} says is_causal but is no CausalPopulation: it has no step"
                )
                yield trial, model
