"""The model under attack, whatever it is made of: many inputs judged at once, and one run again alone.

The search may run on another device than the model lives on; then it runs a copy. What it finds is always
run again by the model itself, in a batch of one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar, final

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from separatrix.certificates.exhaustive import work_of
from separatrix.certificates.fitting import require_fit
from separatrix.errors import InvalidInput
from separatrix.evidence import Counterexample
from separatrix.generation.scripts import Script
from separatrix.models.explicit import ExplicitModel
from separatrix.models.interface import CausalModel, SequenceModel
from separatrix.models.population import (
    CausalPopulation,
    Population,
    SingleMember,
    population_of,
)
from separatrix.models.quantised import Quantised
from separatrix.options import require
from separatrix.precision import FixedPoint
from separatrix.tasks import Classes, Labels, Task, Vectors
from separatrix.tasks.specs import spec_of
from separatrix.witnesses import Witness
from separatrix.witnesses.naming import arithmetic_of, json_of, weights_of
from separatrix.witnesses.solving import CUT_OFF, written_answers

__all__ = ["Judged", "Subject", "checked_device", "labelled", "margins_of", "subject_of"]

Kind = TypeVar("Kind", bound=Population)
_POSITIONS: Final = {"cpu": 1 << 16, "cuda": 1 << 20}
_ROWS: Final = 1 << 12
_WORK_IN_FLOATS: Final = 1 << 23
_WORK_IN_FIXED_POINT: Final = 1 << 19
_WRITTEN_AT_ONCE: Final = 16
_LONGEST_SHOWN: Final = 100_000


class Judged(NamedTuple):
    """For each input its least margin over all labels, and whether some answer is wrong."""

    margins: Float[Tensor, "batch"]
    wrong: Bool[Tensor, "batch"]


class Answers(NamedTuple):
    """Right and given answers of one input at its labelled positions."""

    expected: Tensor
    answered: Tensor
    wrong: bool


class Subject(ABC):
    """A model and its task, ready to be attacked."""

    def __init__(self, task: Task, model: SequenceModel) -> None:
        """`model` is the one that counterexamples are about."""
        self.task = task
        self.weights_sha256, self.arithmetic = weights_of(model), arithmetic_of(model)

    @property
    @abstractmethod
    def at_once(self) -> int:
        """Inputs to judge at once; it depends on their length and the device, never on the time taken."""

    @abstractmethod
    def judged(self, rows: Shaped[Tensor, "batch pos *width"], labels: Labels) -> Judged:
        """Inputs, on the CPU as their labels are, judged by the model or its copy."""

    @abstractmethod
    def alone(self, row: Shaped[Tensor, "pos *width"], labels: Labels) -> Answers:
        """One input, run by the model itself in a batch of one."""

    @property
    def guide(self) -> Population | None:
        """A population of one whose gradients point the way; None where there is none."""
        return None

    @property
    def reader(self) -> CausalModel[Any] | None:
        """The model as one that carries a state from token to token, on the CPU; None where it is none."""
        return None

    def replayed(self, row: Shaped[Tensor, "pos *width"]) -> Counterexample | None:
        """The input as a counterexample, if it fails again when it is run alone."""
        self.task.check(row)
        labels = self.task.solve(row.unsqueeze(0))
        if not bool(labels.mask.any()):
            return None
        expected, answered, wrong = self.alone(row, labels)
        if not wrong:
            return None
        return Counterexample(
            task=spec_of(self.task),
            input=json_of(row),
            expected=json_of(expected),
            answered=json_of(answered),
            weights_sha256=self.weights_sha256,
            arithmetic=self.arithmetic,
            text=self.task.render(row)[:_LONGEST_SHOWN],
        )


def subject_of(
    model: Witness | SequenceModel | Population, task: Task | None, device: torch.device | str | None
) -> Subject:
    """The model for this task, searched on this device; refuses what does not fit in a sentence."""
    if isinstance(model, Witness):
        if task is not None and spec_of(task) != spec_of(model.task):
            raise InvalidInput(
                f"This witness is for {spec_of(model.task)}; got {spec_of(task)}. Build one for it."
            )
        return _of_explicit(model.model, model.task, model.script, device)
    if task is None:
        raise InvalidInput("A model is broken at a task; name it: break_model(model, task).")
    if isinstance(model, Population):
        require(
            model.members == 1,
            f"One model is attacked at a time, and this population has {model.members}; "
            "take population.member(i).",
        )
        return _Trained(task, model, model.member(0), device)
    if isinstance(model, ExplicitModel):
        return _of_explicit(model, task, None, device)
    if isinstance(model, Quantised):
        return _Rounded(task, model, device)
    population = population_of(model) if isinstance(model, SequenceModel) else None
    if population is None:
        raise InvalidInput(
            "A witness, an explicit model or a member of a population can be attacked; "
            f"got {type(model).__name__}."
        )
    return _Trained(task, population, model, device)


@final
class _Trained(Subject):
    """A member of a population: answers are computed at labelled positions only."""

    def __init__(
        self, task: Task, population: Population, model: SequenceModel, device: torch.device | str | None
    ) -> None:
        _require_finite(population.state_dict())
        require_fit(population, task)
        super().__init__(task, model)
        self._model, self._home = model, _home(population)
        self._copy = _moved(population, device)
        self._device = _home(self._copy)

    @property
    def at_once(self) -> int:
        return _rows_at_once(self.task, self._device)

    @property
    def guide(self) -> Population:
        return self._copy

    @property
    def reader(self) -> CausalModel[Any] | None:
        if not isinstance(self._model, SingleMember):
            return None
        return self._model if self._home.type == "cpu" else _as_reader(self._model)

    def judged(self, rows: Shaped[Tensor, "batch pos *width"], labels: Labels) -> Judged:
        at, due, targets = labelled(labels, self.task.asking.most)
        with torch.no_grad():
            outputs = self._copy(rows.to(self._device).unsqueeze(0), at.to(self._device).unsqueeze(0))
        scores = outputs.squeeze(0).cpu().double()
        margins, wrong = margins_of(scores, scores.argmax(-1), targets, self.task.target_space)
        return _over_labels(margins, wrong, due)

    def alone(self, row: Shaped[Tensor, "pos *width"], labels: Labels) -> Answers:
        return _forward_alone(self._model, self.task, row, labels, self._home)


@final
class _Rounded(Subject):
    """A recurrent model with a state of few bits: token by token, guided by the model it was rounded from."""

    def __init__(self, task: Task, model: Quantised, device: torch.device | str | None) -> None:
        population = population_of(model.model)
        require(
            population is not None,
            f"A member of a population can be rounded and attacked; got {type(model.model).__name__}.",
        )
        assert isinstance(population, CausalPopulation)
        _require_finite(population.state_dict())
        require_fit(population, task)
        super().__init__(task, model)
        self._model, self._home = model, _home(population)
        self._population = _moved(population, device)
        self._device = _home(self._population)
        self._copy = Quantised(SingleMember(self._population), bits=model.bits, reach=model.reach)

    @property
    def at_once(self) -> int:
        return _rows_at_once(self.task, self._device)

    @property
    def guide(self) -> Population:
        return self._population

    @property
    def reader(self) -> CausalModel[Any]:
        if self._home.type == "cpu":
            return self._model
        return Quantised(_as_reader(self._model.model), bits=self._model.bits, reach=self._model.reach)

    def judged(self, rows: Shaped[Tensor, "batch pos *width"], labels: Labels) -> Judged:
        with torch.no_grad():
            scores = self._copy.forward(rows.to(self._device)).cpu().double()
        margins, wrong = margins_of(scores, scores.argmax(-1), labels.targets, self.task.target_space)
        return _over_labels(margins, wrong, labels.mask)

    def alone(self, row: Shaped[Tensor, "pos *width"], labels: Labels) -> Answers:
        return _forward_alone(self._model, self.task, row, labels, self._home)


@final
class _Explicit(Subject):
    """Explicit weights that answer at once, in their own arithmetic."""

    def __init__(self, task: Task, model: ExplicitModel, device: torch.device | str | None) -> None:
        super().__init__(task, model)
        self._model, self._device = model, checked_device(device or "cpu")

    @property
    def at_once(self) -> int:
        return _explicit_at_once(self._model, self.task, None)

    @property
    def reader(self) -> CausalModel[Any] | None:
        return self._model if isinstance(self._model, CausalModel) else None

    def judged(self, rows: Shaped[Tensor, "batch pos *width"], labels: Labels) -> Judged:
        at, due, targets = labelled(labels, self.task.asking.most)
        system = self._model.arithmetic
        outputs = self._model.outputs(rows.to(self._device), at=at.to(self._device))
        scores, chosen = system.decode_float64(outputs).cpu(), system.argmax(outputs, -1).cpu()
        margins, wrong = margins_of(scores, chosen, targets, self.task.target_space)
        return _over_labels(margins, wrong, due)

    def alone(self, row: Shaped[Tensor, "pos *width"], labels: Labels) -> Answers:
        found = self._model.answers(row.unsqueeze(0))
        return _compared(found, labels, self.task)


@final
class _Writing(Subject):
    """A witness that writes before it answers: right or wrong, with nothing in between."""

    def __init__(self, task: Task, model: ExplicitModel, script: Script) -> None:
        super().__init__(task, model)
        self._model, self._script = model, script

    @property
    def at_once(self) -> int:
        return min(_WRITTEN_AT_ONCE, _explicit_at_once(self._model, self.task, self._script))

    def judged(self, rows: Shaped[Tensor, "batch pos *width"], labels: Labels) -> Judged:
        written = written_answers(self._model, self._script, rows)
        # Of a search that was cut off nothing is known, so it counts as right.
        wrong = (written != labels.answer) & (written != CUT_OFF) & labels.mask.any(1)
        return Judged(torch.where(wrong, -1.0, 1.0).double(), wrong)

    def alone(self, row: Shaped[Tensor, "pos *width"], labels: Labels) -> Answers:
        batch = row.unsqueeze(0)
        wrong = bool(self.judged(batch, labels).wrong)
        return Answers(labels.answer, written_answers(self._model, self._script, batch), wrong)


def _of_explicit(
    model: ExplicitModel, task: Task, script: Script | None, device: torch.device | str | None
) -> Subject:
    _require_finite(model.tensors())
    if script is not None:
        return _Writing(task, model, script)
    space = task.target_space
    wanted = space.size if isinstance(space, Classes) else None
    # A model may score more words than are ever an answer.
    if (model.classes is None) != (wanted is None) or (model.classes or 0) < (wanted or 0):
        made = "vectors" if model.classes is None else f"{model.classes} classes"
        asked = "vectors" if wanted is None else f"{wanted} classes"
        raise InvalidInput(
            f"This model answers with {made} and {task.name} asks for {asked}; build one for it."
        )
    _require_readable(model, task)
    return _Explicit(task, model, device)


def labelled(
    labels: Labels, most: int
) -> tuple[Int[Tensor, "batch label"], Bool[Tensor, "batch label"], Shaped[Tensor, "batch label *width"]]:
    """Where answers are due, at most so many an input: the places, which of them count, the targets."""
    at = labels.mask.int().argsort(dim=1, descending=True, stable=True)[:, :most]
    due = labels.mask.gather(1, at)
    column = at if labels.targets.dim() == 2 else at.unsqueeze(-1).expand(-1, -1, labels.targets.shape[-1])
    return at, due, labels.targets.gather(1, column)


def margins_of(
    scores: Float[Tensor, "batch label out"],
    chosen: Int[Tensor, "batch label"],
    targets: Shaped[Tensor, "batch label *width"],
    space: Classes | Vectors,
) -> tuple[Float[Tensor, "batch label"], Bool[Tensor, "batch label"]]:
    """How much the right score leads the best other, or by how much an answer is nearer than it must be;
    and whether the answer is wrong.
    """
    if isinstance(space, Vectors):
        distance = (scores - targets).norm(dim=-1)
        return space.tolerance - distance, ~(distance < space.tolerance)  # no number is not near
    column = targets.unsqueeze(-1)
    others = scores.scatter(-1, column, -math.inf).amax(-1)
    return scores.gather(-1, column).squeeze(-1) - others, chosen != targets


def _over_labels(
    margins: Float[Tensor, "batch label"],
    wrong: Bool[Tensor, "batch label"],
    due: Bool[Tensor, "batch label"],
) -> Judged:
    known = margins.nan_to_num(nan=-math.inf, posinf=math.inf, neginf=-math.inf)
    return Judged(known.masked_fill(~due, math.inf).amin(1), (wrong & due).any(1))


def _forward_alone(
    model: SequenceModel, task: Task, row: Shaped[Tensor, "pos *width"], labels: Labels, home: torch.device
) -> Answers:
    with torch.no_grad():
        outputs = model.forward(row.unsqueeze(0).to(home)).cpu()
    found = outputs.double() if isinstance(task.target_space, Vectors) else outputs.argmax(-1)
    return _compared(found, labels, task)


def _compared(found: Shaped[Tensor, "1 pos *width"], labels: Labels, task: Task) -> Answers:
    mask, space = labels.mask[0], task.target_space
    expected, answered = labels.targets[0][mask], found[0][mask]
    if isinstance(space, Vectors):
        wrong = ~((answered - expected.double()).norm(dim=-1) < space.tolerance)
    else:
        wrong = answered != expected
    return Answers(expected, answered, bool(wrong.any()))


def _require_finite(tensors: Mapping[str, Tensor]) -> None:
    for name, values in tensors.items():
        if values.is_floating_point() and not bool(values.isfinite().all()):
            raise InvalidInput(
                f"Weights are finite numbers, and '{name}' holds one that is not; there is nothing to break. "
                "Train or load the model again."
            )


def _require_readable(model: ExplicitModel, task: Task) -> None:
    """Explicit weights do not say which task they are for, so two inputs are tried."""
    batch = task.sample(2, seed=0)
    try:
        model.outputs(batch.inputs)
    except (InvalidInput, AssertionError, IndexError, RuntimeError, ValueError) as error:
        said = str(error).partition("\n")[0][:120]
        raise InvalidInput(
            f"This model cannot read inputs of {spec_of(task)} ({said}); name the task that it was made for."
        ) from error


def _home(population: Population) -> torch.device:
    return next((values.device for values in population.parameters()), torch.device("cpu"))


def _moved(population: Kind, device: torch.device | str | None) -> Kind:
    """The same population if it is there already, else a copy."""
    home = _home(population)
    wanted = home if device is None else checked_device(device)
    if wanted == home or str(wanted) == home.type:
        return population
    return population.alone(0).to(wanted)


def checked_device(device: torch.device | str) -> torch.device:
    """The device of this name, if there is one here."""
    try:
        named = torch.device(device)
    except RuntimeError:
        raise InvalidInput(f"A device is named like cpu, cuda or cuda:1; got {device!r}.") from None
    if named.type == "cuda" and not torch.cuda.is_available():
        raise InvalidInput("There is no CUDA device here to search on; leave the device out, or name cpu.")
    return named


def _as_reader(model: SequenceModel) -> SingleMember:
    population = population_of(model)
    assert isinstance(population, CausalPopulation)
    return SingleMember(population.alone(0).cpu())


def _rows_at_once(task: Task, device: torch.device) -> int:
    return max(1, min(_ROWS, _POSITIONS.get(device.type, _POSITIONS["cpu"]) // task.length))


def _explicit_at_once(model: ExplicitModel, task: Task, script: Script | None) -> int:
    room = _WORK_IN_FIXED_POINT if isinstance(model.arithmetic, FixedPoint) else _WORK_IN_FLOATS
    return max(1, min(_ROWS, room // max(1, work_of(model, task, script))))
