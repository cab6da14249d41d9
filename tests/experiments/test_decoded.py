"""Scores by decoding: of players that know the task or err in one place, of witnesses, of trained models."""

from __future__ import annotations

import functools
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.evidence import Decoded
from separatrix.experiments.decoded import decoded_score, measured, script_of
from separatrix.experiments.w_models import W_MODELS, w_small_model
from separatrix.generation.runs import Progress
from separatrix.models import model
from separatrix.models.population import Population, signature_of
from separatrix.tasks import task
from separatrix.tasks.is_tree import IsTree
from separatrix.tasks.specs import spec_of
from separatrix.training import Member, Training, train
from separatrix.training.evaluation import TEST_EXAMPLES_FROM, TEST_SEED
from separatrix.witnesses.catalogue import witness_for
from separatrix.witnesses.naming import weights_of
from tests.evidence.examples import make_decoded
from tests.generation.writers import Writer

FORMS = ("direct", "cot", "compact", "full")
GAP = -1
ABSENT = ("cyclopts", "re2", "flint", "optuna", "ray")

Text = list[int]
"""Tokens, with GAP for those that a search fills in."""


def tree(n: int, form: str, graphs: str = "hub") -> IsTree:
    searches = {"form": "retrieval", "trace": form} if form in ("compact", "full") else {"form": form}
    made = task("is-tree", n=n, graphs=graphs, **searches)
    assert isinstance(made, IsTree)
    return made


def player(task: IsTree, spoil: Callable[[Text], Text] = lambda text: text) -> Writer:
    """It looks the right next token up; what a search returns it does not know, and would write <s> there."""

    @functools.cache
    def text_behind(prompt: tuple[int, ...]) -> Text:
        row = task.completed(torch.tensor(prompt))
        labels = task.solve(row.unsqueeze(0))
        targets, mask = labels.targets[0].tolist(), labels.mask[0].tolist()
        end = max(place for place, due in enumerate(mask) if due) + 1
        return spoil([targets[place] if mask[place] else GAP for place in range(task.prompt - 1, end)])

    vocabulary = task.vocabulary
    begin = vocabulary.token("<s>")

    def following(history: Sequence[int]) -> int:
        place = len(history) - task.prompt
        if place < 0:
            return begin
        text = text_behind(tuple(history[: task.prompt]))
        return begin if place >= len(text) or text[place] == GAP else text[place]

    return Writer(following, vocabulary.size)


def searches_in(task: IsTree, examples: int) -> int:
    drawn = task.sample(examples, seed=TEST_SEED, start=TEST_EXAMPLES_FROM)
    return int((drawn.inputs == task.vocabulary.token("<EndSearch>")).sum())


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("n", "graphs", "examples"), [(4, "hub", 40), (7, "uniform", 30)])
def test_whoever_knows_the_task_is_right_everywhere(form: str, n: int, graphs: str, examples: int) -> None:
    is_tree = tree(n, form, graphs)
    found = decoded_score(player(is_tree), is_tree, examples=examples)
    assert (found.score, found.right, found.unanswered, found.cut_off) == (1.0, examples, 0, 0)
    assert found.tours_right == (None if form == "direct" else examples)
    assert found.searches == searches_in(is_tree, examples)
    assert (found.searches > 0) == (form in ("compact", "full"))
    assert found.task == spec_of(is_tree)
    assert (found.weights_sha256, found.arithmetic) == (None, "none")
    assert (found.seed, found.first) == (TEST_SEED, TEST_EXAMPLES_FROM)
    assert found.seconds > 0


def at(place: int, token: int) -> Callable[[Text], Text]:
    """Another token in one place, counted from either end."""

    def spoil(text: Text) -> Text:
        assert text[place] not in (token, GAP)
        return [*text[:place], token, *text[place:][1:]]

    return spoil


