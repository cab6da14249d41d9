"""One party as a process: `python -m separatrix.communication.protocols.party PLACE`, told what to do on its
input.

The job is one line of JSON: who it is, where the shared files and its own part lie, the secret, and for Bob
the port. It answers in lines of JSON: Alice first says at which port she listens; then either says what was
sent and received and what it knows. What goes wrong is one sentence on standard error and exit code 2.

Its input stays open while somebody waits for it. When that closes, whoever started it is gone: it ends at
once, and removes PLACE, the folder of the run, which nobody else will.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Final, get_args

import torch

from separatrix.communication.protocols.interface import Known, Part
from separatrix.communication.protocols.settings import FOLDERS, read_setting, read_tensor
from separatrix.communication.protocols.sockets import Line, RowChannel, called, listening, met
from separatrix.errors import SeparatrixError
from separatrix.evidence import Party
from separatrix.records import JsonObject, Reader, parse_json

__all__ = ["main"]

_LONGEST_JOB: Final = 1 << 16


def main(place: str | None = None) -> int:
    """Do the job that standard input names; with a place, only while standard input is open."""
    try:
        line = sys.stdin.buffer.readline(_LONGEST_JOB)
        if place is not None:
            if not line:
                _clear(Path(place))
            threading.Thread(target=_end_when_alone, args=(Path(place),), daemon=True).start()
        _talk(Reader(parse_json(line, what="the job"), what="the job"))
    except (SeparatrixError, OSError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    return 0


def _end_when_alone(place: Path) -> None:
    """Wait for the end of the input: the system closes the other side when its process dies, however it does.

    The stream itself is not read, for a thread that holds its lock would be in the way of a normal exit.
    """
    while os.read(sys.stdin.fileno(), 1 << 10):
        pass
    _clear(place)
    os._exit(2)


def _clear(place: Path) -> None:
    if place.name.startswith(FOLDERS):  # nothing but the folder of a run
        shutil.rmtree(place, ignore_errors=True)


def _talk(job: Reader) -> None:
    party: Party = job.choice("party", get_args(Party))
    folder, own, secret = Path(job.text("folder")), Path(job.text("part")), bytes.fromhex(job.text("secret"))
    port, seconds, threads = job.optional_count("port"), job.count("seconds"), job.count("threads")
    job.finish()
    torch.set_num_threads(max(threads, 1))
    with closing(_connected(party, port, secret, float(seconds))) as connection:
        protocol = read_setting(folder).protocol
        split = protocol.partition
        part = Part(
            party=party,
            length=len(split.alice) + len(split.bob) + len(split.written),
            positions=split.alice if party == "Alice" else split.bob,
            values=read_tensor(own),
        )
        line = Line(connection, most_bits=protocol.bits)
        wires = [RowChannel(line) for _ in range(part.batch)]
        with torch.no_grad():
            known = protocol.speaker(part).run(wires)
    _say({"events": [_events(wire) for wire in wires], "known": [_fields(each) for each in known]})


def _connected(party: Party, port: int | None, secret: bytes, timeout: float) -> socket.socket:
    """Alice listens and says where; Bob calls."""
    if party == "Bob":
        return called(port or 0, secret, timeout=timeout)
    with closing(listening(timeout)) as server:
        _say({"port": server.getsockname()[1]})
        return met(server, secret, timeout=timeout)


def _events(wire: RowChannel) -> list[list[object]]:
    return [[name, message.bits, message.data.hex()] for name, message in wire.events]


def _fields(known: Known) -> list[list[object]]:
    return [[position, answer.value, answer.outputs] for position, answer in known.items()]


def _say(answer: JsonObject) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
