"""Members side by side: each as if it were alone."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule

from separatrix.models.members import initialise_member
from separatrix.models.population import signature_of
from separatrix.models.transformer import Transformer
from separatrix.store import Store
from separatrix.tasks import task
from separatrix.tasks.interface import Batch
from separatrix.training import Halving, Member, Trained, Training, run_job, train
from separatrix.training.evaluation import evaluate
from separatrix.training.jobs import job_for
from separatrix.training.labelled import Questions, judged, questions
from separatrix.training.optimiser import OptimiserState, Rates, update
from separatrix.training.packing import pack
from separatrix.training.placing import Placing
from separatrix.training.recipes import Precision
from separatrix.training.sources import Source

LOOKUP = task("index-lookup", n=8, alphabet=8)
MODEL = Transformer.Config(width=16, heads=2, ffn=16)
QUICK = Training(steps=24, batch=8, eval_every=8, eval_examples=40, test_examples=40, stop="never")


def weights(trained: Trained) -> list[Tensor]:
    return list(trained.population.state_dict().values())


def same(first: Trained, second: Trained) -> bool:
    equal = all(torch.equal(a, b) for a, b in zip(weights(first), weights(second), strict=True))
    return equal and first.curve == second.curve and first.correct == second.correct


MINE = Member(lr=3e-3, seed=5, weight_decay=0.1, schedule="cosine", warmup=4)


WILD = Member(lr=1e30, seed=1)
OTHERS = [WILD, Member(lr=1e-4, seed=7), MINE, Member(lr=3e-3, seed=6)]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_member_is_the_same_alone_and_among_others(precision: Precision) -> None:
    training = replace(QUICK, precision=precision)
    (alone,) = train(LOOKUP, MODEL, members=[MINE], training=training, device="cpu")
    among = train(LOOKUP, MODEL, members=OTHERS, training=training, device="cpu")
    assert same(alone, among[2])
    assert not same(alone, among[3])
    queued = train(LOOKUP, MODEL, members=OTHERS, training=training, device="cpu", seats=2)
    assert all(same(one, other) for one, other in zip(among, queued, strict=True))


@pytest.mark.slow
def test_in_bfloat16_it_does_not_matter_who_the_others_are() -> None:
    """How many they are may change a last bit there, because products are then cut up differently."""
    training = replace(QUICK, precision="bfloat16")
    these = train(LOOKUP, MODEL, members=OTHERS, training=training, device="cpu")
    strangers = [Member(lr=1e-2, seed=seed) for seed in range(20, 24)]
    strangers[2] = MINE
    those = train(LOOKUP, MODEL, members=strangers, training=training, device="cpu")
    assert same(these[2], those[2])
    (alone,) = train(LOOKUP, MODEL, members=[MINE], training=training, device="cpu")
    for mine, other in zip(weights(alone), weights(these[2]), strict=True):
        assert torch.allclose(mine, other, rtol=1e-3, atol=1e-5)


def test_one_that_goes_to_nan_is_retired_and_the_others_go_on() -> None:
    members = [WILD, MINE]
    wild, sane = train(LOOKUP, MODEL, members=members, training=replace(QUICK, clip=0.0), device="cpu")
    assert wild.status == "retired"
    assert wild.steps < QUICK.steps
    assert all(bool(torch.isfinite(values).all()) for values in weights(wild)), "its last good weights"
    assert (sane.status, sane.steps) == ("done", QUICK.steps)


@pytest.mark.parametrize("embedding", ["frozen", "sinusoidal"])
def test_tables_that_are_not_trained_stay_when_a_neighbour_leaves(
    embedding: Literal["frozen", "sinusoidal"],
) -> None:
    """The rows of those who left are taken out, and what nobody trains must come along with the rest."""
    model, training = replace(MODEL, embedding=embedding), replace(QUICK, clip=0.0)
    (alone,) = train(LOOKUP, model, members=[MINE], training=training, device="cpu")
    wild, among = train(LOOKUP, model, members=[WILD, MINE], training=training, device="cpu")
    assert wild.steps < among.steps
    assert same(alone, among)
    table = among.population.state_dict()["reading.table"]
    fresh = Transformer(model, signature_of(LOOKUP), members=1).initialise([MINE.seed])
    assert torch.equal(table, fresh.state_dict()["reading.table"])
    assert bool(table.any())


def test_the_last_look_is_at_examples_of_its_own() -> None:
    """Those that decide when a member stops would flatter it."""
    (one,) = train(LOOKUP, MODEL, members=[MINE], training=replace(QUICK, test_examples=400), device="cpu")
    (test,) = evaluate(one.population, LOOKUP, examples=400, precision="float32", first=1 << 40)
    (looks,) = evaluate(one.population, LOOKUP, examples=400, precision="float32")
    assert (one.correct, one.examples) == (test.right, 400)
    assert one.correct != looks.right


def test_the_same_seed_sees_the_same_examples_and_another_sees_others() -> None:
    seeds = torch.tensor([3, 4, 3])
    drawn = Source(task=LOOKUP).draw(seeds, torch.tensor([2, 2, 5]), batch=6)
    for row, (seed, step) in enumerate(((3, 2), (4, 2), (3, 5))):
        alone = LOOKUP.sample(6, seed=seed, start=6 * step)
        assert torch.equal(drawn.inputs[6 * row : 6 * row + 6], alone.inputs)


def test_adam_is_torchs_own() -> None:
    """Beside torch's AdamW with its schedules and its clipping, on the same gradients, in float64."""
    torch.manual_seed(0)
    members = [
        Member(lr=1e-2, weight_decay=0.3),
        Member(lr=3e-3, schedule="cosine", warmup=3),
        Member(lr=1e-3, warmup=5),
        Member(lr=2e-3, schedule="wsd", warmup=2),
    ]
    population = Transformer(MODEL, signature_of(LOOKUP), members=4).initialise([0, 1, 2, 3]).double()
    starts = [[p[row].detach().clone() for p in population.parameters()] for row in range(4)]
    packed = pack(population)
    state = OptimiserState.fresh(packed)
    rates = Rates.of(members, steps=12, device=torch.device("cpu"))
    gradients = [[torch.randn_like(p) for p in packed.parameters] for _ in range(12)]  # up to the last step
    for gradient in gradients:
        update(packed, state, rates, torch.ones(4), packed.joined(gradient), clip=2.0)
    for row, member in enumerate(members):
        mine = [torch.nn.Parameter(start) for start in starts[row]]
        groups = [
            {"params": [p for p in mine if p.dim() > 1], "weight_decay": member.weight_decay},
            {"params": [p for p in mine if p.dim() <= 1], "weight_decay": 0.0},
        ]
        adam = torch.optim.AdamW(groups, lr=member.lr)
        for step, gradient in enumerate(gradients):
            for parameter, whole in zip(mine, gradient, strict=True):
                parameter.grad = whole[row].clone()
            torch.nn.utils.clip_grad_norm_(mine, 2.0)
            for group in adam.param_groups:
                group["lr"] = rate_by_hand(member, step, 12)
            adam.step()
        for ours, theirs in zip(packed.parameters, mine, strict=True):
            assert torch.allclose(ours[row], theirs, rtol=1e-9, atol=1e-12)


