"""`separatrix models` and `separatrix size`."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len
from torch import Tensor
from torch.utils._pytree import tree_leaves

import separatrix
from separatrix.models import MODELS
from separatrix.models.population import CausalPopulation, signature_of
from tests.cli.running import refused, run


def test_every_model_is_listed_with_its_parameters() -> None:
    answer = run("models", "--json").answer
    assert [entry["name"] for entry in answer["models"]] == list(MODELS.names())
    for entry in answer["models"]:
        kind = MODELS.get(entry["name"])
        assert (entry["title"], entry["source"]) == (kind.title, kind.source)
        assert entry["summary"] == (kind.__doc__ or "").partition("\n")[0]
        defaults = {field.name: field.default for field in dataclasses.fields(kind.Config) if field.init}
        assert {one["name"]: one["default"] for one in entry["parameters"]} == defaults
        assert all(one["help"] for one in entry["parameters"])


def test_the_list_is_readable() -> None:
    ran = run("models")
    assert (ran.code, ran.err) == (0, "")
    assert max(map(cell_len, ran.out.splitlines())) <= 80
    page = " ".join(ran.out.split())
    for name, kind in MODELS.items():
        assert name in page
        assert kind.source in page
    assert "--layers 1 --width 64 --embedding learned --tied no --initial published --heads 4" in page


def test_size_is_the_models_own_count() -> None:
    argv = ("size", "transformer", "--n", "24", "--width", "32", "--layers", "2", "--precision-bits", "16")
    lookup, kind = separatrix.task("index-lookup", n=24), MODELS.get("transformer")
    config = kind.Config(width=32, layers=2)
    size = kind(config, signature_of(lookup), members=1).size(25, 16)
    assert run(*argv).out == (f"{size.table(n=25)}\npositions: inputs of index-lookup with n=24 have 25\n")
    answer = run(*argv, "--json").answer
    assert {name: answer[name] for name in size.to_fields()} == size.to_fields()
    assert answer["state_bits"] == size.state_bits(25) == 2 * 2 * 32 * 16 * 25
    assert (answer["model"], answer["task"], answer["n"]) == ("transformer", "index-lookup", 24)
    assert answer["positions"] == lookup.length == 25
    assert answer["config"]["layers"] == 2


def test_size_of_every_model_on_a_task_that_suits_it() -> None:
    tasks = {"graph-transformer": "cycle3", "fnn": "q-sparse-averaging"}
    for name in MODELS.names():
        answer = run("size", name, "--n", "8", "--task", tasks.get(name, "index-lookup"), "--json").answer
        assert answer["parameters"] > 0


def test_the_state_is_that_behind_all_that_the_model_reads() -> None:
    """Counted in the state itself, token by token through a real input."""
    asked = separatrix.task("mqar", n=16)
    assert asked.length != 16
    population = MODELS.get("transformer")(
        MODELS.get("transformer").Config(width=16), signature_of(asked), members=1
    )
    assert isinstance(population, CausalPopulation)
    state = population.start(1)
    for token in asked.sample(1, seed=0).inputs[0]:
        _, state = population.step(token.view(1, 1), state)
    answer = run("size", "transformer", "--n", "16", "--task", "mqar", "--width", "16", "--json").answer
    carried = [values for values in tree_leaves(state) if isinstance(values, Tensor)]
    assert answer["state_bits"] == 32 * sum(values.numel() for values in carried)


def test_size_takes_the_tasks_flags_too() -> None:
    small, large = (
        run("size", "lstm", "--n", "8", "--alphabet", alphabet, "--json").answer for alphabet in ("8", "16")
    )
    assert large["embedding_parameters"] - small["embedding_parameters"] == 8 * 64
    assert small["state_bits"] == large["state_bits"] == 2 * 64 * 32


def test_size_of_a_module_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_sized_net.py").write_text(
        "from torch import nn\n\n"
        "def make(signature, *, hidden: int = 4):\n"
        "    return nn.Sequential(nn.Embedding(signature.inputs.size, hidden), "
        "nn.Linear(hidden, signature.out))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    lookup = separatrix.task("index-lookup", n=8)
    words, answers = lookup.input_space.size, lookup.target_space.size  # type: ignore[union-attr]
    answer = run("size", "own_sized_net:make", "--n", "8", "--hidden", "6", "--json").answer
    assert answer["parameters"] == 6 * words + 6 * answers + answers
    assert "--hidden INT" in run("size", "own_sized_net:make", "--help").out


def test_help_shows_the_flags_of_model_and_task() -> None:
    general = run("size", "--help").out
    assert "MODEL" in general
    assert "--precision-bits" in general
    page = run("size", "retnet", "--task", "dyck", "--help").out
    for flag in ("--expand", "--depth", "--precision-bits"):
        assert f"{flag} " in page


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("size", "size needs the name of a model first; `separatrix models` lists them."),
        ("size --n 8 lstm", "size needs the name of a model first; `separatrix models` lists them."),
        ("size lstn --n 8", "There is no model 'lstn'. Did you mean lstm"),
        ("size lstm", "size needs --n (most symbols before the index); none was given."),
        ("size lstm --n 8 --task dick", "There is no task 'dick'. Did you mean dyck?"),
        (
            "size transformer --n 8 --width 30",
            "Transformer shares its width evenly among its heads; got width=30 and heads=4. Try width=28.",
        ),
        ("size lstm --n 8 --precision-bits 0", "precision bits as a whole number from 1"),
        ("size fnn --n 8 --heads 3", "There is no option '--heads'."),
        ("size graph-transformer --n 8", "graph-transformer reads an adjacency matrix"),
        ("size nowhere_at_all:net --n 8", "There is no module nowhere_at_all to import net from"),
        ("models x", "'x' is one word too many; --help shows what models takes."),
    ],
)
def test_wrong_use_is_one_sentence(line: str, words: str) -> None:
    assert words in refused(*line.split())


def test_torch_waits_until_it_is_needed() -> None:
    lines = [["models", "--help"], ["size", "--help"], ["size"], ["train"], ["--help"]]
    script = (
        f"import sys; from separatrix.cli import main; [main(line) for line in {lines!r}];"
        "print('torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split()[-1] == "False"
