"""Decoding on a CUDA device: the words a CPU writes, in thousands of rows at once.

`PYTHONPATH=src python3 -m pytest tests/gpu/test_decoding_on_gpu.py`
"""

from __future__ import annotations

import pytest
import torch

from separatrix.experiments.decoded import decoded_score
from separatrix.experiments.w_models import W_MODELS, w_model, w_small_model
from separatrix.models.population import signature_of
from separatrix.tasks.is_tree import IsTree

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # the compiler's own remarks
]


@pytest.mark.parametrize("label", W_MODELS)
@pytest.mark.parametrize("form", ["direct", "cot"])
def test_counts_are_those_of_the_cpu(label: str, form: str) -> None:
    is_tree, config = IsTree(n=6, form=form), w_small_model(label)  # type: ignore[arg-type]
    for seed in range(3):
        model = config.kind(config, signature_of(is_tree), members=1).initialise([seed]).double()
        here, there = (
            decoded_score(model, is_tree, examples=300, device=device, precision="float64")
            for device in ("cpu", "cuda")
        )
        assert {**here.to_fields(), "seconds": 0} == {**there.to_fields(), "seconds": 0}


@pytest.mark.parametrize("label", W_MODELS)
def test_five_thousand_graphs_at_once(label: str) -> None:
    is_tree, config = IsTree(n=64, form="cot"), w_model(label, "0.5M")
    model = config.kind(config, signature_of(is_tree), members=1).initialise([1]).cuda()
    found = decoded_score(model, is_tree, examples=5000, batch=5000, precision="bfloat16")
    assert found.examples == 5000
    print(label, f"{found.seconds:.1f} s")  # of interest to whoever reads; nothing is promised
