"""`separatrix witness`: what is built, what is written, and what is refused."""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import separatrix
from separatrix.certificates import certify
from separatrix.cli.witnessing import witness as witness_command
from separatrix.evidence import Certificate
from separatrix.precision import Float32
from separatrix.tasks import TASKS
from separatrix.witnesses import CATALOGUE, Choices, Witness, witness_for
from separatrix.witnesses.files import CERTIFICATE, README, SPEC, WEIGHTS, load, stated
from tests.cli.running import Ran, refused, run

SMALL = ("witness", "index-lookup", "--n", "4", "--alphabet", "2")


def test_json_has_every_figure() -> None:
    ran = run(*SMALL, "--arithmetic", "float32", "--addresses", "bch-1/2", "--json")
    assert (ran.code, ran.err) == (0, "")
    answer = ran.answer
    task = separatrix.task("index-lookup", n=4, alphabet=2)
    built = witness_for(task, choices=Choices(system=Float32(), addresses="bch-1/2"))
    size = built.size
    assert (
        answer.items()
        >= {
            "theorem": "S-T1",
            "family": "transformer-1",
            "variant": "",
            "n": 4,
            "arithmetic": "float32",
            "width": size.width,
            "ffn_width": size.ffn_width,
            "layers": 1,
            "heads": 1,
            "precision_bits": 32,
            "parameters": size.parameters,
            "parameter_bits": 32 * size.parameters,
            "state_bits": size.state_bits(5),
            "claims": [stated(claim) for claim in built.claims],
            "out": None,
            "verdict": None,
            "certificate": None,
        }.items()
    )
    assert answer["seconds"] >= 0
    assert answer["task"] == {"name": "index-lookup", "params": {"n": 4, "alphabet": 2, "lengths": "varied"}}


def test_the_page() -> None:
    ran = run(*SMALL)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "S-T1: index-lookup by transformer-1"
    assert max(map(cell_len, lines)) <= 80
    assert any(line.startswith("parameters, embeddings counted") for line in lines)
    assert lines[-1].startswith("not certified: ")


def test_out_is_a_certified_folder(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    ran = run(*SMALL, "--out", str(folder))
    assert ran.code == 0
    assert ran.err == "Wrote a certified witness of S-T1.\n"
    assert ran.out.splitlines()[-1] == str(folder)
    assert max(map(cell_len, ran.out.splitlines()[:-1])) <= 80
    assert any(line.startswith("proved: right on ") for line in ran.out.splitlines())
    assert sorted(path.name for path in folder.iterdir()) == sorted((CERTIFICATE, README, SPEC, WEIGHTS))
    stated = Certificate.from_json(json.loads((folder / CERTIFICATE).read_text(encoding="utf-8")))
    fresh = certify(folder)
    assert dataclasses.replace(stated, seconds=None) == dataclasses.replace(fresh, seconds=None)
    answer = run(*SMALL, "--out", str(folder), "--json").answer
    assert (answer["verdict"], answer["out"]) == ("proved", str(folder))
    assert answer["certificate"]["weights_sha256"] == answer["weights_sha256"] == stated.weights_sha256
    # The folder may be replaced by a witness of something else.
    assert run("witness", "index-lookup", "--n", "5", "--alphabet", "3", "--out", str(folder)).code == 0
    assert load(folder).task.n == 5
    assert run("certify", str(folder)).code == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("witness", "witness needs the name of a task; `separatrix tasks` lists them."),
        ("witness index-lookup", "witness needs --n (most symbols before the index); none was given."),
        ("witness hotpot --n 4", "There is no task 'hotpot'."),
        ("witness index-lookup --n 4 --family lstm", "There is no family 'lstm'. Known: transformer-1, "),
        (
            "witness index-lookup --n 4 --family fnn",
            "There is no witness for index-lookup in the family 'fnn'",
        ),
        ("witness index-lookup --n 4 --variant x", "There is no witness for index-lookup of the variant 'x'"),
        (
            "witness phone-book --n 4",
            "There is no witness for phone-book yet. There are some for index-lookup, ",
        ),
        ("witness index-lookup --n 4 --addresses grey", "Addresses are one of binary, bch-1/2, "),
        (
            "witness index-lookup --n 4 --arithmetic float8",
            "An arithmetic is float64, float32, down:N,K (multip",
        ),
        ("witness index-lookup --n 4 --arithmetic nearest:16", "W's numbers need an odd p from 3 to 399"),
        ("witness index-lookup --n 4 --arithmetic down:1,1", "S's numbers need n >= 2 and k >= 1"),
        (
            "witness index-lookup --n 4 --minimise speed",
            "--minimise is one of bits, width, precision; got 's",
        ),
        ("witness index-lookup --n 9999999 --arithmetic nearest:5", "; take a smaller n or more bits."),
        ("witness index-lookup --n 99999999", "index-lookup needs 1 ≤ n ≤ 2^24; got n=99999999. Try 64."),
        ("witness index-lookup --n 1048576 --addresses random-1/4", "Try ExtendedBCH or Binary"),
        ("witness q-sparse-averaging --n 4 --q 5", "needs sets of 1 ≤ q ≤ 4 of the n=4 positions; got q=5."),
        ("witness sparse-threshold --n 4 --k 17", "sparse-threshold needs 1 ≤ k ≤ 16; got k=17. Try 2."),
        ("witness nearest-neighbour --n 8 --margin 0", "0"),
        (
            "witness index-lookup --n 4 --minimise bits --addresses binary",
            "--minimise chooses addresses and arithmetic itself; leave --addresses and --arithmetic out.",
        ),
    ],
)
def test_wrong_use_is_one_sentence(line: str, words: str) -> None:
    assert words in refused(*line.split())


