"""How the papers train, and how much of that a budget has: learning rates, steps, batches, looks.

S trains with Adam on 64 fresh examples a step, for up to 250,000 steps unless a model is almost perfect
sooner, with each of seven learning rates, and tests the best on 5,000 examples of full length. It does not
say how a rate goes on; here it rises over a warm-up and then falls along a cosine, as W's does, or, of
recurrent models on index lookup, stays until late.

Members that fall behind are dropped after 20,000 steps and 60,000. On index lookup at 400 seven rates went
side by side until one had solved it, from larger first weights: that one was the best at both. From GPT-2's
small ones the winner had been the worst of three for 30,000 steps; the Transformer does not begin with those
there any more, other models do.

Two inputs share a row where a model can keep them apart, as Mambas, RetNets and linear Transformers do; for
others lengths come, at the paper's budget, in bands that take turns. A user can have bands for all, or all
lengths in every step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from separatrix.experiments.cells import Budget
from separatrix.models import model
from separatrix.models.population import ModelConfig
from separatrix.models.specs import kind_and_config
from separatrix.models.stack import SeamedStack
from separatrix.options import require
from separatrix.tasks.interface import Task
from separatrix.training.jobs import Job, job_for
from separatrix.training.recipes import Halving, Member, Training

__all__ = [
    "QUICK_STEPS",
    "S_MODELS",
    "S_RATES",
    "Lengths",
    "Protocol",
    "Settings",
    "named",
    "s_jobs",
    "s_model",
    "s_protocol",
    "s_shape",
    "w_protocol",
]

Grid = Literal["final", "full"]
Lengths = Literal["all", "bands", "pairs"]

S_RATES: Final = (1e-2, 5e-3, 1e-3, 5e-4, 1e-4, 5e-5, 1e-6)
S_MODELS: Final = {
    "LSTM": "lstm",
    "LinTF": "linear-transformer",
    "RetNet": "retnet",
    "DSS": "dss",
    "Mamba": "mamba",
    "TF": "transformer",
}
"""The names in S's figures, and the architectures they stand for."""
_QUICK_RATES: Final = {
    "LSTM": (5e-3, 1e-3),
    "LinTF": (1e-3, 5e-4),
    "RetNet": (1e-3, 5e-4),
    "DSS": (1e-2, 1e-3),
    "Mamba": (1e-3, 5e-4),
    "TF": (5e-4, 1e-4),
}
"""Two of the seven, near the best that was seen."""
QUICK_STEPS: Final = 12_000
"""Unless a study knows better."""
_WIDE: Final = 256
_QUICK_RATES_WIDE: Final = dict.fromkeys(("LinTF", "RetNet", "Mamba"), (5e-4, 1e-4))
"""The same from this width on, where others did better. On index lookup at 50 a Mamba of two layers did best
with 0.001 at widths 32 and 64, and with 0.0005 at 256; at 100 one of six layers and width 256 learned with
0.0001 and not with 0.0005. With random negatives Mamba stays at chance with 0.001, and at 400 the linear
Transformer and RetNet come furthest with 0.0001.
"""
_DEPTHS: Final = (1, 2, 4, 6)
_LSTM_DEPTHS: Final = (1, 2, 3)
_WIDTHS: Final = (64, 128, 256, 512)
_HEADS: Final = (4, 8)
_WITH_HEADS: Final = frozenset({"LinTF", "RetNet", "TF"})
_FAN_IN: Final = {"equality": frozenset({"LinTF", "TF"}), "index-lookup": frozenset({"TF"})}
"""Who begins by fan-in, on which task; all others as they were published.

At N = 100 one layer looked up an index after 6,000 steps and not 10,000, and two layers copied at last. Dyck
goes better with GPT-2's small first weights. A linear Transformer with a table of positions solves index
lookup as it is; of one without it was not tried.
"""
_WITHOUT_POSITIONS: Final = {"index-lookup": frozenset({"LinTF"})}
"""Who is not told where it is, on which task. S does not describe its linear Transformer. One of that size
with a table of positions is past S's numbers at 50 and 100 after a few thousand steps; one without has not
reached them after 50,000 and 20,000, and may. Which of them S had is open; the choice was made after seeing
this. On equality it was not tried at S's lengths.
"""
_STEADY: Final = {"index-lookup": frozenset({"dss", "linear-transformer", "lstm", "mamba", "retnet"})}
"""Models whose rate stays until the last fifth of the steps and whose gradients are not cut, on which task.
After 6,000 to 10,000 steps a small LSTM and a Mamba were half as far again as with a cosine and gradients cut
to 1, a RetNet five points further, DSS and the linear Transformer about as far. The Transformer, which solves
the task, was not tried.
"""
_RISING_LATE: Final = frozenset({"mamba"})
"""Which of these have a rate that rises over many steps. Of Mamba high rates are the better ones, if they
rise slowly: one of width 32 at 50 has 10 % after 10,000 steps with 0.001, whether it rises over 1,000 or
8,000, with 0.005 14.5 and 19.0, and 23.5 with 0.01 over 8,000. Width 256 learns with 0.001 so, where it stood
still at 14 % before. For the LSTM, which does best with 0.005 too, for DSS and for RetNet it made no
difference.
"""
_LATE_WARMUP: Final = 8_000
"""So many, or a quarter of all if that is less, but no fewer than others have."""
_BANDS: Final = 4
_LEAST_IN_BANDS: Final = 100
"""Measured were n from 200 to 600; the shorter the steps, the less there is to save."""
_NOT_IN_BANDS: Final = frozenset({"dss"})
"""A population of these had not begun after four minutes on an H200. It was waiting for code of its gradient,
into which sines had been fused; they are apart now, and in bands it was not tried again.
"""
_NOT_IN_PAIRS: Final = frozenset({"lstm"})
"""Its time is that of a row's positions one after another, and a row of two has more than one of the longest
has alone.
"""
_SMALL: Final = 16
"""Widths at the smallest budget: enough for every part to be there."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a user chooses: the budget, the papers' grid of architectures or the final ones, and whether
    members that cannot win are dropped on the way.
    """

    budget: Budget = "smoke"
    grid: Grid = "final"
    halving: bool = True
    lengths: Lengths = "pairs"
    """Whether every step has all lengths, or bands of them take turns where that pays, or two inputs share a
    row where a model keeps them apart at no cost, and bands take turns elsewhere. Bands are for the paper's
    budget alone: the compiler needs longer for them than they save in a quick look.
    """
    seeds: tuple[int, ...] = (0,)
    models: tuple[tuple[str, Path], ...] = ()
    """Models of the user's own by name, as folders on disk, for studies that train none."""
    device: str = "auto"
    """Where those models compute."""
    file: Path | None = None
    """Questions of the user's own, for studies that take them from a file."""

    def __post_init__(self) -> None:
        require(
            self.budget in ("smoke", "quick", "paper"),
            f"A budget is smoke, quick or paper; got {self.budget!r}.",
        )
        require(self.grid in ("final", "full"), f"A grid is final or full; got {self.grid!r}.")
        require(
            self.lengths in get_args(Lengths),
            f"Lengths come all, in bands or in pairs; got lengths={self.lengths!r}.",
        )
        require(
            bool(self.seeds) and len(set(self.seeds)) == len(self.seeds),
            f"Seeds are different numbers, at least one; got {self.seeds}.",
        )
        require(
            self.grid == "final" or self.budget == "paper",
            f"The full grid belongs to --budget paper; got --budget {self.budget}.",
        )

    @property
    def small(self) -> bool:
        """Whether sizes are to be those of a laptop."""
        return self.budget == "smoke"

    def of(self, *, smoke: Sequence[int], quick: Sequence[int], paper: Sequence[int]) -> tuple[int, ...]:
        """The numbers, mostly columns, that this budget has."""
        return tuple({"smoke": smoke, "quick": quick, "paper": paper}[self.budget])


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """One way to train, and the learning rates that are tried."""

    rates: tuple[float, ...]
    seeds: tuple[int, ...]
    training: Training
    warmup: int
    lengths: Lengths = "all"
    """How they come, for tasks that draw them and models for which it pays."""
    has_bands: bool = True
    """Whether steps are many enough for bands to pay."""
    steady: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The models whose rate stays until late and whose gradients are not cut, by task; all others' rate falls
    along a cosine. Some of them have a longer warm-up.
    """
    further_steps: int | None = None
    """What is given to a model that has not learned its task in the steps of the training."""

    def further(self, task: Task, config: ModelConfig) -> tuple[Job, ...]:
        """The same with more steps, if the protocol has them."""
        if self.further_steps is None:
            return ()
        training = replace(self.training, steps=self.further_steps)
        return (replace(self, training=training).job(task, config),)

    def job(self, task: Task, config: ModelConfig) -> Job:
        """Every rate with every seed."""
        name = kind_and_config(config)[0].name
        is_steady = name in self.steady.get(task.name, ())
        warmup = self._late_warmup if is_steady and name in _RISING_LATE else self.warmup
        members = [
            Member(lr=lr, seed=seed, schedule="wsd" if is_steady else "cosine", warmup=warmup)
            for seed in self.seeds
            for lr in self.rates
        ]
        training = replace(self.training, **self._lengths_of(task, config))
        if is_steady:
            training = replace(training, clip=0.0)
        return job_for(task, config, members=members, training=training)

    @property
    def _late_warmup(self) -> int:
        return max(self.warmup, min(_LATE_WARMUP, self.training.steps // 4))

    def _lengths_of(self, task: Task, config: ModelConfig) -> dict[str, Any]:
        least, most = task.sampled_sizes
        kind, _ = kind_and_config(config)
        if self.lengths == "all" or least == most:
            return {}
        if self.lengths == "pairs" and issubclass(kind, SeamedStack) and kind.name not in _NOT_IN_PAIRS:
            return {"paired": True}
        in_bands = self.has_bands and task.n >= _LEAST_IN_BANDS and kind.name not in _NOT_IN_BANDS
        return {"bands": _BANDS} if in_bands else {}


def s_protocol(
    settings: Settings,
    label: str,
    *,
    width: int,
    quick_steps: int = QUICK_STEPS,
    quick_rates: tuple[float, ...] | None = None,
) -> Protocol:
    """S's way to train the model of this label and width, at this budget."""
    match settings.budget:
        case "smoke":
            return _smoke(settings, rates=(1e-3, 1e-2))
        case "quick":
            training = _compared(steps=quick_steps, every=1000, examples=1000)
            rates = quick_rates or (_QUICK_RATES_WIDE if width >= _WIDE else {}).get(
                label, _QUICK_RATES[label]
            )
            return Protocol(
                rates=rates,
                seeds=settings.seeds,
                training=training,
                warmup=500,
                lengths=settings.lengths,
                has_bands=False,
                steady=_STEADY,
            )
        case _:
            halving = Halving(first=20_000, factor=3) if settings.halving else None
            training = _compared(steps=250_000, every=2_500, examples=2000, halving=halving)
            return Protocol(
                rates=S_RATES,
                seeds=settings.seeds,
                training=training,
                warmup=1_000,
                lengths=settings.lengths,
                steady=_STEADY,
            )


