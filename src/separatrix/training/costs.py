"""What a job would cost: counted from its config, and timed on a few real steps that are thrown away."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch.utils.flop_counter import FlopCounterMode

from separatrix.errors import InvalidInput
from separatrix.models.kernels.choice import Backend
from separatrix.models.population import Population
from separatrix.randomness import Band
from separatrix.records import JsonObject
from separatrix.store import Store, key_of
from separatrix.store.checkpoints import Checkpoints
from separatrix.store.runs import FINISHED
from separatrix.tasks.interface import Task
from separatrix.training.course import Course
from separatrix.training.evaluation import evaluate
from separatrix.training.jobs import Job
from separatrix.training.labelled import (
    Questions,
    answered,
    judged,
    length_of_two,
    padded_lengths,
    questions,
    side_by_side,
)
from separatrix.training.memory import in_thousands, require_room, step_bytes
from separatrix.training.placing import Placing
from separatrix.training.running import placing_for
from separatrix.training.views import duration

__all__ = ["Cost", "Timing", "cost_of", "rows_of"]

_LONGEST_STEP: Final = 2.0
"""Seconds a step may take to be timed whole; what is slower is timed in part and scaled up."""
_LONGEST_TIMING: Final = 2.0
_MOST_TIMED: Final = 50
_LOOKED_AT: Final = 32
"""Examples that a timed look answers on a CPU."""
_MATRICES: Final = 3
"""Weights, and Adam's two moments of each."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds of the population, measured: of a step, of all looks on a member's way, of the last one.

    Where worst inputs are trained against, of all attacks too.
    """

    step: float
    looks: float
    test: float
    device: str
    part: str | None
    """What was timed in place of the whole, if that would have taken too long."""
    attacks: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Counts of a whole job, and what of it the store has already."""

    members: int
    in_store: int
    to_train: int
    seats: int
    rounds: int
    steps: int
    """Most steps of a member."""
    examples: int
    """That a member sees at most."""
    parameters: int
    flops: int
    """Of a member's step, forward and backward, matrix products only."""
    flops_from: str
    bytes: int
    """Of a population's weights and of its optimiser."""
    step_bytes: int
    """That a step of the population holds at once, at least."""
    checkpoint_step: int | None
    """Where training would go on from, if it was cut off before."""
    bounded: bool
    """Whether members may stop before their last step, so that this is the most it can come to."""
    timing: Timing | None
    attacks: int = 0
    """How often a member's worst inputs are looked for, if it is trained against them."""
    share: float = 0.0
    """Of a batch, what they have from then on."""

    @property
    def all_steps(self) -> int:
        """Steps of all members that are still to be trained."""
        return self.to_train * self.steps

    @property
    def seconds(self) -> float | None:
        """The whole time at the measured rate: steps, looks on the way and the last one of each round."""
        return None if self.timing is None else self.rounds * self._of_a_round(self.timing)

    def _of_a_round(self, timing: Timing) -> float:
        return self.steps * timing.step + timing.looks + timing.attacks + timing.test

    def to_fields(self) -> JsonObject:
        """The counts as JSON values."""
        return {
            **dataclasses.asdict(self),
            "all_steps": self.all_steps,
            "all_examples": self.to_train * self.examples,
            "all_flops": self.all_steps * self.flops,
            "seconds": self.seconds,
        }


