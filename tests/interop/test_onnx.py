"""ONNX files in onnxruntime: witnesses answer as they do here, trained models to 1e-5."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import separatrix
from separatrix.certificates.attacks.hunts import Hunt
from separatrix.certificates.suspects import suspects
from separatrix.errors import InvalidInput
from separatrix.interop import OnnxManifest, export_onnx
from separatrix.models import MODELS
from separatrix.models.population import signature_of
from separatrix.tasks import TASKS
from separatrix.tasks.interface import Task, make
from separatrix.witnesses import Choices, Witness, witness_for
from separatrix.witnesses.catalogue import CATALOGUE, Entry
from separatrix.witnesses.solving import ask

pytestmark = pytest.mark.extra
SIZES = (4, 8, 16, 2, 6, 12, 32)
REFUSED = {"cycle3": "graph-unit", "cycle5": "graph-unit", "q-sparse-averaging": "sparse-sets"}
"""Tasks whose witnesses are not exported, and the word that says why."""


def ran(path: Path, rows: Tensor) -> Tensor:
    """What onnxruntime makes of the rows."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(["outputs"], {"inputs": rows.numpy()})[0])


def small(entry: Entry) -> Witness:
    """The entry's witness at the first size that it takes."""
    for n in SIZES:
        try:
            return entry.builder()(make(TASKS.get(entry.task), {"n": n, **entry.takes}), Choices())
        except InvalidInput:
            continue
    raise AssertionError(f"no size fits {entry}")


def is_input(task: Task, row: Tensor) -> bool:
    """Whether a row is one of the task's inputs; attacks try others too, and drop them."""
    try:
        task.check(row)
    except InvalidInput:
        return False
    return True


def texts(witness: Witness, *, count: int) -> tuple[Tensor, Tensor]:
    """Whole texts as a witness writes them, filled up with token 0; and where its own words are chosen."""
    assert witness.script is not None
    rows = witness.task.sample(count, seed=1).inputs
    whole = torch.zeros(count, witness.positions, dtype=torch.int64)
    chosen = torch.zeros(count, witness.positions, dtype=torch.bool)
    for number, (row, solution) in enumerate(zip(rows, ask(witness, rows), strict=True)):
        assert solution.run is not None
        prompt = witness.script.prompt(row)
        text = [*prompt, *solution.run.written]
        whole[number, : len(text)] = torch.tensor(text)
        for place in range(len(solution.run.written)):
            chosen[number, len(prompt) - 1 + place] = place not in solution.run.returned
    return whole, chosen


def hardest(witness: Witness, *, most: int) -> Tensor:
    """All inputs where there are few; else worst ones by hand, and of many those with the least lead."""
    task = witness.task
    if task.domain_size() <= 1 << 13:
        return torch.cat(list(task.enumerate()))
    drawn = task.sample(512, seed=7).inputs
    mask = task.solve(drawn).mask
    scores = witness.model.forward(drawn)
    lead = scores.topk(2, dim=-1).values.diff(dim=-1).squeeze(-1).neg().masked_fill(~mask, torch.inf)
    found = [drawn[lead.amin(1).argsort()[:most]]]
    known = suspects(task, most)
    return torch.cat(found if known is None else [*found, known])


@pytest.mark.parametrize(
    ("name", "parameters", "family"),
    [
        ("index-lookup", {"n": 64, "alphabet": 16}, "transformer-1"),
        ("dyck", {"n": 10}, "transformer-3"),
        ("equality", {"n": 40}, "transformer-2"),
        ("index-lookup", {"n": 16, "alphabet": 8}, "rnn"),
    ],
)
def test_a_witness_answers_its_worst_inputs_alike(
    name: str, parameters: dict[str, int], family: str, tmp_path: Path
) -> None:
    witness = witness_for(separatrix.task(name, **parameters), family=family)
    export_onnx(witness, tmp_path / "model.onnx")
    rows = hardest(witness, most=200)
    mask = witness.task.solve(rows).mask
    found = ran(tmp_path / "model.onnx", rows)
    assert found.dtype == torch.float64
    assert torch.equal(found.argmax(-1), witness.model.answers(rows))
    assert torch.equal(found.argmax(-1)[mask], witness.task.solve(rows).targets[mask])


