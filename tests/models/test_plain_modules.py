"""A user's plain modules: what they may be, what they are refused for, how they are trained and recorded."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models import plain
from separatrix.models.own import plain_model
from separatrix.models.population import Population, signature_of
from separatrix.store import Store
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.interface import Task
from separatrix.tasks.q_sparse_averaging import QSparseAveraging
from separatrix.training import Member, Training, train
from separatrix.training.costs import cost_of
from separatrix.training.course import Course
from separatrix.training.engine import Engine
from separatrix.training.jobs import job_for
from separatrix.training.running import placing_for
from tests.models import own_nets

HERE = own_nets.__name__
LOOKUP = IndexLookup(n=5, alphabet=4)
AVERAGING = QSparseAveraging(n=5, q=2, d=3)
QUICK = Training(steps=4, batch=2, eval_examples=4, test_examples=4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("net", "A model of your own is named module:factory, such as my_models:make_net; got 'net'."),
        (
            "my net:x",
            "A model of your own is named module:factory, such as my_models:make_net; got 'my net:x'.",
        ),
        (
            "no_such_module:net",
            "There is no module no_such_module to import net from; put its folder on PYTHONPATH.",
        ),
        (
            "tests.no_such_part.inner:net",
            "There is no module tests.no_such_part to import net from; put its folder on PYTHONPATH.",
        ),
        (f"{HERE}:missing", f"The module {HERE} has nothing called missing; define it there."),
        (
            f"{HERE}:a_number",
            f"{HERE}:a_number must be a function that returns an nn.Module; it is of type int.",
        ),
        (
            f"{HERE}:greedy",
            (
                "A factory is called with the task's signature, and its options are keyword-only with a "
                f"number, a truth value or a text as default; {HERE}:greedy takes (signature: 'Signature', "
                "depth: 'int', *more: 'int') -> 'nn.Module'."
            ),
        ),
        (
            f"{HERE}:of_a_kind",
            f"{HERE}:of_a_kind has an option kind, which is what a config calls something else; rename it.",
        ),
        (
            f"{HERE}:in_words",
            (f"{HERE}:in_words has layers='two', and layers is a whole number in every model; rename it."),
        ),
    ],
)
def test_what_is_no_factory_is_refused(name: str, message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        plain_model(name)
    assert str(error.value) == message


def test_what_cannot_be_asked_what_it_takes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_nets, "unknown", iter, raising=False)
    with pytest.raises(
        InvalidInput, match=r"takes cannot be told; write a function of your own around it\.$"
    ):
        plain_model(f"{HERE}:unknown")


def test_a_module_that_fails_on_import_says_so(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "failing_net.py").write_text("raise OSError('no disk')\n")
    (tmp_path / "leaving_net.py").write_text("raise SystemExit('usage: train')\n")
    with pytest.raises(InvalidInput, match=r"leaving_net cannot be imported; it raises SystemExit: usage"):
        plain_model("leaving_net:net")
    (tmp_path / "lacking_net.py").write_text("import no_such_package\n")
    with pytest.raises(InvalidInput, match=r"failing_net cannot be imported; it raises OSError: no disk$"):
        plain_model("failing_net:net")
    with pytest.raises(InvalidInput, match="lacking_net needs no_such_package, which is not installed"):
        plain_model("lacking_net:net")


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("nothing", "must return an nn.Module; what it returns is of type NoneType."),
        ("weightless", "must answer an input of shape (2, 5, 5) with numbers of shape (2, 5, 3)"),
        ("narrow", "(batch, pos, out); it answers with torch.float32 of shape (2, 5, 2)."),
        ("two_values", "(batch, pos, out); it answers with the type tuple."),
        (
            "unfit",
            (
                "cannot read an input of shape (2, 5, 5), (batch, pos…), of torch.float32 on cpu; it raises "
                "RuntimeError: mat1 and mat2"
            ),
        ),
        ("dropping", "has active dropout (Dropout), and a member must compute the same whoever"),
        ("attention_dropping", "has active dropout (MultiheadAttention), and a member must compute"),
        ("noisy", "answers the same input differently each time; take dropout and noise out of it."),
        ("noisy_in_training", "answers the same input differently each time; take dropout and noise out"),
        ("batch_normed", "changes its own norm.running_mean while it computes, as batch norm does"),
        ("clamping", "changes its own map.weight while it computes, as batch norm does"),
        ("caching", "changes its own seen while it computes, as batch norm does"),
        ("complex_weight", "has complex numbers in turn, and weights are real; keep its real and its"),
        ("complex_buffer", "has complex numbers in turns, and weights are real; keep its real and its"),
        ("spare", "has weights that no gradient comes to: spare.0; use them, leave them out, or freeze"),
        ("much_to_spare", "no gradient comes to: spare.0, spare.1, spare.2 and 2 more; use them"),
        ("detached", "answers with numbers that no gradient leads back from to its weights; take detach()"),
        ("undifferentiable", "cannot be differentiated; it raises NotImplementedError: You must implement"),
        ("for_two", "cannot read an input of shape (3, 5, 5), (batch, pos…), of torch.float32 on cpu; it"),
        ("squeezed", "must answer an input of shape (1, 5, 5) with numbers of shape (1, 5, 3), (batch, pos"),
        ("across_batch", "answers an example differently where others stand beside it; keep the examples"),
        ("not_numbers", "answers with NaN before it is trained; look at its first weights."),
        ("lazy", "leaves the shape of weight to the first input; give it its sizes."),
        ("elsewhere", "puts weight on the device meta; leave it on the CPU, training moves it."),
        ("drawing_elsewhere", "makes modules under one seed that differ in bias; draw all that is random"),
        ("failing", "cannot make a module with width=3; it raises RuntimeError: no such file"),
    ],
)
def test_a_module_that_cannot_be_a_member_is_refused(factory: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)):
        made(f"{HERE}:{factory}", AVERAGING)


def test_a_module_without_weights_is_refused() -> None:
    square = QSparseAveraging(n=5, q=2, d=5)
    kind = plain_model(f"{HERE}:first_five")
    with pytest.raises(InvalidInput, match="returns a module that has no weights to train"):
        kind(kind.Config(), signature_of(square), members=1)


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("of_changing_size", "returns modules of different shapes: 0.weight is"),
        ("of_changing_parts", "returns modules of different parts: only some have bias."),
    ],
)
def test_modules_that_differ_are_refused(factory: str, message: str) -> None:
    model = made(f"{HERE}:{factory}", AVERAGING)
    with pytest.raises(InvalidInput, match=re.escape(message)):
        drawn_often(model)


def test_a_refusal_of_the_users_own_is_kept() -> None:
    with pytest.raises(InvalidInput, match=r"^Three is not enough; try 4\.$"):
        made(f"{HERE}:refusing", AVERAGING)


def drawn_often(model: Population) -> None:
    for seed in range(20):
        model.initialise((seed, seed + 1))


def made(name: str, task: Task, **options: Any) -> Population:
    kind = plain_model(name)
    return kind(kind.Config(**options), signature_of(task), members=2)


def test_a_plain_model_has_the_options_of_its_factory() -> None:
    kind = plain_model(f"{HERE}:words")
    assert kind is plain_model(f"{HERE}:words")
    assert kind.name == f"{HERE}:words"
    assert kind.Config().width == 5
    assert made(f"{HERE}:words", LOOKUP, width=9).size(5, 32).width == 9
    with pytest.raises(TypeError):
        made(f"{HERE}:words", LOOKUP, layers=2)
    with pytest.raises(InvalidInput, match=r"^words needs a whole number for width; got 'wide'\.$"):
        kind.Config(width="wide")  # type: ignore[arg-type]


def test_a_plain_member_is_the_module_that_its_seed_makes() -> None:
    model = made(f"{HERE}:words", LOOKUP).initialise((3, 4))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        module = own_nets.words(signature_of(LOOKUP))
    tokens = LOOKUP.sample(6, seed=0).inputs.view(2, 3, -1)
    assert torch.equal(model(tokens)[1], module(tokens[1]))
    size = model.size(5, 32)
    assert size.parameters == sum(values.numel() for values in module.parameters() if values.requires_grad)
    assert size.state == ()


@pytest.mark.parametrize("name", [f"{HERE}:words", f"{HERE}:recurrent"])
def test_a_plain_module_learns(name: str) -> None:
    task = LOOKUP if name.endswith("words") else AVERAGING
    model = made(name, task).initialise((1, 2))
    inputs = torch.stack([task.sample(16, seed=seed).inputs for seed in (1, 2)])
    wanted = torch.sin(torch.arange(model(inputs).numel()).view(model(inputs).shape).float())
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(25):
        loss = (model(inputs) - wanted).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.95 * losses[0]


def trained(name: str, task: Task, **settings: Any) -> Population:
    training = dataclasses.replace(QUICK, **settings)
    (one,) = train(task, f"{HERE}:{name}", members=[Member(lr=0.1)], training=training, device="cpu")
    return one.population


def test_weights_without_an_axis_are_trained(tmp_path: Path) -> None:
    before = made(f"{HERE}:scaled", AVERAGING).initialise((0, 1)).state_dict()
    assert {tuple(values.shape) for values in before.values()} == {(2,)}
    store = Store(tmp_path)
    (one,) = train(AVERAGING, f"{HERE}:scaled", members=[Member(lr=0.1)], training=QUICK, store=store)
    assert one.run is not None
    for name, values in store.weights(one.run.key).tensors.items():
        assert values.shape == ()
        assert torch.equal(one.population.state_dict()[name][0], values)
        assert not torch.equal(values, before[name][0])
    size = one.population.size(5, 32)
    assert (size.parameters, size.width) == (2, 1)


def test_weights_may_have_any_name() -> None:
    model = made(f"{HERE}:called", AVERAGING).initialise((3, 4))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        module = own_nets.called()
    rows = AVERAGING.sample(6, seed=0).inputs.view(2, 3, 5, 5)
    assert torch.equal(model(rows)[1], module(rows[1]))


def test_a_module_of_doubles_is_trained() -> None:
    assert {values.dtype for values in trained("double", AVERAGING).parameters()} == {torch.float32}


def test_a_weight_that_only_some_inputs_use_is_trained() -> None:
    """None of the examples here uses it."""
    before = made(f"{HERE}:sometimes", LOOKUP).initialise((0, 1)).state_dict()
    after = trained("sometimes", LOOKUP, steps=2).state_dict()
    changed = {name: not torch.equal(values[0], before[name][0]) for name, values in after.items()}
    assert changed == {"copies.stacked.always/weight": True, "copies.stacked.rarely/weight": False}


def test_what_fails_only_in_training_is_a_sentence() -> None:
    """Shapes, types and devices that the probe did not have."""
    message = r"full_length cannot read an input of shape \(2, 5, 5\), .* of torch\.float64 on cpu; it raises"
    with pytest.raises(InvalidInput, match=message):
        trained("full_length", AVERAGING, precision="float64")
    model = made(f"{HERE}:full_length", AVERAGING)
    with pytest.raises(InvalidInput, match=r"cannot read an input of shape \(3, 4, 5\)"):
        model(torch.ones(2, 3, 4, 5))
    job = job_for(AVERAGING, f"{HERE}:full_length", members=[Member()], training=QUICK)
    assert cost_of(job, device="cpu", own_code=True).flops > 0  # the one on shapes alone fails


def test_building_needs_no_gradients_around_it() -> None:
    for name, mode in (("rows", torch.no_grad()), ("scaled", torch.inference_mode())):
        plain_model(f"{HERE}:{name}").tried.clear()  # type: ignore[attr-defined]
        with mode:
            assert made(f"{HERE}:{name}", AVERAGING).members == 2


def test_a_module_is_tried_out_once_for_a_config_and_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    monkeypatch.setattr(plain, "probe", lambda module, signature, *, name: tried.append(signature.length))
    plain_model(f"{HERE}:words").tried.clear()  # type: ignore[attr-defined]
    for width, n in ((4, 5), (4, 5), (6, 5), (4, 7), (6, 5)):
        made(f"{HERE}:words", IndexLookup(n=n, alphabet=4), width=width)
    assert tried == [6, 6, 8]
    plain_model(f"{HERE}:words").tried.clear()  # type: ignore[attr-defined]


class Tape:
    """A CUDA graph that counts."""

    replays = 0

    def replay(self) -> None:
        self.replays += 1


def on_a_gpu(name: str) -> Engine:
    """An engine that takes the CPU for one."""
    job = job_for(AVERAGING, f"{HERE}:{name}", members=[Member()], training=QUICK)
    engine = Course(job, placing_for(job, device="cpu", own_code=True)).engine
    engine.device = torch.device("cuda")
    vars(engine)["_aside"] = None  # no stream either
    return engine


def test_only_what_can_be_recorded_is(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = Tape()
    monkeypatch.setattr(Engine, "_graph_of", lambda *_: tape)
    rows, recurrent = on_a_gpu("rows"), on_a_gpu("recurrent")
    assert (rows.population.recordable, recurrent.population.recordable) == (True, False)
    rows.run(2)
    recurrent.run(3)
    assert tape.replays == 2
    assert (rows.state.step.tolist(), recurrent.state.step.tolist()) == ([0], [3])


class Recording:
    """`torch.cuda.graph`, whose end fails where something within did."""

    def __init__(self, graph: object, **_: object) -> None:
        self.graph = graph

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            raise RuntimeError("operation failed due to a previous error during capture")


def test_what_cannot_be_recorded_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "graph", Recording)
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    engine = on_a_gpu("rows")
    tape: Any = Tape()
    engine._record(tape, 0)
    assert engine.state.step.tolist() == [1]

    def fails(error: Exception) -> Callable[..., Tensor]:
        def forward(rows: Tensor) -> Tensor:
            raise error

        return forward

    module = engine.population.copies._hidden.module  # type: ignore[union-attr]
    monkeypatch.setattr(module, "forward", fails(RuntimeError("not permitted when stream is capturing\n")))
    with pytest.raises(InvalidInput) as refusal:
        engine._record(tape, 0)
    assert str(refusal.value) == (
        f"A step of {HERE}:rows cannot be recorded in a CUDA graph (RuntimeError: not permitted when stream "
        "is capturing); take out of the model what asks the GPU for a number, such as .item(), an `if` on a "
        "tensor, x[mask] or nonzero(), or train it on the CPU."
    )
    for kind in (torch.OutOfMemoryError, RuntimeError):
        monkeypatch.setattr(module, "forward", fails(kind("CUDA error: out of memory")))
        with pytest.raises(kind, match="out of memory"):
            engine._record(tape, 0)