def flipped(text: Text) -> Text:
    return [*text[:-1], 1 - text[-1]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "spoil", "counts"),
    [
        ("direct", flipped, {"wrong": 20}),
        ("direct", lambda text: [9], {"unanswered": 20}),
        ("cot", flipped, {"wrong": 20, "tours_right": 0}),
        ("cot", lambda text: [8 + 4, *text[1:]], {"right": 20, "tours_right": 0}),
        ("cot", lambda text: text[:-1], {"unanswered": 20, "tours_right": 0}),
        ("compact", flipped, {"wrong": 20, "tours_right": 0}),
        ("compact", lambda text: text[:-1], {"unanswered": 20, "tours_right": 0}),
        # The first search, <StartSearch> 1 <EndSearch>: for the parent of another vertex, which has none yet;
        # for that of no vertex; closed before it was begun.
        ("compact", at(4, 8 + 3), {"right": 20, "tours_right": 0}),
        ("compact", at(4, 3), {"unanswered": 20, "tours_right": 0, "searches": 0}),
        ("compact", at(3, 5), {"unanswered": 20, "tours_right": 0, "searches": 0}),
        # The root's pair the other way round: the first search finds no parent.
        ("compact", lambda text: [text[1], text[0], *text[2:]], {"right": 20, "tours_right": 0}),
    ],
)
def test_an_error_in_one_place_is_seen(
    form: str, spoil: Callable[[Text], Text], counts: dict[str, int]
) -> None:
    is_tree = tree(4, form)
    assert [is_tree.vocabulary.word(token) for token in (3, 5, 8, 8 + 3)] == ["~", "<EndSearch>", "0", "3"]
    found = decoded_score(player(is_tree, spoil), is_tree, examples=20)
    expected = {"right": 0, "wrong": 0, "unanswered": 0} | counts
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.score == (found.right + found.unanswered / 2) / 20


def test_one_error_among_many_is_counted_once() -> None:
    is_tree = tree(6, "compact", "uniform")
    drawn = is_tree.sample(30, seed=TEST_SEED, start=TEST_EXAMPLES_FROM)
    chosen = tuple(drawn.inputs[17, : is_tree.prompt].tolist())
    right, wrong = player(is_tree), player(is_tree, flipped)

    def following(history: Sequence[int]) -> int:
        which = wrong if tuple(history[: is_tree.prompt]) == chosen else right
        return which.following(history)

    found = decoded_score(Writer(following, is_tree.vocabulary.size), is_tree, examples=30, batch=7)
    assert (found.right, found.wrong, found.tours_right) == (29, 1, 29)


def test_a_result_is_the_searchs_and_not_the_models() -> None:
    """A player that writes a verdict in every gap would be wrong at once if that were read."""
    is_tree = tree(5, "compact")
    known = player(is_tree)

    def following(history: Sequence[int]) -> int:
        token = known.following(history)
        return 0 if token == is_tree.vocabulary.token("<s>") else token

    found = decoded_score(Writer(following, is_tree.vocabulary.size), is_tree, examples=20)
    assert (found.score, found.tours_right) == (1.0, 20)


@pytest.mark.parametrize(("form", "n"), [("cot", 6), ("full", 5)])
def test_constructions_are_right_everywhere(form: str, n: int) -> None:
    family = "transformer-cot" if form == "cot" else "linear-rnn+retrieval"
    witness = witness_for(tree(n, form), family=family)
    found = decoded_score(witness.model, witness.task, examples=25)
    assert found.score == 1.0
    # The tour of a tree is the task's own; at a cycle the Transformer answers, and the task walks on.
    drawn = witness.task.sample(25, seed=TEST_SEED, start=TEST_EXAMPLES_FROM)
    trees = int(drawn.labels.answer.sum())
    assert found.tours_right is not None
    assert trees <= found.tours_right < 25 if form == "cot" else found.tours_right == 25
    assert found.weights_sha256 == weights_of(witness.model)
    assert found.arithmetic == "float64"


def population(label: str, is_tree: IsTree, *, members: int = 1) -> Population:
    config = w_small_model(label)
    return config.kind(config, signature_of(is_tree), members=members).initialise(range(members))


@pytest.mark.slow
@pytest.mark.parametrize("label", W_MODELS)
@pytest.mark.parametrize("form", ["direct", "cot", "compact"])
def test_whoever_knows_nothing_scores_about_a_half(label: str, form: str) -> None:
    is_tree = tree(4, form)
    found = decoded_score(population(label, is_tree), is_tree, examples=100, batch=100)
    assert 0.35 < found.score < 0.65
    assert (found.tours_right or 0) == 0
    low, high = measured(found).interval
    assert low < 0.5 < high


