"""Processes that share a GPU side by side: NVIDIA's multi-process service, for as long as they are at work.

Without it a GPU serves one process after another, and what one leaves idle no other can use. The service is a
daemon that comes with the driver. One is started here with folders of its own, and ended again; whoever runs
one already has that one used.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["share_gpus"]

_CONTROL: Final = "nvidia-cuda-mps-control"
_PIPES: Final = "CUDA_MPS_PIPE_DIRECTORY"
_LOGS: Final = "CUDA_MPS_LOG_DIRECTORY"
_USUAL: Final = "/tmp/nvidia-mps/control"
"""Where programs look for the service if nobody says otherwise."""
_PATIENCE: Final = 30.0


@contextmanager
def share_gpus(
    processes: int, devices: Sequence[str], *, tell: Callable[[str], None]
) -> Iterator[Mapping[str, str]]:
    """What belongs into the environment of so many processes on these devices.

    It is nothing, unless several share a GPU and the service can be started for them.
    """
    on_gpus = all(device.startswith("cuda") for device in devices)
    if not on_gpus or processes <= len(devices):
        yield {}
        return
    if _PIPES in os.environ or os.path.exists(_USUAL):
        tell("Processes share the GPU by the multi-process service that seems to run here already.")
        yield {}
        return
    control = shutil.which(_CONTROL)
    if control is None:
        tell(f"Processes take turns on the GPU, since there is no {_CONTROL} here to let them share it.")
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="separatrix-mps-", ignore_cleanup_errors=True) as folder:
        places = {_PIPES: f"{folder}/pipes", _LOGS: f"{folder}/logs"}
        for place in places.values():
            Path(place).mkdir()
        refused = _asked(control, "-d", places=places)
        if refused is not None:
            tell(f"Processes take turns on the GPU, since {_CONTROL} did not start: {refused}.")
            yield {}
            return
        try:
            yield places
        finally:
            left = _asked(control, places=places, say="quit\n")
            if left is not None:
                tell(f"{_CONTROL}, which was started for this, may still run: {left}.")


def _asked(control: str, *words: str, places: Mapping[str, str], say: str = "") -> str | None:
    """Ask the service for something; why it could not be done, or None.

    Its answer goes into a file: a daemon keeps the pipes of whoever started it, which then never end.
    """
    with tempfile.TemporaryFile("w+") as told:
        try:
            done = subprocess.run(
                [control, *words],
                input=say,
                env={**os.environ, **places},
                stdout=told,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=_PATIENCE,
            )
        except subprocess.TimeoutExpired:
            return f"no answer in {_PATIENCE:.0f} seconds"
        except OSError as failure:
            return str(failure.strerror)
        told.seek(0)
        reason = " ".join(told.read(2000).split())[:200] or f"it ended with {done.returncode}"
        return None if done.returncode == 0 else reason