def rate_by_hand(member: Member, step: int, steps: int) -> float:
    if step < member.warmup:
        return member.lr * (step + 1) / member.warmup
    if member.schedule == "constant":
        return member.lr
    if member.schedule == "wsd":
        return member.lr * min(1.0, (steps - step) / (0.2 * (steps - member.warmup)))
    return member.lr * 0.5 * (1 + math.cos(math.pi * (step - member.warmup) / (steps - member.warmup)))


def test_packed_weights_are_the_models_own() -> None:
    population = Transformer(MODEL, signature_of(LOOKUP), members=2).initialise([0, 1])
    before = {name: value.clone() for name, value in population.state_dict().items()}
    packed = pack(population)
    assert all(torch.equal(value, before[name]) for name, value in population.state_dict().items())
    packed.values.mul_(2)
    assert all(torch.equal(value, 2 * before[name]) for name, value in population.state_dict().items())
    again = packed.joined([parameter.detach() for parameter in packed.parameters])
    assert torch.equal(again, packed.values)


@pytest.mark.parametrize(
    "asked",
    [
        task("index-lookup", n=9),
        task("mqar", n=12),
        task("dyck", n=12, form="next"),
        task("is-tree", n=6, form="cot"),
        task("q-sparse-averaging", n=6, q=2),
    ],
    ids=lambda asked: str(asked.name),
)
def test_losses_are_those_of_every_label(asked: object) -> None:
    """The positions that are answered, against a plain loop over the mask of the whole batch."""
    from separatrix.tasks.interface import Task, Vectors

    assert isinstance(asked, Task)
    batch = asked.sample(6, seed=1)
    put = questions(batch, 2, most=asked.asking.most)
    torch.manual_seed(0)
    out = asked.target_space.width if isinstance(asked.target_space, Vectors) else asked.target_space.size
    whole = torch.randn(2, 3, asked.length, out, dtype=torch.float64)
    answered = whole if put.at is None else whole.gather(2, put.at.unsqueeze(-1).expand(-1, -1, -1, out))
    found = judged(answered, put, asked.target_space)
    for member in range(2):
        costs, right = [], []
        for row in range(3):
            mask, targets = batch.mask[3 * member + row], batch.targets[3 * member + row]
            fine = []
            for place in mask.nonzero().flatten().tolist():
                output = whole[member, row, place]
                if isinstance(asked.target_space, Vectors):
                    costs.append(float((output - targets[place]).square().mean()))
                    fine.append(float((output - targets[place]).norm()) < asked.target_space.tolerance)
                else:
                    costs.append(float(-output.log_softmax(0)[targets[place]]))
                    fine.append(int(output.argmax()) == int(targets[place]))
            right.append(fine)
        assert math.isclose(float(found.losses[member]), sum(costs) / len(costs), rel_tol=1e-9)
        assert int(found.labels[member]) == len(costs)
        assert int(found.labels_right[member]) == sum(map(sum, right))
        assert int(found.examples_right[member]) == sum(map(all, right))


