"""Verdicts: what is proved no input breaks, what is refuted replays, and edited weights lose their proof."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from separatrix.certificates import certify
from separatrix.certificates.one_layer import Effort, certify_one_layer
from separatrix.certificates.one_layer.certifying import Judge, _Asked
from separatrix.certificates.questions import Question, Region, questions_of
from separatrix.evidence import Case, Coverage
from separatrix.models.population import Population
from separatrix.tasks import Task, Vectors, task
from separatrix.tasks.index_lookup import IndexLookup
from tests.certificates.one_layer.drawn import drawn, every, outputs, spelled, weights_of
from tests.certificates.one_layer.planted import looking_up

LOOKUP = IndexLookup(n=4, alphabet=3, lengths="full")
TRAPPED = IndexLookup(n=16, alphabet=4, lengths="full")
QUICK = Effort(rivals=4, starts=2, steps=6, polish=6)


def wrong_inputs(population: Population, asked: Task, question: Question, region: Region) -> Tensor:
    """The inputs of a region that the model gets wrong by either path, after the task's own oracle."""
    options = every(region, question.length)
    rows = spelled(asked, question, region, options)
    right = asked.solve(rows).targets[:, question.asked]
    space = asked.target_space
    wrong = torch.zeros(len(rows), dtype=torch.bool)
    for at in (True, False):
        said = outputs(population, question, rows, at=at)
        if isinstance(space, Vectors):
            wrong |= ~((said - right).double().norm(dim=1) < space.tolerance)
        else:
            wrong |= said.argmax(1) != right
    return rows[wrong]


def check_verdicts(population: Population, asked: Task, found: Coverage) -> None:
    """Every verdict against every input."""
    cells = [(question, region) for question in questions_of(asked) for region in question.regions]
    assert len(cells) == len(found.cases)
    for case, (question, region) in zip(found.cases, cells, strict=True):
        assert (case.query, case.target) == (question.query, region.target)
        wrong = wrong_inputs(population, asked, question, region)
        if case.verdict == "proved":
            assert len(wrong) == 0
            assert case.margin > 0
        if case.verdict == "refuted":
            check_replays(population, asked, question, case)


def check_replays(population: Population, asked: Task, question: Question, case: Case) -> None:
    """The input is one of the task, and the model says of it what the case says, which is wrong."""
    row = torch.tensor(case.input)
    asked.check(row)
    said = outputs(population, question, row.unsqueeze(0))[0]
    right = asked.solve(row.unsqueeze(0)).targets[0, question.asked]
    if isinstance(asked.target_space, Vectors):
        assert not float((said - right).double().norm()) < asked.target_space.tolerance
    else:
        assert int(said.argmax()) != int(right)
        assert case.answered == int(said.argmax())


def learned(asked: Task, *, steps: int, seed: int = 0, **params: Any) -> Population:
    """Trained on every input at once."""
    population = drawn(asked, seed=seed, scale=1, dtype=torch.float32, width=16, heads=2, ffn=32, **params)
    rows = torch.cat(list(asked.enumerate()))
    labels = asked.solve(rows)
    optimiser = torch.optim.Adam(population.parameters(), lr=0.01)
    for _ in range(steps):
        said = population(rows.unsqueeze(0))[0][labels.mask]
        loss = torch.nn.functional.cross_entropy(said, labels.targets[labels.mask])
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    return population


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes", "params", "steps"),
    [
        ("index-lookup", {"n": 3, "alphabet": 3, "lengths": "full"}, {}, 80),
        ("index-lookup", {"n": 3, "alphabet": 3, "lengths": "full"}, {}, 15),
        ("match2", {"n": 3, "modulus": 3}, {"causal": False}, 120),
        ("dyck", {"n": 4, "types": 1, "depth": 2}, {}, 80),
    ],
)
def test_verdicts_of_trained_models(
    name: str, sizes: dict[str, Any], params: dict[str, Any], steps: int
) -> None:
    asked = task(name, **sizes)
    population = learned(asked, steps=steps, **params)
    found = certify_one_layer(population, asked, samples=100, effort=QUICK)
    check_verdicts(population, asked, found)
    assert found.proved + found.refuted > len(found.cases) / 2
    assert found.sampled == 100


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["transformer", "llama"])
@pytest.mark.parametrize(
    ("name", "sizes", "causal"),
    [
        ("index-lookup", {"n": 3, "alphabet": 3, "lengths": "full"}, True),
        ("associative-recall", {"n": 2, "keys": 2, "values": 2, "order": "fixed"}, True),
        ("q-sparse-averaging", {"n": 2, "q": 1}, False),
        ("dyck", {"n": 4, "types": 1, "depth": 2, "form": "next"}, True),
    ],
)
def test_verdicts_of_untrained_models(kind: str, name: str, sizes: dict[str, Any], causal: bool) -> None:
    asked = task(name, **sizes)
    population = drawn(asked, kind, seed=2, scale=6, dtype=torch.float32, causal=causal)
    found = certify_one_layer(population, asked, samples=10, effort=QUICK)
    check_verdicts(population, asked, found)
    assert found.refuted


