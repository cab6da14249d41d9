"""A user's own mixers and plain modules: they conform, and what is no mixer is refused."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.models import MODELS, model
from separatrix.models.laws import normal
from separatrix.models.linear_transformer import LinearAttention
from separatrix.models.own import mixer, mixer_model, plain_model
from separatrix.models.population import CausalPopulation, signature_of
from separatrix.models.stack import Mixer, StackConfig
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.q_sparse_averaging import QSparseAveraging
from separatrix.testing import ModelConformance, model_conformance
from separatrix.testing.model_conformance import Trial
from separatrix.training import Member, Training, train
from tests.models import own_nets
from tests.models.own_nets import Averaging, Fading, WordNet

HERE = own_nets.__name__
LOOKUP = IndexLookup(n=5, alphabet=4)
AVERAGING = QSparseAveraging(n=5, q=2, d=3)
QUICK = Training(steps=4, batch=2, eval_examples=4, test_examples=4)


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


class Grouped(LinearAttention):
    """One that keeps two inputs of a row apart, which is its parent's doing."""

    def __init__(self, members: int, config: StackConfig) -> None:
        law = normal(0.02)
        super().__init__(members, config.width, 2, law=law, last=law)


class Forgetful(Grouped):
    """Its forward is its own, and what its parent says of seams is not true of it."""

    def forward(self, x, at=None, scale=1.0):  # type: ignore[no-untyped-def]
        return x


def test_a_mixer_with_a_seam_makes_a_model_with_one() -> None:
    kind = mixer_model(Grouped, "grouped", title="Grouped", source="x")
    made = kind(kind.Config(layers=2, width=8), signature_of(IndexLookup(n=5)), members=1)
    assert made.seam == 0
    plain = mixer_model(Averaging, "averaging", title="Averaging", source="x")
    assert plain(plain.Config(layers=2, width=8), signature_of(IndexLookup(n=5)), members=1).seam is None

    class Tests(ModelConformance):
        def populations(self) -> Sequence[Trial]:
            return [(kind, kind.Config(layers=2, width=8), IndexLookup(n=5))]

    Tests().test_two_inputs_of_a_row_do_not_see_each_other()


def test_a_seam_counts_where_the_mixer_can_be_told_of_the_second_input() -> None:
    kind = mixer_model(Forgetful, "forgetful", title="Forgetful", source="x")
    made = kind(kind.Config(layers=2, width=8), signature_of(IndexLookup(n=5)), members=1)
    assert Forgetful.seam is LinearAttention.seam
    assert made.seam is None


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


def test_conformance_leaves_out_what_cannot_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_conformance, "need_gpu", lambda: None)
    with pytest.raises(unittest.SkipTest, match="says that it cannot be recorded"):
        TestRecurrentPlainModule().test_gpu_captures_it_in_a_graph()


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
    (one,) = train(LOOKUP, words, members=[member], training=QUICK, device="cpu")
    assert one.population.config == words
