"""Runs of any machine as a task: every tape, its text, its answer, its errors."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.tasks.machine_runs import MachineRuns
from separatrix.tasks.machines import library_machine, parse_machine

PARITY = library_machine("parity")


def test_every_tape_once_with_its_answer() -> None:
    task = MachineRuns(n=3, program=PARITY, steps=20)
    rows = torch.cat(list(task.enumerate()))
    texts = [task.render(row) for row in rows]
    tapes = [tape for k in range(4) for tape in itertools.product("_01", repeat=k)]
    assert texts == [" ".join(["<s>", *tape, "="]) for tape in tapes]
    assert len(rows) == task.domain_size() == 40
    labels = task.solve(rows)
    for row, tape, text, answer, mask in zip(rows, tapes, texts, labels.answer, labels.mask, strict=True):
        task.check(row)
        assert torch.equal(task.parse(text), row)
        # Parity stops at the first blank.
        ones = "".join(tape).partition("_")[0].count("1")
        assert task.render_target(answer) == ("odd" if ones % 2 else "even")
        assert mask.nonzero().tolist() == [[len(tape) + 1]]


def test_samples_are_inputs() -> None:
    task = MachineRuns(n=5, program=PARITY, steps=20)
    batch = task.sample(50, seed=3)
    for row, length in zip(batch.inputs, batch.lengths, strict=True):
        task.check(row)
        assert len(task.render(row).split()) == length
    assert sorted(set(batch.lengths.tolist())) == [2, 3, 4, 5, 6, 7]
    assert torch.equal(batch.targets, task.solve(batch.inputs).targets)
    assert task.partitions()["prefix/suffix"].alice == tuple(range(6))


def test_a_run_without_room_has_no_label() -> None:
    row = MachineRuns(n=2, program=PARITY, steps=9).parse("<s> 1 1 =").unsqueeze(0)
    assert MachineRuns(n=2, program=PARITY, steps=3).solve(row).mask.any()
    assert not MachineRuns(n=2, program=PARITY, steps=2).solve(row).mask.any()
    left = parse_machine("start: go\nhalt: end\ngo a -> go L\ngo _ -> end S")
    for room, known in ((0, False), (1, True)):
        task = MachineRuns(n=1, program=left, steps=9, left=room, right=1)
        assert bool(task.solve(task.parse("<s> a =").unsqueeze(0)).mask.any()) == known


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"n": -1, "steps": 1}, "A tape has 0 to 65536 cells; got n=-1. Try 16."),
        ({"n": 1, "steps": 0}, "A run has 1 to 1,048,576 steps; got steps=0. Try 1000."),
        (
            {"n": 3, "steps": 5, "right": 2},
            (
                "With n=3 there must be right from 3 to 1,048,576, or none to take what the steps can reach; "
                "got right=2."
            ),
        ),
        (
            {"n": 3, "steps": 5, "left": "x"},
            (
                "With n=3 there must be left from 0 to 1,048,576, or none to take what the steps can reach; "
                "got left=x."
            ),
        ),
    ],
)
def test_bad_sizes(sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        MachineRuns(program=PARITY, **sizes)
    assert str(caught.value) == message


def test_a_text_is_no_machine_yet() -> None:
    with pytest.raises(
        InvalidInput, match="needs a Machine for program, as parse_machine makes one of a text"
    ):
        MachineRuns(n=3, program=PARITY.render(), steps=5)  # type: ignore[arg-type]


def test_long_tapes_are_counted() -> None:
    assert MachineRuns(n=1 << 16, program=PARITY, steps=5).domain_size() % 1000 == (3**65537 // 2) % 1000
    strokes = parse_machine("start: go\nhalt: end\ngo _ -> end S")
    assert MachineRuns(n=7, program=strokes, steps=5).domain_size() == 8


@pytest.mark.parametrize("text", ["", "<s> 0 1", "0 1 =", "<s> even ="])
def test_other_texts(text: str) -> None:
    with pytest.raises(
        InvalidInput, match="parity needs '<s> tape =' with a tape of 0 to 3 of the symbols _ 0 1"
    ):
        MachineRuns(n=3, program=PARITY, steps=5).parse(text)
