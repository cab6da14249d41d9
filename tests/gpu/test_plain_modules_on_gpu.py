"""Users' plain modules on a CUDA device: recorded, taken step by step, or refused in a sentence.

`PYTHONPATH=src python3 -m pytest tests/gpu/test_plain_modules_on_gpu.py`
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from separatrix.tasks.q_sparse_averaging import QSparseAveraging
from separatrix.training import Member, Training, train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # the compiler's own remarks
]

AVERAGING = QSparseAveraging(n=5, q=2, d=3)
QUICK = Training(steps=6, batch=4, eval_examples=4, test_examples=4, precision="float64")
HERE = "tests.models.own_nets"

REFUSED = f"""
from separatrix.errors import InvalidInput
from separatrix.training import Member, Training, train
from separatrix.tasks.q_sparse_averaging import QSparseAveraging

task = QSparseAveraging(n=5, q=2, d=3)
training = Training(steps=6, batch=4, eval_examples=4, test_examples=4)
try:
    train(task, "{HERE}:asking", members=[Member()], training=training, device="cuda")
except InvalidInput as refusal:
    print(refusal)
"""


@pytest.mark.parametrize("name", ["rows", "scaled", "recurrent"])
def test_steps_are_those_on_a_cpu(name: str) -> None:
    """Float64 on both, so that only the order of sums differs; torch's LSTM cannot be recorded."""
    here, there = (
        train(AVERAGING, f"{HERE}:{name}", members=[Member(lr=0.01)], training=QUICK, device=device)[0]
        for device in ("cpu", "cuda")
    )
    for ours, its in zip(
        here.population.state_dict().values(), there.population.state_dict().values(), strict=True
    ):
        assert torch.allclose(ours, its.cpu(), rtol=1e-6, atol=1e-9)


def test_what_asks_for_a_number_is_refused_in_a_sentence() -> None:
    """In a process of its own, for a recording that failed may leave the device in no state for others."""
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", REFUSED], cwd=root, capture_output=True, text=True, check=True, timeout=300
    )
    assert ran.stdout.startswith(f"A step of {HERE}:asking cannot be recorded in a CUDA graph (")
    assert "take out of the model what asks the GPU for a number" in ran.stdout
