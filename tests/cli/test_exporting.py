"""`separatrix export` on witnesses and runs, with the extras, and the sentences without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import separatrix
from separatrix.cli import main
from separatrix.witnesses.files import save


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    task = separatrix.task("index-lookup", n=4, alphabet=4)
    return save(separatrix.witness_for(task, family="transformer-1"), tmp_path / "witness")


def facts(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


@pytest.mark.extra
def test_a_folder(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    found = facts(capsys, "export", str(folder), "--to", "hf", "--out", str(out))
    assert found["to"] == "hf"
    assert found["out"] == str(out)
    assert found["run"] is None
    assert found["model_type"] == "separatrix"
    assert {file.name for file in out.iterdir()} >= {"config.json", "model.safetensors", "tokenizer.json"}
    assert main(["export", str(folder), "--to", "hf", "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)


@pytest.mark.extra
def test_an_onnx_file_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, out = tmp_path / "runs", tmp_path / "out"
    (trained,) = separatrix.train(
        separatrix.task("index-lookup", n=4, alphabet=4),
        separatrix.model("transformer", width=8),
        training=separatrix.Training(steps=1, batch=4, test_examples=8),
        members=[separatrix.Member(seed=1)],
        store=separatrix.Store(store),
    )
    assert trained.run is not None
    key = trained.run.key
    words = ("export", key[:10], "--store", str(store), "--to", "onnx", "--out", str(out), "--positions", "3")
    found = facts(capsys, *words)
    assert found["run"] == key
    assert found["inputs"] == {"name": "inputs", "dtype": "int64", "shape": ["batch", "3"]}
    assert (out / "model.onnx").exists()
    assert json.loads((out / "model.json").read_text())["model_sha256"] == found["sha256"]


def test_wrong_use(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    for words, sentence in (
        (["nowhere", "--to", "hf", "--out", out], "There is no file or folder 'nowhere'"),
        ([str(folder), "--to", "gguf", "--out", out], "--to is one of hf, onnx; got 'gguf'"),
        ([str(folder), "--to", "hf"], "--out"),
        ([str(folder), "--to", "hf", "--out", out, "--positions", "3"], "leave --positions out"),
    ):
        assert main(["export", *words]) == 2
        assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
