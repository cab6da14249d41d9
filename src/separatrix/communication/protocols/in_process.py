"""Both parties in one process: a thread each, and between them nothing but strings of bits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Final, final

import torch
from jaxtyping import Shaped
from torch import Tensor

from separatrix.communication.protocols.interface import Known, Part, Protocol, Speaker
from separatrix.communication.wire import BitString, Channel, Recorder
from separatrix.evidence import Party

__all__ = ["run_in_process", "run_parts"]

_Line = queue.SimpleQueue[BitString | None]


class _HungUp(Exception):
    """The other party ended without sending what was waited for."""


@final
class _End(Channel):
    """One party's end of a pair of queues."""

    def __init__(self, party: Party, out: _Line, into: _Line, recorder: Recorder, *, keep: bool) -> None:
        self._party, self._out, self._into = party, out, into
        self._recorder, self._keep = recorder, keep

    def send(self, name: str, message: BitString) -> None:
        """Noted before it is handed over, so that the other's reply is noted after it."""
        self._recorder.note(self._party, name, message, keep=self._keep)
        self._out.put(message)

    def receive(self) -> BitString:
        """Waits until the other party sends or ends."""
        message = self._into.get()
        if message is None:
            raise _HungUp
        return message

    def hang_up(self) -> None:
        """Nothing more will be sent."""
        self._out.put(None)


@final
class _Thread(threading.Thread):
    """A party that keeps what it knew in the end, or what went wrong."""

    def __init__(self, speaker: Speaker, wires: Sequence[_End]) -> None:
        super().__init__(name=speaker.part.party, daemon=True)
        self._speaker, self._wires = speaker, wires
        self.known: list[Known] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with torch.no_grad():  # whether gradients are recorded is each thread's own matter
                self.known = self._speaker.run(self._wires)
        except BaseException as error:
            self.error = error
        finally:
            for wire in self._wires:
                wire.hang_up()


_PARTIES: Final[tuple[Party, Party]] = ("Alice", "Bob")


def run_in_process(
    protocol: Protocol, inputs: Shaped[Tensor, "batch pos *width"], *, keep: bool
) -> tuple[list[Recorder], dict[Party, list[Known]]]:
    """The messages of each input, and what each party knows at the end of each."""
    alice, bob = (Part.of(party, inputs, protocol.partition) for party in _PARTIES)
    return run_parts(protocol, alice, bob, keep=keep)


def run_parts(
    protocol: Protocol, alice: Part, bob: Part, *, keep: bool
) -> tuple[list[Recorder], dict[Party, list[Known]]]:
    """The same from two parts, neither of which holds anything of the other."""
    recorders = [Recorder() for _ in range(alice.batch)]
    lines: list[tuple[_Line, _Line]] = [(queue.SimpleQueue(), queue.SimpleQueue()) for _ in recorders]
    threads = []
    for place, part in enumerate((alice, bob)):
        wires = [
            _End(part.party, pair[place], pair[1 - place], recorder, keep=keep)
            for pair, recorder in zip(lines, recorders, strict=True)
        ]
        threads.append(_Thread(protocol.speaker(part), wires))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _raise_first([thread.error for thread in threads])
    return recorders, {party: thread.known for party, thread in zip(_PARTIES, threads, strict=True)}


def _raise_first(errors: Sequence[BaseException | None]) -> None:
    """What went wrong first; that the other party then waited in vain says nothing."""
    found = [error for error in errors if error is not None]
    for error in sorted(found, key=lambda error: isinstance(error, _HungUp)):
        raise error
