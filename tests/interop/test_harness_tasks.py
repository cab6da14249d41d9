"""Task files of lm-evaluation-harness, run by the harness itself: who knows has 1, who does not has 0."""

from __future__ import annotations

import importlib
import re
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from separatrix.errors import InvalidInput
from separatrix.experiments.reading.tiny_causal_lm import save_tiny_llama
from separatrix.interop.causal_lm import load_causal_lm
from separatrix.interop.harness_tasks import harness_config, harness_name, write_harness_folder
from separatrix.interop.task_datasets import read_examples
from separatrix.tasks import TASKS, Task, task
from separatrix.tasks.byte_text import ByteTask, answer_text
from separatrix.tasks.interface import example_task

CHOICES = ("nearest-neighbour", "dyck", "equality", "disjointness", "sparse-threshold", "c-gram", "counting")


def small(name: str) -> Task:
    return example_task(TASKS.get(name))


@pytest.mark.parametrize("name", TASKS.names())
def test_a_task_file_is_data_only(name: str, tmp_path: Path) -> None:
    asked = small(name)
    write_harness_folder(asked, tmp_path, count=3, seed=5, shots=2)
    (file,) = tmp_path.glob("*.yaml")
    text = file.read_text()
    assert file.stem == harness_name(asked) == f"separatrix_{name.replace('-', '_')}_n{asked.n}"
    assert not re.search(r"^[^\"]*!", text, re.M)  # no tag outside quotes
    assert f'test: "{tmp_path / "test.jsonl"}"' in text
    config = harness_config(asked, tmp_path, shots=2, most_tokens=9)
    kind = "multiple_choice" if name in CHOICES else "generate_until"
    assert config["output_type"] == kind
    assert config["num_fewshot"] == 2
    assert [example.number for example in read_examples(tmp_path)] == [0, 1, 2]
    shown = list(read_examples(tmp_path / "shown.jsonl", task=asked))
    assert [example.number for example in shown] == [3, 4]


def test_words_say_what_the_labels_mean(tmp_path: Path) -> None:
    def words(name: str, **parameters: Any) -> str:
        config = harness_config(task(name, **parameters), tmp_path, shots=0, most_tokens=1)
        return str(config["description"])

    assert "more than 3 are open" in words("dyck", n=8, depth=3)
    assert "there is a position at which both have a 1" in words("disjointness", n=8)
    assert "first occurred" in words("associative-recall", n=8, form="sequence")
    assert "key" not in words("associative-recall", n=8, form="sequence")
    by_example = "Answer as the examples do.\n\n"
    assert words("equality", n=8, form="ncp") == by_example
    assert words("dyck", n=8, form="next") == by_example
    assert words("match3", n=8, variant="last") == by_example
    assert words("is-tree", n=8, form="cot").endswith("write what the examples write there.\n\n")
    assert words("phone-book", n=8) == ""


def test_shots_within_reason(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="0 to 64 worked examples; got shots=65"):
        write_harness_folder(small("dyck"), tmp_path / "x", count=1, shots=65)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No socket connects, and what `datasets` keeps it keeps here."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    config = importlib.import_module("datasets").config
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(socket.socket, "connect", refuse)


def refuse(*_: object) -> None:
    raise AssertionError("somebody wants to connect")


def evaluated(folder: Path, tasks: Sequence[Task], model: Any, **settings: Any) -> dict[str, float]:
    """The harness's own number for each task."""
    lm_eval = importlib.import_module("lm_eval")
    manager = importlib.import_module("lm_eval.tasks").TaskManager(
        include_path=str(folder), include_defaults=False
    )
    names = [harness_name(one) for one in tasks]
    found = lm_eval.simple_evaluate(
        model=model, tasks=names, task_manager=manager, bootstrap_iters=0, verbosity="ERROR", **settings
    )["results"]
    metrics = {"acc,none", "exact_match,answer"}
    return {name: float(next(found[name][key] for key in metrics & set(found[name]))) for name in names}


