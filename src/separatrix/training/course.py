"""The course of one job: members take seats in a population, are looked at, and leave it one by one.

A seat is a row of the population. A member in it takes steps until it has solved the task, has taken all its
steps, has gone to NaN or is dropped; then its seat goes to the next that waits. Looks are due at steps of the
member's own, so what is seen of it does not depend on its neighbours.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from separatrix.errors import InvalidFile
from separatrix.models.kernels.choice import use_backend
from separatrix.models.members import initialise_member
from separatrix.records import JsonObject, Reader
from separatrix.store import Point, Status
from separatrix.training.engine import Engine, Meters
from separatrix.training.evaluation import TEST_EXAMPLES_FROM, Counted, evaluate
from separatrix.training.found import Found
from separatrix.training.jobs import Job
from separatrix.training.memory import ran_out
from separatrix.training.optimiser import OptimiserState, Rates
from separatrix.training.packing import pack
from separatrix.training.placing import Placing
from separatrix.training.recipes import Member
from separatrix.training.sources import Source, sources

if TYPE_CHECKING:
    from separatrix.training.against import Attack

__all__ = ["Course", "Outcome"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a member."""

    member: int
    status: Status
    steps: int
    solved_at: int | None
    counted: Counted
    points: tuple[Point, ...]
    tensors: Mapping[str, Tensor]


@dataclass(kw_only=True)
class _Seat:
    """A row of the population, and who sits there."""

    member: int | None = None
    step: int = 0
    points: list[Point] = field(default_factory=list)


