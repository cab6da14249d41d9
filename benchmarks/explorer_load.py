"""The explorer under load: wrk on loopback, over the page, the list of files and questions to the views.

    python -m benchmarks.explorer_load [--seconds 60]

`separatrix serve` runs as a process of its own on a folder with two witnesses. wrk keeps as many connections
open as the explorer takes at once without turning anybody away, so every response but 200 is an error. Memory
is the resident memory of the server and its workers together, read while the load is on: once the first
tenth of the time is over everything that is made once has been made, and from then on it must stay.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

import separatrix
from benchmarks.markdown import table
from separatrix.files import written_whole

CONNECTIONS = 8
GETS = ("/", "/explorer.css", "/explorer.js", "/common.js", "/views/attention.js", "/api/views", "/api/files")
QUESTIONS: dict[str, list[dict[str, object]]] = {
    "attention": [
        {"witness": "index-lookup · transformer-1", "n": 8},
        {"witness": "dyck · transformer-3", "input": "([])()[]"},
        {"path": "kept/equality"},
    ],
    "state": [{"witness": "dyck · rnn", "input": "([])()"}, {"path": "kept/dyck"}],
    "worst": [{"witness": "index-lookup · transformer-1", "n": 6, "strength": 40}],
}
LUA = """
local requests = {}
local at = 0
init = function(args)
%s
end
request = function()
  at = at %% #requests + 1
  return requests[at]
end
done = function(summary, latency, requests)
  io.write(string.format("SUMMARY %%d %%d %%d %%d %%d %%d %%d %%d %%d\\n", summary.requests, summary.duration,
    summary.errors.connect, summary.errors.read, summary.errors.write, summary.errors.status,
    summary.errors.timeout, latency:percentile(50), latency:percentile(99)))
end
"""


def script() -> str:
    """wrk's script: every request in turn, made once."""
    lines = [f"  requests[#requests + 1] = wrk.format('GET', '{path}')" for path in GETS]
    for view, questions in QUESTIONS.items():
        for question in questions:
            body = json.dumps(question)
            lines.append(
                f"  requests[#requests + 1] = wrk.format('POST', '/api/{view}', "
                f"{{['Content-Type'] = 'application/json'}}, [[{body}]])"
            )
    return LUA % "\n".join(lines)


def resident(server: int) -> int:
    """Bytes of a process and its children; one that has just ended counts as none."""
    total = 0
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    for process in (str(server), *children):
        try:
            found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
        except OSError:
            continue
        total += int(found[1]) * 1024 if found else 0
    return total


def measured(address: str, server: int, seconds: int, lua: Path) -> tuple[list[int], list[float]]:
    """wrk's summary, and the memory every half second in mebibytes."""
    wrk = shutil.which("wrk")
    assert wrk is not None, "the load test needs wrk on the PATH"
    memory: list[float] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            memory.append(resident(server) / 2**20)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        command = [
            wrk,
            "-t1",
            f"-c{CONNECTIONS}",
            f"-d{seconds}s",
            "--timeout",
            "60s",
            "-s",
            str(lua),
            address,
        ]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    finally:
        over.set()
        watching.join()
    found = re.search(r"SUMMARY ([0-9 ]+)", said)
    assert found is not None, said
    return [int(number) for number in found[1].split()], memory


def report(summary: list[int], memory: list[float]) -> list[str]:
    requests, microseconds, *errors, median, slowest = summary
    begin = max(1, len(memory) // 10)
    early, late = memory[begin : 2 * begin + 1], memory[-begin - 1 :]
    names = ("connect", "read", "write", "status", "timeout")
    broken = ", ".join(f"{name} {count}" for name, count in zip(names, errors, strict=True) if count)
    rows = [
        ("seconds", f"{microseconds / 1e6:.0f}"),
        ("connections", str(CONNECTIONS)),
        ("requests", f"{requests:,}"),
        ("requests a second", f"{requests / (microseconds / 1e6):,.0f}"),
        ("errors", broken or "0"),
        ("median latency, ms", f"{median / 1000:.1f}"),
        ("99 % latency, ms", f"{slowest / 1000:.1f}"),
        ("memory after a tenth of the time, MiB", f"{statistics.median(early):.0f}"),
        ("memory at the end, MiB", f"{statistics.median(late):.0f}"),
        ("most memory, MiB", f"{max(memory):.0f}"),
    ]
    return [
        "# The explorer under load",
        "",
        "Made by `python -m benchmarks.explorer_load`: wrk on loopback, over the page, its scripts, the list",
        "of files and questions to the views attention, state and worst, in turn. Memory is that of the",
        "server and its two workers together.",
        "",
        table(("what", "measured"), rows),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "explorer_load.md")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        for name, family in (("dyck", "rnn"), ("equality", "transformer-2")):
            made = separatrix.witness_for(separatrix.task(name, n=6), family=family)
            separatrix.save(made, Path(folder) / "kept" / name)
        lua = Path(folder) / "load.lua"
        lua.write_text(script(), encoding="utf-8")
        command = [sys.executable, "-m", "separatrix", "serve", "--port", "0", "--folder", folder, "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = json.loads(server.stdout.readline())["address"]
                with urllib.request.urlopen(f"{address}api/views", timeout=120) as response:
                    assert response.status == 200
                summary, memory = measured(address, server.pid, arguments.seconds, lua)
            finally:
                server.send_signal(signal.SIGINT)
    lines = report(summary, memory)
    with written_whole(arguments.out) as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 1 if any(summary[2:7]) else 0


if __name__ == "__main__":
    sys.exit(main())
