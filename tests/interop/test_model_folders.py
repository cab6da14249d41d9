"""What a folder must have, and what is refused before anything of it is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from separatrix.errors import InvalidInput, SeparatrixError
from separatrix.interop import model_folder


def made(folder: Path, **files: object) -> Path:
    """A folder that is in order, but for these files; None leaves one out."""
    usual: dict[str, object] = {
        "config.json": {"model_type": "llama"},
        "model.safetensors": "weights",
        "tokenizer.json": {},
        "tokenizer_config.json": {},
    }
    for name, content in (usual | files).items():
        if content is not None:
            text = content if isinstance(content, str) else json.dumps(content)
            (folder / name).write_text(text)
    return folder


def test_a_folder_in_order(tmp_path: Path) -> None:
    found = model_folder(str(made(tmp_path)))
    assert (found.path, found.model_type) == (tmp_path, "llama")


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"config.json": None}, "has no config.json"),
        ({"config.json": "{"}, "is not JSON"),
        ({"config.json": []}, "must hold a JSON object"),
        ({"config.json": {}}, "names no model_type"),
        ({"config.json": {"model_type": "x", "auto_map": {"AutoModel": "evil.Model"}}}, "never run"),
        ({"tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["evil.T", None]}}}, "never run"),
        ({"tokenizer.json": None}, "has no tokenizer"),
        ({"model.safetensors": None}, "has no weights"),
        ({"model.safetensors": None, "pytorch_model.bin": "x"}, "pytorch_model.bin, a pickle"),
        ({"adapter_config.json": {}}, "adapter for another model"),
    ],
)
def test_what_is_refused(tmp_path: Path, files: dict[str, object], sentence: str) -> None:
    with pytest.raises(SeparatrixError, match=sentence) as caught:
        model_folder(made(tmp_path, **files))
    assert str(tmp_path) in str(caught.value)
    assert str(caught.value).endswith(".")


def test_a_pickle_beside_safetensors_is_no_matter(tmp_path: Path) -> None:
    model_folder(made(tmp_path, **{"pytorch_model.bin": "x"}))


@pytest.mark.parametrize("tokenizer", ["tokenizer.model", "vocab.txt"])
def test_tokenizers_of_other_kinds(tmp_path: Path, tokenizer: str) -> None:
    model_folder(made(tmp_path, **{"tokenizer.json": None, tokenizer: "x"}))


def test_no_folder_and_a_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no folder"):
        model_folder(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="is a file"):
        model_folder(tmp_path / "file")
    with pytest.raises(InvalidInput):
        model_folder("a\0b")


def sharded(folder: Path, names: object) -> Path:
    index = {"weight_map": names}
    return made(folder, **{"model.safetensors": None, "model.safetensors.index.json": index})


def test_shards_are_all_there(tmp_path: Path) -> None:
    sharded(tmp_path, {"a": "one.safetensors", "b": "two.safetensors", "c": "one.safetensors"})
    (tmp_path / "one.safetensors").touch()
    with pytest.raises(
        InvalidInput, match=r"lacks 1 of the 2 files with its weights, such as two.safetensors"
    ):
        model_folder(tmp_path)
    (tmp_path / "two.safetensors").touch()
    model_folder(tmp_path)


@pytest.mark.parametrize(
    "names", [None, {}, {"a": "../one.safetensors"}, {"a": "one.bin"}, {"a": 3}, {"a": "/etc/x.safetensors"}]
)
def test_shards_lie_in_the_folder_and_are_safetensors(tmp_path: Path, names: object) -> None:
    sharded(tmp_path, names)
    with pytest.raises(InvalidInput, match="must name safetensors files of that folder"):
        model_folder(tmp_path)


def test_the_hash_is_of_all_that_decides(tmp_path: Path) -> None:
    found = model_folder(made(tmp_path))
    before = found.sha256(), found.config_sha256
    (tmp_path / "README.md").write_text("more")
    assert (found.sha256(), found.config_sha256) == before
    seen = {found.sha256()}
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        (tmp_path / name).write_text('{"model_type": "gpt2"}')
        seen.add(found.sha256())
        assert (found.config_sha256 == before[1]) == (name != "config.json")
    (tmp_path / "tokenizer.json").rename(tmp_path / "tokenizer.model")
    seen.add(found.sha256())
    assert len(seen) == 5