class Course:
    """A job under way. `advance` goes on to the next look; `outcomes` are those who left at the last one."""

    def __init__(self, job: Job, placing: Placing, *, members: tuple[int, ...] | None = None) -> None:
        """`members` are the numbers of those still to be trained; without them, all of the job's."""
        self.job, self.placing, self.training = job, placing, job.training
        self.task = job.built_task
        self.waiting = deque(range(len(job.members)) if members is None else members)
        self.outcomes: list[Outcome] = []
        self.never_began: list[int] = []
        """Who waited when another had solved the task for all."""
        self.rungs: dict[int, list[tuple[float, float]]] = {}
        self.taken = 0
        """Steps of the population as a whole."""
        self._stages = sources(self.task, self.training.curriculum, device=placing.device)
        self._stage = 0
        self.attacker = self._attacker()
        self._seat(min(placing.seats, len(self.waiting)))
        self._fill()

    def _in_turn(self) -> AbstractContextManager[None]:
        """The block for what only one training of a process may do at a time."""
        return nullcontext() if self.placing.turn is None else self.placing.turn.taken()

    def _seat(self, seats: int) -> None:
        """A population of so many rows, all of them empty."""
        with self._in_turn():
            self._make(seats)

    def _make(self, seats: int) -> None:
        device = self.placing.device
        population = self.job.population(seats, own_code=self.placing.own_code)
        dtype = torch.float64 if self.training.precision == "float64" else torch.float32
        self.population = population.to(device=device, dtype=dtype)
        use_backend(self.population, self.placing.backend)
        self.packed = pack(self.population)
        self.state = OptimiserState.fresh(self.packed)
        self.state.alive.zero_()
        self.meters = Meters.zero(seats, device)
        self.rates = Rates.of([Member()] * seats, steps=self.training.steps, device=device)
        self.seats = [_Seat() for _ in range(seats)]
        self.found = self._nothing_found(seats)
        self.engine = Engine(
            self.task,
            self.population,
            self.packed,
            self.state,
            self.rates,
            self.meters,
            self.training,
            compiled=self.placing.compiled,
        )
        self.engine.use(self._source)

    def _attacker(self) -> Attack | None:
        """What looks for worst inputs, if they are trained against."""
        if self.training.against is None:
            return None
        from separatrix.training.against import Attack  # noqa: PLC0415  few trainings need it

        dtype = torch.float64 if self.training.precision == "float64" else torch.float32
        single = self.job.population(1, own_code=self.placing.own_code)
        single = single.to(device=self.placing.device, dtype=dtype)
        return Attack(single, self.task, cases=self.training.against.cases)

    def _nothing_found(self, seats: int) -> Found | None:
        against = self.training.against
        if against is None:
            return None
        return Found.nothing(
            self.task, members=seats, kept=against.kept, share=against.share, device=self.placing.device
        )

    @property
    def _source(self) -> Source:
        return replace(self._stages[self._stage], found=self.found)

    @property
    def done(self) -> bool:
        """Whether nobody sits or waits any more."""
        return not self.waiting and not any(self.occupied)

    @property
    def occupied(self) -> tuple[bool, ...]:
        """Which rows have somebody in them."""
        return tuple(seat.member is not None for seat in self.seats)

    def advance(
        self, tick: Callable[[int], None] | None = None, *, halt: Callable[[], bool] | None = None
    ) -> None:
        """Take steps until somebody is due, look at them, and see who leaves and who comes.

        `tick` is called now and then with the steps taken since the last call. When `halt` says so the steps
        end early, before anybody is due: going on from there is the same as having gone on at once.
        """
        self._choose_stage()
        steps = min(self._stops(seat.step) - seat.step for seat in self.seats if seat.member is not None)
        first = self._common_step()
        taken = 0
        with self._recorded(halt) as ready:
            for count in _portions(steps if ready else 0, self.placing.device):
                self.engine.run(count, first=first + taken)
                taken += count
                if tick is not None or self.placing.turn is not None:
                    self._wait()
                if tick is not None:
                    tick(count)
                if halt is not None and halt():
                    break
        self.taken += taken
        due = []
        for row, seat in enumerate(self.seats):
            if seat.member is not None:
                last, seat.step = seat.step, seat.step + taken
                if self._due(last) == seat.step:
                    due.append(row)
        self.outcomes = self._look(due) if due else []
        self._attack()
        self._fill()

    def _attack(self) -> None:
        """Look for the worst inputs of those who are due, and keep them."""
        against = self.training.against
        if against is None or self.attacker is None or self.found is None:
            return
        for row, seat in enumerate(self.seats):
            if seat.member is None or seat.step % against.every:
                continue
            seed = self.job.members[seat.member].seed
            worst = self.attacker.worst(self.weights_of(row), seed=seed, step=seat.step)
            if worst is None:
                self.found.clear(row)
            else:
                self.found.put(row, worst)

    def weights_of(self, row: int) -> dict[str, Tensor]:
        """A row's weights as a population of one has them."""
        return {name: value[row : row + 1] for name, value in self.population.state_dict().items()}

    @contextmanager
    def _recorded(self, halt: Callable[[], bool] | None = None) -> Iterator[bool]:
        """The block in which steps are taken, and whether any is to be: not if all is over when the turn to
        record them comes. What is recorded needs no turn, whatever others compile meanwhile; steps that
        cannot be recorded may compile at any of them.
        """
        if self.engine.is_recorded:
            yield True
            return
        with self._in_turn():
            ready = self.placing.turn is None or halt is None or not halt()
            replayed = ready and self.engine.record()
        with nullcontext() if replayed or not ready else self._in_turn():
            yield ready

    def _wait(self) -> None:
        if self.placing.device.type == "cuda":
            torch.cuda.current_stream(self.placing.device).synchronize()

    def _stops(self, step: int) -> int:
        """The first step behind this one at which anything but a step happens to a member."""
        against = self.training.against
        due = self._due(step)
        return due if against is None else min(due, (step // against.every + 1) * against.every)

    def _common_step(self) -> int:
        """A step of those who sit. Under a curriculum and in bands it stands for the steps of all."""
        return next(seat.step for seat in self.seats if seat.member is not None)

    def _due(self, step: int) -> int:
        """The first step behind this one at which a member is looked at."""
        training = self.training
        following = [training.steps, (step // training.eval_every + 1) * training.eval_every]
        if training.halving is not None:
            following += training.halving.rungs(training.steps)
        following += [stage.begins for stage in self._stages]
        return min(later for later in following if later > step)

    def _choose_stage(self) -> None:
        """Under a curriculum all who sit are at the same step."""
        step = self._common_step()
        stage = max(place for place, source in enumerate(self._stages) if source.begins <= step)
        if stage != self._stage:
            self._stage = stage
            with self._in_turn():
                self.engine.use(self._source)

    def _look(self, rows: list[int]) -> list[Outcome]:
        """What is seen of those in these rows, and of them who leaves."""
        counted = self._evaluated(self.training.eval_examples, first=0)
        retired, losses = self.state.retired.tolist(), self._mean_losses()
        rates = self.rates.at((self.state.step - 1).clamp(min=0)).tolist()
        steps = self.state.step.tolist()
        leaving: dict[int, tuple[Status, int | None]] = {}
        for row in rows:
            seat = self.seats[row]
            seat.points.append(self._point(seat, losses[row], rates[row], counted[row]))
            self.meters.clear(row)
            if retired[row]:
                seat.step = steps[row]
                leaving[row] = ("retired", None)
            elif counted[row].accuracy >= self.training.solved and self.training.stop != "never":
                leaving[row] = ("done", seat.step)
            elif seat.step >= self.training.steps:
                leaving[row] = ("done", None)
        dropped = self._fallen_behind({row: counted[row] for row in rows if row not in leaving})
        leaving |= dict.fromkeys(dropped, ("dropped", None))
        if self.training.stop == "first" and any(solved is not None for _, solved in leaving.values()):
            others = [row for row, sits in enumerate(self.occupied) if sits and row not in leaving]
            leaving |= dict.fromkeys(others, ("dropped", None))
            self.never_began += self.waiting
            self.waiting.clear()
        return self._left(leaving)

    def _evaluated(self, examples: int, *, first: int) -> tuple[Counted, ...]:
        return evaluate(
            self.population, self.task, examples=examples, precision=self.training.precision, first=first
        )

    def _mean_losses(self) -> list[float]:
        return (self.meters.loss / self.meters.steps.clamp(min=1)).tolist()

    def _point(self, seat: _Seat, loss: float, rate: float, counted: Counted) -> Point:
        return Point(
            step=seat.step,
            loss=loss if math.isfinite(loss) else None,
            rate=rate,
            n=self._stages[self._stage].task.n,
            correct=counted.right,
            examples=counted.examples,
            label_accuracy=counted.labels_right / counted.labels,
        )

    def _fallen_behind(self, looked: Mapping[int, Counted]) -> list[int]:
        """Those at a rung who are not among the best that came there so far."""
        halving = self.training.halving
        if halving is None:
            return []
        rungs = halving.rungs(self.training.steps)
        scores = {
            row: (counted.accuracy, -_or_infinity(self.seats[row].points[-1].loss))
            for row, counted in looked.items()
            if self.seats[row].step in rungs
        }
        for row, score in scores.items():
            self.rungs.setdefault(self.seats[row].step, []).append(score)
        fallen = []
        for row, score in scores.items():
            seen = self.rungs[self.seats[row].step]
            better = sum(other > score for other in seen)
            if better >= -(-len(seen) // halving.factor):
                fallen.append(row)
        return fallen

    def _left(self, leaving: Mapping[int, tuple[Status, int | None]]) -> list[Outcome]:
        if not leaving:
            return []
        counted = self._evaluated(self.training.test_examples, first=TEST_EXAMPLES_FROM)
        found = []
        for row, (status, solved_at) in leaving.items():
            seat = self.seats[row]
            assert seat.member is not None
            found.append(
                Outcome(
                    member=seat.member,
                    status=status,
                    steps=seat.step,
                    solved_at=solved_at,
                    counted=counted[row],
                    points=tuple(seat.points),
                    tensors=self._tensors(row),
                )
            )
            self.seats[row] = _Seat()
            self.state.alive[row] = False
        return found

    def _tensors(self, row: int) -> dict[str, Tensor]:
        values = self.population.state_dict()
        return {name: value[row].detach().cpu().contiguous().clone() for name, value in values.items()}

    def _fill(self) -> None:
        """Give free seats to those who wait: under a curriculum only when all are free, and in bands of
        lengths when those who sit come to the first of them again.
        """
        if any(self.occupied):
            between = self.waiting and self._common_step() % self.training.bands
            if between or self.training.curriculum is not None:
                return
        for row, sits in enumerate(self.occupied):
            if sits or not self.waiting:
                continue
            number = self.waiting.popleft()
            member = self.job.members[number]
            self.seats[row] = _Seat(member=number)
            initialise_member(self.population, row, member.seed)
            self.rates.put(row, member)
            self.state.clear(row)
            self.meters.clear(row)
            if self.found is not None:
                self.found.clear(row)
        if not self.waiting and any(self.occupied):
            self._close_up()

    def _close_up(self) -> None:
        """Leave out the rows that nobody sits in any more; those who stay compute what they would have."""
        rows = [row for row, sits in enumerate(self.occupied) if sits]
        left = self.training.steps - min(self.seats[row].step for row in rows)
        if not self.placing.closes_up(rows=len(self.seats), taken=len(rows), steps_left=left):
            return
        seats, kept = [self.seats[row] for row in rows], self._tensors_of_all()
        frozen = {name: value[rows] for name, value in self.population.state_dict().items()}
        self._seat(len(rows))
        self.seats = seats
        self.population.load_state_dict(frozen)
        for place, seat in enumerate(seats):
            assert seat.member is not None
            self.rates.put(place, self.job.members[seat.member])
        for name, tensor in self._tensors_of_all().items():
            tensor.copy_(kept[name][rows])

    def _tensors_of_all(self) -> dict[str, Tensor]:
        """What changes in training, one row for each seat."""
        found = {} if self.found is None else _prefixed("found", self.found.tensors())
        meters = _prefixed("meter", vars(self.meters))
        return {"weights": self.packed.values, **vars(self.state), **meters, **found}

    def saved(self) -> tuple[dict[str, Tensor], JsonObject]:
        """Everything that going on needs, as tensors and as JSON."""
        tensors = self._tensors_of_all()
        meta: JsonObject = {
            "taken": self.taken,
            "waiting": list(self.waiting),
            "rungs": [
                [step, [[right, loss if math.isfinite(loss) else None] for right, loss in scores]]
                for step, scores in self.rungs.items()
            ],
            "seats": [
                {
                    "member": seat.member,
                    "step": seat.step,
                    "points": [_plain(point) for point in seat.points],
                }
                for seat in self.seats
            ],
        }
        return {name: tensor.detach().cpu() for name, tensor in tensors.items()}, meta

    def restore(self, tensors: Mapping[str, Tensor], meta: JsonObject, *, what: str) -> None:
        """Go on from what `saved` returned, which `what` names. If it does not fit, take another course."""
        try:
            self._restore(tensors, Reader(meta, what="the checkpoint"))
        except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as failure:
            if ran_out(failure):
                raise
            reason = (
                f"it lacks {failure}" if isinstance(failure, KeyError) else str(failure)[:200].rstrip(".")
            )
            raise InvalidFile(f"{what} does not fit this job: {reason}.") from failure

    def _restore(self, tensors: Mapping[str, Tensor], read: Reader) -> None:
        self.taken = read.count("taken")
        self.waiting = deque(int(number) for number in read.items("waiting"))  # type: ignore[call-overload]
        rungs: Any = read.items("rungs")
        self.rungs = {
            int(step): [
                (float(accuracy), -math.inf if loss is None else float(loss)) for accuracy, loss in scores
            ]
            for step, scores in rungs
        }
        seats = []
        for item in read.items("seats"):
            one = Reader(item, what="a seat of the checkpoint")
            points = [Point(**point) for point in one.items("points")]  # type: ignore[arg-type]
            seats.append(_Seat(member=one.optional_count("member"), step=one.count("step"), points=points))
        read.finish()
        self._require_members([*self.waiting, *(seat.member for seat in seats if seat.member is not None)])
        self._seat(len(seats))
        self.seats = seats
        for row, seat in enumerate(seats):
            if seat.member is not None:
                member = self.job.members[seat.member]
                initialise_member(self.population, row, member.seed)  # for what is random and not trained
                self.rates.put(row, member)
        for name, tensor in self._tensors_of_all().items():
            if tensors[name].shape != tensor.shape or tensors[name].dtype != tensor.dtype:
                raise ValueError(f"'{name}' has another shape")
            tensor.copy_(tensors[name])

    def _require_members(self, numbers: list[int]) -> None:
        if len(set(numbers)) < len(numbers) or not set(numbers) <= set(range(len(self.job.members))):
            raise ValueError("its members are not those of the job")

    @property
    def members(self) -> frozenset[int]:
        """Who sits or waits."""
        return frozenset([*self.waiting, *(seat.member for seat in self.seats if seat.member is not None)])

    def add(self, members: Iterable[int]) -> None:
        """Have these wait behind the others."""
        self.waiting.extend(members)
        self._fill()


def _portions(steps: int, device: torch.device) -> Iterator[int]:
    """Steps to take between two ticks: few where a step may be slow."""
    portion = 100 if device.type == "cuda" else 10
    for done in range(0, steps, portion):
        yield min(portion, steps - done)


def _or_infinity(loss: float | None) -> float:
    """A loss that is no number is worse than any."""
    return math.inf if loss is None else loss


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}_{name}": tensor for name, tensor in tensors.items()}


def _plain(point: Point) -> JsonObject:
    fields = point.to_fields()
    del fields["accuracy"]
    return fields
