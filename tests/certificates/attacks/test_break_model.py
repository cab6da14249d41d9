"""Models that are right are not broken; those that are wrong somewhere are, and every input replays."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from separatrix.certificates import replay
from separatrix.certificates.attacks import ATTACKS, Attack, Hunt, break_model, seconds_of
from separatrix.certificates.attacks.evolution import Evolution
from separatrix.certificates.attacks.families import Brackets, NearlyEqual
from separatrix.certificates.attacks.gradients import GradientSearch
from separatrix.errors import InvalidInput
from separatrix.evidence import Attempt, Breaking
from separatrix.models import MODELS, model
from separatrix.models.interface import CausalModel, SequenceModel
from separatrix.models.population import Population, signature_of
from separatrix.models.quantised import Quantised
from separatrix.records import same_json
from separatrix.tasks import TASKS, Task, Vectors, task
from separatrix.tasks.interface import example_task
from separatrix.witnesses import Witness, witness_for
from tests.certificates.attacks.planted import planted
from tests.witnesses.checking import mutations, right_on_every_input

LOOKUP = task("index-lookup", n=12, alphabet=8, lengths="full")


def untrained(name: str, asked: Task, params: Mapping[str, Any], seed: int = 0) -> Population:
    return MODELS.get(name)(model(name, **params), signature_of(asked), members=1).initialise([seed])


def of(report: Breaking, attack: str) -> Attempt:
    return next(attempt for attempt in report.attempts if attempt.attack == attack)


def counts(report: Breaking) -> list[tuple[str, int, int, float | None, str]]:
    """All that does not depend on the clock."""
    attempts = (*report.attempts, report.samples)
    return [(each.attack, each.tried, each.failures, each.least_margin, each.note) for each in attempts]


def check_replays(report: Breaking, tried: SequenceModel, asked: Task) -> None:
    """Every counterexample is an input of the task and is answered wrongly, as it says, when run alone."""
    assert report.broken
    space = asked.target_space
    for found in report.counterexamples:
        row = torch.tensor(found.input)
        asked.check(row)
        labels = asked.solve(row.unsqueeze(0))
        with torch.no_grad():
            outputs = tried.forward(row.unsqueeze(0))[0][labels.mask[0]]
        right = labels.targets[0][labels.mask[0]]
        assert same_json(found.expected, right.tolist())
        if isinstance(space, Vectors):
            assert bool(((outputs - right).norm(dim=1) >= space.tolerance).any())
        else:
            assert same_json(found.answered, outputs.argmax(-1).tolist())
            assert not same_json(found.answered, found.expected)
        assert found.text == asked.render(row)


def small_witness() -> Witness:
    return witness_for(task("index-lookup", n=4, alphabet=2), family="transformer-1")


@pytest.mark.slow
def test_a_right_witness_is_not_broken() -> None:
    report = break_model(small_witness(), rounds=3, samples=500)
    assert not report.broken
    assert report.counterexamples == ()
    assert report.attack_failures == report.samples.failures == 0
    assert of(report, "evolution").tried > 100
    assert of(report, "nearly equal contexts").least_margin is not None
    assert str(report).startswith("not broken: index-lookup")


def test_a_witness_with_one_changed_weight_is_broken() -> None:
    """All mutants that are wrong somewhere are broken, and none of those that are right."""
    outcomes = []
    for _, mutant in list(mutations(small_witness(), every=29)):
        harmless = right_on_every_input(mutant)
        report = break_model(mutant, rounds=2, samples=50)
        assert report.broken is not harmless
        outcomes.append(report.broken)
        assert all(replay(mutant, found) for found in report.counterexamples)
    assert {True, False} <= set(outcomes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "family", "params"),
    [
        ("index-lookup", "transformer", {"n": 4}),  # scores all its words, not only answers
        ("index-lookup", "linear-rnn+retrieval", {"n": 4, "alphabet": 2}),  # writes before it answers
        ("dyck", "rnn", {"n": 6}),
        ("q-sparse-averaging", "transformer-1", {"n": 4}),
        ("cycle3", "third-order", {"n": 4}),
    ],
)
def test_right_witnesses_of_every_kind_are_not_broken(name: str, family: str, params: dict[str, Any]) -> None:
    report = break_model(witness_for(task(name, **params), family=family), rounds=1, samples=40)
    assert not report.broken
    assert report.tried > 200


@pytest.mark.slow
def test_a_changed_witness_that_writes_is_broken() -> None:
    whole = witness_for(task("index-lookup", n=4, alphabet=2), family="linear-rnn+retrieval")
    for _, mutant in mutations(whole, every=61):
        report = break_model(mutant, rounds=1, samples=20, enough=2)
        if report.broken:
            break
    assert report.broken
    assert all(replay(mutant, found) for found in report.counterexamples)


@pytest.mark.parametrize("at", [None, "cpu"])
def test_a_planted_failure_is_found_by_structure_and_not_by_chance(at: str | None) -> None:
    subject = planted(LOOKUP)
    report = break_model(
        subject, LOOKUP, samples=10**5, rounds=2, device=at, attacks=[NearlyEqual(), GradientSearch()]
    )
    assert (report.samples.tried, report.samples.failures) == (10**5, 0)
    assert of(report, "nearly equal contexts").failures > 600  # of 12 · 8 · 7 + 12 · 8
    assert of(report, "gradient search").note == "this model has no gradient to follow"
    check_replays(report, subject.member(0), LOOKUP)
    for found in report.counterexamples:
        symbols = list(found.input)[:-1]  # type: ignore[arg-type]
        assert len(set(symbols)) <= 2
    assert len(report.counterexamples) == 16


@pytest.fixture(scope="module")
def outvoted() -> Population:
    """Index lookup in whole numbers and a half, so that every processor computes the same: each symbol of the
    context has a vote, and the one asked for has 8.5 more. Wrong where another stands ten times or more.
    """
    places, symbols, tokens = 12, 8, 21
    net = untrained("fnn", LOOKUP, {"layers": 1, "width": symbols * (places + 1), "token_width": tokens})
    by_name = dict(net.named_parameters())
    with torch.no_grad():
        for values in by_name.values():
            values.zero_()
        by_name["reading.table"][0] = torch.eye(tokens)
        into = by_name["hidden.0.weight"][0].view(places + 1, tokens, places + 1, symbols)
        out = by_name["readout.weight"][0].view(places + 1, symbols, places + 1, symbols)[:, :, -1]
        by_name["hidden.0.bias"][0].view(places + 1, symbols)[:places] = -1
        for symbol in range(symbols):
            for place in range(places):  # is this symbol here, and is this the place that is asked for?
                into[place, symbol, place, symbol] = into[-1, symbols + place, place, symbol] = 1
                into[place, symbol, -1, symbol] = 1  # a vote
            out[:places, symbol, symbol] = 8.5
            out[-1, symbol, symbol] = 1
    return net


def is_outvoted(row: Sequence[int]) -> bool:
    """Whether that net must be wrong here, counted without it."""
    context, asked = list(row[:-1]), row[row[-1] - 8]
    others = [context.count(symbol) for symbol in range(8) if symbol != asked]
    return max(others) > 8.5 + context.count(asked)


def check_outvoted(report: Breaking, attack: str, *, least: int) -> None:
    """Samples find nothing, and the attack at least so many of the inputs that are to be found."""
    assert (report.samples.tried, report.samples.failures) == (20_000, 0)
    assert of(report, attack).failures >= least
    assert all(is_outvoted(found.input) for found in report.counterexamples)  # type: ignore[arg-type]


def test_the_net_with_votes_is_wrong_where_it_should_be(outvoted: Population) -> None:
    rows = LOOKUP.sample(300, seed=0).inputs
    for count in range(13):
        rows[20 * count : 20 * count + 20, :count] = count % 8
    right = LOOKUP.solve(rows)
    wrong = (outvoted.member(0).forward(rows).argmax(-1) != right.targets)[right.mask]
    assert wrong.tolist() == [is_outvoted(row) for row in rows.tolist()]
    assert 5 < wrong.sum() < 100


def test_gradients_find_what_samples_do_not(outvoted: Population) -> None:
    report = break_model(outvoted, LOOKUP, rounds=20, samples=20_000, attacks=[GradientSearch()])
    check_outvoted(report, "gradient search", least=40)  # eight, going where the margin rises
    check_replays(report, outvoted.member(0), LOOKUP)


def test_evolution_finds_what_samples_do_not(outvoted: Population) -> None:
    report = break_model(outvoted.member(0), LOOKUP, rounds=60, samples=20_000, attacks=[Evolution()])
    check_outvoted(report, "evolution", least=15)  # none, if the fittest do not survive
    assert of(report, "evolution").tried < report.samples.tried
    check_replays(report, outvoted.member(0), LOOKUP)


@pytest.mark.slow
def test_a_rounded_network_collides() -> None:
    asked = task("index-lookup", n=20, alphabet=2)
    alone = untrained("lstm", asked, {"layers": 1, "width": 3}).member(0)
    assert isinstance(alone, CausalModel)
    rounded = Quantised(alone, bits=2)
    report = break_model(rounded, asked, rounds=2, samples=100, enough=4)
    assert "lead to the same state" in of(report, "state collisions").note
    assert of(report, "state collisions").failures >= 1
    assert "2 bits a number" in report.arithmetic
    assert of(report, "gradient search").tried > 0
    check_replays(report, rounded, asked)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "params"),
    [
        ("dyck", "mamba", {"layers": 1, "width": 8}),
        ("q-sparse-averaging", "transformer", {"layers": 1, "width": 8, "heads": 1, "causal": False}),
        ("cycle3", "graph-transformer", {"layers": 1, "width": 8, "heads": 1}),
        ("mqar", "lstm", {"layers": 1, "width": 4}),
        ("turing", "transformer", {"layers": 1, "width": 8, "heads": 1}),
        ("equality", "fnn", {"layers": 1, "width": 8}),
    ],
)
def test_untrained_models_of_every_kind_are_broken(name: str, kind: str, params: dict[str, Any]) -> None:
    asked = example_task(TASKS.get(name))
    subject = untrained(kind, asked, params)
    report = break_model(subject, asked, rounds=1, samples=50, enough=2)
    check_replays(report, subject.member(0), asked)
    assert report.samples.failures > 0


@pytest.mark.slow
def test_brackets_are_tried_deep_and_one_mistake_from_members() -> None:
    asked = task("dyck", n=12, depth=3)
    subject = untrained("lstm", asked, {"layers": 1, "width": 4})
    brackets = of(
        break_model(subject, asked, samples=10, attacks=[Brackets()]), "deep and near-miss brackets"
    )
    assert brackets.tried > 500
    assert 0 < brackets.failures < brackets.tried


@pytest.mark.slow
def test_the_same_seed_finds_the_same_and_another_does_not() -> None:
    subject = untrained("transformer", LOOKUP, {"layers": 1, "width": 8, "heads": 1})
    first, second, other = (
        break_model(subject, LOOKUP, rounds=1, samples=300, seed=seed, enough=4) for seed in (0, 0, 1)
    )
    assert first.counterexamples == second.counterexamples != other.counterexamples
    assert counts(first) == counts(second) != counts(other)


def test_the_record_goes_to_json_and_back() -> None:
    report = break_model(planted(LOOKUP), LOOKUP, rounds=1, samples=50)
    written = json.loads(json.dumps(report.to_json()))
    assert list(written)[2:5] == ["broken", "tried", "counterexamples"]
    assert written["tried"] == sum(each["tried"] for each in [*written["attempts"], written["samples"]])
    assert Breaking.from_json(written) == report
    assert "Attacks" in report._repr_html_()
    assert "counterexample:" in str(report)


def test_a_budget_of_time_ends_every_search() -> None:
    report = break_model(small_witness(), budget=0.3, samples=10**6)
    assert of(report, "evolution").note == report.samples.note == "ended by the budget"
    assert 0 < report.samples.tried < 10**6


class OneRow(Attack):
    """What a caller knows to be wrong."""

    name = "one row"

    def __init__(self, row: Tensor) -> None:
        self.row = row

    def run(self, hunt: Hunt) -> str | None:
        nothing, known = hunt.judge(torch.stack([torch.zeros_like(self.row), self.row])).tolist()
        assert nothing == float("inf")  # a row that is no input is not tried
        return f"margin {known:g}"


def test_a_callers_attack_comes_first() -> None:
    row = torch.tensor([3] * 12 + [8])
    report = break_model(planted(LOOKUP), LOOKUP, rounds=1, samples=10, first=[OneRow(row)])
    assert report.attempts[0].attack == "one row"
    assert report.attempts[0].note == "margin -5"
    assert (report.attempts[0].tried, report.attempts[0].failures) == (1, 1)
    assert list(report.counterexamples[0].input) == row.tolist()  # type: ignore[arg-type]
    assert [attack.name for attack in ATTACKS][-2:] == ["gradient search", "evolution"]


def test_what_fails_in_a_batch_only_is_not_reported() -> None:
    subject = planted(LOOKUP, honest_alone=True)
    report = break_model(subject, LOOKUP, rounds=1, samples=10, attacks=[NearlyEqual()])
    assert of(report, "nearly equal contexts").failures > 600
    assert of(report, "nearly equal contexts").note == "16 failed in a batch and not alone"
    assert not report.broken


def test_bad_input_is_refused_in_a_sentence() -> None:
    subject = untrained("transformer", LOOKUP, {"layers": 1, "width": 8, "heads": 1})
    with pytest.raises(InvalidInput, match="positive number of seconds; got 0"):
        break_model(subject, LOOKUP, budget=0)
    with pytest.raises(InvalidInput, match="positive number of seconds; got -1"):
        break_model(subject, LOOKUP, budget=-1)
    with pytest.raises(InvalidInput, match="13 positions with 21 tokens and 8 classes"):
        break_model(subject, task("index-lookup", n=13, alphabet=8))
    with pytest.raises(InvalidInput, match="name it: break_model"):
        break_model(subject)
    with pytest.raises(InvalidInput, match="at least one round; got rounds=0"):
        break_model(subject, LOOKUP, rounds=0)
    with pytest.raises(InvalidInput, match="This witness is for index-lookup"):
        break_model(small_witness(), LOOKUP)
    with pytest.raises(InvalidInput, match="2 classes and index-lookup asks for 8 classes"):
        break_model(small_witness().model, LOOKUP)
    with pytest.raises(InvalidInput, match="cannot read inputs of cycle3"):
        break_model(small_witness().model, task("cycle3", n=6))
    pair = MODELS.get("lstm")(model("lstm", width=4), signature_of(LOOKUP), members=2).initialise([0, 1])
    with pytest.raises(InvalidInput, match="named like cpu, cuda or cuda:1; got 'abacus'"):
        break_model(subject, LOOKUP, device="abacus")
    with pytest.raises(InvalidInput, match="this population has 2"):
        break_model(pair, LOOKUP)
    with pytest.raises(InvalidInput, match="can be attacked; got dict"):
        break_model({}, LOOKUP)  # type: ignore[arg-type]
    next(subject.parameters()).data[0, 0, 0] = float("nan")
    with pytest.raises(InvalidInput, match=r"Weights are finite numbers, and 'reading\.table' holds one"):
        break_model(subject, LOOKUP)


def test_weights_of_an_explicit_model_must_be_finite() -> None:
    witness = small_witness()
    name, values = next((n, v) for n, v in witness.model.tensors().items() if v.is_floating_point())
    kept = values.flatten()[0].item()
    values.view(-1)[0] = float("inf")
    try:
        with pytest.raises(InvalidInput, match=f"'{name}' holds one that is not"):
            break_model(witness)
    finally:
        values.view(-1)[0] = kept


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60s", 60), ("2m", 120), ("500ms", 0.5), ("1h", 3600), ("1.5", 1.5), (" 10 s ", 10), ("3min", 180)],
)
def test_times_as_people_write_them(text: str, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "-3s", "5 parsecs", "1e9s", "nan", "0s", "0"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"A time is a number and a unit|positive number of seconds"):
        seconds_of(text)


def test_a_replaced_model_of_a_witness_is_what_is_attacked() -> None:
    other = witness_for(task("index-lookup", n=4, alphabet=2), family="rnn")
    swapped = dataclasses.replace(other, model=small_witness().model, built=None)
    assert not break_model(swapped, rounds=1, samples=20).broken
