"""Training against worst inputs: what is found, what is drawn of it, and what members learn from it."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from separatrix.certificates import certify
from separatrix.certificates.questions import questions_of
from separatrix.errors import InvalidFile, InvalidInput
from separatrix.models import model
from separatrix.models.population import Population, signature_of
from separatrix.models.transformer import Transformer
from separatrix.store import Store, key_of
from separatrix.tasks import Task, task
from separatrix.tasks.interface import Batch, Classes, Tokens
from separatrix.training import Against, Curriculum, Halving, Job, Member, Plan, Training, run_job, train
from separatrix.training.__main__ import read_plan
from separatrix.training.against import Attack
from separatrix.training.cases import cases_at
from separatrix.training.costs import cost_of, rows_of
from separatrix.training.course import Course
from separatrix.training.found import Found
from separatrix.training.jobs import job_for
from separatrix.training.placing import Placing
from separatrix.training.sources import Source
from tests.cli.running import refused, run
from tests.training.test_plans import RESTRICTED
from tests.training.test_populations import same
from tests.training.test_resume import contents, facts, interrupted

LOOKUP = task("index-lookup", n=6, alphabet=8, lengths="full")
SMALL = Transformer.Config(width=16, heads=2)
AGAINST = Against(every=4, share=0.25, cases=16, kept=24)
QUICK = Training(
    steps=24, batch=8, eval_every=8, eval_examples=40, test_examples=40, stop="never", against=AGAINST
)
CPU = torch.device("cpu")


@pytest.fixture
def always_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack members that have learned nothing yet, so that a few steps will do."""
    monkeypatch.setattr("separatrix.training.against._READY", 0.0)


def untrained(asked: Task, config: Transformer.Config, *, scale: float = 3.0) -> Population:
    """A model of one layer with large weights, so that its heads look somewhere."""
    population = Transformer(config, signature_of(asked), members=1).initialise([5])
    population.load_state_dict({name: scale * value for name, value in population.state_dict().items()})
    return population


def leads(population: Population, asked: Task, batch: Batch) -> torch.Tensor:
    """By how much each input's only answer leads over the next, by the model itself."""
    assert isinstance(asked.target_space, Classes)
    rows = torch.arange(len(batch.inputs))
    at = batch.mask.int().argmax(1)
    outputs = population(batch.inputs.unsqueeze(0))[0, rows, at].detach().double()
    right = batch.targets[rows, at]
    others = outputs.scatter(1, right.unsqueeze(1), -torch.inf).amax(1)
    lead: torch.Tensor = outputs[rows, right] - others
    return lead


# ---- what is found ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "config"),
    [
        (LOOKUP, SMALL),
        (task("index-lookup", n=12, alphabet=5), SMALL),
        (task("index-lookup", n=12, alphabet=5), replace(SMALL, causal=False)),
        (task("associative-recall", n=4, order="fixed"), SMALL),
        (task("associative-recall", n=8, form="sequence"), SMALL),
        (task("dyck", n=8), SMALL),
    ],
    ids=["index-lookup", "lengths", "looks ahead", "recall", "sequence", "dyck"],
)
def test_what_is_found_is_bad_and_worst_first(asked: Task, config: Transformer.Config) -> None:
    population = untrained(asked, config)
    found = Attack(population, asked, cases=64).found(population.state_dict(), seed=0, step=8)
    for row in found.inputs:
        asked.check(row)
    right = asked.solve(found.inputs)
    assert torch.equal(found.targets, right.targets)
    assert torch.equal(found.mask, right.mask)
    mine = leads(population, asked, found)
    assert torch.allclose(mine, mine.sort().values, atol=1e-4), "the attack knows what the model answers"
    drawn = asked.sample(3000, seed=1)
    random, answers = leads(population, asked, drawn), drawn.labels.answer
    beside = [random[answers == answer].mean() for answer in found.labels.answer]
    assert (mine - torch.stack(beside)).mean() < -0.2, "worse than random inputs with the same answer"
    assert isinstance(asked.input_space, Tokens)
    pad = -1 if asked.input_space.pad is None else asked.input_space.pad
    assert torch.equal(found.lengths, (found.inputs != pad).sum(1))