def test_a_place_that_cannot_be_written_is_known_before_the_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_: Witness) -> Certificate:
        raise AssertionError("no proof was to be tried")

    monkeypatch.setattr("separatrix.certificates.certify", never)
    (tmp_path / "file").touch()
    assert refused(*SMALL, "--out", str(tmp_path / "file")) == (
        f"'{tmp_path}/file' is a file; name a folder, which is made if need be."
    )
    assert "cannot be made: Not a directory" in refused(*SMALL, "--out", str(tmp_path / "file" / "x"))
    assert "cannot be made" in refused(*SMALL, "--out", "a\0b")


def _unproven(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the proof came to nothing, with its reason."""

    def unknown(built: Witness) -> Certificate:
        found = certify(built)
        weaker = tuple(dataclasses.replace(claim, interval=None) for claim in found.claims)
        return dataclasses.replace(found, verdict="unknown", claims=weaker, reason="It was too hard.")

    monkeypatch.setattr("separatrix.certificates.certify", unknown)


def test_what_is_not_proven_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _unproven(monkeypatch)
    assert refused(*SMALL, "--out", str(tmp_path / "new" / "w")) == (
        "Nothing was written: the weights could not be proven right in float64 (It was too hard). "
        "Try another --arithmetic or a smaller n."
    )
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_proof_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(*SMALL, "--out", str(tmp_path / "old")).code == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}

    def interrupted(_: Witness) -> Certificate:
        raise KeyboardInterrupt

    monkeypatch.setattr("separatrix.certificates.certify", interrupted)
    for name in ("old", "new/deeper"):
        argv = ("witness", "index-lookup", "--n", "5", "--out", str(tmp_path / name))
        assert run(*argv) == Ran(130, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()} == before


@pytest.mark.parametrize("name", sorted({entry.task for entry in CATALOGUE}))
def test_options_of_the_command_hide_no_parameter_of_a_task(name: str) -> None:
    own = {option for option in inspect.signature(witness_command).parameters if option != "task"}
    shared = own & {field.name for field in dataclasses.fields(TASKS.get(name))}
    assert shared <= {"variant"}
    page = run("witness", name, "--help")
    assert page.code == 0
    assert all(f"--{option}" in page.out for option in own)
    assert max(map(cell_len, page.out.splitlines())) <= 80


def test_minimising(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def minimised(task: Any, **options: Any) -> tuple[Witness, Certificate]:
        asked.append(options)
        built = witness_for(task, choices=Choices(system=Float32()))
        return built, certify(built)

    monkeypatch.setattr("separatrix.certificates.minimising.minimised", minimised)
    answer = run(*SMALL, "--minimise", "width", "--out", str(tmp_path / "w"), "--json").answer
    assert asked == [{"family": None, "variant": None, "by": "width"}]
    assert (answer["arithmetic"], answer["verdict"]) == ("float32", "proved")
    assert load(tmp_path / "w").arithmetic == Float32()
    assert any(line.startswith("proved: ") for line in run(*SMALL, "--minimise", "bits").out.splitlines())


@pytest.mark.slow
def test_minimising_in_earnest() -> None:
    usual = run(*SMALL, "--json").answer
    least = {by: run(*SMALL, "--minimise", by, "--json").answer for by in ("bits", "width", "precision")}
    assert all(answer["verdict"] == "proved" for answer in least.values())
    assert least["bits"]["parameter_bits"] < usual["parameter_bits"]
    for measure, by in (("parameter_bits", "bits"), ("width", "width"), ("precision_bits", "precision")):
        assert all(least[by][measure] <= other[measure] for other in least.values())


def test_a_folder_name_cannot_move_the_cursor(tmp_path: Path) -> None:
    ran = run(*SMALL, "--out", str(tmp_path / "a\n\x1b[2J"))
    assert isinstance(ran, Ran)
    assert ran.out.splitlines()[-1] == rf"{tmp_path}/a\n\x1b[2J"
