"""Watching a training: a live table on a terminal, plain lines elsewhere, and what came of it at the end.

A view is an observer of jobs. All of them reckon from one tally: where each member is, how fast the
population goes, and how long the rest can take at most.
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Final, Literal, TextIO, TypeAlias

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from separatrix.records import JsonObject
from separatrix.store import Point, key_of
from separatrix.training.course import Course, Outcome
from separatrix.training.jobs import Job
from separatrix.training.recipes import Member
from separatrix.training.running import Observer, Trained

__all__ = [
    "LinesView",
    "LiveView",
    "NotesView",
    "best_first",
    "differing",
    "duration",
    "in_one_line",
    "setting",
    "summary_of",
    "watching",
]

Clock: TypeAlias = Callable[[], float]
Standing: TypeAlias = Literal["waiting", "training", "done", "retired", "dropped", "in the store"]

_BETWEEN_FRAMES: Final = 0.2
_BETWEEN_LINES: Final = 10.0
_RATE_OVER: Final = 30.0
"""Seconds that the rate is measured over: long enough to be calm, short enough to follow a change."""
_COLOURS: Final[dict[Standing, str]] = {
    "training": "cyan",
    "done": "green",
    "retired": "red",
    "dropped": "magenta",
}
_SOLVED: Final = "bold green"
_HEADINGS: Final = {"weight_decay": "decay", "warmup": "warm-up"}
_NONE: Final = "–"
_LINES_AROUND: Final = 7
"""Lines of a terminal that are not members: heading, bar, figures and room to breathe."""


@dataclass(kw_only=True)
class Seen:
    """What is known of a member so far."""

    standing: Standing = "waiting"
    step: int = 0
    last: Point | None = None
    solved: bool = False

    @property
    def accuracy(self) -> float | None:
        """At the last look."""
        return None if self.last is None else self.last.accuracy


class Tally:
    """Where a job stands, from what an observer is told."""

    def __init__(self, job: Job, *, finished: Sequence[int], clock: Clock) -> None:
        self.job = job
        self.members = [Seen() for _ in job.members]
        for number in finished:
            self.members[number].standing = "in the store"
        self.taken = 0
        """Steps of the population, also those before a resume."""
        self.left: int | None = None
        """Steps of the population that are left at most; None before anything is known."""
        self._clock = clock
        self._marks: deque[tuple[float, int, int]] = deque()
        self._own = self._own_of_members = self._since_look = 0

    def stepped(self, course: Course, count: int) -> None:
        """The population took so many steps more."""
        seated = sum(course.occupied)
        self._own, self._own_of_members = self._own + count, self._own_of_members + count * seated
        self._since_look += count
        now = self._clock()
        # What came before the first mark is compiling and warming up, which no later step pays for.
        self._marks.append((now, self._own, self._own_of_members))
        while len(self._marks) > 2 and now - self._marks[1][0] > _RATE_OVER:
            self._marks.popleft()
        self._place(course)

    def looked(self, course: Course) -> None:
        """Members were looked at, and some may have left."""
        self._since_look = 0
        for outcome in course.outcomes:
            self._leave(outcome)
        self._place(course)

    def _place(self, course: Course) -> None:
        self.taken = course.taken + self._since_look
        for seat in course.seats:
            if seat.member is not None:
                seen = self.members[seat.member]
                seen.standing, seen.step = "training", seat.step + self._since_look
                seen.last = seat.points[-1] if seat.points else seen.last
        self.left = _most_steps_left(course, self._since_look)

    def _leave(self, outcome: Outcome) -> None:
        seen = self.members[outcome.member]
        seen.step = outcome.steps
        seen.last = outcome.points[-1] if outcome.points else seen.last
        seen.solved = outcome.solved_at is not None
        standings: dict[str, Standing] = {"retired": "retired", "dropped": "dropped"}
        seen.standing = standings.get(outcome.status, "done")

    @property
    def rates(self) -> tuple[float, float] | None:
        """Steps a second of the population, and of all its members together; None if it is too early."""
        if len(self._marks) < 2 or self._marks[-1][0] <= self._marks[0][0]:
            return None
        (first, steps, of_members), (last, steps_now, of_members_now) = self._marks[0], self._marks[-1]
        return (steps_now - steps) / (last - first), (of_members_now - of_members) / (last - first)

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this rate if nobody stops early."""
        if self.left is None or self.rates is None or not self.rates[0]:
            return None
        return self.left / self.rates[0]

    @property
    def most_steps(self) -> int:
        """Steps of the population from beginning to end, at most."""
        return self.taken + (self.left or 0)

    @property
    def best(self) -> int | None:
        """The member that did best when it was last looked at; of equals the one that came first."""
        looked = [number for number, seen in enumerate(self.members) if seen.accuracy is not None]
        return max(looked, key=lambda number: self.members[number].accuracy or 0.0, default=None)

    def rest(self) -> str:
        """The time that is left, in words; an upper bound where members may end before their last step."""
        if self.seconds_left is None:
            return ""
        training = self.job.training
        surely = training.stop == "never" and training.halving is None
        return f"{'about' if surely else 'at most'} {duration(self.seconds_left)} left"


