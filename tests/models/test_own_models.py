"""A user's own mixers and plain modules: they conform and train, and what cannot work is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.models import MODELS, model
from separatrix.models.own import mixer, mixer_model, plain_model
from separatrix.models.population import CausalPopulation, Population, signature_of
from separatrix.models.stack import Mixer, StackConfig
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.interface import Task
from separatrix.tasks.q_sparse_averaging import QSparseAveraging
from separatrix.testing import ModelConformance
from separatrix.testing.model_conformance import Trial
from separatrix.training import Member, Training, train
from tests.models import own_nets
from tests.models.own_nets import Averaging, Fading, WordNet

HERE = own_nets.__name__
LOOKUP = IndexLookup(n=5, alphabet=4)
AVERAGING = QSparseAveraging(n=5, q=2, d=3)


class TestMixers(ModelConformance):
    def populations(self) -> Sequence[Trial]:
        fading = mixer_model(Fading, "fading", title="Fading mean", source="mine", positions=True)
        averaging = mixer_model(Averaging, "averaging", title="Mean", source="mine")
        return [
            (fading, Fading.Config(layers=2, width=6, forget=0.5), LOOKUP),
            (averaging, averaging.Config(layers=1, width=6), AVERAGING),
        ]


class TestPlainModules(ModelConformance):
    def populations(self) -> Sequence[Trial]:
        words, rows = plain_model(f"{HERE}:words"), plain_model(f"{HERE}:rows")
        return [(words, words.Config(width=6), LOOKUP), (rows, rows.Config(), AVERAGING)]


class TestRecurrentPlainModule(ModelConformance):
    compiles = False

    def populations(self) -> Sequence[Trial]:
        kind = plain_model(f"{HERE}:recurrent")
        return [(kind, kind.Config(), AVERAGING)]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten behind it."""
    monkeypatch.setattr(MODELS, "_entries", dict(MODELS._entries))


@pytest.mark.usefixtures("registry")
def test_a_decorated_mixer_is_a_model_by_name() -> None:
    assert mixer("fading", title="Fading mean", source="mine")(Fading) is Fading
    kind = MODELS.get("fading")
    assert MODELS.names()[-1] == "fading"
    assert (kind.name, kind.title, kind.source, kind.Config) == (
        "fading",
        "Fading mean",
        "mine",
        Fading.Config,
    )
    assert issubclass(kind, CausalPopulation)
    model = kind(kind.Config(layers=3, width=6), signature_of(LOOKUP), members=2).initialise((1, 2))
    assert model.size(5, 16).state_bits(5) == 3 * 6 * 16
    assert model.longest is None
    mixer("fading", title="Fading mean", source="mine")(Fading)  # a module that is read in again
    with pytest.raises(InvalidInput, match="model names are unique, and 'fading' is taken"):
        mixer("fading", title="Mean", source="mine")(Averaging)


@pytest.mark.usefixtures("registry")
def test_a_name_of_ours_is_not_taken() -> None:
    with pytest.raises(InvalidInput, match="'mamba' is a model that comes with the package"):
        mixer("mamba", title="Mine", source="mine")(Fading)


class Half(Mixer):
    def forward(self, x: torch.Tensor, at: torch.Tensor | None = None) -> torch.Tensor:
        return x


class Alone(Averaging):
    def __init__(self, members):  # type: ignore[no-untyped-def]
        super().__init__(members, StackConfig())


class Strange(Averaging):
    Config = 3


@pytest.mark.parametrize(
    ("kind", "name", "title", "message"),
    [
        (Fading, "Fading Mean", "x", "A model has a name such as 'linear-transformer'; got 'Fading Mean'."),
        (Fading, "fading", " ", "fading needs its title as text; got the text ' '."),
        (WordNet, "net", "x", "The model net is made around a class of Mixer; got WordNet."),
        (7, "net", "x", "The model net is made around a class of Mixer; got int."),
        (Half, "half", "x", "Half is no whole mixer yet: it has to define start, state_parts, step."),
        (Alone, "alone", "x", "Alone is built as Alone(members, config), and its __init__ takes (members)."),
        (
            Strange,
            "strange",
            "x",
            "The options of strange are a class Config(StackConfig) inside Strange; got 3.",
        ),
    ],
)
def test_what_is_no_mixer_is_refused(kind: Any, name: str, title: str, message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        mixer_model(kind, name, title=title, source="mine")
    assert str(error.value) == message


def test_options_of_a_mixer_are_checked_under_its_name() -> None:
    with pytest.raises(InvalidInput, match=r"^Fading needs \|forget\| < 20; got forget=99\.0\.$"):
        Fading.Config(forget=99.0)


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
    ],
)
def test_what_is_no_factory_is_refused(name: str, message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        plain_model(name)
    assert str(error.value) == message


def test_a_module_that_fails_on_import_says_so(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "failing_net.py").write_text("raise OSError('no disk')\n")
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
        ("narrow", "(batch, pos, out); it answers with shape (2, 5, 2)."),
        ("two_values", "(batch, pos, out); it answers with the type tuple."),
        ("unfit", "cannot read an input of shape (2, 5, 5), (batch, pos…); it raises RuntimeError"),
        ("dropping", "has active dropout (Dropout), and a member must compute the same whoever"),
        ("attention_dropping", "has active dropout (MultiheadAttention), and a member must compute"),
        ("noisy", "answers the same input differently each time; take dropout and noise out of it."),
        ("batch_normed", "changes its buffer norm.running_mean while it computes, as batch norm does"),
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


def test_modules_of_different_shapes_are_refused() -> None:
    model = made(f"{HERE}:of_changing_size", AVERAGING)
    with pytest.raises(InvalidInput, match=r"returns modules of different shapes: 0\.weight is"):
        drawn_often(model)


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


def test_a_config_knows_its_model() -> None:
    """Also that of a mixer without options of its own, and of a factory with some."""
    for name in MODELS.names():
        kind = MODELS.get(name)
        assert kind.Config().kind is kind
    plain = mixer_model(Averaging, "averaging", title="Mean", source="mine")
    assert plain.Config().kind is plain
    assert issubclass(plain.Config, StackConfig)
    words = model(f"{HERE}:words", width=7)
    assert words.kind is plain_model(f"{HERE}:words")
    member = Member(lr=1e-3)
    quick = Training(steps=2, batch=4, eval_examples=4, test_examples=4)
    (trained,) = train(LOOKUP, words, members=[member], training=quick, device="cpu")
    assert trained.population.config == words
