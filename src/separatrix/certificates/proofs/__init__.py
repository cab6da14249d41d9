"""Proofs about weights, one file a kind of construction; found by what a witness says it shows.

A proof reads tensors and spec, nothing else. That the spec names a theorem only says which proof to try.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, cast

from separatrix.certificates.enclosures import Rounding
from separatrix.evidence import Claim
from separatrix.models.explicit import ExplicitModel
from separatrix.tasks import Task

__all__ = ["PROOFS", "Prove", "proof_for"]

Prove = Callable[[ExplicitModel, Task, Rounding], tuple[Claim, ...]]

PROOFS: Final[Mapping[tuple[str, str, str], str]] = MappingProxyType(
    {
        ("S-T1", "index-lookup", ""): "index_lookup:prove",
        ("S-E", "dyck", ""): "dyck_rnn:prove",
        ("S-E", "dyck", "sigmoid-type activations"): "dyck_rnn:prove",
        ("UP-RNN", "index-lookup", ""): "stored_input:prove",
        ("UP-RNN", "associative-recall", ""): "stored_input:prove",
        ("UP-RNN", "mqar", ""): "stored_input:prove",
        ("UP-RNN", "equality", ""): "stored_input:prove",
        ("S-E-cited", "dyck", ""): "dyck:prove_recognise",
        ("S-E-cited", "dyck", "next characters"): "dyck:prove_next",
        ("UP-TF1", "dyck", "linear size"): "linear_size:prove_dyck",
        ("UP-TF1", "equality", "linear size"): "linear_size:prove_equality",
        ("UP-TF1", "disjointness", "linear size"): "linear_size:prove_disjointness",
        ("S-T6", "equality", ""): "equality:prove",
        ("S-L5", "equality", "any balanced partition"): "equality:prove",
        ("S-T13", "sparse-threshold", ""): "sparse_threshold:prove",
        ("S-T13", "disjointness", ""): "disjointness:prove",
        ("S-T7", "associative-recall", ""): "recall:prove",
        ("S-T7", "mqar", ""): "recall:prove",
        ("S-T7", "nearest-neighbour", ""): "nearest_neighbour:prove",
        ("R-qSA", "q-sparse-averaging", ""): "sparse_averaging:prove",
        ("R-M2", "match2", ""): "matching:prove",
        ("R-M3", "match3", ""): "matching:prove",
        ("R-M3′", "match3", "last-output"): "last_match:prove",
        ("R-M3′", "match3", "local"): "matching_layers:prove_local",
        ("UP-M3", "match3", ""): "matching_layers:prove_wide",
        ("R-G", "cycle3", "graph unit of order 3"): "cycles:prove",
        ("R-G", "cycle5", "graph unit of order 5"): "cycles:prove",
    }
)
"""(theorem, task, variant) to `module:function` of this package."""


def proof_for(theorem: str, task: str, variant: str) -> Prove | None:
    """The proof for such a witness, imported now; None where there is none."""
    home = PROOFS.get((theorem, task, variant))
    if home is None:
        return None
    module, _, name = home.partition(":")
    return cast(Prove, getattr(importlib.import_module(f"separatrix.certificates.proofs.{module}"), name))
