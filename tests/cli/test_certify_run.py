"""`separatrix certify` on trained runs: verdicts, what is kept of them, and the attention that is drawn."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from rich.cells import cell_len
from torch import Tensor

import separatrix
from separatrix.certificates import certify
from separatrix.cli import settling as settling_module
from separatrix.cli.looking import Looking, drawn, looking
from separatrix.cli.settling import Settled, settling
from separatrix.cli.subjects import WitnessSubject
from separatrix.evidence import Case, Coverage
from separatrix.models.attention import Attention
from separatrix.models.population import Population
from separatrix.models.stack import Block, Frame
from separatrix.store import Run, Store
from separatrix.training import load_run
from tests.cli.running import refused, run
from tests.cli.trained import RIGHT, TASK, TWO_LAYERS, trained, with_nan

LONG = separatrix.task("index-lookup", n=11, alphabet=2)


class Made(NamedTuple):
    store: Store
    right: Run
    wrong: Run
    long: Run
    of_long: Coverage


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Made:
    store = Store(tmp_path_factory.mktemp("trained") / "runs")
    right, wrong = trained(store, steps=RIGHT), trained(store, steps=1)
    long = trained(store, steps=1, task=LONG)
    return Made(store, right, wrong, long, certify(load_run(store, long.key).population, LONG))


@pytest.fixture
def made(original: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A copy in the usual place."""
    monkeypatch.delenv("SEPARATRIX_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(original.store.path, "runs")
    return original._replace(store=Store("runs"))


def population_of(made: Made, run: Run) -> Population:
    return load_run(made.store, run.key).population


def test_proved(made: Made) -> None:
    ran = run("certify", made.right.short)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert lines[0].startswith("proved  index-lookup(n=3, alphabet=2, ")
    assert [" ".join(line.split()) for line in lines[2:5]] == [
        "right on samples proved broken unknown",
        "100.00 % 100.00 % 0.00 % 0.00 %",
        "10,000 of 10,000 6 0 0",
    ]
    kept = made.store.coverage(made.right.key)
    assert kept is not None
    least = min(case.margin for case in kept.cases)
    assert f"least proven margin: {least:.4g}, for @" in ran.out
    assert "counterexample" not in ran.out


def test_all_that_is_known_in_json(made: Made) -> None:
    ran = run("certify", made.right.short, "--json")
    assert (ran.code, ran.err) == (0, "")
    kept = made.store.coverage(made.right.key)
    assert kept is not None
    path = f"runs/evidence/{made.right.key}.coverage.json"
    assert ran.answer == json.loads(json.dumps(kept.to_fields())) | {
        "run": made.right.key,
        "model": "transformer-(1,8)",
        "path": made.right.short,
        "evidence": path,
    }
    assert Coverage.from_json(json.loads(Path(path).read_text())) == kept
    known = certify(population_of(made, made.right), TASK)
    assert dataclasses.replace(known, seconds=0) == dataclasses.replace(kept, seconds=0)


@pytest.mark.slow
def test_a_run_has_several_names(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = str(made.store.place("weights", made.wrong.key, "safetensors"))
    alone = Store(tmp_path / "alone")
    only = trained(alone, steps=1)
    names: list[tuple[tuple[str, ...], str]] = [
        ((made.wrong.key,), made.wrong.key),
        ((made.wrong.key[:9],), made.wrong.key),
        ((weights,), made.wrong.key),
        ((weights, "--store", "runs"), made.wrong.key),
        ((str(alone.path),), only.key),
        ((only.short, "--store", "alone"), only.key),
    ]
    for words, key in names:
        answer = run("certify", *words, "--json").answer
        assert (answer["run"], answer["verdict"]) == (key, "refuted")
    monkeypatch.setenv("SEPARATRIX_STORE", "alone")
    assert run("certify", only.short).code == 1


@pytest.mark.slow
def test_refuted_with_where_it_looks(made: Made) -> None:
    ran = run("certify", made.wrong.short, "--json")
    assert (ran.code, ran.answer["verdict"]) == (1, "refuted")
    found = ran.answer["counterexample"]
    row = TASK.parse(found["text"]).unsqueeze(0)
    labels = TASK.solve(row)
    assert labels.targets[labels.mask].tolist() == [found["expected"]]
    answers = population_of(made, made.wrong)(row.unsqueeze(0))[0].argmax(-1)
    assert answers[labels.mask].tolist() == [found["answered"]] != [found["expected"]]
    page = run("certify", made.wrong.short)
    assert (page.code, page.err) == (1, "")
    lines = page.out.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert f"  {found['text']}" in lines
    assert f"  right: s{found['expected']}; answered: s{found['answered']}" in lines
    place = lines.index("where each head looks from position 4, in percent")
    marks, positions, tokens, *heads = lines[place + 1 :]
    assert positions.split() == ["position", "1", "2", "3", "4"]
    assert tokens.split() == ["token", *found["text"].split()]
    wanted = int(found["text"].split("@")[1])
    ends = [positions.index(each) + 1 for each in "1234"]
    assert marks[: ends[wanted - 1]].endswith("answer")
    assert marks[: ends[3]].endswith("asks")
    assert [head.split()[:2] for head in heads] == [["head", "1"], ["head", "2"]]
    for head in heads:
        assert abs(sum(int(word) for word in head.split()[2:] if word.isdigit()) - 100) <= 4


def weights_by_hand(population: Population, row: Tensor, asked: int) -> Tensor:
    """Softmax of queries with keys, from the modules themselves."""
    assert isinstance(population, Frame)
    block = population.blocks[0]
    assert isinstance(block, Block)
    assert isinstance(block.mixer, Attention)
    x = population.reading(row.unsqueeze(0).unsqueeze(0))
    query, key, _ = block.mixer.inward(block.norm(x))[0, 0].chunk(3, dim=-1)
    heads = block.mixer.heads
    part = query.shape[-1] // heads
    rows = []
    for head in range(heads):
        mine = slice(head * part, (head + 1) * part)
        scores = key[: asked + 1, mine] @ query[asked, mine] / math.sqrt(part)
        rows.append(scores.softmax(0))
    return torch.stack(rows)


def test_the_attention_is_the_models_own(made: Made) -> None:
    short = certify(population_of(made, made.wrong), TASK)
    for run_, task, found in ((made.wrong, TASK, short), (made.long, LONG, made.of_long)):
        population = population_of(made, run_)
        look = looking(population, task, found)
        assert look is not None
        case = next(case for case in found.cases if case.verdict == "refuted")
        row = torch.tensor(case.input)
        assert look.asked == case.asked
        assert look.words == tuple(task.render(row).split())
        expected = weights_by_hand(population, row, case.asked)
        torch.testing.assert_close(torch.tensor(look.shares), expected.detach(), rtol=1e-4, atol=1e-5)
        wanted = int(task.render(row).split("@")[1]) - 1
        assert look.fixing == {wanted}
    right = certify(population_of(made, made.right), TASK)
    assert looking(population_of(made, made.right), TASK, right) is None


def test_the_answer_is_found_among_later_questions(made: Made) -> None:
    population, found = population_of(made, made.long), made.of_long
    places = [place for place, case in enumerate(found.cases) if case.verdict == "refuted"]
    assert len(places) > 3
    for place in places:
        look = looking(population, LONG, _only(found, place))
        assert look is not None
        assert look.fixing == {int(look.words[-1].removeprefix("@")) - 1}
        assert look.words[min(look.fixing)] == found.cases[place].target


@pytest.mark.slow
def test_both_places_that_fix_an_answer_are_marked(made: Made) -> None:
    """In a sequence the answer stands behind the first occurrence of what is asked, wherever that is."""
    task = separatrix.task("associative-recall", n=3, form="sequence")
    population = load_run(made.store, trained(made.store, steps=1, task=task).key).population
    found = certify(population, task)
    places = [place for place, case in enumerate(found.cases) if case.verdict == "refuted"]
    seen = set()
    for place in places:
        look = looking(population, task, _only(found, place))
        assert look is not None
        first = look.words.index(look.words[-1])
        assert look.fixing == {first, first + 1}
        seen.add(first)
    assert seen == {0, 1}


def _only(found: Coverage, place: int) -> Coverage:
    """As if one case alone were refuted."""
    cases = tuple(
        dataclasses.replace(case, verdict="proved", margin=1.0, input=None, answered=None)
        if case.verdict == "refuted" and number != place
        else case
        for number, case in enumerate(found.cases)
    )
    return dataclasses.replace(found, cases=cases)


def test_a_long_input_is_cut_to_what_says_most() -> None:
    words = (*(f"s{place % 7}" for place in range(199)), "@50")
    shares = [[0.001] * 200 for _ in range(3)]
    shares[0][120] = 0.801
    shares[1][7] = 0.801
    shares[2][199] = 0.801
    look = Looking(
        words=words, asked=199, fixing=frozenset({49}), shares=tuple(tuple(head) for head in shares)
    )
    lines = [line.plain for line in drawn(look, 80)]
    assert max(map(cell_len, lines)) <= 80
    _, positions, tokens, *heads = lines
    shown = positions.split()
    assert shown[0] == "position"
    assert {"50", "121", "8", "200"} <= set(shown)
    assert shown[-1] == "others"
    numbers = [int(word) for word in shown[1:-1]]
    assert numbers == sorted(numbers)
    assert tokens.split()[1:] == [words[number - 1] for number in numbers]
    for head in heads:
        percents = [int(word) for word in head.split()[2:] if word.isdigit()]
        assert abs(sum(percents) - 100) <= 1
        assert 80 in percents
        assert head[: positions.index(" 121 ") + 4].endswith("▆  80") == (head is heads[0])
    assert len(drawn(look, 40)[1].plain) <= 40


def test_unknown_shows_the_widest_gaps(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsure(*given: Any, **options: Any) -> Coverage:
        found: Coverage = certify(*given, **options)
        cases = [dataclasses.replace(case, verdict="unknown", margin=-1.0, found=2.0) for case in found.cases]
        cases[1] = dataclasses.replace(cases[1], margin=-1e30)
        cases[2] = dataclasses.replace(cases[2], margin=-5.0)
        return dataclasses.replace(found, cases=tuple(cases))

    monkeypatch.setattr("separatrix.certificates.certify", unsure)
    ran = run("certify", made.right.short)
    assert ran.code == 1
    assert ran.out.startswith("unknown  index-lookup")
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    place = lines.index("unknown, the widest gaps")
    assert lines[place + 1] == "question answer proven lead least found gap"
    assert lines[place + 2] == "@1 behind 3 symbols s1 none 2 –"
    assert lines[place + 3] == "@2 behind 3 symbols s0 -5 2 7"
    assert lines[-1] == "… and 1 more (--json has all)"
    assert "least proven margin" not in ran.out


@pytest.mark.slow
def test_another_task_is_the_runs_but_for_what_is_said(made: Made) -> None:
    words = ("certify", made.long.short, "--task", "index-lookup", "--json")
    same = run(*words).answer
    assert same["task"]["params"] == {"n": 11, "alphabet": 2, "lengths": "varied"}
    full = run(*words, "--lengths", "full").answer
    assert full["task"]["params"] == {"n": 11, "alphabet": 2, "lengths": "full"}
    assert len(same["cases"]) == (10 + 11) * 2
    assert len(full["cases"]) == 11 * 2
    kept = made.store.coverage(made.long.key)
    assert kept is not None
    assert len(kept.cases) == 22, "the newer one"


def test_answers_in_words() -> None:
    averaging = separatrix.task("q-sparse-averaging", n=4, q=1, d=2)
    subject = WitnessSubject(Path(), None, averaging)  # type: ignore[arg-type]
    assert subject.words((0.0, -0.12345678)) == "(0, -0.1235)"
    assert subject.words(((1, 0.5), ("nan", 2.0))) == "(1, 0.5) (nan, 2)"
    subject = WitnessSubject(Path(), None, TASK)  # type: ignore[arg-type]
    assert subject.words(1) == "s1"
    assert subject.words((1, 0)) == "s1 s0"
    assert subject.words((1, 2)) == "", "a class that is no answer"


@pytest.mark.slow
def test_seeds_draw_other_samples(made: Made) -> None:
    answers = [run("certify", made.wrong.short, "--seed", seed, "--json").answer for seed in "011"]
    rights = [answer["sampled_right"] for answer in answers]
    assert rights[0] != rights[1] == rights[2]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("certify abc0", "There is no run 'abc0' in 'runs'; `separatrix runs list` lists them."),
        ("certify no/where", "There is no file or folder 'no/where', and a run's key has the characters"),
        ("certify runs", "'runs' is a store with 3 runs: "),
        ("certify RIGHT --store other", "There is no store in 'other'"),
        (
            "certify WEIGHTS --store other",
            "is in the store 'runs', and --store names 'other'; leave one out.",
        ),
        ("certify RIGHT --task index-lokup", "There is no task 'index-lokup'. Did you mean index-lookup?"),
        ("certify RIGHT --task dyck", "dyck needs a value for n; none was given."),
        (
            "certify RIGHT --task index-lookup --n 4",
            "made for 4 positions with 6 tokens and 2 classes; index-lookup",
        ),
        ("certify RIGHT --task index-lookup --n 2.5", "--n needs a whole number; got '2.5'."),
        ("certify RIGHT --task", "--task needs a value; none was given."),
        ("certify RIGHT --device abacus", "A device is auto, cpu, cuda or cuda:1; got 'abacus'."),
        ("certify RIGHT --seed -1", "A seed is a whole number from 0 to 2^64 − 1; got -1."),
        ("certify RIGHT --sed 1", "There is no option '--sed'. Did you mean --seed"),
    ],
)
def test_wrong_use_is_one_sentence(made: Made, line: str, words: str) -> None:
    weights = str(made.store.place("weights", made.right.key, "safetensors"))
    named = line.replace("RIGHT", made.right.short).replace("WEIGHTS", weights)
    assert words in refused(*named.split())
    assert not (made.store.path / "evidence").exists()


def test_a_seed_that_is_none_is_refused_before_the_work(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    monkeypatch.setattr(
        "separatrix.certificates.certify", lambda *_, **options: begun.append(options["seed"])
    )
    assert refused("certify", made.right.short, "--seed", "-1").startswith("A seed is a whole number")
    assert not begun


def test_a_key_with_a_slip_is_recognised(made: Made) -> None:
    key = made.right.key[:12]
    slip = key[:11] + ("0" if key[11] != "0" else "1")
    assert f"Did you mean {key}?" in refused("certify", slip)


def test_runs_that_cannot_be_certified(made: Made, tmp_path: Path) -> None:
    store = Store(tmp_path / "others")
    deep = trained(store, steps=1, model=TWO_LAYERS)
    said = refused("certify", deep.short, "--store", "others")
    assert "got 2 layers" in said
    assert "`separatrix break`" in said
    near = trained(store, steps=1, task=separatrix.task("nearest-neighbour", n=3))
    said = refused("certify", near.short, "--store", "others")
    assert "no finite alphabet" in said
    assert "separatrix break" in said
    with_nan(made.store, made.right)
    assert "Weights are finite numbers; '" in refused("certify", made.right.short)


def test_what_has_not_finished_or_has_no_weights_is_refused(made: Made) -> None:
    made.store.reopen(made.wrong.key)
    assert refused("certify", made.wrong.short) == (
        f"The run {made.wrong.short} has not finished; train it to its end first."
    )
    made.store.place("weights", made.right.key, "safetensors").unlink()
    assert refused("certify", made.right.short).endswith(".safetensors' are missing.")
    empty = Store("empty")
    assert refused("certify", str(empty.path)) == "'empty' is a store with no run."


def test_what_cannot_be_kept_is_still_said(made: Made) -> None:
    (made.store.path / "evidence").write_text("in the way")
    ran = run("certify", made.right.short, "--json")
    assert (ran.code, ran.answer["verdict"], ran.answer["evidence"]) == (0, "proved", None)
    assert ran.err.startswith("The result is not kept: The folder 'runs/evidence' cannot be made")


@pytest.mark.slow
def test_runs_show_and_export_mention_it(made: Made) -> None:
    assert "certified" not in run("runs", "show", made.wrong.short).out
    run("certify", made.wrong.short)
    found = made.store.coverage(made.wrong.key)
    assert found is not None
    shown = " ".join(run("runs", "show", made.wrong.short).out.split())
    counts = f"{found.proved} proved, {found.refuted} broken, 0 unknown"
    assert f"certified 6 cases: {counts} curve" in shown
    assert run("runs", "show", made.wrong.short, "--json").answer["evidence"]["certified.cases"] == 6
    assert "certified.proved" in run("runs", "export").out.splitlines()[0]
    run("certify", made.long.short, "--task", "index-lookup", "--lengths", "full")
    shown = " ".join(run("runs", "show", made.long.short).out.split())
    assert "certified 22 cases: " in shown
    assert 'unknown; on index-lookup(alphabet=2, lengths="full", n=11)' in shown
    made.store.place("evidence", made.wrong.key, "coverage.json").write_text("{")
    damaged = run("runs", "show", made.wrong.short)
    assert damaged.code == 0
    assert "is not JSON" in " ".join(damaged.out.split())
    assert "is not JSON" in refused("runs", "export")


CASE = Case(query="@1", target="s0", verdict="proved", margin=1.0, asked=1)


def test_how_far_it_is() -> None:
    now = [0.0]
    settled = Settled(10, clock=lambda: now[0])
    assert settled.line() == "0 of 10 cases: 0 proved, 0 broken, 0 unknown"
    now[0] = 4.0
    for verdict in ("proved", "refuted"):
        settled.add(dataclasses.replace(CASE, verdict=verdict, input=(1,) if verdict == "refuted" else None))
    assert settled.line() == "2 of 10 cases: 1 proved, 1 broken, 0 unknown; about 16 s left"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_who_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody when it is quiet, a line now and then in a file, a bar on a terminal that is cleared away."""
    with settling(2, quiet=True) as tell:
        assert tell is None
    with settling(2) as tell:
        assert tell is not None
        tell(CASE)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(settling_module, "_BETWEEN_LINES", 0.0)
    with settling(2) as tell:
        assert tell is not None
        tell(CASE)
    assert capsys.readouterr().err.startswith("1 of 2 cases: 1 proved, 0 broken, 0 unknown; about ")
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with settling(2) as tell:
        assert tell is not None
        tell(CASE)
    shown = stream.getvalue()
    assert "1 of 2 cases" in shown
    assert "━" in shown
    assert shown.endswith("\x1b[2K"), "cleared away"


def test_help_needs_no_torch() -> None:
    lines = [["--help"], ["certify", "--help"], ["break", "--help"]]
    script = (
        f"import sys; from separatrix.cli import main; print([main(line) for line in {lines!r}],"
        "{'torch', 'pyarrow', 'numpy'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[0, 0, 0] set()"
    page = run("certify", "x", "--task", "index-lookup", "--help").out
    assert "Parameters of index-lookup" in page
    assert "--lengths" in page
