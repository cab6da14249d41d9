"""Folders as `save_pretrained` writes them: looked through before anything of them is loaded.

A folder may come from a stranger. Only what can be read without being executed is taken: a config and a
tokenizer that name no code of their own, and weights in safetensors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.records import parse_json

__all__ = ["ModelFolder", "model_folder"]

_CONFIG: Final = "config.json"
_TOKENIZER_CONFIG: Final = "tokenizer_config.json"
_WEIGHTS: Final = "model.safetensors"
_INDEX: Final = "model.safetensors.index.json"
_TOKENIZERS: Final = (
    "tokenizer.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
    "vocab.json",
    "vocab.txt",
)
_PICKLED: Final = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_READ: Final = (".json", ".safetensors", ".model", ".txt", ".jinja")
"""Endings of the files that can change what a model writes."""
_MOST_BYTES: Final = 16 * 2**20
_REMOTE: Final = "auto_map"


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A folder that has all it needs, and the type of model that its config names."""

    path: Path
    model_type: str

    @property
    def config_sha256(self) -> str:
        """The SHA-256 of its config.json."""
        return _digest(self.path / _CONFIG).hex()

    def sha256(self) -> str:
        """One hash for config, tokenizer and weights; it reads them all, about a second a gigabyte."""
        whole = hashlib.sha256()
        for file in sorted(self.path.iterdir()):
            if file.suffix in _READ and file.is_file():
                whole.update(hashlib.sha256(file.name.encode()).digest())
                whole.update(_digest(file))
        return whole.hexdigest()


def model_folder(path: Path | str) -> ModelFolder:
    """Look through a folder with a causal language model; `InvalidInput` says what is missing or unwanted."""
    folder = Path(path)
    try:
        if not folder.exists():
            raise InvalidInput(f"A model is read from a folder on disk; there is no folder '{folder}'.")
        if not folder.is_dir():
            raise InvalidInput(f"A model is read from a folder on disk; '{folder}' is a file.")
        return _looked_through(folder)
    except (OSError, ValueError) as failure:  # a null in the name is a ValueError, and so are ours
        if isinstance(failure, InvalidInput | InvalidFile):
            raise
        reason = failure.strerror if isinstance(failure, OSError) else str(failure)
        raise InvalidInput(f"The model folder '{folder}' cannot be read: {reason}.") from failure


def _looked_through(folder: Path) -> ModelFolder:
    if (folder / "adapter_config.json").exists():
        raise InvalidInput(
            f"'{folder}' is an adapter for another model; merge it into that one and give the folder of both."
        )
    if not (folder / _CONFIG).is_file():
        raise InvalidInput(f"'{folder}' has no {_CONFIG}, so it is no folder of a Hugging Face model.")
    config = _read(folder / _CONFIG)
    _refuse_remote_code(folder, _CONFIG, config)
    _require_weights(folder)
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise InvalidInput(
            f"'{folder}' has no tokenizer; put the model's own there, tokenizer.json or tokenizer.model."
        )
    if (folder / _TOKENIZER_CONFIG).exists():
        _refuse_remote_code(folder, _TOKENIZER_CONFIG, _read(folder / _TOKENIZER_CONFIG))
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise InvalidInput(f"The {_CONFIG} of '{folder}' names no model_type, so nobody can tell what it is.")
    return ModelFolder(path=folder, model_type=model_type)


def _refuse_remote_code(folder: Path, name: str, data: Mapping[str, object]) -> None:
    if data.get(_REMOTE):
        raise InvalidInput(
            f"The {name} of '{folder}' names code of its own ({_REMOTE}), which is never run; if "
            f"transformers knows this type of model itself, take {_REMOTE} out of the file."
        )


def _require_weights(folder: Path) -> None:
    if (folder / _WEIGHTS).is_file():
        return
    if (folder / _INDEX).is_file():
        shards = _shards(folder)
        missing = [name for name in shards if not (folder / name).is_file()]
        if missing:
            raise InvalidInput(
                f"'{folder}' lacks {len(missing)} of the {len(shards)} files with its weights, such as "
                f"{missing[0]}; copy the folder whole."
            )
        return
    pickled = sorted(file.name for pattern in _PICKLED for file in folder.glob(pattern))
    if pickled:
        raise InvalidInput(
            f"'{folder}' has its weights as {pickled[0]}, a pickle, and loading one can run any code; save "
            "the model as safetensors where it is trusted."
        )
    raise InvalidInput(f"'{folder}' has no weights; it needs {_WEIGHTS}, or {_INDEX} with what that names.")


def _shards(folder: Path) -> list[str]:
    named = _read(folder / _INDEX).get("weight_map")
    names = list(named.values()) if isinstance(named, Mapping) else []
    shards = [name for name in names if isinstance(name, str) and _is_plain(name)]
    if not names or len(shards) != len(names):
        raise InvalidInput(
            f"The {_INDEX} of '{folder}' must name safetensors files of that folder in its weight_map."
        )
    return sorted(set(shards))


def _is_plain(name: str) -> bool:
    return name.endswith(".safetensors") and Path(name).name == name and "\0" not in name


def _read(file: Path) -> Mapping[str, object]:
    with file.open("rb") as opened:
        content = opened.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise InvalidInput(f"'{file}' has more than {_MOST_BYTES:,} bytes; that is no config.")
    data = parse_json(content, what=f"'{file}'", infinities=True)
    if not isinstance(data, Mapping):
        raise InvalidInput(f"'{file}' must hold a JSON object; it holds something else.")
    return cast(Mapping[str, object], data)


def _digest(file: Path) -> bytes:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").digest()
