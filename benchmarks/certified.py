"""Certify every witness at the size it is shown at, and record what came out for the atlas.

    python -m benchmarks.certified

A witness that is not proved is recorded as what it is. Run it whenever a construction or a proof changes.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.witness_tasks import example_for
from separatrix.atlas import certified as record
from separatrix.atlas.certified import Certified
from separatrix.certificates import certify
from separatrix.files import written_whole
from separatrix.precision import name_of
from separatrix.tasks.specs import spec_of
from separatrix.witnesses import CATALOGUE, Choices, Entry

PLACE = Path(record.__file__).parent / "data" / record.RECORD


def certify_entry(entry: Entry) -> tuple[Certified, float]:
    """One witness in float64, with the seconds its certificate took."""
    witness = entry.builder()(example_for(entry), Choices())
    certificate = certify(witness)
    size = witness.size
    made = Certified(
        theorem=entry.theorem,
        family=entry.family,
        variant=entry.variant,
        task=spec_of(witness.task),
        arithmetic=name_of(witness.arithmetic),
        width=size.width,
        ffn_width=size.ffn_width,
        layers=size.layers,
        heads=size.heads,
        parameter_bits=size.parameter_bits,
        state_bits=size.state_bits(witness.task.length),
        verdict=certificate.verdict,
        inputs_log10=certificate.inputs.log10,
        weights_sha256=certificate.weights_sha256,
    )
    return made, certificate.seconds or 0.0


def main() -> None:
    found = []
    for entry in CATALOGUE:
        made, seconds = certify_entry(entry)
        print(f"{entry.theorem:10} {made.line} ({seconds:.1f} s)", flush=True)
        found.append(made.to_json())
    with written_whole(PLACE) as file:
        file.write(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
