"""`separatrix certify`: three verdicts, their exit codes, and folders that are refused."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import separatrix
from separatrix.certificates import certify
from separatrix.cli import output
from separatrix.evidence import Certificate
from separatrix.witnesses import Witness, witness_for
from separatrix.witnesses.files import CERTIFICATE, SPEC, WEIGHTS, save
from tests.cli.running import refused, run
from tests.witnesses.forging import record_of, set_number, with_spec, with_weight_file


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = witness_for(separatrix.task("index-lookup", n=4, alphabet=2))
    return save(built, tmp_path_factory.mktemp("witness"), certify(built))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "w"))


def test_proved(folder: Path) -> None:
    ran = run("certify", str(folder))
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "proved  S-T1: index-lookup by transformer-1, in float64"
    assert max(map(cell_len, lines)) <= 80
    assert any(line.startswith("assumes: ") for line in lines)
    answer = run("certify", str(folder), "--json").answer
    assert answer["verdict"] == answer["stated"] == "proved"
    assert (answer["arithmetic"], answer["counterexample"], answer["path"]) == ("float64", None, str(folder))
    assert answer["inputs"]["count"] == str(separatrix.task("index-lookup", n=4, alphabet=2).domain_size())
    assert {claim["verdict"] for claim in answer["claims"]} == {"proved"}
    assert answer["seconds"] >= 0


def test_a_missing_certificate_is_fine(folder: Path) -> None:
    (folder / CERTIFICATE).unlink()
    ran = run("certify", str(folder), "--json")
    assert (ran.code, ran.answer["stated"]) == (0, None)


def broken(folder: Path) -> None:
    """Weights that answer wrongly: the readout's matrix is turned around."""
    witness = separatrix.load(folder)
    matrix = witness.model.tensors()["readout.matrix"].reshape(-1).tolist()
    for place, value in enumerate(matrix):
        set_number(folder, "readout.matrix", place, -value - 1.0)
    (folder / CERTIFICATE).unlink()


def test_refuted(folder: Path) -> None:
    broken(folder)
    ran = run("certify", str(folder), "--json")
    assert (ran.code, ran.err) == (1, "")
    found = ran.answer["counterexample"]
    assert ran.answer["verdict"] == "refuted"
    witness = separatrix.load(folder)
    row = witness.task.parse(found["text"]).unsqueeze(0)
    labels = witness.task.solve(row)
    assert labels.targets[labels.mask].tolist() == found["expected"] != found["answered"]
    assert witness.model.answers(row)[labels.mask].tolist() == found["answered"]
    page = run("certify", str(folder))
    assert page.code == 1
    assert page.out.startswith("refuted  S-T1: ")
    assert f"\n  {found['text']}\n" in page.out
    assert f"right: {found['expected']}; answered: {found['answered']}" in page.out
    assert max(map(cell_len, page.out.splitlines())) <= 80


def test_unknown_says_why_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(built: Witness) -> Certificate:
        found = certify(built)
        weaker = tuple(dataclasses.replace(claim, interval=None) for claim in found.claims)
        return dataclasses.replace(found, verdict="unknown", claims=weaker, reason="It was too hard.")

    monkeypatch.setattr("separatrix.certificates.certify", unknown)
    ran = run("certify", str(folder))
    assert ran.code == 1
    assert ran.out.startswith("unknown  S-T1: ")
    assert "\nwhy not: It was too hard.\n" in ran.out
    assert ran.err == "The certificate in the folder says proved; this proof says unknown.\n"
    assert run("certify", str(folder), "--json").answer["reason"] == "It was too hard."


def test_a_certificate_for_something_else_is_refused(folder: Path, tmp_path: Path) -> None:
    other = witness_for(separatrix.task("index-lookup", n=4, alphabet=4))
    theirs = save(other, tmp_path / "other", certify(other))
    shutil.copy(theirs / CERTIFICATE, folder / CERTIFICATE)
    assert "is a certificate for other weights: it names " in refused("certify", str(folder))
    own = json.loads((folder / CERTIFICATE).read_text(encoding="utf-8"))
    own["weights_sha256"] = record_of(folder)["weights_sha256"]
    (folder / CERTIFICATE).write_text(json.dumps(own), encoding="utf-8")
    assert "is a certificate for another task: it names index-lookup(" in refused("certify", str(folder))
    own |= {"task": record_of(folder)["task"], "arithmetic": "float32"}
    (folder / CERTIFICATE).write_text(json.dumps(own), encoding="utf-8")
    assert "is a certificate for another arithmetic: it names float32" in refused("certify", str(folder))


