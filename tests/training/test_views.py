"""What a person sees of a training: figures, lines, the live table, and that watching never harms it."""

from __future__ import annotations

import io
import sys
from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from separatrix.evidence import TaskSpec
from separatrix.models.specs import ModelSpec
from separatrix.store import Point
from separatrix.training import Curriculum, Job, Member, Training
from separatrix.training.course import Course, Outcome
from separatrix.training.evaluation import Counted
from separatrix.training.views import (
    LinesView,
    LiveView,
    NotesView,
    Tally,
    differing,
    duration,
    frame_of,
    in_one_line,
    line_of,
    watching,
)

RATES = (1e-3, 1e-2)


def job(members: Sequence[Member] = tuple(Member(lr=lr) for lr in RATES), **training: Any) -> Job:
    return Job(
        task=TaskSpec(name="index-lookup", params={"n": 8}),
        model=ModelSpec(name="transformer"),
        training=Training(**{"steps": 100, **training}),
        members=tuple(members),
    )


def course(
    seats: Sequence[tuple[int | None, int]],
    *,
    of: Job,
    waiting: int = 0,
    taken: int = 0,
    accuracies: Sequence[float] = (),
    outcomes: Sequence[Outcome] = (),
) -> Course:
    """A course as a view sees it: who sits where at which step."""
    sitting = [SimpleNamespace(member=member, step=step, points=[]) for member, step in seats]
    for seat, accuracy in zip(sitting, accuracies, strict=False):
        seat.points.append(point(seat.step, accuracy))
    occupied = tuple(seat.member is not None for seat in sitting)
    return cast(
        Course,
        SimpleNamespace(
            seats=sitting,
            occupied=occupied,
            waiting=deque(range(waiting)),
            taken=taken,
            training=of.training,
            outcomes=list(outcomes),
            done=not any(occupied) and not waiting,
        ),
    )


def point(step: int, accuracy: float, loss: float | None = 0.5) -> Point:
    return Point(step=step, loss=loss, correct=round(1000 * accuracy), examples=1000)


def outcome(member: int, status: Any, *, steps: int = 40, solved_at: int | None = None) -> Outcome:
    counted = Counted(examples=1000, right=900, labels=1000, labels_right=900)
    return Outcome(
        member=member,
        status=status,
        steps=steps,
        solved_at=solved_at,
        counted=counted,
        points=(point(steps, 0.9),),
        tensors={},
    )


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def rates(tally: Tally) -> list[float]:
    return list(tally.rates or ())


def test_the_line_of_a_look() -> None:
    clock = Clock()
    which = job(stop="never", steps=20_000)
    tally = Tally(which, finished=(), clock=clock)
    tally.stepped(course([(0, 0), (1, 0)], of=which), 500)
    clock.now += 1
    tally.stepped(course([(0, 0), (1, 0)], of=which), 500)
    assert rates(tally) == [500, 1000]
    tally.looked(course([(0, 1000), (1, 1000)], of=which, taken=1000, accuracies=(0.4, 0.871)))
    assert line_of(tally) == (
        "step 1,000 of 20,000  best accuracy 0.871 (lr 0.01, seed 0)  1,000 member-steps/s  about 38 s left"
    )


def test_time_left_is_a_bound_where_members_may_stop() -> None:
    for stop, words in (("never", "about"), ("each", "at most")):
        clock, which = Clock(), job(stop=stop)
        tally = Tally(which, finished=(), clock=clock)
        for _ in range(2):
            tally.stepped(course([(0, 0), (1, 0)], of=which), 10)
            clock.now += 1
        assert tally.rest() == f"{words} 8 s left"


def test_the_first_steps_count_for_no_rate_and_old_ones_are_forgotten() -> None:
    clock, which = Clock(), job(steps=100_000)
    tally = Tally(which, finished=(), clock=clock)
    sitting = course([(0, 0)], of=which)
    clock.now += 500  # compiling
    tally.stepped(sitting, 1)
    assert rates(tally) == []
    for _ in range(100):
        clock.now += 1
        tally.stepped(sitting, 10)
    assert rates(tally) == [10, 10]
    for _ in range(32):
        clock.now += 1
        tally.stepped(sitting, 2)
    assert rates(tally) == [2, 2]


