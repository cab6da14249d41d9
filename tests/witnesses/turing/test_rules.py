"""The rules of all three families in plain Python, step for step against the simulator."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.tasks.machine_runs import MachineRuns
from separatrix.tasks.turing import Turing
from tests.witnesses.turing.running import SCRIPTS, plain, small_tasks

SMALL = [
    ("unary-increment", 3),
    ("binary-increment", 2),
    ("parity", 3),
    ("palindrome", 2),
    ("balanced-brackets", 2),
    ("busy-beaver-2", 0),
    ("busy-beaver-3", 0),
]
LARGER = [
    ("unary-increment", 8),
    ("binary-increment", 4),
    ("parity", 4),
    ("palindrome", 4),
    ("balanced-brackets", 4),
    ("binary-multiplication", 3),
    ("busy-beaver-4", 0),
]


def every_tape(task: Turing) -> list[list[str]]:
    return [task.render(row).split()[1 : task.n + 1] for rows in task.enumerate() for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("family", SCRIPTS)
@pytest.mark.parametrize(("machine", "n"), SMALL, ids=[name for name, _ in SMALL])
def test_library_machines(family: str, machine: str, n: int) -> None:
    task = Turing(n=n, machine=machine)  # type: ignore[arg-type]
    assert plain(task, family, every_tape(task))


@pytest.mark.slow
@pytest.mark.parametrize("family", SCRIPTS)
@pytest.mark.parametrize(("machine", "n"), LARGER, ids=[name for name, _ in LARGER])
def test_larger_runs(family: str, machine: str, n: int) -> None:
    task = Turing(n=n, machine=machine)  # type: ignore[arg-type]
    assert plain(task, family, every_tape(task))


@pytest.mark.slow
@pytest.mark.parametrize("family", SCRIPTS)
@settings(deadline=None, max_examples=12)
@given(small_tasks(), st.data())
def test_random_machines(family: str, task: MachineRuns, data: st.DataObject) -> None:
    tape = data.draw(st.lists(st.sampled_from(task.program.alphabet), max_size=task.n))
    assert plain(task, family, [tape])
