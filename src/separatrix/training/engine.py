"""One step of a whole population: draw, answer, judge, differentiate, update; repeated without the host.

On a GPU the pieces are compiled and the step is recorded in a CUDA graph, drawing included: a replay trains
every member on fresh examples and the host only says "again". On a CPU the same pieces run as they are, and
so they do on a GPU for a model that cannot be recorded.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.population import Population
from separatrix.randomness import Band
from separatrix.tasks.interface import Task
from separatrix.training.labelled import (
    Judged,
    Questions,
    answered,
    judged,
    labels_on_average,
    length_of_two,
    padded_lengths,
    questions,
    side_by_side,
)
from separatrix.training.optimiser import OptimiserState, Rates, update
from separatrix.training.packing import Packed
from separatrix.training.recipes import Precision, Training
from separatrix.training.sources import Source

__all__ = ["Engine", "Meters", "arithmetic"]

_WARM_UPS = 3
_FORMS = 8
"""In which a piece may come at one length."""
_LAYERS = 32


@dataclass(kw_only=True)
class Meters:
    """Sums over the steps since a slot was last looked at."""

    steps: Int[Tensor, "member"]
    loss: Float64[Tensor, "member"]
    labels: Int[Tensor, "member"]
    labels_right: Int[Tensor, "member"]
    examples_right: Int[Tensor, "member"]

    @classmethod
    def zero(cls, members: int, device: torch.device) -> Meters:
        """Nothing counted yet."""

        def whole() -> Int[Tensor, "member"]:
            return torch.zeros(members, dtype=torch.int64, device=device)

        return cls(
            steps=whole(),
            loss=torch.zeros(members, dtype=torch.float64, device=device),
            labels=whole(),
            labels_right=whole(),
            examples_right=whole(),
        )

    def add(self, found: Judged) -> None:
        """Count one step of every member."""
        self.steps.add_(1)
        self.loss.add_(found.losses.detach())
        self.labels.add_(found.labels)
        self.labels_right.add_(found.labels_right)
        self.examples_right.add_(found.examples_right)

    def tensors(self) -> tuple[Tensor, ...]:
        """All counters."""
        return self.steps, self.loss, self.labels, self.labels_right, self.examples_right

    def clear(self, slot: int) -> None:
        """Begin to count anew in this slot."""
        for counter in self.tensors():
            counter[slot] = 0


class Engine:
    """A population with its optimiser, ready to take steps on one source of examples at a time."""

    def __init__(
        self,
        task: Task,
        population: Population,
        packed: Packed,
        state: OptimiserState,
        rates: Rates,
        meters: Meters,
        training: Training,
        *,
        compiled: bool,
    ) -> None:
        """`compiled` has Inductor fuse the pieces; whether a step is recorded has nothing to do with it."""
        self.task, self.population, self.training = task, population, training
        self.packed, self.state, self.rates, self.meters = packed, state, rates, meters
        self.device = packed.values.device
        self._compiled = compiled
        self._warm_ups = _WARM_UPS
        self._bands = torch.arange(training.bands, device=self.device).unbind()
        self._lengths = padded_lengths(task, training.bands)
        self._usual_labels = None if training.bands == 1 else training.batch * labels_on_average(task)
        self._of_two = length_of_two(task, population.seam or 0) if training.paired else 0
        self.use(Source(task=task))

    def use(self, source: Source) -> None:
        """Draw from this source from now on."""
        self._source = source
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._asked: Callable[..., Questions] = self._ask
        self._judged: Callable[..., Judged] = judged
        self._updated: Callable[..., None] = update
        self._is_new = True
        if self._compiled:
            for part in self.population.fusible:
                part.compile(dynamic=False)
            self._asked = torch.compile(self._ask, dynamic=False)
            self._judged = torch.compile(judged, dynamic=False)
            self._updated = torch.compile(update, dynamic=False)

    def run(self, steps: int, *, first: int = 0) -> None:
        """Take so many steps; `first` is the number of the first of them, which says what band it has."""
        recorded = self.record()
        for step in range(first, first + steps):
            band = step % self.training.bands
            if recorded:
                self._graphs[band].replay()
            else:
                self._step(band)

    @property
    def is_recorded(self) -> bool:
        """Whether steps are only replayed from now on."""
        return len(self._graphs) == self.training.bands

    def record(self) -> bool:
        """Record the steps of all bands, if they can be and are not yet; whether they are.

        The graphs share their memory, since none leaves anything there that another reads, and the longest
        come first, so that it is enough for the others.
        """
        if self._compiled and self._is_new:
            # What was compiled for other populations is of no use, and too much of it makes the compiler give
            # up. Not before: several may be made before the first of them is compiled.
            torch.compiler.reset()
            _allow_compiling(self.training.bands)
        self._is_new = False
        recorded = self.device.type == "cuda" and self.population.recordable
        if recorded and not self._graphs:
            for number in reversed(range(self.training.bands)):
                self._graphs[number] = self._graph_of(number)
        return recorded

    def another(self) -> Engine:
        """The same steps of the same weights, to be recorded once more on the stream that is then at hand.

        Nothing is compiled again; two that take their steps at once spoil the weights.
        """
        assert not self._is_new, "what took no step yet is not compiled"
        other = copy.copy(self)
        other._graphs, other._warm_ups = {}, 1
        vars(other).pop("_aside", None)
        return other

    def _step(self, band: int) -> None:
        asked = self._asked(self.rates.seed, self.state.step, self._bands[band])
        if self.training.bands > 1:
            asked = asked.cut(self._lengths[band])
        with arithmetic(self.training.precision, self.device):
            outputs = answered(self.population, asked)
        found = self._judged(outputs, asked, self.task.target_space, self._usual_labels)
        # Where a module of the user's own leaves a weight out on some inputs, its gradient there is zero.
        gradients = torch.autograd.grad(found.losses.sum(), self.packed.parameters, materialize_grads=True)
        joined = self.packed.joined(gradients)
        self._updated(
            self.packed, self.state, self.rates, found.losses.detach(), joined, clip=self.training.clip
        )
        self.meters.add(found)

    def _ask(
        self, seeds: Int[Tensor, "member"], steps: Int[Tensor, "member"], number: Int[Tensor, ""]
    ) -> Questions:
        of = self.training.bands
        band = Band(number=number, of=of) if of > 1 else None
        paired = self.training.paired
        batch = self._source.draw(seeds, steps, batch=self.training.batch, band=band, mirrored=paired)
        asked = questions(batch, self.population.members, most=self._source.task.asking.most)
        if not paired:
            return asked
        return side_by_side(asked, batch.lengths, length=self._of_two, seam=self.population.seam or 0)

    def _graph_of(self, band: int) -> torch.cuda.CUDAGraph:
        """Recording needs a few steps to be taken first; they are taken back."""
        kept = [tensor.clone() for tensor in self._changing()]
        aside = self._aside
        at_hand = torch.cuda.current_stream(self.device)
        aside.wait_stream(at_hand)
        with torch.cuda.stream(aside):
            for _ in range(self._warm_ups):
                self._step(band)
        at_hand.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        self._record(graph, band)
        for tensor, value in zip(self._changing(), kept, strict=True):
            tensor.copy_(value)
        return graph

    @cached_property
    def _aside(self) -> torch.cuda.Stream:
        """Where steps are recorded: the stream at hand, unless it is the default one, which cannot be.

        A recording keeps the scratch memory that matrix products have on its stream. Two that are replayed at
        the same time must not share it, so they are not recorded on one stream.
        """
        at_hand = torch.cuda.current_stream(self.device)
        is_default = at_hand == torch.cuda.default_stream(self.device)
        return torch.cuda.Stream(self.device) if is_default else at_hand  # type: ignore[no-untyped-call]

    def _record(self, graph: torch.cuda.CUDAGraph, band: int) -> None:
        """A step that could be taken and cannot be recorded is refused in a sentence."""
        first: BaseException | None = None
        shared = next((known.pool() for known in self._graphs.values()), None)
        try:
            # Other threads may allocate memory meanwhile.
            with (
                torch.cuda.device(self.device),
                torch.cuda.graph(graph, pool=shared, stream=self._aside, capture_error_mode="thread_local"),
            ):
                try:
                    self._step(band)
                except Exception as error:
                    first = error.__cause__ or error
                    raise
        except Exception as error:
            # A recording that failed ends with an error of its own, which says nothing.
            first = first or error
            if isinstance(first, torch.OutOfMemoryError) or "out of memory" in str(first):
                raise first from None
            raise InvalidInput(
                f"A step of {self.population.name} cannot be recorded in a CUDA graph "
                f"({type(first).__name__}: {' '.join(str(first).split())[:200]}); take out of the model what "
                "asks the GPU for a number, such as .item(), an `if` on a tensor, x[mask] or nonzero(), or "
                "train it on the CPU."
            ) from error

    def _changing(self) -> tuple[Tensor, ...]:
        state = self.state
        return (
            self.packed.values,
            state.mean,
            state.square,
            state.step,
            state.alive,
            state.retired,
            *self.meters.tensors(),
        )


def _allow_compiling(lengths: int) -> None:
    """Let every piece be compiled for so many lengths, in this process from now on; the compiler would go on
    without compiling after a few.
    """
    config: Any = torch._dynamo.config
    config.recompile_limit = max(config.recompile_limit, _FORMS * lengths)
    config.accumulated_recompile_limit = max(config.accumulated_recompile_limit, _LAYERS * _FORMS * lengths)


def arithmetic(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """The block in which a model computes: bfloat16 products over float32 weights, or as the weights are."""
    if precision == "bfloat16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()
