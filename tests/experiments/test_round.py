"""A round of chosen cells: what a cell's name stands for, and that all which finishes is kept at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.round import main, place_of

from separatrix.errors import SeparatrixError
from separatrix.evidence import Decoded
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


def test_panels_tell_cells_of_one_name_apart() -> None:
    forms = {
        str(place_of(f"w-istree/{panel}/Mamba 1M@16", PAPER).job.task.params["form"])
        for panel in ("direct", "cot", "retrieval")
    }
    assert forms == {"direct", "cot", "retrieval"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("w-istree/cot", "A cell is EXPERIMENT/PANEL/ROW@COLUMN[:RATE,RATE]; got 'w-istree/cot'."),
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
