"""Every task on a CUDA device: the bytes of the CPU, and sampling inside a graph.

Needs torch and pytest alone, so that it runs on a box with nothing else:
`PYTHONPATH=src python3 -m pytest tests/gpu`.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from separatrix.atlas.examples import example_of
from separatrix.tasks import TASKS, Task, task
from separatrix.testing import TaskConformance

pytestmark = pytest.mark.gpu


class Checks(TaskConformance):
    """Only the device checks are called; the definition belongs to each task's own tests."""

    small = ()

    def definition(self, task: Task, row: list[Any]) -> dict[int, Any]:
        raise NotImplementedError

    def balance(self, task: Task) -> None:
        return None


LARGER = (
    task("index-lookup", n=400),
    task("dyck", n=400),
    task("dyck", n=60, types=3, depth=4),
    task("is-tree", n=64, form="cot"),
    task("is-tree", n=32, form="retrieval", trace="full"),
    task("is-tree", n=20, form="cot", graphs="uniform"),
    task("mqar", n=128),
    task("equality", n=100, form="ncp"),
)


@pytest.mark.parametrize("name", [*TASKS.names(), *LARGER], ids=str)
def test_task(name: str | Task) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    checks = Checks()
    chosen = name if isinstance(name, Task) else example_of(name, TASKS.get(name), seed=0).task
    type(checks).typical = (chosen,)
    checks.test_same_bytes_on_a_gpu()
    checks.test_sampling_is_captured_in_a_graph()
    here = chosen.sample(64, seed=1)
    assert torch.equal(chosen.solve(here.inputs.cuda()).targets.cpu(), here.targets)