def _most_steps_left(course: Course, since_look: int) -> int:
    """Steps of the population until all are through if nobody ends early.

    Those who wait take the seats that fall free first. All of them have the same steps to go, so they sit
    down in rounds, in the order in which the seats fall free.
    """
    each = course.training.steps
    rests = sorted(
        max(0, each - seat.step - since_look) if seat.member is not None else 0 for seat in course.seats
    )
    if not course.waiting:
        return rests[-1]
    rounds, last = divmod(len(course.waiting) - 1, len(rests))
    if course.training.curriculum is not None:
        return rests[-1] + (rounds + 1) * each
    return max(rests[last] + (rounds + 1) * each, rests[-1] + rounds * each)


class NotesView(Observer):
    """Says only what a person should know: notes, and members that went to NaN."""

    def __init__(self, stream: TextIO, *, name: str = "") -> None:
        """`name` stands before every line, where there are lines of others among them."""
        self._stream, self._name = stream, name
        self._heard = True

    def beside(self, job: Job) -> Observer:
        """The same for one of several jobs."""
        return NotesView(self._stream, name=job.short_name)

    def says(self, note: str) -> None:
        """One line. Where nobody reads any more, training goes on without a word."""
        line = f"[{self._name}] {note}" if self._name else note
        if self._heard:
            try:
                # At once and whole, since other threads may write too.
                self._stream.write(in_one_line(line) + "\n")
                self._stream.flush()
            except OSError:
                self._heard = False

    def left(self, job: Job, outcome: Outcome) -> None:
        """Report a member whose numbers are none any more."""
        if outcome.status == "retired":
            member = job.members[outcome.member]
            self.says(f"Retired at step {outcome.steps:,}, its loss no finite number: {member}.")


class LinesView(NotesView):
    """A line at a look, but not more often than every ten seconds."""

    def __init__(self, stream: TextIO, *, name: str = "", clock: Clock = time.monotonic) -> None:
        super().__init__(stream, name=name)
        self._clock = clock
        self._tally: Tally | None = None
        self._last = -math.inf

    def beside(self, job: Job) -> Observer:
        """The same for one of several jobs."""
        return LinesView(self._stream, name=job.short_name, clock=self._clock)

    def begins(self, job: Job, *, seats: int, finished: Sequence[int]) -> None:
        """What is going to be trained."""
        self._tally = Tally(job, finished=finished, clock=self._clock)
        self._last = -math.inf
        self.says(opening(job, seats=seats, finished=finished))

    def steps(self, course: Course, count: int) -> None:
        """Count them."""
        assert self._tally is not None
        self._tally.stepped(course, count)

    def looked(self, course: Course) -> None:
        """Where the population is, if it has not been said just now."""
        assert self._tally is not None
        self._tally.looked(course)
        now = self._clock()
        if now - self._last >= _BETWEEN_LINES or course.done:
            self._last = now
            self.says(line_of(self._tally))


def opening(job: Job, *, seats: int, finished: Sequence[int]) -> str:
    """The first line of a job."""
    members = len(job.members)
    those = "1 member" if members == 1 else f"{members:,} members"
    known = f"; {len(finished):,} in the store already" if finished else ""
    side = f", {seats:,} at a time" if seats < members - len(finished) else ""
    return f"{job.model.name} on {job.task}: {those}{side}{known}"


def line_of(tally: Tally) -> str:
    """Where a job stands, in a line."""
    parts = [f"step {tally.taken:,} of {tally.most_steps:,}"]
    if tally.best is not None:
        accuracy = tally.members[tally.best].accuracy
        parts.append(f"best accuracy {accuracy:.3f} ({tally.job.members[tally.best]})")
    if tally.rates is not None:
        parts.append(f"{_rate(tally.rates[1])} member-steps/s")
    if tally.left:
        parts.append(tally.rest())
    return "  ".join(part for part in parts if part)