@pytest.mark.slow
def test_what_attacks_try_is_answered_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every input that `break_model` puts to the witness, looking for one that it is wrong on."""
    tried: list[Tensor] = []
    judge = Hunt.judge

    def noted(hunt: Hunt, rows: Tensor, *rest: Any, **options: Any) -> Any:
        tried.append(rows)
        return judge(hunt, rows, *rest, **options)

    monkeypatch.setattr(Hunt, "judge", noted)
    for name, parameters, family in (
        ("index-lookup", {"n": 32, "alphabet": 8}, "transformer-1"),
        ("dyck", {"n": 12}, "transformer-3"),
        ("disjointness", {"n": 32}, "transformer-2"),
    ):
        tried.clear()
        witness = witness_for(separatrix.task(name, **parameters), family=family)
        assert not separatrix.break_model(witness, witness.task, budget=2, seed=1, samples=100).broken
        rows = torch.stack([row for row in torch.cat(tried)[:5_000] if is_input(witness.task, row)])
        assert len(rows) > 100
        export_onnx(witness, tmp_path / "model.onnx")
        mask = witness.task.solve(rows).mask
        found = ran(tmp_path / "model.onnx", rows).argmax(-1)
        assert torch.equal(found[mask], witness.model.answers(rows)[mask])


@pytest.mark.slow
@pytest.mark.parametrize(
    "entry", CATALOGUE, ids=lambda each: "-".join((each.task, each.family, each.variant))
)
def test_every_witness(entry: Entry, tmp_path: Path) -> None:
    witness, path = small(entry), tmp_path / "model.onnx"
    if entry.task in REFUSED:
        with pytest.raises(InvalidInput, match=REFUSED[entry.task]):
            export_onnx(witness, path)
        return
    manifest = export_onnx(witness, path)
    assert manifest.witness is not None
    assert manifest.outputs.dtype == "float64"
    if witness.script is None:
        rows = hardest(witness, most=100)
        mask = witness.task.solve(rows).mask
    else:
        rows, mask = texts(witness, count=8)
    found, right = ran(path, rows), witness.model.forward(rows)
    torch.testing.assert_close(found[mask], right[mask], rtol=1e-9, atol=1e-9)
    if witness.model.classes is not None:
        assert torch.equal(found.argmax(-1)[mask], right.argmax(-1)[mask])


def task_for(name: str) -> Task:
    return (
        separatrix.task("cycle3", n=8) if name == "graph-transformer" else separatrix.task("equality", n=12)
    )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "lstm" else pytest.mark.slow) for name in MODELS.names()]
)
def test_every_architecture(name: str, tmp_path: Path) -> None:
    task, kind, path = task_for(name), MODELS.get(name), tmp_path / "model.onnx"
    population = kind(kind.Config(), signature_of(task), members=2).initialise([1, 2])
    manifest = export_onnx(population.member(1), path, task=task)
    assert manifest.model is not None
    assert manifest.model.name == name
    for count in (1, 9):
        rows = task.sample(count, seed=count).inputs
        with torch.no_grad():
            right = population.member(1).forward(rows)
        found = ran(path, rows)
        assert found.shape == right.shape
        assert found.dtype == torch.float32
        assert float((found - right).abs().max()) <= 1e-5


def test_a_trained_run_and_its_manifest(tmp_path: Path) -> None:
    task = separatrix.task("index-lookup", n=6, alphabet=4)
    trained = separatrix.train(
        task,
        separatrix.model("lstm", width=16),
        training=separatrix.Training(steps=2, batch=8, test_examples=16),
        members=[separatrix.Member(seed=1)],
        store=separatrix.Store(tmp_path / "runs"),
    )
    manifest = export_onnx(trained[0], tmp_path / "out" / "model.onnx")
    content = (tmp_path / "out" / "model.onnx").read_bytes()
    page = json.loads((tmp_path / "out" / "model.json").read_text())
    assert OnnxManifest.from_json(page) == manifest
    assert page["schema"] == "separatrix.onnx"
    assert page["model_sha256"] == hashlib.sha256(content).hexdigest()
    assert page["task"]["name"] == "index-lookup"
    assert page["inputs"] == {"name": "inputs", "dtype": "int64", "shape": ["batch", "7"]}
    assert page["outputs"] == {"name": "outputs", "dtype": "float32", "shape": ["batch", "7", "4"]}
    assert b"/src/separatrix" not in content


def test_the_same_model_is_the_same_bytes(tmp_path: Path) -> None:
    witness = witness_for(separatrix.task("index-lookup", n=4, alphabet=4), family="transformer-1")
    first, second = (export_onnx(witness, tmp_path / f"{name}.onnx") for name in "ab")
    assert first.model_sha256 == second.model_sha256


def test_wrong_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    witness = witness_for(separatrix.task("index-lookup", n=4, alphabet=4), family="transformer-1")
    with pytest.raises(InvalidInput, match=r"named like model\.onnx; got 'model\.bin'"):
        export_onnx(witness, tmp_path / "model.bin")
    with pytest.raises(InvalidInput, match="inputs of 1 to 5 positions; got n=6"):
        export_onnx(witness, tmp_path / "model.onnx", n=6)
    with pytest.raises(InvalidInput, match="This witness is for index-lookup"):
        export_onnx(witness, tmp_path / "model.onnx", task=separatrix.task("dyck", n=4))
    monkeypatch.setitem(__import__("sys").modules, "onnxscript", None)
    with pytest.raises(InvalidInput, match=r"need the extra onnx.*pip install 'separatrix\[onnx\]'"):
        export_onnx(witness, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