LEARNT = Training(steps=80, batch=32, eval_every=80, eval_examples=32, test_examples=150, stop="never")


@pytest.mark.slow
def test_a_trained_model_writes_what_it_was_tested_on() -> None:
    """Every word right when written from its own words: exactly where every word is right behind right ones.

    So it is on the very examples of the last test, and on no others would the counts agree.
    """
    is_tree = tree(4, "cot")
    config = model("llama", layers=2, width=32, heads=4, embedding="sinusoidal", tied=True)
    members = [Member(lr=1e-2, seed=1, schedule="cosine", warmup=10)]  # it has begun to learn
    (trained,) = train(is_tree, config, members=members, training=LEARNT, device="cpu")
    found = decoded_score(trained.population, is_tree, examples=150)
    assert 5 < trained.correct < 145, "neither everything nor nothing is learnt"
    assert found.tours_right == trained.correct
    assert found.right > trained.correct, "an answer may be right behind words that are not"
    other = decoded_score(trained.population, is_tree, examples=150, seed=3)
    assert other.tours_right != trained.correct
    for again in (
        decoded_score(trained.population.member(0), is_tree, examples=150, batch=31),
        decoded_score(trained.population, is_tree, examples=150, device="cpu", batch=1000),
    ):
        assert {**again.to_fields(), "seconds": 0} == {**found.to_fields(), "seconds": 0}


@pytest.mark.slow
def test_a_model_that_has_learnt_the_tour_writes_it() -> None:
    is_tree = tree(4, "cot")
    config = model("llama", layers=2, width=32, heads=4, embedding="sinusoidal", tied=True)
    training = Training(
        steps=2500, batch=32, eval_every=500, eval_examples=100, test_examples=500, stop="never"
    )
    members = [Member(lr=3e-3, seed=1, schedule="cosine", warmup=20)]
    (trained,) = train(is_tree, config, members=members, training=training, device="cpu")
    found = decoded_score(trained.population, is_tree, examples=500)
    assert found.score > 0.97
    assert found.tours_right == trained.correct > 475


def test_gradients_are_not_kept_and_weights_stay() -> None:
    is_tree = tree(4, "cot")
    one = population("Hybrid", is_tree)
    before = {name: value.clone() for name, value in one.state_dict().items()}
    decoded_score(one, is_tree, examples=3)
    assert all(torch.equal(value, before[name]) for name, value in one.state_dict().items())
    assert all(values.grad is None for values in one.parameters())


def test_the_arithmetic_is_said() -> None:
    is_tree = tree(4, "cot")
    for label in W_MODELS:
        one = population(label, is_tree)
        found = decoded_score(one, is_tree, examples=10, precision="bfloat16")
        assert found.arithmetic == "bfloat16 products over float32"
        assert decoded_score(one.double(), is_tree, examples=2, precision="float64").arithmetic == "float64"


def test_products_are_rounded_while_it_writes() -> None:
    class Noting(Writer):
        def step(self, token: Any, state: Any) -> Any:
            noted.append(torch.is_autocast_enabled("cpu"))
            return super().step(token, state)

    noted: list[bool] = []
    is_tree = tree(4, "direct")
    model = Noting(player(is_tree).following, is_tree.vocabulary.size)
    decoded_score(model, is_tree, examples=2, precision="bfloat16")
    assert noted
    assert all(noted)


def test_examples_are_the_same_however_many_are_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    is_tree = tree(4, "cot")
    always_yes = player(is_tree, lambda text: [*text[:-1], 1])
    first = decoded_score(always_yes, is_tree, examples=40)
    assert 0 < first.right < 40
    monkeypatch.setattr("separatrix.experiments.decoded._DRAWN", 7)
    again = decoded_score(always_yes, is_tree, examples=40)
    assert (again.right, again.tours_right) == (first.right, first.tours_right)


