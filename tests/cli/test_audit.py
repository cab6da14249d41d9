"""`separatrix audit`: the page, the object, models side by side, figures, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import separatrix
from separatrix.audits import audit
from separatrix.audits.catalogue import KINDS
from tests.cli.running import process, refused, run

CONFIGS = Path(__file__).parent.parent / "audits" / "configs"
MAMBA, LLAMA, JAMBA = (str(CONFIGS / f"{name}.json") for name in ("mamba-130m", "llama-3-8b", "jamba-v0.1"))


def test_the_object_has_every_count() -> None:
    answer = run("audit", JAMBA, "--n", "4096", "128", "--json").answer
    counted = audit(JAMBA, n=[128, 4096])
    assert answer == {**counted.to_fields(), "plot": None}
    assert answer["parameters"] == 51_570_323_328
    assert [at["n"] for at in answer["state_bits"]] == [128, 4096]
    for at in answer["state_bits"]:
        assert at["bits"] == sum(at["parts"].values()) == counted.size.state_bits(at["n"])
        assert set(at["parts"]) == {"key-value cache", "recurrent state", "convolution state"}
    wall = next(one for one in answer["walls"] if one["task"] == "index-lookup" and one["vocabulary"])
    assert wall == {
        "task": "index-lookup",
        "theorem": "S-T3",
        "vocabulary": 65536,
        "largest_n": answer["bounded_state_bits"] // 16,
        "counts": "symbols",
        "needs": "n·log₂|Σ|",
    }
    assert answer["grows"] is True


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(CONFIGS.iterdir()), ids=lambda path: path.stem)
def test_every_page_fits_eighty_columns(path: Path) -> None:
    ran = run("audit", str(path), "--chart")
    assert (ran.code, ran.err) == (0, "")
    assert max(map(cell_len, ran.out.splitlines())) <= 80
    counted = audit(path)
    words = " ".join(ran.out.split())
    assert f"{counted.size.parameters:,}" in words
    assert counted.composition in words
    for wall in counted.walls:
        assert f"{wall.largest_n:,}" in words
        assert wall.theorem in words


def test_the_page_says_what_the_bounds_mean() -> None:
    bounded = " ".join(run("audit", MAMBA).out.split())
    assert "All that it carries is at most 23.6 Mbit. Beyond these n it is wrong on some input" in bounded
    assert "2.81 MiB" in bounded
    grows = " ".join(run("audit", LLAMA).out.split())
    assert "Everything it carries grows with the input" in grows
    assert "S-T3" not in grows
    hybrid = " ".join(run("audit", JAMBA).out.split())
    assert "The part that stops growing holds at most 132 Mbit." in hybrid
    encoder = " ".join(run("audit", str(CONFIGS / "bert-base-uncased.json")).out.split())
    assert "It carries nothing from token to token" in encoder
    assert "note: The parameters are those of BertForMaskedLM: the head for words is included." in encoder
    assert "note: Its table of positions ends at 512: it cannot read more tokens than that." in encoder


def test_the_chart_is_drawn_when_asked_for() -> None:
    plain, drawn = run("audit", JAMBA).out, run("audit", JAMBA, "--chart").out
    assert not any(0x2800 < ord(letter) <= 0x28FF for letter in plain)
    dots = [line for line in drawn.splitlines() if any(0x2800 <= ord(letter) <= 0x28FF for letter in line)]
    assert len(dots) == 8
    assert "MiB" in dots[4]
    assert "n = 1,024" in drawn


def test_models_side_by_side() -> None:
    for argv in ((MAMBA, "--compare", LLAMA, JAMBA), ("--compare", MAMBA, LLAMA, JAMBA)):
        ran = run("audit", *argv, "--n", "1000")
        assert (ran.code, ran.err) == (0, "")
        assert max(map(cell_len, ran.out.splitlines())) <= 80
        rows = {line[:22].strip(): line.split()[-3:] for line in ran.out.splitlines()}
        assert rows["parameters"] == ["129,135,360", "8,030,261,248", "51,570,323,328"]
        assert rows["index-lookup (S-T3)"][1] == "–"
    answer = run("audit", MAMBA, "--compare", LLAMA, "--json").answer
    assert [one["model_type"] for one in answer["models"]] == ["mamba", "llama"]
    assert answer["models"][0] == audit(MAMBA).to_fields()


@pytest.mark.slow
def test_a_model_of_ours_by_name_and_by_spec(tmp_path: Path) -> None:
    argv = ("audit", "mamba", "--layers", "3", "--n", "64", "32", "--precision", "16", "--json")
    answer = run(*argv).answer
    config = separatrix.model("mamba", layers=3)
    expected = audit(config, n=[32, 64], precision=16).to_fields()
    assert answer == {**expected, "plot": None}
    assert (
        answer["parameters"] == separatrix.size_of(config, separatrix.task("index-lookup", n=64)).parameters
    )
    spec = tmp_path / "spec.json"
    spec.write_text(
        json.dumps({"schema": "separatrix.model", "version": 1, "name": "mamba", "params": {"layers": 3}})
    )
    assert run("audit", str(spec), "--n", "64", "32", "--precision", "16", "--json").answer == answer
    brackets = run("audit", "lstm", "--task", "dyck", "--n", "10", "--json").answer
    assert brackets["vocabulary"] == 4
    together = run("audit", "lstm", "--compare", "transformer", MAMBA, "--json").answer["models"]
    assert [one["model_type"] for one in together] == ["lstm", "transformer", "mamba"]
    assert run("audit", "mamba", "--help").out.count("--expand") == 1


def test_a_folder_goes_before_a_model_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mamba").mkdir()
    (tmp_path / "mamba" / "config.json").write_text(Path(JAMBA).read_text())
    monkeypatch.chdir(tmp_path)
    assert run("audit", "mamba", "--json").answer["model_type"] == "jamba"


@pytest.mark.slow
def test_a_figure(tmp_path: Path) -> None:
    figure = tmp_path / "memory.svg"
    shown = run("audit", MAMBA, "--plot", str(figure))
    assert shown.out.splitlines()[-1] == str(figure)
    assert figure.read_text().startswith("<?xml")
    assert run("audit", MAMBA, "--plot", str(figure), "--json").answer["plot"] == str(figure)


def test_an_unknown_type_is_answered_with_what_is_known(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    fields: dict[str, Any] = json.loads(Path(LLAMA).read_text())
    file.write_text(json.dumps({**fields, "model_type": "lla\x1b[31mma"}))
    ran = run("audit", str(file))
    assert ran.code == 0
    assert "\x1b" not in ran.out + ran.err
    strange = tmp_path / "a\x1b[31mb"
    strange.mkdir()
    (strange / "config.json").write_text(file.read_text())
    assert "\x1b" not in run("audit", str(strange)).out + run("audit", "--compare", str(strange), MAMBA).out
    assert all(name in ran.err for name in KINDS)
    assert "This type is not known here" in " ".join(ran.out.split())
    assert "8,030,261,248" in ran.out
    file.write_text('{"model_type": "lama"}')
    assert "Did you mean llama" in refused("audit", str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "audit needs a config.json, a folder with one or the name of a model of ours; got none."),
        ("--n 5", "audit needs a config.json, a folder with one or the name of a model of ours; got none."),
        ("nothing", "there is no file 'nothing', and no model of ours has that name. Known: transformer"),
        ("nothing.json", "An audit reads a config; there is no file 'nothing.json'."),
        ("no/thing", "An audit reads a config; there is no file 'no/thing'."),
        ("/dev/null", "'/dev/null' is no ordinary file."),
        ("MAMBA --n 0", "A length is a whole number from 1 to 10^12; got 0."),
        ("MAMBA --n 1.5", "--n needs a whole number; got '1.5'."),
        ("MAMBA --n 1" + 5000 * "0", "--n needs a whole number of ordinary size; got one of 5,001 digits."),
        ("MAMBA --precision 0", "A number has 1 to 4,096 bits; got precision=0."),
        ("MAMBA --state-precision 9999", "got state_precision=9999."),
        ("MAMBA --task dyck", "--task says what a model of ours reads; a config says that itself."),
        ("MAMBA --layers 3", "There is no option '--layers'."),
        ("MAMBA --plot x.pdf", "A figure is a file that ends in .svg or .png; got 'x.pdf'."),
        ("MAMBA --plot no/x.svg", "there is no folder 'no'; make it first."),
        ("MAMBA --compare a b c d", "audit puts at most 4 models side by side; got 5."),
        ("MAMBA --compare nowhere", "there is no file 'nowhere'"),
        ("lstm --task dyck --n 7", "Dyck needs an even length n ≥ 2; got n=7. Try 8."),
        ("lstm --precision 0", "precision bits as a whole number from 1"),
        ("lstm --n 99999999", "index-lookup needs 1 ≤ n ≤ 2^24"),
        ("nowhere_at_all:net", "There is no module nowhere_at_all"),
    ],
)
def test_wrong_use_is_one_sentence(line: str, words: str) -> None:
    assert words in refused("audit", *(MAMBA if word == "MAMBA" else word for word in line.split()))


def test_a_name_that_is_no_path_is_refused() -> None:
    assert "there is no file" in refused("audit", "x" * 5000)
    assert "there is no file" in refused("audit", "a\0b")


@pytest.mark.slow
def test_a_config_is_counted_without_torch_and_without_transformers() -> None:
    lines = [["audit", MAMBA], ["audit", "--compare", LLAMA, JAMBA, "--json"], ["audit", "--help"]]
    script = (
        f"import sys; from separatrix.cli import main; [main(line) for line in {lines!r}];"
        "print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split()[-2:] == ["False", "False"]


def test_it_runs_as_a_program() -> None:
    ran = process("audit", MAMBA)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "129,135,360" in ran.stdout
