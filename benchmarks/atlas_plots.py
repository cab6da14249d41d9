"""Sizes of proven witnesses at growing lengths, and fronts of width against precision, for the atlas.

    python -m benchmarks.atlas_plots [--only separations|frontiers|configs]

For each construction that a picture of the page shows, the proven witness with the fewest parameter bits at
N = 4, 16, 64 … while one is found within the seconds below. Recurrent ones have a state of bits, which no
choice of numbers changes, and are certified as they are. Where a construction can be certified at small
lengths only, longer ones are built in float64 and recorded as built. Takes a few minutes on one core; run it
whenever a construction or a proof changes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from separatrix.atlas.plots import points as record
from separatrix.atlas.plots.memory import MODELS
from separatrix.atlas.plots.pictured import PICTURES, Picture, Suffices
from separatrix.atlas.plots.points import Corner, Front, Measured, Standing
from separatrix.certificates import certify
from separatrix.certificates.frontier import frontier
from separatrix.certificates.minimising import minimised
from separatrix.errors import InvalidFile, InvalidInput
from separatrix.files import written_whole
from separatrix.precision import name_of
from separatrix.tasks import Task, task
from separatrix.tasks.specs import spec_of, task_of
from separatrix.witnesses import CATALOGUE, Choices, Entry, Witness
from separatrix.witnesses.files import weights_sha256

DATA = Path(record.__file__).parents[1] / "data"
CONFIGS = Path(__file__).parents[1] / "tests" / "audits" / "configs"
SECONDS = 12.0
"""Longer lengths are not tried after one that took so long."""
POWERS = range(2, 21, 2)
LONGEST_DENSE = 1 << 10
"""For constructions of linear width, whose weights are many."""
DENSE = {"UP-RNN", "UP-TF1", "UP-M3"}
MOST_BUILT = 1 << 12
FRONTS: Mapping[str, tuple[range, Mapping[str, Any]]] = {
    "index-lookup": (range(4, 21, 4), {"alphabet": 64}),
    "equality": (range(4, 17, 4), {}),
    "associative-recall": (range(4, 17, 4), {}),
}
"""By task: the powers of two that are its lengths, and its parameters."""


def entry_of(picture: Picture, each: Suffices) -> Entry:
    """The construction in the catalogue."""
    wanted = (each.theorem, each.task or picture.task, each.who.family, each.variant)
    return next(e for e in CATALOGUE if (e.theorem, e.task, e.family, e.variant) == wanted)


def measured(entry: Entry, at: Task) -> tuple[Witness, Standing]:
    """The least proven witness of this size, or the plain one where none is found."""
    if entry.family == "rnn":
        witness = entry.builder()(at, Choices())
        return witness, "proved" if certify(witness).verdict == "proved" else "built"
    try:
        return minimised(at, family=entry.family, variant=entry.variant, by="bits")[0], "proved"
    except InvalidInput:
        return entry.builder()(at, Choices()), "built"


def points(picture: Picture, each: Suffices) -> Iterator[Measured]:
    """One construction from short inputs to long ones."""
    entry = entry_of(picture, each)
    for power in POWERS:
        start = time.perf_counter()
        try:
            at = task_of(picture.spec(1 << power, each))
            witness, verdict = measured(entry, at)
        except (InvalidInput, InvalidFile) as refusal:
            print(f"    n = {1 << power}: {refusal}", flush=True)
            return
        size = witness.size
        yield Measured(
            theorem=entry.theorem,
            family=entry.family,
            variant=entry.variant,
            task=spec_of(at),
            arithmetic=name_of(witness.arithmetic),
            precision_bits=size.precision_bits,
            width=size.width,
            layers=size.layers,
            heads=size.heads,
            parameter_bits=size.parameter_bits,
            state_bits=size.state_bits(at.length),
            verdict=verdict,
            weights_sha256=weights_sha256(witness.model),
        )
        took = time.perf_counter() - start
        print(f"    n = {1 << power}: {verdict}, {took:.1f} s", flush=True)
        longest = (
            LONGEST_DENSE if entry.theorem in DENSE else MOST_BUILT if verdict == "built" else 1 << POWERS[-1]
        )
        if 1 << power >= longest or (took > SECONDS and power > POWERS[0]):
            return


def write_separations() -> None:
    """The record of sizes."""
    found = []
    for picture in PICTURES:
        for each in picture.suffices:
            print(f"{picture.task}: {each.theorem} {each.who.family}", flush=True)
            found += [point.to_json() for point in points(picture, each)]
    write(record.SIZES, found)


def write_frontiers() -> None:
    """The record of fronts."""
    found = []
    asked = [(name, power, settings) for name, (powers, settings) in FRONTS.items() for power in powers]
    for name, power, settings in asked:
        at = task(name, n=1 << power, **settings)
        start = time.perf_counter()
        corners = frontier(at)
        print(f"{name}, n = {at.n}: {len(corners)} points, {time.perf_counter() - start:.0f} s", flush=True)
        entry = next(e for e in CATALOGUE if e.serves(at))
        found.append(
            Front(
                task=spec_of(at),
                family=entry.family,
                theorem=entry.theorem,
                corners=tuple(
                    Corner(
                        addresses=corner.addresses,
                        arithmetic=corner.arithmetic,
                        width=corner.width,
                        precision_bits=corner.precision,
                        parameter_bits=corner.size.parameter_bits,
                        weights_sha256=corner.weights_sha256,
                    )
                    for corner in corners
                ),
            ).to_json()
        )
    write(record.FRONTS, found)


def write_configs() -> None:
    """The configs of the published models that the page draws."""
    found = {}
    for name in MODELS:
        config = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))
        # Some have Infinity as the end of a range, which is no JSON and of no size.
        found[name] = {key: value for key, value in config.items() if "Infinity" not in json.dumps(value)}
    write(record.CONFIGS, found)


def write(name: str, content: object) -> None:
    """One file of the package's data."""
    with written_whole(DATA / name) as file:
        file.write(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    parts = {"separations": write_separations, "frontiers": write_frontiers, "configs": write_configs}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=parts)
    only = parser.parse_args().only
    for name, make in parts.items():
        if only in (None, name):
            make()


if __name__ == "__main__":
    main()
