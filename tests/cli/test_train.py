"""`separatrix train`: what is trained, printed, kept, gone on with, and refused."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.cells import cell_len

from separatrix.models import MODELS
from separatrix.store import Store
from separatrix.training import Job, Member, Plan, Training, load_run
from separatrix.training.__main__ import read_plan
from tests.cli.running import Ran, refused, run

MODEL = ("--model", "transformer", "--width", "16", "--heads", "2")
SHORT = {
    "--steps": "20",
    "--batch": "8",
    "--eval-every": "10",
    "--eval-examples": "20",
    "--test-examples": "30",
}


def tiny(*argv: str) -> tuple[str, ...]:
    """A command line that is done in a moment, where it does not say otherwise."""
    short = [word for flag, value in SHORT.items() if flag not in argv for word in (flag, value)]
    return "train", "index-lookup", "--n", "8", "--alphabet", "8", *MODEL, *short, *argv


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a store of its own."""
    monkeypatch.setenv("SEPARATRIX_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "store"


def train(*argv: str) -> Ran:
    ran = run(*tiny(*argv))
    assert ran.code == 0, ran.err
    return ran


@pytest.mark.slow
def test_members_are_the_product_of_the_lists(place: Path) -> None:
    lists = (
        "--lr",
        "1e-3",
        "1e-2",
        "--seeds",
        "0",
        "7",
        "--schedule",
        "constant",
        "cosine",
        "wsd",
        "--warmup",
        "3",
    )
    answer = train(*lists, "--weight-decay", "0", "0.5", "--json").answer
    members = [entry["config"]["member"] for entry in answer["runs"]]
    found = {tuple(member.values()) for member in members}
    assert found == {
        (lr, seed, decay, schedule, 3)
        for lr in (1e-3, 1e-2)
        for seed in (0, 7)
        for decay in (0.0, 0.5)
        for schedule in ("constant", "cosine", "wsd")
    }
    assert answer["store"] == str(place)
    assert len(Store(place).runs()) == 24


def test_json_says_what_came_of_each(place: Path) -> None:
    ran = train("--seeds", "0", "1", "--json")
    assert ran.err == ""
    accuracies = [entry["accuracy"] for entry in ran.answer["runs"]]
    assert accuracies == sorted(accuracies, reverse=True)
    for entry in ran.answer["runs"]:
        stored = Store(place).run(entry["key"])
        assert entry["config"] == stored.to_fields()["config"]
        assert entry["accuracy"] == entry["correct"] / entry["examples"] == stored.accuracy
        assert entry["interval"] == [stored.low, stored.high]
        assert (entry["steps"], entry["status"], entry["solved_at"]) == (20, "done", None)
        assert entry["seconds"] == stored.seconds > 0
        assert entry["config"]["model"]["params"]["width"] == 16
        assert entry["config"]["training"]["batch"] == 8


def test_the_table_has_the_best_first_and_lines_say_how_it_goes() -> None:
    ran = train("--lr", "1e-3", "1e-2", "--seeds", "0", "1", "--weight-decay", "0", "0.1")
    head, *rows = ran.out.splitlines()
    assert " ".join(head.split()) == "lr seed weight decay status steps solved at accuracy 95 % interval"
    assert len(rows) == 8
    accuracies = [float(row.split()[-2]) for row in rows]
    assert accuracies == sorted(accuracies, reverse=True)
    for row in rows:
        low, high = map(float, row.split()[-1].split("–"))
        assert low <= float(row.split()[-2]) <= high
    assert max(map(cell_len, ran.out.splitlines())) <= 80
    first, *looks = ran.err.splitlines()
    assert first.startswith("transformer on index-lookup(n=8, alphabet=8")
    assert first.endswith("): 8 members")
    assert [look.split("  ")[0] for look in looks] == ["step 10 of 20", "step 20 of 20"]


def test_a_solved_member_stops_and_says_when() -> None:
    ran = train("--solved", "0.05", "--lr", "1e-2", "--eval-every", "5")
    row = ran.out.splitlines()[1].split()
    assert row[2] == "done", "as the store has it; the step stands beside it"
    assert row[3] == row[4]
    assert int(row[3]) <= 20


def test_what_the_store_has_is_not_trained_again() -> None:
    first = train("--json").answer["runs"]
    ran = train("--seeds", "0", "1", "--json")
    assert first[0] in ran.answer["runs"]
    again = train("--seeds", "0", "1")
    assert again.err.splitlines() == [
        'transformer on index-lookup(n=8, alphabet=8, lengths="varied"): 2 members; 2 in the store already'
    ]


def test_store_names_another_place(tmp_path: Path, place: Path) -> None:
    assert train("--store", str(tmp_path / "mine"), "--json").answer["store"] == str(tmp_path / "mine")
    assert not place.exists()


def test_all_the_rest_reaches_the_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    def watched(job: Job, **options: Any) -> tuple[()]:
        seen.update(options, job=job)
        return ()

    monkeypatch.setattr("separatrix.training.run_job", watched)
    train("--curriculum", "4:8:2", "--device", "cpu", "--seats", "3", "--no-compile", "--deterministic")
    assert seen["job"].training.curriculum == seen["job"].training.curriculum.__class__(
        start=4, steps=8, stages=2
    )
    assert (seen["device"], seen["seats"], seen["compiled"], seen["deterministic"]) == ("cpu", 3, False, True)
    assert (seen["backend"], seen["own_code"]) == ("auto", True)
    train("--halving", "5", "--compile", "--backend", "reference", "--clip", "0", "--stop", "first")
    job = seen["job"]
    assert (job.training.halving.first, job.training.halving.factor) == (5, 2)
    assert (seen["compiled"], seen["backend"], seen["deterministic"]) == (True, "reference", False)
    assert (job.training.clip, job.training.stop) == (0.0, "first")


def test_help_has_every_option_of_task_model_members_and_training() -> None:
    page = " ".join(run(*tiny("--help")).out.replace("│", " ").split())
    for kind in (Training, Member):
        for field in dataclasses.fields(kind):
            if field.metadata["flag"]:
                assert " ".join(field.metadata["help"].split()) in page
    for flag in ("--alphabet INT", "--heads INT", "--lr FLOAT...", "--seeds INT...", "--stop CHOICE"):
        assert flag in page
    general = run("train", "--help").out
    assert "--model" in general
    assert "--heads" not in general


OWN_NET = """
from torch import nn

def make(signature, *, alphabet: int = 3, steps: int = 2, bias: bool = True):
    table = nn.Embedding(signature.inputs.size, alphabet)
    return nn.Sequential(table, nn.Linear(alphabet, signature.out, bias=bias))
"""


def test_a_module_of_ones_own_is_trained_and_gives_way_to_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module has an `alphabet` as the task has, and `steps` as the training has."""
    (tmp_path / "own_trained_net.py").write_text(OWN_NET)
    monkeypatch.syspath_prepend(tmp_path)
    argv = ("train", "index-lookup", "--n", "8", "--model", "own_trained_net:make", "--alphabet", "9")
    short = [word for pair in SHORT.items() for word in pair]
    ran = run(*argv, *short, "--model-alphabet", "5", "--model-steps", "4", "--no-bias", "--json")
    assert ran.code == 0, ran.err
    config = ran.answer["runs"][0]["config"]
    assert config["task"]["params"]["alphabet"] == 9
    assert config["training"]["steps"] == 20
    assert config["model"] == {
        "name": "own_trained_net:make",
        "params": {"alphabet": 5, "steps": 4, "bias": False},
        "code": hashlib.sha256(OWN_NET.encode()).hexdigest(),
    }


OWN_MIXER = """
from separatrix.accounting import recurrent_state
from separatrix.models.laws import constant
from separatrix.models.members import taken
from separatrix.models.own import mixer
from separatrix.models.stack import Mixer, StackConfig
from separatrix.options import option
from dataclasses import dataclass

class Summing(Mixer):
    @dataclass(frozen=True, kw_only=True)
    class Config(StackConfig):
        start: float = option(1.0, help="what the gain begins with")

    def __init__(self, members, config):
        super().__init__(members)
        self.width = config.width
        self.gain = self.parameter("gain", (config.width,), constant(config.start))

    def start(self, batch, like):
        return like.new_zeros(self.members, batch, self.width)

    def step(self, x, state):
        state = state + self.gain.unsqueeze(1) * x
        return state, state

    def forward(self, x, at=None):
        return taken((self.gain[:, None, None] * x).cumsum(2), at)

    def state_parts(self, precision):
        return (recurrent_state(numbers=self.width, precision_bits=precision),)

@mixer("summing", title="Running sum", source="this test")
class Decorated(Summing):
    Config = Summing.Config
"""


def test_a_mixer_of_ones_own_is_trained_by_where_it_stands(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a name that any other process finds, too: the store and a plan can be read without an import."""
    (tmp_path / "own_mixers.py").write_text(OWN_MIXER)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(MODELS, "_entries", dict(MODELS._entries))
    short = [word for pair in SHORT.items() for word in pair]
    argv = ("train", "index-lookup", "--n", "8", "--model", "own_mixers:Decorated", "--width", "16")
    ran = run(*argv, *short, "--start", "0.5", "--json")
    assert ran.code == 0, ran.err
    (entry,) = ran.answer["runs"]
    model = entry["config"]["model"]
    assert model["name"] == "own_mixers:Decorated"
    assert model["code"] == hashlib.sha256(OWN_MIXER.encode()).hexdigest()
    assert (model["params"]["width"], model["params"]["start"]) == (16, 0.5)
    again = load_run(Store(place), entry["key"], own_code=True)
    assert again.correct == entry["correct"]
    assert run(*argv, *short, "--start", "0.5").err.endswith("1 member; 1 in the store already\n")
    size = run("size", "own_mixers:Decorated", "--n", "8", "--width", "16", "--json").answer
    assert size["state_bits"] == 16 * 32
    assert refused(*argv[:5], "own_mixers:Summing") == (
        "own_mixers:Summing is a mixer, and the decorator @mixer makes a model around one; put it before the "
        "class."
    )


@pytest.mark.slow
def test_the_plan_is_a_price_and_leaves_nothing(place: Path) -> None:
    ran = train("--plan", "--seeds", "0", "1", "2", "--seats", "2")
    rows = [re.split(r"\s{2,}", line.strip()) for line in ran.out.splitlines()]
    named = {row[0]: row[1] for row in rows if len(row) == 2}
    assert named["members"] == "3"
    assert named["populations in turn"] == "2"
    assert named["examples of a member"] == "160"
    assert named["time"].startswith("at most about ")
    assert "member-steps/s (cpu" in named["rate, measured here"]
    assert max(map(cell_len, ran.out.splitlines())) <= 80
    answer = train("--plan", "--seeds", "0", "1", "--json").answer
    assert answer["cost"]["members"] == 2
    assert answer["cost"]["seconds"] > 0
    assert not place.exists()
    train()
    assert train("--plan", "--seeds", "0", "1", "--json").answer["cost"]["in_store"] == 1


def test_a_saved_plan_is_the_job(tmp_path: Path, place: Path) -> None:
    path = tmp_path / "plan.json"
    assert train("--seeds", "0", "1", "--save-plan", str(path)) == Ran(
        0, f"{path}\n", "Wrote a plan of 2 members.\n"
    )
    plan = read_plan(path)
    assert not place.exists()
    answer = train("--seeds", "0", "1", "--json").answer
    configs = [plan.jobs[0].config_of(member) for member in plan.jobs[0].members]
    assert sorted(map(json.dumps, configs)) == sorted(json.dumps(entry["config"]) for entry in answer["runs"])
    again = train("--seeds", "0", "1", "--save-plan", str(path), "--json").answer
    assert Plan.from_json(again["plan"]) == plan
    nowhere = str(tmp_path / "no" / "plan.json")
    assert "cannot be written: there is no folder" in refused(*tiny("--save-plan", nowhere))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "train needs the name of a task; `separatrix tasks` lists them."),
        ("dick --n 8 --model lstm", "There is no task 'dick'. Did you mean dyck?"),
        ("index-lookup --n 8", "train needs --model, the name of a model; `separatrix models` lists them."),
        ("index-lookup --n 8 --model", "--model needs a value; none was given."),
        ("index-lookup --n 8 --model --json", "--model needs a value; none was given."),
        ("--n 8 index-lookup --model lstm", "Name the task right after train; got '--n' there."),
        ("index-lookup --model lstm", "train needs --n (most symbols before the index); none was given."),
        ("index-lookup --n 8 --model transfomer", "There is no model 'transfomer'. Did you mean transformer"),
        ("index-lookup --n 8 --model a:b:c", "There is no model 'a:b:c'."),
        (
            "index-lookup --n 8 --model transformer --width 30",
            "Transformer shares its width evenly among its heads; got width=30 and heads=4. Try width=28.",
        ),
        (
            "index-lookup --n 8 --model graph-transformer",
            "graph-transformer reads an adjacency matrix, n rows of n zeros and ones; this task's inputs are",
        ),
        (
            "index-lookup --n 8 --model lstm --lr 0",
            "A learning rate is a finite number above 0; got lr=0.0. Try 1e-3.",
        ),
        ("index-lookup --n 8 --model lstm --lr nan", "A learning rate is a finite number above 0; got lr=na"),
        ("index-lookup --n 8 --model lstm --lr 1 x", "--lr needs a number; got 'x'."),
        ("index-lookup --n 8 --model lstm --lr", "--lr needs a value; none was given."),
        ("index-lookup --n 8 --model lstm --seeds 1 1.5", "--seeds needs a whole number; got '1.5'."),
        (
            "index-lookup --n 8 --model lstm --seeds -1",
            "A member's seed lies between 0 and 2^62 − 1; got seed=-1.",
        ),
        (
            "index-lookup --n 8 --model lstm --seeds 1 1",
            "The members of a job differ; there are two with lr 0.001,",
        ),
        (
            "index-lookup --n 8 --model lstm --schedule up",
            "--schedule is one of constant, cosine, wsd; got 'up'.",
        ),
        (
            "index-lookup --n 8 --model lstm --steps 0",
            "Training needs steps from 1 to 2^40 − 1; got steps=0.",
        ),
        (
            "index-lookup --n 8 --model lstm --batch 9999999999999",
            "Training needs batch from 1 to 2^40 − 1; got batch=9999999999999.",
        ),
        (
            "index-lookup --n 20000 --model lstm --batch 100000000",
            "A step of 1 member on 100,000,000 examples of 20,001 positions needs at least ",
        ),
        (
            "index-lookup --n 20000 --model lstm --batch 100000000 --plan",
            "B; try a smaller model, batch or n.",
        ),
        (
            "index-lookup --n 8 --model lstm --steps 90 --curriculum 4:90",
            "and training goes on from there; got 90 steps of it and 90 in all. Give training more.",
        ),
        (
            "index-lookup --n 8 --model lstm --steps 90 --halving 90",
            "so its first rung comes before their last step; got first=90 of 90 steps.",
        ),
        (
            "index-lookup --n 8 --model lstm --precision int8",
            "--precision is one of float32, bfloat16, float64;",
        ),
        ("index-lookup --n 8 --model lstm --seats 0", "A population has at least one seat; got seats=0."),
        ("index-lookup --n 8 --model lstm --device tpu", "A device is auto, cpu, cuda or cuda:1; got 'tpu'."),
        (
            "index-lookup --n 8 --model lstm --curriculum 4",
            "--curriculum is START:STEPS or START:STEPS:STAGES in whole numbers, such as 10:5000; got '4'.",
        ),
        (
            "index-lookup --n 8 --model lstm --curriculum 0:9",
            "A curriculum starts at n from 1 to 2^40 − 1; got start=0.",
        ),
        (
            "index-lookup --n 8 --model lstm --halving x",
            "--halving is FIRST or FIRST:FACTOR in whole numbers,",
        ),
        (
            "index-lookup --n 8 --model lstm --halving 5:1",
            "Halving keeps one in 2 to 2^40 − 1; got factor=1.",
        ),
        ("index-lookup --n 8 --model lstm --halving 5 --curriculum 4:9", "choose one of them."),
        ("index-lookup --n 8 --model lstm --heads 2", "There is no option '--heads'."),
        (
            "index-lookup --n 8 --model lstm --backend cuda",
            "--backend is one of auto, reference, parallel, tri",
        ),
        (
            "dyck --n 8 --model lstm --width 8 --steps 10 --device cpu --backend triton",
            "backend=triton ",  # computes on a CUDA device, or is not installed
        ),
        (
            "dyck --n 8 --model mamba --width 8 --steps 10 --backend fla",
            "This mixer is computed by reference, parallel, triton; got backend=fla.",
        ),
        (
            "dyck --n 8 --model transformer --width 8 --steps 10 --backend reference",
            "This model's mixers are computed in one way only; got backend=reference. Leave it out.",
        ),
        (
            "dyck --n 2 --model lstm --width 1000000 --steps 10",
            "This does not fit in memory; give a smaller model, fewer --seats, or a smaller --batch or --n.",
        ),
        (
            "index-lookup --n 8 --model nowhere_at_all:net",
            "There is no module nowhere_at_all to import net from",
        ),
    ],
)
def test_wrong_use_is_one_sentence_and_writes_nothing(line: str, words: str, place: Path) -> None:
    assert words in refused("train", *line.split())
    assert not place.exists()