def test_evaluation_is_on_full_length_and_the_same_in_any_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    varied = task("index-lookup", n=20, alphabet=8)  # sampled at 10 to 20 symbols
    population = Transformer(MODEL, signature_of(varied), members=2).initialise([0, 1])
    lengths: list[int] = []
    sample = type(varied).draw

    def watched(self: object, draws: object) -> Batch:
        batch: Batch = sample(self, draws)  # type: ignore[arg-type]
        lengths.extend(batch.lengths.tolist())
        return batch

    monkeypatch.setattr(type(varied), "draw", watched)
    whole = evaluate(population, varied, examples=50, precision="float32")
    assert set(lengths) == {varied.length}
    monkeypatch.setattr("separatrix.training.evaluation._POSITIONS", 2 * 21 * 7)
    assert evaluate(population, varied, examples=50, precision="float32") == whole


@pytest.mark.slow
def test_a_member_that_has_solved_the_task_stops() -> None:
    easy = task("index-lookup", n=2, alphabet=2)
    training = Training(steps=600, batch=32, eval_every=20, eval_examples=100, test_examples=200)
    good, hopeless = Member(lr=1e-2, seed=0), Member(lr=1e-9, seed=0)
    first, second = train(easy, MODEL, members=[good, hopeless], training=training, device="cpu")
    assert first.solved_at == first.steps < 600
    assert first.accuracy == 1
    assert (second.solved_at, second.steps, second.status) == (None, 600, "done")
    cut = train(easy, MODEL, members=[good, hopeless], training=replace(training, stop="first"), device="cpu")
    assert [one.status for one in cut] == ["done", "dropped"]
    assert cut[1].steps == cut[0].steps == first.steps
    queue = [good, hopeless, Member(lr=1e-9, seed=1)]
    short = train(easy, MODEL, members=queue, training=replace(training, stop="first"), device="cpu", seats=2)
    assert [one.member for one in short] == [good, hopeless], "the third had not begun"