def cost_of(
    job: Job,
    *,
    store: Store | None = None,
    device: str = "auto",
    seats: int | None = None,
    compiled: bool | None = None,
    backend: Backend = "auto",
    own_code: bool = False,
) -> Cost:
    """Count a job, and time a few of its steps where it would be run; nothing is kept of them."""
    placing = placing_for(
        job, device=device, seats=seats, compiled=compiled, backend=backend, own_code=own_code
    )
    known, checkpoint = (0, None) if store is None else _kept(job, store)
    rest = len(job.members) - known
    if rest and job.training.compares:
        rest = len(job.members)
    taken = min(placing.seats, rest)
    placing = dataclasses.replace(placing, seats=taken)
    if rest:
        require_room(job, placing)
    single = job.population(1, own_code=own_code)
    parameters = sum(values.numel() for values in single.parameters())
    flops, flops_from = _flops(job, own_code=own_code)
    number = 8 if job.training.precision == "float64" else 4
    against = job.training.against
    return Cost(
        members=len(job.members),
        in_store=known,
        to_train=rest,
        seats=taken,
        rounds=-(-rest // taken) if rest else 0,
        steps=job.training.steps,
        examples=job.training.steps * job.training.batch,
        parameters=parameters,
        flops=flops,
        flops_from=flops_from,
        bytes=_MATRICES * number * parameters * taken,
        step_bytes=step_bytes(job, placing),
        checkpoint_step=checkpoint,
        attacks=0 if against is None else against.attacks(job.training.steps),
        share=0.0 if against is None else against.share,
        bounded=job.training.stop != "never" or job.training.halving is not None,
        timing=_timing(job, placing) if rest else None,
    )


def _kept(job: Job, store: Store) -> tuple[int, int | None]:
    """How many members the store has finished, and the step of the newest checkpoint of the others."""
    wanted = {key_of(job.config_of(member)) for member in job.members}
    found = store.runs(task=job.task.name, model=job.model.name)
    known = sum(run.key in wanted and run.status in FINISHED for run in found)
    return known, Checkpoints(store.folder_of(job.key), job.key).last_step()


def _flops(job: Job, *, own_code: bool) -> tuple[int, str]:
    """Operations of one member's step, and where the number is from.

    Shapes alone are enough to count; where a model does more with its numbers than that, one example is
    computed. What cannot be counted either way is reckoned.
    """
    for device in ("meta", "cpu"):
        try:
            counted = _counted(job, device, own_code=own_code)
        except (RuntimeError, NotImplementedError, InvalidInput):
            continue
        return job.training.batch * counted, "counted in matrix products"
    parameters = sum(values.numel() for values in job.population(1, own_code=own_code).parameters())
    positions = job.training.batch * job.built_task.length
    return 6 * parameters * positions, "reckoned as 6 × parameters × positions"


def _counted(job: Job, device: str, *, own_code: bool) -> int:
    """Operations of one example, forward and backward; of bands of lengths, on the average."""
    population = job.population(1, own_code=own_code).to(device)
    rows = _rows(job, population.seam or 0)
    inputs = len(rows) * (2 if job.training.paired else 1)
    return sum(_of_a_row(job.built_task, population, one) for one in rows) // inputs


def _rows(job: Job, seam: int) -> list[Questions]:
    """One as long as any that is computed, of each band; two inputs where they share a row."""
    task, bands = job.built_task, job.training.bands
    if job.training.paired:
        two = task.sample(2, seed=0, mirrored=True)
        asked = questions(two, 1, most=task.asking.most)
        return [side_by_side(asked, two.lengths, length=length_of_two(task, seam), seam=seam)]
    if bands == 1:
        return [questions(task.full_length().sample(1, seed=0), 1, most=task.asking.most)]
    found = []
    for number, length in enumerate(padded_lengths(task, bands)):
        drawn = task.sample(1, seed=0, band=Band(number=number, of=bands))
        found.append(questions(drawn, 1, most=task.asking.most).cut(length))
    return found


def _of_a_row(task: Task, population: Population, asked: Questions) -> int:
    device = next(population.parameters()).device
    asked = dataclasses.replace(
        asked,
        inputs=asked.inputs.to(device),
        at=None if asked.at is None else asked.at.to(device),
        targets=asked.targets.to(device),
        due=asked.due.to(device),
        begins=None if asked.begins is None else asked.begins.to(device),
        second=None if asked.second is None else asked.second.to(device),
    )
    mode = FlopCounterMode(display=False)
    with mode:
        outputs = answered(population, asked)
        loss = judged(outputs, asked, task.target_space).losses.sum()
        torch.autograd.grad(loss, tuple(population.parameters()))
    return int(mode.get_total_flops())


def _timing(job: Job, placing: Placing) -> Timing:
    """Seconds of a step and of the looks, of the whole population or scaled up from a part of it.

    On a GPU a small part says nothing about the whole, and each would be compiled anew: all is timed.
    """
    seats, batch = placing.seats, job.training.batch
    if placing.device.type != "cuda" and not placing.compiled:
        seats, batch = _affordable(job, placing)
    step, look = _timed(job, placing, seats=seats, batch=batch)
    whole = (seats, batch) == (placing.seats, job.training.batch)
    training = job.training
    count = -(-training.steps // training.eval_every)
    count += 0 if training.halving is None else len(training.halving.rungs(training.steps))
    share = placing.seats / seats
    return Timing(
        step=step * share * training.batch / batch,
        looks=look * share * training.eval_examples * count,
        attacks=_attacks(job, placing),
        test=look * share * training.test_examples,
        device=_named(placing.device),
        part=None
        if whole
        else f"{seats:,} of {placing.seats:,} seats and {batch:,} of {training.batch:,} examples",
    )


def _affordable(job: Job, placing: Placing) -> tuple[int, int]:
    """Seats and examples with which a step stays short, from the time of a small one."""
    seats, batch = placing.seats, job.training.batch
    row = 2 if job.training.paired else 1
    first = row * max(1, batch // (16 * row))
    course = _course(job, placing, seats=1, batch=first)
    bands = job.training.bands
    course.engine.run(bands)
    small = _seconds(lambda: course.engine.run(bands), placing.device) / bands
    rows = int(first * _LONGEST_STEP / max(small, 1e-9))
    if rows >= seats * batch:
        return seats, batch
    return (min(seats, rows // batch), batch) if rows >= batch else (1, row * max(1, rows // row))


def _timed(job: Job, placing: Placing, *, seats: int, batch: int) -> tuple[float, float]:
    """Seconds of a step, and of an example at a look."""
    course = _course(job, placing, seats=seats, batch=batch)
    device, bands = placing.device, job.training.bands
    first = _seconds(lambda: course.engine.run(bands), device)  # compiling and warming up
    second = _seconds(lambda: course.engine.run(bands), device)
    more = bands * min(-(-_MOST_TIMED // bands), int(_LONGEST_TIMING / max(min(first, second), 1e-9)))
    step = _seconds(lambda: course.engine.run(more), device) / more if more else second / bands

    examples = min(job.training.eval_examples, _LOOKED_AT) if device.type == "cpu" else 1000

    def look() -> None:
        evaluate(course.population, course.task, examples=examples, precision=job.training.precision)

    look()
    return step, _seconds(look, device) / examples


def _attacks(job: Job, placing: Placing) -> float:
    """Seconds of all attacks: they go from member to member, so one is timed."""
    against = job.training.against
    if against is None:
        return 0.0
    course = _course(job, placing, seats=1, batch=2)
    attacker, weights = course.attacker, course.weights_of(0)
    assert attacker is not None
    once = _seconds(lambda: attacker.found(weights, seed=0, step=against.every), placing.device)
    return once * placing.seats * against.attacks(job.training.steps)


def _course(job: Job, placing: Placing, *, seats: int, batch: int) -> Course:
    """A course at the task's full size, to be timed and thrown away."""
    training = dataclasses.replace(
        job.training,
        batch=batch,
        curriculum=None,
        halving=None,
        against=job.training.against if batch > 1 else None,
    )
    part = dataclasses.replace(job, training=training, members=job.members[:seats])
    return Course(part, dataclasses.replace(placing, seats=seats))


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    started = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


def _named(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {torch.get_num_threads()} thread{'s' if torch.get_num_threads() > 1 else ''}"


def rows_of(cost: Cost) -> list[tuple[str, str]]:
    """The counts as a table of names and texts."""
    rows = [("members", f"{cost.members:,}")]
    if cost.in_store:
        rows.append(("in the store already", f"{cost.in_store:,}"))
        if cost.to_train == cost.members:
            rows.append(("", "trained again all the same, since members are compared with each other"))
    if cost.checkpoint_step is not None and cost.to_train:
        rows.append(("checkpoint to go on from", f"step {cost.checkpoint_step:,}"))
    rows += [
        ("to train", f"{cost.to_train:,}"),
        ("steps of a member", f"{cost.steps:,}"),
        ("examples of a member", f"{cost.examples:,}"),
        *([("attacks on a member", _attacked(cost))] if cost.attacks else []),
        ("parameters of a member", f"{cost.parameters:,}"),
        ("FLOP of a member's step", f"{in_thousands(cost.flops)} ({cost.flops_from})"),
    ]
    if cost.to_train:
        rows += [
            ("FLOP in all", in_thousands(cost.all_steps * cost.flops)),
            ("seats, trained side by side", f"{cost.seats:,}"),
            ("populations in turn", f"{cost.rounds:,}"),
            ("weights and optimiser", f"{in_thousands(cost.bytes)}B a population"),
            ("memory of a step", f"at least {in_thousands(cost.step_bytes)}B"),
        ]
    if cost.timing is not None and cost.seconds is not None:
        timing = cost.timing
        rate = f"{1 / timing.step:,.3g} steps/s, {cost.seats / timing.step:,.3g} member-steps/s"
        rows += [
            ("rate, measured here", f"{rate} ({timing.device})"),
            *([("", f"scaled up from {timing.part}")] if timing.part else []),
            ("time", _in_words(cost.seconds, bounded=cost.bounded)),
        ]
    return rows


def _attacked(cost: Cost) -> str:
    return f"{cost.attacks:,}; what they find is {cost.share:.3g} of each batch behind them"


def _in_words(seconds: float, *, bounded: bool) -> str:
    if bounded:
        return f"at most about {duration(seconds)}; less if members stop early"
    return f"about {duration(seconds)}"
