"""The two rates that every GPU figure is held against: bytes moved and bfloat16 products, as measured.

    python -m benchmarks.ceilings [--json FILE]

The memory reads 2 GiB of float32 numbers and writes them doubled (a bare copy would go to the copy engine,
which is slower than kernels are); the product multiplies two square matrices of side 8192. Each is recorded
in a CUDA graph, and the best of many replays counts: a ceiling is what the device can do, not what it does on
average. Figures go to `results/kernels/ceilings-cuda.json`, from where the other pages take them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.cuda_graphs import captured
from separatrix.files import written_whole
from separatrix.version import __version__

__all__ = ["bytes_per_second", "products_per_second"]

DATA = Path(__file__).parent / "results" / "kernels" / "ceilings-cuda.json"
COPIED = 2 << 30
SIDE = 8192
REPLAYS = 60


def _read(name: str) -> float:
    return float(json.loads(DATA.read_text())[name])


def bytes_per_second() -> float:
    """What the memory was measured to move, reads and writes together."""
    return _read("bytes_per_second")


def products_per_second() -> float:
    """Floating-point operations a second of a large product in bfloat16, as measured."""
    return _read("flops_per_second")


def _best(work: Callable[[], object]) -> float:
    """Seconds of the fastest replay."""
    replay = captured(work)
    found: list[float] = []
    for _ in range(REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        replay()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) / 1000)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, default=DATA)
    target: Path = parser.parse_args().json
    source = torch.rand(COPIED // 4, device="cuda")
    doubled = torch.empty_like(source)
    moved = 2 * COPIED / _best(lambda: torch.mul(source, 2.0, out=doubled))
    # Uniform numbers, not zeros: a product of zeros draws less power and runs faster.
    left, right = (torch.rand(SIDE, SIDE, device="cuda").bfloat16() - 0.5 for _ in range(2))
    multiplied = 2 * SIDE**3 / _best(lambda: left @ right)
    with written_whole(target) as file:
        json.dump(
            {
                "device": torch.cuda.get_device_name(),
                "torch": torch.__version__,
                "separatrix": __version__,
                "command": "python -m benchmarks.ceilings",
                "bytes_per_second": moved,
                "flops_per_second": multiplied,
            },
            file,
            indent=1,
        )
    print(f"{moved / 1e12:.2f} TB/s moved, {multiplied / 1e12:.0f} TFLOP/s in bfloat16")


if __name__ == "__main__":
    main()