@pytest.mark.slow
def test_halving_drops_those_behind_and_seats_those_who_wait() -> None:
    easy = task("index-lookup", n=2, alphabet=2)
    training = Training(
        steps=200, batch=32, eval_every=50, eval_examples=200, test_examples=100, halving=Halving(first=50)
    )
    members = [Member(lr=1e-9, seed=seed) for seed in range(3)] + [Member(lr=1e-2, seed=3)]
    found = train(easy, MODEL, members=members, training=training, device="cpu", seats=2)
    assert found[3].accuracy == 1
    assert sum(one.status == "dropped" for one in found) >= 1
    assert all(one.steps in {50, 100} for one in found if one.status == "dropped")


def test_a_loss_of_nought_is_the_best_and_can_be_saved(tmp_path: Path) -> None:
    """Nothing can be learnt with one symbol, so that the loss is exactly 0 and halving compares it."""
    trivial = task("index-lookup", n=2, alphabet=1)
    training = replace(QUICK, halving=Halving(first=8), steps=24)
    members = [Member(lr=1e-3, seed=seed) for seed in range(2)]
    job = job_for(trivial, MODEL, members=members, training=training)
    found = run_job(job, store=Store(tmp_path), device="cpu", checkpoint_seconds=0)
    assert [one.curve[-1].loss for one in found] == [0.0, 0.0]
    assert [one.status for one in found] == ["done", "done"]


@pytest.mark.slow
def test_where_members_are_compared_a_run_belongs_to_its_job(tmp_path: Path) -> None:
    """Else the store would answer for a member what became of it in other company."""
    store, easy = Store(tmp_path), task("index-lookup", n=2, alphabet=2)
    training = Training(
        steps=40,
        batch=32,
        eval_every=20,
        eval_examples=200,
        test_examples=50,
        stop="never",
        halving=Halving(first=20),
    )
    slow, good = Member(lr=1e-9, seed=0), Member(lr=1e-2, seed=3)
    both = train(easy, MODEL, members=[slow, good], training=training, store=store, device="cpu")
    assert [one.status for one in both] == ["dropped", "done"], "the one behind is dropped, not the other"
    (alone,) = train(easy, MODEL, members=[slow], training=training, store=store, device="cpu")
    assert (alone.status, alone.steps) == ("done", 40)
    again = train(easy, MODEL, members=[slow, good], training=training, store=store, device="cpu")
    assert [(one.status, one.steps) for one in again] == [(one.status, one.steps) for one in both]


def test_who_never_began_is_not_running(tmp_path: Path) -> None:
    store, easy = Store(tmp_path), task("index-lookup", n=2, alphabet=2)
    training = Training(steps=600, batch=32, eval_every=20, eval_examples=100, test_examples=50, stop="first")
    members = [Member(lr=1e-2, seed=0), Member(lr=1e-9, seed=1), Member(lr=1e-9, seed=2)]
    for _ in range(2):
        found = train(easy, MODEL, members=members, training=training, store=store, device="cpu", seats=2)
        assert len(found) == 2
        assert sorted(run.status for run in store.runs()) == ["done", "dropped", "stopped"]


def test_a_retired_member_does_not_come_back() -> None:
    population = Transformer(MODEL, signature_of(LOOKUP), members=2).initialise([0, 1])
    packed = pack(population)
    state = OptimiserState.fresh(packed)
    rates = Rates.of([MINE, MINE], steps=9, device=torch.device("cpu"))
    sound = torch.ones_like(packed.values)
    torn = sound.clone()
    torn[0, 3] = math.inf
    update(packed, state, rates, torch.ones(2), torn, clip=1.0)
    kept = packed.values[0].clone()
    update(packed, state, rates, torch.ones(2), sound, clip=1.0)
    assert state.step.tolist() == [0, 2]
    assert state.alive.tolist() == [False, True]
    assert state.retired.tolist() == [True, False]
    assert torch.equal(packed.values[0], kept)