def simulated(rests: Sequence[int], waiting: int, each: int, *, together: bool) -> int:
    """Steps until all are through, one by one."""
    seats, queue, steps = list(rests), waiting, 0
    while any(seats) or queue:
        if not together or not any(seats):
            for place, rest in enumerate(seats):
                if not rest and queue:
                    seats[place], queue = each, queue - 1
        seats = [max(0, rest - 1) for rest in seats]
        steps += 1
    return steps


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    waiting=st.integers(0, 9),
    together=st.booleans(),
)
def test_the_bound_on_steps_is_what_happens_if_nobody_stops(
    steps: list[int], waiting: int, together: bool
) -> None:
    members = tuple(Member(seed=seed) for seed in range(20))
    curriculum = Curriculum(start=1, steps=1, stages=1) if together else None
    which = job(members, steps=10, curriculum=curriculum)
    tally = Tally(which, finished=(), clock=Clock())
    tally.looked(course(list(enumerate(steps)), of=which, waiting=waiting))
    assert tally.left == simulated([10 - step for step in steps], waiting, 10, together=together)


def test_lines_come_at_looks_and_not_more_often_than_every_ten_seconds() -> None:
    clock, stream, which = Clock(), io.StringIO(), job(steps=10_000)
    view = LinesView(stream, clock=clock)
    view.begins(which, seats=1, finished=())
    taken = 0
    for _ in range(30):
        for _ in range(5):
            clock.now += 0.2
            view.steps(course([(0, taken), (None, 0)], of=which, taken=taken), 10)
        taken += 50
        view.looked(course([(0, taken), (None, 0)], of=which, taken=taken, accuracies=(0.5,)))
    first, *lines = stream.getvalue().splitlines()
    assert first == "transformer on index-lookup(n=8): 2 members, 1 at a time"
    assert [line.split("  ")[0] for line in lines] == [
        f"step {step} of 10,000" for step in ("50", "550", "1,050")
    ]


def test_the_last_line_comes_whenever_it_is() -> None:
    clock, stream, which = Clock(), io.StringIO(), job()
    view = LinesView(stream, clock=clock)
    view.begins(which, seats=2, finished=(0,))
    view.looked(course([(1, 50)], of=which, taken=50, accuracies=(0.5,)))
    view.looked(course([(None, 0)], of=which, taken=100, outcomes=[outcome(1, "done", steps=100)]))
    assert stream.getvalue().splitlines() == [
        "transformer on index-lookup(n=8): 2 members; 1 in the store already",
        "step 50 of 100  best accuracy 0.500 (lr 0.01, seed 0)",
        "step 100 of 100  best accuracy 0.900 (lr 0.01, seed 0)",
    ]


@pytest.mark.parametrize("kind", [NotesView, LinesView])
def test_a_retired_member_is_reported(kind: type[NotesView]) -> None:
    stream = io.StringIO()
    view = kind(stream)
    view.left(job(), outcome(1, "retired"))
    view.left(job(), outcome(0, "done"))
    assert stream.getvalue() == "Retired at step 40, its loss no finite number: lr 0.01, seed 0.\n"


def test_a_reader_who_left_does_not_stop_the_training() -> None:
    class Closed(io.StringIO):
        tries = 0

        def write(self, _: str) -> int:
            self.tries += 1
            raise BrokenPipeError

    stream = Closed()
    view = LinesView(stream)
    view.begins(job(), seats=2, finished=())
    view.says("more")
    assert stream.tries == 1


def test_notes_cannot_move_the_cursor() -> None:
    stream = io.StringIO()
    NotesView(stream).says("a\x1b[2J\nb")
    assert stream.getvalue() == "a\\x1b[2J\\nb\n" == in_one_line("a\x1b[2J\nb") + "\n"


def terminal(*, height: int = 30, width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=height, _environ={})


def drawn(tally: Tally, console: Console) -> list[str]:
    with console.capture() as capture:
        console.print(frame_of(tally, height=console.height))
    return capture.get().splitlines()


def told(members: int = 2, **training: Any) -> Tally:
    clock = Clock()
    which = job(tuple(Member(seed=seed) for seed in range(members)), **training)
    tally = Tally(which, finished=(members - 1,), clock=clock)
    for _ in range(2):
        tally.stepped(course([(0, 0)], of=which), 10)
        clock.now += 1
    tally.looked(course([(0, 20)], of=which, taken=20, accuracies=(0.25,)))
    return tally


