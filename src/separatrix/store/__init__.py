"""Runs, curves, weights and checkpoints on disk: SQLite, Parquet and safetensors in one folder.

Rows need nothing but the standard library; torch and pyarrow are imported when tensors and curves are.
"""

from __future__ import annotations

from separatrix.store.curves import Point
from separatrix.store.intervals import Interval, wilson
from separatrix.store.keys import key_of, short
from separatrix.store.runs import STATUSES, Result, Run, Status
from separatrix.store.store import Store, default_place, has_store

__all__ = [
    "STATUSES",
    "Interval",
    "Point",
    "Result",
    "Run",
    "Status",
    "Store",
    "default_place",
    "has_store",
    "key_of",
    "short",
    "wilson",
]
