"""Both parties as processes of their own, which share nothing but a loopback socket and the model's files.

Alice's process is told where her part of the input lies and Bob's where his; each reads the model for itself.
This process starts them, compares what one says it sent with what the other says it received, and whatever
happens ends both and removes the files. Where it is killed and can do neither, the parties see its end of
their input close, and do both themselves.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from io import BufferedRandom
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import torch
from jaxtyping import Shaped
from torch import Tensor

from separatrix.communication.protocols.arranging import Arrangement
from separatrix.communication.protocols.interface import Answer, Known, Part
from separatrix.communication.protocols.settings import FOLDERS, write_setting, write_tensor
from separatrix.errors import SeparatrixError
from separatrix.evidence import Message, Party
from separatrix.options import require
from separatrix.records import JsonObject, freeze

__all__ = ["run_in_processes"]

_MODULE: Final = "separatrix.communication.protocols.party"
_PARTIES: Final[tuple[Party, Party]] = ("Alice", "Bob")
Events: TypeAlias = Sequence[Sequence[Any]]


def run_in_processes(
    arrangement: Arrangement, inputs: Shaped[Tensor, "batch pos *width"], *, keep: bool, timeout: float
) -> tuple[list[tuple[Message, ...]], dict[Party, list[Known]]]:
    """The messages of each input, and what each party knows at the end of each."""
    require(timeout > 0, f"Two processes need some seconds; got a timeout of {timeout:g}.")
    deadline = time.monotonic() + timeout
    secret = secrets.token_hex(32)
    with tempfile.TemporaryDirectory(prefix=FOLDERS) as place, ExitStack() as ending:
        running: dict[Party, _Process] = {}
        for party in _PARTIES:  # both at once, since most of the time goes into starting
            (Path(place) / party).mkdir()
            errors = ending.enter_context((Path(place) / party / "errors").open("w+b"))
            running[party] = _Process(party, Path(place), errors)
            ending.callback(running[party].end)
        shared = Path(place) / "shared"
        shared.mkdir()
        write_setting(shared, arrangement)  # once somebody is there to remove it, whatever happens here
        port = None
        for party in _PARTIES:
            own = Path(place) / party / "part.safetensors"
            write_tensor(own, Part.of(party, inputs, arrangement.protocol.partition).values)
            running[party].tell(
                {
                    "party": party,
                    "folder": str(shared),
                    "part": str(own),
                    "secret": secret,
                    "port": port,
                    "seconds": int(timeout) + 1,
                    "threads": torch.get_num_threads(),
                }
            )
            if party == "Alice":
                port = running[party].answer(deadline, ())["port"]
        reports = {party: running[party].answer(deadline, running.values()) for party in _PARTIES}
    messages = [
        _merged(*(reports[party]["events"][row] for party in _PARTIES), keep=keep)
        for row in range(len(inputs))
    ]
    return messages, {party: [_known(row) for row in reports[party]["known"]] for party in _PARTIES}


@final
class _Process:
    """A party's process, and the lines that it writes."""

    def __init__(self, party: Party, place: Path, errors: BufferedRandom) -> None:
        self._party, self._errors = party, errors
        self._process = subprocess.Popen(
            # -P: nothing is imported from the folder one stands in
            [sys.executable, "-P", "-m", _MODULE, str(place)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(_paths())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def tell(self, job: JsonObject) -> None:
        """What it is to do; its input stays open, for when that closes it is alone and ends."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # one that is gone says why itself
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def answer(self, deadline: float, others: Iterable[_Process]) -> Any:
        """The next line; a process that ends early or takes too long is an error."""
        try:
            line = self._lines.get(timeout=max(deadline - time.monotonic(), 0.001))
        except queue.Empty:
            raise SeparatrixError(
                f"{self._party}'s process gave no answer in time; allow more seconds or take a smaller n."
            ) from None
        if line is None:
            said = [f"{each._party}: {each.last_words()}" for each in (*others, self) if each.ended()]
            raise SeparatrixError(f"A party's process ended early. {' '.join(dict.fromkeys(said))}")
        return json.loads(line)

    def ended(self) -> bool:
        """Whether it is over, or will be within a moment."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        return self._process.poll() is not None

    def last_words(self) -> str:
        """The last line that it wrote on standard error."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:400] if lines else f"exit code {self._process.poll()}."

    def end(self) -> None:
        """Whatever it is doing."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


def _paths() -> list[str]:
    """Where this package was found, and then wherever the environment says."""
    here = str(Path(__file__).parents[3])
    return [here, *filter(None, [os.environ.get("PYTHONPATH")])]


def _merged(alice: Events, bob: Events, *, keep: bool) -> tuple[Message, ...]:
    """The messages in Alice's order; what came to one must be what the other sent."""
    sent, received = ([event for event in bob if (event[0] is None) is came] for came in (False, True))
    messages = []
    for name, bits, data in alice:
        other = (sent if name is None else received).pop(0)
        if other[1:] != [bits, data]:
            raise SeparatrixError("A message did not arrive as it was sent.")
        sender: Party = "Bob" if name is None else "Alice"
        payload = bytes.fromhex(data) if keep else None
        messages.append(Message(sender=sender, name=name or other[0], bits=bits, payload=payload))
    if sent or received:
        raise SeparatrixError("A message was sent that never arrived.")
    return tuple(messages)


def _known(fields: Sequence[Sequence[Any]]) -> Known:
    return {position: Answer(value=freeze(value), outputs=outputs) for position, value, outputs in fields}