def test_progress_is_told() -> None:
    heard: list[Progress] = []
    is_tree = tree(4, "cot")
    decoded_score(player(is_tree), is_tree, examples=5, progress=heard.append)
    assert (heard[-1].done, heard[-1].prompts) == (5, 5)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda: decoded_score(population("Mamba", tree(4, "cot")), task("dyck", n=4)),
            "on is-tree only; got dyck",
        ),
        (
            lambda: decoded_score(population("Mamba", tree(4, "cot"), members=2), tree(4, "cot")),
            r"this population has 2; take population.member\(i\)",
        ),
        (
            lambda: decoded_score(population("Mamba", tree(4, "cot")), tree(4, "cot"), examples=0),
            "at least one example; got examples=0",
        ),
        (lambda: decoded_score(_unmasked(), tree(4, "cot")), "reads token by token can write"),
    ],
)
def test_what_cannot_be_decoded_is_refused(ask: Callable[[], Decoded], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ask()


def _unmasked() -> Population:
    config = model("llama", layers=1, width=8, heads=1, causal=False)
    return config.kind(config, signature_of(tree(4, "cot")), members=1).initialise([0])


def test_without_the_engine_only_searches_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    assert decoded_score(player(tree(4, "cot")), tree(4, "cot"), examples=3).score == 1.0
    with pytest.raises(
        InvalidInput, match=r"A search needs RE2, and the package google-re2 is not installed here"
    ):
        decoded_score(
            player(tree(4, "compact")), tree(4, "compact"), examples=1 << 60
        )  # before anything is drawn


@pytest.mark.slow
def test_it_runs_where_little_is_installed() -> None:
    code = f"""
import sys
sys.modules.update(dict.fromkeys({ABSENT!r}))
from separatrix.experiments.decoded import decoded_score
from separatrix.experiments.w_models import w_small_model
from separatrix.models.population import signature_of
from separatrix.tasks import task
config, is_tree = w_small_model("Mamba"), task("is-tree", n=4, form="cot")
model = config.kind(config, signature_of(is_tree), members=1).initialise([0])
print(decoded_score(model, is_tree, examples=4).examples)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert (done.stdout.strip(), done.stderr) == ("4", "")


def test_every_form_has_its_script() -> None:
    kinds = [script_of(tree(4, form)).kind for form in FORMS]
    assert kinds == ["is-tree-verdict", "is-tree-tour", "is-tree-compact-searches", "is-tree-searches"]


def chance(counts: Sequence[int], shares: Sequence[float]) -> float:
    """Of these counts where each of so many draws has these shares."""
    ways = math.factorial(sum(counts)) / math.prod(math.factorial(count) for count in counts)
    return ways * math.prod(share**count for share, count in zip(shares, counts, strict=True))


def covers(
    interval: Callable[[int, int, int], tuple[float, float]], n: int, shares: Sequence[float]
) -> float:
    """How probable it is that the interval holds the mean, over everything that n examples may give."""
    mean, found = shares[0] + shares[1] / 2, 0.0
    for right in range(n + 1):
        for halves in range(n + 1 - right):
            low, high = interval(right, halves, n)
            if low <= mean <= high:
                found += chance((right, halves, n - right - halves), shares)
    return found


def ours(right: int, halves: int, n: int) -> tuple[float, float]:
    counts: dict[str, Any] = {"examples": n, "right": right, "unanswered": halves}
    return measured(make_decoded(**counts, cut_off=0, tours_right=None)).interval


def test_the_interval_holds_the_mean_as_often_as_it_says() -> None:
    n = 30
    shares = [
        (right, halves, 1 - right - halves) for right in (0.05, 0.3, 0.5, 0.7) for halves in (0.0, 0.1, 0.29)
    ]
    found = {each: covers(ours, n, each) for each in shares}
    assert min(found.values()) > 0.925, "Wilson's own coverage swings about 95 % for so few"
    for right, halves, wrong in shares:
        if halves:
            assert found[right, halves, wrong] > 0.95
    # Twice as many examples of half the weight would claim too much where nothing is left unanswered.
    twice = covers(lambda right, halves, n: ours(2 * right + halves, 0, 2 * n), n, (0.5, 0.0, 0.5))
    assert twice < 0.9


def test_a_cells_number() -> None:
    found = measured(make_decoded(examples=200, right=150, unanswered=21, cut_off=0, tours_right=3))
    assert (found.right, found.accuracy, found.seconds) == (160.5, 160.5 / 200, 12.5)
    assert found.note == "21 of 200 unanswered"
    assert measured(make_decoded(unanswered=0, cut_off=0)).note == ""