@pytest.mark.slow
def test_padding_is_seen_by_a_model_that_looks_ahead() -> None:
    """Where inputs are shorter than the model, it attends to what stands behind them too."""
    asked = task("index-lookup", n=11, alphabet=2)
    population = drawn(asked, seed=1, scale=25, dtype=torch.float32, causal=False)
    weights_of(population)["reading.table"][0, -1] *= 20  # padding weighs
    judge = Judge(population, asked, device="cpu", effort=QUICK, seed=0)
    seen = 0
    for question in questions_of(asked)[:6]:
        assert question.length < asked.length
        tables, region = _Asked(judge, question).tables, question.regions[0]
        options = every(region, question.length)[:200]
        padded = torch.nn.functional.pad(options, (0, tables.positions - question.length))
        found = judge.form.tail(tables.stream(*tables.sums(padded)))
        said = outputs(population, question, spelled(asked, question, region, options))
        torch.testing.assert_close(found, said.double(), rtol=1e-3, atol=1e-3)
        for case, region in zip(judge.answered(question), question.regions, strict=True):
            wrong = wrong_inputs(population, asked, question, region)
            assert (case.verdict == "proved") <= (len(wrong) == 0)
            if case.verdict == "refuted":
                check_replays(population, asked, question, case)
            seen += case.verdict != "unknown"
    assert seen > 6


@pytest.mark.slow
def test_edited_weights_lose_their_proof() -> None:
    """A model that is proved right everywhere; then its readout takes one symbol for another."""
    population = looking_up(LOOKUP, trap=False)
    found = certify(population, LOOKUP)
    assert isinstance(found, Coverage)
    assert found.verdict == "proved"
    check_verdicts(population, LOOKUP, found)
    readout = weights_of(population)["readout.weight"]
    readout[0] = readout[0][:, [0, 2, 1]]
    found = certify(population.member(0), LOOKUP)
    assert isinstance(found, Coverage)
    check_verdicts(population, LOOKUP, found)
    verdicts = {case.target: case.verdict for case in found.cases}
    assert verdicts["s1"] == "refuted"


def test_a_trap_is_found_that_samples_miss() -> None:
    """Wrong only where every other symbol is s0: a case in 4^15."""
    honest, trapped = (looking_up(TRAPPED, trap=trap) for trap in (False, True))
    judges = [Judge(each, TRAPPED, device="cpu", effort=QUICK, seed=0) for each in (honest, trapped)]
    question = questions_of(TRAPPED)[5]
    assert all(case.verdict == "proved" for case in judges[0].answered(question))
    for case in judges[1].answered(question):
        assert case.verdict == ("unknown" if case.target == "s0" else "refuted")
        if case.verdict == "refuted":
            check_replays(trapped, TRAPPED, question, case)
            row = torch.tensor(case.input)[:-1]
            assert int((row != 0).sum()) == 1
    assert judges[1].sampled(20_000) == (20_000, 20_000)


@pytest.mark.slow
def test_a_trap_is_found_that_a_million_samples_miss() -> None:
    honest, trapped = (looking_up(TRAPPED, trap=trap) for trap in (False, True))
    assert certify_one_layer(honest, TRAPPED, samples=0).verdict == "proved"
    found = certify_one_layer(trapped, TRAPPED, samples=0)
    assert found.refuted == 48
    wrong, at = 0, torch.full((1, 20_000, 1), TRAPPED.n)
    for start in range(0, 1_000_000, 20_000):
        drawn_inputs = TRAPPED.sample(20_000, seed=11, start=start)
        with torch.no_grad():
            said = trapped(drawn_inputs.inputs.unsqueeze(0), at)[0, :, 0].argmax(1)
        wrong += int((said != drawn_inputs.targets[:, TRAPPED.n]).sum())
    assert wrong == 0


@pytest.mark.slow
@pytest.mark.parametrize("trap", [False, True])
def test_the_trap_is_all_that_is_wrong(trap: bool) -> None:
    """Every input of a shorter task: wrong exactly where all but the symbol asked for are s0."""
    asked = IndexLookup(n=7, alphabet=3, lengths="full")
    population = looking_up(asked, trap=trap)
    for question in questions_of(asked):
        for symbol, region in enumerate(question.regions):
            wrong = wrong_inputs(population, asked, question, region)
            assert len(wrong) == (trap and symbol != 0)
            assert bool(((wrong[:, :-1] != 0).sum(1) == 1).all())
    check_verdicts(population, asked, certify_one_layer(population, asked, samples=0, effort=QUICK))


@pytest.mark.parametrize("kind", ["transformer", "llama"])
def test_weights_out_of_all_proportion(kind: str) -> None:
    """Scores that underflow, rows that overflow: there may be no bound, and there is an answer."""
    asked = task("index-lookup", n=2, alphabet=2, lengths="full")
    for factor, name in ((1e6, "mixer.inward.weight"), (1e25, "reading.table"), (1e-20, "reading.table")):
        population = drawn(asked, kind, seed=1, scale=20, dtype=torch.float32)
        for key, values in weights_of(population).items():
            if name in key:
                values.mul_(factor)
        check_verdicts(population, asked, certify_one_layer(population, asked, samples=0, effort=QUICK))


def test_an_alphabet_of_one_symbol() -> None:
    asked = task("index-lookup", n=3, alphabet=1)
    for factor in (1.0, 1e25):
        population = drawn(asked, seed=1, scale=5, dtype=torch.float32)
        weights_of(population)["reading.table"].mul_(factor)
        assert certify_one_layer(population, asked, samples=0).verdict == "proved"


def test_the_model_stays_what_it_was() -> None:
    """Certifying neither moves nor changes the caller's weights."""
    population = looking_up(LOOKUP, trap=False)
    before = {name: value.clone() for name, value in population.state_dict().items()}
    certify_one_layer(population, LOOKUP, samples=0, effort=QUICK)
    for name, value in population.state_dict().items():
        assert torch.equal(value, before[name])