def test_what_is_refused_is_neither_announced_nor_begun_in_a_store_that_is_there(place: Path) -> None:
    train()
    assert "got backend=fla" in refused(
        "train", "dyck", "--n", "8", "--model", "mamba", "--width", "8", "--backend", "fla"
    )
    assert [stored.task for stored in Store(place).runs()] == ["index-lookup"]


def test_a_store_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert refused(*tiny("--store", str(tmp_path / "file"))) == (
        f"'{tmp_path}/file' is a file; a store is a folder, so name another place."
    )
    assert (tmp_path / "file").read_text() == "mine"
    for empty in ("", " "):
        assert refused(*tiny("--store", empty)) == f"--store needs a path; got '{empty}'."
    assert refused(*tiny("--store=")) == "--store needs a path; got ''."
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
    ],
)
@pytest.mark.parametrize(
    ("where", "flags"), [("training.run_job", ()), ("training.costs.cost_of", ("--plan",))]
)
def test_too_little_memory_is_a_sentence(
    error: Exception, where: str, flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(f"separatrix.{where}", fail)
    assert refused(*tiny(*flags)) == (
        "This does not fit in memory; give a smaller model, fewer --seats, or a smaller --batch or --n."
    )


def test_no_option_of_the_command_hides_one_of_a_task() -> None:
    """Flags of tasks win, so a task with such a name would lose the command's option."""
    from separatrix.cli.training import train as command
    from separatrix.tasks import TASKS

    own = {*inspect.signature(command).parameters, "lr", "seeds", "weight_decay", "schedule", "warmup"}
    own |= {field.name for field in dataclasses.fields(Training)}
    for name, kind in TASKS.items():
        assert not own & {field.name for field in dataclasses.fields(kind)}, name


@pytest.mark.slow
def test_a_terminal_sees_a_table_that_goes_away(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "separatrix", *tiny("--lr", "1e-3", "1e-2")]
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=follower, env=environment) as running:
        os.close(follower)
        seen = b""
        while True:
            try:
                part = os.read(leader, 1 << 16)
            except OSError:  # how a pseudo-terminal says that nobody writes any more
                break
            if not part:
                break
            seen += part
        assert running.stdout is not None
        out = running.stdout.read().decode()
        assert running.wait(timeout=60) == 0
    os.close(leader)
    text = seen.decode()
    assert " on index-lookup(n=8, alphabet=8" in text
    assert "accuracy" in text
    assert "\x1b[3" not in text, "NO_COLOR is honoured"
    assert text.rstrip("\r\n").endswith("\x1b[2K"), "the table is cleared at the end"
    assert len(out.splitlines()) == 3
