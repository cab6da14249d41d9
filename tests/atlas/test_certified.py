"""The record of certified witnesses: complete, and what certifying again gives."""

from __future__ import annotations

import pytest
from benchmarks.certified import certify_entry

from separatrix.atlas.certified import Certified, certified
from separatrix.theorems import Artefact
from separatrix.witnesses import CATALOGUE, artefacts

AGAIN = ("S-T6", "S-T7", "R-M2", "R-G", "UP-RNN")
"""Quick ones, of different kinds."""


def test_every_witness_is_recorded_as_proved() -> None:
    record = certified()
    assert record.keys() == set(artefacts())
    assert {each.verdict for each in record.values()} == {"proved"}


@pytest.mark.parametrize("theorem", AGAIN)
def test_certifying_again_gives_the_record(theorem: str) -> None:
    entry = next(entry for entry in CATALOGUE if entry.theorem == theorem)
    assert certify_entry(entry)[0] == certified()[entry.artefact]


def test_a_line_says_what_counts() -> None:
    record = certified()
    key = Artefact(theorem="S-T1", kind="witness", task="index-lookup", family="transformer-1", variant="")
    size = "index-lookup, n = 1024: width 26, 105,216 bits of weights"
    assert record[key].line == f"{size}; proved for all 10^(1853) inputs in float64"
    stored = next(each for each in record.values() if each.theorem == "UP-RNN")
    assert "bits of state" in stored.line
    assert Certified.from_json(stored.to_json()) == stored