class LiveView(NotesView):
    """A table of the members on a terminal, drawn anew a few times a second."""

    def __init__(self, console: Console, *, clock: Clock = time.monotonic) -> None:
        super().__init__(console.file)  # type: ignore[arg-type]
        self._console, self._clock = console, clock
        self._live: Live | None = None
        self._tally: Tally | None = None
        self._last = -math.inf

    def beside(self, job: Job) -> Observer:
        """Lines: there is one table at a time."""
        return LinesView(self._stream, name=job.short_name, clock=self._clock)

    def begins(self, job: Job, *, seats: int, finished: Sequence[int]) -> None:
        """Put the table up, if anybody is left to be trained."""
        self.close()
        self._tally = Tally(job, finished=finished, clock=self._clock)
        self._last = -math.inf
        if len(finished) < len(job.members) or job.training.compares:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
            self._draw()

    def steps(self, course: Course, count: int) -> None:
        """Count them, and show them now and then."""
        assert self._tally is not None
        self._tally.stepped(course, count)
        self._draw()

    def looked(self, course: Course) -> None:
        """Show what was seen."""
        assert self._tally is not None
        self._tally.looked(course)
        self._draw()

    def says(self, note: str) -> None:
        """A line above the table."""
        self._console.print(Text(in_one_line(note)))

    def close(self) -> None:
        """Take the table away."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self) -> None:
        now = self._clock()
        if self._live is not None and self._tally is not None and now - self._last >= _BETWEEN_FRAMES:
            self._last = now
            self._live.update(frame_of(self._tally, height=self._console.height), refresh=True)


def frame_of(tally: Tally, *, height: int) -> RenderableType:
    """The table, the bar and the figures; on a low terminal only some of the members."""
    shown = _most_telling(tally, max(3, height - _LINES_AROUND))
    job, columns = tally.job, differing(tally.job.members)
    heading = Text.assemble(
        (job.model.name, "bold cyan"), f" on {job.task}", no_wrap=True, overflow="ellipsis"
    )
    gap = 2 if len(columns) < 4 else 1
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for name in (*(_HEADINGS.get(column, column) for column in columns), "step", "loss", "accuracy"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for number in shown:
        member, seen = job.members[number], tally.members[number]
        loss = None if seen.last is None else seen.last.loss
        table.add_row(
            *(setting(member, column) for column in columns),
            f"{seen.step:,}" if seen.step else _NONE,
            _NONE if loss is None else f"{loss:.4g}",
            _NONE if seen.accuracy is None else f"{seen.accuracy:.3f}",
            Text(seen.standing, _SOLVED if seen.solved else _COLOURS.get(seen.standing, "dim")),
        )
    hidden = len(tally.members) - len(shown)
    more = [Text(f"… and {hidden:,} more", "dim")] if hidden else []
    return Group(heading, table, *more, Text(), *_bottom(tally))


def _bottom(tally: Tally) -> Iterator[RenderableType]:
    bar = Table.grid(padding=(0, 2))
    filled = ProgressBar(total=max(1, tally.most_steps), completed=tally.taken, width=40)
    bar.add_row(filled, f"step {tally.taken:,} of {tally.most_steps:,}" if tally.left is not None else "")
    yield bar
    if tally.rates is None:
        yield Text("The first steps are under way.", "dim")
    else:
        steps, of_members = tally.rates
        figures = [f"{_rate(steps)} steps/s", f"{_rate(of_members)} member-steps/s", tally.rest()]
        yield Text("  ".join(figures), no_wrap=True, overflow="ellipsis")


def _most_telling(tally: Tally, most: int) -> list[int]:
    """All members in their order; if they are too many, those in training first, then the best."""
    everyone = list(range(len(tally.members)))
    if len(everyone) <= most:
        return everyone

    def worth(number: int) -> tuple[bool, float]:
        seen = tally.members[number]
        return seen.standing == "training", -1.0 if seen.accuracy is None else seen.accuracy

    return sorted(sorted(everyone, key=worth, reverse=True)[:most])


@contextmanager
def watching(*, quiet: bool = False) -> Iterator[Observer]:
    """The view that suits standard error: a live table on a terminal, else lines; `quiet`, notes alone."""
    if quiet:
        yield NotesView(sys.stderr)
        return
    console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal or console.is_dumb_terminal:
        yield LinesView(sys.stderr)
        return
    view = LiveView(console)
    try:
        yield view
    finally:
        view.close()


def best_first(trained: Sequence[Trained]) -> list[Trained]:
    """The most accurate first; of equals the one that solved the task sooner."""
    last = math.inf
    return sorted(trained, key=lambda one: (-one.accuracy, one.solved_at or last, one.steps))


def summary_of(job: Job, one: Trained) -> JsonObject:
    """What came of a member, as JSON values."""
    config = job.config_of(one.member)
    return {
        "key": key_of(config),
        "config": config,
        "status": one.status,
        "steps": one.steps,
        "solved_at": one.solved_at,
        "accuracy": one.accuracy,
        "interval": list(one.interval),
        "correct": one.correct,
        "examples": one.examples,
        "label_accuracy": one.label_accuracy,
        "loss": one.curve[-1].loss if one.curve else None,
        "seconds": one.seconds,
    }


def differing(members: Sequence[Member]) -> tuple[str, ...]:
    """The settings to tell members apart by: rate and seed, and whatever else is not the same for all."""
    others = [field.name for field in fields(Member) if field.name not in {"lr", "seed"}]
    return "lr", "seed", *(name for name in others if len({getattr(one, name) for one in members}) > 1)


def setting(member: Member, name: str) -> str:
    """One setting of a member, short."""
    value = getattr(member, name)
    return f"{value:g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """A time in one unit, rounded as one would say it."""
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            count = seconds / length
            return f"{count:,.0f} {unit}" if count >= 10 or unit == "min" else f"{count:.1f} {unit}"
    return f"{seconds:,.0f} s" if seconds >= 1 else "1 s"


def in_one_line(text: str) -> str:
    """The text without what could move a cursor: each such character is written as its escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.3g}"