def test_the_worst_inputs_of_a_tiny_task_are_nearly_the_worst_there_are() -> None:
    """Beside every input of each case, tried one by one."""
    asked = task("index-lookup", n=3, alphabet=3, lengths="full")
    population = untrained(asked, SMALL)
    found = Attack(population, asked, cases=64).found(population.state_dict(), seed=0, step=8)
    rows = torch.cat(list(asked.enumerate()))
    rows = rows[rows[:, -1] < 6]  # of full length: 6 is the padding
    labels = asked.solve(rows)
    lengths = torch.full((len(rows),), 4)
    all_leads = leads(
        population, asked, Batch(inputs=rows, targets=labels.targets, mask=labels.mask, lengths=lengths)
    )
    least: dict[tuple[int, int], float] = {}
    for row, lead in zip(rows.tolist(), all_leads.tolist(), strict=True):
        case = row[-1], row[row[-1] - 3]
        least[case] = min(lead, least.get(case, torch.inf))
    assert len(least) == 9
    mine = leads(population, asked, found)
    of_found = {
        (row[-1], row[row[-1] - 3]): lead
        for row, lead in zip(found.inputs.tolist(), mine.tolist(), strict=True)
    }
    assert len(of_found) == 5, "the worse half of the cases, each once"
    for case, lead in of_found.items():
        assert lead == pytest.approx(least[case], abs=0.05)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("match2", {"n": 6}),
        ("q-sparse-averaging", {"n": 4, "q": 2, "d": 1, "grid": 1}),
        ("dyck", {"n": 8, "form": "next"}),
    ],
)
def test_tasks_with_many_answers_are_attacked_too(name: str, params: dict[str, Any]) -> None:
    asked = task(name, **params)
    population = untrained(asked, replace(SMALL, causal=name == "dyck"))
    found = Attack(population, asked, cases=40).found(population.state_dict(), seed=0, step=8)
    for row in found.inputs:
        asked.check(row)
    assert torch.equal(found.targets, asked.solve(found.inputs).targets)


@pytest.mark.slow
def test_cases_follow_from_the_step() -> None:
    asked = task("index-lookup", n=40, lengths="full")
    first, again, other = (
        cases_at(step, asked, questions_of(asked), 64, device=CPU) for step in (500, 500, 1000)
    )
    assert torch.equal(first.asked, again.asked)
    assert torch.equal(first.allowed, again.allowed)
    assert not torch.equal(first.own, other.own)
    assert first.allowed.shape[:2] == (32, 2)
    few = cases_at(1, LOOKUP, questions_of(LOOKUP), 1000, device=CPU)
    assert few.allowed.shape[:2] == (6, 8), "all there are"


def test_who_has_not_learned_the_task_is_left_alone() -> None:
    population = untrained(LOOKUP, SMALL)
    weights = population.state_dict()
    attack = Attack(population, LOOKUP, cases=16)
    assert attack.worst(weights, seed=0, step=4) is None
    assert attack.worst({**weights, "norm.bias": weights["norm.bias"] / 0}, seed=0, step=4) is None


# ---- what is drawn of it ---------------------------------------------------------------------------


def test_the_share_of_a_batch_comes_from_what_was_found() -> None:
    found = Found.nothing(LOOKUP, members=3, kept=10, share=0.25, device=CPU)
    source, seeds, steps = Source(task=LOOKUP, found=found), torch.tensor([3, 4, 3]), torch.tensor([2, 2, 2])
    plain = Source(task=LOOKUP).draw(seeds, steps, batch=16)
    before = source.draw(seeds, steps, batch=16)
    assert torch.equal(before.inputs, plain.inputs), "nothing was found yet"
    kept = [LOOKUP.sample(count, seed=100 + count) for count in (7, 13)]
    found.put(0, kept[0])
    found.put(2, kept[1])  # more than there is room for
    drawn = source.draw(seeds, steps, batch=16)
    for member in range(3):
        mine = slice(16 * member, 16 * member + 16)
        own, task_own = drawn.inputs[mine], plain.inputs[mine]
        assert torch.equal(own[4:], task_own[4:])
        if member == 1:
            assert torch.equal(own, task_own)
            continue
        held = kept[0 if member == 0 else 1].inputs[:10]
        assert all(bool((held == row).all(1).any()) for row in own[:4])
    assert torch.equal(LOOKUP.solve(drawn.inputs).targets, drawn.targets)
    assert torch.equal(LOOKUP.solve(drawn.inputs).mask, drawn.mask)
    assert torch.equal(drawn.lengths, torch.full((48,), 7))
    later = [source.draw(seeds, steps + more, batch=16).inputs[:4] for more in range(40)]
    seen = {tuple(row) for rows in later for row in rows.tolist()}
    assert seen == {tuple(row) for row in kept[0].inputs.tolist()}, "all of it comes, sooner or later"
    found.clear(0)
    assert torch.equal(source.draw(seeds, steps, batch=16).inputs[:16], plain.inputs[:16])


