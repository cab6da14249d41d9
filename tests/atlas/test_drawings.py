"""Each drawing shows its sample and its labels, whatever they are."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

import pytest
import torch

from separatrix.atlas.drawings import DRAWINGS, draw
from separatrix.atlas.drawings.fallback import draw_positions
from separatrix.atlas.examples import Example, example_of
from separatrix.atlas.svg import WIDTH, Canvas
from separatrix.tasks import TASKS, Classes
from separatrix.tasks import task as make_task

SEEDS = range(6)


def test_every_task_has_a_drawing_of_its_own() -> None:
    assert tuple(DRAWINGS) == TASKS.names()


@pytest.mark.parametrize("name", TASKS.names())
def test_any_sample_can_be_drawn(name: str) -> None:
    seen = set()
    for seed in SEEDS:
        example = example_of(name, TASKS.get(name), seed=seed)
        drawing = draw(name, "Title", example)
        root = ElementTree.fromstring(drawing.svg)
        assert root.attrib["viewBox"].split()[:3] == ["0", "0", str(WIDTH)]
        assert drawing.caption.endswith(".")
        assert _filled(root), "an answer is filled in"
        seen.add(drawing.svg)
    assert len(seen) == len(SEEDS), "other samples make other drawings"


@pytest.mark.parametrize("name", TASKS.names())
def test_a_drawing_is_of_the_example_and_not_of_the_task(name: str) -> None:
    example = example_of(name, TASKS.get(name), seed=3)
    batch = example.task.sample(1, seed=example.seed, start=example.number)
    assert torch.equal(batch.inputs[0], example.row)
    assert torch.equal(batch.targets[0], example.targets)
    assert torch.equal(example.task.solve(example.row.unsqueeze(0)).targets[0], example.targets)


@pytest.mark.parametrize("name", TASKS.names())
def test_the_answer_shown_is_the_label(name: str) -> None:
    """Another label, another drawing: nothing that is shown as the answer is worked out on the side."""
    example = example_of(name, TASKS.get(name), seed=0)
    drawing = draw(name, "Title", example)
    changed = draw(name, "Title", _mislabelled(example))
    assert (drawing.svg, drawing.caption) != (changed.svg, changed.caption)


@pytest.mark.parametrize("name", TASKS.names())
def test_the_fallback_draws_any_task(name: str) -> None:
    example = example_of(name, TASKS.get(name), seed=0)
    canvas = Canvas()
    sketch = draw_positions(canvas, example)
    root = ElementTree.fromstring(canvas.svg(name, title="t", desc=sketch.says, height=sketch.height))
    assert _filled(root), "the last label is among what is shown"


@pytest.mark.parametrize(
    ("distinct", "caption", "strong"),
    [
        (True, "No vertex lies on an undirected 5-cycle.", 0),
        (False, "4 of 6 vertices lie on a closed walk of five edges: 1, 2, 3, 4.", 4),
    ],
)
def test_five_cycles_are_drawn_as_the_task_reads_them(distinct: bool, caption: str, strong: int) -> None:
    """A triangle with a tail: only its own vertices and the next one have a walk, and none a cycle."""
    task = make_task("cycle5", n=6, distinct=distinct)
    row = task.parse("6: 1-2 2-3 1-3 3-4 4-5")
    labels = task.solve(row.unsqueeze(0))
    example = Example(
        task=task, seed=0, number=0, row=row, targets=labels.targets[0], mask=labels.mask[0], length=6
    )
    drawing = draw("cycle5", "Title", example)
    assert drawing.caption == caption
    edges = [element for element in ElementTree.fromstring(drawing.svg).iter() if element.tag == "line"]
    assert sum(element.get("class") == "edge on" for element in edges) == strong


def test_an_example_says_how_it_was_made() -> None:
    example = example_of("cycle5", TASKS.get("cycle5"), seed=0)
    assert example.changed == {"n": 10, "density": 0.25, "distinct": True}
    assert example.parameters == "n=10, density=0.25, distinct=True"


def _mislabelled(example: Example) -> Example:
    """The example with its last label changed."""
    targets, last = example.targets.clone(), example.labelled[-1]
    space = example.task.target_space
    if isinstance(space, Classes):
        targets[last] = (targets[last] + 1) % space.size
    else:
        targets[last] += 0.5
    return dataclasses.replace(example, targets=targets)


def _filled(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [element for element in root.iter() if {"answer", "said"} & set(element.get("class", "").split())]
