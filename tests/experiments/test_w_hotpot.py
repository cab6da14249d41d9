"""W's figure from folders on disk: the whole way, with tiny models made here."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.experiments import study_of
from separatrix.experiments.outcomes import outcome_of
from separatrix.experiments.protocols import Settings
from separatrix.experiments.reading.hotpot import (
    PAPER_MODELS,
    model_argument,
    read_hotpot,
    readings_of,
)
from separatrix.experiments.reading.tiny_causal_lm import save_tiny_llama
from separatrix.experiments.reproducing import known_of, reproduce
from separatrix.interop.asking import Prompt
from separatrix.interop.causal_lm import quietly, require_transformers
from separatrix.store import Store


def test_models_as_they_are_named() -> None:
    assert model_argument("RNN=/models/a=b") == ("RNN", Path("/models/a=b"))
    for text in ("RNN", "=folder", "RNN=", " = "):
        with pytest.raises(InvalidInput, match="NAME=FOLDER"):
            model_argument(text)


def test_larger_budgets_need_models(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInput,
        match=r"give each with --model NAME=FOLDER, such as Transformer=.* or try --budget smoke",
    ):
        read_hotpot([], budget="quick", store=tmp_path)
    with pytest.raises(InvalidInput, match="A budget is smoke, quick, paper; got 'all'"):
        read_hotpot([], budget="all", store=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="ascending from 2"):
        read_hotpot([], budget="quick", store=tmp_path, paragraphs=(4, 8))
    assert list(tmp_path.iterdir()) == []


def test_without_models_the_paper_s_cells_can_be_shown_and_not_run(tmp_path: Path) -> None:
    study = study_of("w-hotpot", Settings(budget="paper"))
    with pytest.raises(InvalidInput, match="asks models that you have on disk"):
        reproduce(study, Store(tmp_path))
    shown = outcome_of(study, known_of(Store(tmp_path)), measured={}).panels[0]
    assert shown.panel.rows[:2] == ("Transformer, random", "Transformer, gold-last")
    assert {cell.state for cell in shown.cells} == {"not run"}
    assert sum(cell.paper is not None for cell in shown.cells) == 24


def test_without_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    outcome = read_hotpot([], budget="smoke", store=tmp_path)
    assert outcome.skipped == "w-hotpot needs the extra hf: pip install 'separatrix[hf]'."
    assert outcome.scores == ()
    with pytest.raises(InvalidInput, match="need the extra hf"):
        read_hotpot([("RNN", tmp_path)], budget="smoke", store=tmp_path)


def prompts(n: int | None = None) -> list[Prompt]:
    found = [prompt for reading in readings_of("smoke") for prompt in reading.prompts()]
    return [prompt for prompt in found if n is None or prompt.n == n]


@pytest.fixture(scope="module")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("random")
    save_tiny_llama(
        folder, [f"{prompt.text} {prompt.answer}\nAnswer: \n\n" for prompt in prompts()], width=32
    )
    return folder


@pytest.fixture(scope="module")
def trained_model(random_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The random one, after a few steps on what to write after the questions with the gold alone."""
    folder = tmp_path_factory.mktemp("trained")
    shutil.copytree(random_model, folder, dirs_exist_ok=True)
    transformers = require_transformers()
    with quietly(transformers):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        _fit(model, tokenizer)
        model.save_pretrained(folder)
    return folder


def _fit(model: Any, tokenizer: Any) -> None:
    examples = {}
    for prompt in prompts():
        if prompt.n == 2:
            examples[prompt.text] = f"\nAnswer: {prompt.answer}\n\n"
        if prompt.n == 1:
            examples[prompt.text] = f" {prompt.answer}\n\n"
    rows = [(tokenizer(text)["input_ids"], tokenizer(after)["input_ids"]) for text, after in examples.items()]
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        for before, after in rows:
            logits = model(input_ids=torch.tensor([before + after])).logits[0, len(before) - 1 : -1]
            loss = torch.nn.functional.cross_entropy(logits, torch.tensor(after))
            torch.autograd.backward(loss)
        adam.step()
        adam.zero_grad()


@pytest.mark.extra
def test_the_smallest_budget_makes_its_own_model(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = torch.random.get_rng_state()
    outcome = read_hotpot([], budget="smoke", store=tmp_path, device="cpu")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert outcome.skipped == ""
    assert {(each.task, each.model, each.asked, each.kept) for each in outcome.scores} == {
        ("distractor-qa", "Transformer", 3, 0),
        ("phone-book", "Transformer", 3, 0),
    }
    assert outcome.notes[0].startswith("The model is a tiny one with random weights")
    assert len([note for note in outcome.notes if "nothing to score" in note]) == 2
    answers = (tmp_path / "w-hotpot" / "answers.jsonl").read_bytes()
    assert read_hotpot([], budget="smoke", store=tmp_path, device="cpu") == outcome
    assert (tmp_path / "w-hotpot" / "answers.jsonl").read_bytes() == answers
    assert capfd.readouterr() == ("", "")


@pytest.mark.extra
def test_a_trained_model_is_scored_amid_more(tmp_path: Path, trained_model: Path, random_model: Path) -> None:
    outcome = read_hotpot([("RNN", trained_model)], budget="smoke", store=tmp_path, device="cpu")
    assert {(each.asked, each.kept) for each in outcome.scores} == {(3, 3)}
    assert all(each.right == 3 for each in outcome.scores if each.n <= 2)
    lines = [json.loads(line) for line in (tmp_path / "w-hotpot/answers.jsonl").read_text().splitlines()]
    assert {(line["task"], line["n"]) for line in lines} == {
        ("distractor-qa", 2),
        ("distractor-qa", 4),
        ("phone-book", 1),
        ("phone-book", 4),
    }
    study = study_of("w-hotpot", Settings(models=(("RNN", trained_model),)))
    panel = reproduce(study, Store(tmp_path)).outcome.panels[0]
    cells = {(cell.cell.row, cell.cell.column): cell for cell in panel.cells}
    gold = cells["RNN, random", 2]
    assert (gold.accuracy, gold.paper, gold.difference) == (1.0, 1.0, 0.0)
    assert gold.note == "3 of 3 questions kept"
    assert cells["RNN, gold-last", 4].paper == 0.860
    assert [note for note in outcome.notes if "tiny" in note or "nothing" in note] == []
    # Beside one that knows nothing nothing is left to score; what was answered stays.
    both = [("RNN", trained_model), ("Hybrid", random_model)]
    beside = read_hotpot(both, budget="smoke", store=tmp_path, device="cpu")
    assert {(each.model, each.kept) for each in beside.scores} == {("RNN", 0), ("Hybrid", 0)}
    names = [
        json.loads(line)["model"] for line in (tmp_path / "w-hotpot/answers.jsonl").read_text().splitlines()
    ]
    assert names == ["RNN"] * len(lines) + ["Hybrid"] * 6


@pytest.mark.extra
def test_folders_that_cannot_be_used(tmp_path: Path, random_model: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no folder"):
        read_hotpot([("RNN", tmp_path / "none")], budget="smoke", store=tmp_path / "store")
    with pytest.raises(InvalidInput, match="different names; got RNN, RNN"):
        read_hotpot([("RNN", random_model)] * 2, budget="smoke", store=tmp_path / "store", device="cpu")
    short = tmp_path / "short"
    save_tiny_llama(short, ["a word"], context=64)
    with pytest.raises(InvalidInput, match="reads at most 64 tokens"):
        read_hotpot([(PAPER_MODELS[0], short)], budget="smoke", store=tmp_path / "store", device="cpu")