def test_the_newest_stay() -> None:
    found = Found.nothing(LOOKUP, members=1, kept=6, share=0.5, device=CPU)
    first, second = LOOKUP.sample(4, seed=0), LOOKUP.sample(4, seed=1)
    found.put(0, first)
    found.put(0, second)
    expected = torch.cat([second.inputs[2:], first.inputs[2:], second.inputs[:2]])
    assert torch.equal(found.inputs[0], expected)


@pytest.mark.slow
def test_a_course_attacks_at_its_steps_and_draws_what_it_finds(always_ready: None) -> None:
    job = job_for(LOOKUP, SMALL, members=[Member(seed=1), Member(seed=2)], training=QUICK)
    course = Course(job, Placing(device=CPU, seats=2))
    assert course.found is not None
    counts, steps = [], []
    while not course.done:
        course.advance()
        counts.append(course.found.count.tolist())
        steps.append(course.taken)
    assert steps == [4, 8, 12, 16, 20, 24]
    # Six questions with three answers each, and the worse half of them.
    assert counts[:5] == [[9, 9], [18, 18], [27, 27], [36, 36], [45, 45]]
    assert [point.step for point in course.outcomes[0].points] == [8, 16, 24], "attacks are no looks"


# ---- members, resuming and keys --------------------------------------------------------------------


@pytest.mark.slow
def test_a_member_is_the_same_alone_and_among_others(always_ready: None) -> None:
    mine, others = Member(lr=3e-3, seed=5), [Member(lr=1e30, seed=1), Member(seed=7), Member(lr=3e-3, seed=5)]
    (alone,) = train(LOOKUP, SMALL, members=[mine], training=QUICK, device="cpu")
    among = train(LOOKUP, SMALL, members=others, training=QUICK, device="cpu")
    queued = train(LOOKUP, SMALL, members=others, training=QUICK, device="cpu", seats=2)
    (plain,) = train(LOOKUP, SMALL, members=[mine], training=replace(QUICK, against=None), device="cpu")
    assert same(alone, among[2])
    assert same(alone, queued[2])
    assert not same(alone, plain)


@pytest.mark.slow
def test_cut_off_it_goes_on_with_the_same_bytes(always_ready: None, tmp_path: Path) -> None:
    members = [Member(lr=3e-3, seed=seed) for seed in range(3)]
    # Attacks between looks, so that a checkpoint lies between an attack and the next.
    job = job_for(LOOKUP, SMALL, members=members, training=replace(QUICK, against=replace(AGAINST, every=6)))
    run_job(job, store=Store(tmp_path / "whole"), device="cpu", seats=2)
    for looks in (1, 3):
        interrupted(job, tmp_path / "cut", looks=looks, device="cpu", seats=2)
    run_job(job, store=Store(tmp_path / "cut"), device="cpu", seats=2)
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    assert facts(tmp_path / "cut") == facts(tmp_path / "whole")


def test_trainings_without_it_keep_their_keys() -> None:
    plain = job_for(LOOKUP, SMALL, members=[Member()], training=replace(QUICK, against=None))
    assert "against" not in plain.training.to_fields()
    assert key_of(plain.config_of(Member())) == (
        "5197bdf65316d2e9ac8216fac0be8da5498282ae24b333a0ee670de18f19be0a"
    )
    for against in (AGAINST, replace(AGAINST, share=0.5), replace(AGAINST, every=5)):
        job = replace(plain, training=replace(QUICK, against=against))
        assert key_of(job.config_of(Member())) != key_of(plain.config_of(Member()))
        assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job
    assert Job.from_json(plain.to_json()) == plain
    broken = job.to_json()
    broken["training"]["against"]["share"] = 1.5  # type: ignore[index]
    with pytest.raises(InvalidFile, match=r"lies between 0 and 1; got share=1\.5"):
        Job.from_json(broken)


