"""Witnesses on disk: they come back as they were, and a save that fails leaves what was there."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch

import separatrix
from separatrix.errors import InvalidFile
from separatrix.evidence import Certificate
from separatrix.precision import FixedDown, Float32
from separatrix.witnesses import Choices, Witness, witness_for
from separatrix.witnesses.files import (
    CERTIFICATE,
    README,
    SPEC,
    WEIGHTS,
    load,
    save,
    stated_certificate,
    weight_bytes,
    weights_sha256,
)
from tests.witnesses.forging import (
    record_of,
    refusal,
    with_spec,
)


def test_a_witness_comes_back_as_it_was(built: Witness, original: Path) -> None:
    back = load(original)
    assert (back.artefact, back.size, back.claims) == (built.artefact, built.size, built.claims)
    assert (back.task, back.arithmetic) == (built.task, built.arithmetic)
    assert back.model.spec() == built.model.spec()
    rows = built.task.sample(20, seed=1).inputs
    assert back.model.forward(rows).equal(built.model.forward(rows))
    assert sorted(path.name for path in original.iterdir()) == sorted((WEIGHTS, SPEC, CERTIFICATE, README))


@pytest.mark.parametrize("system", [Float32(), FixedDown(n=16, k=3)])
def test_the_arithmetic_is_kept(system: Any, tmp_path: Path) -> None:
    task = separatrix.task("index-lookup", n=4, alphabet=2)
    witness = witness_for(task, choices=Choices(system=system, addresses="bch-1/2"))
    back = load(save(witness, tmp_path))
    assert back.arithmetic == system
    assert weights_sha256(back.model) == weights_sha256(witness.model)


def test_the_weights_are_a_safetensors_file_for_everyone(built: Witness, original: Path) -> None:
    found = safetensors.torch.load_file(original / WEIGHTS)
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        name: tensor.tolist() for name, tensor in built.model.tensors().items()
    }
    assert weight_bytes(built.model) == (original / WEIGHTS).read_bytes()


def test_the_hash_stands_for_weights_and_spec(built: Witness, folder: Path) -> None:
    assert record_of(folder)["weights_sha256"] == weights_sha256(built.model)
    with_spec(folder, lambda record: record["model"]["layout"]["slots"].clear())
    assert weights_sha256(load(folder).model) != weights_sha256(built.model)


def test_the_code_on_the_page_runs(original: Path, tmp_path: Path) -> None:
    page = (original / README).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 1
    printed: list[str] = []
    here = Path.cwd()
    os.chdir(original)
    try:
        exec(blocks[0], {"print": lambda *words: printed.append(" ".join(map(str, words)))})
    finally:
        os.chdir(here)
    assert printed.pop() == "proved"
    assert len(printed) == 3
    for line in printed:
        answered, right = re.findall(r"\[(\d+)\]", line)
        assert answered == right
    assert "**proved**" in page


def test_a_page_without_a_proof_says_so(built: Witness, tmp_path: Path) -> None:
    page = (save(built, tmp_path) / README).read_text(encoding="utf-8")
    assert "have not been certified yet" in page
    assert not (tmp_path / CERTIFICATE).exists()


def test_certificates_are_about_these_weights(
    built: Witness, certificate: Certificate, folder: Path, tmp_path: Path
) -> None:
    assert stated_certificate(folder, built) == certificate
    other = witness_for(separatrix.task("index-lookup", n=4, alphabet=4))
    with pytest.raises(InvalidFile, match="a certificate for other weights"):
        stated_certificate(folder, other)
    with pytest.raises(InvalidFile, match="a certificate for other weights"):
        save(other, tmp_path / "never", certificate)
    assert not (tmp_path / "never").exists()
    # Without a certificate of its own, a folder that is written anew must not keep the old one's.
    assert stated_certificate(save(other, folder), other) is None
    for field, value, words in (
        ("arithmetic", "float32", "a certificate for another arithmetic: it names float32"),
        ("task", {"name": "dyck", "params": {"n": 4}}, "a certificate for another task: it names dyck"),
    ):
        data = certificate.to_json() | {field: value}
        (folder / CERTIFICATE).write_text(json.dumps(data))
        with pytest.raises(InvalidFile, match=words):
            stated_certificate(folder, built)


def test_an_interrupted_save_leaves_the_old_folder(
    built: Witness, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = witness_for(separatrix.task("index-lookup", n=4, alphabet=4))

    def stop(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("separatrix.witnesses.files.readme", stop)
    with pytest.raises(KeyboardInterrupt):
        save(other, folder)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert load(folder).task == built.task


def test_a_failing_file_keeps_all_others(
    built: Witness, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights come last, after everything else was written out under another name."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = witness_for(separatrix.task("index-lookup", n=4, alphabet=4))
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).mkdir()
    with pytest.raises(InvalidFile, match="is a folder"):
        save(other, folder)
    (folder / WEIGHTS).rmdir()
    (folder / WEIGHTS).write_bytes(before[WEIGHTS])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (tmp_path / "file").touch()
    with pytest.raises(InvalidFile, match="is a file; name a folder"):
        save(built, tmp_path / "file")
    with pytest.raises(InvalidFile, match="cannot be made: Not a directory"):
        save(built, tmp_path / "file" / "deeper")
    for name in ("a\0b", "a\ud800"):
        with pytest.raises(InvalidFile, match="cannot be made"):
            save(built, tmp_path / name)


def test_half_a_replacement_is_found_by_the_hash(built: Witness, folder: Path) -> None:
    other = witness_for(separatrix.task("index-lookup", n=4, alphabet=4))
    (folder / WEIGHTS).write_bytes(weight_bytes(other.model))
    assert "is not the file that 'witness.json' speaks of: its SHA-256 is" in refusal(folder)