def scripted(write: Callable[[str, str], str]) -> Any:
    """A model of the harness that goes on by a function of the task's name and the context."""
    model = importlib.import_module("lm_eval.api.model")

    class Scripted(model.LM):  # type: ignore[misc]
        def generate_until(self, requests: Any) -> list[str]:
            return [write(request.task_name, request.args[0]) for request in requests]

        def loglikelihood(self, requests: Any) -> list[tuple[float, bool]]:
            likely = [write(request.task_name, request.args[0]) == request.args[1] for request in requests]
            return [(0.0 if one else -9.0, one) for one in likely]

        def loglikelihood_rolling(self, requests: Any) -> list[float]:
            raise NotImplementedError

    return Scripted()


def oracle(tasks: Sequence[Task]) -> Callable[[str, str], str]:
    """Reads the last question of a context, and answers it from nothing else."""
    by_name = {harness_name(one): one for one in tasks}

    def write(name: str, context: str) -> str:
        asked = by_name[name]
        if isinstance(asked, ByteTask):
            return f"{asked.continuation(context)}\n\nand more"
        text = context.rpartition("Input: ")[2].removesuffix("\nAnswer:")
        if asked.name == "mqar":
            words = text.split()
            pairs = dict(zip(words[: asked.n : 2], words[1 : asked.n : 2], strict=True))
            return f" {' '.join(pairs[key] for key in words[asked.n :])}"
        labels = asked.solve(asked.parse(text).unsqueeze(0))
        return f" {answer_text(asked, labels.targets[0][labels.mask[0]])}"

    return write


OTHERS = {"0": "1", "1": "0", "YES": "NO", "NO": "YES", ":0": ":1", "s0": "s1"}


@pytest.mark.extra
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("offline")
def test_who_knows_is_right_and_who_does_not_is_wrong(tmp_path: Path) -> None:
    tasks = [small(name) for name in TASKS.names()]
    for one in tasks:
        write_harness_folder(one, tmp_path / "tasks" / one.name, count=20, seed=1)
    names = [harness_name(one) for one in tasks]
    knows = oracle(tasks)
    assert evaluated(tmp_path / "tasks", tasks, scripted(knows)) == dict.fromkeys(names, 1.0)

    def wrong(name: str, context: str) -> str:
        # Of several answers a choice takes the likeliest, so a wrong one must be named.
        right = knows(name, context).strip()
        return f" {OTHERS.get(right, ':0' if right.startswith(':') else 's0')}"

    assert evaluated(tmp_path / "tasks", tasks, scripted(wrong)) == dict.fromkeys(names, 0.0)


@pytest.mark.extra
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("offline")
def test_several_tasks_of_one_folder_and_a_model_from_disk(tmp_path: Path) -> None:
    tasks = [task("index-lookup", n=4), task("index-lookup", n=8), task("dyck", n=8), task("is-tree", n=5)]
    for one in tasks:
        write_harness_folder(one, tmp_path / "tasks" / harness_name(one), count=6)
    texts = [file.read_text() for file in tmp_path.glob("tasks/*/*.jsonl")]
    save_tiny_llama(tmp_path / "model", [*texts, "Input: Answer: 0 1 YES NO s0 s1"])
    model = load_causal_lm(tmp_path / "model")

    def write(_: str, context: str) -> str:
        return model.complete([context], most_tokens=4, stop="\n")[0]

    found = evaluated(tmp_path / "tasks", tasks, scripted(write))
    assert set(found) == {harness_name(one) for one in tasks}
    assert found["separatrix_index_lookup_n8"] < 0.5


@pytest.mark.extra
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("offline")
def test_worked_examples_are_shown_and_the_end_alone_is_scored(tmp_path: Path) -> None:
    asked = task("is-tree", n=6, form="cot")
    write_harness_folder(asked, tmp_path / "tasks", count=4, shots=3)
    contexts: list[str] = []

    def verdict_only(name: str, context: str) -> str:
        contexts.append(context)
        return f" some tour or other {oracle([asked])(name, context).split()[-1]}\n"

    assert set(evaluated(tmp_path / "tasks", [asked], scripted(verdict_only)).values()) == {1.0}
    shown = list(read_examples(tmp_path / "tasks" / "shown.jsonl", task=asked))
    before = "".join(f"Input: {one.input}\nAnswer: {one.target}\n\n" for one in shown)
    assert len(contexts) == 4
    assert all(before in context and context.count("Input: ") == 4 for context in contexts)