def _model(*path: Any, value: Any) -> Callable[[Path], None]:
    def change(record: dict[str, Any]) -> None:
        inner: Any = record
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value

    return lambda folder: with_spec(folder, change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / SPEC).unlink(), "There is no file 'witness.json' in "),
        (lambda folder: (folder / WEIGHTS).unlink(), "There is no file 'weights.safetensors' in "),
        (lambda folder: (folder / SPEC).write_bytes(b""), "'witness.json' is not JSON"),
        (lambda folder: (folder / SPEC).write_bytes(b"[" * 99_999), "'witness.json' is nested too deep"),
        (lambda folder: (folder / SPEC).write_bytes(b"\xff\xd8\xff"), "'witness.json' is not JSON"),
        (lambda folder: (folder / SPEC).write_bytes(b'{"a":1,"a":1}'), "repeats a field name"),
        (lambda folder: (folder / WEIGHTS).write_bytes(b""), "is not the file that 'witness.json' speaks of"),
        (lambda folder: with_weight_file(folder, b""), "no safetensors file, or it is cut off"),
        (lambda folder: with_weight_file(folder, struct.pack("<Q", 2**62)), "no safetensors file, or it is"),
        (lambda folder: os.truncate(folder / WEIGHTS, 200), "is not the file that 'witness.json' speaks of"),
        (lambda folder: os.truncate(folder / CERTIFICATE, 200), "'certificate.json' is not JSON"),
        (
            lambda folder: (folder / CERTIFICATE).write_bytes(b"{}"),
            "/certificate.json' is of no use: separatrix.certificate lacks the field 'schema'. Remove it",
        ),
        (
            lambda folder: (folder / SPEC).write_bytes(b"{}"),
            "/witness.json' is of no use: separatrix.witness lacks the field 'schema'. `separatrix witness",
        ),
        (lambda folder: shutil.copy(folder / SPEC, folder / CERTIFICATE), "Expected a record of schema"),
        (lambda folder: set_number(folder, "readout.bias", 0, float("nan")), "a number that is not finite"),
        (lambda folder: set_number(folder, "readout.bias", 0, float("inf")), "a number that is not finite"),
        (_model("task", "params", "n", value=2**60), "needs 1 ≤ n ≤ 2^24; got n="),
        (_model("task", "name", value="hotpot"), "There is no task 'hotpot'"),
        (_model("theorem", value="S-T99"), "There is no theorem 'S-T99'"),
        (_model("model", "form", value="oracle"), "A model's form is one of"),
        (_model("model", "inputs", "width", value=2**60), "At most 1,048,576 is taken for the width"),
        (_model("model", "inputs", "classes", 0, "code", "count", value=2**60), "A code breaks a rule"),
        (_model("model", "layers", value=[{}] * 65), "A Transformer has 1 to 64 layers; got 65"),
    ],
)
def test_broken_folders_are_a_sentence(folder: Path, change: Callable[[Path], Any], words: str) -> None:
    change(folder)
    assert words in refused("certify", str(folder))


def test_paths_that_are_no_folder(folder: Path, tmp_path: Path) -> None:
    assert "is a file; a witness is the folder that `--out` named." in refused("certify", str(folder / SPEC))
    assert "There is no file 'witness.json' in " in refused("certify", str(tmp_path))
    assert "There is no file or folder '" in refused("certify", str(tmp_path / "nowhere"))
    assert refused("certify") == (
        "certify needs PATH (the beginning of a run's key, its weights/….safetensors, a store with one run, "
        "or the folder of a witness); none was given."
    )
    assert "one word too many" in refused("certify", str(folder), "x")
    for name in ("a\0b", "\ud800"):
        refused("certify", name)


def test_what_means_nothing_for_a_witness_is_not_swallowed(folder: Path) -> None:
    for option, value in (("device", "cpu"), ("seed", "1")):
        assert refused("certify", str(folder), f"--{option}", value) == (
            f"A witness is proven on the CPU and without chance; leave --{option} out."
        )
    assert refused("certify", str(folder), "--store", "runs").endswith("leave --store out.")
    assert run("certify", str(folder), "--task", "index-lookup", "--n", "4").code == 0
    assert "This witness is for index-lookup(n=4, alphabet=2, " in refused(
        "certify", str(folder), "--task", "index-lookup", "--n", "5"
    )


def test_text_of_strangers_is_shown_and_not_obeyed(folder: Path) -> None:
    broken(folder)
    with_spec(folder, lambda record: record["claims"][0].update(name="\x1b[2J\nproved", unit="\u202e"))
    ran = run("certify", str(folder))
    assert ran.code == 1
    assert all(line.isprintable() for line in ran.out.splitlines())


@pytest.mark.parametrize(("on_a_terminal", "expected"), [(True, ["wait"]), (False, [])])
def test_a_word_to_those_who_wait(
    on_a_terminal: bool, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only on a terminal, and only when it takes long."""
    said: list[str] = []
    monkeypatch.setattr(output, "note", said.append)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: on_a_terminal, raising=False)
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(output, "_LONG", 0.1)
    with output.note_if_long("never"):
        pass
    time.sleep(0.3)
    with output.note_if_long("wait"):
        time.sleep(0.4)
    assert said == expected
