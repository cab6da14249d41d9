"""Every figure is made from `results/` again, the same to the last byte, and is the one of the manifest."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.figures import MANIFEST, drawn_with, manifest_text, read_manifest

ROOT = Path(__file__).parents[2]


def drawn_alone(folder: Path, *, hash_seed: str) -> dict[str, str]:
    """All figures, drawn by a process of its own; the SHA-256 of each by name."""
    subprocess.run(
        [sys.executable, "-m", "benchmarks.figures", "--no-manifest", "--out", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1"},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.slow
def test_all_figures_regenerate_from_the_results_to_the_last_byte(tmp_path: Path) -> None:
    first = drawn_alone(tmp_path / "first", hash_seed="1")
    second = drawn_alone(tmp_path / "second", hash_seed="2")
    assert first == second
    assert {Path(name).suffix for name in first} == {".png", ".svg", ".pdf"}
    made_with, hashes = read_manifest()
    assert first.keys() == hashes.keys(), "results or figures changed: run python -m benchmarks.figures"
    if made_with == drawn_with():  # another FreeType may place a letter elsewhere
        assert first == hashes, "results or figures changed: run python -m benchmarks.figures"


def test_the_manifest_is_read_back_as_written(tmp_path: Path) -> None:
    hashes = {"b.svg": "1" * 64, "a b.png": "2" * 64}
    path = tmp_path / "figures.sha256"
    path.write_text(manifest_text(hashes), encoding="utf-8")
    assert read_manifest(path) == (drawn_with(), hashes)


def test_the_manifest_has_every_format_of_every_figure() -> None:
    _, hashes = read_manifest()
    stems = {Path(name).stem for name in hashes}
    assert {f"{stem}.{kind}" for stem in stems for kind in ("png", "svg", "pdf")} == set(hashes)
    assert all(len(digest) == 64 for digest in hashes.values())
    folders = {path.name for path in MANIFEST.parent.iterdir() if path.is_dir()}
    assert all(any(stem.startswith(folder) for stem in stems) for folder in folders)
