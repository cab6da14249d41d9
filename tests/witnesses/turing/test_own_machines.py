"""A machine of one's own, compiled: certified, saved, read back; and its folder from a stranger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import separatrix
from separatrix.tasks.machine_runs import MachineRuns
from separatrix.tasks.machines import Machine, library_machine, parse_machine
from separatrix.theorems import theorem
from separatrix.witnesses import Witness
from separatrix.witnesses.files import stated_certificate
from separatrix.witnesses.turing import compile_turing
from separatrix.witnesses.weight_files import weights_sha256
from tests.witnesses.forging import refusal, with_spec
from tests.witnesses.turing.running import SCRIPTS

FLIP = """
machine: flip
start: go
halt: done
go 0 -> go 1 R
go 1 -> go 0 R
go _ -> done S
"""


def compiled(family: str = "hybrid-cot", machine: Machine | None = None, *, steps: int = 4) -> Witness:
    return compile_turing(machine or parse_machine(FLIP), family=family, n=2, steps=steps, cells=2)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("family", SCRIPTS)
def test_certified_and_saved_and_certified_again(family: str, tmp_path: Path) -> None:
    witness = compiled(family)
    assert witness.artefact in theorem(witness.theorem).artefacts
    certificate = separatrix.certify(witness)
    assert certificate.verdict == "proved"
    assert certificate.inputs.count == 1 + 3 + 9
    folder = separatrix.save(witness, tmp_path, certificate=certificate)
    again = separatrix.load(folder)
    assert again.task == witness.task
    assert again.script is not None
    assert witness.script is not None
    assert again.script.kind == witness.script.kind
    assert weights_sha256(again.model) == weights_sha256(witness.model)
    assert stated_certificate(folder, again) == certificate
    assert separatrix.certify(folder).verdict == "proved"


def test_a_tape_on_which_it_takes_too_long_asks_nothing() -> None:
    """On 0 the machine runs away for ever; on the others the weights are right."""
    waits = parse_machine("start: go\nhalt: done\ngo 0 -> go S\ngo 1 -> done 0 S\ngo _ -> done S")
    certificate = separatrix.certify(compiled(machine=waits))
    assert certificate.verdict == "proved"
    assert "a tape without room for its run asks nothing" in certificate.inputs.formula


def test_weights_of_another_machine_are_refuted(tmp_path: Path) -> None:
    """The text of the machine decides what is right, not who wrote the folder."""
    other = parse_machine(
        FLIP.replace("halt: done", "halt: done no").replace("go _ -> done S", "go _ -> no S")
    )
    same_words = parse_machine(FLIP.replace("halt: done", "halt: done no") + "# no is never entered")
    folder = separatrix.save(compiled(machine=same_words), tmp_path)

    def change(record: dict[str, Any]) -> None:
        record["task"]["params"]["program"] = other.render()

    with_spec(folder, change)
    found = separatrix.certify(folder)
    assert found.verdict == "refuted"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"program": ""},
            "The machine of machine-runs breaks a rule: A machine needs one word after 'start:'",
        ),
        ({"program": 7}, "machine-runs takes a machine as text for program"),
        ({"program": FLIP.replace("_ -> done S", "_ -> dnoe S")}, "Did you mean done?"),
        ({"program": FLIP.replace("done", "FULL")}, "uses the word 'FULL', which stands for something else"),
        ({"program": library_machine("parity").render()}, "cannot read the words of its script"),
        ({"n": 10**30}, "A tape has 0 to 65536 cells"),
        ({"steps": None}, "machine-runs needs a whole number for steps; got None"),
        ({"right": 1 << 19}, "cannot read the words of its script"),
        ({"machine": "parity"}, "machine-runs has no parameter 'machine'"),
    ],
)
def test_a_strangers_machine(params: dict[str, Any], words: str, tmp_path: Path) -> None:
    folder = separatrix.save(compiled(), tmp_path)

    def change(record: dict[str, Any]) -> None:
        record["task"]["params"] |= params

    with_spec(folder, change)
    assert words in refusal(folder)


@pytest.mark.parametrize("claimed", ["S-T1", "W-5.2", "UP-RNN"])
def test_machines_show_only_what_is_said_of_machines(claimed: str, tmp_path: Path) -> None:
    folder = separatrix.save(compiled(), tmp_path)

    def change(record: dict[str, Any]) -> None:
        record["theorem"] = claimed

    with_spec(folder, change)
    refusal(folder)
    assert isinstance(compiled().task, MachineRuns)


@pytest.mark.slow
def test_nothing_is_proved_where_nothing_is_asked() -> None:
    """A machine that never halts in its room leaves no run to be right about."""
    endless = parse_machine("start: on\nhalt: off\non _ -> on R\non 1 -> off S")
    assert separatrix.certify(compile_turing(endless, family="hybrid-cot", n=0, steps=3)).verdict == "unknown"
