"""Tiny trained runs, for the commands that take them."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

import separatrix
from separatrix.models.lstm import LSTM
from separatrix.models.population import ModelConfig
from separatrix.models.transformer import Transformer
from separatrix.store import Run, Store
from separatrix.tasks import Task
from separatrix.training import Member, Training, train

TASK = separatrix.task("index-lookup", n=3, alphabet=2)
ONE_LAYER = Transformer.Config(layers=1, width=8, heads=2)
TWO_LAYERS = dataclasses.replace(ONE_LAYER, layers=2)
RECURRENT = LSTM.Config(layers=1, width=8)
RIGHT = 120
"""Steps after which it is right everywhere."""


def trained(
    store: Store, *, steps: int, task: Task = TASK, model: ModelConfig = ONE_LAYER, **member: Any
) -> Run:
    """A run that has taken so many steps."""
    settings = Training(steps=steps, eval_every=steps, eval_examples=100, test_examples=100, stop="never")
    (one,) = train(
        task,
        model,
        members=[Member(**{"lr": 0.02, **member})],
        training=settings,
        store=store,
        device="cpu",
    )
    assert one.run is not None
    return one.run


def with_nan(store: Store, run: Run) -> None:
    """Its weights, one of which is no number any more."""
    sealed = store.weights(run.key)
    tensors = {name: values.clone() for name, values in sealed.tensors.items()}
    next(iter(tensors.values())).view(-1)[0] = torch.nan
    store.write_weights(run.key, tensors, sealed.meta)