@pytest.mark.parametrize(
    ("loss", "gradient"), [(math.nan, 1.0), (math.inf, 1.0), (1.0, math.nan), (1.0, math.inf), (1.0, 1e30)]
)
def test_a_loss_or_a_gradient_that_is_no_finite_number_retires(loss: float, gradient: float) -> None:
    """So does a gradient of finite numbers that is longer than any."""
    population = Transformer(MODEL, signature_of(LOOKUP), members=2).initialise([0, 1])
    packed = pack(population)
    state, kept = OptimiserState.fresh(packed), packed.values.clone()
    rates = Rates.of([MINE, MINE], steps=9, device=torch.device("cpu"))
    gradients = torch.ones_like(packed.values)
    gradients[0, 3] = gradient
    update(packed, state, rates, torch.tensor([loss, 1.0]), gradients, clip=1.0)
    assert state.retired.tolist() == [True, False]
    assert state.step.tolist() == [0, 1]
    assert torch.equal(packed.values[0], kept[0])
    assert not torch.equal(packed.values[1], kept[1])


def test_a_points_loss_is_the_mean_since_the_last() -> None:
    """With weights that do not move the loss of a stretch is that of its examples, and of no others."""
    still = Member(lr=1e-30, seed=3)
    (one,) = train(LOOKUP, MODEL, members=[still], training=QUICK, device="cpu")
    population = Transformer(MODEL, signature_of(LOOKUP), members=1).initialise([3])
    for place, point in enumerate(one.curve):
        drawn = LOOKUP.sample(64, seed=3, start=64 * place)
        found = judged(*_answered(population, drawn), LOOKUP.target_space)
        assert point.loss is not None
        assert math.isclose(point.loss, float(found.losses[0]), rel_tol=1e-5)


def _answered(population: Transformer, drawn: Batch) -> tuple[Tensor, Questions]:
    asked = questions(drawn, 1, most=1)
    with torch.no_grad():
        return population(asked.inputs, asked.at), asked


@pytest.mark.parametrize(
    ("device", "compiled", "taken", "left", "closes"),
    [
        ("cpu", False, 6, 1, True),
        ("cpu", False, 7, 10_000, False),
        ("cpu", True, 3, 10_000, True),
        ("cuda", False, 3, 5_000, True),
        ("cuda", True, 4, 10_000, False),
        ("cuda", True, 3, 4_999, False),
    ],
)
def test_rows_are_given_up_where_that_pays(
    device: str, compiled: bool, taken: int, left: int, closes: bool
) -> None:
    placing = Placing(device=torch.device(device), seats=7, compiled=compiled)
    assert placing.closes_up(rows=7, taken=taken, steps_left=left) is closes


def test_a_run_says_how_fast_it_went(tmp_path: Path) -> None:
    store = Store(tmp_path)
    training = Training(steps=4, batch=4, eval_every=2, eval_examples=8, test_examples=8)
    (one,) = train(
        task("index-lookup", n=4, alphabet=4),
        "transformer",
        members=[Member()],
        training=training,
        store=store,
        device="cpu",
    )
    assert one.run is not None
    rate = one.run.provenance["steps_per_second"]
    assert isinstance(rate, float)
    assert rate > 0


@pytest.mark.slow
def test_looks_are_taken_without_compiling_anew() -> None:
    """And what was compiled is so afterwards."""
    made: list[GraphModule] = []

    def backend(graph: GraphModule, _: list[Tensor]) -> GraphModule:
        made.append(graph)
        return graph

    population = job_for(LOOKUP, MODEL, members=[Member()]).population(1)
    initialise_member(population, 0, 0)
    plain = evaluate(population, LOOKUP, examples=40, precision="float32")
    next(iter(population.fusible)).compile(backend=backend)
    assert evaluate(population, LOOKUP, examples=40, precision="float32") == plain
    assert not made
    population(LOOKUP.sample(4, seed=0).inputs.unsqueeze(0))
    assert made
