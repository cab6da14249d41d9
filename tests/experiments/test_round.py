"""A round of chosen cells: what a cell's name stands for, and that all which finishes is kept at once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from benchmarks import round as round_
from benchmarks.round import main, place_of

from separatrix.errors import InvalidInput, SeparatrixError
from separatrix.evidence import Decoded
from separatrix.experiments.decoded import decoded_score
from separatrix.experiments.protocols import Settings
from separatrix.store import Store
from separatrix.store.bundles import read_bundle

PAPER = Settings(budget="paper")


def test_a_cell_with_all_its_rates_is_the_protocols_job() -> None:
    found = place_of("s-fig3/index-lookup/Mamba-(2,64)@75", PAPER)
    assert (found.cell.row, found.cell.column) == ("Mamba-(2,64)", 75)
    assert found.job == found.cell.jobs[0]


def test_rates_and_steps_may_be_chosen() -> None:
    two = place_of("s-fig3/index-lookup/Mamba-(2,64)@75:0.001,0.0005", PAPER, steps=100_000).job
    assert [member.lr for member in two.members] == [0.001, 0.0005]
    assert two.training.steps == 100_000
    assert two.training.halving is not None
    one = place_of("s-fig3/index-lookup/Mamba-(2,64)@75:1e-4", PAPER).job
    assert [member.lr for member in one.members] == [0.0001]
    assert one.training.halving is None, "nobody is dropped where there is one"
    for rates, most in (("1e-4", 1), ("", 7)):
        own = place_of(f"s-fig3/index-lookup/Mamba-(2,64)@75:{rates}:5000", PAPER, steps=100_000).job
        assert (own.training.steps, len(own.members)) == (5_000, most)


def test_panels_tell_cells_of_one_name_apart() -> None:
    forms = {
        str(place_of(f"w-istree/{panel}/Mamba 1M@16", PAPER).job.task.params["form"])
        for panel in ("direct", "cot", "retrieval")
    }
    assert forms == {"direct", "cot", "retrieval"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("w-istree/cot", "A cell is EXPERIMENT/PANEL/ROW@COLUMN[:RATE,RATE[:STEPS]]; got 'w-istree/cot'."),
        ("w-istree/cot/Mamba 1M@16:1e-4:many", "A cell is EXPERIMENT"),
        ("w-istree/cot/Mamba 1M@16::0", "got steps=0"),
        ("w-istree/cot/Mamba 1M@x", "A cell is EXPERIMENT"),
        ("w-istree/cot/Mamba 1M@16:fast", "A cell is EXPERIMENT"),
        ("w-istree/cot/Mamba 3M@16", "w-istree trains no cell 'w-istree/cot/Mamba 3M@16'. It has direct: "),
        ("s-fig3/index-lookup/Mamba-(2,64)@75:0.002", "may have the rates 0.01, 0.005, 0.001, "),
        ("s-fig9/index-lookup/Mamba-(2,64)@75", "s-fig9"),
    ],
)
def test_what_names_no_cell_is_refused(text: str, said: str) -> None:
    with pytest.raises(SeparatrixError) as refused:
        place_of(text, PAPER)
    assert said in str(refused.value)


def test_the_command_refuses_before_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["w-istree/cot", "--out", str(tmp_path / "out")]) == 2
    assert "A cell is EXPERIMENT" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["1", "2"])
def test_what_finishes_is_decoded_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], processes: str
) -> None:
    words = ["w-istree/cot/Transformer small@4", "s-fig3/index-lookup/Mamba-(2,8)@4:0.01"]
    words += ["--budget", "smoke", "--device", "cpu", "--steps", "20"]
    words += ["--processes", processes, "--out", str(tmp_path)]
    assert main(words) == 0
    trees, lookups = (read_bundle(tmp_path / "bundles" / name) for name in ("w-istree", "s-fig3"))
    (tree,), (lookup,) = trees.runs, lookups.runs
    assert (tree.steps, lookup.steps, lookup.rate) == (20, 20, 0.01)
    (record,) = trees.evidence[tree.key]
    assert isinstance(record, Decoded)
    assert record.examples == tree.examples
    capsys.readouterr()
    assert main(words) == 0, "all is there already"
    assert {run.key for run in Store(tmp_path / "store").runs()} == {tree.key, lookup.key}
    assert read_bundle(tmp_path / "bundles" / "w-istree").runs == trees.runs


TREE = "w-istree/cot/Transformer small@4"


@pytest.mark.slow
def test_who_finds_no_memory_writes_when_the_others_are_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[object] = []

    def scored(*given: object, **more: object) -> Decoded:
        if not refused:
            refused.append(given)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return decoded_score(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(round_, "decoded_score", scored)
    assert main([TREE, "--budget", "smoke", "--device", "cpu", "--out", str(tmp_path)]) == 0
    assert "not decoded, tried again at the end: CUDA out of memory" in capsys.readouterr().err
    bundle = read_bundle(tmp_path / "bundles" / "w-istree")
    assert list(bundle.evidence) == [bundle.runs[0].key]


@pytest.mark.slow
def test_what_cannot_be_decoded_is_kept_and_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def scored(*_: object, **__: object) -> Decoded:
        raise InvalidInput("There is no engine for searches here.")

    monkeypatch.setattr(round_, "decoded_score", scored)
    assert main([TREE, "--budget", "smoke", "--device", "cpu", "--out", str(tmp_path)]) == 1
    assert "not decoded: There is no engine for searches here." in capsys.readouterr().err
    assert len(read_bundle(tmp_path / "bundles" / "w-istree").runs) == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_is_ended_keeps_what_has_finished_and_leaves_nobody_behind(
    tmp_path: Path, number: signal.Signals
) -> None:
    """One job is over in no time, the other would take hours."""
    long = "s-fig3/index-lookup/Mamba-(2,8)@8:0.01"
    words = [TREE, long, "--budget", "smoke", "--device", "cpu", "--processes", "2", "--out", str(tmp_path)]
    script = (
        "import dataclasses, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from benchmarks import round as it\n"
        "found = it.place_of\n"
        "def longer(text, settings, *, steps):\n"
        "    return found(text, settings, steps=10**8 if 'Mamba' in text else steps)\n"
        "it.place_of = longer\n"
        "sys.exit(it.main(sys.argv[1:]))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, *words],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "decoded " in line:
                break
        process.send_signal(number)
        said = process.stderr.read()
        assert process.wait(timeout=100) == 130, said
    assert "run the same again" in said
    assert len(read_bundle(tmp_path / "bundles" / "w-istree").runs) == 1
    unfinished = place_of(long, Settings(), steps=10**8).job
    with Store(tmp_path / "store").claim(unfinished.key) as checkpoints:
        assert checkpoints is not None, "nobody is at work on it any more"