def test_the_table_shows_members_rates_and_time_left() -> None:
    plain = Console(file=io.StringIO(), width=80, height=30, _environ={})
    lines = [line.rstrip() for line in drawn(told(), plain)]
    assert lines[0] == "transformer on index-lookup(n=8)"
    assert lines[1].split() == ["lr", "seed", "step", "loss", "accuracy", "status"]
    assert lines[2].split() == ["0.001", "0", "20", "0.5", "0.250", "training"]
    assert lines[3].split() == ["0.001", "1", "–", "–", "–", "in", "the", "store"]
    assert lines[-2].endswith("step 20 of 100")
    assert lines[-1] == "10 steps/s  10 member-steps/s  at most 8 s left"


def test_a_low_terminal_shows_those_in_training_and_counts_the_rest() -> None:
    tally = told(50)
    for seat in range(30, 34):
        tally.members[seat].standing = "training"
    lines = drawn(tally, terminal(height=14))
    assert len(lines) < 14
    assert sum("training" in line for line in lines) == 5
    assert any("… and 43 more" in line for line in lines)


def test_eighty_columns_are_enough() -> None:
    many = [Member(lr=1.25e-5, seed=10**6, weight_decay=0.123, schedule="cosine", warmup=10_000), Member()]
    tally = Tally(job(many, steps=10**6), finished=(1,), clock=Clock())
    last = outcome(0, "done", steps=250_000, solved_at=250_000)
    tally.looked(course([(None, 0)], of=tally.job, outcomes=[last]))
    lines = drawn(tally, Console(file=io.StringIO(), width=80, height=30, _environ={}))
    assert max(map(cell_len, lines)) <= 80
    assert " ".join(lines[2].split()) == "1.25e-05 1000000 0.123 cosine 10000 250,000 0.5 0.900 done"
    assert lines[3].rstrip().endswith("in the store")
    assert differing(many) == ("lr", "seed", "weight_decay", "schedule", "warmup")
    assert differing(many[:1]) == ("lr", "seed")


def test_the_live_table_is_drawn_a_few_times_a_second_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, console, which = Clock(), terminal(), job()
    view = LiveView(console, clock=clock)
    frames: list[float] = []
    monkeypatch.setattr(
        "separatrix.training.views.frame_of",
        lambda tally, *, height: frames.append(clock.now) or "a frame",  # type: ignore[func-returns-value]
    )
    view.begins(which, seats=2, finished=())
    for _ in range(100):
        clock.now += 0.01
        view.steps(course([(0, 0), (1, 0)], of=which), 1)
    view.says("a note")
    view.looked(course([(None, 0)], of=which, taken=100))
    view.close()
    assert 5 <= len(frames) <= 7
    written = cast(io.StringIO, console.file).getvalue()
    assert "a note" in written
    assert written.endswith("\x1b[2K")  # the table's last line is cleared


def test_what_the_store_has_needs_no_table() -> None:
    console = terminal()
    view = LiveView(console)
    view.begins(job(), seats=0, finished=(0, 1))
    view.close()
    assert cast(io.StringIO, console.file).getvalue() == ""


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = drawn(told(), terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    plain = drawn(told(), Console(file=io.StringIO(), force_terminal=True, width=80, height=30))
    assert any("\x1b[36m" in line for line in coloured)
    assert not any("\x1b[3" in line for line in plain)


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "term", "quiet", "kind"),
    [
        (io.StringIO, "xterm", False, LinesView),
        (Screen, "xterm", False, LiveView),
        (Screen, "dumb", False, LinesView),
        (Screen, "xterm", True, NotesView),
    ],
)
def test_the_view_suits_standard_error(
    stream: type[io.StringIO], term: str, quiet: bool, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys, "stderr", stream())
    with watching(quiet=quiet) as view:
        assert type(view) is kind


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.1, "1 s"), (59, "59 s"), (119, "119 s"), (180, "3 min"), (7_300, "2.0 h"), (50_000, "14 h")],
)
def test_durations_are_said_as_one_would(seconds: float, words: str) -> None:
    assert duration(seconds) == words
