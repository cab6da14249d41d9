"""How members are trained: curricula, and settings that make no sense."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.tasks import task
from separatrix.tasks.interface import Tokens
from separatrix.training import Curriculum, Halving, Member, Training, train
from separatrix.training.sources import sources
from tests.training.test_populations import LOOKUP, MINE, MODEL, QUICK


def test_a_curriculum_draws_short_inputs_in_the_words_of_the_long() -> None:
    long = task("index-lookup", n=12, alphabet=4)
    space = long.input_space
    assert isinstance(space, Tokens)
    stages = sources(long, Curriculum(start=3, steps=30, stages=3), device=torch.device("cpu"))
    assert [(stage.begins, stage.task.n) for stage in stages] == [(0, 3), (10, 6), (20, 9), (30, 12)]
    nearly = sources(
        task("index-lookup", n=14, alphabet=4),
        Curriculum(start=12, steps=2, stages=1),
        device=torch.device("cpu"),
    )
    mapped = nearly[0].draw(torch.tensor([1]), torch.tensor([0]), batch=40).inputs
    assert int(mapped.max()) == 4 + 14, "padding, which lengths of 10 to 12 need, is that of the long task"
    for stage in stages:
        drawn = stage.draw(torch.tensor([1]), torch.tensor([0]), batch=20)
        own = stage.task.sample(20, seed=1)
        for mine, its in zip(drawn.inputs, own.inputs, strict=True):
            padded = torch.nn.functional.pad(mine, (0, long.length - len(mine)), value=int(space.pad or 0))
            assert long.render(padded) == stage.task.render(its)
    training = replace(QUICK, curriculum=Curriculum(start=3, steps=16, stages=2))
    (one,) = train(LOOKUP, MODEL, members=[MINE], training=training, device="cpu")
    assert [point.n for point in one.curve] == [3, 6, 8]


def test_a_curriculum_needs_answers_that_stay_the_same() -> None:
    with pytest.raises(InvalidInput, match="start=9"):
        sources(LOOKUP, Curriculum(start=9, steps=8), device=torch.device("cpu"))
    with pytest.raises(InvalidInput, match="choose one of them"):
        Training(curriculum=Curriculum(start=2, steps=8), halving=Halving(first=5))
    with pytest.raises(InvalidInput, match="needs a task on words"):
        train(
            task("nearest-neighbour", n=8),
            MODEL,
            members=[MINE],
            training=replace(QUICK, curriculum=Curriculum(start=2, steps=8)),
            device="cpu",
        )


def test_what_would_never_happen_is_refused() -> None:
    """A full n that is never reached, a rung behind the last step."""
    for steps in (24, 25):
        with pytest.raises(InvalidInput, match=f"got {steps} steps of it and 24 in all. Give training more."):
            replace(QUICK, curriculum=Curriculum(start=2, steps=steps))
        with pytest.raises(InvalidInput, match=f"got first={steps} of 24 steps"):
            replace(QUICK, halving=Halving(first=steps))
    (one,) = train(
        LOOKUP,
        MODEL,
        members=[MINE],
        training=replace(QUICK, curriculum=Curriculum(start=2, steps=23)),
        device="cpu",
    )
    assert one.curve[-1].n == LOOKUP.n
    assert replace(QUICK, halving=Halving(first=23)).compares


def counted(name: str, value: int) -> Training:
    changed: dict[str, Any] = {name: value}
    return Training(**changed)


def test_settings_that_make_no_sense_are_refused() -> None:
    for wrong, words in (
        ({"lr": 0.0}, "above 0"),
        ({"lr": math.nan}, "above 0"),
        ({"seed": -1}, "2\\^62"),
        ({"weight_decay": -1.0}, "finite number of at least 0"),
        ({"weight_decay": math.inf}, "finite number of at least 0"),
        ({"schedule": "linear"}, "constant or cosine"),
        ({"warmup": 1 << 40}, r"between 0 and 2\^40 − 1 steps; got warmup=1099511627776\."),
        ({"warmup": 10**400}, r"got warmup=a number beyond 10\^30\."),
    ):
        with pytest.raises(InvalidInput, match=words):
            Member(**wrong)
    for name in ("steps", "batch", "eval_every", "eval_examples", "test_examples"):
        for value in (0, 1 << 40):
            words = rf"Training needs {name.replace('_', ' ')} from 1 to 2\^40 − 1; got {name}={value}\."
            with pytest.raises(InvalidInput, match=words):
                counted(name, value)
        assert getattr(counted(name, (1 << 40) - 1), name) == (1 << 40) - 1
    with pytest.raises(InvalidInput, match="two with lr"):
        train(LOOKUP, MODEL, members=[MINE, MINE], training=QUICK, device="cpu")
    with pytest.raises(
        InvalidInput, match="no CUDA device" if not torch.cuda.is_available() else "A device is"
    ):
        train(
            LOOKUP,
            MODEL,
            members=[MINE],
            training=QUICK,
            device="cuda:0" if not torch.cuda.is_available() else "x",
        )