# ---- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"against": 500}, "against"),
        ({"stop": "each"}, "when random ones are all right; got stop=each. Try stop=never."),
        ({"curriculum": Curriculum(start=2, steps=8)}, "choose one of them."),
        ({"steps": 4}, "before its last step; got every=4 of 4 steps."),
        ({"batch": 1}, "at least two examples; got batch=1."),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        replace(QUICK, **settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"every": 0}, "every 1 to 2^40 − 1 steps; got every=0."),
        ({"every": 5, "share": 0.0}, "lies between 0 and 1; got share=0.0. Try 0.25."),
        ({"every": 5, "share": 1}, "lies between 0 and 1; got share=1."),
        ({"every": 5, "cases": 0}, "cases from 1 to 2^20; got cases=0."),
        ({"every": 5, "kept": 1 << 21}, "kept from 1 to 2^20; got kept=2097152."),
    ],
)
def test_numbers_are_checked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Against(**settings)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("asked", "name", "params", "words"),
    [
        (LOOKUP, "transformer", {"layers": 2}, "got transformer with 2 layers. Leave against out"),
        (LOOKUP, "lstm", {"width": 8}, "one layer of softmax attention; got lstm. Leave against out"),
        (task("equality", n=8), "transformer", {}, "on which whole models are certified: Whole models are"),
    ],
)
def test_other_models_and_tasks_are_refused(
    asked: Task, name: str, params: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        train(asked, model(name, **params), members=[Member()], training=QUICK, device="cpu")
    assert words in str(refusal.value)


# ---- plans, and what comes of it -------------------------------------------------------------------


@pytest.mark.slow
def test_the_price_names_the_attacks() -> None:
    job = job_for(LOOKUP, SMALL, members=[Member()], training=QUICK)
    cost = cost_of(job, device="cpu")
    assert ("attacks on a member", "5; what they find is 0.25 of each batch behind them") in rows_of(cost)
    assert cost.timing is not None
    assert cost.timing.attacks > 0
    plain = cost_of(replace(job, training=replace(QUICK, against=None)), device="cpu")
    assert plain.attacks == 0
    assert "attacks on a member" not in dict(rows_of(plain))


@pytest.mark.slow
def test_a_plan_with_it_needs_little_more_than_torch(tmp_path: Path) -> None:
    job = job_for(LOOKUP, SMALL, members=[Member()], training=QUICK)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(Plan(jobs=(job,)).to_json()))
    command = [sys.executable, "-c", RESTRICTED, str(path), "--device", "cpu", "--store", str(tmp_path / "s")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    (line,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert line["config"]["training"]["against"] == AGAINST.to_fields()


def command(*argv: str) -> tuple[str, ...]:
    words = "train index-lookup --n 6 --alphabet 8 --lengths full --model transformer --width 16 --heads 2"
    stop = () if "--stop" in argv else ("--stop", "never")
    return *words.split(), "--steps", "24", "--batch", "8", *stop, *argv


@pytest.mark.slow
def test_the_command_line_says_it_in_few_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text, share in (("4", 0.25), ("4:0.5", 0.5), ("4:.125", 0.125)):
        assert run(*command("--against", text, "--save-plan", "plan.json")).code == 0
        (job,) = read_plan(tmp_path / "plan.json").jobs
        assert job.training.against == Against(every=4, share=share)
    ran = run(*command("--against", "4:0.5", "--plan"))
    assert ran.code == 0
    assert "attacks on a member" in ran.out
    assert "5; what they find is 0.5 of each batch behind them" in ran.out
    assert run(*command("--against", "4", "--plan", "--json")).answer["cost"]["attacks"] == 5


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("--against x", "--against is EVERY or EVERY:SHARE, a number of steps and a share between 0 and 1, "),
        ("--against 4:0.5:3", "such as 500:0.25; got '4:0.5:3'."),
        ("--against 4:-1", "such as 500:0.25; got '4:-1'."),
        ("--against 4:25", "lies between 0 and 1; got share=25.0. Try 0.25."),
        ("--against 4 --stop each", "got stop=each. Try stop=never."),
        ("--against 4 --layers 2", "got transformer with 2 layers. Leave against out"),
    ],
)
def test_wrong_words_are_refused(
    words: str, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert answer in refused(*command(*words.split()))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_it_goes_together_with_halving(always_ready: None) -> None:
    training = replace(QUICK, halving=Halving(first=6))
    found = train(LOOKUP, SMALL, members=[Member(seed=seed) for seed in range(4)], training=training, seats=2)
    assert {one.status for one in found} == {"done", "dropped"}


@pytest.mark.slow
def test_against_its_worst_inputs_a_model_is_proved_with_more_to_spare() -> None:
    """After as many steps: every case is proved, and the least proved margin is larger, for every seed.

    In float64, since in float32 the last bits, which processors round differently, decide how a seed ends.
    """
    training = Training(
        steps=200,
        batch=32,
        precision="float64",
        eval_every=200,
        eval_examples=100,
        test_examples=200,
        stop="never",
    )
    members = [Member(lr=0.01, seed=seed) for seed in range(8)]
    margins = []
    for against in (None, Against(every=20, share=0.5)):
        found = train(LOOKUP, SMALL, members=members, training=replace(training, against=against))
        coverages = [certify(one.population, LOOKUP) for one in found]
        assert all(case.verdict == "proved" for each in coverages for case in each.cases)
        margins.append([min(case.margin for case in each.cases) for each in coverages])
    gained = [more - less for less, more in zip(*margins, strict=True)]
    assert min(gained) > 0
    assert statistics.mean(gained) > 0.3
