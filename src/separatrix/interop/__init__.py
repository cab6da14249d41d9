"""Others' formats: models that somebody trained elsewhere, read from disk and asked in their own words.

Nothing is fetched from a network, no code of a model's is run, and weights are safetensors.
"""

from __future__ import annotations

from separatrix.interop.completer import Completer
from separatrix.interop.model_folders import ModelFolder, model_folder

__all__ = ["Completer", "ModelFolder", "model_folder"]