def w_protocol(settings: Settings, *, rate: float, quick_steps: int = 8_000) -> Protocol:
    """W's: a million samples with a cosine rate, 64 at a time, and five million where that did not converge;
    one rate for each kind of model.
    """
    match settings.budget:
        case "smoke":
            return _smoke(settings, rates=(3e-3,))
        case "quick":
            training = _trained(steps=quick_steps, every=1000, examples=500)
            return Protocol(rates=(rate,), seeds=settings.seeds, training=training, warmup=500)
        case _:
            training = _trained(steps=15_625, every=1_000, examples=1000)
            return Protocol(
                rates=(rate,), seeds=settings.seeds, training=training, warmup=500, further_steps=5 * 15_625
            )


def _smoke(settings: Settings, *, rates: tuple[float, ...]) -> Protocol:
    training = Training(
        steps=30, batch=16, eval_every=15, eval_examples=64, test_examples=200, stop="each", solved=1.0
    )
    return Protocol(rates=rates, seeds=settings.seeds, training=training, warmup=3)


def _trained(*, steps: int, every: int, examples: int) -> Training:
    return Training(
        steps=steps,
        batch=64,
        precision="bfloat16",
        eval_every=every,
        eval_examples=examples,
        test_examples=5000,
        stop="each",
        solved=1.0,
    )


