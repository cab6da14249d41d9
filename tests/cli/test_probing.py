"""`separatrix probe`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import separatrix.audits.probing
from separatrix.audits.probe_prompts import asked_of
from tests.audits.test_probing import a_probe, folder_of
from tests.audits.tiny_models import save_looking_up
from tests.cli.running import refused, run


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_what_is_refused(tmp_path: Path) -> None:
    model = str(folder_of(tmp_path / "model"))
    asked = ("probe", model, "--task", "index-lookup")
    assert refused("probe", model).startswith("probe needs --task (phone-book, associative-recall, index-")
    assert refused("probe", "--task", "phone-book").startswith("probe needs MODEL (Folder of a causal")
    assert refused("probe", model, "--task", "dyck") == (
        "There is no probe 'dyck'. Known: phone-book, associative-recall, index-lookup, distractor-qa."
    )
    assert refused("probe", "nowhere", "--task", "index-lookup").endswith("there is no folder 'nowhere'.")
    assert refused(*asked, "--n", "0").startswith("index-lookup needs 1 ≤ n ≤ 2^24; got n=0")
    assert refused(*asked, "--n", "4.5") == "--n needs a whole number; got '4.5'."
    assert "got count=0. Try 100." in refused(*asked, "--count", "0")
    assert "got at-once=0. Try 16." in refused(*asked, "--at-once", "0")
    assert "got shots=99. Try 2." in refused(*asked, "--shots", "99")
    assert refused(*asked, "--dtype", "int8").startswith("--dtype is one of auto, float32")
    (tmp_path / "model" / "model.safetensors").unlink()
    assert "has no weights; it needs model.safetensors" in refused(*asked)
    assert not (tmp_path / "out").exists()


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    said = refused("probe", str(folder_of(tmp_path / "model")), "--task", "phone-book")
    assert said == "Hugging Face folders need the extra hf; install it with: pip install 'separatrix[hf]'."


def test_an_interruption_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(separatrix.audits.probing, "probe", interrupted)
    ran = run("probe", str(tmp_path / "model"), "--task", "phone-book")
    assert ran.code == 130
    assert ran.err == (
        "Interrupted; what was answered is kept, and the same command goes on in 'out/probe/model'.\n"
    )


def test_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}

    def found(*_: object, **settings: object) -> object:
        given.update(settings)
        return a_probe(wall=20)

    monkeypatch.setattr(separatrix.audits.probing, "probe", found)
    ran = run("probe", "m", "--task", "associative-recall", "--n", "4", "16", "--out", "here")
    assert (ran.code, ran.err) == (0, "")
    assert (given["n"], given["count"], given["shots"], given["out"]) == ((4, 16), 100, None, Path("here"))
    lines = ran.out.splitlines()
    assert lines[0] == "tiny: mamba, associative-recall after 2 worked examples"
    assert [line.split()[:8] for line in lines[2:5]] == [
        ["4", "50", "96.0", "%", "86.5", "–", "98.9", "%"],
        ["16", "50", "60.0", "%", "46.2", "–", "72.4", "%"],
        ["64", "50", "6.0", "%", "2.1", "–", "16.2", "%"],
    ]
    assert "Words about <it>." in lines
    assert "note: A <note>." in lines
    assert lines[-1] == "here/associative-recall.svg"


@pytest.mark.extra
@pytest.mark.slow
def test_a_probe_from_end_to_end(tmp_path: Path) -> None:
    prompts = asked_of("associative-recall").prompts(4, count=3, seed=0, shots=0)
    save_looking_up(tmp_path / "model", [f"{prompt.text} {prompt.answer}\n" for prompt in prompts])
    line = ("probe", "model", "--task", "associative-recall", "--n", "4", "--count", "3", "--shots", "0")
    ran = run(*line, "--device", "cpu", "--json")
    assert (ran.code, ran.err) == (0, "")
    (score,) = ran.answer["scores"]
    assert (score["n"], score["right"], score["accuracy"]) == (4, 3, 1.0)
    assert ran.answer["wall"] is None
    for file in ran.answer["files"].values():
        assert (tmp_path / file).is_file()
    written = json.loads((tmp_path / ran.answer["files"]["json"]).read_text())
    assert written["scores"] == ran.answer["scores"]
    assert "exact" in run(*line).out
