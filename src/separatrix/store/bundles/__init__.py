"""Bundles: finished runs that left their store for a folder of Parquet files, small enough for a repository.

    runs.parquet        a row a run: what came of it, its config and where it was computed
    curves.parquet      their learning curves, long ones thinned
    evidence.parquet    what was found out about them, where anything was

The same runs are the same bytes. `runs.parquet` has the hashes of the others and of its own rows, so that
what was damaged, edited or mixed up is refused. Weights stay behind.
"""

from __future__ import annotations

from separatrix.store.bundles.bundle import KINDS, MOST_POINTS, Bundle, make_bundle, merge_bundles
from separatrix.store.bundles.folders import bundle_runs, has_bundle, read_bundle, write_bundle
from separatrix.store.bundles.results import bundles_in, results_folder

__all__ = [
    "KINDS",
    "MOST_POINTS",
    "Bundle",
    "bundle_runs",
    "bundles_in",
    "has_bundle",
    "make_bundle",
    "merge_bundles",
    "read_bundle",
    "results_folder",
    "write_bundle",
]
