"""Others' formats: models that somebody trained elsewhere, read from disk and asked in their own words.

Nothing is fetched from a network, no code of a model's is run, and weights are safetensors. The other way,
our witnesses and trained models go out as folders of transformers and as ONNX files.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from separatrix.interop.completer import Completer
from separatrix.interop.model_folders import ModelFolder, model_folder

if TYPE_CHECKING:
    from separatrix.interop.hub_folders import register_auto, save_pretrained_folder
    from separatrix.interop.onnx_files import OnnxManifest, export_onnx

__all__ = [
    "Completer",
    "ModelFolder",
    "OnnxManifest",
    "export_onnx",
    "model_folder",
    "register_auto",
    "save_pretrained_folder",
]

_HOMES: Final = {
    "OnnxManifest": "onnx_files",
    "export_onnx": "onnx_files",
    "register_auto": "hub_folders",
    "save_pretrained_folder": "hub_folders",
}
"""What goes out needs most of the package, and is imported when somebody asks for it."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