def _compared(*, steps: int, every: int, examples: int, halving: Halving | None = None) -> Training:
    """Whoever is almost perfect first has won, as in the paper; with halving the others thin out before."""
    trained = _trained(steps=steps, every=every, examples=examples)
    return replace(trained, stop="first", solved=0.999, halving=halving)


def s_model(label: str, *, layers: int, width: int, task: str, heads: int | None = None) -> ModelConfig:
    """The architecture that S's label stands for; what S leaves open, as was seen to fit this task."""
    given: dict[str, Any] = {"layers": layers, "width": width}
    if heads is not None:
        given["heads"] = heads
    if label in _FAN_IN.get(task, ()):
        given["initial"] = "fan-in"
    if label in _WITHOUT_POSITIONS.get(task, ()):
        given["positions"] = "none"
    return model(S_MODELS[label], **given)


def named(label: str, layers: int, width: int) -> str:
    """A row as S writes it."""
    return f"{label}-({layers},{width})"


def s_shape(settings: Settings, layers: int, width: int) -> tuple[int, int]:
    """Layers and width as the paper has them, or small ones of the same make."""
    return (min(layers, 2), _SMALL) if settings.small else (layers, width)


def s_jobs(
    settings: Settings, protocol: Protocol, task: Task, label: str, *, layers: int, width: int
) -> tuple[Job, ...]:
    """The jobs behind one cell: the final architecture, or all that the paper tried."""
    if settings.grid == "final":
        return (protocol.job(task, s_model(label, layers=layers, width=width, task=task.name)),)
    depths = _LSTM_DEPTHS if label == "LSTM" else _DEPTHS
    return tuple(
        protocol.job(task, s_model(label, layers=depth, width=wide, heads=heads, task=task.name))
        for depth in depths
        for wide in _WIDTHS
        for heads in (_HEADS if label in _WITH_HEADS else (None,))
    )
